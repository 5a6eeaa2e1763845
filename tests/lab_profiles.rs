//! The tunnel with nothing configured but addresses, over pairs of links: never worse than the best
//! link alone, and close to the sum where nothing forbids it.
//!
//! A part of the set that `benches/profiles` measures, chosen for what each pair alone can show and
//! for low rates. What is asked of recovery is judged only where the daemon counts what it recovers.
//!
//! `test = false` in crates/mpt-tund/Cargo.toml keeps it out of `./test` as long as shares do not set
//! themselves: it cannot be met by weights that nobody tuned.

use net::profile::figure::{Figure, Row};
use net::profile::measure::{self, Variant};
use net::profile::{recovery_figures, steady_figures, table, traffic_figures};

/// Measures a profile, each link alone first, and asserts its bounds.
fn holds(name: &str) {
    let Some(_turn) = net::turn() else { return };
    let (profile, variant) = (table::named(name).expect("a profile"), Variant::default());
    let alone = [0, 1].map(|line: usize| {
        let twin = &profile.lines[line.saturating_sub(1)];
        (line == 0 || *twin != profile.lines[line])
            .then(|| measure::raw(&profile.lines[line], &variant).mbps)
    });
    let best = alone.into_iter().flatten().fold(0.0, f64::max);
    let ideal = profile
        .ideal()
        .map(|line| measure::raw(&line, &variant).mbps);
    let tunnel = measure::tunnel(&profile, &variant);
    let sum = profile.sum_mbps(tunnel.mtu);
    println!(
        "{}: {:.1} Mbit/s; best link alone {best:.1}, sum {sum:.1}, ideal {ideal:.1?}",
        profile.text(),
        tunnel.mbps
    );
    let recovers = measure::recovers(&tunnel.sender);
    for bound in &profile.bounds {
        let least = bound.least_mbps(best, sum, ideal);
        let least = least.expect("measured above");
        let is_met = tunnel.mbps >= least || (bound.needs_recovery() && !recovers);
        assert!(is_met, "{bound} is {least:.1} Mbit/s: {tunnel:#?}");
    }
}

/// Takes a figure and asserts what is asked of each number.
fn is_as_asked(figure: Figure) {
    let Some(_turn) = net::turn() else { return };
    let rows: Vec<Row> = (figure.take)(&Variant::default());
    println!("{}", figure.title);
    for row in &rows {
        println!("  {}: {} ({})", row.what, row.value_text(), row.asked);
    }
    let missed: Vec<&Row> = rows
        .iter()
        .filter(|row| row.is_met() == Some(false))
        .collect();
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[test]
fn links_far_apart_add_up() {
    holds("delay-150");
}

#[test]
fn links_very_far_apart_nearly_add_up() {
    holds("delay-300");
}

#[test]
fn a_link_five_times_as_fast_adds_up_with_its_twin() {
    holds("rates-5-1");
}

#[test]
fn a_slow_link_beside_a_fast_one_does_no_harm() {
    holds("rates-12-1");
}

#[test]
fn links_with_jitter_add_up() {
    holds("jitter-10");
}

#[test]
fn links_with_much_jitter_nearly_add_up() {
    holds("jitter-25");
}

#[test]
fn a_lossy_link_beside_a_clean_one_does_no_harm() {
    holds("loss-one");
}

#[test]
fn lossy_links_do_as_well_as_one_link_of_their_sum() {
    holds("loss-2");
}

#[test]
fn two_lively_radio_links_do_no_harm() {
    holds("two-lte");
}

#[test]
fn a_stranger_on_one_link_does_no_harm() {
    holds("competing");
}

#[test]
fn queues_of_twenty_packets_do_no_harm() {
    holds("shallow");
}

#[test]
fn a_flow_has_its_rate_within_two_seconds() {
    is_as_asked(steady_figures::TRANSIENT);
}

#[test]
fn a_link_that_falls_to_a_fifth_does_no_harm() {
    is_as_asked(steady_figures::COLLAPSE);
}

#[test]
fn what_waits_behind_a_loss_is_released_soon() {
    is_as_asked(recovery_figures::RELEASE);
}

#[test]
fn voice_beside_bulk_is_not_delayed() {
    is_as_asked(traffic_figures::REAL_TIME);
}

#[test]
fn the_tunnel_shares_a_link_and_its_flows_share_the_tunnel() {
    is_as_asked(traffic_figures::FAIRNESS);
}

#[test]
fn a_lost_packet_comes_again_soon() {
    is_as_asked(recovery_figures::RECOVERY_TIME);
}

#[test]
fn tcp_does_not_see_what_the_links_lose() {
    is_as_asked(recovery_figures::HIDDEN_LOSS);
}

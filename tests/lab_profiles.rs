//! The tunnel with nothing configured but addresses, over pairs of links: never worse than the best
//! link alone, and losses that hardly delay what waits behind them.
//!
//! A small part of the set that `benches/profiles` measures, chosen for what each alone can show and for
//! the time that it takes.

use net::profile::download::{self, Files, OF_BEST, Over};
use net::profile::figure::{Figure, Row};
use net::profile::measure::{self, Variant};
use net::profile::{recovery_figures, steady_figures, table};

/// Measures a profile with this share of its rates, each link alone first, and asserts its bounds.
fn holds(name: &str, share: f64) {
    let Some(_turn) = net::turn() else { return };
    let (profile, variant) = (table::named(name).expect("a profile"), Variant::default());
    let profile = profile.at_share(share);
    // No link alone carries more than its rate: one that is slower than what another reached is not the best.
    let best = profile.lines.iter().fold(0.0, |best: f64, line| {
        let most = line.there.rate_mbps().unwrap_or(f64::MAX);
        match most > best {
            true => best.max(measure::raw(line, &variant).mbps),
            false => best,
        }
    });
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
    for bound in &profile.bounds {
        let least = bound.least_mbps(best, sum, ideal);
        let least = least.expect("measured above");
        assert!(
            tunnel.mbps >= least,
            "{bound} is {least:.1} Mbit/s: {tunnel:#?}"
        );
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

/// Loads files of a pair, of whose links the first is as good as the second or better.
fn loads(name: &str, all: &[Files]) {
    let Some(_turn) = net::turn() else { return };
    let (pair, variant) = (
        download::pair_named(name).expect("a pair"),
        Variant::default(),
    );
    let load = |over| download::load(&pair, over, all, &variant).expect("what TCP needs");
    let (best, tunnel) = (load(Over::Link(0)), load(Over::Tunnel));
    for (best, tunnel) in best.iter().zip(&tunnel) {
        let (bytes, best_ms, ms) = (best.bytes, best.median_ms(), tunnel.median_ms());
        println!(
            "{}, {bytes} bytes: {ms:.0} ms, the best link alone {best_ms:.0}",
            pair.text()
        );
        assert!(
            ms <= OF_BEST * best_ms,
            "{bytes} bytes: {tunnel:?}, {best:?}"
        );
    }
}

#[test]
fn a_download_takes_no_longer_than_over_the_best_link() {
    loads("load-even", &download::FEW);
}

#[test]
fn a_lossy_link_beside_a_clean_one_does_no_harm() {
    holds("loss-one", 0.5);
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
fn a_lost_packet_comes_again_soon() {
    is_as_asked(recovery_figures::RECOVERY_TIME);
}

#[test]
fn tcp_does_not_see_what_the_links_lose() {
    is_as_asked(recovery_figures::HIDDEN_LOSS);
}

//! Paths that go and come back under a running TCP flow; daemons that are restarted under it.
//!
//! Measured on the receiving TUN interface every 5 ms: how long nothing arrived after the event, when
//! the sender stopped to use the dead path, and what arrived in the second after that.

use std::thread;
use std::time::{Duration, Instant};

use mpt_core::control::trace::{Trace, Why};
use net::settings::Side;
use net::traffic::{Flow, Iperf};
use net::{Family, Hosts, Meter, Settings, Shape, Tunnel, goodput_limit_mbps};

/// Mbit/s of each path; slow, since nothing here depends on speed and the lab pays by the packet.
const RATE: f64 = 15.0;
const SECOND: Duration = Duration::from_secs(1);

/// A path of this delay; its queue drains within 160 ms.
fn shape(delay_ms: u64) -> Shape {
    Shape::mbps(RATE).delay_ms(delay_ms).queue(200)
}

fn tunnel() -> Tunnel {
    Hosts::new(&[shape(10), shape(15)]).tunnel(&Settings::new().weights(&[1, 1]).reorder(1024, 300))
}

fn start(tunnel: &Tunnel, seconds: u32) -> Flow {
    let flow = Iperf::tcp(Side::B.inner_v4(), seconds).start(&tunnel.hosts.a, &tunnel.hosts.b);
    sleep_ms(3000);
    flow
}

fn sleep_ms(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// What the TUN interface receives of `paths` full paths, whole inner packets counted.
fn full_mbps(tunnel: &Tunnel, paths: usize) -> f64 {
    let mtu = tunnel.a.status().tunnel.mtu;
    let links = vec![(RATE, Family::V4); paths];
    goodput_limit_mbps(&links, mtu, Family::V4) * f64::from(mtu) / f64::from(mtu - 52)
}

/// Loses a path by `cut` and brings it back by `mend`: the sender must leave it within `limit`.
fn failover(what: &str, limit: Duration, cut: impl Fn(&Tunnel), mend: impl Fn(&Tunnel)) {
    let tunnel = tunnel();
    let flow = start(&tunnel, 14);
    let received = Meter::start(tunnel.b.id(), "mpt0");
    let dead = Meter::start(tunnel.a.id(), "path1");
    sleep_ms(500);

    let event = Instant::now();
    cut(&tunnel);
    sleep_ms(4000);
    let back = Instant::now();
    mend(&tunnel);
    sleep_ms(5500);

    let (received, dead) = (received.finish(), dead.finish());
    // Probes go on; one full-sized packet in 20 ms is 0.6 Mbit/s.
    let left = dead.last_sending(event, back, Duration::from_millis(20), 0.5);
    let one = full_mbps(&tunnel, 1);
    let second_after = received.rx_mbps(event + limit, event + limit + SECOND);
    let sum = full_mbps(&tunnel, 2);
    let returned = received.first_reaching(back, SECOND, 0.95 * sum);
    let report = flow.finish();
    println!(
        "{what}: path left after {:?}, longest silence {:?}, {second_after:.1} Mbit/s in the second \
         after ({:.0} % of {one:.1}), sum back within {:?}; each second: {}",
        left - event,
        received.longest_silence(event, back),
        second_after / one * 100.0,
        returned.map(|at| at + SECOND - back),
        report.intervals_text()
    );
    assert!(
        left - event <= limit,
        "path left only after {:?}",
        left - event
    );
    let silence = received.longest_silence(event, back);
    assert!(silence <= limit, "nothing arrived for {silence:?}");
    assert!(second_after >= 0.9 * one, "{second_after:.1} of {one:.1}");
    let returned = returned.expect("the sum comes back") + SECOND - back;
    assert!(
        returned <= 5 * SECOND,
        "the sum is back only after {returned:?}"
    );
}

#[test]
fn a_link_set_down_is_left_at_once() {
    let Some(_turn) = net::turn() else { return };
    failover(
        "link down",
        Duration::from_millis(100),
        |tunnel| tunnel.hosts.links[1].down(&tunnel.hosts.a),
        |tunnel| tunnel.hosts.links[1].up(&tunnel.hosts.a),
    );
}

#[test]
fn a_link_down_at_the_far_end_is_left_at_once() {
    let Some(_turn) = net::turn() else { return };
    failover(
        "far link down",
        Duration::from_millis(100),
        |tunnel| tunnel.hosts.links[1].down(&tunnel.hosts.b),
        |tunnel| tunnel.hosts.links[1].up(&tunnel.hosts.b),
    );
}

/// With weights, as here, silence shows when no probe is answered. What the adaptive scheduler does is a matter
/// of `lab_faults::silent`.
#[test]
fn a_black_hole_is_left_after_dead_after() {
    let Some(_turn) = net::turn() else { return };
    failover(
        "black hole",
        Duration::from_millis(1200),
        |tunnel| tunnel.hosts.reshape(1, &shape(15).loss(100.0)),
        |tunnel| tunnel.hosts.reshape(1, &shape(15)),
    );
}

/// Taken out by hand: nothing stalls. What the link has queued is still sent, which takes 200 ms.
#[test]
fn a_path_taken_out_by_hand_loses_nothing() {
    let Some(_turn) = net::turn() else { return };
    failover(
        "mpt-ctl path down",
        Duration::from_millis(300),
        |tunnel| {
            tunnel.a.ctl(&["path", "down", "path1"]);
        },
        |tunnel| {
            tunnel.a.ctl(&["path", "up", "path1"]);
        },
    );
}

/// A daemon is restarted under a running flow: it goes on within 2 s, on the same connection.
fn restart(what: &str, event: impl Fn(&mut Tunnel)) {
    let mut tunnel = tunnel();
    let flow = start(&tunnel, 10);
    let begun = Instant::now();
    event(&mut tunnel);
    // The interface is new and its counters start again: the meter, too.
    let restarted = Instant::now();
    let received = Meter::start(tunnel.b.id(), "mpt0");
    sleep_ms(5000);
    let received = received.finish();
    let report = flow.finish();
    let flows = received
        .first_reaching(restarted, Duration::from_millis(200), 1.0)
        .map(|at| at - begun);
    let reached = received.rx_mbps(restarted + 4 * SECOND, restarted + 5 * SECOND);
    println!(
        "{what}: traffic after {flows:?}, {reached:.1} Mbit/s five seconds later; each second: {}",
        report.intervals_text()
    );
    assert!(flows.is_some_and(|after| after <= 2 * SECOND), "{flows:?}");
    assert!(reached >= 0.9 * full_mbps(&tunnel, 2), "{reached:.1}");
}

#[test]
fn the_senders_daemon_is_restarted() {
    let Some(_turn) = net::turn() else { return };
    restart("sender restarted", |tunnel| {
        tunnel.a.restart(&tunnel.hosts.a)
    });
}

#[test]
fn the_receivers_daemon_is_restarted() {
    let Some(_turn) = net::turn() else { return };
    restart("receiver restarted", |tunnel| {
        tunnel.b.restart(&tunnel.hosts.b)
    });
}

#[test]
fn the_senders_daemon_crashes() {
    let Some(_turn) = net::turn() else { return };
    restart("sender crashed", |tunnel| {
        tunnel.a.crash_and_restart(&tunnel.hosts.a)
    });
}

/// All paths gone: the interface stays, what comes is counted, and the tunnel comes back by itself.
#[test]
fn all_paths_down_keeps_the_interface() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = tunnel();
    tunnel.hosts.reshape(0, &shape(10).loss(100.0));
    tunnel.hosts.reshape(1, &shape(15).loss(100.0));
    sleep_ms(2500);
    let before = tunnel.a.status().tunnel.drops.values().sum::<u64>();
    let lost = net::traffic::ping(&tunnel.hosts.a, Side::B.inner_v4(), 10, 20, "");
    assert_eq!(lost.received, 0);
    let status = tunnel.a.status();
    assert!(
        status.tunnel.drops.values().sum::<u64>() >= before + 10,
        "{status:#?}"
    );
    assert!(tunnel.hosts.a.devices().contains(&"mpt0".to_owned()));
    tunnel.hosts.reshape(0, &shape(10));
    tunnel.hosts.reshape(1, &shape(15));
    tunnel.await_paths();
    let seen = net::traffic::ping(&tunnel.hosts.a, Side::B.inner_v4(), 10, 20, "");
    assert_eq!(seen.received, 10, "{:#?}", tunnel.a.status());
}

/// The rate of a path falls to a third in the middle of a flow: `mpt-ctl trace` says when, and that it was a queue.
/// Its output stands in docs/rate-control.md.
#[test]
fn a_rate_that_fell_is_explained() {
    let Some(_turn) = net::turn() else { return };
    let link = |mbps| Shape::mbps(mbps).delay_ms(15).buffer(200);
    let tunnel = Hosts::new(&[link(25.0), link(25.0)]).tunnel(&Settings::new());
    let flow = Iperf::tcp(Side::B.inner_v4(), 7).start(&tunnel.hosts.a, &tunnel.hosts.b);
    thread::sleep(4 * SECOND);
    let traced = || -> Trace {
        let json = tunnel.a.ctl(&["trace", "path1"]);
        serde_json::from_value(json).expect("an answer to trace")
    };
    let before = traced();
    assert!(
        before
            .decisions
            .iter()
            .any(|one| one.rate_bps > Some(20_000_000)),
        "{before:#?}"
    );
    tunnel.hosts.reshape(1, &link(8.0));
    thread::sleep(2 * SECOND);
    println!("{}", tunnel.a.ctl_text(&["trace", "path1"]));
    let now = traced();
    let new = before.first + before.decisions.len() as u64 - now.first;
    let mut since = now.decisions[new as usize..].iter();
    let fell = since.find(|one| one.rate_bps.is_some_and(|bps| bps < 17_000_000));
    let fell = fell.unwrap_or_else(|| panic!("{now:#?}"));
    assert!(
        matches!(fell.why, Why::Queue | Why::Loss | Why::DrainDue),
        "{fell:#?}"
    );
    assert!(since.any(|one| one.why == Why::Queue), "{now:#?}");
    drop(flow.finish());
}

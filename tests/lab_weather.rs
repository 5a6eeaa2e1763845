//! The tunnel in the weather that people's links have: what a call feels of it.
//!
//! A small part of what `benches/profiles --weather` measures, with what is to happen at a time of its own.

use std::sync::MutexGuard;
use std::time::Duration;

use mpt_sim::campaign::{Forecast, Weather, What};
use net::quic;
use net::settings::Side;
use net::stream::{Record, Stream};
use net::uplinks::has_nat;
use net::weather::shape;
use net::{Files, Uplinks, Who};

fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = net::turn()?;
    if !has_nat() {
        net::skip("no NAT by nftables in this kernel");
        return None;
    }
    Some(turn)
}

/// A call over a tunnel in this weather for so many seconds; the server's word for the first path's far end, before and
/// after.
fn call(forecasts: &[Forecast; 2], seconds: u64) -> (Record, [String; 2]) {
    let tunnel = Uplinks::with_weather(forecasts).tunnel(&Files::sealed());
    let passing = tunnel.net.let_pass(forecasts, Who::Tunnel);
    let far = || tunnel.server.status().paths[0].remote.to_string();
    let before = far();
    let time = Duration::from_secs(seconds);
    let call = Stream::voice(Side::A.inner_v4(), 6000, time)
        .start(&tunnel.net.server, &tunnel.net.client)
        .finish();
    let after = far();
    drop(passing);
    println!(
        "{} of {} lost, longest silence {:?}, far end {before}, then {after}",
        call.lost(),
        call.sent,
        call.longest_silence()
    );
    (call, [before, after])
}

#[test]
fn a_rebinding_is_felt_for_two_round_trips_and_150_ms_at_most() {
    let Some(_turn) = turn() else { return };
    // The call goes over the nearer link, which is the one that is rebound.
    let mut forecasts = [Weather::Cgnat.forecast(1), Weather::LteMedium.forecast(2)];
    forecasts[0].changes = [4, 8]
        .map(|second| (Duration::from_secs(second), What::Rebind))
        .into();
    forecasts[1].changes.clear();
    let one_way = |link: usize| shape(&forecasts[link].path.links[0]).base_delay();
    let farther = one_way(0).max(one_way(1));
    assert!(one_way(0) < one_way(1));
    let (call, [before, after]) = call(&forecasts, 12);
    assert_ne!(before, after, "the server sees the client at another port");
    assert!(
        call.arrivals
            .iter()
            .any(|one| one.sent > Duration::from_secs(10))
    );
    // What a call is silent between two of its datagrams is not felt.
    let limit = 4 * farther + Duration::from_millis(150 + 20);
    assert!(call.longest_silence() <= limit, "more than {limit:?}");
}

#[test]
fn a_handover_on_one_of_two_links_costs_a_call_one_in_a_thousand_at_most() {
    let Some(_turn) = turn() else { return };
    let forecasts = [Weather::Starlink.forecast(1), Weather::Fibre.forecast(2)];
    let (call, _) = call(&forecasts, 40);
    assert!(call.lost() * 1000 <= call.sent);
    // Two round trips of the satellite at its farthest, with a spike, and 150 ms.
    let limit = Duration::from_millis(2 * 2 * (45 + 50) + 150 + 20);
    assert!(call.longest_silence() <= limit);
}

/// A download by QUIC over the tunnel: a transport of user space, which is UDP to both the kernel and the tunnel.
#[test]
fn a_download_by_quic_has_both_links() {
    let Some(_turn) = turn() else { return };
    let mut forecasts = [Weather::Fibre.forecast(1), Weather::Dsl.forecast(2)];
    for (forecast, mbps) in forecasts.iter_mut().zip([10, 5]) {
        forecast.path.links[0].rate_bps = Some(mbps * 1_000_000);
    }
    let tunnel = Uplinks::with_weather(&forecasts).tunnel(&Files::sealed());
    let (server, client) = (&tunnel.net.server, &tunnel.net.client);
    let each = quic::each_second_mbps(server, client, Side::B.inner_v4(), 4);
    let marked = tunnel.server.status().tunnel.queue_marked;
    println!("each second: {each:.1?} Mbit/s, {marked} packets marked");
    let steady = (each[2] + each[3]) / 2.0;
    // Of 15 Mbit/s in frames of 1514 bytes QUIC's own are 13.6, and the better link alone has 9.1.
    assert!(
        steady >= 12.0,
        "{steady:.1} Mbit/s: {:#?}",
        tunnel.server.status()
    );
}

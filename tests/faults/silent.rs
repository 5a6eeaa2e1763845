//! Paths that die without a word, under pings and under bulk.
//!
//! An ordinary run has time for one round trip; `MPT_TEST_SILENT=all` asks for all of them, and holds them
//! against the page. That takes two minutes of the lab's time.

use std::time::{Duration, Instant};

use net::settings::Side;
use net::traffic::Iperf;
use net::{Bench, Fault, Files, Meter, Shape, Trace, Uplinks};

/// Round trips of the path that dies, in milliseconds.
const ROUND_TRIPS_MS: [u64; 4] = [20, 50, 100, 150];
/// The one of an ordinary run.
const USUAL_MS: u64 = 50;
/// By how much the other path's is longer, so that the one that dies carries the pings.
const LONGER_MS: u64 = 16;
/// What a stall may last beside two round trips of the slower path.
const BESIDE_MS: u64 = 150;
/// Mbit/s of each path.
const RATE: f64 = 20.0;
/// A flow stands still where this long brings less than that: pings go on beside it.
const STEP: Duration = Duration::from_millis(10);
const LEAST_BYTES: u64 = 1000;
/// For this long after the fault a flow is looked at.
const LOOKED_AT: Duration = Duration::from_secs(3);

/// The time after which the adaptive scheduler knows what the paths are like.
const SETTLED: Duration = Duration::from_secs(12);
/// So soon after all paths are up one dies, too.
const SOON_MS: [u64; 4] = [1000, 2000, 4000, 7000];
/// The round trip, and the time, of an ordinary run.
const SOON_USUAL_MS: (u64, u64) = (100, 2000);

fn pair(round_trip_ms: u64, settles: Duration) -> Bench {
    let shape = |delay| Shape::mbps(RATE).delay_ms(delay).buffer(100);
    let delay = round_trip_ms / 2;
    let net = Uplinks::with_shapes([&shape(delay), &shape(delay + LONGER_MS / 2)]);
    let bench = Bench::new(net.tunnel(&Files::sealed()));
    assert!(bench.calm(Duration::from_secs(8)), "{}", bench.told());
    std::thread::sleep(settles);
    bench
}

/// From one moment to the next a path swallows everything, or one direction of it.
#[test]
fn a_path_dies_without_a_word() {
    let Some(_turn) = net::turn() else { return };
    let all = std::env::var("MPT_TEST_SILENT").is_ok_and(|asked| asked == "all");
    let is_asked = |round_trip: &u64| all || *round_trip == USUAL_MS;
    let mut section = None;
    for round_trip in ROUND_TRIPS_MS.into_iter().filter(is_asked) {
        let mut bench = pair(round_trip, SETTLED);
        let ways: &[(&str, &[&str])] = match round_trip {
            USUAL_MS if all => &[
                ("", &["iifname fibre", "oifname fibre"]),
                (", for what the client sends", &["iifname fibre"]),
                (", for what the server sends", &["oifname fibre"]),
            ],
            _ => &[("", &["iifname fibre", "oifname fibre"])],
        };
        for (way, swallowed) in ways {
            let what = format!("a path of {round_trip} ms dies without a word{way}");
            bench.run(
                &fault(&what).stalls_at_most_ms(limit_ms(round_trip)),
                |pair| swallowed.iter().for_each(|what| pair.net.swallow(what)),
                |pair| pair.net.let_through(),
            );
            std::thread::sleep(Duration::from_secs(2));
        }
        under_bulk(&mut bench, round_trip);
        section = Some(bench.join(section));
    }
    match section {
        Some(bench) if all => bench.finish("silent"),
        Some(bench) => bench.check(),
        None => {}
    }
}

/// The same when the tunnel has just begun.
#[test]
fn a_path_dies_soon_after_the_start() {
    let Some(_turn) = net::turn() else { return };
    let all = std::env::var("MPT_TEST_SILENT").is_ok_and(|asked| asked == "all");
    let cases = ROUND_TRIPS_MS.map(|round_trip| SOON_MS.map(|soon| (round_trip, soon)));
    let asked = |case: &(u64, u64)| all || *case == SOON_USUAL_MS;
    for (round_trip, soon) in cases.into_iter().flatten().filter(asked) {
        let mut bench = pair(round_trip, Duration::ZERO);
        let step = Duration::from_millis(50);
        let begin = Instant::now();
        let ends = [
            ("client", &bench.pair.client),
            ("server", &bench.pair.server),
        ];
        let traces = ends.map(|(end, daemon)| Trace::start(begin, end, daemon.socket(), step));
        std::thread::sleep(Duration::from_millis(soon));
        let what = format!("a path of {round_trip} ms dies {soon} ms after the start");
        bench.run(
            &fault(&what).stalls_at_most_ms(limit_ms(round_trip)),
            |pair| {
                pair.net.swallow("iifname fibre");
                pair.net.swallow("oifname fibre");
            },
            |pair| pair.net.let_through(),
        );
        for line in Trace::finish_all(traces) {
            let ms = line
                .split(" ms ")
                .next()
                .and_then(|ms| ms.trim().parse::<u64>().ok());
            let is_before = ms.is_some_and(|ms| ms < soon);
            if is_before && (line.contains("suspected") || line.contains("resent")) {
                println!("{line}");
            }
        }
        bench.check();
    }
}

fn limit_ms(round_trip_ms: u64) -> u64 {
    2 * (round_trip_ms + LONGER_MS) + BESIDE_MS
}

fn fault(what: &str) -> Fault {
    Fault::new(what)
        .client("path-down", "Path fibre")
        .server("path-down", "Path fibre")
}

/// The same while a flow fills both paths: it does not stall for longer either.
fn under_bulk(bench: &mut Bench, round_trip_ms: u64) {
    let pair = &bench.pair;
    let flow = Iperf::tcp(Side::B.inner_v4(), 10).start(&pair.net.client, &pair.net.server);
    let meter = Meter::start(pair.server.id(), "mpt0");
    std::thread::sleep(Duration::from_secs(5));
    let what = format!("a path of {round_trip_ms} ms dies without a word under bulk");
    let mut start = Instant::now();
    // Pings wait in the flow's queues as well: what they see is no measure of the stall alone.
    let fault = fault(&what);
    bench.run(
        &fault,
        |pair| {
            start = Instant::now();
            pair.net.swallow("iifname fibre");
            pair.net.swallow("oifname fibre");
        },
        |pair| pair.net.let_through(),
    );
    std::thread::sleep((start + LOOKED_AT).saturating_duration_since(Instant::now()));
    let record = meter.finish();
    let lull = record.longest_lull(start, start + LOOKED_AT, STEP, LEAST_BYTES);
    let limit = Duration::from_millis(limit_ms(round_trip_ms));
    println!("{what}: the flow stalls for {} ms", lull.as_millis());
    if lull > limit {
        bench.fail(
            &fault,
            &format!("the flow stalls for {lull:?}, {limit:?} is the limit"),
        );
    }
    let _ = flow.finish();
}

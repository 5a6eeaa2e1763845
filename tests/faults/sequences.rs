//! Faults and repairs in random order: whatever came before, the last repair is the end of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use net::settings::Side;
use net::uplinks::UPLINKS;
use net::{Bench, Files, Random, Uplinked};

use super::{bench, can_run};

/// How many sequences an ordinary run has time for; `MPT_TEST_SEQUENCES=200` asks for more.
const SEQUENCES: usize = 3;
/// After the last repair everything is as configured within this.
const LIMIT: Duration = Duration::from_secs(5);
/// Resident memory may grow by so much over all sequences: buffers that were not needed before.
const GROWTH_BYTES: u64 = 16 << 20;

/// What can be wrong with an uplink; one thing at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Unplugged,
    Down,
    NoCarrier,
    NoAddress,
    NoRoute,
    Swallowed,
    SwallowedUp,
    SwallowedDown,
}

const WAYS: [Broken; 8] = [
    Broken::Unplugged,
    Broken::Down,
    Broken::NoCarrier,
    Broken::NoAddress,
    Broken::NoRoute,
    Broken::Swallowed,
    Broken::SwallowedUp,
    Broken::SwallowedDown,
];

/// What somebody does to a tunnel's own interface, at the client; the daemon puts it right by itself.
const MISCHIEF: [&str; 5] = [
    "ip link set mpt0 down",
    "ip addr flush dev mpt0",
    "ip route del 10.50.0.0/16",
    "ip link set mpt0 mtu 1300",
    "ip link del mpt0",
];

/// Seeded sequences on one pair: no restart, nothing left broken, nothing leaked.
#[test]
fn after_the_last_repair_all_is_as_configured() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let asked = std::env::var("MPT_TEST_SEQUENCES").ok();
    let count = asked
        .and_then(|text| text.parse().ok())
        .unwrap_or(SEQUENCES);
    let seed = std::env::var("MPT_TEST_SEED").ok();
    let seed = seed
        .and_then(|text| text.parse().ok())
        .unwrap_or(0x4d50_5431);
    println!("{count} sequences, MPT_TEST_SEED={seed}");

    let files = Files::sealed().tunnel(Side::A, "routes = [\"10.50.0.0/16\"]");
    let mut bench = bench(&files);
    assert!(bench.calm(LIMIT), "the pair comes up");
    // The first sequence lets buffers and tables come to what they are from then on.
    let mut slowest = sequence(&mut bench, seed);
    let before = Holdings::of(&mut bench.pair);
    for number in 1..count as u64 {
        slowest = slowest.max(sequence(&mut bench, seed.wrapping_add(number)));
    }
    let start = Instant::now();
    let mut after = Holdings::of(&mut bench.pair);
    while !before.exceeded_by(&after).is_empty() && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(100));
        after = Holdings::of(&mut bench.pair);
    }
    let exceeded = before.exceeded_by(&after);
    assert!(
        exceeded.is_empty(),
        "more {exceeded:?}:\n{before:#?}\n{after:#?}"
    );
    println!("as configured after {slowest:?} at most; {before} before, {after} after");
}

/// Some eight faults and repairs in random order, with random pauses; how long it took from the last
/// repair until all was as configured.
fn sequence(bench: &mut Bench, seed: u64) -> Duration {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut broken: [Option<Broken>; 2] = [None; 2];
    let mut done = Vec::new();
    for _ in 0..6 + random.below(5) {
        let uplink = random.below(2);
        let step = match (random.below(10), broken[uplink]) {
            (0 | 1, _) => {
                let line = MISCHIEF[random.below(MISCHIEF.len())];
                // What another mischief has taken is not there to be taken.
                let _ = bench.pair.net.client.output(line);
                line.to_owned()
            }
            (2, None) => {
                let host = 20 + random.below(200) as u8;
                bench.pair.net.remove_address(uplink);
                bench.pair.net.add_address(uplink, host);
                format!("uplink {uplink} has .{host}")
            }
            (_, None) => {
                let way = WAYS[random.below(WAYS.len())];
                break_uplink(&bench.pair, uplink, way);
                broken[uplink] = Some(way);
                format!("uplink {uplink} {way:?}")
            }
            (_, Some(way)) => {
                mend_uplink(&bench.pair, uplink, way, &mut broken);
                format!("uplink {uplink} mended")
            }
        };
        done.push(step);
        std::thread::sleep(Duration::from_millis(random.below(600) as u64));
    }
    for uplink in [0, 1] {
        if let Some(way) = broken[uplink] {
            mend_uplink(&bench.pair, uplink, way, &mut broken);
        }
    }
    let mended = Instant::now();
    // What was done to the interface a moment ago may not have been noticed yet.
    let (is_back, whole) = loop {
        let is_back = bench.calm(LIMIT.saturating_sub(mended.elapsed()));
        let whole = is_whole(&bench.pair);
        if is_back && whole || mended.elapsed() >= LIMIT {
            break (is_back, whole);
        }
    };
    assert!(
        is_back && whole,
        "seed {seed}: {:?} after the last repair, interface whole: {whole}, {}\ndone: {}\n{}",
        mended.elapsed(),
        bench.told(),
        done.join(", "),
        bench.pair.client.log()
    );
    mended.elapsed()
}

fn break_uplink(pair: &Uplinked, uplink: usize, way: Broken) {
    let net = &pair.net;
    let (device, path) = (UPLINKS[uplink].device, UPLINKS[uplink].path);
    match way {
        Broken::Unplugged => net.unplug(uplink),
        Broken::Down => drop(net.client.run(&format!("ip link set {device} down"))),
        Broken::NoCarrier => drop(net.routers[uplink].run("ip link set lan down")),
        Broken::NoAddress => net.remove_address(uplink),
        Broken::NoRoute => net.remove_default_route(uplink),
        Broken::Swallowed => {
            net.swallow(&format!("iifname {path}"));
            net.swallow(&format!("oifname {path}"));
        }
        Broken::SwallowedUp => net.swallow(&format!("iifname {path}")),
        Broken::SwallowedDown => net.swallow(&format!("oifname {path}")),
    }
}

fn mend_uplink(pair: &Uplinked, uplink: usize, way: Broken, broken: &mut [Option<Broken>; 2]) {
    let net = &pair.net;
    let device = UPLINKS[uplink].device;
    match way {
        Broken::Unplugged => net.plug(uplink),
        Broken::Down => {
            net.client.run(&format!("ip link set {device} up"));
            net.add_default_route(uplink);
        }
        Broken::NoCarrier => drop(net.routers[uplink].run("ip link set lan up")),
        Broken::NoAddress => net.return_address(uplink),
        Broken::NoRoute => net.add_default_route(uplink),
        Broken::Swallowed | Broken::SwallowedUp | Broken::SwallowedDown => net.let_through(),
    }
    broken[uplink] = None;
    // Letting through is for all: what the other uplink's fault swallowed is let through as well.
    let swallows = |way: &Broken| {
        matches!(
            way,
            Broken::Swallowed | Broken::SwallowedUp | Broken::SwallowedDown
        )
    };
    let other = &mut broken[1 - uplink];
    if swallows(&way) && other.as_ref().is_some_and(swallows) {
        *other = None;
    }
}

/// The client's interface has what the file asks for.
fn is_whole(pair: &Uplinked) -> bool {
    let text =
        |line: &str| String::from_utf8_lossy(&pair.net.client.output(line).stdout).into_owned();
    let link = text("ip addr show dev mpt0");
    let addresses = [Side::A.inner_v4(), Side::A.inner_v6()];
    link.contains(",UP,")
        && !link.contains("mtu 1300 ")
        && addresses.iter().all(|address| link.contains(address))
        && text("ip route show dev mpt0").contains("10.50.0.0/16")
}

/// What the daemons hold: descriptors, memory, and rules and routes of the client's kernel.
#[derive(Debug)]
struct Holdings {
    processes: [u32; 2],
    descriptors: [usize; 2],
    resident_bytes: [u64; 2],
    rules: Vec<String>,
    tables: BTreeMap<String, usize>,
}

impl Holdings {
    fn of(pair: &mut Uplinked) -> Self {
        let processes = [pair.client.id(), pair.server.id()];
        let descriptors = processes.map(|id| {
            let folder = std::fs::read_dir(format!("/proc/{id}/fd"));
            folder
                .expect("the daemon is the one that was started")
                .count()
        });
        let resident_bytes = [pair.client.process(), pair.server.process()].map(resident);
        let text =
            |line: &str| String::from_utf8_lossy(&pair.net.client.output(line).stdout).into_owned();
        let mut rules: Vec<String> = Vec::new();
        for line in ["ip rule show", "ip -6 rule show"] {
            rules.extend(text(line).lines().map(str::to_owned));
        }
        let mut tables = BTreeMap::new();
        for line in ["ip route show table all", "ip -6 route show table all"] {
            for route in text(line).lines() {
                let mut words = route.split(' ').skip_while(|word| *word != "table");
                let table = words.nth(1).unwrap_or("main");
                // The kernel's own, which follows addresses: those that it makes itself come and go.
                if table == "local" {
                    continue;
                }
                *tables.entry(format!("{} {table}", &line[..5])).or_default() += 1;
            }
        }
        Self {
            processes,
            descriptors,
            resident_bytes,
            rules,
            tables,
        }
    }

    /// In what the later holdings exceed these.
    fn exceeded_by(&self, later: &Self) -> Vec<&'static str> {
        let more = |index: usize| later.descriptors[index] > self.descriptors[index];
        let grown =
            |index: usize| later.resident_bytes[index] > self.resident_bytes[index] + GROWTH_BYTES;
        let found = [
            (later.processes != self.processes, "processes"),
            (more(0) || more(1), "descriptors"),
            (grown(0) || grown(1), "memory"),
            (later.rules != self.rules, "rules"),
            (later.tables != self.tables, "routes"),
        ];
        found
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, what)| what)
            .collect()
    }
}

impl std::fmt::Display for Holdings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b] = self.descriptors;
        let [x, y] = self.resident_bytes.map(|bytes| bytes >> 10);
        let (rules, routes) = (self.rules.len(), self.tables.values().sum::<usize>());
        write!(
            f,
            "{a} and {b} descriptors, {x} and {y} KiB, {rules} rules, {routes} routes"
        )
    }
}

/// Memory resident now.
fn resident(process: &mut net::Process) -> u64 {
    let text = process.proc_file("status");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0) << 10
}

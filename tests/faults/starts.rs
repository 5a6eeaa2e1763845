//! Starts, one after another, with a flow from the first moment: each soon carries what the uplinks do.
//!
//! One start in some thirty was once seen to carry a hundredth of that, and one in nine a third: the buffer of the
//! faster uplink had no room for the first slow start, and what it dropped was taken for the nature of the path, which
//! was not used any more. `MPT_TEST_STARTS=60` looks for another,
//! `MPT_TEST_SEED` says where to begin. Of a slow one everything is printed that either end thought of its
//! paths, every 100 ms.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::settings::Side;
use net::{Daemon, Files, Namespace, Random, Shape, Trace, Uplinks};

use super::can_run;

/// How many an ordinary run has time for.
const STARTS: u64 = 2;
/// Mbit/s of the uplinks.
const MBPS: [f64; 2] = [50.0, 30.0];
/// A flow begins so soon after the tunnel is open, or earlier.
const TRY_AGAIN: Duration = Duration::from_millis(50);
/// What a flow gets is counted from this long after its first byte …
const SETTLED: Duration = Duration::from_secs(2);
/// … for this long.
const COUNTED: Duration = Duration::from_secs(2);
/// Of what the uplinks carry, a flow gets this much then, on a busy machine.
const LEAST_SHARE: f64 = 0.5;
/// Nothing was to be had, or taken, for a while.
const WAITS: [ErrorKind; 2] = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
/// Time between two looks at a status.
const STEP: Duration = Duration::from_millis(100);

/// Ends are started in any order, and ports may be changed on the way.
#[test]
fn every_start_soon_carries_what_the_uplinks_do() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let asked = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let (starts, first) = (
        asked("MPT_TEST_STARTS").unwrap_or(STARTS),
        asked("MPT_TEST_SEED").unwrap_or(1),
    );
    let mut shares = Vec::new();
    let mut slow = Vec::new();
    for seed in first..first + starts {
        let start = Start::run(seed);
        println!("{}", start.told);
        shares.push(start.share);
        if start.share < LEAST_SHARE {
            println!("{}", start.trace.join("\n"));
            slow.push(start.told);
        }
    }
    shares.sort_unstable_by(f64::total_cmp);
    println!(
        "{starts} starts: least {:.2} of the sum, median {:.2}",
        shares[0],
        shares[shares.len() / 2]
    );
    assert!(slow.is_empty(), "slow starts:\n{}", slow.join("\n"));
}

/// A start and what came of it.
struct Start {
    told: String,
    share: f64,
    trace: Vec<String>,
}

impl Start {
    fn run(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut shape = |rate| {
            let shape = Shape::mbps(rate).buffer(60 + random.below(200) as u32);
            match net::in_lab() {
                true => shape.delay_ms(2 + random.below(25) as u64),
                false => shape,
            }
        };
        let shapes = MBPS.map(&mut shape);
        let net = Uplinks::with_shapes([&shapes[0], &shapes[1]]);
        let new_ports = random.below(2) == 0;
        if new_ports && !net::in_lab() {
            net.new_ports(0, 20_000);
            net.new_ports(1, 30_000);
        }
        let is_download = random.below(2) == 0;
        let client_first = random.below(2) == 0;
        let between = Duration::from_millis(random.below(1500) as u64);
        let flow = Flow::start(&net, is_download);
        let files = Files::sealed();
        let open =
            |host: &Namespace, side| Daemon::start(host, "mpt0", |socket| files.toml(side, socket));
        let order = match client_first {
            true => [(&net.client, Side::A), (&net.server, Side::B)],
            false => [(&net.server, Side::B), (&net.client, Side::A)],
        };
        let begin = Instant::now();
        let first = open(order[0].0, order[0].1);
        let mut traces = vec![Trace::start(begin, name(order[0].1), first.socket(), STEP)];
        std::thread::sleep(between);
        let second = open(order[1].0, order[1].1);
        traces.push(Trace::start(begin, name(order[1].1), second.socket(), STEP));
        let mbps = flow.finish(Duration::from_secs(12));
        let trace = Trace::finish_all(traces);
        drop((first, second));
        let share = mbps / MBPS.iter().sum::<f64>();
        Self {
            told: format!(
                "seed {seed}: {} first, the other {} ms later, {}, {}: {mbps:.1} Mbit/s",
                name(order[0].1),
                between.as_millis(),
                if is_download { "download" } else { "upload" },
                if new_ports {
                    "other ports"
                } else {
                    "the same ports"
                },
            ),
            share,
            trace,
        }
    }
}

fn name(side: Side) -> &'static str {
    match side {
        Side::A => "client",
        Side::B => "server",
    }
}

/// One TCP flow that is tried again until it begins.
struct Flow {
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    fn start(net: &Uplinks, is_download: bool) -> Self {
        let received = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let any: SocketAddr = ([0, 0, 0, 0], 5300).into();
        let listener = net.server.inside(|| TcpListener::bind(any).unwrap());
        listener.set_nonblocking(true).unwrap();
        let serving = Half::new(&received, &over, is_download);
        let calling = Half::new(&received, &over, !is_download);
        let client = net.client.name().to_owned();
        let threads = vec![
            std::thread::spawn(move || serving.serve(&listener)),
            std::thread::spawn(move || calling.call(&client)),
        ];
        Self {
            received,
            over,
            threads,
        }
    }

    /// Mbit/s of payload once it runs; 0 where it has not begun within `limit`.
    fn finish(self, limit: Duration) -> f64 {
        let start = Instant::now();
        let bytes = || self.received.load(Ordering::Relaxed);
        while bytes() == 0 && start.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(SETTLED);
        let (before, from) = (bytes(), Instant::now());
        std::thread::sleep(COUNTED);
        let mbps = (bytes() - before) as f64 * 8e-6 / from.elapsed().as_secs_f64();
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        mbps
    }
}

/// One end of a flow.
struct Half {
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    sends: bool,
}

impl Half {
    fn new(received: &Arc<AtomicU64>, over: &Arc<AtomicBool>, sends: bool) -> Self {
        Self {
            received: Arc::clone(received),
            over: Arc::clone(over),
            sends,
        }
    }

    fn serve(&self, listener: &TcpListener) {
        while !self.is_over() {
            match listener.accept() {
                Ok((stream, _)) => self.run(stream),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn call(&self, host: &str) {
        let to = SocketAddr::new(Side::B.inner_v4().parse().unwrap(), 5300);
        let file = std::fs::File::open(format!("/run/netns/{host}")).unwrap();
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind).unwrap();
        while !self.is_over() {
            match TcpStream::connect_timeout(&to, Duration::from_millis(400)) {
                Ok(stream) => return self.run(stream),
                Err(_) => std::thread::sleep(TRY_AGAIN),
            }
        }
    }

    fn run(&self, mut stream: TcpStream) {
        let patience = Some(Duration::from_millis(100));
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        let mut buffer = vec![0; 64 << 10];
        while !self.is_over() {
            let done = match self.sends {
                true => stream.write(&buffer),
                false => stream.read(&mut buffer),
            };
            match done {
                Ok(0) => return,
                Ok(_) if self.sends => {}
                Ok(length) => drop(self.received.fetch_add(length as u64, Ordering::Relaxed)),
                Err(error) if WAITS.contains(&error.kind()) => {}
                Err(_) => return,
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

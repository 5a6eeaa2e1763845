//! What a hub's clients get under load: TCP flows of N clients with two paths each.
//!
//! The clients are in one thread of this process, with one interface, in another namespace ([`crate::clients`]): they share
//! the processors with the hub, so the sum of many clients is what the machine gives to all. The hub's own part is its
//! processor's time a byte, which stands beside it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use mpt_core::control::{PathStatus, PeerReport};
use mpt_core::crypto::{PrivateKey, PublicKey};
use mpt_io::Offload;
use mpt_io::tun::Tun;
use net::initiation::Initiations;
use net::process::program;
use net::settings::{hub_workers, workers_line};
use net::stream::{median, percentile};
use net::{Daemon, Namespace, ping, wait_for};
use socket2::{Domain, Protocol, Socket, Type};

use crate::clients::{Clients, Hub, MTU, PATHS, Question, client_at, inner, key_of, peers};
use crate::flood::Flood;
use crate::outcome::{Moment, Outcome, thread_time};
use crate::reports::Reporter;

/// The hub inside the tunnel, and where TCP and UDP are taken there.
const HUB: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const TCP_PORT: u16 = 5201;
const UDP_PORT: u16 = 5202;
/// What a flow hands to the kernel at once, in bytes.
const PIECE: usize = 128 << 10;
/// Flows find their rate in this time, which is not counted.
const SETTLING: Duration = Duration::from_secs(3);
/// What was under way is gone after that.
const PAUSE: Duration = Duration::from_secs(1);
/// A path that carried more than 1.2 Gbit/s is not limited for 10 s (`fast` and `base_span` in docs/rate-control.md): one
/// client alone has such paths, and would keep them beside the others.
const FORGETTING: Duration = Duration::from_secs(12);
/// All clients are up within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Payload of a datagram of a flood, in bytes.
const DATAGRAM: usize = 1350;
/// The clients' interface, and their thread.
const INTERFACE: &str = "clients";
const CLIENTS: &str = "clients";
/// Its nice value. Those of the hub and of who sends and receives are 0; with this 100 clients together had 1.3 times as much down.
const CLIENTS_NICE: i32 = -15;
/// Pings while something else goes on, one each so many milliseconds.
const PING_STEP_MS: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// From the hub to the clients.
    Down,
    Up,
}

fn write_key(file: &std::path::Path, key: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::File::options();
    let mut file = options
        .write(true)
        .create(true)
        .mode(0o600)
        .open(file)
        .unwrap();
    file.write_all(key.as_bytes()).unwrap();
}

/// Has TCP use what `benches/hub --tcp` names. Without it CUBIC, as in benches/throughput: what most hosts use, whatever this
/// one does. A listener's connections use the same.
fn set_congestion_control(socket: impl AsFd) {
    let name = std::env::var("MPT_TEST_TCP").unwrap_or("cubic".to_owned());
    let set = rustix::net::sockopt::set_tcp_congestion(socket, &name);
    set.unwrap_or_else(|error| panic!("TCP cannot use {name:?} here: {error}"));
}

/// Has this thread go before the others: it stands for as many hosts, each with a processor of its own, and what comes to it is not
/// to wait there. What the hub has no time for waits at the hub then.
fn go_first() {
    // On Linux this is of the thread (setpriority(2)).
    let done = rustix::process::setpriority_process(Some(rustix::thread::gettid()), CLIENTS_NICE);
    if let Err(error) = done {
        println!(
            "the clients cannot go first ({error}; it takes root): many get less than they would"
        );
    }
}

/// Bytes that were received of each client's flows, in either direction.
type Counts = Arc<Vec<AtomicU64>>;

/// A hub, its clients, and who answers inside.
struct Stage {
    hub: Daemon,
    hub_key: String,
    /// To the clients' thread.
    clients: Sender<Question>,
    far: Namespace,
    _hub_host: Namespace,
    counts: Counts,
}

impl Stage {
    fn new(clients: usize) -> Stage {
        let (hub_host, far) = (Namespace::new("hub"), Namespace::new("far"));
        for path in 0..PATHS {
            let there = far.name();
            hub_host.run(&format!(
                "ip link add path{path} type veth peer name path{path} netns {there}"
            ));
            for (host, number) in [(&hub_host, 1), (&far, 2)] {
                host.run(&format!(
                    "ip address add 10.1.{path}.{number}/30 dev path{path}"
                ));
                host.run(&format!("ip link set path{path} up"));
            }
        }
        let hub_key = PrivateKey::from_random([7; 32]);
        let folder = tempfile::tempdir().unwrap();
        let hub = Daemon::start(&hub_host, "mpt0", |socket| {
            let file = folder.path().join("hub.key");
            write_key(&file, &hub_key.to_base64());
            let mut text = format!(
                "[tunnel]\nname = \"mpt0\"\naddresses = [\"{HUB}/8\"]\n{}[control]\nsocket = \"{socket}\"\n\
                 [crypto]\nprivate_key_file = \"{}\"\n",
                workers_line(hub_workers().as_deref()),
                file.display()
            );
            for path in 0..PATHS {
                text +=
                    &format!("[[paths]]\nname = \"isp{path}\"\nlocal = \"10.1.{path}.1:4754\"\n");
            }
            // One more has no tunnel here: who reports.
            text + &peers(clients + 1)
        });
        let hub_key = hub_key.public_key();
        let (questions, asked) = mpsc::channel();
        far.inside(|| {
            let tun = Tun::open(INTERFACE, Offload::Auto).unwrap();
            thread::Builder::new()
                .name(CLIENTS.to_owned())
                .spawn(move || {
                    go_first();
                    let hub = Hub {
                        key: hub_key,
                        locals: [0, 1].map(|path| Ipv4Addr::new(10, 1, path, 2)),
                        remotes: [0, 1].map(|path| (Ipv4Addr::new(10, 1, path, 1), 4754).into()),
                        offload: Offload::Auto,
                    };
                    Clients::new(clients, &hub, Some(tun)).serve(&asked);
                })
                .unwrap()
        });
        for client in 0..clients {
            let inner = inner(client);
            far.run(&format!("ip address add {inner}/32 dev {INTERFACE}"));
        }
        far.run(&format!(
            "ip link set {INTERFACE} mtu {MTU} txqueuelen 4096 up"
        ));
        far.run(&format!("ip route add {HUB}/32 dev {INTERFACE}"));
        let counts: Counts = Arc::new((0..clients).map(|_| AtomicU64::new(0)).collect());
        let (listener, flood) = hub_host.inside(|| {
            let listener = TcpListener::bind((HUB, TCP_PORT)).unwrap();
            set_congestion_control(&listener);
            (
                listener,
                UdpSocket::bind((Ipv4Addr::UNSPECIFIED, UDP_PORT)).unwrap(),
            )
        });
        serve(listener, counts.clone());
        // Nobody reads it: its buffer is full, and the kernel drops the rest.
        std::mem::forget(flood);
        let stage = Stage {
            hub,
            hub_key: hub_key.to_string(),
            clients: questions,
            far,
            _hub_host: hub_host,
            counts,
        };
        (0..clients).for_each(|client| {
            wait_for("a client to be up", PATIENCE, || {
                stage.connect(client, Way::Up).ok()
            });
        });
        stage
    }

    /// A connection of a client to the hub.
    fn connect(&self, client: usize, way: Way) -> std::io::Result<TcpStream> {
        self.far.inside(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            set_congestion_control(&socket);
            socket.bind(&SocketAddr::from((inner(client), 0)).into())?;
            let to = SocketAddr::from((HUB, TCP_PORT));
            socket.connect_timeout(&to.into(), Duration::from_secs(2))?;
            let mut stream = TcpStream::from(socket);
            stream.write_all(&[(way == Way::Down).into()])?;
            Ok(stream)
        })
    }

    /// Flows to each of these clients, so many, until they are dropped.
    fn flows(&self, wanted: &[(usize, usize)], way: Way) -> Flows {
        let mut flows = Flows(Vec::new());
        for &(client, count) in wanted {
            for _ in 0..count {
                let stream = self.connect(client, way).unwrap();
                let (copy, counts) = (stream.try_clone().unwrap(), self.counts.clone());
                thread::spawn(move || match way {
                    Way::Up => send(stream),
                    Way::Down => take(stream, &counts[client]),
                });
                flows.0.push(copy);
            }
        }
        flows
    }

    fn now(&self) -> Moment {
        let status = self.hub.status();
        let mut drops = status.tunnel.drops;
        let sockets = status.paths.iter().map(|path| path.socket_drops).sum();
        drops.insert("at its sockets".to_owned(), sockets);
        Moment {
            at: Instant::now(),
            bytes: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            hub_time: thread_time(self.hub.id(), ["mpt0-out", "mpt0-in"]),
            client_time: thread_time(std::process::id(), [CLIENTS])[0],
            drops,
        }
    }

    /// What goes on for this long, after it has settled.
    fn measure(&self, seconds: u64) -> Outcome {
        thread::sleep(SETTLING);
        let before = self.now();
        thread::sleep(Duration::from_secs(seconds));
        before.until(&self.now())
    }

    fn load(&self, wanted: &[(usize, usize)], way: Way, seconds: u64) -> Outcome {
        let flows = self.flows(wanted, way);
        let outcome = self.measure(seconds);
        if wanted.len() > 1 {
            let rate = |&(client, _): &(usize, usize)| (outcome.rates[client] * 1e3) as u64;
            for (what, of) in [
                ("least", wanted.iter().min_by_key(|of| rate(of))),
                ("most", wanted.iter().max_by_key(|of| rate(of))),
            ] {
                let client = of.map_or(0, |of| of.0);
                println!("    who gets {what}: {}", self.law_of(client, way));
            }
        }
        drop(flows);
        thread::sleep(PAUSE);
        outcome
    }

    /// What the sender of a client's flows believes of its paths.
    fn law_of(&self, client: usize, way: Way) -> String {
        let paths: Vec<PathStatus> = match way {
            Way::Up => {
                let (answer, answered) = mpsc::channel();
                let question = move |clients: &Clients| {
                    let _ = answer.send(clients.paths_of(client));
                };
                self.clients.send(Box::new(question)).unwrap();
                answered.recv().unwrap()
            }
            Way::Down => {
                let mut command = std::process::Command::new(program("mpt-ctl"));
                command.arg("--socket").arg(self.hub.socket());
                command.args(["--json", "peer", "show", &format!("p{client}")]);
                let told = command.output().unwrap().stdout;
                serde_json::from_slice(&told).map_or(Vec::new(), |told: PeerReport| told.peer.paths)
            }
        };
        let of_path = |path: PathStatus| {
            let limit = path.tx_limit_bps;
            let limit = limit.map_or("none".to_owned(), |bps| format!("{:.1}", bps as f64 / 1e6));
            format!(
                "{:?}, limit {limit} Mbit/s, delivers {:.1}, queue {:?} us, round trip {:?} us",
                path.tx_phase,
                path.tx_delivered_bps as f64 / 1e6,
                path.tx_queue_us,
                path.rtt_us
            )
        };
        paths
            .into_iter()
            .map(of_path)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Round trips of a client's pings for this long: median and 99th percentile, in milliseconds.
    fn ping(&self, client: usize, seconds: u64) -> (f64, f64) {
        let count = (seconds * 1000) as u32 / PING_STEP_MS;
        let target = format!("-I {} {HUB}", inner(client));
        let mut times = ping::round_trips_ms(&self.far, &target, count, PING_STEP_MS);
        // One that is not answered took longest.
        times.resize(count as usize, f64::INFINITY);
        (median(&times), percentile(&times, 0.99))
    }
}

/// Takes connections: their first byte says who sends.
fn serve(listener: TcpListener, counts: Counts) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counts = counts.clone();
            thread::spawn(move || {
                let mut way = [0];
                let client = stream
                    .peer_addr()
                    .ok()
                    .and_then(|from| client_at(from.ip()));
                match (stream.read_exact(&mut way), client) {
                    (Ok(()), Some(client)) if way == [0] => take(stream, &counts[client]),
                    (Ok(()), Some(_)) => send(stream),
                    _ => {}
                }
            });
        }
    });
}

fn send(mut stream: TcpStream) {
    let piece = vec![0; PIECE];
    while stream.write_all(&piece).is_ok() {}
}

fn take(mut stream: TcpStream, count: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    while let Ok(len @ 1..) = stream.read(&mut piece) {
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}

struct Flows(Vec<TcpStream>);

impl Drop for Flows {
    fn drop(&mut self) {
        for stream in &self.0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// N clients together against one alone.
fn shares(stage: &Stage, clients: usize, runs: u32, seconds: u64) {
    let all: Vec<_> = (0..clients).map(|client| (client, 1)).collect();
    for way in [Way::Down, Way::Up] {
        let [mut sums, mut least, mut costs] = [const { Vec::new() }; 3];
        for _ in 0..runs {
            let alone = stage.load(&[(0, 1)], way, seconds);
            alone.tell(&format!("{way:?}, one alone"));
            thread::sleep(FORGETTING);
            let together = stage.load(&all, way, seconds);
            together.tell(&format!("{way:?}, all {clients}"));
            sums.push(together.sum() / alone.sum());
            let fewest = together.rates.iter().copied().fold(f64::INFINITY, f64::min);
            least.push(fewest * clients as f64 / together.sum());
            costs.push(together.hub_ns() / alone.hub_ns());
        }
        println!(
            "{way:?}: {clients} together {:.2} of one alone, the least {:.2} of the mean, the hub's time a byte {:.2} of that for one (medians of {runs})",
            median(&sums),
            median(&least),
            median(&costs)
        );
    }
}

/// One with eight flows beside N - 1 with one.
fn eight_flows(stage: &Stage, clients: usize, runs: u32, seconds: u64) {
    let all: Vec<_> = (0..clients)
        .map(|client| (client, if client == 0 { 8 } else { 1 }))
        .collect();
    for way in [Way::Down, Way::Up] {
        let shares = (0..runs).map(|_| {
            let together = stage.load(&all, way, seconds);
            together.tell(&format!("{way:?}, all {clients}"));
            together.rates[0] * clients as f64 / together.sum()
        });
        let share = median(&shares.collect::<Vec<_>>());
        println!(
            "{way:?}: the one with 8 flows of {clients} has {share:.2} of the mean (median of {runs})"
        );
    }
}

/// What other clients' TCP and an idle one's pings have of it that one sends ten times its share, that a stranger
/// calls 100,000 times a second, or that a client sends as many reports; the last two beside as many datagrams to a port
/// where nobody reads, which take this machine as long to make and to send.
fn greedy(stage: &Stage, clients: usize, runs: u32, seconds: u64) {
    const GREEDY: usize = 0;
    const PINGS: usize = 1;
    let honest: Vec<_> = (PINGS + 1..clients).map(|client| (client, 1)).collect();
    let mut all = honest.clone();
    all.push((GREEDY, 1));
    let at = |flows: &[(usize, usize)], what: &str| {
        let flows = stage.flows(flows, Way::Up);
        let (outcome, ping) = thread::scope(|scope| {
            let ping = scope.spawn(|| {
                thread::sleep(SETTLING);
                stage.ping(PINGS, seconds)
            });
            (stage.measure(seconds), ping.join().unwrap())
        });
        drop(flows);
        thread::sleep(PAUSE);
        outcome.tell(what);
        println!("    pings: {:.1} ms, p99 {:.1} ms", ping.0, ping.1);
        let tcp: f64 = outcome.rates[PINGS + 1..].iter().sum();
        (tcp, ping.1)
    };
    let mut kept: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut note = |what, with: (f64, f64), without: (f64, f64)| {
        let (tcp, pings) = kept.entry(what).or_default();
        tcp.push(with.0 / without.0);
        pings.push(with.1 - without.1);
    };
    for _ in 0..runs {
        let calm = at(&all, "nobody is greedy");
        let share = calm.0 / honest.len() as f64;
        let socket = stage.far.inside(|| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
            socket
                .bind(&SocketAddr::from((inner(GREEDY), 0)).into())
                .unwrap();
            socket
                .connect(&SocketAddr::from((HUB, UDP_PORT)).into())
                .unwrap();
            UdpSocket::from(socket)
        });
        let a_second = 10.0 * share * 1e6 / 8.0 / DATAGRAM as f64;
        let flood = Flood::start(a_second, move || drop(socket.send(&[0; DATAGRAM])));
        let greedy = at(&honest, "one sends ten times its share");
        drop(flood);
        note("one sends ten times its share", greedy, calm);
        let called = [UDP_PORT, 4754].map(|port| {
            let socket = stage.far.inside(|| UdpSocket::bind("10.1.0.2:0").unwrap());
            socket.connect(("10.1.0.1", port)).unwrap();
            let mut initiations = Initiations::to(&stage.hub_key);
            let _flood = Flood::start(100_000.0, move || {
                drop(socket.send(&initiations.next(None)))
            });
            at(&all, &format!("100,000 calls a second at port {port}"))
        });
        note("100,000 calls a second", called[1], called[0]);
        let reported = [UDP_PORT, 4754].map(|port| {
            let socket = stage.far.inside(|| UdpSocket::bind("10.1.0.2:0").unwrap());
            let (hub, to) = (([10, 1, 0, 1], 4754).into(), ([10, 1, 0, 1], port).into());
            let hub_key = PublicKey::from_base64(&stage.hub_key).unwrap();
            let mut reporter = Reporter::call(key_of(clients), hub_key, socket, hub);
            let _flood = Flood::start(100_000.0, move || reporter.report(to));
            at(&all, &format!("100,000 reports a second at port {port}"))
        });
        note("100,000 reports a second", reported[1], reported[0]);
    }
    for (what, (tcp, pings)) in kept {
        println!(
            "{what}: the others' TCP keeps {:.2}, another's ping p99 rises by {:.1} ms (medians of {runs})",
            median(&tcp),
            median(&pings)
        );
    }
}

/// What so many clients get; see `benches/hub`.
pub(crate) fn run(what: &str, clients: usize, runs: u32, seconds: u64) {
    let stage = Stage::new(clients);
    println!("{clients} clients of two paths are up");
    match what {
        "shares" => shares(&stage, clients, runs, seconds),
        "flows" => eight_flows(&stage, clients, runs, seconds),
        _ => greedy(&stage, clients, runs, seconds),
    }
}

//! The systems that are compared, each with two hosts and links of its own.

use std::fmt;

use net::settings::{Side, hub_workers, keys, public_key, workers_line};
use net::{Daemon, Namespace, Process};

/// What carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The link itself.
    Raw,
    /// The link itself, where the sender's kernel cuts super-packets just before it.
    RawGso,
    /// The kernel's VXLAN over one link.
    Vxlan,
    /// The least that a userspace tunnel can do: two threads that copy between a TUN and a socket.
    Relay,
    /// The tunnel without offloads over two paths.
    Plain,
    /// The tunnel with offloads over so many paths.
    Offload(usize),
    /// The same with nothing that sets itself: shared by weight, a fixed window, nothing sent again.
    Fixed(usize),
    /// The same as [`Kind::Offload`] with keys: every packet is sealed.
    Sealed(usize),
    /// The same with a hub at the second host, of which the first is the one peer.
    Hub(usize),
}

impl Kind {
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Raw,
        Kind::RawGso,
        Kind::Vxlan,
        Kind::Relay,
        Kind::Plain,
        Kind::Offload(1),
        Kind::Offload(2),
        Kind::Offload(4),
        Kind::Fixed(2),
        Kind::Sealed(2),
        Kind::Hub(2),
    ];

    const fn links(self) -> usize {
        match self {
            Kind::Raw | Kind::RawGso | Kind::Vxlan | Kind::Relay => 1,
            Kind::Plain => 2,
            Kind::Offload(paths) | Kind::Fixed(paths) | Kind::Sealed(paths) | Kind::Hub(paths) => {
                paths
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Raw => f.write_str("raw veth"),
            Kind::RawGso => f.write_str("raw veth, GSO"),
            Kind::Vxlan => f.write_str("kernel VXLAN"),
            Kind::Relay => f.write_str("bare relay"),
            Kind::Plain => f.write_str("MPT plain, 2 paths"),
            Kind::Offload(1) => f.write_str("MPT, 1 path"),
            Kind::Offload(paths) => write!(f, "MPT, {paths} paths"),
            Kind::Fixed(paths) => write!(f, "MPT fixed, {paths} paths"),
            Kind::Sealed(paths) => write!(f, "MPT sealed, {paths} paths"),
            Kind::Hub(paths) => write!(f, "MPT hub, {paths} paths"),
        }
    }
}

/// How a link treats super-packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wire {
    /// They cross as they are.
    Whole,
    /// They are cut before the link and joined behind it.
    PerPacket,
}

impl Wire {
    pub(crate) const BOTH: [Wire; 2] = [Wire::Whole, Wire::PerPacket];
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Whole => "trains cross whole",
            Wire::PerPacket => "per-packet wire",
        })
    }
}

/// Two hosts with a system between them. Daemons end before their hosts do.
pub(crate) struct System {
    pub(crate) kind: Kind,
    pub(crate) daemons: Option<(Daemon, Daemon)>,
    _relays: Vec<Process>,
    pub(crate) a: Namespace,
    pub(crate) b: Namespace,
}

impl System {
    pub(crate) fn set_up(kind: Kind) -> System {
        let (a, b) = (Namespace::new("a"), Namespace::new("b"));
        for link in 0..kind.links() {
            let peer = b.name();
            a.run(&format!(
                "ip link add path{link} type veth peer name path{link} netns {peer}"
            ));
            for (host, number) in [(&a, 1), (&b, 2)] {
                host.run(&format!(
                    "ip addr add 10.1.{link}.{number}/30 dev path{link}"
                ));
                host.run(&format!("ip link set path{link} up"));
            }
        }
        let mut relays = Vec::new();
        let daemons = match kind {
            Kind::Raw | Kind::RawGso => None,
            Kind::Relay => {
                relays = vec![start_relay(&a, [1, 2]), start_relay(&b, [2, 1])];
                None
            }
            Kind::Vxlan => {
                add_vxlan(&a, [1, 2]);
                add_vxlan(&b, [2, 1]);
                None
            }
            Kind::Plain | Kind::Offload(_) | Kind::Fixed(_) | Kind::Sealed(_) | Kind::Hub(_) => {
                Some(start_daemons(kind, &a, &b))
            }
        };
        let system = System {
            kind,
            daemons,
            _relays: relays,
            a,
            b,
        };
        system.await_ping();
        system
    }

    /// Address of host B within the system.
    pub(crate) const fn target(&self) -> &'static str {
        match self.kind {
            Kind::Raw | Kind::RawGso => "10.1.0.2",
            Kind::Vxlan
            | Kind::Relay
            | Kind::Plain
            | Kind::Offload(_)
            | Kind::Fixed(_)
            | Kind::Sealed(_)
            | Kind::Hub(_) => "10.99.0.2",
        }
    }

    /// Whether it has something of its own to show over this wire.
    pub(crate) fn runs_over(&self, wire: Wire) -> bool {
        match self.kind {
            Kind::RawGso => wire == Wire::PerPacket,
            Kind::Relay => wire == Wire::Whole,
            Kind::Fixed(_) => wire == Wire::Whole,
            Kind::Hub(_) => wire == Wire::Whole,
            Kind::Raw | Kind::Vxlan | Kind::Plain | Kind::Offload(_) | Kind::Sealed(_) => true,
        }
    }

    /// Most memory that either daemon ever had resident, in bytes; `None` where there are none.
    pub(crate) fn peak_resident_bytes(&self) -> Option<u64> {
        let (a, b) = self.daemons.as_ref()?;
        let peak = |id: u32| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(peak(a.id())?.max(peak(b.id())?) * 1024)
    }

    /// Makes all its links treat super-packets so.
    pub(crate) fn set_wire(&self, wire: Wire) {
        let (segments, features) = match wire {
            Wire::Whole => (65_535, "tso on gso on gro off tx-udp-segmentation on"),
            Wire::PerPacket if self.kind == Kind::RawGso => (65_535, "tso off gso on gro on"),
            Wire::PerPacket => (1, "tso off gso off gro on tx-udp-segmentation off"),
        };
        for host in [&self.a, &self.b] {
            for link in 0..self.kind.links() {
                host.run(&format!("ip link set path{link} gso_max_segs {segments}"));
                host.run(&format!("ethtool -K path{link} {features}"));
            }
        }
    }

    fn await_ping(&self) {
        let target = self.target();
        net::wait_for("the first ping", std::time::Duration::from_secs(10), || {
            let ping = self.a.output(&format!("ping -q -c 1 -W 1 {target}"));
            ping.status.success().then_some(())
        });
    }
}

fn add_vxlan(host: &Namespace, [own, peer]: [u8; 2]) {
    host.run(&format!(
        "ip link add vxlan0 type vxlan id 7 local 10.1.0.{own} remote 10.1.0.{peer} dstport 4789 dev path0"
    ));
    host.run(&format!("ip addr add 10.99.0.{own}/30 dev vxlan0"));
    host.run("ip link set vxlan0 up");
}

fn start_relay(host: &Namespace, [own, peer]: [u8; 2]) -> Process {
    host.run("ip tuntap add relay0 mode tun");
    host.run(&format!("ip addr add 10.99.0.{own}/30 dev relay0"));
    host.run("ip link set relay0 mtu 1472 up");
    let (local, remote) = (format!("10.1.0.{own}:4755"), format!("10.1.0.{peer}:4755"));
    start_self(host, &["relay", "relay0", &local, &remote])
}

fn start_daemons(kind: Kind, a: &Namespace, b: &Namespace) -> (Daemon, Daemon) {
    let offload = if kind == Kind::Plain { "off" } else { "on" };
    let (more, recovery) = if matches!(kind, Kind::Fixed(_)) {
        (
            "scheduler = \"weighted\"\n",
            "[reorder]\nwindow = 1024\nmax_buffer_delay = \"50ms\"\n[recovery]\nmode = \"off\"\n",
        )
    } else {
        ("", "")
    };
    let start = |host: &Namespace, side: Side, [own, peer_end]: [u8; 2]| {
        Daemon::start(host, "mpt0", |socket| {
            let is_hub = matches!((kind, side), (Kind::Hub(_), Side::B));
            let workers = hub_workers().filter(|_| is_hub);
            let workers = workers_line(workers.as_deref());
            let mut text = format!(
                "[tunnel]\nname = \"mpt0\"\naddresses = [\"10.99.0.{own}/30\"]\noffload = \"{offload}\"\n\
                 {workers}{more}[control]\nsocket = \"{socket}\"\n{recovery}"
            );
            if matches!(kind, Kind::Sealed(_) | Kind::Hub(_)) {
                let keys = keys(side, socket);
                let of_ours = |line: &&str| !(is_hub && line.starts_with("peer_public_key"));
                keys.lines()
                    .filter(of_ours)
                    .for_each(|line| text += &format!("{line}\n"));
            }
            for path in 0..kind.links() {
                text.push_str(&format!(
                    "[[paths]]\nname = \"path{path}\"\nlocal = \"10.1.{path}.{own}\"\n"
                ));
                if !is_hub {
                    text.push_str(&format!("remote = \"10.1.{path}.{peer_end}\"\n"));
                }
            }
            if is_hub {
                text.push_str(&format!(
                    "[[peers]]\nname = \"a\"\npublic_key = \"{}\"\nallowed_ips = [\"10.99.0.{peer_end}/32\"]\n",
                    public_key(Side::A)
                ));
            }
            text
        })
    };
    (start(a, Side::A, [1, 2]), start(b, Side::B, [2, 1]))
}

/// Starts this program once more on a host, with other words.
pub(crate) fn start_self(host: &Namespace, words: &[&str]) -> Process {
    let mut command = host.command(std::env::current_exe().expect("this program's own path"));
    command.args(words);
    Process::start(words[0], &command)
}

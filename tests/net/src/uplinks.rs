//! A client with two uplinks, each behind a NAT router of its own, and a server with one address.
//!
//! ```text
//!                        router 192.168.1.1     198.51.100.10
//!             ┌─ eth0  ──────── fibre ────────────────┐
//!   client ───┤   192.168.1.10                      middle ──── 203.0.113.7  server
//!             └─ wwan0 ──────── LTE ──────────────────┘
//!                 192.168.2.10                        ports 4754 and 4755
//!                        router 192.168.2.1     192.0.2.20
//! ```
//!
//! Five namespaces, the addresses of docs/two-hosts.md. The routers masquerade by nftables and keep the
//! source port as Linux does, as long as nobody asks for others ([`Uplinks::new_ports`]). The middle is the
//! internet: it routes, and what is to be swallowed is swallowed there ([`Uplinks::swallow`]), where neither
//! end sees it. No policy routing is needed to build it: the client has two default routes.

use crate::daemon::Daemon;
use crate::namespace::Namespace;
use crate::process;
use crate::settings::{Side, keys};
use crate::shape::Shape;
use crate::topology::TUNNEL;
use crate::wait_for;
use std::fmt::Write as _;
use std::time::Duration;

use mpt_core::control::PathState;

/// The server's address.
pub const SERVER: &str = "203.0.113.7";

/// One of the client's two ways out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uplink {
    /// The path's name.
    pub path: &'static str,
    /// The client's device.
    pub device: &'static str,
    /// The network between client and router, without its last number: `192.168.1`.
    pub network: &'static str,
    /// The router's address on the internet.
    pub public: &'static str,
    /// The middle's address toward the router.
    pub(crate) gateway: &'static str,
    /// The server's port for this path.
    pub port: u16,
    /// Metric of the client's default route.
    metric: u32,
}

/// Both, the better one first.
pub const UPLINKS: [Uplink; 2] = [
    Uplink {
        path: "fibre",
        device: "eth0",
        network: "192.168.1",
        public: "198.51.100.10",
        gateway: "198.51.100.9",
        port: 4754,
        metric: 100,
    },
    Uplink {
        path: "lte",
        device: "wwan0",
        network: "192.168.2",
        public: "192.0.2.20",
        gateway: "192.0.2.17",
        port: 4755,
        metric: 200,
    },
];

/// The client's last number in both networks at the start.
const HOST: u8 = 10;

/// The five namespaces.
#[derive(Debug)]
pub struct Uplinks {
    /// The host with two uplinks.
    pub client: Namespace,
    /// The routers, in the order of [`UPLINKS`]. Devices: `lan` and `wan`.
    pub routers: [Namespace; 2],
    /// The internet. Devices: `fibre`, `lte` and `server`.
    pub middle: Namespace,
    /// The host with one address, on `eth0`.
    pub server: Namespace,
}

impl Uplinks {
    /// Both uplinks as fast as the machine.
    ///
    /// # Panics
    /// Without `ip`, `nft` and the rights to use them.
    #[must_use]
    pub fn new() -> Self {
        Self::with_shapes([&Shape::unshaped(), &Shape::unshaped()])
    }

    /// Each uplink of this shape, both directions alike, between its router and the middle.
    ///
    /// # Panics
    /// As [`Uplinks::new`].
    #[must_use]
    pub fn with_shapes(shapes: [&Shape; 2]) -> Self {
        let net = Self {
            client: Namespace::new("client"),
            routers: [Namespace::new("fibre"), Namespace::new("lte")],
            middle: Namespace::new("middle"),
            server: Namespace::new("server"),
        };
        // Answers to the worse uplink's packets come in by another way than the best one back: loose, as
        // distributions have it.
        net.client.sysctl("net.ipv4.conf.all.rp_filter", "2");
        for forwarding in [&net.routers[0], &net.routers[1], &net.middle] {
            forwarding.sysctl("net.ipv4.ip_forward", "1");
        }
        lay(
            (&net.middle, "server", "203.0.113.1/24"),
            (&net.server, "eth0", "203.0.113.7/24"),
        );
        net.server.run("ip route add default via 203.0.113.1");
        for (number, uplink) in UPLINKS.iter().enumerate() {
            let router = &net.routers[number];
            let (public, gateway) = (uplink.public, uplink.gateway);
            lay(
                (&net.middle, uplink.path, &format!("{gateway}/29")),
                (router, "wan", &format!("{public}/29")),
            );
            router.run(&format!("ip route add default via {gateway}"));
            router.run("nft add table ip nat");
            router.run("nft add chain ip nat out { type nat hook postrouting priority srcnat ; }");
            router.run("nft add chain ip nat in { type nat hook prerouting priority dstnat ; }");
            router.run("nft add rule ip nat out oifname wan masquerade");
            net.plug(number);
            net.reshape(number, shapes[number]);
        }
        net.middle.run("nft add table ip faults");
        net.middle
            .run("nft add chain ip faults forward { type filter hook forward priority filter ; }");
        net
    }

    /// Plugs the client's uplink in: a new device, its address and its default route.
    pub fn plug(&self, number: usize) {
        let Uplink {
            device, network, ..
        } = UPLINKS[number];
        lay(
            (&self.routers[number], "lan", &format!("{network}.1/24")),
            (&self.client, device, &format!("{network}.{HOST}/24")),
        );
        self.client
            .sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "2");
        self.add_default_route(number);
    }

    /// Unplugs it: the device is gone, and with it its addresses and routes.
    pub fn unplug(&self, number: usize) {
        let device = UPLINKS[number].device;
        self.client.run(&format!("ip link del {device}"));
    }

    /// Takes the uplink's address away, as when a lease ends; the routes over it go as well.
    pub fn remove_address(&self, number: usize) {
        let device = UPLINKS[number].device;
        self.client.run(&format!("ip -4 addr flush dev {device}"));
    }

    /// Gives the uplink the address that ends with `host`, and its default route again, as DHCP does.
    pub fn add_address(&self, number: usize, host: u8) {
        let Uplink {
            device, network, ..
        } = UPLINKS[number];
        self.client
            .run(&format!("ip addr add {network}.{host}/24 dev {device}"));
        self.add_default_route(number);
    }

    /// The address with which it was plugged in, again.
    pub fn return_address(&self, number: usize) {
        self.add_address(number, HOST);
    }

    /// The client's default route over this uplink.
    pub fn add_default_route(&self, number: usize) {
        let route = default_route(number);
        self.client.run(&format!("ip route add {route}"));
    }

    /// Without it.
    pub fn remove_default_route(&self, number: usize) {
        let route = default_route(number);
        self.client.run(&format!("ip route del {route}"));
    }

    /// The router forgets all mappings, and makes new ones with ports out of these 100 from `first` on: as
    /// after a reboot.
    pub fn new_ports(&self, number: usize, first: u16) {
        let router = &self.routers[number];
        let last = first.saturating_add(99);
        router.run("nft flush chain ip nat out");
        router.run(&format!(
            "nft add rule ip nat out oifname wan ip protocol udp masquerade to :{first}-{last} random"
        ));
        router.run("nft add rule ip nat out oifname wan masquerade");
        self.forget_mappings(number);
    }

    /// The router forgets all mappings. Takes a kernel that lets them be listed; the lab's does not.
    pub fn forget_mappings(&self, number: usize) {
        self.routers[number].run("conntrack -F");
    }

    /// The router forwards this UDP port to the client.
    pub fn forward_port(&self, number: usize, port: u16) {
        let network = UPLINKS[number].network;
        self.routers[number].run(&format!(
            "nft add rule ip nat in iifname wan udp dport {port} dnat to {network}.{HOST}:{port}"
        ));
    }

    /// Packets through the middle that match these words of nftables are dropped without a word:
    /// `iifname fibre`, `ip daddr 203.0.113.7 udp dport 4754`.
    pub fn swallow(&self, what: &str) {
        self.rule(&format!("{what} drop"));
    }

    /// Adds a rule to what the middle forwards.
    pub fn rule(&self, rule: &str) {
        self.middle
            .run(&format!("nft add rule ip faults forward {rule}"));
    }

    /// The middle lets everything through again.
    pub fn let_through(&self) {
        self.middle.run("nft flush chain ip faults forward");
    }

    /// Changes both directions of an uplink.
    pub fn reshape(&self, number: usize, shape: &Shape) {
        shape.apply(self.middle.name(), UPLINKS[number].path);
        shape.apply(self.routers[number].name(), "wan");
    }

    /// Starts a daemon at the server and one at the client; both answer when this returns, and their paths
    /// may not be up yet.
    #[must_use]
    pub fn start(self, files: &Files) -> Uplinked {
        let server = Daemon::start(&self.server, TUNNEL, |socket| files.toml(Side::B, socket));
        let client = Daemon::start(&self.client, TUNNEL, |socket| files.toml(Side::A, socket));
        Uplinked {
            client,
            server,
            net: self,
        }
    }

    /// The same, and waits until all paths are up at both ends.
    #[must_use]
    pub fn tunnel(self, files: &Files) -> Uplinked {
        let tunnel = self.start(files);
        tunnel.await_paths();
        tunnel
    }
}

impl Default for Uplinks {
    fn default() -> Self {
        Self::new()
    }
}

/// A tunnel between client and server. The daemons end before the hosts do.
#[derive(Debug)]
pub struct Uplinked {
    /// The daemon behind NAT.
    pub client: Daemon,
    /// The daemon with the public address.
    pub server: Daemon,
    /// The hosts.
    pub net: Uplinks,
}

impl Uplinked {
    /// Waits until every path is up at both ends.
    pub fn await_paths(&self) {
        wait_for("all paths up at both ends", Duration::from_secs(15), || {
            let up = |daemon: &Daemon| {
                let paths = daemon.status().paths;
                paths.iter().all(|path| path.state == PathState::Up)
            };
            (up(&self.client) && up(&self.server)).then_some(())
        });
    }
}

/// How the client's paths come to leave by their uplinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// `interface`: the socket is bound to the device, and follows whatever address that has.
    Interface,
    /// `local` alone: the kernel's routes decide.
    Address,
    /// Both.
    AddressAndInterface,
}

/// The configuration files of both ends.
#[derive(Debug, Clone)]
pub struct Files {
    sealed: bool,
    by: By,
    remote: String,
    tunnel: [String; 2],
    path: [String; 2],
}

impl Files {
    /// With keys; the server is told no address and learns where the client is.
    #[must_use]
    pub fn sealed() -> Self {
        Self {
            sealed: true,
            by: By::Interface,
            remote: SERVER.to_owned(),
            tunnel: Default::default(),
            path: Default::default(),
        }
    }

    /// Without keys: the server has the routers' addresses, and the ports that the client sends from. The
    /// routers must forward them ([`Uplinks::forward_port`]), or it is chance whether they keep them.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            sealed: false,
            ..Self::sealed()
        }
    }

    /// Whether there are keys.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// How the client's paths come to leave by their uplinks; [`By::Interface`] unless said otherwise.
    #[must_use]
    pub fn by(mut self, by: By) -> Self {
        self.by = by;
        self
    }

    /// The name or address by which the client knows the server.
    #[must_use]
    pub fn remote(mut self, remote: &str) -> Self {
        remote.clone_into(&mut self.remote);
        self
    }

    /// Further lines for one end's `[tunnel]`.
    #[must_use]
    pub fn tunnel(mut self, side: Side, lines: &str) -> Self {
        let _ = writeln!(self.tunnel[side as usize], "{lines}");
        self
    }

    /// Further lines for each of one end's `[[paths]]`.
    #[must_use]
    pub fn path(mut self, side: Side, lines: &str) -> Self {
        let _ = writeln!(self.path[side as usize], "{lines}");
        self
    }

    /// The file of the client ([`Side::A`]) or the server, with its control socket at `socket`. Keys are
    /// written beside that.
    ///
    /// # Panics
    /// When they cannot be written.
    #[must_use]
    pub fn toml(&self, side: Side, socket: &str) -> String {
        let mut text = format!(
            "[tunnel]\nname = \"{TUNNEL}\"\naddresses = [\"{}/30\", \"{}/64\"]\n{}",
            side.inner_v4(),
            side.inner_v6(),
            self.tunnel[side as usize]
        );
        if self.sealed {
            text += &keys(side, socket);
        }
        let _ = write!(text, "\n[control]\nsocket = \"{socket}\"\n");
        for uplink in UPLINKS {
            let ends = match side {
                Side::A => self.client_ends(&uplink),
                Side::B => self.server_ends(&uplink),
            };
            let (name, lines) = (uplink.path, &self.path[side as usize]);
            let _ = write!(text, "\n[[paths]]\nname = \"{name}\"\n{ends}{lines}");
        }
        text
    }

    fn client_ends(&self, uplink: &Uplink) -> String {
        let Uplink {
            device,
            network,
            port,
            ..
        } = uplink;
        let address = format!("local = \"{network}.{HOST}\"\n");
        let interface = format!("interface = \"{device}\"\n");
        let from = match self.by {
            By::Interface => interface,
            By::Address => address,
            By::AddressAndInterface => address + &interface,
        };
        format!("{from}remote = \"{}:{port}\"\n", self.remote)
    }

    fn server_ends(&self, uplink: &Uplink) -> String {
        let Uplink { public, port, .. } = uplink;
        let local = format!("local = \"{SERVER}:{port}\"\n");
        if self.sealed {
            local
        } else {
            format!("{local}remote = \"{public}:4754\"\n")
        }
    }
}

fn default_route(number: usize) -> String {
    let Uplink {
        device,
        network,
        metric,
        ..
    } = UPLINKS[number];
    format!("default via {network}.1 dev {device} metric {metric}")
}

/// Lays a link between two devices, each given with its host and address, and sets both up.
fn lay(one: (&Namespace, &str, &str), other: (&Namespace, &str, &str)) {
    let (host, device, _) = one;
    let (peer, its, _) = (other.0.name(), other.1, ());
    host.run(&format!(
        "ip link add {device} type veth peer name {its} netns {peer}"
    ));
    for (host, device, address) in [one, other] {
        // As in link.rs: packets of the link's MTU, with checksums that are done.
        host.run(&format!(
            "ethtool -K {device} tso off gso off gro off tx off"
        ));
        host.run(&format!("ip addr add {address} dev {device}"));
        host.run(&format!("ip link set {device} up"));
    }
}

/// Whether this kernel has NAT by nftables; without, tests over [`Uplinks`] are to be skipped.
#[must_use]
pub fn has_nat() -> bool {
    let host = Namespace::new("nat");
    let line = "nft add table ip nat ; add chain ip nat out { type nat hook postrouting priority srcnat ; } ; \
                add rule ip nat out oifname lo masquerade";
    process::output(&mut host.words(line)).status.success()
}

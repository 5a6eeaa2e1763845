//! A link between two hosts: a veth pair, each direction with a [`Shape`] of its own.
//!
//! Where netem stands makes a difference. *Far*, behind the wire, on what the receiving host takes in
//! (an `ifb` device), packets come one by one, as at the modem or the router that is the bottleneck of
//! a real link, and the sender learns of a drop only by what does not arrive. So links are made, where
//! nothing else is said. *Near*, on the egress of the sending host, the sender's kernel tells the
//! sender at once when the queue is full, and a train that the tunnel hands over whole (`UDP_SEGMENT`)
//! is one packet to netem: queued, dropped and counted as one, it arrives at one moment.

use crate::namespace::Namespace;
use crate::process;
use crate::shape::Shape;

/// Address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Length of its header, in bytes.
    #[must_use]
    pub fn header_bytes(self) -> f64 {
        match self {
            Self::V4 => 20.0,
            Self::V6 => 40.0,
        }
    }
}

/// Where a link's netem stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// On the egress of the host that sends, which passes trains on whole.
    Near,
    /// On the ingress of the host that receives, packet by packet.
    #[default]
    Far,
}

/// One veth pair between hosts A and B, named `path<index>` at both ends.
#[derive(Debug)]
pub struct Link {
    /// Name of the device, at both ends.
    pub device: String,
    /// Family of its addresses.
    pub family: Family,
    /// Address of A's end.
    pub address_a: String,
    /// Address of B's end.
    pub address_b: String,
    /// Shape of the direction from A to B.
    pub shape: Shape,
    place: Place,
    hosts: [String; 2],
}

impl Link {
    /// Lays link number `index` between two hosts, with addresses of its own and both directions
    /// shaped alike.
    #[must_use]
    pub fn lay(a: &Namespace, b: &Namespace, index: usize, family: Family, shape: &Shape) -> Self {
        Self::lay_with(a, b, index, family, [shape, shape], Place::default())
    }

    /// Lays a link whose direction from A to B has the first shape and the other the second.
    ///
    /// A link without any shape gets no device for one. In a kernel without `ifb`, which may still limit
    /// a rate, its shape stands at [`Place::Near`].
    #[must_use]
    pub fn lay_with(
        a: &Namespace,
        b: &Namespace,
        index: usize,
        family: Family,
        shapes: [&Shape; 2],
        place: Place,
    ) -> Self {
        let device = format!("path{index}");
        let (address_a, address_b, prefix) = match family {
            Family::V4 => (format!("10.1.{index}.1"), format!("10.1.{index}.2"), 30),
            Family::V6 => (
                format!("fd00:1:{index}::1"),
                format!("fd00:1:{index}::2"),
                64,
            ),
        };
        let peer = b.name();
        a.run(&format!(
            "ip link add {device} type veth peer name {device} netns {peer}"
        ));
        for (host, address) in [(a, &address_a), (b, &address_b)] {
            // A real link carries packets of its MTU, not super-packets of 64 KiB, and checksums that
            // are done: veth would pass on half-done ones, to a capture or inside a tunnel, too.
            host.run(&format!(
                "ethtool -K {device} tso off gso off gro off tx off"
            ));
            let dad = if family == Family::V6 { "nodad" } else { "" };
            host.run(&format!(
                "ip addr add {address}/{prefix} dev {device} {dad}"
            ));
            host.run(&format!("ip link set {device} up"));
        }
        let is_shaped = shapes.iter().any(|shape| **shape != Shape::unshaped());
        let is_far = place == Place::Far
            && is_shaped
            && [a, b].map(|host| take_in_through_ifb(host, &device)) == [true; 2];
        let place = if is_far { Place::Far } else { Place::Near };
        let link = Self {
            device,
            family,
            address_a,
            address_b,
            shape: shapes[0].clone(),
            place,
            hosts: [a.name().to_owned(), b.name().to_owned()],
        };
        link.reshape(a, shapes[0]);
        link.reshape(b, shapes[1]);
        link
    }

    /// Changes what happens to packets that leave `host` on this link.
    pub fn reshape(&self, host: &Namespace, shape: &Shape) {
        let (name, device) = self.bottleneck(host);
        shape.apply(name, &device);
    }

    /// Packets that this link has taken and dropped on the way from `host`, for whatever reason.
    #[must_use]
    pub fn counters(&self, host: &Namespace) -> Counters {
        let (name, device) = self.bottleneck(host);
        let mut tc = Namespace::command_in(name, "tc");
        let text = process::run(tc.args(["-s", "qdisc", "show", "dev", &device, "root"]));
        Counters::read(&text).unwrap_or_default()
    }

    /// Namespace and device of the netem that what leaves `host` goes through.
    fn bottleneck<'a>(&'a self, host: &'a Namespace) -> (&'a str, String) {
        match self.place {
            Place::Near => (host.name(), self.device.clone()),
            Place::Far => {
                let other = usize::from(self.hosts[0] == host.name());
                (&self.hosts[other], ifb(&self.device))
            }
        }
    }

    /// Sets the device of `host` down: the other end loses its carrier.
    pub fn down(&self, host: &Namespace) {
        host.run(&format!("ip link set {} down", self.device));
    }

    /// Sets the device of `host` up again.
    pub fn up(&self, host: &Namespace) {
        host.run(&format!("ip link set {} up", self.device));
    }
}

/// What a link's queueing discipline has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that left it.
    pub sent_packets: u64,
    /// Their bytes, Ethernet headers included.
    pub sent_bytes: u64,
    /// Packets dropped, by loss or by a full queue. At [`Place::Near`] a train counts as one.
    pub dropped: u64,
}

impl Counters {
    /// Reads `Sent 303816 bytes 210 pkt (dropped 3, overlimits 0 requeues 0)`.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split("Sent ").nth(1)?.split_whitespace();
        let mut number = |skip: usize| -> Option<u64> {
            words.nth(skip)?.trim_matches([',', '(', ')']).parse().ok()
        };
        Some(Self {
            sent_bytes: number(0)?,
            sent_packets: number(1)?,
            dropped: number(2)?,
        })
    }
}

/// The device that what `device` takes in is led through, once it is
/// ([`take_in_through_ifb`]).
#[must_use]
pub fn ifb(device: &str) -> String {
    format!("in-{device}")
}

/// Leads everything that `device` of `host` takes in through a device of its own, [`ifb`], which can
/// have a queue. False in a kernel without such devices, or without what leads packets there; all is
/// as it was then.
pub fn take_in_through_ifb(host: &Namespace, device: &str) -> bool {
    let through = ifb(device);
    let succeeds = |line: &str| host.output(line).status.success();
    if !succeeds(&format!("ip link add name {through} type ifb")) {
        return false;
    }
    let is_led = [
        format!("ip link set {through} up"),
        format!("tc qdisc add dev {device} handle ffff: ingress"),
        format!(
            "tc filter add dev {device} parent ffff: matchall \
             action mirred egress redirect dev {through}"
        ),
    ]
    .iter()
    .all(|line| succeeds(line));
    if !is_led {
        succeeds(&format!("tc qdisc del dev {device} ingress"));
        succeeds(&format!("ip link del {through}"));
    }
    is_led
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tc_counted() {
        let text = "qdisc netem 8001: root refcnt 2 limit 1000 rate 50Mbit\n \
            Sent 303816 bytes 210 pkt (dropped 3, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n";
        let counters = Counters::read(text).unwrap();
        assert_eq!(
            (counters.sent_bytes, counters.sent_packets, counters.dropped),
            (303_816, 210, 3)
        );
    }
}

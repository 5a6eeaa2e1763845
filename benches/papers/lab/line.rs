//! One path from A to B: a rate with a drop-tail queue, then a delay that may reorder.
//!
//! netem with a rate keeps packets in order whatever the jitter, so that it takes two of them. The
//! rate is on A's egress, which is no harm where nothing sends trains: [`Line::tunnel`] does not, nor does
//! a TCP whose device cuts nothing for it. The delay is behind the wire.

use net::link::{ifb, take_in_through_ifb};
use net::traffic::ping;
use net::{Hosts, Settings, Shape, Tunnel};

/// Two hosts with one path between them.
#[derive(Debug)]
pub struct Line {
    /// The hosts; the link's shape is the rate from A to B.
    pub hosts: Hosts,
}

impl Line {
    /// A path from A to B of this rate (A's egress) and then these words of netem's ("delay 100ms
    /// 1ms distribution normal"); from B to A it delays by `back` netem words alone.
    ///
    /// # Panics
    /// Where there is no netem.
    #[must_use]
    pub fn new(rate: &Shape, delay: &str, back: &Shape) -> Self {
        let directions = [[rate.clone(), back.clone()]];
        let hosts = Hosts::with_directions(&directions, net::Place::Near);
        let is_led = take_in_through_ifb(&hosts.b, &hosts.links[0].device);
        assert!(is_led, "no ifb devices in this kernel");
        let delayed = Self::delayed(&hosts);
        hosts.b.run(&format!(
            "tc qdisc add dev {delayed} root netem limit 5000 {delay}"
        ));
        // Until they know each other's addresses, hosts queue a few packets and drop the others.
        let _ = ping(&hosts.a, &hosts.links[0].address_b, 1, 100, "");
        Self { hosts }
    }

    /// A tunnel over this path alone, with a reorder window of so many packets and a longest hold.
    ///
    /// It sends packet by packet: netem takes a train for one packet, and would let all of it go at
    /// once into the jitter, which no link does.
    #[must_use]
    pub fn tunnel(self, window: u32, max_buffer_delay_ms: u32) -> Tunnel {
        let settings = Settings::new()
            .tunnel("scheduler = \"weighted\"\noffload = \"off\"")
            .reorder(window, max_buffer_delay_ms);
        self.hosts.tunnel(&settings)
    }

    /// B's device on which the delay is.
    pub(crate) fn delayed(hosts: &Hosts) -> String {
        ifb(&hosts.links[0].device)
    }

    /// Packets dropped by the queue before the rate.
    #[must_use]
    pub fn queue_drops(hosts: &Hosts) -> u64 {
        hosts.links[0].counters(&hosts.a).dropped
    }
}

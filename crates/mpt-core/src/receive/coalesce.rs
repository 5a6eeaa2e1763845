//! Consecutive packets of a flow into super-packets: what [`crate::send::segment`] does, undone.
//!
//! A write to the TUN costs the same for one segment as for forty, and the host's TCP handles a
//! super-packet as one. So the packets of a batch that follow each other in a flow are joined under one
//! header, with a virtio header that says how to cut them again. Whoever cuts them, the host's
//! kernel or a router behind it, gets the packets that came: that is the rule all others follow from.
//!
//! - Joined are TCP segments and UDP datagrams with payload, without IP options, extension headers or
//!   fragmentation. Addresses, ports, TOS, TTL, DF, flow label, acknowledgment, window and TCP options must
//!   be equal byte by byte, the sequence number must be the next, and the IPv4 identification too unless
//!   DF makes it meaningless (RFC 6864 §4.1). Different ECN fields are different TOS: CE survives.
//! - TCP flags are ACK, or ACK and PSH; PSH ends the super-packet, as it does when the kernel cuts it.
//! - All payloads are equally long but the last, which may be shorter and ends the super-packet.
//! - At most 65,535 bytes and [`MAX_SEGMENTS`] packets.
//! - The super-packet's checksum is a new one (`NEEDS_CSUM`), so each packet's own is verified before.
//!   One that is wrong passes alone and untouched: its receiver must see that it is.
//! - Within a flow nothing overtakes: a packet that cannot be joined first sends off what its flow has
//!   held. Nothing is held beyond [`Coalescer::flush`] at the end of the batch.

mod arrival;
mod flow;

use crate::wire::vnet::VnetHeader;
use arrival::{Arrival, Joinable, Key, MAX_LEN};
use flow::{Append, Flow};

/// How many flows are joined at a time. The one opened first makes room for another.
pub const MAX_FLOWS: usize = 16;

/// How many packets a super-packet holds: Linux accepts no more from a UDP one (`UDP_MAX_SEGMENTS`).
pub const MAX_SEGMENTS: usize = 64;

/// Linux refuses to cut TCP finer than this many bytes (`TCP_MIN_GSO_SIZE`).
const MIN_TCP_SIZE: usize = 8;

/// Which super-packets the TUN takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// TCP over IPv4 (`TUN_F_TSO4`).
    pub tcp4: bool,
    /// TCP over IPv6 (`TUN_F_TSO6`).
    pub tcp6: bool,
    /// UDP over either (`TUN_F_USO4`, `TUN_F_USO6`).
    pub udp: bool,
}

impl Accepts {
    /// Every kind.
    pub const ALL: Self = Self {
        tcp4: true,
        tcp6: true,
        udp: true,
    };
    /// No kind: every packet passes as it is.
    pub const NONE: Self = Self {
        tcp4: false,
        tcp6: false,
        udp: false,
    };
}

/// Joins the packets of one batch after the other. Holds a buffer of 64 KiB for each flow that was ever joined at the
/// same time as others, [`MAX_FLOWS`] at most.
#[derive(Debug)]
pub struct Coalescer {
    accepts: Accepts,
    /// All flows, open or not.
    flows: Vec<Flow>,
    /// Key and index of the open ones, in the order in which they were opened.
    open: Vec<(Key, usize)>,
    /// Indices of the others; the one used last is used next, while the cache still has it.
    free: Vec<usize>,
}

impl Coalescer {
    /// Joins what `accepts` allows.
    #[must_use]
    pub fn new(accepts: Accepts) -> Self {
        Self {
            accepts,
            flows: Vec::new(),
            open: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Joins what `accepts` allows from now on. Call it when nothing is held.
    pub fn set_accepts(&mut self, accepts: Accepts) {
        debug_assert!(self.is_empty(), "a super-packet is being joined");
        self.accepts = accepts;
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Bytes of memory that the buffers take.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.flows.len() * MAX_LEN
    }

    /// Gives the buffers back. Call it when nothing is held.
    pub(crate) fn rest(&mut self) {
        debug_assert!(self.is_empty(), "a super-packet is being joined");
        (self.flows, self.free) = Default::default();
    }

    /// Takes a packet in; `out` gets what is ready, which may be nothing, this packet, or packets
    /// before it and this one.
    #[inline]
    pub fn push(&mut self, packet: &[u8], out: &mut impl FnMut(&VnetHeader, &[u8])) {
        match Arrival::of(packet, self.accepts) {
            Arrival::Joinable(joinable) => {
                if !self.join(&joinable, out) {
                    pass(packet, out);
                }
            }
            Arrival::Alone(key) => {
                self.send_off_where(out, |open| *open == key);
                pass(packet, out);
            }
            Arrival::PortsUnknown(hosts) => {
                self.send_off_where(out, |open| open.hosts() == hosts);
                pass(packet, out);
            }
            Arrival::NoFlow => pass(packet, out),
        }
    }

    /// Ends the batch: `out` gets all that is held, in the order in which the flows were opened.
    pub fn flush(&mut self, out: &mut impl FnMut(&VnetHeader, &[u8])) {
        self.send_off_where(out, |_| true);
    }

    /// Whether the packet has been taken in; if not, its flow holds nothing and it is to pass alone.
    #[inline]
    fn join(&mut self, packet: &Joinable<'_>, out: &mut impl FnMut(&VnetHeader, &[u8])) -> bool {
        let found = self.open.iter().position(|(key, _)| *key == packet.key);
        if let Some(at) = found {
            match self.flows[self.open[at].1].append(packet) {
                Append::Open => return true,
                Append::Ended => {
                    self.send_off(at, out);
                    return true;
                }
                Append::Refused => self.send_off(at, out),
                Append::Corrupt => {
                    self.send_off(at, out);
                    return false;
                }
            }
        }
        packet.may_be_followed() && self.start(packet, out)
    }

    /// Opens a flow with its first packet, unless that is corrupt.
    fn start(&mut self, packet: &Joinable<'_>, out: &mut impl FnMut(&VnetHeader, &[u8])) -> bool {
        if self.free.is_empty() && self.flows.len() < MAX_FLOWS {
            self.free.push(self.flows.len());
            self.flows.push(Flow::new());
        } else if self.free.is_empty() {
            self.send_off(0, out);
        }
        let Some(slot) = self.free.pop() else {
            return false; // Not reached: every slot is either open or free.
        };
        if self.flows[slot].open(packet) {
            self.open.push((packet.key, slot));
            true
        } else {
            self.free.push(slot);
            false
        }
    }

    /// Sends off the flow at this place of the opening order.
    fn send_off(&mut self, at: usize, out: &mut impl FnMut(&VnetHeader, &[u8])) {
        let (_, slot) = self.open.remove(at);
        self.free.push(slot);
        let (header, packet) = self.flows[slot].finish();
        out(&header, packet);
    }

    fn send_off_where(
        &mut self,
        out: &mut impl FnMut(&VnetHeader, &[u8]),
        chosen: impl Fn(&Key) -> bool,
    ) {
        let mut at = 0;
        while let Some((key, _)) = self.open.get(at) {
            if chosen(key) {
                self.send_off(at, out);
            } else {
                at += 1;
            }
        }
    }
}

/// A packet that goes as it came, with a virtio header that says nothing of it.
fn pass(packet: &[u8], out: &mut impl FnMut(&VnetHeader, &[u8])) {
    out(&VnetHeader::default(), packet);
}

#[cfg(test)]
mod tests;

//! What leaves for the TUN: it is let through or dropped, joined with its neighbours, and counted.

use crate::control::drops::{DropReason, Drops};
use crate::hub::{RateLimit, Sources};
use crate::receive::coalesce::{Accepts, Coalescer};
use crate::receive::refusals::Refusals;
use crate::time::Time;
use crate::wire::vnet::VnetHeader;

/// See the module.
pub(super) struct Delivery {
    /// In a hub: which inner packets the peer may send.
    sources: Option<Sources>,
    /// What more comes is dropped.
    limit: Option<RateLimit>,
    coalescer: Coalescer,
    refusals: Refusals,
    packets: u64,
    bytes: u64,
}

impl Delivery {
    pub(super) fn new(accepts: Accepts) -> Delivery {
        Delivery {
            sources: None,
            limit: None,
            coalescer: Coalescer::new(accepts),
            refusals: Refusals::default(),
            packets: 0,
            bytes: 0,
        }
    }

    /// From now on the TUN takes these super-packets.
    pub(super) fn set_accepts(&mut self, accepts: Accepts) {
        self.coalescer.set_accepts(accepts);
        self.refusals = Refusals::default();
    }

    /// From now on only what these allow is let through.
    pub(super) fn set_sources(&mut self, sources: Sources) {
        self.sources = Some(sources);
    }

    /// More than so many bits a second are dropped from now on.
    pub(super) fn set_rate_limit(&mut self, now: Time, bits_per_second: Option<u64>) {
        RateLimit::set(&mut self.limit, now, bits_per_second);
    }

    /// Time has passed for the limit.
    #[inline]
    pub(super) fn fill_limit(&mut self, now: Time) {
        if let Some(limit) = &mut self.limit {
            limit.fill(now);
        }
    }

    /// Takes the next packet. `write` says whether the TUN took what it was given. Afterwards, behind the last packet,
    /// [`Delivery::finish`].
    ///
    /// # Errors
    /// Why it is not let through.
    #[inline]
    pub(super) fn push(
        &mut self,
        packet: &[u8],
        write: &mut impl FnMut(&VnetHeader, &[u8]) -> bool,
    ) -> Result<(), DropReason> {
        if let Some(sources) = &self.sources
            && !sources.allow(packet)
        {
            return Err(DropReason::NotAllowed);
        }
        if let Some(limit) = &mut self.limit
            && !limit.take(packet.len() as u64)
        {
            return Err(DropReason::RateLimit);
        }
        self.packets += 1;
        self.bytes += packet.len() as u64;
        let refusals = &mut self.refusals;
        self.coalescer.push(packet, &mut |header, packet| {
            refusals.write(header, packet, write)
        });
        Ok(())
    }

    /// Writes what waits for more to be joined with, and counts in `drops` what the TUN refused.
    pub(super) fn finish(
        &mut self,
        drops: &mut Drops,
        write: &mut impl FnMut(&VnetHeader, &[u8]) -> bool,
    ) {
        let refusals = &mut self.refusals;
        self.coalescer
            .flush(&mut |header, packet| refusals.write(header, packet, write));
        let (refused, refused_bytes) = self.refusals.take();
        self.packets -= refused;
        self.bytes = self.bytes.saturating_sub(refused_bytes);
        drops.count(DropReason::TunWrite, refused);
    }

    /// Whether the TUN refuses super-packets of kinds that it was to take.
    pub(super) fn refuses_joined(&self) -> bool {
        self.refusals.are_for_joining()
    }

    /// Packets and inner bytes that the TUN took, since start.
    pub(super) fn delivered(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Bytes of memory that it takes.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.coalescer.memory()
    }

    /// Nothing comes: gives memory back, unless a packet waits.
    pub(super) fn rest(&mut self) {
        if self.coalescer.is_empty() {
            self.coalescer.rest();
        }
    }
}

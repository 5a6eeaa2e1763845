//! What does not fit: it is cut, or its sender is told.

use super::Outbound;
use crate::control::drops::DropReason;
use crate::send::scheduler::Policy;
use crate::send::segment::Segments;
use crate::time::Time;
use crate::wire::ip::{Packet, Version};
use crate::wire::vnet::{Gso, VnetHeader};
use crate::wire::{fragment, icmp};

impl Outbound {
    /// RFC 7588 §4.1: fragment the inner packet where that is allowed, else tell its sender. Of a
    /// super-packet whose datagrams must not be cut finer, each datagram by itself.
    pub(super) fn handle_too_big(
        &mut self,
        now: Time,
        header: &VnetHeader,
        packet: &mut [u8],
        mtu: u16,
    ) {
        if header.gso == Gso::None {
            match header.complete_checksum(packet) {
                Ok(()) => self.handle_too_big_packet(now, packet, mtu),
                Err(_) => self.drops.count(DropReason::BadOffload, 1),
            }
            return;
        }
        let Ok(mut datagrams) = Segments::new(header, packet, usize::MAX) else {
            self.drops.count(DropReason::BadOffload, 1);
            return;
        };
        let mut datagram = vec![0; datagrams.segment_len(0)];
        while datagrams.remaining() > 0 {
            let len = datagrams.write_next(&mut datagram);
            // The last one may be shorter.
            match Segments::new(&VnetHeader::default(), &datagram[..len], usize::from(mtu)) {
                Ok(fits) => self.stripe(now, fits),
                Err(_) => self.handle_too_big_packet(now, &datagram[..len], mtu),
            }
        }
    }

    fn handle_too_big_packet(&mut self, now: Time, packet: &[u8], mtu: u16) {
        let Ok(packet) = Packet::parse(packet) else {
            self.drops.count(DropReason::NotIp, 1);
            return;
        };
        if packet.version() == Version::V4 && !packet.dont_fragment() {
            let mut bytes = vec![0; fragment::longest(&packet, mtu.into())];
            let fragmented = fragment::fragment(&packet, mtu.into(), |header, payload| {
                let fragment = &mut bytes[..header.len() + payload.len()];
                fragment[..header.len()].copy_from_slice(header);
                fragment[header.len()..].copy_from_slice(payload);
                self.send_fragment(now, &packet, fragment);
            });
            if fragmented.is_err() {
                self.drops.count(DropReason::TooBig, 1);
            }
            return;
        }
        self.drops.count(DropReason::TooBig, 1);
        let too_big = |message: &mut [u8]| icmp::too_big(&packet, mtu, None, message);
        self.icmp_errors.push(now, too_big);
    }

    /// Sends a fragment of `packet`, as any packet unless it goes elsewhere by the ports, which `packet` alone shows.
    fn send_fragment(&mut self, now: Time, packet: &Packet<'_>, fragment: &[u8]) {
        let Ok(segments) = Segments::new(&VnetHeader::default(), fragment, usize::MAX) else {
            return self.drops.count(DropReason::NotIp, 1);
        };
        let usable = self.shared.usable();
        let by_ports = match self.scheduler.policy() {
            Policy::Redundant | Policy::Weighted | Policy::Backup => None,
            Policy::Flow => Some(usable),
            Policy::Adaptive => {
                let allowed = self.sender.allowed(packet, usable);
                let by_itself = self.sender.allowed(&segments.packet(), usable);
                (allowed != by_itself).then_some(allowed)
            }
        };
        match by_ports {
            Some(paths) => self.share(now, paths, packet, segments),
            None => self.stripe(now, segments),
        }
    }
}

//! What the TUN refuses: the packets of a super-packet are written one by one then.
//!
//! Linux 6.6.44 and those made of the same patches in summer 2024 answer `EINVAL` to a super-packet that ends in a short
//! segment, as most bursts do, and some kernels of devices to any. It would be sent again, joined again and refused again.

use crate::send::segment::Segments;
use crate::wire::vnet::{Gso, VnetHeader};

/// Super-packets whose packets were taken one by one, after which no more are to be made: each costs a system call more
/// than its packets do. One may be an accident, so many are the kernel.
const MOST_JOINED: u32 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    packets: u64,
    bytes: u64,
    /// Super-packets that were refused although their packets were taken.
    joined: u32,
    segment: Vec<u8>,
}

impl Refusals {
    /// Has `write` write it, in one piece or else packet by packet; counts the packets that it does not take either way.
    pub(crate) fn write(
        &mut self,
        header: &VnetHeader,
        packet: &[u8],
        write: &mut impl FnMut(&VnetHeader, &[u8]) -> bool,
    ) {
        if write(header, packet) {
            return;
        }
        let segments = Segments::new(header, packet, usize::MAX);
        let Some(mut segments) = segments.ok().filter(|_| header.gso != Gso::None) else {
            self.packets += header.packets(packet.len());
            self.bytes += packet.len() as u64;
            return;
        };
        self.segment.resize(segments.segment_len(0), 0);
        while segments.remaining() > 0 {
            let (packets, bytes) = (segments.remaining(), segments.remaining_bytes());
            let len = segments.write_next(&mut self.segment);
            if !write(&VnetHeader::default(), &self.segment[..len]) {
                // It is not for being joined, and the rest will do no better.
                self.packets += packets as u64;
                self.bytes += bytes as u64;
                return;
            }
        }
        self.joined += 1;
    }

    /// Packets that were not taken, and their bytes, since this was asked last.
    pub(crate) fn take(&mut self) -> (u64, u64) {
        (
            std::mem::take(&mut self.packets),
            std::mem::take(&mut self.bytes),
        )
    }

    /// Whether packets are better not joined.
    pub(crate) fn are_for_joining(&self) -> bool {
        self.joined >= MOST_JOINED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ip::Version;
    use crate::wire::sample::Sample;

    fn joined() -> (VnetHeader, Vec<u8>) {
        Sample::tcp(Version::V4, &[7; 2500]).super_packet(1000)
    }

    #[test]
    fn a_super_packet_that_is_refused_is_written_packet_by_packet() {
        let (mut refusals, mut taken) = (Refusals::default(), Vec::new());
        let (header, packet) = joined();
        for times in 0..MOST_JOINED {
            assert!(!refusals.are_for_joining(), "{times}");
            taken.clear();
            refusals.write(&header, &packet, &mut |header, packet| {
                let is_taken = header.gso == Gso::None;
                if is_taken {
                    taken.push(packet.to_vec());
                }
                is_taken
            });
        }
        let parts = Sample::tcp(Version::V4, &[7; 2500]).cut(1000);
        assert_eq!(taken, parts.iter().map(Sample::bytes).collect::<Vec<_>>());
        assert!(refusals.are_for_joining());
        assert_eq!(refusals.take(), (0, 0));
    }

    #[test]
    fn what_is_not_refused_for_being_joined_is_counted_and_tried_no_further() {
        let (mut refusals, mut written) = (Refusals::default(), 0);
        let (header, packet) = joined();
        // The interface goes down after the first packet.
        for _ in 0..=MOST_JOINED {
            let mut room = 1;
            refusals.write(&header, &packet, &mut |header, packet| {
                let is_taken = header.gso == Gso::None && room > 0;
                if is_taken {
                    (room, written) = (room - 1, written + packet.len());
                }
                is_taken
            });
        }
        let times = u64::from(MOST_JOINED) + 1;
        let lens = Sample::tcp(Version::V4, &[7; 2500]).cut(1000);
        let all: usize = lens.iter().map(|one| one.bytes().len()).sum();
        let (packets, bytes) = refusals.take();
        assert_eq!(packets, 2 * times);
        assert_eq!(bytes + written as u64, all as u64 * times);
        assert!(!refusals.are_for_joining());
        refusals.write(&VnetHeader::default(), &[0x45; 20], &mut |_, _| false);
        assert_eq!(refusals.take(), (1, 20));
    }
}

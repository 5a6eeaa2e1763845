//! Receive buffers. Datagrams are received into one, many at a time where the kernel hands over
//! whole trains (`UDP_GRO`), and what the reorder window holds are descriptors into it, not copies.
//! A buffer is free again when nothing points into it.
//!
//! The pool grows as it is needed, up to a limit. Where a buffer takes a train, a single packet that
//! is held can keep 64 KiB; so before the pool runs short, what is held is moved together
//! (`Packer`), and memory stays within twice the window's packets and some buffers for what is in
//! hand, whatever arrives.

use std::num::NonZeroU32;
use std::ops::Range;

use crate::receive::order::Number;

/// A receive buffer that is in the caller's hands.
#[derive(Debug)]
pub struct Buffer {
    id: u32,
    bytes: Box<[u8]>,
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// A packet within a buffer of the pool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stored {
    pub(crate) buffer: u32,
    pub(crate) start: u16,
    pub(crate) len: u16,
    /// Its sequence number, if it has one.
    pub(crate) number: Option<Number>,
    /// How many numbers behind it the next packet of its TCP connection is held, if one is.
    pub(crate) behind: Option<NonZeroU32>,
}

/// In place of a buffer: the packet has left already.
const LEFT: u32 = u32::MAX;

impl Stored {
    /// What stays in the window of a packet that leaves before its turn.
    pub(crate) fn left(self) -> Stored {
        Stored {
            buffer: LEFT,
            ..self
        }
    }

    /// Whether the packet has left before its turn.
    #[inline]
    pub(crate) fn has_left(&self) -> bool {
        self.buffer == LEFT
    }
}

#[derive(Debug)]
struct Slot {
    /// `None` while the buffer is in the caller's hands.
    bytes: Option<Box<[u8]>>,
    /// How many packets point into it; one more while it is being looked at.
    users: u32,
}

/// What a buffer takes beside its bytes: 24 and 4 bytes here, and 16 of the allocator, rounded up.
const BESIDE_BYTES: usize = 48;

/// The buffers of one tunnel.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bytes of all buffers.
    memory: usize,
    buffer_bytes: usize,
    limit: usize,
}

impl Pool {
    /// A pool of at most `limit` buffers of `buffer_bytes` bytes, at most 64 KiB.
    pub(crate) fn new(buffer_bytes: usize, limit: usize) -> Pool {
        Pool {
            slots: Vec::new(),
            free: Vec::new(),
            memory: 0,
            buffer_bytes,
            limit,
        }
    }

    /// Sets the limit, and the size of buffers that are taken from now on.
    pub(crate) fn resize(&mut self, buffer_bytes: usize, limit: usize) {
        self.buffer_bytes = buffer_bytes;
        self.limit = limit;
    }

    /// Gives the memory of buffers back that are free.
    pub(crate) fn rest(&mut self) {
        for id in &self.free {
            let bytes = self.slots[*id as usize].bytes.replace(Box::default());
            self.memory -= bytes.map_or(0, |bytes| bytes.len());
        }
    }

    /// Bytes of memory that all buffers take.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.memory + self.slots.len() * BESIDE_BYTES
    }

    /// Gives the memory of buffers back that are free, if more than `to` bytes are taken.
    pub(crate) fn trim(&mut self, to: usize) {
        if self.memory() > to {
            self.rest();
            if self.free.len() == self.slots.len() {
                (self.slots, self.free) = Default::default();
            }
        }
    }

    /// How many more buffers can be taken.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.limit.saturating_sub(self.slots.len())
    }

    /// A free buffer; `None` when the limit is reached.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        if let Some(id) = self.free.pop() {
            let mut bytes = self.slots[id as usize].bytes.take()?;
            if bytes.len() != self.buffer_bytes {
                self.memory = self.memory - bytes.len() + self.buffer_bytes;
                bytes = vec![0; self.buffer_bytes].into_boxed_slice();
            }
            return Some(Buffer { id, bytes });
        }
        if self.slots.len() >= self.limit {
            return None;
        }
        let id = u32::try_from(self.slots.len()).ok()?;
        self.memory += self.buffer_bytes;
        self.slots.push(Slot {
            bytes: None,
            users: 0,
        });
        Some(Buffer {
            id,
            bytes: vec![0; self.buffer_bytes].into_boxed_slice(),
        })
    }

    /// Takes a buffer back, to be looked at. It stays until [`Pool::release`].
    pub(crate) fn keep(&mut self, buffer: Buffer) -> u32 {
        let slot = &mut self.slots[buffer.id as usize];
        slot.bytes = Some(buffer.bytes);
        slot.users = 1;
        buffer.id
    }

    /// A packet's bytes, to be changed.
    pub(crate) fn packet_mut(&mut self, packet: Stored) -> &mut [u8] {
        let start = usize::from(packet.start);
        &mut self.bytes_mut(packet.buffer)[start..start + usize::from(packet.len)]
    }

    /// One more points into this buffer.
    #[inline]
    pub(crate) fn retain(&mut self, id: u32) {
        self.slots[id as usize].users += 1;
    }

    /// One less does; the last one makes it free.
    #[inline]
    pub(crate) fn release(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.users -= 1;
        if slot.users == 0 {
            self.free.push(id);
        }
    }

    /// The bytes of a packet.
    #[inline]
    pub(crate) fn bytes(&self, packet: Stored) -> &[u8] {
        let start = usize::from(packet.start);
        let bytes = self.slots[packet.buffer as usize].bytes.as_deref();
        bytes.map_or(&[], |bytes| &bytes[start..start + usize::from(packet.len)])
    }

    /// Some bytes of a buffer that is kept.
    #[inline]
    pub(crate) fn part(&self, id: u32, place: Range<usize>) -> &[u8] {
        let bytes = self.slots[id as usize].bytes.as_deref();
        bytes.map_or(&[], |bytes| &bytes[place])
    }

    /// All bytes of a buffer that is kept.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, id: u32) -> &mut [u8] {
        self.slots[id as usize]
            .bytes
            .as_deref_mut()
            .unwrap_or_default()
    }
}

/// Moves packets out of sparsely used buffers into full ones.
#[derive(Debug)]
pub(crate) struct Packer<'a> {
    pool: &'a mut Pool,
    /// The buffer being filled, its fill in bytes and the packets in it.
    target: Option<(Buffer, usize, u32)>,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(pool: &'a mut Pool) -> Packer<'a> {
        Packer { pool, target: None }
    }

    /// Moves one packet; leaves it where it is when there is no buffer to move it to.
    pub(crate) fn pack(&mut self, packet: &mut Stored) {
        if packet.has_left() {
            return;
        }
        let len = usize::from(packet.len);
        let room = self.pool.buffer_bytes.min(usize::from(u16::MAX));
        if self
            .target
            .as_ref()
            .is_some_and(|(_, filled, _)| filled + len > room)
        {
            self.put_target_back();
        }
        if self.target.is_none() {
            self.target = self.pool.take().map(|buffer| (buffer, 0, 0));
        }
        let Some((buffer, filled, packets)) = &mut self.target else {
            return;
        };
        let Some(to) = buffer.bytes.get_mut(*filled..*filled + len) else {
            return;
        };
        to.copy_from_slice(self.pool.bytes(*packet));
        self.pool.release(packet.buffer);
        *packet = Stored {
            buffer: buffer.id,
            start: *filled as u16,
            ..*packet
        };
        *filled += len;
        *packets += 1;
    }

    /// Ends the packing.
    pub(crate) fn finish(mut self) {
        self.put_target_back();
    }

    fn put_target_back(&mut self) {
        if let Some((buffer, _, packets)) = self.target.take() {
            let id = self.pool.keep(buffer);
            (0..packets).for_each(|_| self.pool.retain(id));
            self.pool.release(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives a packet of `len` bytes of `fill` into a buffer of its own.
    fn received(pool: &mut Pool, fill: u8, len: u16) -> Stored {
        let mut buffer = pool.take().unwrap();
        buffer.as_mut()[..usize::from(len)].fill(fill);
        Stored {
            buffer: pool.keep(buffer),
            start: 0,
            len,
            number: None,
            behind: None,
        }
    }

    #[test]
    fn a_buffer_is_free_when_nothing_points_into_it() {
        let mut pool = Pool::new(1000, 1);
        let packet = received(&mut pool, 1, 10);
        pool.retain(packet.buffer);
        pool.release(packet.buffer);
        assert!(pool.take().is_none());
        pool.release(packet.buffer);
        assert!(pool.take().is_some());
    }

    #[test]
    fn a_pool_at_rest_keeps_what_is_held_and_makes_other_buffers_anew() {
        let mut pool = Pool::new(1000, 2);
        let (held, gone) = (received(&mut pool, 1, 10), received(&mut pool, 2, 10));
        pool.release(gone.buffer);
        assert_eq!(pool.memory(), 2 * (1000 + BESIDE_BYTES));
        pool.rest();
        assert_eq!(pool.memory(), 1000 + 2 * BESIDE_BYTES);
        assert_eq!(pool.bytes(held), [1; 10]);
        let mut taken = pool.take().unwrap();
        assert_eq!(taken.as_mut().len(), 1000);
        assert!(pool.take().is_none());
        // A buffer that is in the caller's hands comes back.
        pool.release(held.buffer);
        pool.trim(0);
        assert_eq!(pool.memory(), 1000 + 2 * BESIDE_BYTES);
        let id = pool.keep(taken);
        pool.release(id);
        pool.trim(1000 + 2 * BESIDE_BYTES);
        assert_eq!(pool.memory(), 1000 + 2 * BESIDE_BYTES);
        pool.trim(1000);
        assert_eq!((pool.memory(), pool.available()), (0, 2));
    }

    #[test]
    fn packing_frees_buffers_and_keeps_bytes() {
        let mut pool = Pool::new(1000, 12);
        let mut packets: Vec<Stored> = (0..10).map(|fill| received(&mut pool, fill, 300)).collect();
        assert_eq!(pool.available(), 2);
        let mut packer = Packer::new(&mut pool);
        packets.iter_mut().for_each(|packet| packer.pack(packet));
        packer.finish();
        assert_eq!(pool.available(), 12 - 4);
        for (fill, packet) in packets.iter().enumerate() {
            assert_eq!(pool.bytes(*packet), [fill as u8; 300]);
        }
        for packet in packets {
            pool.release(packet.buffer);
        }
        assert_eq!(pool.available(), 12);
    }
}

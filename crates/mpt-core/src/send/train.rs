//! A train: datagrams of equal size, one shorter at most and that the last, that go to one path
//! with one system call. Datagrams are written straight into it.

use crate::path::PathId;
use crate::time::Time;

/// Most datagrams in a train: the kernel's `UDP_MAX_SEGMENTS` of old.
pub const MAX_DATAGRAMS: usize = 64;
/// Most bytes in a train. Ethernet, IPv6 and UDP headers and it must stay below the 64 KiB that a
/// device takes whole; what is longer the kernel cuts by itself, packet by packet.
pub const MAX_BYTES: usize = 65_465;
/// Most copies of a train: one over a second path, and one over the first path again.
pub(crate) const MAX_COPIES: usize = 2;

/// Datagrams being collected for one path.
#[derive(Debug)]
pub(crate) struct Train {
    pub(crate) path: PathId,
    /// Where it goes as well once it has left over `path`, and when: at once, or not before a time.
    pub(crate) copies: [Option<(PathId, Option<Time>)>; MAX_COPIES],
    /// It has left before, as it is now.
    pub(crate) is_copy: bool,
    pub(crate) tos: u8,
    /// Size of every datagram but the last.
    pub(crate) segment_size: usize,
    pub(crate) datagrams: usize,
    /// The last datagram is shorter than the others.
    closed: bool,
    filled: usize,
    bytes: Box<[u8]>,
}

impl Train {
    pub(crate) fn new(path: PathId) -> Train {
        Train {
            path,
            copies: [None; MAX_COPIES],
            is_copy: false,
            tos: 0,
            segment_size: 0,
            datagrams: 0,
            closed: false,
            filled: 0,
            bytes: vec![0; MAX_BYTES].into_boxed_slice(),
        }
    }

    /// Makes a used train ready for another path.
    pub(crate) fn reset(&mut self, path: PathId) {
        self.path = path;
        self.copies = [None; MAX_COPIES];
        self.is_copy = false;
        self.segment_size = 0;
        self.datagrams = 0;
        self.closed = false;
        self.filled = 0;
    }

    /// Whether a datagram of `len` bytes with this TOS may still join.
    #[inline]
    pub(crate) fn fits(&self, tos: u8, len: usize) -> bool {
        self.datagrams == 0
            || (!self.closed
                && tos == self.tos
                && len <= self.segment_size
                && self.datagrams < MAX_DATAGRAMS
                && self.filled + len <= MAX_BYTES)
    }

    /// Room for one more datagram of `len` bytes, for which [`Train::fits`] said yes; the caller
    /// writes all of it.
    #[inline]
    pub(crate) fn append(&mut self, tos: u8, len: usize) -> &mut [u8] {
        debug_assert!(self.fits(tos, len));
        if self.datagrams == 0 {
            self.tos = tos;
            self.segment_size = len;
        }
        self.closed = len < self.segment_size;
        self.datagrams += 1;
        let start = self.filled;
        self.filled += len;
        &mut self.bytes[start..self.filled]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.filled]
    }

    /// The last `len` bytes that were written.
    pub(crate) fn last(&self, len: usize) -> &[u8] {
        &self.bytes[self.filled - len..self.filled]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train() -> Train {
        PathId::new(0).map(Train::new).unwrap()
    }

    #[test]
    fn a_shorter_datagram_closes_the_train() {
        let mut train = train();
        train.append(0, 100).fill(1);
        assert!(train.fits(0, 100) && train.fits(0, 40));
        train.append(0, 40).fill(2);
        assert!(!train.fits(0, 40));
        assert_eq!(train.bytes(), [[1; 100].as_slice(), &[2; 40]].concat());
    }

    #[test]
    fn longer_datagrams_and_another_tos_do_not_join() {
        let mut train = train();
        train.append(0, 100);
        assert!(!train.fits(0, 101));
        assert!(!train.fits(1, 100));
    }

    #[test]
    fn a_train_keeps_within_the_kernel_s_limits() {
        for len in [100, 1472] {
            let mut train = train();
            while train.fits(0, len) {
                train.append(0, len);
            }
            assert!(train.datagrams <= MAX_DATAGRAMS && train.bytes().len() <= MAX_BYTES);
        }
    }
}

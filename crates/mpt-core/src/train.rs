//! A train: datagrams of equal size, one shorter at most and that the last, that go to one path
//! with one system call.

use crate::path::PathId;

/// Most datagrams in a train: the kernel's `UDP_MAX_SEGMENTS` of old.
pub const MAX_DATAGRAMS: usize = 64;
/// Most bytes in a train: the largest UDP payload over IPv4.
pub const MAX_BYTES: usize = 65_507;

/// Datagrams being collected for one path.
#[derive(Debug)]
pub(crate) struct Train {
    pub(crate) path: PathId,
    pub(crate) tos: u8,
    /// Size of every datagram but the last.
    pub(crate) segment_size: usize,
    pub(crate) datagrams: usize,
    closed: bool,
    bytes: Vec<u8>,
}

impl Train {
    pub(crate) fn new(path: PathId) -> Train {
        Train {
            path,
            tos: 0,
            segment_size: 0,
            datagrams: 0,
            closed: false,
            bytes: Vec::with_capacity(MAX_BYTES),
        }
    }

    /// Makes a used train ready for another path.
    pub(crate) fn reset(&mut self, path: PathId) {
        self.path = path;
        self.segment_size = 0;
        self.datagrams = 0;
        self.closed = false;
        self.bytes.clear();
    }

    /// Whether a datagram of `len` bytes with this TOS may still join.
    pub(crate) fn fits(&self, tos: u8, len: usize) -> bool {
        self.datagrams == 0
            || (!self.closed
                && tos == self.tos
                && len <= self.segment_size
                && self.datagrams < MAX_DATAGRAMS
                && self.bytes.len() + len <= MAX_BYTES)
    }

    /// Appends a datagram, made of `pieces` that add up to `len` bytes and for which
    /// [`Train::fits`] said yes.
    pub(crate) fn push(&mut self, tos: u8, len: usize, pieces: [&[u8]; 3]) {
        if self.datagrams == 0 {
            self.tos = tos;
            self.segment_size = len;
        }
        self.closed = len < self.segment_size;
        self.datagrams += 1;
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
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
        train.push(0, 100, [&[0; 100], &[], &[]]);
        assert!(train.fits(0, 100) && train.fits(0, 40));
        train.push(0, 40, [&[0; 40], &[], &[]]);
        assert!(!train.fits(0, 40));
    }

    #[test]
    fn longer_datagrams_and_another_tos_do_not_join() {
        let mut train = train();
        train.push(0, 100, [&[0; 100], &[], &[]]);
        assert!(!train.fits(0, 101));
        assert!(!train.fits(1, 100));
    }

    #[test]
    fn a_train_keeps_within_the_kernel_s_limits() {
        for len in [100, 1472] {
            let mut train = train();
            while train.fits(0, len) {
                train.push(0, len, [&vec![0; len], &[], &[]]);
            }
            assert!(train.datagrams <= MAX_DATAGRAMS && train.bytes().len() <= MAX_BYTES);
        }
    }
}

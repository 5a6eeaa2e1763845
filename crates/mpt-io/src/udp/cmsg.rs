//! Ancillary data (`cmsg(3)`) read and written as bytes.
//!
//! Each message is a header (length of header and data, level, type), its data, and padding up to
//! the next word. The buffers are ours and the kernel only fills them, so plain slices do, with
//! every length checked, and no pointer is followed.

use std::mem::offset_of;

use libc::{c_int, cmsghdr};

use super::address::array;

/// Bytes of ancillary data that one datagram may bring: TOS or traffic class, the count of drops
/// and the segment size, at 24 bytes each on a 64-bit machine, 32 for a time stamp, 64 for those of
/// `SO_TIMESTAMPING`, and some to spare: a buffer too small loses whichever message comes last, without a word, and that
/// is the TOS.
pub(super) const CONTROL_LEN: usize = 192;

/// Room for ancillary data, aligned as `cmsghdr` asks.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Control<N> {
    /// Room for the kernel to write to.
    pub(super) const EMPTY: Control<N> = Control([0; N]);

    /// The messages in the first `len` bytes, which the kernel wrote.
    pub(super) fn messages(&self, len: usize) -> Messages<'_> {
        Messages(&self.0[..len.min(N)])
    }

    /// Writes one message at `at`, the end of the one before, and returns where it ends.
    ///
    /// # Panics
    /// If `N` has no room for it, which the one caller's constant sees to.
    pub(super) fn write(&mut self, at: usize, level: c_int, kind: c_int, data: &[u8]) -> usize {
        let start = aligned(size_of::<cmsghdr>());
        let len = start + data.len();
        let message = &mut self.0[at..at + aligned(len)];
        let word = size_of::<c_int>();
        message[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
        message[offset_of!(cmsghdr, cmsg_level)..][..word].copy_from_slice(&level.to_ne_bytes());
        message[offset_of!(cmsghdr, cmsg_type)..][..word].copy_from_slice(&kind.to_ne_bytes());
        message[start..len].copy_from_slice(data);
        at + aligned(len)
    }
}

/// One ancillary message.
pub(super) struct Message<'a> {
    pub(super) level: c_int,
    pub(super) kind: c_int,
    pub(super) data: &'a [u8],
}

impl Message<'_> {
    /// The data as an `int`, or as the single byte that some options send instead.
    pub(super) fn int(&self) -> Option<c_int> {
        match self.data {
            [byte] => Some(c_int::from(*byte)),
            longer => array(longer, 0).map(c_int::from_ne_bytes),
        }
    }

    /// The data as a `timespec` of two words or, on a 32-bit machine, of two half words; in nanoseconds.
    pub(super) fn timespec_ns(&self) -> Option<u64> {
        let (seconds, ns) = match self.data.len() {
            8 => {
                let half = |at| array(self.data, at).map(i32::from_ne_bytes);
                (i64::from(half(0)?), i64::from(half(4)?))
            }
            _ => {
                let whole = |at| array(self.data, at).map(i64::from_ne_bytes);
                (whole(0)?, whole(8)?)
            }
        };
        let (seconds, ns) = (u64::try_from(seconds).ok()?, u64::try_from(ns).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(ns)
    }
}

/// Iterator over the ancillary messages in a buffer; ends at the first that is not whole.
pub(super) struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = usize::from_ne_bytes(array(self.0, 0)?);
        let message = Message {
            level: c_int::from_ne_bytes(array(self.0, offset_of!(cmsghdr, cmsg_level))?),
            kind: c_int::from_ne_bytes(array(self.0, offset_of!(cmsghdr, cmsg_type))?),
            data: self.0.get(aligned(size_of::<cmsghdr>())..len)?,
        };
        self.0 = self.0.get(aligned(len)..).unwrap_or_default();
        Some(message)
    }
}

/// `len` rounded up to a whole word (`CMSG_ALIGN`).
const fn aligned(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_c_librarys() {
        let mut control = Control::<CONTROL_LEN>::EMPTY;
        let len = control.write(0, libc::IPPROTO_IP, libc::IP_TOS, &[0xb9, 0, 0, 0]);
        // SAFETY: these only compute with their argument.
        let (space, header) = unsafe { (libc::CMSG_SPACE(4), libc::CMSG_LEN(0)) };
        assert_eq!(len, space as usize);
        assert_eq!(aligned(size_of::<cmsghdr>()), header as usize);
    }

    #[test]
    fn messages_are_read_one_after_another() {
        let mut control = Control::<CONTROL_LEN>::EMPTY;
        let first = control.write(0, 1, 2, &3_i32.to_ne_bytes());
        let second = control.write(first, 4, 5, &6_u16.to_ne_bytes());
        let read: Vec<_> = control
            .messages(second)
            .map(|m| (m.level, m.kind, m.data.to_vec()))
            .collect();
        assert_eq!(read, [(1, 2, vec![3, 0, 0, 0]), (4, 5, vec![6, 0])]);
    }

    #[test]
    fn a_timespec_is_read_at_either_width() {
        let mut control = Control::<CONTROL_LEN>::EMPTY;
        let wide = [3_i64.to_ne_bytes(), 7_i64.to_ne_bytes()].concat();
        let narrow = [3_i32.to_ne_bytes(), 7_i32.to_ne_bytes()].concat();
        let before = [(-3_i64).to_ne_bytes(), 7_i64.to_ne_bytes()].concat();
        for (data, told) in [
            (wide.as_slice(), Some(3_000_000_007)),
            (&narrow, Some(3_000_000_007)),
            (&before, None),
            (&wide[..12], None),
            (&[], None),
        ] {
            let len = control.write(0, 1, 2, data);
            let message = control.messages(len).next().unwrap();
            assert_eq!(message.timespec_ns(), told, "{data:?}");
        }
    }

    #[test]
    fn a_message_that_is_cut_or_lies_about_its_length_ends_the_walk() {
        let mut control = Control::<CONTROL_LEN>::EMPTY;
        let len = control.write(0, 1, 2, &3_i32.to_ne_bytes());
        for cut in 0..len - 4 {
            assert_eq!(control.messages(cut).count(), 0, "{cut} bytes");
        }
        for lie in [0_usize, 1, 15, CONTROL_LEN + 1, usize::MAX] {
            control.0[..8].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(control.messages(CONTROL_LEN).count(), 0, "length {lie}");
        }
    }
}

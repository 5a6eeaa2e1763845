//! The plain back end: the crate `tun-tap`, one packet a system call.
//!
//! It works on every kernel that has TUN, and is what remains when offloads are refused.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use tun_tap::{Iface, Mode};

use super::offload;

/// A TUN interface without packet information, non-blocking.
#[derive(Debug)]
pub(super) struct Plain(Iface);

impl Plain {
    /// Creates the interface `name`, or attaches to one that was made persistent for us.
    pub(super) fn open(name: &str) -> io::Result<Plain> {
        let interface = Iface::without_packet_info(name, Mode::Tun)?;
        interface.set_non_blocking()?;
        // SAFETY: the descriptor is `interface`'s, which outlives the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(interface.as_raw_fd()) };
        // What cannot be switched off was never on.
        let _ = offload::switch_off(fd);
        Ok(Plain(interface))
    }

    pub(super) fn recv(&self, packet: &mut [u8]) -> io::Result<usize> {
        self.0.recv(packet)
    }

    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.send(packet).map(|_| ())
    }
}

impl AsRawFd for Plain {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

//! The plain back end: the crate `tun-tap`, one packet a system call.
//!
//! It works on every kernel that has TUN, and is what remains when offloads are refused. `tun-tap` opens
//! /dev/net/tun itself; a device that another process opened is used without it.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, RawFd};

use tun_tap::{Iface, Mode};

use super::{Device, offload};

/// A TUN interface without packet information, non-blocking.
#[derive(Debug)]
pub(super) enum Plain {
    /// Opened here.
    Own(Iface),
    /// Opened elsewhere.
    Lent(File),
}

impl Plain {
    /// Creates the interface `name`, or attaches to one that was made persistent for us.
    pub(super) fn open(name: &str) -> io::Result<Plain> {
        let interface = Iface::without_packet_info(name, Mode::Tun)?;
        interface.set_non_blocking()?;
        // SAFETY: the descriptor is `interface`'s, which outlives the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(interface.as_raw_fd()) };
        // What cannot be switched off was never on.
        let _ = offload::switch_off(fd);
        Ok(Plain::Own(interface))
    }

    /// The same with a device that is open.
    /// `flags` are given besides.
    pub(super) fn open_lent(name: &str, device: Device<'_>, flags: c_int) -> io::Result<Plain> {
        let device = device()?;
        offload::attach(device.as_fd(), name, flags)?;
        let _ = offload::switch_off(device.as_fd());
        Ok(Plain::Lent(device))
    }

    pub(super) fn recv(&self, packet: &mut [u8]) -> io::Result<usize> {
        match self {
            Plain::Own(interface) => interface.recv(packet),
            Plain::Lent(device) => (&*device).read(packet),
        }
    }

    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        match self {
            Plain::Own(interface) => interface.send(packet).map(|_| ()),
            Plain::Lent(device) => (&*device).write(packet).map(|_| ()),
        }
    }
}

impl AsRawFd for Plain {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Plain::Own(interface) => interface.as_raw_fd(),
            Plain::Lent(device) => device.as_raw_fd(),
        }
    }
}

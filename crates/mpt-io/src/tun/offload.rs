//! The back end with offloads: super-packets of up to 64 KiB a system call.
//!
//! A packet that crosses `/dev/net/tun` costs a system call, a wake-up and a walk through the host's
//! stack, whether it carries 60 bytes or 60,000. With `IFF_VNET_HDR` each is preceded by a virtio
//! header ([`VnetHeader`]), and that allows two things. The host's TCP hands over what it would give
//! to a network card that segments by itself: one packet with up to 64 KiB of payload, its checksum
//! left open; `TUNSETOFFLOAD` says which kinds we are ready for (`TUN_F_*`). And we may write the
//! same, which needs no permission but for UDP's kind (USO, Linux 6.2), which older kernels refuse
//! with `EINVAL`.
//!
//! What a kernel has is found by trying, the most first:
//!
//! ```text
//! checksum, TSO4, TSO6, TSO with CWR (ECN), USO4, USO6     Linux 6.2
//! checksum, TSO4, TSO6, TSO with CWR                       before
//! checksum, TSO4, TSO6                                     some other implementation
//! ```
//!
//! Less than the last is not worth a header before each packet: then `plain` does it. USO4 and USO6
//! go together, and all of them need the checksum; so the kernel wants it.
//!
//! What the kernel makes of the headers that we write (6.12 and 6.18): `EINVAL`, and nothing else
//! happens, where a checksum's place is outside the packet, a segment size is 0, the kind of
//! super-packet does not match the packet, or it would have more than 128 UDP datagrams. `EIO` while
//! the interface is down.

use std::ffi::{c_int, c_short, c_uint, c_ulong};
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use mpt_core::receive::coalesce::Accepts;
use mpt_core::wire::vnet::{self, VnetHeader};

use super::Device;

const WITHOUT_ECN: c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
const WITHOUT_USO: c_uint = WITHOUT_ECN | libc::TUN_F_TSO_ECN;
const ALL: c_uint = WITHOUT_USO | libc::TUN_F_USO4 | libc::TUN_F_USO6;
/// What is asked for, in this order.
const STEPS: [c_uint; 3] = [ALL, WITHOUT_USO, WITHOUT_ECN];

/// What the kernel says `EINVAL` to when it has no header, or the interface is of another kind.
pub(super) const HEADER: &str = "IFF_VNET_HDR";

/// A TUN interface with a virtio header before each packet, non-blocking.
#[derive(Debug)]
pub(super) struct Offloading {
    device: File,
    features: c_uint,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Failure {
    /// The interface cannot be had at all, with offloads or without.
    Open(io::Error),
    /// It can be had, but not with this.
    Refused {
        what: &'static str,
        source: io::Error,
    },
}

impl Offloading {
    /// Creates the interface `name`, or attaches to one that was made persistent for us.
    /// `flags` are given besides.
    pub(super) fn open(
        name: &str,
        device: Device<'_>,
        flags: c_int,
    ) -> Result<Offloading, Failure> {
        let device = device().map_err(Failure::Open)?;
        let refused = |what| move |source| Failure::Refused { what, source };
        attach(device.as_fd(), name, libc::IFF_VNET_HDR | flags).map_err(|source| match source
            .raw_os_error()
        {
            Some(libc::EINVAL) => refused(HEADER)(source),
            _ => Failure::Open(source),
        })?;
        set_header_len(device.as_fd()).map_err(refused("TUNSETVNETHDRSZ"))?;
        let features = first_accepted(|features| set_offload(device.as_fd(), features))
            .map_err(refused("TUNSETOFFLOAD with checksum and TSO"))?;
        Ok(Offloading { device, features })
    }

    /// Which super-packets may be written.
    pub(super) fn accepts(&self) -> Accepts {
        Accepts {
            tcp4: true,
            tcp6: true,
            udp: self.features & libc::TUN_F_USO4 != 0,
        }
    }

    /// Reads header and packet.
    pub(super) fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.device).read(bytes)
    }

    /// Writes header and packet, both or neither.
    pub(super) fn send(&self, header: &VnetHeader, packet: &[u8]) -> io::Result<()> {
        let header = header.to_bytes();
        let parts = [IoSlice::new(&header), IoSlice::new(packet)];
        (&self.device).write_vectored(&parts).map(|_| ())
    }

    /// What is on: `checksum, TSO4, TSO6, USO4, USO6`.
    pub(super) fn features(&self) -> String {
        let names = [
            (libc::TUN_F_CSUM, "checksum"),
            (libc::TUN_F_TSO4, "TSO4"),
            (libc::TUN_F_TSO6, "TSO6"),
            (libc::TUN_F_USO4, "USO4"),
            (libc::TUN_F_USO6, "USO6"),
        ];
        let on = names.iter().filter(|(bit, _)| self.features & bit != 0);
        let on: Vec<&str> = on.map(|(_, name)| *name).collect();
        on.join(", ")
    }
}

impl AsRawFd for Offloading {
    fn as_raw_fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
}

/// Makes the kernel hand over single packets, complete. A persistent interface keeps what its last
/// user had switched on, even for a user who asks for no header to tell.
pub(super) fn switch_off(tun: BorrowedFd<'_>) -> io::Result<()> {
    set_offload(tun, 0)
}

/// The first of [`STEPS`] that `try_one` takes; its last answer when it takes none.
fn first_accepted(mut try_one: impl FnMut(c_uint) -> io::Result<()>) -> io::Result<c_uint> {
    let mut last = io::Error::from_raw_os_error(libc::EINVAL);
    for features in STEPS {
        match try_one(features) {
            Ok(()) => return Ok(features),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Makes `device` the interface `name`, which was checked to be shorter than `IFNAMSIZ`, with these flags besides.
pub(super) fn attach(device: BorrowedFd<'_>, name: &str, flags: c_int) -> io::Result<()> {
    // SAFETY: `ifreq` is integers and a union of such, for which all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as std::ffi::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | flags;
    request.ifr_ifru.ifru_flags = flags as c_short;
    // SAFETY: the kernel reads and writes one `ifreq`, which lives through the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    succeeded(result)
}

fn set_header_len(device: BorrowedFd<'_>) -> io::Result<()> {
    let len = vnet::LEN as c_int;
    // SAFETY: the kernel reads one `int`, which lives through the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) };
    succeeded(result)
}

fn set_offload(device: BorrowedFd<'_>, features: c_uint) -> io::Result<()> {
    let features = c_ulong::from(features);
    // SAFETY: the argument is a number, no address.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, features) };
    succeeded(result)
}

pub(super) fn succeeded(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_that_knows(known: c_uint) -> io::Result<c_uint> {
        first_accepted(|features| match features & !known {
            0 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        })
    }

    #[test]
    fn what_a_kernel_lacks_is_left_out_step_by_step() {
        assert_eq!(kernel_that_knows(c_uint::MAX).unwrap(), ALL);
        let no_uso = !(libc::TUN_F_USO4 | libc::TUN_F_USO6);
        assert_eq!(kernel_that_knows(no_uso).unwrap(), WITHOUT_USO);
        let no_ecn = no_uso & !libc::TUN_F_TSO_ECN;
        assert_eq!(kernel_that_knows(no_ecn).unwrap(), WITHOUT_ECN);
    }

    #[test]
    fn checksums_alone_are_not_worth_a_header() {
        assert!(kernel_that_knows(libc::TUN_F_CSUM).is_err());
        assert!(kernel_that_knows(0).is_err());
    }
}

//! The TUN interface, where the host's packets enter and leave the tunnel.
//!
//! It exists as long as its descriptor is open: whatever ends the daemon removes it. One descriptor
//! serves both lines, the uplink reads and the downlink writes (and the uplink too, when it answers
//! a packet that does not fit with ICMP); the kernel takes each packet whole, so that no lock is
//! needed. Each line's runtime registers the same descriptor for itself.

mod plain;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use plain::Plain;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Longest interface name in bytes (`IFNAMSIZ` less its terminating zero).
pub(crate) const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// An open TUN interface, non-blocking. It disappears when this is dropped.
#[derive(Debug)]
pub(crate) struct Tun(Plain);

impl Tun {
    /// Creates the TUN interface `name`, down and without addresses.
    ///
    /// A persistent TUN interface of that name that nobody holds (`ip tuntap add`) is taken over,
    /// and stays behind at the end.
    ///
    /// # Errors
    /// [`TunError`], whose text says what the operator can do.
    pub(crate) fn open(name: &str) -> Result<Tun, TunError> {
        check_name(name)?;
        Plain::open(name)
            .map(Tun)
            .map_err(|source| TunError::diagnose(name, source))
    }

    /// Registers the interface with the runtime of the calling task: readable when packets wait.
    /// Each line's runtime may have it, once.
    ///
    /// # Errors
    /// If epoll refuses it.
    pub(crate) fn register(self: Arc<Tun>) -> io::Result<AsyncFd<Arc<Tun>>> {
        // SAFETY: the interface owns its descriptor, never exchanges it and closes it when the last
        // `Arc` is dropped, of which the `AsyncFd` holds one.
        let registered = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        registered.map_err(io::Error::from)
    }

    /// Reads one packet into `packet` and returns its length; more than the buffer holds is cut.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; `EBADFD` once the interface was deleted.
    pub(crate) fn recv(&self, packet: &mut [u8]) -> io::Result<usize> {
        self.0.recv(packet)
    }

    /// Hands one packet to the host.
    ///
    /// # Errors
    /// `EINVAL` if it is neither IPv4 nor IPv6 by its first byte, `EIO` while the interface is
    /// down, `EBADFD` once it was deleted.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<usize> {
        self.0.send(packet)
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `self` is, which the borrow keeps alive.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

/// Why a TUN interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunError {
    /// The name cannot be an interface's.
    #[error(
        "{name:?} cannot be an interface's name: use 1 to {MAX_NAME} bytes \
         without space, `/`, `:` or `%`"
    )]
    BadName {
        /// The name as configured.
        name: String,
    },
    /// Neither root nor CAP_NET_ADMIN.
    #[error(
        "not permitted to create the TUN interface {name}: run as root (sudo), or grant \
         CAP_NET_ADMIN: `setcap cap_net_admin+ep` on mpt-tund, or AmbientCapabilities=CAP_NET_ADMIN \
         in its systemd unit; in a container, --cap-add NET_ADMIN --device /dev/net/tun"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The device's file mode shuts this user out.
    #[error(
        "no access to /dev/net/tun: run as root (sudo), or give the device its usual mode with \
         `chmod 0666 /dev/net/tun` and grant CAP_NET_ADMIN, which creating {name} still needs"
    )]
    NoAccess {
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no TUN, or the container does not see it.
    #[error(
        "there is no /dev/net/tun: load the module with `modprobe tun`; \
         in a container, start it with --device /dev/net/tun"
    )]
    NoDevice {
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process has the interface open.
    #[error(
        "the TUN interface {name} is in use by another process, perhaps an mpt-tund that still \
         runs; `ip -details tuntap` shows which"
    )]
    InUse {
        /// The interface.
        name: String,
    },
    /// There is an interface of that name which is no TUN, or one of another kind.
    #[error(
        "the name {name} belongs to an interface of another kind; `ip -details link show {name}` \
         shows it; remove it or choose another `name`"
    )]
    NameTaken {
        /// The interface.
        name: String,
    },
    /// Anything else.
    #[error("cannot create the TUN interface {name}: {source}")]
    Failed {
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TunError {
    /// The situation that the kernel's answer to creating `name` means.
    fn diagnose(name: &str, source: io::Error) -> TunError {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TunError::NoDevice { source },
            Some(libc::EPERM) => TunError::NotPermitted { name, source },
            Some(libc::EACCES) => TunError::NoAccess { name, source },
            Some(libc::EBUSY) => TunError::InUse { name },
            Some(libc::EINVAL | libc::EEXIST) if interface_exists(&name) => {
                TunError::NameTaken { name }
            }
            _ => TunError::Failed { name, source },
        }
    }
}

/// What the kernel demands of a name, and no `%`, which would ask it to number the interface.
fn check_name(name: &str) -> Result<(), TunError> {
    let fits = (1..=MAX_NAME).contains(&name.len()) && name != "." && name != "..";
    let unfit = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
    if fits && !name.contains(unfit) {
        Ok(())
    } else {
        Err(TunError::BadName {
            name: name.to_owned(),
        })
    }
}

/// Asks the kernel, since /sys may show another network namespace's interfaces.
fn interface_exists(name: &str) -> bool {
    let Ok(name) = CString::new(name) else {
        return false;
    };
    // SAFETY: `name` is a string that ends in zero and lives through the call, which only reads it.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Netlink;
    use crate::testing::in_network_namespace;
    use std::net::UdpSocket;

    #[test]
    fn names_that_no_interface_can_have_are_refused_before_the_kernel_is_asked() {
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", ".", "..", "a b", "a/b", "mpt%d", "a:b", "a\n", &long] {
            let error = Tun::open(name).unwrap_err();
            assert!(matches!(error, TunError::BadName { .. }), "{name}: {error}");
        }
        assert!(check_name(&"a".repeat(MAX_NAME)).is_ok());
    }

    #[test]
    fn each_answer_of_the_kernel_becomes_a_situation() {
        let diagnose = |errno| TunError::diagnose("lo", io::Error::from_raw_os_error(errno));
        assert!(matches!(diagnose(libc::ENOENT), TunError::NoDevice { .. }));
        assert!(matches!(diagnose(libc::ENODEV), TunError::NoDevice { .. }));
        assert!(matches!(
            diagnose(libc::EPERM),
            TunError::NotPermitted { .. }
        ));
        assert!(matches!(diagnose(libc::EACCES), TunError::NoAccess { .. }));
        assert!(matches!(diagnose(libc::EBUSY), TunError::InUse { .. }));
        assert!(matches!(diagnose(libc::EINVAL), TunError::NameTaken { .. }));
        assert!(matches!(diagnose(libc::ENOMEM), TunError::Failed { .. }));
        let free = TunError::diagnose("mpt-nowhere", io::Error::from_raw_os_error(libc::EINVAL));
        assert!(matches!(free, TunError::Failed { .. }));
    }

    #[test]
    fn a_name_in_use_is_told_from_a_name_of_another_kind() {
        in_network_namespace(
            "tun::tests::a_name_in_use_is_told_from_a_name_of_another_kind",
            async {
                let first = Tun::open("mpt-test").unwrap();
                let second = Tun::open("mpt-test").unwrap_err();
                assert!(matches!(second, TunError::InUse { .. }), "{second}");
                let other = Tun::open("lo").unwrap_err();
                assert!(matches!(other, TunError::NameTaken { .. }), "{other}");
                drop(first);
                Tun::open("mpt-test").unwrap();
            },
        );
    }

    #[test]
    fn one_thread_reads_while_another_writes() {
        in_network_namespace("tun::tests::one_thread_reads_while_another_writes", async {
            let tun = Arc::new(Tun::open("mpt-test").unwrap());
            let error = tun.send(&[0x45; 20]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "still down");
            let netlink = Netlink::open().unwrap();
            let address = ("10.99.0.1".parse().unwrap(), 30);
            netlink
                .configure("mpt-test", &[address], 1400, &[])
                .await
                .unwrap();
            let reader = tun.clone().register().unwrap();

            let host = UdpSocket::bind("10.99.0.1:4000").unwrap();
            host.send_to(b"ping", "10.99.0.2:5000").unwrap();
            let mut packet = [0; 1400];
            reader.readable().await.unwrap().retain_ready();
            let len = reader.get_ref().recv(&mut packet).unwrap();
            assert_eq!((len, &packet[28..len]), (32, &b"ping"[..]));

            // Answer it: addresses and ports exchanged, which leaves the checksums right.
            let (mut answer, question) = (packet, packet);
            answer[12..16].copy_from_slice(&question[16..20]);
            answer[16..20].copy_from_slice(&question[12..16]);
            answer[20..22].copy_from_slice(&question[22..24]);
            answer[22..24].copy_from_slice(&question[20..22]);
            let writer = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_io()
                    .build()
                    .unwrap();
                let _inside = runtime.enter();
                let tun = tun.register().unwrap();
                assert_eq!(tun.get_ref().send(&answer[..len]).unwrap(), len);
            });
            writer.join().unwrap();
            let (len, from) = host.recv_from(&mut packet).unwrap();
            assert_eq!((&packet[..len], from.port()), (&b"ping"[..], 5000));
            let error = reader.get_ref().recv(&mut packet).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        });
    }
}

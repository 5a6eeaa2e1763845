//! The TUN interface, where the host's packets enter and leave the tunnel.
//!
//! It exists as long as its descriptor is open: whatever ends the daemon removes it. One descriptor
//! serves both lines, the uplink reads and the downlink writes (and the uplink too, when it answers
//! a packet that does not fit with ICMP); the kernel takes each packet whole, so that no lock is
//! needed. Each line's runtime registers the same descriptor for itself.
//!
//! There are two back ends: `offload`, where super-packets of up to 64 KiB cross with a virtio header
//! before each, and `plain`, one packet at a time and no header. Which one it is shows in
//! [`Tun::has_header`].

mod error;
mod offload;
mod plain;
mod steering;

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use mpt_core::receive::coalesce::Accepts;
use mpt_core::wire::vnet::{self, VnetHeader};
use offload::{Failure, Offloading};
use plain::Plain;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::Offload;
pub use error::TunError;
pub use steering::Steering;

/// Longest interface name in bytes (`IFNAMSIZ` less its terminating zero).
pub const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// Most bytes that [`Tun::recv`] reads: the virtio header and a super-packet (the kernel's
/// `GSO_MAX_SIZE` of old; a TUN gets none that are larger).
pub const MAX_READ: usize = vnet::LEN + 65_536;

/// Opens [`device`], here or elsewhere.
pub type Device<'a> = &'a dyn Fn() -> io::Result<File>;

/// /dev/net/tun, non-blocking.
///
/// # Errors
/// When it is not there, or not for this user.
pub fn device() -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    options.custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")
}

/// An open TUN interface, non-blocking. It disappears when this is dropped.
#[derive(Debug)]
pub struct Tun(BackEnd);

#[derive(Debug)]
enum BackEnd {
    Offloading(Offloading),
    /// And why no offloads.
    Plain(Plain, String),
}

impl Tun {
    /// Creates the TUN interface `name`, down and without addresses.
    ///
    /// A persistent TUN interface of that name that nobody holds (`ip tuntap add`) is taken over,
    /// and stays behind at the end.
    ///
    /// `wanted` says which back end: [`Offload::Auto`] takes `plain` where the kernel refuses the
    /// other, [`Offload::On`] makes that an error.
    ///
    /// # Errors
    /// [`TunError`], whose text says what the operator can do.
    pub fn open(name: &str, wanted: Offload) -> Result<Tun, TunError> {
        Tun::open_with(name, wanted, (&device, 0), Plain::open)
    }

    /// The same, with what `device` opens for it.
    ///
    /// # Errors
    /// As [`Tun::open`].
    pub fn open_lent(name: &str, wanted: Offload, device: Device<'_>) -> Result<Tun, TunError> {
        Tun::open_with(name, wanted, (device, 0), |name| {
            Plain::open_lent(name, device, 0)
        })
    }

    /// Creates the interface with a queue for each of a hub's workers. The kernel gives a packet to the queue that wrote
    /// the last one of its flow, so that what is answered comes back to who has the peer; with [`Steering`] it gives each
    /// to the queue of the peer's owner.
    ///
    /// One queue alone, which all have to share, where there are no more: of an interface that was made persistent with
    /// one.
    ///
    /// # Errors
    /// As [`Tun::open`].
    pub fn open_queues(
        name: &str,
        wanted: Offload,
        device: Device<'_>,
        workers: usize,
    ) -> Result<Vec<Tun>, TunError> {
        let flags = libc::IFF_MULTI_QUEUE;
        let open = || {
            Tun::open_with(name, wanted, (device, flags), |name| {
                Plain::open_lent(name, device, flags)
            })
        };
        match (0..workers).map(|_| open()).collect() {
            Ok(queues) => Ok(queues),
            Err(_) => Tun::open_lent(name, wanted, device).map(|tun| vec![tun]),
        }
    }

    fn open_with(
        name: &str,
        wanted: Offload,
        (device, flags): (Device<'_>, c_int),
        open_plain: impl FnOnce(&str) -> io::Result<Plain>,
    ) -> Result<Tun, TunError> {
        check_name(name)?;
        let why_plain = if wanted == Offload::Off {
            "offload = \"off\"".to_owned()
        } else {
            match Offloading::open(name, device, flags) {
                Ok(offloading) => return Ok(Tun(BackEnd::Offloading(offloading))),
                Err(Failure::Open(source)) => return Err(TunError::diagnose(name, source)),
                Err(Failure::Refused { what, source }) => {
                    if wanted == Offload::On {
                        return Err(TunError::diagnose_refusal(name, what, source));
                    }
                    format!("the kernel refuses {what}: {source}")
                }
            }
        };
        open_plain(name)
            .map(|plain| Tun(BackEnd::Plain(plain, why_plain)))
            .map_err(|source| TunError::diagnose(name, source))
    }

    /// Whether a virtio header precedes each packet that is read.
    pub fn has_header(&self) -> bool {
        matches!(self.0, BackEnd::Offloading(_))
    }

    /// Which super-packets may be written.
    pub fn accepts(&self) -> Accepts {
        match &self.0 {
            BackEnd::Offloading(offloading) => offloading.accepts(),
            BackEnd::Plain(..) => Accepts::NONE,
        }
    }

    /// The back end, for `mpt-ctl status`: `offload (checksum, TSO4, …)` or `plain (why)`.
    pub fn describe(&self) -> String {
        match &self.0 {
            BackEnd::Offloading(offloading) => format!("offload ({})", offloading.features()),
            BackEnd::Plain(_, why) => format!("plain ({why})"),
        }
    }

    /// Registers the interface with the runtime of the calling task: readable when packets wait.
    /// Each line's runtime may have it, once.
    ///
    /// # Errors
    /// If epoll refuses it.
    pub fn register(self: Arc<Tun>) -> io::Result<AsyncFd<Arc<Tun>>> {
        // SAFETY: the interface owns its descriptor, never exchanges it and closes it when the last
        // `Arc` is dropped, of which the `AsyncFd` holds one.
        let registered = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        registered.map_err(io::Error::from)
    }

    /// Reads one packet and returns how many bytes that were, the virtio header included where there
    /// is one. What `bytes` has no room for is lost; [`MAX_READ`] is always enough.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; `EBADFD` once the interface was deleted.
    pub fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            BackEnd::Offloading(offloading) => offloading.recv(bytes),
            BackEnd::Plain(plain, _) => plain.recv(bytes),
        }
    }

    /// Hands one packet to the host, or a super-packet of a kind that [`Tun::accepts`]. The plain back
    /// end has no use for `header`, which then is the default.
    ///
    /// # Errors
    /// `EINVAL` if the packet is neither IPv4 nor IPv6 by its first byte or `header` does not fit
    /// it, `EIO` while the interface is down, `EBADFD` once it was deleted.
    pub fn send(&self, header: &VnetHeader, packet: &[u8]) -> io::Result<()> {
        match &self.0 {
            BackEnd::Offloading(offloading) => offloading.send(header, packet),
            BackEnd::Plain(plain, _) => {
                debug_assert_eq!(*header, VnetHeader::default(), "a super-packet for nobody");
                plain.send(packet)
            }
        }
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        match &self.0 {
            BackEnd::Offloading(offloading) => offloading.as_raw_fd(),
            BackEnd::Plain(plain, _) => plain.as_raw_fd(),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `self` is, which the borrow keeps alive.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

/// Whether this error of [`Tun::recv`] says that the interface was deleted: `EBADFD`, or `EFAULT` in the
/// moment when it happens.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADFD | libc::EFAULT))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::PathSocket;
    use mpt_core::wire::vnet::{Checksum, Gso};
    use net::unit::in_network_namespace;
    use std::net::UdpSocket;
    use std::process::Command;

    #[test]
    fn names_that_no_interface_can_have_are_refused_before_the_kernel_is_asked() {
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", ".", "..", "a b", "a/b", "mpt%d", "a:b", "a\n", &long] {
            let error = Tun::open(name, Offload::Auto).unwrap_err();
            assert!(matches!(error, TunError::BadName { .. }), "{name}: {error}");
        }
        assert!(check_name(&"a".repeat(MAX_NAME)).is_ok());
    }

    #[test]
    fn a_name_in_use_is_told_from_a_name_of_another_kind() {
        in_network_namespace(
            "tun::tests::a_name_in_use_is_told_from_a_name_of_another_kind",
            async {
                let first = Tun::open("mpt-test", Offload::Auto).unwrap();
                let second = Tun::open("mpt-test", Offload::Auto).unwrap_err();
                assert!(matches!(second, TunError::InUse { .. }), "{second}");
                let other = Tun::open("lo", Offload::Auto).unwrap_err();
                assert!(matches!(other, TunError::NameTaken { .. }), "{other}");
                drop(first);
                Tun::open("mpt-test", Offload::Auto).unwrap();
            },
        );
    }

    /// An interface with the address 10.99.0.1, up.
    fn configured(wanted: Offload) -> Arc<Tun> {
        let tun = Arc::new(Tun::open("mpt-test", wanted).unwrap());
        for words in [
            "address add 10.99.0.1/30 dev mpt-test",
            "link set mpt-test mtu 1400 up",
        ] {
            let done = Command::new("ip").args(words.split(' ')).status();
            assert!(done.is_ok_and(|status| status.success()), "ip {words}");
        }
        tun
    }

    /// The next IPv4 packet to 10.99.0.2 that the host sends, with its header.
    async fn read_one(tun: &AsyncFd<Arc<Tun>>) -> (VnetHeader, Vec<u8>) {
        let mut bytes = vec![0; MAX_READ];
        for _ in 0..100 {
            let mut ready = tun.readable().await.unwrap();
            match tun.get_ref().recv(&mut bytes) {
                Ok(len) => {
                    let read = &bytes[..len];
                    let (header, packet) = match tun.get_ref().has_header() {
                        true => VnetHeader::parse(read).unwrap(),
                        false => (VnetHeader::default(), read),
                    };
                    if packet.get(16..20) == Some(&[10, 99, 0, 2]) {
                        return (header, packet.to_vec());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no packet for us among a hundred");
    }

    /// Addresses and ports exchanged, which leaves the checksums right.
    fn answer_to(packet: &[u8]) -> Vec<u8> {
        let mut answer = packet.to_vec();
        for (to, from) in [(12..16, 16), (16..20, 12), (20..22, 22), (22..24, 20)] {
            let len = to.len();
            answer[to].copy_from_slice(&packet[from..from + len]);
        }
        answer
    }

    #[test]
    fn a_device_that_was_opened_elsewhere_will_do() {
        in_network_namespace(
            "tun::tests::a_device_that_was_opened_elsewhere_will_do",
            async {
                for wanted in [Offload::Off, Offload::Auto] {
                    let tun = Tun::open_lent("mpt-test", wanted, &device).unwrap();
                    let error = tun.send(&VnetHeader::default(), &[0x45; 20]).unwrap_err();
                    assert_eq!(error.raw_os_error(), Some(libc::EIO), "it is down");
                    let error = tun.recv(&mut [0; 100]).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                }
            },
        );
    }

    #[test]
    fn one_thread_reads_while_another_writes() {
        in_network_namespace("tun::tests::one_thread_reads_while_another_writes", async {
            for wanted in [Offload::Off, Offload::Auto] {
                let tun = configured(wanted);
                let reader = tun.clone().register().unwrap();
                let host = UdpSocket::bind("10.99.0.1:4000").unwrap();
                host.send_to(b"ping", "10.99.0.2:5000").unwrap();
                let (header, packet) = read_one(&reader).await;
                assert_eq!((packet.len(), &packet[28..]), (32, &b"ping"[..]));

                let answer = answer_to(&packet);
                let writer = std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_io()
                        .build()
                        .unwrap();
                    let _inside = runtime.enter();
                    let tun = tun.register().unwrap();
                    tun.get_ref().send(&header, &answer).unwrap();
                });
                writer.join().unwrap();
                let mut received = [0; 100];
                let (len, from) = host.recv_from(&mut received).unwrap();
                assert_eq!((&received[..len], from.port()), (&b"ping"[..], 5000));
            }
        });
    }

    #[test]
    fn a_super_packet_crosses_whole_both_ways() {
        in_network_namespace(
            "tun::tests::a_super_packet_crosses_whole_both_ways",
            async {
                let tun = configured(Offload::Auto).register().unwrap();
                if !tun.get_ref().accepts().udp {
                    eprintln!("skipped: {}", tun.get_ref().describe());
                    return;
                }
                let host = PathSocket::open("10.99.0.1:4000".parse().unwrap(), None, Offload::Auto);
                let contents: Vec<u8> = (0..40_500_u32).map(|i| (i / 3) as u8).collect();
                let to = "10.99.0.2:5000".parse().unwrap();
                assert_eq!(
                    host.unwrap().send_train(to, 0, &contents, 1000).datagrams,
                    41
                );
                let (header, packet) = read_one(&tun).await;
                let Gso::Udp { size } = header.gso else {
                    panic!("{header:?}");
                };
                assert_eq!((size.get(), packet.len()), (1000, 28 + 40_500));
                assert!(packet[28..] == contents);

                let host = UdpSocket::bind("10.99.0.1:4000").unwrap();
                tun.get_ref().send(&header, &answer_to(&packet)).unwrap();
                let mut received = [0; 2000];
                for segment in contents.chunks(1000) {
                    let len = host.recv(&mut received).unwrap();
                    assert!(received[..len] == *segment);
                }
            },
        );
    }

    #[test]
    fn a_header_that_does_not_fit_costs_its_packet_alone() {
        in_network_namespace(
            "tun::tests::a_header_that_does_not_fit_costs_its_packet_alone",
            async {
                let tun = configured(Offload::On).register().unwrap();
                let host = UdpSocket::bind("10.99.0.1:4000").unwrap();
                host.send_to(b"ping", "10.99.0.2:5000").unwrap();
                let (header, packet) = read_one(&tun).await;
                let answer = answer_to(&packet);
                let beyond = VnetHeader {
                    checksum: Checksum::Partial {
                        start: 20,
                        offset: 600,
                    },
                    ..header
                };
                let of_ipv6 = VnetHeader {
                    gso: Gso::Tcp6 {
                        size: 8.try_into().unwrap(),
                        ecn: false,
                    },
                    ..header
                };
                for wrong in [beyond, of_ipv6] {
                    let error = tun.get_ref().send(&wrong, &answer).unwrap_err();
                    assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{wrong:?}");
                }
                tun.get_ref().send(&header, &answer).unwrap();
                assert_eq!(host.recv(&mut [0; 100]).unwrap(), 4);
            },
        );
    }

    #[test]
    fn an_interface_that_is_down_refuses_packets() {
        in_network_namespace(
            "tun::tests::an_interface_that_is_down_refuses_packets",
            async {
                for wanted in [Offload::Off, Offload::Auto] {
                    let tun = Tun::open("mpt-test", wanted).unwrap();
                    let error = tun.send(&VnetHeader::default(), &[0x45; 20]).unwrap_err();
                    assert_eq!(error.raw_os_error(), Some(libc::EIO));
                    let error = tun.recv(&mut [0; 100]).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                }
            },
        );
    }

    #[test]
    fn the_status_says_which_back_end_and_why() {
        in_network_namespace(
            "tun::tests::the_status_says_which_back_end_and_why",
            async {
                let tun = Tun::open("mpt-test", Offload::Off).unwrap();
                assert_eq!(tun.describe(), "plain (offload = \"off\")");
                assert!(!tun.has_header() && tun.accepts() == Accepts::NONE);
                drop(tun);
                let tun = Tun::open("mpt-test", Offload::Auto).unwrap();
                let offloading = tun.describe().starts_with("offload (checksum, TSO4, TSO6");
                assert_eq!(tun.has_header(), offloading, "{}", tun.describe());
                assert_eq!(tun.accepts().tcp4, offloading);
            },
        );
    }

    #[test]
    fn a_persistent_interface_keeps_no_offloads_for_the_plain_back_end() {
        in_network_namespace(
            "tun::tests::a_persistent_interface_keeps_no_offloads_for_the_plain_back_end",
            async {
                let tun = Tun::open("mpt-test", Offload::On).unwrap();
                // SAFETY: the argument is a number, no address.
                let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, 1_usize) };
                assert_eq!(result, 0);
                drop(tun);
                let tun = configured(Offload::Off).register().unwrap();
                let host = PathSocket::open("10.99.0.1:4000".parse().unwrap(), None, Offload::Auto);
                let to = "10.99.0.2:5000".parse().unwrap();
                assert_eq!(
                    host.unwrap().send_train(to, 0, &[7; 3000], 1000).datagrams,
                    3
                );
                for _ in 0..3 {
                    assert_eq!(read_one(&tun).await.1.len(), 1028);
                }
            },
        );
    }
}

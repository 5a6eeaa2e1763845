//! The socket of a path: how it is opened, and what is wrong when it cannot be.
//!
//! It is bound to the path's device first, then to its address, and stays unconnected: the far end
//! of a path may move to another address. Path MTU is the tunnel's own business, so the kernel
//! keeps its guesses to itself (`IP_PMTUDISC_PROBE`): every datagram carries DF, and only one
//! larger than the device's MTU is refused. The error queue is on, which also makes a datagram that
//! the queueing discipline drops an error (`ENOBUFS`) that can be counted.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::counted::Counted;
use super::error::SocketError;
use super::gso::Segmentation;
use super::option::set_option;
use super::{gro, gso, steering};
use crate::Offload;

/// Bytes asked for the receive buffer of a path's socket.
///
/// 8 MiB are 67 ms of 1 Gbit/s: more than any pause of the thread that empties it. The kernel books
/// twice as much and charges what a packet occupies: 65 KB for a train of 64 KB, which makes 258 of
/// them, 100 KB for the same as single datagrams of 1,450 bytes. Eight TCP flows between two hosts on two processors
/// have more under way than half of it holds: they had 0.32 of what VXLAN carries, and have 0.45
/// (`benches/throughput --only "eight TCP flows"`).
const RECEIVE_BUFFER: usize = 8 << 20;
/// Bytes asked for the receive buffer of a hub's socket. It stands before the queues that peers share evenly: twice
/// as much makes another's pings 3 to 10 ms longer beside a flood (`benches/hub --greedy 20`).
const HUB_RECEIVE_BUFFER: usize = 4 << 20;
/// Bytes asked for each socket's send buffer: 33 ms of 1 Gbit/s wait for the host's own device at most.
const SEND_BUFFER: usize = 4 << 20;
/// Bytes asked for the receive buffer of the socket at which a hub is called: a sixty-fourth of
/// [`HUB_RECEIVE_BUFFER`]. What a flood brings beyond it costs neither the hub's processor nor its peers' place
/// (`benches/hub --greedy 20`).
const CALLS_BUFFER: usize = 64 << 10;

/// A path's UDP socket: non-blocking, unconnected, bound, with DF set on all it sends.
#[derive(Debug)]
pub struct PathSocket {
    socket: Socket,
    local: SocketAddr,
    buffers: BufferSizes,
    /// Whether trains leave whole.
    pub(super) segmentation: Segmentation,
    receives_trains: bool,
    is_for_calls: bool,
    /// What it sends and receives.
    pub(super) counted: Arc<Counted>,
}

/// A hub's sockets at one address and port.
#[derive(Debug)]
pub struct HubSockets {
    /// One for each worker, who gets there what is of its own peers.
    pub workers: Vec<PathSocket>,
    /// Gets all else: calls, and what makes no sense. None where the kernel cannot tell them apart; there the first
    /// worker gets it.
    pub calls: Option<PathSocket>,
}

/// What the kernel granted, in bytes of payload (it books twice as much, for its own headers). Less than was wanted is
/// worth a warning that names the sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// Receive buffer; its limit is the sysctl `net.core.rmem_max`.
    pub receive: usize,
    /// What was asked for to receive.
    pub receive_wanted: usize,
    /// Send buffer; its limit is the sysctl `net.core.wmem_max`.
    pub send: usize,
}

impl PathSocket {
    /// Opens a socket bound to `local`, and to the device `interface` if one is given.
    ///
    /// Port 0 lets the kernel choose; [`PathSocket::local_addr`] tells what it chose.
    ///
    /// With [`Offload::Off`] each datagram is sent and received by itself; else whole trains are, as
    /// far as the kernel has that.
    ///
    /// # Errors
    /// [`SocketError`], whose text says what the operator can do.
    pub fn open(
        local: SocketAddr,
        interface: Option<&str>,
        offload: Offload,
    ) -> Result<PathSocket, SocketError> {
        PathSocket::open_as(local, interface, offload, RECEIVE_BUFFER, false)
    }

    /// Opens a hub's sockets.
    ///
    /// # Errors
    /// As [`PathSocket::open`]: also where another program, or another path, has address and port, and would share them.
    pub fn open_hub(
        local: SocketAddr,
        interface: Option<&str>,
        offload: Offload,
        workers: usize,
    ) -> Result<HubSockets, SocketError> {
        let open = |local, is_beside| {
            PathSocket::open_as(local, interface, offload, HUB_RECEIVE_BUFFER, is_beside)
        };
        // Alone, so that nobody else is there; only then may others join it.
        let first = open(local, false)?;
        let local = first.local;
        first.share()?;
        let mut sockets = vec![first];
        for _ in 1..workers {
            sockets.push(open(local, true)?);
        }
        // Behind the workers' in the group: the program names sockets by their place.
        let calls = PathSocket::open_as(local, interface, Offload::Off, CALLS_BUFFER, true)?;
        let attached = steering::attach(sockets[0].as_fd(), workers);
        if let Err(error) = &attached {
            tracing::warn!(
                "{local}: the kernel does not choose the worker of what arrives: {error}"
            );
        }
        Ok(HubSockets {
            workers: sockets,
            calls: attached.is_ok().then_some(PathSocket {
                is_for_calls: true,
                ..calls
            }),
        })
    }

    /// Lets other sockets have its address and port as well.
    fn share(&self) -> Result<(), SocketError> {
        let shared = self.socket.set_reuse_port(true);
        shared.map_err(|source| SocketError::Failed {
            what: format!("set SO_REUSEPORT on the socket for {}", self.local),
            source,
        })
    }

    fn open_as(
        local: SocketAddr,
        interface: Option<&str>,
        offload: Offload,
        receive_buffer: usize,
        is_beside: bool,
    ) -> Result<PathSocket, SocketError> {
        let domain = Domain::for_address(local);
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
            .map_err(|source| SocketError::from_create(local, source))?;
        if let Some(interface) = interface {
            socket
                .bind_device(Some(interface.as_bytes()))
                .map_err(|source| SocketError::from_bind_device(interface, source))?;
        }
        set_options(&socket, local)?;
        let buffers = enlarge_buffers(&socket, receive_buffer);
        let trains = offload != Offload::Off;
        let segmentation = Segmentation::new(trains && gso::is_known(socket.as_fd()));
        // Before the socket has a port: no train may come in that nobody can tell from a datagram.
        let receives_trains = trains && gro::switch_on(socket.as_fd());
        if is_beside {
            let shared = socket.set_reuse_port(true);
            shared.map_err(|source| SocketError::Failed {
                what: format!("set SO_REUSEPORT on the socket for {local}"),
                source,
            })?;
        }
        socket
            .bind(&local.into())
            .map_err(|source| SocketError::from_bind(local, interface, source))?;
        let local = socket
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket())
            .unwrap_or(local);
        Ok(PathSocket {
            socket,
            local,
            buffers,
            segmentation,
            receives_trains,
            is_for_calls: false,
            counted: Arc::default(),
        })
    }

    /// Marks all that it sends from now on, for rules of policy routing; 0 is no mark.
    ///
    /// # Errors
    /// [`SocketError::NotPermitted`].
    pub fn set_mark(&self, mark: u32) -> Result<(), SocketError> {
        if mark == 0 {
            return Ok(());
        }
        let marked = self.socket.set_mark(mark);
        marked.map_err(|source| SocketError::NotPermitted {
            what: "mark what a socket sends".to_owned(),
            capability: "CAP_NET_ADMIN",
            source,
        })
    }

    /// Counts what it sends and receives where the path's former sockets did.
    #[must_use]
    pub fn counting(self, counted: Arc<Counted>) -> PathSocket {
        PathSocket { counted, ..self }
    }

    /// The address that the socket is bound to, with the port that the kernel chose if 0 was asked.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What [`PathSocket::register`] asks to be woken for. Never `WRITABLE`: see the module's text.
    pub const INTEREST: Interest = Interest::READABLE.add(Interest::ERROR);

    /// Registers the socket with the runtime of the calling task: readable when datagrams wait, in
    /// error when the error queue has something.
    ///
    /// # Errors
    /// If epoll refuses it.
    pub fn register(self: Arc<PathSocket>) -> io::Result<AsyncFd<Arc<PathSocket>>> {
        // SAFETY: the socket owns its descriptor, never exchanges it and closes it when the last
        // `Arc` is dropped, of which the `AsyncFd` holds one.
        let registered = unsafe { AsyncFd::register_with_interest(self, Self::INTEREST) };
        registered.map_err(io::Error::from)
    }

    /// Whether a buffer may come back with a train in it ([`super::RecvMeta::segment_size`]), so that
    /// it needs room for one: 64 KiB.
    pub fn receives_trains(&self) -> bool {
        self.receives_trains
    }

    /// Whether it is the one at which a hub is called.
    pub fn is_for_calls(&self) -> bool {
        self.is_for_calls
    }

    /// How large the socket's buffers came out.
    pub fn buffers(&self) -> BufferSizes {
        self.buffers
    }
}

/// Whether paths' sockets will hand over trains ([`PathSocket::receives_trains`]): to be known before
/// there is one.
pub fn receives_trains(offload: Offload) -> bool {
    let probe = |domain| Socket::new(domain, Type::DGRAM, Some(Protocol::UDP));
    let probe = probe(Domain::IPV4).or_else(|_| probe(Domain::IPV6));
    offload != Offload::Off && probe.is_ok_and(|socket| gro::switch_on(socket.as_fd()))
}

impl AsRawFd for PathSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for PathSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The options that every path's socket has, family by family.
fn set_options(socket: &Socket, local: SocketAddr) -> Result<(), SocketError> {
    const V4: &[(&str, c_int, c_int, c_int)] = &[
        (
            "IP_MTU_DISCOVER",
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        ("IP_RECVTOS", libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
        ("IP_RECVERR", libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        ("SO_RXQ_OVFL", libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
    ];
    const V6: &[(&str, c_int, c_int, c_int)] = &[
        ("IPV6_V6ONLY", libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1),
        (
            "IPV6_MTU_DISCOVER",
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
        (
            "IPV6_RECVTCLASS",
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVTCLASS,
            1,
        ),
        ("IPV6_RECVERR", libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
        ("SO_RXQ_OVFL", libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
    ];
    // Without it a path's delay has in it what datagrams wait for this process.
    let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    let options = if local.is_ipv4() { V4 } else { V6 };
    for &(name, level, option, value) in options {
        set_option(socket.as_fd(), level, option, value).map_err(|source| SocketError::Failed {
            what: format!("set {name} on the socket for {local}"),
            source,
        })?;
    }
    Ok(())
}

/// Asks for so many bytes to receive, and [`SEND_BUFFER`] to send: past the system's limit where CAP_NET_ADMIN allows it,
/// else up to the limit. Refusal is no error: the tunnel works, with less to spare.
fn enlarge_buffers(socket: &Socket, receive_wanted: usize) -> BufferSizes {
    let fd = socket.as_fd();
    let force = |option, wanted: usize| set_option(fd, libc::SOL_SOCKET, option, wanted as c_int);
    if force(libc::SO_RCVBUFFORCE, receive_wanted).is_err() {
        let _ = socket.set_recv_buffer_size(receive_wanted);
    }
    if force(libc::SO_SNDBUFFORCE, SEND_BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(SEND_BUFFER);
    }
    BufferSizes {
        receive: socket.recv_buffer_size().unwrap_or(0) / 2,
        receive_wanted,
        send: socket.send_buffer_size().unwrap_or(0) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(local: &str) -> Result<PathSocket, SocketError> {
        PathSocket::open(local.parse().unwrap(), None, Offload::Auto)
    }

    #[test]
    fn a_port_that_is_taken_is_said_so() {
        let first = open("127.0.0.1:0").unwrap();
        let error = PathSocket::open(first.local_addr(), None, Offload::Auto).unwrap_err();
        assert!(matches!(error, SocketError::PortTaken { .. }), "{error}");
        let port = first.local_addr().port();
        assert_eq!(
            error.to_string(),
            format!(
                "127.0.0.1:{port} is in use by another program or path; `ss -ulpn 'sport = {port}'` \
                 shows which; choose another port for `local`"
            )
        );
    }

    #[test]
    fn an_address_of_another_host_is_said_so() {
        for local in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let error = open(local).unwrap_err();
            assert!(
                matches!(
                    error,
                    SocketError::AddressAbsent { .. } | SocketError::NoFamily { .. }
                ),
                "{local}: {error}"
            );
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_said_so() {
        for interface in ["mpt-nowhere", "a-name-that-no-interface-can-have"] {
            let error = PathSocket::open(
                "127.0.0.1:0".parse().unwrap(),
                Some(interface),
                Offload::Auto,
            );
            let error = error.unwrap_err();
            assert!(matches!(error, SocketError::NoInterface { .. }), "{error}");
        }
    }

    #[test]
    fn a_link_local_address_asks_for_its_interface() {
        let error = open("[fe80::1]:0").unwrap_err();
        assert!(
            matches!(
                error,
                SocketError::NeedsInterface { .. } | SocketError::NoFamily { .. }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_socket_can_be_bound_to_its_device_as_well() {
        let socket =
            PathSocket::open("127.0.0.1:0".parse().unwrap(), Some("lo"), Offload::Auto).unwrap();
        assert_ne!(socket.local_addr().port(), 0);
    }

    #[test]
    fn whether_trains_come_in_is_known_beforehand() {
        for offload in [Offload::Auto, Offload::Off] {
            let socket = PathSocket::open("127.0.0.1:0".parse().unwrap(), None, offload).unwrap();
            assert_eq!(socket.receives_trains(), receives_trains(offload));
        }
    }

    #[test]
    fn buffers_are_as_wanted_or_as_large_as_the_sysctl_allows() {
        let buffers = open("127.0.0.1:0").unwrap().buffers();
        assert!(buffers.receive > 0 && buffers.receive <= buffers.receive_wanted);
        assert!(buffers.send > 0 && buffers.send <= SEND_BUFFER);
    }
}

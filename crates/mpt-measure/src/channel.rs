//! Sockets that carry a measurement: UDP, or ICMP echo.
//!
//! A sender of echoes takes a ping socket where the kernel lets it and a raw socket otherwise; a
//! receiver of echo *requests* needs a raw socket, since the kernel keeps them to itself.
//!
//! Packets must not be fragmented on the way, as one number would then be two packets: the
//! don't-fragment bit is set and what does not fit is refused by the kernel. Buffers are as large as
//! the kernel allows: a link that holds packets for 100 ms holds them in the sender's buffer, and a
//! receiver that is kept from running for a moment finds them in its own.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::fstat;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, Protocol, Socket, Type};

use super::icmp;
use super::session::Received;
use super::stamp;

/// Buffers that are asked for, in bytes.
const BUFFER_BYTES: usize = 16 << 20;
/// How long a receive waits before it comes back to look at the clock and for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(100);
/// The largest untagged Ethernet frame, which the Reorder Density paper measures with, in bytes.
const LARGEST_FRAME: u16 = 1518;
/// Room for any datagram.
pub(crate) const LARGEST_DATAGRAM: usize = 65_536;

/// What carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Udp,
    Icmp,
}

impl Carrier {
    /// Whom packets go to, for people and JSON. An echo goes to no port.
    pub(crate) fn name(self, target: SocketAddr) -> String {
        match self {
            Carrier::Udp => target.to_string(),
            Carrier::Icmp => target.ip().to_string(),
        }
    }
}

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error(
        "no right to an ICMP socket: it needs CAP_NET_RAW (sudo, or `setcap cap_net_raw+ep mpt-ctl`); \
         to send, a group in net.ipv4.ping_group_range is enough"
    )]
    NoIcmp(#[source] io::Error),
    #[error("cannot listen on {0}: {1}{hint}", hint = low_port(*.0, .1))]
    Listen(SocketAddr, #[source] io::Error),
    #[error("cannot send from {0}: {1}")]
    From(IpAddr, #[source] io::Error),
    #[error("cannot reach {0}: {1}")]
    Reach(SocketAddr, #[source] io::Error),
    #[error("cannot set up a socket: {0}")]
    Socket(#[from] io::Error),
}

/// What helps where a port is not for everybody.
fn low_port(local: SocketAddr, error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied && local.port() < 1024 {
        "; ports below 1024 take root or CAP_NET_BIND_SERVICE, or give --port 8620"
    } else {
        ""
    }
}

/// A socket for one measurement.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: UdpSocket,
    carrier: Carrier,
    ipv6: bool,
    /// Which half of an echo is measured here.
    half: icmp::Half,
    /// An IPv4 header stands in front of what is received.
    headed: bool,
}

impl Channel {
    /// A socket that sends to `target`, from address `from` if one is given, and receives replies.
    pub(crate) fn to(
        target: SocketAddr,
        carrier: Carrier,
        from: Option<IpAddr>,
    ) -> Result<Self, ChannelError> {
        let ipv6 = target.is_ipv6();
        let (socket, raw) = match carrier {
            Carrier::Udp => (udp_socket(ipv6)?, false),
            Carrier::Icmp => match icmp_socket(ipv6, Type::DGRAM) {
                Ok(socket) => (socket, false),
                Err(_) => (icmp_socket(ipv6, Type::RAW).map_err(no_icmp)?, true),
            },
        };
        enlarge(&socket);
        if ipv6 {
            sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO).map_err(errno)?;
        } else {
            sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).map_err(errno)?;
        }
        if let Some(from) = from {
            let local = SocketAddr::new(from, 0);
            socket
                .bind(&local.into())
                .map_err(|error| ChannelError::From(from, error))?;
        }
        socket
            .connect(&target.into())
            .map_err(|error| ChannelError::Reach(target, error))?;
        socket.set_read_timeout(Some(GLANCE))?;
        Ok(Channel {
            socket: socket.into(),
            carrier,
            ipv6,
            half: icmp::Half::Reply,
            headed: raw && !ipv6,
        })
    }

    /// A socket that receives what is sent to `local`; of UDP over IPv4 as well where `local` is
    /// the unspecified IPv6 address.
    pub(crate) fn listen(local: SocketAddr, carrier: Carrier) -> Result<Self, ChannelError> {
        let ipv6 = local.is_ipv6();
        let socket = match carrier {
            Carrier::Udp => udp_socket(ipv6)?,
            Carrier::Icmp => icmp_socket(ipv6, Type::RAW).map_err(no_icmp)?,
        };
        enlarge(&socket);
        if ipv6 && carrier == Carrier::Udp {
            socket.set_only_v6(!local.ip().is_unspecified())?;
        }
        socket
            .bind(&local.into())
            .map_err(|error| ChannelError::Listen(local, error))?;
        socket.set_read_timeout(Some(GLANCE))?;
        Ok(Channel {
            socket: socket.into(),
            carrier,
            ipv6,
            half: icmp::Half::Request,
            headed: carrier == Carrier::Icmp && !ipv6,
        })
    }

    /// Bytes that a packet needs in front of its payload.
    pub(crate) fn headroom(&self) -> usize {
        match self.carrier {
            Carrier::Udp => 0,
            Carrier::Icmp => icmp::HEADER_BYTES,
        }
    }

    /// Sends `packet`, whose payload begins at [`Channel::headroom`]. The stream's number gives an
    /// echo its identifier.
    pub(crate) fn send(&self, packet: &mut [u8], stream: u64, number: u32) -> io::Result<()> {
        if self.carrier == Carrier::Icmp {
            icmp::emit_request(packet, stream as u16, number as u16, self.ipv6);
        }
        self.socket.send(packet).map(|_| ())
    }

    /// Sends `packet` back to where one came from.
    pub(crate) fn answer(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let to = match to.ip() {
            IpAddr::V4(ip) if self.ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), to.port()),
            IpAddr::V4(_) | IpAddr::V6(_) => to,
        };
        self.socket.send_to(packet, to).map(|_| ())
    }

    /// Waits for a packet, for a tenth of a second at most; `None` when nothing came that could be
    /// one of a measurement.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Received<'a>>> {
        let (length, from) = match self.socket.recv_from(buffer) {
            Ok(received) => received,
            // A refusal is an answer to something sent earlier.
            Err(error) if is_pause(&error) || error.kind() == io::ErrorKind::ConnectionRefused => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let packet = buffer.get(..length).unwrap_or_default();
        Ok(match self.carrier {
            Carrier::Udp => Some(Received {
                from,
                echo_number: None,
                payload: packet,
            }),
            Carrier::Icmp => self.echo_in(packet).map(|echo| Received {
                from,
                echo_number: Some(echo.number),
                payload: echo.data,
            }),
        })
    }

    fn echo_in<'a>(&self, packet: &'a [u8]) -> Option<icmp::Echo<'a>> {
        let message = if self.headed {
            icmp::behind_ipv4_header(packet)?
        } else {
            packet
        };
        icmp::parse(message, self.ipv6).filter(|echo| echo.half == self.half)
    }

    /// The largest IP packet that the path is known to carry, in bytes.
    pub(crate) fn path_mtu(&self) -> Option<u32> {
        let mtu = if self.ipv6 {
            sockopt::ipv6_mtu(&self.socket)
        } else {
            sockopt::ip_mtu(&self.socket)
        };
        mtu.ok()
    }

    /// The largest Ethernet frame that the route carries whole, in bytes: up to the paper's 1518, and at
    /// least what a measuring packet needs.
    pub(crate) fn whole_frame(&self) -> u16 {
        let ethernet = stamp::ETHERNET_BYTES as u32;
        let carried = self.path_mtu().map_or(LARGEST_FRAME, |mtu| {
            u16::try_from(mtu.saturating_add(ethernet)).unwrap_or(u16::MAX)
        });
        let least = u16::try_from(stamp::least_frame(self.ipv6)).unwrap_or(u16::MAX);
        carried.clamp(least, LARGEST_FRAME)
    }

    /// The address that it sends from, or listens on.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Packets that the kernel dropped because this socket's buffer was full, as /proc/net tells.
    pub(crate) fn dropped(&self) -> Option<u64> {
        let inode = fstat(self.socket.as_fd()).ok()?.st_ino.to_string();
        ["udp", "udp6", "icmp", "icmp6", "raw", "raw6"]
            .iter()
            .filter_map(|table| {
                std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok()
            })
            .find_map(|table| drops_of(&table, &inode))
    }
}

/// The last column of the socket's row; its inode is the fourth from there.
fn drops_of(table: &str, inode: &str) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut last = line.split_whitespace().rev();
        let drops = last.next()?.parse().ok()?;
        (last.nth(2)? == inode).then_some(drops)
    })
}

/// Nothing came in time, or a signal did.
fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn udp_socket(ipv6: bool) -> io::Result<Socket> {
    Socket::new(domain(ipv6), Type::DGRAM, Some(Protocol::UDP))
}

fn icmp_socket(ipv6: bool, kind: Type) -> io::Result<Socket> {
    let protocol = if ipv6 {
        Protocol::ICMPV6
    } else {
        Protocol::ICMPV4
    };
    Socket::new(domain(ipv6), kind, Some(protocol))
}

fn domain(ipv6: bool) -> Domain {
    if ipv6 { Domain::IPV6 } else { Domain::IPV4 }
}

fn no_icmp(error: io::Error) -> ChannelError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        ChannelError::NoIcmp(error)
    } else {
        ChannelError::Socket(error)
    }
}

/// Without the privilege, up to the system's limit; what that means shows in the report.
fn enlarge(socket: &Socket) {
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES).is_err() {
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, BUFFER_BYTES).is_err() {
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    }
}

fn errno(error: rustix::io::Errno) -> io::Error {
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_by_inode() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             1: 00000000:1474 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 5\n\
             2: 00000000:1475 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 6\n";
        assert_eq!(drops_of(table, "4712"), Some(6));
        assert_eq!(drops_of(table, "1"), None);
        assert_eq!(drops_of("", "1"), None);
    }

    #[test]
    fn a_port_that_takes_root_is_said_to() {
        let refused = |port, kind| {
            let local = (std::net::Ipv6Addr::UNSPECIFIED, port).into();
            ChannelError::Listen(local, io::Error::from(kind)).to_string()
        };
        assert_eq!(
            refused(862, io::ErrorKind::PermissionDenied),
            "cannot listen on [::]:862: permission denied; ports below 1024 take root or \
             CAP_NET_BIND_SERVICE, or give --port 8620"
        );
        for (port, kind) in [
            (1024, io::ErrorKind::PermissionDenied),
            (862, io::ErrorKind::AddrInUse),
        ] {
            assert!(!refused(port, kind).contains("--port"), "{port} {kind}");
        }
    }

    #[test]
    fn a_fresh_socket_has_dropped_nothing() {
        let channel = Channel::listen("127.0.0.1:0".parse().unwrap(), Carrier::Udp).unwrap();
        assert_eq!(channel.dropped(), Some(0));
    }
}

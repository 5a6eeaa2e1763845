//! The socket's error queue: what routers, the far host and our own stack say about datagrams that
//! did not make it.
//!
//! The kernel checks that an ICMP error quotes a datagram of this socket and keeps it, with the
//! address that the datagram went to and the address of whoever complains (`ip(7)`, `IP_RECVERR`).
//! Beyond that nothing is authenticated: anybody who can guess addresses and ports can forge one
//! (RFC 5927). So an error is a hint, good for "probe this path now" and for "try a smaller
//! datagram", and it never proves that a path is dead or that an MTU is as small as it says.

use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use libc::sock_extended_err;

use super::address::{RawAddress, array, parse};
use super::cmsg::{CONTROL_LEN, Control};
use super::socket::PathSocket;

/// Errors read in one call at most, so that a flood of them cannot hold up the path.
pub const DRAIN_LIMIT: usize = 64;

/// An error about a datagram that this socket sent.
#[derive(Debug)]
pub enum PathError {
    /// A datagram larger than a link on its way, or than our own interface's MTU.
    TooBig {
        /// The largest IP packet that would pass, in bytes, as claimed; 0 from an ancient router.
        mtu: u32,
        /// Where the datagram was going.
        to: SocketAddr,
    },
    /// The datagram could not be delivered.
    Unreachable {
        /// What is out of reach.
        reason: Unreachable,
        /// Where the datagram was going.
        to: SocketAddr,
        /// Who said so, if that is known.
        from_icmp: Option<IpAddr>,
    },
    /// Our own stack failed to send it, for another reason than its size.
    Local(io::Error),
}

/// Why a datagram could not be delivered (RFC 792, RFC 1812 §5.2.7.1, RFC 4443 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network.
    Network,
    /// The host does not answer on its link.
    Host,
    /// The host has nobody on that port: the far daemon is not running.
    Port,
    /// A firewall or policy forbids it.
    Prohibited,
    /// TTL or hop limit ran out: a routing loop.
    HopLimit,
    /// Another ICMP error.
    Other {
        /// ICMP or ICMPv6 type.
        kind: u8,
        /// Its code.
        code: u8,
    },
}

/// Reads the error queue of `socket`, at most [`DRAIN_LIMIT`] errors, and gives each to `report`.
///
/// Returns whether more may wait. Never blocks.
pub fn drain(socket: &PathSocket, mut report: impl FnMut(PathError)) -> bool {
    for _ in 0..DRAIN_LIMIT {
        match read_one(socket) {
            Ok(Some(error)) => report(error),
            Ok(None) => {}
            Err(_) => return false,
        }
    }
    true
}

/// One entry of the queue; `None` if it is of no concern; `Err` when the queue is empty.
fn read_one(socket: &PathSocket) -> io::Result<Option<PathError>> {
    let mut name = RawAddress::EMPTY;
    let mut control = Control::<CONTROL_LEN>::EMPTY;
    let mut header = super::EMPTY_MSGHDR;
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = RawAddress::CAPACITY as u32;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = super::as_c(CONTROL_LEN);
    // SAFETY: name and ancillary data are exclusively borrowed through the call and as long as
    // said; there is no buffer for the quoted datagram, so its bytes are cut off.
    let result = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut header,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let to = name.read(header.msg_namelen);
    let error = control
        .messages(super::as_c(header.msg_controllen))
        .filter(|message| {
            matches!(
                (message.level, message.kind),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            )
        })
        .find_map(|message| classify(message.data, to));
    Ok(error)
}

/// What a `sock_extended_err`, followed by the address of whoever complains, says.
fn classify(data: &[u8], to: Option<SocketAddr>) -> Option<PathError> {
    let errno = u32::from_ne_bytes(array(data, offset_of!(sock_extended_err, ee_errno))?);
    let origin = *data.get(offset_of!(sock_extended_err, ee_origin))?;
    let kind = *data.get(offset_of!(sock_extended_err, ee_type))?;
    let code = *data.get(offset_of!(sock_extended_err, ee_code))?;
    let info = u32::from_ne_bytes(array(data, offset_of!(sock_extended_err, ee_info))?);
    let from_icmp = data
        .get(size_of::<sock_extended_err>()..)
        .and_then(parse)
        .map(|address| address.ip());
    let too_big = i32::try_from(errno) == Ok(libc::EMSGSIZE);
    let reason = match origin {
        libc::SO_EE_ORIGIN_LOCAL | libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
            if too_big =>
        {
            return Some(PathError::TooBig { mtu: info, to: to? });
        }
        libc::SO_EE_ORIGIN_LOCAL => {
            let errno = i32::try_from(errno).ok()?;
            return Some(PathError::Local(io::Error::from_raw_os_error(errno)));
        }
        libc::SO_EE_ORIGIN_ICMP => icmp_reason(kind, code),
        libc::SO_EE_ORIGIN_ICMP6 => icmp6_reason(kind, code),
        // Time stamps and zero-copy notices are no errors.
        _ => return None,
    };
    Some(PathError::Unreachable {
        reason,
        to: to?,
        from_icmp,
    })
}

/// RFC 792 and RFC 1812 §5.2.7.1: type 3 "destination unreachable", type 11 "time exceeded".
fn icmp_reason(kind: u8, code: u8) -> Unreachable {
    match (kind, code) {
        (3, 0 | 6 | 11) => Unreachable::Network,
        (3, 1 | 7 | 8 | 12) => Unreachable::Host,
        (3, 2 | 3) => Unreachable::Port,
        (3, 9 | 10 | 13) => Unreachable::Prohibited,
        (11, 0) => Unreachable::HopLimit,
        _ => Unreachable::Other { kind, code },
    }
}

/// RFC 4443 §3.1 and §3.3: type 1 "destination unreachable", type 3 "time exceeded".
fn icmp6_reason(kind: u8, code: u8) -> Unreachable {
    match (kind, code) {
        (1, 0 | 2) => Unreachable::Network,
        (1, 3) => Unreachable::Host,
        (1, 4) => Unreachable::Port,
        (1, 1 | 5 | 6) => Unreachable::Prohibited,
        (3, 0) => Unreachable::HopLimit,
        _ => Unreachable::Other { kind, code },
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loopback_pair, loopbacks};
    use super::*;
    use crate::Offload;
    use std::sync::Arc;
    use std::time::Duration;

    fn drained(socket: &PathSocket) -> Vec<PathError> {
        let mut errors = Vec::new();
        drain(socket, |error| errors.push(error));
        errors
    }

    /// The errors that a datagram to a closed port brings. Some kernels limit the rate of ICMP even
    /// on loopback, and other tests provoke it too: a few tries.
    fn provoked(socket: &PathSocket, closed: SocketAddr) -> Vec<PathError> {
        for _ in 0..50 {
            assert_eq!(socket.send_train(closed, 0, b"hello", 5).datagrams, 1);
            let errors = drained(socket);
            if !errors.is_empty() {
                return errors;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no ICMP error came back");
    }

    #[test]
    fn a_closed_port_is_reported_with_its_address_and_who_said_so() {
        for local in loopbacks() {
            let (from, _) = loopback_pair(local);
            let closed = PathSocket::open(local, None, Offload::Off)
                .unwrap()
                .local_addr();
            let errors = provoked(&from, closed);
            let [
                PathError::Unreachable {
                    reason: Unreachable::Port,
                    to,
                    from_icmp: Some(who),
                },
            ] = errors[..]
            else {
                panic!("{errors:?}");
            };
            assert_eq!((to, who), (closed, closed.ip()));
            assert!(drained(&from).is_empty());
        }
    }

    #[test]
    fn a_datagram_too_big_for_the_interface_reports_its_mtu() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            let sent = from.send_train(to.local_addr(), 0, &vec![0; 65_520], 65_520);
            assert_eq!(sent.too_big, 1, "{sent:?}");
            for error in drained(&from) {
                let PathError::TooBig { mtu, to: about } = error else {
                    panic!("{error:?}");
                };
                assert_eq!(about.ip(), to.local_addr().ip());
                assert!((65_000..=65_536).contains(&mtu), "{mtu}");
            }
        }
    }

    #[test]
    fn a_flood_of_errors_is_taken_in_portions() {
        let (from, _) = loopback_pair(loopbacks()[0]);
        let closed = PathSocket::open(loopbacks()[0], None, Offload::Off)
            .unwrap()
            .local_addr();
        let mut errors = 0;
        let mut sent = 0;
        // Loopback's ICMP is not rate-limited, but a host may be set up to do so.
        for _ in 0..2 * DRAIN_LIMIT {
            sent += from.send_train(closed, 0, b"x", 1).datagrams;
        }
        let mut calls = 1;
        while drain(&from, |_| errors += 1) && calls < 10 {
            calls += 1;
        }
        assert!(
            errors <= sent && calls <= 3,
            "{errors} of {sent} in {calls}"
        );
    }

    #[test]
    fn time_stamps_and_cut_entries_are_no_errors() {
        let to = Some("192.0.2.1:1".parse().unwrap());
        let mut entry = [0; size_of::<sock_extended_err>()];
        entry[offset_of!(sock_extended_err, ee_origin)] = libc::SO_EE_ORIGIN_TXSTATUS;
        assert!(classify(&entry, to).is_none());
        entry[offset_of!(sock_extended_err, ee_origin)] = libc::SO_EE_ORIGIN_ICMP;
        assert!(classify(&entry, to).is_some());
        assert!(classify(&entry, None).is_none());
        for cut in 0..12 {
            assert!(classify(&entry[..cut], to).is_none(), "{cut} bytes");
        }
    }

    #[tokio::test]
    async fn an_error_wakes_the_task_once_and_leaves_no_spin_behind() {
        let (from, _) = loopback_pair(loopbacks()[0]);
        let closed = PathSocket::open(loopbacks()[0], None, Offload::Off)
            .unwrap()
            .local_addr();
        let from = Arc::new(from).register().unwrap();
        let wait = Duration::from_millis(50);
        let mut guard = None;
        for _ in 0..20 {
            assert_eq!(from.get_ref().send_train(closed, 0, b"x", 1).datagrams, 1);
            let ready = from.ready(PathSocket::INTEREST);
            if let Ok(ready) = tokio::time::timeout(wait, ready).await {
                guard = Some(ready.unwrap());
                break;
            }
        }
        let mut guard = guard.expect("no ICMP error came back");
        assert!(guard.ready().is_error());
        assert_eq!(drained(from.get_ref()).len(), 1);
        guard.clear_ready();
        drop(guard);
        let again = from.ready(PathSocket::INTEREST);
        let again = tokio::time::timeout(wait, again).await;
        assert!(again.is_err(), "ready again with nothing to read");
    }
}

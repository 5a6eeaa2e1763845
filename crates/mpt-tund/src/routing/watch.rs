//! Hears of rules and routes that come, change and go, as far as a tunnel may care.
//!
//! A host with a full table of the Internet changes routes many times a second. What is heard of here is
//! only a reason to look again at all of it, so what cannot matter is passed over: routes that are neither
//! default routes nor of the kernel's own making nor ours, and that lead to none of the addresses that
//! count.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;

use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket as _, SocketAddr, TokioSocket};

use super::host::PROTOCOL;
use super::host::contains;

/// `RTNLGRP_IPV6_RULE` has no constant of the older kind.
const IPV6_RULES: libc::c_int = 1 << (19 - 1);
const GROUPS: libc::c_int =
    libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE | libc::RTMGRP_IPV4_RULE | IPV6_RULES;
/// Bytes of a datagram: twice what the kernel puts in one.
const DATAGRAM: usize = 64 * 1024;
/// `struct nlmsghdr` and `struct rtmsg`.
const HEADER: usize = 16;
const ROUTE: usize = 12;
/// `RTPROT_KERNEL`.
const BY_KERNEL: u8 = 2;
/// `RTM_F_CLONED`: an entry of a cache.
const CLONED: u32 = 0x200;

/// The subscription.
pub(super) struct Watch {
    socket: TokioSocket,
    datagram: Vec<u8>,
}

impl Watch {
    /// Subscribes.
    ///
    /// # Errors
    /// If there is no netlink socket to be had.
    pub(super) fn open() -> io::Result<Watch> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        let subscription = SocketAddr::new(0, GROUPS.cast_unsigned());
        socket.socket_mut().bind(&subscription)?;
        Ok(Watch {
            socket,
            datagram: Vec::with_capacity(DATAGRAM),
        })
    }

    /// Waits until something changed that may matter to who sends to `outer`. May be cancelled without loss.
    ///
    /// # Errors
    /// If the socket fails; lost notifications are a change.
    pub(super) async fn changed(&mut self, outer: Vec<IpAddr>) -> io::Result<()> {
        loop {
            self.datagram.clear();
            let Watch { socket, datagram } = self;
            match poll_fn(|cx| socket.poll_recv_from(cx, datagram)).await {
                Ok(sender) if sender.port_number() == 0 => {
                    if matters(datagram, &outer) {
                        return Ok(());
                    }
                }
                // Not from the kernel.
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether one of the datagram's messages may matter.
fn matters(mut datagram: &[u8], outer: &[IpAddr]) -> bool {
    while let Some(length) = number_at(datagram, 0) {
        let Some(message) = datagram
            .get(..length as usize)
            .filter(|m| m.len() >= HEADER)
        else {
            return false;
        };
        if message_matters(message, outer) {
            return true;
        }
        let next = (length as usize).next_multiple_of(4);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    false
}

fn message_matters(message: &[u8], outer: &[IpAddr]) -> bool {
    let kind = u16::from_ne_bytes([message[4], message[5]]);
    match kind {
        libc::RTM_NEWRULE | libc::RTM_DELRULE => return true,
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {}
        _ => return false,
    }
    let Some((route, attributes)) = message[HEADER..].split_at_checked(ROUTE) else {
        return false;
    };
    let (length, protocol) = (route[1], route[5]);
    if number_at(route, 8).is_some_and(|flags| flags & CLONED != 0) {
        return false;
    }
    length == 0
        || protocol == BY_KERNEL
        || protocol == PROTOCOL
        || destination(attributes)
            .is_some_and(|ip| outer.iter().any(|&one| contains((ip, length), one)))
}

/// The attribute RTA_DST.
fn destination(mut attributes: &[u8]) -> Option<IpAddr> {
    loop {
        let header = attributes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([header[2], header[3]]) == libc::RTA_DST {
            return match value.len() {
                4 => Some(<[u8; 4]>::try_from(value).ok()?.into()),
                16 => Some(<[u8; 16]>::try_from(value).ok()?.into()),
                _ => None,
            };
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, length: u8, protocol: u8, destination: &[u8]) -> Vec<u8> {
        let mut body = vec![0; ROUTE];
        (body[1], body[5]) = (length, protocol);
        if !destination.is_empty() {
            body.extend((4 + destination.len() as u16).to_ne_bytes());
            body.extend(libc::RTA_DST.to_ne_bytes());
            body.extend(destination);
        }
        let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message
    }

    #[test]
    fn routes_that_lead_elsewhere_are_passed_over() {
        let outer = [
            "203.0.113.7".parse().unwrap(),
            "2001:db8::7".parse().unwrap(),
        ];
        let bird = 12;
        let new = libc::RTM_NEWROUTE;
        let elsewhere = message(new, 24, bird, &[198, 51, 100, 0]);
        for (datagram, expected) in [
            (elsewhere.clone(), false),
            (message(new, 24, bird, &[203, 0, 113, 0]), true),
            (message(new, 0, bird, &[]), true),
            (message(new, 24, BY_KERNEL, &[198, 51, 100, 0]), true),
            (message(new, 24, PROTOCOL, &[198, 51, 100, 0]), true),
            (message(libc::RTM_DELRULE, 0, 0, &[]), true),
            (message(libc::RTM_NEWLINK, 0, 0, &[]), false),
            ([elsewhere, message(new, 0, bird, &[])].concat(), true),
        ] {
            assert_eq!(matters(&datagram, &outer), expected, "{datagram:?}");
        }
    }

    #[test]
    fn what_is_cut_is_passed_over() {
        let whole = message(libc::RTM_NEWROUTE, 24, 12, &[203, 0, 113, 0]);
        let outer = ["203.0.113.7".parse().unwrap()];
        for cut in 0..whole.len() {
            assert!(!matters(&whole[..cut], &outer), "{cut} bytes");
        }
    }
}

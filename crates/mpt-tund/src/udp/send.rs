//! Trains out: many datagrams of one size in one system call.
//!
//! A datagram that does not leave must be accounted for, and one failure must not take the rest of
//! the train with it. So every datagram ends in exactly one of [`Sent`]'s counts:
//!
//! * A socket with an error queue reports a pending ICMP error of some *earlier* datagram by
//!   failing the next send, which then has sent nothing. That is no reason to lose a packet: each
//!   datagram gets a second try. (The error itself waits in the queue, see `errqueue`.)
//! * `ENOBUFS` is the queueing discipline that dropped this one; the next may fit.
//! * `EAGAIN` is the socket's own buffer, full: the rest of the train would fail likewise.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use super::address::RawAddress;
use super::cmsg::Control;
use super::socket::PathSocket;

/// Datagrams a system call; their headers stand on the stack (80 bytes each).
const SEND_BATCH: usize = 64;

/// Ancillary data of a send: one `int`.
const CONTROL_LEN: usize = 32;

/// What became of a train. The counts add up to the datagrams in it.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Sent {
    /// Datagrams handed to the network.
    pub(crate) datagrams: usize,
    /// Datagrams not sent because the socket's buffer was full (`EAGAIN`): always the train's tail.
    pub(crate) would_block: usize,
    /// Datagrams that the queueing discipline dropped (`ENOBUFS`).
    pub(crate) queue_full: usize,
    /// Datagrams larger than the interface's MTU (`EMSGSIZE`).
    pub(crate) too_big: usize,
    /// Datagrams refused for another reason: no route, filtered, interface gone.
    pub(crate) failed: usize,
    /// The last error that cost a datagram.
    pub(crate) error: Option<io::Error>,
}

impl PathSocket {
    /// Sends `contents` to `to` as datagrams of `segment_size` bytes, the last perhaps shorter.
    ///
    /// `tos` is the outer TOS or traffic class, DSCP and ECN, of all of them; 0 costs nothing.
    /// Never blocks. An empty `contents` is no datagram; `segment_size` must not be 0 and every
    /// datagram must fit UDP's 65,507 bytes, or it counts as too big.
    pub(crate) fn send_train(
        &self,
        to: SocketAddr,
        tos: u8,
        contents: &[u8],
        segment_size: usize,
    ) -> Sent {
        assert!(segment_size > 0, "a datagram has a size");
        let total = contents.len().div_ceil(segment_size);
        let envelope = Envelope::new(to, tos);
        let mut sent = Sent::default();
        let mut next = 0;
        let mut tried = false;
        // Ends: each turn moves `next` on, or is the one second try that a datagram gets.
        while next < total {
            let error =
                match self.send_some(&envelope, &contents[next * segment_size..], segment_size) {
                    Ok(count) => {
                        sent.datagrams += count;
                        next += count;
                        tried = false;
                        continue;
                    }
                    Err(error) => error,
                };
            let lost = match error.raw_os_error() {
                Some(libc::EAGAIN) => {
                    sent.would_block = total - next;
                    sent.error = Some(error);
                    break;
                }
                Some(libc::ENOBUFS) => &mut sent.queue_full,
                _ if !tried => {
                    tried = true;
                    continue;
                }
                Some(libc::EMSGSIZE) => &mut sent.too_big,
                _ => &mut sent.failed,
            };
            *lost += 1;
            sent.error = Some(error);
            next += 1;
            tried = false;
        }
        sent
    }

    /// Sends the first datagrams of `contents`, at most [`SEND_BATCH`]; says how many went (never
    /// 0), or why the first did not.
    fn send_some(
        &self,
        envelope: &Envelope,
        contents: &[u8],
        segment_size: usize,
    ) -> io::Result<usize> {
        let mut parts = [super::EMPTY_IOVEC; SEND_BATCH];
        let mut headers = [super::EMPTY_HEADER; SEND_BATCH];
        let mut count = 0;
        for (segment, (part, header)) in contents
            .chunks(segment_size)
            .zip(parts.iter_mut().zip(headers.iter_mut()))
        {
            part.iov_base = segment.as_ptr().cast_mut().cast();
            part.iov_len = segment.len();
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            envelope.address(&mut header.msg_hdr);
            count += 1;
        }
        // SAFETY: the first `count` headers point at parts, address and ancillary data that live
        // through the call, each with its true length; the kernel only reads what they point at
        // and writes `msg_len` of the headers themselves.
        let result = unsafe {
            libc::sendmmsg(
                self.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(result) {
            Ok(0) => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            Ok(sent) => Ok(sent),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// What all datagrams of a train share: where they go and their TOS.
struct Envelope {
    to: RawAddress,
    control: Control<CONTROL_LEN>,
    control_len: usize,
}

impl Envelope {
    fn new(to: SocketAddr, tos: u8) -> Envelope {
        let mut control = Control::EMPTY;
        let control_len = match (tos, to) {
            (0, _) => 0,
            (tos, SocketAddr::V4(_)) => {
                control.write_int(libc::IPPROTO_IP, libc::IP_TOS, tos.into())
            }
            (tos, SocketAddr::V6(_)) => {
                control.write_int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos.into())
            }
        };
        Envelope {
            to: to.into(),
            control,
            control_len,
        }
    }

    /// Points `header` at the address and the ancillary data, which the kernel only reads.
    fn address(&self, header: &mut libc::msghdr) {
        header.msg_name = self.to.as_ptr().cast_mut().cast();
        header.msg_namelen = self.to.len();
        if self.control_len > 0 {
            header.msg_control = self.control.0.as_ptr().cast_mut().cast();
            header.msg_controllen = self.control_len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecvMeta;
    use super::super::testing::{loopback_pair, loopbacks, recv_exactly};
    use super::*;

    fn total(sent: &Sent) -> usize {
        sent.datagrams + sent.would_block + sent.queue_full + sent.too_big + sent.failed
    }

    #[test]
    fn trains_of_any_length_arrive_whole_and_in_order() {
        const SIZE: usize = 100;
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            for count in [1, 2, 63, 64, 65, 128, 200] {
                for last in [1, 37, SIZE] {
                    let len = (count - 1) * SIZE + last;
                    let contents: Vec<u8> = (0..len).map(|i| (i / 7) as u8).collect();
                    let sent = from.send_train(to.local_addr(), 0, &contents, SIZE);
                    assert_eq!(sent.datagrams, count, "{sent:?}");
                    let received = recv_exactly(&to, count);
                    let joined: Vec<u8> = received.iter().flat_map(|(d, _)| d.clone()).collect();
                    assert!(joined == contents, "{count} datagrams, last of {last}");
                    let sizes_hold = received[..count - 1].iter().all(|(d, _)| d.len() == SIZE);
                    assert!(sizes_hold && received[count - 1].0.len() == last);
                }
            }
        }
    }

    #[test]
    fn dscp_and_ecn_travel_with_the_train() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            for tos in [0, 0xb8 | 2, 0xff, 3, 1] {
                let sent = from.send_train(to.local_addr(), tos, &[7; 30], 10);
                assert_eq!(sent.datagrams, 3, "{sent:?}");
                let seen: Vec<u8> = recv_exactly(&to, 3).iter().map(|(_, m)| m.tos).collect();
                assert_eq!(seen, [tos; 3], "{local}");
            }
        }
    }

    #[test]
    fn an_icmp_error_of_an_earlier_datagram_costs_no_later_one() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            let closed = PathSocket::open(local, None).unwrap().local_addr();
            for round in 0..20 {
                let lost = from.send_train(closed, 0, &[0; 3], 1);
                assert_eq!(lost.datagrams, 3, "round {round}: {lost:?}");
                let sent = from.send_train(to.local_addr(), 0, &[9; 5], 1);
                assert_eq!(sent.datagrams, 5, "round {round}: {sent:?}");
                recv_exactly(&to, 5);
            }
        }
    }

    #[test]
    fn what_exceeds_the_mtu_is_counted_and_the_rest_goes() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            // Loopback's MTU is 65,536: with its headers the first does not fit, the second does.
            let sent = from.send_train(to.local_addr(), 0, &vec![1; 65_530 + 100], 65_530);
            assert_eq!((sent.datagrams, sent.too_big), (1, 1), "{sent:?}");
            assert_eq!(recv_exactly(&to, 1)[0].0.len(), 100);
        }
    }

    #[test]
    fn every_datagram_without_a_route_is_counted() {
        let from = PathSocket::open("127.0.0.1:0".parse().unwrap(), None).unwrap();
        // A socket bound to a loopback address has no way out of the host.
        let sent = from.send_train("192.0.2.1:9".parse().unwrap(), 0, &[0; 70], 1);
        assert_eq!((sent.failed, total(&sent)), (70, 70), "{sent:?}");
        assert!(sent.error.is_some());
    }

    #[test]
    fn nothing_is_no_datagram() {
        let (from, to) = loopback_pair(loopbacks()[0]);
        let sent = from.send_train(to.local_addr(), 0, &[], 100);
        assert_eq!(total(&sent), 0);
        let mut metas = [RecvMeta::default()];
        assert!(to.recv_batch(&mut [[0; 10]], &mut metas).is_err());
    }
}

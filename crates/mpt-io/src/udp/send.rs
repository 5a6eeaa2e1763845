//! Trains out: many datagrams of one size in one system call. Here they go one by one through
//! `sendmmsg`; where the kernel takes a train whole, `gso` does it and this is what remains.
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

use mpt_core::control::drops::DropReason;

use super::address::RawAddress;
use super::cmsg::Control;
use super::socket::PathSocket;

/// Datagrams a system call; their headers stand on the stack (80 bytes each).
const SEND_BATCH: usize = 64;

/// Ancillary data of a send: the TOS and the segment size, each with its header.
const CONTROL_LEN: usize = 64;

/// What became of a train. The counts add up to the datagrams in it.
#[derive(Debug, Default)]
#[must_use]
pub struct Sent {
    /// Datagrams handed to the network.
    pub datagrams: usize,
    /// Datagrams not sent because the socket's buffer was full (`EAGAIN`): always the train's tail.
    pub would_block: usize,
    /// Datagrams that the queueing discipline dropped (`ENOBUFS`).
    pub queue_full: usize,
    /// Datagrams larger than the interface's MTU (`EMSGSIZE`).
    pub too_big: usize,
    /// Datagrams refused for another reason: no route, filtered, interface gone.
    pub failed: usize,
    /// The last error that cost a datagram.
    pub error: Option<io::Error>,
}

impl Sent {
    /// How many datagrams did not leave, by why.
    pub fn lost(&self) -> impl Iterator<Item = (usize, DropReason)> {
        let lost = [
            (self.would_block, DropReason::SendFull),
            (self.queue_full, DropReason::SendQueue),
            (self.too_big, DropReason::TooBig),
            (self.failed, DropReason::SendError),
        ];
        lost.into_iter().filter(|(datagrams, _)| *datagrams > 0)
    }

    /// Adds what became of more datagrams, sent later.
    pub(super) fn add(&mut self, later: Sent) {
        self.datagrams += later.datagrams;
        self.would_block += later.would_block;
        self.queue_full += later.queue_full;
        self.too_big += later.too_big;
        self.failed += later.failed;
        self.error = later.error.or(self.error.take());
    }
}

impl PathSocket {
    /// Sends `contents` to `to` as datagrams of `segment_size` bytes, the last perhaps shorter.
    ///
    /// `tos` is the outer TOS or traffic class, DSCP and ECN, of all of them; 0 costs nothing.
    /// Never blocks. An empty `contents` is no datagram; `segment_size` must not be 0 and every
    /// datagram must fit UDP's 65,507 bytes, or it counts as too big.
    pub fn send_train(
        &self,
        to: SocketAddr,
        tos: u8,
        contents: &[u8],
        segment_size: usize,
    ) -> Sent {
        assert!(segment_size > 0, "a datagram has a size");
        let envelope = Envelope::new(to, tos, segment_size);
        let sent = if contents.len() > segment_size && self.segmentation.is_possible() {
            self.send_whole(&envelope, contents, segment_size)
        } else {
            let mut sent = Sent::default();
            self.send_each(&envelope, contents, segment_size, &mut sent);
            sent
        };
        let bytes = contents.len().min(sent.datagrams * segment_size);
        self.counted.add(self.local_addr(), sent.datagrams, bytes);
        sent
    }

    /// Sends the datagrams one by one, many a system call, and counts them in `sent`.
    pub(super) fn send_each(
        &self,
        envelope: &Envelope,
        contents: &[u8],
        segment_size: usize,
        sent: &mut Sent,
    ) {
        let total = contents.len().div_ceil(segment_size);
        let mut next = 0;
        let mut tried = false;
        // Ends: each turn moves `next` on, or is the one second try that a datagram gets.
        while next < total {
            let error =
                match self.send_some(envelope, &contents[next * segment_size..], segment_size) {
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
                    sent.would_block += total - next;
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
    }

    /// Sends the first datagrams of `contents`, at most [`SEND_BATCH`]; says how many went (never
    /// 0), or why the first did not.
    fn send_some(
        &self,
        envelope: &Envelope,
        contents: &[u8],
        segment_size: usize,
    ) -> io::Result<usize> {
        let sent = offer(envelope, contents, segment_size, |headers| {
            // SAFETY: the headers point at parts, address and ancillary data that live through the
            // call, each with its true length (see `offer`); the kernel only reads what they point at
            // and writes `msg_len` of the headers themselves.
            let result = unsafe {
                libc::sendmmsg(
                    self.as_raw_fd(),
                    headers.as_mut_ptr(),
                    headers.len() as u32,
                    super::as_c(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
                )
            };
            usize::try_from(result).map_err(|_| io::Error::last_os_error())
        })?;
        match sent {
            0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            sent => Ok(sent),
        }
    }
}

/// Has `send` take the first datagrams of `contents`, at most [`SEND_BATCH`], from headers that point at them.
/// All pointers are made here, so that Miri can watch them (`tests/miri`), with somebody in the kernel's place.
fn offer(
    envelope: &Envelope,
    contents: &[u8],
    segment_size: usize,
    send: impl FnOnce(&mut [libc::mmsghdr]) -> io::Result<usize>,
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
    send(&mut headers[..count])
}

/// What all datagrams of a train share: where they go and their TOS; and their size, which the
/// kernel must know to cut a train.
pub(super) struct Envelope {
    to: RawAddress,
    control: Control<CONTROL_LEN>,
    /// Bytes of `control` that a single datagram needs: the TOS.
    single_len: usize,
    /// Bytes that a train needs: the segment size as well.
    train_len: usize,
}

impl Envelope {
    pub(super) fn new(to: SocketAddr, tos: u8, segment_size: usize) -> Envelope {
        let mut control = Control::EMPTY;
        let (level, kind) = match to {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        let single_len = match tos {
            0 => 0,
            tos => control.write(0, level, kind, &i32::from(tos).to_ne_bytes()),
        };
        // Longer datagrams make no train.
        let size = u16::try_from(segment_size).unwrap_or(u16::MAX);
        let (level, kind) = (libc::SOL_UDP, libc::UDP_SEGMENT);
        let train_len = control.write(single_len, level, kind, &size.to_ne_bytes());
        Envelope {
            to: to.into(),
            control,
            single_len,
            train_len,
        }
    }

    /// Addresses a single datagram.
    fn address(&self, header: &mut libc::msghdr) {
        self.fill(header, self.single_len);
    }

    /// Addresses a train that the kernel is to cut.
    pub(super) fn address_train(&self, header: &mut libc::msghdr) {
        self.fill(header, self.train_len);
    }

    /// Points `header` at the address and the ancillary data, which the kernel only reads.
    fn fill(&self, header: &mut libc::msghdr, control_len: usize) {
        header.msg_name = self.to.as_ptr().cast_mut().cast();
        header.msg_namelen = self.to.len();
        if control_len > 0 {
            header.msg_control = self.control.0.as_ptr().cast_mut().cast();
            header.msg_controllen = super::as_c(control_len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecvMeta;
    use super::super::testing::{loopback_pair, loopback_pairs, loopbacks, recv_exactly};
    use super::*;
    use crate::Offload;

    fn total(sent: &Sent) -> usize {
        sent.datagrams + sent.would_block + sent.queue_full + sent.too_big + sent.failed
    }

    /// Miri runs this one: `tests/miri`.
    #[test]
    fn pointers_lead_the_kernel_to_each_datagram_and_its_envelope() {
        let to: SocketAddr = "[2001:db8::7]:4754".parse().unwrap();
        let envelope = Envelope::new(to, 0xb8, 10);
        let contents: Vec<u8> = (0..37).collect();
        let mut taken = Vec::new();
        let count = offer(&envelope, &contents, 10, |headers| {
            for header in headers.iter() {
                let said = &header.msg_hdr;
                // SAFETY: as the kernel does, this reads what the header points at and no more than it says.
                let (datagram, name, control) = unsafe {
                    let part = *said.msg_iov;
                    (
                        std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len),
                        std::slice::from_raw_parts(
                            said.msg_name.cast::<u8>(),
                            said.msg_namelen as usize,
                        ),
                        std::slice::from_raw_parts(
                            said.msg_control.cast::<u8>(),
                            super::super::as_c(said.msg_controllen),
                        ),
                    )
                };
                assert_eq!(super::super::address::parse(name), Some(to));
                let mut read = Control::<CONTROL_LEN>::EMPTY;
                read.0[..control.len()].copy_from_slice(control);
                let tos: Vec<_> = read.messages(control.len()).map(|m| m.int()).collect();
                assert_eq!(tos, [Some(0xb8)]);
                taken.extend_from_slice(datagram);
            }
            Ok(headers.len())
        });
        assert_eq!((count.unwrap(), taken), (4, contents));
    }

    #[test]
    fn trains_of_any_length_arrive_whole_and_in_order() {
        const SIZE: usize = 100;
        for (from, to) in loopback_pairs() {
            for count in (1..=64).chain([65, 128, 200]) {
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
        for (from, to) in loopback_pairs() {
            for tos in [0, 0xb8 | 2, 0xff, 3, 1] {
                let sent = from.send_train(to.local_addr(), tos, &[7; 30], 10);
                assert_eq!(sent.datagrams, 3, "{sent:?}");
                let seen: Vec<u8> = recv_exactly(&to, 3).iter().map(|(_, m)| m.tos).collect();
                assert_eq!(seen, [tos; 3], "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn an_icmp_error_of_an_earlier_datagram_costs_no_later_one() {
        for (from, to) in loopback_pairs() {
            let closed = SocketAddr::new(from.local_addr().ip(), 0);
            let closed = PathSocket::open(closed, None, Offload::Off)
                .unwrap()
                .local_addr();
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
        for (from, to) in loopback_pairs() {
            // Loopback's MTU is 65,536: with its headers the first does not fit, the second does.
            let sent = from.send_train(to.local_addr(), 0, &vec![1; 65_530 + 100], 65_530);
            assert_eq!((sent.datagrams, sent.too_big), (1, 1), "{sent:?}");
            assert_eq!(recv_exactly(&to, 1)[0].0.len(), 100);
        }
    }

    #[test]
    fn every_datagram_without_a_route_is_counted() {
        for offload in [Offload::Off, Offload::Auto] {
            let from = PathSocket::open("127.0.0.1:0".parse().unwrap(), None, offload).unwrap();
            // A socket bound to a loopback address has no way out of the host.
            let sent = from.send_train("192.0.2.1:9".parse().unwrap(), 0, &[0; 70], 1);
            assert_eq!((sent.failed, total(&sent)), (70, 70), "{sent:?}");
            assert!(sent.error.is_some());
        }
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

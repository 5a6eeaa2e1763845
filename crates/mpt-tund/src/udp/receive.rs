//! Batches in: many datagrams in one system call, each with what the kernel knows of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;

use super::address::RawAddress;
use super::cmsg::{CONTROL_LEN, Control, Messages};
use super::gro;
use super::socket::PathSocket;

/// Datagrams a system call at most; buffers beyond are left alone.
pub(crate) const RECV_BATCH: usize = 32;

/// Reads that may fail with a pending ICMP error before the error is the caller's.
const PENDING_ERRORS: usize = 8;

/// What is known of a received datagram beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecvMeta {
    /// Its sender.
    pub(crate) from: SocketAddr,
    /// Bytes in the buffer, of all datagrams of a train.
    pub(crate) len: usize,
    /// Outer TOS or traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub(crate) tos: u8,
    /// The datagram was longer than the buffer and its end is lost.
    pub(crate) truncated: bool,
    /// The buffer holds a train of datagrams of this many bytes, the last perhaps shorter.
    pub(crate) segment_size: Option<u16>,
    /// What the socket had dropped for want of buffer when this one arrived: a running total since
    /// it was opened, modulo 2^32. A train that it dropped counts as one.
    pub(crate) socket_drops: u32,
}

impl Default for RecvMeta {
    fn default() -> RecvMeta {
        RecvMeta {
            from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            len: 0,
            tos: 0,
            truncated: false,
            segment_size: None,
            socket_drops: 0,
        }
    }
}

impl PathSocket {
    /// Receives as many datagrams or trains as wait, one a buffer, at most [`RECV_BATCH`], and says how many.
    ///
    /// Only `WouldBlock` says that the socket is empty: a batch may end early for other reasons.
    ///
    /// # Errors
    /// `WouldBlock` when none waits. An ICMP error that is pending is skipped: `errqueue` has it.
    pub(crate) fn recv_batch<B: AsMut<[u8]>>(
        &self,
        buffers: &mut [B],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut result = self.recv_some(buffers, metas);
        for _ in 0..PENDING_ERRORS {
            match &result {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    result = self.recv_some(buffers, metas);
                }
                Ok(_) | Err(_) => break,
            }
        }
        result
    }

    fn recv_some<B: AsMut<[u8]>>(
        &self,
        buffers: &mut [B],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut names = [RawAddress::EMPTY; RECV_BATCH];
        let mut controls = [Control::<CONTROL_LEN>::EMPTY; RECV_BATCH];
        let mut parts = [super::EMPTY_IOVEC; RECV_BATCH];
        let mut headers = [super::EMPTY_HEADER; RECV_BATCH];
        let wanted = buffers.len().min(metas.len()).min(RECV_BATCH);
        for (i, buffer) in buffers[..wanted].iter_mut().enumerate() {
            let buffer = buffer.as_mut();
            parts[i].iov_base = buffer.as_mut_ptr().cast();
            parts[i].iov_len = buffer.len();
            let header = &mut headers[i].msg_hdr;
            header.msg_iov = &raw mut parts[i];
            header.msg_iovlen = 1;
            header.msg_name = names[i].as_mut_ptr().cast();
            header.msg_namelen = RawAddress::CAPACITY as u32;
            header.msg_control = controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_LEN;
        }
        // SAFETY: the first `wanted` headers point at a buffer, a name and ancillary data each,
        // which are distinct, exclusively borrowed through the call and as long as said.
        let result = unsafe {
            libc::recvmmsg(
                self.as_raw_fd(),
                headers.as_mut_ptr(),
                wanted as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(result) else {
            return Err(io::Error::last_os_error());
        };
        for (i, meta) in metas.iter_mut().take(count).enumerate() {
            let header = &headers[i].msg_hdr;
            *meta = RecvMeta {
                len: headers[i].msg_len as usize,
                truncated: header.msg_flags & libc::MSG_TRUNC != 0,
                ..RecvMeta::default()
            };
            if let Some(from) = names[i].read(header.msg_namelen) {
                meta.from = from;
            }
            meta.read_control(controls[i].messages(header.msg_controllen));
        }
        Ok(count)
    }
}

impl RecvMeta {
    fn read_control(&mut self, messages: Messages<'_>) {
        for message in messages {
            let Some(value) = message.int() else { continue };
            match (message.level, message.kind) {
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    self.tos = value as u8;
                }
                (libc::SOL_UDP, libc::UDP_GRO) => self.segment_size = gro::segment_size(value),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.socket_drops = value as u32,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loopback_pair, loopbacks, recv_exactly};
    use super::*;
    use crate::config::Offload;

    #[test]
    fn the_sender_is_known() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            assert_eq!(from.send_train(to.local_addr(), 0, b"x", 1).datagrams, 1);
            assert_eq!(recv_exactly(&to, 1)[0].1.from, from.local_addr());
        }
    }

    #[test]
    fn a_datagram_longer_than_its_buffer_is_said_to_be_cut() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            assert_eq!(
                from.send_train(to.local_addr(), 0, &[5; 19], 10).datagrams,
                2
            );
            let mut buffers = [[0; 9]; 4];
            let mut metas = [RecvMeta::default(); 4];
            assert_eq!(to.recv_batch(&mut buffers, &mut metas).unwrap(), 2);
            assert_eq!((metas[0].len, metas[0].truncated), (9, true));
            assert_eq!((metas[1].len, metas[1].truncated), (9, false));
        }
    }

    #[test]
    fn an_empty_socket_would_block_and_no_buffer_is_no_error() {
        let (_, to) = loopback_pair(loopbacks()[0]);
        let mut metas = [RecvMeta::default()];
        let error = to.recv_batch(&mut [[0; 9]], &mut metas).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let none: &mut [[u8; 9]] = &mut [];
        assert!(matches!(to.recv_batch(none, &mut metas), Ok(0) | Err(_)));
    }

    #[test]
    fn a_batch_takes_what_its_smaller_slice_allows() {
        let (from, to) = loopback_pair(loopbacks()[0]);
        assert_eq!(from.send_train(to.local_addr(), 0, &[1; 5], 1).datagrams, 5);
        let mut metas = [RecvMeta::default(); 2];
        assert_eq!(to.recv_batch(&mut [[0; 9]; 4], &mut metas).unwrap(), 2);
        let mut metas = [RecvMeta::default(); 8];
        assert_eq!(to.recv_batch(&mut [[0; 9]; 8], &mut metas).unwrap(), 3);
    }

    #[test]
    fn what_the_socket_dropped_is_counted_by_the_next_datagram_it_took() {
        let (from, to) = loopback_pair(loopbacks()[0]);
        let datagrams = 2 * super::super::BUFFER_WANTED / 1000;
        for _ in 0..datagrams {
            assert_eq!(
                from.send_train(to.local_addr(), 0, &[0; 1000], 1000)
                    .datagrams,
                1
            );
        }
        let mut metas = [RecvMeta::default(); RECV_BATCH];
        let mut buffers = vec![[0; 1000]; RECV_BATCH];
        let mut received = 0;
        while let Ok(count) = to.recv_batch(&mut buffers, &mut metas) {
            received += count;
        }
        assert!(received < datagrams, "the buffer was meant to overflow");
        assert_eq!(from.send_train(to.local_addr(), 0, b"next", 4).datagrams, 1);
        let drops = recv_exactly(&to, 1)[0].1.socket_drops as usize;
        assert_eq!(drops, datagrams - received);
    }

    #[test]
    fn a_pending_icmp_error_hides_no_datagram() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            let closed = PathSocket::open(local, None, Offload::Off)
                .unwrap()
                .local_addr();
            assert_eq!(to.send_train(closed, 0, b"lost", 4).datagrams, 1);
            assert_eq!(from.send_train(to.local_addr(), 0, b"x", 1).datagrams, 1);
            let mut metas = [RecvMeta::default()];
            assert_eq!(to.recv_batch(&mut [[0; 9]], &mut metas).unwrap(), 1);
        }
    }
}

//! Batches in: many datagrams in one system call, each with what the kernel knows of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use mpt_core::path::PathId;
use mpt_core::receive::buffer::Buffer;
use mpt_core::tunnel::Datagram;

use super::address::RawAddress;
use super::cmsg::{CONTROL_LEN, Control, Messages};
use super::gro;
use super::socket::PathSocket;

/// Datagrams a system call at most; buffers beyond are left alone.
pub(super) const RECV_BATCH: usize = 32;

/// Reads that may fail with a pending ICMP error before the error is the caller's.
const PENDING_ERRORS: usize = 8;

/// A datagram that seems to have waited for longer than this was received before the clock was set: a line looks after its
/// sockets every few milliseconds, and a busy host lets it wait for tens of them.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What is known of a received datagram beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvMeta {
    /// Its sender.
    pub from: SocketAddr,
    /// Bytes in the buffer, of all datagrams of a train.
    pub len: usize,
    /// Outer TOS or traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// The datagram was longer than the buffer and its end is lost.
    pub truncated: bool,
    /// The buffer holds a train of datagrams of this many bytes, the last perhaps shorter.
    pub segment_size: Option<u16>,
    /// What the socket had dropped for want of buffer when this one arrived: a running total since
    /// it was opened, modulo 2^32. A train that it dropped counts as one.
    pub socket_drops: u32,
    /// When the kernel received it, as [`crate::clock::wall_ns`] does; none where it does not tell. Of a train, its first.
    pub stamp_ns: Option<u64>,
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
            stamp_ns: None,
        }
    }
}

impl PathSocket {
    /// Receives as many datagrams or trains as wait, one a buffer, at most 32, and says how many.
    ///
    /// Only `WouldBlock` says that the socket is empty: a batch may end early for other reasons.
    ///
    /// # Errors
    /// `WouldBlock` when none waits. An ICMP error that is pending is skipped: `errqueue` has it.
    pub fn recv_batch<B: AsMut<[u8]>>(
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
        let received = result?;
        let metas = &metas[..received];
        let datagrams = metas.iter().map(RecvMeta::datagrams).sum();
        let bytes = metas.iter().map(|meta| meta.len).sum();
        self.counted.add(self.local_addr(), datagrams, bytes);
        Ok(received)
    }

    fn recv_some<B: AsMut<[u8]>>(
        &self,
        buffers: &mut [B],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        fill(buffers, metas, |headers| {
            // SAFETY: each header points at a buffer, a name and ancillary data, which are distinct,
            // exclusively borrowed through the call and as long as said: see `fill`.
            let result = unsafe {
                libc::recvmmsg(
                    self.as_raw_fd(),
                    headers.as_mut_ptr(),
                    headers.len() as u32,
                    super::as_c(libc::MSG_DONTWAIT),
                    ptr::null_mut(),
                )
            };
            usize::try_from(result).map_err(|_| io::Error::last_os_error())
        })
    }
}

/// Has `receive` fill as many buffers as there are metas, at most [`RECV_BATCH`], through headers that point at
/// them, and reads what it says of each. All pointers are made here, so that Miri can watch them
/// (`tests/miri`), with somebody in the kernel's place.
fn fill<B: AsMut<[u8]>>(
    buffers: &mut [B],
    metas: &mut [RecvMeta],
    receive: impl FnOnce(&mut [libc::mmsghdr]) -> io::Result<usize>,
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
        header.msg_controllen = super::as_c(CONTROL_LEN);
    }
    let count = receive(&mut headers[..wanted])?;
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
        meta.read_control(controls[i].messages(super::as_c(header.msg_controllen)));
    }
    Ok(count)
}

impl RecvMeta {
    /// What a core is given of what arrived on `path` in `buffer`; `wall_ns` as in [`RecvMeta::waited`].
    #[must_use]
    pub fn datagram(&self, path: PathId, buffer: Buffer, wall_ns: Option<u64>) -> Datagram {
        Datagram {
            path,
            from: self.from,
            tos: self.tos,
            buffer,
            len: self.len,
            segment_size: self.segment_size,
            truncated: self.truncated,
            waited: self.waited(wall_ns),
        }
    }

    /// For how long it has waited in the socket's buffer, at this moment by [`crate::clock::StampClock`]; nothing where
    /// that is not known.
    pub fn waited(&self, wall_ns: Option<u64>) -> Duration {
        let waited = wall_ns.zip(self.stamp_ns);
        let waited = waited.map(|(wall_ns, stamp_ns)| wall_ns.saturating_sub(stamp_ns));
        let waited = waited.map_or(Duration::ZERO, Duration::from_nanos);
        match waited <= LONGEST_WAIT {
            true => waited,
            false => Duration::ZERO,
        }
    }

    /// How many datagrams it is.
    fn datagrams(&self) -> usize {
        let size = self.segment_size.map_or(self.len, usize::from);
        self.len.div_ceil(size.max(1)).max(1)
    }

    fn read_control(&mut self, messages: Messages<'_>) {
        for message in messages {
            if (message.level, message.kind) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
                self.stamp_ns = message.timespec_ns();
                continue;
            }
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
    use crate::Offload;

    /// Miri runs this one: `tests/miri`.
    #[test]
    fn pointers_lead_the_kernel_to_each_buffer_name_and_ancillary_data() {
        let from: SocketAddr = "192.0.2.7:4754".parse().unwrap();
        let mut buffers = [[0_u8; 9]; 5];
        let mut metas = [RecvMeta::default(); 5];
        let count = fill(&mut buffers, &mut metas, |headers| {
            for (i, header) in headers.iter_mut().take(4).enumerate() {
                let raw = RawAddress::from(from);
                let mut control = Control::<CONTROL_LEN>::EMPTY;
                let tos = control.write(0, libc::IPPROTO_IP, libc::IP_TOS, &[i as u8, 0, 0, 0]);
                let said = &mut header.msg_hdr;
                // SAFETY: as the kernel does, this writes what the header points at and no more than it says.
                unsafe {
                    let part = *said.msg_iov;
                    assert_eq!((said.msg_iovlen, part.iov_len), (1, 9));
                    part.iov_base
                        .cast::<u8>()
                        .write_bytes(i as u8 + 1, part.iov_len);
                    let len = raw.len();
                    assert!(
                        len <= said.msg_namelen && tos <= super::super::as_c(said.msg_controllen)
                    );
                    ptr::copy_nonoverlapping(raw.as_ptr(), said.msg_name.cast(), len as usize);
                    ptr::copy_nonoverlapping(control.0.as_ptr(), said.msg_control.cast(), tos);
                    said.msg_namelen = len;
                    said.msg_controllen = super::super::as_c(tos);
                }
                header.msg_len = 9;
            }
            Ok(4)
        });
        assert_eq!(count.unwrap(), 4);
        for i in 0..4 {
            assert_eq!(buffers[i], [i as u8 + 1; 9]);
            assert_eq!((metas[i].from, metas[i].len), (from, 9));
            assert_eq!(metas[i].tos, i as u8);
        }
        assert_eq!(buffers[4], [0; 9]);
        assert_eq!(metas[4], RecvMeta::default());
    }

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
        let datagrams = 2 * to.buffers().receive_wanted / 1000;
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
    fn the_kernel_tells_how_long_a_datagram_waited() {
        for local in loopbacks() {
            let (from, to) = loopback_pair(local);
            // The kernel begins to stamp a moment after the first socket asks for it, on the whole host.
            std::thread::sleep(Duration::from_millis(20));
            let before = crate::clock::wall_ns();
            assert_eq!(from.send_train(to.local_addr(), 0, b"x", 1).datagrams, 1);
            std::thread::sleep(Duration::from_millis(30));
            let meta = recv_exactly(&to, 1)[0].1;
            let now = crate::clock::wall_ns();
            let waited = meta.waited(Some(now));
            assert!(waited >= Duration::from_millis(30), "{waited:?}");
            assert!(waited <= Duration::from_nanos(now - before), "{waited:?}");
        }
    }

    #[test]
    fn what_was_received_before_the_clock_was_set_waited_for_no_known_time() {
        let meta = RecvMeta {
            stamp_ns: Some(10_000_000_000),
            ..RecvMeta::default()
        };
        for (wall_ns, ms) in [
            (10_000_000_000, 0),
            (10_250_000_000, 250),
            (9_000_000_000, 0),
            (11_000_000_001, 0),
        ] {
            assert_eq!(meta.waited(Some(wall_ns)), Duration::from_millis(ms));
        }
        assert_eq!(meta.waited(None), Duration::ZERO);
        assert_eq!(RecvMeta::default().waited(Some(5)), Duration::ZERO);
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

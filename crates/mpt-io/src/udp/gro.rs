//! Trains in whole: `UDP_GRO` (Linux 5.0).
//!
//! The network card or the stack joins datagrams that arrive together from one sender, and a socket
//! that asks for it gets them end to end in one buffer, with a message that says how long each is (the
//! last may be shorter). A datagram that came alone comes without that message. Only datagrams of one
//! TOS are joined: what is known of a train holds for each datagram in it.
//!
//! What the sender sent as a train and what comes in as one need not be the same datagrams. A buffer
//! must have room for the longest, 64 KiB; one too short loses the end of the train, not only of
//! one datagram.

use std::os::fd::BorrowedFd;

use libc::c_int;

use super::option::set_option;

/// Asks for whole trains. Returns whether the kernel has them.
pub(super) fn switch_on(socket: BorrowedFd<'_>) -> bool {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok()
}

/// How long each datagram of a train is, from the kernel's message.
pub(super) fn segment_size(value: c_int) -> Option<u16> {
    u16::try_from(value).ok().filter(|&size| size > 0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loopback_pair_with, loopbacks, recv_exactly};
    use super::super::{PathSocket, RecvMeta};
    use super::*;
    use crate::Offload;
    use std::os::fd::AsFd as _;

    /// One buffer's contents and what is known of them.
    fn recv_one(socket: &PathSocket, room: usize) -> (Vec<u8>, RecvMeta) {
        let mut buffers = [vec![0; room]];
        let mut metas = [RecvMeta::default()];
        assert_eq!(socket.recv_batch(&mut buffers, &mut metas).unwrap(), 1);
        let [mut bytes] = buffers;
        bytes.truncate(metas[0].len);
        (bytes, metas[0])
    }

    /// `None` where the kernel has no trains.
    fn pair() -> Option<(PathSocket, PathSocket)> {
        let pair = loopback_pair_with(loopbacks()[0], Offload::Auto, Offload::Auto);
        let both = pair.0.segmentation.is_possible() && pair.1.receives_trains();
        if !both {
            eprintln!("skipped: the kernel has no UDP_SEGMENT or no UDP_GRO");
        }
        both.then_some(pair)
    }

    #[test]
    fn a_train_comes_in_one_buffer_with_its_segment_size_and_tos() {
        let Some((from, to)) = pair() else { return };
        for tos in [0, 0xb8 | 1, 3] {
            let contents: Vec<u8> = (0..5050).map(|i| (i / 3) as u8).collect();
            let sent = from.send_train(to.local_addr(), tos, &contents, 1000);
            assert_eq!(sent.datagrams, 6, "{sent:?}");
            let (bytes, meta) = recv_one(&to, 65_536);
            assert!(bytes == contents);
            assert_eq!((meta.segment_size, meta.tos), (Some(1000), tos));
            assert!(!meta.truncated);
        }
    }

    #[test]
    fn the_longest_train_fits() {
        let Some((from, to)) = pair() else { return };
        let sent = from.send_train(to.local_addr(), 0, &vec![1; 65_465], 1023);
        assert_eq!(sent.datagrams, 64, "{sent:?}");
        let (bytes, meta) = recv_one(&to, 65_536);
        assert_eq!((bytes.len(), meta.segment_size), (65_465, Some(1023)));
    }

    #[test]
    fn a_datagram_alone_is_no_train() {
        let Some((from, to)) = pair() else { return };
        assert_eq!(from.send_train(to.local_addr(), 0, &[1; 9], 9).datagrams, 1);
        let (bytes, meta) = recv_one(&to, 65_536);
        assert_eq!((bytes.len(), meta.segment_size), (9, None));
    }

    #[test]
    fn a_train_longer_than_its_buffer_is_said_to_be_cut() {
        let Some((from, to)) = pair() else { return };
        let sent = from.send_train(to.local_addr(), 0, &[1; 30], 10);
        assert_eq!(sent.datagrams, 3, "{sent:?}");
        let (bytes, meta) = recv_one(&to, 25);
        assert_eq!((bytes.len(), meta.truncated), (25, true));
    }

    #[test]
    fn a_socket_that_did_not_ask_gets_datagrams() {
        let (from, to) = loopback_pair_with(loopbacks()[0], Offload::Auto, Offload::Off);
        assert!(!to.receives_trains());
        assert_eq!(
            from.send_train(to.local_addr(), 0, &[1; 30], 10).datagrams,
            3
        );
        let metas = recv_exactly(&to, 3);
        assert!(metas.iter().all(|(_, meta)| meta.segment_size.is_none()));
    }

    #[test]
    fn all_messages_at_once_crowd_none_out() {
        for local in loopbacks() {
            let (from, to) = loopback_pair_with(local, Offload::Auto, Offload::Auto);
            let all_time_stamps = libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
            set_option(to.as_fd(), level, option, all_time_stamps as c_int).unwrap();
            // So that there is a count of drops to tell.
            let mut flooded = 0;
            while flooded < 1000 {
                let sent = from.send_train(to.local_addr(), 0, &vec![0; 60_000], 1000);
                flooded += sent.datagrams / 60;
            }
            let mut metas = [RecvMeta::default(); 8];
            let mut buffers = vec![vec![0; 65_536]; 8];
            while to.recv_batch(&mut buffers, &mut metas).is_ok() {}
            let sent = from.send_train(to.local_addr(), 0xb8 | 2, &[1; 3000], 1000);
            assert_eq!(sent.datagrams, 3, "{sent:?}");
            let (_, meta) = recv_one(&to, 65_536);
            assert!(meta.socket_drops > 0, "{meta:?}");
            assert_eq!(meta.tos, 0xb8 | 2);
            assert_eq!(meta.segment_size.is_some(), to.receives_trains());
        }
    }
}

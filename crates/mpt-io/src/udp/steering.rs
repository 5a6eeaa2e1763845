//! Which of several sockets at one address gets a datagram: that of the worker who owns the peer, or the one for calls.
//!
//! The sockets share address and port (`SO_REUSEPORT`), in the order of the workers, and a classic BPF program names the
//! one for each datagram (`SO_ATTACH_REUSEPORT_CBPF`, Linux 4.5). It reads what a hub reads first: of a sealed packet
//! the index in the GRE key, of an answer to a handshake the index that it is for; an index begins with the peer's slot.
//! All else, calls above all, is for the last, which is no worker's: whoever floods a hub with calls fills that one's
//! buffer. What a kernel brings to another one, the workers hand over.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::sock_filter;
use mpt_core::crypto::HubSlot;
use mpt_core::wire::kind::Kind;

/// The second half of GRE's first word in anything sealed: Protocol Type 0x88B6; in a handshake's messages, 0x88B5.
const SEALED: u32 = 0x88b6;
const CONTROL: u32 = 0x88b5;
/// Where the program looks, in bytes from the UDP payload's beginning: Protocol Type; key of sealed packets; first
/// word of a handshake's message, whose first byte is its kind; and the initiator's index in a response.
const PROTOCOL: u32 = 2;
const KEY: u32 = 4;
const KIND: u32 = 4;
const ANSWERED: u32 = 8;
/// A response's kind, in its first word.
const RESPONSE: u32 = (Kind::Response as u32) << 24;

/// Less than that is no sealed packet and no response, and not read.
const LEAST: u32 = ANSWERED + 4;

const LOAD_LEN: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP_IF: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_IF_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const SHIFT: u32 = libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K;
const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
const RETURN_A: u32 = libc::BPF_RET | BPF_A;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
/// The accumulator, as what is returned (linux/filter.h).
const BPF_A: u32 = 0x10;

/// The program for so many workers, behind whose sockets the one for calls stands.
fn program(workers: u32) -> [sock_filter; 14] {
    let line = |code: u32, k: u32, jt: u8, jf: u8| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    [
        line(LOAD_LEN, 0, 0, 0),
        line(JUMP_IF_LEAST, LEAST, 0, 11),
        line(LOAD_HALF, PROTOCOL, 0, 0),
        line(JUMP_IF, SEALED, 0, 2),
        line(LOAD_WORD, KEY, 0, 0),
        line(JUMP, 4, 0, 0),
        line(JUMP_IF, CONTROL, 0, 6),
        line(LOAD_WORD, KIND, 0, 0),
        line(JUMP_IF, RESPONSE, 0, 4),
        line(LOAD_WORD, ANSWERED, 0, 0),
        line(SHIFT, HubSlot::OWN_BITS, 0, 0),
        line(MODULO, workers, 0, 0),
        line(RETURN_A, 0, 0, 0),
        line(RETURN, workers, 0, 0),
    ]
}

/// Has the sockets of the group that `fd` is of chosen by whose a datagram is.
///
/// # Errors
/// When the kernel has no such programs: then it chooses by addresses and ports.
pub(super) fn attach(fd: BorrowedFd<'_>, workers: usize) -> io::Result<()> {
    let mut lines = program(workers as u32);
    let program = libc::sock_fprog {
        len: lines.len() as u16,
        filter: lines.as_mut_ptr(),
    };
    // SAFETY: the kernel reads one `sock_fprog` and the lines that it points at; both live through the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::super::testing::loopbacks;
    use super::super::{HubSockets, PathSocket};
    use crate::Offload;

    /// A datagram's index as its GRE key, Protocol Type 0x88B6, or as what a response answers; else none.
    fn datagram(protocol: [u8; 2], at: usize, index: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0] = 0x30;
        bytes[2..4].copy_from_slice(&protocol);
        if protocol[1] == 0xb5 {
            bytes[0] = 0;
            bytes[4] = 4;
        }
        bytes[at..at + 4].copy_from_slice(&index.to_be_bytes());
        bytes
    }

    #[test]
    fn each_datagram_goes_to_the_worker_that_owns_its_peer() {
        for local in loopbacks() {
            let HubSockets { workers, calls } =
                PathSocket::open_hub(local, None, Offload::Off, 3).unwrap();
            let sockets: Vec<_> = workers.into_iter().chain(calls).collect();
            assert_eq!(sockets.len(), 4);
            let at = sockets[0].local_addr();
            assert!(sockets.iter().all(|socket| socket.local_addr() == at));
            let mut local = local;
            local.set_port(0);
            let mut call = datagram([0x88, 0xb5], 8, 1 << 15);
            call[4] = 3;
            let cases = [
                (datagram([0x88, 0xb6], 4, (7 << 15) + 6), 1),
                (datagram([0x88, 0xb6], 4, 2 << 15), 2),
                (datagram([0x88, 0xb6], 4, u32::MAX), ((1 << 17) - 1) % 3),
                (datagram([0x88, 0xb5], 8, (5 << 15) + 2), 2),
                (call, 3),
                (datagram([0x08, 0x00], 4, 1 << 15), 3),
                (vec![0xff], 3),
                (vec![], 3),
                (datagram([0x88, 0xb6], 4, 1 << 15)[..11].to_vec(), 3),
            ];
            for (bytes, owner) in cases {
                // From other ports, as if the kernel chose by them.
                for _ in 0..4 {
                    let from = UdpSocket::bind(local).unwrap();
                    from.send_to(&bytes, at).unwrap();
                    for (number, socket) in sockets.iter().enumerate() {
                        let mut buffers = vec![vec![0; 100]; 2];
                        let mut metas = vec![Default::default(); 2];
                        let received = socket.recv_batch(&mut buffers, &mut metas).unwrap_or(0);
                        assert_eq!(
                            received,
                            usize::from(number == owner),
                            "{bytes:?} at {number}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_address_that_workers_share_is_nobody_elses() {
        for local in loopbacks() {
            let sockets = PathSocket::open_hub(local, None, Offload::Off, 2).unwrap();
            let at = sockets.workers[0].local_addr();
            for workers in [1, 2] {
                let other = PathSocket::open_hub(at, None, Offload::Off, workers);
                assert!(other.is_err(), "{at}");
            }
        }
    }
}

//! UDP for paths: one socket a path, many datagrams a system call.
//!
//! A path is an unconnected UDP socket bound to the path's local address (and device). Everything
//! crosses it in batches. Out goes a *train*: datagrams of one size, laid end to end in one buffer,
//! the last of them perhaps shorter, all to one address with one TOS. In comes a batch of datagrams,
//! each with what the kernel knows of it. What the network says about packets that did not arrive
//! is read from the socket's error queue, with the ICMP message's sender.
//!
//! ```text
//! socket   opening and options
//! error    why it could not be opened, and what to do
//! gso      trains out whole, where the kernel takes them so
//! send     trains out datagram by datagram, every datagram that did not leave accounted for
//! gro      trains in whole
//! receive  batches in, with source, TOS and the count of what the socket dropped
//! errqueue ICMP errors and local ones
//! counted  what the path's provider counts
//! cmsg     ancillary data, read and written as bytes
//! address  socket addresses, likewise
//! steering which of several sockets at one address gets a hub's datagram
//! ```
//!
//! Readiness: [`PathSocket::register`] asks tokio for `READABLE | ERROR`, never for `WRITABLE`. An
//! error that waits in the queue makes epoll say "writable and in error", which
//! tokio keeps for good as "write side closed", and whoever waits for it to become writable spins.
//! What finds the socket's buffer full is dropped and counted, as a full queue of any link does.

mod address;
mod cmsg;
mod counted;
mod error;
pub mod errqueue;
mod gro;
mod gso;
mod option;
mod receive;
mod send;
mod socket;
mod steering;

pub use counted::Counted;
pub use error::SocketError;
pub use receive::RecvMeta;
pub use send::Sent;
pub use socket::{BufferSizes, HubSockets, PathSocket, receives_trains};

#[cfg(test)]
mod testing;

/// A number in the type that the C library at hand has for it: `msg_controllen` is a `size_t` in glibc and a `socklen_t`
/// in musl, the flags of `sendmmsg` are an `int` and an `unsigned`.
///
/// # Panics
/// If it is too large for that, or negative: ours are lengths of at most [`cmsg::CONTROL_LEN`], and flags.
#[inline]
fn as_c<A: Copy + std::fmt::Display, B: TryFrom<A>>(number: A) -> B {
    B::try_from(number).unwrap_or_else(|_| panic!("{number} has no place in C's type for it"))
}

/// A header that points at nothing yet. (All zero; some C libraries pad the structure, so it
/// cannot be written field by field.)
const EMPTY_MSGHDR: libc::msghdr = {
    // SAFETY: `msghdr` is integers and pointers, for which all zero is a value.
    unsafe { std::mem::zeroed() }
};

const EMPTY_HEADER: libc::mmsghdr = libc::mmsghdr {
    msg_hdr: EMPTY_MSGHDR,
    msg_len: 0,
};

const EMPTY_IOVEC: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

//! Which Unix sockets there are under abstract names, and whose they are (`sock_diag(7)`).
//!
//! Anybody may bind an abstract name: it has no owner and no mode. The socket has an owner, whoever made it, and of
//! that the kernel tells.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use rtnetlink::sys::protocols::NETLINK_SOCK_DIAG;
use rtnetlink::sys::{AsyncSocket as _, SocketAddr, TokioSocket};

use super::wire;

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `UDIAG_SHOW_NAME` and `UDIAG_SHOW_UID` (linux/unix_diag.h).
const SHOW_NAME_AND_UID: u32 = 0x01 | 0x40;
/// `UNIX_DIAG_NAME` and `UNIX_DIAG_UID`.
const NAME: u16 = 0;
const UID: u16 = 7;
/// `struct unix_diag_msg`: family, type, state, padding, inode, cookie.
const SOCKET: usize = 16;
/// Bytes of a datagram: twice what the kernel puts in one.
const DATAGRAM: usize = 64 * 1024;
/// The kernel answers at once; what is later does not come.
const LONGEST: Duration = Duration::from_secs(1);

/// A Unix socket of this network namespace with an abstract name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AbstractSocket {
    /// Without the zero byte that it begins with.
    pub(crate) name: Vec<u8>,
    /// The user who made it; `None` where the kernel does not say (before 5.3).
    pub(crate) uid: Option<u32>,
}

/// Those whose names begin so; `None` where the kernel does not say (without CONFIG_UNIX_DIAG).
pub(crate) async fn abstract_sockets(prefix: &str) -> Option<Vec<AbstractSocket>> {
    let sockets = tokio::time::timeout(LONGEST, dump(prefix.as_bytes())).await;
    sockets.ok()?.ok()
}

async fn dump(prefix: &[u8]) -> io::Result<Vec<AbstractSocket>> {
    let mut socket = TokioSocket::new(NETLINK_SOCK_DIAG)?;
    socket.socket_mut().bind_auto()?;
    let kernel = SocketAddr::new(0, 0);
    socket.socket_ref().send_to(&question(), &kernel, 0)?;
    let mut found = Vec::new();
    let mut datagram = Vec::with_capacity(DATAGRAM);
    loop {
        datagram.clear();
        poll_fn(|cx| socket.poll_recv_from(cx, &mut datagram)).await?;
        for (kind, body) in wire::bodies(&datagram) {
            if kind == SOCK_DIAG_BY_FAMILY {
                found.extend(named(body).filter(|one| one.name.starts_with(prefix)));
            } else if libc::c_int::from(kind) == libc::NLMSG_DONE {
                return Ok(found);
            } else if libc::c_int::from(kind) == libc::NLMSG_ERROR {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
    }
}

/// A request for all Unix sockets, in whatever state, with names and users: `struct unix_diag_req`.
fn question() -> Vec<u8> {
    let mut body = vec![libc::AF_UNIX as u8, 0, 0, 0];
    let (any_state, any_inode, no_cookie) = (u32::MAX, 0, u32::MAX);
    for word in [
        any_state,
        any_inode,
        SHOW_NAME_AND_UID,
        no_cookie,
        no_cookie,
    ] {
        body.extend(word.to_ne_bytes());
    }
    wire::dump_of(SOCK_DIAG_BY_FAMILY, &body, 1)
}

/// The socket of a message, if it has an abstract name.
pub(super) fn named(body: &[u8]) -> Option<AbstractSocket> {
    let attribute = |wanted| {
        let mut all = wire::attributes(body.get(SOCKET..)?);
        all.find_map(|(kind, value)| (kind == wanted).then_some(value))
    };
    Some(AbstractSocket {
        name: attribute(NAME)?.strip_prefix(&[0])?.to_vec(),
        uid: attribute(UID).and_then(|value| wire::u32_at(value, 0)),
    })
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use super::*;

    #[tokio::test]
    async fn a_socket_is_found_by_its_name_with_the_user_who_made_it() {
        let name = format!("mpt/test/sockets/{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        // A kernel may be built without.
        let Some(found) = abstract_sockets(&name).await else {
            return;
        };
        let own = AbstractSocket {
            name: name.clone().into_bytes(),
            uid: Some(rustix::process::geteuid().as_raw()),
        };
        assert_eq!(found, [own]);
        drop(socket);
        assert_eq!(abstract_sockets(&name).await, Some(Vec::new()));
    }

    #[test]
    fn names_of_files_and_messages_that_are_cut_off_are_passed_over() {
        let of_file = [5_u16, 0].map(u16::to_ne_bytes).concat();
        let mut message = vec![0; SOCKET];
        message.extend(of_file);
        message.push(b'/');
        assert_eq!(named(&message), None);
        assert_eq!(named(&message[..SOCKET + 2]), None);
        assert_eq!(named(&[]), None);
    }
}

//! The right to a block.
//!
//! A claim is a Unix socket with an abstract name, `mpt/routing/N` for block `N`: it is of the network namespace
//! as the tables are, and the kernel closes it however the process ends.
//!
//! Anybody may bind such a name, and a program that binds all of them would leave a tunnel without rules. So where
//! all are taken, the kernel is asked whose the sockets are. One that belongs neither to root nor to this daemon's user
//! is no claim: its block is free if the host has no rule and no route of it. The name itself stays taken; the claim
//! then has a longer one that nobody can guess, `mpt/routing/N/RANDOM`, and every claim looks for others of the same
//! block. Blocks whose name is free go first, since another daemon may have a user of its own.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::block::Block;
use super::host::Host;
use crate::netlink::{AbstractSocket, abstract_sockets};

/// The right to a block, as long as it is kept.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) block: Block,
    /// Whether the block's own name is another user's, who has no right to it.
    pub(super) is_beside: bool,
    _socket: UnixDatagram,
}

impl Claim {
    /// Claims the first block that nobody uses; `None` when there is none.
    ///
    /// # Errors
    /// When there are no Unix sockets to be had.
    pub(super) async fn first(host: &Host) -> io::Result<Option<Claim>> {
        for block in Block::all().filter(|block| !block.is_used_by_others(host)) {
            if let Some(claim) = Claim::of(block).await? {
                return Ok(Some(claim));
            }
        }
        let Some(sockets) = abstract_sockets(NAMES).await else {
            return Ok(None);
        };
        let is_free = |block: &Block| !block.is_used_by_others(host) && !block.is_in_use(host);
        for block in Block::all().filter(is_free) {
            let mut claims = sockets.iter().filter(|socket| is_genuine(socket));
            if !claims.any(|socket| is_for(block, &socket.name))
                && let Some(claim) = Claim::beside(block).await?
            {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    /// Claims every block in which something was left by a daemon that died.
    pub(super) async fn left_behind(host: &Host) -> Vec<Claim> {
        let mut claims = Vec::new();
        for block in Block::all().filter(|block| block.is_in_use(host)) {
            claims.extend(Claim::of(block).await.ok().flatten());
        }
        claims
    }

    /// Claims the block; `None` when somebody has its name, or a claim beside it.
    ///
    /// # Errors
    /// When there are no Unix sockets to be had.
    async fn of(block: Block) -> io::Result<Option<Claim>> {
        Claim::by_name(block, name_of(block), false).await
    }

    /// Claims the block, whose name another user has; `None` when there is a claim to it.
    ///
    /// # Errors
    /// As [`Claim::of`].
    async fn beside(block: Block) -> io::Result<Option<Claim>> {
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("{}/{:032x}", name_of(block), u128::from_ne_bytes(random));
        Claim::by_name(block, name, true).await
    }

    /// Of two that claim one block at once, both see the other and neither has it.
    async fn by_name(block: Block, name: String, is_beside: bool) -> io::Result<Option<Claim>> {
        let address = SocketAddr::from_abstract_name(&name)?;
        let socket = match UnixDatagram::bind_addr(&address) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_anothers = |socket: &AbstractSocket| {
            socket.name != name.as_bytes() && is_for(block, &socket.name) && is_genuine(socket)
        };
        // A kernel that does not say whose sockets are has no claims beside a name.
        let sockets = abstract_sockets(&name_of(block)).await.unwrap_or_default();
        let claim = Claim {
            block,
            is_beside,
            _socket: socket,
        };
        Ok((!sockets.iter().any(is_anothers)).then_some(claim))
    }
}

/// What the name of every claim begins with.
const NAMES: &str = "mpt/routing/";

fn name_of(block: Block) -> String {
    format!("{NAMES}{}", block.index())
}

/// Whether a socket of this name is a claim to the block.
fn is_for(block: Block, name: &[u8]) -> bool {
    let rest = name.strip_prefix(name_of(block).as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Whether a daemon may have made it. Where the kernel does not say who did, one has.
fn is_genuine(socket: &AbstractSocket) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket.uid.is_none_or(|uid| [0, own].contains(&uid))
}

#[cfg(test)]
mod tests {
    use super::super::block::BLOCKS;
    use super::*;

    #[tokio::test]
    async fn a_block_has_one_claim() {
        let block = Block::new(BLOCKS - 1).unwrap();
        let claim = Claim::of(block).await.unwrap().unwrap();
        assert!(Claim::of(block).await.unwrap().is_none());
        drop(claim);
        assert!(Claim::of(block).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_claim_beside_a_name_and_one_by_it_exclude_each_other() {
        // A kernel may be built without.
        if abstract_sockets(NAMES).await.is_none() {
            return;
        }
        let block = Block::new(BLOCKS - 2).unwrap();
        let beside = Claim::beside(block).await.unwrap().unwrap();
        assert!(Claim::of(block).await.unwrap().is_none());
        assert!(Claim::beside(block).await.unwrap().is_none());
        drop(beside);
        let by_name = Claim::of(block).await.unwrap().unwrap();
        assert!(Claim::beside(block).await.unwrap().is_none());
        drop(by_name);
        assert!(Claim::beside(block).await.unwrap().is_some());
    }

    #[test]
    fn what_neither_root_nor_this_user_has_made_is_no_claim() {
        let own = rustix::process::geteuid().as_raw();
        for (uid, expected) in [
            (None, true),
            (Some(0), true),
            (Some(own), true),
            (Some(65_534), own == 65_534),
        ] {
            let name = Vec::new();
            assert_eq!(
                is_genuine(&AbstractSocket { name, uid }),
                expected,
                "{uid:?}"
            );
        }
    }

    #[test]
    fn a_name_is_of_one_block() {
        let one = Block::new(1).unwrap();
        for (name, expected) in [
            ("mpt/routing/1", true),
            ("mpt/routing/1/7f", true),
            ("mpt/routing/12", false),
            ("mpt/routing/", false),
            ("mpt", false),
        ] {
            assert_eq!(is_for(one, name.as_bytes()), expected, "{name}");
        }
    }
}

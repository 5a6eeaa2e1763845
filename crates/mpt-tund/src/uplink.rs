//! The thread of the line out: TUN → core → UDP.
//!
//! It works in batches: when the TUN is readable it reads until the batch is full or the TUN is
//! empty, and then sends what the core made of it. Nothing waits for more to come.

use std::sync::Arc;

use mpt_core::control::TunnelStatus;
use mpt_core::drops::Drop;
use mpt_core::path::{MAX_PATHS, PathConfig, PathId};
use mpt_core::tunnel::Outbound;
use mpt_core::vnet::VnetHeader;
use tokio::sync::{mpsc, oneshot};

use crate::clock;
use crate::tun::Tun;
use crate::udp::{PathSocket, Sent};

/// Packets read from the TUN before what came of them is sent.
const BATCH: usize = 64;
/// Longest packet that a TUN gives.
const MAX_PACKET: usize = 65_536;

/// What the control thread tells this one.
pub(crate) enum Command {
    /// Add a path or change one; with a socket when it is a new one.
    SetPath(PathId, PathConfig, Option<Arc<PathSocket>>),
    /// Take a path away.
    RemovePath(PathId),
    /// Number packets, or stop.
    SetNumbered(bool),
    /// Use another GRE key.
    SetKey(Option<u32>),
    /// Fill in this half of the status.
    Report(Box<TunnelStatus>, oneshot::Sender<Box<TunnelStatus>>),
}

/// Runs until `commands` is closed or the TUN fails.
///
/// # Errors
/// When the TUN is gone or cannot be watched.
pub(crate) async fn run(
    outbound: Outbound,
    tun: Arc<Tun>,
    mut commands: mpsc::Receiver<Command>,
) -> std::io::Result<()> {
    let readable = tun.clone().register()?;
    let mut uplink = Uplink { outbound, sockets: Default::default(), tun };
    let mut packet = vec![0; MAX_PACKET];
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => uplink.obey(command),
                None => return Ok(()),
            },
            ready = readable.readable() => {
                let mut ready = ready?;
                if uplink.take_batch(&mut packet)? == Batch::Emptied {
                    ready.clear_ready();
                }
            }
        }
        uplink.send();
    }
}

struct Uplink {
    outbound: Outbound,
    sockets: [Option<Arc<PathSocket>>; MAX_PATHS],
    tun: Arc<Tun>,
}

#[derive(PartialEq)]
enum Batch {
    Full,
    Emptied,
}

impl Uplink {
    fn obey(&mut self, command: Command) {
        match command {
            Command::SetPath(id, config, socket) => {
                self.outbound.set_path(id, &config);
                if socket.is_some() {
                    self.sockets[id.index()] = socket;
                }
            }
            Command::RemovePath(id) => {
                self.outbound.remove_path(id);
                self.sockets[id.index()] = None;
            }
            Command::SetNumbered(numbered) => self.outbound.set_numbered(numbered),
            Command::SetKey(key) => self.outbound.set_key(key),
            Command::Report(mut status, reply) => {
                self.outbound.report(&mut status);
                // Whoever asked may have gone.
                let _ = reply.send(status);
            }
        }
    }

    /// Reads what waits, up to a batch.
    fn take_batch(&mut self, packet: &mut [u8]) -> std::io::Result<Batch> {
        let now = clock::now();
        for _ in 0..BATCH {
            match self.tun.recv(packet) {
                Ok(len) => self.outbound.handle_tun(now, &VnetHeader::default(), &mut packet[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Ok(Batch::Emptied);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The interface is down; its packets are the kernel's to drop.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(Batch::Emptied),
                Err(error) => return Err(error),
            }
        }
        Ok(Batch::Full)
    }

    /// Sends everything that the core has ready.
    fn send(&mut self) {
        while let Some(train) = self.outbound.poll_transmit() {
            let (path, segment_size) = (train.path, train.segment_size);
            let sent = match &self.sockets[path.index()] {
                Some(socket) => {
                    socket.send_train(train.to, train.tos, train.contents, segment_size)
                }
                None => Sent { failed: train.datagrams, ..Sent::default() },
            };
            for (datagrams, why) in [
                (sent.would_block, Drop::SendFull),
                (sent.queue_full, Drop::SendQueue),
                (sent.too_big, Drop::TooBig),
                (sent.failed, Drop::SendError),
            ] {
                if datagrams > 0 {
                    self.outbound.not_sent(path, datagrams, datagrams * segment_size, why);
                }
            }
        }
        while let Some(message) = self.outbound.poll_tun() {
            // An ICMP message that the host does not take is lost, as any may be.
            let _ = self.tun.send(&VnetHeader::default(), message);
        }
    }
}

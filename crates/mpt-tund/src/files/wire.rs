//! What the daemon and the process that keeps its files say to each other.
//!
//! A message is four bytes of length, big-endian, and as much JSON; an open file may come with it, by
//! `SCM_RIGHTS`. One question is under way at a time.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::Mistake;

/// Longest message, in bytes: a configuration of 1 MiB, each byte written as `\u00xx`.
const MAX_BYTES: usize = 7 << 20;

/// What the daemon asks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Open what the configuration consists of. Answered by [`Answer::Opened`] and [`Answer::Refused`], one
    /// for each file, and then [`Answer::Listed`]. `is_followed`: the tunnels are to be as it says now.
    Load { is_followed: bool },
    /// The same of a folder of peers, or of one file of it.
    Peers {
        folder: PathBuf,
        file: Option<PathBuf>,
    },
    /// Which folder that name of one with peers leads to now: it comes with the answer.
    Folder { folder: PathBuf },
    /// Watch a folder of peers: inotify's descriptor comes with the answer.
    Watch { folder: PathBuf },
    /// Replace a tunnel's file by one that differs in what runs alone.
    Replace { file: PathBuf, text: String },
    /// Open /dev/net/tun.
    Device,
    /// Open a tunnel's control socket.
    Bind { socket: PathBuf },
    /// Open it again if its file is gone.
    Look { socket: PathBuf },
    /// Close it, and remove its file.
    Unbind { socket: PathBuf },
}

/// What it is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// This file is open, and comes with the message.
    Opened(PathBuf),
    /// This one cannot be opened, for a reason that has this number.
    Refused(PathBuf, i32),
    /// Which files are tunnels', and what is wrong with the arguments.
    Listed(Vec<PathBuf>, Vec<Mistake>),
    /// It is done; a socket that is new comes with the message.
    Done,
    /// It failed.
    Failed(String),
}

/// Sends a message.
///
/// # Errors
/// When the other end is gone.
pub(super) fn send(
    mut to: &UnixStream,
    message: &impl Serialize,
    with: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    if body.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let head = (body.len() as u32).to_be_bytes();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let with: Vec<BorrowedFd<'_>> = with.into_iter().collect();
    if !with.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&with));
    }
    let head = [IoSlice::new(&head)];
    // Four bytes go whole.
    retry_on_intr(|| sendmsg(to.as_fd(), &head, &mut control, SendFlags::NOSIGNAL))?;
    to.write_all(&body)
}

/// Receives a message, and the file that came with it.
///
/// # Errors
/// When the other end is gone, is silent for too long, or says what has no meaning.
pub(super) fn receive<M: DeserializeOwned>(mut from: &UnixStream) -> io::Result<(M, Option<File>)> {
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let mut into = [IoSliceMut::new(&mut head)];
    // A signal ends this call even where its action has SA_RESTART, since the socket has a timeout (signal(7)). What
    // comes for the signal is not to be the end of the other process.
    let received = retry_on_intr(|| recvmsg(from.as_fd(), &mut into, &mut control, flags))?;
    if received.bytes != 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let file = control.drain().find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut files) = message else {
            return None;
        };
        files.next().map(File::from)
    });
    let len = u32::from_be_bytes(head) as usize;
    if len > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt as _;
    use std::thread::{sleep, spawn};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_message_arrives_with_its_file() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"text").unwrap();
        let socket = PathBuf::from("/run/mpt/mpt0.sock");
        send(&here, &Question::Bind { socket }, Some(file.as_fd())).unwrap();
        send(&here, &Question::Load { is_followed: true }, None).unwrap();
        let (question, with) = receive::<Question>(&there).unwrap();
        assert!(matches!(question, Question::Bind { .. }));
        assert_eq!(with.unwrap().metadata().unwrap().len(), 4);
        let (question, with) = receive::<Question>(&there).unwrap();
        assert!(matches!(question, Question::Load { is_followed: true }) && with.is_none());
        drop(here);
        assert!(receive::<Question>(&there).is_err());
    }

    extern "C" fn nothing(_: libc::c_int) {}

    /// As a second SIGHUP, while the first one's answer is awaited.
    #[test]
    fn a_signal_does_not_end_the_wait_for_an_answer() {
        let action = nothing as extern "C" fn(libc::c_int);
        // SAFETY: what the signal calls does nothing, and no other test uses this one. It sets SA_RESTART, as
        // tokio does.
        unsafe { libc::signal(libc::SIGUSR1, action as *const () as libc::sighandler_t) };
        let (here, there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let waiting = spawn(move || receive::<Answer>(&here).map(|(answer, _)| answer));
        // Some of them come while it waits.
        for _ in 0..20 {
            sleep(Duration::from_millis(10));
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGUSR1) };
        }
        send(&there, &Answer::Done, None).unwrap();
        let answer = waiting.join().unwrap();
        assert!(matches!(answer, Ok(Answer::Done)), "{answer:?}");
    }
}

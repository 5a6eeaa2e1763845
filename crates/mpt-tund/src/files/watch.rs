//! What changes in a folder, as the kernel tells it (inotify(7)).

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Room for a few events at a time, in bytes: each has a head of 16 and a name of at most 256.
const ROOM: usize = 4096;

/// Begins to watch a folder; what is returned is read by a [`Watch`], of whichever process.
///
/// # Errors
/// When it cannot be read, is no folder, or the user has too many watches (`fs.inotify.max_user_watches`,
/// `max_user_instances`).
pub(super) fn begin(folder: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let wanted = WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    inotify::add_watch(&watch, folder, wanted)?;
    Ok(watch)
}

/// Something that happened in the folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A file was written and closed, came or went by its name, or is another's.
    Done(OsString),
    /// One was made, and somebody may be about to write it.
    Made(OsString),
    /// More than is known.
    Anything,
    /// The folder has gone, or has another name: it is watched no more.
    Gone,
}

/// A folder that is watched.
#[derive(Debug)]
pub(crate) struct Watch(pub(super) OwnedFd);

impl Watch {
    /// What has happened since it was asked last.
    pub(crate) fn take(&self) -> Vec<Seen> {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut events = inotify::Reader::new(self.0.as_fd(), &mut room);
        let mut seen = Vec::new();
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name();
                    let name = name.map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    seen.extend(told(event.events(), name));
                }
                Err(Errno::WOULDBLOCK) => return seen,
                Err(Errno::INTR) => {}
                Err(_) => {
                    seen.push(Seen::Gone);
                    return seen;
                }
            }
        }
    }
}

fn told(what: ReadFlags, name: Option<OsString>) -> Option<Seen> {
    let of_folder =
        ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
    match name {
        _ if what.contains(ReadFlags::QUEUE_OVERFLOW) => Some(Seen::Anything),
        _ if what.intersects(of_folder) => Some(Seen::Gone),
        Some(name) if what.contains(ReadFlags::CREATE) => Some(Seen::Made(name)),
        Some(name) => Some(Seen::Done(name)),
        // The folder's own owner or mode.
        None => Some(Seen::Anything),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_what_is_written_renamed_and_removed_and_of_its_own_end() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("peers.d");
        std::fs::create_dir(&within).unwrap();
        let watch = Watch(begin(&within).unwrap());
        assert_eq!(watch.take(), []);
        std::fs::write(within.join("a"), "text").unwrap();
        let [made, done] = [Seen::Made("a".into()), Seen::Done("a".into())];
        assert_eq!(watch.take(), [made, done]);
        std::fs::rename(within.join("a"), within.join("b")).unwrap();
        std::fs::remove_file(within.join("b")).unwrap();
        let done = ["a", "b", "b"].map(|name| Seen::Done(name.into()));
        assert_eq!(watch.take(), done);
        std::fs::remove_dir(&within).unwrap();
        assert!(watch.take().contains(&Seen::Gone));
        assert!(begin(&within).is_err());
        std::fs::write(&within, "no folder").unwrap();
        assert!(begin(&within).is_err());
    }
}

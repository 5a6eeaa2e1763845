//! Who opens the files of a configuration.
//!
//! Mostly this process does. Where it has a user of its own, who may read none of them, another opens them and
//! hands them over (`crate::files`): that one notes what it opened, and here nothing else is to be had.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Dir;

use super::regular;

/// A file that was opened, or the kernel's number of why not.
pub(crate) type Opened = (PathBuf, std::result::Result<File, i32>);

/// Where files are opened.
#[derive(Debug)]
pub(crate) enum Files {
    /// Here.
    Own,
    /// Here, and noted.
    Noted(RefCell<Vec<Opened>>),
    /// Elsewhere.
    Handed(HashMap<PathBuf, std::result::Result<File, i32>>),
}

/// Which contents a file has, as far as the kernel's table of files tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Files {
    /// Opens a regular file of at most `limit` bytes, without waiting for anything.
    ///
    /// # Errors
    /// When it cannot be opened, is something else, is longer, or was not handed over.
    pub(super) fn open(&self, path: &Path, limit: u64) -> Result<File> {
        regular::checked(self.any(path)?, limit)
    }

    /// The names in a folder, in no order.
    ///
    /// # Errors
    /// When it cannot be read, or was not handed over.
    pub(super) fn list(&self, folder: &Path) -> Result<Vec<OsString>> {
        let mut names = Dir::new(self.any(folder)?)?;
        // Another may have read it by the same descriptor.
        names.rewind();
        let name = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
            let entry = entry?;
            Ok(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
        };
        names.map(name).collect()
    }

    /// Which contents a file has, where this process may ask.
    pub(super) fn identity(&self, path: &Path) -> Option<Identity> {
        let Files::Own = self else { return None };
        let metadata = path.metadata().ok()?;
        Some(Identity {
            inode: (metadata.dev(), metadata.ino()),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether there is no such file.
    pub(super) fn is_gone(&self, path: &Path) -> bool {
        match self {
            Files::Own | Files::Noted(_) => {
                let found = path.metadata();
                found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
            }
            Files::Handed(handed) => matches!(handed.get(path), None | Some(Err(libc::ENOENT))),
        }
    }

    fn any(&self, path: &Path) -> Result<File> {
        match self {
            Files::Own => regular::open(path),
            Files::Noted(noted) => {
                let opened = regular::open(path);
                let copy = match &opened {
                    Ok(file) => Ok(file.try_clone()?),
                    Err(error) => Err(error.raw_os_error().unwrap_or(libc::EIO)),
                };
                noted.borrow_mut().push((path.to_owned(), copy));
                opened
            }
            Files::Handed(handed) => {
                let missing = || Error::new(ErrorKind::NotFound, "it was not there a moment ago");
                match handed.get(path).ok_or_else(missing)? {
                    Ok(file) => file.try_clone().and_then(|mut file| {
                        // Somebody has read it before.
                        file.rewind().map(|()| file)
                    }),
                    Err(number) => Err(Error::from_raw_os_error(*number)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn what_was_opened_elsewhere_is_read_from_its_start_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let (file, absent) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&file, "text").unwrap();
        let noted = Files::Noted(RefCell::default());
        let mut text = String::new();
        noted
            .open(&file, 9)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert!(noted.open(&absent, 9).is_err());
        let Files::Noted(opened) = noted else {
            panic!()
        };
        let handed = Files::Handed(opened.into_inner().into_iter().collect());
        for _ in 0..2 {
            text.clear();
            handed
                .open(&file, 9)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "text");
        }
        assert_eq!(
            handed.open(&absent, 9).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert!(handed.open(Path::new("/etc/passwd"), 1 << 20).is_err());
    }
}

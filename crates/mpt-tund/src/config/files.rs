//! Who opens the files of a configuration.
//!
//! Mostly this process does. Where it has a user of its own, who may read none of them, another opens them and
//! hands them over (`crate::files`): that one notes what it opened, and here nothing else is to be had.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Seek as _};
use std::path::{Path, PathBuf};

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
    Handed(Vec<Opened>),
}

impl Files {
    /// Opens a regular file of at most `limit` bytes, without waiting for anything.
    ///
    /// # Errors
    /// When it cannot be opened, is something else, is longer, or was not handed over.
    pub(super) fn open(&self, path: &Path, limit: u64) -> Result<File> {
        let opened = match self {
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
                let found = handed.iter().find(|(name, _)| name == path);
                let missing = || Error::new(ErrorKind::NotFound, "it was not there a moment ago");
                match &found.ok_or_else(missing)?.1 {
                    Ok(file) => file.try_clone().and_then(|mut file| {
                        // Somebody has read it before.
                        file.rewind().map(|()| file)
                    }),
                    Err(number) => Err(Error::from_raw_os_error(*number)),
                }
            }
        };
        regular::checked(opened?, limit)
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
        let handed = Files::Handed(opened.into_inner());
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

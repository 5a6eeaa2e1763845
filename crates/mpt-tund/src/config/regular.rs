//! Reading files that somebody names: a regular one, whole, and no larger than it may be.
//!
//! A FIFO would keep the control thread waiting for a writer, a device may never end; and what can be made to
//! stand under a name of a folder that others may write is not for the caller to know.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a file, without waiting for anything. What it is has to be [`checked`].
///
/// # Errors
/// When it cannot be opened.
pub(super) fn open(path: &Path) -> Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The file, if it is a regular one of at most `limit` bytes.
///
/// # Errors
/// When it is something else, or longer.
pub(super) fn checked(file: File, limit: u64) -> Result<File> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(Error::from_raw_os_error(libc::EISDIR));
    }
    if !metadata.is_file() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    if metadata.len() > limit {
        let what = format!("it has {} bytes, more than {limit}", metadata.len());
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_regular_file_of_its_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, file) = (folder.path().join("fifo"), folder.path().join("file"));
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        std::fs::write(&file, "0123456789").unwrap();
        let open = |name: &Path, limit| open(name).and_then(|file| checked(file, limit));
        for name in [&*fifo, Path::new("/dev/zero"), folder.path()] {
            assert!(open(name, 100).is_err(), "{}", name.display());
        }
        assert!(open(&file, 9).is_err());
        assert!(open(&file, 10).is_ok());
    }
}

//! A file is replaced whole: a temporary file beside it, with its owner and mode, is renamed over it, so that a power
//! cut leaves the old text or the new one.

use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path as FilePath;

/// What to do about a file that could not be replaced.
pub(super) fn remedy(why: &io::Error) -> &'static str {
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "; the user who runs mpt-tund must be allowed to write into its folder"
        }
        Some(libc::ENOSPC | libc::EDQUOT) => "; make room there, and save again",
        Some(libc::EROFS) => "; its file system must be writable for mpt-tund",
        _ => "",
    }
}

/// Replaces a file at once; its owner and mode stay, and a symbolic link to it too.
pub(crate) fn replace(file: &FilePath, text: &str) -> io::Result<()> {
    let file = file.canonicalize()?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}", std::process::id()));
    let temporary = folder.join(temporary);

    let written = write_like(&temporary, &file, text)
        .and_then(|()| std::fs::rename(&temporary, &file))
        .and_then(|()| std::fs::File::open(folder)?.sync_all());
    if written.is_err() {
        // The first error says more than that of tidying up would.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Makes a file with the owner and mode of `model`, and sees it to the disk.
fn write_like(file: &FilePath, model: &FilePath, text: &str) -> io::Result<()> {
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let model = model.metadata()?;
    let mut options = std::fs::OpenOptions::new();
    let mut opened = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    let made = opened.metadata()?;
    if (made.uid(), made.gid()) != (model.uid(), model.gid()) {
        fchown(&opened, Some(model.uid()), Some(model.gid()))?;
    }
    opened.set_permissions(model.permissions())?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()
}

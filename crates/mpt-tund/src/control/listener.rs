//! The socket file: made, private, and gone when its daemon is.
//!
//! A daemon that was killed leaves its file behind, and the next one must not fail over it; nor may
//! it take the place of one that lives. Whether someone listens is found by knocking. What is
//! removed is only ever a socket, and at the end only our own: a successor may have taken the name.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use tracing::{debug, warn};

use super::owner::Owner;

/// Connections that the kernel keeps waiting.
const BACKLOG: i32 = 16;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The path does not fit a socket address.
    #[error("socket {}: longer than the 107 bytes that a socket's path may have", path.display())]
    TooLong { path: PathBuf },
    /// A daemon listens there.
    #[error("another mpt-tund serves {}: stop it, or give this tunnel another `socket` in [control], or `listen` in [metrics]", path.display())]
    InUse { path: PathBuf },
    /// Something that is no socket has the name.
    #[error("{} exists and is not a socket: remove it, or give this tunnel another `socket` in [control], or `listen` in [metrics]", path.display())]
    NotASocket { path: PathBuf },
    /// The folder cannot be made.
    #[error("cannot create the folder {} of a socket", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// It cannot be given to whom the configuration says.
    #[error("cannot give the socket {} to its `owner` (a new owner takes a restart)", path.display())]
    Owner { path: PathBuf, source: io::Error },
    /// Anything else.
    #[error("cannot open the socket {}", path.display())]
    Open { path: PathBuf, source: io::Error },
}

/// A bound control socket. Dropping it removes the file, unless another has taken its place.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    path: PathBuf,
    owner: Option<Owner>,
    mode: u32,
    /// Device and inode of the file that is ours.
    file: (u64, u64),
}

/// Opens the control socket at `path`: with no wider mode than `mode` at any instant, and of `owner` soon after, in a folder that is made when it is missing, in place of a file that a killed daemon
/// left behind.
///
/// # Errors
/// When a daemon serves this path, or the file system refuses; see [`ControlError`].
pub(crate) fn bind(
    path: &Path,
    owner: Option<&Owner>,
    mode: u32,
) -> Result<Listener, ControlError> {
    let open = |source| ControlError::Open {
        path: path.to_owned(),
        source,
    };
    let address = SockAddr::unix(path).map_err(|_| ControlError::TooLong {
        path: path.to_owned(),
    })?;
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|source| ControlError::Folder {
            path: folder.to_owned(),
            source,
        })?;
    }
    let socket = socket_of_mode(mode).map_err(open)?;
    let mut bound = socket.bind(&address);
    if bound
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    {
        remove_stale(path, &address)?;
        bound = socket.bind(&address);
    }
    bound.map_err(open)?;
    socket.listen(BACKLOG).map_err(open)?;
    let file = path.symlink_metadata().map_err(open)?;
    let listener = Listener {
        socket,
        path: path.to_owned(),
        owner: owner.cloned(),
        mode,
        file: identity(&file),
    };
    // The umask may have taken something from the mode.
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(open)?;
    if let Some(owner) = owner {
        let given = owner
            .ids()
            .and_then(|(user, group)| chown(path, user, group));
        given.map_err(|source| ControlError::Owner {
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(listener)
}

/// A socket whose file will have this mode. On Linux the file takes the mode of the socket itself,
/// which can be set beforehand: no moment with a wider mode, and no umask that all threads share.
fn socket_of_mode(mode: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    let file = File::from(OwnedFd::from(socket));
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(Socket::from(OwnedFd::from(file)))
}

/// Removes the socket file that nobody listens on any more.
fn remove_stale(path: &Path, address: &SockAddr) -> Result<(), ControlError> {
    let open = |source| ControlError::Open {
        path: path.to_owned(),
        source,
    };
    if !path
        .symlink_metadata()
        .map_err(open)?
        .file_type()
        .is_socket()
    {
        return Err(ControlError::NotASocket {
            path: path.to_owned(),
        });
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None);
    let answer = probe.and_then(|probe| probe.connect(address));
    match answer {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            debug!(
                "removing {}, left behind by a daemon that was killed",
                path.display()
            );
            std::fs::remove_file(path).map_err(open)
        }
        // A full backlog (`WouldBlock`) also means that someone listens.
        Ok(()) => Err(ControlError::InUse {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ControlError::InUse {
            path: path.to_owned(),
        }),
        Err(error) => Err(open(error)),
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Listener {
    /// The socket itself, non-blocking.
    pub(crate) fn socket(&self) -> io::Result<UnixListener> {
        Ok(self.socket.try_clone()?.into())
    }

    /// Another one where the file that was ours is not there any more; `None` while it is.
    ///
    /// # Errors
    /// As [`bind`]: what another daemon serves, and what is no socket, is left alone.
    pub(crate) fn restored(&self) -> Option<Result<Listener, ControlError>> {
        (!self.is_there()).then(|| bind(&self.path, self.owner.as_ref(), self.mode))
    }

    fn is_there(&self) -> bool {
        let file = self.path.symlink_metadata();
        file.is_ok_and(|file| identity(&file) == self.file)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.is_there()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            warn!("cannot remove the socket {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use tempfile::TempDir;

    fn place() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/mpt/mpt0.sock");
        (dir, path)
    }

    #[test]
    fn the_socket_is_private_and_its_folder_is_made() {
        let (_dir, path) = place();
        let listener = bind(&path, None, 0o600).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        let folder = path.parent().unwrap().metadata().unwrap().mode();
        assert_eq!(folder & 0o022, 0, "{folder:o}");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_is_served_is_left_alone() {
        let (_dir, path) = place();
        let _first = bind(&path, None, 0o600).unwrap();
        let error = bind(&path, None, 0o600).unwrap_err();
        assert!(matches!(error, ControlError::InUse { .. }), "{error}");
        assert!(
            error.to_string().starts_with("another mpt-tund serves"),
            "{error}"
        );
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_socket_with_a_full_backlog_is_served_all_the_same() {
        let (_dir, path) = place();
        let _first = bind(&path, None, 0o600).unwrap();
        let address = SockAddr::unix(&path).unwrap();
        let mut waiting = Vec::new();
        for _ in 0..4 * BACKLOG {
            let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
            if socket.connect(&address).is_err() {
                break;
            }
            waiting.push(socket);
        }
        assert!(waiting.len() < 64, "the backlog is never full");
        assert!(matches!(
            bind(&path, None, 0o600).unwrap_err(),
            ControlError::InUse { .. }
        ));
    }

    #[test]
    fn a_socket_that_a_killed_daemon_left_is_replaced() {
        let (_dir, path) = place();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let _listener = bind(&path, None, 0o600).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn what_is_not_a_socket_is_not_removed() {
        let (_dir, path) = place();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(
            bind(&path, None, 0o600).unwrap_err(),
            ControlError::NotASocket { .. }
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_path_that_fits_no_socket_is_said_to_be_too_long() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
        assert!(matches!(
            bind(&path, None, 0o600).unwrap_err(),
            ControlError::TooLong { .. }
        ));
    }

    #[test]
    fn a_successors_socket_survives_the_end_of_its_predecessor() {
        let (_dir, path) = place();
        let first = bind(&path, None, 0o600).unwrap();
        // Moved rather than removed: a freed inode's number could be the next one's.
        std::fs::rename(&path, path.with_extension("old")).unwrap();
        let _second = bind(&path, None, 0o600).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_socket_whose_file_was_removed_is_made_again_and_no_other() {
        let (_dir, path) = place();
        let first = bind(&path, None, 0o660).unwrap();
        assert!(first.restored().is_none());
        std::fs::remove_file(&path).unwrap();
        let second = first.restored().unwrap().unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o660);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(second.restored().unwrap().is_err(), "the name is taken");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn the_socket_has_the_mode_and_the_group_that_were_asked_for() {
        let (_dir, path) = place();
        let owner = Owner {
            user: None,
            group: Some(rustix::process::getgid().as_raw().to_string()),
        };
        let _listener = bind(&path, Some(&owner), 0o660).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o660);
        let unknown = Owner {
            user: Some("nobody-of-that-name".to_owned()),
            group: None,
        };
        let other = path.with_extension("other");
        let error = bind(&other, Some(&unknown), 0o600).unwrap_err();
        assert!(matches!(error, ControlError::Owner { .. }), "{error}");
        assert!(!other.exists(), "it is not left behind");
    }
}

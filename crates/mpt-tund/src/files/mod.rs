//! How the daemon comes to its files: configuration, keys and control sockets.
//!
//! As root, or where it may read them, by itself. With `user` in the configuration the daemon gives up root
//! before it opens anything, and so that files may stay root's, mode 0600, another process keeps them for it:
//! [`keeper`]. What was to be chosen from: CAP_DAC_READ_SEARCH in the control thread would be the whole host's
//! files for who takes the daemon over, since threads share their memory; files that belong to the user would
//! have to be given to it after every edit; keys read once could not be read again.

#[cfg(test)]
pub(crate) mod hostile;
mod keeper;
mod watch;
mod wire;

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mpt_core::crypto::PublicKey;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::config::{self, Config, Files, Loaded, Mistake, Opened, PeersDir, SaveError};
use crate::control::{self, Door, Owner};
use crate::{privileges, tun};
pub(crate) use watch::{Seen, Watch};
use wire::{Answer, Question};

/// How long the other process may take for an answer: it reads local files.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon's files.
#[derive(Debug)]
pub(crate) enum Store {
    /// This process may read them.
    Own { arguments: Vec<PathBuf> },
    /// Another process keeps them.
    Kept(Rc<Link>),
}

/// The way to the process that keeps the files.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    /// It does not answer, and nothing more is asked.
    is_lost: Cell<bool>,
}

/// A control socket that the other process has made. Dropping it has it removed.
#[derive(Debug)]
pub(crate) struct KeptDoor {
    link: Rc<Link>,
    socket: UnixListener,
    path: PathBuf,
}

impl Store {
    /// Gives up root where the configuration says whom to become, and says how the files are come by from then
    /// on. To be called while there is one thread.
    ///
    /// # Errors
    /// When the user is not known, or cannot be become.
    pub(crate) fn open(arguments: Vec<PathBuf>, configs: &[Config]) -> anyhow::Result<Store> {
        allow_many_files();
        let Some(user) = configs.iter().find_map(|config| config.user.as_ref()) else {
            if rustix::process::geteuid().is_root() {
                tracing::info!(
                    "this process runs as root; `user` in a configuration gives it another user"
                );
            }
            return Ok(Store::Own { arguments });
        };
        let ids = user.identity().with_context(|| {
            format!("`user` cannot be used: {user}; `useradd --system {user}` makes it")
        })?;
        let now = rustix::process::geteuid();
        if now.as_raw() == ids.0 {
            return Ok(Store::Own { arguments });
        }
        if !now.is_root() {
            bail!(
                "`user` is {user}, and only root can become that: start mpt-tund as root, or as {user}"
            );
        }
        let link = begin_keeper(arguments, configs).context("cannot begin a process")?;
        privileges::become_user(ids.0, ids.1).with_context(|| {
            format!("cannot become {user}, which takes CAP_SETUID and CAP_SETGID, and a user namespace that has it")
        })?;
        tracing::info!("this process runs as {user}");
        Ok(Store::Kept(Rc::new(Link::new(link))))
    }

    /// Reads all configurations again.
    pub(crate) fn load(&self) -> Loaded {
        match self {
            Store::Own { arguments } => config::load(arguments),
            Store::Kept(link) => match link.open_all(true) {
                Ok((list, files)) => config::load_from(list, &files),
                Err(error) => Loaded {
                    configs: Vec::new(),
                    mistakes: vec![gone(Path::new("mpt-tund"), &error)],
                },
            },
        }
    }

    /// Reads one of them.
    ///
    /// # Errors
    /// The file cannot be read, or the first mistake in it.
    pub(crate) fn read(&self, file: &Path) -> Result<Config, Mistake> {
        match self {
            Store::Own { .. } => Config::read_from(file, &Files::Own),
            Store::Kept(link) => {
                let (_, files) = link.open_all(true).map_err(|error| gone(file, &error))?;
                Config::read_from(file, &files)
            }
        }
    }

    /// Reads a folder of peers again, where its files have changed. `own` is the hub's public key.
    pub(crate) fn read_peers(&self, dir: &PeersDir, own: PublicKey) -> PeersDir {
        match self {
            Store::Own { .. } => PeersDir::read(&dir.folder, own, &Files::Own, Some(dir)),
            Store::Kept(link) => {
                let files = link.open_peers(&dir.folder, None).unwrap_or_else(|error| {
                    warn!("{} cannot be read: {error}", dir.folder.display());
                    Files::Handed(HashMap::new())
                });
                PeersDir::read(&dir.folder, own, &files, Some(dir))
            }
        }
    }

    /// Reads one of its files again.
    ///
    /// # Errors
    /// When the process that keeps the files does not answer.
    pub(crate) fn read_peer(
        &self,
        dir: &mut PeersDir,
        file: &Path,
        own: PublicKey,
    ) -> io::Result<()> {
        let files = match self {
            Store::Own { .. } => Files::Own,
            Store::Kept(link) => link.open_peers(&dir.folder, Some(file))?,
        };
        dir.read_again(file, own, &files);
        Ok(())
    }

    /// Watches a folder of peers.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub(crate) fn watch(&self, folder: &Path) -> io::Result<Watch> {
        match self {
            Store::Own { .. } => watch::begin(folder).map(Watch),
            Store::Kept(link) => {
                let folder = folder.to_owned();
                let watch = link.ask(&Question::Watch { folder })?;
                watch.map(Watch).ok_or(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Which folder the name of one with peers leads to now, by device and inode; none where that is not known. It may
    /// be a link, or beneath one, and this process may not be allowed to look.
    pub(crate) fn identity(&self, folder: &Path) -> Option<(u64, u64)> {
        let metadata = match self {
            Store::Own { .. } => folder.metadata(),
            Store::Kept(link) => {
                let folder = folder.to_owned();
                let opened = link.ask(&Question::Folder { folder }).ok()??;
                File::from(opened).metadata()
            }
        };
        let metadata = metadata.ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    /// Writes what runs into a tunnel's file, and returns what was changed.
    ///
    /// # Errors
    /// See [`SaveError`].
    pub(crate) fn save(&self, config: &Config) -> Result<Vec<String>, SaveError> {
        let running = config.running();
        match self {
            Store::Own { .. } => config::save(&config.file, &running, &Files::Own, config::replace),
            Store::Kept(link) => {
                let (_, files) = link.open_all(false).map_err(SaveError::Unread)?;
                config::save(&config.file, &running, &files, |file, text| {
                    let (file, text) = (file.to_owned(), text.to_owned());
                    link.ask(&Question::Replace { file, text }).map(|_| ())
                })
            }
        }
    }

    /// Opens a Unix socket of the configuration, a control socket or one for metrics.
    ///
    /// # Errors
    /// As [`control::bind`].
    pub(crate) fn bind(
        &self,
        socket: &Path,
        owner: Option<&Owner>,
        mode: u32,
    ) -> anyhow::Result<Door> {
        match self {
            Store::Own { .. } => Ok(Door::Own(control::bind(socket, owner, mode)?)),
            Store::Kept(link) => {
                let path = socket.to_owned();
                let socket = link.ask(&Question::Bind {
                    socket: path.clone(),
                })?;
                let door = KeptDoor::new(link.clone(), socket, path)?;
                Ok(Door::Kept(door))
            }
        }
    }

    /// Whether /dev/net/tun is opened by another process.
    pub(crate) fn lends_device(&self) -> bool {
        matches!(self, Store::Kept(_))
    }

    /// /dev/net/tun, opened by who may.
    ///
    /// # Errors
    /// As `open` there.
    pub(crate) fn tun_device(&self) -> io::Result<File> {
        match self {
            Store::Own { .. } => tun::device(),
            Store::Kept(link) => {
                let device = link.ask(&Question::Device)?;
                device
                    .map(File::from)
                    .ok_or(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Whether giving a control socket to somebody is left to another process.
    pub(crate) fn gives_sockets(&self) -> bool {
        matches!(self, Store::Kept(_))
    }
}

/// Begins the process that keeps the files; what is returned leads to it.
fn begin_keeper(arguments: Vec<PathBuf>, configs: &[Config]) -> io::Result<UnixStream> {
    let (here, there) = UnixStream::pair()?;
    here.set_read_timeout(Some(PATIENCE))?;
    here.set_write_timeout(Some(PATIENCE))?;
    // SAFETY: there is one thread, so the child finds no lock taken and nothing half done.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(here);
            ignore_signals();
            keeper::serve(&there, arguments, configs.to_vec());
            std::process::exit(0);
        }
        _ => Ok(here),
    }
}

/// A tunnel with 16 paths takes more than 100, and 64 tunnels more than the 1024 that are usual. A hub's peers may have
/// a file each, and another with a secret, which are handed over together. Without a limit so high it is said what
/// cannot be opened.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, all);
}

/// What ends the daemon is sent to its children, too, and these are needed until it has ended.
fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: it sets how this process takes a signal; no function of ours is called by one.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

fn gone(file: &Path, error: &io::Error) -> Mistake {
    Mistake {
        file: file.to_owned(),
        place: None,
        what: error.to_string(),
        remedy: "restart mpt-tund".to_owned(),
    }
}

impl Link {
    fn new(stream: UnixStream) -> Link {
        Link {
            stream,
            is_lost: Cell::new(false),
        }
    }

    /// Everything that the configuration consists of, opened. `is_followed`: the tunnels are to be as it says.
    #[allow(clippy::type_complexity, reason = "it is what `load_from` takes")]
    fn open_all(&self, is_followed: bool) -> io::Result<((Vec<PathBuf>, Vec<Mistake>), Files)> {
        self.send(&Question::Load { is_followed })?;
        self.hear_opened()
    }

    /// A folder of peers with its files, or one of these, opened.
    fn open_peers(&self, folder: &Path, file: Option<&Path>) -> io::Result<Files> {
        let (folder, file) = (folder.to_owned(), file.map(Path::to_owned));
        self.send(&Question::Peers { folder, file })?;
        self.hear_opened().map(|(_, files)| files)
    }

    #[allow(clippy::type_complexity, reason = "it is what `load_from` takes")]
    fn hear_opened(&self) -> io::Result<((Vec<PathBuf>, Vec<Mistake>), Files)> {
        let mut opened: Vec<Opened> = Vec::new();
        loop {
            match self.hear()? {
                (Answer::Opened(name), Some(file)) => opened.push((name, Ok(file))),
                (Answer::Refused(name, why), _) => opened.push((name, Err(why))),
                (Answer::Listed(names, mistakes), _) => {
                    let files = Files::Handed(opened.into_iter().collect());
                    return Ok(((names, mistakes), files));
                }
                (Answer::Failed(why), _) => return Err(io::Error::other(why)),
                (Answer::Opened(_) | Answer::Done, _) => return Err(self.lost_step()),
            }
        }
    }

    /// The next part of an answer. An answer that comes too late would be taken for that to the next question:
    /// nothing more is asked then.
    fn hear(&self) -> io::Result<(Answer, Option<File>)> {
        wire::receive(&self.stream).map_err(|error| self.lost(&error))
    }

    /// An answer is that to another question: nothing more is asked.
    fn lost_step(&self) -> io::Error {
        self.lost(&io::ErrorKind::InvalidData.into())
    }

    /// Ends it, and says so once: what needs the other process fails from now on, which may be long after this.
    fn lost(&self, error: &io::Error) -> io::Error {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if !self.is_lost.replace(true) {
            tracing::error!(
                "the process that keeps the files does not answer ({error}): no file is read or written any more, and \
                 no socket made, until mpt-tund is restarted"
            );
        }
        let what = "the process that keeps the files does not answer until mpt-tund is restarted";
        io::Error::new(error.kind(), what)
    }

    /// A question that was sent in part ends it, too.
    fn send(&self, question: &Question) -> io::Result<()> {
        wire::send(&self.stream, question, None).map_err(|error| self.lost(&error))
    }

    /// Asks for something that is done or not.
    fn ask(&self, question: &Question) -> io::Result<Option<OwnedFd>> {
        self.send(question)?;
        match self.hear()? {
            (Answer::Done, file) => Ok(file.map(OwnedFd::from)),
            (Answer::Failed(why), _) => Err(io::Error::other(why)),
            (Answer::Refused(_, why), _) => Err(io::Error::from_raw_os_error(why)),
            (Answer::Opened(_) | Answer::Listed(..), _) => Err(self.lost_step()),
        }
    }
}

impl KeptDoor {
    fn new(link: Rc<Link>, socket: Option<OwnedFd>, path: PathBuf) -> io::Result<KeptDoor> {
        let socket = socket.ok_or(io::ErrorKind::InvalidData)?;
        Ok(KeptDoor {
            link,
            socket: socket.into(),
            path,
        })
    }

    /// The socket itself, non-blocking.
    pub(crate) fn socket(&self) -> io::Result<UnixListener> {
        self.socket.try_clone()
    }

    /// Looks whether its file is still there, and has it made again if not. Whether it was.
    ///
    /// # Errors
    /// When that fails. Where the other process is gone it is not known, and what is open goes on.
    pub(crate) fn look(&mut self) -> io::Result<bool> {
        let socket = self.path.clone();
        let looked = self.link.ask(&Question::Look { socket });
        if self.link.is_lost.get() {
            return Ok(false);
        }
        let Some(socket) = looked? else {
            return Ok(false);
        };
        self.socket = socket.into();
        Ok(true)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KeptDoor {
    fn drop(&mut self) {
        let socket = self.path.clone();
        if let Err(error) = self.link.ask(&Question::Unbind { socket }) {
            warn!(
                "cannot remove the control socket {}: {error}",
                self.path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_other_process_whatever_fails_says_that_a_restart_helps() {
        let (here, _) = UnixStream::pair().unwrap();
        let store = Store::Kept(Rc::new(Link::new(here)));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mpt0.toml");
        let text = "[tunnel]\nname = \"mpt0\"\n[[paths]]\nname = \"a\"\nlocal = \"10.1.0.1\"\nremote = \"10.1.0.2\"\n";
        std::fs::write(&file, text).unwrap();
        let config = Config::read(&file).unwrap();
        let what = "the process that keeps the files does not answer until mpt-tund is restarted";
        let mistakes = store.load().mistakes;
        assert_eq!(
            (mistakes.len(), &*mistakes[0].what, &*mistakes[0].remedy),
            (1, what, "restart mpt-tund")
        );
        let saved = store.save(&config).unwrap_err();
        assert_eq!(saved.to_string(), format!("nothing was saved: {what}"));
        let bound = store.bind(&config.control.socket, None, 0o600).unwrap_err();
        assert_eq!(bound.to_string(), what);
    }

    #[test]
    fn without_the_other_process_a_socket_that_is_open_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let (here, _) = UnixStream::pair().unwrap();
        let mut door = KeptDoor {
            link: Rc::new(Link::new(here)),
            socket: UnixListener::bind(&path).unwrap(),
            path,
        };
        assert!(!door.look().unwrap() && !door.look().unwrap());
    }
}

//! The process that keeps the files of a daemon that has a user of its own.
//!
//! It is the daemon's child, begun before there is a thread or a packet, and stays root where the daemon does
//! not. It can do five things: open /dev/net/tun, where others than root may not; open the files that the configuration
//! names, as they are named at that moment; watch the folders of peers that it names, and say which they are; replace a
//! tunnel's file by one that differs in what `mpt-ctl` may change; make and remove the control sockets, and those for
//! metrics. The configuration is that which it read last, and that which runs where it takes a restart to follow. Whoever
//! takes over the daemon can ask for these and for nothing
//! else: there is no name in a question that is used for more than to choose. It ends with the daemon.

use std::cell::RefCell;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use mpt_core::crypto::PublicKey;
use rustix::fs::{Mode, OFlags};
use rustix::thread::CapabilitySet;

use super::watch;
use super::wire::{self, Answer, Question};
use crate::config::{self, Config, Files, PeersDir};
use crate::control::{self, Listener};
use crate::{privileges, tun};

/// What it is called in `ps`.
const NAME: &std::ffi::CStr = c"mpt-tund-files";

struct Keeper {
    arguments: Vec<PathBuf>,
    /// What was read last without a mistake.
    configs: Vec<Config>,
    /// Of those files what was read before, where the daemon has to be restarted to follow what they say now: that runs.
    running: Vec<Config>,
    listeners: Vec<Listener>,
}

/// Answers questions until the daemon is gone.
pub(super) fn serve(link: &UnixStream, arguments: Vec<PathBuf>, configs: Vec<Config>) {
    let _ = rustix::thread::set_name(NAME);
    // Reading and replacing files of others, and giving them back to these; nothing of the network.
    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN | CapabilitySet::FOWNER;
    let given_up = privileges::renounce().and_then(|()| privileges::keep(kept));
    if let Err(error) = given_up {
        tracing::warn!("the process that keeps the files keeps its privileges: {error}");
    }
    let mut keeper = Keeper {
        arguments,
        configs,
        running: Vec::new(),
        listeners: Vec::new(),
    };
    while let Ok((question, _)) = wire::receive(link) {
        if keeper.answer(link, question).is_err() {
            return;
        }
    }
}

impl Keeper {
    fn answer(&mut self, link: &UnixStream, question: Question) -> std::io::Result<()> {
        let (answer, socket) = match question {
            Question::Load { is_followed } => return self.load(link, is_followed),
            Question::Device => return lend_device(link),
            Question::Peers { folder, file } => return self.peers(link, &folder, file.as_deref()),
            Question::Folder { folder } => return self.folder(link, &folder),
            Question::Watch { folder } => return self.watch(link, &folder),
            Question::Replace { file, text } => (self.replace(&file, &text), None),
            Question::Bind { socket } => match self.bind(&socket) {
                Ok(socket) => (Answer::Done, Some(socket)),
                Err(why) => (Answer::Failed(why), None),
            },
            Question::Look { socket } => match self.look(&socket) {
                Ok(socket) => (Answer::Done, socket),
                Err(why) => (Answer::Failed(why), None),
            },
            Question::Unbind { socket } => {
                self.listeners.retain(|listener| listener.path() != socket);
                (Answer::Done, None)
            }
        };
        let socket = socket.as_ref().map(UnixListener::as_fd);
        wire::send(link, &answer, socket)
    }

    /// Reads the configuration as the daemon will, and hands over what was opened for it.
    fn load(&mut self, link: &UnixStream, is_followed: bool) -> std::io::Result<()> {
        let files = Files::Noted(RefCell::default());
        let (names, mistakes) = config::list(&self.arguments);
        let loaded = config::load_from((names.clone(), mistakes.clone()), &files);
        if is_followed && loaded.mistakes.is_empty() {
            self.follow(loaded.configs);
        }
        hand_over(link, files)?;
        wire::send(link, &Answer::Listed(names, mistakes), None)
    }

    /// What the daemon follows, it may ask for; and what it goes on with, since it refuses to follow.
    fn follow(&mut self, configs: Vec<Config>) {
        let refused = |new: &Config| {
            let old = self.known().find(|old| old.file == new.file)?;
            let refuses = !config::difference(old, new).needs_restart.is_empty();
            refuses.then(|| old.clone())
        };
        self.running = configs.iter().filter_map(refused).collect();
        self.configs = configs;
    }

    /// All that the daemon may ask for: first what surely runs.
    fn known(&self) -> impl Iterator<Item = &Config> {
        self.running.iter().chain(&self.configs)
    }

    /// Reads a folder of peers, or one of its files, as the daemon will, and hands over what was opened for it.
    fn peers(&self, link: &UnixStream, folder: &Path, file: Option<&Path>) -> std::io::Result<()> {
        let known = self.hub_of(folder);
        let Some((dir, own)) = known.filter(|(dir, _)| file.is_none_or(|file| dir.has(file)))
        else {
            let why = "the configuration has no such file of a peer".to_owned();
            return wire::send(link, &Answer::Failed(why), None);
        };
        let files = Files::Noted(RefCell::default());
        match file {
            Some(file) => dir.clone().read_again(file, own, &files),
            None => drop(PeersDir::read(folder, own, &files, None)),
        }
        hand_over(link, files)?;
        wire::send(link, &Answer::Listed(Vec::new(), Vec::new()), None)
    }

    fn folder(&self, link: &UnixStream, folder: &Path) -> std::io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.of_folder(link, folder, |folder| {
            Ok(rustix::fs::open(folder, flags, Mode::empty())?)
        })
    }

    fn watch(&self, link: &UnixStream, folder: &Path) -> std::io::Result<()> {
        self.of_folder(link, folder, watch::begin)
    }

    /// Hands over what `open` makes of a folder of peers.
    fn of_folder(
        &self,
        link: &UnixStream,
        folder: &Path,
        open: impl FnOnce(&Path) -> std::io::Result<OwnedFd>,
    ) -> std::io::Result<()> {
        if self.hub_of(folder).is_none() {
            let why = "the configuration has no such folder".to_owned();
            return wire::send(link, &Answer::Failed(why), None);
        }
        match open(folder) {
            Ok(opened) => wire::send(link, &Answer::Done, Some(opened.as_fd())),
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                wire::send(link, &Answer::Refused(folder.to_owned(), number), None)
            }
        }
    }

    /// The folder of peers of that name, and the public key of the hub that has it.
    fn hub_of(&self, folder: &Path) -> Option<(&PeersDir, PublicKey)> {
        self.known().find_map(|config| {
            let dir = config.peers_dir.as_ref();
            let dir = dir.filter(|dir| *dir.folder == *folder)?;
            Some((dir, config.crypto.as_ref()?.private_key.public_key()))
        })
    }

    fn replace(&self, file: &Path, text: &str) -> Answer {
        if !self.known().any(|config| config.file == file) {
            return Answer::Failed("it is no tunnel's file".to_owned());
        }
        match config::replace_settings(file, text) {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    fn bind(&mut self, socket: &Path) -> Result<UnixListener, String> {
        self.listeners.retain(|listener| listener.path() != socket);
        let found = self
            .known()
            .flat_map(Config::sockets)
            .find(|(path, ..)| *path == socket);
        let (_, owner, mode) = found.ok_or("the configuration has no such socket")?;
        let listener = control::bind(socket, owner, mode);
        let listener = listener.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        let opened = listener.socket().map_err(|error| error.to_string())?;
        self.listeners.push(listener);
        Ok(opened)
    }

    fn look(&mut self, socket: &Path) -> Result<Option<UnixListener>, String> {
        let mut listeners = self.listeners.iter_mut();
        let Some(listener) = listeners.find(|listener| listener.path() == socket) else {
            return Err("it was not opened".to_owned());
        };
        let Some(restored) = listener.restored() else {
            return Ok(None);
        };
        *listener = restored.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        let socket = listener.socket();
        socket.map(Some).map_err(|error| error.to_string())
    }
}

/// Hands over what was opened.
fn hand_over(link: &UnixStream, files: Files) -> std::io::Result<()> {
    let Files::Noted(opened) = files else {
        return Ok(());
    };
    for (name, opened) in opened.into_inner() {
        match opened {
            Ok(file) => wire::send(link, &Answer::Opened(name), Some(file.as_fd()))?,
            Err(why) => wire::send(link, &Answer::Refused(name, why), None)?,
        }
    }
    Ok(())
}

/// It takes CAP_NET_ADMIN to make anything of it, which this process has not.
fn lend_device(link: &UnixStream) -> std::io::Result<()> {
    match tun::device() {
        Ok(device) => wire::send(link, &Answer::Done, Some(device.as_fd())),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            wire::send(link, &Answer::Refused("/dev/net/tun".into(), number), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(folder: &Path) -> Keeper {
        let file = folder.join("mpt0.toml");
        let socket = folder.join("control.sock");
        let text = format!(
            "[tunnel]\nname = \"mpt0\"\n[control]\nsocket = {socket:?}\n[[paths]]\nname = \"a\"\n\
             local = \"10.1.0.1\"\nremote = \"10.1.0.2\"\nweight = 5\n"
        );
        std::fs::write(&file, text).unwrap();
        Keeper {
            configs: config::load(&[folder.to_owned()]).configs,
            arguments: vec![folder.to_owned()],
            running: Vec::new(),
            listeners: Vec::new(),
        }
    }

    /// The daemon goes on as it was, and has to be able to.
    #[test]
    fn what_the_daemon_does_not_follow_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = keeper(folder.path());
        let file = folder.path().join("mpt0.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let [control, first, second] =
            ["control.sock", "first", "second"].map(|name| folder.path().join(name));
        let metrics = |at: &Path| format!("{text}[metrics]\nlisten = {at:?}\n");
        let read = |keeper: &mut Keeper, text: &str, is_followed| {
            std::fs::write(&file, text).unwrap();
            let (here, _there) = UnixStream::pair().unwrap();
            keeper
                .answer(&here, Question::Load { is_followed })
                .unwrap();
        };
        read(&mut keeper, &metrics(&first), true);
        assert!(keeper.bind(&first).is_ok());
        // Nobody has asked for a reload: it is read to be saved.
        read(&mut keeper, &metrics(&second), false);
        assert!(keeper.bind(&first).is_ok() && keeper.bind(&second).is_err());
        // What takes a restart is refused, and so is all that stands beside it.
        let renamed = metrics(&second).replace("control.sock", "other.sock");
        read(&mut keeper, &renamed, true);
        assert!(keeper.bind(&first).is_ok() && keeper.bind(&control).is_ok());
        let renamed = metrics(&first).replace("control.sock", "third.sock");
        read(&mut keeper, &renamed, true);
        assert!(keeper.bind(&control).is_ok() && keeper.bind(&second).is_err());
        // And then it is taken back.
        read(&mut keeper, &metrics(&second), true);
        assert!(keeper.bind(&control).is_ok() && keeper.bind(&second).is_ok());
        assert!(keeper.bind(&first).is_err());
        assert!(keeper.running.is_empty());
    }

    #[test]
    fn no_socket_is_made_and_no_file_replaced_but_those_of_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = keeper(folder.path());
        let other = folder.path().join("other");
        assert!(keeper.bind(&other).is_err());
        assert!(!other.exists());
        std::fs::write(&other, "precious").unwrap();
        assert!(matches!(keeper.replace(&other, "x"), Answer::Failed(_)));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
        let file = folder.path().join("mpt0.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let wider = text.replace("[[paths]]", "mode = \"0666\"\n[[paths]]");
        assert!(matches!(keeper.replace(&file, &wider), Answer::Failed(_)));
        let weight = text.replace("weight = 5", "weight = 6");
        assert!(matches!(keeper.replace(&file, &weight), Answer::Done));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), weight);
    }

    /// What is asked is any of the kinds, with any of these names.
    #[test]
    fn whatever_is_asked_nothing_changes_that_is_not_the_configuration_s() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = keeper(folder.path());
        let own = folder.path().join("mpt0.toml");
        let text = std::fs::read_to_string(&own).unwrap();
        std::fs::write(folder.path().join("other"), "precious").unwrap();
        let socket = folder.path().join("control.sock");
        let near = [
            "other",
            "new",
            "control.sock/",
            "./control.sock",
            "",
            "control.sock/../new",
            ".mpt0.toml",
        ];
        let mut names: Vec<PathBuf> = near.iter().map(|name| folder.path().join(name)).collect();
        names.extend(["", "/", "control.sock", "new\0", "../new"].map(PathBuf::from));
        names.push("x".repeat(70_000).into());
        names.extend([own.clone(), socket.clone()]);
        for name in &names {
            let wider = text.replace("[[paths]]", "owner = \"nobody\"\n[[paths]]");
            for text in ["", "not a file's text", &wider] {
                let (file, text) = (name.clone(), text.to_owned());
                assert_refused(&mut keeper, Question::Replace { file, text });
            }
            if *name != socket {
                assert_refused(
                    &mut keeper,
                    Question::Bind {
                        socket: name.clone(),
                    },
                );
                assert_refused(
                    &mut keeper,
                    Question::Look {
                        socket: name.clone(),
                    },
                );
            }
            let (here, _there) = UnixStream::pair().unwrap();
            let unbind = Question::Unbind {
                socket: name.clone(),
            };
            keeper.answer(&here, unbind).unwrap();
        }
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["mpt0.toml", "other"]);
        assert_eq!(std::fs::read_to_string(&own).unwrap(), text);
        assert_eq!(
            std::fs::read_to_string(folder.path().join("other")).unwrap(),
            "precious"
        );
    }

    fn assert_refused(keeper: &mut Keeper, question: Question) {
        let (here, there) = UnixStream::pair().unwrap();
        let asked = format!("{question:.200?}");
        keeper.answer(&here, question).unwrap();
        let (answer, file) = wire::receive::<Answer>(&there).unwrap();
        assert!(
            matches!(answer, Answer::Failed(_)) && file.is_none(),
            "{asked}: {answer:?}"
        );
    }

    #[test]
    fn a_socket_is_made_made_again_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = keeper(folder.path());
        let socket = folder.path().join("control.sock");
        let first = keeper.bind(&socket).unwrap();
        assert!(UnixStream::connect(&socket).is_ok());
        assert!(keeper.look(&socket).unwrap().is_none());
        std::fs::remove_file(&socket).unwrap();
        assert!(keeper.look(&socket).unwrap().is_some());
        drop(first);
        assert!(UnixStream::connect(&socket).is_ok());
        keeper.listeners.clear();
        assert!(!socket.exists());
    }
}

//! The folder of a hub's peers, followed: what changes in it changes the peers, and nothing else.
//!
//! A file is looked at a moment after it was closed, came or went, so that what a tool does in several steps
//! counts as one. What is wrong is said once, in the log, and as long as it lasts, in the status; the peer goes on as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use mpt_core::control::RefusedPeer;
use mpt_core::time::Time;

use super::Tunnel;
use crate::clock;
use crate::config::{Config, Mistake, PeersDir};
use crate::files::{Seen, Store, Watch};
use crate::host::Host;
use crate::wanted::retry::Retry;

/// A file is looked at when nothing has happened to it for this long.
const SETTLED: Duration = Duration::from_millis(100);
/// One that was made and not closed, after this: it may be a link, or be written slowly.
const WRITTEN: Duration = Duration::from_secs(1);
/// How often it is asked whether the folder's name still means the same folder.
const LOOK: Duration = Duration::from_secs(1);

/// What is followed of the folder.
#[derive(Default)]
pub(super) struct PeerFolder {
    watched: Option<Watched>,
    refused: Option<(String, Retry)>,
    /// When files are to be looked at.
    pending: BTreeMap<PathBuf, Time>,
    /// When all are.
    all: Option<Time>,
    told: BTreeSet<String>,
}

struct Watched {
    folder: PathBuf,
    watch: Watch,
    identity: Option<(u64, u64)>,
    next_look: Time,
}

impl PeerFolder {
    /// Sees to it that the folder is watched, and hears what has happened there.
    fn hear(&mut self, dir: &PeersDir, files: &Store, now: Time) {
        if let Some(watched) = &mut self.watched
            && (watched.folder != *dir.folder || watched.was_exchanged(files, now))
        {
            self.watched = None;
        }
        if self.watched.is_none() {
            self.begin(dir, files, now);
        }
        let Some(watched) = &self.watched else { return };
        for seen in watched.watch.take() {
            let (name, due) = match seen {
                Seen::Done(name) => (name, now + SETTLED),
                Seen::Made(name) => (name, now + WRITTEN),
                Seen::Anything => {
                    self.all = Some(now + SETTLED);
                    continue;
                }
                Seen::Gone => {
                    self.watched = None;
                    self.all = Some(now + SETTLED);
                    return;
                }
            };
            let file = dir.folder.join(name);
            if dir.has(&file) {
                self.pending.insert(file, due);
            } else {
                // A secret, perhaps, that a file with a mistake names.
                self.pending
                    .extend(dir.wrong().into_iter().map(|file| (file, due)));
            }
        }
    }

    fn begin(&mut self, dir: &PeersDir, files: &Store, now: Time) {
        if let Some((_, retry)) = &self.refused
            && !retry.is_due(now)
        {
            return;
        }
        match files.watch(&dir.folder) {
            Ok(watch) => {
                self.refused = None;
                self.watched = Some(Watched {
                    folder: dir.folder.to_path_buf(),
                    watch,
                    identity: files.identity(&dir.folder),
                    next_look: now + LOOK,
                });
                // What happened before.
                self.all = Some(now);
            }
            Err(error) => {
                let retry = self.refused.take();
                let retry = retry.map_or_else(|| Retry::new(now), |(_, retry)| retry.again(now));
                self.refused = Some((error.to_string(), retry));
                self.all = Some(now);
            }
        }
    }

    /// A peer has changed by request: what was wrong with a file may be so no longer.
    pub(super) fn look_again(&mut self, dir: &PeersDir, now: Time) {
        let wrong = dir.wrong().into_iter().map(|file| (file, now));
        self.pending.extend(wrong);
    }

    /// The files whose time has come; `None` is all of them.
    fn take_due(&mut self, now: Time) -> Option<BTreeSet<PathBuf>> {
        if self.all.is_some_and(|all| all <= now) {
            self.all = None;
            self.pending.clear();
            return None;
        }
        let is_due = |due: &Time| *due <= now;
        let due: BTreeSet<PathBuf> = self
            .pending
            .iter()
            .filter(|(_, due)| is_due(due))
            .map(|(file, _)| file.clone())
            .collect();
        self.pending.retain(|file, _| !due.contains(file));
        Some(due)
    }
}

impl Watched {
    /// Whether the name leads to another folder now: the watch is of a folder, not of its name.
    fn was_exchanged(&mut self, files: &Store, now: Time) -> bool {
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK;
        let found = files.identity(&self.folder);
        found.is_some() && found != self.identity
    }
}

impl Tunnel {
    /// Makes the peers those of the folder's files as they are now.
    ///
    /// # Errors
    /// When one of the tunnel's threads has ended.
    pub(super) async fn follow_folder(&mut self, host: &Host) -> anyhow::Result<()> {
        let now = clock::now();
        let Config {
            crypto: Some(crypto),
            peers: Some(roster),
            peers_dir: Some(dir),
            ..
        } = &mut self.config
        else {
            return Ok(());
        };
        self.folder.hear(dir, &host.files, now);
        let own = crypto.private_key.public_key();
        let changed = match self.folder.take_due(now) {
            Some(files) if files.is_empty() => return Ok(()),
            Some(files) => {
                for file in &files {
                    if let Err(error) = host.files.read_peer(dir, file, own) {
                        self.log.warn(format!("{file:?} cannot be read: {error}"));
                    }
                }
                files
            }
            None => {
                let read = host.files.read_peers(dir, own);
                let former = std::mem::replace(dir, read);
                dir.changed_since(&former)
            }
        };
        let change = dir.settle(roster, &changed);
        if !change.is_empty() {
            self.log.info(format!("peers: {change}"));
            self.follow_peers(&change).await?;
        }
        self.tell_refused();
        Ok(())
    }

    /// What the files of single peers have wrong.
    pub(super) fn refused_peers(&self) -> Vec<RefusedPeer> {
        let mistakes = self.config.peer_mistakes().map(|mistake| RefusedPeer {
            file: mistake.file_and_place(),
            why: mistake.what.clone(),
            remedy: mistake.remedy.clone(),
        });
        let unwatched = self.folder.refused.iter().filter_map(|(why, _)| {
            let dir = self.config.peers_dir.as_ref()?;
            // That it cannot be read says more.
            (dir.mistakes().next().is_none()).then(|| RefusedPeer {
                file: dir.folder.display().to_string(),
                why: format!("peers_dir is not watched: {why}"),
                remedy: "it is read when you say `mpt-ctl reload`, and every few seconds"
                    .to_owned(),
            })
        });
        mistakes.chain(unwatched).collect()
    }

    /// Says what is wrong and was not before.
    pub(super) fn tell_refused(&mut self) {
        let one_line = |mistake: &Mistake| {
            let file = mistake.file_and_place();
            format!("{file}: {}; {}", mistake.what, mistake.remedy)
        };
        let now: BTreeSet<String> = self.config.peer_mistakes().map(one_line).collect();
        for line in now.difference(&self.folder.told) {
            self.log.warn(line);
        }
        if now.is_empty() && !self.folder.told.is_empty() {
            self.log.info("all files of peers are right again");
        }
        self.folder.told = now;
    }
}

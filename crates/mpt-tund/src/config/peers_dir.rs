//! `peers_dir` of `[tunnel]`: a folder in which each file is a peer of the hub.
//!
//! A mistake in such a file, unlike one in the tunnel's, keeps nothing from running: other peers have nothing to
//! do with it, and a hub of a thousand has to start with nine hundred and ninety-nine. The peer that the file
//! stood for goes on as it was until the file is right again. Of two files that do not go together, the one that
//! changed last, or that is new, gives way; at the start the one whose name comes later.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpt_core::crypto::PublicKey;

use super::document::{Mistake, Source, on_one_line};
use super::entry::Entry;
use super::files::{Files, Identity};
use super::parse::{self, ALL, PEERS};
use super::peers::{self, MAX_PEERS, Origin, Peer, Read};
use super::roster::{Clash, PeerChange, Roster, Taken};
use super::section::{Schema, Section};

/// A file with one peer: the keys of `[[peers]]`, which may stand above them.
const PEER_FILE: Schema = Schema {
    title: "a peer's file",
    keys: PEERS.keys,
};

/// The folder, as it was read last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeersDir {
    /// Where it is.
    pub(crate) folder: Arc<Path>,
    /// Why it cannot be read.
    unreadable: Option<Mistake>,
    files: Arc<BTreeMap<Arc<Path>, PeerFile>>,
}

/// One of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PeerFile {
    /// Which contents were read.
    seen: Option<Identity>,
    reading: Result<Read, Mistake>,
    /// Why its peer does not go with the others.
    clash: Option<Mistake>,
}

impl PeerFile {
    fn mistake(&self) -> Option<&Mistake> {
        self.clash.as_ref().or(self.reading.as_ref().err())
    }
}

/// A file whose peer is to be another one than it is.
struct Wish {
    file: Arc<Path>,
    new: Arc<Peer>,
    /// Who makes room for that one, and comes back when it is refused.
    former: Vec<Arc<Peer>>,
}

/// A file whose peer does not go with the others.
type Refused = (Arc<Path>, Mistake);

impl PeersDir {
    /// Reads the folder. `own` is the hub's public key. Of `former`, what is right and has not changed is not read again.
    pub(crate) fn read(
        folder: &Path,
        own: PublicKey,
        files: &Files,
        former: Option<&PeersDir>,
    ) -> PeersDir {
        let mut this = PeersDir {
            folder: folder.into(),
            unreadable: None,
            files: Arc::default(),
        };
        let names = match files.list(folder) {
            Ok(names) => names,
            Err(error) => {
                this.unreadable = Some(unreadable(folder, &error));
                if let Some(former) = former {
                    this.keep_unread(former);
                }
                return this;
            }
        };
        let known = |file: &Path| former.and_then(|former| former.files.get(file));
        let names: BTreeSet<_> = names.into_iter().filter(|name| is_peers(name)).collect();
        if names.len() > MAX_PEERS {
            let what = format!("it has {} files of peers", names.len());
            let remedy = format!("a hub has at most {MAX_PEERS} peers");
            this.unreadable = Some(mistake(folder, what, remedy));
        }
        let read = names.into_iter().take(MAX_PEERS).map(|name| {
            let file: Arc<Path> = folder.join(name).into();
            let seen = files.identity(&file);
            // What was wrong may be so no longer, though the file is the same: a secret has come, for example.
            let is_same =
                |known: &&PeerFile| known.reading.is_ok() && seen.is_some() && known.seen == seen;
            let same = known(&file).filter(is_same);
            let read = same.cloned().unwrap_or_else(|| PeerFile {
                seen,
                reading: read(&file, own, files),
                clash: None,
            });
            (file, read)
        });
        this.files = Arc::new(read.collect());
        this
    }

    /// A folder that cannot be read says nothing: its files are what they were when the same folder was read.
    pub(super) fn keep_unread(&mut self, former: &PeersDir) {
        let is_unread = self.unreadable.is_some() && self.files.is_empty();
        if is_unread && self.folder == former.folder {
            self.files = former.files.clone();
        }
    }

    /// Reads one of its files again; it may be gone, or be new.
    pub(crate) fn read_again(&mut self, file: &Path, own: PublicKey, files: &Files) {
        let readings = Arc::make_mut(&mut self.files);
        if files.is_gone(file) {
            readings.remove(file);
            return;
        }
        if readings.len() >= MAX_PEERS && !readings.contains_key(file) {
            return;
        }
        let read = PeerFile {
            seen: files.identity(file),
            reading: read(file, own, files),
            clash: None,
        };
        readings.insert(file.into(), read);
    }

    /// Whether that is a file of the folder which stands for a peer.
    pub(crate) fn has(&self, file: &Path) -> bool {
        file.parent() == Some(&self.folder) && file.file_name().is_some_and(is_peers)
    }

    /// The files that are read otherwise than they were, or are gone.
    pub(crate) fn changed_since(&self, before: &PeersDir) -> BTreeSet<PathBuf> {
        let was = |file: &Path| before.files.get(file).map(|one| &one.reading);
        let changed = self
            .files
            .iter()
            .filter(|(file, one)| was(file) != Some(&one.reading));
        let gone = before.files.iter();
        let gone = gone.filter(|(file, _)| !self.files.contains_key(*file));
        changed
            .chain(gone)
            .map(|(file, _)| file.to_path_buf())
            .collect()
    }

    /// The files with mistakes.
    pub(crate) fn wrong(&self) -> Vec<PathBuf> {
        let wrong = self.files.iter().filter(|(_, one)| one.mistake().is_some());
        wrong.map(|(file, _)| file.to_path_buf()).collect()
    }

    /// What is wrong, at most one mistake a file.
    pub(crate) fn mistakes(&self) -> impl Iterator<Item = &Mistake> {
        let of_files = self.files.values().filter_map(PeerFile::mistake);
        self.unreadable.iter().chain(of_files)
    }

    /// The secrets of its peers that others may read, and their modes.
    pub(super) fn exposed(&self) -> impl Iterator<Item = &(PathBuf, u32)> {
        let read = self
            .files
            .values()
            .filter_map(|one| one.reading.as_ref().ok());
        read.flat_map(|read| &read.exposed)
    }

    /// Makes all peers of those without a file here, which are in the roster, of `former` ones that were in force, and of
    /// what the files say now.
    pub(crate) fn settle_all(&mut self, roster: &mut Roster, former: Option<&Roster>) {
        let stays = |file: &Path| self.files.contains_key(file);
        let former = former.map_or_else(Vec::new, |former| former.of_files(stays));
        for peer in former {
            // Who does not go with those in the tunnel's file gives way to them.
            let _ = roster.add(&peer);
        }
        let all = self.files.keys().map(|file| file.to_path_buf()).collect();
        self.settle(roster, &all);
    }

    /// Follows files that were read again, or are gone, where the roster has the peers in force. All others stand for the
    /// peers that they stand for now, whatever became of them by request. Returns who goes and who comes.
    pub(crate) fn settle(
        &mut self,
        roster: &mut Roster,
        changed: &BTreeSet<PathBuf>,
    ) -> PeerChange {
        let mut touched: BTreeSet<PathBuf> = self.wrong().into_iter().collect();
        touched.extend(changed.iter().cloned());
        let former = roster.of_files(|file| touched.contains(file));
        let mut change = PeerChange::default();
        let mut wishes = self.wishes(&touched, former, &mut change);
        // Who was added by request, and has a file now, is the file's: of two, the first one's.
        let mut names = HashSet::new();
        for wish in &mut wishes {
            let same = roster.get(&wish.new.name);
            let asked_for = same.filter(|peer| peer.origin == Origin::Request);
            let is_first = |peer: &&Arc<Peer>| names.insert(peer.name.clone());
            wish.former.extend(asked_for.filter(is_first).cloned());
        }
        let taken = roster.taken();
        let leave = wishes.iter().flat_map(|wish| &wish.former);
        for peer in change.gone.iter().chain(leave) {
            taken.remove(peer);
        }
        let (granted, refused) = self.fit(taken, wishes);
        for wish in granted {
            change.gone.extend(wish.former);
            change.come.push(wish.new);
        }
        roster.follow(&change);
        let readings = Arc::make_mut(&mut self.files);
        for file in &touched {
            if let Some(one) = readings.get_mut(&**file) {
                one.clash = None;
            }
        }
        for (file, mistake) in refused {
            if let Some(one) = readings.get_mut(&file) {
                one.clash = Some(mistake);
            }
        }
        change
    }

    /// Of these files, those that ask for another peer than they stand for. Peers whose files are gone go.
    fn wishes(
        &self,
        touched: &BTreeSet<PathBuf>,
        former: Vec<Arc<Peer>>,
        change: &mut PeerChange,
    ) -> Vec<Wish> {
        let of_file = |peer: Arc<Peer>| Some((peer.own_file()?.to_owned(), peer));
        let mut former: BTreeMap<PathBuf, Arc<Peer>> =
            former.into_iter().filter_map(of_file).collect();
        let mut wishes = Vec::new();
        for file in touched {
            let former = former.remove(file);
            let Some((file, one)) = self.files.get_key_value(&**file) else {
                change.gone.extend(former);
                continue;
            };
            if let Ok(read) = &one.reading
                && former.as_ref() != Some(&read.peer)
            {
                let (file, new) = (file.clone(), read.peer.clone());
                let former = former.into_iter().collect();
                wishes.push(Wish { file, new, former });
            }
        }
        wishes
    }

    /// The wishes that can be granted together, whose former peers have left, and what is wrong with the others. A file
    /// that gives way stands for its former peer, which may be in the way of another that is new: so it is gone about
    /// again, as often as one has given way.
    fn fit(&self, taken: &mut Taken, mut wishes: Vec<Wish>) -> (Vec<Wish>, Vec<Refused>) {
        let mut gave_way = Vec::new();
        loop {
            let mut granted = Vec::new();
            let mut refused = Vec::new();
            for wish in wishes {
                match taken.add(&wish.new) {
                    Ok(()) => granted.push(wish),
                    Err(clash) => {
                        let mistake = (wish.file.clone(), self.told(&wish, &clash));
                        refused.push((wish, mistake));
                    }
                }
            }
            let (gives_way, new): (Vec<_>, Vec<_>) = refused
                .into_iter()
                .partition(|(wish, _)| !wish.former.is_empty());
            if gives_way.is_empty() {
                gave_way.extend(new.into_iter().map(|(_, mistake)| mistake));
                return (granted, gave_way);
            }
            for wish in &granted {
                taken.remove(&wish.new);
            }
            for (wish, mistake) in gives_way {
                gave_way.push(mistake);
                for former in wish.former {
                    // It was there a moment ago.
                    let _ = taken.add(&former);
                }
            }
            // Those that have no peer yet are tried again, in the order of their names.
            wishes = granted;
            wishes.extend(new.into_iter().map(|(wish, _)| wish));
            wishes.sort_by(|one, other| one.file.cmp(&other.file));
        }
    }

    fn told(&self, wish: &Wish, clash: &Clash) -> Mistake {
        let (what, remedy) = clash.told(&wish.new);
        let read = self
            .files
            .get(&wish.file)
            .and_then(|one| one.reading.as_ref().ok());
        let mut mistake = mistake(&wish.file, what, remedy.to_owned());
        mistake.place = read.and_then(|read| read.place_of(clash));
        mistake
    }
}

/// Whether a file of that name stands for a peer: editors' files, and hidden ones, do not.
fn is_peers(name: &OsStr) -> bool {
    let hidden = name.as_encoded_bytes().starts_with(b".");
    !hidden && Path::new(name).extension() == Some(OsStr::new("toml"))
}

fn read(file: &Path, own: PublicKey, files: &Files) -> Result<Read, Mistake> {
    let text = parse::read(file, files)?;
    let source = Source {
        file,
        text: &text,
        files,
    };
    let tree = source.parse()?;
    let called = file.file_stem().and_then(OsStr::to_str);
    let called = called.filter(|called| super::values::is_name(called));
    let origin = Origin::Own(file.into());
    let root = Section::open(source, PEER_FILE, tree.get_ref(), 0..0, &ALL);
    let section = match (root, tree.get_ref().get("peers")) {
        (root, None) => root?,
        (_, Some(list)) => {
            let list = Entry {
                source,
                key: "peers",
                element: false,
                value: list,
            };
            let list_of = if list.is_section() {
                vec![list]
            } else {
                list.list(usize::MAX, "{ public_key = … }")?
            };
            let [one] = &list_of[..] else {
                let what = format!(
                    "a file of peers_dir is one peer, and here are {}",
                    list_of.len()
                );
                return Err(list.mistake(what, "give each peer a file of its own"));
            };
            if let Some((key, _)) = tree
                .get_ref()
                .iter()
                .find(|(key, _)| key.get_ref() != "peers")
            {
                return Err(source.mistake(
                    &key.span(),
                    format!("`{}` stands outside of the peer", key.get_ref()),
                    "a file of peers_dir has the keys of one [[peers]] and nothing else",
                ));
            }
            Section::of(*one, PEERS, &ALL)?
        }
    };
    peers::peer(&section, own, source, (called, &origin))
}

fn unreadable(folder: &Path, error: &std::io::Error) -> Mistake {
    let what = format!("peers_dir cannot be read: {error}");
    let is_absent = error.kind() == std::io::ErrorKind::NotFound;
    let remedy = match is_absent {
        true => format!("make it: mkdir {}", folder.display()),
        false => "make it a folder that the user who runs mpt-tund can read".to_owned(),
    };
    mistake(folder, what, remedy)
}

fn mistake(file: &Path, what: String, remedy: String) -> Mistake {
    Mistake {
        file: file.to_owned(),
        place: None,
        what: on_one_line(what),
        remedy: on_one_line(remedy),
    }
}

#[cfg(test)]
mod tests;

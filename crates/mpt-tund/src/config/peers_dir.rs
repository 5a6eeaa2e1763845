//! `peers_dir` of `[tunnel]`: a folder in which each file is a peer of the hub.
//!
//! A mistake in such a file, unlike one in the tunnel's, keeps nothing from running: other peers have nothing to
//! do with it, and a hub of a thousand has to start with nine hundred and ninety-nine. The peer that the file
//! stood for goes on as it was until the file is right again. Of two files that do not go together, the one that
//! changed last, or that is new, gives way; at the start the one whose name comes later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpt_core::crypto::PublicKey;

use super::document::{Mistake, Source, on_one_line};
use super::entry::Entry;
use super::files::{Files, Identity};
use super::parse::{self, ALL, PEERS};
use super::peers::{self, MAX_PEERS, Origin, Peer, Read, Taken};
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
    files: Arc<BTreeMap<PathBuf, PeerFile>>,
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

/// Which peer is to be where a file stands for one.
enum Choice {
    /// The one that is there; none where there is none.
    Former(Option<Peer>),
    /// That of the file, if it goes with the others.
    New(Peer),
}

impl PeersDir {
    /// Reads the folder. `own` is the hub's public key. Of `former`, what has not changed is not read again.
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
                // What cannot be read says nothing: all goes on as it was.
                this.files = former.map_or_else(Arc::default, |former| former.files.clone());
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
            let file = folder.join(name);
            let seen = files.identity(&file);
            let same = known(&file).filter(|known| seen.is_some() && known.seen == seen);
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
        readings.insert(file.to_owned(), read);
    }

    /// Whether that is a file of the folder which stands for a peer.
    pub(crate) fn has(&self, file: &Path) -> bool {
        file.parent() == Some(&self.folder) && file.file_name().is_some_and(is_peers)
    }

    /// The files that are read otherwise than they were.
    pub(crate) fn changed_since(&self, before: &PeersDir) -> BTreeSet<PathBuf> {
        let was = |file: &Path| before.files.get(file).map(|one| &one.reading);
        let changed = self
            .files
            .iter()
            .filter(|(file, one)| was(file) != Some(&one.reading));
        changed.map(|(file, _)| file.clone()).collect()
    }

    /// The files with mistakes.
    pub(crate) fn wrong(&self) -> Vec<PathBuf> {
        let wrong = self.files.iter().filter(|(_, one)| one.mistake().is_some());
        wrong.map(|(file, _)| file.clone()).collect()
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

    /// All peers, where `others` have no file here and `former` are those in force. Files that are not among
    /// `changed` stand for the peer that they stand for now, whatever became of it by request.
    pub(crate) fn settle(
        &mut self,
        mut others: Vec<Peer>,
        former: &[Peer],
        changed: Option<&BTreeSet<PathBuf>>,
    ) -> Vec<Peer> {
        let readings = Arc::make_mut(&mut self.files);
        let of_file = |peer| Some((Peer::own_file(peer)?, peer));
        let former: HashMap<&Path, &Peer> = former.iter().filter_map(of_file).collect();
        let mut choices: BTreeMap<&Path, Choice> = BTreeMap::new();
        for (file, one) in readings.iter() {
            let before = former.get(&**file).copied();
            let is_touched =
                one.mistake().is_some() || changed.is_none_or(|changed| changed.contains(file));
            let choice = match &one.reading {
                Ok(read) if is_touched && before != Some(&read.peer) => {
                    Choice::New(read.peer.clone())
                }
                Ok(_) | Err(_) => Choice::Former(before.cloned()),
            };
            choices.insert(file, choice);
        }
        // Who was added by request, and has a file now, is the file's.
        let named: BTreeSet<String> = choices.values().filter_map(Choice::new_name).collect();
        others.retain(|other| other.origin != Origin::Request || !named.contains(&other.name));
        let (peers, clashes) = fit(others, &mut choices, &former, readings);
        for (file, one) in readings.iter_mut() {
            one.clash = clashes.get(file).cloned();
        }
        peers
    }
}

impl Choice {
    fn new_name(&self) -> Option<String> {
        match self {
            Choice::New(peer) => Some(peer.name.clone()),
            Choice::Former(_) => None,
        }
    }
}

/// The peers that go together, and what is wrong with the files of the rest. A file that gives way stands for its former
/// peer, which may be in the way of another that is new: so it is gone about again, as often as one has given way.
fn fit(
    others: Vec<Peer>,
    choices: &mut BTreeMap<&Path, Choice>,
    former: &HashMap<&Path, &Peer>,
    readings: &BTreeMap<PathBuf, PeerFile>,
) -> (Vec<Peer>, HashMap<PathBuf, Mistake>) {
    let mut clashes = HashMap::new();
    loop {
        let mut taken = Taken::default();
        let mut peers = others.clone();
        for peer in &peers {
            // They have been checked.
            let _ = taken.add(peer);
        }
        let mut gives_way = Vec::new();
        let is_new = |choice: &Choice| matches!(choice, Choice::New(_));
        let (new, kept): (Vec<_>, Vec<_>) = choices.iter().partition(|(_, choice)| is_new(choice));
        for (&file, choice) in kept.into_iter().chain(new) {
            let (Choice::Former(Some(peer)) | Choice::New(peer)) = choice else {
                continue;
            };
            match taken.add(peer) {
                Ok(()) => peers.push(peer.clone()),
                Err(clash) => {
                    let (what, remedy) = clash.told(peer, &peers);
                    let read = readings.get(file).and_then(|one| one.reading.as_ref().ok());
                    let place = read.and_then(|read| read.place_of(&clash));
                    let mut mistake = mistake(file, what, remedy.to_owned());
                    mistake.place = place;
                    clashes.insert(file.to_owned(), mistake);
                    if is_new(choice) && former.contains_key(file) {
                        gives_way.push(file);
                    }
                }
            }
        }
        if gives_way.is_empty() {
            let order = |peer: &Peer| match &peer.origin {
                Origin::Tunnel(_) => (0, None),
                Origin::Own(file) => (1, Some(file.clone())),
                Origin::Request => (2, None),
            };
            peers.sort_by_cached_key(order);
            return (peers, clashes);
        }
        for file in gives_way {
            choices.insert(file, Choice::Former(former.get(file).copied().cloned()));
        }
        // Those that have no peer yet are tried again.
        clashes
            .retain(|file: &PathBuf, _| choices.get(&**file).is_some_and(|choice| !is_new(choice)));
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
mod tests {
    use mpt_core::crypto::PrivateKey;

    use super::*;

    fn public(number: u8) -> PublicKey {
        PrivateKey::from_random([number; 32]).public_key()
    }

    /// A folder of files, and what follows from it.
    struct World {
        folder: tempfile::TempDir,
        dir: PeersDir,
        peers: Vec<Peer>,
    }

    impl World {
        fn new(files: &[(&str, u8, &str)]) -> World {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                write(folder.path(), *file);
            }
            let mut dir = PeersDir::read(folder.path(), public(0), &Files::Own, None);
            let peers = dir.settle(Vec::new(), &[], None);
            World { folder, dir, peers }
        }

        /// These files have been written, or are gone, and are looked at.
        fn follow(&mut self, names: &[&str]) {
            let file = |name: &&str| self.folder.path().join(format!("{name}.toml"));
            let mut changed: BTreeSet<PathBuf> = names.iter().map(file).collect();
            changed.extend(self.dir.wrong());
            for file in &changed {
                self.dir.read_again(file, public(0), &Files::Own);
            }
            let others = self.peers.iter().filter(|peer| peer.own_file().is_none());
            let others = others.cloned().collect();
            self.peers = self.dir.settle(others, &self.peers, Some(&changed));
        }

        fn put(&mut self, files: &[(&str, u8, &str)]) {
            for file in files {
                write(self.folder.path(), *file);
            }
            let names: Vec<&str> = files.iter().map(|(name, _, _)| *name).collect();
            self.follow(&names);
        }

        fn break_file(&mut self, name: &str) {
            std::fs::write(
                self.folder.path().join(format!("{name}.toml")),
                "public_key = ",
            )
            .unwrap();
            self.follow(&[name]);
        }

        /// "alice 10.99.0.2, bob 10.99.0.3; wrong: carol"
        fn told(&self) -> String {
            let peers = self.peers.iter().map(|peer| {
                let allowed = peer
                    .allowed_ips
                    .iter()
                    .map(|(address, _)| address.to_string());
                format!("{} {}", peer.name, allowed.collect::<Vec<_>>().join(" "))
            });
            let wrong = self.dir.wrong().into_iter();
            let wrong = wrong.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned());
            let peers = peers.collect::<Vec<_>>().join(", ");
            format!("{peers}; wrong: {}", wrong.collect::<Vec<_>>().join(" "))
        }
    }

    /// A peer by its name, the number of its key and its address.
    fn write(folder: &Path, (name, key, address): (&str, u8, &str)) {
        let text = format!(
            "public_key = \"{}\"\nallowed_ips = [\"{address}/32\"]\n",
            public(key)
        );
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }

    const ALICE: (&str, u8, &str) = ("alice", 1, "10.99.0.2");
    const BOB: (&str, u8, &str) = ("bob", 2, "10.99.0.3");

    #[test]
    fn a_file_is_a_peer_named_for_it_and_other_files_are_none() {
        let mut world = World::new(&[BOB, ALICE]);
        for name in [".alice.toml.swp", ".carol.toml", "alice.toml~", "README"] {
            std::fs::write(world.folder.path().join(name), "nothing").unwrap();
        }
        world.follow(&[]);
        assert_eq!(world.told(), "alice 10.99.0.2, bob 10.99.0.3; wrong: ");
        let text = std::fs::read_to_string(world.folder.path().join("bob.toml")).unwrap();
        for text in [
            format!("name = \"robert\"\n{text}"),
            format!("[[peers]]\nname = \"robert\"\n{text}"),
        ] {
            std::fs::write(world.folder.path().join("bob.toml"), text).unwrap();
            world.follow(&["bob"]);
            assert_eq!(world.told(), "alice 10.99.0.2, robert 10.99.0.3; wrong: ");
        }
    }

    #[test]
    fn a_file_with_a_mistake_keeps_its_former_peer_and_hurts_no_other() {
        let mut world = World::new(&[ALICE, BOB]);
        world.break_file("bob");
        assert_eq!(world.told(), "alice 10.99.0.2, bob 10.99.0.3; wrong: bob");
        // Nor does the broken file's address become another's.
        world.put(&[("carol", 3, "10.99.0.3")]);
        assert_eq!(
            world.told(),
            "alice 10.99.0.2, bob 10.99.0.3; wrong: bob carol"
        );
        world.put(&[("bob", 2, "10.99.0.4")]);
        assert_eq!(
            world.told(),
            "alice 10.99.0.2, bob 10.99.0.4, carol 10.99.0.3; wrong: "
        );
        std::fs::remove_file(world.folder.path().join("alice.toml")).unwrap();
        world.follow(&["alice"]);
        assert_eq!(world.told(), "bob 10.99.0.4, carol 10.99.0.3; wrong: ");
    }

    #[test]
    fn of_two_files_that_do_not_go_together_the_newer_gives_way_and_both_are_named() {
        let mut world = World::new(&[BOB, ("carol", 3, "10.99.0.3")]);
        assert_eq!(world.told(), "bob 10.99.0.3; wrong: carol");
        world.put(&[("alice", 1, "10.99.0.3")]);
        assert_eq!(world.told(), "bob 10.99.0.3; wrong: alice carol");
        let told = world.dir.mistakes().next().unwrap();
        assert_eq!(
            told.place.map(|place| (place.line, place.column)),
            Some((2, 15))
        );
        let bob = world.folder.path().join("bob.toml");
        let said = format!(
            "10.99.0.3/32 of peer \"alice\" overlaps 10.99.0.3/32 of peer \"bob\" of {}",
            bob.display()
        );
        assert_eq!(told.what, said);
        // What was in the way has gone: the first by name of those that waited.
        std::fs::remove_file(bob).unwrap();
        world.follow(&["bob"]);
        assert_eq!(world.told(), "alice 10.99.0.3; wrong: carol");
        world.put(&[("dave", 1, "10.99.0.9")]);
        assert!(
            world
                .dir
                .mistakes()
                .any(|one| one.what.contains("have one public key"))
        );
    }

    #[test]
    fn addresses_may_be_exchanged_and_all_or_none_of_a_chain_moves() {
        let mut world = World::new(&[ALICE, BOB]);
        world.put(&[("alice", 1, "10.99.0.3"), ("bob", 2, "10.99.0.2")]);
        assert_eq!(world.told(), "alice 10.99.0.3, bob 10.99.0.2; wrong: ");
        // Bob is to have what Dave has, so he keeps his own, which Alice was to have.
        let mut world = World::new(&[ALICE, BOB, ("dave", 4, "10.99.0.5")]);
        world.put(&[("alice", 1, "10.99.0.3"), ("bob", 2, "10.99.0.5")]);
        let told = "alice 10.99.0.2, bob 10.99.0.3, dave 10.99.0.5; wrong: alice bob";
        assert_eq!(world.told(), told);
        std::fs::remove_file(world.folder.path().join("dave.toml")).unwrap();
        world.follow(&["dave"]);
        assert_eq!(world.told(), "alice 10.99.0.3, bob 10.99.0.5; wrong: ");
    }

    #[test]
    fn what_was_asked_for_stays_until_the_file_says_something_else() {
        let mut world = World::new(&[ALICE, BOB]);
        world.peers.retain(|peer| peer.name != "alice");
        let added = |name: &str, key, last| Peer {
            name: name.to_owned(),
            public_key: public(key),
            psk: mpt_core::crypto::PresharedKey::none(),
            allowed_ips: vec![([10, 99, 0, last].into(), 32)],
            rate_limit: None,
            origin: Origin::Request,
        };
        world
            .peers
            .extend([added("dave", 4, 5), added("eve", 5, 6)]);
        world.put(&[("bob", 2, "10.99.0.4")]);
        assert_eq!(
            world.told(),
            "bob 10.99.0.4, dave 10.99.0.5, eve 10.99.0.6; wrong: "
        );
        // Dave gets a file, and alice's is written again.
        world.put(&[("dave", 4, "10.99.0.7"), ALICE]);
        let told = "alice 10.99.0.2, bob 10.99.0.4, dave 10.99.0.7, eve 10.99.0.6; wrong: ";
        assert_eq!(world.told(), told);
    }

    #[test]
    fn a_folder_that_cannot_be_read_changes_nothing() {
        let world = World::new(&[ALICE]);
        let away = world.folder.path().with_extension("away");
        std::fs::rename(world.folder.path(), &away).unwrap();
        let again = |former| PeersDir::read(world.folder.path(), public(0), &Files::Own, former);
        let mut dir = again(Some(&world.dir));
        assert!(dir.mistakes().next().unwrap().remedy.contains("mkdir"));
        let peers = dir.settle(Vec::new(), &world.peers, Some(&BTreeSet::new()));
        assert_eq!(peers, world.peers);
        assert_eq!(dir.settle(Vec::new(), &world.peers, None), world.peers);
        std::fs::rename(&away, world.folder.path()).unwrap();
        assert_eq!(again(Some(&dir)).mistakes().count(), 0);
    }
}

use mpt_core::crypto::PrivateKey;

use super::*;
use crate::config::Config;

fn public(number: u8) -> PublicKey {
    PrivateKey::from_random([number; 32]).public_key()
}

/// A folder of files, and what follows from it.
struct World {
    folder: tempfile::TempDir,
    dir: PeersDir,
    roster: Roster,
    /// What `mpt-ctl` asked for ends when all is read anew.
    was_asked: bool,
}

impl World {
    fn new(files: &[(&str, u8, &str)]) -> World {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            write(folder.path(), *file);
        }
        let mut dir = PeersDir::read(folder.path(), public(0), &Files::Own, None);
        let mut roster = Roster::default();
        dir.settle_all(&mut roster, None);
        World {
            folder,
            dir,
            roster,
            was_asked: false,
        }
    }

    /// These files have been written, or are gone, and are looked at.
    fn follow(&mut self, names: &[&str]) {
        let file = |name: &&str| self.folder.path().join(format!("{name}.toml"));
        let mut changed: BTreeSet<PathBuf> = names.iter().map(file).collect();
        changed.extend(self.dir.wrong());
        for file in &changed {
            self.dir.read_again(file, public(0), &Files::Own);
        }
        let before = self.roster.clone();
        let change = self.dir.settle(&mut self.roster, &changed);
        let sorted = |mut peers: Vec<Arc<Peer>>| {
            peers.sort_by(|one, other| one.name.cmp(&other.name));
            peers
        };
        let found = PeerChange::between(&before, &self.roster);
        assert_eq!(sorted(change.gone), sorted(found.gone));
        assert_eq!(sorted(change.come), sorted(found.come));
        // It comes to the same when all is read anew.
        let mut anew = self.roster.without_files();
        self.dir.clone().settle_all(&mut anew, Some(&self.roster));
        if !self.was_asked {
            assert_eq!(anew, self.roster);
        }
    }

    fn put(&mut self, files: &[(&str, u8, &str)]) {
        for file in files {
            write(self.folder.path(), *file);
        }
        let names: Vec<&str> = files.iter().map(|(name, _, _)| *name).collect();
        self.follow(&names);
    }

    /// `mpt-ctl` has added a peer.
    fn ask_for(&mut self, name: &str, key: u8, last: u8) {
        let added = Peer {
            name: name.to_owned(),
            public_key: public(key),
            psk: mpt_core::crypto::PresharedKey::none(),
            allowed_ips: [([10, 99, 0, last].into(), 32)].into(),
            rate_limit: None,
            origin: Origin::Request,
        };
        self.roster.add(&Arc::new(added)).unwrap();
        self.was_asked = true;
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
        let peers = self.roster.iter().map(|peer| {
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
    let alice = world.roster.get("alice").cloned();
    world.roster.exchange(alice.as_ref(), None).unwrap();
    for (name, key, last) in [("dave", 4, 5), ("eve", 5, 6)] {
        world.ask_for(name, key, last);
    }
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
fn who_was_asked_for_goes_on_while_the_file_for_him_does_not_go_with_others() {
    let mut world = World::new(&[ALICE, BOB]);
    world.ask_for("dave", 4, 5);
    // Bob's address.
    world.put(&[("dave", 4, "10.99.0.3")]);
    let told = "alice 10.99.0.2, bob 10.99.0.3, dave 10.99.0.5; wrong: dave";
    assert_eq!(world.told(), told);
    // One that has stood for another peer, too.
    write(world.folder.path(), ("dave", 4, "10.99.0.7"));
    let file = world.folder.path().join("alice.toml");
    let text = std::fs::read_to_string(world.folder.path().join("dave.toml")).unwrap();
    std::fs::write(file, format!("name = \"dave\"\n{text}")).unwrap();
    world.follow(&["alice", "dave"]);
    assert_eq!(world.told(), "dave 10.99.0.7, bob 10.99.0.3; wrong: dave");
}

#[test]
fn a_folder_that_cannot_be_read_changes_nothing() {
    let world = World::new(&[ALICE]);
    let away = world.folder.path().with_extension("away");
    std::fs::rename(world.folder.path(), &away).unwrap();
    let again = |former| PeersDir::read(world.folder.path(), public(0), &Files::Own, former);
    let mut dir = again(Some(&world.dir));
    assert!(dir.mistakes().next().unwrap().remedy.contains("mkdir"));
    let mut roster = world.roster.clone();
    assert!(dir.settle(&mut roster, &BTreeSet::new()).is_empty());
    let mut anew = Roster::default();
    dir.settle_all(&mut anew, Some(&world.roster));
    assert_eq!([&roster, &anew], [&world.roster; 2]);
    std::fs::rename(&away, world.folder.path()).unwrap();
    assert_eq!(again(Some(&dir)).mistakes().count(), 0);
}

#[test]
fn a_reload_without_the_folder_keeps_its_peers() {
    let world = World::new(&[ALICE, BOB]);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("private.key");
    std::fs::write(&key, "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=").unwrap();
    let file = folder.path().join("mpt0.toml");
    let write_hub = |peers: &Path| {
        let text = format!(
            "[tunnel]\nname = \"mpt0\"\npeers_dir = {peers:?}\n\n[crypto]\nprivate_key_file = {key:?}\n\n\
             [[paths]]\nname = \"fibre\"\nlocal = \"10.0.0.1\"\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write_hub(world.folder.path());
    let running = Config::read(&file).unwrap();
    let away = world.folder.path().with_extension("away");
    std::fs::rename(world.folder.path(), &away).unwrap();
    let mut new = Config::read(&file).unwrap();
    new.keep_peers_of(&running);
    assert_eq!(new.peers, running.peers);
    assert_eq!(new.peer_mistakes().count(), 1);
    // So does the next one; another folder has other peers.
    let mut again = Config::read(&file).unwrap();
    again.keep_peers_of(&new);
    assert_eq!(again.peers, running.peers);
    write_hub(&folder.path().join("peers.d"));
    let mut other = Config::read(&file).unwrap();
    other.keep_peers_of(&again);
    assert_eq!(other.peers.unwrap().iter().count(), 0);
    std::fs::rename(&away, world.folder.path()).unwrap();
}

#[test]
fn a_file_whose_mistake_was_elsewhere_is_read_again() {
    let mut world = World::new(&[ALICE]);
    let folder = world.folder.path().to_owned();
    let alice = folder.join("alice.toml");
    let text = std::fs::read_to_string(&alice).unwrap() + "psk_file = \"alice.psk\"\n";
    std::fs::write(&alice, text).unwrap();
    world.follow(&["alice"]);
    assert_eq!(world.dir.wrong(), std::slice::from_ref(&alice));
    let psk = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
    std::fs::write(folder.join("alice.psk"), psk).unwrap();
    let again = PeersDir::read(&folder, public(0), &Files::Own, Some(&world.dir));
    assert!(again.wrong().is_empty());
}

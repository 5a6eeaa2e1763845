//! `[[peers]]`: what makes a hub, and what does not go with it.

use std::os::unix::fs::PermissionsExt;

use super::{check, folder};

/// RFC 7748 section 6.1: a private key, its public key and another public key.
const PRIVATE: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
const PUBLIC: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
const ALICE: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";
const BOB: &str = "wZ8CIMr4TIVsQLbrYfQtQUz6+XXyQfb2/C1L/qi1sj4=";

fn hub() -> String {
    format!(
        r#"[tunnel]
name = "mpt0"
addresses = ["10.99.0.1/16"]

[crypto]
private_key_file = "private.key"

[[paths]]
name = "isp1"
local = "203.0.113.7:4754"

[[peers]]
name = "alice"
public_key = "{ALICE}"
allowed_ips = ["10.99.0.2/32", "192.168.7.0/24"]

[[peers]]
name = "bob"
public_key = "{BOB}"
allowed_ips = ["10.99.0.3/32"]
psk_file = "psk.key"
"#
    )
}

fn checked(text: &str) -> (bool, String, String) {
    let files = [
        ("mpt0.toml", text),
        ("private.key", PRIVATE),
        ("psk.key", PRIVATE),
    ];
    let folder = folder(&files);
    check(folder.path(), &["--config", "mpt0.toml"])
}

/// What is said to the hub with this text replaced.
fn complaint(from: &str, to: &str) -> String {
    let text = hub();
    assert!(text.contains(from), "{from:?} is in the text");
    let (right, _, complaint) = checked(&text.replacen(from, to, 1));
    assert!(!right, "{complaint}");
    complaint
}

#[test]
fn a_hub_with_its_peers_is_right_also_where_one_has_the_rest() {
    for text in [hub(), hub().replace("192.168.7.0/24", "0.0.0.0/0")] {
        let (right, output, complaint) = checked(&text);
        assert!(right && complaint.is_empty(), "{complaint}");
        assert_eq!(output, "mpt0: ok (mpt0.toml, 1 paths, 2 peers)\n");
    }
}

#[test]
fn peers_that_overlap_are_refused_with_both_names() {
    insta::assert_snapshot!(complaint("10.99.0.3/32", "192.168.7.128/25"), @r#"
    mpt0.toml:20:15: 192.168.7.128/25 of peer "bob" overlaps 192.168.7.0/24 of peer "alice"
      help: give each address to one peer; "0.0.0.0/0" or "::/0" of one peer stands for all that no other has
    "#);
    insta::assert_snapshot!(complaint(BOB, ALICE), @r#"
    mpt0.toml:19:14: peers "alice" and "bob" have one public key
      help: make each peer a key of its own, by `mpt-ctl genkey`, and give its public key here
    "#);
    insta::assert_snapshot!(complaint("name = \"bob\"", "name = \"alice\""), @r#"
    mpt0.toml:18:8: two peers are called "alice"
      help: give each peer a name of its own
    "#);
}

#[test]
fn what_a_tunnel_of_two_ends_has_does_not_go_with_peers() {
    let crypto = "private_key_file = \"private.key\"";
    let with_peer = format!("{crypto}\npeer_public_key = \"{ALICE}\"");
    insta::assert_snapshot!(complaint(crypto, &with_peer), @r"
    mpt0.toml:7:19: `peer_public_key` does not go with [[peers]]: a hub has many
      help: remove it; what is of one peer stands with it in [[peers]]: public_key, psk_file
    ");
    let local = "local = \"203.0.113.7:4754\"";
    let with_remote = format!("{local}\nremote = \"203.0.113.9\"");
    insta::assert_snapshot!(complaint(local, &with_remote), @r"
    mpt0.toml:11:10: `remote` does not go with [[peers]]: peers call here, on as many paths as each has
      help: remove it; a hub's path is an address where it may be reached, by name and local
    ");
    let keyless = format!("[crypto]\n{crypto}\n");
    insta::assert_snapshot!(complaint(&keyless, ""), @r#"
    mpt0.toml:1:1: [[peers]] stand without [crypto]: a hub knows its peers by their keys
      help: add [crypto] with private_key_file = "/etc/mpt/private.key"
    "#);
}

#[test]
fn a_hub_has_some_workers_and_two_ends_have_none() {
    let with = |workers: &str| hub().replacen("name", &format!("workers = {workers}\nname"), 1);
    for workers in ["1", "64"] {
        let (right, _, complaint) = checked(&with(workers));
        assert!(right, "{complaint}");
    }
    for workers in ["0", "65", "\"auto\""] {
        let (right, _, complaint) = checked(&with(workers));
        assert!(!right, "{workers}");
        assert!(
            complaint.contains("write a whole number from 1 to 64, without quotes"),
            "{complaint}"
        );
    }
    let text = with("2");
    let two_ends = text.split("[[peers]]").next().unwrap();
    let (right, _, complaint) = checked(two_ends);
    assert!(!right);
    assert!(
        complaint.contains("mpt0.toml:2:11: `workers` stands in a tunnel with two ends"),
        "{complaint}"
    );
}

#[test]
fn a_peer_has_a_key_that_is_not_the_hub_s_and_addresses() {
    insta::assert_snapshot!(complaint(ALICE, PUBLIC), @r"
    mpt0.toml:14:14: `public_key` is this end's own: the hub would speak with itself
      help: write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes
    ");
    insta::assert_snapshot!(complaint("allowed_ips = [\"10.99.0.3/32\"]", "allowed_ips = []"), @r#"
    mpt0.toml:20:15: `allowed_ips` is empty: the peer could neither send nor be reached
      help: write its address inside the tunnel, like ["10.99.0.2/32"]
    "#);
    insta::assert_snapshot!(complaint("[\"10.99.0.3/32\"]", "[\"10.99.0.3/24\"]"), @r#"
    mpt0.toml:20:16: "10.99.0.3/24" in `allowed_ips` has bits set behind its prefix length
      help: write "10.99.0.3/32" for this address alone, or "10.99.0.0/24"
    "#);
}

/// What is said of a hub whose folder of peers has these files.
fn checked_folder(files: &[(&str, &str)]) -> (bool, String, String) {
    let hub = hub().replace(
        "addresses = [\"10.99.0.1/16\"]",
        "addresses = [\"10.99.0.1/16\"]\npeers_dir = \"peers.d\"",
    );
    let alone = hub.split("[[peers]]").next().unwrap().to_owned();
    let alice = format!(
        "{}{}",
        alone,
        &hub[alone.len()..].split("\n\n").next().unwrap()
    );
    let folder = folder(&[("mpt0.toml", &*alice), ("private.key", PRIVATE)]);
    std::fs::create_dir(folder.path().join("peers.d")).unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join("peers.d").join(name), text).unwrap();
    }
    // Not in every case there.
    let secret = folder.path().join("peers.d/psk.key");
    let _ = std::fs::set_permissions(secret, PermissionsExt::from_mode(0o600));
    check(folder.path(), &["--config", "mpt0.toml"])
}

#[test]
fn a_folder_of_peers_is_checked_file_by_file() {
    let bob = format!(
        "public_key = \"{BOB}\"\nallowed_ips = [\"10.99.0.3/32\"]\npsk_file = \"psk.key\"\n"
    );
    let files = [("bob.toml", &*bob), ("psk.key", PRIVATE)];
    let (right, output, complaint) = checked_folder(&files);
    assert!(right && complaint.is_empty(), "{complaint}");
    assert_eq!(output, "mpt0: ok (mpt0.toml, 1 paths, 2 peers)\n");

    let same_key = format!("public_key = \"{ALICE}\"\nallowed_ips = [\"10.99.0.4/32\"]\n");
    let overlap = bob.replace("10.99.0.3/32", "10.99.0.0/24");
    let two = format!("[[peers]]\n{bob}\n[[peers]]\n{bob}");
    let misspelt = bob.replace("allowed_ips", "alowed_ips");
    let (right, output, complaint) = checked_folder(&[
        ("bob.toml", &*overlap),
        ("carol.toml", &*two),
        ("dave.toml", &*same_key),
        ("e ve.toml", &*bob),
        ("frank.toml", &*misspelt),
        ("grace.toml", "name = \"alice\"\n"),
        ("psk.key", PRIVATE),
    ]);
    assert!(!right);
    assert_eq!(output, "");
    insta::assert_snapshot!(complaint, @r#"
    peers.d/bob.toml:2:15: 10.99.0.0/24 of peer "bob" overlaps 10.99.0.2/32 of peer "alice" of mpt0.toml
      help: give each address to one peer; "0.0.0.0/0" or "::/0" of one peer stands for all that no other has
    peers.d/carol.toml:1:1: a file of peers_dir is one peer, and here are 2
      help: give each peer a file of its own
    peers.d/dave.toml:1:14: peers "alice" of mpt0.toml and "dave" have one public key
      help: make each peer a key of its own, by `mpt-ctl genkey`, and give its public key here
    peers.d/e ve.toml:1:1: the file's name cannot be the peer's: "e ve", and the file has no `name`
      help: add a name for the peer, like name = "alice"
    peers.d/frank.toml:2:1: unknown key `alowed_ips` in a peer's file
      help: did you mean `allowed_ips`?
    peers.d/grace.toml:1:1: a peer's file has no `public_key`
      help: add what `mpt-ctl pubkey < private.key` prints at the peer
    "#);
}

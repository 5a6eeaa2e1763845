//! `[crypto]`: keys and the files that hold them.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::{BASE, check, edited, folder};

/// RFC 7748 section 6.1: a private key, its public key and another public key.
const PRIVATE: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
const PUBLIC: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
const PEER: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

/// A configuration with this section `[crypto]`, and its secrets beside it.
fn sealed(section: &str) -> TempDir {
    let text = format!("{BASE}\n[crypto]\n{section}");
    folder(&[
        ("mpt0.toml", &text),
        ("private.key", &format!("{PRIVATE}\n")),
        ("psk.key", PRIVATE),
        ("cut.key", &PRIVATE[..20]),
    ])
}

fn check_sealed(folder: &TempDir) -> (bool, String, String) {
    check(folder.path(), &["--config", "mpt0.toml"])
}

/// What is said to a section that is wrong.
fn complaint(section: &str) -> String {
    let folder = sealed(section);
    let (right, _, complaint) = check_sealed(&folder);
    assert!(!right, "{complaint}");
    complaint
}

#[test]
fn a_section_with_its_keys_is_right() {
    let keys = format!("private_key_file = \"private.key\"\npeer_public_key = \"{PEER}\"\n");
    for section in [keys.clone(), keys + "psk_file = \"psk.key\"\n"] {
        let (right, output, complaint) = check_sealed(&sealed(&section));
        assert!(right && complaint.is_empty(), "{complaint}");
        assert_eq!(output, "mpt0: ok (mpt0.toml, 2 paths)\n");
    }
}

#[test]
fn a_secret_that_others_may_read_is_warned_of_with_what_mends_it_at_once() {
    let keys = format!("private_key_file = \"private.key\"\npeer_public_key = \"{PEER}\"\n");
    let folder = sealed(&keys);
    let warning = |mode| {
        let mode = PermissionsExt::from_mode(mode);
        std::fs::set_permissions(folder.path().join("private.key"), mode).unwrap();
        let (right, _, warning) = check_sealed(&folder);
        assert!(right);
        warning
    };
    insta::assert_snapshot!(warning(0o644), @"mpt0.toml: warning: everybody may read or write the secret private.key: chmod go= private.key");
    insta::assert_snapshot!(warning(0o604), @"mpt0.toml: warning: everybody may read or write the secret private.key: chmod o= private.key");
    insta::assert_snapshot!(warning(0o640), @"mpt0.toml: warning: a group may read or write the secret private.key: chmod g= private.key");
    assert_eq!(warning(0o600), "");
}

#[test]
fn no_private_key() {
    insta::assert_snapshot!(complaint(&format!("peer_public_key = \"{PEER}\"")), @r#"
    mpt0.toml:20:1: [crypto] has no `private_key_file`
      help: add private_key_file = "/etc/mpt/private.key", and make it: (umask 077; mpt-ctl genkey > /etc/mpt/private.key)
    "#);
}

#[test]
fn no_peer() {
    insta::assert_snapshot!(complaint("private_key_file = \"private.key\""), @r"
    mpt0.toml:20:1: [crypto] has no `peer_public_key`
      help: add what `mpt-ctl pubkey < private.key` prints at the peer
    ");
}

#[test]
fn a_key_file_that_is_not_there() {
    insta::assert_snapshot!(complaint(&format!("private_key_file = \"other.key\"\npeer_public_key = \"{PEER}\"")), @r"
    mpt0.toml:21:20: other.key cannot be read: No such file or directory (os error 2)
      help: make it: (umask 077; mpt-ctl genkey > other.key)
    ");
}

#[test]
fn a_key_file_that_is_not_there_is_to_be_made_where_it_is_looked_for() {
    let folder = sealed(&format!(
        "private_key_file = \"other.key\"\npeer_public_key = \"{PEER}\""
    ));
    let inside = folder.path().join("etc");
    std::fs::create_dir(&inside).unwrap();
    std::fs::rename(folder.path().join("mpt0.toml"), inside.join("mpt0.toml")).unwrap();
    let (right, _, complaint) = check(folder.path(), &["--config", "etc/mpt0.toml"]);
    assert!(!right);
    insta::assert_snapshot!(complaint, @r"
    etc/mpt0.toml:21:20: etc/other.key cannot be read: No such file or directory (os error 2)
      help: make it: (umask 077; mpt-ctl genkey > etc/other.key)
    ");
}

#[test]
fn no_name_of_a_key_file() {
    let private = complaint(&format!(
        "private_key_file = \"\"\npeer_public_key = \"{PEER}\""
    ));
    insta::assert_snapshot!(private, @r#"
    mpt0.toml:21:20: `private_key_file` names no file
      help: write private_key_file = "/etc/mpt/private.key", and make it: (umask 077; mpt-ctl genkey > /etc/mpt/private.key)
    "#);
    let shared = complaint(&format!(
        "private_key_file = \"private.key\"\npeer_public_key = \"{PEER}\"\npsk_file = \"\""
    ));
    insta::assert_snapshot!(shared, @r#"
    mpt0.toml:23:12: `psk_file` names no file
      help: write psk_file = "/etc/mpt/psk.key", and make it: (umask 077; mpt-ctl genpsk > /etc/mpt/psk.key)
    "#);
}

#[test]
fn a_peer_s_key_with_a_letter_that_is_not_base64() {
    let slip = PEER.replacen('f', "ä", 1);
    insta::assert_snapshot!(complaint(&format!("private_key_file = \"private.key\"\npeer_public_key = \"{slip}\"")), @r"
    mpt0.toml:22:19: `peer_public_key`: this is not base64
      help: write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes
    ");
}

#[test]
fn a_preshared_key_that_is_cut_short() {
    insta::assert_snapshot!(complaint(&format!("private_key_file = \"private.key\"\npeer_public_key = \"{PEER}\"\npsk_file = \"cut.key\"")), @r"
    mpt0.toml:23:12: cut.key holds no key: a key has 44 characters of base64, and this has 20
      help: make it: (umask 077; mpt-ctl genpsk > cut.key)
    ");
}

#[test]
fn a_key_file_that_is_no_file() {
    insta::assert_snapshot!(complaint(&format!("private_key_file = \".\"\npeer_public_key = \"{PEER}\"")), @r"
    mpt0.toml:21:20: . cannot be read: Is a directory (os error 21)
      help: name a file that holds a key, and nothing else
    ");
}

#[test]
fn a_peer_that_is_no_key() {
    insta::assert_snapshot!(complaint("private_key_file = \"private.key\"\npeer_public_key = \"secret\""), @r"
    mpt0.toml:22:19: `peer_public_key`: a key has 44 characters of base64, and this has 6
      help: write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes
    ");
}

#[test]
fn a_peer_that_is_this_end() {
    insta::assert_snapshot!(complaint(&format!("private_key_file = \"private.key\"\npeer_public_key = \"{PUBLIC}\"")), @r"
    mpt0.toml:22:19: `peer_public_key` is this end's own: the tunnel would speak with itself
      help: write what `mpt-ctl pubkey < private.key` prints at the peer, in double quotes
    ");
}

#[test]
fn a_gre_key_beside_it() {
    let keys =
        format!("[crypto]\nprivate_key_file = \"private.key\"\npeer_public_key = \"{PEER}\"\n");
    let text = edited(&[
        ("\"mpt0\"", "\"mpt0\"\nkey = 7"),
        ("[reorder]", &(keys + "[reorder]")),
    ]);
    let folder = folder(&[("mpt0.toml", &text), ("private.key", PRIVATE)]);
    let (right, _, complaint) = check_sealed(&folder);
    assert!(!right);
    insta::assert_snapshot!(complaint, @r"
    mpt0.toml:3:7: `key` does not go with [crypto]: sealed packets use the key's field themselves
      help: remove `key`; what tells tunnels apart is [crypto] then
    ");
}

#[test]
fn a_sealed_path_may_do_without_a_remote() {
    let keys = format!("private_key_file = \"private.key\"\npeer_public_key = \"{PEER}\"\n");
    let folder = sealed(&keys);
    let file = folder.path().join("mpt0.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let without = text.replace("remote = \"10.1.0.2\"\n", "");
    assert_ne!(without, text);
    std::fs::write(&file, &without).unwrap();
    let (right, _, complaint) = check_sealed(&folder);
    assert!(right, "{complaint}");
    let plain = without.replace(&format!("[crypto]\n{keys}"), "");
    std::fs::write(&file, plain).unwrap();
    let (right, _, complaint) = check_sealed(&folder);
    assert!(
        !right && complaint.contains("has no `remote`"),
        "{complaint}"
    );
}

//! `mpt-ctl genkey`, `pubkey` and `genpsk`, which ask no daemon.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use crate::text;

/// What `mpt-ctl WORD` makes of its input.
pub(crate) fn key(word: &str, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mpt-ctl"))
        .arg(word)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // `genkey` does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn a_key_is_made_and_its_public_key_worked_out() {
    let private = key("genkey", "");
    let public = key("pubkey", &text(&private.stdout));
    let other = key("genpsk", "");
    let lines = [&private, &public, &other].map(|output| text(&output.stdout));
    for line in &lines {
        assert_eq!((line.len(), line.ends_with("=\n")), (45, true), "{line}");
    }
    assert!(lines[0] != lines[1] && lines[1] != lines[2]);
    assert!(private.stderr.is_empty(), "a pipe is not a file");
    // RFC 7748 section 6.1
    let public = key("pubkey", "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n");
    assert_eq!(
        text(&public.stdout),
        "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n"
    );
}

#[test]
fn what_is_not_a_private_key_has_no_public_key() {
    for (input, said) in [("", "44 characters"), (&"*".repeat(44), "not base64")] {
        let output = key("pubkey", input);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains(said) && complaint.contains("genkey"),
            "{complaint}"
        );
    }
}

#[test]
fn a_secret_in_a_file_for_all_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, word, warned) in [
        (0o644, "genkey", true),
        (0o644, "genpsk", true),
        (0o660, "genkey", false),
        (0o600, "genpsk", false),
        (0o644, "pubkey", false),
    ] {
        let file = dir.path().join("key");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let input = dir.path().join("input");
        std::fs::write(&input, key("genkey", "").stdout).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_mpt-ctl"))
            .arg(word)
            .stdin(std::fs::File::open(&input).unwrap())
            .stdout(std::fs::File::create(&file).unwrap())
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(said.contains("umask 077"), warned, "{word} {mode:o}");
        assert!(output.status.success(), "{said}");
    }
}

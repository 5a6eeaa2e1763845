//! Mistakes in `[metrics]`, and what is right there.

use super::{BASE, another, check, complaint, edited, folder};

/// [`BASE`] with this section before its paths.
fn with(lines: &str) -> String {
    let section = format!("[metrics]\n{lines}\n\n[[paths]]");
    edited(&[("[[paths]]", &section)])
}

#[test]
fn no_place() {
    insta::assert_snapshot!(complaint(&with("")), @r#"
    mpt0.toml:8:1: [metrics] has no `listen`
      help: add listen = "127.0.0.1:9754", or remove [metrics]
    "#);
}

#[test]
fn what_is_no_place() {
    for (listen, why) in [
        ("localhost:9754", "is nothing to listen at"),
        ("9754", "is nothing to listen at"),
        ("", "is nothing to listen at"),
        ("metrics.sock", "is nothing to listen at"),
        ("http://127.0.0.1:9754/metrics", "is nothing to listen at"),
        ("127.0.0.1", "has no port"),
        ("::1", "has no port"),
        ("127.0.0.1:0", "has port 0"),
        ("224.0.0.1:9754", "is not the address of one host"),
    ] {
        let said = complaint(&with(&format!("listen = \"{listen}\"")));
        let expected = format!(
            "mpt0.toml:9:10: \"{listen}\" {why}\n  help: write an address of this host with a port, \
             \"127.0.0.1:9754\" or \"[::1]:9754\", or the absolute path of a Unix socket, \
             \"/run/mpt/metrics\"\n"
        );
        assert_eq!(said.trim_end(), expected.trim_end());
    }
}

#[test]
fn a_port_without_quotes() {
    insta::assert_snapshot!(complaint(&with("listen = 9754")), @r#"
    mpt0.toml:9:10: `listen` must be text in double quotes, not an integer
      help: write listen = "127.0.0.1:9754"
    "#);
}

#[test]
fn a_socket_that_is_none() {
    insta::assert_snapshot!(complaint(&with("listen = \"unix:metrics.sock\"")), @r#"
    mpt0.toml:9:10: "metrics.sock" is not the path of a socket
      help: write an absolute path of at most 107 bytes, like "/run/mpt/mpt0.sock"
    "#);
}

#[test]
fn an_owner_of_a_port() {
    insta::assert_snapshot!(complaint(&with("listen = \"127.0.0.1:9754\"\nmode = \"0660\"")), @r#"
    mpt0.toml:10:8: `mode` is of a Unix socket, and `listen` is none
      help: remove it, or write listen = "/run/mpt/metrics"
    "#);
}

#[test]
fn an_unknown_key() {
    insta::assert_snapshot!(complaint(&with("port = 9754")), @r#"
    mpt0.toml:9:1: unknown key `port` in [metrics]
      help: `port` belongs in [tunnel]
    "#);
}

#[test]
fn the_control_sockets_place() {
    insta::assert_snapshot!(complaint(&with("listen = \"/run/mpt/mpt0.sock\"")), @r#"
    mpt0.toml:9:10: the metrics and the control socket are both at /run/mpt/mpt0.sock
      help: give the metrics another path, like "/run/mpt/metrics"
    "#);
}

#[test]
fn another_tunnels_control_socket() {
    let folder = folder(&[
        ("a.toml", &another()),
        ("b.toml", &with("listen = \"/run/mpt/mpt1.sock\"")),
    ]);
    insta::assert_snapshot!(check(folder.path(), &["-c", "."]).2, @r#"
    ./b.toml:9:10: /run/mpt/mpt1.sock is the control socket of ./a.toml:2
      help: give the metrics another path, like "/run/mpt/metrics"
    "#);
}

#[test]
fn tunnels_share_a_place_if_they_agree_whose_it_is() {
    let of = |text: &str, lines: &str| {
        format!("{text}\n[metrics]\nlisten = \"/run/mpt/metrics.sock\"\n{lines}")
    };
    let shared = folder(&[("a.toml", &of(&another(), "")), ("b.toml", &of(BASE, ""))]);
    let (right, _, complaint) = check(shared.path(), &["-c", "."]);
    assert!(right, "{complaint}");
    let apart = folder(&[
        ("a.toml", &of(&another(), "")),
        ("b.toml", &of(BASE, "mode = \"0666\"")),
    ]);
    let (right, _, complaint) = check(apart.path(), &["-c", "."]);
    assert!(!right);
    assert!(
        complaint.contains("/run/mpt/metrics.sock has another owner or mode in ./a.toml:"),
        "{complaint}"
    );
}

#[test]
fn every_way_to_write_a_place_is_read() {
    for lines in [
        "listen = \"127.0.0.1:9754\"",
        "listen = \"[::1]:9754\"",
        "listen = \"0.0.0.0:80\"",
        "listen = \"/run/mpt/metrics.sock\"",
        "listen = \"unix:/run/mpt/metrics.sock\"\nowner = \"root:adm\"\nmode = \"0660\"",
    ] {
        let folder = folder(&[("a.toml", &with(lines))]);
        let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
        assert!(right, "{lines}: {complaint}");
    }
}

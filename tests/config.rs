//! What `mpt-tund --check` says to each kind of mistake: the place and the remedy, word for word;
//! and that the examples of conf/ are right and fit each other.

#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

#[path = "config/addresses.rs"]
mod addresses;
#[path = "config/budgets.rs"]
mod budgets;
#[path = "config/classes.rs"]
mod classes;
#[path = "config/crypto.rs"]
mod crypto;
#[path = "config/examples.rs"]
mod examples;
#[path = "config/hub.rs"]
mod hub;
#[path = "config/made.rs"]
mod made;
#[path = "config/metrics.rs"]
mod metrics;
#[path = "config/mistakes.rs"]
mod mistakes;
#[path = "config/values.rs"]
mod values;

/// A right configuration, for edits that make it wrong.
const BASE: &str = r#"[tunnel]
name = "mpt0"
addresses = ["10.99.0.1/30"]

[reorder]
window = 1024

[[paths]]
name = "fibre"
local = "10.1.0.1"
remote = "10.1.0.2"
weight = 100

[[paths]]
name = "lte"
local = "10.2.0.1"
remote = "10.2.0.2"
weight = 50
"#;

/// [`BASE`] with each text replaced by another where it stands first.
fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(BASE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is in the text");
        text.replacen(from, to, 1)
    })
}

/// A folder with files of these names and texts; keys are their owner's alone.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        if name.ends_with(".key") {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
        }
    }
    folder
}

/// Runs `mpt-tund --check` in a folder: success, standard output, standard error.
fn check(folder: &Path, arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::cargo_bin("mpt-tund").unwrap();
    command.current_dir(folder).arg("--check").args(arguments);
    let output = command.output().unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// What is said to a file that is wrong.
fn complaint(text: &str) -> String {
    let folder = folder(&[("mpt0.toml", text)]);
    let (right, output, complaint) = check(folder.path(), &["--config", "mpt0.toml"]);
    assert!(!right);
    assert_eq!(output, "", "nothing is called ok");
    let lines = complaint.lines().count();
    assert_eq!(lines, 2, "a place and a remedy, once: {complaint}");
    complaint
}

/// What is said to a folder of files, some of them wrong.
fn complaints(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let (right, _, complaints) = check(folder.path(), &["--config", "."]);
    assert!(!right);
    complaints
}

/// [`BASE`] as another tunnel that shares nothing with it.
fn another() -> String {
    edited(&[
        ("mpt0", "mpt1"),
        ("10.1.0.1", "10.1.0.1:4755"),
        ("10.2.0.1", "10.2.0.1:4755"),
    ])
}

// What is right

#[test]
fn a_line_for_each_tunnel_in_the_order_of_the_names() {
    let folder = folder(&[
        ("b.toml", BASE),
        ("a.toml", &another()),
        ("notes.txt", "not a configuration"),
        (".b.toml", "nor this, an editor's"),
    ]);
    let (right, output, complaint) = check(folder.path(), &["--config", "."]);
    assert_eq!(complaint, "");
    assert!(right);
    insta::assert_snapshot!(output, @r"
    mpt1: ok (./a.toml, 2 paths)
    mpt0: ok (./b.toml, 2 paths)
    ");
}

#[test]
fn a_file_named_twice_is_one_tunnel() {
    let folder = folder(&[("a.toml", BASE)]);
    let (right, output, _) = check(
        folder.path(),
        &["-c", "a.toml", "-c", ".", "-c", "./a.toml"],
    );
    assert!(right);
    assert_eq!(output, "mpt0: ok (a.toml, 2 paths)\n");
}

#[test]
fn every_way_to_write_an_end_is_read() {
    for (local, remote) in [
        ("10.1.0.1:1", "10.1.0.2"),
        ("2001:db8::1", "2001:db8::2"),
        ("[2001:db8::1]", "[2001:db8::2]:65535"),
        ("10.2.0.1:4755", "10.1.0.2"),
    ] {
        let text = edited(&[("10.1.0.1", local), ("10.1.0.2", remote)]);
        let folder = folder(&[("a.toml", &text)]);
        let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
        assert!(right, "{local} {remote}: {complaint}");
    }
}

#[test]
fn a_path_with_an_interface_needs_no_local() {
    let text = edited(&[
        ("local = \"10.1.0.1\"", "interface = \"eth0\""),
        ("local = \"10.2.0.1\"", "interface = \"wwan0\""),
        ("\"10.2.0.2\"", "\"office.example.net\""),
    ]);
    let folder = folder(&[("a.toml", &text)]);
    let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
    assert!(right, "{complaint}");
}

#[test]
fn paths_bound_to_devices_of_their_own_may_share_a_port() {
    let text = edited(&[
        ("\"10.1.0.1\"", "\"0.0.0.0\"\ninterface = \"eth0\""),
        ("\"10.2.0.1\"", "\"0.0.0.0\"\ninterface = \"wwan0\""),
    ]);
    let folder = folder(&[("a.toml", &text)]);
    let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
    assert!(right, "{complaint}");
}

#[test]
fn the_reorder_window_may_be_automatic() {
    let text = edited(&[(
        "window = 1024",
        "window = \"auto\"\nmax_buffer_delay = \"auto\"",
    )]);
    let folder = folder(&[("a.toml", &text)]);
    let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
    assert!(right, "{complaint}");
}

#[test]
fn packets_may_be_held_in_a_window_or_sorted_in_blocks() {
    for lines in [
        "mode = \"window\"\nwindow = 1024",
        "mode = \"block\"",
        "mode = \"block\"\nblock_size = 2",
        "block_size = 1_024\nmode = \"block\"",
    ] {
        let folder = folder(&[("a.toml", &edited(&[("window = 1024", lines)]))]);
        let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
        assert!(right, "{lines}: {complaint}");
    }
}

#[test]
fn the_most_that_is_allowed_is_allowed() {
    let text = edited(&[
        (
            "window = 1024",
            "window = 32768\nmax_buffer_delay = \"10s\"",
        ),
        (
            "\"mpt0\"",
            "\"mpt0-0123456789\"\nmtu = 65000\nkey = 4294967295\nport = 65535",
        ),
        (
            "weight = 100",
            "weight = 1000000\nkeepalive = \"500ms\"\ndead_after = \"1s\"",
        ),
    ]);
    let folder = folder(&[("a.toml", &text)]);
    let (right, _, complaint) = check(folder.path(), &["-c", "a.toml"]);
    assert!(right, "{complaint}");
}

#[test]
fn sixteen_paths_are_the_most() {
    let path = |n: usize| {
        format!("[[paths]]\nname = \"p{n}\"\nlocal = \"10.1.{n}.1\"\nremote = \"10.1.{n}.2\"\n")
    };
    let paths = |count| (1..=count).map(path).collect::<String>();
    let tunnel = "[tunnel]\nname = \"mpt0\"\n".to_owned();
    let folder = folder(&[("a.toml", &(tunnel.clone() + &paths(16)))]);
    assert!(check(folder.path(), &["-c", "a.toml"]).0);
    insta::assert_snapshot!(complaint(&(tunnel + &paths(17))), @r"
    mpt0.toml:67:1: the tunnel has 17 paths
      help: a tunnel has at most 16 paths
    ");
}

// Files and folders

#[test]
fn a_right_file_is_called_ok_beside_a_wrong_one() {
    let folder = folder(&[("a.toml", BASE), ("b.toml", "[tunnel]\n")]);
    let (right, output, complaint) = check(folder.path(), &["-c", "."]);
    assert!(!right);
    assert_eq!(output, "mpt0: ok (./a.toml, 2 paths)\n");
    assert!(complaint.starts_with("./b.toml:1:1: "), "{complaint}");
}

#[test]
fn no_such_file() {
    insta::assert_snapshot!(check(Path::new("/"), &["-c", "/nowhere/mpt0.toml"]).2, @r"
    /nowhere/mpt0.toml: cannot be read: No such file or directory (os error 2)
      help: create it, one .toml file for each tunnel, or name another file or folder with --config
    ");
}

#[test]
fn a_folder_without_tunnels() {
    insta::assert_snapshot!(complaints(&[("readme.txt", "")]), @r"
    .: there is no .toml file in this folder
      help: put one .toml file for each tunnel there; docs/configuration.md has the keys
    ");
}

#[test]
fn a_folder_with_the_name_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a.toml")).unwrap();
    insta::assert_snapshot!(check(folder.path(), &["-c", "."]).2, @r"
    ./a.toml: cannot be read: Is a directory (os error 21)
      help: make it a file that the user who runs mpt-tund can read
    ");
}

#[test]
fn a_file_that_is_not_text() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("a.toml"),
        b"[tunnel]\nname = \"mpt\xff\"\n",
    )
    .unwrap();
    insta::assert_snapshot!(check(folder.path(), &["-c", "a.toml"]).2, @r"
    a.toml:2:12: this is not text in UTF-8
      help: save the file in UTF-8
    ");
}

#[test]
fn a_file_too_large() {
    insta::assert_snapshot!(complaint(&"#\n".repeat(17_000_000)), @r"
    mpt0.toml: is too large for a configuration
      help: a configuration has at most 32 MiB
    ");
}

#[test]
fn columns_count_characters() {
    let complaint = complaint("tunnel = { name = \"ü\", colour = 1 }\n");
    assert!(complaint.starts_with("mpt0.toml:1:24: unknown key `colour`"));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let complaint =
        complaint("tunnel = { name = \"mpt0\" }\n[reorder]\nlate = \"\\n\\u001b[31m\"\n");
    assert!(!complaint.contains('\u{1b}'), "{complaint:?}");
}

// What has no effect, and what this host does not know

/// What a right file is warned of.
fn warned(file: &str) -> String {
    let folder = folder(&[("mpt0.toml", file)]);
    let (is_right, _, warnings) = check(folder.path(), &["--config", "mpt0.toml"]);
    assert!(is_right, "{warnings}");
    warnings
}

#[test]
fn keys_without_effect_are_no_mistake_and_are_warned_of() {
    let file = edited(&[
        (
            "[tunnel]",
            "[recovery]\nmode = \"auto\"\n\n[tunnel]\nport = 4800",
        ),
        ("window = 1024", "window = 0\nmax_buffer_delay = \"5ms\""),
        ("10.1.0.1", "10.1.0.1:4801"),
        ("10.2.0.1", "10.2.0.1:4802"),
    ]);
    insta::assert_snapshot!(warned(&file), @r#"
    mpt0.toml:2:8: warning: `mode` has no effect beside scheduler = "weighted", for which a path's `weight` stands: what is lost is not sent again; remove it, or write scheduler = "adaptive" in [tunnel]
    mpt0.toml:5:8: warning: `port` has no effect since the `local` of every path names a port; remove it, or the ports in `local`
    mpt0.toml:11:20: warning: `max_buffer_delay` has no effect beside window = 0: no packet is held; remove it, or write another `window`
    "#);
    let redundant = file.replace("[tunnel]", "[tunnel]\nscheduler = \"redundant\"");
    let redundant = redundant
        .replace(":4802", "")
        .replace("window = 0", "window = 9");
    insta::assert_snapshot!(warned(&redundant), @r#"
    mpt0.toml:2:8: warning: `mode` has no effect beside scheduler = "redundant": what is lost is not sent again; remove it, or write scheduler = "adaptive" in [tunnel]
    mpt0.toml:18:10: warning: `weight` has no effect beside scheduler = "redundant": every packet goes over every path; remove it, or write scheduler = "weighted" in [tunnel] for shares by weight
    mpt0.toml:24:10: warning: `weight` has no effect beside scheduler = "redundant": every packet goes over every path; remove it, or write scheduler = "weighted" in [tunnel] for shares by weight
    "#);
    let adaptive = edited(&[
        (
            "[tunnel]",
            "[recovery]\nmode = \"auto\"\n\n[tunnel]\nscheduler = \"adaptive\"",
        ),
        ("window = 1024", "window = 0"),
    ]);
    let without_weights = adaptive.lines().filter(|line| !line.starts_with("weight"));
    let adaptive = without_weights.collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(warned(&adaptive), @r"
    mpt0.toml:2:8: warning: `mode` has no effect beside window = 0: what has no number is not sent again; remove it, or write another `window`
    mpt0.toml:5:13: warning: `scheduler` has no effect beside window = 0: without numbers nothing is known of the paths, and weights decide; remove it, or write another `window`
    ");
    // What happens anyhow, or has no other to be beside.
    let file = edited(&[
        (
            "[tunnel]",
            "[recovery]\nmode = \"off\"\n\n[tunnel]\nport = 4800",
        ),
        (
            "window = 1024",
            "window = 0\nmax_buffer_delay = \"auto\"\nlate = \"drop\"",
        ),
        ("10.1.0.1", "10.1.0.1:4801"),
    ]);
    assert_eq!(warned(&file), "");
}

#[test]
fn users_of_another_host_are_no_mistake_and_are_warned_of() {
    let file = format!(
        "user = \"nobody-here\"\n{BASE}[control]\nowner = \":nobodies\"\n\
         [metrics]\nlisten = \"/run/mpt/metrics.sock\"\nowner = \"root:nobodies\"\n"
    );
    insta::assert_snapshot!(warned(&file), @r"
    mpt0.toml: warning: `user` cannot be used on this host: /etc/passwd has no nobody-here
    mpt0.toml: warning: `[control] owner` cannot be used on this host: /etc/group has no nobodies
    mpt0.toml: warning: `[metrics] owner` cannot be used on this host: /etc/group has no nobodies
    ");

    let file = format!("user = \"root\"\n{BASE}[control]\nowner = \"0:0\"\n");
    assert_eq!(warned(&file), "");
}

// Two tunnels in one daemon

#[test]
fn two_tunnels_with_one_name() {
    let second = another().replace("mpt1", "mpt0");
    insta::assert_snapshot!(complaints(&[("a.toml", BASE), ("b.toml", &second)]), @r#"
    ./b.toml:2:8: the tunnel "mpt0" exists already in ./a.toml:2
      help: give each tunnel a name of its own
    "#);
}

#[test]
fn two_tunnels_with_one_control_socket() {
    let second = another() + "[control]\nsocket = \"/run/mpt/mpt0.sock\"\n";
    insta::assert_snapshot!(complaints(&[("a.toml", BASE), ("b.toml", &second)]), @r"
    ./b.toml:20:10: the control socket /run/mpt/mpt0.sock is taken by ./a.toml:2
      help: leave `socket` out, for /run/mpt/mpt1.sock, or write another path
    ");
}

#[test]
fn two_tunnels_with_one_local_socket() {
    let second = edited(&[("mpt0", "mpt1"), ("10.1.0.1", "10.4.0.1")]);
    insta::assert_snapshot!(complaints(&[("a.toml", BASE), ("b.toml", &second)]), @r#"
    ./b.toml:16:9: the local socket 10.2.0.1:4754 is taken by ./a.toml:16
      help: give one of them another port, like local = "10.2.0.1:4755", and the same in the peer's `remote`, if it has one
    "#);
}

#[test]
fn a_local_socket_that_covers_another_ones() {
    let second = edited(&[
        ("mpt0", "mpt1"),
        ("\"10.1.0.1\"", "\"0.0.0.0\"\ninterface = \"eth0\""),
        ("10.2.0.1", "10.4.0.1:4755"),
    ]);
    insta::assert_snapshot!(complaints(&[("a.toml", BASE), ("b.toml", &second)]), @r#"
    ./b.toml:10:9: the local socket 0.0.0.0:4754 is taken by ./a.toml:10
      help: give one of them another port, like local = "0.0.0.0:4755", and the same in the peer's `remote`, if it has one
    "#);
}

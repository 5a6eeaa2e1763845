//! Mistakes of form, keys, sections and names; those of values and addresses stand beside it.

use super::{complaint, edited};

// Syntax

#[test]
fn text_without_quotes() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "mpt0")])), @r#"
    mpt0.toml:2:8: this is not TOML: string values must be quoted, expected literal string
      help: a section is [name] on a line, a setting is key = value, text and addresses stand in double quotes, each key once
    "#);
}

#[test]
fn a_key_given_twice() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "weight = 50\nweight = 60")])), @r#"
    mpt0.toml:19:1: this key or section stands in the file twice
      help: remove one of them; only [[paths]], [[peers]] and [[classes]] may be repeated
    "#);
}

#[test]
fn a_section_given_twice() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 1024\n[tunnel]")])), @r#"
    mpt0.toml:7:2: this key or section stands in the file twice
      help: remove one of them; only [[paths]], [[peers]] and [[classes]] may be repeated
    "#);
}

// Keys and sections

#[test]
fn an_unknown_key() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "wieght = 50")])), @r#"
    mpt0.toml:18:1: unknown key `wieght` in [[paths]]
      help: did you mean `weight`?
    "#);
}

#[test]
fn an_unknown_key_like_no_other() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "colour = 50")])), @r#"
    mpt0.toml:18:1: unknown key `colour` in [[paths]]
      help: the keys here are name, local, remote, interface, weight, keepalive, dead_after, metered, cost, budget, reset_day, at_budget
    "#);
}

#[test]
fn a_key_in_the_wrong_section() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 1024\nweight = 5")])), @r#"
    mpt0.toml:7:1: unknown key `weight` in [reorder]
      help: `weight` belongs in [[paths]]
    "#);
}

#[test]
fn an_unknown_section() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[reordering]")])), @r#"
    mpt0.toml:5:2: unknown section or key `reordering`
      help: did you mean `reorder`?
    "#);
}

#[test]
fn a_section_like_no_other() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[firewall]")])), @r#"
    mpt0.toml:5:2: unknown section or key `firewall`
      help: the sections here are tunnel, reorder, recovery, crypto, control, hooks, metrics, paths, classes, peers
    "#);
}

#[test]
fn one_path_without_double_brackets() {
    insta::assert_snapshot!(complaint(&edited(&[("[[paths]]\nname = \"fibre\"", "[paths]\nname = \"fibre\""), ("[[paths]]\nname = \"lte\"\nlocal = \"10.2.0.1\"\nremote = \"10.2.0.2\"\nweight = 50\n", "")])), @r#"
    mpt0.toml:8:1: [paths] is a single section, and paths are a list
      help: write [[paths]], once for each path
    "#);
}

#[test]
fn commands_of_hooks_that_are_none() {
    let said = [
        "on_up = []",
        "on_up = \"\"",
        "on_up = 7",
        "on_up = [\"notify\"]",
        "on_up = [\"/bin/notify\", 7]",
        "on_start = \"true\"",
    ]
    .map(|line| {
        complaint(&edited(&[(
            "[reorder]",
            &format!("[hooks]\n{line}\n[reorder]"),
        )]))
    })
    .join("\n");
    insta::assert_snapshot!(said, @r#"
    mpt0.toml:6:9: `on_up` is an empty list
      help: write ["/usr/local/bin/notify", "--quiet"], or leave the key out

    mpt0.toml:6:9: "" is no command
      help: write a command, or leave the key out

    mpt0.toml:6:9: `on_up` must be text in double quotes, not an integer
      help: write on_up = "logger -t mpt \"$MPT_TUNNEL is $MPT_STATE\""

    mpt0.toml:6:10: "notify" is no absolute path of a program
      help: write the whole path, or one text instead of a list, which /bin/sh runs

    mpt0.toml:6:25: each of `on_up` must be text in double quotes, not an integer
      help: write "/usr/local/bin/notify"

    mpt0.toml:6:1: unknown key `on_start` in [hooks]
      help: the keys here are on_up, on_down, on_path_change
    "#);
}

#[test]
fn a_reorder_mode_that_is_none() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[reorder]\nmode = \"sort\"")])), @r#"
    mpt0.toml:6:8: `mode` is "sort"
      help: write "window" (hold packets until those before them are there) or "block" (sort what arrives together, and hold nothing)
    "#);
}

#[test]
fn settings_of_the_window_with_block_sort() {
    for (line, key) in [
        ("window = 1024", "window"),
        ("window = \"auto\"", "window"),
        ("max_buffer_delay = \"50ms\"", "max_buffer_delay"),
        ("late = \"drop\"", "late"),
    ] {
        let lines = format!("mode = \"block\"\n{line}");
        let complaint = complaint(&edited(&[("window = 1024", &lines)]));
        let what = format!("`{key}` does not go with mode = \"block\", which holds nothing");
        assert!(complaint.contains(&what), "{complaint}");
        let remedy = format!("remove `{key}`, or write mode = \"window\"");
        assert!(complaint.contains(&remedy), "{complaint}");
    }
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[reorder]\nmode = \"block\"")])), @r#"
    mpt0.toml:7:10: `window` does not go with mode = "block", which holds nothing
      help: remove `window`, or write mode = "window"
    "#);
}

#[test]
fn the_size_of_blocks_where_none_are_sorted() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 1024\nblock_size = 32")])), @r#"
    mpt0.toml:7:14: `block_size` does not go with mode = "window", the default
      help: remove `block_size`, or write mode = "block"
    "#);
}

#[test]
fn a_block_that_is_too_small_or_too_large() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "mode = \"block\"\nblock_size = 1")])), @r"
    mpt0.toml:7:14: `block_size` is 1: out of range
      help: write a whole number from 2 to 1,024 packets, without quotes
    ");
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "mode = \"block\"\nblock_size = 1025")])), @r"
    mpt0.toml:7:14: `block_size` is 1025: out of range
      help: write a whole number from 2 to 1,024 packets, without quotes
    ");
}

#[test]
fn a_recovery_mode_that_is_none() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[recovery]\nmode = \"on\"\n[reorder]")])), @r#"
    mpt0.toml:6:8: `mode` is "on"
      help: write "auto" (lost packets are sent again toward peers that can tell of them) or "off"
    "#);
}

#[test]
fn an_offload_that_is_none_of_the_three() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\noffload = \"yes\"")])), @r#"
    mpt0.toml:3:11: `offload` is "yes"
      help: write "auto" (super-packets where the kernel has them), "on" (or not at all) or "off" (one packet at a time)
    "#);
}

#[test]
fn a_window_that_is_another_word() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = \"huge\"")])), @r#"
    mpt0.toml:6:10: `window` must be an integer, not text
      help: write a whole number from 0 to 32,768 packets, without quotes; or "auto"
    "#);
}

#[test]
fn an_unknown_scheduler() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\nscheduler = \"fair\"")])), @r#"
    mpt0.toml:3:13: there is no scheduler "fair"
      help: write "weighted" (bytes by the paths' weights), "redundant" (every packet on every path), "backup" (all on the path with the greatest weight that is up), "flow" (each flow on one path) or "adaptive" (by what each path turns out to deliver)
    "#);
}

// What must be there

#[test]
fn an_empty_file() {
    insta::assert_snapshot!(complaint(""), @r#"
    mpt0.toml:1:1: there is no [tunnel] section
      help: add [tunnel] with name = "mpt0"
    "#);
}

#[test]
fn no_name() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"\n", "")])), @r#"
    mpt0.toml:1:1: [tunnel] has no `name`
      help: add name = "mpt0", the TUN interface to make
    "#);
}

#[test]
fn no_paths() {
    insta::assert_snapshot!(complaint("[tunnel]\nname = \"mpt0\"\n"), @r#"
    mpt0.toml:1:1: the tunnel has no paths
      help: add a [[paths]] section with name, local and remote for each uplink
    "#);
}

#[test]
fn an_empty_list_of_paths() {
    insta::assert_snapshot!(complaint("paths = []\n[tunnel]\nname = \"mpt0\"\n"), @r#"
    mpt0.toml:1:9: the tunnel has no paths
      help: add a [[paths]] section with name, local and remote for each uplink
    "#);
}

#[test]
fn a_path_without_a_remote() {
    insta::assert_snapshot!(complaint(&edited(&[("remote = \"10.1.0.2\"\n", "")])), @r#"
    mpt0.toml:8:1: [[paths]] has no `remote`
      help: add the peer's address on the path, like remote = "10.1.0.2"
    "#);
}

// Names

#[test]
fn a_name_too_long() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"multipath-tunnel\"")])), @r#"
    mpt0.toml:2:8: the name "multipath-tunnel" is too long: 16 bytes
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn a_name_with_bad_characters() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"mpt/0\"")])), @r#"
    mpt0.toml:2:8: the name "mpt/0" contains '/'
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn an_empty_name() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"\"")])), @r#"
    mpt0.toml:2:8: the name is empty
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn a_name_like_an_option() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"-mpt\"")])), @r#"
    mpt0.toml:2:8: the name "-mpt" starts with neither a letter nor a digit
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn an_interface_too_long() {
    insta::assert_snapshot!(complaint(&edited(&[("remote = \"10.1.0.2\"", "remote = \"10.1.0.2\"\ninterface = \"wwan0123456789abc\"")])), @r#"
    mpt0.toml:12:13: the name "wwan0123456789abc" is too long: 17 bytes
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "eth0"
    "#);
}

#[test]
fn two_paths_with_one_name() {
    insta::assert_snapshot!(complaint(&edited(&[("\"lte\"", "\"fibre\"")])), @r#"
    mpt0.toml:15:8: two paths are called "fibre"
      help: give each path a name of its own
    "#);
}

#[test]
fn a_relative_socket() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[control]\nsocket = \"mpt0.sock\"\n[reorder]")])), @r#"
    mpt0.toml:6:10: "mpt0.sock" is not the path of a socket
      help: write an absolute path of at most 107 bytes, like "/run/mpt/mpt0.sock"
    "#);
}

#[test]
fn names_that_the_kernel_keeps_for_itself() {
    let said = ["all", "default", "lo"].map(|name| complaint(&edited(&[("mpt0", name)])));
    insta::assert_snapshot!(said.join("\n"), @r#"
    mpt0.toml:2:8: no tunnel can be called "all": the kernel keeps that name for itself
      help: write another name, like "mpt0"

    mpt0.toml:2:8: no tunnel can be called "default": the kernel keeps that name for itself
      help: write another name, like "mpt0"

    mpt0.toml:2:8: no tunnel can be called "lo": the kernel keeps that name for itself
      help: write another name, like "mpt0"
    "#);
}

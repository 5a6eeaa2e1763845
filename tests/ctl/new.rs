//! `mpt-ctl new`, which asks no daemon.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::keys::key;
use crate::text;

fn new(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpt-ctl"));
    command.arg("new").args(words.split_whitespace());
    command.arg("--out").arg(folder).output().unwrap()
}

const OF_TWO: &str = "--server 203.0.113.7 --client-interfaces eth0,wwan0";

#[test]
fn new_writes_both_ends_with_keys_that_belong_together() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let output = new(&made, OF_TWO);
    assert!(output.status.success(), "{output:?}");
    let read = |file: &str| std::fs::read_to_string(made.join(file)).unwrap();
    for (own, other) in [("", "server/"), ("server/", "")] {
        let private = read(&format!("{own}mpt0.key"));
        let public = text(&key("pubkey", &private).stdout);
        let peer = format!("peer_public_key = \"{}\"", public.trim_end());
        assert!(read(&format!("{other}mpt0.toml")).contains(&peer));
        let mode = |file: &str| made.join(file).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&format!("{own}mpt0.key")), 0o600);
    }
    assert_eq!(
        made.join("server").metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    let told = text(&output.stdout).replace(&made.display().to_string(), "MADE");
    insta::assert_snapshot!(told, @r"
    Tunnel mpt0, sealed with fresh keys: 10.99.0.1 here, the client.

      MADE/mpt0.toml         for the client
      MADE/mpt0.key          for the client
      MADE/server/mpt0.toml  for the server
      MADE/server/mpt0.key   for the server

    Copy, where mpt-tund is installed at both ends:

      sudo cp -p MADE/mpt0.toml MADE/mpt0.key /etc/mpt/
      scp -p MADE/server/mpt0.toml MADE/server/mpt0.key root@203.0.113.7:/etc/mpt/

    Start, at both ends:

      sudo systemctl enable --now mpt

    `ping 10.99.0.2` goes through the tunnel then, and `sudo mpt-ctl status` says how it does.
    The server's firewall has to let in UDP 4754 to 4755. Remove the folder
    MADE/server when it is copied: it holds the server's private key.
    mpt-tund looks in /etc/mpt; `mpt-tund --config MADE/mpt0.toml` runs it from here.
    ");
    let without_keys = |file: &str| {
        let lines = read(file);
        let lines = lines
            .lines()
            .filter(|line| !line.starts_with("peer_public_key"));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(without_keys("mpt0.toml"), @r#"
    # The client of a sealed tunnel; the server is 203.0.113.7.
    [tunnel]
    name = "mpt0"
    addresses = ["10.99.0.1/30"]
    # routes = []                   # what else is reached through the tunnel

    [crypto]
    private_key_file = "mpt0.key"   # beside this file

    [[paths]]
    name = "eth0"
    interface = "eth0"   # with whatever address it has
    remote = "203.0.113.7:4754"

    [[paths]]
    name = "wwan0"
    interface = "wwan0"   # with whatever address it has
    remote = "203.0.113.7:4755"
    "#);
    insta::assert_snapshot!(without_keys("server/mpt0.toml"), @r#"
    # The server of a sealed tunnel; the client may be anywhere.
    [tunnel]
    name = "mpt0"
    addresses = ["10.99.0.2/30"]
    # routes = []                   # what else is reached through the tunnel

    [crypto]
    private_key_file = "mpt0.key"   # beside this file

    [[paths]]
    name = "eth0"
    local = "203.0.113.7:4754"

    [[paths]]
    name = "wwan0"
    local = "203.0.113.7:4755"
    "#);
}

#[test]
fn new_overwrites_nothing() {
    for there in [
        "mpt0.key",
        "mpt0.toml",
        "server/mpt0.key",
        "server/mpt0.toml",
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("server")).unwrap();
        let file = dir.path().join(there);
        std::fs::write(&file, "mine").unwrap();
        let output = new(dir.path(), OF_TWO);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("is there already"),
            "{output:?}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        let files = std::fs::read_dir(dir.path()).unwrap().count()
            + std::fs::read_dir(dir.path().join("server"))
                .unwrap()
                .count();
        assert_eq!(files, 2, "nothing else was written beside {there}");
        // Another name does.
        assert!(
            new(dir.path(), &format!("{OF_TWO} --name mpt1"))
                .status
                .success()
        );
    }
}

#[test]
fn new_says_what_it_has_to_be_told() {
    let dir = tempfile::tempdir().unwrap();
    let said = [
        "--server 203.0.113.7:4754",
        "--server 203.0.113 --client-interfaces eth0",
        "--server 0.0.0.0 --client-interfaces eth0",
        "--server fe80::1 --client-interfaces eth0",
        "--server a.example --client-interfaces eth0 --server-local 224.0.0.1",
        "--server a.example --client-interfaces eth0 --server-local 300.1.1.1",
        "--server 203.0.113.7 --client-interfaces eth0,mpt0",
        "--server 203.0.113.7 --client-interfaces eth0 --inner 224.0.0.0/4",
        "--server 10.99.0.2 --client-interfaces eth0",
        "--server 203.0.113.7 --client-interfaces eth0,eth0",
        "--server 203.0.113.7 --client-interfaces eth0,an-interface-of-20",
        "--server 203.0.113.7 --client-interfaces eth0,wwan0 --name all",
        "--server 203.0.113.7 --client-interfaces eth0,wwan0 --names fibre",
        "--server 203.0.113.7 --client-interfaces eth0 --inner 10.0.0.0",
        "--server 203.0.113.7 --client-interfaces eth0 --inner 10.0.0.0/30,10.0.0.0/24",
        "--server 2001:db8::7 --client-interfaces eth0 --server-local 10.0.0.5",
        "--server 203.0.113.7 --client-interfaces eth0,wwan0 --port 65535",
        "--server 127.0.0.1",
        "--server 203.0.113.7 --here server",
        "--server server.invalid --client-interfaces eth0",
    ]
    .map(|words| {
        let output = new(dir.path(), words);
        let complaint = text(&output.stderr);
        let first = complaint.lines().next().unwrap_or_default();
        // What the resolver says differs from host to host.
        let first = first.split("server.invalid:").next().unwrap_or_default();
        format!("{words}\n    {:?} {first}", output.status.code().unwrap())
    });
    insta::assert_snapshot!(said.join("\n"), @r#"
    --server 203.0.113.7:4754
        64 error: --server "203.0.113.7:4754": give an address or a name without a port, such as 203.0.113.7; the port is --port
    --server 203.0.113 --client-interfaces eth0
        64 error: --server "203.0.113": give an address or a name without a port, such as 203.0.113.7; the port is --port
    --server 0.0.0.0 --client-interfaces eth0
        64 error: --server 0.0.0.0 stands for any address: give the address that clients call the server at
    --server fe80::1 --client-interfaces eth0
        64 error: --server fe80::1 says nothing without a device: give the server's device as --server-local, or another address
    --server a.example --client-interfaces eth0 --server-local 224.0.0.1
        64 error: --server-local 224.0.0.1 is not the address of one host: give an address that the server itself has, or its device, such as eth0
    --server a.example --client-interfaces eth0 --server-local 300.1.1.1
        64 error: --server-local "300.1.1.1": this is neither an address nor a device; give an address that the server itself has, or its device, such as eth0
    --server 203.0.113.7 --client-interfaces eth0,mpt0
        64 error: --client-interfaces: mpt0 is the tunnel's own interface; name the uplinks, or give the tunnel another --name
    --server 203.0.113.7 --client-interfaces eth0 --inner 224.0.0.0/4
        64 error: --inner 224.0.0.0/4: no host has an address of it; give a network such as 10.99.0.0/30 or fd00:99::/64
    --server 10.99.0.2 --client-interfaces eth0
        64 mpt-ctl: --inner 10.99.0.0/30: the server's own address 10.99.0.2 is in it; give another network as --inner
    --server 203.0.113.7 --client-interfaces eth0,eth0
        64 error: --client-interfaces: eth0 is named twice
    --server 203.0.113.7 --client-interfaces eth0,an-interface-of-20
        64 error: --client-interfaces "an-interface-of-20": give a device as `ip link` names it, such as eth0
    --server 203.0.113.7 --client-interfaces eth0,wwan0 --name all
        64 error: --name all: the kernel keeps that name for itself; use another, such as mpt0
    --server 203.0.113.7 --client-interfaces eth0,wwan0 --names fibre
        64 mpt-ctl: 1 --names for 2 uplinks (eth0, wwan0): give one for each
    --server 203.0.113.7 --client-interfaces eth0 --inner 10.0.0.0
        64 error: --inner 10.0.0.0: give a network with room for two hosts, such as 10.99.0.0/30 or fd00:99::/64
    --server 203.0.113.7 --client-interfaces eth0 --inner 10.0.0.0/30,10.0.0.0/24
        64 error: --inner 10.0.0.0/24: it overlaps 10.0.0.0/30; give networks that have nothing in common
    --server 2001:db8::7 --client-interfaces eth0 --server-local 10.0.0.5
        64 error: --server 2001:db8::7 --server-local 10.0.0.5: one is IPv4, the other IPv6, and they never meet; give both of one kind, or the server's device as --server-local
    --server 203.0.113.7 --client-interfaces eth0,wwan0 --port 65535
        64 mpt-ctl: --port 65535: 2 paths need as many ports, and the last is 65535
    --server 127.0.0.1
        1 mpt-ctl: this host is the server (it has the address 127.0.0.1): say which devices the client's uplinks are, like --client-interfaces eth0,wwan0
    --server 203.0.113.7 --here server
        1 mpt-ctl: this host is the server (--here server): say which devices the client's uplinks are, like --client-interfaces eth0,wwan0
    --server server.invalid --client-interfaces eth0
        1 mpt-ctl: cannot find the address of
    "#);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn new_at_the_server_leaves_the_clients_end_to_be_copied() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--server 127.0.0.1 --client-interfaces eth0 --json";
    let output = new(dir.path(), words);
    assert!(output.status.success(), "{output:?}");
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let there = made["there"].as_array().unwrap();
    assert!(
        there
            .iter()
            .all(|file| file.as_str().unwrap().contains("/client/mpt0."))
    );
    let own = std::fs::read_to_string(dir.path().join("mpt0.toml")).unwrap();
    assert!(own.contains("local = \"127.0.0.1:4754\""), "{own}");
}

#[test]
fn new_knows_the_server_by_its_address_where_its_sockets_are_bound_to_a_device() {
    let words = "--server 127.0.0.1 --server-local eth7 --client-interfaces eth0 --json";
    for kind in ["", " --clients 3"] {
        let dir = tempfile::tempdir().unwrap();
        let output = new(dir.path(), &format!("{words}{kind}"));
        assert!(output.status.success(), "{output:?}");
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(made["here"].as_array().unwrap().len(), 2, "{made}");
        let own = std::fs::read_to_string(dir.path().join("mpt0.toml")).unwrap();
        let path = "interface = \"eth7\"\nlocal = \"0.0.0.0:4754\"\n";
        assert!(own.contains(path), "{own}");
    }
}

#[test]
fn new_says_what_it_took_this_host_and_the_server_s_name_for() {
    let told = |words: &str| {
        let dir = tempfile::tempdir().unwrap();
        let output = new(dir.path(), words);
        assert!(output.status.success(), "{words}: {output:?}");
        text(&output.stdout)
    };
    // As in a cloud: the device is here, the address is not.
    let cloud = "--server 203.0.113.7 --server-local lo --client-interfaces eth0";
    for kind in ["", " --clients 2"] {
        assert!(told(&format!("{cloud}{kind}")).contains("add --here server"));
        let decided = told(&format!("{cloud}{kind} --here server"));
        assert!(!decided.contains("--here"), "{decided}");
    }
    let elsewhere = cloud.replace(" lo ", " no-such-device ");
    assert!(!told(&elsewhere).contains("--here"));
    let named = told("--server localhost --client-interfaces eth0");
    assert!(
        named.contains("localhost is 127.0.0.1 now") && named.contains("--server-local"),
        "{named}"
    );
}

/// The files of a folder and of all within it, with their modes.
fn tree(folder: &Path) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(one) = folders.pop() {
        for entry in std::fs::read_dir(&one).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.push((name, mode));
        }
    }
    found.sort();
    found
}

#[test]
fn new_writes_a_hub_and_a_folder_for_each_client() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--server 203.0.113.7 --clients 20 --client-interfaces eth0,wwan0 --names fibre,lte \
                 --inner 10.99.0.0/24,fd99::/64 --here server";
    let output = new(dir.path(), words);
    assert!(output.status.success(), "{output:?}");
    let files = tree(dir.path());
    assert_eq!(files.len(), 2 * 21);
    assert!(files.iter().all(|(_, mode)| *mode == 0o600), "{files:?}");
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    let hub = read("mpt0.toml");
    let public_of = |file: &str| {
        text(&key("pubkey", &read(file)).stdout)
            .trim_end()
            .to_owned()
    };
    for number in 1..=20 {
        let folder = format!("clients/client-{number:02}");
        let own = public_of(&format!("{folder}/mpt0.key"));
        let last = number + 1;
        let section = format!(
            "[[peers]]\nname = \"client-{number:02}\"\npublic_key = \"{own}\"\n\
             allowed_ips = [\"10.99.0.{last}/32\", \"fd99::{last:x}/128\"]\n"
        );
        assert!(hub.contains(&section), "{section}");
        let client = read(&format!("{folder}/mpt0.toml"));
        let own = format!("addresses = [\"10.99.0.{last}/24\", \"fd99::{last:x}/64\"]");
        assert!(client.contains(&own), "{client}");
        let peer = format!("peer_public_key = \"{}\"", public_of("mpt0.key"));
        assert!(client.contains(&peer), "{client}");
    }
    let told = text(&output.stdout).replace(&dir.path().display().to_string(), "MADE");
    insta::assert_snapshot!(told, @r"
    Hub mpt0 and 20 clients, sealed with fresh keys: 10.99.0.1 is the hub,
    10.99.0.2 the first client and 10.99.0.21 the last.

      MADE/mpt0.toml, MADE/mpt0.key  for the hub
      MADE/clients/client-01/mpt0.toml, MADE/clients/client-01/mpt0.key
      … MADE/clients/client-20/mpt0.toml, MADE/clients/client-20/mpt0.key

    Copy, where mpt-tund is installed at all ends:

      sudo cp -p MADE/mpt0.toml MADE/mpt0.key /etc/mpt/
      scp -p MADE/clients/client-01/mpt0.toml MADE/clients/client-01/mpt0.key root@CLIENT-01:/etc/mpt/
      … and so on, to client-20; --json lists all commands

    Start, at all ends and in any order:

      sudo systemctl enable --now mpt

    `sudo mpt-ctl peers` at the hub shows who is there; `ping 10.99.0.1` at a client goes through the tunnel.
    The hub's firewall has to let in UDP 4754. Remove the folder
    MADE/clients when it is copied: it holds the clients' private keys.
    mpt-tund looks in /etc/mpt; `mpt-tund --config MADE/mpt0.toml` runs the hub from here.
    ");
    let head = hub.split("[[peers]]").next().unwrap();
    insta::assert_snapshot!(head, @r#"
    # A hub of 20 clients, who may be anywhere.
    [tunnel]
    name = "mpt0"
    addresses = ["10.99.0.1/24", "fd99::1/64"]
    # peers_dir = "peers.d"         # one file a peer, for those who come later

    [crypto]
    private_key_file = "mpt0.key"   # beside this file

    [[paths]]                       # where clients call, by all of their paths
    name = "isp1"
    local = "203.0.113.7:4754"
    "#);
    let client = read("clients/client-07/mpt0.toml");
    let lines = client
        .lines()
        .filter(|line| !line.starts_with("peer_public_key"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    # client-07 of the hub 203.0.113.7.
    [tunnel]
    name = "mpt0"
    addresses = ["10.99.0.8/24", "fd99::8/64"]
    # routes = ["0.0.0.0/0"]        # what else is reached through the hub

    [crypto]
    private_key_file = "mpt0.key"   # beside this file

    [[paths]]
    name = "fibre"
    interface = "eth0"   # with whatever address it has
    remote = "203.0.113.7:4754"

    [[paths]]
    name = "lte"
    interface = "wwan0"   # with whatever address it has
    remote = "203.0.113.7:4754"
    "#);
    // Once more: nothing is overwritten.
    let again = new(dir.path(), words);
    assert!(
        text(&again.stderr).contains("is there already"),
        "{again:?}"
    );
}

#[test]
fn new_elsewhere_than_at_the_hub_has_the_hub_s_files_copied_too() {
    let dir = tempfile::tempdir().unwrap();
    let output = new(dir.path(), "--server 203.0.113.7 --clients 1 --json");
    assert!(output.status.success(), "{output:?}");
    let names: Vec<String> = tree(dir.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "clients/client-01/mpt0.key",
            "clients/client-01/mpt0.toml",
            "server/mpt0.key",
            "server/mpt0.toml"
        ]
    );
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["here"].as_array().unwrap().len(), 0);
    assert_eq!(made["there"].as_array().unwrap().len(), 4);
    assert_eq!(made["copy"].as_array().unwrap().len(), 2);
    let dir = tempfile::tempdir().unwrap();
    let output = new(dir.path(), "--server 203.0.113.7 --clients 1");
    let told = text(&output.stdout).replace(&dir.path().display().to_string(), "MADE");
    let to_remove = "Remove the folders\nMADE/server and MADE/clients when they are copied";
    assert!(told.contains(to_remove), "{told}");
}

#[test]
fn new_says_why_there_is_no_hub() {
    let dir = tempfile::tempdir().unwrap();
    let said = [
        "--clients 0",
        "--clients 20 --inner 10.99.0.0/28",
        "--clients 20 --inner 10.99.0.0/24,fd99::/124",
        "--clients 2 --inner 10.99.0.0",
        "--clients 2 --inner 10.99.0.0/24,10.99.0.0/16",
        "--clients 2 --here client",
        "--clients 2 --client-interfaces eth0 --names a,b",
    ]
    .map(|words| {
        let output = new(dir.path(), &format!("--server 203.0.113.7 {words}"));
        let complaint = text(&output.stderr);
        let first = complaint.lines().next().unwrap_or_default().to_owned();
        format!("{words}\n    {:?} {first}", output.status.code().unwrap())
    });
    insta::assert_snapshot!(said.join("\n"), @r"
    --clients 0
        64 error: invalid value '0' for '--clients <NUMBER>': 0 is not in 1..=65536
    --clients 20 --inner 10.99.0.0/28
        64 mpt-ctl: --inner 10.99.0.0/28: it has room for the hub and 13 clients, not for 20: give a network of /27 or larger, such as 10.99.0.0/27
    --clients 20 --inner 10.99.0.0/24,fd99::/124
        64 mpt-ctl: --inner fd99::/124: it has room for the hub and 14 clients, not for 20: give a network of /123 or larger, such as fd99::/123
    --clients 2 --inner 10.99.0.0
        64 mpt-ctl: --inner 10.99.0.0: give a network, such as 10.99.0.0/16 or fd00:99::/64
    --clients 2 --inner 10.99.0.0/24,10.99.0.0/16
        64 mpt-ctl: --inner 10.99.0.0/16: it overlaps 10.99.0.0/24; give networks that have nothing in common
    --clients 2 --here client
        64 mpt-ctl: --here client: with --clients this host is the hub (--here server), or neither
    --clients 2 --client-interfaces eth0 --names a,b
        64 mpt-ctl: 2 --names for 1 uplinks (eth0): give one for each
    ");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn new_says_run_as_root_only_where_that_would_help() {
    let output = new(Path::new("/dev/null"), OF_TWO);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("cannot write /dev/null") && said.contains("give another folder as --out"),
        "{said}"
    );
    assert!(!said.contains("root"), "{said}");
}

#[test]
fn new_takes_nothing_that_a_tunnel_beside_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let words = |more: &str| format!("{OF_TWO} --here server {more}");
    let made = |more: &str| {
        let output = new(dir.path(), &words(more));
        let said = text(&output.stderr).replace(&dir.path().display().to_string(), "MADE");
        (output.status.code().unwrap(), said)
    };
    assert_eq!(made("").0, 0);
    let refused = [
        "--name mpt1",
        "--name mpt1 --inner fd00::/64,10.99.0.0/16",
        "--name mpt1 --inner 10.7.0.0/30",
        "--name mpt1 --inner 10.7.0.0/30 --port 4755",
        "--name mpt1 --inner 10.7.0.0/30 --clients 1",
    ]
    .map(|more| {
        let (code, said) = made(more);
        format!("{more}\n    {code} {}", said.trim_end())
    });
    insta::assert_snapshot!(refused.join("\n"), @r"
    --name mpt1
        1 mpt-ctl: --inner 10.99.0.0/30: MADE/mpt0.toml has 10.99.0.2/30 already; give another network, such as --inner 10.99.0.4/30
    --name mpt1 --inner fd00::/64,10.99.0.0/16
        1 mpt-ctl: --inner 10.99.0.0/16: MADE/mpt0.toml has 10.99.0.2/30 already; give another network, such as --inner 10.100.0.0/16
    --name mpt1 --inner 10.7.0.0/30
        1 mpt-ctl: --port 4754: MADE/mpt0.toml has the server's port 4754 already; give another one, such as --port 4756
    --name mpt1 --inner 10.7.0.0/30 --port 4755
        1 mpt-ctl: --port 4755: MADE/mpt0.toml has the server's port 4755 already; give another one, such as --port 4756
    --name mpt1 --inner 10.7.0.0/30 --clients 1
        1 mpt-ctl: --port 4754: MADE/mpt0.toml has the server's port 4754 already; give another one, such as --port 4756
    ");
    assert_eq!(made("--name mpt1 --inner 10.99.0.4/30 --port 4756").0, 0);
    // A server with two addresses has each port twice.
    let other = words("--name mpt2 --inner 10.99.0.8/30").replace("203.0.113.7", "203.0.113.8");
    assert!(new(dir.path(), &other).status.success());
    // What cannot be read is for `mpt-tund --check` to tell.
    std::fs::write(dir.path().join("notes.toml"), "none").unwrap();
    assert_eq!(made("--name mpt3 --inner 10.99.0.12/30 --port 4758").0, 0);
}

#[test]
fn new_at_the_client_knows_the_server_s_ports_that_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    assert!(new(dir.path(), OF_TWO).status.success());
    let again = new(
        dir.path(),
        &format!("{OF_TWO} --name mpt1 --inner 10.7.0.0/30"),
    );
    let said = text(&again.stderr);
    assert!(
        !again.status.success() && said.contains("/mpt0.toml has the server's port 4754"),
        "{said}"
    );
    // Copied to the server, and so removed here: the client's own file still knows where it leads.
    std::fs::remove_dir_all(dir.path().join("server")).unwrap();
    let words = format!("{OF_TWO} --name mpt1 --inner 10.7.0.0/30");
    let again = new(dir.path(), &words);
    let said = text(&again.stderr);
    assert!(said.contains("such as --port 4756"), "{said}");
    let elsewhere = words.replace("203.0.113.7", "203.0.113.8");
    assert!(new(dir.path(), &elsewhere).status.success());
}

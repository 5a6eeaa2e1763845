//! What `mpt-ctl new` writes is right, at both ends, whatever it was asked for.

use super::check;

/// What `mpt-ctl new` makes of these words in a folder: its exit code, and what it says.
fn made(folder: &std::path::Path, words: &str) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(net::process::program("mpt-ctl"));
    command.arg("new").args(words.split_whitespace());
    let output = command.arg("--out").arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// The files of that end pass the daemon's check.
fn assert_right(end: &std::path::Path, words: &str) {
    let (right, _, complaint) = check(end, &["--config", "."]);
    assert!(right && complaint.is_empty(), "{words}: {complaint}");
}

#[test]
fn both_ends_that_are_made_pass_the_check() {
    let long = format!(
        "--server {}.net --server-local 10.0.0.5 --client-interfaces eth0",
        "a".repeat(63)
    );
    for words in [
        "--server 203.0.113.7 --client-interfaces eth0,wwan0",
        "--server 203.0.113.7 --client-interfaces eth0 --name office.2 --port 1",
        "--server 2001:db8::7 --client-interfaces eth0,wwan0,ppp0 --inner fd00:99::/64",
        "--server 203.0.113.7 --client-interfaces br-lan,wan.7 --inner 10.7.0.4/31,fd00:99::/127",
        "--server vpn.example.org --server-local 10.0.0.5 --client-interfaces eth0 --names fibre",
        "--server vpn.example.org --server-local 2001:db8::7 --client-interfaces eth0",
        "--server 203.0.113.7 --server-local eth0 --client-interfaces eth0,wwan0",
        "--server 127.0.0.1 --client-interfaces eth0,eth1",
        "--server 203.0.113.7 --client-interfaces a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p --here server",
        "--server fe80::1 --server-local eth0 --client-interfaces eth0",
        "--server office_1.example.net. --server-local 10.0.0.5 --client-interfaces eth0",
        "--server 203.0.113.7 --client-interfaces eth0,wan.7",
        &long,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (code, said) = made(folder.path(), words);
        assert_eq!(code, Some(0), "{words}: {said}");
        let other = ["client", "server"].map(|end| folder.path().join(end));
        let other = other.iter().find(|folder| folder.is_dir()).unwrap();
        for end in [folder.path(), other] {
            assert_right(end, words);
        }
    }
}

#[test]
fn what_the_check_would_refuse_is_not_made() {
    let one = "--client-interfaces eth0";
    for words in [
        format!("--server 203.0.113 {one}"),
        format!("--server 0.0.0.0 {one}"),
        format!("--server :: {one}"),
        format!("--server 224.0.0.1 {one}"),
        format!("--server 255.255.255.255 {one}"),
        format!("--server ::ffff:203.0.113.7 {one}"),
        format!("--server fe80::1 {one}"),
        format!("--server fe80::1 --server-local fe80::2 {one}"),
        format!("--server 10.1.0.256 --server-local 10.0.0.5 {one}"),
        format!("--server a..b --server-local 10.0.0.5 {one}"),
        format!("--server a-.b --server-local 10.0.0.5 {one}"),
        format!(
            "--server {}.net --server-local 10.0.0.5 {one}",
            "a".repeat(64)
        ),
        format!("--server 203.0.113.7 --server-local 0.0.0.0 {one}"),
        format!("--server 203.0.113.7 --server-local 224.0.0.1 {one}"),
        format!("--server 203.0.113.7 --server-local 300.1.1.1 {one}"),
        format!("--server 203.0.113.7 --server-local mpt0 {one}"),
        "--server 203.0.113.7 --client-interfaces mpt0".to_owned(),
        "--server 203.0.113.7 --client-interfaces 192.168.1.2".to_owned(),
        format!("--server 203.0.113.7 --name lo {one}"),
        format!("--server 203.0.113.7 --inner 224.0.0.0/4 {one}"),
        format!("--server 203.0.113.7 --inner 0.0.0.0/31 {one}"),
        format!("--server 203.0.113.7 --inner ::/127 {one}"),
        format!("--server 203.0.113.7 --inner ff00::/8 {one}"),
        format!("--server 203.0.113.7 --inner 203.0.113.6/31 {one}"),
        format!("--server 10.99.0.2 {one}"),
        format!("--server 203.0.113.7 --server-local 10.99.0.2 {one}"),
        format!("--server 0.0.0.0 --clients 2 {one}"),
        format!("--server 203.0.113.7 --clients 2 --inner 224.0.0.0/4 {one}"),
        format!("--server 10.99.0.1 --clients 2 {one}"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (code, said) = made(folder.path(), &words);
        assert_eq!(code, Some(64), "{words}: {said}");
        assert!(
            said.contains("give ") || said.contains("use "),
            "{words}: {said}"
        );
    }
}

#[test]
fn a_hub_that_is_made_and_all_of_its_clients_pass_the_check() {
    for words in [
        "--server 203.0.113.7 --clients 20 --here server",
        "--server 203.0.113.7 --clients 3 --client-interfaces eth0,wwan0 --names fibre,lte",
        "--server 2001:db8::7 --clients 2 --inner fd99::/64,10.99.0.0/29 --name office --port 1",
        "--server vpn.example.org --server-local eth0 --clients 1 --inner 10.99.0.0/31",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (code, said) = made(folder.path(), words);
        if said.contains("cannot find the address of vpn.example.org") {
            // No name server here.
            continue;
        }
        assert_eq!(code, Some(0), "{words}: {said}");
        let server = folder.path().join("server");
        let hub = if server.is_dir() {
            server
        } else {
            folder.path().to_owned()
        };
        let clients = std::fs::read_dir(folder.path().join("clients")).unwrap();
        let clients = clients.map(|entry| entry.unwrap().path());
        for end in clients.chain([hub]) {
            assert_right(&end, words);
        }
    }
}

#[test]
fn a_second_tunnel_of_both_ends_passes_beside_the_first() {
    let folder = tempfile::tempdir().unwrap();
    for words in ["", "--name mpt1 --port 5000 --inner 10.7.0.0/30"] {
        let words = format!("--server 203.0.113.7 --client-interfaces eth0,wwan0 {words}");
        let (code, said) = made(folder.path(), &words);
        assert_eq!(code, Some(0), "{words}: {said}");
    }
    for end in [folder.path(), &folder.path().join("server")] {
        assert_right(end, "two tunnels");
    }
    // A port that a file names is kept, and so refused.
    let second = folder.path().join("mpt1.toml");
    let text = std::fs::read_to_string(&second).unwrap();
    std::fs::write(
        &second,
        text.replace("[tunnel]\n", "[tunnel]\nport = 4754\n"),
    )
    .unwrap();
    let (right, _, complaint) = check(folder.path(), &["--config", "."]);
    assert!(
        !right && complaint.contains("port 4754 of eth0 is taken by"),
        "{complaint}"
    );
}

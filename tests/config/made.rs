//! What `mpt-ctl new` writes is right, at both ends, whatever it was asked for.

use super::check;

#[test]
fn both_ends_that_are_made_pass_the_check() {
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
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(net::process::program("mpt-ctl"));
        command
            .arg("new")
            .args(words.split(' '))
            .arg("--out")
            .arg(folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
        let other = ["client", "server"].map(|end| folder.path().join(end));
        let other = other.iter().find(|folder| folder.is_dir()).unwrap();
        for end in [folder.path(), other] {
            let (right, _, complaint) = check(end, &["--config", "."]);
            assert!(right && complaint.is_empty(), "{words}: {complaint}");
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
        format!("--server fe80::1 --server-local eth0 {one}"),
        format!("--server fe80::1 --server-local fe80::2 {one}"),
        format!("--server 10.1.0.256 --server-local 10.0.0.5 {one}"),
        format!("--server a..b --server-local 10.0.0.5 {one}"),
        format!("--server a-.b --server-local 10.0.0.5 {one}"),
        format!(
            "--server {}.net --server-local 10.0.0.5 {one}",
            "a".repeat(64)
        ),
        format!(
            "--server {}.net --server-local 10.0.0.5 {one}",
            "a".repeat(63)
        ),
        format!("--server office_1.example.net. --server-local 10.0.0.5 {one}"),
        format!("--server 203.0.113.7 --server-local 0.0.0.0 {one}"),
        format!("--server 203.0.113.7 --server-local 224.0.0.1 {one}"),
        format!("--server 203.0.113.7 --server-local 300.1.1.1 {one}"),
        format!("--server 203.0.113.7 --server-local mpt0 {one}"),
        "--server 203.0.113.7 --client-interfaces mpt0".to_owned(),
        "--server 203.0.113.7 --client-interfaces eth0,wan.7".to_owned(),
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
        let mut command = std::process::Command::new(net::process::program("mpt-ctl"));
        command.arg("new").args(words.split(' '));
        let output = command.arg("--out").arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let is_right = [
            "fe80::1 --server-local eth0",
            "office_1",
            &"a".repeat(63),
            "wan.7",
        ];
        let too_long = words.contains(&"a".repeat(64));
        let is_right = !too_long && is_right.iter().any(|one| words.contains(one));
        assert_eq!(output.status.success(), is_right, "{words}: {said}");
        if !is_right {
            assert_eq!(output.status.code(), Some(64), "{words}: {said}");
            assert!(
                said.contains("give ") || said.contains("use "),
                "{words}: {said}"
            );
            continue;
        }
        let server = folder.path().join("server");
        for end in [folder.path(), &server] {
            let (right, _, complaint) = check(end, &["--config", "."]);
            assert!(right && complaint.is_empty(), "{words}: {complaint}");
        }
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
        let mut command = std::process::Command::new(net::process::program("mpt-ctl"));
        command.arg("new").args(words.split(' '));
        let output = command.arg("--out").arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("cannot find the address of vpn.example.org") {
            // No name server here.
            continue;
        }
        assert!(output.status.success(), "{words}: {output:?}");
        let server = folder.path().join("server");
        let hub = if server.is_dir() {
            server
        } else {
            folder.path().to_owned()
        };
        let clients = std::fs::read_dir(folder.path().join("clients")).unwrap();
        let clients = clients.map(|entry| entry.unwrap().path());
        for end in clients.chain([hub]) {
            let (right, _, complaint) = check(&end, &["--config", "."]);
            assert!(right && complaint.is_empty(), "{words}: {complaint}");
        }
    }
}

#[test]
fn a_second_tunnel_of_both_ends_passes_beside_the_first() {
    let folder = tempfile::tempdir().unwrap();
    for words in ["", "--name mpt1 --port 5000 --inner 10.7.0.0/30"] {
        let mut command = std::process::Command::new(net::process::program("mpt-ctl"));
        command
            .args("new --server 203.0.113.7 --client-interfaces eth0,wwan0".split(' '))
            .args(words.split_whitespace());
        let output = command.arg("--out").arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
    }
    for end in [folder.path(), &folder.path().join("server")] {
        let (right, _, complaint) = check(end, &["--config", "."]);
        assert!(right && complaint.is_empty(), "{complaint}");
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

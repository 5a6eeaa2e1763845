//! A tunnel beside what manages interfaces: a real systemd-networkd and a real NetworkManager, with what
//! docs/installing.md says and without it.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use net::settings::Side;
use net::traffic::ping;
use net::{Hosts, Namespace, Process, Settings, Shape, Tunnel, process, wait_for};

/// How long a manager may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the daemon says when it has put something back.
const RESTORED: &str = "somebody has changed mpt0; restored: ";
/// What a manager waits for before it takes an interface for its own: udev, unless /sys is read-only, as in a
/// container. The files of this machine's own manager are hidden.
const CONTAINED: &str = "mount -t sysfs -o ro sysfs /sys && for hidden in /etc/systemd/network /var/lib; do \
                         [ ! -d $hidden ] || mount -t tmpfs tmpfs $hidden || exit 1; done && exec \"$@\"";

/// Whether the managers can run: they want all users, and a sysfs and a /run of their own.
fn can() -> bool {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let all = users.split_whitespace().nth(2) == Some("4294967295");
    if !all {
        net::skip("systemd-networkd and NetworkManager run as root alone");
    }
    all
}

/// A tunnel with a route, which works.
fn tunnel() -> Tunnel {
    let settings = Settings::new().tunnel("routes = [\"198.18.0.0/24\"]");
    let tunnel = Hosts::new(&[Shape::unshaped()]).tunnel(&settings);
    tunnel.await_paths();
    tunnel
}

/// Starts a manager in the host, in a mount namespace of its own.
fn manager(host: &Namespace, words: &[&str], variables: &[(&str, &str)]) -> Process {
    let mut command = host.command("unshare");
    command
        .args(["--mount", "sh", "-c", CONTAINED, "sh"])
        .args(words)
        .envs(variables.iter().copied());
    Process::start(words[0], &command)
}

/// The lines of docs/installing.md for this file.
fn of_the_docs(file: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/installing.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let (_, after) = docs
        .split_once(&format!("in `{file}`:\n\n```ini\n"))
        .unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

fn write(file: &str, text: &str) {
    let file = Path::new(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// Addresses, MTU, flags and routes of the tunnel's interface.
fn interface(tunnel: &Tunnel) -> String {
    [
        "ip address show mpt0",
        "ip route show dev mpt0",
        "ip -6 route show dev mpt0",
        "ip rule",
    ]
    .map(|line| tunnel.hosts.a.run(line))
    .concat()
}

fn times_restored(tunnel: &Tunnel) -> usize {
    tunnel.a.log().matches(RESTORED).count()
}

fn assert_passes(tunnel: &Tunnel) {
    let answers = ping(&tunnel.hosts.a, Side::B.inner_v4(), 3, 20, "-W 1");
    assert!(answers.received > 0, "{}", tunnel.a.log());
}

/// Runs systemd-networkd until the interface managed0 has its address.
fn networkd(tunnel: &Tunnel, program: &str) -> Process {
    let host = &tunnel.hosts.a;
    host.run("ip address flush dev managed0");
    let said = [
        ("SYSTEMD_LOG_LEVEL", "info"),
        ("SYSTEMD_LOG_TARGET", "console"),
    ];
    let mut networkd = manager(host, &[program], &said);
    wait_for("networkd's address", PATIENCE, || {
        assert!(networkd.ended().is_none(), "{}", networkd.log());
        host.run("ip address show managed0")
            .contains("192.0.2.9/24")
            .then_some(())
    });
    networkd
}

/// A file that matches the tunnel's interface as well gives it an address and another MTU, which the daemon puts
/// back; the file of the docs keeps it away.
#[test]
fn networkd_leaves_the_tunnel_alone_with_the_file_of_the_docs() {
    let Some(_turn) = net::turn() else { return };
    let program = "/usr/lib/systemd/systemd-networkd";
    if !Path::new(program).exists() {
        net::skip("there is no systemd-networkd");
        return;
    }
    if !can() {
        return;
    }
    let tunnel = tunnel();
    let host = &tunnel.hosts.a;
    let before = interface(&tunnel);
    host.run("ip link add managed0 type veth peer other");
    host.run("ip link set other up");
    process::run(
        Command::new("install")
            .args("-d -o systemd-network -g systemd-network /run/systemd/netif".split(' ')),
    );
    write(
        "/run/systemd/network/50-any.network",
        "[Match]\nName=m*\n[Link]\nMTUBytes=1300\n[Network]\nAddress=192.0.2.9/24\nLinkLocalAddressing=no\n",
    );

    let theirs = networkd(&tunnel, program);
    wait_for("what the docs warn of", PATIENCE, || {
        let address = host.run("ip address show mpt0").contains("192.0.2.9/24");
        (address && tunnel.a.log().contains(&format!("{RESTORED}MTU"))).then_some(())
    });
    wait_for("the tunnel's MTU", PATIENCE, || {
        host.run("ip link show mpt0")
            .contains("mtu 14")
            .then_some(())
    });
    assert_passes(&tunnel);
    drop(theirs);
    host.run("ip address del 192.0.2.9/24 dev mpt0");
    host.run("ip link set managed0 mtu 1500");
    wait_for("what was before", PATIENCE, || {
        (interface(&tunnel) == before).then_some(())
    });

    let file = "/etc/systemd/network/10-mpt.network";
    write("/run/systemd/network/10-mpt.network", &of_the_docs(file));
    let restored = times_restored(&tunnel);
    let mut theirs = networkd(&tunnel, program);
    assert_passes(&tunnel);
    assert_eq!(interface(&tunnel), before, "{}", theirs.log());
    assert_eq!(times_restored(&tunnel), restored, "{}", tunnel.a.log());
    assert!(theirs.ended().is_none());
}

/// NetworkManager and its bus, of the files that `tests/need managers` gets.
struct NetworkManager<'a> {
    host: &'a Namespace,
    folder: PathBuf,
    _bus: Process,
    _daemon: Process,
}

impl<'a> NetworkManager<'a> {
    /// Starts both; the files are those of /run/nm.
    fn start(host: &'a Namespace, folder: &Path) -> Self {
        let program = |name: &str| folder.join(name).display().to_string();
        let _ = std::fs::remove_file("/run/dbus/system_bus_socket");
        let bus = program("dbus-daemon");
        let bus = manager(
            host,
            &[&bus, "--config-file=/run/nm/bus.conf", "--nofork"],
            &[],
        );
        wait_for("D-Bus", PATIENCE, || {
            Path::new("/run/dbus/system_bus_socket")
                .exists()
                .then_some(())
        });
        let words = [
            &program("NetworkManager"),
            "--no-daemon",
            "--config=/run/nm/NetworkManager.conf",
            "--config-dir=/run/nm/conf.d",
            "--system-config-dir=/run/nm/none",
            "--intern-config=/run/nm/intern",
            "--state-file=/run/nm/state",
            "--pid-file=/run/nm/pid",
        ];
        let daemon = manager(host, &words, &[("LD_LIBRARY_PATH", &program(""))]);
        Self {
            host,
            folder: folder.to_owned(),
            _bus: bus,
            _daemon: daemon,
        }
    }

    fn nmcli(&self, words: &str) -> Output {
        let mut command = self.host.command(self.folder.join("nmcli"));
        command
            .env("LD_LIBRARY_PATH", &self.folder)
            .args(words.split(' '));
        process::output(&mut command)
    }

    /// Waits until it says this of the device, as `nmcli device` does.
    fn await_state(&self, device: &str, state: &str) {
        let words = format!("-g GENERAL.STATE device show {device}");
        wait_for(&format!("{device}: {state}"), PATIENCE, || {
            let said = String::from_utf8(self.nmcli(&words).stdout).unwrap();
            said.contains(state).then_some(())
        });
    }

    fn networking(&self, switch: &str) {
        let output = self.nmcli(&format!("networking {switch}"));
        assert!(output.status.success(), "{output:?}");
        wait_for(switch, PATIENCE, || {
            let said = self.nmcli("-g STATE general").stdout;
            (said.starts_with(b"asleep") == (switch == "off")).then_some(())
        });
    }
}

/// `nmcli networking off`, as a sleeping computer has it, takes addresses and routes of the tunnel, which the daemon
/// puts back; the file of the docs keeps it away, and leaves what else is unmanaged as it was.
#[test]
fn networkmanager_leaves_the_tunnel_alone_with_the_file_of_the_docs() {
    let Some(_turn) = net::turn() else { return };
    let folder = net::tools().map(|tools| tools.join("networkmanager"));
    let Some(folder) = folder.filter(|folder| folder.join("NetworkManager").exists()) else {
        net::skip("there is no NetworkManager: tests/need managers");
        return;
    };
    if !can() {
        return;
    }
    let tunnel = tunnel();
    let host = &tunnel.hosts.a;
    let before = interface(&tunnel);
    write(
        "/run/nm/bus.conf",
        "<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen>\
         <auth>EXTERNAL</auth><policy context=\"default\"><allow own=\"*\"/><allow send_destination=\"*\"/>\
         <allow receive_sender=\"*\"/><allow user=\"*\"/></policy></busconfig>",
    );
    write(
        "/run/nm/NetworkManager.conf",
        "[main]\nplugins=keyfile\ndns=none\nrc-manager=unmanaged\nauth-polkit=false\n\
         [keyfile]\npath=/run/nm/connections\nunmanaged-devices=type:ethernet\n",
    );
    std::fs::create_dir_all("/run/nm/conf.d").unwrap();
    std::fs::create_dir_all("/run/dbus").unwrap();

    let theirs = NetworkManager::start(host, &folder);
    theirs.await_state("mpt0", "externally");
    theirs.networking("off");
    wait_for("what the docs warn of", PATIENCE, || {
        (times_restored(&tunnel) > 0).then_some(())
    });
    drop(theirs);
    wait_for("what was before", PATIENCE, || {
        (interface(&tunnel) == before).then_some(())
    });
    assert_passes(&tunnel);

    let file = "/etc/NetworkManager/conf.d/mpt.conf";
    write("/run/nm/conf.d/mpt.conf", &of_the_docs(file));
    std::fs::remove_file("/run/nm/state").unwrap();
    let restored = times_restored(&tunnel);
    let theirs = NetworkManager::start(host, &folder);
    theirs.await_state("mpt0", "unmanaged");
    let device = tunnel.hosts.links[0].device.as_str();
    theirs.await_state(device, "unmanaged");
    for switch in ["off", "on"] {
        theirs.networking(switch);
        assert_passes(&tunnel);
    }
    assert_eq!(interface(&tunnel), before);
    assert_eq!(times_restored(&tunnel), restored, "{}", tunnel.a.log());
}

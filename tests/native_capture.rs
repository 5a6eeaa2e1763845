//! What others read in our packets: tshark decodes a capture of real traffic.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::time::Duration;

use net::settings::Side;
use net::traffic::{Iperf, ping};
use net::{Hosts, Settings, Shape, wait_for};

/// UDP, GRE with sequence number, inner IP; nothing malformed, every checksum right.
#[test]
fn tshark_reads_gre_in_udp() {
    let Some(_turn) = net::turn() else { return };
    let here = std::process::Command::new("tshark")
        .arg("--version")
        .output();
    if here.is_err() {
        return net::skip("tshark is not here and could not be installed");
    }
    let tunnel =
        Hosts::near(&[Shape::mbps(20.0), Shape::mbps(10.0)]).tunnel(&Settings::new().plain());
    let (a, b) = (&tunnel.hosts.a, &tunnel.hosts.b);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcap").display().to_string();
    // Names resolve nothing, packets whole; both paths in one file.
    let mut capture = b.start(&format!(
        "tcpdump -n -U --immediate-mode -i any -w {file} udp port 4754"
    ));
    wait_for("tcpdump to listen", Duration::from_secs(5), || {
        capture.stderr().contains("listening on").then_some(())
    });
    for inner in [Side::B.inner_v4(), Side::B.inner_v6()] {
        assert_eq!(ping(a, inner, 5, 50, "").received, 5);
    }
    // Fragments of a datagram that does not fit the tunnel, and TCP both ways.
    assert_eq!(ping(a, Side::B.inner_v4(), 2, 50, "-s 3000").received, 2);
    let report = Iperf::tcp(Side::B.inner_v4(), 2).run(a, b);
    assert!(!report.intervals_mbps.is_empty());
    std::thread::sleep(Duration::from_millis(500));
    capture.signal("TERM");
    capture.wait(Duration::from_secs(5));

    let tshark = |words: &[&str]| {
        let mut command = b.command("tshark");
        command.args(["-n", "-r", &file]).args(words);
        for layer in ["ip", "udp", "tcp"] {
            command.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
        }
        net::process::run(&mut command)
    };
    let count = |filter: &str| tshark(&["-Y", filter]).lines().count();
    let none = |filter: &str| {
        assert_eq!(
            count(filter),
            0,
            "{filter}: {}",
            tshark(&["-Y", filter, "-V", "-x"])
        );
    };
    println!("{}", tshark(&["-q", "-z", "io,phs"]).trim());
    let data = count("udp.dstport == 4754 && gre.flags.sequence_number == 1");
    assert!(data > 1000, "only {data} data packets");
    none("_ws.malformed");
    for layer in ["ip", "udp", "icmpv6"] {
        none(&format!("{layer}.checksum.status == \"Bad\""));
    }
    // Packet by packet the kernel completes TCP's checksum, and writes zero as ones, as for UDP.
    none("tcp.checksum.status == \"Bad\" && tcp.checksum != 0xffff");
    // Every data packet holds an inner packet, of the family that its Protocol Type names.
    let v4 =
        count("gre.flags.sequence_number == 1 && gre.proto == 0x0800 && ip.dst == 10.99.0.0/30");
    let v6 =
        count("gre.flags.sequence_number == 1 && gre.proto == 0x86dd && ipv6.addr == fd99::/64");
    // ff02::2 and the like: what the kernel itself sends on a new interface.
    let other =
        count("gre.flags.sequence_number == 1 && gre.proto == 0x86dd && !(ipv6.addr == fd99::/64)");
    assert_eq!(v4 + v6 + other, data);
    assert!(v6 >= 10 && other < 40, "{v6} {other}");
    // Control messages stand apart and carry no number.
    assert!(count("gre.proto == 0x88b5 && gre.flags.sequence_number == 0") > 0);
    none("gre.proto == 0x88b5 && gre.flags.sequence_number == 1");
    // No outer packet may be fragmented on the way; `#1` is the first IP header.
    none("udp.port == 4754 && ip.src#1 == 10.1.0.0/16 && ip.flags.df#1 == 0");
}

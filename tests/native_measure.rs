//! `mpt-ctl measure` through a real tunnel, and on a capture of it.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::time::Duration;

use mpt_core::control::Protection;
use net::process::program;
use net::settings::Side;
use net::{Hosts, Namespace, Process, Settings, Shape, wait_for};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

fn ctl(host: &Namespace, words: &str) -> Process {
    let program = program("mpt-ctl");
    host.start(&format!("{} --json measure {words}", program.display()))
}

/// Waits until something in `host` listens on the measurement's UDP port.
fn listening(receiver: &Process) {
    wait_for("a receiver", Duration::from_secs(5), || {
        let tables = ["udp", "udp6"].map(|table| receiver.proc_file(&format!("net/{table}")));
        // 5236.
        tables.concat().contains(":1474 ").then_some(())
    });
}

fn report(process: &mut Process) -> Value {
    let status = process.wait(PATIENCE);
    assert!(status.success(), "{}", process.log());
    serde_json::from_str(&process.stdout()).unwrap()
}

/// What leaves the tunnel is complete and in order; the capture shows one stream a path, and both
/// together as the receiver saw them.
#[test]
fn a_tunnel_is_measured_from_end_to_end_and_in_a_capture() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = Hosts::near(&[Shape::mbps(100.0), Shape::mbps(50.0)])
        .tunnel(&Settings::new().weights(&[2, 1]));
    let (a, b) = (&tunnel.hosts.a, &tunnel.hosts.b);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.pcap").display().to_string();
    let mut capture = b.start(&format!(
        "tcpdump -n -U --immediate-mode -B 65536 -s 66000 -i any -w {file} udp port 4754 and dst net 10.1.0.0/16"
    ));
    wait_for("tcpdump to listen", Duration::from_secs(5), || {
        capture.stderr().contains("listening on").then_some(())
    });

    let mut receiver = ctl(b, "receive --wait 20s");
    listening(&receiver);
    let words = "--count 4000 --rate 4000 --size 1400";
    let sent = report(&mut ctl(a, &format!("send {} {words}", Side::B.inner_v4())));
    assert_eq!(sent["packets"], 4000);
    let received = report(&mut receiver);
    std::thread::sleep(Duration::from_millis(300));
    capture.signal("TERM");
    capture.wait(Duration::from_secs(5));

    let stream = &received["streams"][0];
    println!(
        "through the tunnel: {} of {} packets, {} reordered, sent at {:.0} a second",
        stream["received"],
        stream["sent"],
        stream["order"]["reordering"]["reordered"],
        stream["sent_pps"].as_f64().unwrap()
    );
    assert_eq!(stream["sent"], 4000);
    assert_eq!(stream["lost"], 0, "{received:#}");
    assert_eq!(
        stream["order"]["reordering"]["reordered"], 0,
        "{received:#}"
    );
    assert_eq!(stream["duplicates"], 0);

    let apart = report(&mut ctl(b, &format!("read {file}")));
    let from = |report: &Value, address: &str| {
        let streams = report["streams"].as_array().unwrap().clone();
        streams.into_iter().find(|stream| stream["from"] == address)
    };
    let counts = ["10.1.0.1", "10.1.1.1"].map(|address| {
        let stream = from(&apart, address).unwrap_or_else(|| panic!("{apart:#}"));
        stream["received"].as_u64().unwrap()
    });
    println!("on the paths: {counts:?} packets");
    // The measurement's packets and end markers; the hosts themselves add a few.
    assert!(
        (4005..4100).contains(&counts.iter().sum::<u64>()),
        "{apart:#}"
    );
    assert!(counts[0] > counts[1] && counts[1] > 1000, "{counts:?}");

    let together = report(&mut ctl(
        b,
        &format!("read {file} --from 10.1.0.1,10.1.1.1"),
    ));
    let stream = &together["streams"][0];
    assert_eq!(stream["received"], counts.iter().sum::<u64>());
    assert_eq!(stream["order"]["reordering"]["duplicates"], 0);
    // That they belong together is told by messages, which only a plain tunnel shows.
    let is_plain = tunnel.a.status().tunnel.protection == Protection::None;
    let notes = apart["notes"].to_string();
    assert_eq!(
        notes.contains("--from 10.1.0.1,10.1.1.1"),
        is_plain,
        "{notes}"
    );
}

/// The size follows the route; a frame that the tunnel does not carry is refused with the size that it does.
#[test]
fn the_size_follows_the_tunnel_and_one_too_big_names_one_that_fits() {
    let Some(_turn) = net::turn() else { return };
    let tunnel = Hosts::new(&[Shape::unshaped()]).tunnel(&Settings::new());
    let target = Side::B.inner_v4();
    let whole = tunnel.a.status().tunnel.mtu + 18;
    let words = format!("send {target} --count 20 --rate 1000");
    let mut sender = ctl(&tunnel.hosts.a, &words);
    // Nobody listens there.
    assert_eq!(sender.wait(PATIENCE).code(), Some(1), "{}", sender.log());
    let sent = sender.stdout();
    assert!(
        sent.contains(&format!("\"frame_bytes\": {whole}")),
        "{sent}"
    );

    let mut sender = ctl(&tunnel.hosts.a, &format!("{words} --size 1518"));
    assert_eq!(sender.wait(PATIENCE).code(), Some(1));
    let wanted = format!("try --size {whole}");
    assert!(sender.stderr().contains(&wanted), "{}", sender.log());
}

/// Another implementation of STAMP, in `host`: Debian's package of it belongs to Debian's python3.
fn scapy(host: &Namespace, words: &str) -> Process {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/measure/stamp.py");
    host.start(&format!("/usr/bin/python3 {script} {words}"))
}

fn is_ready(process: &Process, what: &str) {
    wait_for(what, Duration::from_secs(20), || {
        process.stderr().contains("listening").then_some(())
    });
}

/// A reflector of another make tells both directions apart: one packet is lost on the way there, and one answer.
#[test]
fn stamp_is_measured_with_a_reflector_of_another_make() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::near(&[Shape::mbps(100.0)]);
    let (a, b) = (&hosts.a, &hosts.b);
    let reflector = scapy(b, "reflect 8620");
    is_ready(&reflector, "scapy");
    let words = "stamp send 10.1.0.2:8620 --count 20 --rate 50 --size 200";
    let sent = report(&mut ctl(a, words));
    let of = |direction: usize| &sent["streams"][direction];
    assert_eq!(of(0)["plan"]["frame_bytes"], 200);
    assert_eq!(
        (&of(0)["lost"], &of(1)["lost"]),
        (&1.into(), &1.into()),
        "{sent:#}"
    );
    assert_eq!(of(1)["received"], 18);
    for direction in [0, 1] {
        assert_eq!(
            of(direction)["order"]["reordering"]["reordered"],
            0,
            "{sent:#}"
        );
    }
    // Its clock is an hour ahead, which is in no delay's variation and in no round trip.
    let round_trip = sent["round_trip"]["p50_ns"].as_u64().unwrap();
    assert!(round_trip < 1_000_000_000, "{sent:#}");
    let varied = of(0)["delay"]["pdv_ns"]["max"].as_u64().unwrap();
    assert!(varied < 1_000_000_000, "{sent:#}");
}

#[test]
fn stamp_is_reflected_to_a_sender_of_another_make() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::near(&[Shape::mbps(100.0)]);
    let (a, b) = (&hosts.a, &hosts.b);
    let mut reflector = ctl(b, "stamp reflect --port 8620 --idle 20s");
    wait_for("a reflector", Duration::from_secs(5), || {
        let tables = ["udp", "udp6"].map(|table| reflector.proc_file(&format!("net/{table}")));
        // 8620.
        tables.concat().contains(":21AC ").then_some(())
    });
    let answers = report(&mut scapy(a, "send 10.1.0.2 8620"));
    for (number, answer) in (0u64..).zip(answers.as_array().unwrap()) {
        assert_eq!(answer["number"], number, "{answers:#}");
        assert_eq!(answer["test_number"], number + 10);
        assert_eq!(answer["session"], 0xbeef);
        assert_eq!(
            (&answer["same_time"], &answer["same_length"]),
            (&true.into(), &true.into())
        );
        assert!(
            answer["seconds_away"].as_f64().unwrap() < 5.0,
            "{answers:#}"
        );
        assert!(
            (0.0..1.0).contains(&answer["took_s"].as_f64().unwrap()),
            "{answers:#}"
        );
        let known = serde_json::json!([[0, 1, "0000000000000000"], [0x80, 200, "6869"]]);
        assert_eq!(answer["tlvs"], known, "{answers:#}");
    }
    assert_eq!(answers.as_array().unwrap().len(), 3);
    reflector.signal("INT");
    let reflected = report(&mut reflector);
    assert_eq!(
        (&reflected["packets"], &reflected["sessions"]),
        (&3.into(), &1.into())
    );
}

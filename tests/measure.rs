//! `mpt-ctl measure` as a user runs it: over the loopback interface, and on capture files that
//! these tests write.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

fn ctl(words: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mpt-ctl"));
    command.args(words.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(words: &str) -> Output {
    ctl(words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A UDP port that nobody uses.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// A receiver, once it listens on its port.
fn receiver(port: u16, words: &str) -> Child {
    let child = ctl(&format!("measure receive --port {port} {words}"))
        .spawn()
        .unwrap();
    let row = format!(":{port:04X} ");
    let listens = || {
        let tables = ["udp", "udp6"].map(|t| std::fs::read_to_string(format!("/proc/net/{t}")));
        tables.iter().flatten().any(|table| table.contains(&row))
    };
    for _ in 0..500 {
        if listens() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn what_is_sent_over_loopback_arrives_in_order() {
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let (csv, svg) = (folder.path().join("r.csv"), folder.path().join("r.svg"));
    let files = format!("--csv {} --plot {}", csv.display(), svg.display());
    let receiver = receiver(port, &format!("--wait 20s --json {files}"));
    let sent = output(&format!(
        "measure send 127.0.0.1:{port} --count 500 --size 200 --rate 5000"
    ));
    assert!(sent.status.success(), "{}", stderr(&sent));
    assert!(
        stdout(&sent).starts_with("500 packets of 200 bytes sent to 127.0.0.1"),
        "{sent:?}"
    );

    let received = receiver.wait_with_output().unwrap();
    assert!(received.status.success(), "{received:?}");
    let report: Value = serde_json::from_slice(&received.stdout).unwrap();
    let stream = &report["streams"][0];
    assert_eq!(report["ended"], "the sender is done");
    assert_eq!(stream["sent"], 500);
    assert_eq!(stream["received"], 500);
    assert_eq!(stream["lost"], 0);
    assert_eq!(stream["order"]["reordering"]["reordered"], 0);
    assert_eq!(stream["order"]["density"]["frequency"][0][1], 500);
    // 500 packets take 99.8 ms; the machine may be busy, but no stamp is invented.
    let rate = stream["sent_pps"].as_f64().unwrap();
    assert!((100.0..5100.0).contains(&rate), "{rate}");
    assert_eq!(stream["delay"]["pdv_ns"]["count"], 500);
    // 200 − 18 Ethernet − 20 IPv4 − 8 UDP.
    assert_eq!(stream["payload_bytes"], 500 * 154);
    assert!(received.stderr.is_empty(), "no bar without a terminal");

    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("stream,metric,x,value\n"));
    assert!(csv.contains(",rd,0,1\n"), "{csv}");
    assert!(csv.lines().all(|line| line.split(',').count() == 4));
    assert!(
        std::fs::read_to_string(svg)
            .unwrap()
            .contains("Reorder Density")
    );
}

#[test]
fn strangers_and_a_second_sender_disturb_nothing() {
    let port = free_port();
    let receiver = receiver(port, "--wait 20s --idle 3s");
    let first = ctl(&format!(
        "measure send [::1]:{port} --count 600 --size 300 --rate 1000"
    ))
    .spawn()
    .unwrap();
    thread::sleep(Duration::from_millis(200));
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..3 {
        stranger.send_to(b"hello", ("127.0.0.1", port)).unwrap();
    }
    let second = output(&format!(
        "measure send 127.0.0.1:{port} --count 20 --size 300"
    ));
    assert!(second.status.success());
    assert!(first.wait_with_output().unwrap().status.success());
    let received = receiver.wait_with_output().unwrap();
    let text = stdout(&received);
    assert!(received.status.success(), "{text}");
    assert!(
        text.contains("600 of 600 sent, 0 lost (0 %), 0 copies"),
        "{text}"
    );
    assert!(
        text.contains("Not measured: 3 packets of others."),
        "{text}"
    );
    // 20 packets and 5 end markers.
    assert!(
        text.contains("another run was sent here meanwhile"),
        "{text}"
    );
    assert!(text.contains("(25 packets)"), "{text}");
}

#[test]
fn nothing_received_is_said_in_a_line_and_fails() {
    let nothing = output(&format!(
        "measure receive --port {} --wait 200ms",
        free_port()
    ));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        stdout(&nothing).ends_with("no packet of a measurement came.\n"),
        "{nothing:?}"
    );
    let json = output(&format!(
        "measure receive --json --port {} --wait 200ms",
        free_port()
    ));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["streams"], Value::Array(Vec::new()));
}

#[test]
fn an_interrupt_shows_the_report_so_far() {
    let port = free_port();
    let receiver = receiver(port, "");
    let mut sender = ctl(&format!(
        "measure send 127.0.0.1:{port} --count 60000 --rate 1000"
    ))
    .spawn()
    .unwrap();
    thread::sleep(Duration::from_millis(700));
    let interrupt = |child: &Child| {
        let id = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &id])
                .status()
                .unwrap()
                .success()
        );
    };
    interrupt(&receiver);
    let received = receiver.wait_with_output().unwrap();
    let text = stdout(&received);
    assert!(
        received.status.success() && text.contains(": interrupted."),
        "{text}"
    );
    assert!(text.contains("received"), "{text}");
    interrupt(&sender);
    assert!(sender.wait().unwrap().success());
}

#[test]
fn a_sender_without_a_receiver_says_so() {
    let sent = output(&format!(
        "measure send 127.0.0.1:{} --count 50 --size 100",
        free_port()
    ));
    assert_eq!(sent.status.code(), Some(1));
    assert!(
        stdout(&sent).contains("nobody listens at 127.0.0.1"),
        "{sent:?}"
    );
}

#[test]
fn a_frame_that_does_not_fit_names_one_that_does() {
    // The loopback interface carries 65,536 bytes, an IP packet 65,535.
    let sent = output("measure send 127.0.0.1:9 --size 65535 --count 1");
    assert!(sent.status.success(), "{}", stderr(&sent));
    let small = output("measure send 127.0.0.1:9 --size 60");
    assert_eq!(small.status.code(), Some(64));
    assert!(stderr(&small).contains("at least 82 bytes"), "{small:?}");
}

/// Echo requests to this host and its replies, where ICMP sockets may be had; not to the address at
/// which the other test takes the first requests that come.
#[test]
fn replies_to_echoes_are_measured_without_a_receiver() {
    let words = "measure send --icmp --replies 127.0.0.2 --count 300 --size 100 --rate 2000 --json";
    let sent = output(words);
    if stderr(&sent).contains("CAP_NET_RAW") {
        println!("skipped: no right to ICMP sockets here");
        return;
    }
    assert!(sent.status.success(), "{sent:?}");
    let report: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let stream = &report["streams"][0];
    assert_eq!(stream["numbering"], "icmp-reply");
    assert_eq!(
        (&stream["sent"], &stream["received"]),
        (&300.into(), &300.into())
    );
}

/// Echo requests, measured where they arrive; needs a raw socket.
#[test]
fn echo_requests_are_measured_where_they_arrive() {
    let mut receiver = ctl("measure receive --icmp --wait 10s --json --on 127.0.0.1")
        .spawn()
        .unwrap();
    for _ in 0..500 {
        let raw = std::fs::read_to_string("/proc/net/raw").unwrap();
        if raw.contains(": 0100007F:0001 ") || receiver.try_wait().unwrap().is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let sent = output("measure send --icmp 127.0.0.1 --count 300 --size 100 --rate 2000");
    let received = receiver.wait_with_output().unwrap();
    if stderr(&received).contains("CAP_NET_RAW") {
        println!("skipped: no right to ICMP sockets here");
        return;
    }
    assert!(
        sent.status.success() && received.status.success(),
        "{sent:?} {received:?}"
    );
    let report: Value = serde_json::from_slice(&received.stdout).unwrap();
    let stream = &report["streams"][0];
    assert_eq!(stream["numbering"], "icmp-request");
    assert_eq!(
        (&stream["sent"], &stream["received"]),
        (&300.into(), &300.into())
    );
}

/// A pcap file of GRE packets with these numbers, from 10.1.0.1, over Ethernet.
fn capture(numbers: &[u32]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (at, number) in (0u32..).zip(numbers) {
        // GRE with a sequence number, around the least of IPv4 packets.
        let mut gre = vec![0x10, 0, 8, 0];
        gre.extend(number.to_be_bytes());
        gre.extend([
            0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2,
        ]);
        let udp_length = gre.len() as u16 + 8;
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend((udp_length + 20).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2]);
        frame.extend(
            [4754u16, 4754, udp_length, 0]
                .map(u16::to_be_bytes)
                .concat(),
        );
        frame.extend(gre);
        let length = frame.len() as u32;
        for word in [at / 1000, at % 1000 * 1000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

fn read(file: &Path, words: &str) -> Output {
    ctl("measure read")
        .arg(file)
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_capture_of_a_tunnel_is_measured() {
    let file = written(&capture(&[1, 6, 7, 2, 3, 4, 5, 8]));
    let read = read(file.path(), "--json");
    assert!(read.status.success(), "{read:?}");
    let report: Value = serde_json::from_slice(&read.stdout).unwrap();
    let order = &report["streams"][0]["order"];
    assert_eq!(report["streams"][0]["name"], "GRE 10.1.0.1 → 10.1.0.2");
    assert_eq!(order["reordering"]["reordered"], 4);
    assert_eq!(order["density"]["mean_displacement"], 2.0);
}

#[test]
fn a_capture_cut_short_is_read_up_to_the_cut() {
    let whole = capture(&[0, 1, 2, 3]);
    let file = written(&whole[..whole.len() - 5]);
    let read = read(file.path(), "");
    let text = stdout(&read);
    assert!(read.status.success(), "{text}");
    assert!(
        text.contains("ends within a packet after 3 frames"),
        "{text}"
    );
    assert!(text.contains("received           3"), "{text}");
}

#[test]
fn files_that_hold_nothing_to_measure_say_why() {
    let reason = |bytes: &[u8]| {
        let read = read(written(bytes).path(), "");
        assert_eq!(read.status.code(), Some(1), "{read:?}");
        stdout(&read) + &stderr(&read)
    };
    assert!(reason(b"").contains("the file is empty"));
    assert!(reason(b"no capture at all, I am afraid").contains("is no pcap or pcapng file"));
    assert!(reason(&capture(&[])).contains("no numbered GRE-in-UDP"));
    let mut wifi = capture(&[1, 2]);
    wifi[20] = 105;
    assert!(reason(&wifi).contains("2 frames of link type 105, which is not read"));
    let missing = read(Path::new("/nowhere/x.pcap"), "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("/nowhere/x.pcap: No such file"),
        "{missing:?}"
    );
}

#[test]
fn a_report_that_cannot_be_written_costs_no_measurement() {
    let file = written(&capture(&[0, 1]));
    let read = read(file.path(), "--csv /nowhere/x.csv");
    assert_eq!(read.status.code(), Some(1));
    assert!(read.stdout.is_empty(), "{read:?}");
    assert!(
        stderr(&read).contains("/nowhere/x.csv: No such file"),
        "{read:?}"
    );
    let sent = output("measure send 127.0.0.1:9 --plot /nowhere/x.svg");
    assert_eq!(sent.status.code(), Some(64));
    assert!(stderr(&sent).contains("--replies"), "{sent:?}");
}

/// What a measurement that comes to nothing does to the last one's file, and that it makes none.
#[test]
fn files_of_the_report_are_touched_only_when_there_is_something_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let files = format!("--csv {} --plot {}", old.display(), new.display());
    let is_untouched = |words: &str| {
        std::fs::write(&old, "measured before").unwrap();
        let output = output(&format!("measure {words} {files}"));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(
            std::fs::read_to_string(&old).unwrap(),
            "measured before",
            "{words}"
        );
        assert!(!new.exists(), "{words}");
    };
    is_untouched(&format!("read {}/nowhere", folder.path().display()));
    let empty = written(&capture(&[]));
    is_untouched(&format!("read {}", empty.path().display()));
    is_untouched(&format!("receive --port {} --wait 100ms", free_port()));
    is_untouched("stamp send nobody.invalid");

    let file = written(&capture(&[0, 1]));
    assert!(read(file.path(), &files).status.success());
    let csv = std::fs::read_to_string(&old).unwrap();
    assert!(csv.starts_with("stream,metric,x,value\n") && !csv.contains("before"));
    assert!(new.exists());
}

#[test]
fn a_report_overwrites_neither_the_capture_nor_itself() {
    let whole = capture(&[0, 1]);
    let file = written(&whole);
    let path = file.path().display().to_string();
    let refused = |words: &str, code| {
        let refused = read(file.path(), words);
        assert_eq!(refused.status.code(), Some(code), "{refused:?}");
        assert_eq!(std::fs::read(file.path()).unwrap(), whole);
        stderr(&refused)
    };
    for option in ["--csv", "--plot"] {
        let text = refused(&format!("{option} {path}"), 1);
        assert!(text.contains("that is the capture which is read"), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both");
    let name = folder.path().file_name().unwrap();
    let detour = folder.path().join("..").join(name).join("both");
    let csv = both.display();
    let text = refused(&format!("--csv {csv} --plot {csv}"), 64);
    assert!(text.contains("--csv and --plot are both"), "{text}");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&both, &link).unwrap();
    for plot in [detour, link] {
        let text = refused(&format!("--csv {csv} --plot {}", plot.display()), 1);
        assert!(
            text.contains("--csv and --plot are the same file"),
            "{text}"
        );
        assert!(!both.exists());
    }

    let report = std::fs::File::create(&both).unwrap();
    let mixed = ctl(&format!("measure read {path} --csv {csv}"))
        .stdout(report)
        .output()
        .unwrap();
    assert_eq!(mixed.status.code(), Some(1));
    assert!(
        stderr(&mixed).contains("the standard output goes there"),
        "{mixed:?}"
    );
}

#[test]
fn a_table_goes_to_the_standard_output_when_a_dash_is_given() {
    let file = written(&capture(&[0, 2, 1]));
    let table = read(file.path(), "--csv -");
    assert!(table.status.success(), "{table:?}");
    let text = stdout(&table);
    assert!(text.starts_with("stream,metric,x,value\n"), "{text}");
    assert!(text.lines().all(|line| line.split(',').count() == 4));
    assert!(
        stderr(&table).contains("read to its end, 3 frames"),
        "{table:?}"
    );
    let both = read(file.path(), "--csv - --json");
    assert_eq!(both.status.code(), Some(1));
    assert!(both.stdout.is_empty());
    assert!(
        stderr(&both).contains("--json goes to the standard output"),
        "{both:?}"
    );
    assert!(!Path::new("-").exists());
}

/// A name that the network does not know is no fault of the command line; one that cannot be a name is.
#[test]
fn a_name_without_an_address_is_an_error_and_no_wrong_command_line() {
    for words in ["send", "stamp send"] {
        let unknown = output(&format!("measure {words} nobody.invalid --count 1"));
        assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
        assert!(
            stderr(&unknown).contains("cannot look up nobody.invalid: "),
            "{unknown:?}"
        );
        let wrong = output(&format!("measure {words} 127.0.0.1:99999"));
        assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
    }
    let small = output("measure send localhost --size 60");
    assert_eq!(small.status.code(), Some(1), "{small:?}");
    assert!(stderr(&small).contains("a frame is at least"), "{small:?}");
}

/// The first line that a program says on its standard error output.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stderr = child.stderr.take().unwrap();
    std::io::BufReader::new(stderr)
        .read_line(&mut line)
        .unwrap();
    line
}

#[test]
fn a_port_of_the_kernel_s_choice_is_told_while_it_is_listened_on() {
    for (words, sent) in [
        ("receive --port 0 --wait 20s", "send"),
        ("stamp reflect --port 0 --idle 20s", "stamp send"),
    ] {
        let mut child = ctl(&format!("measure {words}")).spawn().unwrap();
        let line = first_line(&mut child);
        let port = line.trim_end().strip_prefix("listening on UDP port ");
        let port: u16 = port.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        let sent = output(&format!(
            "measure {sent} 127.0.0.1:{port} --count 5 --rate 1000"
        ));
        assert!(sent.status.success(), "{sent:?}");
        let _ = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn echoes_go_to_no_port() {
    for words in ["receive --icmp --port 5", "send --icmp 127.0.0.1:5"] {
        let refused = output(&format!("measure {words}"));
        assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    }
    let sent = output("measure send --icmp 127.0.0.3 --count 1 --size 100 --json");
    if stderr(&sent).contains("CAP_NET_RAW") {
        println!("skipped: no right to ICMP sockets here");
        return;
    }
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(sent["target"], "127.0.0.3");
}

#[test]
fn a_capture_is_read_from_a_pipe() {
    let mut command = ctl("measure read - --json");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for piece in capture(&[0, 2, 1]).chunks(7) {
        pipe.write_all(piece).unwrap();
    }
    drop(pipe);
    let read = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(report["streams"][0]["received"], 3);
    assert_eq!(report["streams"][0]["order"]["reordering"]["reordered"], 1);
}

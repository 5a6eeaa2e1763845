//! What the host itself runs out of, loses, or starts twice.

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use net::settings::{self, Side};
use net::traffic::ping;
use net::{Fault, Files, Uplinked, process, wait_for};

use super::{bench, can_run};

/// The daemon looks for its socket every second.
const SOON: Duration = Duration::from_secs(5);

/// A flood into the tunnel, a full disk, a lost control socket, a second daemon.
#[test]
fn the_host_is_at_fault() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    bench.run(
        &Fault::new("a program floods the tunnel's interface, and mpt-tund is held up")
            .client("host-too-fast", "")
            .stalls_at_most_ms(1500),
        // A host that reads as fast as one program writes drops nothing: this one is held up meanwhile.
        |pair| {
            pair.client.process().signal("STOP");
            flood(pair);
            pair.client.process().signal("CONT");
        },
        |_| {},
    );
    bench.run(
        &Fault::new("the control socket's file is deleted")
            .lasts_ms(1000)
            .stalls_at_most_ms(500),
        |pair| std::fs::remove_file(pair.client.socket()).unwrap(),
        |pair| {
            wait_for("the control socket", SOON, || {
                pair.client.answer().map(|_| ())
            });
        },
    );
    bench.run(
        &Fault::new("the disk is full when `mpt-ctl save` writes").stalls_at_most_ms(1000),
        save_to_a_full_disk,
        |pair| {
            let folder = pair.client.config().with_file_name("");
            // Lazily: the socket in it is open.
            process::run(Command::new("umount").arg("-l").arg(&folder));
        },
    );
    let says = second_daemon(&bench.pair);
    bench.note(
        "a second daemon is started with the same file",
        "no: stop one of the two",
        [format!("the second ends: {says}"), "–".to_owned()],
    );
    bench.finish("host");
}

/// What arrives while a host is busy with something else waits in the socket, as far as that has room.
#[test]
fn a_host_hangs_and_its_receive_buffer_is_full() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    // Of its own accord the adaptive scheduler does not send what nobody acknowledges.
    let files = Files::sealed().tunnel(Side::A, "scheduler = \"weighted\"");
    let mut bench = bench(&files);
    bench.run(
        &Fault::new("the server hangs for 0.8 s while a flood arrives: its receive buffer is full")
            .server("receive-buffer-full", "overflowed")
            .stalls_at_most_ms(2500),
        |pair| {
            pair.server.process().signal("STOP");
            let hung = Instant::now();
            flood(pair);
            std::thread::sleep(Duration::from_millis(800).saturating_sub(hung.elapsed()));
            pair.server.process().signal("CONT");
        },
        |_| {},
    );
    bench.finish("buffer");
}

/// `save` says why it does not, and the file is as it was.
fn save_to_a_full_disk(pair: &mut Uplinked) {
    let config = pair.client.config();
    let folder = config.with_file_name("");
    let text = std::fs::read_to_string(&config).unwrap();
    let mut mount = Command::new("mount");
    process::run(
        mount
            .args(["-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs"])
            .arg(&folder),
    );
    std::fs::write(&config, &text).unwrap();
    settings::return_key(&pair.client, Side::A);
    // The socket was covered as well: the daemon makes it again.
    wait_for("the control socket", SOON, || {
        pair.client.answer().map(|_| ())
    });
    let _ = std::fs::write(folder.join("filler"), [0; 1 << 16]);
    let set = pair.client.ctl_output(&["reorder", "set", "window=4096"]);
    assert!(set.status.success(), "{set:?}");
    let saved = pair.client.ctl_output(&["save"]);
    let words = String::from_utf8_lossy(&saved.stderr).into_owned();
    println!("save: {}", words.trim_end());
    assert!(
        !saved.status.success() && words.contains("No space left"),
        "{words}"
    );
    assert_eq!(std::fs::read_to_string(&config).unwrap(), text);
}

/// What a second daemon says with the file of the first, which goes on.
fn second_daemon(pair: &Uplinked) -> String {
    let mut second = pair.net.client.words("timeout 5");
    second.arg(process::program("mpt-tund"));
    let output = process::output(second.arg("--config").arg(pair.client.config()));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1..=99)), "{output:?}");
    assert!(words.contains("another mpt-tund serves"), "{words}");
    let seen = ping(&pair.net.client, Side::B.inner_v4(), 5, 20, "");
    assert_eq!(seen.received, 5, "the first goes on");
    "another mpt-tund serves its control socket".to_owned()
}

/// A hundred thousand packets as fast as one program sends.
fn flood(pair: &Uplinked) {
    let socket = (pair.net.client).inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let packet = [0; 1200];
    for _ in 0..100_000 {
        let _ = socket.send_to(&packet, (Side::B.inner_v4(), 9));
    }
}

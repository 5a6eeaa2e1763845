//! How `mpt-ctl` ends where its output, or its input, does.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use mpt_core::control::{Answer, Reply, Status};
use rustix::process::{Pid, Signal, kill_process};

const CTL: &str = env!("CARGO_BIN_EXE_mpt-ctl");

#[test]
fn a_status_that_cannot_be_written_is_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("mpt0.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    for words in [&["status"][..], &["status", "--watch=1"]] {
        let mut command = Command::new(CTL);
        command.arg("--socket").arg(&socket).args(words);
        command.stdout(File::create("/dev/full").unwrap());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let reply = Reply::Ok(Answer::Status(Box::<Status>::default()));
        writeln!(stream, "{}", serde_json::to_string(&reply).unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3), "{words:?}");
    }
}

/// As in `tcpdump -w - | mpt-ctl measure read -`, whose Ctrl-C goes to both.
#[test]
fn a_ctrl_c_leaves_a_live_capture_its_report() {
    let mut command = Command::new(CTL);
    command.args(["measure", "read", "-"]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut capture = child.stdin.take().unwrap();
    // Little-endian, in microseconds, 2.4, Ethernet, without packets.
    let words: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    capture
        .write_all(&words.map(u32::to_le_bytes).concat())
        .unwrap();
    let process = i32::try_from(child.id()).unwrap();
    for _ in 0..500 {
        if catches_ctrl_c(process) {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_raw(process).unwrap(), Signal::INT).unwrap();
    thread::sleep(Duration::from_millis(50));
    drop(capture);
    // Nothing was measured, and that was said.
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

fn catches_ctrl_c(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & 1 << (Signal::INT.as_raw() - 1) != 0
}

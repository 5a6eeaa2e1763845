//! `mpt-ctl` as a user runs it, against a daemon that is played by a thread: what goes over the
//! socket, what comes out, and the exit codes that `--help` promises.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "ctl/history.rs"]
mod history;
#[path = "ctl/keys.rs"]
mod keys;
#[path = "ctl/new.rs"]
mod new;
#[cfg(feature = "top")]
#[path = "ctl/top.rs"]
mod top;
#[path = "ctl/trace.rs"]
mod trace;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpt_core::control::order::{OrderFigures, OrderStatus, PointStatus};
use mpt_core::control::verdict::judge;
use mpt_core::control::{
    Answer, LatePolicy, PathState, PathStatus, ReorderStatus, Reply, Request, Status, TunnelStatus,
};
use mpt_core::metrics::{MeterConfig, OrderMeter};
use serde_json::{Value, json};

/// A daemon that gives out prepared lines, one to each connection, and keeps what it was asked.
struct Mock {
    socket: PathBuf,
    _dir: tempfile::TempDir,
    thread: JoinHandle<Vec<Request>>,
}

impl Mock {
    fn start(lines: Vec<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mpt0.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let answer = move |line: String| {
            let (stream, _) = listener.accept().unwrap();
            let request = read_request(&stream);
            (&stream).write_all(line.as_bytes()).unwrap();
            request
        };
        let thread = thread::spawn(move || lines.into_iter().map(answer).collect());
        Self {
            socket,
            _dir: dir,
            thread,
        }
    }

    fn answering(reply: &Reply) -> Self {
        Self::start(vec![line(reply)])
    }

    fn requests(self) -> Vec<Request> {
        self.thread.join().unwrap()
    }
}

fn read_request(stream: &UnixStream) -> Request {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn line(reply: &Reply) -> String {
    serde_json::to_string(reply).unwrap() + "\n"
}

fn ctl(socket: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpt-ctl"));
    command
        .arg("--socket")
        .arg(socket)
        .args(words.split_whitespace());
    command
}

fn run(socket: &Path, words: &str) -> Output {
    ctl(socket, words).output().unwrap()
}

/// Presses Ctrl-C, and waits for the end.
fn interrupt(child: &mut Child) -> ExitStatus {
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if Instant::now() > deadline => child.kill().unwrap(),
            None => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn status() -> Status {
    let path = |name: &str, state| PathStatus {
        name: name.into(),
        state,
        ..PathStatus::default()
    };
    judged(Status {
        tunnel: TunnelStatus {
            name: "mpt0".into(),
            ..TunnelStatus::default()
        },
        paths: vec![
            path("fibre", PathState::Up),
            path("lte", PathState::AdminDown),
        ],
        reorder: ReorderStatus {
            window: 1024,
            ..ReorderStatus::default()
        },
        ..Status::default()
    })
}

fn judged(mut status: Status) -> Status {
    status.verdict = judge(&status);
    status
}

fn answering(status: Status) -> Mock {
    Mock::answering(&Reply::Ok(Answer::Status(Box::new(status))))
}

#[test]
fn status_is_text_without_colour_when_piped() {
    let daemon = Mock::answering(&Reply::Ok(Answer::Status(Box::new(status()))));
    let output = run(&daemon.socket, "status");
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    assert!(
        shown.contains("`mpt-ctl path up lte` brings it back"),
        "{shown}"
    );
    assert!(!shown.contains('\x1b'));
    assert_eq!(daemon.requests(), [Request::Status]);
}

#[test]
fn the_exit_code_of_status_tells_how_the_tunnel_does() {
    let with = |first, second| {
        let mut status = status();
        (status.paths[0].state, status.paths[1].state) = (first, second);
        judged(status)
    };
    for (status, code) in [
        (with(PathState::Up, PathState::AdminDown), 0),
        (with(PathState::Up, PathState::Down), 1),
        (with(PathState::Probing, PathState::Down), 2),
    ] {
        for words in ["status", "status --json"] {
            let daemon = answering(status.clone());
            let output = run(&daemon.socket, words);
            assert_eq!(output.status.code(), Some(code), "{words}: {output:?}");
        }
        let daemon = Mock::answering(&Reply::Ok(Answer::Paths(status.paths)));
        assert!(run(&daemon.socket, "paths").status.success());
    }
    let daemon = Mock::answering(&Reply::Error("the tunnel is being closed".into()));
    let refused = run(&daemon.socket, "status");
    assert_eq!(
        refused.status.code(),
        Some(3),
        "1 would say that it is degraded"
    );
}

#[test]
fn the_verdict_is_in_json_as_it_is_documented() {
    let mut status = status();
    status.paths[0].state = PathState::Down;
    status.paths[0].reason = Some("its network interface is down".into());
    let daemon = answering(judged(status));
    let output = run(&daemon.socket, "status --json");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["verdict"]["level"], "down");
    let messages = shown["verdict"]["messages"].as_array().unwrap();
    let codes: Vec<_> = messages.iter().map(|message| &message["code"]).collect();
    assert_eq!(codes, ["no-path-up", "path-down", "path-out-of-service"]);
    assert_eq!(
        messages[1]["text"],
        "Path fibre is down: its network interface is down."
    );
    assert_eq!(
        messages[2]["remedy"],
        "`mpt-ctl path up lte` brings it back."
    );
}

#[test]
fn a_daemon_that_gives_no_verdict_is_not_said_to_be_well() {
    let mut old = json!(status());
    old.as_object_mut().unwrap().remove("verdict");
    let daemon = Mock::start(vec![json!({ "ok": { "status": old } }).to_string() + "\n"]);
    let output = run(&daemon.socket, "status");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("gives no verdict") && !shown.contains("All is well"),
        "{shown}"
    );
}

#[test]
fn json_is_the_answer_without_its_envelope() {
    let whole = status();
    for (words, answer, expected) in [
        (
            "--json status",
            Answer::Status(Box::new(whole.clone())),
            json!(whole),
        ),
        (
            "paths --json",
            Answer::Paths(whole.paths.clone()),
            json!(whole.paths),
        ),
        (
            "--json reorder",
            Answer::Reorder(whole.reorder.clone()),
            json!(whole.reorder),
        ),
        (
            "--json save",
            Answer::Done("saved".into()),
            json!({ "done": "saved" }),
        ),
    ] {
        let daemon = Mock::answering(&Reply::Ok(answer));
        let output = run(&daemon.socket, words);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(shown, expected, "{words}");
    }
}

/// What a daemon answers when so many packets have arrived, the middle two of each ten swapped.
fn reorder(packets: u32) -> ReorderStatus {
    let mut meter = OrderMeter::new(MeterConfig::default());
    for (at, number) in (0..packets).enumerate() {
        let swapped = match number % 10 {
            4 => number + 1,
            5 => number - 1,
            _ => number,
        };
        meter.arrive(swapped, 1400, at as u64 * 100_000);
    }
    let report = meter.total();
    let figures = OrderFigures {
        seconds: 4.0,
        reordering: report.reordering,
        density: report.density,
        occupancy: report.occupancy,
        ..OrderFigures::default()
    };
    let order = OrderStatus {
        arriving: PointStatus {
            since_start: figures.clone(),
            last_interval: (packets > 1000).then_some(figures),
        },
        ..OrderStatus::default()
    };
    ReorderStatus {
        order: Some(Box::new(order)),
        ..status().reorder
    }
}

#[test]
fn reorder_shows_order_and_says_when_there_is_none_to_show() {
    let shown = |packets| {
        let daemon = Mock::answering(&Reply::Ok(Answer::Reorder(reorder(packets))));
        let output = run(&daemon.socket, "reorder");
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    let nothing = shown(0);
    assert!(nothing.contains("has arrived yet"), "{nothing}");
    assert!(
        !nothing.contains("NaN") && !nothing.contains("DISPLACED"),
        "{nothing}"
    );
    let order = shown(5000);
    for part in ["10.0 %", "DISPLACED BY", "in the last 4 s", "█"] {
        assert!(order.contains(part), "{part} in {order}");
    }
}

#[test]
fn reorder_as_json_is_complete_and_without_null_also_when_nothing_arrived() {
    for packets in [0, 5000] {
        let whole = reorder(packets);
        let daemon = Mock::answering(&Reply::Ok(Answer::Reorder(whole.clone())));
        let output = run(&daemon.socket, "reorder --json");
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        let arriving = &shown["order"]["arriving"]["since_start"];
        assert!(arriving["reordering"]["ratio"].is_f64(), "{arriving}");
        assert!(arriving["density"]["entropy_nats"].is_f64(), "{arriving}");
        assert!(!arriving.to_string().contains("null"), "{arriving}");
        let again: ReorderStatus = serde_json::from_value(shown).unwrap();
        assert_eq!(again, whole);
    }
}

#[test]
fn a_change_is_sent_as_one_request_and_its_outcome_printed() {
    let daemon = Mock::answering(&Reply::Ok(Answer::Done("The window is now 2048.".into())));
    let output = run(
        &daemon.socket,
        "reorder set window=2048 max_buffer_delay=1s late=drop",
    );
    assert_eq!(text(&output.stdout), "The window is now 2048.\n");
    let sent = Request::ReorderSet {
        window: Some(2048.into()),
        max_buffer_delay_us: Some(1_000_000.into()),
        late: Some(LatePolicy::Drop),
    };
    assert_eq!(daemon.requests(), [sent]);
}

#[test]
fn a_refusal_is_text_on_standard_error_and_exit_code_1() {
    for words in ["path up nowhere", "--json path up nowhere"] {
        let daemon = Mock::answering(&Reply::Error("there is no path \"nowhere\"".into()));
        let output = run(&daemon.socket, words);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        assert_eq!(
            text(&output.stderr),
            "mpt-ctl: the daemon refused: there is no path \"nowhere\"\n"
        );
    }
}

#[test]
fn a_wrong_command_line_is_exit_code_64_and_asks_nobody() {
    let nobody = Path::new("/nonexistent/mpt0.sock");
    for words in [
        "",
        "stauts",
        "path set lte wieght=1",
        "status --watch=soon",
        "reorder 5",
    ] {
        assert_eq!(run(nobody, words).status.code(), Some(64), "{words}");
    }
}

#[test]
fn no_daemon_is_exit_code_3_and_says_how_to_start_it() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(&dir.path().join("mpt0.sock"), "status");
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("systemctl start"),
        "{output:?}"
    );
}

#[test]
fn no_permission_is_exit_code_3_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("mpt0.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o000)).unwrap();
    if UnixStream::connect(&socket).is_ok() {
        return; // root may do anything
    }
    let output = run(&socket, "status");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("no permission"), "{output:?}");
}

#[test]
fn an_answer_that_is_none_is_exit_code_4() {
    let endless = "x".repeat(300 * 1024) + "\n";
    for line in [
        "",
        "{\"ok\"",
        "hello\n",
        "{\"ok\":{\"weather\":1}}\n",
        &endless,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mpt0.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let line = line.to_owned();
        let daemon = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            read_request(&stream);
            // The client may have seen enough before the end.
            let _ = (&stream).write_all(line.as_bytes());
        });
        let output = run(&socket, "status");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        daemon.join().unwrap();
    }
}

#[test]
fn watch_prints_blocks_until_interrupted_and_ends_well() {
    let reply = line(&Reply::Ok(Answer::Paths(status().paths)));
    let daemon = Mock::start(vec![reply; 3]);
    let mut child = ctl(&daemon.socket, "paths --watch 0.1 --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let value: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(value[0]["name"], "fibre");
    }
    let ended = interrupt(&mut child);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    // The mock may still wait for its third question; nobody needs the answer.
    drop(
        UnixStream::connect(&daemon.socket)
            .map(|stream| (&stream).write_all(b"{\"command\":\"paths\"}\n")),
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let daemon = Mock::answering(&Reply::Ok(Answer::Status(Box::new(status()))));
    let mut child = ctl(&daemon.socket, "status")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn the_columns_of_paths_are_explained_where_they_are_printed_and_in_the_documentation() {
    let help = text(&run(Path::new("/nonexistent"), "paths --help").stdout);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measuring.md");
    let page = std::fs::read_to_string(page).unwrap();
    for column in ["LATER BY", "TAKES", "DELIVERS", "QUEUE", "LOSES"] {
        assert!(help.contains(&format!("  {column} ")), "{column} in {help}");
        assert!(page.contains(&format!("| {column} |")), "{column}");
    }
}

#[test]
fn help_documents_the_exit_codes() {
    let output = run(Path::new("/nonexistent"), "--help");
    let help = text(&output.stdout);
    for code in [
        "0  done",
        "1  the daemon refused",
        "3  the daemon cannot",
        "4  the daemon's answer",
        "64  the command line",
        "0 well, 1 degraded, 2 down, 3 no answer",
    ] {
        assert!(help.contains(code), "{help}");
    }
}

//! `mpt-ctl` as a user runs it, against a daemon that is played by a thread: what goes over the
//! socket, what comes out, and the exit codes that `--help` promises.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let deadline = Instant::now() + Duration::from_secs(10);
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > deadline => child.kill().unwrap(),
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
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

/// What `mpt-ctl WORD` makes of its input.
fn key(word: &str, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mpt-ctl"))
        .arg(word)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // `genkey` does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn a_key_is_made_and_its_public_key_worked_out() {
    let private = key("genkey", "");
    let public = key("pubkey", &text(&private.stdout));
    let other = key("genpsk", "");
    let lines = [&private, &public, &other].map(|output| text(&output.stdout));
    for line in &lines {
        assert_eq!((line.len(), line.ends_with("=\n")), (45, true), "{line}");
    }
    assert!(lines[0] != lines[1] && lines[1] != lines[2]);
    assert!(private.stderr.is_empty(), "a pipe is not a file");
    // RFC 7748 section 6.1
    let public = key("pubkey", "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n");
    assert_eq!(
        text(&public.stdout),
        "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n"
    );
}

#[test]
fn what_is_not_a_private_key_has_no_public_key() {
    for (input, said) in [("", "44 characters"), (&"*".repeat(44), "not base64")] {
        let output = key("pubkey", input);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains(said) && complaint.contains("genkey"),
            "{complaint}"
        );
    }
}

#[test]
fn a_secret_in_a_file_for_all_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, word, warned) in [
        (0o644, "genkey", true),
        (0o644, "genpsk", true),
        (0o660, "genkey", false),
        (0o600, "genpsk", false),
        (0o644, "pubkey", false),
    ] {
        let file = dir.path().join("key");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let input = dir.path().join("input");
        std::fs::write(&input, key("genkey", "").stdout).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_mpt-ctl"))
            .arg(word)
            .stdin(std::fs::File::open(&input).unwrap())
            .stdout(std::fs::File::create(&file).unwrap())
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(said.contains("umask 077"), warned, "{word} {mode:o}");
        assert!(output.status.success(), "{said}");
    }
}

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

      sudo cp -p MADE/mpt0.* /etc/mpt/
      scp -p MADE/server/mpt0.* root@203.0.113.7:/etc/mpt/

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
        "--server 203.0.113.7 --client-interfaces eth0,eth0",
        "--server 203.0.113.7 --client-interfaces eth0,an-interface-of-20",
        "--server 203.0.113.7 --client-interfaces eth0,wwan0 --names fibre",
        "--server 203.0.113.7 --client-interfaces eth0 --inner 10.0.0.0",
        "--server 203.0.113.7 --client-interfaces eth0,wwan0 --port 65535",
        "--server 127.0.0.1",
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
    --server 203.0.113.7 --client-interfaces eth0,eth0
        64 error: --client-interfaces: eth0 is named twice
    --server 203.0.113.7 --client-interfaces eth0,an-interface-of-20
        64 error: --client-interfaces "an-interface-of-20": give a device as `ip link` names it, such as eth0
    --server 203.0.113.7 --client-interfaces eth0,wwan0 --names fibre
        1 mpt-ctl: 1 --names for 2 uplinks (eth0, wwan0): give one for each
    --server 203.0.113.7 --client-interfaces eth0 --inner 10.0.0.0
        64 error: --inner 10.0.0.0: give a network with room for two hosts, such as 10.99.0.0/30 or fd00:99::/64
    --server 203.0.113.7 --client-interfaces eth0,wwan0 --port 65535
        1 mpt-ctl: --port 65535: 2 paths need as many ports, and the last is 65535
    --server 127.0.0.1
        1 mpt-ctl: this host is the server (it has the address 127.0.0.1): say which devices the client's uplinks are, like --client-interfaces eth0,wwan0
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

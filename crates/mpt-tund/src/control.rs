//! The control socket: where `mpt-ctl` asks and the daemon answers.
//!
//! One line of JSON is a request, one line is its reply ([`mpt_core::control`] has the types). All
//! of it runs as one future on the control thread: [`serve`] takes up connections and drives them
//! side by side, so that an asker who stalls holds up nobody, and what answers the requests needs
//! neither locks nor threads.
//!
//! Whoever can write to the socket steers the tunnel, so it belongs to the daemon's user alone
//! ([`bind`]). Even so each asker gets little: a request of bounded length, a place among a few, and a minute
//! to say something.

mod door;
mod listener;
mod owner;

use std::cell::Cell;
use std::io;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use mpt_core::control::{MAX_LINE_BYTES, Reply, Request};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{interval, sleep, timeout};
use tracing::{debug, warn};

pub(crate) use door::Door;
pub(crate) use listener::{Listener, bind};
pub(crate) use owner::Owner;

/// The longest request, in bytes, its newline included: a peer with [`MAX_ALLOWED`](crate::config::MAX_ALLOWED) prefixes
/// takes half of it.
const MAX_REQUEST_BYTES: usize = 128 << 10;
/// Connections that are served at once; further ones are told to come again.
const MAX_CONNECTIONS: usize = 16;
/// How long a connection may take to make a request, or to take its reply.
const IDLE: Duration = Duration::from_secs(60);
/// Rest after connections could not be accepted: mostly there are no descriptors left, and trying
/// again at once would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often the socket's file is looked for.
const LOOK: Duration = Duration::from_secs(1);

const EXAMPLE: &str = r#"{"command":"status"}"#;
/// What [`Request`] knows, for those who write requests by hand.
const COMMANDS: [&str; 17] = [
    "status",
    "paths",
    "peers",
    "peer-show",
    "peer-add",
    "peer-set",
    "peer-remove",
    "reorder",
    "trace",
    "history",
    "log",
    "path-up",
    "path-down",
    "path-set",
    "reorder-set",
    "reload",
    "save",
];

/// Serves connections until the future is dropped, which closes them and removes the socket.
/// `answer` is asked for one request of a connection at a time, and for those of different
/// connections at once.
///
/// # Errors
/// When the runtime cannot watch the socket; nothing that happens later ends it.
pub(crate) async fn serve<A, F>(mut door: Door, answer: A) -> io::Result<()>
where
    A: Fn(Request) -> F,
    F: Future<Output = Reply>,
{
    let mut socket = UnixListener::from_std(door.socket()?)?;
    let failing = Cell::new(false);
    let mut is_lost = false;
    let mut look = interval(LOOK);
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            // In this order: a place that has become free is given to who comes at that moment.
            biased;
            Some(()) = connections.next() => {}
            stream = accept(&socket, &failing) => {
                if connections.len() < MAX_CONNECTIONS {
                    connections.push(converse(stream, &answer));
                } else {
                    turn_away(&stream);
                }
            }
            _ = look.tick() => {
                if restore(&mut door, &mut is_lost) {
                    socket = UnixListener::from_std(door.socket()?)?;
                }
            }
        }
    }
}

/// Another socket in the place of one whose file somebody has removed: without it the daemon could not be asked
/// any more, and only a restart would help. Whether there is one. `is_lost`: none could be made, which was said.
fn restore(door: &mut Door, is_lost: &mut bool) -> bool {
    match door.restore() {
        Ok(false) => false,
        Ok(true) => {
            *is_lost = false;
            warn!(
                "the control socket {} was removed: made again",
                door.path().display()
            );
            true
        }
        // Its folder may come back: tried again.
        Err(error) => {
            if !std::mem::replace(is_lost, true) {
                warn!(
                    "the control socket {} was removed and cannot be made again, which is tried every second: {error:#}",
                    door.path().display()
                );
            }
            false
        }
    }
}

/// The next connection, however long that takes. `failing` outlives calls, so that a machine
/// without descriptors fills no log.
async fn accept(socket: &UnixListener, failing: &Cell<bool>) -> UnixStream {
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                failing.set(false);
                return stream;
            }
            Err(error) => {
                if !failing.replace(true) {
                    warn!("cannot accept control connections: {error}");
                }
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Says that all places are taken. The line fits the fresh socket's buffer, so there is nothing to
/// wait for.
fn turn_away(stream: &UnixStream) {
    let text = format!("{MAX_CONNECTIONS} control connections are open already; try again later");
    if let Err(error) = stream.try_write(&line(&Reply::Error(text))) {
        debug!("control connection turned away: {error}");
    }
}

/// One connection from its first request to its end.
async fn converse<A, F>(stream: UnixStream, answer: &A)
where
    A: Fn(Request) -> F,
    F: Future<Output = Reply>,
{
    let mut stream = BufReader::new(stream);
    let mut request = Vec::new();
    loop {
        let (reply, goes_on) = match timeout(IDLE, read_line(&mut stream, &mut request)).await {
            Ok(Ok(Line::Whole)) => match parse(&request) {
                Ok(request) => (answer(request).await, true),
                Err(text) => (Reply::Error(text), true),
            },
            Ok(Ok(Line::TooLong)) => (
                Reply::Error(format!("a request has at most {MAX_REQUEST_BYTES} bytes")),
                true,
            ),
            Ok(Ok(Line::End)) => return,
            Ok(Err(error)) => return debug!("control connection: {error}"),
            Err(_) => (
                Reply::Error(format!("no request for {} s", IDLE.as_secs())),
                false,
            ),
        };
        match timeout(IDLE, stream.write_all(&line(&reply))).await {
            Ok(Ok(())) if goes_on => {}
            Ok(Ok(())) => return,
            Ok(Err(error)) => return debug!("control connection: {error}"),
            Err(_) => return debug!("control connection: a reply was not taken"),
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a request into `request`; the last one needs no newline. Of one that is too long nothing is left to read.
async fn read_line(stream: &mut BufReader<UnixStream>, request: &mut Vec<u8>) -> io::Result<Line> {
    request.clear();
    let mut bounded = (&mut *stream).take(MAX_REQUEST_BYTES as u64);
    bounded.read_until(b'\n', request).await?;
    Ok(match request.last() {
        None => Line::End,
        Some(b'\n') => Line::Whole,
        Some(_) if request.len() == MAX_REQUEST_BYTES => {
            skip_line(stream).await?;
            Line::TooLong
        }
        Some(_) => Line::Whole,
    })
}

/// Passes over the rest of a line.
async fn skip_line(stream: &mut BufReader<UnixStream>) -> io::Result<()> {
    loop {
        let come = stream.fill_buf().await?;
        let newline = come.iter().position(|byte| *byte == b'\n');
        let bytes = newline.map_or(come.len(), |at| at + 1);
        stream.consume(bytes);
        if newline.is_some() || bytes == 0 {
            return Ok(());
        }
    }
}

/// A reply as it is sent, in one line that every client accepts.
fn line(reply: &Reply) -> Vec<u8> {
    let whole = match serde_json::to_vec(reply) {
        Ok(bytes) if bytes.len() < MAX_LINE_BYTES => Ok(bytes),
        Ok(bytes) => Err(format!("the answer of {} bytes is too long", bytes.len())),
        Err(error) => Err(format!("the answer cannot be written as JSON: {error}")),
    };
    let mut bytes = whole.unwrap_or_else(|text| {
        serde_json::json!({ "error": text })
            .to_string()
            .into_bytes()
    });
    bytes.push(b'\n');
    bytes
}

/// Understands a request, or says what was wrong with it to someone who may have written it by
/// hand.
fn parse(request: &[u8]) -> Result<Request, String> {
    let value: Value = serde_json::from_slice(request)
        .map_err(|error| format!("not JSON ({error}); a request is one line such as {EXAMPLE}"))?;
    let Some(fields) = value.as_object() else {
        return Err(format!("a request is a JSON object such as {EXAMPLE}"));
    };
    let commands = COMMANDS.join(", ");
    let command = match fields.get("command") {
        Some(Value::String(command)) => command.clone(),
        Some(_) => return Err(format!("`command` is a string, one of {commands}")),
        None => return Err(format!("`command` is missing; it is one of {commands}")),
    };
    if !COMMANDS.contains(&command.as_str()) {
        return Err(format!(
            "unknown command \"{command}\"; known are {commands}"
        ));
    }
    serde_json::from_value(value).map_err(|error| format!("{command}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::Answer;
    use std::path::Path;
    use tokio::task::yield_now;

    /// Answers with the request, as text.
    async fn echo(request: Request) -> Reply {
        yield_now().await;
        Reply::Ok(Answer::Done(format!("{request:?}")))
    }

    /// Runs `client` while the echo serves `path`; time stands still unless all wait.
    fn with_echo<T>(client: impl AsyncFnOnce(&Path) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mpt0.sock");
        crate::testing::paused_runtime().block_on(async {
            let listener = bind(&path, None, 0o600).unwrap();
            tokio::select! {
                ended = serve(Door::Own(listener), echo) => panic!("{ended:?}"),
                result = client(&path) => result,
            }
        })
    }

    async fn connect(path: &Path) -> BufReader<UnixStream> {
        BufReader::new(UnixStream::connect(path).await.unwrap())
    }

    async fn ask(stream: &mut BufReader<UnixStream>, request: &str) -> Reply {
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(b"\n").await.unwrap();
        hear(stream).await
    }

    async fn hear(stream: &mut BufReader<UnixStream>) -> Reply {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn is_closed(stream: &mut BufReader<UnixStream>) -> bool {
        stream.read(&mut [0]).await.is_ok_and(|bytes| bytes == 0)
    }

    fn error(reply: Reply) -> String {
        match reply {
            Reply::Error(text) => text,
            Reply::Ok(answer) => panic!("{answer:?}"),
        }
    }

    #[test]
    fn a_connection_carries_many_requests_and_bad_ones_between_them() {
        with_echo(async |path| {
            let mut stream = connect(path).await;
            for _ in 0..100 {
                let reply = ask(&mut stream, r#"{"command":"path-up","name":"lte"}"#).await;
                let said = format!("{:?}", Request::PathUp { name: "lte".into() });
                assert_eq!(reply, Reply::Ok(Answer::Done(said)));
                error(ask(&mut stream, "hello").await);
            }
        });
    }

    #[test]
    fn requests_sent_at_once_are_answered_in_turn_even_without_a_last_newline() {
        with_echo(async |path| {
            let mut stream = connect(path).await;
            let requests = b"{\"command\":\"status\"}\n{\"command\":\"paths\"}";
            stream.write_all(requests).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(
                hear(&mut stream).await,
                Reply::Ok(Answer::Done("Status".into()))
            );
            assert_eq!(
                hear(&mut stream).await,
                Reply::Ok(Answer::Done("Paths".into()))
            );
            assert!(is_closed(&mut stream).await);
        });
    }

    #[test]
    fn a_request_that_is_too_long_is_refused_and_the_next_one_answered() {
        with_echo(async |path| {
            let mut stream = connect(path).await;
            let refused = "a request has at most 131072 bytes";
            for bytes in [MAX_REQUEST_BYTES, 3 * MAX_REQUEST_BYTES] {
                let long = " ".repeat(bytes);
                assert_eq!(error(ask(&mut stream, &long).await), refused);
                assert!(matches!(ask(&mut stream, EXAMPLE).await, Reply::Ok(_)));
            }
        });
    }

    #[test]
    fn a_peer_with_as_many_prefixes_as_there_may_be_fits() {
        let prefix = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128".to_owned();
        let request = Request::PeerAdd {
            name: "n".repeat(32),
            public_key: "k".repeat(44),
            allowed_ips: vec![prefix; crate::config::MAX_ALLOWED],
            psk: None,
            rate_limit: None,
        };
        let bytes = serde_json::to_vec(&request).unwrap().len();
        assert!(bytes < MAX_REQUEST_BYTES / 2, "{bytes} bytes");
    }

    #[test]
    fn more_connections_than_places_are_told_so() {
        with_echo(async |path| {
            let mut seated = Vec::new();
            for _ in 0..MAX_CONNECTIONS {
                let mut stream = connect(path).await;
                ask(&mut stream, EXAMPLE).await;
                seated.push(stream);
            }
            let mut extra = connect(path).await;
            let text = error(hear(&mut extra).await);
            assert!(text.contains("16 control connections"), "{text}");
            assert!(is_closed(&mut extra).await);

            // A place that becomes free is given to the next one.
            // Not only dropped: a child of another test may hold a copy until it runs its program.
            seated.pop().unwrap().shutdown().await.unwrap();
            sleep(Duration::from_millis(1)).await;
            let mut next = connect(path).await;
            assert!(matches!(ask(&mut next, EXAMPLE).await, Reply::Ok(_)));
            assert!(matches!(ask(&mut seated[0], EXAMPLE).await, Reply::Ok(_)));
        });
    }

    #[test]
    fn an_idle_connection_is_closed_after_a_minute_and_gives_its_place_back() {
        with_echo(async |path| {
            let mut idle = connect(path).await;
            ask(&mut idle, EXAMPLE).await;
            // Half a request is not a sign of life.
            idle.write_all(b"{").await.unwrap();
            let started = tokio::time::Instant::now();
            assert_eq!(error(hear(&mut idle).await), "no request for 60 s");
            assert!(started.elapsed() >= IDLE);
            assert!(is_closed(&mut idle).await);
        });
    }

    #[test]
    fn an_asker_who_takes_no_replies_holds_up_nobody() {
        with_echo(async |path| {
            let stalled = connect(path).await;
            // Until neither side's buffer takes more.
            for _ in 0..1_000_000 {
                let request = format!("{EXAMPLE}\n").repeat(100);
                if stalled.get_ref().try_write(request.as_bytes()).is_err() {
                    yield_now().await;
                    if stalled.get_ref().try_write(b"\n").is_err() {
                        break;
                    }
                }
            }
            let mut other = connect(path).await;
            assert!(matches!(ask(&mut other, EXAMPLE).await, Reply::Ok(_)));
        });
    }

    #[test]
    fn the_end_of_serving_removes_the_socket() {
        let path = with_echo(async |path| {
            assert!(path.exists());
            path.to_owned()
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_whose_name_is_taken_is_made_again_when_it_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mpt0.sock");
        let mut door = Door::Own(bind(&path, None, 0o600).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        let mut is_lost = false;
        assert!(!restore(&mut door, &mut is_lost) && is_lost);
        assert!(!restore(&mut door, &mut is_lost) && is_lost);
        std::fs::remove_file(&path).unwrap();
        assert!(restore(&mut door, &mut is_lost) && !is_lost);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn bad_requests_are_told_what_was_wrong() {
        let requests = [
            "status",
            "[1]",
            "{}",
            r#"{"command":7}"#,
            r#"{"command":"stauts"}"#,
            r#"{"command":"path-up"}"#,
            r#"{"command":"path-set","name":"lte","weight":-1}"#,
            r#"{"command":"path-set","name":"lte","wieght":1}"#,
            r#"{"command":"reorder-set","late":"maybe"}"#,
        ];
        insta::assert_snapshot!(
            requests.map(|text| format!("{text}\n    {}", parse(text.as_bytes()).unwrap_err())).join("\n"),
            @r#"
            status
                not JSON (expected value at line 1 column 1); a request is one line such as {"command":"status"}
            [1]
                a request is a JSON object such as {"command":"status"}
            {}
                `command` is missing; it is one of status, paths, peers, peer-show, peer-add, peer-set, peer-remove, reorder, trace, history, log, path-up, path-down, path-set, reorder-set, reload, save
            {"command":7}
                `command` is a string, one of status, paths, peers, peer-show, peer-add, peer-set, peer-remove, reorder, trace, history, log, path-up, path-down, path-set, reorder-set, reload, save
            {"command":"stauts"}
                unknown command "stauts"; known are status, paths, peers, peer-show, peer-add, peer-set, peer-remove, reorder, trace, history, log, path-up, path-down, path-set, reorder-set, reload, save
            {"command":"path-up"}
                path-up: missing field `name`
            {"command":"path-set","name":"lte","weight":-1}
                path-set: invalid value: integer `-1`, expected u32
            {"command":"path-set","name":"lte","wieght":1}
                path-set: unknown field `wieght`, expected `name` or `weight`
            {"command":"reorder-set","late":"maybe"}
                reorder-set: unknown variant `maybe`, expected `deliver` or `drop`
            "#
        );
    }

    #[test]
    fn nesting_and_noise_are_refused_without_a_panic() {
        assert!(parse("[".repeat(MAX_REQUEST_BYTES).as_bytes()).is_err());
        assert!(parse(&[0xff; 100]).is_err());
        assert!(parse(b"{\"command\":\"status\"}\0").is_err());
    }

    #[test]
    fn the_commands_listed_are_those_understood() {
        let error = serde_json::from_str::<Request>(r#"{"command":""}"#)
            .unwrap_err()
            .to_string();
        let known = COMMANDS.map(|command| format!("`{command}`")).join(", ");
        assert!(
            error.contains(&format!("expected one of {known}")),
            "{error}"
        );
    }

    #[test]
    fn a_reply_too_long_for_clients_becomes_an_error() {
        let reply = line(&Reply::Ok(Answer::Done("x".repeat(MAX_LINE_BYTES))));
        assert!(reply.len() < 200);
        let error = error(serde_json::from_slice(&reply).unwrap());
        assert!(error.contains("too long"), "{error}");
    }
}

//! Finding the daemon and asking it: one connection, one line each way.
//!
//! Every way in which this can go wrong is a situation of the user's, so each has its own text,
//! which says what to do, and its own exit code, by which a script can tell "the daemon said no"
//! from "there is no daemon".

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpt_core::control::{Answer, MAX_LINE_BYTES, Reply, Request};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// Where daemons keep their control sockets.
pub(crate) const RUN_DIR: &str = "/run/mpt";

/// The exit code when nobody answers, that of monitoring plugins for "unknown".
pub(crate) const NO_ANSWER: u8 = 3;
/// The exit code when the command line is wrong: `EX_USAGE` of sysexits.h, since 2 says that a tunnel is
/// down.
pub(crate) const USAGE: u8 = 64;

/// The longest wait for the daemon to take the request or to answer it. A reload may set up
/// paths, which takes longer than a look.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same of a socket that is only looked at.
const GLANCE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the daemon refused: {0}")]
    Refused(String),
    #[error("several tunnels run here; choose one with --tunnel NAME: {}", names.join(", "))]
    SeveralTunnels { names: Vec<String> },
    #[error(
        "mpt-tund is not running: nothing serves {}; start it with \
         `systemctl start mpt` or `mpt-tund --config FILE`", place.display()
    )]
    NotRunning { place: PathBuf },
    #[error(
        "no tunnel answers at {}; choose one of these with --tunnel: {}", place.display(),
        names.join(", ")
    )]
    NoSuchTunnel { place: PathBuf, names: Vec<String> },
    #[error(
        "{} is not a socket; a tunnel's is {RUN_DIR}/NAME.sock, unless its configuration says otherwise",
        place.display()
    )]
    NotASocket { place: PathBuf },
    #[error("no permission to use {}; run mpt-ctl as root (sudo mpt-ctl …)", place.display())]
    Permission { place: PathBuf },
    #[error("cannot reach the daemon at {}: {source}", place.display())]
    Unreachable { place: PathBuf, source: io::Error },
    #[error(
        "the daemon at {} does not answer within {} s; its log may say why", place.display(),
        PATIENCE.as_secs()
    )]
    Silent { place: PathBuf },
    #[error(
        "the daemon's answer cannot be understood ({0}); are mpt-ctl and mpt-tund of one version?"
    )]
    Protocol(String),
}

impl ClientError {
    /// The exit code that `--help` promises.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) => 1,
            Self::SeveralTunnels { .. } => USAGE,
            Self::NotRunning { .. }
            | Self::NoSuchTunnel { .. }
            | Self::NotASocket { .. }
            | Self::Permission { .. }
            | Self::Unreachable { .. }
            | Self::Silent { .. } => NO_ANSWER,
            Self::Protocol(_) => 4,
        }
    }

    fn at(place: &Path, source: io::Error) -> Self {
        let place = place.to_owned();
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "io::ErrorKind is open-ended"
        )]
        match source.kind() {
            io::ErrorKind::ConnectionRefused if is_no_socket(&place) => Self::NotASocket { place },
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Self::NotRunning { place }
            }
            io::ErrorKind::PermissionDenied => Self::Permission { place },
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent { place },
            _ => Self::Unreachable { place, source },
        }
    }
}

/// The socket that the user means: the one named, that of the tunnel named, or the only one in
/// `run_dir`.
pub(crate) fn locate(
    socket: Option<&Path>,
    tunnel: Option<&str>,
    run_dir: &Path,
) -> Result<PathBuf, ClientError> {
    if let Some(socket) = socket {
        return Ok(socket.to_owned());
    }
    if let Some(name) = tunnel {
        return named(name, run_dir);
    }
    let mut sockets = sockets_in(run_dir).map_err(|source| ClientError::at(run_dir, source))?;
    if sockets.len() > 1 {
        sockets.retain(|socket| is_tunnel(socket));
    }
    match sockets.len() {
        0 => Err(ClientError::NotRunning {
            place: run_dir.join("*.sock"),
        }),
        1 => Ok(sockets.remove(0)),
        _ => Err(ClientError::SeveralTunnels {
            names: names(&sockets),
        }),
    }
}

/// The socket of this name. Where no tunnel answers there, those that do are told: the one that is meant may have a
/// socket of another name.
fn named(tunnel: &str, run_dir: &Path) -> Result<PathBuf, ClientError> {
    let socket = run_dir.join(format!("{tunnel}.sock"));
    if is_tunnel(&socket) {
        return Ok(socket);
    }
    let mut others = sockets_in(run_dir).unwrap_or_default();
    others.retain(|other| is_tunnel(other));
    if others.is_empty() {
        return Ok(socket);
    }
    Err(ClientError::NoSuchTunnel {
        place: socket,
        names: names(&others),
    })
}

/// The names of the tunnels that have these sockets.
fn names(sockets: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    sockets.iter().filter_map(stem).collect()
}

fn sockets_in(run_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(run_dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "sock")
        {
            sockets.push(path);
        }
    }
    sockets.sort();
    Ok(sockets)
}

/// Whether a tunnel may be asked here. Not where nobody listens: a daemon that was killed leaves its file
/// behind. Nor where what answers does not speak JSON: that is the socket of the metrics. A daemon that is
/// silent, or not for this user, is one.
fn is_tunnel(socket: &Path) -> bool {
    match exchange(socket, &Request::Log { level: None }, GLANCE) {
        Ok(line) => serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok(),
        Err(error) => !matches!(
            error,
            ClientError::NotRunning { .. }
                | ClientError::NotASocket { .. }
                | ClientError::Protocol(_)
        ),
    }
}

fn is_no_socket(place: &Path) -> bool {
    std::fs::metadata(place).is_ok_and(|file| !file.file_type().is_socket())
}

/// Asks the daemon at `socket` one thing.
pub(crate) fn ask(socket: &Path, request: &Request) -> Result<Answer, ClientError> {
    let line = exchange(socket, request, PATIENCE)?;
    let reply: Reply =
        serde_json::from_slice(&line).map_err(|error| ClientError::Protocol(error.to_string()))?;
    match reply {
        Reply::Ok(answer) => Ok(answer),
        Reply::Error(text) => Err(ClientError::Refused(text)),
    }
}

/// The daemon has answered something else than what it was asked.
pub(crate) fn unasked() -> ClientError {
    ClientError::Protocol("an answer to another question".into())
}

fn exchange(socket: &Path, request: &Request, patience: Duration) -> Result<Vec<u8>, ClientError> {
    let failed = |source| ClientError::at(socket, source);
    let mut line =
        serde_json::to_vec(request).map_err(|error| ClientError::Protocol(error.to_string()))?;
    line.push(b'\n');

    let mut stream = connect(socket, patience).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    match stream.write_all(&line) {
        // A daemon that is too busy says so and hangs up without reading: hear it out.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.map_err(failed)?,
    }
    line.clear();
    let mut reader = BufReader::new(stream).take(MAX_LINE_BYTES as u64 + 1);
    reader.read_until(b'\n', &mut line).map_err(failed)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        Some(_) if line.len() >= MAX_LINE_BYTES => Err(ClientError::Protocol("too long".into())),
        Some(_) => Err(ClientError::Protocol("cut short".into())),
        None => Err(ClientError::Protocol(
            "the connection was closed without one".into(),
        )),
    }
}

/// Connects, and waits no longer than `patience` where a daemon that is stuck takes up no connection. Nor does the stream
/// wait longer to send.
fn connect(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let flags = SocketFlags::CLOEXEC;
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // It bounds the time to connect as well (socket(7)).
    sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(patience))?;
    rustix::io::retry_on_intr(|| net::connect(&stream, &address))?;
    Ok(stream.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::net::UnixListener;

    /// Answers with this line at a socket of this name, for as long as the test runs.
    fn serve(dir: &Path, name: &str, line: &'static str) -> PathBuf {
        let socket = dir.join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let _ = reader.read_line(&mut String::new());
                let _ = reader.get_mut().write_all(line.as_bytes());
            }
        });
        socket
    }

    const A_DAEMON: &str = "{\"error\":\"too many ask\"}\n";
    const THE_METRICS: &str = "HTTP/1.1 400 Bad Request\r\n\r\n";

    #[test]
    fn the_only_socket_is_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mpt0.sock");
        File::create(dir.path().join("mpt0.pid")).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(locate(None, None, dir.path()).unwrap(), socket);
    }

    #[test]
    fn several_sockets_are_listed_in_order() {
        let dir = tempfile::tempdir().unwrap();
        serve(dir.path(), "mpt1.sock", A_DAEMON);
        serve(dir.path(), "mpt0.sock", A_DAEMON);
        let error = locate(None, None, dir.path()).unwrap_err();
        assert_eq!(error.exit_code(), USAGE);
        assert_eq!(
            error.to_string(),
            "several tunnels run here; choose one with --tunnel NAME: mpt0, mpt1"
        );
        assert_eq!(
            locate(None, Some("mpt1"), dir.path()).unwrap(),
            dir.path().join("mpt1.sock")
        );
    }

    #[test]
    fn a_file_that_a_killed_daemon_left_is_not_a_choice() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(dir.path().join("mpt0.sock")).unwrap());
        File::create(dir.path().join("notes.sock")).unwrap();
        let alive = serve(dir.path(), "mpt1.sock", A_DAEMON);
        assert_eq!(locate(None, None, dir.path()).unwrap(), alive);
    }

    #[test]
    fn the_socket_of_the_metrics_is_not_a_choice() {
        let dir = tempfile::tempdir().unwrap();
        serve(dir.path(), "metrics.sock", THE_METRICS);
        let tunnel = serve(dir.path(), "mpt0.sock", A_DAEMON);
        assert_eq!(locate(None, None, dir.path()).unwrap(), tunnel);
        let error = locate(None, Some("metrics"), dir.path()).unwrap_err();
        assert!(matches!(error, ClientError::NoSuchTunnel { .. }), "{error}");
    }

    #[test]
    fn a_daemon_that_is_silent_is_a_choice() {
        let dir = tempfile::tempdir().unwrap();
        serve(dir.path(), "metrics.sock", THE_METRICS);
        let socket = dir.path().join("mpt0.sock");
        let _silent = UnixListener::bind(&socket).unwrap();
        assert_eq!(locate(None, None, dir.path()).unwrap(), socket);
    }

    #[test]
    fn a_daemon_that_takes_up_no_connection_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mpt0.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        // Room for one connection.
        net::listen(&listener, 0).unwrap();
        for _ in 0..3 {
            let patience = Duration::from_millis(50);
            let error = exchange(&socket, &Request::Status, patience).unwrap_err();
            assert!(matches!(error, ClientError::Silent { .. }), "{error}");
        }
    }

    #[test]
    fn a_tunnel_that_does_not_run_is_told_from_a_daemon_that_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mpt9.sock");
        assert_eq!(locate(None, Some("mpt9"), dir.path()).unwrap(), socket);
        serve(dir.path(), "mpt0.sock", A_DAEMON);
        serve(dir.path(), "office.sock", A_DAEMON);
        let error = locate(None, Some("mpt9"), dir.path()).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert_eq!(
            error.to_string(),
            format!(
                "no tunnel answers at {}; choose one of these with --tunnel: mpt0, office",
                socket.display()
            )
        );
    }

    #[test]
    fn a_file_that_is_no_socket_is_said_to_be_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mpt0.toml");
        File::create(&file).unwrap();
        let error = ask(&file, &Request::Status).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(
            error.to_string().contains("mpt0.toml is not a socket"),
            "{error}"
        );
    }

    #[test]
    fn no_socket_means_that_no_daemon_runs() {
        let dir = tempfile::tempdir().unwrap();
        for place in [dir.path(), &dir.path().join("missing")] {
            let error = locate(None, None, place).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            assert!(
                error.to_string().starts_with("mpt-tund is not running"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_without_a_listener_means_that_no_daemon_runs() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mpt0.sock");
        drop(UnixListener::bind(&socket).unwrap());
        let error = ask(&socket, &Request::Status).unwrap_err();
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
    }
}

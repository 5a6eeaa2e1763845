//! A name server of the test's own, which everything that is started afterwards asks.
//!
//! `/etc/resolv.conf` is covered by a file that names it: in the mount namespace that tests/net/enter makes,
//! or in the lab. It knows one name, and not even that until it is told to. Where no server is needed, names are written
//! into `/etc/hosts` in the same way ([`KnownNames`]).

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::process;

/// The name server's address.
pub const ADDRESS: &str = "203.0.113.53";
/// The name that it knows.
pub const NAME: &str = "office.example.net";

/// Response, recursion available; RFC 1035 section 4.1.1.
const ANSWER: u16 = 0x8180;
/// "No such name".
const NO_SUCH_NAME: u16 = 3;
/// Bytes of a header.
const HEADER: usize = 12;

/// What `/etc/hosts` says while this lives, in the same mount namespace.
#[derive(Debug)]
pub struct KnownNames(tempfile::TempDir);

impl KnownNames {
    /// Covers it with these lines.
    ///
    /// # Panics
    /// When it cannot be covered.
    #[must_use]
    pub fn cover(lines: &str) -> Self {
        let names = KnownNames(tempfile::tempdir().expect("a folder"));
        names.change(lines);
        let mut mount = Command::new("mount");
        process::run(mount.arg("--bind").arg(names.file()).arg("/etc/hosts"));
        names
    }

    /// It says this from now on.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn change(&self, lines: &str) {
        let text = format!("127.0.0.1 localhost\n{lines}");
        std::fs::write(self.file(), text).expect("names are written");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("hosts")
    }
}

impl Drop for KnownNames {
    fn drop(&mut self) {
        let _ = process::output(Command::new("umount").arg("/etc/hosts"));
    }
}

/// A name server.
#[derive(Debug)]
pub struct NameServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    knows: AtomicBool,
    asked: AtomicU64,
}

impl NameServer {
    /// Starts one on `host`, which answers that [`NAME`] is at `address` once it [`knows`](Self::knows) it.
    ///
    /// # Panics
    /// When its socket or the file that names it cannot be made.
    #[must_use]
    pub fn start(host: &Namespace, address: [u8; 4]) -> Self {
        host.run(&format!("ip addr add {ADDRESS}/32 dev lo"));
        let socket = host.inside(|| UdpSocket::bind((ADDRESS, 53)).expect("the port of DNS"));
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a timeout");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("resolv.conf");
        let text = format!("nameserver {ADDRESS}\noptions timeout:1 attempts:1\n");
        std::fs::write(&file, text).expect("a file");
        process::run(
            Command::new("mount")
                .arg("--bind")
                .arg(&file)
                .arg(covered()),
        );
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serving.serve(&socket, address));
        Self {
            shared,
            thread: Some(thread),
            folder,
        }
    }

    /// Whether it knows the name from now on.
    pub fn knows(&self, knows: bool) {
        self.shared.knows.store(knows, Ordering::Relaxed);
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// The folder of its file, which stays as long as it does.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let _ = process::output(Command::new("umount").arg(covered()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is covered: the file itself where /etc/resolv.conf is a link to it.
fn covered() -> PathBuf {
    let file = PathBuf::from("/etc/resolv.conf");
    std::fs::canonicalize(&file).unwrap_or(file)
}

impl Shared {
    fn serve(&self, socket: &UdpSocket, address: [u8; 4]) {
        let mut query = [0; 512];
        while !self.over.load(Ordering::Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut query) else {
                continue;
            };
            self.asked.fetch_add(1, Ordering::Relaxed);
            let known = self.knows.load(Ordering::Relaxed).then_some(address);
            if let Some(reply) = reply(&query[..length], known) {
                let _ = socket.send_to(&reply, from);
            }
        }
    }
}

/// The reply to a query of one question; `None` when it is none.
fn reply(query: &[u8], known: Option<[u8; 4]>) -> Option<Vec<u8>> {
    let (name, end) = question(query)?;
    let asks_for_ipv4 = query.get(end - 4..end - 2)? == [0, 1];
    let known = known.filter(|_| name == NAME);
    let address = known.filter(|_| asks_for_ipv4);
    let code = if known.is_some() { 0 } else { NO_SUCH_NAME };
    let mut reply = query[..2].to_vec();
    for field in [ANSWER | code, 1, u16::from(address.is_some()), 0, 0] {
        reply.extend(field.to_be_bytes());
    }
    reply.extend(&query[HEADER..end]);
    if let Some(address) = address {
        // The question's name, A, IN, for a second.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        reply.extend(address);
    }
    Some(reply)
}

/// The name asked for, in lower case, and where the question ends.
fn question(query: &[u8]) -> Option<(String, usize)> {
    let mut at = HEADER;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    (query.len() >= at + 4).then(|| (labels.join("."), at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_known_and_only_once_it_is_told() {
        let mut query = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in ["office", "EXAMPLE", "net"] {
            query.push(label.len() as u8);
            query.extend(label.bytes());
        }
        query.extend([0, 0, 1, 0, 1]);
        let answer = reply(&query, Some([203, 0, 113, 7])).unwrap();
        assert_eq!(answer[..8], [7, 7, 0x81, 0x80, 0, 1, 0, 1]);
        assert!(answer.ends_with(&[0, 4, 203, 0, 113, 7]));
        assert_eq!(reply(&query, None).unwrap()[3] & 15, 3);
        assert_eq!(reply(&query[..20], None), None);
    }
}

//! The configuration file of a daemon under test.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::daemon::Daemon;
use crate::link::Link;

/// A private key and the public key that belongs to it.
type KeyPair = (&'static str, &'static str);

/// The keys of RFC 7748 section 6.1, which are no secret: Alice's for A, Bob's for B.
const KEY_PAIRS: [KeyPair; 2] = [
    (
        "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=",
        "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
    ),
    (
        "XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os=",
        "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=",
    ),
];
/// Somebody else's.
const STRANGER: KeyPair = (
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8=",
);

/// Which keys a test's two ends have.
#[derive(Debug, Clone, Copy, Default)]
enum Keys {
    /// None, or those of RFC 7748 where `MPT_TEST_SEALED` asks for it.
    #[default]
    AsAllTests,
    None,
    Of([KeyPair; 2]),
}

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first host; the client in the traffic tests.
    A,
    /// The second host; the server.
    B,
}

impl Side {
    /// Its address inside the tunnel, IPv4.
    #[must_use]
    pub fn inner_v4(self) -> &'static str {
        match self {
            Self::A => "10.99.0.1",
            Self::B => "10.99.0.2",
        }
    }

    /// Its address inside the tunnel, IPv6.
    #[must_use]
    pub fn inner_v6(self) -> &'static str {
        match self {
            Self::A => "fd99::1",
            Self::B => "fd99::2",
        }
    }
}

/// What a test wants in both ends' configuration; what it leaves out has the daemon's default.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    tunnel: String,
    reorder: String,
    recovery: String,
    keys: Keys,
    weights: Vec<u32>,
    path: String,
    port: Option<u16>,
}

impl Settings {
    /// Defaults everywhere.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Weights of the paths, in their order.
    #[must_use]
    pub fn weights(mut self, weights: &[u32]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// This port in each path's `local`. Without one it is the default, and a sealed path takes any other where that is in use.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Reorder window in packets and longest hold in milliseconds.
    #[must_use]
    pub fn reorder(mut self, window: u32, max_buffer_delay_ms: u32) -> Self {
        let _ = write!(
            self.reorder,
            "window = {window}\nmax_buffer_delay = \"{max_buffer_delay_ms}ms\"\n"
        );
        self
    }

    /// Further lines for `[reorder]`.
    #[must_use]
    pub fn reorder_lines(mut self, lines: &str) -> Self {
        let _ = writeln!(self.reorder, "{lines}");
        self
    }

    /// Lines for `[recovery]`.
    #[must_use]
    pub fn recovery(mut self, lines: &str) -> Self {
        let _ = writeln!(self.recovery, "{lines}");
        self
    }

    /// Keys for both ends, so that the tunnel is sealed.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.keys = Keys::Of(KEY_PAIRS);
        self
    }

    /// No keys, where the other end or the wire is what is tested: also when all tests get some.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.keys = Keys::None;
        self
    }

    /// Other keys at `side` than those that the other end knows.
    #[must_use]
    pub fn strange_keys(mut self, side: Side) -> Self {
        let mut pairs = KEY_PAIRS;
        pairs[side as usize] = STRANGER;
        self.keys = Keys::Of(pairs);
        self
    }

    /// Further lines for `[tunnel]`.
    #[must_use]
    pub fn tunnel(mut self, lines: &str) -> Self {
        let _ = writeln!(self.tunnel, "{lines}");
        self
    }

    /// Further lines for each `[[paths]]`.
    #[must_use]
    pub fn path(mut self, lines: &str) -> Self {
        let _ = writeln!(self.path, "{lines}");
        self
    }

    /// The file for one end: tunnel `name` over `links`, its control socket at `socket`. Keys are written
    /// beside the socket.
    ///
    /// # Panics
    /// When they cannot be written.
    #[must_use]
    pub fn toml(&self, side: Side, name: &str, links: &[&Link], socket: &str) -> String {
        let (v4, v6) = (side.inner_v4(), side.inner_v6());
        let mut text = format!(
            "[tunnel]\nname = \"{name}\"\naddresses = [\"{v4}/30\", \"{v6}/64\"]\n{}",
            self.tunnel
        );
        if let Some(offload) = back_end()
            && !self.tunnel.contains("offload")
        {
            let _ = writeln!(text, "offload = \"{offload}\"");
        }
        if !self.reorder.is_empty() {
            let _ = write!(text, "\n[reorder]\n{}", self.reorder);
        }
        if !self.recovery.is_empty() {
            let _ = write!(text, "\n[recovery]\n{}", self.recovery);
        }
        let has_folder = Path::new(socket).parent().is_some_and(Path::exists);
        let pairs = match self.keys {
            Keys::AsAllTests => {
                ((all_sealed() || far_end_is_hub()) && has_folder).then_some(KEY_PAIRS)
            }
            Keys::None => None,
            Keys::Of(pairs) => Some(pairs),
        };
        let pairs = pairs.filter(|_| !self.tunnel.contains("key ="));
        if let Some(pairs) = pairs {
            text += &crypto_section(pairs[side as usize].0, side, socket);
        }
        let is_hub = pairs.is_some() && side == Side::B && far_end_is_hub();
        let _ = write!(text, "\n[control]\nsocket = \"{socket}\"\n");
        if is_hub {
            return self.as_hub(&text, links);
        }
        for (index, link) in links.iter().enumerate() {
            let (local, remote) = match side {
                Side::A => (&link.address_a, &link.address_b),
                Side::B => (&link.address_b, &link.address_a),
            };
            let local = self.with_port(local);
            let _ = write!(
                text,
                "\n[[paths]]\nname = \"{}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\n{}",
                link.device, self.path
            );
            if let Some(weight) = self.weights.get(index) {
                let _ = writeln!(text, "weight = {weight}");
            }
        }
        text
    }
}

impl Settings {
    /// What a path's `local` is to be.
    fn with_port(&self, address: &str) -> String {
        match self.port {
            None => address.to_owned(),
            Some(port) => format!("{address}:{port}"),
        }
    }

    /// The same end as a hub whose one peer may be anything.
    fn as_hub(&self, text: &str, links: &[&Link]) -> String {
        let named = "peer_public_key = ";
        let (key, rest): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with(named));
        let mut text = rest.join("\n") + "\n";
        for link in links {
            let _ = write!(
                text,
                "\n[[paths]]\nname = \"{}\"\nlocal = \"{}\"\n{}",
                link.device,
                self.with_port(&link.address_b),
                self.path
            );
        }
        let key = key[0].replace(named, "public_key = ");
        text + &format!(
            "\n[[peers]]\nname = \"{PEER}\"\n{key}\nallowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n"
        )
    }
}

/// What the one peer of a far end is called that is a hub.
pub(crate) const PEER: &str = "peer";

/// Whether the second host's end of sealed tunnels is a hub with one peer: `MPT_TEST_HUB=1`.
#[must_use]
pub fn far_end_is_hub() -> bool {
    std::env::var_os("MPT_TEST_HUB").is_some_and(|value| value == "1")
}

/// How many workers a hub is to have, where a test or a measurement does not say it itself: `MPT_TEST_HUB_WORKERS`.
#[must_use]
pub fn hub_workers() -> Option<String> {
    std::env::var("MPT_TEST_HUB_WORKERS").ok()
}

/// The line of `[tunnel]` for so many; none where nothing says how many.
#[must_use]
pub fn workers_line(workers: Option<&str>) -> String {
    workers.map_or_else(String::new, |workers| format!("workers = {workers}\n"))
}

/// `[crypto]` for one end, with keys that everybody knows; its own is written beside the socket.
///
/// # Panics
/// When it cannot be written.
#[must_use]
pub fn keys(side: Side, socket: &str) -> String {
    crypto_section(KEY_PAIRS[side as usize].0, side, socket)
}

/// Gives a daemon somebody else's private key, from its next start on; its own comes back with
/// [`return_key`].
///
/// # Panics
/// When it cannot be written.
pub fn take_key(daemon: &Daemon) {
    write_secret(&private_key_file(daemon), STRANGER.0);
}

/// Gives a daemon its own private key back, from its next start on.
///
/// # Panics
/// When it cannot be written.
pub fn return_key(daemon: &Daemon, side: Side) {
    write_secret(&private_key_file(daemon), KEY_PAIRS[side as usize].0);
}

/// The public key that nobody has told the other end.
#[must_use]
pub fn stranger() -> &'static str {
    STRANGER.1
}

/// The public key of one end.
#[must_use]
pub fn public_key(side: Side) -> &'static str {
    KEY_PAIRS[side as usize].1
}

fn private_key_file(daemon: &Daemon) -> PathBuf {
    daemon.socket().with_file_name("private.key")
}

fn crypto_section(private: &str, side: Side, socket: &str) -> String {
    let file = Path::new(socket).with_file_name("private.key");
    write_secret(&file, private);
    let peer = KEY_PAIRS[1 - side as usize].1;
    format!(
        "\n[crypto]\nprivate_key_file = \"{}\"\npeer_public_key = \"{peer}\"\n",
        file.display()
    )
}

fn write_secret(file: &Path, secret: &str) {
    let mut options = OpenOptions::new();
    let mut opened = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .expect("a file for a key");
    opened.write_all(secret.as_bytes()).expect("a key's file");
}

/// Whether tests that do not ask for keys get some: `MPT_TEST_SEALED=1`.
fn all_sealed() -> bool {
    std::env::var_os("MPT_TEST_SEALED").is_some_and(|value| value == "1")
}

/// The TUN's back end for tests that do not ask for one: `MPT_TEST_OFFLOAD`, which `./test` sets to
/// run each test with either.
fn back_end() -> Option<String> {
    std::env::var("MPT_TEST_OFFLOAD").ok()
}

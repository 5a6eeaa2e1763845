//! What both ends' files say, and what is said of them.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mpt_core::crypto::PublicKey;

use super::network::Network;
use super::server::ServerAt;
use super::{CONFIG_DIR, End, Made, NewCommand};

/// A tunnel between a client and a server.
#[derive(Debug)]
pub(super) struct Ends {
    /// Which of them this host is.
    pub(super) here: End,
    /// The tunnel's name.
    pub(super) name: String,
    pub(super) server: ServerAt,
    /// Each path's name, and the client's device.
    pub(super) paths: Vec<(String, String)>,
    /// The devices were not given, but found here.
    pub(super) uplinks_found: bool,
    /// The server's port of the first path.
    pub(super) port: u16,
    /// The networks inside; there is one at least.
    pub(super) inner: Vec<Network>,
}

impl Ends {
    /// The file of one end.
    pub(super) fn file(&self, end: End, peer: &PublicKey) -> String {
        let name = &self.name;
        let addresses: Vec<String> = self
            .inner
            .iter()
            .map(|network| format!("\"{}\"", network.shown(end.number())))
            .collect();
        let (this, other) = match end {
            End::Client => (
                "The client",
                format!("the server is {}", self.server.called),
            ),
            End::Server => ("The server", "the client may be anywhere".to_owned()),
        };
        let mut text = format!(
            "# {this} of a sealed tunnel; {other}.\n\
             [tunnel]\n\
             name = \"{name}\"\n\
             addresses = [{}]\n\
             # routes = []                   # what else is reached through the tunnel\n\
             \n\
             [crypto]\n\
             private_key_file = \"{name}.key\"   # beside this file\n\
             peer_public_key = \"{peer}\"\n",
            addresses.join(", ")
        );
        for (number, (path, device)) in (0_u16..).zip(&self.paths) {
            let port = self.port + number;
            let _ = write!(text, "\n[[paths]]\nname = \"{path}\"\n");
            let _ = match end {
                End::Client => self.client_path(&mut text, device, port),
                End::Server => self.server_path(&mut text, port),
            };
        }
        text
    }

    fn client_path(&self, text: &mut String, device: &str, port: u16) -> std::fmt::Result {
        writeln!(
            text,
            "interface = \"{device}\"   # with whatever address it has"
        )?;
        writeln!(text, "remote = \"{}:{port}\"", self.server.called)
    }

    fn server_path(&self, text: &mut String, port: u16) -> std::fmt::Result {
        if let Some(device) = &self.server.interface {
            writeln!(text, "interface = \"{device}\"")?;
        }
        let local = SocketAddr::new(self.server.local, port);
        writeln!(text, "local = \"{local}\"")
    }

    /// What was made, and what to do now.
    pub(super) fn told(&self, made: &Made, command: &NewCommand) -> String {
        let here = self.here;
        let there = here.other();
        let mut text = format!(
            "Tunnel {}, sealed with fresh keys: {} here, the {}.\n\n",
            self.name,
            self.address_of(here),
            here.name()
        );
        let _ = match self.uplinks_found {
            true => writeln!(
                text,
                "A path for each device with a default route here: {}. For others give\n\
                 --client-interfaces.\n",
                self.devices()
            ),
            false => Ok(()),
        };
        let guessed = command.here.is_none() && here == End::Client;
        text += &self
            .server
            .decided(guessed.then_some("is taken for the client"));
        let width = |file: &PathBuf| file.display().to_string().chars().count();
        let width = made.here.iter().chain(&made.there).map(width).max();
        let width = width.unwrap_or(0);
        for (end, files) in [(here, &made.here), (there, &made.there)] {
            for file in files {
                let file = file.display().to_string();
                let _ = writeln!(text, "  {file:<width$}  for the {}", end.name());
            }
        }
        let _ = write!(
            text,
            "\nCopy, where mpt-tund is installed at both ends:\n\n"
        );
        for command in &made.copy {
            let _ = writeln!(text, "  {command}");
        }
        let _ = write!(
            text,
            "\nStart, at both ends:\n\n  {}\n\n\
             `ping {}` goes through the tunnel then, and `sudo mpt-ctl status` says how it does.\n\
             The server's firewall has to let in UDP {}. Remove the folder\n\
             {} when it is copied: it holds the {}'s private key.\n",
            made.start,
            self.address_of(there),
            self.ports(),
            command.out.join(there.name()).display(),
            there.name()
        );
        if command.out != Path::new(CONFIG_DIR) {
            let _ = writeln!(
                text,
                "mpt-tund looks in {CONFIG_DIR}; `mpt-tund --config {}` runs it from here.",
                made.here[0].display()
            );
        }
        text
    }

    fn address_of(&self, end: End) -> IpAddr {
        self.inner[0].address(end.number())
    }

    fn devices(&self) -> String {
        let devices: Vec<&str> = self
            .paths
            .iter()
            .map(|(_, device)| device.as_str())
            .collect();
        devices.join(", ")
    }

    fn ports(&self) -> String {
        match self.paths.len() {
            1 => self.port.to_string(),
            count => format!("{} to {}", self.port, usize::from(self.port) + count - 1),
        }
    }
}

//! `mpt-ctl new --clients N`: a hub's file, and one for each client, with keys.
//!
//! All clients call at one address and port, by each of their uplinks. Their names are numbers, their addresses those
//! behind the hub's in each network inside; who wants others changes the files before they are copied.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mpt_core::crypto::{PrivateKey, PublicKey};
use mpt_core::path::MAX_PATHS;
use zeroize::Zeroizing;

use super::beside::{self, Neighbour};
use super::network::Network;
use super::server::ServerAt;
use super::{
    CONFIG_DIR, End, File, Made, NewCommand, NewError, host, listed, private_key, write_all,
};

/// Mode of all files: a key is in each folder, and who the peers are is nobody else's affair.
const MODE: u32 = 0o600;
/// What a client's uplink is called where nothing is known of it.
const LIKELY_DEVICE: &str = "eth0";

/// All that the files say.
struct Plan<'a> {
    command: &'a NewCommand,
    server: ServerAt,
    /// This host is the hub.
    is_here: bool,
    networks: Vec<Network>,
    /// Each path's name, and the client's device.
    paths: Vec<(String, String)>,
    /// The devices are nothing but likely.
    guessed: bool,
    clients: u32,
}

/// Makes the files.
pub(super) fn run(command: &NewCommand, clients: u32) -> Result<Made, NewError> {
    let plan = Plan::new(command, clients)?;
    plan.check_beside()?;
    let hub_key = private_key()?;
    let mut peers = String::new();
    let mut files = Vec::new();
    for number in 1..=clients {
        let key = private_key()?;
        let name = plan.name(number);
        let addresses = plan.quoted(number, Network::whole);
        let public_key = key.public_key();
        let _ = write!(
            peers,
            "\n[[peers]]\nname = \"{name}\"\npublic_key = \"{public_key}\"\nallowed_ips = [{addresses}]\n"
        );
        let text = plan.client_file(number, &hub_key.public_key());
        files.extend(plan.files_in(&plan.clients_folder().join(&name), text, &key));
    }
    let hub = plan.files_in(&plan.hub_folder(), plan.hub_file() + &peers, &hub_key);
    let paths =
        |files: &[File]| -> Vec<PathBuf> { files.iter().map(|file| file.path.clone()).collect() };
    let (of_hub, of_clients) = (paths(&hub), paths(&files));
    let copy = plan.copying(&hub, &files);
    files.extend(hub);
    let out_mode = if plan.is_here { 0o755 } else { 0o700 };
    let mut folders = vec![(plan.hub_folder(), out_mode)];
    folders.extend((1..=clients).map(|number| {
        let folder = plan.clients_folder().join(plan.name(number));
        (folder, 0o700)
    }));
    write_all(&files, &folders)?;
    let (here, there) = match plan.is_here {
        true => (of_hub, of_clients),
        false => (Vec::new(), [of_hub, of_clients].concat()),
    };
    let mut made = Made {
        here,
        there,
        copy,
        start: "sudo systemctl enable --now mpt".to_owned(),
        text: String::new(),
    };
    made.text = plan.told(&made);
    Ok(made)
}

impl<'a> Plan<'a> {
    fn new(command: &'a NewCommand, clients: u32) -> Result<Plan<'a>, NewError> {
        if command.here == Some(End::Client) {
            return Err(NewError::Wrong(
                "--here client: with --clients this host is the hub (--here server), or neither"
                    .to_owned(),
            ));
        }
        let server = command.server_at()?;
        let is_here = command.here == Some(End::Server) || server.is_here();
        let mut devices = command.client_interfaces.clone();
        let guessed = devices.is_empty();
        if guessed && !is_here {
            devices = host::uplinks(server.address.is_ipv6());
            devices.truncate(MAX_PATHS);
        }
        if devices.is_empty() {
            devices.push(LIKELY_DEVICE.to_owned());
        }
        let inner: Vec<&str> = match &command.inner[..] {
            [] => vec!["10.99.0.0/16"],
            given => given.iter().map(String::as_str).collect(),
        };
        let mut networks: Vec<Network> = Vec::new();
        for text in inner {
            let network = Network::parse(text).ok_or_else(|| {
                let example = "such as 10.99.0.0/16 or fd00:99::/64";
                NewError::Wrong(format!("--inner {text}: give a network, {example}"))
            })?;
            network.check_hosts(text).map_err(NewError::Wrong)?;
            network.check_room(text, clients)?;
            network.check_outside(&server)?;
            network
                .check_apart(text, &networks)
                .map_err(NewError::Wrong)?;
            networks.push(network);
        }
        Ok(Plan {
            paths: command.paths(devices)?,
            command,
            server,
            is_here,
            networks,
            guessed,
            clients,
        })
    }

    /// Nothing is taken that the tunnels beside the hub's and the clients' files have.
    fn check_beside(&self) -> Result<(), NewError> {
        let name = &self.command.name;
        let beside = Neighbour::all(&self.hub_folder(), name);
        beside::check_networks(&self.networks, &beside)?;
        beside::check_ports(&self.server, self.command.port, 1, (&beside, End::Server))?;
        (1..=self.clients).try_for_each(|number| {
            let folder = self.clients_folder().join(self.name(number));
            beside::check_networks(&self.networks, &Neighbour::all(&folder, name))
        })
    }

    /// "client-07", all as long as the last.
    fn name(&self, number: u32) -> String {
        let width = self.clients.to_string().len().max(2);
        format!("client-{number:0width$}")
    }

    fn hub_folder(&self) -> PathBuf {
        match self.is_here {
            true => self.command.out.clone(),
            false => self.command.out.join(End::Server.name()),
        }
    }

    fn clients_folder(&self) -> PathBuf {
        self.command.out.join("clients")
    }

    fn files_in(&self, folder: &Path, text: String, key: &PrivateKey) -> [File; 2] {
        let name = &self.command.name;
        let file = |end: &str, text| File {
            path: folder.join(format!("{name}.{end}")),
            text: Zeroizing::new(text),
            mode: MODE,
        };
        let key = format!("{}\n", *key.to_base64());
        [file("toml", text), file("key", key)]
    }

    /// The addresses of the hub (0) or of a client in all networks, as a list shows them.
    fn quoted(&self, number: u32, show: fn(&Network, u32) -> String) -> String {
        let shown = self.networks.iter().map(|network| show(network, number));
        let shown: Vec<String> = shown.map(|one| format!("\"{one}\"")).collect();
        shown.join(", ")
    }

    fn hub_file(&self) -> String {
        let (name, count) = (&self.command.name, self.clients);
        let addresses = self.quoted(0, Network::shown);
        let mut text = format!(
            "# A hub of {count} clients, who may be anywhere.\n\
             [tunnel]\n\
             name = \"{name}\"\n\
             addresses = [{addresses}]\n\
             # peers_dir = \"peers.d\"         # one file a peer, for those who come later\n\
             \n\
             [crypto]\n\
             private_key_file = \"{name}.key\"   # beside this file\n\
             \n\
             [[paths]]                       # where clients call, by all of their paths\n\
             name = \"isp1\"\n"
        );
        if let Some(device) = &self.server.interface {
            let _ = writeln!(text, "interface = \"{device}\"");
        }
        let local = SocketAddr::new(self.server.local, self.command.port);
        text + &format!("local = \"{local}\"\n")
    }

    fn client_file(&self, number: u32, hub: &PublicKey) -> String {
        let (name, own) = (&self.command.name, self.name(number));
        let (server, port) = (&self.server.called, self.command.port);
        let addresses = self.quoted(number, Network::shown);
        let mut text = format!(
            "# {own} of the hub {server}.\n\
             [tunnel]\n\
             name = \"{name}\"\n\
             addresses = [{addresses}]\n\
             # routes = [\"0.0.0.0/0\"]        # what else is reached through the hub\n\
             \n\
             [crypto]\n\
             private_key_file = \"{name}.key\"   # beside this file\n\
             peer_public_key = \"{hub}\"\n"
        );
        for (path, device) in &self.paths {
            let _ = write!(
                text,
                "\n[[paths]]\n\
                 name = \"{path}\"\n\
                 interface = \"{device}\"   # with whatever address it has\n\
                 remote = \"{server}:{port}\"\n"
            );
        }
        text
    }

    /// The commands that bring the files to where they belong.
    fn copying(&self, of_hub: &[File], of_clients: &[File]) -> Vec<String> {
        let in_place = self.command.out == Path::new(CONFIG_DIR);
        let sudo = if in_place { "sudo " } else { "" };
        let hub = listed(of_hub);
        let hub = match self.is_here {
            true if in_place => None,
            true => Some(format!("sudo cp -p {hub} {CONFIG_DIR}/")),
            false => Some(format!(
                "{sudo}scp -p {hub} root@{}:{CONFIG_DIR}/",
                self.server.called
            )),
        };
        let client = |(number, files): (u32, &[File])| {
            let host = self.name(number).to_uppercase();
            format!("{sudo}scp -p {} root@{host}:{CONFIG_DIR}/", listed(files))
        };
        let clients = (1..).zip(of_clients.chunks(2)).map(client);
        hub.into_iter().chain(clients).collect()
    }

    /// What was made, and what to do now.
    fn told(&self, made: &Made) -> String {
        let (name, count, out) = (&self.command.name, self.clients, &self.command.out);
        let of = |number: u32| self.networks[0].address(number);
        let mut text = format!(
            "Hub {name} and {}, sealed with fresh keys: {} is the hub,\n{} the first client and {} the last.\n\n",
            match count {
                1 => "1 client".to_owned(),
                count => format!("{count} clients"),
            },
            of(0),
            of(1),
            of(count)
        );
        if self.guessed {
            let devices: Vec<&str> = self.paths.iter().map(|(_, device)| &**device).collect();
            let _ = writeln!(
                text,
                "Nothing is known of the clients' uplinks: they are taken to be {}. Change `interface`\n\
                 in their files, or give --client-interfaces.\n",
                devices.join(", ")
            );
        }
        let guessed = self.command.here.is_none() && !self.is_here;
        text += &self
            .server
            .decided(guessed.then_some("is not taken for the hub"));
        let hub = self.hub_folder().join(name);
        let client = |number| self.clients_folder().join(self.name(number)).join(name);
        let _ = writeln!(text, "  {0}.toml, {0}.key  for the hub", hub.display());
        let _ = writeln!(text, "  {0}.toml, {0}.key", client(1).display());
        if count > 1 {
            let _ = writeln!(text, "  … {0}.toml, {0}.key", client(count).display());
        }
        text += "\nCopy, where mpt-tund is installed at all ends:\n\n";
        let first = made.copy.len() - count as usize + 1;
        for command in &made.copy[..first] {
            let _ = writeln!(text, "  {command}");
        }
        if count > 1 {
            let _ = writeln!(
                text,
                "  … and so on, to {}; --json lists all commands",
                self.name(count)
            );
        }
        let _ = write!(
            text,
            "\nStart, at all ends and in any order:\n\n  {}\n\n\
             `sudo mpt-ctl peers` at the hub shows who is there; `ping {}` at a client goes through the tunnel.\n\
             The hub's firewall has to let in UDP {}. Remove the {}\n",
            made.start,
            of(0),
            self.command.port,
            match self.is_here {
                true => format!(
                    "folder\n{} when it is copied: it holds the clients' private keys.",
                    self.clients_folder().display()
                ),
                false => format!(
                    "folders\n{} and {} when they are copied: they hold the hub's\n\
                     and the clients' private keys.",
                    self.hub_folder().display(),
                    self.clients_folder().display()
                ),
            }
        );
        if self.is_here && *out != Path::new(CONFIG_DIR) {
            let _ = writeln!(
                text,
                "mpt-tund looks in {CONFIG_DIR}; `mpt-tund --config {}.toml` runs the hub from here.",
                hub.display()
            );
        }
        text
    }
}

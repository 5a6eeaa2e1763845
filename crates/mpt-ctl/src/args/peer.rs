//! `peer show`, `add`, `set` and `remove`.

use std::io::Read as _;

use clap::Subcommand;
use mpt_core::control::units::rate_of;
use mpt_core::control::{Request, Secret};
use mpt_core::crypto::{PresharedKey, PublicKey};
use mpt_core::limits::RATE_LIMITS;
use mpt_core::wire::name::PathName;

use super::{key_value, set_once, unknown_key};

#[derive(Debug, Subcommand)]
pub(super) enum PeerCommand {
    /// Show a peer's paths, the order of its packets, what was sent again and what was dropped
    Show {
        /// The peer's name in the configuration
        name: String,
    },
    /// Let another peer call, until the next reload: public_key=KEY allowed_ips=PREFIX,…
    Add {
        /// A name for the peer
        name: String,
        /// public_key=KEY: what `mpt-ctl pubkey` prints at the peer;
        /// allowed_ips=PREFIX,…: its addresses inside the tunnel;
        /// psk_file=FILE: a secret that it has, too, by `mpt-ctl genpsk`;
        /// rate_limit=RATE: most that it may send, and be sent, such as "100 Mbit/s"
        #[arg(required = true, value_name = "KEY=VALUE", verbatim_doc_comment)]
        settings: Vec<String>,
    },
    /// Change a peer, until the next reload: public_key=KEY, allowed_ips=PREFIX,…,
    /// psk_file=FILE|none, rate_limit=RATE|none
    Set {
        /// The peer's name in the configuration
        name: String,
        /// As for `peer add`; what is not named stays as it is
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Take a peer away, until the next reload
    Remove {
        /// The peer's name in the configuration
        name: String,
    },
}

/// Settings of a peer.
#[derive(Default)]
struct Settings {
    public_key: Option<String>,
    allowed_ips: Option<Vec<String>>,
    psk: Option<Secret>,
    rate_limit: Option<String>,
}

impl Settings {
    /// Those that the words give.
    fn of(words: &[String]) -> Result<Settings, String> {
        let mut this = Settings::default();
        for (key, value) in words.iter().map(|word| key_value(word)) {
            match key {
                "public_key" => set_once(&mut this.public_key, key, public_key(value)?)?,
                "allowed_ips" => set_once(&mut this.allowed_ips, key, prefixes(value)?)?,
                "psk_file" => set_once(&mut this.psk, key, psk(value)?)?,
                "rate_limit" => set_once(&mut this.rate_limit, key, rate(value)?)?,
                _ => {
                    let known =
                        "public_key=KEY, allowed_ips=PREFIX,…, psk_file=FILE, rate_limit=RATE";
                    return Err(unknown_key(key, known));
                }
            }
        }
        Ok(this)
    }
}

fn public_key(value: &str) -> Result<String, String> {
    match PublicKey::from_base64(value) {
        Ok(_) => Ok(value.to_owned()),
        Err(error) => Err(format!(
            "public_key={value}: {error}; give what `mpt-ctl pubkey < private.key` prints at the peer"
        )),
    }
}

fn prefixes(value: &str) -> Result<Vec<String>, String> {
    let each = value.split(',').map(|one| one.trim().to_owned());
    let all: Vec<String> = each.filter(|one| !one.is_empty()).collect();
    match all.is_empty() {
        true => Err(
            "allowed_ips=: give the peer's addresses inside the tunnel, like 10.99.0.2/32".into(),
        ),
        false => Ok(all),
    }
}

/// The key in a file, which stays out of the command line.
fn psk(file: &str) -> Result<Secret, String> {
    if file == "none" {
        return Ok(Secret("none".to_owned()));
    }
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    // A key has 44 characters.
    opened
        .and_then(|opened| opened.take(4096).read_to_string(&mut text))
        .map_err(|error| format!("psk_file={file}: it cannot be read: {error}"))?;
    match PresharedKey::from_base64(&text) {
        Ok(_) => Ok(Secret(text.trim().to_owned())),
        Err(error) => Err(format!(
            "psk_file={file}: it holds no key: {error}; `mpt-ctl genpsk` makes one"
        )),
    }
}

fn rate(value: &str) -> Result<String, String> {
    let is_right = |rate: &u64| RATE_LIMITS.contains(rate);
    match value == "none" || rate_of(value).as_ref().is_some_and(is_right) {
        true => Ok(value.to_owned()),
        false => Err(format!(
            "rate_limit={value}: give a rate with its unit, such as \"100 Mbit/s\", from 8 kbit/s to 100 Gbit/s, or none"
        )),
    }
}

fn peer_name(name: &str) -> Result<String, String> {
    match PathName::new(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!(
            "{name:?} is no name: use 1 to 32 letters, digits, '-', '_' or '.', a letter or digit first"
        )),
    }
}

impl PeerCommand {
    /// What is to be asked.
    pub(super) fn request(&self) -> Result<Request, String> {
        Ok(match self {
            PeerCommand::Show { name } => Request::PeerShow { name: name.clone() },
            PeerCommand::Add { name, settings } => {
                let name = peer_name(name)?;
                let settings = Settings::of(settings)?;
                let missing =
                    |what: &str| format!("{what} is missing: a peer has a key and addresses");
                Request::PeerAdd {
                    name,
                    public_key: settings
                        .public_key
                        .ok_or_else(|| missing("public_key=KEY"))?,
                    allowed_ips: settings
                        .allowed_ips
                        .ok_or_else(|| missing("allowed_ips=PREFIX,…"))?,
                    psk: settings.psk,
                    rate_limit: settings.rate_limit,
                }
            }
            PeerCommand::Set { name, settings } => {
                let settings = Settings::of(settings)?;
                Request::PeerSet {
                    name: name.clone(),
                    public_key: settings.public_key,
                    allowed_ips: settings.allowed_ips,
                    psk: settings.psk,
                    rate_limit: settings.rate_limit,
                }
            }
            PeerCommand::Remove { name } => Request::PeerRemove { name: name.clone() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "public_key=hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";

    fn add(words: &[&str]) -> Result<Request, String> {
        let settings = words.iter().map(|&word| word.to_owned()).collect();
        let name = "dave".to_owned();
        PeerCommand::Add { name, settings }.request()
    }

    #[test]
    fn a_peer_is_added_with_all_of_its_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("psk");
        std::fs::write(&file, "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\n").unwrap();
        let psk_file = format!("psk_file={}", file.display());
        let asked = add(&[
            KEY,
            "allowed_ips=10.99.0.5/32, fd99::5/128",
            &psk_file,
            "rate_limit=10 Mbit/s",
        ]);
        let Ok(Request::PeerAdd {
            name,
            allowed_ips,
            psk,
            rate_limit,
            ..
        }) = asked
        else {
            panic!("{asked:?}");
        };
        assert_eq!((&*name, rate_limit.as_deref()), ("dave", Some("10 Mbit/s")));
        assert_eq!(allowed_ips, ["10.99.0.5/32", "fd99::5/128"]);
        assert_eq!(
            psk.unwrap().0,
            "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
        );
    }

    #[test]
    fn what_a_peer_lacks_or_has_wrong_is_said() {
        let told = [
            vec![],
            vec![KEY],
            vec!["allowed_ips=10.99.0.5/32"],
            vec!["public_key=x"],
            vec![KEY, "allowed_ips="],
            vec![KEY, "allowed_ips=10.99.0.5/32", "rate_limit=fast"],
            vec![KEY, "psk_file=/nowhere/psk"],
            vec![KEY, "weight=3"],
            vec![KEY, KEY],
        ]
        .map(|words| add(&words).unwrap_err());
        insta::assert_snapshot!(told.join("\n"), @r#"
        public_key=KEY is missing: a peer has a key and addresses
        allowed_ips=PREFIX,… is missing: a peer has a key and addresses
        public_key=KEY is missing: a peer has a key and addresses
        public_key=x: a key has 44 characters of base64, and this has 1; give what `mpt-ctl pubkey < private.key` prints at the peer
        allowed_ips=: give the peer's addresses inside the tunnel, like 10.99.0.2/32
        rate_limit=fast: give a rate with its unit, such as "100 Mbit/s", from 8 kbit/s to 100 Gbit/s, or none
        psk_file=/nowhere/psk: it cannot be read: No such file or directory (os error 2)
        unknown setting "weight"; known here: public_key=KEY, allowed_ips=PREFIX,…, psk_file=FILE, rate_limit=RATE
        public_key is given twice
        "#);
    }
}

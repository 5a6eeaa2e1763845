//! Whom a measurement is sent to: what the command line names, and the address that this is.
//!
//! The form is checked while the command line is read. A name is looked up when the measurement begins: that
//! the network has no answer is no fault of the command line.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The longest name that the domain name system has, and the longest part of one, in bytes (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A host, and perhaps a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    host: Host,
    /// The port, where one is given.
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// Its port is the one given, or 0.
    Address(SocketAddr),
    Name(String),
}

/// Why a name is no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAddress {
    #[error(
        "cannot look up {name}: {source}. Check the name and this host's name servers, or give an address"
    )]
    Unknown { name: String, source: io::Error },
    #[error("{name} has no address of the family of --from {from}: leave --from out, or give one")]
    OtherFamily { name: String, from: IpAddr },
    #[error("{name} has no address: give one")]
    None { name: String },
}

impl Target {
    /// Reads an address or name, with or without a port; an IPv6 address with one stands in brackets. `port` is
    /// the one that the example in an error names.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub(crate) fn parse(text: &str, port: u16) -> Result<Target, String> {
        let plain = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = plain.parse::<IpAddr>() {
            return Ok(Target {
                host: Host::Address(SocketAddr::new(address, 0)),
                port: None,
            });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Target {
                host: Host::Address(address),
                port: Some(address.port()),
            });
        }
        let wrong = |what: String| {
            format!(
                "{what}; give an address or name, with a port such as 192.0.2.1:{port} or [2001:db8::1]:{port}"
            )
        };
        let (name, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((name, digits)) => {
                let port = digits
                    .parse()
                    .map_err(|_| wrong(format!("\"{digits}\" is no port, a number up to 65535")))?;
                (name, Some(port))
            }
        };
        if !is_name(name) {
            return Err(wrong(format!(
                "\"{name}\" is neither an address nor a name"
            )));
        }
        Ok(Target {
            host: Host::Name(name.into()),
            port,
        })
    }

    /// Whether it is an IPv6 address; `None` of a name, which may be either.
    pub(crate) fn is_ipv6(&self) -> Option<bool> {
        match &self.host {
            Host::Address(address) => Some(address.is_ipv6()),
            Host::Name(_) => None,
        }
    }

    /// Its address, with `port` where none is given; of a name the first that can be sent to from `from`. That may
    /// take as long as the name servers do.
    pub(crate) fn resolve(&self, port: u16, from: Option<IpAddr>) -> Result<SocketAddr, NoAddress> {
        let port = self.port.unwrap_or(port);
        let name = match &self.host {
            Host::Address(address) => {
                let mut address = *address;
                address.set_port(port);
                return Ok(address);
            }
            Host::Name(name) => name.clone(),
        };
        let addresses: Vec<SocketAddr> = match (name.as_str(), port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(source) => return Err(NoAddress::Unknown { name, source }),
        };
        let fits =
            |address: &&SocketAddr| from.is_none_or(|from| from.is_ipv6() == address.is_ipv6());
        match (addresses.iter().find(fits), from) {
            (Some(address), _) => Ok(*address),
            (None, Some(from)) if !addresses.is_empty() => {
                Err(NoAddress::OtherFamily { name, from })
            }
            (None, _) => Err(NoAddress::None { name }),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => write!(formatter, "{}", address.ip()),
            Host::Name(name) => formatter.write_str(name),
        }
    }
}

/// Whether it has the form of a name. Underscores stand in names of hosts that are used all the same.
fn is_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let is_part = |char: char| char.is_alphanumeric() || char == '-' || char == '_';
        (1..=LONGEST_LABEL).contains(&label.len()) && label.chars().all(is_part)
    };
    name.len() <= LONGEST_NAME && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, String> {
        Target::parse(text, 5236)
    }

    #[test]
    fn targets_have_a_port_of_their_own_or_the_default() {
        let parsed = |text| {
            parse(text)
                .unwrap()
                .resolve(5236, None)
                .unwrap()
                .to_string()
        };
        assert_eq!(parsed("127.0.0.1"), "127.0.0.1:5236");
        assert_eq!(parsed("127.0.0.1:9"), "127.0.0.1:9");
        assert_eq!(parsed("::1"), "[::1]:5236");
        assert_eq!(parsed("[::1]"), "[::1]:5236");
        assert_eq!(parsed("[::1]:9"), "[::1]:9");
        assert_eq!(parsed("[fe80::1%2]:9"), "[fe80::1%2]:9");
    }

    #[test]
    fn a_name_is_not_looked_up_while_the_command_line_is_read() {
        let target = parse("nobody.invalid:7").unwrap();
        assert_eq!((target.is_ipv6(), target.port), (None, Some(7)));
        assert_eq!(target.to_string(), "nobody.invalid");
        let error = target.resolve(5236, None).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot look up nobody.invalid: ")
                && error.ends_with("or give an address"),
            "{error}"
        );
    }

    #[test]
    fn what_is_neither_an_address_nor_a_name_is_refused() {
        for (text, what) in [
            ("127.0.0.1:99999", "\"99999\" is no port"),
            ("host:", "\"\" is no port"),
            ("", "\"\" is neither an address nor a name"),
            ("a b", "\"a b\" is neither"),
            ("http://host/", "\"//host/\" is no port"),
            ("a..b", "\"a..b\" is neither"),
            (":7", "\"\" is neither"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(what), "{text}: {error}");
            assert!(error.contains("192.0.2.1:5236"), "{error}");
        }
        assert!(parse(&format!("{}.example", "a".repeat(64))).is_err());
        for text in [
            "localhost",
            "host.example.",
            "under_score",
            "bücher.example",
            "127.1",
        ] {
            assert_eq!(parse(text).unwrap().port, None, "{text}");
        }
    }

    #[test]
    fn of_a_name_the_address_that_can_be_sent_to_is_taken() {
        let local = parse("localhost").unwrap();
        let from = Some(IpAddr::from([127, 0, 0, 1]));
        assert!(local.resolve(1, from).unwrap().is_ipv4());
    }
}

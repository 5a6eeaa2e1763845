//! Where the server is, by what the command line gives and by its name.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use mpt_core::endpoint::{End as EndOfPath, needs_device, unusable};

use super::{NewCommand, NewError, host};

/// Where the server is.
#[derive(Debug)]
pub(super) struct ServerAt {
    /// As clients call it, an IPv6 address in brackets.
    pub(super) called: String,
    /// What it is reached at.
    pub(super) address: IpAddr,
    /// What its sockets are bound to.
    pub(super) local: IpAddr,
    /// And the device.
    pub(super) interface: Option<String>,
    /// The address is that of the server's name now.
    is_looked_up: bool,
}

impl ServerAt {
    /// Whether this host is the server, as far as its addresses tell.
    pub(super) fn is_here(&self) -> bool {
        host::has(self.local) || host::has(self.address)
    }

    /// What was decided where the command line left it open, each with the option that decides otherwise.
    /// `taken` says what this host was taken for, as it does not have the server's address.
    pub(super) fn decided(&self, taken: Option<&str>) -> String {
        let mut text = String::new();
        if self.is_looked_up {
            let _ = writeln!(
                text,
                "{} is {} now, and the server's sockets are {}.\n\
                 --server-local ADDRESS changes that.\n",
                self.called,
                self.address,
                match &self.interface {
                    None => "bound to that",
                    Some(_) if self.address.is_ipv4() => "those of IPv4",
                    Some(_) => "those of IPv6",
                }
            );
        }
        if let (Some(device), Some(taken)) = (&self.interface, taken)
            && host::has_device(device)
        {
            let _ = writeln!(
                text,
                "This host {taken}: it has a device {device}, but not the address {}.\n\
                 If it is the server, remove these files and add --here server.\n",
                self.address
            );
        }
        text
    }
}

impl NewCommand {
    /// Where the server is, as far as it is given or can be found.
    pub(super) fn server_at(&self) -> Result<ServerAt, NewError> {
        let local = self.server_local_address();
        let given = self.server_address().or(local);
        let address = match given {
            Some(address) => address,
            None => self.look_up()?,
        };
        let (local, interface) = match (&self.server_local, local) {
            (_, Some(local)) => (local, None),
            (Some(device), None) => (unspecified(address), Some(device.clone())),
            (None, None) => (address, None),
        };
        let called = match self.server_address() {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(IpAddr::V4(address)) => address.to_string(),
            None => self.server.clone(),
        };
        Ok(ServerAt {
            called,
            address,
            local,
            interface,
            is_looked_up: given.is_none(),
        })
    }

    /// The address of the server's name: the first of IPv4, as a client's paths prefer, else of IPv6.
    fn look_up(&self) -> Result<IpAddr, NewError> {
        let failed = |source| NewError::Lookup {
            name: self.server.clone(),
            source,
        };
        let found = (self.server.as_str(), self.port)
            .to_socket_addrs()
            .map_err(failed)?;
        let found = found.map(|found| found.ip());
        preferred(found.filter(|address| {
            !needs_device(*address) && unusable(*address, EndOfPath::Remote).is_none()
        }))
        .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }
}

/// The first address of IPv4, else the first.
fn preferred(addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    addresses.min_by_key(IpAddr::is_ipv6)
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_server_s_addresses_the_first_of_ipv4_is_taken() {
        let taken = |all: &[&str]| {
            let all = all.iter().map(|text| text.parse().unwrap());
            preferred(all).map(|address| address.to_string())
        };
        let both = ["2001:db8::7", "203.0.113.7", "203.0.113.8"];
        assert_eq!(taken(&both).unwrap(), "203.0.113.7");
        assert_eq!(taken(&both[..1]).unwrap(), "2001:db8::7");
        assert_eq!(taken(&[]), None);
    }
}

//! Networks inside the tunnel, and the addresses of their hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::NewError;
use super::server::ServerAt;

/// A network inside. Its hosts are numbered from 0: the client's and the server's end, or the hub and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    /// Host bits zero; an IPv4 address stands in the low bits.
    base: u128,
    length: u8,
    is_v4: bool,
}

impl Network {
    /// The network that an address and a length stand for; none with room for less than two hosts.
    pub(super) fn parse(text: &str) -> Option<Network> {
        Network::of(text).filter(|network| network.length < network.bits())
    }

    /// The same of any length but 0.
    pub(super) fn of(text: &str) -> Option<Network> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
        let (bits, address) = match address {
            IpAddr::V4(v4) => (32, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (128, v6.to_bits()),
        };
        let hosts = (1..=bits).contains(&length).then(|| bits - length)?;
        Some(Network {
            base: address >> hosts << hosts,
            length,
            is_v4: bits == 32,
        })
    }

    fn bits(self) -> u8 {
        if self.is_v4 { 32 } else { 128 }
    }

    /// A network of two addresses has no address of its own (RFC 3021, RFC 6164).
    fn first(self) -> u128 {
        u128::from(self.length != self.bits() - 1)
    }

    /// How many hosts there may be: an IPv4 network has a broadcast address, too.
    fn room(self) -> u128 {
        let all = 1_u128 << (self.bits() - self.length);
        all - self.first() - u128::from(self.is_v4) * self.first()
    }

    /// Whether the hub and so many clients find room; else an error that says which network has it.
    pub(super) fn check_room(self, text: &str, clients: u32) -> Result<(), NewError> {
        let needed = u128::from(clients) + 1;
        if self.room() >= needed {
            return Ok(());
        }
        let fits = |length: &u8| {
            Network {
                length: *length,
                ..self
            }
            .room()
                >= needed
        };
        let enough = (1..self.length).rev().find(fits).unwrap_or(1);
        Err(NewError::Wrong(format!(
            "--inner {text}: it has room for the hub and {}, not for {clients}: give a network of /{enough} or \
             larger, such as {}/{enough}",
            match self.room() - 1 {
                1 => "1 client".to_owned(),
                count => format!("{count} clients"),
            },
            Network {
                base: self.base >> (self.bits() - enough) << (self.bits() - enough),
                ..self
            }
            .ip(0)
        )))
    }

    /// Whether it has nothing in common with the others; else an error that says with which it has.
    pub(super) fn check_apart(self, text: &str, others: &[Network]) -> Result<(), String> {
        match others.iter().find(|other| other.overlaps(self)) {
            None => Ok(()),
            Some(other) => Err(format!(
                "--inner {text}: it overlaps {}; give networks that have nothing in common",
                other.written()
            )),
        }
    }

    /// Whether a host may have an address of it; else an error.
    pub(super) fn check_hosts(self, text: &str) -> Result<(), String> {
        let first = self.address(0);
        if first.is_multicast() || first.is_unspecified() {
            return Err(format!(
                "--inner {text}: no host has an address of it; give a network such as 10.99.0.0/30 or fd00:99::/64"
            ));
        }
        Ok(())
    }

    /// Whether the server is called at an address outside of it; else an error.
    pub(super) fn check_outside(self, server: &ServerAt) -> Result<(), NewError> {
        let ends = [server.address, server.local];
        match ends.into_iter().find(|end| self.has(*end)) {
            None => Ok(()),
            Some(end) => Err(NewError::Wrong(format!(
                "--inner {}: the server's own address {end} is in it; give another network as --inner",
                self.written()
            ))),
        }
    }

    fn has(self, address: IpAddr) -> bool {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Network::of(&format!("{address}/{bits}")).is_some_and(|one| one.overlaps(self))
    }

    /// The next network of this size that has nothing in common with the others.
    pub(super) fn next_apart(self, others: &[Network]) -> Option<Network> {
        let end = u128::MAX >> (128 - self.bits());
        let size = 1_u128 << (self.bits() - self.length);
        let bases = std::iter::successors(Some(self.base), |base| base.checked_add(size));
        let mut networks = bases
            .take_while(|base| *base <= end)
            .map(|base| Network { base, ..self });
        networks.find(|one| !others.iter().any(|other| other.overlaps(*one)))
    }

    /// As `--inner` has it.
    pub(super) fn written(self) -> String {
        format!("{}/{}", self.ip(0), self.length)
    }

    /// Whether an address may be of both.
    pub(super) fn overlaps(self, other: Network) -> bool {
        let shorter = self.length.min(other.length);
        let hosts = self.bits() - shorter;
        self.is_v4 == other.is_v4 && self.base >> hosts == other.base >> hosts
    }

    /// The address so far behind the first of the network.
    fn ip(self, offset: u128) -> IpAddr {
        let address = self.base | offset;
        match self.is_v4 {
            true => Ipv4Addr::from_bits(address as u32).into(),
            false => Ipv6Addr::from_bits(address).into(),
        }
    }

    /// The address of a host.
    pub(super) fn address(self, number: u32) -> IpAddr {
        self.ip(self.first() + u128::from(number))
    }

    /// The same with the network's length.
    pub(super) fn shown(&self, number: u32) -> String {
        format!("{}/{}", self.address(number), self.length)
    }

    /// The same alone.
    pub(super) fn whole(&self, number: u32) -> String {
        format!("{}/{}", self.address(number), self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_has_the_first_address_and_the_others_those_behind_it() {
        let of = |text: &str, number| {
            let network = Network::parse(text).unwrap();
            format!("{} {}", network.shown(number), network.whole(number))
        };
        assert_eq!(of("10.99.0.0/16", 0), "10.99.0.1/16 10.99.0.1/32");
        assert_eq!(of("10.99.7.77/24", 253), "10.99.7.254/24 10.99.7.254/32");
        assert_eq!(of("10.99.0.0/16", 300), "10.99.1.45/16 10.99.1.45/32");
        assert_eq!(of("10.99.0.8/31", 0), "10.99.0.8/31 10.99.0.8/32");
        assert_eq!(of("10.99.0.8/31", 1), "10.99.0.9/31 10.99.0.9/32");
        assert_eq!(of("fd00:99::4/127", 0), "fd00:99::4/127 fd00:99::4/128");
        assert_eq!(of("fd00:99::/64", 20), "fd00:99::15/64 fd00:99::15/128");
        for wrong in [
            "10.99.0.0",
            "10.99.0.0/32",
            "10.99.0.0/0",
            "fd00::/128",
            "x/8",
            "10.0.0.0/x",
        ] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_network_has_room_for_its_hosts_and_says_which_would() {
        for (text, clients, room) in [
            ("10.99.0.0/27", 29, Ok(())),
            (
                "10.99.0.0/27",
                30,
                Err(
                    "29 clients, not for 30: give a network of /26 or larger, such as 10.99.0.0/26",
                ),
            ),
            (
                "10.99.0.192/28",
                20,
                Err(
                    "13 clients, not for 20: give a network of /27 or larger, such as 10.99.0.192/27",
                ),
            ),
            ("10.99.0.0/31", 1, Ok(())),
            (
                "10.99.0.0/30",
                2,
                Err("1 client, not for 2: give a network of /29 or larger, such as 10.99.0.0/29"),
            ),
            ("fd99::/120", 254, Ok(())),
            (
                "fd99::/120",
                255,
                Err(
                    "254 clients, not for 255: give a network of /119 or larger, such as fd99::/119",
                ),
            ),
            ("fd99::/64", u32::MAX, Ok(())),
        ] {
            let told = Network::parse(text).unwrap().check_room(text, clients);
            let told = told.map_err(|error| error.to_string());
            let wanted =
                room.map_err(|end| format!("--inner {text}: it has room for the hub and {end}"));
            assert_eq!(told, wanted);
        }
        let [a, b, c] = ["10.99.0.0/16", "10.99.7.0/24", "10.98.0.0/16"]
            .map(|text| Network::parse(text).unwrap());
        assert!(a.overlaps(b) && b.overlaps(a) && !a.overlaps(c));
    }
}

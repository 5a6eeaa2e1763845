//! What a path's socket is to be bound to, by what the host has now; or what the path waits for.
//!
//! A path with a `local` address is bound to that, and to its device where `interface` names one. A path
//! with an `interface` alone is bound to that device and to one of the addresses that it has: the one that
//! it has used so far while that is there, else the one that a host would choose (RFC 6724, in short). It
//! is bound to an address although the device would do, since then another path, or another program, may
//! have the same port on another device's address.
//!
//! Names may be moved and devices replaced: what counts is the device's index, which is never used twice.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use crate::config::{Family, Path};
use crate::netlink::{Address, Links};

/// What a socket is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Address and port; port 0 where any will do.
    pub(crate) local: SocketAddr,
    /// Device, with its index.
    pub(crate) device: Option<(String, u32)>,
}

impl Binding {
    /// Whether a socket that is bound to `self` will do where `wanted` is wanted.
    pub(crate) fn serves(&self, wanted: &Binding) -> bool {
        let port = wanted.local.port();
        self.device == wanted.device
            && self.local.ip() == wanted.local.ip()
            && (port == 0 || port == self.local.port())
    }
}

/// What a path waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waits {
    /// An interface of this name.
    Interface(String),
    /// An interface with this address.
    Address(IpAddr),
    /// An address of this family on this interface.
    AnyAddress(String, Family),
    /// What this name stands for, which decides about the family.
    Name(String),
    /// The system refused the socket, for this reason, which says what to do.
    Refused(String),
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waits::Interface(name) => write!(f, "interface {name} is not there"),
            Waits::Address(ip) => write!(f, "no interface has the address {ip}"),
            Waits::AnyAddress(name, family) => write!(f, "{name} has no {family} address"),
            Waits::Name(host) => write!(f, "the address of {host} is not known yet"),
            Waits::Refused(why) => f.write_str(why),
        }
    }
}

/// What `path` is to be bound to. `remote` is where its peer is, if that is known; `now` what its socket is
/// bound to, if it has one.
///
/// # Errors
/// What it waits for.
pub(crate) fn binding(
    path: &Path,
    remote: Option<SocketAddr>,
    now: Option<&Binding>,
    links: &Links,
) -> Result<Binding, Waits> {
    let device = match &path.interface {
        None => None,
        Some(name) => match links.index_of(name) {
            Some(index) => Some((name.clone(), index)),
            None => return Err(Waits::Interface(name.clone())),
        },
    };
    let ip = match (path.local.address, &device) {
        (Some(ip), _) => {
            // The whole of 127.0.0.0/8 is this host's, though one address is listed.
            let is_there =
                ip.is_unspecified() || ip.is_loopback() || links.index_with(ip).is_some();
            if !is_there {
                return Err(Waits::Address(ip));
            }
            ip
        }
        (None, Some((name, index))) => {
            let family = match (path.family(), remote) {
                (Some(family), _) => family,
                (None, Some(remote)) => Family::of(remote.ip()),
                (None, None) => {
                    return Err(Waits::Name(path.host().unwrap_or_default().to_owned()));
                }
            };
            let addresses = links.addresses_of(*index);
            let kept = now.map(|now| now.local.ip());
            match best(addresses, family, remote.map(|remote| remote.ip()), kept) {
                Some(ip) => ip,
                None => return Err(Waits::AnyAddress(name.clone(), family)),
            }
        }
        // The configuration is checked for this.
        (None, None) => {
            return Err(Waits::Refused(
                "it has neither `local` nor `interface`".into(),
            ));
        }
    };
    let scope = match (&device, ip) {
        (Some((_, index)), IpAddr::V6(v6)) if v6.is_unicast_link_local() => *index,
        _ => 0,
    };
    let local = match ip {
        IpAddr::V6(v6) => SocketAddrV6::new(v6, path.local.port, 0, scope).into(),
        IpAddr::V4(_) => SocketAddr::new(ip, path.local.port),
    };
    Ok(Binding { local, device })
}

/// Index of the link that a path leaves by: its interface, or the one that has its address.
pub(crate) fn link_of(path: &Path, now: Option<&Binding>, links: &Links) -> Option<u32> {
    if let Some(name) = &path.interface {
        return links.index_of(name);
    }
    let ip = now.map(|now| now.local.ip()).or(path.local.address)?;
    let loopback = || ip.is_loopback().then(|| links.index_of("lo")).flatten();
    links.index_with(ip).or_else(loopback)
}

/// The address to use toward `remote`: the one in use (`kept`) while it is there and not going away.
fn best<'a>(
    addresses: impl Iterator<Item = &'a Address>,
    family: Family,
    remote: Option<IpAddr>,
    kept: Option<IpAddr>,
) -> Option<IpAddr> {
    // What is sent from such an address does not leave the link.
    let leads_there = |ip: IpAddr| {
        let is_bound_to_link = ip.is_ipv6() && is_link_local(Some(ip));
        !is_bound_to_link || remote.is_none_or(|remote| is_link_local(Some(remote)))
    };
    let fits = |address: &&Address| {
        address.is_usable && Family::of(address.ip) == family && leads_there(address.ip)
    };
    let of_family = addresses.filter(fits);
    let worth = |address: &&Address| {
        let is_near = |remote: IpAddr| is_local_kind(remote) == is_local_kind(address.ip);
        (
            // Rule 2: the scope fits.
            is_link_local(remote) == is_link_local(Some(address.ip)),
            address.is_global,
            // Rule 3.
            !address.is_deprecated,
            // A path that keeps its address keeps its flows.
            kept == Some(address.ip),
            // Rule 6, for private and public addresses.
            remote.is_none_or(is_near),
            // Against rule 7: a temporary address changes each day.
            !address.is_secondary,
            // Rule 8.
            remote.map_or(0, |remote| common_bits(remote, address)),
            std::cmp::Reverse(address.ip),
        )
    };
    of_family.max_by_key(worth).map(|address| address.ip)
}

fn is_link_local(ip: Option<IpAddr>) -> bool {
    match ip {
        Some(IpAddr::V6(v6)) => v6.is_unicast_link_local(),
        Some(IpAddr::V4(v4)) => v4.is_link_local(),
        None => false,
    }
}

/// RFC 1918 and RFC 4193.
fn is_local_kind(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// Leading bits that both have in common, up to the length of the address's prefix.
fn common_bits(remote: IpAddr, address: &Address) -> u32 {
    let common = match (remote, address.ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    };
    common.min(u32::from(address.length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Local, Remote};
    use crate::netlink::links_tests::address;
    use proptest::prelude::*;
    use std::time::Duration;

    const FIBRE: &str = "10.1.0.1";
    const LTE: &str = "10.2.0.1";

    fn path(local: Option<&str>, interface: Option<&str>) -> Path {
        Path {
            name: "lte".to_owned(),
            local: Local {
                address: local.map(|ip| ip.parse().unwrap()),
                port: 4754,
                port_is_given: false,
            },
            remote: Some(Remote::Address("10.2.0.2:4754".parse().unwrap())),
            interface: interface.map(str::to_owned),
            weight: 100,
            keepalive: Duration::from_millis(200),
            dead_after: Duration::from_secs(1),
            metered: false,
            cost: 0,
            budget: None,
        }
    }

    fn bound(path: &Path, now: Option<&Binding>, links: &Links) -> Result<Binding, String> {
        let remote = path.remote.as_ref().and_then(Remote::address);
        binding(path, remote, now, links).map_err(|waits| waits.to_string())
    }

    fn waits(path: &Path, links: &Links) -> String {
        bound(path, None, links).unwrap_err()
    }

    #[test]
    fn a_path_says_what_it_waits_for() {
        let links = Links::of(&[("eth0", &[FIBRE]), ("wwan1", &["fd00::1"])]);
        let both = path(Some(LTE), Some("wwan0"));
        assert_eq!(waits(&both, &links), "interface wwan0 is not there");
        let address = path(Some(LTE), None);
        assert_eq!(
            waits(&address, &links),
            "no interface has the address 10.2.0.1"
        );
        let device = path(None, Some("wwan1"));
        assert_eq!(waits(&device, &links), "wwan1 has no IPv4 address");
        let mut by_name = path(None, Some("eth0"));
        by_name.remote = Some(Remote::Name {
            host: "office.example.net".to_owned(),
            port: 4754,
        });
        assert_eq!(
            waits(&by_name, &links),
            "the address of office.example.net is not known yet"
        );
    }

    #[test]
    fn a_device_that_was_replaced_needs_another_socket() {
        let mut links = Links::of(&[("wwan0", &[LTE])]);
        let path = path(Some(LTE), Some("wwan0"));
        let before = bound(&path, None, &links).unwrap();
        assert!(before.serves(&bound(&path, Some(&before), &links).unwrap()));
        links.replace("wwan0", 9);
        let after = bound(&path, Some(&before), &links).unwrap();
        assert_eq!(after.device, Some(("wwan0".to_owned(), 9)));
        assert!(!before.serves(&after));
    }

    #[test]
    fn an_interface_alone_is_followed_from_address_to_address() {
        let mut links = Links::of(&[("wwan0", &["10.2.0.5"])]);
        let path = path(None, Some("wwan0"));
        let before = bound(&path, None, &links).unwrap();
        assert_eq!(before.local, "10.2.0.5:4754".parse().unwrap());
        links.put("wwan0", LTE, true);
        let still = bound(&path, Some(&before), &links).unwrap();
        assert!(before.serves(&still), "the address in use is there");
        links.put("wwan0", "10.2.0.5", false);
        let after = bound(&path, Some(&before), &links).unwrap();
        assert_eq!(after.local, "10.2.0.1:4754".parse().unwrap());
        assert!(!before.serves(&after));
    }

    #[test]
    fn the_family_is_that_of_the_peer() {
        let links = Links::of(&[("wwan0", &[LTE, "fd00::1", "fe80::1"])]);
        let mut path = path(None, Some("wwan0"));
        let toward = |path: &mut Path, remote: &str| {
            path.remote = Some(Remote::Address(remote.parse().unwrap()));
            bound(path, None, &links).unwrap().local.to_string()
        };
        assert_eq!(toward(&mut path, "10.7.0.2:4754"), "10.2.0.1:4754");
        assert_eq!(toward(&mut path, "[fd07::2]:4754"), "[fd00::1]:4754");
        assert_eq!(toward(&mut path, "[fe80::2]:4754"), "[fe80::1%2]:4754");
        path.remote = Some(Remote::Address("[2001:db8::2]:4754".parse().unwrap()));
        let links = Links::of(&[("wwan0", &["fe80::1"])]);
        assert_eq!(waits(&path, &links), "wwan0 has no IPv6 address");
    }

    #[test]
    fn of_several_addresses_a_lasting_one_that_fits_the_peer_is_used() {
        let choose = |remote: &str, all: &[Address]| {
            let remote: IpAddr = remote.parse().unwrap();
            best(all.iter(), Family::of(remote), Some(remote), None)
                .unwrap()
                .to_string()
        };
        let (lasting, mut temporary) = (address("2001:db8::9"), address("2001:db8::1"));
        temporary.is_secondary = true;
        let own = address("fd00::7");
        assert_eq!(
            choose("2001:db8:7::1", &[temporary, own, lasting]),
            "2001:db8::9"
        );
        assert_eq!(choose("fd00::9", &[temporary, own, lasting]), "fd00::7");
        let mut old = lasting;
        old.is_deprecated = true;
        assert_eq!(choose("2001:db8:7::1", &[old, temporary]), "2001:db8::1");
        let near = [address("10.2.0.1"), address("10.1.0.1")];
        assert_eq!(choose("10.2.0.9", &near), "10.2.0.1");
        assert_eq!(choose("10.1.0.9", &near), "10.1.0.1");
    }

    #[test]
    fn all_of_the_loopback_network_is_this_hosts() {
        let links = Links::of(&[("lo", &["127.0.0.1"])]);
        let path = path(Some("127.0.0.7"), None);
        let now = bound(&path, None, &links).unwrap();
        assert_eq!(link_of(&path, Some(&now), &links), Some(2));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Address(usize, usize, bool),
        Replace(usize),
        Take(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..2_usize, 0..3_usize, any::<bool>()).prop_map(|(a, b, c)| Event::Address(a, b, c)),
            (0..2_usize).prop_map(Event::Replace),
            (0..2_usize).prop_map(Event::Take),
        ]
    }

    proptest! {
        /// Whatever links and addresses do: a path is bound to a device and an address that are there, or
        /// waits; it comes to rest; and with everything back it is bound again.
        #[test]
        fn a_path_follows_its_host_wherever_it_goes(
            events in prop::collection::vec(event(), 0..40),
            local in prop::option::of(0..3_usize), with_interface: bool,
        ) {
            const NAMES: [&str; 2] = ["eth0", "wwan0"];
            const IPS: [&str; 3] = ["10.2.0.1", "10.2.0.2", "10.2.0.3"];
            let interface = (with_interface || local.is_none()).then_some("wwan0");
            let path = path(local.map(|at| IPS[at]), interface);
            let mut links = Links::of(&[("eth0", &[]), ("wwan0", &[])]);
            let mut next_index = 10;
            let mut now: Option<Binding> = None;
            let back = [Event::Replace(1), Event::Address(1, local.unwrap_or(0), true)];
            for event in events.into_iter().chain(back) {
                match event {
                    Event::Address(link, ip, present) if links.index_of(NAMES[link]).is_some() => {
                        links.put(NAMES[link], IPS[ip], present);
                    }
                    Event::Address(..) => {}
                    Event::Replace(link) => {
                        next_index += 1;
                        links.replace(NAMES[link], next_index);
                    }
                    Event::Take(link) => if links.index_of(NAMES[link]).is_some() {
                        links.take(NAMES[link]);
                    }
                }
                now = bound(&path, now.as_ref(), &links).ok();
                if let Some(now) = &now {
                    prop_assert!(links.index_with(now.local.ip()).is_some());
                    let again = bound(&path, Some(now), &links).unwrap();
                    prop_assert!(now.serves(&again), "it does not come to rest");
                    if let Some((name, index)) = &now.device {
                        prop_assert_eq!(links.index_of(name), Some(*index));
                        if local.is_none() {
                            let mut own = links.addresses_of(*index);
                            prop_assert!(own.any(|address| address.ip == now.local.ip()));
                        }
                    }
                }
            }
            prop_assert!(now.is_some(), "everything is back");
        }
    }
}

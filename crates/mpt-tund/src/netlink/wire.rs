//! The netlink messages that tell of links, addresses, routes and rules (`rtnetlink(7)`), read from
//! bytes.
//!
//! A link message carries some sixty attributes, and each kernel adds more. Two header fields, the
//! name and the MTU are all that is wanted here, so nothing else is parsed: what a new kernel says in
//! new ways cannot make a link's state unreadable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::links::{Address, RouteChange};

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// `struct ifinfomsg`: family, padding, type, index, flags, change mask.
const LINK: usize = 16;
/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
const ADDRESS: usize = 8;
/// `struct rtmsg`: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
const ROUTE: usize = 12;
/// A route that the kernel remembers of its own accord, which is no part of any table.
const CLONED: u32 = libc::RTM_F_CLONED;
/// Flags of an address that cannot be used yet, or ever: it is, or was, found to be another host's.
const UNUSABLE: u32 = libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED;
/// A tentative address that may be used all the same (RFC 4429).
const OPTIMISTIC: u32 = libc::IFA_F_OPTIMISTIC;
/// Settings of a device (linux/rtnetlink.h), and `struct netconfmsg` with its padding.
pub(super) const RTM_NEWNETCONF: u16 = 80;
pub(super) const RTM_GETNETCONF: u16 = 82;
const NETCONF: usize = 4;
/// `NETCONFA_IFINDEX` and `NETCONFA_RP_FILTER` (linux/netconf.h).
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_RP_FILTER: u16 = 3;
/// `NETCONFA_IFINDEX_ALL`: what counts for all devices.
pub(super) const EVERY_DEVICE: i32 = -1;
/// A link that can carry packets: set up, and with a carrier. `IFF_RUNNING` says so too, but up to
/// a second late: the kernel rations its changes.
const USABLE: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
/// It waits for something before it may carry packets: 802.1X, mostly.
const DORMANT: u32 = libc::IFF_DORMANT as u32;

/// A message from the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// The sequence number of the request that it answers, if it answers one.
    pub(super) sequence: u32,
    /// The dump that it belongs to is not of one piece, because something changed meanwhile.
    pub(super) interrupted: bool,
    pub(super) content: Content<'a>,
}

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A link, as it is now or was when it went.
    Link {
        index: u32,
        link: LinkState<'a>,
        deleted: bool,
    },
    /// A local address of a link.
    Address {
        index: u32,
        address: Address,
        deleted: bool,
    },
    /// A route came, went or took another's place.
    Route(RouteChange),
    /// A rule of policy routing came or went.
    Rule,
    /// A device's IPv4 settings, or what counts for all.
    Settings(Settings),
    /// The end of a dump.
    Done,
    /// The kernel refused a request with this error number.
    Error(i32),
}

/// What a device does with IPv4, as far as it is asked for or has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// Index of the device, or [`EVERY_DEVICE`].
    pub(super) index: i32,
    /// `rp_filter`.
    pub(super) filter: Option<i32>,
}

/// What a link message says of the link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkState<'a> {
    pub(super) name: &'a str,
    /// See [`super::links::Link`].
    pub(super) up: bool,
    pub(super) is_set_up: bool,
    pub(super) mtu: u32,
}

/// The messages in a datagram, those of no concern left out.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    wholes(datagram).filter_map(parse)
}

/// The messages in a datagram of whatever protocol: the type of each, and what follows its header.
pub(super) fn bodies(datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    wholes(datagram).filter_map(|message| Some((u16_at(message, 4)?, message.get(HEADER..)?)))
}

/// The messages in a datagram, each with its header.
fn wholes(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let (whole, after) = split(rest, u32_at(rest, 0)? as usize, HEADER)?;
        rest = after;
        Some(whole)
    })
}

/// A request for all links (`RTM_GETLINK`), all addresses (`RTM_GETADDR`) or the settings of all devices
/// (`RTM_GETNETCONF`), of one address family or of any.
pub(super) fn dump_request(kind: u16, family: libc::c_int, sequence: u32) -> Vec<u8> {
    // Any index: all zero, for each kind of request.
    let mut body = [0; LINK];
    body[0] = family as u8;
    dump_of(kind, &body, sequence)
}

/// A request for all that there is of a kind.
pub(super) fn dump_of(kind: u16, body: &[u8], sequence: u32) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let length = HEADER + body.len();
    let mut request = Vec::with_capacity(length);
    request.extend((length as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.resize(HEADER, 0);
    request.extend(body);
    request
}

fn parse(message: &[u8]) -> Option<Message<'_>> {
    let kind = u16_at(message, 4)?;
    let flags = libc::c_int::from(u16_at(message, 6)?);
    let body = &message[HEADER..];
    let content = match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => parse_link(body, kind == libc::RTM_DELLINK)?,
        libc::RTM_NEWADDR | libc::RTM_DELADDR => parse_address(body, kind == libc::RTM_DELADDR)?,
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => parse_route(body)?,
        libc::RTM_NEWRULE | libc::RTM_DELRULE => Content::Rule,
        RTM_NEWNETCONF => parse_settings(body)?,
        _ if libc::c_int::from(kind) == libc::NLMSG_DONE => Content::Done,
        _ if libc::c_int::from(kind) == libc::NLMSG_ERROR => {
            Content::Error(u32_at(body, 0)?.cast_signed().wrapping_neg())
        }
        _ => return None,
    };
    Some(Message {
        sequence: u32_at(message, 8)?,
        interrupted: flags & libc::NLM_F_DUMP_INTR != 0,
        content,
    })
}

fn parse_link(body: &[u8], deleted: bool) -> Option<Content<'_>> {
    // A bridge speaks of its ports in the same messages, as another family: there, "deleted" means
    // that a link left the bridge.
    if libc::c_int::from(*body.first()?) != libc::AF_UNSPEC {
        return None;
    }
    let attribute = |wanted| {
        let mut all = attributes(body.get(LINK..)?);
        all.find_map(|(kind, value)| (kind == wanted).then_some(value))
    };
    let name = attribute(libc::IFLA_IFNAME)?;
    let name = name.split(|byte| *byte == 0).next()?;
    let flags = u32_at(body, 8)?;
    Some(Content::Link {
        index: u32_at(body, 4)?,
        link: LinkState {
            name: std::str::from_utf8(name).ok()?,
            up: !deleted && flags & (USABLE | DORMANT) == USABLE,
            is_set_up: flags & libc::IFF_UP as u32 != 0,
            mtu: attribute(libc::IFLA_MTU)
                .and_then(|value| u32_at(value, 0))
                .unwrap_or(0),
        },
        deleted,
    })
}

fn parse_address(body: &[u8], deleted: bool) -> Option<Content<'_>> {
    // On a point-to-point link IFA_ADDRESS is the far end's and IFA_LOCAL ours; IPv6 otherwise has
    // IFA_ADDRESS alone.
    let (mut address, mut peer) = (None, None);
    // The header has room for the first eight.
    let mut flags = u32::from(*body.get(2)?);
    for (kind, value) in attributes(body.get(ADDRESS..)?) {
        let local = kind == libc::IFA_LOCAL;
        if local || (kind == libc::IFA_ADDRESS && address.is_none()) {
            address = ip(value);
        }
        if kind == libc::IFA_ADDRESS {
            peer = ip(value);
        }
        if kind == libc::IFA_FLAGS {
            flags = u32_at(value, 0)?;
        }
    }
    let is_usable =
        flags & UNUSABLE == 0 || flags & OPTIMISTIC != 0 && flags & libc::IFA_F_DADFAILED == 0;
    let address = address?;
    Some(Content::Address {
        index: u32_at(body, 4)?,
        address: Address {
            ip: address,
            length: *body.get(1)?,
            // An IPv6 address is on a link once, and its peer may change.
            peer: peer.filter(|peer| *peer != address && address.is_ipv4()),
            is_global: *body.get(3)? == libc::RT_SCOPE_UNIVERSE,
            is_secondary: flags & libc::IFA_F_SECONDARY != 0,
            is_deprecated: flags & libc::IFA_F_DEPRECATED != 0,
            is_usable,
        },
        deleted,
    })
}

fn parse_route(body: &[u8]) -> Option<Content<'_>> {
    let family = libc::c_int::from(*body.first()?);
    if family != libc::AF_INET && family != libc::AF_INET6 || u32_at(body, 8)? & CLONED != 0 {
        return None;
    }
    let everything = match family {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let mut change = RouteChange {
        destination: (everything, *body.get(1)?),
        table: u32::from(*body.get(4)?),
        protocol: *body.get(5)?,
        index: None,
    };
    for (kind, value) in attributes(body.get(ROUTE..)?) {
        match kind {
            libc::RTA_DST => change.destination.0 = ip(value)?,
            libc::RTA_OIF => change.index = u32_at(value, 0),
            libc::RTA_TABLE => change.table = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(Content::Route(change))
}

fn parse_settings(body: &[u8]) -> Option<Content<'_>> {
    let attribute = |wanted| {
        let mut all = attributes(body.get(NETCONF..)?);
        let (_, value) = all.find(|(kind, _)| *kind == wanted)?;
        Some(u32_at(value, 0)?.cast_signed())
    };
    let is_ipv4 = libc::c_int::from(*body.first()?) == libc::AF_INET;
    let index = attribute(NETCONFA_IFINDEX).filter(|_| is_ipv4)?;
    let filter = attribute(NETCONFA_RP_FILTER);
    Some(Content::Settings(Settings { index, filter }))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

/// Attributes: length (with this header of 4 bytes), type, value, padding to 4 bytes.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (whole, after) = split(rest, u16_at(rest, 0)? as usize, 4)?;
        rest = after;
        Some((u16_at(whole, 2)?, &whole[4..]))
    })
}

/// The first `len` bytes, at least `least` of them, and what follows after padding to 4 bytes.
fn split(bytes: &[u8], len: usize, least: usize) -> Option<(&[u8], &[u8])> {
    if len < least {
        return None;
    }
    let whole = bytes.get(..len)?;
    let after = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((whole, after))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn link(kind: u16, family: u8, index: u32, flags: libc::c_int, name: &[u8]) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0];
        body.extend(index.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend([0; 4]);
        body.extend(attribute(999, b"new"));
        body.extend(attribute(libc::IFLA_IFNAME, name));
        body.extend(attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes()));
        message(kind, &body)
    }

    fn contents(datagram: &[u8]) -> Vec<Content<'_>> {
        messages(datagram).map(|message| message.content).collect()
    }

    #[test]
    fn a_link_is_up_when_it_can_carry_packets() {
        let (up, running) = (libc::IFF_UP, libc::IFF_RUNNING);
        for (flags, expected) in [
            (up | running | libc::IFF_LOWER_UP, true),
            (up | libc::IFF_LOWER_UP, true),
            (up | running, false),
            (up | libc::IFF_LOWER_UP | libc::IFF_DORMANT, false),
            (up, false),
            (running | libc::IFF_LOWER_UP, false),
        ] {
            let datagram = link(libc::RTM_NEWLINK, 0, 7, flags, b"eth0\0");
            let expected = Content::Link {
                index: 7,
                link: LinkState {
                    name: "eth0",
                    up: expected,
                    is_set_up: flags & up != 0,
                    mtu: 1500,
                },
                deleted: false,
            };
            assert_eq!(contents(&datagram), [expected], "{flags:x}");
        }
    }

    #[test]
    fn a_link_that_leaves_a_bridge_is_not_deleted() {
        let family = libc::AF_BRIDGE as u8;
        assert_eq!(
            contents(&link(libc::RTM_DELLINK, family, 7, 0, b"eth0\0")),
            []
        );
    }

    #[test]
    fn the_local_address_is_ours_and_not_the_far_ends() {
        for order in [
            [libc::IFA_ADDRESS, libc::IFA_LOCAL],
            [libc::IFA_LOCAL, libc::IFA_ADDRESS],
        ] {
            let mut body = vec![libc::AF_INET as u8, 32, 0, 0];
            body.extend(3_u32.to_ne_bytes());
            for kind in order {
                let last = if kind == libc::IFA_LOCAL { 1 } else { 2 };
                body.extend(attribute(kind, &[10, 0, 0, last]));
            }
            let expected = Content::Address {
                index: 3,
                address: Address {
                    ip: "10.0.0.1".parse().unwrap(),
                    length: 32,
                    peer: Some("10.0.0.2".parse().unwrap()),
                    is_global: true,
                    is_secondary: false,
                    is_deprecated: false,
                    is_usable: true,
                },
                deleted: false,
            };
            assert_eq!(contents(&message(libc::RTM_NEWADDR, &body)), [expected]);
        }
    }

    #[test]
    fn an_address_that_may_be_another_hosts_cannot_be_used_yet() {
        for (flags, is_usable) in [
            (libc::IFA_F_PERMANENT, true),
            (libc::IFA_F_TENTATIVE, false),
            (libc::IFA_F_TENTATIVE | libc::IFA_F_OPTIMISTIC, true),
            (libc::IFA_F_DADFAILED | libc::IFA_F_OPTIMISTIC, false),
        ] {
            let mut body = vec![libc::AF_INET6 as u8, 64, 0, 0];
            body.extend(3_u32.to_ne_bytes());
            body.extend(attribute(libc::IFA_ADDRESS, &[0xfd; 16]));
            body.extend(attribute(libc::IFA_FLAGS, &flags.to_ne_bytes()));
            let datagram = message(libc::RTM_NEWADDR, &body);
            let [Content::Address { address, .. }] = contents(&datagram)[..] else {
                panic!("{datagram:?}");
            };
            assert_eq!(address.is_usable, is_usable, "{flags:x}");
        }
    }

    #[test]
    fn a_route_has_its_destination_its_table_and_its_link() {
        let route = |flags: u32| {
            let mut body = vec![libc::AF_INET as u8, 24, 0, 0, libc::RT_TABLE_MAIN, 4, 0, 1];
            body.extend(flags.to_ne_bytes());
            body.extend(attribute(libc::RTA_TABLE, &4754_u32.to_ne_bytes()));
            body.extend(attribute(libc::RTA_DST, &[192, 0, 2, 0]));
            body.extend(attribute(libc::RTA_OIF, &7_u32.to_ne_bytes()));
            message(libc::RTM_DELROUTE, &body)
        };
        let expected = RouteChange {
            destination: ("192.0.2.0".parse().unwrap(), 24),
            table: 4754,
            protocol: 4,
            index: Some(7),
        };
        assert_eq!(contents(&route(0)), [Content::Route(expected)]);
        assert_eq!(contents(&route(CLONED)), []);
        assert_eq!(contents(&message(libc::RTM_NEWRULE, &[])), [Content::Rule]);
    }

    #[test]
    fn settings_are_those_of_ipv4() {
        let settings = |family: libc::c_int| {
            let mut body = vec![family as u8, 0, 0, 0];
            body.extend(attribute(NETCONFA_IFINDEX, &EVERY_DEVICE.to_ne_bytes()));
            body.extend(attribute(NETCONFA_RP_FILTER, &1_i32.to_ne_bytes()));
            message(RTM_NEWNETCONF, &body)
        };
        let expected = Settings {
            index: EVERY_DEVICE,
            filter: Some(1),
        };
        let datagram = settings(libc::AF_INET);
        assert_eq!(contents(&datagram), [Content::Settings(expected)]);
        assert_eq!(contents(&settings(libc::AF_INET6)), []);
        for cut in 0..datagram.len() {
            assert_eq!(contents(&datagram[..cut]), [], "{cut} bytes");
        }
    }

    #[test]
    fn several_messages_in_a_datagram_are_read_up_to_one_that_is_cut() {
        let mut datagram = link(libc::RTM_NEWLINK, 0, 1, 0, b"lo\0");
        datagram.extend(message(libc::NLMSG_NOOP as u16, &[]));
        let refused = (-libc::EBUSY).to_ne_bytes();
        datagram.extend(message(libc::NLMSG_ERROR as u16, &refused));
        datagram.extend(message(libc::NLMSG_DONE as u16, &[0; 4]));
        assert_eq!(
            contents(&datagram)[1..],
            [Content::Error(libc::EBUSY), Content::Done]
        );
        for cut in 0..datagram.len() {
            let read = contents(&datagram[..cut]);
            assert!(read.len() < 3, "{cut} bytes");
        }
    }

    #[test]
    fn a_request_is_a_message_of_its_own_length() {
        let request = dump_request(libc::RTM_GETADDR, libc::AF_INET, 9);
        assert_eq!(u32_at(&request, 0), Some(request.len() as u32));
        assert_eq!(u32_at(&request, 8), Some(9));
        assert_eq!(request[HEADER], 2);
    }
}

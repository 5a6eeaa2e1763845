//! What must hold of any bytes on the netlink socket. See [`crate::hostile`].

use std::collections::{BTreeMap, BTreeSet};

use super::links::{Change, Links};
use super::{sockets, wire};

/// Bytes of a message's header, the shortest message.
const LEAST_MESSAGE: usize = 16;

/// Any datagrams are read or passed over, and what is told of them adds up to the table. Of `bytes` each
/// datagram takes a byte, its length in units of four.
pub(crate) fn datagrams(bytes: &[u8]) {
    let mut table = Links::default();
    let (mut links, mut addresses) = (BTreeMap::new(), BTreeSet::new());
    let mut rest = bytes;
    while let Some((&len, behind)) = rest.split_first() {
        let datagram;
        (datagram, rest) = behind.split_at((usize::from(len) * 4).min(behind.len()));
        // A dump begins with what has an odd length, and ends with what has length 0.
        match len {
            0 => table.end_dump(true),
            len if len % 2 == 1 => table.begin_dump(),
            _ => {}
        }
        let mut count = 0;
        for message in wire::messages(datagram) {
            count += 1;
            table.hear(message.content);
        }
        assert!(count * LEAST_MESSAGE <= datagram.len());
        for (_, body) in wire::bodies(datagram) {
            let name = sockets::named(body).map_or(0, |socket| socket.name.len());
            assert!(name <= body.len());
        }
        while let Some(change) = table.take_change() {
            match change {
                Change::Link(link) if link.deleted => drop(links.remove(&link.index)),
                Change::Link(link) => drop(links.insert(link.index, (link.name, link.up))),
                Change::Address {
                    address,
                    index,
                    present,
                } => {
                    addresses.remove(&(address, index));
                    addresses.extend(present.then_some((address, index)));
                }
                Change::Route(_) | Change::Rule | Change::Filter | Change::Anything => {}
            }
        }
    }
    for (index, (name, up)) in links {
        let link = table.link(index).expect("a link that was told of is there");
        assert_eq!((&link.name, link.up), (&name, up));
        assert!(table.index_of(&name).is_some());
    }
    for (address, index) in addresses {
        assert!(table.index_with(address).is_some());
        let mut own = table.addresses_of(index);
        assert!(own.any(|own| own.ip == address && own.is_usable));
        assert!(table.all_addresses().any(|own| own == (address, index)));
    }
}

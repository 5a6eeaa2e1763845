//! The TUN interface's MTU, addresses and routes.
//!
//! Requests state a goal. So it is no error when an address is there already, or gone before it is
//! removed. A route that is there already is one: somebody else's packets go that way.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkMessage,
};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope};
use rtnetlink::{AddressMessageBuilder, Handle, LinkUnspec, RouteMessageBuilder};
use tokio::task::JoinHandle;

use super::error::NetlinkError;

/// The smallest MTU with which Linux keeps IPv6 on an interface (RFC 8200 §5).
const IPV6_MIN_MTU: u32 = 1280;

/// An address or a route's destination, with the length of its prefix in bits.
type Prefix = (IpAddr, u8);

/// Packets or super-packets that may wait in the TUN. The kernel's 500 are too few: when the far
/// end's reorder window lets go of hundreds of packets at once, TCP answers their acknowledgments
/// with twice as many at once, and a TUN orphans packets, so that TCP's own limit does not hold.
const TX_QUEUE_LEN: u32 = 4096;

/// A connection to the kernel for requests. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Netlink {
    handle: Handle,
    connection: JoinHandle<()>,
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Netlink {
    /// Connects, on the runtime of the calling task.
    ///
    /// # Errors
    /// [`NetlinkError::Unavailable`].
    pub(crate) fn open() -> Result<Netlink, NetlinkError> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(NetlinkError::Unavailable)?;
        Ok(Netlink {
            handle,
            connection: tokio::spawn(connection),
        })
    }

    /// Gives the interface `name` its MTU and addresses, sets it up and adds its routes; returns
    /// its index. `mtu` is in bytes, of the inner IP packet.
    ///
    /// The kernel makes up no link-local IPv6 address for it: that one would be announced through
    /// the tunnel by packets that nobody asked for. Who wants one configures it.
    ///
    /// # Errors
    /// The first item that the kernel refuses, in a [`NetlinkError`] that says what to do.
    pub(crate) async fn configure(
        &self,
        name: &str,
        addresses: &[Prefix],
        mtu: u32,
        routes: &[Prefix],
    ) -> Result<u32, NetlinkError> {
        let index = self.interface_index(name).await?;
        let wants_ipv6 = |prefixes: &[Prefix]| prefixes.iter().any(|(ip, _)| ip.is_ipv6());
        if mtu < IPV6_MIN_MTU && (wants_ipv6(addresses) || wants_ipv6(routes)) {
            return Err(NetlinkError::MtuTooSmallForIpv6 { mtu });
        }
        // A kernel without IPv6 refuses, and has no such address to suppress.
        let _ = self
            .handle
            .link()
            .set(without_link_local(index))
            .execute()
            .await;
        self.set_mtu(index, mtu).await?;
        self.lengthen_queue(index).await?;
        for &address in addresses {
            self.add_address(index, address).await?;
        }
        let up = LinkUnspec::new_with_index(index).up().build();
        let item = || format!("the state `up` of {name}");
        tried(self.handle.link().set(up).execute(), item).await?;
        for &route in routes {
            // The kernel adds this one by itself, for the address.
            let connected = addresses.iter().any(|&a| network(a) == network(route));
            if !connected {
                self.add_route(index, route).await?;
            }
        }
        Ok(index)
    }

    /// The index of the interface `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`].
    pub(crate) async fn interface_index(&self, name: &str) -> Result<u32, NetlinkError> {
        let mut links = self.handle.link().get().match_name(name).execute();
        let missing = || NetlinkError::NoInterface {
            name: name.to_owned(),
        };
        match links.try_next().await {
            Ok(Some(link)) => Ok(link.header.index),
            Ok(None) => Err(missing()),
            Err(error) => match kernel_error(error) {
                source if source.raw_os_error() == Some(libc::ENODEV) => Err(missing()),
                source => Err(NetlinkError::from_kernel(
                    format!("the name {name}"),
                    source,
                )),
            },
        }
    }

    async fn lengthen_queue(&self, index: u32) -> Result<(), NetlinkError> {
        let link = LinkUnspec::new_with_index(index)
            .append_extra_attribute(LinkAttribute::TxQueueLen(TX_QUEUE_LEN))
            .build();
        let item = || format!("the queue length {TX_QUEUE_LEN}");
        tried(self.handle.link().set(link).execute(), item).await
    }

    /// How many packets the host sent into the interface `index` while its queue was full; `None`
    /// when the interface is gone.
    pub(crate) async fn tx_dropped(&self, index: u32) -> Option<u64> {
        let mut links = self.handle.link().get().match_index(index).execute();
        let link = links.try_next().await.ok()??;
        link.attributes.into_iter().find_map(|attribute| {
            if let LinkAttribute::Stats64(stats) = attribute {
                Some(stats.tx_dropped)
            } else {
                None
            }
        })
    }

    /// Sets the MTU of the interface `index` to `mtu` bytes.
    ///
    /// Below 1280 the kernel takes IPv6 and its addresses from the interface, for good.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) async fn set_mtu(&self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        let link = LinkUnspec::new_with_index(index).mtu(mtu).build();
        let item = || format!("MTU {mtu}");
        tried(self.handle.link().set(link).execute(), item).await
    }

    /// Adds an address to the interface `index`; without effect if it is there.
    ///
    /// # Errors
    /// If the kernel refuses it, mostly because IPv6 is switched off.
    pub(crate) async fn add_address(
        &self,
        index: u32,
        address: Prefix,
    ) -> Result<(), NetlinkError> {
        let (ip, length) = address;
        let request = self.handle.address().add(index, ip, length);
        let added = tried(request.execute(), || format!("address {ip}/{length}")).await;
        unless(added, &[libc::EEXIST])
    }

    /// Removes an address from the interface `index`; without effect if it is not there.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) async fn remove_address(
        &self,
        index: u32,
        address: Prefix,
    ) -> Result<(), NetlinkError> {
        let (ip, length) = address;
        let message = match ip {
            IpAddr::V4(ip) => AddressMessageBuilder::<Ipv4Addr>::new()
                .index(index)
                .address(ip, length)
                .build(),
            IpAddr::V6(ip) => AddressMessageBuilder::<Ipv6Addr>::new()
                .index(index)
                .address(ip, length)
                .build(),
        };
        let request = self.handle.address().del(message);
        let removed = tried(request.execute(), || format!("address {ip}/{length}")).await;
        unless(removed, &[libc::EADDRNOTAVAIL, libc::ENODEV])
    }

    /// Adds a route to `destination` (bits beyond the prefix are ignored) over the interface
    /// `index`, which must be up.
    ///
    /// # Errors
    /// [`NetlinkError::RouteExists`] if there is one to the same prefix, or what else the kernel
    /// says.
    pub(crate) async fn add_route(
        &self,
        index: u32,
        destination: Prefix,
    ) -> Result<(), NetlinkError> {
        let request = self.handle.route().add(route(index, destination));
        let (ip, length) = network(destination);
        match tried(request.execute(), || format!("route {ip}/{length}")).await {
            Err(error) if error.errno() == Some(libc::EEXIST) => Err(NetlinkError::RouteExists {
                route: format!("{ip}/{length}"),
            }),
            other => other,
        }
    }

    /// Removes the route to `destination` over the interface `index`; without effect if it is not
    /// there.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) async fn remove_route(
        &self,
        index: u32,
        destination: Prefix,
    ) -> Result<(), NetlinkError> {
        let request = self.handle.route().del(route(index, destination));
        let (ip, length) = network(destination);
        let removed = tried(request.execute(), || format!("route {ip}/{length}")).await;
        unless(removed, &[libc::ESRCH, libc::ENODEV])
    }
}

/// Waits for a request and names its item if it failed.
async fn tried(
    request: impl Future<Output = Result<(), rtnetlink::Error>>,
    item: impl Fn() -> String,
) -> Result<(), NetlinkError> {
    request
        .await
        .map_err(|error| NetlinkError::from_kernel(item(), kernel_error(error)))
}

/// `result`, unless it failed with one of `errnos`, which say that the goal is reached.
fn unless(result: Result<(), NetlinkError>, errnos: &[i32]) -> Result<(), NetlinkError> {
    match result {
        Err(error) if error.errno().is_some_and(|errno| errnos.contains(&errno)) => Ok(()),
        other => other,
    }
}

fn kernel_error(error: rtnetlink::Error) -> io::Error {
    if let rtnetlink::Error::NetlinkError(message) = error {
        message.to_io()
    } else {
        io::Error::other(error)
    }
}

/// The request that stops the kernel from making up a link-local address.
fn without_link_local(index: u32) -> LinkMessage {
    let inet6 = vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)];
    LinkUnspec::new_with_index(index)
        .append_extra_attribute(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(
            inet6,
        )]))
        .build()
}

/// The route to `destination` over the interface `index`, without a gateway.
fn route(index: u32, destination: Prefix) -> RouteMessage {
    match network(destination) {
        (IpAddr::V4(ip), length) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(ip, length)
            .output_interface(index)
            .scope(RouteScope::Link)
            .build(),
        (IpAddr::V6(ip), length) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(ip, length)
            .output_interface(index)
            .build(),
    }
}

/// The prefix with the bits beyond its length cleared.
fn network((ip, length): Prefix) -> Prefix {
    let ip = match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32)));
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask.unwrap_or(0)))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128)));
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0)))
        }
    };
    (ip, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Offload;
    use crate::testing::in_network_namespace;
    use crate::tun::Tun;

    fn prefix(text: &str) -> Prefix {
        let (ip, length) = text.split_once('/').unwrap();
        (ip.parse().unwrap(), length.parse().unwrap())
    }

    #[test]
    fn bits_beyond_the_prefix_are_cleared() {
        for (given, cleared) in [
            ("10.1.2.3/24", "10.1.2.0/24"),
            ("10.1.2.3/32", "10.1.2.3/32"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("2001:db8::1/128", "2001:db8::1/128"),
            ("2001:db8::1/0", "::/0"),
        ] {
            assert_eq!(network(prefix(given)), prefix(cleared), "{given}");
        }
    }

    #[test]
    fn an_interface_gets_its_settings_and_loses_them() {
        in_network_namespace(
            "netlink::configure::tests::an_interface_gets_its_settings_and_loses_them",
            async {
                let _tun = Tun::open("mpt-test", Offload::Off).unwrap();
                let netlink = Netlink::open().unwrap();
                let addresses = [prefix("10.99.0.1/30"), prefix("fd00:99::1/64")];
                let routes = ["10.8.1.7/24", "10.99.0.0/30", "fd00:8::1/48", "0.0.0.0/1"];
                let routes = routes.map(prefix);
                let index = netlink
                    .configure("mpt-test", &addresses, 1464, &routes)
                    .await
                    .unwrap();
                assert_eq!(netlink.interface_index("mpt-test").await.unwrap(), index);

                netlink.add_address(index, addresses[0]).await.unwrap();
                let again = netlink.add_route(index, routes[0]).await.unwrap_err();
                assert!(
                    again
                        .to_string()
                        .starts_with("there is a route to 10.8.1.0/24 already; "),
                    "{again}"
                );
                for _ in 0..2 {
                    netlink.remove_route(index, routes[0]).await.unwrap();
                    netlink.remove_address(index, addresses[0]).await.unwrap();
                    netlink.remove_address(index, addresses[1]).await.unwrap();
                }
                netlink.add_route(index, routes[0]).await.unwrap();
                netlink.set_mtu(index, 1200).await.unwrap();
                let refused = netlink.set_mtu(index, 1 << 20).await.unwrap_err();
                assert!(matches!(refused, NetlinkError::Refused { .. }), "{refused}");
            },
        );
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        in_network_namespace(
            "netlink::configure::tests::what_cannot_be_set_is_named",
            async {
                let netlink = Netlink::open().unwrap();
                let ipv6 = [prefix("fd00:99::1/64")];
                let missing = netlink.configure("mpt-test", &[], 1464, &[]).await;
                assert!(matches!(missing, Err(NetlinkError::NoInterface { .. })));
                let _tun = Tun::open("mpt-test", Offload::Off).unwrap();
                let small = netlink.configure("mpt-test", &ipv6, 1279, &[]).await;
                assert!(matches!(
                    small,
                    Err(NetlinkError::MtuTooSmallForIpv6 { mtu: 1279 })
                ));
                let sysctl = "/proc/sys/net/ipv6/conf/mpt-test/disable_ipv6";
                if std::fs::write(sysctl, "1").is_ok() {
                    let off = netlink.configure("mpt-test", &ipv6, 1464, &[]).await;
                    assert!(
                        matches!(off, Err(NetlinkError::Ipv6Disabled { .. })),
                        "{off:?}"
                    );
                }
            },
        );
    }
}

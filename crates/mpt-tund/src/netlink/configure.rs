//! The TUN interface's MTU, addresses and routes.
//!
//! Requests state a goal. So it is no error when an address is there already, or gone before it is
//! removed. A route that is there already is one: somebody else's packets go that way.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkMessage,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::{AddressMessageBuilder, Handle, LinkUnspec, RouteMessageBuilder};
use tokio::task::JoinHandle;

use super::error::NetlinkError;

/// An address or a route's destination, with the length of its prefix in bits.
pub(crate) type Prefix = (IpAddr, u8);

/// Packets or super-packets that may wait in the TUN. The kernel's 500 are too few: when the far
/// end's reorder window lets go of hundreds of packets at once, TCP answers their acknowledgments
/// with twice as many at once, and a TUN orphans packets, so that TCP's own limit does not hold.
const TX_QUEUE_LEN: u32 = 4096;

/// Metric of a route that the kernel makes for an IPv6 address (`IP6_RT_PRIO_ADDRCONF`).
const IPV6_NETWORK_METRIC: u32 = 256;

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
            // Kernels before 4.20 cannot be strict.
            rtnetlink::new_connection_with_strict_check()
                .or_else(|_| rtnetlink::new_connection())
                .map_err(NetlinkError::Unavailable)?;
        Ok(Netlink {
            handle,
            connection: tokio::spawn(connection),
        })
    }

    /// Gives a new interface what is never compared later: a queue that is long enough, and no
    /// link-local IPv6 address that the kernel makes up. That one would be announced through the tunnel by
    /// packets that nobody asked for; who wants one configures it.
    ///
    /// # Errors
    /// If the kernel refuses the queue's length.
    pub(crate) async fn prepare(&self, index: u32) -> Result<(), NetlinkError> {
        // A kernel without IPv6 refuses, and has no such address to suppress.
        let _ = self
            .handle
            .link()
            .set(without_link_local(index))
            .execute()
            .await;
        let link = LinkUnspec::new_with_index(index)
            .append_extra_attribute(LinkAttribute::TxQueueLen(TX_QUEUE_LEN))
            .build();
        let item = || format!("the queue length {TX_QUEUE_LEN}");
        tried(self.handle.link().set(link).execute(), item).await
    }

    /// Sets the interface `index` up.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) async fn set_up(&self, index: u32) -> Result<(), NetlinkError> {
        let up = LinkUnspec::new_with_index(index).up().build();
        tried(self.handle.link().set(up).execute(), || {
            "the state `up`".to_owned()
        })
        .await
    }

    /// Gives the interface `index` another name. Kernels before 6.2 allow that only while it is down, so
    /// it is set down for that; its IPv6 addresses and its routes go.
    ///
    /// # Errors
    /// If the kernel refuses it, mostly because another interface has the name.
    pub(crate) async fn rename(&self, index: u32, name: &str) -> Result<(), NetlinkError> {
        let item = || format!("the name {name}");
        let renamed = || LinkUnspec::new_with_index(index).name(name).build();
        match tried(self.handle.link().set(renamed()).execute(), item).await {
            Err(error) if error.errno() == Some(libc::EBUSY) => {
                let down = LinkUnspec::new_with_index(index).down().build();
                tried(self.handle.link().set(down).execute(), item).await?;
                tried(self.handle.link().set(renamed()).execute(), item).await
            }
            other => other,
        }
    }

    /// Whether there is an interface `index`.
    pub(crate) async fn exists(&self, index: u32) -> bool {
        let mut links = self.handle.link().get().match_index(index).execute();
        matches!(links.try_next().await, Ok(Some(_)))
    }

    /// The destinations of the routes to hosts and networks that lead out of the interface `index`, each
    /// with its table. There are none when there is no such interface.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub(crate) async fn routes_of(&self, index: u32) -> Result<Vec<(u32, Prefix)>, NetlinkError> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut wanted = RouteMessage::default();
            wanted.header.address_family = family;
            // The kernel goes by this where it is asked to be strict, else it tells all.
            wanted.attributes.push(RouteAttribute::Oif(index));
            let mut routes = self.handle.route().get(wanted).execute();
            loop {
                match routes.try_next().await {
                    Ok(Some(route)) => found.extend(destination_through(index, &route)),
                    Ok(None) => break,
                    Err(error) => match kernel_error(error) {
                        source if is_absent(&source) => break,
                        source => {
                            let item = "a look at the routes".to_owned();
                            return Err(NetlinkError::from_kernel(item, source));
                        }
                    },
                }
            }
        }
        Ok(found)
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
        self.add(route(index, destination), destination).await
    }

    /// Adds the route to the network of an address of the interface `index`, as the kernel does.
    ///
    /// # Errors
    /// As [`Netlink::add_route`].
    pub(crate) async fn add_network(
        &self,
        index: u32,
        address: Prefix,
    ) -> Result<(), NetlinkError> {
        let mut route = route(index, address);
        route.header.protocol = RouteProtocol::Kernel;
        let own = match address.0 {
            IpAddr::V4(ip) => RouteAttribute::PrefSource(RouteAddress::Inet(ip)),
            IpAddr::V6(_) => RouteAttribute::Priority(IPV6_NETWORK_METRIC),
        };
        route.attributes.push(own);
        self.add(route, address).await
    }

    async fn add(&self, route: RouteMessage, destination: Prefix) -> Result<(), NetlinkError> {
        let request = self.handle.route().add(route);
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

/// The destination of a route that leads out of the interface `index`, and its table; none where the kernel
/// keeps it for local delivery or for broadcasts.
fn destination_through(index: u32, route: &RouteMessage) -> Option<(u32, Prefix)> {
    let header = &route.header;
    let mut destination = if header.address_family == AddressFamily::Inet {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let (mut table, mut leads_there) = (u32::from(header.table), false);
    for attribute in &route.attributes {
        if let RouteAttribute::Destination(RouteAddress::Inet(ip)) = attribute {
            destination = IpAddr::V4(*ip);
        } else if let RouteAttribute::Destination(RouteAddress::Inet6(ip)) = attribute {
            destination = IpAddr::V6(*ip);
        } else if let RouteAttribute::Oif(oif) = attribute {
            leads_there = *oif == index;
        } else if let RouteAttribute::Table(wide) = attribute {
            table = *wide;
        }
    }
    let is_unicast = header.kind == RouteType::Unicast;
    let prefix = (destination, header.destination_prefix_length);
    (leads_there && is_unicast).then_some((table, prefix))
}

/// Whether the kernel says that there is no such interface, or no such family.
fn is_absent(error: &io::Error) -> bool {
    let absent = [
        libc::ENODEV,
        libc::ENXIO,
        libc::ENOENT,
        libc::EAFNOSUPPORT,
        libc::EOPNOTSUPP,
    ];
    error
        .raw_os_error()
        .is_some_and(|errno| absent.contains(&errno))
}

/// The prefix with the bits beyond its length cleared.
pub(crate) fn network((ip, length): Prefix) -> Prefix {
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
impl Netlink {
    /// Everything for a new interface at once. Returns its index.
    pub(crate) async fn configure(
        &self,
        name: &str,
        addresses: &[Prefix],
        mtu: u32,
        routes: &[Prefix],
    ) -> Result<u32, NetlinkError> {
        let index = self.interface_index(name).await?;
        self.prepare(index).await?;
        self.set_mtu(index, mtu).await?;
        for &address in addresses {
            self.add_address(index, address).await?;
        }
        self.set_up(index).await?;
        for &route in routes {
            self.add_route(index, route).await?;
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Offload;
    use crate::tun::Tun;
    use net::unit::in_network_namespace;

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
                let routes = ["10.8.1.7/24", "fd00:8::1/48", "0.0.0.0/1"].map(prefix);
                let index = netlink
                    .configure("mpt-test", &addresses, 1464, &routes)
                    .await
                    .unwrap();
                assert_eq!(netlink.interface_index("mpt-test").await.unwrap(), index);

                let main = u32::from(libc::RT_TABLE_MAIN);
                let present = netlink.routes_of(index).await.unwrap();
                for wanted in routes.iter().chain(&addresses) {
                    let wanted = (main, network(*wanted));
                    assert!(present.contains(&wanted), "{wanted:?} in {present:?}");
                }
                assert_eq!(present.len(), 5, "{present:?}");
                assert!(netlink.exists(index).await && !netlink.exists(index + 100).await);
                assert!(netlink.routes_of(index + 100).await.unwrap().is_empty());

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
                netlink.rename(index, "mpt-other").await.unwrap();
                assert_eq!(netlink.interface_index("mpt-other").await.unwrap(), index);
                netlink.set_up(index).await.unwrap();
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

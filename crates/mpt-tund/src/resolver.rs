//! What a host's name stands for, asked over sockets of our own.
//!
//! The C library's resolver cannot be told where its questions go. Where the tunnel's routes cover the
//! name server, they would go into the tunnel, which waits for the answer to come up. So the questions
//! are asked here, from sockets that carry the tunnel's mark (see `routing`).
//!
//! `/etc/resolv.conf` and `/etc/hosts` are read for each question: names are looked up seldom, and what
//! DHCP wrote meanwhile holds. Which servers there are is asked often, and read where the files have changed.
//! What other sources the C library has (`nsswitch.conf`: mDNS, LDAP) is not asked, unless a name server on this
//! host does so: systemd-resolved, on 127.0.0.53.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::pin::Pin;
use std::time::Duration;

use hickory_resolver::Resolver;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_resolver::net::runtime::{RuntimeProvider, TokioHandle, TokioTime};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::system_conf::parse_resolv_conf;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpStream, UdpSocket};

use crate::config::Family;

/// Which name servers there are (`resolv.conf(5)`).
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Where systemd-resolved writes which name servers it asks itself.
const RESOLVED_UPLINKS: &str = "/run/systemd/resolve/resolv.conf";
/// systemd-resolved on this host. Its own questions carry no mark.
const RESOLVED_STUB: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53));
/// A question may take this long, with all servers and attempts. The C library's default is 10 s for one server.
const LONGEST: Duration = Duration::from_secs(15);
/// A connection over TCP, for an answer that is too long for UDP, is given up after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How questions leave this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// `SO_MARK`; 0 for none.
    pub(crate) mark: u32,
    /// The address that they come from; the kernel chooses where none is given, and where the server has
    /// an address of another family or is on this host.
    pub(crate) source: Option<IpAddr>,
    /// The device that they leave by, whatever the routes say.
    pub(crate) device: Option<String>,
}

/// The addresses, of one family or of both, that `host` stands for; at least one.
///
/// # Errors
/// Why there is none, in words.
pub(crate) async fn look_up(
    host: &str,
    family: Option<Family>,
    way: &Way,
) -> Result<Vec<IpAddr>, String> {
    let (config, mut options) = configuration();
    options.ip_strategy = match family {
        Some(Family::V4) => LookupIpStrategy::Ipv4Only,
        Some(Family::V6) => LookupIpStrategy::Ipv6Only,
        None => LookupIpStrategy::Ipv4AndIpv6,
    };
    let servers: Vec<String> = config
        .name_servers
        .iter()
        .map(|server| server.ip.to_string())
        .collect();
    let resolver = Resolver::builder_with_config(config, Sockets::of(way))
        .with_options(options)
        .build()
        .map_err(|error| error.to_string())?;
    let none = match family {
        Some(family) => format!("it has no {family} address"),
        None => "it has no address".to_owned(),
    };
    match tokio::time::timeout(LONGEST, resolver.lookup_ip(host)).await {
        Err(_) | Ok(Err(NetError::Timeout)) => Err(format!(
            "no name server has answered ({})",
            servers.join(", ")
        )),
        Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none))))
            if none.response_code == ResponseCode::NXDomain =>
        {
            Err("there is no such name".to_owned())
        }
        Ok(Err(NetError::Dns(DnsError::NoRecordsFound(_)))) => Err(none),
        Ok(Err(error)) => Err(format!(
            "the name servers ({}) do not help: {error}",
            servers.join(", ")
        )),
        Ok(Ok(found)) => {
            let addresses: Vec<IpAddr> = found.iter().collect();
            if addresses.is_empty() {
                return Err(none);
            }
            Ok(addresses)
        }
    }
}

/// Addresses of the name servers that are asked now, those on this host left out.
pub(crate) fn servers() -> Vec<IpAddr> {
    thread_local! { static KNOWN: RefCell<Known> = RefCell::default() }
    KNOWN.with_borrow_mut(|known| {
        known.servers([RESOLV_CONF, RESOLVED_UPLINKS], || {
            let servers = configuration().0.name_servers.into_iter();
            let servers = servers.map(|server| server.ip);
            servers.filter(|server| !server.is_loopback()).collect()
        })
    })
}

/// The servers that the files had when they were last read.
#[derive(Default)]
struct Known(Option<([Option<Version>; 2], Vec<IpAddr>)>);

/// What tells a file from the same one after a change.
#[derive(PartialEq, Eq)]
struct Version {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
}

impl Version {
    /// Of a file as it is now; `None` where there is none.
    fn of(file: &str) -> Option<Version> {
        let about = std::fs::metadata(file).ok()?;
        Some(Version {
            file: (about.dev(), about.ino()),
            bytes: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
        })
    }
}

impl Known {
    /// The servers, which `read` says where one of the files has changed.
    fn servers(&mut self, files: [&str; 2], read: impl FnOnce() -> Vec<IpAddr>) -> Vec<IpAddr> {
        let now = files.map(Version::of);
        let (_, servers) = match self.0.take() {
            Some(known) if known.0 == now => self.0.insert(known),
            Some(_) | None => self.0.insert((now, read())),
        };
        servers.clone()
    }
}

/// Which servers are asked, and how, by the files as they are now.
fn configuration() -> (ResolverConfig, ResolverOpts) {
    let read = |file: &str| std::fs::read(file).unwrap_or_default();
    let (config, mut options) = servers_of(&read(RESOLV_CONF), &read(RESOLVED_UPLINKS));
    // One after the other, in the order of the file, as the C library does; over TCP where UDP fails.
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    options.num_concurrent_reqs = 1;
    options.try_tcp_on_error = true;
    options.cache_size = 0;
    (config, options)
}

/// The servers of `resolv_conf`. Where systemd-resolved is one, those that it asks follow: its own questions
/// have no mark, and may be lost in the tunnel.
fn servers_of(resolv_conf: &[u8], uplinks: &[u8]) -> (ResolverConfig, ResolverOpts) {
    let Ok((mut config, options)) = parse_resolv_conf(resolv_conf) else {
        // resolv.conf(5): without any, the one on this host is asked.
        let here = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
        let config = ResolverConfig::from_parts(None, vec![], vec![here]);
        return (config, ResolverOpts::default());
    };
    let known = |server: &NameServerConfig, ip: IpAddr| server.ip == ip;
    if config
        .name_servers
        .iter()
        .any(|server| known(server, RESOLVED_STUB))
        && let Ok((more, _)) = parse_resolv_conf(uplinks)
    {
        for server in more.name_servers {
            if !config.name_servers.iter().any(|one| known(one, server.ip)) {
                config.name_servers.push(server);
            }
        }
    }
    (config, options)
}

/// Makes the resolver's sockets.
#[derive(Clone)]
struct Sockets {
    tasks: TokioHandle,
    way: Way,
}

impl Sockets {
    fn of(way: &Way) -> Sockets {
        Sockets {
            tasks: TokioHandle::default(),
            way: way.clone(),
        }
    }

    /// A socket for questions to `server`, bound to `local` as far as the way leaves that open.
    fn open(
        &self,
        kind: Type,
        protocol: Protocol,
        local: Option<SocketAddr>,
        server: SocketAddr,
    ) -> io::Result<Socket> {
        let socket = Socket::new(
            Domain::for_address(server),
            kind.nonblocking(),
            Some(protocol),
        )?;
        if self.way.mark != 0 {
            socket.set_mark(self.way.mark)?;
        }
        let mut local = local;
        if !server.ip().is_loopback() {
            if let Some(device) = &self.way.device {
                socket.bind_device(Some(device.as_bytes()))?;
            }
            let is_like_server = |ip: &IpAddr| ip.is_ipv4() == server.is_ipv4();
            if let Some(source) = self.way.source.filter(is_like_server) {
                local = Some(SocketAddr::new(
                    source,
                    local.map_or(0, |local| local.port()),
                ));
            }
        }
        if let Some(local) = local {
            socket.bind(&local.into())?;
        }
        Ok(socket)
    }
}

impl RuntimeProvider for Sockets {
    type Handle = TokioHandle;
    type Timer = TokioTime;
    type Udp = UdpSocket;
    type Tcp = AsyncIoTokioAsStd<TcpStream>;

    fn create_handle(&self) -> TokioHandle {
        self.tasks.clone()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        local: Option<SocketAddr>,
        timeout: Option<Duration>,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<Self::Tcp>>>> {
        let socket = self.open(Type::STREAM, Protocol::TCP, local, server);
        Box::pin(async move {
            let socket = tokio::net::TcpSocket::from_std_stream(socket?.into());
            let connecting = socket.connect(server);
            match tokio::time::timeout(timeout.unwrap_or(CONNECT_TIMEOUT), connecting).await {
                Ok(connected) => Ok(AsyncIoTokioAsStd(connected?)),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        })
    }

    fn bind_udp(
        &self,
        local: SocketAddr,
        server: SocketAddr,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<UdpSocket>>>> {
        let socket = self.open(Type::DGRAM, Protocol::UDP, Some(local), server);
        Box::pin(async move { UdpSocket::from_std(socket?.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(resolv_conf: &str, uplinks: &str) -> Vec<String> {
        let (config, _) = servers_of(resolv_conf.as_bytes(), uplinks.as_bytes());
        let servers = config.name_servers.iter();
        servers.map(|server| server.ip.to_string()).collect()
    }

    #[test]
    fn servers_are_asked_in_the_order_of_the_file() {
        let file = "search example.net\nnameserver 192.0.2.2\nnameserver 2001:db8::53\n";
        assert_eq!(addresses(file, ""), ["192.0.2.2", "2001:db8::53"]);
    }

    #[test]
    fn without_a_file_the_server_on_this_host_is_asked() {
        assert_eq!(addresses("", ""), ["127.0.0.1"]);
    }

    #[test]
    fn the_servers_of_systemd_resolved_follow_it() {
        let uplinks = "nameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        assert_eq!(
            addresses("nameserver 127.0.0.53\n", uplinks),
            ["127.0.0.53", "192.0.2.2", "192.0.2.3"]
        );
        assert_eq!(addresses("nameserver 192.0.2.9\n", uplinks), ["192.0.2.9"]);
    }

    #[test]
    fn files_are_read_again_where_they_have_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        let (mut known, mut reads) = (Known::default(), 0);
        let mut ask = || {
            known.servers([file.to_str().unwrap(), "/nonexistent"], || {
                reads += 1;
                vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, reads))]
            })[0]
        };
        let first = ask();
        assert_eq!(ask(), first);
        std::fs::write(&file, "nameserver 192.0.2.2").unwrap();
        let second = ask();
        assert_ne!(second, first);
        assert_eq!(ask(), second);
        std::fs::write(&file, "nameserver 192.0.2.20").unwrap();
        assert_ne!(ask(), second);
    }

    #[tokio::test]
    async fn the_file_of_hosts_is_asked_first() {
        let found = look_up("localhost", Some(Family::V4), &Way::default())
            .await
            .unwrap();
        assert_eq!(found, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }
}

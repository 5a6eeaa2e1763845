//! A connection of its own for each transfer: so many bytes, or for so long; plain TCP or the kernel's MPTCP.
//!
//! iperf3 fills a path. Most of what people load is smaller than what fills one, and comes over a connection
//! that is new: the time from the first SYN to the last byte is what they wait. Both ends run in this process.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::namespace::Namespace;
use crate::topology::Hosts;

/// Nothing in a test takes so long between two pieces of a transfer; then it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of one write, and of one read at most.
const PIECE_BYTES: usize = 256 * 1024;
/// Bytes asked for where time ends a transfer.
const ENDLESS: u64 = u64::MAX;

/// What carries a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// MPTCP of the kernel (RFC 8684), over what [`allow_subflows`] allows.
    Mptcp,
}

impl Transport {
    fn socket(self, address: SocketAddr) -> io::Result<Socket> {
        let protocol = match self {
            Self::Tcp => Protocol::TCP,
            Self::Mptcp => Protocol::MPTCP,
        };
        Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))
    }

    /// Whether a host's kernel has it.
    #[must_use]
    pub fn is_there(self, host: &Namespace) -> bool {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        host.inside(|| self.socket(any).is_ok())
    }
}

/// A page: objects over a few connections, as browsers load what HTTP/1.1 brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// How many.
    pub objects: usize,
    /// Bytes of each.
    pub object_bytes: u64,
    /// Connections, which share the objects evenly.
    pub connections: usize,
}

/// Lets MPTCP connections to A's first address use all links: A announces its other addresses.
pub fn allow_subflows(hosts: &Hosts) {
    for host in [&hosts.a, &hosts.b] {
        host.sysctl("net.mptcp.enabled", "1");
        host.run("ip mptcp limits set subflows 4 add_addr_accepted 4");
    }
    for link in hosts.links.iter().skip(1) {
        let (address, device) = (&link.address_a, &link.device);
        let line = format!("ip mptcp endpoint add {address} dev {device} signal");
        hosts.a.run(&line);
    }
}

/// A host that gives each connection as many bytes as it asks for.
#[derive(Debug)]
pub struct Source {
    listener: Socket,
    address: SocketAddr,
    transport: Transport,
}

impl Source {
    /// Listens on this address of `host`; its connections send by this congestion control.
    ///
    /// # Panics
    /// When the kernel has no such transport or congestion control, or the host no such address.
    #[must_use]
    pub fn open(host: &Namespace, address: &str, transport: Transport, congestion: &str) -> Self {
        host.sysctl("net.ipv4.tcp_congestion_control", congestion);
        let ip: IpAddr = address.parse().expect("an address");
        // Of all addresses: a subflow comes to another one.
        let any: SocketAddr = match ip {
            IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let listener = host.inside(|| -> io::Result<Socket> {
            let listener = transport.socket(any)?;
            listener.bind(&any.into())?;
            listener.listen(8)?;
            // Accepting ends, too.
            listener.set_read_timeout(Some(PATIENCE))?;
            Ok(listener)
        });
        let listener = listener.expect("a socket that listens");
        let bound = listener.local_addr().expect("its address");
        let port = bound.as_socket().expect("an address and a port").port();
        Self {
            listener,
            address: SocketAddr::new(ip, port),
            transport,
        }
    }

    /// How long `client` takes from the first SYN of a new connection to the last of so many bytes.
    ///
    /// # Panics
    /// When the connection breaks, or stands still for a minute.
    #[must_use]
    pub fn fetch(&self, client: &Namespace, bytes: u64) -> Duration {
        let mut left = bytes;
        self.transfer(client, bytes, &mut |_, count| {
            left = left.saturating_sub(count);
            left > 0
        })
    }

    /// Mbit/s that arrive at `client` over a new connection in each of so many seconds from its first SYN.
    ///
    /// # Panics
    /// As [`Self::fetch`].
    #[must_use]
    pub fn each_second_mbps(&self, client: &Namespace, seconds: u32) -> Vec<f64> {
        let mut bytes = vec![0; seconds as usize];
        let _ = self.transfer(client, ENDLESS, &mut |at, count| {
            let Some(second) = bytes.get_mut(at.as_secs() as usize) else {
                return false;
            };
            *second += count;
            true
        });
        bytes.iter().map(|bytes| *bytes as f64 * 8e-6).collect()
    }

    /// Runs a transfer while `goes_on`, which is told of each piece: when it came, and how many bytes it had.
    fn transfer(
        &self,
        client: &Namespace,
        bytes: u64,
        goes_on: &mut dyn FnMut(Duration, u64) -> bool,
    ) -> Duration {
        let socket = client.inside(|| self.transport.socket(self.address));
        let socket = socket.expect("a socket");
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| self.serve_one());
            let took = fetch(socket, self.address, bytes, goes_on).expect("a transfer");
            let served = serving.join().expect("the serving thread");
            // A client that has seen enough lets its connection end.
            assert!(served.is_ok() || bytes == ENDLESS, "{served:?}");
            took
        })
    }

    /// How long `client` takes for a page: from the first SYN to the last byte of all objects, over so many new
    /// connections, each of which asks for its next object when it has the one before.
    ///
    /// # Panics
    /// As [`Self::fetch`].
    #[must_use]
    pub fn page(&self, client: &Namespace, page: Page) -> Duration {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let loading: Vec<_> = (0..page.connections)
                .map(|_| {
                    let socket = client.inside(|| self.transport.socket(self.address));
                    let socket = socket.expect("a socket");
                    let serving = scope.spawn(|| self.serve_one());
                    let objects = page.objects / page.connections;
                    let load = move || fetch_all(socket, self.address, objects, page.object_bytes);
                    (scope.spawn(load), serving)
                })
                .collect();
            for (loading, serving) in loading {
                loading.join().expect("a thread").expect("a connection");
                serving.join().expect("a thread").expect("a connection");
            }
        });
        start.elapsed()
    }

    /// Gives one connection what it asks for, again and again.
    fn serve_one(&self) -> io::Result<()> {
        let (socket, _) = self.listener.accept()?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut stream = TcpStream::from(socket);
        let (mut asked, piece) = ([0; 8], vec![0; PIECE_BYTES]);
        loop {
            match stream.read_exact(&mut asked) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            let mut left = u64::from_be_bytes(asked);
            while left > 0 {
                let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                stream.write_all(&piece[..count])?;
                left -= count as u64;
            }
        }
    }
}

/// Asks for one object after the other.
fn fetch_all(socket: Socket, address: SocketAddr, objects: usize, bytes: u64) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    let mut object = vec![0; bytes as usize];
    for _ in 0..objects {
        stream.write_all(&bytes.to_be_bytes())?;
        stream.read_exact(&mut object)?;
    }
    Ok(())
}

/// Asks for so many bytes and reads while `goes_on`; how long that took.
fn fetch(
    socket: Socket,
    address: SocketAddr,
    bytes: u64,
    goes_on: &mut dyn FnMut(Duration, u64) -> bool,
) -> io::Result<Duration> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let start = Instant::now();
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&bytes.to_be_bytes())?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match stream.read(&mut piece) {
            // A child that ends interrupts what MPTCP reads.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let at = start.elapsed();
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !goes_on(at, count as u64) {
            return Ok(at);
        }
    }
}

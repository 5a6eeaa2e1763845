//! Why a path's socket could not be opened: the operator's situation, not the system call's.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a path's socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another socket holds the port.
    #[error(
        "{local} is in use by another program or path; \
         `ss -ulpn 'sport = {}'` shows which; choose another port for `local`",
        local.port()
    )]
    PortTaken {
        /// What was to be bound.
        local: SocketAddr,
    },
    /// No interface has the address (or it is an IPv6 address not yet checked for duplicates).
    #[error(
        "{} is not an address of this host; `ip address` lists those that are \
         (an IPv6 address marked `tentative` is usable a second or two later)",
        local.ip()
    )]
    AddressAbsent {
        /// What was to be bound.
        local: SocketAddr,
    },
    /// There is no interface of that name.
    #[error("there is no interface {interface}; `ip link` lists those that there are")]
    NoInterface {
        /// The name as configured.
        interface: String,
    },
    /// A link-local address means nothing without its interface.
    #[error("{} is link-local and needs its interface named: `interface = \"…\"`", local.ip())]
    NeedsInterface {
        /// What was to be bound.
        local: SocketAddr,
    },
    /// The kernel does not let this user do it.
    #[error(
        "not permitted to {what}: run as root, or grant {capability} (setcap, or systemd's AmbientCapabilities=); \
         a daemon that needed it for nothing at its start has given it up, and needs a restart"
    )]
    NotPermitted {
        /// What was tried.
        what: String,
        /// The capability that allows it.
        capability: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no such address family.
    #[error(
        "this host's kernel does not speak {} (for IPv6, see the boot option ipv6.disable)",
        if local.is_ipv4() { "IPv4" } else { "IPv6" }
    )]
    NoFamily {
        /// What was to be bound.
        local: SocketAddr,
    },
    /// Anything else.
    #[error("cannot {what}: {source}")]
    Failed {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SocketError {
    pub(super) fn from_create(local: SocketAddr, source: io::Error) -> SocketError {
        match source.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => SocketError::NoFamily { local },
            _ => SocketError::Failed {
                what: format!("create the UDP socket for {local}"),
                source,
            },
        }
    }

    pub(super) fn from_bind_device(interface: &str, source: io::Error) -> SocketError {
        let what = format!("bind to the interface {interface}");
        match source.raw_os_error() {
            // A name too long for any interface is EINVAL.
            Some(libc::ENODEV | libc::EINVAL) => SocketError::NoInterface {
                interface: interface.to_owned(),
            },
            Some(libc::EPERM | libc::EACCES) => SocketError::NotPermitted {
                what,
                capability: "CAP_NET_RAW",
                source,
            },
            _ => SocketError::Failed { what, source },
        }
    }

    pub(super) fn from_bind(
        local: SocketAddr,
        interface: Option<&str>,
        source: io::Error,
    ) -> SocketError {
        match source.raw_os_error() {
            Some(libc::EADDRINUSE) => SocketError::PortTaken { local },
            Some(libc::EADDRNOTAVAIL) => SocketError::AddressAbsent { local },
            Some(libc::EINVAL) if interface.is_none() && is_link_local(local.ip()) => {
                SocketError::NeedsInterface { local }
            }
            Some(libc::EACCES | libc::EPERM) => SocketError::NotPermitted {
                what: format!("bind to {local}"),
                capability: "CAP_NET_BIND_SERVICE",
                source,
            },
            _ => SocketError::Failed {
                what: format!("bind to {local}"),
                source,
            },
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

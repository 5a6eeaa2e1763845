//! What the kernel refused to configure, and what the operator can do.

use std::io;

/// What the kernel refused to set, and what the operator can do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetlinkError {
    /// No netlink socket.
    #[error(
        "cannot open a netlink socket ({0}); under systemd, RestrictAddressFamilies= must \
         contain AF_NETLINK"
    )]
    Unavailable(#[source] io::Error),
    /// There is no interface of that name.
    #[error("there is no interface {name}")]
    NoInterface {
        /// The name.
        name: String,
    },
    /// Neither root nor CAP_NET_ADMIN.
    #[error("not permitted to set {item}: run as root, or grant CAP_NET_ADMIN")]
    NotPermitted {
        /// What was to be set.
        item: String,
    },
    /// The host has a route to the same prefix.
    #[error(
        "there is a route to {route} already; `ip route show exact {route}` shows it; remove it, \
         or take the route from `routes` (in place of a default route, two halves work: \
         0.0.0.0/1 and 128.0.0.0/1, or ::/1 and 8000::/1)"
    )]
    RouteExists {
        /// The destination.
        route: String,
    },
    /// IPv6 is switched off on the host or for new interfaces.
    #[error(
        "cannot set {item}: IPv6 is switched off on this host; remove it, or \
         `sysctl net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0`"
    )]
    Ipv6Disabled {
        /// What was to be set.
        item: String,
    },
    /// Anything else.
    #[error("the kernel refuses {item}: {source}")]
    Refused {
        /// What was to be set.
        item: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl NetlinkError {
    /// The situation behind the kernel's answer to a request for `item`.
    pub(super) fn from_kernel(item: String, source: io::Error) -> NetlinkError {
        match source.raw_os_error() {
            Some(libc::EPERM) => NetlinkError::NotPermitted { item },
            // The kernel's words for disable_ipv6, and for having no IPv6 at all.
            Some(libc::EACCES | libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => {
                NetlinkError::Ipv6Disabled { item }
            }
            _ => NetlinkError::Refused { item, source },
        }
    }

    /// What the kernel said, where it is kept.
    pub(super) fn errno(&self) -> Option<i32> {
        if let NetlinkError::Refused { source, .. } = self {
            source.raw_os_error()
        } else {
            None
        }
    }
}

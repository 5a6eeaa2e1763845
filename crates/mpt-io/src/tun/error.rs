//! Why a TUN interface could not be opened: the operator's situation, not the system call's.

use std::ffi::CString;
use std::io;

use super::{MAX_NAME, offload};

/// Why a TUN interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The name cannot be an interface's.
    #[error(
        "{name:?} cannot be an interface's name: use 1 to {MAX_NAME} bytes \
         without space, `/`, `:` or `%`"
    )]
    BadName {
        /// The name as configured.
        name: String,
    },
    /// Neither root nor CAP_NET_ADMIN.
    #[error(
        "not permitted to create the TUN interface {name}: run as root (sudo), or grant \
         CAP_NET_ADMIN: `setcap cap_net_admin+ep` on mpt-tund, or AmbientCapabilities=CAP_NET_ADMIN \
         in its systemd unit; in a container, --cap-add NET_ADMIN --device /dev/net/tun"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The device's file mode shuts this user out.
    #[error(
        "no access to /dev/net/tun: run as root (sudo), or give the device its usual mode with \
         `chmod 0666 /dev/net/tun` and grant CAP_NET_ADMIN, which creating {name} still needs"
    )]
    NoAccess {
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no TUN, or the container does not see it.
    #[error(
        "there is no /dev/net/tun: load the module with `modprobe tun`; \
         in a container, start it with --device /dev/net/tun"
    )]
    NoDevice {
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process has the interface open.
    #[error(
        "the TUN interface {name} is in use by another process, perhaps an mpt-tund that still \
         runs; `ip -details tuntap` shows which"
    )]
    InUse {
        /// The interface.
        name: String,
    },
    /// There is an interface of that name which is no TUN, or one of another kind.
    #[error(
        "the name {name} belongs to an interface of another kind; `ip -details link show {name}` \
         shows it; remove it or choose another `name`"
    )]
    NameTaken {
        /// The interface.
        name: String,
    },
    /// The interface could be had, but not with what `offload = "on"` demands.
    #[error(
        "the kernel refuses {what} for the TUN interface {name} ({source}), and offload = \"on\" \
         demands it: write offload = \"auto\" to go without, one packet at a time, or run on a \
         Linux kernel of its own; some sandboxes imitate a TUN without offloads"
    )]
    NoOffload {
        /// The interface.
        name: String,
        /// What was asked for.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot create the TUN interface {name}: {source}")]
    Failed {
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TunError {
    /// The situation that the kernel's answer to creating `name` means.
    pub(super) fn diagnose(name: &str, source: io::Error) -> TunError {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TunError::NoDevice { source },
            Some(libc::EPERM) => TunError::NotPermitted { name, source },
            Some(libc::EACCES) => TunError::NoAccess { name, source },
            Some(libc::EBUSY) => TunError::InUse { name },
            Some(libc::EINVAL | libc::EEXIST) if interface_exists(&name) => {
                TunError::NameTaken { name }
            }
            _ => TunError::Failed { name, source },
        }
    }

    /// The same where the kernel refused `what` and offloads are a must.
    pub(super) fn diagnose_refusal(name: &str, what: &'static str, source: io::Error) -> TunError {
        let name = name.to_owned();
        if what == offload::HEADER && interface_exists(&name) {
            TunError::NameTaken { name }
        } else {
            TunError::NoOffload { name, what, source }
        }
    }
}

/// Asks the kernel, since /sys may show another network namespace's interfaces.
fn interface_exists(name: &str) -> bool {
    let Ok(name) = CString::new(name) else {
        return false;
    };
    // SAFETY: `name` is a string that ends in zero and lives through the call, which only reads it.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_of_the_kernel_becomes_a_situation() {
        let diagnose = |errno| TunError::diagnose("lo", io::Error::from_raw_os_error(errno));
        assert!(matches!(diagnose(libc::ENOENT), TunError::NoDevice { .. }));
        assert!(matches!(diagnose(libc::ENODEV), TunError::NoDevice { .. }));
        assert!(matches!(
            diagnose(libc::EPERM),
            TunError::NotPermitted { .. }
        ));
        assert!(matches!(diagnose(libc::EACCES), TunError::NoAccess { .. }));
        assert!(matches!(diagnose(libc::EBUSY), TunError::InUse { .. }));
        assert!(matches!(diagnose(libc::EINVAL), TunError::NameTaken { .. }));
        assert!(matches!(diagnose(libc::ENOMEM), TunError::Failed { .. }));
        let free = TunError::diagnose("mpt-nowhere", io::Error::from_raw_os_error(libc::EINVAL));
        assert!(matches!(free, TunError::Failed { .. }));
    }

    #[test]
    fn a_refusal_that_is_a_demand_says_how_to_go_without() {
        let refuse = |name| {
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            TunError::diagnose_refusal(name, offload::HEADER, source)
        };
        let text = refuse("mpt-nowhere").to_string();
        assert!(
            text.contains("IFF_VNET_HDR") && text.contains("offload = \"auto\""),
            "{text}"
        );
        assert!(matches!(refuse("lo"), TunError::NameTaken { .. }));
    }
}

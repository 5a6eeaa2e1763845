//! What the daemon may do, and how soon it may no more.
//!
//! It starts as root, or with CAP_NET_ADMIN alone. With `user` in the configuration it becomes that user before
//! anything is opened, and keeps the network's capabilities and CAP_BPF; what takes root's files is then another
//! process's affair (`crate::files`). Else set-up may need more: to give the control socket to
//! somebody, to read files of others. Once it has tried to open all, the control thread keeps
//! CAP_NET_ADMIN, for addresses, routes and MTUs that change, for an interface that is to be made again, and
//! for the marks and buffers of sockets that are opened later; CAP_NET_RAW where a path names an interface
//! and the kernel is one that asks for it (before 5.7); CAP_NET_BIND_SERVICE where a port is below 1024;
//! CAP_CHOWN where a socket has an owner, since it is made again when somebody removes its file. CAP_BPF is not kept:
//! what chooses a hub's queues is made at the start (`crate::hub::queues`). The threads that
//! packets go through hold nothing at all. Nothing can be had back: neither by a set-uid file nor by root's
//! identity.

use std::io;

use rustix::process::{self, DumpableBehavior, Resource, Rlimit, setrlimit};
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::config::{Config, Listen};

/// Ports below this are for CAP_NET_BIND_SERVICE.
const FIRST_FREE_PORT: u16 = 1024;

/// Leaves all of this process's memory, and that of its children, out of core dumps, whoever writes them
/// (`MADV_DONTDUMP` for every mapping, those to come included). To be called before [`renounce`]: afterwards the
/// file is root's.
///
/// # Errors
/// When there is no such file.
pub(crate) fn hide_memory() -> io::Result<()> {
    std::fs::write("/proc/self/coredump_filter", "0")
}

/// What holds from the first moment: no new privileges, and no core dump, which would hold keys.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn renounce() -> io::Result<()> {
    thread::set_no_new_privs(true)?;
    // Neither a core that is piped to a program, which no limit stops, nor another process of this user.
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Becomes another user, with its group alone and with no capabilities but the network's. To be called while
/// there is one thread: others would stay who they are.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn become_user(user: u32, group: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    thread::set_thread_groups(&[])?;
    thread::set_keep_capabilities(true)?;
    thread::set_thread_res_gid(group, group, group)?;
    thread::set_thread_res_uid(user, user, user)?;
    thread::set_keep_capabilities(false)?;
    let of_network = CapabilitySet::NET_ADMIN
        | CapabilitySet::NET_RAW
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::BPF;
    let kept = thread::capabilities(None)?.permitted & of_network;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(thread::set_capabilities(None, sets)?)
}

/// What the control thread goes on needing for these tunnels.
pub(crate) fn needed(configs: &[Config]) -> CapabilitySet {
    let mut needed = CapabilitySet::NET_ADMIN;
    let metrics = configs.iter().flat_map(|config| &config.metrics);
    if metrics.into_iter().any(|metrics| {
        matches!(metrics.listen, Listen::Tcp(address) if address.port() < FIRST_FREE_PORT)
    }) {
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    for path in configs.iter().flat_map(|config| &config.paths) {
        if path.interface.is_some() {
            needed |= CapabilitySet::NET_RAW;
        }
        if path.local.port < FIRST_FREE_PORT {
            needed |= CapabilitySet::NET_BIND_SERVICE;
        }
    }
    needed
}

/// Gives up all capabilities of the calling thread, and of those it begins later, but these.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let held = thread::capabilities(None)?;
    // Who may not change this set cannot gain from it either: nothing new is to be had by `renounce`.
    for capability in (CapabilitySet::all() - kept).iter() {
        let _ = thread::remove_capability_from_bounding_set(capability);
    }
    let _ = thread::clear_ambient_capability_set();
    let kept = held.permitted & kept;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(thread::set_capabilities(None, sets)?)
}

/// Their names, for the log.
pub(crate) fn names(of: CapabilitySet) -> String {
    let names: Vec<String> = of
        .iter_names()
        .map(|(name, _)| format!("CAP_{name}"))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_privileges_has_none() {
        let thread = std::thread::spawn(|| {
            keep(CapabilitySet::empty()).unwrap();
            let none = thread::capabilities(None).unwrap();
            assert!(none.permitted.is_empty() && none.effective.is_empty());
            keep(CapabilitySet::NET_ADMIN).unwrap();
            assert!(
                thread::capabilities(None).unwrap().permitted.is_empty(),
                "gone for good"
            );
        });
        thread.join().unwrap();
    }

    #[test]
    fn no_core_is_dumped() {
        hide_memory().unwrap();
        renounce().unwrap();
        let dumpable = process::dumpable_behavior().unwrap();
        assert_eq!(dumpable, DumpableBehavior::NotDumpable);
    }

    #[test]
    fn names_are_those_that_people_know() {
        let two = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        assert_eq!(names(two), "CAP_NET_ADMIN, CAP_NET_RAW");
    }
}

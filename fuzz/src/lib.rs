//! The properties that are fuzzed; each is a function of any bytes. The modules of binaries cannot be
//! linked to: they are compiled once more.

mod codecs;
mod sealed;
mod tunnel;

/// The parts of `mpt-ctl measure` that take in bytes.
#[path = "../../crates/mpt-measure/src"]
mod measure {
    #![allow(dead_code, reason = "what reads and writes files is left out")]

    mod capture;
    mod follow;
    mod frame;
    pub(crate) mod hostile;
    mod icmp;
    mod numbering;
    mod read;
    mod report;
    mod session;
    mod stamp;
    mod stream;
    mod two_way {
        pub(crate) mod packet;
    }
}

/// The parts of the daemon that take in bytes.
#[path = "../../crates/mpt-tund/src/config/mod.rs"]
#[allow(dead_code, unused_imports, reason = "what writes files is left out")]
mod config;

#[path = "../../crates/mpt-tund/src/control"]
mod control {
    #![allow(dead_code, reason = "nobody is given a socket here")]

    mod owner;
    pub(crate) use owner::Owner;
}

#[path = "../../crates/mpt-tund/src/files"]
mod files {
    pub(crate) mod hostile;
    mod wire;
}

#[path = "../../crates/mpt-tund/src/hostile.rs"]
mod hostile;

#[path = "../../crates/mpt-tund/src/netlink"]
mod netlink {
    #![allow(dead_code, reason = "nothing is asked of the kernel")]

    pub(crate) mod hostile;
    mod links;
    mod wire;
}

/// `mpt-ctl measure read` on any bytes.
pub fn measure_capture(bytes: &[u8]) {
    measure::hostile::capture(bytes);
}

/// `mpt-ctl measure receive` on any packets, and a STAMP reflector's answer to them.
pub fn measure_receiver(bytes: &[u8]) {
    measure::hostile::receiver(bytes);
}

/// Any text as the file of a tunnel, and as that of its keys.
pub fn configuration(bytes: &[u8]) {
    hostile::configuration(bytes);
}

/// Any datagrams from the kernel on links, addresses, routes and rules.
pub fn netlink(bytes: &[u8]) {
    netlink::hostile::datagrams(bytes);
}

/// Any bytes between the daemon and the process that keeps its files.
pub fn files(bytes: &[u8]) {
    files::hostile::conversation(bytes);
}

/// Any bytes for an end that has a session.
pub fn sealed_datagram(bytes: &[u8]) {
    sealed::datagram(bytes);
}

/// Any network between two ends with keys.
pub fn sealed_pair(bytes: &[u8]) {
    sealed::pair(bytes);
}

/// Any bytes for each of the parsers.
pub fn codecs(bytes: &[u8]) {
    codecs::all(bytes);
}

/// Anything that can happen to the two ends of a tunnel.
pub fn tunnel(bytes: &[u8]) {
    tunnel::any(bytes);
}

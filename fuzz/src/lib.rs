//! The properties that are fuzzed; each is a function of any bytes. The modules of binaries cannot be
//! linked to: they are compiled once more.

mod codecs;
mod sealed;
mod tunnel;

/// The parts of `mpt-ctl measure` that take in bytes.
#[path = "../../crates/mpt-ctl/src/measure"]
mod measure {
    #![allow(dead_code, reason = "what reads and writes files is left out")]

    mod capture;
    mod follow;
    mod frame;
    pub(crate) mod hostile;
    mod icmp;
    mod read;
    mod report;
    mod session;
    mod stamp;
    mod stream;
}

/// `mpt-ctl measure read` on any bytes.
pub fn measure_capture(bytes: &[u8]) {
    measure::hostile::capture(bytes);
}

/// `mpt-ctl measure receive` on any packets.
pub fn measure_receiver(bytes: &[u8]) {
    measure::hostile::receiver(bytes);
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

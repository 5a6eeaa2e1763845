//! The properties that are fuzzed; each is a function of any bytes.

mod sealed;

/// Any bytes for an end that has a session.
pub fn sealed_datagram(bytes: &[u8]) {
    sealed::datagram(bytes);
}

/// Any network between two ends with keys.
pub fn sealed_pair(bytes: &[u8]) {
    sealed::pair(bytes);
}

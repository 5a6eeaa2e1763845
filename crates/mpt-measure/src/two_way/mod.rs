//! Two-way measurements by STAMP (RFC 8762, RFC 8972), with whatever host has a reflector: each direction's order, loss
//! and delay variation, and the round trip.

pub(crate) mod packet;
pub(crate) mod reflector;
pub(crate) mod sender;

/// STAMP's UDP port (RFC 8762 §4.1).
pub(crate) const PORT: u16 = 862;
/// UDP payload that a test packet takes at least.
pub(crate) const LEAST_BYTES: usize = packet::BYTES;

/// Whether a test packet may have so many bytes: more than the least takes a TLV.
pub(crate) fn may_have(bytes: usize) -> bool {
    bytes == packet::BYTES || bytes >= packet::BYTES + packet::TLV_BYTES
}

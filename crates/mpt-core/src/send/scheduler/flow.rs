//! Flows to paths, for those who want each flow on one path.
//!
//! Each flow ranks all paths by a score of its own and takes the best that is usable (rendezvous
//! hashing, with weights: Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005). So
//! flows are shared in proportion to the weights, and when a path goes only its own flows move, and
//! come back when it does.

use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::wire::ip::Packet;
use crate::wire::transport::PORTS;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;
const DCCP: u8 = 33;

/// Odd, with its bits well mixed: the fractional part of the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// What the packets of one flow have in common, hashed: addresses, protocol, and ports where the
/// protocol has them and every packet shows them. Fragments do not, and go by the rest.
#[must_use]
pub fn hash(packet: &Packet<'_>) -> u64 {
    let bytes = packet.bytes();
    let addresses = match packet.version() {
        crate::wire::ip::Version::V4 => 12..20,
        crate::wire::ip::Version::V6 => 8..40,
    };
    let mut hash = 0;
    for word in bytes[addresses].chunks(4) {
        hash = mix(hash, word);
    }
    let Ok(transport) = packet.transport() else {
        return hash;
    };
    hash = mix(hash, &[transport.protocol]);
    let has_ports = matches!(transport.protocol, TCP | UDP | SCTP | UDPLITE | DCCP);
    if has_ports
        && transport.fragment.is_none()
        && let Some(ports) = bytes[transport.offset..].get(PORTS)
    {
        hash = mix(hash, ports);
    }
    hash
}

fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let word = bytes
        .iter()
        .fold(0, |word, &byte| word << 8 | u64::from(byte));
    finish(hash.rotate_left(5) ^ word)
}

/// Spreads every bit over all (the finaliser of SplitMix64).
fn finish(mut x: u64) -> u64 {
    x = x.wrapping_add(MULTIPLIER);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The path of the flow with this hash; `None` when no path is usable.
pub(super) fn path(flow: u64, usable: PathSet, weights: &[u32; MAX_PATHS]) -> Option<PathId> {
    let mut best: Option<(PathId, f64)> = None;
    for path in usable.iter() {
        let drawn = finish(flow ^ (path.index() as u64 + 1).wrapping_mul(MULTIPLIER));
        // Above 0 and below 1.
        let uniform = ((drawn >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let score = -f64::from(weights[path.index()]) / uniform.ln();
        if best.is_none_or(|(_, most)| score > most) {
            best = Some((path, score));
        }
    }
    best.map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(paths: usize) -> PathSet {
        let mut set = PathSet::EMPTY;
        (0..paths)
            .filter_map(PathId::new)
            .for_each(|path| set.insert(path));
        set
    }

    fn weights(given: &[u32]) -> [u32; MAX_PATHS] {
        let mut weights = [1; MAX_PATHS];
        weights[..given.len()].copy_from_slice(given);
        weights
    }

    #[test]
    fn flows_are_shared_by_weight() {
        let weights = weights(&[3, 1]);
        let first = PathId::new(0);
        let on_first = (0..10_000)
            .filter(|&flow| path(flow, all(2), &weights) == first)
            .count();
        assert!((7_300..7_700).contains(&on_first), "{on_first}");
    }

    #[test]
    fn only_the_flows_of_a_path_that_goes_move() {
        let weights = weights(&[1, 2, 3]);
        let gone = PathId::new(1).unwrap();
        let mut left = PathSet::only(PathId::new(0).unwrap());
        left.insert(PathId::new(2).unwrap());
        for flow in 0..1000 {
            let before = path(flow, all(3), &weights);
            if before != Some(gone) {
                assert_eq!(path(flow, left, &weights), before);
            }
        }
        assert_eq!(path(1, PathSet::EMPTY, &weights), None);
    }

    fn udp(source_port: u16, more_fragments: bool) -> [u8; 28] {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[3] = 28;
        packet[6] = if more_fragments { 0x20 } else { 0 };
        packet[9] = UDP;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..22].copy_from_slice(&source_port.to_be_bytes());
        packet
    }

    #[test]
    fn ports_tell_flows_apart_but_for_fragments() {
        let hash_of = |port, fragment| hash(&Packet::parse(&udp(port, fragment)).unwrap());
        assert_eq!(hash_of(1, false), hash_of(1, false));
        assert_ne!(hash_of(1, false), hash_of(2, false));
        assert_eq!(hash_of(1, true), hash_of(2, true));
    }
}

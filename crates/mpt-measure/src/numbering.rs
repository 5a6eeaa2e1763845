//! What numbers a stream's packets, and how many bits that has.

use mpt_core::metrics::SequenceBits;
use serde::Serialize;

/// What numbers a stream's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Numbering {
    /// A measurement over UDP: 32 bits, from 0.
    Udp,
    /// A measurement's echo requests: the 16 bits of ICMP, from 0.
    IcmpRequest,
    /// The replies to them.
    IcmpReply,
    /// STAMP's test packets: 32 bits, from 0.
    StampThere,
    /// The answers to them.
    StampBack,
    /// The sequence number of GRE: 32 bits, from anywhere.
    Gre,
}

impl Numbering {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Numbering::Udp => "UDP, 32-bit numbers",
            Numbering::IcmpRequest => "ICMP echo requests, 16-bit numbers",
            Numbering::IcmpReply => "ICMP echo replies, 16-bit numbers",
            Numbering::StampThere => "STAMP test packets, 32-bit numbers",
            Numbering::StampBack => "STAMP answers, the reflector's 32-bit numbers",
            Numbering::Gre => "GRE-in-UDP, GRE's 32-bit numbers",
        }
    }

    pub(super) fn bits(self) -> SequenceBits {
        match self {
            Numbering::Udp | Numbering::StampThere | Numbering::StampBack | Numbering::Gre => {
                SequenceBits::ThirtyTwo
            }
            Numbering::IcmpRequest | Numbering::IcmpReply => SequenceBits::Sixteen,
        }
    }
}

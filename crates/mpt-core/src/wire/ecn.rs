//! The TOS byte at both ends of the tunnel: ECN by RFC 6040, DSCP by RFC 2983.
//!
//! At the ingress the outer header gets the inner one's byte: RFC 6040 §4.1 "normal mode" copies the
//! ECN field, RFC 2983 §3 copies the DSCP. At the egress ECN is joined by the table of RFC 6040 §4.2,
//! and the DSCP comes back from the outer header (RFC 2983 §3.1, the uniform model: the tunnel
//! is one more hop of the path, and what the path re-marked stays re-marked).
//!
//! Compatibility mode is not needed: both ends of a tunnel are configured, and no egress of this
//! program forgets to propagate CE (RFC 6040 §4.3, "static").

/// The lower two bits of the TOS byte (RFC 3168 §5).
pub const ECN_MASK: u8 = 0b11;
/// Not ECN-capable.
pub const NOT_ECT: u8 = 0b00;
/// ECN-capable, codepoint 1.
pub const ECT_1: u8 = 0b01;
/// ECN-capable, codepoint 0.
pub const ECT_0: u8 = 0b10;
/// Congestion experienced.
pub const CE: u8 = 0b11;

/// What the egress does with the inner packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decap {
    /// The inner byte is right already.
    Keep,
    /// The inner TOS byte becomes this one.
    Set(u8),
    /// CE over Not-ECT: the packet must go, since its transport knows congestion only by loss.
    Drop,
}

/// The TOS byte of the outer header: DSCP and ECN of the inner one.
#[inline]
#[must_use]
pub const fn outer_tos(inner_tos: u8) -> u8 {
    inner_tos
}

/// The inner TOS byte after decapsulation, with the DSCP of the outer header.
#[inline]
#[must_use]
pub const fn inner_after(outer_tos: u8, inner_tos: u8) -> Decap {
    let Some(ecn) = joined(outer_tos & ECN_MASK, inner_tos & ECN_MASK) else {
        return Decap::Drop;
    };
    let tos = outer_tos & !ECN_MASK | ecn;
    if tos == inner_tos {
        Decap::Keep
    } else {
        Decap::Set(tos)
    }
}

/// RFC 6040 figure 4: the outgoing ECN field, or `None` for a packet that is dropped.
#[inline]
const fn joined(outer: u8, inner: u8) -> Option<u8> {
    //  |Arriving |            Arriving Outer Header               |
    //  |   Inner +---------+------------+------------+------------+
    //  |  Header | Not-ECT | ECT(0)     | ECT(1)     |     CE     |
    match (inner, outer) {
        // | Not-ECT | Not-ECT |Not-ECT(!!!)|Not-ECT(!!!)| <drop>(!!!)|
        (NOT_ECT, CE) => None,
        (NOT_ECT, _) => Some(NOT_ECT),
        // |  ECT(0) |  ECT(0) | ECT(0)     | ECT(1)     |     CE     |
        (ECT_0, ECT_1) => Some(ECT_1),
        (ECT_0, CE) => Some(CE),
        (ECT_0, _) => Some(ECT_0),
        // |  ECT(1) |  ECT(1) | ECT(1) (!) | ECT(1)     |     CE     |
        (ECT_1, CE) => Some(CE),
        (ECT_1, _) => Some(ECT_1),
        // |    CE   |      CE |     CE     |     CE(!!!)|     CE     |
        _ => Some(CE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040 figure 4, columns Not-ECT, ECT(0), ECT(1), CE.
    const FIGURE_4: [(u8, [Option<u8>; 4]); 4] = [
        (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
        (ECT_0, [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)]),
        (ECT_1, [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)]),
        (CE, [Some(CE), Some(CE), Some(CE), Some(CE)]),
    ];

    #[test]
    fn every_cell_of_rfc_6040_figure_4() {
        for (inner, row) in FIGURE_4 {
            for (outer, expected) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                let dscp = 46 << 2;
                let expected = match expected {
                    None => Decap::Drop,
                    Some(ecn) if ecn == inner => Decap::Keep,
                    Some(ecn) => Decap::Set(dscp | ecn),
                };
                assert_eq!(inner_after(dscp | outer, dscp | inner), expected);
            }
        }
    }

    #[test]
    fn a_dscp_changed_on_the_path_comes_back() {
        assert_eq!(inner_after(0x20, 0xb8), Decap::Set(0x20));
    }

    #[test]
    fn what_goes_in_untouched_comes_out_untouched() {
        for tos in 0..=255 {
            assert_eq!(inner_after(outer_tos(tos), tos), Decap::Keep);
        }
    }
}

//! How far a stream is from the order in which it was sent.
//!
//! "2 % of packets were reordered" says little. Was one packet in fifty a place too late, which no
//! TCP notices, or did blocks of thirty overtake each other, which halves a window each time? Would
//! a buffer of ten packets have put it right, or one of ten thousand? No one number answers all of
//! that, so here are several, each from a standard, each with its own question:
//!
//! | Question | Metric | Where |
//! |---|---|---|
//! | Is there any reordering? | reordered ratio | RFC 4737 §4.1, [`rfc4737`] |
//! | What would a receiver have to hold, in packets, time, bytes? | extent, late time, byte offset | §4.2–4.4 |
//! | Does it come alone or in clusters? | gaps, reordering-free runs | §4.5, §4.6 |
//! | Does a TCP with duplicate-ACK threshold n take it for loss? | n-reordering | §5 |
//! | How are packets displaced, early ones and late ones? | Reorder Density, RD | RFC 5236 §7.1, [`density`] |
//! | … in one number? | mean displacement, entropy | from RD |
//! | How full is a buffer that restores order? | buffer-occupancy density, RBD | RFC 5236 §7.2, [`buffer_occupancy`] |
//! | How uneven is the delay that causes it? | PDV, IPDV | RFC 5481, [`delay_variation`] |
//!
//! They disagree by design. Take 1, 6, 7, 2, 3, 4, 5, 8. RFC 4737 finds four reordered packets (2 to
//! 5) that two early ones overtook, with extents 2 to 5 and one of them 2-reordered. RD finds six
//! displaced packets, two early by 4 and four late by 2. RBD finds that two packets of buffer do.
//!
//! # Rules that all share
//!
//! Numbers are unwrapped first ([`unwrap`]). Copies are recognised by a [`history`] of the last
//! numbers and treated as each RFC says: counted apart and else ignored, except that n-reordering
//! runs over everything received. A lost packet is not a reordered one: RFC 4737 looks only at what
//! arrives, RD skips the lost number's index, RBD gives it up when its buffer is full.
//!
//! Everything is *streaming*: fed a packet at a time by an [`OrderMeter`], in memory that is fixed at
//! construction, without allocation while packets arrive. An in-order packet costs a few
//! comparisons and ring writes (`benches/metrics.rs`); a reordered one a binary search. Where packets
//! come in blocks, as they do to a tunnel, a block of consecutive numbers is taken in at once, with the
//! same result as one by one ([`RunMeter`]). Counts are kept once and reported twice, for an interval
//! and since the start.
//!
//! Where an RFC's algorithm is defective, the repaired one is the default and the printed one an
//! option ([`Form`]); both are pinned by `tests/vectors/reorder-vectors.json`.

pub mod buffer_occupancy;
pub mod delay_variation;
pub mod density;
pub mod history;
pub mod rfc4737;
pub mod unwrap;

mod meter;
mod run_meter;
mod runs;
mod tally;

pub use density::Form;
pub use meter::{MeterConfig, OrderMeter, OrderReport, ReorderingMeter};
pub use run_meter::{Measures, RunMeter};
pub use tally::Summary;
pub use unwrap::SequenceBits;

#[cfg(test)]
mod vectors;

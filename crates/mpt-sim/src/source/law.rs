//! How a sender chooses its window and its pace: what real ones do, as far as it decides what a tunnel
//! does to them.

use std::time::Duration;

use mpt_core::time::Time;

mod bbr;
mod cubic;

use bbr::Bbr;
use cubic::Cubic;

/// The window begins with as many segments (RFC 6928).
pub(super) const INITIAL_WINDOW: f64 = 10.0;

/// Which sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sender {
    /// Slow start, then a segment a round trip, half at a loss (RFC 5681). Never paced, and slow start
    /// ends with a loss alone.
    #[default]
    Reno,
    /// CUBIC (RFC 9438) with HyStart as Linux has it (net/ipv4/tcp_cubic.c).
    Cubic,
    /// CUBIC, and paced as Linux with the queueing discipline fq does it: at twice the window a round trip
    /// in slow start, at 1.2 times after it.
    PacedCubic,
    /// BBR, first version (Cardwell et al., ACM Queue 14(5), 2016; net/ipv4/tcp_bbr.c).
    Bbr,
}

/// One acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acked {
    pub(super) now: Time,
    /// Round-trip time of the segment; `None` for one that was sent twice.
    pub(super) rtt: Option<Duration>,
    /// Segments a second that were delivered while it was under way.
    pub(super) rate: Option<f64>,
    /// A round trip has passed: it was sent after the last one of the round before was acknowledged.
    pub(super) ends_round: bool,
    /// Under way after it.
    pub(super) under_way: usize,
}

/// The law of a sender.
#[derive(Debug, Clone)]
pub(super) enum Law {
    Reno { window: f64, threshold: f64 },
    Cubic(Cubic),
    Bbr(Bbr),
}

impl Law {
    pub(super) fn of(sender: Sender) -> Law {
        match sender {
            Sender::Reno => Law::Reno {
                window: INITIAL_WINDOW,
                threshold: f64::INFINITY,
            },
            Sender::Cubic => Law::Cubic(Cubic::new(false)),
            Sender::PacedCubic => Law::Cubic(Cubic::new(true)),
            Sender::Bbr => Law::Bbr(Bbr::new()),
        }
    }

    /// Segments that may be under way.
    pub(super) fn window(&self) -> f64 {
        match self {
            Law::Reno { window, .. } => *window,
            Law::Cubic(cubic) => cubic.window(),
            Law::Bbr(bbr) => bbr.window(),
        }
    }

    /// Segments a second at most; `None` is unlimited.
    pub(super) fn pace(&self) -> Option<f64> {
        match self {
            Law::Reno { .. } => None,
            Law::Cubic(cubic) => cubic.pace(),
            Law::Bbr(bbr) => bbr.pace(),
        }
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        match self {
            Law::Reno { window, threshold } => {
                *window += if *window < *threshold {
                    1.0
                } else {
                    1.0 / *window
                };
            }
            Law::Cubic(cubic) => cubic.acked(acked),
            Law::Bbr(bbr) => bbr.acked(acked),
        }
    }

    /// The first loss of a round trip.
    pub(super) fn lost(&mut self) {
        match self {
            Law::Reno { window, threshold } => {
                *window = (*window / 2.0).max(2.0);
                *threshold = *window;
            }
            Law::Cubic(cubic) => cubic.lost(),
            // It does not take loss for congestion.
            Law::Bbr(_) => {}
        }
    }

    /// Nothing came for long.
    pub(super) fn silent(&mut self) {
        match self {
            Law::Reno { window, threshold } => {
                *threshold = (*window / 2.0).max(2.0);
                *window = INITIAL_WINDOW;
            }
            Law::Cubic(cubic) => cubic.silent(),
            Law::Bbr(bbr) => bbr.silent(),
        }
    }

    /// The receiver takes no more than this.
    pub(super) fn bound(&mut self, receiver_window: f64) {
        match self {
            Law::Reno { window, .. } => *window = window.min(receiver_window),
            Law::Cubic(cubic) => cubic.bound(receiver_window),
            Law::Bbr(_) => {}
        }
    }
}

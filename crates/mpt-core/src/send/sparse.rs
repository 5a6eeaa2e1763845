//! Sparse flows: what a call or a game sends goes out at once, without a number.
//!
//! With several paths in use, whatever has a number waits at the receiver for slower paths. A call or a
//! game need not: datagrams of flows that send little go out at once, without a number, over the path whose delay and
//! loss impair a call least. (RFC 2890 lets the two mix; a receiver delivers what has no number at once.)
//!
//! Of TCP the same is done with what only acknowledges, however much that is: an acknowledgement says all that those before
//! it say, so that none has to wait for them or be sent again (RFC 9293 §3.10.7.4). With a number it waits for none at the
//! receiver either, but for room on a path like all else. If all had one, a download beside an upload would have 45.8 Mbit/s
//! in its first five seconds instead of 68.9 (`sim_sparse`, a_download_waits). All else of TCP is numbered, to be reordered and recovered.
//!
//! What goes at once asks no path for room, so it may only be little: of many small flows together no more goes by
//! itself than a quarter ([`SHARES`]) of what the path carries. When they send more, all of them are numbered and paced as
//! others are.
//!
//! Acknowledgements have such a share of their own, and what is beyond it is numbered.
//!
//! While what a silent path had taken goes again over another they do not wait for that either: of one that carries a
//! fiftieth it is seconds.

use std::time::Duration;

use crate::time::Time;
use crate::wire::ip::{Packet, protocol};
use crate::wire::transport::tcp;

/// After packets went over several paths, sparse flows go without numbers for this long.
const SPREAD: Duration = Duration::from_secs(1);
/// A flow is sparse while it sends no more than this, in bytes a second …
const RATE: f64 = 50_000.0;
/// … and this at once.
const BURST: f64 = 10_000.0;
/// Flows whose rate is remembered, by hash.
const FLOWS: usize = 1024;

/// All sparse flows together have one in so many parts of a path. Reports tell of numbered packets alone: where others
/// take more, a path seems to carry less than it does. With two, 40 calls over two links of 12 Mbit/s leave a download
/// beside them 16.8 Mbit/s, as many as without a bound, with four 18.5, and 18.6 when all are numbered; with eight, 20 calls
/// are numbered already (`sim_sparse -- --nocapture` prints these tables).
const SHARES: u32 = 4;
/// They may be ahead of their share by this. With 10, 20 and 50 ms the tables are alike; 50 ms are three packets of
/// each of three calls.
const AHEAD: Duration = Duration::from_millis(50);
/// When they have sent more than their share, they are numbered until they have sent less for as long as they had sent
/// more, and no longer than this: as long as [`SPREAD`].
const MOST_AHEAD: Duration = SPREAD;

/// What may overtake other packets of its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unordered {
    /// A datagram.
    Datagram,
    /// A TCP segment that only acknowledges.
    Acknowledgement,
}

impl Unordered {
    /// Which of these the packet is, if any.
    pub(crate) fn of(packet: &Packet<'_>) -> Option<Unordered> {
        let transport = packet.transport().ok()?;
        match transport.protocol {
            protocol::UDP | protocol::ICMP | protocol::ICMPV6 => Some(Unordered::Datagram),
            protocol::TCP if transport.fragment.is_none() => {
                let segment = packet.bytes().get(transport.offset..)?;
                tcp::only_acknowledges(segment).then_some(Unordered::Acknowledgement)
            }
            _ => None,
        }
    }
}

/// Which flows are sparse, and whether they go by themselves.
#[derive(Debug)]
pub(crate) struct Sparse {
    /// Packets went over several paths, or waited, until lately.
    spread_until: Time,
    /// When their share of a path will have carried what sparse flows have sent, all together.
    carried_by: Time,
    /// The same of acknowledgements.
    acknowledged_by: Time,
    /// By flow: what it may send at once, in bytes, and when that was so. Empty while all may send a burst.
    flows: Box<[(f64, Time)]>,
}

impl Default for Sparse {
    fn default() -> Sparse {
        Sparse {
            spread_until: Time::ZERO,
            carried_by: Time::ZERO,
            acknowledged_by: Time::ZERO,
            flows: Box::default(),
        }
    }
}

impl Sparse {
    /// Packets wait, or go over other paths than the fastest.
    pub(crate) fn note_spread(&mut self, now: Time) {
        self.spread_until = now + SPREAD;
    }

    /// Nothing was sent for some seconds: whoever was in debt is no more.
    pub(crate) fn rest(&mut self) {
        self.flows = Box::default();
    }

    /// The flow sends a packet of so many bytes. Whether it is to go by itself: the flow has sent little
    /// lately, this packet included, and other packets have to wait.
    pub(crate) fn takes(&mut self, now: Time, flow: u64, bytes: usize) -> bool {
        if self.flows.is_empty() {
            self.flows = vec![(BURST, Time::ZERO); FLOWS].into_boxed_slice();
        }
        let (allowance, then) = &mut self.flows[flow as usize % FLOWS];
        let earned = now.since(*then).as_secs_f64() * RATE;
        *allowance = (*allowance + earned).min(BURST) - bytes as f64;
        *then = now;
        // A flow in debt has to be silent for a while.
        *allowance = allowance.max(-RATE);
        *allowance >= 0.0 && self.is_spread(now)
    }

    /// Whether packets have to wait for others.
    pub(crate) fn is_spread(&self, now: Time) -> bool {
        now < self.spread_until
    }

    /// A sparse flow sends a packet that the path carries in so long, if that is known. Whether it may go by itself:
    /// all of them have sent no more than their share, those that were refused included. Over a path of which that is
    /// not known none goes: flows that all begin at once would fill its queue before anything told of it.
    pub(crate) fn has_share(&mut self, now: Time, lasts: Option<Duration>) -> bool {
        let Some(lasts) = lasts else {
            return false;
        };
        let carried_by = self.carried_by.max(now);
        self.carried_by = (carried_by + lasts * SHARES).min(now + MOST_AHEAD);
        carried_by.since(now) <= AHEAD
    }

    /// An acknowledgement is to be sent that the path carries in so long, if that is known. Whether it may go by itself: no
    /// more than their share did.
    pub(crate) fn acknowledges(&mut self, now: Time, lasts: Option<Duration>) -> bool {
        let Some(lasts) = lasts else {
            return false;
        };
        let carried_by = self.acknowledged_by.max(now) + lasts * SHARES;
        let has_share = carried_by.since(now) <= AHEAD;
        if has_share {
            self.acknowledged_by = carried_by;
        }
        has_share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ip::Version;
    use crate::wire::sample::Sample;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_flow_that_sends_little_goes_by_itself_while_others_wait() {
        let mut sparse = Sparse::default();
        assert!(!sparse.takes(at(0), 1, 200), "nobody waits");
        sparse.note_spread(at(0));
        assert!((0..49).all(|step| sparse.takes(at(20 * step), 1, 200)));
        assert!(
            !sparse.takes(at(1000), 1, 200),
            "nobody has waited for a second"
        );
    }

    #[test]
    fn a_flow_in_debt_is_silent_before_it_is_sparse_again() {
        let mut sparse = Sparse::default();
        let mut taken = 0;
        for ms in 0..1000 {
            sparse.note_spread(at(ms));
            taken += u32::from(sparse.takes(at(ms), 1, 1000));
        }
        assert_eq!(taken, 10, "the burst");
        sparse.note_spread(at(2500));
        assert!(sparse.takes(at(2500), 1, 1000));
    }

    /// Whether flows that send a packet each millisecond, each of which the path carries in `lasts_us`, go by themselves
    /// for a second, and after it.
    fn goes_when_all_send(lasts_us: u64) -> (bool, bool) {
        let mut sparse = Sparse::default();
        let lasts = Some(Duration::from_micros(lasts_us));
        let refused = (0..1000).filter(|&ms| !sparse.has_share(at(ms), lasts));
        (refused.count() == 0, sparse.has_share(at(1000), lasts))
    }

    #[test]
    fn all_sparse_flows_together_have_a_quarter_of_the_path() {
        assert_eq!(goes_when_all_send(250), (true, true));
        assert_eq!(goes_when_all_send(280), (false, false));
    }

    #[test]
    fn who_is_refused_counts_until_less_is_sent() {
        let mut sparse = Sparse::default();
        let lasts = Some(Duration::from_micros(500));
        let refused = (0..2000).filter(|&ms| !sparse.has_share(at(ms), lasts));
        assert_eq!(refused.count(), 2000 - 51, "all but the first");
        assert!(!sparse.has_share(at(2900), lasts));
        assert!(sparse.has_share(at(3000), lasts), "after a second");
    }

    #[test]
    fn over_a_path_of_which_nothing_is_known_no_flow_goes_by_itself() {
        assert!(!Sparse::default().has_share(at(0), None));
        assert!(!Sparse::default().acknowledges(at(0), None));
    }

    #[test]
    fn acknowledgements_have_a_quarter_of_their_own_and_the_rest_is_numbered() {
        let mut sparse = Sparse::default();
        let lasts = Some(Duration::from_micros(500));
        let goes = (0..2000).filter(|&ms| sparse.acknowledges(at(ms), lasts));
        // As many as last for a quarter of two seconds, and what may be ahead.
        assert_eq!(goes.count(), 1000 + 25 - 1);
        assert!(sparse.has_share(at(2000), lasts));
    }

    #[test]
    fn datagrams_and_bare_acknowledgements_may_overtake() {
        for version in [Version::V4, Version::V6] {
            let of = |sample: &Sample| {
                let bytes = sample.bytes();
                Unordered::of(&Packet::parse(&bytes).unwrap())
            };
            let mut tcp = Sample::tcp(version, b"");
            tcp.flags = tcp::ACK_FLAG;
            assert_eq!(of(&tcp), Some(Unordered::Acknowledgement));
            tcp.payload = b"data".to_vec();
            assert_eq!(of(&tcp), None);
            tcp.payload.clear();
            tcp.flags |= tcp::FIN;
            assert_eq!(of(&tcp), None);
            let udp = Sample::udp(version, b"data");
            assert_eq!(of(&udp), Some(Unordered::Datagram));
        }
    }
}

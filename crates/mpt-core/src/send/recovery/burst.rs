//! How much is sent again at once.
//!
//! What was lost together was often lost to a full queue, and all of it sent again at once would meet
//! the same queue. So it goes in portions, as Weinrank, Tüxen and Rathgeb limit them in *RACK for
//! SCTP*: in the first round trip of an episode of losses [`FIRST`] packets for each report, later
//! [`LATER`]. When what was sent again is lost again, that stage's portion shrinks, by a packet in the
//! first round and by a quarter in later ones, to no less than [`LEAST_FIRST`] and [`LEAST_LATER`].
//! Fractions are carried on: 1.25 is a packet for each report and two for every fourth. After
//! [`RESTORED_AFTER`] episodes in a row in which nothing was lost again both are what they were. That they
//! shrink pays where a policer drops what is sent again as well: with portions that stay, 40 pairs of links as people have them
//! (`campaign --family field --pairs 40 --seed 9000`) have 0.80 of the sum in the median late, and 0.82 with it. On random pairs it
//! costs 0.3 ± 0.3 % (`--pairs 300 --seed 3000`).
//!
//! Where much is sent, a link that loses a little at any time loses more than that, and one that is gone for a moment loses
//! all of it. The paths had room for as many as were sent for the first time since the last portion, and what is sent again
//! takes their place: a portion is no less than that many. In the first round trip of an episode it is not known yet whether
//! they are lost or were overtaken, and a portion is no less than one for [`FIRST_SHARE`] sent: else seven of 16
//! flows over two paths with 10 ms of overtaking have less than 0.93 of the sum, and with it two (tests/sim_adaptive.rs).
//!
//! What that pays, with what may be saved up for ([`super::SAVED_BYTES`]): of 60 pairs of links as people have them (`campaign
//! --family field --pairs 60 --seed 3000`) the mean share of the sum is 3.3 ± 1.2 % more late; of 300 random pairs it is as
//! before (-0.2 ± 0.3 %). An eighth of what was sent, and 256 KiB, was less than a gap of 150 ms takes.
//!
//! A whole packet that was not used is not saved up. Where reports come seldom, [`REFILL`] stands in for
//! them.

use std::time::Duration;

use crate::time::Time;

/// Packets for each report, in the first round trip of an episode and in later ones.
const FIRST: f64 = 4.0;
const LATER: f64 = 2.0;
/// By so much they shrink when what was sent again is lost again …
const FIRST_STEP: f64 = 1.0;
const LATER_STEP: f64 = 0.25;
/// … and to no less.
const LEAST_FIRST: f64 = 2.0;
const LEAST_LATER: f64 = 1.25;
/// Clean episodes in a row that restore them.
const RESTORED_AFTER: u32 = 16;
/// In the first round trip of an episode one packet may go for so many packets that were sent.
const FIRST_SHARE: f64 = 8.0;
/// Without reports more is allowed after this long.
const REFILL: Duration = Duration::from_millis(5);

/// The limit of a burst.
#[derive(Debug, Clone, Copy)]
pub(super) struct BurstLimit {
    first: f64,
    later: f64,
    episode_began: Time,
    /// A loss after this begins another.
    episode_until: Time,
    lost_again: bool,
    /// Episodes in a row in which nothing was lost again.
    clean: u32,
    /// Packets that may go now.
    allowance: f64,
    /// Packets that were sent for the first time since it was refilled.
    sent: u32,
    refilled: Time,
}

impl Default for BurstLimit {
    fn default() -> BurstLimit {
        BurstLimit {
            first: FIRST,
            later: LATER,
            episode_began: Time::ZERO,
            episode_until: Time::ZERO,
            lost_again: false,
            clean: 0,
            allowance: 0.0,
            sent: 0,
            refilled: Time::ZERO,
        }
    }
}

impl BurstLimit {
    /// A packet was found lost, on paths with this round-trip time.
    pub(super) fn begin(&mut self, now: Time, rtt: Duration) {
        if now > self.episode_until {
            if self.lost_again {
                self.clean = 0;
            } else {
                self.clean += 1;
                if self.clean >= RESTORED_AFTER {
                    *self = BurstLimit::default();
                }
            }
            self.lost_again = false;
            self.episode_began = now;
        }
        self.episode_until = now + rtt;
    }

    /// What had been sent again was lost again.
    pub(super) fn back_off(&mut self, now: Time, rtt: Duration) {
        self.lost_again = true;
        if self.is_first_round(now, rtt) {
            self.first = (self.first - FIRST_STEP).max(LEAST_FIRST);
        } else {
            self.later = (self.later - LATER_STEP).max(LEAST_LATER);
        }
    }

    /// A report came: a portion may go.
    pub(super) fn refill(&mut self, now: Time, rtt: Duration) {
        self.refilled = now;
        let sent = f64::from(std::mem::take(&mut self.sent));
        let portion = if self.is_first_round(now, rtt) {
            self.first.max(sent / FIRST_SHARE)
        } else {
            self.later.max(sent)
        };
        self.allowance = self.allowance.fract() + portion;
    }

    /// A packet was sent for the first time.
    #[inline]
    pub(super) fn note_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// Does what a report does, when none has come for [`REFILL`].
    pub(super) fn handle_timeout(&mut self, now: Time, rtt: Duration) {
        if now.since(self.refilled) >= REFILL {
            self.refill(now, rtt);
        }
    }

    /// When more is allowed at the latest.
    pub(super) fn refills_at(&self) -> Time {
        self.refilled + REFILL
    }

    /// Whether a packet may go.
    pub(super) fn allows(&self) -> bool {
        self.allowance >= 1.0
    }

    /// A packet goes, which was allowed.
    pub(super) fn take(&mut self) {
        self.allowance -= 1.0;
    }

    fn is_first_round(&self, now: Time, rtt: Duration) -> bool {
        now.since(self.episode_began) < rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// How many packets go for a report that comes now.
    fn portion(limit: &mut BurstLimit, now: Time) -> u32 {
        limit.refill(now, RTT);
        let mut packets = 0;
        while limit.allows() {
            limit.take();
            packets += 1;
        }
        packets
    }

    /// Packets for eight reports that come now.
    fn portions(limit: &mut BurstLimit, now: Time) -> u32 {
        (0..8).map(|_| portion(limit, now)).sum()
    }

    #[test]
    fn as_many_go_as_were_sent_where_that_is_more_and_an_eighth_in_the_first_round_trip() {
        let mut limit = BurstLimit::default();
        limit.begin(at(1000), RTT);
        for (ms, sent, expected) in [
            (1000, 80, 10),
            (1039, 16, 4),
            (1040, 80, 80),
            (1050, 16, 16),
            (1060, 1, 2),
            (1070, 0, 2),
        ] {
            (0..sent).for_each(|_| limit.note_sent());
            let packets = portion(&mut limit, at(ms));
            assert_eq!(packets, expected, "after {sent} until {ms} ms");
        }
    }

    #[test]
    fn four_go_in_the_first_round_trip_and_two_later() {
        let mut limit = BurstLimit::default();
        limit.begin(at(1000), RTT);
        assert_eq!(portion(&mut limit, at(1000)), 4);
        assert_eq!(portion(&mut limit, at(1039)), 4);
        limit.begin(at(1039), RTT);
        assert_eq!(portion(&mut limit, at(1040)), 2);
        // What is lost within a round trip of the last loss is of the same episode.
        limit.begin(at(1079), RTT);
        assert_eq!(portion(&mut limit, at(1079)), 2);
        limit.begin(at(1120), RTT);
        assert_eq!(portion(&mut limit, at(1120)), 4);
    }

    #[test]
    fn whole_packets_are_not_saved_up() {
        let mut limit = BurstLimit::default();
        limit.begin(at(1000), RTT);
        for _ in 0..10 {
            limit.refill(at(1000), RTT);
        }
        assert_eq!(portion(&mut limit, at(1000)), 4);
    }

    #[test]
    fn what_is_lost_again_takes_one_off_the_first_round_down_to_two() {
        let mut limit = BurstLimit::default();
        limit.begin(at(1000), RTT);
        for expected in [3, 2, 2] {
            limit.back_off(at(1010), RTT);
            assert_eq!(portion(&mut limit, at(1010)), expected);
        }
        limit.begin(at(1030), RTT);
        assert_eq!(
            portions(&mut limit, at(1050)),
            16,
            "later rounds' is as it was"
        );
    }

    #[test]
    fn what_is_lost_again_takes_a_quarter_off_later_rounds_down_to_one_and_a_quarter() {
        let mut limit = BurstLimit::default();
        limit.begin(at(1000), RTT);
        limit.begin(at(1030), RTT);
        for expected in [14, 12, 10, 10] {
            limit.back_off(at(1050), RTT);
            assert_eq!(portions(&mut limit, at(1050)), expected);
        }
        limit.begin(at(2000), RTT);
        assert_eq!(
            portion(&mut limit, at(2000)),
            4,
            "the first round's is as it was"
        );
    }

    #[test]
    fn sixteen_clean_episodes_in_a_row_restore_it() {
        let mut limit = BurstLimit::default();
        let mut now = at(1000);
        let mut episode = |limit: &mut BurstLimit, lost_again: bool| {
            now = now + RTT * 2;
            limit.begin(now, RTT);
            if lost_again {
                limit.back_off(now, RTT);
            }
            portion(limit, now)
        };
        // An episode is known to be clean when the next begins.
        assert_eq!(episode(&mut limit, true), 3);
        for _ in 0..16 {
            assert_eq!(episode(&mut limit, false), 3);
        }
        assert_eq!(episode(&mut limit, true), 3, "restored, and taken one off");
        for _ in 0..10 {
            assert_eq!(episode(&mut limit, false), 3);
        }
        assert_eq!(episode(&mut limit, true), 2);
        for _ in 0..16 {
            assert_eq!(
                episode(&mut limit, false),
                2,
                "those before it do not count"
            );
        }
        assert_eq!(episode(&mut limit, false), 4);
    }

    #[test]
    fn without_reports_five_milliseconds_allow_more() {
        let mut limit = BurstLimit::default();
        limit.begin(at(1000), RTT);
        assert_eq!(portion(&mut limit, at(1000)), 4);
        assert_eq!(limit.refills_at(), at(1005));
        limit.handle_timeout(at(1004), RTT);
        assert!(!limit.allows());
        limit.handle_timeout(at(1005), RTT);
        assert!(limit.allows());
    }
}

//! Silence: a path that swallows what it is given is noticed from the traffic itself.
//!
//! The peer reports what arrives, within [`REPORTED_WITHIN`] of its arrival while its reports get through.
//! So of each path the sender knows since when the oldest packet is under way of which no report told, and
//! when a report last told of anything more that came over that path. When neither a report nor the answer
//! to a probe comes for longer than what is sent there takes, with some margin, the path is *suspected*:
//! packets go over others, what is under way on it is sent again over those (see [`crate::send::recovery`]), and
//! now and then a copy of a packet goes over it to see whether it arrives. The suspicion ends with the first
//! report of anything that came over the path, or with the answer to a probe.
//!
//! The peer is told, and sends over others as well for a while: see [`crate::tunnel`].
//!
//! What it pays, by the bench `campaign` (`--family changing --pairs 96 --seed 107`): in the six seconds after one
//! of two to four links has died the flow gets 96 % of what the others can carry, and 71 % without all this; in the
//! five seconds after it is back 88 % and 61 %. False alarms cost 1 to 2 % while a link becomes slower or later, and up
//! to 5 % when it is as before again; where nothing happens they cost nothing.
//!
//! A path that is merely late delivers after all what it had taken. That was a false alarm: for a while, the next
//! one takes twice as long. A path that had swallowed it and is mended is suspected as soon as before.
//!
//! Where no report comes at all, it may be the peer that is busy, or the way of its reports. Then one path
//! is suspected, and no second one: if it is the wrong one, the copy that goes over it tells so. Nor is a
//! second one suspected as soon as the first where reports come.

use std::time::Duration;

use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::time::{Time, earliest};

/// Time between a receiver's reports while data come.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(5);
/// A receiver reports what arrived after no more than this, however little came.
pub(crate) const REPORTED_WITHIN: Duration = Duration::from_millis(40);
/// Clocks, threads and queues may delay a report, or what it tells of, by this. A ping that is answered
/// after twice the round trip and 150 ms is to be no later than that on paths of up to 150 ms.
const MARGIN: Duration = Duration::from_millis(40);
/// So many mean deviations of a probe's delay are jitter (RFC 6298 §2), and no more than this is.
const JITTERS: u32 = 4;
const MOST_JITTER: Duration = Duration::from_millis(100);
/// The round-trip time of a path whose probes were never answered.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);
/// So many packets in a row are not lost by chance: where half of all are, one time in 256.
const MOST_BY_CHANCE: u32 = 8;
/// After so many false alarms in a row a path is suspected no later still.
const MOST_ALARMS: u32 = 2;
/// One of them is forgotten after this long.
const ALARM_FADES: Duration = Duration::from_secs(5);
/// Who looks so much later than was asked was held up, and so may be what is to be read.
const HELD_UP: Duration = Duration::from_millis(10);
/// Then, and when nothing is known for certain, it is looked again after this …
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// … so many times at most, when held up.
const MOST_EXCUSES: u32 = 3;
/// Copies over a suspected path are at least so far apart. A link that loses by the packet goes on losing until the
/// burst has had so many packets: who tries seldom waits for seconds. With 10 ms and a quarter of a round trip instead of
/// 50 ms and half of one, 96 sets of two to four paths get 2.5 ± 1.2 % more after one of them had changed and is as
/// before again, and the same otherwise (`campaign --family changing --pairs 96 --seed 107`).
const TRY_INTERVAL: Duration = Duration::from_millis(10);
/// No more than so many go over it in a round trip. With eight, one case of two satellite links gets
/// 14 % less (`campaign --family field --one 3000`).
const TRIES_IN_A_ROUND_TRIP: u32 = 4;
/// Copies take half of what the path carried at most, unless they would be further apart than this for it; as far apart are
/// those over a path of which nothing is known. That is what all had before.
const LONGEST_TRY_INTERVAL: Duration = Duration::from_millis(50);

/// What is known of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    /// When the oldest packet was sent of which neither a report nor a later probe's answer told.
    since: Option<Time>,
    /// Packets sent since a report last told of anything that came over the path.
    untold: u32,
    /// When a packet with a number was sent last.
    last_sent: Time,
    /// When it was known last that something had arrived, or would have been had it been reported at once.
    progress: Time,
    /// How long the newest packet of which a report told had taken until then.
    took: Duration,
    /// Datagrams that the last report told of.
    arrived: Option<u64>,
    rtt: Duration,
    jitter: Duration,
    /// It is not considered before.
    not_before: Time,
    excuses: u32,
    /// When it came to be, until it is known whether what it had taken before arrived after all.
    accused: Option<Time>,
    next_try: Time,
    alarms: u32,
    alarmed: Time,
}

impl Watch {
    /// For how long a path is silent by chance.
    fn patience(&self) -> Duration {
        let jitter = (self.jitter * JITTERS).min(MOST_JITTER);
        (REPORTED_WITHIN + MARGIN + self.rtt() / 4 + jitter) * 2u32.pow(self.alarms)
    }

    fn rtt(&self) -> Duration {
        if self.rtt.is_zero() {
            UNKNOWN_RTT
        } else {
            self.rtt
        }
    }

    /// When it has been silent for so many times its patience, if nothing comes.
    fn silent_for(&self, times: u32) -> Option<Time> {
        let expected = self.since? + self.took.max(self.rtt());
        Some(expected.max(self.progress) + self.patience() * times)
    }

    /// When it has been silent for too long, if nothing comes.
    fn silent_by(&self) -> Option<Time> {
        self.silent_for(1).map(|silent| silent.max(self.not_before))
    }

    /// It answers.
    fn trust(&mut self, now: Time) {
        self.excuses = 0;
        if self.alarms > 0 && now.since(self.alarmed) >= ALARM_FADES {
            self.alarms -= 1;
            self.alarmed = now;
        }
    }

    /// Something that was sent then has arrived, or come back. If it was sent before the path came to be
    /// suspected, the path had only been late; if later, it had swallowed what it took before.
    fn judge(&mut self, now: Time, sent: Time) {
        if self.accused.take().is_some_and(|accused| sent < accused) {
            self.alarms = (self.alarms + 1).min(MOST_ALARMS);
            self.alarmed = now;
        }
    }
}

/// The paths, and which of them are suspected.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    paths: [Watch; MAX_PATHS],
    /// Something is under way on these of which no report told.
    watched: PathSet,
    suspected: PathSet,
    last_report: Time,
}

impl Silence {
    /// So many packets with numbers were sent.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, path: PathId, packets: u32) {
        let watch = &mut self.paths[path.index()];
        watch.last_sent = now;
        watch.untold = watch.untold.saturating_add(packets);
        if watch.since.is_none() {
            watch.since = Some(now);
            self.watched.insert(path);
        }
    }

    /// Whether numbers went over the path lately, so that reports tell of it.
    pub(crate) fn is_told_of(&self, now: Time, path: PathId) -> bool {
        now.since(self.paths[path.index()].last_sent) < REPORTED_WITHIN
    }

    /// A report came. What it says of paths: [`Silence::reported`].
    pub(crate) fn heard(&mut self, now: Time) {
        self.last_report = self.last_report.max(now);
    }

    /// A report tells that so many datagrams have `arrived` over the path. The newest had arrived `held`
    /// before the report was sent. It was sent at `sent`, if that is known, and the next one, of which the
    /// report does not tell, at `next`.
    pub(crate) fn reported(
        &mut self,
        now: Time,
        path: PathId,
        arrived: u64,
        held: Duration,
        newest: Option<(Time, Option<Time>)>,
    ) {
        let watch = &mut self.paths[path.index()];
        if watch.arrived.replace(arrived) == Some(arrived) {
            return;
        }
        watch.untold = 0;
        if let Some((sent, next)) = newest {
            watch.took = now.since(sent).saturating_sub(held);
            watch.since = next;
        }
        watch.progress = watch.progress.max(now - held);
        if watch.since.is_none() {
            self.watched.remove(path);
        } else {
            self.watched.insert(path);
        }
        if watch.silent_by().is_some_and(|silent_by| silent_by <= now) {
            // That is old: reports of it were late.
            return;
        }
        if let Some((sent, _)) = newest {
            watch.judge(now, sent);
        }
        watch.trust(now);
        self.suspected.remove(path);
    }

    /// A message that was sent at `sent` came back: what was sent before it has arrived, or was lost by itself.
    /// Unless it is many packets of which reports that came since do not tell: then the path lets small
    /// messages through, and packets not.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        path: PathId,
        sent: Time,
        rtt: Duration,
        jitter: Duration,
    ) {
        let watch = &mut self.paths[path.index()];
        (watch.rtt, watch.jitter) = (rtt, jitter);
        if watch.since.is_some_and(|since| since >= sent) {
            // The peer had it for long: it says nothing of what was sent since.
            return;
        }
        let told_by = watch.since.map(|since| since + watch.took.max(watch.rtt()));
        if watch.untold >= MOST_BY_CHANCE && told_by.is_some_and(|by| self.last_report >= by) {
            return;
        }
        if watch.accused.is_some_and(|accused| sent < accused) {
            watch.judge(now, sent);
        }
        watch.since = watch.since.filter(|_| watch.last_sent >= sent);
        watch.since = watch.since.map(|since| since.max(sent));
        watch.progress = watch.progress.max(now.min(sent + rtt));
        watch.trust(now);
        self.suspected.remove(path);
        if watch.since.is_none() {
            self.watched.remove(path);
        }
    }

    /// Nothing more is expected of the path.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.paths[path.index()] = Watch::default();
        self.watched.remove(path);
        self.suspected.remove(path);
    }

    /// Nothing is expected of any path.
    pub(crate) fn forget_all(&mut self) {
        for path in self.watched.iter().chain(self.suspected.iter()) {
            self.paths[path.index()].since = None;
            self.paths[path.index()].accused = None;
        }
        self.watched = PathSet::EMPTY;
        self.suspected = PathSet::EMPTY;
    }

    pub(crate) fn suspected(&self) -> PathSet {
        self.suspected
    }

    /// Those of the paths that packets go over: the ones that are not suspected. If all are, the one that
    /// answered last.
    #[inline]
    pub(crate) fn trusted(&self, usable: PathSet) -> PathSet {
        if self.suspected.is_empty() {
            return usable;
        }
        let mut trusted = usable;
        for path in self.suspected.iter() {
            trusted.remove(path);
        }
        if !trusted.is_empty() {
            return trusted;
        }
        let answered = |path: &PathId| self.paths[path.index()].progress;
        usable
            .iter()
            .max_by_key(answered)
            .map_or(PathSet::EMPTY, PathSet::only)
    }

    /// The paths over which a copy is to go now.
    pub(crate) fn tries(&self, now: Time, usable: PathSet) -> PathSet {
        let mut tries = PathSet::EMPTY;
        let trusted = self.trusted(usable);
        for path in self.suspected.iter().filter(|&path| usable.contains(path)) {
            if self.paths[path.index()].next_try <= now && !trusted.contains(path) {
                tries.insert(path);
            }
        }
        tries
    }

    /// A copy went over `path`, which needs so long to carry it, if that is known.
    pub(crate) fn tried(&mut self, now: Time, path: PathId, lasts: Option<Duration>) {
        let interval = lasts.map_or(LONGEST_TRY_INTERVAL, |lasts| lasts * 2);
        let watch = &mut self.paths[path.index()];
        let least = TRY_INTERVAL.max(watch.rtt() / TRIES_IN_A_ROUND_TRIP);
        watch.next_try = now + interval.min(LONGEST_TRY_INTERVAL).max(least);
    }

    /// When the path is to be suspected, if nothing comes.
    fn due(&self, path: PathId) -> Option<Time> {
        match self.suspected.contains(path) {
            true => None,
            false => self.paths[path.index()].silent_by(),
        }
    }

    /// When [`Silence::handle_timeout`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let due = self.watched.iter().map(|path| self.due(path));
        due.fold(None, earliest)
    }

    /// The paths that have come to be suspected. One that is not usable any more, and is suspected still, does not make
    /// another one the second.
    pub(crate) fn handle_timeout(&mut self, now: Time, usable: PathSet) -> PathSet {
        let mut found = PathSet::EMPTY;
        for path in self.watched.iter() {
            let Some(due) = self.due(path).filter(|&due| due <= now) else {
                continue;
            };
            let informed = now.since(self.last_report) < self.paths[path.index()].patience();
            let is_first = self.suspected.bits() & usable.bits() == 0;
            let watch = &mut self.paths[path.index()];
            let is_long = watch.silent_for(2).is_some_and(|by| by <= now);
            if now.since(due) > HELD_UP && watch.excuses < MOST_EXCUSES {
                watch.excuses += 1;
                watch.not_before = now + LOOK_AGAIN;
            } else if !(is_first || informed && is_long) {
                watch.not_before = now + LOOK_AGAIN;
            } else {
                watch.accused = Some(now);
                watch.next_try = now;
                self.suspected.insert(path);
                found.insert(path);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: PathSet = PathSet::from_bits(u16::MAX);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn path(index: usize) -> PathId {
        PathId::new(index).unwrap()
    }

    /// Two paths of 20 ms.
    fn silence() -> Silence {
        let mut silence = Silence::default();
        for index in 0..2 {
            silence.answered(at(900), path(index), at(880), ms(20), Duration::ZERO);
        }
        silence
    }

    /// A report tells of one packet more on a path.
    fn report(
        silence: &mut Silence,
        now: Time,
        index: usize,
        arrived: u64,
        sent: Time,
        next: Option<Time>,
    ) {
        silence.heard(now);
        silence.reported(
            now,
            path(index),
            arrived,
            Duration::ZERO,
            Some((sent, next)),
        );
    }

    #[test]
    fn a_path_is_suspected_a_round_trip_and_its_patience_after_what_it_swallowed() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        silence.sent(at(1010), path(0), 1);
        report(&mut silence, at(1021), 0, 1, at(1000), Some(at(1010)));
        // 21 ms as the last took, 40 of the peer's and 40 of margin, and a quarter of the round trip.
        assert_eq!(silence.poll_timeout(), Some(at(1010 + 21 + 85)));
        assert!(silence.handle_timeout(at(1115), ALL).is_empty());
        assert_eq!(
            silence.handle_timeout(at(1116), ALL),
            PathSet::only(path(0))
        );
        let both = PathSet::from_bits(3);
        assert_eq!(silence.trusted(both), PathSet::only(path(1)));
        let tries = |silence: &Silence, ms| silence.tries(at(ms), both);
        assert_eq!(tries(&silence, 1116), PathSet::only(path(0)));
        silence.tried(at(1116), path(0), Some(Duration::from_millis(1)));
        assert!(tries(&silence, 1125).is_empty());
        assert_eq!(tries(&silence, 1126), PathSet::only(path(0)));
        // Half of what a path carries is left to others, but one of which nothing is known is tried, too.
        silence.tried(at(1126), path(0), Some(Duration::from_millis(7)));
        assert!(tries(&silence, 1139).is_empty());
        assert_eq!(tries(&silence, 1140), PathSet::only(path(0)));
        silence.tried(at(1140), path(0), None);
        assert!(tries(&silence, 1189).is_empty());
        assert_eq!(tries(&silence, 1190), PathSet::only(path(0)));
        report(&mut silence, at(1190), 0, 2, at(1166), None);
        assert_eq!(
            (silence.trusted(both), silence.poll_timeout()),
            (both, None)
        );
    }

    #[test]
    fn a_report_that_was_long_under_way_is_no_answer() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        assert!(!silence.handle_timeout(at(1105), ALL).is_empty());
        silence.reported(
            at(1200),
            path(0),
            7,
            ms(170),
            Some((at(1000), Some(at(1005)))),
        );
        assert!(silence.suspected().contains(path(0)));
        silence.reported(
            at(1210),
            path(0),
            8,
            ms(2),
            Some((at(1005), Some(at(1006)))),
        );
        assert!(silence.suspected().is_empty());
    }

    #[test]
    fn an_answer_to_what_was_sent_before_says_nothing() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        assert!(!silence.handle_timeout(at(1105), ALL).is_empty());
        silence.answered(at(1110), path(0), at(990), ms(20), Duration::ZERO);
        assert!(silence.suspected().contains(path(0)));
        silence.answered(at(1130), path(0), at(1110), ms(20), Duration::ZERO);
        assert!(silence.suspected().is_empty());
        assert_eq!(silence.poll_timeout(), None, "all was sent before");
    }

    #[test]
    fn after_a_false_alarm_the_next_takes_longer_for_a_while() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        assert!(!silence.handle_timeout(at(1105), ALL).is_empty());
        report(&mut silence, at(1120), 0, 1, at(1000), None);
        silence.sent(at(1200), path(0), 1);
        assert_eq!(silence.poll_timeout(), Some(at(1200 + 120 + 170)));
        report(&mut silence, at(6200), 0, 2, at(6180), None);
        silence.sent(at(6300), path(0), 1);
        assert_eq!(silence.poll_timeout(), Some(at(6300 + 20 + 85)));
    }

    #[test]
    fn a_path_that_swallowed_what_it_took_and_is_mended_is_suspected_as_soon_as_before() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        assert!(!silence.handle_timeout(at(1105), ALL).is_empty());
        silence.answered(at(1300), path(0), at(1280), ms(20), Duration::ZERO);
        assert!(silence.suspected().is_empty());
        report(&mut silence, at(1330), 0, 1, at(1310), None);
        silence.sent(at(1400), path(0), 1);
        assert_eq!(silence.poll_timeout(), Some(at(1400 + 20 + 85)));

        // All that was held up comes at once, and the answer to a probe is the first to tell.
        assert!(!silence.handle_timeout(at(1505), ALL).is_empty());
        silence.answered(at(1600), path(0), at(1580), ms(20), Duration::ZERO);
        report(&mut silence, at(1605), 0, 2, at(1400), None);
        silence.sent(at(1700), path(0), 1);
        let late = Duration::from_millis(205) + ms(170);
        assert_eq!(silence.poll_timeout(), Some(at(1700) + late));
    }

    #[test]
    fn where_no_report_comes_one_path_is_suspected() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        silence.sent(at(1001), path(1), 1);
        assert_eq!(
            silence.handle_timeout(at(1106), ALL),
            PathSet::only(path(0))
        );
        for later in (1110..3000).step_by(20) {
            assert!(silence.handle_timeout(at(later), ALL).is_empty());
        }
        let trusted = silence.trusted(PathSet::from_bits(3));
        assert_eq!(trusted, PathSet::only(path(1)));
    }

    #[test]
    fn of_two_that_fall_silent_while_reports_come_the_second_is_suspected_after_twice_the_time() {
        let mut silence = silence();
        silence.answered(at(900), path(2), at(880), ms(20), Duration::ZERO);
        for index in 0..2 {
            silence.sent(at(1000), path(index), 1);
        }
        let mut suspected = Vec::new();
        for now in 1000..1400 {
            silence.sent(at(now), path(2), 1);
            report(&mut silence, at(now), 2, now, at(now), None);
            if silence.poll_timeout().is_some_and(|due| due <= at(now)) {
                let found = silence.handle_timeout(at(now), ALL);
                suspected.extend(found.iter().map(|path| (path.index(), now)));
            }
        }
        // A round trip of 20 ms, and 85 ms once and twice; it is looked each 20 ms.
        assert!(
            matches!(suspected[..], [(0, 1105), (1, 1190..=1210)]),
            "{suspected:?}"
        );
    }

    #[test]
    fn one_that_is_down_makes_another_not_the_second() {
        for (usable, is_suspected) in [(ALL, false), (PathSet::only(path(1)), true)] {
            let mut silence = silence();
            silence.sent(at(1000), path(0), 1);
            assert!(!silence.handle_timeout(at(1105), ALL).is_empty());
            silence.sent(at(2000), path(1), 1);
            let found = silence.handle_timeout(at(2106), usable);
            assert_eq!(found.contains(path(1)), is_suspected, "{usable:?}");
        }
    }

    #[test]
    fn all_that_are_usable_are_not_left_at_once() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        silence.handle_timeout(at(1105), ALL);
        let only = PathSet::only(path(0));
        assert_eq!(silence.trusted(only), only);
        assert!(silence.tries(at(1105), only).is_empty());
    }

    #[test]
    fn who_was_held_up_looks_again_before_it_suspects() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), 1);
        let mut now = at(1150);
        for _ in 0..MOST_EXCUSES {
            assert!(silence.handle_timeout(now, ALL).is_empty());
            now = silence.poll_timeout().unwrap() + ms(11);
        }
        assert!(!silence.handle_timeout(now, ALL).is_empty());
    }

    #[test]
    fn who_lets_probes_through_and_packets_not_is_suspected_until_one_arrives() {
        let mut silence = silence();
        silence.sent(at(1000), path(0), MOST_BY_CHANCE);
        report(&mut silence, at(1050), 1, 1, at(1020), None);
        let answer = |silence: &mut Silence, now: u64| {
            silence.answered(at(now), path(0), at(now - 20), ms(20), Duration::ZERO);
        };
        answer(&mut silence, 1060);
        assert_eq!(
            silence.handle_timeout(at(1105), ALL),
            PathSet::only(path(0))
        );
        report(&mut silence, at(1200), 1, 2, at(1180), None);
        // Some of these were sent after the last report.
        for now in [1210, 1230, 1250] {
            answer(&mut silence, now);
            assert!(silence.suspected().contains(path(0)), "{now} ms");
        }
        report(&mut silence, at(1290), 0, 1, at(1260), None);
        assert!(silence.suspected().is_empty());

        // A few may be lost by chance.
        silence.sent(at(2000), path(0), MOST_BY_CHANCE - 1);
        report(&mut silence, at(2050), 1, 3, at(2020), None);
        answer(&mut silence, 2060);
        assert!(silence.handle_timeout(at(2105), ALL).is_empty());
    }
}

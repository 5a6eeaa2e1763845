//! How often a path is probed, and what its silence means.
//!
//! While the tunnel carries something, a path is probed at its `keepalive`, and silence for `dead_after`
//! takes it down. While the tunnel carries nothing, nobody waits for an answer within a second, and
//! probes are what a month of it costs: so there is one in [`IDLE_INTERVAL`], which still keeps the
//! mappings of NATs open. Then nothing can be made of silence by itself, only of a probe that is not
//! answered. Such a probe is repeated at once, as often as under traffic, and `dead_after` counts from
//! the first. With the first packet, whichever way it goes, the path is quick again; `dead_after` counts
//! from then at the earliest, since before nothing was asked.
//!
//! A new path is probed more often for a moment, until its delay and its jitter are known.
//!
//! A path that answers few of its probes under traffic is *faint*: somebody lets next to nothing through, as providers do
//! that throttle a flow of UDP after some minutes. It is not down, and carries nothing worth the name.
//!
//! A path that is down is probed less and less while the tunnel is idle, down to one in
//! [`LONGEST_PAUSE`]: it should be found within five seconds after it is mended.

use std::time::Duration;

use super::PathConfig;
use super::answered::RoundTrip;
use crate::time::{Time, earliest};

/// Time between probes while the tunnel is idle, a tenth more or less by chance. Who has begun anew, and does not know
/// where its peers are, has them back after it: a hub's thousand idle clients within 15 s, spread over all of that. The
/// mappings of NATs and firewalls last longer, 30 s and more (RFC 4787 §4.3 asks for 2 min).
pub(crate) const IDLE_INTERVAL: Duration = Duration::from_secs(12);
/// The same on a metered path: longer than the time between two handshakes, whose first messages probe
/// the path as well.
pub(crate) const METERED_INTERVAL: Duration = Duration::from_secs(200);
/// On a metered path something is sent this often at least, if only one byte, to keep mappings open: a
/// little less than the 30 s that the least patient of them last.
const MAPPING_KEPT: Duration = Duration::from_secs(28);
/// A new path is probed [`MEASURED_BY`] times as often for at most this long, until its jitter is known. With a probe in
/// 200 ms, 14 ms of jitter was taken for 2 ms by a flow that began after 1 s (`campaign --one 7095`).
const MEASURED_FOR: Duration = Duration::from_secs(2);
/// By so many probes in a keepalive, and no more of them under way: 16 are back within 1 s.
const MEASURED_BY: u32 = 4;
/// The longest pause between probes of an idle path that is down, …
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// … and of a metered one.
const LONGEST_METERED_PAUSE: Duration = Duration::from_secs(20);
/// An error that came back stands for this long at least: hosts send one a second at most.
const ERROR_STANDS: Duration = Duration::from_secs(3);
/// The pause grows to this part of the time since the path was heard.
const PAUSE_SHARE: u32 = 16;
/// The share of probes that are answered is smoothed over so many: 1.6 s with the usual keepalive.
const SMOOTHED_OVER: f64 = 8.0;
/// A path that answers less than this share of its probes is faint. A policer that leaves 1 kbit/s (glorytun issue 69)
/// lets one of five pass; links that lose so many by their nature are of no use, and keep their port for longer and
/// longer: see [`super::Renewal`].
const FAINT: f64 = 0.33;
/// It is not faint any more when it answers more than this share. One of five by chance are more in one of a thousand
/// cases.
const NOT_FAINT: f64 = 0.5;

/// What was asked on a path, and when it answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    /// Since when an echo could have come: start, or the link's return.
    began: Time,
    /// The last echo of a probe.
    echo: Option<Time>,
    /// When anything came last that the peer sent.
    heard: Option<Time>,
    /// Since when the tunnel carries something; `None` while it is idle.
    quick_since: Option<Time>,
    /// When the first probe was sent that nothing has answered since.
    asked: Option<Time>,
    /// The share of probes under traffic that were answered, smoothed.
    answers: f64,
    /// Since when they are too few.
    faint_since: Option<Time>,
}

impl Rhythm {
    pub(crate) fn new(now: Time) -> Rhythm {
        Rhythm {
            began: now,
            echo: None,
            heard: None,
            quick_since: Some(now),
            asked: None,
            answers: 1.0,
            faint_since: None,
        }
    }

    /// What was known no longer holds: the path is asked anew.
    pub(crate) fn begin(&mut self, now: Time) {
        *self = Rhythm {
            heard: self.heard,
            quick_since: self.quick_since,
            ..Rhythm::new(now)
        };
    }

    /// An error says that the path does not work; an echo may show that it does.
    pub(crate) fn doubt(&mut self, now: Time) {
        if self.echo.take().is_some() {
            self.asked = Some(now);
        }
    }

    /// The tunnel carries something from now on, or nothing any more.
    pub(crate) fn set_quick(&mut self, since: Option<Time>) {
        self.quick_since = since;
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.quick_since.is_some()
    }

    /// A probe was sent, or would have been.
    pub(crate) fn ask(&mut self, now: Time) {
        self.asked.get_or_insert(now);
        if self.is_quick() {
            self.answers -= self.answers / SMOOTHED_OVER;
        }
        if self.answers < FAINT {
            self.faint_since.get_or_insert(now);
        }
    }

    /// Something came that the peer sent.
    pub(crate) fn hear(&mut self, now: Time) {
        self.heard = Some(now);
    }

    /// An echo came.
    pub(crate) fn answered(&mut self, now: Time) {
        (self.echo, self.heard, self.asked) = (Some(now), Some(now), None);
        self.answers = (self.answers + 1.0 / SMOOTHED_OVER).min(1.0);
        if self.answers > NOT_FAINT {
            self.faint_since = None;
        }
    }

    /// Since when it answers too few of its probes: some, and not the last. One that was cut off for a moment answers
    /// all when it is back.
    pub(crate) fn faint_since(
        &self,
        now: Time,
        config: &PathConfig,
        rtt: Option<RoundTrip>,
    ) -> Option<Time> {
        let since = self.faint_since?;
        let answers = self.echo.is_some_and(|echo| echo > since);
        let misses = self.missed(config, rtt).is_some_and(|missed| missed <= now);
        (answers && misses).then_some(since)
    }

    pub(crate) fn heard(&self) -> Option<Time> {
        self.heard
    }

    pub(crate) fn was_ever_answered(&self) -> bool {
        self.echo.is_some()
    }

    /// Since when the path owes an answer; `None` when it owes none.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        match self.echo {
            // Since the first probe, or since an error said that the path does not work.
            None => Some(self.asked.unwrap_or(self.began)),
            Some(echo) => self.owed_since(echo),
        }
    }

    /// Since when something should have come, if the last came at `last`.
    fn owed_since(&self, last: Time) -> Option<Time> {
        match (self.quick_since, self.asked) {
            (Some(quick), None) => Some(last.max(quick)),
            (Some(quick), Some(asked)) => Some(last.max(quick.min(asked))),
            (None, asked) => asked,
        }
    }

    /// Whether probes are answered.
    pub(crate) fn is_answered(&self, now: Time, dead_after: Duration) -> bool {
        self.echo.is_some()
            && self
                .silent_since()
                .is_none_or(|since| now.since(since) < dead_after)
    }

    /// Whether no echo has come yet, and might have for `dead_after`.
    pub(crate) fn is_young(&self, now: Time, dead_after: Duration) -> bool {
        self.echo.is_none() && now.since(self.began) < dead_after
    }

    /// Whether it was begun less than `dead_after` ago.
    pub(crate) fn is_new(&self, now: Time, dead_after: Duration) -> bool {
        now.since(self.began) < dead_after
    }

    /// Whether something of the peer may still be under way.
    pub(crate) fn is_waited_for(&self, now: Time, dead_after: Duration) -> bool {
        let since = match self.heard {
            None => Some(self.began),
            Some(heard) => self.owed_since(heard),
        };
        since.is_none_or(|since| now.since(since) < dead_after)
    }

    /// When one of these may change by the passing of time alone.
    pub(crate) fn deadline(&self, now: Time, dead_after: Duration) -> Option<Time> {
        let heard = self.heard.and_then(|heard| self.owed_since(heard));
        [self.silent_since(), heard]
            .into_iter()
            .map(|since| since.map(|since| since + dead_after))
            .map(|at| at.filter(|&at| at > now))
            .fold(None, earliest)
    }

    /// How long after a probe the next one is due. `leads`: this end probes, and the other only when
    /// this one falls silent.
    pub(crate) fn interval(
        &self,
        now: Time,
        config: &PathConfig,
        rtt: Option<RoundTrip>,
        leads: bool,
    ) -> Duration {
        let is_answered = self.is_answered(now, config.dead_after);
        let asked_for = |interval: Duration| match leads {
            true => interval,
            false => interval * 3 / 2,
        };
        match (self.quick_since, self.asked) {
            (Some(_), _) if is_answered => asked_for(config.keepalive),
            (Some(_), _) => config.keepalive,
            (None, None) if is_answered => asked_for(config.idle_interval()),
            (None, Some(_)) if is_answered => self.patience(config, rtt),
            (None, asked) => {
                let silent = now.since(asked.unwrap_or(self.began).max(self.began));
                (silent / PAUSE_SHARE).clamp(config.keepalive, config.longest_pause())
            }
        }
    }

    /// How long that is in place of `interval` on a path whose jitter is not known yet.
    pub(crate) fn interval_while_measured(
        &self,
        now: Time,
        config: &PathConfig,
        rtt: Option<RoundTrip>,
        interval: Duration,
    ) -> Duration {
        let is_measured = self.is_quick()
            && self.is_new(now, MEASURED_FOR)
            && self.is_answered(now, config.dead_after)
            && !config.metered;
        if !is_measured {
            return interval;
        }
        let longest = rtt.map_or(Duration::ZERO, |rtt| rtt.longest());
        interval.min(interval.max(longest) / MEASURED_BY)
    }

    /// When a probe has stayed without answer for longer than answers take.
    pub(crate) fn missed(&self, config: &PathConfig, rtt: Option<RoundTrip>) -> Option<Time> {
        Some(self.asked? + self.patience(config, rtt))
    }

    /// How long an error that came back tells more than the silence after it: while what is sent would
    /// bring it again.
    pub(crate) fn error_stands(&self, config: &PathConfig) -> Duration {
        let pause = match self.quick_since {
            Some(_) => config.keepalive,
            None => config.longest_pause(),
        };
        ERROR_STANDS.max(config.dead_after).max(pause * 2)
    }

    fn patience(&self, config: &PathConfig, rtt: Option<RoundTrip>) -> Duration {
        // Probes come a tenth early by chance.
        let longest = rtt.map_or(Duration::ZERO, |rtt| rtt.longest() * 5 / 4);
        config.keepalive.max(longest)
    }
}

impl PathConfig {
    /// Time between probes while the tunnel is idle.
    #[must_use]
    pub fn idle_interval(&self) -> Duration {
        let interval = match self.metered {
            true => METERED_INTERVAL,
            false => IDLE_INTERVAL,
        };
        interval.max(self.keepalive)
    }

    /// The longest time between probes of a path that is down.
    pub(crate) fn longest_pause(&self) -> Duration {
        let longest = match self.metered {
            true => LONGEST_METERED_PAUSE,
            false => LONGEST_PAUSE,
        };
        longest.max(self.keepalive)
    }

    /// After this long without a datagram one byte is sent, for the sake of mappings on the way.
    pub(crate) fn mapping_kept(&self) -> Option<Duration> {
        (self.metered && self.remote.is_some()).then_some(MAPPING_KEPT.max(self.keepalive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD_AFTER: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn config(metered: bool) -> PathConfig {
        PathConfig {
            remote: None,
            weight: 1,
            keepalive: Duration::from_millis(200),
            dead_after: DEAD_AFTER,
            metered,
            keeps_port: false,
        }
    }

    /// Answered at 1 s, idle since 6 s.
    fn idle() -> Rhythm {
        let mut rhythm = Rhythm::new(at(0));
        rhythm.answered(at(1000));
        rhythm.set_quick(None);
        rhythm
    }

    #[test]
    fn silence_of_an_idle_path_that_was_asked_nothing_means_nothing() {
        let rhythm = idle();
        assert!(rhythm.is_answered(at(60_000), DEAD_AFTER));
        assert!(rhythm.is_waited_for(at(60_000), DEAD_AFTER));
        assert_eq!(rhythm.deadline(at(60_000), DEAD_AFTER), None);
    }

    #[test]
    fn silence_after_an_error_begins_with_the_error() {
        let mut rhythm = idle();
        rhythm.doubt(at(60_000));
        rhythm.ask(at(60_100));
        assert_eq!(rhythm.silent_since(), Some(at(60_000)));
        assert!(!rhythm.is_answered(at(60_100), DEAD_AFTER));
    }

    #[test]
    fn an_idle_path_is_down_dead_after_the_first_probe_that_nothing_answers() {
        let mut rhythm = idle();
        rhythm.ask(at(20_000));
        rhythm.ask(at(20_200));
        assert_eq!(rhythm.deadline(at(20_000), DEAD_AFTER), Some(at(21_000)));
        assert!(rhythm.is_answered(at(20_999), DEAD_AFTER));
        assert!(!rhythm.is_answered(at(21_000), DEAD_AFTER));
        assert!(!rhythm.is_waited_for(at(21_000), DEAD_AFTER));
        rhythm.answered(at(30_000));
        assert!(rhythm.is_answered(at(60_000), DEAD_AFTER));
    }

    #[test]
    fn the_first_packet_gives_it_dead_after_and_a_path_that_was_down_nothing() {
        let mut rhythm = idle();
        rhythm.set_quick(Some(at(50_000)));
        rhythm.ask(at(50_000));
        assert!(rhythm.is_answered(at(50_999), DEAD_AFTER));
        assert!(!rhythm.is_answered(at(51_000), DEAD_AFTER));

        let mut rhythm = idle();
        rhythm.ask(at(20_000));
        rhythm.set_quick(Some(at(50_000)));
        assert!(!rhythm.is_answered(at(50_000), DEAD_AFTER));
        assert!(!rhythm.is_waited_for(at(50_000), DEAD_AFTER));
    }

    #[test]
    fn under_traffic_dead_after_counts_from_the_last_echo() {
        let mut rhythm = Rhythm::new(at(0));
        rhythm.answered(at(1000));
        rhythm.ask(at(1200));
        assert_eq!(rhythm.deadline(at(1200), DEAD_AFTER), Some(at(2000)));
        assert!(!rhythm.is_answered(at(2000), DEAD_AFTER));
    }

    /// For how many of 10 s a path under traffic was faint that answers these of its probes, five a second.
    fn faint(answers: impl Fn(u64) -> bool) -> u64 {
        let mut rhythm = Rhythm::new(at(0));
        let probes = (1..50).filter(|&probe| {
            rhythm.ask(at(200 * probe));
            if answers(probe) {
                rhythm.answered(at(200 * probe + 20));
            }
            let now = at(200 * probe + 199);
            rhythm.faint_since(now, &config(false), None).is_some()
        });
        probes.count() as u64 / 5
    }

    #[test]
    fn a_path_is_faint_that_answers_one_probe_of_five_and_not_one_that_is_silent_lossy_or_back() {
        assert_eq!(faint(|_| true), 0);
        assert_eq!(faint(|probe| probe % 2 == 0), 0);
        assert_eq!(faint(|_| false), 0);
        assert_eq!(faint(|probe| probe > 20), 0);
        let seconds = faint(|probe| probe % 5 == 0);
        assert!((4..=6).contains(&seconds), "{seconds}");
        // An idle path is asked when something is in doubt.
        let mut rhythm = idle();
        for probe in 0..20 {
            rhythm.ask(at(2000 + 200 * probe));
        }
        rhythm.answered(at(7000));
        rhythm.ask(at(7000));
        assert_eq!(rhythm.faint_since(at(9000), &config(false), None), None);
    }

    #[test]
    fn an_idle_path_is_probed_seldom_asked_again_soon_and_less_and_less_when_it_is_down() {
        let interval = |rhythm: &Rhythm, ms: u64, leads| {
            let interval = rhythm.interval(at(ms), &config(false), None, leads);
            interval.as_millis()
        };
        let mut rhythm = idle();
        assert_eq!(interval(&rhythm, 10_000, true), 12_000);
        assert_eq!(interval(&rhythm, 10_000, false), 18_000);
        rhythm.ask(at(20_000));
        assert_eq!(interval(&rhythm, 20_000, true), 200);
        assert_eq!(interval(&rhythm, 22_000, true), 200);
        assert_eq!(interval(&rhythm, 36_000, true), 1000);
        assert_eq!(interval(&rhythm, 3_600_000, true), 4000);
        rhythm.set_quick(Some(at(3_600_000)));
        assert_eq!(interval(&rhythm, 3_600_000, true), 200);
        let metered = rhythm.interval(at(0), &config(true), None, true);
        assert_eq!(metered, Duration::from_millis(200));
        assert_eq!(config(true).idle_interval(), METERED_INTERVAL);
    }
}

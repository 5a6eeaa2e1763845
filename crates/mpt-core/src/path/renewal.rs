//! What is done about a path on which nothing is answered for long, though nothing says why.
//!
//! A NAT router or a firewall on the way may have a mapping for the path's two addresses and ports that leads
//! nowhere: made before a port forward was there, or by a router that has lost the half of it. It keeps it as
//! long as packets come, and so a path that is asked again and again would stay down for ever.
//!
//! Where the source port is free to be chosen, which takes a sealed tunnel, the path goes on *from another
//! port*. It goes back after [`AWAY`] when nothing is answered there either, and tries again after longer and
//! longer: two ends that both leave the port where the other looks for them would never meet. For the same reason, where no
//! other path is up, one end alone goes soon. It is the one whose peer may not leave its port, as a server without `remote`;
//! of two that may, which they tell each other in probes, the one with the higher session number. The other goes after
//! [`LONG`], when the first is back.
//!
//! So does a path that is *faint* ([`Rhythm`](super::rhythm::Rhythm)), whether there are others or not: a provider that
//! throttles a flow of UDP leaves it a kilobit a second, and some probes are answered. Where another port is no better the
//! next attempt comes after twice the time.
//!
//! In a plain tunnel, where it is not, the path *rests*: both ends say nothing for [`REST`], and then ask for
//! [`TALK`]. Whatever the two ends' phases, in each period there are 32 s in which neither speaks, and Linux forgets a mapping
//! without answers after 30 s (`nf_conntrack_udp_timeout`). Who hears the other while it rests answers at
//! once.

use std::time::Duration;

use crate::time::Time;

/// Without an answer for this long, another port is tried, or a path that was never up rests.
const LONG: Duration = Duration::from_secs(30);
/// The same for a path that was up, while another one is, or where the peer stays where it is meanwhile: with the second
/// or two that a handshake over the new port takes, it is back within ten. Silence itself is noticed within a second or
/// two, and most outages of radio links last less.
const SOON: Duration = Duration::from_secs(5);
/// How long an answer is waited for at the other port, and the least time between two attempts.
const AWAY: Duration = Duration::from_secs(10);
/// The longest time between two attempts at another port.
const LONGEST: Duration = Duration::from_secs(300);
/// A port that was good for this long was not tried in vain: providers throttle after some minutes.
const WORKED: Duration = Duration::from_secs(60);
/// How long a resting path is asked …
pub(crate) const TALK: Duration = Duration::from_secs(5);
/// … and how long it then is not: what is not `TALK` of two ends is 64 s, and the longer part of that 32 s.
pub(crate) const REST: Duration = Duration::from_secs(64 + 5);

/// What was tried on a path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Renewal {
    /// Attempts since the last answer; odd after those that led away from the configured port.
    tries: u32,
    last: Time,
    was_up: bool,
    /// An answer came since the last.
    answers: bool,
    /// Attempts in a row that led to a port that was as faint.
    in_vain: u32,
}

impl Renewal {
    /// An answer came.
    pub(crate) fn answered(&mut self) {
        self.tries %= 2;
        self.was_up = true;
        self.answers = true;
    }

    /// Whether another port is to be tried, where nothing was answered since `since`. `soon`: another path is up, or the
    /// peer stays where it is meanwhile.
    pub(crate) fn is_due(&self, now: Time, since: Time, soon: bool) -> bool {
        let after = match self.tries {
            _ if self.answers && soon => {
                let apart = self.last == Time::ZERO || now.since(self.last) >= AWAY;
                return apart && now.since(since) >= SOON;
            }
            tries if tries % 2 == 1 => AWAY,
            tries => (LONG * (1 << (tries / 2).min(4))).min(LONGEST),
        };
        now.since(since.max(self.last)) >= after
    }

    /// Whether another port is to be tried, where too few probes are answered since `since`.
    pub(crate) fn is_due_when_faint(&self, now: Time, since: Time) -> bool {
        let apart = (AWAY * (1 << self.in_vain.min(5))).min(LONGEST);
        let is_apart = self.last == Time::ZERO || now.since(self.last) >= apart;
        is_apart && now.since(since) >= SOON
    }

    /// Another port is tried, where too few probes are answered since `since`.
    pub(crate) fn tried_when_faint(&mut self, now: Time, since: Time) {
        let worked = self.last == Time::ZERO || since.since(self.last) >= WORKED;
        self.in_vain = if worked { 0 } else { self.in_vain + 1 };
        self.tried(now);
        // It always leads away from the configured port.
        self.tries |= 1;
    }

    /// Whether one was tried since the last answer, or for the last.
    pub(crate) fn was_tried(&self) -> bool {
        self.tries > 0
    }

    /// Another port is tried.
    pub(crate) fn tried(&mut self, now: Time) {
        self.tries = self.tries.saturating_add(1);
        self.last = now;
        self.answers = false;
    }

    /// Until when a path rests that has heard nothing since `since`; `None` while it is asked. One that was up
    /// never rests: it had a mapping that worked, and is to be back as soon as its link is.
    pub(crate) fn rests_until(&self, now: Time, since: Time) -> Option<Time> {
        if self.was_up {
            return None;
        }
        let begins = since + LONG;
        let period = (REST + TALK).as_nanos() as u64;
        let into = now.as_nanos().checked_sub(begins.as_nanos())? % period;
        let rest = REST.as_nanos() as u64;
        (into < rest).then(|| now + Duration::from_nanos(rest - into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// When ports are tried on a path that is silent from 0 on.
    fn attempts(mut renewal: Renewal, soon: bool, until: u64) -> Vec<u64> {
        let due = |second: &u64| {
            let due = renewal.is_due(at(*second), at(0), soon);
            if due {
                renewal.tried(at(*second));
            }
            due
        };
        (0..until).filter(due).collect()
    }

    #[test]
    fn another_port_is_tried_for_ten_seconds_after_longer_and_longer() {
        let new = Renewal::default();
        let expected = [30, 40, 100, 110, 230, 240, 480, 490, 790];
        assert_eq!(attempts(new, true, 800), expected);
        let mut up = new;
        up.answered();
        assert_eq!(attempts(up, true, 90), [5, 15, 75, 85]);
        assert_eq!(attempts(up, false, 90), [30, 40]);
        // It was answered at the other port, which then leads nowhere as well: the way back comes as soon, and no two
        // attempts are closer than ten seconds.
        up.tried(at(1));
        up.answered();
        assert_eq!(attempts(up, true, 60), [11]);
        let mut later = up;
        later.last = Time::ZERO;
        assert!(later.is_due(at(20), at(15), true) && !later.is_due(at(20), at(16), true));
        // Back on its own port, it was answered there.
        up.tried(at(11));
        up.answered();
        assert_eq!(attempts(up, true, 60), [21, 31]);
    }

    #[test]
    fn a_faint_path_tries_after_five_seconds_and_where_that_is_in_vain_after_twice_as_long_each_time()
     {
        // The port is faint a second after it was taken, and for good.
        let mut renewal = Renewal::default();
        let (mut since, mut tried) = (at(0), Vec::new());
        for second in 0..1300 {
            renewal.answered();
            if renewal.is_due_when_faint(at(second), since) {
                renewal.tried_when_faint(at(second), since);
                since = at(second + 1);
                tried.push(second);
            }
        }
        assert_eq!(tried, [5, 15, 35, 75, 155, 315, 615, 915, 1215]);
        // The last was good for a minute.
        let since = at(1275);
        assert!(!renewal.is_due_when_faint(at(1280), since));
        assert!(renewal.is_due_when_faint(at(1515), since));
        renewal.tried_when_faint(at(1515), since);
        assert!(renewal.is_due_when_faint(at(1525), at(1520)));
        // Then nothing is answered, on what is not its own port: the way back comes as soon as from any other.
        renewal.last = Time::ZERO;
        renewal.answers = false;
        assert!(renewal.is_due(at(10), at(0), false));
    }

    #[test]
    fn in_every_period_both_ends_are_silent_longer_than_a_mapping_lives() {
        let renewal = Renewal::default();
        let period = (REST + TALK).as_secs();
        let rests = |second, since| renewal.rests_until(at(second), at(since)).is_some();
        let mut up = renewal;
        up.answered();
        assert_eq!(up.rests_until(at(1000), at(0)), None);
        assert!(!rests(29, 0) && rests(30, 0) && !rests(30 + REST.as_secs(), 0));
        for phase in 0..period {
            let (mut silent, mut longest) = (0, 0);
            for second in 200..200 + 2 * period {
                silent = if rests(second, 0) && rests(second, phase) {
                    silent + 1
                } else {
                    0
                };
                longest = longest.max(silent);
            }
            assert!(longest >= 32, "{longest} s at a phase of {phase} s");
        }
    }
}

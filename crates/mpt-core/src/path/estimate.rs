//! What is estimated of a path: round-trip time, loss, one-way delay, rate.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::answered::RoundTrip;
use crate::time::Time;
use crate::windowed::Windowed;

/// The least round-trip time is the least of the present and the former span of this length.
const MINIMUM_SPAN: Duration = Duration::from_secs(30);

/// One-way delays may seem to change by so much more than the round trip: clocks are read at
/// slightly different moments.
const CLOCK_NOISE_NS: u64 = 1_000_000;

/// Round-trip time: smoothed with variation as RFC 6298 §2 does, and the least of the last half to
/// whole minute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    minimum: Windowed<Duration>,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt {
            smoothed: None,
            variation: Duration::ZERO,
            minimum: Windowed::least(MINIMUM_SPAN),
        }
    }
}

impl Rtt {
    pub(crate) fn sample(&mut self, now: Time, rtt: Duration) {
        let (smoothed, variation) = match self.smoothed {
            None => (rtt, rtt / 2),
            Some(smoothed) => (
                (smoothed * 7 + rtt) / 8,
                (self.variation * 3 + smoothed.abs_diff(rtt)) / 4,
            ),
        };
        self.smoothed = Some(smoothed);
        self.variation = variation;
        self.minimum.note(now, rtt);
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(crate) fn round_trip(&self) -> Option<RoundTrip> {
        Some(RoundTrip {
            minimum: self.minimum()?,
            smoothed: self.smoothed?,
            variation: self.variation,
        })
    }

    pub(crate) fn minimum(&self) -> Option<Duration> {
        self.minimum.get()
    }
}

/// Loss in one direction, from the sender's count of datagrams in its messages and the receiver's
/// own count at their arrival: paths deliver in order, so the two speak of the same datagrams.
/// Older intervals count less, by 1/16 for each message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loss {
    last: Option<(u64, u64)>,
    sent: f64,
    lost: f64,
}

impl Loss {
    pub(crate) fn sample(&mut self, peer_sent: u64, received: u64) {
        if let Some((sent_before, received_before)) = self.last.replace((peer_sent, received)) {
            let Some(sent) = peer_sent.checked_sub(sent_before) else {
                return;
            };
            let lost = sent as f64 - received.saturating_sub(received_before) as f64;
            self.sent = self.sent * 15.0 / 16.0 + sent as f64;
            self.lost = self.lost * 15.0 / 16.0 + lost;
        }
    }

    /// What share of what was sent is lost, from 0 to 1,000,000 millionths, as a probe tells it.
    pub(crate) fn ppm(&self) -> u32 {
        if self.sent <= 0.0 {
            return 0;
        }
        (self.lost / self.sent * 1e6).round().clamp(0.0, 1e6) as u32
    }

    /// The same, from 0 to 1, with no more digits than a probe has.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.ppm()) / 1e6
    }
}

/// Receive time less send time, in nanoseconds: a one-way delay plus the offset of the two clocks.
/// The offset is the same on all paths and cancels between them. Smoothed with variation, as the
/// round trip is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SmoothedDelay {
    smoothed: Option<i64>,
    variation: u64,
    /// By how much the offset changed at the last sample.
    clock_step: Option<i64>,
}

impl SmoothedDelay {
    /// Takes a sample of a path on which hardly any round trip takes longer than `rtt_ns`. A one-way
    /// delay cannot change by more than that: then it is a clock that was set.
    pub(crate) fn sample(&mut self, ns: i64, rtt_ns: u64) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(ns);
            return;
        };
        let change = ns.wrapping_sub(smoothed);
        if change.unsigned_abs() > rtt_ns.saturating_add(CLOCK_NOISE_NS) {
            self.smoothed = Some(ns);
            self.clock_step = Some(change);
            return;
        }
        self.smoothed = Some(smoothed.wrapping_add(change / 8));
        self.variation = self.variation / 4 * 3 + change.unsigned_abs() / 4;
    }

    pub(crate) fn ns(self) -> Option<i64> {
        self.smoothed
    }

    /// From the earliest to the latest that hardly any packet exceeds.
    pub(crate) fn range(&self) -> Option<RangeInclusive<i64>> {
        let smoothed = self.smoothed?;
        let around = i64::try_from(self.variation.saturating_mul(4)).unwrap_or(i64::MAX);
        Some(smoothed.saturating_sub(around)..=smoothed.saturating_add(around))
    }

    /// By how much the peer's clock was set, once for each time that it shows on this path.
    pub(crate) fn take_clock_step(&mut self) -> Option<i64> {
        let step = self.clock_step.take()?;
        // This path has followed it already.
        self.smoothed = self.smoothed.map(|ns| ns.wrapping_sub(step));
        Some(step)
    }

    /// The peer's clock was set, as another path showed.
    pub(crate) fn follow_clock_step(&mut self, step: i64) {
        self.smoothed = self.smoothed.map(|ns| ns.wrapping_add(step));
    }
}

/// Bits a second over the last whole second or more.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    began: Time,
    bytes_then: u64,
    bps: u64,
}

impl Rate {
    /// Notes the running total of bytes.
    pub(crate) fn sample(&mut self, now: Time, bytes: u64) {
        let span = now.since(self.began);
        if span >= Duration::from_secs(1) {
            let bits = u128::from(bytes.saturating_sub(self.bytes_then)) * 8;
            let per_second = bits * 1_000_000_000 / span.as_nanos();
            self.bps = u64::try_from(per_second).unwrap_or(u64::MAX);
            self.began = now;
            self.bytes_then = bytes;
        }
    }

    pub(crate) fn bps(&self) -> u64 {
        self.bps
    }
}

/// A delay that differs by more means that a clock was set, in nanoseconds.
pub(crate) const CLOCK_JUMP: u64 = 10_000_000_000;
/// A path that took no more bytes than this in this time carries nothing but probes …
const IDLE_BYTES: u64 = 4096;
const IDLE_SPAN: Duration = Duration::from_millis(150);
/// … and after this long what it carried before has left its queue.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Two clocks that differ by 20 ppm are a millisecond apart after this long: then the delay of a path that nothing came on
/// is not known any more.
pub(crate) const DRIFTS_AFTER: Duration = Duration::from_secs(60);

/// Probes that are remembered, and those that make a median.
const IDLE_PROBES: usize = 16;
const MEDIAN_OF: usize = 4;
/// Where it jitters, delays differ from the median by less than from each other, by √½ if normally distributed:
/// steps times this are more, however few there are, unless there are next to none.
const STEPS_OF_JITTER: f64 = 1.5;
/// One that is off by more than so many times what the others are on the mean may have been held up.
const OUTLIER: f64 = 5.0;

/// The one-way delay of our probes while the path carries nothing else, in nanoseconds, with the
/// offset of the clocks in it: its median, and how it varies. A few probes that were held up, as the
/// first are until the neighbour's address is known, show in neither.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdleDelay {
    /// Bytes that had been sent at that time.
    mark: (Time, u64),
    /// When it carried something last.
    busy: Option<Time>,
    /// The last probe was one of them.
    is_fresh: bool,
    /// The newest; a ring. Between any two of them less than [`DRIFTS_AFTER`] has passed.
    delays: [i64; IDLE_PROBES],
    /// When the last of them came.
    newest: Time,
    count: usize,
    median: i64,
    jitter: f64,
}

impl IdleDelay {
    /// A probe came back whose way there took `one_way`; `sent_bytes` were sent on the path so far.
    pub(crate) fn probed(&mut self, now: Time, one_way: i64, sent_bytes: u64) {
        let (at, before) = self.mark;
        if sent_bytes.wrapping_sub(before) > IDLE_BYTES {
            self.busy = Some(now);
        }
        if now.since(at) >= IDLE_SPAN {
            self.mark = (now, sent_bytes);
        }
        self.is_fresh = self.busy.is_none_or(|busy| now.since(busy) >= IDLE_AFTER);
        if !self.is_fresh {
            return;
        }
        let has_drifted = now.since(self.newest) > DRIFTS_AFTER;
        if self.count > 0 && (has_drifted || one_way.abs_diff(self.median) > CLOCK_JUMP) {
            self.count = 0;
        }
        self.newest = now;
        self.delays[self.count % IDLE_PROBES] = one_way;
        self.count += 1;
        let latest = self.latest();
        let latest = &latest[..self.count.min(IDLE_PROBES)];
        let mut sorted = self.delays;
        let sorted = &mut sorted[..latest.len()];
        sorted.sort_unstable();
        self.median = sorted[sorted.len() / 2];
        if self.count < MEDIAN_OF {
            return;
        }
        let median = self.median;
        let off = Differences::of(latest.iter().map(|delay| delay.abs_diff(median)));
        // A path that became slower and faster once does not jitter.
        let steps = Differences::of(latest.windows(2).map(|two| two[1].abs_diff(two[0])));
        let most = steps.mean_of_most() * STEPS_OF_JITTER;
        let deviation = off.mean_but_held_up().min(most);
        self.jitter = if self.count <= IDLE_PROBES {
            // A few probes may agree by chance.
            deviation * (1.0 + 4.0 / latest.len() as f64)
        } else {
            deviation.max(self.jitter * 0.97)
        };
    }

    /// The newest delays, the oldest of them first.
    fn latest(&self) -> [i64; IDLE_PROBES] {
        let mut latest = self.delays;
        if self.count > IDLE_PROBES {
            latest.rotate_left(self.count % IDLE_PROBES);
        }
        latest
    }

    /// Whether as many probes tell of it as are remembered.
    pub(crate) fn is_known(&self) -> bool {
        self.count >= IDLE_PROBES
    }

    /// The median, once a few probes make one and while the path is idle.
    pub(crate) fn median(&self) -> Option<i64> {
        (self.is_fresh && self.count >= MEDIAN_OF).then_some(self.median)
    }

    /// The most that the mean deviation was, fading.
    pub(crate) fn jitter(&self) -> u64 {
        self.jitter as u64
    }
}

/// A difference, in nanoseconds, and its number in the order of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    size: u64,
    number: usize,
}

/// At most [`IDLE_PROBES`] differences, the smallest of them first.
struct Differences {
    by_size: [Difference; IDLE_PROBES],
    count: usize,
}

impl Differences {
    fn of(sizes: impl Iterator<Item = u64>) -> Differences {
        let mut by_size = [Difference::default(); IDLE_PROBES];
        let mut count = 0;
        for (difference, size) in by_size.iter_mut().zip(sizes) {
            *difference = Difference {
                size,
                number: count,
            };
            count += 1;
        }
        by_size[..count].sort_unstable();
        Differences { by_size, count }
    }

    /// Their mean without outliers, of which a quarter of them are at the most.
    fn mean_of_most(&self) -> f64 {
        mean(self.split().0)
    }

    /// Their mean without what was held up: outliers one after another. Outliers here and there are jitter: where half of
    /// the delays are the least that the path can have, as with jitter of three times the delay, the others look like ones.
    fn mean_but_held_up(&self) -> f64 {
        let (most, outliers) = self.split();
        let numbers = outliers.iter().map(|outlier| outlier.number);
        let is_in_a_row = match (numbers.clone().min(), numbers.max()) {
            (Some(first), Some(last)) => last - first < outliers.len(),
            _ => true,
        };
        match is_in_a_row {
            true => mean(most),
            false => mean(&self.by_size[..self.count]),
        }
    }

    /// Most of them, and those that are many times as large as the mean of these.
    fn split(&self) -> (&[Difference], &[Difference]) {
        let all = &self.by_size[..self.count];
        let mut most = all;
        while let [others @ .., largest] = most
            && others.len() * 4 >= all.len() * 3
            && largest.size as f64 > OUTLIER * mean(others)
        {
            most = others;
        }
        all.split_at(most.len())
    }
}

fn mean(differences: &[Difference]) -> f64 {
    let sizes = differences.iter().map(|difference| difference.size as f64);
    sizes.sum::<f64>() / differences.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_forgets_after_a_minute() {
        let mut rtt = Rtt::default();
        for second in 0..100 {
            let ms = if second < 10 { 10 } else { 40 };
            rtt.sample(
                Time::from_nanos(second * 1_000_000_000),
                Duration::from_millis(ms),
            );
        }
        assert_eq!(rtt.minimum(), Some(Duration::from_millis(40)));
        assert_eq!(rtt.smoothed().unwrap().as_millis(), 39);
    }

    #[test]
    fn a_delay_that_jitters_has_a_range() {
        let mut delay = SmoothedDelay::default();
        let offset = -5_000_000_000;
        for step in 0..200 {
            let jitter = if step % 2 == 0 { 1_000_000 } else { -1_000_000 };
            delay.sample(offset + jitter, 40_000_000);
        }
        let range = delay.range().unwrap();
        assert!(
            range.start().abs_diff(offset - 4_000_000) < 600_000,
            "{range:?}"
        );
        assert!(
            range.end().abs_diff(offset + 4_000_000) < 600_000,
            "{range:?}"
        );
    }

    #[test]
    fn a_path_that_became_slower_and_then_faster_does_not_jitter() {
        let mut idle = IdleDelay::default();
        let mut most = 0;
        for probe in 0..90_u64 {
            let slow = (30..60).contains(&probe);
            let way = 5_000_000 + probe as i64 % 3 * 100_000 + i64::from(slow) * 200_000_000;
            idle.probed(
                Time::from_nanos(2_000_000_000 + probe * 200_000_000),
                way,
                0,
            );
            most = most.max(idle.jitter());
            if probe == 60 + IDLE_PROBES as u64 / 2 {
                assert_eq!(idle.median().map(|median| median / 1_000_000), Some(5));
            }
        }
        assert!(most < 1_000_000, "{most}");
    }

    #[test]
    fn a_path_that_jitters_is_said_to_by_its_mean_deviation() {
        let mut idle = IdleDelay::default();
        // Of numbers that are evenly spread over 8 ms it is 2 ms.
        for probe in 0..64_u64 {
            let way = 5_000_000 + (probe * 37 % 64) as i64 * 125_000;
            idle.probed(
                Time::from_nanos(2_000_000_000 + probe * 200_000_000),
                way,
                0,
            );
        }
        let jitter = idle.jitter() / 100_000;
        assert!((18..=26).contains(&jitter), "{jitter}");
    }

    #[test]
    fn a_change_beyond_the_round_trip_is_the_clock() {
        let mut paths = [SmoothedDelay::default(); 2];
        paths[0].sample(10_000_000, 40_000_000);
        paths[1].sample(30_000_000, 80_000_000);
        paths[0].sample(45_000_000, 40_000_000);
        assert_eq!(paths[0].take_clock_step(), None);
        let before = paths.map(|path| path.ns().unwrap());
        paths[0].sample(before[0] + 3_000_000_000, 40_000_000);
        let step = paths[0].take_clock_step().unwrap();
        paths
            .iter_mut()
            .for_each(|path| path.follow_clock_step(step));
        assert_eq!(paths.map(|path| path.ns().unwrap() - 3_000_000_000), before);
        assert_eq!(paths[0].take_clock_step(), None);
        paths[1].sample(i64::MIN, 0);
        paths[1].sample(i64::MAX, u64::MAX);
        assert!(paths[1].range().is_some());
    }

    #[test]
    fn loss_is_what_was_sent_and_did_not_arrive() {
        let mut loss = Loss::default();
        for step in 0..200u64 {
            loss.sample(step * 1000, step * 990);
        }
        assert_eq!(loss.ppm(), 10_000);
    }

    #[test]
    fn counters_that_run_backwards_leave_loss_within_bounds() {
        let mut loss = Loss::default();
        for (sent, received) in [(100, 100), (5, 200), (u64::MAX, 0), (0, u64::MAX)] {
            loss.sample(sent, received);
            assert!(loss.ppm() <= 1_000_000);
        }
    }

    #[test]
    fn probes_that_were_held_up_are_no_jitter() {
        let mut idle = IdleDelay::default();
        for index in 0..20u32 {
            let now = Time::ZERO + Duration::from_millis(200) * (index + 1);
            let held_up = 40_000_000 * i64::from(3_u32.saturating_sub(index));
            idle.probed(now, 20_000_000 + held_up, 100 * u64::from(index));
            if index >= 12 {
                assert_eq!((idle.median(), idle.jitter()), (Some(20_000_000), 0));
            }
        }
    }

    #[test]
    fn a_path_on_which_two_of_five_probes_are_late_jitters() {
        let mut idle = IdleDelay::default();
        for (index, late) in [0, 0, 0, 5, 20].into_iter().enumerate() {
            let now = Time::ZERO + Duration::from_millis(200) * (index as u32 + 1);
            idle.probed(now, 20_000_000 + late * 1_000_000, 0);
        }
        // 20 ms is held up; of the four others one is 5 ms late.
        assert!(idle.jitter() >= 1_250_000, "{}", idle.jitter());
    }

    /// Half of the delays are the least that the path can have: the latest of the others come here and there.
    #[test]
    fn jitter_that_shows_in_few_probes_is_none_that_held_them_up() {
        let mut idle = IdleDelay::default();
        for (index, late) in [0, 0, 12, 1, 0, 0, 16, 0, 2, 0].into_iter().enumerate() {
            let now = Time::ZERO + Duration::from_millis(200) * (index as u32 + 1);
            idle.probed(now, 20_000_000 + late * 1_000_000, 0);
        }
        assert!(idle.jitter() > 3_100_000, "{}", idle.jitter());
    }

    #[test]
    fn a_path_that_was_slower_for_a_while_does_not_jitter() {
        let mut idle = IdleDelay::default();
        for index in 0..60u32 {
            let now = Time::ZERO + Duration::from_millis(200) * (index + 1);
            let longer = i64::from((20..32).contains(&index)) * 200_000_000;
            idle.probed(now, 5_000_000 + longer, 0);
            assert_eq!(idle.jitter(), 0, "{index}");
        }
    }

    #[test]
    fn jitter_is_the_mean_deviation() {
        let mut idle = IdleDelay::default();
        for index in 0..40u32 {
            let now = Time::ZERO + Duration::from_millis(200) * (index + 1);
            let off = [-9, -3, 0, 3, 9][index as usize % 5] * 1_000_000;
            idle.probed(now, 20_000_000 + off, 100 * u64::from(index));
        }
        assert_eq!(idle.median(), Some(20_000_000));
        assert!(
            (4_500_000..=5_200_000).contains(&idle.jitter()),
            "{}",
            idle.jitter()
        );
    }

    /// Probes are seconds apart while a path is in use, and 200 s on a metered one that is idle.
    #[test]
    fn clocks_that_drift_between_rare_probes_are_neither_delay_nor_jitter() {
        let mut idle = IdleDelay::default();
        let mut now = Time::ZERO + Duration::from_secs(1);
        let mut probe = |idle: &mut IdleDelay, apart: Duration, late_ns: i64| {
            now = now + apart;
            let drift = (now.as_nanos() / 50_000) as i64;
            idle.probed(now, 20_000_000 + drift + late_ns, 0);
            20_000_000 + drift
        };
        for index in 0..20 {
            probe(&mut idle, Duration::from_millis(200), index % 3 * 2_000_000);
        }
        let before = idle.jitter();
        assert!(before > 1_000_000, "{before}");
        for _ in 0..20 {
            let present = probe(&mut idle, Duration::from_secs(200), 0);
            let told = idle.median().unwrap_or(present);
            assert!(told.abs_diff(present) < 1_000_000, "{told} {present}");
            assert_eq!(idle.jitter(), before);
        }
        // It is used again: what it takes now is known after a few.
        let mut present = 0;
        for _ in 0..MEDIAN_OF {
            present = probe(&mut idle, Duration::from_millis(200), 0);
        }
        let told = idle.median().unwrap();
        assert!(told.abs_diff(present) < 1_000_000, "{told} {present}");
    }

    #[test]
    fn a_path_that_carries_something_is_not_idle() {
        let mut idle = IdleDelay::default();
        for index in 0..20u32 {
            let now = Time::ZERO + Duration::from_millis(200) * (index + 1);
            idle.probed(now, 20_000_000, 100_000 * u64::from(index));
        }
        assert_eq!(idle.median(), None);
    }
}

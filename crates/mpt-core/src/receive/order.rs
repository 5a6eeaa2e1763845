//! Order, measured live in the line in.
//!
//! At three points: as packets **arrive** over all paths, which is what the paths do to a stream; as
//! they **leave** the reorder window, which is what the host gets; and on each **path** by itself. What
//! arrives in disorder and leaves in order is the tunnel at work, what is out of order on one path alone
//! is that path's own.
//!
//! Where all paths come together, every metric of [`metrics`](crate::metrics) is taken. On one path it is
//! RFC 4737 alone: the tunnel's numbers tell which of two packets of a path was sent first, but not how
//! many of that path's lie between, and Reorder Density and buffer occupancy are about just that.
//!
//! Only numbers that the window believes are measured, copies and late packets included: the metrics
//! have their own rules for those. When numbering begins anew, at a restart of the peer, order begins
//! anew as well; what was counted stays. Each packet carries the [`Numbering`] that it was received
//! under, so that a point finds that out by itself, when the first packet of the new one comes to it.
//!
//! The cost is that of [`RunMeter`]: a comparison or two a packet, and the metrics once for each run of
//! consecutive numbers.

mod report;

use std::cmp::Ordering;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::metrics::delay_variation::DelayVariation;
use crate::metrics::unwrap::{SequenceBits, Unwrapper};
use crate::metrics::{Measures, MeterConfig, OrderMeter, ReorderingMeter, RunMeter};
use crate::path::{MAX_PATHS, PathId};
use crate::seq::Seq;
use crate::time::Time;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(10);

/// DT and BT: displacements and occupancies up to this are told apart, in packets. Delay differences
/// between paths displace by more than the 200 of the Reorder Density paper, whose path was one.
const THRESHOLD: u16 = 512;

/// Numbers within which copies are recognised: a full window, and on a path what that is likely to
/// disorder itself.
const HISTORY: usize = 32_768;
const HISTORY_OF_A_PATH: usize = 8_192;

/// From one beginning of the sender's numbers to the next. Compared for equality alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbering(NonZeroU32);

impl Numbering {
    const FIRST: Numbering = Numbering(NonZeroU32::MIN);

    fn following(self) -> Numbering {
        Numbering(self.0.checked_add(1).unwrap_or(NonZeroU32::MIN))
    }
}

/// A sequence number and the numbering that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    numbering: Numbering,
    seq: Seq,
}

impl Number {
    pub(crate) fn seq(self) -> Seq {
        self.seq
    }

    /// Which of two numbers was given earlier; `None` when they are of two numberings.
    pub(crate) fn compare(self, other: Number) -> Option<Ordering> {
        (self.numbering == other.numbering).then(|| self.seq.distance_from(other.seq).cmp(&0))
    }
}

/// The meter of one point. Half a megabyte: there is none before the first packet.
struct Point<M> {
    numbering: Numbering,
    meter: Option<Box<RunMeter<M>>>,
    /// Something has come in this interval.
    is_used: bool,
}

impl<M> Default for Point<M> {
    fn default() -> Point<M> {
        Point {
            numbering: Numbering::FIRST,
            meter: None,
            is_used: false,
        }
    }
}

impl<M: Measures> Point<M> {
    #[inline]
    fn pass(&mut self, now: Time, number: Number, bytes: u16, new: impl FnOnce() -> M) {
        self.is_used = true;
        let meter = self
            .meter
            .get_or_insert_with(|| Box::new(RunMeter::new(new())));
        if number.numbering != self.numbering {
            self.numbering = number.numbering;
            meter.restart();
        }
        meter.arrive(number.seq.value(), u32::from(bytes), now.as_nanos());
    }

    /// Numbers go on elsewhere: nothing that comes is compared with what came before.
    fn restart(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.restart();
        }
    }

    /// Ends an interval. When nothing has come in it, memory that is not needed is given back.
    fn end_interval(&mut self) {
        let was_used = std::mem::replace(&mut self.is_used, false);
        if let Some(meter) = &mut self.meter {
            meter.end_interval();
            if !was_used {
                meter.rest();
            }
        }
    }
}

/// The meter of a point where all paths come together.
fn order_meter() -> OrderMeter {
    OrderMeter::new(MeterConfig {
        displacement_threshold: THRESHOLD,
        occupancy_threshold: THRESHOLD,
        history: HISTORY,
        ..MeterConfig::default()
    })
}

/// That of a path.
fn path_meter() -> ReorderingMeter {
    ReorderingMeter::new(&MeterConfig {
        history: HISTORY_OF_A_PATH,
        ..MeterConfig::default()
    })
}

/// Order over all paths, and on each.
pub(crate) struct Order {
    numbering: Numbering,
    now: Time,
    began: Option<Time>,
    interval_began: Time,
    /// How long the last whole interval was.
    last_interval: Option<Duration>,
    arriving: Point<OrderMeter>,
    leaving: Point<OrderMeter>,
    /// None of those that are not measured.
    paths: [Option<Box<PathOrder>>; MAX_PATHS],
    /// Nothing is measured: numbers are told apart all the same.
    is_off: bool,
}

impl Order {
    pub(crate) fn new() -> Order {
        Order {
            numbering: Numbering::FIRST,
            now: Time::ZERO,
            began: None,
            interval_began: Time::ZERO,
            last_interval: None,
            arriving: Point::default(),
            leaving: Point::default(),
            paths: Default::default(),
            is_off: false,
        }
    }

    /// Measures nothing, before the first path comes.
    pub(crate) fn switch_off(&mut self) {
        self.is_off = true;
    }

    /// Measures a path from now on, and forgets one that went by the same index.
    pub(crate) fn add_path(&mut self, path: PathId) {
        self.paths[path.index()] = (!self.is_off).then(|| Box::new(PathOrder::new()));
    }

    pub(crate) fn remove_path(&mut self, path: PathId) {
        self.paths[path.index()] = None;
    }

    /// The number `seq` of the present numbering.
    #[inline]
    pub(crate) fn number(&self, seq: Seq) -> Number {
        Number {
            numbering: self.numbering,
            seq,
        }
    }

    /// The sender's numbers begin anew.
    pub(crate) fn begin_numbering(&mut self) {
        self.numbering = self.numbering.following();
    }

    /// A packet of `bytes` bytes arrives on the path, and at the window.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time, path: PathId, number: Number, bytes: u16) {
        if let Some(path) = &mut self.paths[path.index()] {
            self.now = now;
            self.arriving.pass(now, number, bytes, order_meter);
            path.arrive(now, number, bytes);
        }
    }

    /// A message of the peer's arrives, its `number`th on this path, sent at `sent` by the peer's clock.
    pub(crate) fn hear(&mut self, now: Time, path: PathId, number: u32, sent: Time) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.hear(now, number, sent);
        }
    }

    /// The peer of this path began anew, with another clock.
    pub(crate) fn forget_peer(&mut self, path: PathId) {
        if let Some(path) = &mut self.paths[path.index()] {
            path.forget_peer();
        }
    }

    /// A packet has left the window, at the time that was told last; one without a number never was
    /// in it.
    #[inline]
    pub(crate) fn leave(&mut self, number: Option<Number>, bytes: u16) {
        if let Some(number) = number.filter(|_| !self.is_off) {
            self.leaving.pass(self.now, number, bytes, order_meter);
        }
    }

    /// Tells the time: an interval may end.
    pub(crate) fn tick(&mut self, now: Time) {
        self.now = now;
        if self.began.is_none() {
            (self.began, self.interval_began) = (Some(now), now);
        }
        let passed = now.since(self.interval_began);
        if passed < INTERVAL {
            return;
        }
        self.interval_began = now;
        self.last_interval = Some(passed);
        self.arriving.end_interval();
        self.leaving.end_interval();
        for path in self.paths.iter_mut().flatten() {
            path.end_interval();
        }
    }
}

/// Order and delay variation on one path.
struct PathOrder {
    arriving: Point<ReorderingMeter>,
    /// The number that arrived last.
    last: Seq,
    delays: DelayVariation,
    probes: Unwrapper,
    /// An interval has ended since the path is there.
    has_interval: bool,
}

impl PathOrder {
    fn new() -> PathOrder {
        PathOrder {
            arriving: Point::default(),
            last: Seq::FIRST,
            delays: DelayVariation::new(),
            probes: Unwrapper::new(SequenceBits::ThirtyTwo),
            has_interval: false,
        }
    }

    #[inline]
    fn arrive(&mut self, now: Time, number: Number, bytes: u16) {
        // 2^31 numbers and more went over other paths in between.
        if self.last.is_after(number.seq) && number.seq.supersedes(self.last) {
            self.arriving.restart();
        }
        self.last = number.seq;
        self.arriving.pass(now, number, bytes, path_meter);
    }

    fn hear(&mut self, now: Time, number: u32, sent: Time) {
        let number = self.probes.unwrap(number);
        self.delays.arrive(number, sent.as_nanos(), now.as_nanos());
    }

    fn forget_peer(&mut self) {
        self.delays.restart();
        self.probes.restart();
    }

    fn end_interval(&mut self) {
        self.arriving.end_interval();
        self.delays.end_interval();
        self.delays.rest();
        self.has_interval = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// A path, and what measures it.
    fn measured() -> (Order, PathId) {
        let (mut order, path) = (Order::new(), PathId::new(0).unwrap());
        order.add_path(path);
        (order, path)
    }

    #[test]
    fn each_point_begins_anew_with_the_first_packet_of_a_new_numbering() {
        let (mut order, path) = measured();
        order.tick(at(0));
        let old: Vec<Number> = (90_000..90_010)
            .map(|n| order.number(Seq::new(n)))
            .collect();
        old.iter().for_each(|&n| order.arrive(at(1), path, n, 100));
        order.begin_numbering();
        let new: Vec<Number> = (0..10).map(|n| order.number(Seq::new(n))).collect();
        new.iter().for_each(|&n| order.arrive(at(2), path, n, 100));
        // The old ones leave after the new ones have begun to arrive.
        old.iter()
            .chain(&new)
            .for_each(|&n| order.leave(Some(n), 100));
        let status = order.status(at(3), |_| None);
        for point in [status.arriving, status.leaving] {
            let reordering = point.since_start.reordering;
            assert_eq!((reordering.received, reordering.reordered), (20, 0));
            assert_eq!(point.last_interval, None);
        }
    }

    #[test]
    fn the_last_whole_interval_is_kept_until_the_next_has_ended() {
        let (mut order, path) = measured();
        order.tick(at(500));
        let swapped = [0, 2, 1, 3].map(|n| order.number(Seq::new(n)));
        let mut arrive = |n: &Number| order.arrive(at(600), path, *n, 100);
        swapped.iter().for_each(&mut arrive);
        order.tick(at(10_499));
        let arriving = order.status(at(10_499), |_| None).arriving;
        assert!(arriving.last_interval.is_none());
        for (now, reordered) in [(10_700, 1), (20_699, 1), (20_700, 0)] {
            order.tick(at(now));
            let arriving = order.status(at(now), |_| None).arriving;
            let last = arriving.last_interval.unwrap();
            assert_eq!(last.reordering.reordered, reordered, "at {now}");
            assert_eq!(arriving.since_start.reordering.reordered, 1);
        }
    }

    #[test]
    fn a_path_with_other_peers_numbers_between_its_own_is_in_order() {
        let (mut order, path) = measured();
        for n in [0, 1, 2, 50, 51, 90, 89, 91] {
            order.arrive(at(1), path, order.number(Seq::new(n)), 100);
        }
        let named = order.status(at(2), |_| Some("lte".to_owned()));
        let status = &named.paths["lte"];
        assert_eq!(status.since_start.reordering.reordered, 1);
        assert_eq!(status.since_start.reordering.extent.max, 1);
    }

    #[test]
    fn a_path_that_returns_after_half_of_all_numbers_is_in_order() {
        let (mut order, path) = measured();
        for n in [0, 1, 2, 1 << 31, (1 << 31) + 1, 5, 6] {
            order.arrive(at(1), path, order.number(Seq::new(n)), 100);
        }
        let named = order.status(at(2), |_| Some("lte".to_owned()));
        let reordering = &named.paths["lte"].since_start.reordering;
        assert_eq!((reordering.received, reordering.reordered), (7, 0));
    }

    #[test]
    fn another_peers_clock_is_no_delay_variation() {
        let mut path = PathOrder::new();
        (1..5).for_each(|n| path.hear(at(200 * u64::from(n) + 20), n, at(200 * u64::from(n))));
        path.forget_peer();
        (1..5).for_each(|n| path.hear(at(2000 + u64::from(n)), n, at(9_999_000 + u64::from(n))));
        let delay = path.status().since_start.delay;
        assert_eq!((delay.pdv_ns.count, delay.pdv_ns.max), (4, 0));
    }

    #[test]
    fn the_longest_reply_fits_a_line() {
        let many = u64::MAX / 1_000_000;
        let full = |status: &mut crate::control::order::PointStatus| {
            let figures = &mut status.since_start;
            let threshold = i32::from(THRESHOLD);
            figures.density.frequency = (-threshold..=threshold).map(|d| (d, many)).collect();
            figures.occupancy.frequency = (0..=u32::from(THRESHOLD)).map(|b| (b, many)).collect();
            figures.reordering.n_reordered = vec![many; 100];
            status.last_interval = Some(figures.clone());
        };
        let mut status = Order::new().status(at(0), |_| None);
        full(&mut status.arriving);
        full(&mut status.leaving);
        let mut path = PathOrder::new().status();
        path.since_start.reordering.n_reordered = vec![many; 100];
        path.last_interval = Some(path.since_start.clone());
        for n in 0..MAX_PATHS {
            status.paths.insert(format!("{n:0>56}"), path.clone());
        }
        let line = serde_json::to_string(&status).unwrap();
        // What else is in the reply takes less than 4 KiB.
        assert!(
            line.len() + 4096 < crate::control::MAX_LINE_BYTES,
            "{}",
            line.len()
        );
    }

    #[test]
    fn nothing_arrived_is_all_zeros_without_a_nan() {
        let status = Order::new().status(at(0), |_| None);
        let json = serde_json::to_string(&status).unwrap();
        assert!(!json.contains("null") && !json.contains("NaN"), "{json}");
        assert_eq!(status.arriving.since_start.reordering.ratio, 0.0);
    }
}

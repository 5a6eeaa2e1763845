//! The minutes of one path: the one that is going on, and those that are over in 64 bytes each.

use std::collections::VecDeque;
use std::time::Duration;

use super::{MINUTE, MINUTES, Minute};
use crate::control::PathState;

/// Counters since start, or what was added to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    pub(super) tx_bytes: u64,
    pub(super) rx_bytes: u64,
    /// Packets, as what their losses weigh.
    pub(super) tx_packets: u64,
    pub(super) rx_packets: u64,
    /// Packets that were given up, where that is counted.
    pub(super) given_up: u64,
    /// Of these, packets that came all the same.
    pub(super) late: u64,
    pub(super) recovered: u64,
    pub(super) rx_recovered: u64,
}

impl Counted {
    fn since(self, before: Counted) -> Counted {
        self.zip(before, |now, before| now.checked_sub(before).unwrap_or(now))
    }

    /// What fell into the first `part` of the `whole` time, and the rest.
    fn split(self, part: Duration, whole: Duration) -> (Counted, Counted) {
        let share = part.as_secs_f64() / whole.as_secs_f64().max(1e-9);
        let first = self.zip(self, |all, _| ((all as f64 * share) as u64).min(all));
        (first, self.zip(first, u64::saturating_sub))
    }

    fn plus(self, more: Counted) -> Counted {
        self.zip(more, u64::saturating_add)
    }

    fn zip(self, other: Counted, of: impl Fn(u64, u64) -> u64) -> Counted {
        Counted {
            tx_bytes: of(self.tx_bytes, other.tx_bytes),
            rx_bytes: of(self.rx_bytes, other.rx_bytes),
            tx_packets: of(self.tx_packets, other.tx_packets),
            rx_packets: of(self.rx_packets, other.rx_packets),
            given_up: of(self.given_up, other.given_up),
            late: of(self.late, other.late),
            recovered: of(self.recovered, other.recovered),
            rx_recovered: of(self.rx_recovered, other.rx_recovered),
        }
    }
}

/// How a path does at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) counted: Counted,
    pub(super) state: PathState,
    pub(super) rtt_us: Option<u64>,
    /// Share that is missing lately, where it is known by itself.
    pub(super) loss: Option<f64>,
    pub(super) rx_loss: Option<f64>,
}

/// What has passed since a path was looked at before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The minute that is going on, counted by the caller's calendar.
    pub(super) minute: u32,
    /// How much of it has passed.
    pub(super) into: Duration,
    /// Time since the look before, in which the host was awake.
    pub(super) awake: Duration,
    /// The look before was in the minute before this one, and not long ago.
    pub(super) joins: bool,
}

/// The minutes of one path.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// It is there now.
    pub(super) is_here: bool,
    before: Option<Counted>,
    current: Option<Current>,
    kept: VecDeque<Kept>,
}

/// Minutes for which room is made at once.
const ROOM: usize = 60;

impl Series {
    pub(super) fn new(name: &str) -> Series {
        Series {
            name: name.to_owned(),
            is_here: false,
            before: None,
            current: None,
            kept: VecDeque::new(),
        }
    }

    /// Adds what has happened since the look before; what was before the first one is not known.
    pub(super) fn note(&mut self, step: Step, seen: &Seen) {
        let before = self.before.replace(seen.counted);
        let mut added = seen.counted.since(before.unwrap_or(seen.counted));
        let rates = rates(added, step.awake);
        self.is_here = true;
        let mut span = step.awake.min(step.into);
        match &mut self.current {
            Some(current) if current.minute == step.minute => span = step.awake.min(MINUTE),
            Some(current) => {
                let rest = step.awake.saturating_sub(step.into);
                let (earlier, now) = added.split(rest, step.awake);
                added = now;
                if step.joins && step.minute.checked_sub(1) == Some(current.minute) {
                    current.add(rest, earlier, seen);
                    current.rate(rest * 2 > step.awake, rates);
                }
                self.finish();
            }
            None => {}
        }
        let current = self
            .current
            .get_or_insert_with(|| Current::new(step.minute));
        current.add(span, added, seen);
        current.rate(span * 2 >= step.awake, rates);
        current.look(seen);
    }

    /// It is not there any more.
    pub(super) fn leave(&mut self) {
        self.is_here = false;
        self.before = None;
        self.finish();
    }

    fn finish(&mut self) {
        let Some(current) = self.current.take().filter(|minute| !minute.span.is_zero()) else {
            return;
        };
        if self.kept.len() == self.kept.capacity() {
            self.kept.reserve_exact(ROOM);
        }
        // A path that goes and comes back has a minute in two parts.
        match self.kept.back_mut() {
            Some(last) if last.minute == current.minute => last.join(&current.kept()),
            _ => self.kept.push_back(current.kept()),
        }
    }

    /// Forgets what is older than a day.
    pub(super) fn forget(&mut self, minute: u32) {
        let first = minute.saturating_add(1).saturating_sub(MINUTES as u32);
        while self.kept.front().is_some_and(|kept| kept.minute < first) {
            self.kept.pop_front();
        }
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
    }

    /// Nothing is known of it.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.current.is_none()
    }

    /// The last minute of which something is known.
    pub(super) fn last_minute(&self) -> u32 {
        let kept = self.kept.back().map(|kept| kept.minute);
        let current = self.current.as_ref().map(|current| current.minute);
        current.or(kept).unwrap_or(0)
    }

    /// What is known; `at_us` says when a minute began.
    pub(super) fn minutes(&self, at_us: impl Fn(u32) -> u64) -> Vec<Minute> {
        let mut all: Vec<Kept> = self.kept.iter().copied().collect();
        let current = self.current.as_ref();
        if let Some(current) = current.filter(|minute| !minute.span.is_zero()) {
            let current = current.kept();
            match all.last_mut() {
                Some(last) if last.minute == current.minute => last.join(&current),
                _ => all.push(current),
            }
        }
        let told = all.iter().map(|kept| kept.told(at_us(kept.minute)));
        told.collect()
    }
}

/// Bits a second, out and in.
fn rates(added: Counted, span: Duration) -> (f32, f32) {
    let rate = |bytes: u64| match span.is_zero() {
        true => 0.0,
        false => (bytes as f64 * 8.0 / span.as_secs_f64()) as f32,
    };
    (rate(added.tx_bytes), rate(added.rx_bytes))
}

/// The minute that is going on.
#[derive(Debug)]
struct Current {
    minute: u32,
    span: Duration,
    up: Duration,
    state: PathState,
    counted: Counted,
    tx_max_bps: f32,
    rx_max_bps: f32,
    rtt: Option<(u64, u64)>,
    rtt_sum: u64,
    rtt_looks: u64,
    /// Shares by what they weigh, and the weights.
    loss: (f64, u64),
    rx_loss: (f64, u64),
}

impl Current {
    fn new(minute: u32) -> Current {
        Current {
            minute,
            span: Duration::ZERO,
            up: Duration::ZERO,
            state: PathState::default(),
            counted: Counted::default(),
            tx_max_bps: 0.0,
            rx_max_bps: 0.0,
            rtt: None,
            rtt_sum: 0,
            rtt_looks: 0,
            loss: (0.0, 0),
            rx_loss: (0.0, 0),
        }
    }

    fn add(&mut self, span: Duration, added: Counted, seen: &Seen) {
        self.span += span;
        if seen.state == PathState::Up {
            self.up += span;
        }
        self.counted = self.counted.plus(added);
        let weigh = |sum: &mut (f64, u64), share: Option<f64>, packets: u64| {
            if let Some(share) = share.filter(|share| share.is_finite()) {
                sum.0 += share.clamp(0.0, 1.0) * packets as f64;
                sum.1 += packets;
            }
        };
        weigh(&mut self.loss, seen.loss, added.tx_packets);
        weigh(&mut self.rx_loss, seen.rx_loss, added.rx_packets);
    }

    /// Rates of a step, most of which fell into this minute if they count.
    fn rate(&mut self, counts: bool, (tx_bps, rx_bps): (f32, f32)) {
        if counts {
            self.tx_max_bps = self.tx_max_bps.max(tx_bps);
            self.rx_max_bps = self.rx_max_bps.max(rx_bps);
        }
    }

    /// What is so at this moment.
    fn look(&mut self, seen: &Seen) {
        self.state = seen.state;
        if let Some(us) = seen.rtt_us.filter(|_| seen.state == PathState::Up) {
            let (least, most) = self.rtt.unwrap_or((us, us));
            self.rtt = Some((least.min(us), most.max(us)));
            self.rtt_sum = self.rtt_sum.saturating_add(us);
            self.rtt_looks += 1;
        }
    }

    fn kept(&self) -> Kept {
        let ms = |span: Duration| u16::try_from(span.as_millis()).unwrap_or(u16::MAX);
        let us = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        let share = |(sum, weight): (f64, u64)| match weight {
            0 => f32::NAN,
            weight => (sum / weight as f64) as f32,
        };
        let few = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let counted = &self.counted;
        // What was given up for good, of that and what came.
        let lost = counted.given_up.saturating_sub(counted.late);
        let given_up = match (lost, counted.rx_packets) {
            (0, _) => self.rx_loss,
            (lost, came) => (lost as f64, lost.saturating_add(came)),
        };
        Kept {
            minute: self.minute,
            span_ms: ms(self.span.min(MINUTE)),
            up_ms: ms(self.up.min(MINUTE)),
            state: self.state,
            tx_bytes: counted.tx_bytes,
            rx_bytes: counted.rx_bytes,
            tx_max_bps: self.tx_max_bps,
            rx_max_bps: self.rx_max_bps,
            rtt_us: self.rtt.map_or([0; 3], |(least, most)| {
                let mean = self.rtt_sum / self.rtt_looks.max(1);
                [us(least), us(mean.clamp(least, most)), us(most)]
            }),
            loss: share(self.loss),
            rx_loss: share(given_up),
            recovered: few(counted.recovered),
            rx_recovered: few(counted.rx_recovered),
        }
    }
}

/// A minute that is over.
#[derive(Debug, Clone, Copy)]
struct Kept {
    minute: u32,
    span_ms: u16,
    up_ms: u16,
    tx_bytes: u64,
    rx_bytes: u64,
    tx_max_bps: f32,
    rx_max_bps: f32,
    /// Least, mean and highest; zeros where none was measured.
    rtt_us: [u32; 3],
    /// Not a number where nothing was sent.
    loss: f32,
    rx_loss: f32,
    recovered: u32,
    rx_recovered: u32,
    state: PathState,
}

// What docs/watching.md says of memory.
const _: () = assert!(size_of::<Kept>() == 64);

impl Kept {
    /// The second part of the same minute.
    fn join(&mut self, more: &Kept) {
        let ms = |a: u16, b: u16| a.saturating_add(b).min(MINUTE.as_millis() as u16);
        let mean = |(a, of_a): (f32, u64), (b, of_b): (f32, u64)| match (a.is_nan(), b.is_nan()) {
            (true, _) => b,
            (_, true) => a,
            (false, false) => {
                let (of_a, of_b) = (of_a.max(1) as f64, of_b.max(1) as f64);
                ((f64::from(a) * of_a + f64::from(b) * of_b) / (of_a + of_b)) as f32
            }
        };
        self.loss = mean((self.loss, self.tx_bytes), (more.loss, more.tx_bytes));
        self.rx_loss = mean((self.rx_loss, self.rx_bytes), (more.rx_loss, more.rx_bytes));
        self.rtt_us = match (self.rtt_us, more.rtt_us) {
            ([0, _, 0], rtt) | (rtt, [0, _, 0]) => rtt,
            ([least, a, most], [less, b, more_us]) => {
                // Looked at once a second while the path was up.
                let looks = [self.up_ms, more.up_ms].map(|ms| u64::from(ms.max(1)));
                let sum = u64::from(a) * looks[0] + u64::from(b) * looks[1];
                let mean = u32::try_from(sum / (looks[0] + looks[1])).unwrap_or(u32::MAX);
                [least.min(less), mean, most.max(more_us)]
            }
        };
        self.span_ms = ms(self.span_ms, more.span_ms);
        self.up_ms = ms(self.up_ms, more.up_ms);
        self.state = more.state;
        self.tx_bytes = self.tx_bytes.saturating_add(more.tx_bytes);
        self.rx_bytes = self.rx_bytes.saturating_add(more.rx_bytes);
        self.tx_max_bps = self.tx_max_bps.max(more.tx_max_bps);
        self.rx_max_bps = self.rx_max_bps.max(more.rx_max_bps);
        self.recovered = self.recovered.saturating_add(more.recovered);
        self.rx_recovered = self.rx_recovered.saturating_add(more.rx_recovered);
    }

    fn told(&self, at_us: u64) -> Minute {
        let mean = |bytes: u64| match self.span_ms {
            0 => 0,
            span => (bytes as f64 * 8000.0 / f64::from(span)) as u64,
        };
        let [least, mean_rtt, most] = self
            .rtt_us
            .map(|us| (self.rtt_us[2] > 0).then_some(u64::from(us)));
        // Six digits say all that there is to say.
        let share = |share: f32| {
            let rounded = (f64::from(share) * 1e6).round() / 1e6;
            (!share.is_nan()).then_some(rounded)
        };
        Minute {
            at_us,
            span_ms: u64::from(self.span_ms),
            up_ms: u64::from(self.up_ms),
            state: self.state,
            tx_bytes: self.tx_bytes,
            rx_bytes: self.rx_bytes,
            tx_bps: mean(self.tx_bytes),
            tx_max_bps: mean(self.tx_bytes).max(self.tx_max_bps as u64),
            rx_bps: mean(self.rx_bytes),
            rx_max_bps: mean(self.rx_bytes).max(self.rx_max_bps as u64),
            rtt_min_us: least,
            rtt_us: mean_rtt,
            rtt_max_us: most,
            loss: share(self.loss),
            rx_loss: share(self.rx_loss),
            recovered: u64::from(self.recovered),
            rx_recovered: u64::from(self.rx_recovered),
        }
    }
}

//! What is made of a path whose link is a model in virtual time.

mod losses;
mod probes;
mod trickle;

use super::*;
use crate::control::trace::{Decision, Trace, Why};

const MS: u64 = 1_000_000;

/// A link in virtual time: a rate, a delay, a buffer in bytes, and a loss that repeats.
struct Model {
    rate: f64,
    /// The length of each packet, in bytes.
    packet: u64,
    delay_ns: u64,
    buffer: f64,
    lose_every: u64,
    /// Others keep so much of a queue, in nanoseconds.
    others: f64,
    now: u64,
    free_at: f64,
    sent: (u64, u64),
    arrived: (u64, u64),
    under_way: std::collections::VecDeque<(u64, Sample)>,
    queue_max: f64,
}

const PACKET: u64 = 1500;

impl Model {
    fn new(mbps: f64) -> Model {
        Model {
            rate: mbps * 125_000.0,
            packet: PACKET,
            delay_ns: 20 * MS,
            buffer: 1e9,
            lose_every: 0,
            others: 0.0,
            now: 1000 * MS,
            free_at: 0.0,
            sent: (0, 0),
            arrived: (0, 0),
            under_way: Default::default(),
            queue_max: 0.0,
        }
    }

    /// Sends `offered` bytes a second, or what the pace allows, for `ms`; reports come every 5 ms
    /// and 20 ms late.
    fn run(&mut self, pace: &mut Pace, ms: u64, offered: f64) {
        let mut allowance = 0.0;
        self.queue_max = 0.0;
        let mut reports = std::collections::VecDeque::new();
        for step in 0..ms * 10 {
            self.now += MS / 10;
            self.free_at = self.free_at.max(self.now as f64 + self.others);
            let now = Time::from_nanos(self.now);
            let most = (offered / 100.0).max(self.packet as f64);
            allowance = (allowance + offered / 10_000.0).min(most);
            while allowance >= self.packet as f64 && pace.room(now).is_some() {
                allowance -= self.packet as f64;
                pace.took(now, self.packet as usize);
                self.send();
            }
            let mut newest = None;
            while self
                .under_way
                .front()
                .is_some_and(|&(at, _)| at <= self.now)
            {
                newest = self.under_way.pop_front().map(|(_, sample)| sample);
            }
            if let Some(sample) = newest {
                reports.push_back((self.now + 20 * MS, sample));
            }
            if step % 50 == 0 {
                let mut last = None;
                while reports.front().is_some_and(|&(at, _)| at <= self.now) {
                    last = reports.pop_front().map(|(_, sample)| sample);
                }
                if let Some(sample) = last {
                    pace.sample(now, sample);
                }
            }
        }
    }

    fn send(&mut self) {
        self.sent.0 += 1;
        self.sent.1 += self.packet;
        let queued = (self.free_at - self.now as f64).max(0.0) * self.rate / 1e9;
        self.queue_max = self.queue_max.max(queued / self.rate * 1e9);
        let lost = self.lose_every > 0 && self.sent.0.is_multiple_of(self.lose_every);
        if queued > self.buffer || lost {
            return;
        }
        self.arrived.0 += 1;
        self.arrived.1 += self.packet;
        self.free_at = self.free_at.max(self.now as f64) + self.packet as f64 / self.rate * 1e9;
        let arrives = self.free_at as u64 + self.delay_ns;
        let sample = Sample {
            // The other clock is an hour ahead.
            arrived: Time::from_nanos(arrives + 3_600_000 * MS),
            one_way: (arrives + 3_600_000 * MS) as i64 - self.now as i64,
            arrived_packets: self.arrived.0,
            arrived_bytes: self.arrived.1,
            sent: Time::from_nanos(self.now),
            sent_packets: self.sent.0,
            sent_bytes: self.sent.1,
        };
        self.under_way.push_back((arrives, sample));
    }
}

fn answered(model: &Model) -> Answered {
    let one_way = (model.delay_ns + 3_600_000 * MS) as i64;
    Answered {
        rtt: Duration::from_millis(40),
        forward_ns: one_way,
        idle_ns: Some(one_way),
        ..Answered::default()
    }
}

fn probed(model: &Model) -> Pace {
    let mut pace = Pace::default();
    pace.probed(Time::from_nanos(model.now), &answered(model));
    pace
}

fn mbps(pace: &Pace) -> Option<f64> {
    pace.rate.map(|rate| rate.bytes_a_second() / 125_000.0)
}

#[test]
fn a_path_that_is_not_filled_stays_open() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    model.run(&mut pace, 5000, 5e6);
    assert_eq!(mbps(&pace), None);
}

#[test]
fn a_path_that_is_filled_is_paced_at_its_rate_with_a_short_queue() {
    for rate in [5.0, 50.0, 500.0] {
        let mut model = Model::new(rate);
        let mut pace = probed(&model);
        model.run(&mut pace, 3000, rate * 125_000.0 * 1.5);
        model.run(&mut pace, 3000, rate * 125_000.0 * 1.5);
        let found = mbps(&pace).unwrap();
        assert!(
            (0.93 * rate..1.1 * rate).contains(&found),
            "{found} of {rate}"
        );
        assert!(model.queue_max < 30e6, "{} ns", model.queue_max);
    }
}

#[test]
fn it_follows_a_path_that_gets_slower_and_faster() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    model.run(&mut pace, 3000, 12.5e6);
    model.rate /= 5.0;
    model.run(&mut pace, 2000, 12.5e6);
    let found = mbps(&pace).unwrap();
    assert!((8.0..12.5).contains(&found), "{found}");
    model.rate *= 5.0;
    model.run(&mut pace, 3000, 12.5e6);
    let found = mbps(&pace).unwrap();
    assert!((45.0..60.0).contains(&found), "{found}");
}

#[test]
fn loss_at_any_rate_does_not_slow_it_down() {
    for lose_every in [100, 33, 20] {
        let mut model = Model::new(50.0);
        model.lose_every = lose_every;
        let mut pace = probed(&model);
        model.run(&mut pace, 6000, 12.5e6);
        let found = mbps(&pace).unwrap();
        assert!(found > 42.0, "{found} with one of {lose_every} lost");
    }
}

#[test]
fn a_buffer_too_short_to_show_delay_limits_it_by_its_loss() {
    let mut model = Model::new(50.0);
    model.buffer = 10.0 * PACKET as f64;
    let mut pace = probed(&model);
    model.run(&mut pace, 4000, 12.5e6);
    let before = (model.sent.0, model.arrived.0);
    model.run(&mut pace, 4000, 12.5e6);
    let lost = 1.0 - (model.arrived.0 - before.1) as f64 / (model.sent.0 - before.0) as f64;
    let found = mbps(&pace).unwrap();
    assert!(found > 40.0 && lost < 0.04, "{found}, {lost}");
}

#[test]
fn times_that_go_back_earn_nothing() {
    let begin = Time::from_nanos(1_000 * MS);
    let mut pace = Pace {
        capacity: Rate::new(1e6),
        ..Pace::default()
    };
    pace.limit(begin, Phase::Cruise { until: begin }, 1.0, Why::Trains);
    let mut taken = 0;
    for us in 0..100_000u64 {
        for us in [us, us.saturating_sub(300)] {
            let now = begin + Duration::from_micros(us);
            if let Some(room) = pace.room(now) {
                pace.took(now, room.min(1500));
                pace.credit.answer_all();
                taken += room.min(1500);
            }
        }
    }
    assert!(taken <= 100_000 + 5000, "{taken} bytes in 100 ms at 1 MB/s");
}

#[test]
fn a_drift_of_200_ppm_does_not_mislead_it() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    for _ in 0..60 {
        // 200 µs a second; the delay stands for the other clock.
        model.delay_ns += MS / 5;
        model.run(&mut pace, 1000, 12.5e6);
    }
    let found = mbps(&pace).unwrap();
    assert!((44.0..56.0).contains(&found), "{found}");
}

#[test]
fn absurd_samples_leave_it_within_its_clamps() {
    let absurd = [0, 1, u64::MAX / 2, u64::MAX];
    let mut pace = Pace::default();
    for (index, (&arrived, &counts)) in absurd
        .iter()
        .zip(absurd.iter().rev())
        .cycle()
        .take(200)
        .enumerate()
    {
        let sample = Sample {
            arrived: Time::from_nanos(arrived.wrapping_add(index as u64)),
            one_way: (arrived ^ counts) as i64,
            arrived_packets: counts,
            arrived_bytes: counts,
            sent: Time::from_nanos(index as u64),
            sent_packets: index as u64,
            sent_bytes: index as u64 * PACKET,
        };
        pace.sample(Time::from_nanos(index as u64 * MS), sample);
        let rate = pace.rate().unwrap_or(Law::LAW.slowest);
        assert!(
            (Law::LAW.slowest * Law::LAW.drain_rate..=Law::LAW.fastest).contains(&rate),
            "{rate:?}"
        );
        assert!(
            pace.delay(Time::ZERO)
                .is_none_or(|delay| delay.as_nanos().is_finite())
        );
    }
}

#[test]
fn a_path_whose_queue_others_fill_is_opened_before_it_has_yielded_all() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    model.run(&mut pace, 2000, 12.5e6);
    model.others = 150e6;
    let mut least = f64::MAX;
    for _ in 0..15 {
        // As a loss-based flow's does, it grows all the time.
        model.others += 10e6;
        model.run(&mut pace, 100, 12.5e6);
        least = least.min(mbps(&pace).unwrap_or(f64::MAX));
        let now = Time::from_nanos(model.now);
        if pace.is_contended(now) {
            assert!(least > 2.0, "{least} Mbit/s of 50");
            return;
        }
    }
    panic!("{:?} Mbit/s, and not contended after 1.5 s", mbps(&pace));
}

#[test]
fn a_path_that_carries_little_beside_others_yields() {
    let is_ever_contended = |share: f64| {
        let mut model = Model::new(50.0);
        let mut pace = probed(&model);
        model.run(&mut pace, 2000, 12.5e6);
        model.others = 150e6;
        pace.weigh_disorder(true, share, None);
        (0..40).any(|_| {
            model.others += 10e6;
            model.run(&mut pace, 100, 12.5e6);
            pace.is_contended(Time::from_nanos(model.now))
        })
    };
    assert!(is_ever_contended(0.5) && is_ever_contended(1.0));
    assert!(!is_ever_contended(0.49));
}

#[test]
fn a_short_queue_that_does_not_shrink_is_allowed_for() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    model.run(&mut pace, 2000, 12.5e6);
    // As jitter does, that keeps all packets behind the latest.
    model.others = 15e6;
    model.run(&mut pace, 4000, 12.5e6);
    let now = Time::from_nanos(model.now);
    assert!(!pace.is_contended(now));
    let found = mbps(&pace).unwrap();
    assert!(found > 35.0, "{found}");
}

/// A path whose probes agreed by chance, whose packets come 18 ms later under load, and that was limited when little
/// was sent.
fn held_by_jitter() -> (Model, Pace) {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    pace.probed(
        Time::from_nanos(model.now),
        &Answered {
            jitter_ns: 3 * MS / 2,
            ..answered(&model)
        },
    );
    model.others = 18e6;
    model.run(&mut pace, 1000, 0.5e6);
    (model, pace)
}

#[test]
fn what_jitter_makes_seem_a_queue_is_found_out_by_trying_more() {
    let (mut model, mut pace) = held_by_jitter();
    let limited = mbps(&pace).unwrap();
    assert!(limited < 10.0, "{limited}");
    assert_eq!(pace.step, pace.law.last_step);
    model.run(&mut pace, 3000, 12.5e6);
    let found = mbps(&pace).unwrap();
    assert!(found > 40.0, "{found}");
    // From then on it is allowed for, and the queue of the path itself stays as short as elsewhere.
    assert!(pace.doubt.target() > Span::nanos(18e6), "{:?}", pace.doubt);
    model.run(&mut pace, 5000, 12.5e6);
    assert!(model.queue_max < 60e6, "{}", model.queue_max);
}

#[test]
fn more_is_not_tried_in_spite_of_a_queue_that_is_too_long_for_jitter() {
    let (model, mut pace) = held_by_jitter();
    let now = Time::from_nanos(model.now);
    pace.phase = Phase::Cruise { until: Time::ZERO };
    // The lateness is 4.5 times the jitter of 1.5 ms; what is 20 ms longer is a queue.
    for (queue_ms, tries) in [(20.0, true), (26.0, true), (27.0, false), (80.0, false)] {
        pace.queue = Span::nanos(queue_ms * 1e6);
        assert_eq!(pace.tries_in_spite(now, true), tries, "{queue_ms} ms");
        assert!(!pace.tries_in_spite(now, false), "nothing more was offered");
    }
}

#[test]
fn bursts_with_pauses_do_not_make_a_path_seem_slow() {
    for pause_ms in [30, 55] {
        // So slow that no train shows between two reports.
        let mut model = Model::new(10.0);
        let mut pace = probed(&model);
        model.run(&mut pace, 2000, 2.5e6);
        model.others = 12e6;
        for _ in 0..40 {
            // 28 kB, of which a link of 10 Mbit/s makes 22 ms: less than an epoch, which spans the pause.
            model.run(&mut pace, 5, 5.6e6);
            model.run(&mut pace, pause_ms, 0.0);
        }
        let found = mbps(&pace);
        assert!(found.is_none_or(|mbps| mbps > 7.0), "{found:?}");
    }
}

/// What an epoch tells of 250 packets over a link of 10 Mbit/s, which takes 1.2 ms for each: so many at
/// once, then a pause, one each 2 ms in the mean.
fn found_of_bursts(of_packets: u64) -> Findings {
    let mut model = Model::new(10.0);
    for sent in 0..250 {
        model.now += if sent % of_packets == 0 {
            2 * MS * of_packets
        } else {
            0
        };
        model.send();
    }
    let mut samples = model.under_way.iter().map(|&(_, sample)| sample);
    let first = samples.next().unwrap();
    let mut epoch = Epoch::new(&Law::LAW, first);
    for sample in samples {
        epoch.add(sample, Span::nanos(first.one_way as f64));
    }
    epoch.findings()
}

#[test]
fn what_arrives_while_a_queue_stands_is_the_capacity_of_a_path_with_pauses() {
    let bursts = found_of_bursts(10);
    assert!(!bursts.is_dispersed);
    assert!(bursts.delivered < Rate::new(0.8e6), "{bursts:?}");
    let learnt = |found: &Findings, jitter: f64| {
        let mut pace = Pace::default();
        pace.doubt.probed(Span::nanos(jitter), false);
        for _ in 0..20 {
            pace.learn_capacity(found, false);
        }
        pace.capacity
    };
    let capacity = learnt(&bursts, 0.0);
    assert!(
        (capacity / Rate::new(1.25e6) - 1.0).abs() < 0.01,
        "{capacity:?}"
    );
    // Of the same packets one by one none waits: they tell no more than what arrived.
    let single = found_of_bursts(1);
    assert_eq!(single.delivered_busy, None);
    assert!((learnt(&single, 0.0) / single.delivered - 1.0).abs() < 1e-3);
    // Packets that jitter brings together did not wait for each other.
    assert!((learnt(&bursts, 5e6) / bursts.delivered - 1.0).abs() < 1e-3);
}

#[test]
fn what_arrives_of_a_rate_lowered_in_vain_is_what_was_let_go() {
    let capacity = Rate::new(1e6);
    let learnt = |in_vain: bool, arrives: f64| {
        let mut pace = Pace {
            capacity,
            queue: Span::nanos(100e6),
            ..Pace::default()
        };
        let now = Time::from_nanos(1000 * MS);
        let found = Findings {
            offered: capacity * 0.8,
            delivered: capacity * 0.8 * arrives,
            trend: if in_vain { 0.0 } else { -1.0 },
            sent: now,
            ..found_of_bursts(1)
        };
        pace.company.lowered(now, 0.5, capacity);
        pace.company.is_vain(&found, pace.queue);
        pace.learn_capacity(&found, true);
        pace.capacity / capacity
    };
    assert_eq!(learnt(true, 0.8), 1.0);
    assert!(learnt(false, 0.8) < 0.83);
    assert!(learnt(true, 0.7) < 0.79);
}

/// What was decided since this number of decisions, and how many there are now.
fn decided(pace: &Pace, from: u64) -> (Vec<Decision>, u64) {
    let mut trace = Trace::default();
    pace.trace(from, &mut trace);
    let next = trace.first + trace.decisions.len() as u64;
    (trace.decisions, next)
}

#[test]
fn a_rate_that_falls_says_which_signal_it_was() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    let (decisions, _) = decided(&pace, 0);
    assert_eq!((decisions.len(), decisions[0].why), (1, Why::New));
    model.run(&mut pace, 3000, 12.5e6);
    let (_, before) = decided(&pace, 0);
    model.rate /= 5.0;
    model.run(&mut pace, 2000, 12.5e6);
    let (since, _) = decided(&pace, before);
    let fell = since.iter().find(|one| one.rate_bps < Some(40_000_000));
    assert_eq!(fell.map(|one| one.why), Some(Why::Queue), "{since:?}");

    let mut model = Model::new(50.0);
    model.buffer = 10.0 * PACKET as f64;
    let mut pace = probed(&model);
    model.run(&mut pace, 4000, 12.5e6);
    let (decisions, _) = decided(&pace, 0);
    assert!(
        decisions.iter().any(|one| one.why == Why::Loss),
        "{decisions:?}"
    );
    // It stays told when the path is another one.
    pace.forget();
    assert_eq!(decided(&pace, 0).0, decisions);
    assert_eq!(pace.rate(), None);
}

#[test]
fn a_limited_path_is_let_run_dry_unless_it_rested() {
    for (rests_ms, drains) in [(100, true), (700, false)] {
        let mut model = Model::new(50.0);
        let mut pace = probed(&model);
        model.run(&mut pace, 2000, 12.5e6);
        assert_ne!(pace.rate(), None);
        let (_, before) = decided(&pace, 0);
        // More than `base_span` in all, and no rest but these.
        for _ in 0..3 {
            model.run(&mut pace, rests_ms, 0.0);
            model.run(&mut pace, 3600, 12.5e6);
        }
        let (since, _) = decided(&pace, before);
        let drained = since.iter().any(|one| one.why == Why::DrainDue);
        assert_eq!(drained, drains, "{rests_ms} ms: {since:?}");
    }
}

#[test]
fn a_delay_that_rises_by_itself_counts_where_the_path_carries_little() {
    let swings_with = |offered: f64, delays_ms: &[u64], shares: f64| {
        let mut model = Model::new(50.0);
        let mut pace = probed(&model);
        for delay_ms in delays_ms {
            model.delay_ns = delay_ms * MS;
            model.run(&mut pace, 2000, offered);
        }
        pace.weigh_disorder(false, shares, None);
        pace.swings().as_micros() / 1000
    };
    let swings = |delays_ms: &[u64], shares| swings_with(12.5e6, delays_ms, shares);
    // It had a queue of some milliseconds besides.
    let rose = swings(&[20, 140, 20], 0.0);
    assert!((110..=130).contains(&rose), "{rose}");
    let a_little = swings(&[20, 140, 20], 0.75);
    assert!(
        (rose / 4 - 1..=rose / 4 + 1).contains(&a_little),
        "{a_little}"
    );
    assert_eq!(swings(&[20, 140, 20], 1.0), 0);
    assert_eq!(swings(&[20, 20, 20], 0.0), 0);
    // Acknowledgements do not fill it, and what is under way of them makes no such queue.
    let rose = swings_with(0.2e6, &[20, 400, 20], 0.0);
    assert!((370..=390).contains(&rose), "{rose}");
}

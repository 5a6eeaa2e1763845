//! What probes and lone packets tell of a path's queue and delay.

use super::*;

#[test]
fn a_probe_tells_of_the_queue_of_others_until_it_is_old() {
    let model = Model::new(50.0);
    let mut pace = probed(&model);
    let begin = Time::from_nanos(model.now);
    let one_way = (model.delay_ns + 3_600_000 * MS) as i64;
    let answered = Answered {
        rtt: Duration::from_millis(240),
        forward_ns: one_way + 200 * MS as i64,
        ..Answered::default()
    };
    pace.probed(begin, &answered);
    assert_eq!(pace.queue(begin), Duration::from_millis(200));
    let sample = Sample {
        arrived: Time::from_nanos(one_way as u64 + model.now + 150 * MS),
        one_way: one_way + 150 * MS as i64,
        arrived_packets: 1,
        arrived_bytes: PACKET,
        sent: begin,
        sent_packets: 1,
        sent_bytes: PACKET,
    };
    // Later reports tell of the same packet.
    for ms in 0..2000 {
        pace.sample(begin + Duration::from_millis(ms), sample);
        if ms == 0 {
            assert_eq!(pace.queue(begin), Duration::from_millis(150));
        }
    }
    assert_eq!(pace.queue(begin + Duration::from_secs(2)), Duration::ZERO);
}

#[test]
fn an_idle_path_has_the_delay_that_another_clock_tells() {
    let model = Model::new(50.0);
    let mut pace = probed(&model);
    let begin = Time::from_nanos(model.now);
    let mut later = answered(&model);
    later.forward_ns += 3_600_000 * MS as i64;
    later.idle_ns = Some(later.forward_ns);
    pace.probed(begin + Duration::from_secs(1), &later);
    assert_eq!(
        pace.least_delay(),
        Some(Span::nanos(later.forward_ns as f64))
    );
}

/// A path of 50 Mbit/s that was full for two seconds and idle for half a one, by now.
fn idle_after_being_full() -> (Model, Pace, Time) {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    model.run(&mut pace, 2000, 12.5e6);
    model.run(&mut pace, 500, 0.0);
    let now = Time::from_nanos(model.now);
    (model, pace, now)
}

/// A probe takes so much longer than it should. Returns the queue that is believed in then, in ms.
fn glimpse(model: &Model, pace: &mut Pace, now: Time, later_ms: u64) -> u64 {
    let mut answered = answered(model);
    answered.forward_ns += (later_ms * MS) as i64;
    answered.idle_ns = None;
    pace.probed(now, &answered);
    pace.queue(now).as_millis() as u64
}

#[test]
fn a_gap_is_no_queue_once_a_probe_passes_but_what_is_under_way_may_be_one() {
    let (model, mut pace, now) = idle_after_being_full();
    let probe = |pace: &mut Pace, later_ms| glimpse(&model, pace, now, later_ms);
    assert_eq!(probe(&mut pace, 400), 400);
    assert_eq!(probe(&mut pace, 0), 0);
    assert_eq!(probe(&mut pace, 400), 400);
    // 50 packets take 12 ms at 50 Mbit/s.
    pace.took(now, 50 * PACKET as usize);
    let own = probe(&mut pace, 0);
    assert!((11..=13).contains(&own), "{own}");
}

#[test]
fn what_was_under_way_is_worked_off_and_what_others_fill_stays() {
    let (model, mut pace, now) = idle_after_being_full();
    // 200 packets take 46 ms at 50 Mbit/s.
    pace.took(now, 200 * PACKET as usize);
    assert_eq!(glimpse(&model, &mut pace, now, 100), 100);
    let after = |s| pace.queue(now + Duration::from_secs(s)).as_millis();
    assert_eq!(after(1), after(60));
    assert!((50..=58).contains(&after(1)), "{}", after(1));
}

#[test]
fn a_queue_that_is_gone_but_for_what_is_under_way_is_believed_in_as_long_as_any() {
    let (model, mut pace, now) = idle_after_being_full();
    pace.took(now, 50 * PACKET as usize);
    glimpse(&model, &mut pace, now, 100);
    let later = now + Duration::from_millis(400);
    let own = glimpse(&model, &mut pace, later, 0);
    assert!((11..=13).contains(&own), "{own}");
    let after = |ms| pace.queue(later + Duration::from_millis(ms)).as_millis() as u64;
    assert_eq!((after(499), after(600)), (own, 0));
}

#[test]
fn a_path_that_leads_another_way_has_the_delay_of_two_probes_in_a_row() {
    let ms = |ms: u64| Span::nanos((ms * MS) as f64);
    let probed = |way_ms: u64, jitter_ms: u64| Answered {
        rtt: Duration::from_millis(2 * way_ms),
        forward_ns: (way_ms * MS) as i64,
        idle_ns: Some(200 * MS as i64),
        jitter_ns: jitter_ms * MS,
        ..Answered::default()
    };
    let mut pace = Pace::default();
    let mut now = 0;
    let mut probe = |pace: &mut Pace, way_ms, jitter_ms| {
        now += 200 * MS;
        pace.probed(Time::from_nanos(now), &probed(way_ms, jitter_ms));
        pace.least_delay()
    };
    for _ in 0..20 {
        assert_eq!(probe(&mut pace, 200, 0), Some(ms(200)));
    }
    // One alone may be chance, and so may two that are a little earlier, or where it jitters.
    assert_eq!(probe(&mut pace, 10, 0), Some(ms(200)));
    assert_eq!(probe(&mut pace, 200, 0), Some(ms(200)));
    for way in [185, 185, 185] {
        assert_eq!(probe(&mut pace, way, 0), Some(ms(200)));
    }
    for _ in 0..3 {
        assert_eq!(probe(&mut pace, 130, 20), Some(ms(200)));
    }
    assert_eq!(probe(&mut pace, 10, 0), Some(ms(200)));
    assert_eq!(probe(&mut pace, 12, 0), Some(ms(12)));
}

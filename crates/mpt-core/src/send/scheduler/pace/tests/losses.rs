//! Whether the rate is at fault for what is lost.

use super::*;

/// A path that has been full for five seconds, and how many decisions there were.
fn full(mbps: f64, buffer: f64) -> (Model, Pace, u64) {
    let mut model = Model::new(mbps);
    model.buffer = buffer;
    let mut pace = probed(&model);
    model.run(&mut pace, 5000, 10e6);
    let (_, decisions) = decided(&pace, 0);
    (model, pace, decisions)
}

/// What it was believed to carry each time that the rate was found at fault since then, in Mbit/s.
fn at_fault(pace: &Pace, from: u64) -> Vec<f64> {
    let (decisions, _) = decided(pace, from);
    let at_fault = decisions.iter().filter(|one| one.why == Why::Loss);
    at_fault.map(|one| one.capacity_bps as f64 / 1e6).collect()
}

#[test]
fn loss_that_passes_costs_a_path_no_capacity() {
    let (mut model, mut pace, from) = full(25.0, 1e9);
    // For long enough to be looked at once, and not again.
    model.lose_every = 8;
    model.run(&mut pace, 120, 10e6);
    model.lose_every = 0;
    model.run(&mut pace, 1000, 10e6);
    // Less was sent, to see whether that helps, and what it carries was as before.
    let believed = at_fault(&pace, from);
    assert_eq!(believed.len(), 1, "{believed:?}");
    assert!(believed[0] > 24.0, "{believed:?}");
    let rate = mbps(&pace).unwrap();
    assert!(rate > 24.0, "{rate}");
}

#[test]
fn a_path_that_carries_half_and_tells_by_loss_alone_is_found_out_at_the_second_look() {
    // A buffer of two packets: no queue tells.
    let (mut model, mut pace, from) = full(40.0, 3000.0);
    model.rate /= 2.0;
    model.run(&mut pace, 1500, 10e6);
    let believed = at_fault(&pace, from);
    assert!(believed[0] > 35.0, "{believed:?}");
    assert!(believed[1] < 21.0, "{believed:?}");
    let (sent, arrived) = (model.sent.0, model.arrived.0);
    model.run(&mut pace, 2000, 10e6);
    let lost = 1.0 - (model.arrived.0 - arrived) as f64 / (model.sent.0 - sent) as f64;
    let rate = mbps(&pace).unwrap();
    assert!(
        lost < 0.04 && (18.0..22.5).contains(&rate),
        "{lost} at {rate}"
    );
}

/// A path that was believed to carry 98 Mbit/s, delivered 68 of late, and is held for its losses: twice, 80 packets are sent within
/// 10 ms, and so many of them are lost.
fn held_and_loses(is_again: bool, lost: u64) -> Pace {
    let at = |us: u64| Time::from_nanos(us * 1000);
    let mut sample = Sample {
        arrived: at(1_020_000),
        one_way: 20 * MS as i64,
        arrived_packets: 1000,
        arrived_bytes: 1000 * PACKET,
        sent: at(1_000_000),
        sent_packets: 1000,
        sent_bytes: 1000 * PACKET,
    };
    let mut pace = Pace {
        rate: Some(Rate::new(11e6)),
        capacity: Rate::new(12.25e6),
        delivered: Rate::new(8.5e6),
        phase: Phase::Hold {
            until: at(1_200_000),
            is_again,
        },
        ..Pace::default()
    };
    pace.loss.count(&sample, Time::ZERO);
    for _ in 0..2 {
        sample.sent = sample.sent + Duration::from_millis(10);
        sample.arrived = sample.arrived + Duration::from_millis(10);
        sample.sent_packets += 80;
        sample.sent_bytes += 80 * PACKET;
        sample.arrived_packets += 80 - lost;
        sample.arrived_bytes += (80 - lost) * PACKET;
        pace.loss.count(&sample, Time::ZERO);
        pace.judge_loss(sample.arrived);
    }
    pace
}

#[test]
fn a_path_that_loses_more_than_half_when_less_is_sent_carries_what_arrives() {
    for is_again in [false, true] {
        // 16 packets in 10 ms are 19.2 Mbit/s.
        let pace = held_and_loses(is_again, 64);
        assert!((pace.capacity / Rate::new(2.4e6) - 1.0).abs() < 0.01);
        assert_eq!(pace.loss.usual, 0.0);
        // As much may be lost at the next look, of what a policer let pass now.
        assert!(matches!(
            pace.phase,
            Phase::Hold {
                is_again: false,
                ..
            }
        ));
    }
    // What is less may be usual, if the rate was lowered before.
    let pace = held_and_loses(false, 39);
    assert!(pace.capacity == Rate::new(8.5e6) && pace.loss.usual == 0.0);
    let pace = held_and_loses(true, 39);
    assert!(pace.capacity == Rate::new(12.25e6) && pace.loss.usual > 0.2);
}

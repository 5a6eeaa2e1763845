//! So little that it tells nothing of what the path carries.

use super::*;

/// A packet each 20 ms.
fn trickle(model: &mut Model, pace: &mut Pace, ms: u64) {
    model.run(pace, ms, 50.0 * PACKET as f64);
}

/// The same for half a minute, while others have a queue now and then, whose length changes ten times a second.
fn trickle_while_the_delay_moves(model: &mut Model, pace: &mut Pace) {
    for step in 0..300u32 {
        let length = f64::from(step * 7 % 11) * 8e6;
        model.others = if step % 20 < 10 { length } else { 0.0 };
        trickle(model, pace, 100);
    }
    model.others = 0.0;
}

#[test]
fn a_trickle_over_a_path_whose_delay_moves_is_no_reason_for_a_limit() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    trickle_while_the_delay_moves(&mut model, &mut pace);
    assert_eq!(mbps(&pace), None);
    model.run(&mut pace, 3000, 12.5e6);
    let found = mbps(&pace).unwrap();
    assert!((45.0..55.0).contains(&found), "{found}");
}

#[test]
fn a_trickle_does_not_lower_what_a_limited_path_is_known_to_carry() {
    let mut model = Model::new(50.0);
    let mut pace = probed(&model);
    model.run(&mut pace, 3000, 12.5e6);
    let before = pace.capacity.bytes_a_second();
    trickle_while_the_delay_moves(&mut model, &mut pace);
    let after = pace.capacity.bytes_a_second();
    assert!(after > 0.95 * before, "{after} of {before}");
}

#[test]
fn what_is_lost_of_a_trickle_is_lost_by_the_nature_of_the_path() {
    let mut model = Model::new(50.0);
    model.lose_every = 8;
    let mut pace = probed(&model);
    trickle(&mut model, &mut pace, 30_000);
    assert_eq!(mbps(&pace), None);
    assert!(
        (0.08..0.13).contains(&pace.loss.usual),
        "{}",
        pace.loss.usual
    );
    model.run(&mut pace, 4000, 12.5e6);
    let found = mbps(&pace).unwrap();
    assert!(found > 42.0, "{found}");
}

#[test]
fn a_link_that_fell_below_half_of_its_limit_is_not_taken_to_lose_by_its_nature() {
    let mut model = Model::new(50.0);
    model.buffer = 10.0 * PACKET as f64;
    let mut pace = probed(&model);
    model.run(&mut pace, 4000, 12.5e6);
    model.rate /= 5.0;
    model.run(&mut pace, 4000, 2.5e6);
    let found = mbps(&pace).unwrap();
    assert!((7.0..13.0).contains(&found), "{found}");
}

#[test]
fn acknowledgements_that_fill_a_slow_uplink_are_no_trickle() {
    let mut model = Model::new(0.7);
    model.packet = 100;
    let mut pace = probed(&model);
    model.run(&mut pace, 3000, 125_000.0);
    let capacity = |pace: &Pace| pace.capacity.bytes_a_second() / 125_000.0;
    let before = capacity(&pace);
    assert!((0.65..0.75).contains(&before), "{before}");
    // A link that carries half as much is found, too.
    model.rate /= 2.0;
    model.run(&mut pace, 3000, 125_000.0);
    let after = capacity(&pace);
    assert!((0.3..0.4).contains(&after), "{after}");
}

//! What goes over another path as well, for that one brings it sooner.

use super::*;

#[test]
fn what_another_path_brings_sooner_goes_over_that_one_as_well() {
    let mut sender = Sender::new();
    let (fast, slow) = (path(1), path(0));
    sender
        .recovery
        .set_rtt(slow, Duration::from_millis(200), Duration::from_millis(20));
    sender
        .recovery
        .set_rtt(fast, Duration::from_millis(20), Duration::from_millis(20));
    let first = sender.send(at(0), slow);
    let own = sender.send(at(0), fast);
    // It could not be there by now over the other path, either.
    assert_eq!(sender.recovery.outpaced(at(10), fast).as_slice(), []);
    assert_eq!(sender.recovery.outpaced(at(11), fast).as_slice(), [first]);
    // Its own path tells of it as soon.
    assert_eq!(sender.recovery.outpaced(at(180), fast).as_slice(), []);
    // It should have told by now.
    assert_eq!(sender.recovery.outpaced(at(251), fast).as_slice(), [first]);
    let resend = sender.recovery.outpace(first).unwrap();
    sender.recovery.resent(at(251), resend, fast);
    assert_eq!(sender.recovery.outpaced(at(600), fast).as_slice(), []);
    let counters = sender.recovery.counters();
    assert_eq!((counters.resent, counters.lost), (1, 0));
    // That the original comes after all says nothing of its path.
    sender.hears(at(270), &[(slow, first), (fast, own)], &[], &[first]);
    assert_eq!(sender.recovery.counters().spurious, 0);
    assert_eq!(sender.recovery.recovered(slow), 0);
}

#[test]
fn what_has_arrived_or_is_due_is_not_outpaced() {
    let mut sender = Sender::new();
    let (fast, slow) = (path(1), path(0));
    let numbers: Vec<Seq> = (0..4).map(|ms| sender.send(at(ms), slow)).collect();
    sender.hears(at(40), &[(slow, numbers[2])], &[(numbers[0], 1)], &[]);
    assert_eq!(
        sender.recovery.outpaced(at(1000), fast).as_slice(),
        [numbers[3]],
        "one waits to be sent again, two have arrived"
    );
}

#[test]
fn what_is_outpaced_counts_for_the_share_of_what_is_sent_again() {
    let mut sender = Sender::new();
    sender.recovery.allowance = ShareBucket::full(EARNED, 1500);
    let (fast, slow) = (path(1), path(0));
    let numbers: Vec<Seq> = (0..2).map(|ms| sender.send(at(ms), slow)).collect();
    assert_eq!(sender.recovery.outpaced(at(1000), fast).len(), 2);
    assert!(sender.recovery.outpace(numbers[0]).is_some());
    assert!(sender.recovery.outpace(numbers[1]).is_none());
}

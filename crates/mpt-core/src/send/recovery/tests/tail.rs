//! The end of what was sent, when no report comes.

use super::*;

#[test]
fn a_silent_tail_is_probed_with_the_newest_packet_and_not_for_ever() {
    let mut sender = Sender::new();
    sender.send(at(0), path(0));
    let newest = sender.send(at(1), path(0));
    let mut probes = Vec::new();
    for _ in 0..100 {
        let Some(due) = sender.recovery.poll_timeout() else {
            break;
        };
        if let Some(probe) = sender.recovery.handle_timeout(due) {
            assert_eq!(probe.seq, newest);
            sender.recovery.resent(due, probe, path(1));
            probes.push(due);
        }
    }
    assert_eq!(probes.len(), 2, "{probes:?}");
    assert_eq!(
        probes[0],
        at(106),
        "a round trip, a report's delay and a margin"
    );
}

/// What goes again until nothing more is due, with times, when no report comes.
fn unanswered(sender: &mut Sender) -> Vec<(Seq, Time)> {
    let mut sent = Vec::new();
    for _ in 0..100 {
        let Some(due) = sender.recovery.poll_timeout() else {
            break;
        };
        if let Some(probe) = sender.recovery.handle_timeout(due) {
            sender.recovery.resent(due, probe, path(0));
            sent.push((probe.seq, due));
        }
        sent.extend(
            sender
                .resends(due, path(0))
                .into_iter()
                .map(|seq| (seq, due)),
        );
    }
    sent
}

#[test]
fn when_a_probe_is_in_vain_all_that_nothing_was_heard_of_goes_again_once() {
    let mut sender = Sender::new();
    let told = sender.send(at(0), path(0));
    let seqs = [1, 2, 3].map(|ms| sender.send(at(ms), path(0)));
    sender.hears(at(40), &[(path(0), told)], &[], &[]);
    let sent = unanswered(&mut sender);
    let count = |seq| sent.iter().filter(|&&(again, _)| again == seq).count();
    assert_eq!(
        [told, seqs[0], seqs[1], seqs[2]].map(count),
        [0, 1, 1, 2],
        "{sent:?}"
    );
    assert!(
        sent[1..].iter().all(|&(_, time)| time > sent[0].1),
        "the first probe goes alone: {sent:?}"
    );
}

#[test]
fn what_went_unanswered_and_no_path_may_have_now_is_put_off() {
    let mut sender = Sender::new();
    for ms in 0..4 {
        sender.send(at(ms), path(0));
    }
    let mut put_off = 0;
    for _ in 0..100 {
        let Some(due) = sender.recovery.poll_timeout() else {
            break;
        };
        if let Some(probe) = sender.recovery.handle_timeout(due) {
            sender.recovery.put_off(due, probe);
        }
        while let Some(resend) = sender.recovery.next_resend() {
            sender.recovery.put_off(due, resend);
            put_off += 1;
        }
    }
    assert_eq!((put_off, sender.recovery.counters().lost), (3, 0));
}

#[test]
fn what_was_dropped_while_it_was_bound_is_not_sent_again_and_holds_no_probe_up() {
    for is_left in [false, true] {
        let mut sender = Sender::new();
        let bound = sender.send(at(0), path(0));
        sender.recovery.bind_newest();
        match is_left {
            true => sender.recovery.leave(bound),
            false => sender.recovery.unbind(at(0), bound, path(0)),
        }
        let newest = sender.send(at(1), path(0));
        sender.hears(at(60), &[(path(0), newest)], &[(bound, 1)], &[]);
        let again = sender.resends(at(60), path(1));
        assert_eq!(again.contains(&bound), !is_left, "{again:?}");
        // The end of what was sent was dropped.
        let last = sender.send(at(61), path(0));
        sender.recovery.bind_newest();
        if is_left {
            sender.recovery.leave(last);
        }
        let probes = std::iter::from_fn(|| {
            let due = sender.recovery.poll_timeout()?;
            (due < at(1000)).then(|| sender.recovery.handle_timeout(due))
        });
        assert_eq!(probes.take(100).flatten().count() > 0, is_left);
    }
}

#[test]
fn what_is_put_off_for_long_leaves_others_their_allowance() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    for ms in 1..10_000 {
        let newest = sender.send(at(ms), path(0));
        sender.hears(at(ms), &[(path(0), newest)], &[(first, 1)], &[]);
        while let Some(resend) = sender.recovery.next_resend() {
            sender.recovery.put_off(at(ms), resend);
        }
    }
    assert!(sender.recovery.allowance.affords(SAVED_BYTES));
}

#[test]
fn when_a_probe_was_answered_the_next_goes_alone() {
    let mut sender = Sender::new();
    let [_, newest] = [0, 1].map(|ms| sender.send(at(ms), path(0)));
    let probe = loop {
        let due = sender.recovery.poll_timeout().expect("a probe");
        if let Some(probe) = sender.recovery.handle_timeout(due) {
            sender.recovery.resent(due, probe, path(0));
            break due;
        }
    };
    sender.hears(
        probe + Duration::from_millis(40),
        &[(path(0), newest)],
        &[],
        &[],
    );
    let mut last = newest;
    for sent in [41, 42, 43] {
        last = sender.send(probe + Duration::from_millis(sent), path(0));
    }
    let sent = unanswered(&mut sender);
    assert_eq!(sent[0].0, last, "{sent:?}");
    assert!(sent[1].1 > sent[0].1, "{sent:?}");
}

#[test]
fn a_tail_that_goes_again_in_its_turn_is_not_probed() {
    let mut sender = Sender::new();
    sender.send(at(0), path(0));
    let newest = sender.send(at(1), path(0));
    let probed_by = |sender: &mut Sender, until| {
        let due = sender.recovery.poll_timeout().filter(|&due| due <= until);
        due.and_then(|due| sender.recovery.handle_timeout(due))
    };
    sender.recovery.strand(path(0));
    for ms in (100..1000).step_by(50) {
        assert!(probed_by(&mut sender, at(ms)).is_none(), "at {ms} ms");
    }
    sender.recovery.unstrand(path(0));
    let probe = (1000..2000).find_map(|ms| probed_by(&mut sender, at(ms)));
    assert_eq!(probe.map(|probe| probe.seq), Some(newest));
}

#[test]
fn a_tail_that_arrived_is_not_probed() {
    let mut sender = Sender::new();
    let newest = sender.send(at(0), path(0));
    sender.hears(at(40), &[(path(0), newest)], &[], &[]);
    for _ in 0..100 {
        let Some(due) = sender.recovery.poll_timeout() else {
            return;
        };
        assert!(sender.recovery.handle_timeout(due).is_none());
    }
    panic!("never at rest");
}

mod outpaced;
mod tail;

use super::*;
use proptest::prelude::*;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// A sender that keeps 1000-byte packets, and what its peer would report of them.
struct Sender {
    recovery: Recovery,
    slab: Slab,
    log: SentLog,
    next: Seq,
    reports: u32,
}

impl Sender {
    fn new() -> Sender {
        let mut recovery = Recovery::new(true);
        for index in 0..2 {
            let rtt = Duration::from_millis(40);
            recovery.set_rtt(path(index), rtt, rtt);
        }
        Sender {
            recovery,
            slab: Slab::default(),
            log: SentLog::default(),
            next: Seq::new(1000),
            reports: 0,
        }
    }

    /// Sends one packet and says its number.
    fn send(&mut self, now: Time, path: PathId) -> Seq {
        let seq = self.next;
        self.next = seq.next();
        let (recovery, slab) = (&mut self.recovery, &mut self.slab);
        assert!(recovery.keeps(slab, now, 1000));
        let packet = slab.store(1000, |out| out.fill(7));
        recovery.keep(slab, now, seq, path, 0, packet);
        self.log.note(now, path, seq, 1, 1000);
        seq
    }

    /// A report in which `edges` are the newest arrivals and `missing` is missing.
    fn hears(&mut self, now: Time, edges: &[(PathId, Seq)], missing: &[(Seq, u32)], late: &[Seq]) {
        self.reports += 1;
        let high = edges.iter().map(|&(_, edge)| edge.next());
        let high = high.fold(Seq::new(1000), |a, b| if b.is_after(a) { b } else { a });
        let report = Report {
            number: self.reports,
            session: 1,
            about: 2,
            sent: now,
            next: missing.first().map_or(high, |&(first, _)| first),
            high,
            paths: edges
                .iter()
                .map(|&(path, edge)| crate::wire::report::PathReport {
                    path: path.index() as u8,
                    edge,
                    edge_arrived: now,
                    packets: 0,
                    bytes: 0,
                })
                .collect(),
            missing: missing
                .iter()
                .map(|&(first, count)| Missing { first, count })
                .collect(),
            duplicates: late.iter().copied().collect(),
        };
        self.recovery.learn(&mut self.slab, now, &report, &self.log);
        assert_eq!(self.slab.holders(), self.recovery.packets());
    }

    /// Sends again what may be, over `path`.
    fn resends(&mut self, now: Time, path: PathId) -> Vec<Seq> {
        let mut seqs = Vec::new();
        while let Some(resend) = self.recovery.next_resend() {
            self.recovery.resent(now, resend, path);
            self.log.note_again(path, 1000);
            seqs.push(resend.seq);
        }
        seqs
    }
}

fn path(index: usize) -> PathId {
    PathId::new(index).unwrap()
}

#[test]
fn what_a_later_packet_of_the_same_path_overtook_is_lost() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(1), path(0));
    sender.hears(at(40), &[(path(0), second)], &[(first, 1)], &[]);
    assert_eq!(sender.resends(at(40), path(1)), [first]);
    assert_eq!(sender.recovery.counters().lost, 1);
}

#[test]
fn what_no_path_may_have_now_is_sent_again_later_and_counted_once() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(1), path(0));
    sender.hears(at(40), &[(path(0), second)], &[(first, 1)], &[]);
    let resend = sender.recovery.next_resend().unwrap();
    sender.recovery.put_off(at(40), resend);
    assert_eq!(sender.recovery.counters().lost, 0);
    assert_eq!(sender.resends(at(40), path(1)), []);
    let third = sender.send(at(60), path(0));
    sender.hears(at(100), &[(path(0), third)], &[(first, 1)], &[]);
    assert_eq!(sender.resends(at(100), path(1)), [first]);
    assert_eq!(sender.recovery.counters().lost, 1);
}

#[test]
fn what_only_another_path_overtook_is_awaited() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(1), path(1));
    sender.hears(at(40), &[(path(1), second)], &[(first, 1)], &[]);
    assert_eq!(sender.resends(at(40), path(1)), []);
    // Until the path has been silent for so long that it may be dead.
    let due = sender.recovery.poll_timeout().unwrap();
    assert!(due <= at(200), "{due:?}");
    sender.recovery.handle_timeout(at(200));
    assert_eq!(sender.resends(at(200), path(1)), [first]);
}

#[test]
fn what_is_missing_beyond_all_that_arrived_is_lost() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(1), path(0));
    sender.hears(at(40), &[(path(0), first)], &[(second, 1)], &[]);
    assert_eq!(sender.resends(at(40), path(1)), [second]);
    // The same report again says nothing of what was sent again.
    sender.hears(at(50), &[(path(0), first)], &[(second, 1)], &[]);
    assert_eq!(sender.resends(at(50), path(1)), []);
}

#[test]
fn a_needless_resend_makes_the_path_wait_a_quarter_of_its_round_trip() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(1), path(0));
    sender.hears(at(40), &[(path(0), second)], &[(first, 1)], &[]);
    assert_eq!(sender.resends(at(40), path(1)), [first]);
    sender.hears(at(60), &[(path(0), second)], &[], &[first]);
    assert_eq!(sender.recovery.counters().spurious, 1);

    // Sent at 100, 36 ms for one of the slower reports, of which the slowest took 39, 10 ms more: a report that comes then,
    // or none for a round trip.
    for (begun, reported, due) in [(100, true, 147), (300, false, 385)] {
        let third = sender.send(at(begun), path(0));
        let fourth = sender.send(at(begun + 1), path(0));
        let edges = [(path(0), fourth)];
        sender.hears(at(begun + 21), &edges, &[(third, 1)], &[]);
        for ms in begun + 21..due {
            sender.recovery.handle_timeout(at(ms));
            assert_eq!(sender.resends(at(ms), path(1)), [], "{ms} ms");
        }
        if reported {
            sender.hears(at(due), &edges, &[(third, 1)], &[]);
        }
        sender.recovery.handle_timeout(at(due));
        assert_eq!(sender.resends(at(due), path(1)), [third]);
    }
}

#[test]
fn what_is_sent_again_for_want_of_reports_shows_no_reordering() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    sender.hears(at(40), &[(path(0), first)], &[], &[]);
    let second = sender.send(at(50), path(0));
    let elsewhere = sender.send(at(50), path(1));
    // The reports that would tell of the second are lost.
    sender.hears(at(71), &[(path(1), elsewhere)], &[(second, 1)], &[]);
    let mut resent = Vec::new();
    for ms in 72..200 {
        sender.recovery.handle_timeout(at(ms));
        resent.extend(sender.resends(at(ms), path(1)));
    }
    assert!(resent.starts_with(&[second]), "{resent:?}");
    let (third, fourth) = (sender.send(at(300), path(0)), sender.send(at(301), path(0)));
    sender.hears(at(320), &[(path(0), second)], &[], &[second]);
    assert_eq!(sender.recovery.counters().spurious, 1);
    // Its window is none still: what a later one passes is lost.
    sender.hears(at(340), &[(path(0), fourth)], &[(third, 1)], &[]);
    assert_eq!(sender.resends(at(340), path(1)), [third]);
}

#[test]
fn what_was_sent_after_higher_numbers_was_not_passed_by_them() {
    let mut sender = Sender::new();
    let older = sender.send(at(0), path(1));
    let bound = sender.send(at(0), path(1));
    sender.recovery.bind_newest();
    let newest = sender.send(at(1), path(0));
    // The other path has fallen silent: it goes here, behind the higher number.
    sender.recovery.unbind(at(20), bound, path(0));
    sender.hears(at(41), &[(path(0), newest)], &[(older, 2)], &[]);
    assert_eq!(sender.resends(at(41), path(1)), []);
    sender.hears(at(60), &[(path(0), newest)], &[(older, 1)], &[]);
    sender.hears(at(61), &[(path(0), newest)], &[], &[]);
    let (third, fourth) = (sender.send(at(100), path(0)), sender.send(at(101), path(0)));
    sender.hears(at(140), &[(path(0), fourth)], &[(third, 1)], &[]);
    assert_eq!(
        sender.resends(at(140), path(1)),
        [third],
        "its window is none"
    );
}

#[test]
fn what_was_missing_and_came_shows_that_the_path_reorders() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(0), path(0));
    for _ in 0..10 {
        sender.send(at(0), path(0));
    }
    let newest = sender.send(at(1), path(0));
    let edges = [(path(0), newest)];
    sender.hears(at(40), &edges, &[(first, 12)], &[]);
    assert_eq!(sender.resends(at(40), path(1)).len(), 4, "a burst");
    // The second came within 5 ms of that: not as a copy. The others are looked at again, and wait.
    sender.hears(at(45), &edges, &[(first, 1), (second.next(), 10)], &[]);
    assert_eq!(sender.resends(at(45), path(1)), []);
    sender.hears(at(50), &edges, &[(second.next(), 10)], &[]);
    assert_eq!(sender.resends(at(50), path(1)).len(), 4);
}

#[test]
fn what_was_missing_since_another_path_is_quicker_shows_no_reordering() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let slow = sender.send(at(0), path(0));
    let quick = sender.send(at(0), path(1));
    sender.hears(at(40), &[(path(1), quick)], &[(first, 2)], &[]);
    let edges = [(path(0), slow), (path(1), quick)];
    sender.hears(at(45), &edges, &[(first, 1)], &[]);
    assert_eq!(sender.resends(at(45), path(1)), [first]);
    // So what is lost on that path is sent again at once.
    let lost = sender.send(at(100), path(0));
    let newest = sender.send(at(101), path(0));
    sender.hears(at(141), &[(path(0), newest)], &[(lost, 1)], &[]);
    assert_eq!(sender.resends(at(141), path(1)), [lost]);
}

#[test]
fn what_is_sent_again_for_the_last_time_goes_in_two_copies_of_which_one_is_needless() {
    let mut sender = Sender::new();
    let lost = sender.send(at(0), path(0));
    let mut newest = sender.send(at(1), path(0));
    for (ms, is_twofold) in [(40, false), (90, true)] {
        sender.hears(at(ms), &[(path(0), newest)], &[(lost, 1)], &[]);
        let resend = sender.recovery.next_resend().unwrap();
        assert_eq!((resend.seq, resend.is_twofold), (lost, is_twofold));
        sender.recovery.resent(at(ms), resend, path(0));
        if is_twofold {
            sender.recovery.resent_copy(resend);
        }
        newest = sender.send(at(ms + 5), path(0));
    }
    sender.hears(at(140), &[(path(0), newest)], &[], &[lost]);
    let counters = sender.recovery.counters();
    assert_eq!((counters.resent, counters.resent_bytes), (3, 3000));
    assert_eq!(counters.spurious, 0);
}

#[test]
fn what_is_sent_again_is_lost_when_reports_do_not_have_it_after_a_round_trip() {
    let mut sender = Sender::new();
    let lost = sender.send(at(0), path(0));
    let newest = sender.send(at(1), path(0));
    let edges = [(path(0), newest)];
    sender.hears(at(40), &edges, &[(lost, 1)], &[]);
    assert_eq!(sender.resends(at(40), path(1)), [lost]);
    // Nothing is sent after it. Its report may be 15 ms late, and has to come.
    sender.hears(at(94), &edges, &[(lost, 1)], &[]);
    assert_eq!(sender.resends(at(94), path(0)), []);
    sender.hears(at(95), &edges, &[(lost, 1)], &[]);
    assert_eq!(sender.resends(at(95), path(0)), [lost]);
}

#[test]
fn a_packet_is_sent_again_twice_at_most() {
    let mut sender = Sender::new();
    let lost = sender.send(at(0), path(0));
    let mut resent = 0;
    for round in 1..20u64 {
        let now = at(round * 50);
        let newest = sender.send(now, path(0));
        sender.hears(at(round * 50 + 40), &[(path(0), newest)], &[(lost, 1)], &[]);
        resent += sender.resends(at(round * 50 + 40), path(0)).len();
    }
    assert_eq!(resent, 2);
}

#[test]
fn a_burst_of_losses_is_sent_again_four_at_a_time_then_two() {
    let mut sender = Sender::new();
    let lost = sender.send(at(0), path(0));
    for _ in 1..20 {
        sender.send(at(0), path(0));
    }
    let newest = sender.send(at(1), path(0));
    let edges = [(path(0), newest)];
    let mut missing = (lost, 20);
    for (now, expected) in [(40, 4), (45, 4), (85, 2), (90, 2)] {
        sender.hears(at(now), &edges, &[missing], &[]);
        let resent = sender.resends(at(now), path(1));
        assert_eq!(resent.len(), expected, "at {now} ms");
        missing = (missing.0.plus(expected as u32), missing.1 - expected as u32);
    }
}

#[test]
fn what_a_suspected_path_swallowed_goes_again_once_and_the_oldest_first() {
    let mut sender = Sender::new();
    let told = sender.send(at(0), path(0));
    let swallowed = [1, 2, 3].map(|ms| sender.send(at(ms), path(0)));
    let other = sender.send(at(4), path(1));
    sender.hears(
        at(40),
        &[(path(0), told), (path(1), other)],
        &[(swallowed[0], 3)],
        &[],
    );
    sender.recovery.strand(path(0));
    assert_eq!(
        sender.resends(at(41), path(1)),
        [],
        "not for another reason, too"
    );
    let mut rescued = Vec::new();
    while let Some((from, seq, _)) = sender.recovery.next_stranded() {
        assert_eq!(from, path(0));
        sender.recovery.rescued(at(41), seq, path(1));
        rescued.push(seq);
        sender.recovery.strand(path(0));
    }
    assert_eq!(rescued, swallowed);
    assert!(!sender.recovery.has_stranded());
    assert_eq!(sender.recovery.counters().resent, 3);
}

#[test]
fn what_a_path_delivers_after_all_does_not_go_again() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    let second = sender.send(at(1), path(0));
    sender.recovery.strand(path(0));
    sender.hears(at(140), &[(path(0), first)], &[], &[]);
    let next = sender.recovery.next_stranded();
    assert_eq!(next.map(|(_, seq, _)| seq), Some(second));
    sender.recovery.unstrand(path(0));
    assert_eq!(sender.recovery.next_stranded(), None);
}

#[test]
fn above_two_gigabits_nothing_is_kept() {
    let mut sender = Sender::new();
    sender.send(at(0), path(0));
    let Sender { recovery, slab, .. } = &mut sender;
    assert!(recovery.keeps(slab, at(0), 2_000_000));
    assert_eq!(slab.holders(), 1);
    assert!(!recovery.keeps(slab, at(1), 2_000_000));
    assert_eq!(slab.holders(), 0);
    assert!(recovery.keeps(slab, at(20), 2_000_000));
}

#[test]
fn a_report_of_what_was_never_sent_changes_nothing() {
    let mut sender = Sender::new();
    let first = sender.send(at(0), path(0));
    for edge in [first.plus(1), first.plus(1 << 20), first.plus(u32::MAX / 2)] {
        sender.hears(at(40), &[(path(0), edge)], &[(edge.plus(5), 100)], &[edge]);
        assert_eq!(sender.resends(at(40), path(1)), []);
    }
    assert_eq!(sender.recovery.counters(), Counters::default());
}

proptest! {
    /// Whatever reports claim, at most an eighth of what was sent is sent again, each packet at
    /// most twice, and only what was sent.
    #[test]
    fn no_report_makes_the_sender_send_much_again(
        steps in proptest::collection::vec(
            (1..40u64, 0..2usize, 0..3000u32, 0..3000u32, any::<u32>(), 0..64u32),
            1..200,
        ),
    ) {
        let mut sender = Sender::new();
        let mut now = 0;
        let mut resent = std::collections::HashMap::<Seq, u32>::new();
        let mut sent = 0;
        for (passes, index, edge, from, count, packets) in steps {
            now += passes;
            for _ in 0..packets {
                sender.send(at(now), path(index));
                sent += 1;
            }
            let edge = Seq::new(1000 + edge);
            let missing = [(Seq::new(1000 + from), count), (Seq::new(900), count / 2)];
            sender.hears(at(now), &[(path(index), edge)], &missing, &[edge]);
            for seq in sender.resends(at(now), path(1 - index)) {
                *resent.entry(seq).or_default() += 1;
                prop_assert!(sender.next.is_after(seq));
            }
            if sender.recovery.poll_timeout().is_some_and(|due| due <= at(now)) {
                sender.recovery.handle_timeout(at(now));
            }
        }
        prop_assert!(resent.values().all(|&times| times <= 2));
        let packets: u32 = resent.values().sum();
        prop_assert!(u64::from(packets) * 1000 <= SAVED_BYTES + sent * 1000 / 8);
    }
}

#[test]
fn a_peer_that_calls_all_missing_has_no_more_looked_at_than_can_be_sent_again() {
    let mut sender = Sender::new();
    let us = |us: u64| Time::from_nanos(us * 1000);
    let sent = 16_000;
    let first = sender.send(us(0), path(0));
    for index in 1..sent {
        sender.send(us(u64::from(index) * 100), path(0));
    }
    let mut now = us(u64::from(sent) * 100);
    sender.recovery.paths[0].overtaken(now);
    let began = std::time::Instant::now();
    for _ in 0..100 {
        now = now + Duration::from_micros(800);
        let edge = first.plus(sent - 1);
        sender.hears(now, &[(path(0), edge)], &[(first, sent - 1)], &[]);
    }
    println!("a report costs {:?}", began.elapsed() / 100);
    assert_eq!(sender.recovery.packets(), sent as usize);
    let looked = sender.recovery.judge(now);
    assert!((MAX_DUE..=2 * MAX_DUE).contains(&looked), "{looked}");
}

//! What threads share without a lock, in every order in which two of them may see it (loom): the two halves of a tunnel, and
//! the workers of a hub.

#![allow(
    clippy::duplicate_mod,
    reason = "the same file with other atomics is another module"
)]

mod sound;
mod weakened;
mod workers;

use loom::sync::Arc;
use loom::thread;

/// Who sees that a number has been sent sees on which path.
macro_rules! numbers_are_seen_with_their_paths {
    ($with:ident) => {
        loom::model(|| {
            let numbers = Arc::new($with::halves::Numbers::<2>::new(0));
            let written = numbers.clone();
            let out = thread::spawn(move || {
                for number in 0..2 {
                    written.set_last_on(number as usize, number);
                    written.set_next(number + 1);
                }
            });
            for number in 0..numbers.next() {
                assert_eq!(numbers.last_on(number as usize), Some(number));
            }
            out.join().unwrap();
        });
    };
}

/// A path was given up, answers, and is given a number: who sees that does not say that it carries nothing.
macro_rules! a_path_that_carries_again_is_not_abandoned {
    ($with:ident) => {
        loom::model(|| {
            let numbers = Arc::new($with::halves::Numbers::<1>::new(0));
            let suspicion = Arc::new($with::halves::Suspicion::new());
            suspicion.tell(1, 1);
            let (sent, told) = (numbers.clone(), suspicion.clone());
            let out = thread::spawn(move || {
                told.tell(0, 0);
                sent.set_last_on(0, 0);
                sent.set_next(1);
                told.tell(1, 0);
            });
            let next = numbers.next();
            let (suspected, abandoned) = suspicion.told();
            assert_eq!(abandoned & !suspected, 0, "both are of one moment");
            assert!(next == 0 || abandoned == 0, "number 0 is under way there");
            out.join().unwrap();
        });
    };
}

/// The line in goes to sleep while the line out carries something.
macro_rules! nobody_sleeps_on {
    ($with:ident) => {
        loom::model(|| {
            let wake = Arc::new($with::halves::Wake::new());
            let carrying = wake.clone();
            let out = thread::spawn(move || carrying.note_carried());
            wake.sleep();
            let noticed = wake.carried() != 0;
            let woken = out.join().unwrap();
            assert!(noticed || woken);
        });
    };
}

/// Two packets, and a line in that wakes up by itself in between.
macro_rules! nobody_sleeps_on_after_waking {
    ($with:ident) => {
        loom::model(|| {
            let wake = Arc::new($with::halves::Wake::new());
            let carrying = wake.clone();
            let out = thread::spawn(move || [carrying.note_carried(), carrying.note_carried()]);
            wake.sleep();
            let seen = wake.carried();
            wake.stay();
            wake.sleep();
            let noticed = wake.carried() != seen || wake.carried() == 2;
            let woken = out.join().unwrap();
            assert!(
                noticed || woken[0] || woken[1],
                "{seen} {woken:?} {}",
                wake.carried()
            );
        });
    };
}

#[test]
fn who_sees_a_number_sent_sees_its_path() {
    numbers_are_seen_with_their_paths!(sound);
}

#[test]
#[should_panic(expected = "assertion")]
fn with_relaxed_orderings_a_number_is_seen_before_its_path() {
    numbers_are_seen_with_their_paths!(weakened);
}

#[test]
fn who_sees_a_number_sent_sees_that_its_path_is_not_given_up() {
    a_path_that_carries_again_is_not_abandoned!(sound);
}

#[test]
#[should_panic(expected = "number 0 is under way there")]
fn with_relaxed_orderings_a_path_seems_given_up_that_carries() {
    a_path_that_carries_again_is_not_abandoned!(weakened);
}

#[test]
fn a_packet_is_noticed_or_wakes() {
    nobody_sleeps_on!(sound);
    nobody_sleeps_on_after_waking!(sound);
}

#[test]
#[should_panic(expected = "assertion")]
fn without_fences_a_packet_wakes_nobody() {
    nobody_sleeps_on!(weakened);
}

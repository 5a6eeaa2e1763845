//! What leaves before its turn, and that order within connections stays.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::control::LatePolicy;
use crate::path::{PathId, PathSet};
use crate::receive::order::Order;
use crate::receive::reorder::{ReorderConfig, Verdict};
use crate::wire::ip::Version;
use crate::wire::sample::Sample;
use crate::wire::transport::tcp::{ACK_FLAG, SYN};

/// Bytes of a segment.
const BYTES: u32 = 10;

/// A window, and what leaves it.
struct Bench {
    pool: Pool,
    window: Reorder<Stored>,
    ready: Ready,
    now: Time,
    /// What left, as the connection and the place in it.
    left: Vec<(u16, u32)>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Some(1024))
    }

    fn with(grows_to: Option<u32>) -> Bench {
        let config = ReorderConfig {
            window: 1024,
            max_buffer_delay: Duration::from_secs(60),
            late: LatePolicy::Deliver,
            believed: 1024,
            grows_to,
        };
        let mut bench = Bench {
            pool: Pool::new(256, 1024),
            window: Reorder::new(config, Seq::FIRST),
            ready: Ready::default(),
            now: Time::from_nanos(1_000_000),
            left: Vec::new(),
        };
        // The second path says nothing: what is missing may come over it.
        let paths = PathSet::from_bits(3);
        bench.window.wait_for(bench.now, paths, &mut |_| ());
        bench
    }

    /// The segment at this place of a connection arrives as number `seq`.
    fn arrive(&mut self, seq: u32, connection: u16, at: u32) {
        let packet = self.store(seq, connection, at, BYTES as usize);
        self.take(seq, packet);
    }

    /// A segment of so many bytes at this place of a connection, which has this number.
    fn store(&mut self, seq: u32, connection: u16, at: u32, len: usize) -> Stored {
        let sample = Sample {
            source_port: connection,
            // The SYN takes a number.
            sequence: (at * BYTES).wrapping_sub(u32::from(at == 0)),
            flags: if at == 0 { SYN } else { ACK_FLAG },
            ..Sample::tcp(Version::V4, &[connection as u8; BYTES as usize][..len])
        };
        let bytes = sample.bytes();
        let mut buffer = self.pool.take().unwrap();
        buffer.as_mut()[..bytes.len()].copy_from_slice(&bytes);
        Stored {
            buffer: self.pool.keep(buffer),
            start: 0,
            len: bytes.len() as u16,
            number: Some(Order::new().number(Seq::new(seq))),
            behind: None,
        }
    }

    fn take(&mut self, seq: u32, packet: Stored) {
        let seq = Seq::new(seq);
        self.now = self.now + Duration::from_millis(1);
        let path = PathId::new(0).unwrap();
        let out = &mut self.ready.out(&self.pool);
        let verdict = self.window.insert(self.now, path, seq, packet, out);
        assert_eq!(verdict, Verdict::Taken);
    }

    /// What need not wait leaves.
    fn pass(&mut self, seq: u32) {
        let (pool, window) = (&self.pool, &mut self.window);
        self.ready.pass(self.now, pool, window, Seq::new(seq));
        while let Some(packet) = self.ready.pop() {
            if !packet.has_left() {
                let bytes = self.pool.bytes(packet);
                let port = u16::from_be_bytes([bytes[20], bytes[21]]);
                let first = u32::from_be_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
                self.left.push((port, first.wrapping_add(1) / BYTES));
                self.pool.release(packet.buffer);
            }
        }
    }

    /// Of what is held, whether something could leave.
    fn holds_up(&mut self) -> bool {
        let (pool, connections) = (&self.pool, &self.ready.connections);
        let mut holds_up = false;
        self.window.for_each_held(|packet| {
            let segment = (!packet.has_left()).then(|| Segment::of(pool.bytes(*packet)));
            let segment = segment.flatten();
            holds_up |= segment.is_some_and(|segment| connections.is_continued_by(&segment));
        });
        holds_up
    }
}

proptest! {
    /// Segments of four connections that have begun, numbered by turns, arrive in any order.
    #[test]
    fn each_connection_leaves_in_its_order_as_soon_as_it_can(
        (of, arrivals) in prop::collection::vec(0..4u16, 1..120).prop_flat_map(|of| {
            let numbers: Vec<usize> = (0..of.len()).collect();
            (Just(of), Just(numbers).prop_shuffle())
        }),
    ) {
        let mut bench = Bench::new();
        for connection in 0..4 {
            bench.arrive(connection.into(), connection, 0);
            bench.pass(connection.into());
        }
        let place = |index: usize| {
            let before = of[..index].iter();
            1 + before.filter(|one| **one == of[index]).count() as u32
        };
        for &index in &arrivals {
            let seq = 4 + index as u32;
            bench.arrive(seq, of[index], place(index));
            bench.pass(seq);
            prop_assert!(!bench.holds_up(), "after {seq}");
        }
        for connection in 0..4 {
            let left = bench.left.iter().filter(|left| left.0 == connection);
            let sent = of.iter().filter(|one| **one == connection).count();
            prop_assert!(left.map(|left| left.1).eq(0..=sent as u32), "{:?}", bench.left);
        }
        prop_assert_eq!(bench.window.held(), 0);
    }
}

#[test]
fn what_passed_is_counted_and_its_place_is_held_until_its_turn() {
    let mut bench = Bench::new();
    // Number 0 is of another connection.
    for (seq, at) in [(1, 0), (2, 1), (4, 3), (3, 2)] {
        bench.arrive(seq, 7, at);
        bench.pass(seq);
    }
    assert_eq!(bench.left, [(7, 0), (7, 1), (7, 2), (7, 3)]);
    let counted = |bench: &Bench| {
        let window = &bench.window;
        (bench.ready.passed(), window.held(), window.left())
    };
    assert_eq!(counted(&bench), (4, 4, 4));
    bench.arrive(0, 8, 0);
    bench.pass(0);
    assert_eq!(counted(&bench), (4, 0, 0));
    assert_eq!(bench.left.last(), Some(&(8, 0)));
    // One of them had waited.
    assert_eq!(bench.window.hold_us().unwrap().len(), 1);
}

#[test]
fn what_comes_late_does_not_touch_what_has_its_slot_now() {
    for (connection, at) in [(9, 0), (7, 2)] {
        let mut bench = Bench::new();
        for (seq, at) in [(1, 0), (1024, 1)] {
            bench.arrive(seq, 7, at);
            bench.pass(seq);
        }
        let counted = |bench: &Bench| {
            let window = &bench.window;
            (window.next_expected(), window.held(), window.left())
        };
        assert_eq!(counted(&bench), (Seq::new(2), 1, 1));
        // Number 0 was given up, and number 1024, which has left, has its slot.
        bench.arrive(0, connection, at);
        bench.pass(0);
        assert_eq!(bench.left, [(7, 0), (7, 1), (connection, at)]);
        assert_eq!(counted(&bench), (Seq::new(2), 1, 1));
    }
}

#[test]
fn a_bare_acknowledgement_leaves_at_once_and_says_nothing_of_the_data_before_it() {
    let mut bench = Bench::new();
    bench.arrive(0, 7, 0);
    bench.pass(0);
    // Number 1 is missing, which has the first of its data. The acknowledgement was sent after the second.
    let acknowledgement = bench.store(3, 7, 3, 0);
    bench.take(3, acknowledgement);
    bench.pass(3);
    assert_eq!(bench.left, [(7, 0), (7, 3)]);
    for (seq, at) in [(2, 2), (1, 1)] {
        bench.arrive(seq, 7, at);
        bench.pass(seq);
    }
    assert_eq!(bench.left, [(7, 0), (7, 3), (7, 1), (7, 2)]);
    assert_eq!((bench.ready.passed(), bench.window.held()), (1, 0));
}

#[test]
fn of_what_has_no_number_that_fits_only_a_bare_acknowledgement_leaves() {
    let mut bench = Bench::new();
    for (len, leaves) in [(0, true), (BYTES as usize, false)] {
        let packet = bench.store(5, 7, 1, len);
        assert_eq!(bench.ready.push_unbelieved(&bench.pool, packet), leaves);
        assert_eq!(bench.ready.pop().is_some(), leaves);
    }
}

#[test]
fn behind_a_window_that_is_configured_all_waits_in_one_order() {
    let mut bench = Bench::with(None);
    for (seq, at) in [(1, 0), (2, 1)] {
        bench.arrive(seq, 7, at);
        bench.pass(seq);
    }
    let acknowledgement = bench.store(3, 7, 2, 0);
    bench.take(3, acknowledgement);
    bench.pass(3);
    assert_eq!((&bench.left[..], bench.window.held()), (&[][..], 3));
    bench.arrive(0, 8, 0);
    bench.pass(0);
    assert_eq!(bench.left, [(8, 0), (7, 0), (7, 1), (7, 2)]);
    assert_eq!(bench.ready.passed(), 0);
}

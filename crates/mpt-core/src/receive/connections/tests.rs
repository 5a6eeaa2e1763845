//! What passes, and what waits.

use super::*;
use crate::wire::ip::Version;
use crate::wire::sample::Sample;
use crate::wire::transport::tcp::{ACK_FLAG, FIN};

const VERSIONS: [Version; 2] = [Version::V4, Version::V6];

/// A segment of 100 bytes of the connection from `port`.
fn sample(version: Version, port: u16, first: u32) -> Sample {
    Sample {
        source_port: port,
        sequence: first,
        ..Sample::tcp(version, &[7; 100])
    }
}

/// A segment goes to the host, and nothing of its connection is held.
fn deliver(connections: &mut Connections, segment: &Segment) {
    let held = connections.deliver(segment, Seq::FIRST, None);
    assert_eq!(held, None);
}

fn segment(port: u16, first: u32) -> Segment {
    Segment::of(&sample(Version::V4, port, first).bytes()).unwrap()
}

#[test]
fn what_continues_its_connection_passes_whatever_others_miss() {
    for version in VERSIONS {
        let mut connections = Connections::default();
        let passes = |connections: &Connections, port, first: u32| {
            let segment = Segment::of(&sample(version, port, first).bytes()).unwrap();
            connections.is_continued_by(&segment)
        };
        assert!(!passes(&connections, 1, 0), "nothing is known");
        // Over the end of the numbers.
        for first in [u32::MAX - 99, 0, 100] {
            let segment = Segment::of(&sample(version, 1, first).bytes()).unwrap();
            deliver(&mut connections, &segment);
            let next = first.wrapping_add(100);
            for (step, expected) in [(0, true), (1, false), (100, false), (u32::MAX, false)] {
                assert_eq!(
                    passes(&connections, 1, next.wrapping_add(step)),
                    expected,
                    "{step} behind {next}"
                );
            }
            assert!(!passes(&connections, 2, next), "another connection");
        }
    }
}

#[test]
fn a_beginning_passes_and_an_end_takes_a_number() {
    let mut connections = Connections::default();
    let of = |first, flags, payload: &[u8]| {
        let sample = Sample {
            flags,
            payload: payload.to_vec(),
            ..sample(Version::V4, 1, first)
        };
        Segment::of(&sample.bytes()).unwrap()
    };
    deliver(&mut connections, &segment(1, 5_000_000));
    // The same ports are used again, with numbers below.
    let begins = of(99, tcp::SYN, &[]);
    assert!(connections.is_continued_by(&begins));
    deliver(&mut connections, &begins);
    let data = of(100, ACK_FLAG, &[1; 50]);
    assert!(connections.is_continued_by(&data));
    deliver(&mut connections, &data);
    deliver(&mut connections, &of(150, ACK_FLAG | FIN, &[1; 10]));
    for (first, expected) in [(160, false), (161, true)] {
        let data = of(first, ACK_FLAG, &[1; 10]);
        assert_eq!(connections.is_continued_by(&data), expected);
    }
}

#[test]
fn what_is_delivered_late_takes_nothing_back() {
    let mut connections = Connections::default();
    deliver(&mut connections, &segment(1, 1000));
    deliver(&mut connections, &segment(1, 300));
    assert!(connections.is_continued_by(&segment(1, 1100)));
}

#[test]
fn a_connection_that_lacks_something_waits_until_that_came() {
    let mut connections = Connections::default();
    deliver(&mut connections, &segment(1, 1000));
    // 1100 and 1300 are missing.
    deliver(&mut connections, &segment(1, 1200));
    deliver(&mut connections, &segment(1, 1400));
    assert!(!connections.is_continued_by(&segment(1, 1500)));
    deliver(&mut connections, &segment(1, 1100));
    assert!(!connections.is_continued_by(&segment(1, 1500)));
    // What continues it comes in its turn meanwhile.
    deliver(&mut connections, &segment(1, 1500));
    assert!(!connections.is_continued_by(&segment(1, 1600)));
    deliver(&mut connections, &segment(1, 1300));
    assert!(connections.is_continued_by(&segment(1, 1600)));
}

#[test]
fn what_is_sent_again_may_be_cut_otherwise() {
    for (first, payload, is_filled) in [
        (1100, 100, false),
        (1150, 100, true),
        (1100, 300, true),
        (1200, 50, true),
        (1250, 50, false),
    ] {
        let mut connections = Connections::default();
        deliver(&mut connections, &segment(1, 1000));
        // 1100 to 1249 are missing.
        deliver(&mut connections, &segment(1, 1250));
        let again = Sample {
            payload: vec![7; payload],
            ..sample(Version::V4, 1, first)
        };
        deliver(&mut connections, &Segment::of(&again.bytes()).unwrap());
        let next = 1350.max(first + payload as u32);
        let goes_on = connections.is_continued_by(&segment(1, next));
        assert_eq!(goes_on, is_filled, "{payload} bytes from {first}");
    }
}

#[test]
fn a_bare_acknowledgement_continues_no_connection() {
    let mut connections = Connections::default();
    deliver(&mut connections, &segment(1, 1000));
    let bare = Sample {
        payload: Vec::new(),
        ..sample(Version::V4, 1, 1100)
    };
    assert!(!connections.is_continued_by(&Segment::of(&bare.bytes()).unwrap()));
}

#[test]
fn what_is_held_of_a_connection_leads_from_one_to_the_next() {
    let mut connections = Connections::default();
    let seq = |value: u32| Seq::new(10 + value);
    assert_eq!(connections.hold(&segment(1, 1200), seq(2)), None, "unknown");
    deliver(&mut connections, &segment(1, 1000));
    // Their numbers, from the least: 1200 is number 12, 1400 number 14.
    for (first, number, link) in [
        (1300, 3, None),
        (1500, 5, Some(Link::After(seq(3)))),
        (1200, 2, Some(Link::Before(seq(3)))),
        (1400, 4, Some(Link::Within(seq(2)))),
    ] {
        let held = connections.hold(&segment(1, first), seq(number));
        assert_eq!(held, link, "{first}");
    }
    let (place, _) = place(&segment(1, 0));
    assert!(connections.is_at(place, &segment(1, 7)));
    assert!(!connections.is_at(place, &segment(2, 7)));
    let behind = |count| NonZeroU32::new(count);
    for (first, number, next, left) in [
        (1100, 1, None, Some(2)),
        (1200, 2, behind(1), Some(3)),
        (1300, 3, behind(1), Some(4)),
        (1400, 4, behind(1), Some(5)),
        (1500, 5, None, None),
    ] {
        let went_on = connections.deliver(&segment(1, first), seq(number), next);
        assert_eq!(went_on, left.map(|_| place), "{first}");
        assert_eq!(connections.first_held(place), left.map(seq), "{first}");
    }
    connections.hold(&segment(1, 1900), seq(9));
    connections.unlink(place);
    assert_eq!(connections.first_held(place), None);
}

#[test]
fn only_whole_segments_of_tcp_tell_of_a_connection() {
    for version in VERSIONS {
        let whole = sample(version, 1, 1000).bytes();
        assert!(Segment::of(&whole).is_some());
        for cut in 0..whole.len() {
            assert_eq!(Segment::of(&whole[..cut]), None, "{cut} bytes");
        }
        let datagram = Sample::udp(version, &[7; 100]).bytes();
        assert_eq!(Segment::of(&datagram), None);
    }
    for offset in [0x2000u16, 0x0001] {
        let mut fragment = sample(Version::V4, 1, 1000).bytes();
        fragment[6..8].copy_from_slice(&offset.to_be_bytes());
        assert_eq!(Segment::of(&fragment), None);
    }
}

#[test]
fn more_connections_than_there_are_places_never_pass_as_another() {
    let mut connections = Connections::default();
    let ports = 0..3 * PLACES as u16;
    for port in ports.clone() {
        deliver(&mut connections, &segment(port, u32::from(port) * 1000));
    }
    let mut known = 0;
    for port in ports {
        let first = u32::from(port) * 1000;
        assert!(!connections.is_continued_by(&segment(port, first + 99)));
        known += usize::from(connections.is_continued_by(&segment(port, first + 100)));
    }
    assert!((PLACES / 2..=PLACES).contains(&known), "{known}");
    assert_eq!(connections.memory(), 28 * PLACES);
    connections.forget();
    assert_eq!(connections.memory(), 0);
}

use std::net::IpAddr;
use std::ops::RangeInclusive;

use proptest::prelude::*;

use super::copies::LEAST_SAVED;
use super::*;

fn udp4(tos: u8, ports: [u16; 2], flags_offset: u16) -> Vec<u8> {
    let mut packet = vec![0; 28];
    (packet[0], packet[1], packet[3], packet[9]) = (0x45, tos, 28, 17);
    packet[6..8].copy_from_slice(&flags_offset.to_be_bytes());
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 1, 2, 3]);
    for (at, port) in [20, 22].into_iter().zip(ports) {
        packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }
    packet
}

/// Behind so many destination options, and a fragment header if there is an offset.
fn udp6(ports: [u16; 2], options: usize, fragment: Option<u16>) -> Vec<u8> {
    let mut chain = vec![60; options];
    chain.extend(fragment.map(|_| 44));
    chain.push(17);
    let mut packet = vec![0; 40];
    (packet[0], packet[6]) = (0x60, chain[0]);
    packet[24..40].copy_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    for next in &chain[1..] {
        let mut header = [0; 8];
        header[0] = *next;
        if *next == 17
            && let Some(offset) = fragment
        {
            header[2..4].copy_from_slice(&offset.to_be_bytes());
        }
        packet.extend(header);
    }
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0, 8, 0, 0]);
    let len = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet
}

fn config(name: &str, matches: Match) -> ClassConfig {
    ClassConfig {
        name: name.to_owned(),
        matches,
        paths: PathSet::from_bits(0b11),
        ..ClassConfig::default()
    }
}

fn ports(ranges: &[RangeInclusive<u16>]) -> Match {
    Match {
        ports: ranges.to_vec(),
        ..Match::default()
    }
}

fn class_of(configs: &[ClassConfig], packet: &[u8]) -> Option<ClassId> {
    let mut classes = Classes::default();
    assert!(classes.set(configs).is_empty());
    classes.of(&Packet::parse(packet).unwrap())
}

#[test]
fn the_first_class_that_a_packet_fits_is_its_own() {
    let classes = [
        config(
            "a",
            Match {
                dscp: 1 << 46,
                ..ports(&[5060..=5061])
            },
        ),
        config("b", ports(&[5060..=5060, 9000..=9999])),
        config(
            "c",
            Match {
                to: vec![("10.1.0.0".parse().unwrap(), 16)],
                ..Match::default()
            },
        ),
    ];
    let of = |tos, ports| class_of(&classes, &udp4(tos, ports, 0));
    assert_eq!(of(46 << 2, [1, 5060]), Some(0));
    assert_eq!(
        of(46 << 2 | 3, [5061, 1]),
        Some(0),
        "ECN is no DSCP; either port"
    );
    assert_eq!(of(0, [5060, 1]), Some(1));
    assert_eq!(of(0, [1, 9999]), Some(1));
    assert_eq!(of(0, [1, 1]), Some(2));
    let mut elsewhere = udp4(0, [1, 1], 0);
    elsewhere[17] = 2;
    assert_eq!(class_of(&classes, &elsewhere), None);
    assert_eq!(class_of(&[], &elsewhere), None);
}

#[test]
fn fragments_have_no_ports_and_extension_headers_hide_none() {
    let classes = [
        config("a", ports(&[7..=7])),
        config("rest", Match::default()),
    ];
    // More fragments; an offset.
    for flags_offset in [0x2000, 0x0001] {
        let fragment = udp4(0, [7, 7], flags_offset);
        assert_eq!(class_of(&classes, &fragment), Some(1));
    }
    assert_eq!(class_of(&classes, &udp4(0, [7, 1], 0)), Some(0));
    for options in 0..3 {
        assert_eq!(class_of(&classes, &udp6([1, 7], options, None)), Some(0));
        for fragment in [0x0001, 0x0008] {
            let fragment = udp6([7, 7], options, Some(fragment));
            assert_eq!(class_of(&classes, &fragment), Some(1), "{options}");
        }
    }
    let mut icmp = udp4(0, [7, 7], 0);
    icmp[9] = 1;
    assert_eq!(class_of(&classes, &icmp), Some(1));
}

#[test]
fn a_class_prefers_its_paths_and_a_sparing_one_has_no_others() {
    let paths = Adaptive::new(&crate::send::scheduler::law::Law::LAW);
    for (policy, instead) in [(ClassPolicy::Adaptive, 0b100), (ClassPolicy::Sparing, 0)] {
        let mut class = Class::new(ClassConfig {
            policy,
            ..config("a", Match::default())
        });
        let mut allowed = |usable| {
            let usable = PathSet::from_bits(usable);
            class.allowed(usable, usable, &paths).bits()
        };
        assert_eq!(
            (allowed(0b111), allowed(0b110), allowed(0b100)),
            (0b11, 0b10, instead)
        );
        assert_eq!(allowed(0), 0);
    }
}

#[test]
fn classes_that_keep_their_name_keep_their_counters() {
    let mut classes = Classes::default();
    classes.set(&[config("a", Match::default()), config("b", Match::default())]);
    classes.list[1].counters.packets = 5;
    let other = ClassConfig {
        policy: ClassPolicy::Fastest,
        ..config("b", ports(&[1..=2]))
    };
    classes.set(&[other, config("c", Match::default())]);
    let counted: Vec<u64> = classes
        .list
        .iter()
        .map(|class| class.counters.packets)
        .collect();
    assert_eq!(counted, [5, 0]);
    assert_eq!(classes.list[0].counters.policy, "fastest");
}

fn any_match() -> impl Strategy<Value = Match> {
    let range = (0..30u16, 0..10u16).prop_map(|(first, more)| first..=first + more);
    let prefix = prop_oneof![
        (0..4u32, 28..=32u8).prop_map(|(host, len)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            (IpAddr::V4((0x0a01_0200 | host & mask).into()), len)
        }),
        Just((IpAddr::V4([0; 4].into()), 0)),
        Just((IpAddr::V6([0; 16].into()), 0)),
    ];
    let (ports, to) = (
        prop::collection::vec(range, 0..3),
        prop::collection::vec(prefix, 0..3),
    );
    (0..8u64, ports, to).prop_map(|(dscp, ports, to)| Match { dscp, ports, to })
}

proptest! {
    /// What a match covers, it fits as well.
    #[test]
    fn what_fits_the_covered_fits_the_covering(
        a in any_match(), b in any_match(),
        dscp in 0..3u8, port in 0..40u16, other in 0..40u16, host in 0..4u8,
    ) {
        let mut packet = udp4(dscp << 2, [port, other], 0);
        packet[19] = host;
        let look = Look::at(&Packet::parse(&packet).unwrap(), true);
        prop_assert!(a.covers(&a));
        if a.covers(&b) && b.fits(&look) {
            prop_assert!(a.fits(&look));
        }
    }

    /// Copies take no more than is configured, and what was saved up.
    #[test]
    fn copies_take_no_more_than_is_configured(
        rate in 1_000..10_000_000u64,
        steps in prop::collection::vec((0..50_000_000u64, 40..1500usize), 1..300),
    ) {
        let copies = ClassConfig { copies: rate, ..config("a", Match::default()) };
        let mut class = Class::new(copies);
        let (mut now, mut taken) = (0, 0);
        let start = now;
        for (step, bytes) in steps {
            now += step;
            if class.takes_copies(Time::from_nanos(now), bytes) {
                taken += bytes;
            }
        }
        let saved = (rate as f64 / 4.0).max(LEAST_SAVED);
        let most = saved + rate as f64 * (now - start) as f64 / 1e9 + 1.0;
        prop_assert!(taken as f64 <= most, "{taken} of {most}");
    }

    /// Whatever the bytes, a packet has one class or none.
    #[test]
    fn any_packet_can_be_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 40..120), v6: bool) {
        bytes[0] = if v6 { 0x60 } else { 0x45 };
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut classes = Classes::default();
            classes.set(&[config("a", ports(&[0..=u16::MAX])), config("b", Match::default())]);
            prop_assert!(classes.of(&packet).is_some());
        }
    }
}

#[test]
fn a_sparing_class_goes_over_its_own_paths_when_all_of_them_are_silent_and_not_over_others() {
    let paths = Adaptive::new(&crate::send::scheduler::law::Law::LAW);
    for (policy, allowed) in [
        (ClassPolicy::Sparing, 0b011),
        (ClassPolicy::Adaptive, 0b100),
    ] {
        let mut class = Class::new(ClassConfig {
            paths: PathSet::from_bits(0b011),
            policy,
            ..ClassConfig::default()
        });
        let mut of = |trusted| {
            let [trusted, usable] = [trusted, 0b111].map(PathSet::from_bits);
            class.allowed(trusted, usable, &paths).bits()
        };
        assert_eq!((of(0b100), of(0b101)), (allowed, 0b001), "{policy:?}");
    }
}

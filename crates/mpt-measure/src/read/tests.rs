//! What a reader makes of captures that these tests write.

use super::super::capture::tests::pcap;
use super::super::frame::LinkType;
use super::super::frame::tests::udp;
use super::super::stamp::Plan;
use super::*;
use mpt_core::metrics::Form;
use mpt_core::seq::Seq;
use mpt_core::wire::gre::Header;
use std::io::Cursor;

fn wanted() -> Wanted {
    Wanted {
        ports: vec![4754],
        from: Vec::new(),
        metrics: Metrics {
            displacement_threshold: 200,
            occupancy_threshold: 200,
            form: Form::Corrected,
        },
    }
}

/// A GRE packet with an IPv4 packet of 28 bytes inside.
fn gre_packet(number: u32, key: Option<u32>) -> Vec<u8> {
    let header = Header {
        key,
        sequence: Some(Seq::new(number)),
        protocol: Protocol::Ipv4,
    };
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    let mut inner = [0; 28];
    inner[0] = 0x45;
    inner[3] = 28;
    bytes.extend(inner);
    bytes
}

fn report(packets: &[Vec<u8>], wanted: Wanted) -> Report {
    let packets: Vec<_> = (0..)
        .map(|n| n * 1000)
        .zip(packets.iter().cloned())
        .collect();
    read(
        "test".into(),
        Cursor::new(pcap(101, &packets, false)),
        wanted,
    )
    .unwrap()
}

fn of_path(path: u8, number: u32) -> Vec<u8> {
    udp(path, (4754, 4754), &gre_packet(number, None))
}

#[test]
fn paths_are_streams_of_their_own_and_together_as_asked() {
    let packets: Vec<_> = [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3), (0, 5)]
        .map(|(path, number)| of_path(path, number))
        .into();
    let apart = report(&packets, wanted());
    let reordered = |report: &Report| -> Vec<u64> {
        report
            .streams
            .iter()
            .map(|s| s.order.reordering.reordered)
            .collect()
    };
    assert_eq!(apart.streams[0].name, "GRE 10.1.0.1 → 10.1.0.2");
    assert_eq!(reordered(&apart), [0, 0]);
    let from = vec!["10.1.0.1".parse().unwrap(), "10.1.1.1".parse().unwrap()];
    let together = report(&packets, Wanted { from, ..wanted() });
    assert_eq!(reordered(&together), [2]);
    assert_eq!(together.streams[0].received, 6);
}

/// A host's clock is set back by a minute after a second, and two more seconds follow.
#[test]
fn a_clock_that_is_set_back_leaves_the_time_that_passed_and_a_note() {
    let seconds = [100, 101, 41, 42, 43];
    let packets = (0..).zip(seconds);
    let packets = packets.map(|(number, second)| (second * 1_000_000_000, of_path(0, number)));
    let file = pcap(101, &packets.collect::<Vec<_>>(), false);
    let report = read("test".into(), Cursor::new(file), wanted()).unwrap();
    let stream = &report.streams[0];
    assert_eq!(
        (stream.seconds, stream.received_pps),
        (3.0, Some(4.0 / 3.0))
    );
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    let what = "step back within a stream, once, by up to 60.0 s";
    assert!(report.notes[0].contains(what), "{:?}", report.notes);
}

#[test]
fn ports_are_found_by_what_goes_to_them() {
    // A client behind NAT and a server with a port for each path, and other traffic beside.
    let packets = [
        udp(0, (40_001, 4755), &gre_packet(0, None)),
        udp(1, (4755, 40_001), &gre_packet(0, Some(7))),
        udp(2, (53, 5353), &[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        udp(3, (443, 50_000), &[0x40; 60]),
    ];
    let found = report(
        &packets,
        Wanted {
            ports: vec![],
            ..wanted()
        },
    );
    let names: Vec<&str> = found.streams.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        ["GRE 10.1.0.1 → 10.1.0.2", "GRE 10.1.1.1 → 10.1.1.2, key 7"]
    );
    assert_eq!((found.ignored.strangers, found.ignored.malformed), (2, 0));
    assert!(report(&packets, wanted()).streams.is_empty());
}

#[test]
fn directions_and_keys_are_told_apart() {
    let back = etherparse::PacketBuilder::ipv4([10, 1, 0, 2], [10, 1, 0, 1], 64);
    let mut reverse = Vec::new();
    back.udp(4754, 4754)
        .write(&mut reverse, &gre_packet(9, None))
        .unwrap();
    let keyed = udp(0, (4754, 4754), &gre_packet(9, Some(7)));
    let report = report(&[of_path(0, 0), reverse, keyed], wanted());
    let names: Vec<&str> = report.streams.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "GRE 10.1.0.1 → 10.1.0.2",
            "GRE 10.1.0.2 → 10.1.0.1",
            "GRE 10.1.0.1 → 10.1.0.2, key 7"
        ]
    );
}

#[test]
fn a_sealed_control_message_is_none_of_the_packets_that_lack_a_number() {
    let header = Header {
        protocol: Protocol::Sealed,
        key: Some(6),
        sequence: None,
    };
    let mut message = vec![0; 80];
    header.emit(&mut message);
    let report = report(&[udp(0, (4754, 4754), &message)], wanted());
    let unnumbered = |note: &String| note.contains("no sequence number");
    assert!(!report.notes.iter().any(unnumbered), "{:?}", report.notes);
}

#[test]
fn a_train_is_cut_into_its_packets() {
    let train: Vec<u8> = (0..10).flat_map(|n| gre_packet(n, None)).collect();
    let report = report(&[udp(0, (4754, 4754), &train)], wanted());
    let stream = &report.streams[0];
    assert_eq!((stream.received, stream.payload_bytes), (10, 280));
}

#[test]
fn a_train_behind_the_snap_length_is_missing_and_not_malformed() {
    let train: Vec<u8> = (0..10).flat_map(|n| gre_packet(n, None)).collect();
    let mut frame = udp(0, (4754, 4754), &train);
    // IPv4 and UDP, two packets of 36 bytes, and a piece of the third.
    frame.truncate(28 + 2 * 36 + 7);
    let report = report(&[frame], wanted());
    assert_eq!(report.streams[0].received, 2);
    assert_eq!(report.ignored.malformed, 0);
    assert!(
        report.notes[0].contains("8 packets behind it"),
        "{report:?}"
    );
}

#[test]
fn a_restart_is_no_reordering() {
    let packets: Vec<_> = (1_000_000..1_000_100)
        .chain(0..100)
        .map(|number| of_path(0, number))
        .collect();
    let report = report(&packets, wanted());
    let stream = &report.streams[0];
    assert_eq!(
        (stream.received, stream.restarts, stream.strays),
        (200, 1, 0)
    );
    assert_eq!(stream.order.reordering.reordered, 0);
    assert_eq!(stream.order.density.mean_displacement, 0.0);
}

#[test]
fn own_streams_are_found_on_any_port() {
    let packet = |kind, number| {
        let stamp = Stamp {
            kind,
            stream: 0xabc,
            number,
            plan: Plan {
                count: 3,
                frame_bytes: 82,
                rate_pps: 1_000_000,
            },
            sent_ns: u64::from(number) * 1000,
        };
        udp(3, (999, 998), &stamp.bytes())
    };
    let packets = [
        (Kind::Data, 0),
        (Kind::Data, 2),
        (Kind::Data, 1),
        (Kind::End, 3),
    ];
    let report = report(
        &packets.map(|(kind, number)| packet(kind, number)),
        wanted(),
    );
    let stream = &report.streams[0];
    assert_eq!(stream.name, "measurement 0000000000000abc");
    assert_eq!((stream.sent, stream.lost), (Some(3), Some(0)));
    assert_eq!(stream.delay.as_ref().unwrap().pdv_ns.max, 2000);
}

#[test]
fn an_empty_capture_and_an_unread_link_are_said_to_be_so() {
    let empty = report(&[], wanted());
    assert_eq!(empty.ended, "read to its end, 0 frames");
    assert!(empty.notes[0].starts_with("no numbered GRE to UDP port 4754"));
    let wifi = pcap(105, &[(0, vec![0; 60])], true);
    let report = read("test".into(), Cursor::new(wifi), wanted()).unwrap();
    assert_eq!(
        report.ignored.frames[0].why,
        "of link type 105, which is not read"
    );
    assert!(report.notes[0].contains("link type 105"));
}

#[test]
fn many_tunnels_take_no_more_memory_than_a_few() {
    let packets: Vec<_> = (0..=255).map(|path| of_path(path, 0)).collect();
    let report = report(&packets, wanted());
    assert_eq!(report.streams.len(), STREAMS);
    assert_eq!(report.ignored.other_packets, 256 - STREAMS as u64);
}

proptest::proptest! {
    #[test]
    fn any_datagram_is_read_without_harm(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100),
        start in 0..3,
    ) {
        let mut payload = match start {
            0 => Vec::new(),
            1 => vec![0x10, 0, 8, 0],
            _ => gre_packet(1, None),
        };
        payload.extend(bytes);
        let _ = report(&[udp(0, (4754, 4754), &payload)], wanted());
    }
}

#[test]
fn a_capture_of_countless_link_types_does_not_fill_the_report() {
    let mut reading = Reading::new(wanted());
    for number in 1000..3000 {
        reading.take(&Frame {
            link: LinkType::new(number),
            at_ns: 0,
            bytes: &[],
        });
    }
    let report = reading.report("test".into(), String::new());
    let frames = &report.ignored.frames;
    assert!(frames.len() <= SKIPS + 1, "{}", frames.len());
    assert_eq!(frames.iter().map(|unread| unread.frames).sum::<u64>(), 2000);
    assert!(report.notes.len() <= SKIPS + 2, "{}", report.notes.len());
}

//! docs/protocol.md says what the codecs do: its dumps parse to what their notes say, byte by byte,
//! and its table of the control message is whole.

#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]

use arrayvec::ArrayVec;
use mpt_core::crypto::{COOKIE_REPLY_BYTES, INITIATION_BYTES, RESPONSE_BYTES};
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::checksum::Sum;
use mpt_core::wire::edges::{Edge, Edges};
use mpt_core::wire::gre::{self, Header, Protocol};
use mpt_core::wire::ip::{Packet, Version};
use mpt_core::wire::probe::{Echo, MESSAGE_BYTES, Message};
use mpt_core::wire::report::{PathReport, Report};

const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// docs/protocol.md.
fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    std::fs::read_to_string(path).unwrap()
}

/// The bytes of the dump with this name: lines of an offset, two spaces, bytes, two spaces, a note.
fn dump(name: &str) -> Vec<u8> {
    let document = document();
    let (_, rest) = document.split_once(&format!("\n```text {name}\n")).unwrap();
    let mut bytes = Vec::new();
    for line in rest.lines().take_while(|line| *line != "```") {
        let mut columns = line.splitn(3, "  ");
        let offset = usize::from_str_radix(columns.next().unwrap(), 16).unwrap();
        assert_eq!(offset, bytes.len(), "{line}");
        let column = columns.next().unwrap().split(' ');
        bytes.extend(column.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
        assert!(
            columns.next().is_some_and(|note| !note.is_empty()),
            "{line}"
        );
    }
    bytes
}

/// The GRE packet in an outer IPv4 packet, whose headers are checked on the way.
fn gre_of(outer: &[u8]) -> &[u8] {
    let packet = Packet::parse(outer).unwrap();
    assert_eq!(packet.version(), Version::V4);
    assert_eq!(packet.total_len(), outer.len());
    assert!(packet.dont_fragment());
    assert!(packet.header_is_intact(), "header checksum");

    let datagram = &outer[IPV4_HEADER..];
    assert_eq!(
        datagram[0..4],
        [0x12, 0x92, 0x12, 0x92],
        "port 4754 both ways"
    );
    let len = u16::from_be_bytes([datagram[4], datagram[5]]);
    assert_eq!(usize::from(len), datagram.len());
    let pseudo_header = [&outer[12..20], &[0, UDP], &len.to_be_bytes()].concat();
    let summed = [&pseudo_header, datagram].concat();
    assert!(Sum::of(&summed).is_intact(), "UDP checksum");
    &datagram[UDP_HEADER..]
}

#[test]
fn the_data_packet_is_what_its_notes_say() {
    let outer = dump("data");
    let gre_packet = gre_of(&outer);
    let (header, start) = gre::parse(gre_packet, None).unwrap();
    let expected = Header {
        key: None,
        sequence: Some(Seq::new(1)),
        protocol: Protocol::Ipv4,
    };
    assert_eq!(header, expected);
    let mut emitted = [0; gre::MAX_SENT_BYTES];
    assert_eq!(header.emit(&mut emitted), start);
    assert_eq!(emitted[..start], gre_packet[..start]);

    let inner = Packet::parse(&gre_packet[start..]).unwrap();
    assert_eq!(inner.total_len(), gre_packet.len() - start);
    assert!(inner.header_is_intact());
    assert_eq!(inner.source().to_string(), "10.99.0.1");
    assert_eq!(inner.destination().to_string(), "10.99.0.2");
    assert_eq!(inner.tos(), 2, "ECT(0)");
    assert_eq!(outer[1], inner.tos());
    assert!(Sum::of(inner.payload()).is_intact(), "ICMP checksum");
}

#[test]
fn the_control_message_is_what_its_notes_say() {
    let outer = dump("control");
    let gre_packet = gre_of(&outer);
    let (header, start) = gre::parse(gre_packet, None).unwrap();
    assert_eq!(header.protocol, Protocol::Control);
    assert_eq!((header.sequence, start), (None, 4));

    let body = &gre_packet[start..];
    let message = Message::parse(body).unwrap();
    let expected = Message {
        reply_wanted: true,
        out_of_service: false,
        reports_wanted: false,
        resends: false,
        may_move: false,
        path: 0,
        number: 2,
        session: 0xd1eb_8d1b_e137_1126,
        sent: Time::from_nanos(0x0674_26fe_db37),
        tx_packets: 2,
        tx_bytes: 192,
        next_seq: Seq::FIRST,
        echo: Some(Echo {
            number: 1,
            session: 0x66e9_f076_9d84_8c30,
            sent: Time::from_nanos(0x0674_26fd_17ae),
            received: Time::from_nanos(0x0674_26fe_db37),
        }),
        rx_packets: 1,
        rx_bytes: 96,
        loss_ppm: 0,
    };
    assert_eq!(message, expected);
    let mut emitted = [0; MESSAGE_BYTES];
    message.emit(&mut emitted);
    assert_eq!(emitted, body);
}

/// The rows of the first table behind `heading` whose first cell is bytes, "5" or "4–7".
fn byte_rows(heading: &str) -> Vec<(usize, usize)> {
    let document = document();
    let (_, rest) = document.split_once(heading).unwrap();
    let rows = rest.lines().skip_while(|line| !line.starts_with("|---"));
    rows.skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cell = line.trim_start_matches('|').split('|').next().unwrap();
            let (from, to) = cell
                .trim()
                .split_once('–')
                .unwrap_or((cell.trim(), cell.trim()));
            (from.parse().unwrap(), to.parse().unwrap())
        })
        .collect()
}

#[test]
fn the_tables_of_control_messages_leave_no_byte_out() {
    let report = Report {
        number: 1,
        session: 1,
        about: 1,
        sent: Time::ZERO,
        next: Seq::FIRST,
        high: Seq::FIRST,
        paths: ArrayVec::new(),
        missing: ArrayVec::new(),
        duplicates: ArrayVec::new(),
    };
    let head = report.buffer_len();
    let path = PathReport {
        path: 0,
        edge: Seq::FIRST,
        edge_arrived: Time::ZERO,
        packets: 0,
        bytes: 0,
    };
    let with_a_path = Report {
        paths: std::iter::once(path).collect(),
        ..report
    };
    let edges = Edges {
        next: Seq::FIRST,
        session: 1,
        about: 1,
        paths: ArrayVec::new(),
    };
    let with_an_edge = Edges {
        paths: std::iter::once(Edge {
            path: 0,
            last: None,
            suspected: false,
        })
        .collect(),
        ..edges.clone()
    };
    for (heading, len) in [
        ("\n## Control messages\n", MESSAGE_BYTES),
        ("\n## Reports\n", head),
        ("\nA path entry:\n", with_a_path.buffer_len() - head),
        ("\n## Edges\n", edges.buffer_len()),
        (
            "\nAn edge:\n",
            with_an_edge.buffer_len() - edges.buffer_len(),
        ),
        ("\n#### Initiation\n", INITIATION_BYTES),
        ("\nIts payload:\n", 36),
        ("\n#### Response\n", RESPONSE_BYTES),
        ("\n#### Cookie reply\n", COOKIE_REPLY_BYTES),
    ] {
        let mut next = 0;
        for (from, to) in byte_rows(heading) {
            assert_eq!(from, next, "{heading}");
            next = to + 1;
        }
        assert_eq!(next, len, "{heading}");
    }
}

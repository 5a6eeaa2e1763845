//! What must hold of each parser: any bytes are understood or refused, and what was understood says the
//! same when it is written and read again.

use std::num::NonZeroU16;

use mpt_core::control::{Reply, Request};
use mpt_core::crypto::{PresharedKey, PrivateKey, PublicKey, claimed_route};
use mpt_core::send::segment::Segments;
use mpt_core::wire::checksum::Sum;
use mpt_core::wire::edges::{Edges, MAX_EDGES_BYTES};
use mpt_core::wire::fragment::fragment;
use mpt_core::wire::ip::{Packet, PacketMut};
use mpt_core::wire::probe::{MESSAGE_BYTES, Message, PROOF_BYTES, Proof};
use mpt_core::wire::report::{MAX_REPORT_BYTES, Report};
use mpt_core::wire::vnet::{Checksum, Gso, VnetHeader};
use mpt_core::wire::{ecn, gre, icmp, mss};

const LONGEST_PACKET: usize = 65_535 + 40;

/// All of them, each on the same bytes.
pub(crate) fn all(bytes: &[u8]) {
    for key in [None, Some(7)] {
        header(bytes, key);
    }
    message(bytes);
    proof(bytes);
    let _ = claimed_route(bytes);
    report(bytes);
    edges(bytes);
    packet(bytes);
    super_packet(bytes);
    text(bytes);
    assert_eq!(Sum::of(bytes).folded(), Sum::of(bytes).folded());
}

fn header(bytes: &[u8], key: Option<u32>) {
    if let Ok((header, offset)) = gre::parse(bytes, key) {
        assert!(offset <= bytes.len());
        let mut written = [0; 12];
        let len = header.emit(&mut written);
        assert_eq!(gre::parse(&written[..len], key), Ok((header, len)));
    }
}

fn message(bytes: &[u8]) {
    if let Ok(message) = Message::parse(bytes) {
        let mut written = [0; MESSAGE_BYTES];
        message.emit(&mut written);
        assert_eq!(Message::parse(&written), Ok(message));
    }
}

fn proof(bytes: &[u8]) {
    if let Some(proof) = Proof::parse(bytes) {
        let mut written = bytes.to_vec();
        let place = &mut written[MESSAGE_BYTES..][..PROOF_BYTES];
        proof.emit(place.try_into().expect("a proof was there"));
        assert_eq!(written, bytes);
    }
}

fn report(bytes: &[u8]) {
    if let Ok(report) = Report::parse(bytes) {
        let mut written = [0; MAX_REPORT_BYTES];
        let len = report.emit(&mut written);
        assert_eq!(len, report.buffer_len());
        assert_eq!(Report::parse(&written[..len]), Ok(report));
    }
}

fn edges(bytes: &[u8]) {
    if let Ok(edges) = Edges::parse(bytes) {
        let mut written = [0; MAX_EDGES_BYTES];
        edges.emit(&mut written);
        assert_eq!(Edges::parse(&written[..edges.buffer_len()]), Ok(edges));
    }
}

/// The first two bytes are an MTU.
fn packet(bytes: &[u8]) {
    let Some((mtu, bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let mtu = u16::from_be_bytes(*mtu);
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    assert!(packet.header_len() <= packet.total_len() && packet.total_len() <= bytes.len());
    if let Ok(transport) = packet.transport() {
        assert!(transport.offset <= packet.total_len());
    }
    let (mut carried, mut pieces) = (0, 0);
    let cut = fragment(&packet, mtu.into(), |head, payload| {
        assert!(
            pieces == 0 && packet.total_len() <= mtu.into()
                || head.len() + payload.len() <= mtu.into()
        );
        carried += payload.len();
        pieces += 1;
    });
    match cut {
        Ok(count) => assert_eq!((count, carried), (pieces, packet.payload().len())),
        Err(_) => assert_eq!(pieces, 0),
    }
    let mut told = [0; icmp::MAX_LEN];
    if let Some(len) = icmp::too_big(&packet, mtu, None, &mut told) {
        let answer = Packet::parse(&told[..len]).expect("an answer is a packet");
        assert!(answer.header_is_intact());
        assert!(
            icmp::too_big(&answer, 0, None, &mut [0; icmp::MAX_LEN]).is_none(),
            "errors beget none"
        );
    }
    let mut changed = bytes.to_vec();
    mss::clamp(&mut changed, mtu, false);
    assert_eq!(changed.len(), bytes.len());
    let _ = ecn::inner_after(mtu as u8, packet.tos());
    if let Ok(mut packet) = PacketMut::parse(&mut changed) {
        packet.set_tos(mtu as u8);
    }
    assert_eq!(
        Packet::parse(&changed).map(|packet| packet.tos()),
        Ok(mtu as u8)
    );
}

/// A super-packet as the kernel would hand it over; its header may be any.
fn super_packet(bytes: &[u8]) {
    let Some((mtu, bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let mtu = usize::from(u16::from_be_bytes(*mtu));
    let Ok((stated, packet)) = VnetHeader::parse(bytes) else {
        return;
    };
    assert_eq!(
        VnetHeader::parse(&[&stated.to_bytes(), packet].concat()).map(|(header, _)| header),
        Ok(VnetHeader {
            headers_len: 0,
            ..stated
        })
    );
    let _ = stated.complete_checksum(&mut packet.to_vec());
    let size = NonZeroU16::new(mtu as u16 % 100).unwrap_or(NonZeroU16::MIN);
    let partial = VnetHeader {
        gso: Gso::Udp { size },
        checksum: Checksum::Partial {
            start: 20,
            offset: 6,
        },
        headers_len: 0,
    };
    for header in [stated, partial] {
        let Ok(mut segments) = Segments::new(&header, packet, mtu) else {
            continue;
        };
        let mut out = vec![0; LONGEST_PACKET];
        let mut count = 0;
        while segments.remaining() > 0 {
            let len = segments.write_next(&mut out);
            assert!(len <= mtu, "{len} where {mtu} is the most");
            Packet::parse(&out[..len]).expect("a segment is a packet");
            count += 1;
        }
        assert_eq!(count, segments.segments());
    }
}

/// What comes as text: requests and replies of the control socket, keys.
fn text(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Reply>(bytes);
    if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
        let again = serde_json::to_vec(&request).expect("a request can be written");
        assert_eq!(
            serde_json::from_slice::<Request>(&again).ok(),
            Some(request)
        );
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(key) = PrivateKey::from_base64(text) {
        assert_eq!(key.to_base64().trim(), text.trim());
    }
    let _ = PresharedKey::from_base64(text);
    let _ = PublicKey::from_base64(text);
}

//! What must hold whatever comes: a damaged capture, a receiver's port that anybody may send to.
//!
//! Two properties, each a function of any bytes. The fuzz targets in fuzz/ search for bytes that
//! break them; `cargo test` tries them on what is in fuzz/corpus.

use std::io::Cursor;
use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::metrics::Form;

use super::capture::CaptureError;
use super::numbering::Numbering;
use super::read::{self, Wanted};
use super::report::Report;
use super::session::{Ending, Patience, Received, Session};
use super::stream::Metrics;
use super::two_way::packet;

const METRICS: Metrics = Metrics {
    displacement_threshold: 20,
    occupancy_threshold: 20,
    form: Form::Corrected,
};

/// Any bytes, read as a capture file, are a report that makes sense or a reason.
pub(crate) fn capture(bytes: &[u8]) {
    for from in [vec![], vec!["10.1.0.1".parse(), "10.1.1.1".parse()]] {
        let wanted = Wanted {
            ports: vec![4754],
            from: from.into_iter().flatten().collect(),
            metrics: METRICS,
        };
        match read::read("any".into(), Cursor::new(bytes.to_vec()), wanted) {
            Ok(report) => makes_sense(&report),
            Err(
                CaptureError::Empty
                | CaptureError::Compressed
                | CaptureError::Format
                | CaptureError::CutOff(0)
                | CaptureError::Damaged(0),
            ) => {}
            Err(error) => panic!("{error:?} before the first frame"),
        }
    }
}

/// Any packets, at any times, are a report that makes sense. Of `bytes` each packet takes a header:
/// its length, the time since the last one as a power of two of nanoseconds, sender, and number in
/// ICMP's header. As a test packet of STAMP they are answered with as many.
pub(crate) fn receiver(bytes: &[u8]) {
    let mut answer = bytes.to_vec();
    let known = (packet::session_of(bytes), packet::reply(bytes));
    assert_eq!(known.0.is_some(), known.1.is_some());
    packet::reflect(&mut answer, 0, 0, 0);
    assert_eq!(answer.len(), bytes.len());
    for numbering in [Numbering::Udp, Numbering::IcmpRequest] {
        let patience = Patience {
            idle: Duration::from_secs(10),
            first: Some(Duration::from_secs(60)),
        };
        let mut now_ns = 1_800_000_000_000_000_000u64;
        let mut session = Session::new(numbering, METRICS, patience, now_ns);
        let mut ending = Ending::Interrupted;
        let mut rest = bytes;
        while let Some((header, behind)) = rest.split_first_chunk::<5>() {
            let [length, pause, sender, high, low] = *header;
            let (payload, behind) = behind.split_at(usize::from(length).min(behind.len()));
            rest = behind;
            now_ns = now_ns.saturating_add(1 << (pause & 63));
            let echo_number = match numbering {
                Numbering::IcmpRequest => Some(u16::from_be_bytes([high, low])),
                Numbering::Udp
                | Numbering::IcmpReply
                | Numbering::StampThere
                | Numbering::StampBack
                | Numbering::Gre => None,
            };
            let received = Received {
                from: SocketAddr::from(([10, 0, 0, sender], 4000)),
                echo_number,
                payload,
            };
            session.take(&received, now_ns);
            assert!((0.0..=1.0).contains(&session.progress()));
            if let Some(over) = session.ended(now_ns) {
                ending = over;
                break;
            }
        }
        makes_sense(&session.report("any".into(), ending, 0));
    }
}

/// The forms of a report hold no NaN, and its numbers do not contradict each other.
fn makes_sense(report: &Report) {
    let (json, csv) = (report.json(), report.csv());
    // serde_json writes what is no number as null.
    for wild in ["NaN", "null", ": inf", ",inf"] {
        assert!(
            !json.contains(wild) && !csv.contains(wild),
            "{wild}: {json}"
        );
    }
    assert!(json.len() > 2, "the report has a JSON form");
    for stream in &report.streams {
        let reordering = &stream.order.reordering;
        assert!(reordering.reordered <= reordering.received, "{json}");
        assert_eq!(
            reordering.arrivals,
            reordering.received + reordering.duplicates,
            "{json}"
        );
        let density: f64 = stream.order.density.density().map(|(_, share)| share).sum();
        assert!(density == 0.0 || (density - 1.0).abs() < 1e-9, "{json}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Tries `property` on every file of a corpus.
    fn replay(name: &str, property: fn(&[u8])) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let mut files = 0;
        for entry in std::fs::read_dir(root.join(name)).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            property(&std::fs::read(path).unwrap());
            files += 1;
        }
        assert!(files > 0, "an empty corpus tests nothing");
    }

    #[test]
    fn the_corpus_of_captures_does_no_harm() {
        replay("measure_capture", capture);
    }

    #[test]
    fn the_corpus_of_received_packets_does_no_harm() {
        replay("measure_receiver", receiver);
    }
}

//! Receiver reports, as the sender that asked for them sees them.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpt_core::control::drops::DropReason;
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::gre::{self, Protocol};
use mpt_core::wire::kind::Kind;
use mpt_core::wire::report::{MAX_REPORT_BYTES, Report};
use mpt_sim::packet::Inner;
use mpt_sim::pair::{Pair, PairConfig, PathSpec, Side, Wire};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A fast and a slow path; the first end asks for reports, as both do.
fn asking() -> PairConfig {
    let mut config = PairConfig::new([PathSpec::symmetric(100, 5), PathSpec::symmetric(50, 30)]);
    config.recovery = true;
    config
}

/// So many packets from A, one each `gap`.
fn stream(pair: &mut Pair, ids: std::ops::Range<u64>, gap: Duration) {
    for id in ids {
        pair.send(Side::A, Inner::of_len(1400).packet(id));
        pair.run_for(gap);
    }
}

/// The sequence number of a data packet.
fn number(wire: &Wire) -> Option<u32> {
    let (header, _) = gre::parse(&wire.bytes, None).ok()?;
    Some(header.sequence?.value())
}

fn report(wire: &Wire) -> Option<Report> {
    let (header, start) = gre::parse(&wire.bytes, None).ok()?;
    let payload = &wire.bytes[start..];
    (header.protocol == Protocol::Control && Kind::of(payload) == Ok(Kind::Report))
        .then(|| Report::parse(payload).unwrap())
}

#[test]
fn reports_tell_edges_counts_and_what_is_missing() {
    let mut pair = Pair::running(asking(), SECOND);
    pair.record();
    pair.on_the_way(|from, wire| {
        let lost = matches!(number(wire), Some(100 | 101 | 150));
        from == Side::B || !lost
    });
    stream(&mut pair, 0..200, MS / 2);
    let sent = pair.recorded();
    // What is missing then is still missing at the end of the stream.
    let reports = pair.reports(Side::A);
    let (_, during) = reports
        .iter()
        .rev()
        .find(|(_, report)| report.missing.iter().any(|gap| gap.first == Seq::new(150)))
        .unwrap();
    assert!(during.next.distance_from(Seq::new(150)) <= 0);
    pair.run_for(250 * MS);
    let (_, last) = pair.reports(Side::A).pop().unwrap();
    assert_eq!((last.high, last.next), (Seq::new(200), Seq::new(200)));
    assert!(last.missing.is_empty());
    for path in &last.paths {
        let there = |&&(from, ref wire): &&(Side, Wire)| {
            from == Side::A && wire.path.index() == usize::from(path.path) && number(wire).is_some()
        };
        let arrived: Vec<_> = sent.iter().filter(there).collect();
        assert_eq!(path.packets, arrived.len() as u64);
        let bytes: usize = arrived.iter().map(|(_, wire)| wire.bytes.len()).sum();
        assert_eq!(path.bytes, bytes as u64);
        assert_eq!(
            Some(path.edge.value()),
            number(&arrived.last().unwrap().1),
            "path {}",
            path.path
        );
    }
    assert_eq!(last.paths.len(), 2);
}

#[test]
fn a_loss_is_reported_within_two_milliseconds_of_its_inference() {
    let mut config = asking();
    config.paths.truncate(1);
    let mut pair = Pair::running(config, SECOND);
    pair.on_the_way(|_, wire| number(wire) != Some(1000));
    stream(&mut pair, 0..1000, MS / 2);
    let lost_at = pair.now();
    stream(&mut pair, 1000..1100, MS / 2);
    let told = pair.reports(Side::A).into_iter().find(|(_, report)| {
        let missing = report.missing.iter().any(|gap| gap.first == Seq::new(1000));
        missing || report.next.is_after(Seq::new(1000))
    });
    // Half a millisecond to the next packet, 10 ms of path, and what the links take for the bytes.
    let after = told.unwrap().0.since(lost_at);
    assert!(after < 13 * MS, "{after:?}");
}

#[test]
fn reports_are_a_hundredth_of_what_arrives_and_a_burst_or_25_a_second() {
    for gap in [MS / 10, MS, 20 * MS] {
        let mut pair = Pair::running(asking(), SECOND);
        pair.record();
        stream(&mut pair, 0..5000, gap);
        let recorded = pair.recorded();
        let bytes = |from, what: fn(&Wire) -> bool| -> usize {
            let of = recorded
                .iter()
                .filter(|(side, wire)| *side == from && what(wire));
            of.map(|(_, wire)| wire.bytes.len()).sum()
        };
        let data = bytes(Side::A, |wire| number(wire).is_some());
        let reports = bytes(Side::B, |wire| report(wire).is_some());
        assert!(
            reports > data / 250,
            "{gap:?}: {reports} bytes for {data} of data"
        );
        // Beyond that no more than 25 a second, of two paths and a few gaps.
        let spared = (gap * 5000).as_millis() as usize / 40 * 140;
        assert!(
            reports <= data / 125 + 14_000 + spared,
            "{gap:?}: {reports} bytes for {data} of data"
        );
        let told = pair.end(Side::B).status().recovery.report_bytes;
        assert_eq!(told, reports as u64, "{gap:?}");
    }
}

#[test]
fn after_the_last_packet_one_more_report_comes_and_then_none() {
    let mut pair = Pair::running(asking(), SECOND);
    stream(&mut pair, 0..100, MS);
    pair.run_for(5 * SECOND);
    let reports = pair.reports(Side::A);
    let last_packet = Time::ZERO + SECOND + 99 * MS;
    let (at, last) = &reports[reports.len() - 1];
    assert!(at.since(last_packet) < 60 * MS, "{at:?}");
    let (_, before) = &reports[reports.len() - 2];
    assert_eq!((last.high, before.high), (Seq::new(100), Seq::new(100)));
    assert_eq!(pair.reports(Side::B), []);
}

#[test]
fn a_peer_that_does_not_ask_gets_none() {
    let mut config = asking();
    config.recovery = false;
    let mut pair = Pair::running(config, SECOND);
    pair.record();
    stream(&mut pair, 0..1000, MS);
    assert!(
        pair.recorded()
            .iter()
            .all(|(_, wire)| report(wire).is_none())
    );
}

#[test]
fn what_came_twice_is_told() {
    let mut pair = Pair::running(asking(), SECOND);
    pair.record();
    stream(&mut pair, 0..100, MS / 2);
    pair.run_for(100 * MS);
    let copy = pair
        .recorded()
        .into_iter()
        .find(|(_, wire)| number(wire) == Some(50));
    pair.reports(Side::A);
    pair.inject_as_peer(Side::B, &copy.unwrap().1);
    pair.run_for(100 * MS);
    let told: Vec<_> = pair
        .reports(Side::A)
        .into_iter()
        .flat_map(|(_, report)| report.duplicates)
        .collect();
    assert_eq!(told, [Seq::new(50), Seq::new(50)]);
}

#[test]
fn stale_and_strange_reports_are_refused_and_counted() {
    let mut pair = Pair::running(asking(), SECOND);
    pair.record();
    stream(&mut pair, 0..100, MS);
    pair.run_for(100 * MS);
    let (_, wire) = pair
        .recorded()
        .into_iter()
        .rfind(|(_, wire)| report(wire).is_some())
        .unwrap();
    pair.reports(Side::A);
    let genuine = report(&wire).unwrap();
    let next = Report {
        number: genuine.number + 1,
        ..genuine.clone()
    };
    let others = [
        genuine.clone(),
        Report {
            number: genuine.number - 5,
            ..genuine
        },
        Report {
            session: 5,
            ..next.clone()
        },
        Report {
            about: 5,
            ..next.clone()
        },
    ];
    let send = |pair: &mut Pair, report: &Report| {
        let mut bytes = vec![0; 4 + MAX_REPORT_BYTES];
        let header = gre::Header {
            key: None,
            sequence: None,
            protocol: Protocol::Control,
        };
        let start = header.emit(&mut bytes);
        let len = report.emit(&mut bytes[start..]);
        bytes.truncate(start + len);
        let wire = Wire {
            bytes,
            ..wire.clone()
        };
        pair.inject_as_peer(Side::A, &wire);
    };
    let stale = |pair: &Pair| pair.end(Side::A).dropped(DropReason::StaleControl);
    let before = stale(&pair);
    others.iter().for_each(|report| send(&mut pair, report));
    assert_eq!(stale(&pair), before + 4);
    assert_eq!(pair.reports(Side::A), []);
    send(&mut pair, &next);
    assert_eq!(pair.reports(Side::A).len(), 1);
    pair.inject_as_peer(
        Side::A,
        &Wire {
            bytes: wire.bytes[..40].to_vec(),
            ..wire.clone()
        },
    );
    assert_eq!(pair.end(Side::A).dropped(DropReason::BadControl), 1);
}

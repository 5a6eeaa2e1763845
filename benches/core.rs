//! What a packet costs in the core, in nanoseconds: `cargo bench -p mpt-core --bench core`.
//!
//! Aims: GRE parse and emit 5 ns, scheduling 10 ns, the reorder window 20 ns, a packet each.
//! Reordered packets take a second path that is 32 packets longer: they come late by so much and
//! keep their own order, as real paths do.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mpt_core::control::LatePolicy;
use mpt_core::path::{PathId, PathSet};
use mpt_core::receive::reorder::{Reorder, ReorderConfig, Verdict};
use mpt_core::send::scheduler::Weighted;
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::gre::{self, Header, Protocol};

/// Packets a turn: enough that the window, not the loop around it, is measured.
const PACKETS: u32 = 16_384;
/// How many packets longer the second path is.
const LATER: usize = 32;

fn path(index: usize) -> PathId {
    PathId::new(index).unwrap()
}

fn gre_codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("gre");
    group.throughput(Throughput::Elements(1));
    for (name, key) in [("parse_emit", None), ("parse_emit_key", Some(7))] {
        let mut datagram = [0u8; 64];
        let mut number = 0u32;
        group.bench_function(name, |b| {
            b.iter(|| {
                number = number.wrapping_add(1);
                let header = Header {
                    key,
                    sequence: Some(Seq::new(number)),
                    protocol: Protocol::Ipv4,
                };
                header.emit(black_box(&mut datagram));
                gre::parse(black_box(&datagram), key).unwrap()
            });
        });
    }
    group.finish();
}

fn scheduling(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedule");
    group.throughput(Throughput::Elements(1));
    for paths in [2, 4] {
        let mut scheduler = Weighted::default();
        let mut usable = PathSet::EMPTY;
        for index in 0..paths {
            scheduler.set_weight(path(index), 100 >> index);
            usable.insert(path(index));
        }
        let mut now = Time::ZERO;
        group.bench_function(format!("{paths}_paths"), |b| {
            b.iter(|| {
                now = now + Duration::from_micros(80);
                let (path, _) = scheduler
                    .pick(black_box(usable), black_box(1400), 1)
                    .unwrap();
                scheduler.took(now, path, 1400);
                path
            });
        });
    }
    group.finish();
}

/// Numbers 0 to [`PACKETS`] with their path in the order of arrival, `percent` of them late.
fn arrivals(percent: u32) -> Vec<(PathId, u32)> {
    let mut random = 1u64;
    let mut keyed: Vec<_> = (0..PACKETS)
        .map(|number| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // None in the last few, so that a turn ends with an empty window.
            let late = (random >> 33) as u32 % 100 < percent
                && (number as usize) < PACKETS as usize - 2 * LATER;
            let place = number as usize + if late { LATER } else { 0 };
            (place, path(usize::from(late)), number)
        })
        .collect();
    keyed.sort_by_key(|&(place, ..)| place);
    keyed
        .into_iter()
        .map(|(_, path, number)| (path, number))
        .collect()
}

fn reordering(c: &mut Criterion) {
    let mut group = c.benchmark_group("reorder");
    group.throughput(Throughput::Elements(u64::from(PACKETS)));
    for percent in [0, 5, 30] {
        let arrivals = arrivals(percent);
        let mut reorder = Reorder::new(
            ReorderConfig {
                window: 1024,
                grows_to: None,
                believed: 1024,
                max_buffer_delay: Duration::from_millis(300),
                late: LatePolicy::Deliver,
            },
            Seq::FIRST,
        );
        let mut both = PathSet::only(path(0));
        both.insert(path(1));
        reorder.wait_for(Time::ZERO, both, &mut |_: u64| ());
        let (mut base, mut delivered) = (0u32, 0u64);
        group.bench_function(format!("{percent}_percent"), |b| {
            b.iter(|| {
                for &(path, number) in &arrivals {
                    let seq = Seq::new(base.wrapping_add(number));
                    let now = Time::from_nanos(u64::from(base) * 1000);
                    let item = u64::from(number);
                    let out = &mut |item| delivered = delivered.wrapping_add(black_box(item));
                    let verdict = reorder.insert(now, path, seq, item, out);
                    debug_assert_eq!(verdict, Verdict::Taken);
                    let _ = black_box(verdict);
                }
                base = base.wrapping_add(PACKETS);
            });
        });
        let counters = reorder.counters();
        assert_eq!(counters.gaps_seen, counters.gaps_filled);
    }
    group.finish();
}

criterion_group! {
    name = core;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = gre_codec, scheduling, reordering
}
criterion_main!(core);

//! What order metrics cost a packet: at most 50 ns in order, with all families on.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mpt_core::metrics::{Measures, MeterConfig, OrderMeter, ReorderingMeter, RunMeter};

const PACKETS: u32 = 100_000;

/// Arrival orders of [`PACKETS`] packets.
fn streams() -> [(&'static str, Vec<u32>); 4] {
    let in_order: Vec<u32> = (0..PACKETS).collect();
    let mut pairs = in_order.clone();
    pairs.chunks_mut(10).for_each(|ten| ten.swap(4, 5));
    let mut blocks = in_order.clone();
    blocks
        .chunks_exact_mut(64)
        .for_each(|block| block.rotate_left(32));
    let lossy = in_order.iter().copied().filter(|n| n % 100 != 7).collect();
    [
        ("in order", in_order),
        ("1 in 10 swapped", pairs),
        ("blocks of 32 swapped", blocks),
        ("1 in 100 lost", lossy),
    ]
}

fn arrivals(c: &mut Criterion) {
    let mut group = c.benchmark_group("order meter");
    for (name, stream) in streams() {
        group.throughput(Throughput::Elements(stream.len() as u64));
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || OrderMeter::new(MeterConfig::default()),
                |meter| {
                    for (at, &number) in stream.iter().enumerate() {
                        black_box(meter.arrive(number, 1400, at as u64 * 10_000));
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// What the tunnel's three meters cost a packet: where packets arrive, on the path, where they leave.
/// Trains of two paths come in, the second path a few trains later than the first.
fn tunnel(c: &mut Criterion) {
    let mut group = c.benchmark_group("tunnel's meters");
    for (name, train, later) in [
        ("in order", 45, 0),
        ("trains of 45, 2 later", 45, 2),
        ("trains of 45, 40 later", 45, 40),
        ("trains of 8, 10 later", 8, 10),
        ("packets alone, 50 later", 1, 50),
    ] {
        let arrivals = two_paths(train, later);
        group.throughput(Throughput::Elements(arrivals.len() as u64));
        group.bench_function(name, |b| {
            let full = || RunMeter::new(OrderMeter::new(MeterConfig::default()));
            let path = || RunMeter::new(ReorderingMeter::new(&MeterConfig::default()));
            b.iter_batched_ref(
                || (full(), full(), [path(), path()]),
                |(arriving, leaving, paths)| {
                    for (at, &(path, number)) in (0u32..).zip(&arrivals) {
                        // A batch of four trains is received in one moment.
                        let now_ns = u64::from(at / (4 * train)) * 100_000;
                        paths[path].arrive(number, 1400, now_ns);
                        arriving.arrive(number, 1400, now_ns);
                        leaving.arrive(at, 1400, now_ns);
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Numbers with their path, in trains by turns, in order of arrival.
fn two_paths(train: u32, later: u32) -> Vec<(usize, u32)> {
    let mut keyed: Vec<_> = (0..PACKETS)
        .map(|number| {
            let path = number / train % 2;
            // Odd, so that a late train comes between two others.
            let place = 2 * (number / train) + path * (4 * later + u32::from(later > 0));
            (place, path as usize, number)
        })
        .collect();
    keyed.sort_by_key(|&(place, _, number)| (place, number));
    keyed
        .into_iter()
        .map(|(_, path, number)| (path, number))
        .collect()
}

fn snapshots(c: &mut Criterion) {
    let mut meter = OrderMeter::new(MeterConfig::default());
    let streams = streams();
    for (at, &number) in streams[2].1.iter().enumerate() {
        meter.arrive(number, 1400, at as u64 * 10_000);
    }
    c.bench_function("interval report", |b| {
        b.iter(|| {
            meter.end_interval();
            black_box(meter.last())
        })
    });
}

criterion_group!(benches, arrivals, tunnel, snapshots);
criterion_main!(benches);

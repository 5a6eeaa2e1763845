//! What order metrics cost a packet: at most 50 ns in order, with all families on.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mpt_core::metrics::{MeterConfig, OrderMeter};

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

fn snapshots(c: &mut Criterion) {
    let mut meter = OrderMeter::new(MeterConfig::default());
    let streams = streams();
    for (at, &number) in streams[2].1.iter().enumerate() {
        meter.arrive(number, 1400, at as u64 * 10_000);
    }
    c.bench_function("interval report", |b| {
        b.iter(|| black_box(meter.interval()))
    });
}

criterion_group!(benches, arrivals, snapshots);
criterion_main!(benches);

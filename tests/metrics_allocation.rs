//! Order metrics take memory for each kind of disorder once, and none for a packet more.

use allocation_counter::measure;
use mpt_core::metrics::delay_variation::DelayVariation;
use mpt_core::metrics::{Form, MeterConfig, OrderMeter};

/// Numbers that exercise every branch: order, swaps, far blocks, losses, copies, jumps, and a wrap.
fn hostile_stream() -> impl Iterator<Item = u32> {
    let base = u32::MAX - 50_000;
    (0..200_000u32).map(move |n| {
        let shuffled = match n % 16 {
            3 => n.wrapping_add(40),
            7 => n.wrapping_sub(300),
            9 => n.wrapping_sub(n % 5000),
            12 if n % 4096 == 12 => n.wrapping_add(0x4000_0000),
            _ => n,
        };
        base.wrapping_add(shuffled)
    })
}

#[test]
fn no_allocation_while_packets_arrive_as_others_did_before() {
    for form in [Form::Corrected, Form::Literal] {
        let mut meter = OrderMeter::new(MeterConfig {
            form,
            ..MeterConfig::default()
        });
        let mut arrive = |at: usize, number: u32| {
            meter.arrive(number, 1400, at as u64 * 1000);
        };
        let mut stream = hostile_stream().enumerate();
        let first = measure(|| {
            let some = stream.by_ref().take(100_000);
            some.for_each(|(at, number)| arrive(at, number));
        });
        assert!(first.count_total < 200, "{form:?}: {}", first.count_total);
        assert!(first.bytes_max < 1 << 20, "{form:?}: {}", first.bytes_max);
        let used = measure(|| stream.for_each(|(at, number)| arrive(at, number)));
        // A list of values may become longer once more.
        assert!(used.count_total < 4, "{form:?}: {}", used.count_total);
        assert!(meter.total().reordering.reordered > 0);
    }
}

#[test]
fn no_allocation_while_probes_arrive_as_others_did_before() {
    let mut variation = DelayVariation::new();
    let mut arrive = |n: u64| {
        let number = (n ^ (n % 7)) as i64;
        variation.arrive(number, n * 1000, n * 1000 + (n * n) % 5_000_000);
    };
    (0..10_000).for_each(&mut arrive);
    let used = measure(|| (10_000..100_000).for_each(&mut arrive));
    assert_eq!(used.count_total, 0);
}

//! Order metrics take their memory when they are made and none while packets arrive.

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
fn no_allocation_while_packets_arrive() {
    for form in [Form::Corrected, Form::Literal] {
        let mut meter = OrderMeter::new(MeterConfig {
            form,
            ..MeterConfig::default()
        });
        let used = measure(|| {
            for (at, number) in hostile_stream().enumerate() {
                meter.arrive(number, 1400, at as u64 * 1000);
            }
        });
        assert_eq!(used.count_total, 0, "{form:?}");
        assert!(meter.total().reordering.reordered > 0);
    }
}

#[test]
fn no_allocation_while_probes_arrive() {
    let mut variation = DelayVariation::new();
    let used = measure(|| {
        for n in 0..100_000u64 {
            let number = (n ^ (n % 7)) as i64;
            variation.arrive(number, n * 1000, n * 1000 + (n * n) % 5_000_000);
        }
    });
    assert_eq!(used.count_total, 0);
}

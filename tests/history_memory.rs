//! How much memory the last 24 hours take: what docs/watching.md says.

use std::time::Duration;

use allocation_counter::measure;
use mpt_core::control::history::{MAX_NAMES, MINUTES, Past};
use mpt_core::control::{PathState, PathStatus, Status};
use mpt_core::time::Time;

/// Bytes that so many paths take after two days of a look every ten seconds.
fn two_days(paths: usize) -> u64 {
    let mut status = Status {
        paths: (0..paths)
            .map(|number| PathStatus {
                name: format!("path-{number}"),
                state: PathState::Up,
                rtt_us: Some(10_000),
                ..PathStatus::default()
            })
            .collect(),
        ..Status::default()
    };
    let mut past = Past::new("mpt0");
    let used = measure(|| {
        let mut now = Time::ZERO;
        for _ in 0..2 * MINUTES * 6 {
            now = now + Duration::from_secs(10);
            for path in &mut status.paths {
                path.tx_bytes += 12_345;
            }
            past.note(now, now, &status);
        }
    });
    used.bytes_current.try_into().unwrap_or(0)
}

#[test]
fn a_day_of_a_path_takes_what_the_documentation_says_and_a_second_day_no_more() {
    let (one, two, most) = (two_days(1), two_days(2), two_days(MAX_NAMES));
    let each = (most - one) / (MAX_NAMES as u64 - 1);
    println!("a path: {each} bytes; a tunnel of two: {two}; of {MAX_NAMES}: {most}");
    assert!((92_160..93_500).contains(&each), "{each}");
    assert!(two <= 285_000, "{two}");
    assert!(most <= 3_200_000, "{most}");
}

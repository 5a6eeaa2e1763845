//! Numbers as people read them: three digits or so, and the unit.
//!
//! Decimal prefixes throughout, as links are sold: 1 kB is 1000 bytes. One decimal below a
//! hundred, none above, so that a column of them stays narrow and comparable.

const STEPS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A number of bytes, such as "4.5 GB".
#[must_use]
pub fn bytes(count: u64) -> String {
    prefixed(count, "B")
}

/// A rate in bits a second, such as "12.3 Mbit/s".
#[must_use]
pub fn bits_per_second(rate_bps: u64) -> String {
    prefixed(rate_bps, "bit/s")
}

/// The bits a second that a text names, such as "100 Mbit/s" or "1.5Gbit/s"; nothing for what is no rate.
#[must_use]
pub fn rate_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim_start() {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        _ => return None,
    };
    let rate = (number.parse::<f64>().ok()? * scale).round();
    // A number this large is exact.
    (rate < 9e15).then_some(rate as u64)
}

/// The bytes that a text names, such as "50 GB" or "1.5TiB"; nothing for what is no amount.
#[must_use]
pub fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim_start() {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = (number.parse::<f64>().ok()? * scale).round();
    // A number this large is exact.
    (bytes < 9.007e15).then_some(bytes as u64)
}

fn prefixed(count: u64, unit: &str) -> String {
    if count < 1000 {
        return format!("{count} {unit}");
    }
    let mut value = count as f64;
    let mut step = 0;
    // 999.5 would be printed as 1000: that is the next prefix's 1.0.
    while value >= 999.5 && step + 1 < STEPS.len() {
        value /= 1000.0;
        step += 1;
    }
    format!("{} {}{unit}", three_digits(value), STEPS[step])
}

/// A time in microseconds, such as "340 µs", "23.4 ms" or "1.2 s".
#[must_use]
pub fn time_us(time_us: u64) -> String {
    match time_us {
        0..1000 => format!("{time_us} µs"),
        1000..999_500 => format!("{} ms", three_digits(time_us as f64 / 1e3)),
        _ => format!("{} s", three_digits(time_us as f64 / 1e6)),
    }
}

/// A long time in seconds by its two greatest units, such as "2 h 13 min".
#[must_use]
pub fn long_time_s(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days} d {} h", hours % 24),
        () if hours > 0 => format!("{hours} h {} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {} s", seconds % 60),
        () => format!("{seconds} s"),
    }
}

/// A share from 0 to 1 in percent, such as "0.05 %" or "12.3 %"; never "0 %" unless it is none.
#[must_use]
pub fn percent(share: f64) -> String {
    let share = if share.is_nan() { 0.0 } else { share };
    match share.clamp(0.0, 1.0) * 100.0 {
        0.0 => "0 %".into(),
        p if p < 0.01 => "<0.01 %".into(),
        p if p < 0.995 => format!("{p:.2} %"),
        p => format!("{} %", three_digits(p)),
    }
}

fn three_digits(value: f64) -> String {
    if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_rates_take_the_prefix_that_keeps_them_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.0 kB");
        assert_eq!(bytes(4_512_345_678), "4.5 GB");
        assert_eq!(bits_per_second(12_345_678), "12.3 Mbit/s");
        assert_eq!(bits_per_second(999_499_999), "999 Mbit/s");
        assert_eq!(bits_per_second(999_500_000), "1.0 Gbit/s");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn rates_are_read_as_they_are_written() {
        assert_eq!(rate_of("100 Mbit/s"), Some(100_000_000));
        assert_eq!(rate_of(" 1.5Gbit/s "), Some(1_500_000_000));
        assert_eq!(rate_of("64 kbit/s"), Some(64_000));
        assert_eq!(rate_of("8 bit/s"), Some(8));
        for wrong in [
            "",
            "100",
            "Mbit/s",
            "100 MB/s",
            "100 mbit/s",
            "-1 Mbit/s",
            "1.2.3 Mbit/s",
            "1e3 bit/s",
            "inf bit/s",
        ] {
            assert_eq!(rate_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_change_unit_before_they_show_a_thousand() {
        assert_eq!(time_us(340), "340 µs");
        assert_eq!(time_us(23_400), "23.4 ms");
        assert_eq!(time_us(99_960), "100 ms");
        assert_eq!(time_us(999_499), "999 ms");
        assert_eq!(time_us(999_500), "1.0 s");
        assert_eq!(long_time_s(59), "59 s");
        assert_eq!(long_time_s(7980), "2 h 13 min");
        assert_eq!(long_time_s(90_000), "1 d 1 h");
    }

    #[test]
    fn a_small_share_is_never_shown_as_none() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_01), "<0.01 %");
        assert_eq!(percent(0.000_5), "0.05 %");
        assert_eq!(percent(0.123), "12.3 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(f64::NAN), "0 %");
    }
}

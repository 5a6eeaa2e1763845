//! ping, and what it reports.

use crate::namespace::Namespace;

/// What a series of pings saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ping {
    /// Requests sent.
    pub sent: u32,
    /// Replies received, duplicates apart.
    pub received: u32,
    /// Duplicate replies.
    pub duplicates: u32,
    /// Round-trip times in milliseconds: least, mean, greatest. NaN when nothing came back.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Greatest.
    pub max_ms: f64,
}

/// Sends `count` pings, one each `interval_ms`, with further `words` for ping (`-s 1400 -M do`).
/// Without a route all of them count as lost.
///
/// # Panics
/// When ping says anything else than its summary.
#[must_use]
pub fn ping(from: &Namespace, target: &str, count: u32, interval_ms: u32, words: &str) -> Ping {
    let interval = f64::from(interval_ms) / 1000.0;
    let output = from.output(&format!(
        "ping -n -q -c {count} -i {interval} -W 2 {words} {target}"
    ));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    parse_ping(&text).unwrap_or_else(|| {
        assert!(
            error.contains("unreachable"),
            "ping {target}: {text}{error}"
        );
        Ping {
            sent: count,
            received: 0,
            duplicates: 0,
            min_ms: f64::NAN,
            mean_ms: f64::NAN,
            max_ms: f64::NAN,
        }
    })
}

/// Round-trip times in milliseconds of `count` pings, one each `interval_ms`; those without a reply
/// are left out.
#[must_use]
pub fn round_trips_ms(from: &Namespace, target: &str, count: u32, interval_ms: u32) -> Vec<f64> {
    round_trips_with_ms(from, target, count, interval_ms, "")
}

/// The same with further `words` for ping.
#[must_use]
pub fn round_trips_with_ms(
    from: &Namespace,
    target: &str,
    count: u32,
    interval_ms: u32,
    words: &str,
) -> Vec<f64> {
    let interval = f64::from(interval_ms) / 1000.0;
    let output = from.output(&format!(
        "ping -n -c {count} -i {interval} -W 2 {words} {target}"
    ));
    reply_times(&String::from_utf8_lossy(&output.stdout))
}

/// Times in lines like `64 bytes from 10.1.0.2: icmp_seq=1 ttl=64 time=40.1 ms`.
fn reply_times(text: &str) -> Vec<f64> {
    text.lines()
        .filter(|line| !line.contains("DUP!"))
        .filter_map(|line| line.split(" time=").nth(1)?.split(' ').next()?.parse().ok())
        .collect()
}

fn parse_ping(text: &str) -> Option<Ping> {
    let summary = text
        .lines()
        .find(|line| line.contains("packets transmitted"))?;
    let before = |mark: &str| -> Option<u32> {
        let head = summary.split(mark).next().filter(|head| *head != summary)?;
        head.rsplit(", ")
            .next()?
            .trim_start_matches('+')
            .trim()
            .parse()
            .ok()
    };
    let times: Vec<f64> = text
        .lines()
        .find_map(|line| line.split(" = ").nth(1))
        .map(|line| line.trim_end_matches(" ms").split('/'))
        .into_iter()
        .flatten()
        .filter_map(|time| time.split_whitespace().next()?.parse().ok())
        .collect();
    let time = |index: usize| times.get(index).copied().unwrap_or(f64::NAN);
    Some(Ping {
        sent: before(" packets transmitted")?,
        received: before(" received")?,
        duplicates: before(" duplicates").unwrap_or(0),
        min_ms: time(0),
        mean_ms: time(1),
        max_ms: time(2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_ping_summary() {
        let text = "PING 10.1.0.2 (10.1.0.2) 56(84) bytes of data.\n\n\
            --- 10.1.0.2 ping statistics ---\n\
            20 packets transmitted, 19 received, +2 duplicates, 5% packet loss, time 19011ms\n\
            rtt min/avg/max/mdev = 0.025/0.034/0.046/0.007 ms\n";
        let ping = parse_ping(text).unwrap();
        assert_eq!((ping.sent, ping.received, ping.duplicates), (20, 19, 2));
        assert_eq!(
            (ping.min_ms, ping.mean_ms, ping.max_ms),
            (0.025, 0.034, 0.046)
        );
    }

    #[test]
    fn reads_each_replys_time() {
        let text = "PING 10.1.0.2 (10.1.0.2) 56(84) bytes of data.\n\
            64 bytes from 10.1.0.2: icmp_seq=1 ttl=64 time=40.1 ms\n\
            64 bytes from 10.1.0.2: icmp_seq=1 ttl=64 time=41.0 ms (DUP!)\n\
            64 bytes from 10.1.0.2: icmp_seq=2 ttl=64 time=39 ms\n";
        assert_eq!(reply_times(text), [40.1, 39.0]);
    }

    #[test]
    fn reads_a_ping_without_replies() {
        let text = "--- 10.1.0.2 ping statistics ---\n\
            3 packets transmitted, 0 received, 100% packet loss, time 2030ms\n";
        let ping = parse_ping(text).unwrap();
        assert_eq!((ping.sent, ping.received, ping.duplicates), (3, 0, 0));
        assert!(ping.mean_ms.is_nan());
    }
}

//! How much memory the packets of a hub's peers may take.

use std::fs;
use std::path::Path;

/// This part of the memory that the process may use is for packets of peers, by the divisor: the kernel's buffers of the same
/// packets, the rest of the host and what is not packets have the other three quarters.
const PART: u64 = 4;
/// A line of a worker has so many bytes at least: one peer alone then has all that a tunnel of two ends has. An automatic reorder
/// window takes 35 MiB at most, what waits and what is kept 36 MiB.
const LEAST_BYTES: u64 = 64 << 20;

/// Bytes that the packets of all peers of a line may take, where a hub has so many workers, of two lines each.
pub(crate) fn of_line(workers: usize) -> usize {
    share(usable(), workers)
}

fn share(usable: u64, workers: usize) -> usize {
    let bytes = usable / PART / (2 * workers as u64).max(1);
    usize::try_from(bytes.max(LEAST_BYTES)).unwrap_or(usize::MAX)
}

/// Bytes that the process may use: the host's memory, or what its control group allows if that is less. 0 where neither is
/// known.
fn usable() -> u64 {
    let read = |file: &Path| fs::read_to_string(file).ok();
    let host = read(Path::new("/proc/meminfo"));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limit = limit(&groups, |group| {
        let group = Path::new("/sys/fs/cgroup").join(group);
        read(&group.join("memory.max"))
    });
    let all = [host.and_then(|host| total(&host)), limit];
    all.into_iter().flatten().min().unwrap_or(0)
}

/// The host's memory in bytes, as /proc/meminfo has it.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the control group (version 2) that `groups` names, as /proc/self/cgroup does, and of those around it.
/// `read` gives what the memory.max of a group has, or nothing where there is none.
fn limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let all = Path::new(own).ancestors();
    // Where there is no limit it says "max".
    let limits = all.filter_map(|group| read(group)?.trim().parse::<u64>().ok());
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_groups_around_counts() {
        let read = |group: &Path| match group.to_str()? {
            "" => None,
            "system.slice" => Some("3000000000\n".to_owned()),
            "system.slice/mpt.service" => Some("max\n".to_owned()),
            _ => Some("1\n".to_owned()),
        };
        let of = |groups| limit(groups, read);
        assert_eq!(of("0::/system.slice/mpt.service\n"), Some(3_000_000_000));
        assert_eq!(of("3:cpu:/other\n0::/system.slice\n"), Some(3_000_000_000));
        for none in ["", "0::/\n", "4:memory:/system.slice\n"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_line_has_its_share_of_a_quarter_and_enough_for_one_peer() {
        assert_eq!(share(16 << 30, 1), 2 << 30);
        assert_eq!(share(16 << 30, 4), 512 << 20);
        assert_eq!(share(1 << 30, 4), 64 << 20);
        assert_eq!(share(0, 1), 64 << 20);
    }

    #[test]
    fn the_host_s_memory_is_known() {
        let meminfo = "MemTotal:        2018460 kB\nMemFree:          123456 kB\n";
        assert_eq!(total(meminfo), Some(2_018_460 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(usable() > 0);
    }
}

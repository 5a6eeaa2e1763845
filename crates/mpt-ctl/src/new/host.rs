//! What this host tells of itself: its addresses, and its ways out.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;

/// Flag of a route that is in use (`RTF_UP` of linux/route.h).
const UP: u32 = 1;

/// Whether the address is one of this host's.
pub(super) fn has(address: IpAddr) -> bool {
    !address.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
}

/// Whether there is a device of that name.
pub(super) fn has_device(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

/// The devices with a default route, that of the least metric first.
pub(super) fn uplinks(ipv6: bool) -> Vec<String> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    match ipv6 {
        false => by_metric(read("/proc/net/route").lines().filter_map(route_v4)),
        true => by_metric(read("/proc/net/ipv6_route").lines().filter_map(route_v6)),
    }
}

fn by_metric(routes: impl Iterator<Item = (u32, String)>) -> Vec<String> {
    let mut routes: Vec<(u32, String)> = routes.collect();
    routes.sort();
    let mut devices = Vec::new();
    for (_, device) in routes {
        if device != "lo" && !devices.contains(&device) {
            devices.push(device);
        }
    }
    devices
}

/// Metric and device of a default route, from a line of /proc/net/route: device, destination, gateway,
/// flags, two counters, metric, mask.
fn route_v4(line: &str) -> Option<(u32, String)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [device, destination, _, flags, _, _, metric, mask, ..] = words[..] else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let is_default = destination == "00000000" && mask == "00000000" && flags & UP != 0;
    is_default.then_some((metric.parse().ok()?, device.to_owned()))
}

/// The same of /proc/net/ipv6_route: destination, its length, source, its length, next hop, metric, two
/// counters, flags, device; numbers in hexadecimal.
fn route_v6(line: &str) -> Option<(u32, String)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [destination, length, _, _, _, metric, _, _, flags, device] = words[..] else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let zero = destination.bytes().all(|digit| digit == b'0') && length == "00";
    let metric = u32::from_str_radix(metric, 16).ok()?;
    (zero && flags & UP != 0).then(|| (metric, device.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_name_the_uplinks_the_best_first() {
        let table = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wwan0\t00000000\t0102A8C0\t0003\t0\t0\t700\t00000000\t0\t0\t0
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
ppp0\t00000000\t00000000\t0000\t0\t0\t50\t00000000\t0\t0\t0
";
        assert_eq!(
            by_metric(table.lines().filter_map(route_v4)),
            ["eth0", "wwan0"]
        );
        let zero = "0".repeat(32);
        let table = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        assert_eq!(by_metric(table.lines().filter_map(route_v6)), ["eth0"]);
    }

    #[test]
    fn an_address_of_this_host_is_told_from_others() {
        assert!(has(IpAddr::from([127, 0, 0, 1])));
        assert!(!has(IpAddr::from([203, 0, 113, 7])));
        assert!(!has(IpAddr::from([0, 0, 0, 0])));
    }
}

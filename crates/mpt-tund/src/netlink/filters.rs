//! Which devices filter what comes in by the way its answer would leave (`rp_filter`, RFC 3704 section 2.2).
//!
//! `/proc/sys` says so too, but a service is often kept from it (systemd's `ProcSubset=pid`).

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket as _, SocketAddr, TokioSocket};

use super::wire::{self, Content, EVERY_DEVICE, Settings};

/// A setting of 1: a packet is taken only if the answer would leave by the same device.
const STRICT: i32 = 1;
/// Bytes of a datagram: twice what the kernel puts in one.
const DATAGRAM: usize = 64 * 1024;
/// The kernel answers at once; what is later does not come.
const LONGEST: Duration = Duration::from_secs(1);

/// Indexes of the devices that are strict for IPv4; none where the kernel does not say (before 3.10).
pub(crate) async fn strict_devices() -> BTreeSet<u32> {
    let settings = tokio::time::timeout(LONGEST, settings()).await;
    strict(&settings.ok().and_then(Result::ok).unwrap_or_default())
}

/// The higher of a device's own setting and that of all counts.
fn strict(settings: &[Settings]) -> BTreeSet<u32> {
    let of_all = settings.iter().find(|one| one.index == EVERY_DEVICE);
    let of_all = of_all.and_then(|one| one.filter).unwrap_or(0);
    let is_strict = |one: &&Settings| one.filter.unwrap_or(0).max(of_all) == STRICT;
    let strict = settings.iter().filter(is_strict);
    strict
        .filter_map(|one| u32::try_from(one.index).ok())
        .collect()
}

/// The settings of all devices.
async fn settings() -> io::Result<Vec<Settings>> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind_auto()?;
    let question = wire::dump_request(wire::RTM_GETNETCONF, libc::AF_INET, 1);
    let kernel = SocketAddr::new(0, 0);
    socket.socket_ref().send_to(&question, &kernel, 0)?;
    let mut settings = Vec::new();
    let mut datagram = Vec::with_capacity(DATAGRAM);
    loop {
        datagram.clear();
        poll_fn(|cx| socket.poll_recv_from(cx, &mut datagram)).await?;
        for message in wire::messages(&datagram) {
            match message.content {
                Content::Settings(one) => settings.push(one),
                Content::Done => return Ok(settings),
                Content::Error(errno) => return Err(io::Error::from_raw_os_error(errno)),
                Content::Link { .. }
                | Content::Address { .. }
                | Content::Route(_)
                | Content::Rule => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_of_both_settings_counts() {
        for (all, own, is_strict) in [
            (0, 0, false),
            (0, 1, true),
            (1, 0, true),
            (1, 2, false),
            (2, 1, false),
            (2, 0, false),
        ] {
            let settings = [(7, own), (EVERY_DEVICE, all), (-2, 1)];
            let settings = settings.map(|(index, filter)| Settings {
                index,
                filter: Some(filter),
            });
            let found = strict(&settings);
            assert_eq!(found.contains(&7), is_strict, "{all} {own}");
            assert!(found.len() <= 1, "the default is no device");
        }
    }

    #[tokio::test]
    async fn the_kernel_says_what_every_device_does() {
        let settings = settings().await.unwrap();
        for index in [EVERY_DEVICE, 1] {
            let mut of_it = settings.iter().filter(|one| one.index == index);
            assert!(of_it.any(|one| one.filter.is_some()), "{settings:?}");
        }
    }
}

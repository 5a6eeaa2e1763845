//! The receiving part.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::channel::{Carrier, Channel, LARGEST_DATAGRAM};
use super::clock::Clock;
use super::numbering::Numbering;
use super::progress::Progress;
use super::report::Report;
use super::session::{Ending, Patience, Session};
use super::stream::Metrics;

/// Receives one run, until it ends or `stop` is set, and reports on it.
pub(crate) fn receive(
    channel: &Channel,
    carrier: Carrier,
    metrics: Metrics,
    patience: Patience,
    stop: &AtomicBool,
) -> io::Result<Report> {
    let clock = Clock::start();
    let start_ns = clock.unix_ns(0);
    let numbering = match carrier {
        Carrier::Udp => Numbering::Udp,
        Carrier::Icmp => Numbering::IcmpRequest,
    };
    let mut session = Session::new(numbering, metrics, patience, start_ns);
    let mut progress = Progress::new();
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    let ending = loop {
        let received = channel.receive(&mut buffer)?;
        let elapsed_ns = clock.elapsed_ns();
        let now_ns = clock.unix_ns(elapsed_ns);
        if let Some(received) = received {
            session.take(&received, now_ns);
        }
        if stop.load(Ordering::Relaxed) {
            break Ending::Interrupted;
        }
        if let Some(ending) = session.ended(now_ns) {
            break ending;
        }
        progress.draw(elapsed_ns, session.progress(), || {
            let what = if session.has_begun() {
                "received"
            } else {
                "waiting for a sender"
            };
            what.into()
        });
    };
    drop(progress);
    let at = channel
        .local()
        .map_or_else(String::new, |local| match carrier {
            Carrier::Udp => format!("UDP {local}"),
            Carrier::Icmp => format!("ICMP echo requests to {}", local.ip()),
        });
    let drops = channel.dropped().unwrap_or(0);
    Ok(session.report(at, ending, drops))
}

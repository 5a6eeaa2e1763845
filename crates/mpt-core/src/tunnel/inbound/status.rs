//! The line in as `mpt-ctl status` shows them.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::Inbound;
use crate::control::order::{OrderStatus, Spread};
use crate::control::setting::Setting;
use crate::control::verdict::NO_TRAFFIC_BPS;
use crate::control::{
    HoldTimes, PathStatus, PeerState, PeerStatus, Protection, ReorderMode, ReorderStatus,
    TunnelStatus,
};
use crate::path::PathId;
use crate::time::Time;
use crate::tunnel::sealing::Opening;

/// Delay differences below this are noise, in nanoseconds.
const NOISE_NS: u64 = 500_000;

impl Inbound {
    /// Fills in what this half knows of the tunnel.
    pub fn report(&self, status: &mut TunnelStatus) {
        status.mtu = u32::from(self.shared.mtu());
        status.idle = self.activity.is_idle();
        status.protection = self.sealed_by();
        status.handshake = self.handshake();
        status.session = format!("{:016x}", self.session);
        status.peer_session = self.peer.session().map(|session| format!("{session:016x}"));
        (status.rx_packets, status.rx_bytes) = (self.rx_packets, self.rx_bytes);
        status.recovery.report_bytes = self.reporting.sent_bytes();
        self.drops().add_to(&mut status.drops);
    }

    /// Fills in what a hub lists of a peer that is there, beside its counts and its paths. That is little, since packets
    /// wait while it lists a thousand.
    pub fn report_peer(&self, status: &mut PeerStatus) {
        status.state = match self.is_up() {
            true => PeerState::Up,
            false => PeerState::Down,
        };
        status.mtu = u32::from(self.shared.mtu());
        status.protection = self.sealed_by();
    }

    fn sealed_by(&self) -> Protection {
        let opening = self.opening.as_ref();
        opening.map_or(Protection::None, Opening::protection)
    }

    /// Fills in what this half knows of a path.
    pub fn report_path(&self, id: PathId, status: &mut PathStatus) {
        let Some(path) = &self.paths[id.index()] else {
            return;
        };
        status.state = path.state;
        status.reason = path.reason.map(|reason| reason.to_string());
        status.remote = path
            .peer
            .map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
        status.peer_name = path.names.peer().map(|name| name.to_string());
        status.weight = path.config.weight;
        status.rtt_us = path.rtt.smoothed().map(micros);
        status.rtt_min_us = path.rtt.minimum().map(micros);
        status.loss = path.loss_at_peer;
        status.rx_loss = path.loss.share();
        (status.tx_packets, status.tx_bytes) = self.shared.sent(id);
        (status.rx_packets, status.rx_bytes) = (path.rx_packets, path.rx_bytes);
        status.rx_delay_us = path
            .one_way
            .ns()
            .zip(self.least_one_way_ns())
            .map(|(ns, least)| ns.abs_diff(least) / 1000);
        (status.tx_bps, status.rx_bps) = (path.tx_rate.bps(), path.rx_rate.bps());
        status.mtu = u32::from(self.mtu_of(id));
        (status.control_tx_bytes, status.control_rx_bytes) =
            (path.control_tx_bytes, path.control_rx_bytes);
        status.rests = path.rests;
        status.narrow = self.mtus.left_out().contains(id);
    }

    /// The reorder window.
    #[must_use]
    pub fn report_reorder(&self) -> ReorderStatus {
        let (config, counters) = (self.reorder.config(), self.reorder.counters());
        ReorderStatus {
            window: config.window,
            max_buffer_delay_us: micros(config.max_buffer_delay),
            late_policy: config.late,
            held: u64::from(self.reorder.held() - self.reorder.left()),
            held_max: u64::from(counters.held_max),
            in_order: counters.in_order,
            reordered: counters.reordered,
            late: counters.late,
            duplicates: counters.duplicates,
            passed: self.ready.passed(),
            gaps_seen: counters.gaps_seen,
            gaps_open: u64::from(self.reorder.gaps_open()),
            gaps_filled: counters.gaps_filled,
            gaps_recovered: counters.gaps_recovered,
            gaps_inferred_lost: counters.gaps_inferred_lost,
            gaps_timed_out: counters.gaps_timed_out,
            gaps_overflowed: counters.gaps_overflowed,
            hold_us: times(self.reorder.hold_us()),
            recovery_us: times(self.reorder.recovery_us()),
            window_auto: config.grows_to.is_some(),
            max_buffer_delay_auto: self.sizing.settings.max_buffer_delay == Setting::Auto,
            window_limit: u64::from(self.widest_window()),
            delay_difference_us: micros(self.sizing.difference),
            packets_per_s: self.sizing.packets_per_s(),
            window_needed: self.window_needed(),
            mode: match self.sizing.settings.block {
                None => ReorderMode::Window,
                Some(_) => ReorderMode::Block,
            },
            block_size: self.sizing.settings.block,
            order: None,
        }
    }

    /// Order as it was measured; a path goes by the name that `name_of` has for it.
    pub fn report_order(
        &mut self,
        now: Time,
        name_of: impl FnMut(PathId) -> Option<String>,
    ) -> OrderStatus {
        self.order.tick(now);
        OrderStatus {
            holds: spread(self.reorder.hold_us()),
            recoveries: spread(self.reorder.recovery_us()),
            ..self.order.status(now, name_of)
        }
    }

    /// Delay difference × packets a second over all paths that carry data: as many arrive on the faster ones while one is
    /// under way on the slowest.
    fn window_needed(&self) -> Option<u64> {
        let paths = self.paths.iter().flatten();
        let carrying = paths.filter(|path| path.rx_rate.bps() >= NO_TRAFFIC_BPS);
        let delays = carrying.filter_map(|path| path.one_way.ns());
        let difference = delays.clone().max()?.abs_diff(delays.min()?);
        let packets = self.sizing.packets_per_s();
        if packets == 0 || difference < NOISE_NS {
            return None;
        }
        let needed = difference as f64 / 1e9 * packets as f64;
        Some(needed.ceil() as u64)
    }

    fn least_one_way_ns(&self) -> Option<i64> {
        self.paths
            .iter()
            .flatten()
            .filter_map(|path| path.one_way.ns())
            .min()
    }
}

fn times(histogram: Option<&Histogram<u64>>) -> HoldTimes {
    let told = histogram.map(|histogram| HoldTimes {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    });
    told.unwrap_or_default()
}

fn spread(histogram: Option<&Histogram<u64>>) -> Spread {
    let told = histogram.map(|histogram| {
        let values = histogram.iter_recorded();
        let values = values.map(|step| {
            let value = histogram.lowest_equivalent(step.value_iterated_to());
            (value, step.count_at_value())
        });
        let sum = histogram.mean() * histogram.len() as f64;
        Spread::of(values, sum as u64)
    });
    told.unwrap_or_default()
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathConfig;
    use crate::tunnel::{TunnelConfig, tunnel};

    #[test]
    fn days_of_small_packets_ask_for_no_larger_window() {
        let config = TunnelConfig::of_test(1, 1464);
        let (_, mut inbound) = tunnel(&config);
        for (index, delay_ns) in [5_000_000, 15_000_000].into_iter().enumerate() {
            let path = PathConfig::of_test();
            inbound.set_path(Time::ZERO, PathId::new(index).unwrap(), path);
            let path = inbound.paths[index].as_mut().unwrap();
            path.one_way.sample(delay_ns, 0);
        }
        let mut now = Time::ZERO;
        for (span_s, packets, bytes) in [(100_000, 10_000_000, 1_000_000_000), (1, 1000, 1_400_000)]
        {
            now = now + Duration::from_secs(span_s);
            for path in inbound.paths.iter_mut().flatten() {
                path.rx_packets += packets;
                path.rx_bytes += bytes;
                path.rx_rate.sample(now, path.rx_bytes);
            }
            inbound.size_window(now);
        }
        // 10 ms at 2000 packets a second.
        assert_eq!(inbound.window_needed(), Some(20));
        // What carries data on one path alone overtakes nothing.
        inbound.paths[0].as_mut().unwrap().rx_rate = Default::default();
        assert_eq!(inbound.window_needed(), None);
    }
}

//! The line in as `mpt-ctl status` shows them.

use super::Inbound;
use crate::control::order::OrderStatus;
use crate::control::{PathStatus, PeerState, PeerStatus, Protection, ReorderStatus, TunnelStatus};
use crate::path::PathId;
use crate::time::{Time, micros};
use crate::tunnel::sealing::Opening;

impl Inbound {
    /// Fills in what this half knows of the tunnel.
    pub fn report(&self, status: &mut TunnelStatus) {
        status.mtu = u32::from(self.shared.mtu());
        status.idle = self.activity.is_idle();
        status.protection = self.sealed_by();
        status.handshake = self.handshake();
        status.session = format!("{:016x}", self.session);
        status.peer_session = self.peer.session().map(|session| format!("{session:016x}"));
        (status.rx_packets, status.rx_bytes) = self.received();
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
        self.window.status(&self.paths)
    }

    /// Order as it was measured; a path goes by the name that `name_of` has for it.
    pub fn report_order(
        &mut self,
        now: Time,
        name_of: impl FnMut(PathId) -> Option<String>,
    ) -> OrderStatus {
        self.order.tick(now);
        OrderStatus {
            holds: self.window.holds(),
            recoveries: self.window.recoveries(),
            ..self.order.status(now, name_of)
        }
    }

    fn least_one_way_ns(&self) -> Option<i64> {
        self.paths
            .iter()
            .flatten()
            .filter_map(|path| path.one_way.ns())
            .min()
    }
}

//! What a hub's line in knows, when it is asked: of the whole, of its sockets, of peers.

use mpt_core::control::{PEERS_CALL, PathState, PathStatus, Protection, TunnelStatus};

use super::{Attached, HubDownlink, path_name};
use crate::downlink::Report;
use crate::hub::uplink::add_drops;
use crate::hub::{Listed, Shown};

impl HubDownlink {
    pub(super) fn report(&self, report: &mut Report) {
        let total = self.hub.total();
        let tunnel = &mut report.tunnel;
        tunnel.mtu = u32::from(self.mtu);
        if self.worker.opens_calls() {
            tunnel.protection = Protection::Waiting;
        }
        tunnel.rx_packets += total.rx_packets;
        tunnel.rx_bytes += total.rx_bytes;
        total.drops.add_to(&mut tunnel.drops);
        for (id, status) in &mut report.paths {
            if let Some(attached) = &self.sockets[id.index()] {
                report_socket(attached, status);
            }
        }
        report.peers_up += self.hub.up();
        if let Some(protection) = self.hub.protection() {
            tunnel.protection = protection;
        }
    }

    pub(super) fn report_peer(&mut self, one: &mut Listed) {
        if !self.worker.owns(one.slot) {
            return;
        }
        let Some(summary) = self.hub.summary(one.slot) else {
            return;
        };
        let peer = &mut one.peer;
        (peer.rx_packets, peer.rx_bytes) = (summary.rx_packets, summary.rx_bytes);
        add_drops(&summary.drops, &mut peer.drops);
        let Some(inbound) = self.hub.peer(one.slot) else {
            return;
        };
        inbound.report_peer(peer);
        one.ids = inbound.paths().collect();
        for id in &one.ids {
            let mut status = PathStatus::default();
            inbound.report_path(*id, &mut status);
            status.name = path_name(inbound, *id);
            status.peer_name = None;
            let socket = &self.sockets[inbound.socket_of(*id).index()];
            if let Some(open) = socket.as_ref().and_then(|attached| attached.open.as_ref()) {
                status.local = open.socket.local_addr().to_string();
            }
            peer.paths.push(status);
        }
    }

    pub(super) fn show_peer(&mut self, shown: &mut Shown) {
        if let Some(inbound) = self.hub.peer(shown.slot) {
            let mut tunnel = TunnelStatus::default();
            inbound.report(&mut tunnel);
            shown.report.recovery = tunnel.recovery;
            shown.report.reorder = inbound.report_reorder();
        }
    }
}

fn report_socket(attached: &Attached, status: &mut PathStatus) {
    status.state = match attached.open {
        Some(_) => PathState::Up,
        None => PathState::Waiting,
    };
    status.remote = PEERS_CALL.to_owned();
    status.rx_packets += attached.received.0;
    status.rx_bytes += attached.received.1;
    status.tx_packets += attached.sent.0;
    status.tx_bytes += attached.sent.1;
    let drops = attached.open.as_ref().map_or(0, |open| open.drops);
    status.socket_drops += attached.former_drops + u64::from(drops);
}

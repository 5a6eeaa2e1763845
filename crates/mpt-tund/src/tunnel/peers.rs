//! A hub's peers: those of the configuration, and what is known of them.

use std::sync::Arc;

use anyhow::{bail, ensure};
use mpt_core::control::{PeerReport, PeerStatus};

use super::Tunnel;
use crate::clock;
use crate::config::{Config, Peer, PeerChange};
use crate::hub::{Listed, Shown};
use crate::{downlink, uplink};

/// Peers that the lines are asked about at once; packets go on between.
const ASKED_AT_ONCE: usize = 32;

impl Tunnel {
    /// Tells all lines of peers that come, go and change. The line in goes first: what it has under way to a peer that is
    /// gone comes to nothing at the line out.
    ///
    /// # Errors
    /// When one of the tunnel's threads has ended.
    pub(super) async fn follow_peers(&mut self, change: &PeerChange) -> anyhow::Result<()> {
        if change.is_empty() {
            return Ok(());
        }
        let changes = Arc::new(self.peers.follow(change));
        let queue = self.interface.queue();
        self.queues.follow(change, &changes, queue, &mut self.log);
        let command = |_| downlink::Command::SetPeers(changes.clone());
        self.downlink.tell(command).await?;
        let command = |_| uplink::Command::SetPeers(changes.clone());
        self.uplink.tell(command).await
    }

    /// Puts a peer in another's place, if it goes with the rest; without a new one the old one goes, without an old
    /// one the new one comes.
    ///
    /// # Errors
    /// With whom it does not go, and then nothing has changed; or when one of the tunnel's threads has ended.
    pub(crate) async fn exchange_peer(
        &mut self,
        old: Option<&Arc<Peer>>,
        new: Option<Peer>,
    ) -> anyhow::Result<()> {
        let Config { crypto, peers, .. } = &mut self.config;
        let own = crypto.as_ref();
        let own = own.map(|crypto| crypto.private_key.public_key());
        ensure!(
            new.is_none() || own != new.as_ref().map(|new| new.public_key),
            "that is the hub's own public key"
        );
        let Some(roster) = peers else { return Ok(()) };
        let new = new.map(Arc::new);
        match (roster.exchange(old, new.clone()), new) {
            (Ok(change), _) => {
                // A file may have been refused because of the peer that goes.
                if let Some(dir) = &self.config.peers_dir {
                    self.folder.look_again(dir, clock::now());
                }
                self.follow_peers(&change).await
            }
            (Err(clash), Some(new)) => {
                let (what, remedy) = clash.told(&new);
                bail!("{what}; {remedy}");
            }
            // There is nothing that it could clash with.
            (Err(_), None) => Ok(()),
        }
    }

    /// What is known of all peers, in the order of the configuration; none where the tunnel is no hub.
    pub(crate) async fn list_peers(&self) -> anyhow::Result<Vec<PeerStatus>> {
        self.list_first_peers(usize::MAX).await
    }

    /// The same of so many at most.
    pub(super) async fn list_first_peers(&self, most: usize) -> anyhow::Result<Vec<PeerStatus>> {
        let Some(wanted) = &self.config.peers else {
            return Ok(Vec::new());
        };
        let wanted = wanted.iter().take(most);
        let mut left = self.peers.list(wanted).into_iter();
        let mut told = Vec::with_capacity(left.len());
        while left.len() > 0 {
            let some = left.by_ref().take(ASKED_AT_ONCE).collect();
            let some = self.fill_in(some).await?.into_iter();
            told.extend(some.map(|one| one.peer));
        }
        Ok(told)
    }

    async fn fill_in(&self, list: Vec<Listed>) -> anyhow::Result<Vec<Listed>> {
        let command = downlink::Command::ReportPeers;
        let list = self.downlink.ask(list, command).await?;
        self.uplink.ask(list, uplink::Command::ReportPeers).await
    }

    /// All that is known of one; `None` when there is none of that name.
    pub(crate) async fn show_peer(&self, name: &str) -> anyhow::Result<Option<PeerReport>> {
        let wanted = self.config.peers.as_ref();
        let wanted = wanted.and_then(|roster| roster.get(name));
        let listed = self.fill_in(self.peers.list(wanted)).await?;
        let Some(listed) = listed.into_iter().next() else {
            return Ok(None);
        };
        let shown = Shown {
            slot: listed.slot,
            report: Box::default(),
        };
        let command = downlink::Command::ReportPeer;
        let shown = self.downlink.ask(shown, command).await?;
        let shown = self.uplink.ask(shown, uplink::Command::ReportPeer).await?;
        let mut report = *shown.report;
        report.peer = listed.peer;
        Ok(Some(report))
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::control::{MAX_LINE_BYTES, PathStatus};

    use super::super::MAX_LISTED;
    use super::*;

    #[test]
    fn the_peers_of_a_status_fit_a_line() {
        let path = PathStatus {
            name: "fibre-at-the-office".to_owned(),
            local: "[2001:db8:1234:5678:9abc:def0:1234:5678]:4754".to_owned(),
            remote: "[2001:db8:1234:5678:9abc:def0:1234:5678]:4754".to_owned(),
            rtt_us: Some(123_456),
            tx_bytes: 1 << 40,
            rx_bytes: 1 << 40,
            ..PathStatus::default()
        };
        let peer = PeerStatus {
            name: "somebody-far-away".to_owned(),
            public_key: "x".repeat(44),
            allowed_ips: vec!["2001:db8:1234:5678::/64".to_owned(); 2],
            paths: vec![path; 3],
            ..PeerStatus::default()
        };
        let bytes = serde_json::to_vec(&peer).unwrap().len();
        assert!(bytes * MAX_LISTED < MAX_LINE_BYTES, "{bytes}");
    }
}

//! A hub's peers: those of the configuration, and what is known of them.

use anyhow::{bail, ensure};
use mpt_core::control::{PeerReport, PeerStatus};
use tokio::sync::oneshot;

use super::Tunnel;
use crate::config::{Peer, Taken};
use crate::hub::{Listed, Shown};
use crate::{downlink, uplink};

impl Tunnel {
    /// Tells both lines who the peers are. The line in goes first: what it has under way to a peer that is gone comes to
    /// nothing at the line out.
    ///
    /// # Errors
    /// When one of the tunnel's threads has ended.
    pub(super) async fn follow_peers(&mut self) -> anyhow::Result<()> {
        let Some(wanted) = &self.config.peers else {
            return Ok(());
        };
        let changes = self.peers.follow(wanted);
        let command = downlink::Command::SetPeers(changes.clone());
        self.downlink.send(command).await?;
        self.uplink.send(uplink::Command::SetPeers(changes)).await?;
        Ok(())
    }

    /// Lets these call from now on, if they go together.
    ///
    /// # Errors
    /// Which do not, and then nothing has changed; or when one of the tunnel's threads has ended.
    pub(crate) async fn change_peers(&mut self, wanted: Vec<Peer>) -> anyhow::Result<()> {
        let own = self
            .config
            .crypto
            .as_ref()
            .map(|crypto| crypto.private_key.public_key());
        let mut taken = Taken::default();
        for peer in &wanted {
            if let Err(clash) = taken.add(peer) {
                let (what, remedy) = clash.told(peer, &wanted);
                bail!("{what}; {remedy}");
            }
            ensure!(
                own != Some(peer.public_key),
                "that is the hub's own public key"
            );
        }
        self.config.peers = Some(wanted);
        self.follow_peers().await
    }

    /// What is known of all peers, in the order of the configuration; none where the tunnel is no hub.
    pub(crate) async fn list_peers(&self) -> anyhow::Result<Vec<PeerStatus>> {
        let Some(wanted) = &self.config.peers else {
            return Ok(Vec::new());
        };
        let list = self.fill_in(self.peers.list(wanted)).await?;
        Ok(list.into_iter().map(|one| one.peer).collect())
    }

    async fn fill_in(&self, list: Vec<Listed>) -> anyhow::Result<Vec<Listed>> {
        let (reply, answer) = oneshot::channel();
        let command = downlink::Command::ReportPeers(list, reply);
        self.downlink.send(command).await?;
        let list = answer.await?;
        let (reply, answer) = oneshot::channel();
        let command = uplink::Command::ReportPeers(list, reply);
        self.uplink.send(command).await?;
        Ok(answer.await?)
    }

    /// All that is known of one; `None` when there is none of that name.
    pub(crate) async fn show_peer(&self, name: &str) -> anyhow::Result<Option<PeerReport>> {
        let wanted = self.config.peers.iter().flatten();
        let wanted: Vec<_> = wanted.filter(|peer| peer.name == name).cloned().collect();
        let listed = self.fill_in(self.peers.list(&wanted)).await?;
        let Some(listed) = listed.into_iter().next() else {
            return Ok(None);
        };
        let shown = Shown {
            slot: listed.slot,
            report: Box::default(),
        };
        let (reply, answer) = oneshot::channel();
        let command = downlink::Command::ReportPeer(shown, reply);
        self.downlink.send(command).await?;
        let shown = answer.await?;
        let (reply, answer) = oneshot::channel();
        let command = uplink::Command::ReportPeer(shown, reply);
        self.uplink.send(command).await?;
        let mut report = *answer.await?.report;
        report.peer = listed.peer;
        Ok(Some(report))
    }
}

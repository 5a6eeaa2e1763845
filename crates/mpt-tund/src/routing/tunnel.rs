//! A tunnel's part of the host's routing: its numbers, and what was made under them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use mpt_core::time::Time;
use tokio::time::Instant;

use super::Routing;
use super::claim::Claim;
use super::host::{Host, Prefix};
use super::kernel::{self, Hop, Packet};
use super::plan::{self, Action, Need, PathNeed, Plan};
use crate::wanted::retry::Retry;

/// What is made for one tunnel. [`TunnelRouting::remove`] takes it away again.
#[derive(Debug, Default)]
pub(crate) struct TunnelRouting {
    tunnel: String,
    /// `None` with `routing = "off"`, where the kernel has no policy routing, and while none is to be had.
    claim: Option<Claim>,
    /// Why none is to be had now, and when it is tried again.
    unclaimed: Option<(String, Retry)>,
    /// What the host had when it was last looked at.
    host: Host,
    /// What was made last.
    made: Option<Plan>,
    /// What had to be done last, and how many times in a row that was the same.
    last: Vec<Action>,
    repeats: u32,
    /// When the log last said that something had been removed.
    told: Option<Instant>,
    /// What went wrong last, as it was logged.
    trouble: Option<String>,
}

/// The device that a path leaves by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// Where the kernel sends its packets; `None` when it has no route to the peer.
    pub(crate) hop: Option<Hop>,
    /// Index of the device that has the path's address or is its interface, if it leads anywhere.
    pub(crate) wanted: Option<u32>,
    /// Whether a route leads to the peer by the wanted one.
    pub(crate) has_way: bool,
    /// Why it may be another one than that which has the path's address.
    pub(crate) why: Why,
}

/// Why a path leaves by another device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Why {
    /// It should not: rules were made, or none are needed.
    #[default]
    None,
    /// `routing = "off"`.
    Off,
    /// The kernel has no policy routing.
    NoRules,
    /// No route by the device is known, to the peer or to everywhere.
    NoGateway,
}

impl TunnelRouting {
    /// The routing of a tunnel that leaves it to the host.
    pub(crate) fn off(tunnel: &str) -> TunnelRouting {
        TunnelRouting {
            tunnel: tunnel.to_owned(),
            ..TunnelRouting::default()
        }
    }

    /// Claims numbers for the tunnel. Where none are to be had, the log says why, and [`TunnelRouting::claim_again`]
    /// has to follow.
    pub(crate) async fn claim(tunnel: &str, routing: &Routing, now: Time) -> TunnelRouting {
        let mut this = TunnelRouting::off(tunnel);
        if let Err(why) = this.try_claim(routing).await {
            tracing::warn!("tunnel {tunnel}: {why}: {NO_CLAIM}");
            this.unclaimed = Some((why, Retry::new(now)));
        }
        this
    }

    /// Claims them now, if they were not to be had and it is time to try again. Returns whether the tunnel has another
    /// mark since.
    pub(crate) async fn claim_again(&mut self, routing: &Routing, now: Time) -> bool {
        let Some((_, retry)) = self.unclaimed.take_if(|(_, retry)| retry.is_due(now)) else {
            return false;
        };
        match self.try_claim(routing).await {
            Ok(()) => tracing::info!("tunnel {}: its routes can be kept now", self.tunnel),
            Err(why) => self.unclaimed = Some((why, retry.again(now))),
        }
        self.claim.is_some()
    }

    async fn try_claim(&mut self, routing: &Routing) -> Result<(), String> {
        let host = routing.observe().await;
        self.host = host.map_err(|error| format!("the host's rules cannot be read: {error}"))?;
        if self.host.has_rules == [false; 2] {
            let tunnel = &self.tunnel;
            tracing::info!("tunnel {tunnel}: this kernel has no policy routing: {NO_RULES}");
            return Ok(());
        }
        let claim = Claim::first(&self.host).await;
        let claim = claim.map_err(|error| error.to_string())?;
        let all_used = || {
            let blocks = super::block::BLOCKS;
            format!("the numbers of {blocks} tunnels are all in use on this host")
        };
        let claim = claim.ok_or_else(all_used)?;
        tracing::debug!(
            "tunnel {}: its mark is {:#x}",
            self.tunnel,
            claim.block.mark()
        );
        if claim.is_beside {
            tracing::warn!("tunnel {}: {NAMES_TAKEN}", self.tunnel);
        }
        self.claim = Some(claim);
        Ok(())
    }

    /// Why the routes that would catch the tunnel's own packets are left out, if they are.
    pub(crate) fn unclaimed(&self) -> Option<&str> {
        self.unclaimed.as_ref().map(|(why, _)| why.as_str())
    }

    /// The numbers of its own tables.
    pub(crate) fn tables(&self) -> Range<u32> {
        let claim = self.claim.as_ref();
        claim.map_or(0..0, |claim| claim.block.tables())
    }

    /// The mark of the tunnel's sockets; 0 for none.
    pub(crate) fn mark(&self) -> u32 {
        self.claim.as_ref().map_or(0, |claim| claim.block.mark())
    }

    /// The tunnel's routes that belong into the main table: all but those that would catch its own packets.
    pub(crate) fn main_routes(&self, need: &Need) -> Vec<Prefix> {
        match (&self.claim, &self.unclaimed) {
            (Some(_), _) => plan::main_routes(need, &self.host),
            (None, None) => need.routes.clone(),
            (None, Some(_)) => {
                let all = need.routes.iter().copied();
                all.filter(|&route| !plan::covers_outer(need, route))
                    .collect()
            }
        }
    }

    /// Looks at the host and makes what is missing, takes away what is too much. Returns whether all is as it is to
    /// be.
    pub(crate) async fn mend(&mut self, need: &Need, routing: &Routing) -> bool {
        {
            let mut outer = routing.outer.borrow_mut();
            outer.insert(self.tunnel.clone(), need.outer());
        }
        let host = match routing.observe().await {
            Ok(host) => host,
            Err(error) => {
                self.note(Some(format!("the host's rules cannot be read: {error}")));
                return false;
            }
        };
        let Some(claim) = &self.claim else {
            self.host = host;
            return true;
        };
        let wanted = plan::plan(need, &host, claim.block);
        let actions = plan::difference(&wanted, &host, claim.block);
        self.host = host;
        if actions.is_empty() {
            self.note(None);
            return true;
        }
        let done = routing.apply(&actions).await;
        let adds = |action: &Action| matches!(action, Action::AddRule(_) | Action::AddRoute(_));
        let was_whole = self.made.as_ref() == Some(&wanted) && self.trouble.is_none();
        if was_whole && done.is_ok() && actions.iter().any(adds) {
            self.tell_of_removal();
        }
        self.repeats = if self.last == actions {
            self.repeats + 1
        } else {
            0
        };
        self.last = actions;
        if self.repeats >= PATIENCE {
            routing.rest();
        }
        self.made = Some(wanted);
        self.note(done.err().map(|error| refusal(&error)));
        self.trouble.is_none()
    }

    /// Says so in the log, but not each time where it happens again and again.
    fn tell_of_removal(&mut self) {
        if self.told.is_none_or(|told| told.elapsed() >= SILENCE) {
            self.told = Some(Instant::now());
            tracing::warn!(
                "tunnel {}: a rule or a route of its own had been removed, and is there again",
                self.tunnel
            );
        }
    }

    /// Logs what went wrong, once.
    fn note(&mut self, trouble: Option<String>) {
        match &trouble {
            Some(words) if self.trouble != trouble => {
                tracing::warn!("tunnel {}: {words}", self.tunnel);
            }
            None if self.trouble.is_some() => {
                tracing::info!("tunnel {}: its rules and routes are complete", self.tunnel);
            }
            Some(_) | None => {}
        }
        self.trouble = trouble;
    }

    /// Takes away everything that was made, and gives the numbers back.
    pub(crate) async fn remove(self, routing: &Routing) {
        routing.outer.borrow_mut().remove(&self.tunnel);
        let Some(claim) = self.claim else { return };
        let removed = match routing.observe().await {
            Ok(host) => {
                let actions = plan::difference(&Plan::default(), &host, claim.block);
                routing.apply(&actions).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(
                "tunnel {}: its rules and routes cannot be removed: {error}",
                self.tunnel
            );
        }
    }

    /// Which device the path's packets to `remote` leave by, now.
    pub(crate) async fn leaving(
        &self,
        path: &PathNeed,
        remote: SocketAddr,
        need: &Need,
        routing: &Routing,
    ) -> Leaving {
        let packet = Packet {
            source: path.local,
            target: remote.ip(),
            mark: self.mark(),
            udp_port: path.port,
            bound_to: path.interface.is_some().then_some(path.device).flatten(),
        };
        let hop = kernel::hop_of(&routing.handle, &packet).await;
        let device = hop.map(|hop| hop.device);
        let host = &self.host;
        let wanted = plan::device_of(need, path, host);
        let way = |device| plan::way_by(device, path.local, Some(remote.ip()), host);
        // Of a bound socket's peer the kernel takes for granted that it is on the device's link.
        let is_found = path.interface.is_none() && device == wanted;
        let has_way = is_found || wanted.is_none_or(|device| way(device).is_some());
        let why = if !host.has_rules(path.local.is_ipv4()) {
            Why::NoRules
        } else if self.claim.is_none() {
            Why::Off
        } else if !has_way {
            Why::NoGateway
        } else {
            Why::None
        };
        Leaving {
            hop,
            wanted,
            has_way,
            why,
        }
    }
}

impl Leaving {
    /// Whether nobody answers on the link that the path leaves by, neither a router nor the peer. Of that a
    /// socket that is bound to a device is told nothing.
    pub(crate) async fn is_silent(&self, routing: &Routing) -> bool {
        match self.hop {
            Some(hop) => kernel::is_silent(&routing.handle, hop).await,
            None => false,
        }
    }
}

/// So often in a row what somebody removes is made again at once; then less often.
const PATIENCE: u32 = 5;
/// What happens again and again is logged this seldom.
const SILENCE: Duration = Duration::from_secs(60);
const NAMES_TAKEN: &str = "a program of another user, neither root's nor this daemon's, has taken the names by which \
                           daemons claim their rules and routes (abstract sockets mpt/routing/0 to 63); it goes on \
                           without them, and `ss -xap` shows whose they are";
const NO_RULES: &str = "its packets go where the main table leads them";
const NO_CLAIM: &str =
    "routes that would catch the tunnel's own packets are left out, and it is tried again";

impl Need {
    /// Addresses that the tunnel's own packets go to.
    fn outer(&self) -> Vec<IpAddr> {
        let remotes = self.paths.iter().filter_map(|path| path.remote);
        remotes.chain(self.name_servers.iter().copied()).collect()
    }
}

fn refusal(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return "not permitted to set rules and routes: run as root, or grant CAP_NET_ADMIN"
            .to_owned();
    }
    format!("the kernel refuses a rule or a route of the tunnel's own: {error}")
}

//! What a running tunnel needs of the host's routing, and which devices its paths leave by.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use mpt_core::control::{Missing, PathState, PathStatus};
use mpt_core::path::{DownReason, Unreachable};
use mpt_core::time::Time;

use super::Tunnel;
use super::paths::RunningPath;
use crate::clock;
use crate::config::{self, Config, Remote};
use crate::host::Host;
use crate::netlink::Links;
use crate::resolver;
use crate::routing::{Need, PathNeed, Prefix, TunnelRouting, Why};
use crate::wanted::binding::link_of;
use crate::wanted::retry::Retry;

/// A tunnel's routing, and when it was last looked at.
pub(super) struct Ways {
    routing: TunnelRouting,
    /// What was needed then, and how often the host had changed.
    seen: Option<(Need, u64)>,
    /// When what could not be made is tried again.
    retry: Option<Retry>,
    /// Its routes that stand in the main table.
    main: Vec<Prefix>,
    /// Those that stand nowhere: no numbers are to be had for a table of its own.
    left_out: Vec<Prefix>,
}

/// The tunnel's routes that belong into the main table now.
pub(super) struct MainRoutes {
    /// Those that stay.
    pub(super) staying: Vec<Prefix>,
    /// Those that are to stand in the tunnel's own table, and go from here once they do.
    pub(super) moving: Vec<Prefix>,
}

impl Ways {
    /// Claims numbers for it, where the configuration does not say otherwise.
    pub(super) async fn new(config: &Config, host: &Host) -> Ways {
        let name = &config.tunnel.name;
        let routing = match config.tunnel.routing {
            config::Routing::Auto => TunnelRouting::claim(name, &host.routing, clock::now()).await,
            config::Routing::Off => TunnelRouting::off(name),
        };
        Ways {
            routing,
            seen: None,
            retry: None,
            main: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// The numbers of its own tables.
    pub(super) fn tables(&self) -> Range<u32> {
        self.routing.tables()
    }

    /// Routes that are wanted and stand nowhere.
    pub(super) fn missing(&self) -> impl Iterator<Item = Missing> {
        let why = self.routing.unclaimed().unwrap_or_default();
        let left_out = self.left_out.iter();
        left_out.map(move |(ip, length)| Missing {
            what: format!("route {ip}/{length}"),
            why: format!("{why}, and it would lead the tunnel's own packets into the tunnel"),
        })
    }

    /// The mark of its sockets; 0 for none.
    pub(super) fn mark(&self) -> u32 {
        self.routing.mark()
    }

    /// Takes away its rules and routes.
    pub(super) async fn remove(self, host: &Host) {
        self.routing.remove(&host.routing).await;
    }
}

/// The servers that are asked where peers are, if any has a name.
fn name_servers(config: &Config) -> Vec<IpAddr> {
    let mut remotes = config.paths.iter().filter_map(|path| path.remote.as_ref());
    if remotes.any(|remote| matches!(remote, Remote::Name { .. })) {
        resolver::servers()
    } else {
        Vec::new()
    }
}

impl Tunnel {
    fn need(&self, links: &Links) -> Need {
        Need {
            tun: self.interface.index().unwrap_or(0),
            routes: self.config.tunnel.routes.clone(),
            paths: self
                .paths
                .iter()
                .filter_map(|path| self.path_need(path, links))
                .collect(),
            name_servers: name_servers(&self.config),
            addresses: links.all_addresses().collect(),
        }
    }

    /// `None` while nothing is known of its address.
    fn path_need(&self, path: &RunningPath, links: &Links) -> Option<PathNeed> {
        let configured = self.config.path(&path.name)?;
        let binding = path.binding();
        let local = binding.map(|binding| binding.local.ip());
        Some(PathNeed {
            slot: path.id.index(),
            local: local.or(configured.local.address)?,
            port: binding.map_or(configured.local.port, |binding| binding.local.port()),
            interface: configured.interface.clone(),
            device: link_of(configured, binding, links),
            remote: path
                .remote(configured)
                .or(path.heard_of)
                .map(|remote| remote.ip()),
        })
    }

    /// Claims numbers where that failed before. Sockets that were opened without a mark are opened again.
    pub(super) async fn claim_routing(&mut self, host: &Host, now: Time) -> anyhow::Result<()> {
        if self.routing.routing.claim_again(&host.routing, now).await {
            self.routing.seen = None;
            self.close_all().await?;
        }
        Ok(())
    }

    /// The tunnel's routes that belong into the main table.
    pub(super) fn main_routes(&mut self, links: &Links) -> MainRoutes {
        let need = self.need(links);
        let staying = self.routing.routing.main_routes(&need);
        let elsewhere = |routes: &mut Vec<Prefix>| {
            routes.retain(|route| need.routes.contains(route) && !staying.contains(route));
        };
        let mut moving = Vec::new();
        if staying != self.routing.main {
            self.interface.doubt();
            moving = std::mem::replace(&mut self.routing.main, staying.clone());
            elsewhere(&mut moving);
        }
        self.routing.left_out.clear();
        if self.routing.routing.unclaimed().is_some() {
            self.routing.left_out.clone_from(&need.routes);
            elsewhere(&mut self.routing.left_out);
            moving.clear();
        }
        MainRoutes { staying, moving }
    }

    /// Makes rules and routes what they are to be, where something has changed, and where that failed when it is time
    /// to try again.
    pub(super) async fn mend_routing(&mut self, host: &Host, now: Time) {
        if self.interface.index().is_none() {
            return;
        }
        let seen = (self.need(host.links.table()), host.routing.changes());
        let is_due = self.routing.retry.is_some_and(|retry| retry.is_due(now));
        if is_due || self.routing.seen.as_ref() != Some(&seen) {
            let is_whole = self.routing.routing.mend(&seen.0, &host.routing).await;
            self.routing.retry = match self.routing.retry {
                _ if is_whole => None,
                None => Some(Retry::new(now)),
                Some(retry) => Some(retry.again(now)),
            };
            self.routing.seen = Some(seen);
        }
    }

    /// Learns where peers are of whom the file does not say, since the ways to them matter.
    pub(super) fn hear_of_peers(&mut self, paths: &[PathStatus]) {
        for path in &mut self.paths {
            let mut known = paths.iter();
            let known = known.find(|known| known.name == path.name);
            let remote = known.and_then(|known| known.remote.parse().ok());
            path.heard_of = remote.or(path.heard_of);
        }
    }

    /// Adds which device each path leaves by.
    pub(super) async fn add_devices(&self, paths: &mut [PathStatus], host: &Host) {
        let links = host.links.table();
        let need = self.need(links);
        for path in &self.paths {
            let status = paths.iter_mut().find(|status| status.name == path.name);
            let (Some(status), Some(needed), Some(_)) =
                (status, self.path_need(path, links), path.binding())
            else {
                continue;
            };
            let Ok(remote) = status.remote.parse::<SocketAddr>() else {
                continue;
            };
            let leaving = self
                .routing
                .routing
                .leaving(&needed, remote, &need, &host.routing)
                .await;
            let name_of = |index: u32| links.link(index).map(|link| link.name.clone());
            let device = leaving.hop.map(|hop| hop.device);
            status.device = device.and_then(name_of);
            if !leaving.has_way {
                status.routeless = leaving.wanted.and_then(name_of);
            }
            if let Some(wanted) = leaving.wanted.filter(|&one| Some(one) != device)
                && let Some(wanted) = name_of(wanted)
            {
                let (local, mark) = (needed.local, self.routing.mark());
                let remedy = remedy(leaving.why, &wanted, local, remote.ip(), mark);
                status.device_remedy = Some(remedy);
                status.device_wanted = Some(wanted);
            }
            if is_unanswered(status) && leaving.is_silent(&host.routing).await {
                let what = DownReason::Unreachable(Unreachable::NextHop);
                status.reason = Some(what.to_string());
            }
        }
    }
}

/// Whether nothing is known of why a path is not up but that no probe was answered.
fn is_unanswered(path: &PathStatus) -> bool {
    let says_no_more = |reason: &String| reason.starts_with("no probe was answered");
    match path.state {
        PathState::Down => path.reason.as_ref().is_some_and(says_no_more),
        PathState::Probing => path.reason.is_none(),
        PathState::Up | PathState::Waiting | PathState::AdminDown => false,
    }
}

/// The command, or the change of the file, that makes a path leave by `device`.
fn remedy(why: Why, device: &str, local: IpAddr, remote: IpAddr, mark: u32) -> String {
    let ip = if remote.is_ipv4() { "ip" } else { "ip -6" };
    match why {
        Why::Off => format!(
            "Set routing = \"auto\" in [tunnel] and restart, or `{ip} route add default via GATEWAY dev {device} \
             table 101; {ip} rule add from {local} table 101` with the address of {device}'s router for GATEWAY."
        ),
        Why::NoRules => format!(
            "This kernel has no policy routing: add interface = \"{device}\" to the path, and \
             `{ip} route add default via GATEWAY dev {device} metric 1000` with the address of {device}'s router \
             for GATEWAY."
        ),
        Why::NoGateway => format!(
            "No router is known on {device}: `{ip} route add default via GATEWAY dev {device} metric 1000` with \
             its address for GATEWAY."
        ),
        Why::None => format!(
            "`{ip} route get {} from {local} mark {:#x}` and `{ip} rule` show what leads it elsewhere.",
            remote, mark
        ),
    }
}

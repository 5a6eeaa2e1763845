//! The tunnel's TUN interface: opened, kept as it is wanted, and made again when somebody deletes it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mpt_core::control::Missing;
use mpt_core::time::Time;

use super::Tunnel;
use crate::clock;
use crate::config::{self, Config};
use crate::host::Host;
use crate::hub::queues::Queues;
use crate::log::Log;
use crate::netlink::{Change, Links, Netlink, NetlinkError, Prefix, network};
use crate::tun::{self, Tun};
use crate::wanted::interface::{Observed, Step, Wanted, steps};
use crate::wanted::retry::{Ration, Retry};
use crate::{downlink, uplink};

/// The least MTU of an interface that keeps its IPv6 addresses (RFC 8200 §5).
const IPV6_MIN_MTU: u16 = 1280;
/// Who changes one thing often changes more: the rest is waited for this long, so that all is mended, and
/// logged, at once, and `ip address flush`, which looks whether it was successful, is.
const SETTLE: Duration = Duration::from_millis(200);
/// It is mended so often at once …
const MENDED_AT_ONCE: u32 = 20;
/// … and then once in this time: somebody else may undo it each time.
const MENDED_EACH: Duration = Duration::from_millis(500);

/// A TUN interface, or the wish for one.
pub(super) struct Interface {
    /// Its queues: one, or one for each of a hub's workers.
    queues: Vec<Arc<Tun>>,
    index: u32,
    /// What the paths carry, in bytes: the MTU that is configured, or less.
    carried: u16,
    /// MTU that it is to have, in bytes.
    mtu: u16,
    /// What it was given.
    ours: BTreeSet<Step>,
    missing: Vec<Missing>,
    retry: Option<Retry>,
    /// It may be otherwise than it is wanted, and is to be looked at then.
    doubt: Option<Time>,
    /// It was there before.
    was_open: bool,
    ration: Ration,
}

impl Interface {
    /// None yet.
    pub(super) fn new(config: &Config) -> Interface {
        Interface {
            queues: Vec::new(),
            index: 0,
            carried: config.mtu(),
            mtu: config.mtu(),
            ours: BTreeSet::new(),
            missing: Vec::new(),
            retry: None,
            doubt: Some(Time::ZERO),
            was_open: false,
            ration: Ration::new(MENDED_AT_ONCE, MENDED_EACH),
        }
    }

    /// What is wanted of it and not there.
    pub(super) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// One of its queues, while there is one.
    pub(super) fn queue(&self) -> Option<&Tun> {
        self.queues.first().map(|queue| &**queue)
    }

    /// Its index, while there is one.
    pub(super) fn index(&self) -> Option<u32> {
        (!self.queues.is_empty()).then_some(self.index)
    }

    /// The back end in use, in words, and what its queues go by.
    pub(super) fn describe(&self, queues: &Queues) -> String {
        match &self.queues[..] {
            [] => "none: the interface is missing".to_owned(),
            [only] => only.describe(),
            [first, ..] => format!("{}; {queues}", first.describe()),
        }
    }

    /// The host has changed: is it of concern?
    pub(super) fn note(&mut self, config: &Config, change: &Change) {
        let tunnel = &config.tunnel;
        let concerns = match change {
            Change::Link(event) => event.index == self.index || event.name == tunnel.name,
            Change::Address { index, .. } => *index == self.index,
            Change::Route(route) => {
                let is_wanted = |prefix: &Prefix| network(*prefix) == network(route.destination);
                let mut wanted = tunnel.routes.iter().chain(&tunnel.addresses);
                route.index == Some(self.index) || wanted.any(is_wanted)
            }
            Change::Rule | Change::Filter => false,
            Change::Anything => true,
        };
        let is_gone = matches!(change, Change::Link(event) if event.deleted);
        let at = clock::now() + if is_gone { Duration::ZERO } else { SETTLE };
        if concerns && self.doubt.is_none_or(|doubt| at < doubt) {
            self.doubt = Some(at);
        }
    }

    /// The configuration has changed.
    pub(super) fn doubt(&mut self) {
        self.doubt = Some(Time::ZERO);
        self.retry = None;
    }

    /// The paths carry packets of so many bytes from now on.
    pub(super) fn set_mtu(&mut self, config: &Config, mtu: u16) {
        self.carried = mtu;
        self.fit_mtu(config);
        self.doubt = Some(Time::ZERO);
    }

    /// Its MTU is to be what the paths carry. With IPv6 inside it keeps what that needs: less, and the kernel would
    /// take the addresses away.
    fn fit_mtu(&mut self, config: &Config) {
        let inside = config.tunnel.addresses.iter();
        let mut inside = inside.chain(&config.tunnel.routes);
        let least = if inside.any(|(address, _)| address.is_ipv6()) {
            IPV6_MIN_MTU.min(config.mtu())
        } else {
            0
        };
        let mtu = self.carried.max(least);
        if std::mem::replace(&mut self.mtu, mtu) != mtu {
            self.ours.retain(|step| !matches!(step, Step::SetMtu(_)));
        }
    }

    /// Compares it with what is wanted, and mends it: `routes` are those of the main table, and what stands in
    /// `own_tables` is another's affair. Returns a new interface's queues, when there is one, for the lines to use.
    pub(super) async fn mend(
        &mut self,
        (config, routes, own_tables): (&Config, &[Prefix], &Range<u32>),
        host: &Host,
        log: &mut Log,
        now: Time,
    ) -> Option<Vec<Arc<Tun>>> {
        let (netlink, links) = (&host.netlink, host.links.table());
        let is_due = self.retry.is_some_and(|retry| retry.is_due(now));
        if !is_due && self.doubt.is_none_or(|at| now < at) {
            return None;
        }
        let mut opened = None;
        if !self.queues.is_empty()
            && links.link(self.index).is_none()
            && !netlink.exists(self.index).await
        {
            self.queues.clear();
            self.ours.clear();
            self.retry = None;
        }
        if self.queues.is_empty() {
            if !self.ration.take(now) {
                self.doubt = Some(now + MENDED_EACH);
                return None;
            }
            self.doubt = None;
            opened = self.open(config, host, log, now).await;
            opened.as_ref()?;
        }
        self.doubt = None;
        self.compare((config, routes, own_tables), netlink, links, log, now)
            .await;
        opened
    }

    async fn open(
        &mut self,
        config: &Config,
        host: &Host,
        log: &mut Log,
        now: Time,
    ) -> Option<Vec<Arc<Tun>>> {
        let name = &config.tunnel.name;
        match open(config, host).await {
            Ok((queues, index)) => {
                let queues: Vec<Arc<Tun>> = queues.into_iter().map(Arc::new).collect();
                (self.queues, self.index) = (queues.clone(), index);
                if self.was_open {
                    log.warn(format!(
                        "the interface {name} was removed; it is made again"
                    ));
                } else if !self.missing.is_empty() {
                    log.info(format!("the interface {name} is there now"));
                }
                self.was_open = true;
                self.missing.clear();
                self.retry = None;
                Some(queues)
            }
            Err(error) => {
                let missing = Missing {
                    what: format!("interface {name}"),
                    why: format!("{error:#}"),
                };
                self.note_missing(vec![missing], log, now);
                None
            }
        }
    }

    /// Does what is to be done, as far as it can be.
    async fn compare(
        &mut self,
        (config, routes, own_tables): (&Config, &[Prefix], &Range<u32>),
        netlink: &Netlink,
        links: &Links,
        log: &mut Log,
        now: Time,
    ) {
        // A reload may have brought IPv6, or taken it away.
        self.fit_mtu(config);
        let name = &config.tunnel.name;
        let observed = match observe(name, self.index, own_tables, netlink, links).await {
            Ok(observed) => observed,
            Err(error) => {
                let missing = Missing {
                    what: "the interface's settings".to_owned(),
                    why: error.to_string(),
                };
                return self.note_missing(vec![missing], log, now);
            }
        };
        let wanted = Wanted {
            name: config.tunnel.name.clone(),
            mtu: self.mtu.into(),
            addresses: config.tunnel.addresses.clone(),
            routes: routes.to_vec(),
        };
        let steps = steps(&wanted, &observed, &self.ours);
        if steps.is_empty() {
            return self.note_missing(Vec::new(), log, now);
        }
        if !netlink.exists(self.index).await {
            // It has just been deleted: the table of links will know in a moment.
            self.doubt = Some(now);
            return;
        }
        if !self.ration.take(now) {
            self.doubt = Some(now + MENDED_EACH);
            return;
        }
        let (mut missing, mut restored) = (Vec::new(), Vec::new());
        for step in steps {
            match carry_out(step, &wanted.name, self.index, netlink).await {
                Ok(()) => {
                    if !self.remember(step) {
                        restored.push(step.to_string());
                    }
                }
                Err(error) => missing.push(Missing {
                    what: step.to_string(),
                    why: error.to_string(),
                }),
            }
        }
        if !restored.is_empty() {
            let name = &wanted.name;
            log.warn(format!(
                "somebody has changed {name}; restored: {}",
                restored.join(", ")
            ));
        }
        self.note_missing(missing, log, now);
    }

    /// Remembers what was given or taken. Returns whether it is new.
    fn remember(&mut self, step: Step) -> bool {
        match step {
            Step::RemoveAddress(address) => self.ours.remove(&Step::AddAddress(address)),
            Step::RemoveRoute(route) => {
                let before = self.ours.len();
                self.ours.retain(|given| {
                    !matches!(given, Step::AddRoute(ours) if network(*ours) == network(route))
                });
                before != self.ours.len()
            }
            Step::Rename
            | Step::SetMtu(_)
            | Step::SetUp
            | Step::AddAddress(_)
            | Step::AddRoute(_) => self.ours.insert(step),
            // The kernel's first gift.
            Step::AddNetwork(_) => false,
        }
    }

    /// Says what has come to be missing, once, and what is no longer.
    fn note_missing(&mut self, missing: Vec<Missing>, log: &mut Log, now: Time) {
        for one in missing.iter().filter(|one| !self.missing.contains(one)) {
            log.warn(format!("{} is missing: {}", one.what, one.why));
        }
        for before in &self.missing {
            if !missing.iter().any(|one| one.what == before.what) {
                log.info(format!("{} is no longer missing", before.what));
            }
        }
        self.retry = match self.retry {
            _ if missing.is_empty() => None,
            None => Some(Retry::new(now)),
            Some(retry) => Some(retry.again(now)),
        };
        self.missing = missing;
    }
}

impl Tunnel {
    /// Mends the interface, with these routes in the main table, and gives the lines another one.
    pub(super) async fn mend_interface(
        &mut self,
        routes: &[Prefix],
        host: &Host,
        now: Time,
    ) -> anyhow::Result<()> {
        let own_tables = self.routing.tables();
        let opened = self
            .interface
            .mend(
                (&self.config, routes, &own_tables),
                host,
                &mut self.log,
                now,
            )
            .await;
        if let Some(queues) = opened {
            let counter = self.tx_dropped(&host.netlink).await;
            self.dropped.get_mut().opened(counter);
            self.queues.opened(&queues, &mut self.log);
            // Where there is one queue for all, the first worker reads it.
            let command = |worker: usize| match (queues.get(worker), queues.first()) {
                (Some(own), _) => Some(uplink::Command::SetTun(own.clone())),
                (None, first) => first.map(|first| uplink::Command::ShareTun(first.clone())),
            };
            self.uplink.tell_some(command).await?;
            let queue = |worker: usize| queues.get(worker).or(queues.first());
            let command = |worker| queue(worker).cloned().map(downlink::Command::SetTun);
            self.downlink.tell_some(command).await?;
        }
        Ok(())
    }
}

async fn open(config: &Config, host: &Host) -> anyhow::Result<(Vec<Tun>, u32)> {
    let name = &config.tunnel.name;
    let offload: config::Offload = config.tunnel.offload;
    let workers = config.workers();
    let queues = match host.files.lends_device() {
        true if workers > 1 => {
            Tun::open_queues(name, offload, &|| host.files.tun_device(), workers)?
        }
        true => vec![Tun::open_lent(name, offload, &|| host.files.tun_device())?],
        false if workers > 1 => Tun::open_queues(name, offload, &tun::device, workers)?,
        false => vec![Tun::open(name, offload)?],
    };
    let netlink = &host.netlink;
    let index = netlink.interface_index(name).await?;
    netlink.prepare(index).await?;
    Ok((queues, index))
}

/// What the interface has now. What the table of links does not know yet is nothing.
async fn observe(
    name: &str,
    index: u32,
    own_tables: &Range<u32>,
    netlink: &Netlink,
    links: &Links,
) -> Result<Observed, NetlinkError> {
    let addresses = links.addresses_of(index);
    let addresses = addresses
        .map(|address| (address.ip, address.length))
        .collect();
    let routes = netlink.routes_of(index).await?;
    let routes = routes.into_iter();
    let routes = routes.filter(|(table, _)| !own_tables.contains(table));
    let routes = routes.map(|(_, route)| route).collect();
    Ok(match links.link(index) {
        Some(link) => Observed {
            name: link.name.clone(),
            mtu: link.mtu,
            is_up: link.is_set_up,
            addresses,
            routes,
        },
        None => Observed {
            name: name.to_owned(),
            ..Observed::default()
        },
    })
}

async fn carry_out(
    step: Step,
    name: &str,
    index: u32,
    netlink: &Netlink,
) -> Result<(), NetlinkError> {
    match step {
        Step::Rename => netlink.rename(index, name).await,
        Step::RemoveRoute(route) => netlink.remove_route(index, route).await,
        Step::RemoveAddress(address) => netlink.remove_address(index, address).await,
        Step::SetMtu(mtu) => {
            netlink.set_mtu(index, mtu).await?;
            // With an MTU below 1280 the kernel forgot all about IPv6 here.
            netlink.prepare(index).await
        }
        Step::AddAddress(address) => netlink.add_address(index, address).await,
        Step::SetUp => netlink.set_up(index).await,
        Step::AddRoute(route) => netlink.add_route(index, route).await,
        Step::AddNetwork(address) => netlink.add_network(index, address).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_that_a_reload_brings_has_the_mtu_that_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mpt0.toml");
        let with = |addresses: &str| {
            let text = format!(
                "[tunnel]\nname = \"mpt0\"\naddresses = [{addresses}]\n\n[[paths]]\nname = \"fibre\"\n\
                 local = \"10.0.0.1\"\nremote = \"10.0.0.2\"\n"
            );
            std::fs::write(&file, text).unwrap();
            Config::read(&file).unwrap()
        };
        let before = with("\"10.99.0.1/30\"");
        let mut interface = Interface::new(&before);
        interface.set_mtu(&before, 1222);
        assert_eq!(interface.mtu, 1222);
        interface.ours.insert(Step::SetMtu(1222));
        interface.fit_mtu(&with("\"10.99.0.1/30\", \"fd98::1/64\""));
        assert_eq!((interface.mtu, interface.ours.len()), (1280, 0));
        interface.fit_mtu(&before);
        assert_eq!(interface.mtu, 1222);
    }
}

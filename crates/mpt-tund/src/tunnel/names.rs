//! Peers that are known by a name: what it stands for is looked up while the tunnel runs.
//!
//! A name is looked up when its path has no address yet, and again as long as the path is not up: a peer
//! with a changing address is found at its new one. While a path works it is left alone; in a sealed tunnel
//! it follows its peer by itself. When a name stands for several addresses, those that do not work are
//! tried in turn; while the path's own link is down, or the path is out of service, none is found not to work.
//! A path with `local` takes those of its family; one that follows its interface takes those
//! that the interface has an address for, IPv4 first, and goes over to the other family with it.
//!
//! Looking up takes as long as it takes, so it goes on beside the control thread's loop, one at a time for
//! each path, and comes back to it by a channel.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use mpt_core::control::PathState;
use mpt_core::time::Time;
use tokio::sync::mpsc;

use super::Tunnel;
use super::paths::{RunningPath, Sockets};
use crate::clock;
use crate::config::{self, Family, Remote};
use crate::netlink::Links;
use crate::resolver::{self, Way};
use crate::wanted::binding::Waits;

/// Pause after a name was not found; twice as long after each further time, up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two looks at a path that is, or may be, on its way up.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A path with an address is given this time to come up before its name is looked up again.
const TRIAL: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;

/// What a name stands for, or why nobody knows.
#[derive(Debug)]
pub(crate) struct Found {
    /// The tunnel.
    pub(crate) tunnel: String,
    path: String,
    asked: Asked,
    addresses: Result<Vec<SocketAddr>, String>,
}

/// What is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    host: String,
    port: u16,
    /// The one that the configuration decides on.
    family: Option<Family>,
}

/// Where answers go.
pub(crate) type Finds = mpsc::Sender<Found>;

/// The name of a path's peer.
#[derive(Debug)]
pub(super) struct Lookup {
    asked: Asked,
    /// What is being used.
    address: Option<SocketAddr>,
    /// Those of the last answer's addresses that were told since the path was up.
    told: BTreeSet<SocketAddr>,
    /// Why it was not found, when it was looked up last.
    failure: Option<String>,
    is_under_way: bool,
    next: Time,
    pause: Duration,
}

impl Lookup {
    /// Of a path whose peer has a name.
    pub(super) fn of(path: &config::Path) -> Option<Lookup> {
        let Some(Remote::Name { host, port }) = &path.remote else {
            return None;
        };
        Some(Lookup {
            asked: Asked {
                host: host.clone(),
                port: *port,
                family: path.local.address.map(Family::of),
            },
            address: None,
            told: BTreeSet::new(),
            failure: None,
            is_under_way: false,
            next: Time::ZERO,
            pause: SHORTEST_PAUSE,
        })
    }

    /// Whether both look up the same.
    pub(super) fn is_for(&self, other: &Lookup) -> bool {
        self.asked == other.asked
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// That no address is known, and why.
    pub(super) fn unknown(&self) -> Option<String> {
        let host = &self.asked.host;
        match (self.address, &self.failure) {
            (Some(_), _) => None,
            (None, Some(why)) => Some(format!("{host} is not found: {why}")),
            (None, None) => Some(format!("{host} is being looked up")),
        }
    }

    fn is_due(&self, now: Time) -> bool {
        !self.is_under_way && now >= self.next
    }

    /// Whether that address is news: where several are tried in turn, each is once, until the path is up.
    fn is_news(&mut self, address: SocketAddr) -> bool {
        self.told.insert(address)
    }

    /// The address that is known stays: none other is to be had by the path's link. Once one is, this one has a trial
    /// first.
    fn put_off(&mut self, now: Time) {
        if self.address.is_some() {
            self.next = self.next.max(now + TRIAL);
        }
    }

    /// Asks as this host's programs do, but with the tunnel's mark; and where nobody helps, over the path
    /// itself: the device that the host prefers may be down, and a provider's name server answers its
    /// customers alone.
    fn begin(&mut self, tunnel: String, path: String, ways: [Way; 2], finds: Finds) {
        self.is_under_way = true;
        let asked = self.asked.clone();
        tokio::task::spawn_local(async move {
            let [usual, own] = ways;
            let Asked { host, port, family } = &asked;
            let mut found = resolver::look_up(host, *family, &usual).await;
            if found.is_err() && own != usual {
                found = resolver::look_up(host, *family, &own).await.or(found);
            }
            let addresses = found.map(|all| {
                let all = all.into_iter().take(MAX_ADDRESSES);
                all.map(|ip| SocketAddr::new(ip, *port)).collect()
            });
            // At the end of the daemon nobody listens any more.
            let _ = finds
                .send(Found {
                    tunnel,
                    path,
                    asked,
                    addresses,
                })
                .await;
        });
    }

    /// Takes what was found. Returns the address to use, when it is another one than before. The path's
    /// interface, where it decides, has addresses of these `families`.
    fn take(
        &mut self,
        now: Time,
        addresses: Result<Vec<SocketAddr>, String>,
        families: &[Family],
    ) -> Result<Option<SocketAddr>, String> {
        self.is_under_way = false;
        let fits = |address: &SocketAddr| match self.asked.family {
            Some(family) => Family::of(address.ip()) == family,
            None => families.is_empty() || families.contains(&Family::of(address.ip())),
        };
        let family = match (self.asked.family, families) {
            (Some(family), _) | (None, &[family]) => format!("{family} "),
            (None, _) => String::new(),
        };
        let found = addresses.and_then(|mut all| {
            all.retain(fits);
            // Of an address that went and has come back one is to hear.
            self.told.retain(|told| all.contains(told));
            all.sort_by_key(SocketAddr::is_ipv6);
            let at = self
                .address
                .and_then(|used| all.iter().position(|one| *one == used));
            let next = at.map_or(0, |at| (at + 1) % all.len());
            let none = || format!("it has no {family}address");
            all.get(next).copied().ok_or_else(none)
        });
        match found {
            Ok(address) => {
                self.failure = None;
                self.next = now + TRIAL;
                self.pause = SHORTEST_PAUSE;
                let is_new = self.address.replace(address) != Some(address);
                Ok(is_new.then_some(address))
            }
            Err(why) => {
                self.failure = Some(why.clone());
                self.next = now + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Err(why)
            }
        }
    }
}

impl Tunnel {
    /// Begins to look up the names of peers whose paths are not up.
    pub(crate) async fn look_up(&mut self, finds: &Finds) -> anyhow::Result<()> {
        let now = clock::now();
        for path in &mut self.paths {
            let tries_others = path.tries_others();
            if let Some(lookup) = path.lookup.as_mut().filter(|_| !tries_others) {
                lookup.put_off(now);
            }
        }
        let is_due = |path: &RunningPath| path.lookup.as_ref().is_some_and(|one| one.is_due(now));
        if !self.paths.iter().any(is_due) {
            return Ok(());
        }
        let status = self.report().await?;
        let mark = self.routing.mark();
        for path in self.paths.iter_mut().filter(|path| is_due(path)) {
            let source = path.binding().map(|bound| bound.local.ip());
            let configured = self.config.path(&path.name);
            let usual = Way {
                mark,
                ..Way::default()
            };
            let own = Way {
                mark,
                source: source.filter(|ip| !ip.is_unspecified()),
                device: configured.and_then(|path| path.interface.clone()),
            };
            let Some(lookup) = path.lookup.as_mut() else {
                continue;
            };
            let mut known = status.paths.iter();
            if known.any(|known| known.name == path.name && known.state == PathState::Up) {
                lookup.next = now + LONGEST_PAUSE;
                lookup.told.clear();
            } else {
                let tunnel = self.config.tunnel.name.clone();
                lookup.begin(tunnel, path.name.clone(), [usual, own], finds.clone());
            }
        }
        Ok(())
    }

    /// Uses what a name was found to stand for. [`Tunnel::reconcile`] is to follow: the family may be
    /// another one.
    pub(crate) async fn found(&mut self, found: Found, links: &Links) -> anyhow::Result<()> {
        let Some(at) = self.paths.iter().position(|path| path.name == found.path) else {
            return Ok(());
        };
        let configured = self.config.path(&found.path);
        let interface = configured.and_then(|path| path.interface.as_deref());
        let families = families_of(interface, links);
        let tries_others = self.paths[at].tries_others();
        let known = self.paths[at]
            .lookup
            .as_mut()
            .filter(|lookup| lookup.asked == found.asked);
        let Some(lookup) = known else {
            return Ok(());
        };
        // Its link went while it was being looked up.
        if lookup.address.is_some() && !tries_others {
            lookup.is_under_way = false;
            return Ok(());
        }
        let is_first_failure = lookup.pause == SHORTEST_PAUSE;
        let (path, host) = (&found.path, &found.asked.host);
        match lookup.take(clock::now(), found.addresses, &families) {
            Ok(None) => {}
            Ok(Some(address)) => {
                let line = format!("path {path}: {host} is at {address}");
                match lookup.is_news(address) {
                    true => self.log.info(line),
                    false => tracing::debug!("{line}"),
                }
                self.set_path(at, &Sockets::default()).await?;
            }
            Err(why) if is_first_failure => {
                self.log
                    .warn(format!("path {path}: {host} is not found: {why}"));
            }
            Err(why) => tracing::debug!("path {path}: {host} is not found: {why}"),
        }
        Ok(())
    }
}

/// Whether a path that waits for this, or for nothing, has something to send from: where its interface has lost the
/// addresses of one family, those of the other will do.
pub(super) fn leads_on(waits: Option<&Waits>, links: &Links) -> bool {
    match waits {
        None => true,
        Some(Waits::AnyAddress(interface, _)) => !families_of(Some(interface), links).is_empty(),
        Some(Waits::Interface(_) | Waits::Address(_) | Waits::Name(_) | Waits::Refused(_)) => false,
    }
}

/// The families that an interface has addresses of.
fn families_of(interface: Option<&str>, links: &Links) -> Vec<Family> {
    let Some(index) = interface.and_then(|name| links.index_of(name)) else {
        return Vec::new();
    };
    let mut families = Vec::new();
    for address in links.addresses_of(index) {
        let family = Family::of(address.ip);
        // A link-local address leads to no peer that has a name.
        if address.is_usable && address.is_global && !families.contains(&family) {
            families.push(family);
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup() -> Lookup {
        Lookup {
            asked: Asked {
                host: "office.example.net".to_owned(),
                port: 4754,
                family: Some(Family::V4),
            },
            address: None,
            told: BTreeSet::new(),
            failure: None,
            is_under_way: true,
            next: Time::ZERO,
            pause: SHORTEST_PAUSE,
        }
    }

    fn addresses(all: &[&str]) -> Result<Vec<SocketAddr>, String> {
        Ok(all.iter().map(|one| one.parse().unwrap()).collect())
    }

    #[test]
    fn addresses_are_tried_in_turn_and_those_of_the_other_family_are_not() {
        let mut lookup = lookup();
        let all = ["[fd00::1]:4754", "192.0.2.1:4754", "192.0.2.2:4754"];
        let mut tried = Vec::new();
        for _ in 0..3 {
            let address = lookup
                .take(Time::ZERO, addresses(&all), &[])
                .unwrap()
                .unwrap();
            tried.push(address.to_string());
        }
        assert_eq!(tried, [all[1], all[2], all[1]]);
        assert!(lookup.take(Time::ZERO, addresses(&all[..1]), &[]).is_err());
        assert_eq!(lookup.address().unwrap().to_string(), all[1], "kept");
    }

    #[test]
    fn a_path_that_follows_its_interface_takes_what_that_can_reach_and_rather_ipv4() {
        let all = ["[fd00::1]:4754", "192.0.2.1:4754"];
        let take = |families: &[Family]| {
            let mut lookup = lookup();
            lookup.asked.family = None;
            let taken = lookup.take(Time::ZERO, addresses(&all), families);
            taken.unwrap().unwrap().to_string()
        };
        assert_eq!(take(&[]), all[1]);
        assert_eq!(take(&[Family::V6, Family::V4]), all[1]);
        assert_eq!(take(&[Family::V6]), all[0]);
    }

    #[test]
    fn an_interface_that_lost_a_family_leads_on_by_the_other() {
        let waits = Waits::AnyAddress("wwan0".to_owned(), Family::V4);
        let mut links = Links::of(&[("wwan0", &["2001:db8::1"])]);
        assert!(leads_on(None, &links));
        assert!(leads_on(Some(&waits), &links));
        links.put("wwan0", "2001:db8::1", false);
        assert!(!leads_on(Some(&waits), &links), "it has no address at all");
        let gone = Waits::Interface("wwan1".to_owned());
        assert!(!leads_on(Some(&gone), &links));
    }

    #[test]
    fn an_address_that_is_known_has_its_trial_once_the_link_is_back() {
        let mut lookup = lookup();
        let later = Time::ZERO + TRIAL * 5;
        lookup.put_off(later);
        assert_eq!(lookup.next, Time::ZERO, "no address is known");
        let one = ["192.0.2.1:4754"];
        lookup.take(Time::ZERO, addresses(&one), &[]).unwrap();
        lookup.put_off(later);
        assert!(!lookup.is_due(later + TRIAL / 2));
        assert!(lookup.is_due(later + TRIAL));
        lookup.next = later + LONGEST_PAUSE;
        lookup.put_off(later);
        assert_eq!(lookup.next, later + LONGEST_PAUSE, "not sooner than it was");
    }

    #[test]
    fn the_address_that_is_in_use_is_no_news() {
        let mut lookup = lookup();
        let one = ["192.0.2.1:4754"];
        assert!(
            lookup
                .take(Time::ZERO, addresses(&one), &[])
                .unwrap()
                .is_some()
        );
        assert!(
            lookup
                .take(Time::ZERO, addresses(&one), &[])
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn addresses_that_are_tried_in_turn_are_news_once() {
        let mut lookup = lookup();
        let all = ["192.0.2.1:4754", "192.0.2.2:4754", "192.0.2.3:4754"];
        let mut news = |all: &[&str]| {
            let address = lookup.take(Time::ZERO, addresses(all), &[]).unwrap();
            lookup.is_news(address.unwrap())
        };
        let told: Vec<bool> = (0..6).map(|_| news(&all[..2])).collect();
        assert_eq!(told, [true, true, false, false, false, false]);
        assert!(news(&all[2..]), "it has moved");
        assert!(news(&all[..1]), "it has moved back");
    }

    #[test]
    fn what_is_not_found_is_looked_up_less_and_less_often() {
        let mut lookup = lookup();
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let missing = Err("there is no such name".to_owned());
            assert!(lookup.take(now, missing, &[]).is_err());
            pauses.push(lookup.next.since(now).as_secs());
            now = lookup.next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert!(lookup.is_due(now));
    }
}

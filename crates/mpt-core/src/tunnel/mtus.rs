//! How large the tunnel's packets may be: as large as its tightest path carries, and no larger than is
//! configured. A path that carries much less than others do is left out instead, as long as one of those works:
//! it would make all packets small, and below 1280 bytes there is no IPv6.
//!
//! In a plain tunnel only ICMP tells what a path carries. It is believed for ten minutes, within limits:
//! anybody can send it. A sealed tunnel asks the path, by probes that are padded
//! ([`crate::path::MtuSearch`]); ICMP only makes it ask sooner. A padded probe is an ordinary message with
//! zeros behind it, so the peer needs to know nothing of this.

use std::time::Duration;

use super::event::{Event, Events};
use crate::crypto::CONTROL_OVERHEAD;
use crate::path::{Bounds, MAX_PATHS, MtuSearch, Path, PathId, PathSet, Paths};
use crate::time::{Time, earliest};
use crate::wire::probe::Echo;

/// After this long a path is tried again with its full MTU (RFC 1191 §6.3).
const PATH_MTU_EXPIRES: Duration = Duration::from_secs(600);
/// No lower MTU of a link is believed than Linux believes (`min_pmtu`) or than RFC 8200 §5 allows:
/// anybody can send ICMP errors.
const LEAST_LINK_MTU_V4: u16 = 552;
const LEAST_LINK_MTU_V6: u16 = 1280;
/// A link MTU that nearly every path has: BASE_PLPMTU of RFC 8899 §5.1.2, and with IPv6 there is no less.
const BASE_LINK_MTU: u16 = 1280;
/// Packets do not overtake each other by more than so many times the jitter of probes …
const OVERTAKING: u64 = 8;
/// … nor by more than this.
const LONGEST_OVERTAKING: Duration = Duration::from_millis(200);

/// The least that a link under IPv6 has to carry (RFC 8200 §5), and with it the inside of the tunnel.
const LEAST_INSIDE: u16 = 1280;

/// Whether a path that carries packets of `mtu` bytes is one that others, which carry `best`, do without.
fn is_narrow(mtu: u16, best: u16) -> bool {
    mtu < LEAST_INSIDE && best >= LEAST_INSIDE || u32::from(mtu) * 4 < u32::from(best) * 3
}

/// What is known of the paths' MTUs. All sizes are those of inner packets, in bytes.
pub(super) struct Mtus {
    /// The configured one.
    config: u16,
    /// By ICMP, in a plain tunnel, and since when.
    told: [Option<(u16, Time)>; MAX_PATHS],
    /// In a sealed tunnel.
    searches: [Option<Box<MtuSearch>>; MAX_PATHS],
    /// What was last said of each path.
    said: [u16; MAX_PATHS],
    /// Paths that are left out, as others carry more.
    left_out: PathSet,
    /// What the interface was last told.
    interface: u16,
    /// A padded message, plain and sealed.
    padded: [Vec<u8>; 2],
}

/// What is to be sent for a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// A message that is padded to the size of a packet of so many bytes.
    Padded(u16),
    /// A small one beside it.
    Companion,
}

/// What an ICMP error says of a path's MTU.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooBig {
    /// The link's MTU, in bytes.
    pub(super) link_mtu: u32,
    pub(super) is_ipv4: bool,
    /// What GRE, and sealing, add to a packet.
    pub(super) gre_len: u16,
}

/// What a link's MTU leaves for an inner packet.
fn inner(link_mtu: u16, is_ipv4: bool, gre_len: u16) -> u16 {
    let ip_and_udp = if is_ipv4 { 20 + 8 } else { 40 + 8 };
    link_mtu - ip_and_udp - gre_len
}

fn least_link_mtu(is_ipv4: bool) -> u16 {
    if is_ipv4 {
        LEAST_LINK_MTU_V4
    } else {
        LEAST_LINK_MTU_V6
    }
}

impl Mtus {
    pub(super) fn new(config: u16) -> Mtus {
        Mtus {
            config,
            told: [None; MAX_PATHS],
            searches: Default::default(),
            said: [config; MAX_PATHS],
            left_out: PathSet::EMPTY,
            interface: config,
            padded: Default::default(),
        }
    }

    /// The configured MTU is another one.
    pub(super) fn configure(&mut self, config: u16) {
        self.config = config;
        self.interface = config;
        self.said = [config; MAX_PATHS];
    }

    pub(super) fn forget_path(&mut self, path: PathId) {
        self.told[path.index()] = None;
        self.searches[path.index()] = None;
    }

    /// Paths that are left out, as others carry more.
    pub(super) fn left_out(&self) -> PathSet {
        self.left_out
    }

    /// Largest inner packet that fits the path, as far as is known, in bytes.
    pub(super) fn of(&self, path: PathId) -> u16 {
        let search = self.searches[path.index()].as_ref();
        let searched = search.map(|search| search.size());
        let told = self.told[path.index()].map(|(mtu, _)| mtu);
        let known = searched.or(told).unwrap_or(self.config);
        known.min(self.config)
    }

    /// The path came up, or leads elsewhere.
    pub(super) fn begin_search(&mut self, now: Time, path: PathId) {
        if let Some(search) = &mut self.searches[path.index()] {
            search.begin(now);
        }
    }

    /// An ICMP error came. In a sealed tunnel the path is asked; in a plain one the error is believed.
    /// Returns whether the path's MTU is less now.
    pub(super) fn too_big(
        &mut self,
        now: Time,
        path: PathId,
        what: TooBig,
        is_sealed: bool,
    ) -> bool {
        let link_mtu = u16::try_from(what.link_mtu).unwrap_or(u16::MAX);
        let link_mtu = link_mtu.max(least_link_mtu(what.is_ipv4));
        let mtu = inner(link_mtu, what.is_ipv4, what.gre_len);
        if is_sealed {
            if let Some(search) = &mut self.searches[path.index()] {
                search.suspect(now, mtu);
            }
            return false;
        }
        let is_less = mtu < self.of(path);
        if is_less {
            self.told[path.index()] = Some((mtu, now));
        }
        is_less
    }

    /// When a padded probe is due, or what ICMP said is forgotten.
    pub(super) fn deadline(&self, paths: &Paths, is_idle: bool) -> Option<Time> {
        let searches = paths.iter().zip(&self.searches);
        let active = searches.filter_map(|(path, search)| {
            let is_up = path.as_ref()?.is_up();
            let search = search.as_ref()?;
            let is_wanted = !is_idle || !search.is_at_rest();
            (is_up && is_wanted).then_some(search.poll_timeout())
        });
        let told = self.told.iter().flatten();
        let expires = told.map(|(_, since)| *since + PATH_MTU_EXPIRES).min();
        earliest(active.min(), expires)
    }

    /// Forgets what ICMP said long ago.
    pub(super) fn expire(&mut self, now: Time) {
        for told in &mut self.told {
            told.take_if(|(_, since)| now.since(*since) >= PATH_MTU_EXPIRES);
        }
    }

    /// What is to be sent now to find out what the path of a sealed tunnel carries.
    pub(super) fn ask(
        &mut self,
        now: Time,
        id: PathId,
        path: &Path,
        gre_len: u16,
        is_idle: bool,
    ) -> Option<Ask> {
        let bounds = self.bounds(path, gre_len);
        let search =
            self.searches[id.index()].get_or_insert_with(|| Box::new(MtuSearch::new(bounds)));
        search.set_bounds(now, bounds);
        // What an idle tunnel would carry is found out when it carries something.
        if !path.is_up() || is_idle && search.is_at_rest() {
            return None;
        }
        if search.is_companion_due(now) {
            return Some(Ask::Companion);
        }
        search.due(now).map(Ask::Padded)
    }

    /// The message with this number was sent for the search. Returns what is to follow at once.
    pub(super) fn asked(
        &mut self,
        now: Time,
        id: PathId,
        path: &Path,
        ask: Ask,
        number: u32,
    ) -> Option<Ask> {
        let search = self.searches[id.index()].as_mut()?;
        match ask {
            Ask::Companion => {
                search.companion_sent(number);
                None
            }
            Ask::Padded(size) => {
                let overtaking = Duration::from_nanos(path.idle.jitter() * OVERTAKING);
                let overtaking = overtaking.min(LONGEST_OVERTAKING);
                let rtt = path.rtt.smoothed().unwrap_or_default();
                search.sent(now, number, size, rtt, overtaking);
                search.is_companion_due(now).then_some(Ask::Companion)
            }
        }
    }

    fn bounds(&self, path: &Path, gre_len: u16) -> Bounds {
        let is_ipv4 = path.peer.is_none_or(|peer| peer.is_ipv4());
        let inner = |link_mtu: u16| inner(link_mtu, is_ipv4, gre_len).min(self.config);
        Bounds {
            ceiling: self.config,
            base: inner(BASE_LINK_MTU),
            least: inner(least_link_mtu(is_ipv4)),
        }
    }

    /// A message of ours came back on the path. Returns whether that may tell its MTU.
    pub(super) fn note_carried(&mut self, now: Time, id: PathId, path: &Path, echo: Echo) -> bool {
        let Some(search) = &mut self.searches[id.index()] else {
            return false;
        };
        search.answered(now, echo.number, path.round_trips_lost());
        search.doubt(now, path.loss_at_peer);
        true
    }

    /// Works out how large packets may be now, in bytes, and tells of paths whose MTU is known. Whether
    /// other paths are left out now than before.
    pub(super) fn follow(&mut self, paths: &Paths, events: &mut Events) -> (u16, bool) {
        let narrow = self.narrow(paths);
        let are_others = std::mem::replace(&mut self.left_out, narrow) != narrow;
        let mut tightest = self.config;
        for (id, path) in Path::each(paths) {
            let mtu = self.of(id);
            if !narrow.contains(id) {
                tightest = tightest.min(mtu);
            }
            let said = self.said[id.index()];
            if mtu != said && !self.is_searched(id, path) {
                self.said[id.index()] = mtu;
                events.push(Event::PathMtu {
                    path: id,
                    mtu,
                    lowered: mtu < said,
                });
            }
        }
        (tightest, are_others)
    }

    /// Paths that carry so much less than one that is up that they are left out.
    pub(super) fn narrow(&self, paths: &Paths) -> PathSet {
        let up = Path::each(paths).filter(|(_, path)| path.is_up());
        let best = up.map(|(id, _)| self.of(id)).max().unwrap_or(0);
        let mut narrow = PathSet::EMPTY;
        for (id, _) in Path::each(paths) {
            if is_narrow(self.of(id), best) {
                narrow.insert(id);
            }
        }
        narrow
    }

    /// Whether the path works and how much it carries is being found out.
    fn is_searched(&self, id: PathId, path: &Path) -> bool {
        let search = self.searches[id.index()].as_ref();
        path.is_up() && search.is_some_and(|search| search.is_searching())
    }

    /// The MTU that the interface is to have when packets may have `mtu` bytes, if that is another. Not while
    /// it is being found out: then the line out tells senders what fits.
    pub(super) fn take_interface(&mut self, mtu: u16, paths: &Paths) -> Option<u16> {
        let mut all = Path::each(paths);
        if mtu == self.interface || all.any(|(id, path)| self.is_searched(id, path)) {
            return None;
        }
        self.interface = mtu;
        Some(mtu)
    }

    /// The message with zeros behind it, and room to seal it into.
    pub(super) fn pad(&mut self, message: &[u8], datagram_len: usize) -> (&[u8], &mut [u8]) {
        let [plain, sealed] = &mut self.padded;
        plain.clear();
        plain.extend_from_slice(message);
        plain.resize(datagram_len.saturating_sub(CONTROL_OVERHEAD), 0);
        sealed.resize(datagram_len, 0);
        (plain, sealed)
    }

    /// What was sealed there, `len` bytes of it.
    pub(super) fn padded(&self, len: usize) -> &[u8] {
        &self.padded[1][..len]
    }
}

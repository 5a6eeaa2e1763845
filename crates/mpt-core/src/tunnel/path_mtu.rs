//! How large the tunnel's packets may be: as large as its tightest path carries, and no larger than is
//! configured. A path that carries much less than others do is left out instead, as long as one of those works:
//! it would make all packets small, and below 1280 bytes there is no IPv6.
//!
//! In a plain tunnel only ICMP tells what a path carries. It is believed for ten minutes, within limits:
//! anybody can send it. A sealed tunnel asks the path, by probes that are padded
//! ([`crate::path::MtuSearch`]); ICMP only makes it ask sooner. A padded probe is an ordinary message with
//! zeros behind it, so the peer needs to know nothing of this.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::event::Event;
use super::inbound::Inbound;
use super::probing::Extent;
use crate::crypto::{CONTROL_OVERHEAD, DATA_OVERHEAD};
use crate::path::{Bounds, MAX_PATHS, MtuSearch, PathId, PathSet, PathState};
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
/// A path on which so much is lost, in millionths, may be one that swallows large packets.
const MUCH_LOST_PPM: u32 = 200_000;

/// Whether a path that carries packets of `mtu` bytes is one that others, which carry `best`, do without.
fn is_narrow(mtu: u16, best: u16) -> bool {
    mtu < LEAST_INSIDE && best >= LEAST_INSIDE || u32::from(mtu) * 4 < u32::from(best) * 3
}

/// What is known of the paths' MTUs. All sizes are those of inner packets, in bytes.
pub(super) struct Mtus {
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

impl Mtus {
    pub(super) fn new(config_mtu: u16) -> Mtus {
        Mtus {
            told: [None; MAX_PATHS],
            searches: Default::default(),
            said: [config_mtu; MAX_PATHS],
            left_out: PathSet::EMPTY,
            interface: config_mtu,
            padded: Default::default(),
        }
    }

    pub(super) fn forget_path(&mut self, path: PathId) {
        self.told[path.index()] = None;
        self.searches[path.index()] = None;
    }

    /// Paths that are left out, as others carry more.
    pub(super) fn left_out(&self) -> PathSet {
        self.left_out
    }

    /// The path came up, or leads elsewhere.
    pub(super) fn begin_search(&mut self, now: Time, path: PathId) {
        if let Some(search) = &mut self.searches[path.index()] {
            search.begin(now);
        }
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

impl Inbound {
    /// An ICMP error says that datagrams to `to` must not be longer than `link_mtu` bytes, IP header
    /// included.
    pub fn handle_too_big(&mut self, now: Time, path: PathId, to: SocketAddr, link_mtu: u32) {
        let Some(known) = &self.paths[path.index()] else {
            return;
        };
        if known.peer.is_none_or(|peer| peer.ip() != to.ip()) {
            return;
        }
        let least = if to.is_ipv4() {
            LEAST_LINK_MTU_V4
        } else {
            LEAST_LINK_MTU_V6
        };
        let link_mtu = u16::try_from(link_mtu).unwrap_or(u16::MAX).max(least);
        let mtu = self.inner(link_mtu, to.is_ipv4());
        if self.opening.is_some() {
            if let Some(search) = &mut self.mtus.searches[path.index()] {
                search.suspect(now, mtu);
            }
        } else if mtu < self.mtu_of(path) {
            self.mtus.told[path.index()] = Some((mtu, now));
            self.follow_mtus();
        }
    }

    /// What a link's MTU leaves for an inner packet.
    fn inner(&self, link_mtu: u16, is_ipv4: bool) -> u16 {
        let ip_and_udp = if is_ipv4 { 20 + 8 } else { 40 + 8 };
        link_mtu - ip_and_udp - self.gre_len() as u16
    }

    /// When a padded probe is due, or what ICMP said is forgotten.
    pub(super) fn next_mtu_probe(&self) -> Option<Time> {
        let searches = self.paths.iter().zip(&self.mtus.searches);
        let active = searches.filter_map(|(path, search)| {
            let is_up = path.as_ref()?.state == PathState::Up;
            let search = search.as_ref()?;
            let is_wanted = !self.activity.is_idle() || !search.is_at_rest();
            (is_up && is_wanted).then_some(search.poll_timeout())
        });
        let told = self.mtus.told.iter().flatten();
        let expires = told.map(|(_, since)| *since + PATH_MTU_EXPIRES).min();
        earliest(active.min(), expires)
    }

    /// Sends the padded probes that are due; in a plain tunnel, forgets what ICMP said long ago.
    pub(super) fn search_mtus(&mut self, now: Time) {
        for told in &mut self.mtus.told {
            told.take_if(|(_, since)| now.since(*since) >= PATH_MTU_EXPIRES);
        }
        if self.opening.is_some() && self.may_speak() {
            for id in (0..MAX_PATHS).filter_map(PathId::new) {
                self.search_mtu(now, id);
            }
        }
        self.follow_mtus();
    }

    fn search_mtu(&mut self, now: Time, id: PathId) {
        let bounds = self.bounds(id);
        let Some(path) = &self.paths[id.index()] else {
            return;
        };
        let search =
            self.mtus.searches[id.index()].get_or_insert_with(|| Box::new(MtuSearch::new(bounds)));
        search.set_bounds(now, bounds);
        // What an idle tunnel would carry is found out when it carries something.
        if path.state != PathState::Up || self.activity.is_idle() && search.is_at_rest() {
            return;
        }
        if search.is_companion_due(now) {
            return self.send_companion(now, id);
        }
        let Some(size) = search.due(now) else {
            return;
        };
        let overtaking = Duration::from_nanos(path.idle.jitter() * OVERTAKING);
        let overtaking = overtaking.min(LONGEST_OVERTAKING);
        let (rtt, echo) = (
            path.rtt.smoothed().unwrap_or_default(),
            path.echoes.newest(),
        );
        let datagram_len = usize::from(size) + DATA_OVERHEAD;
        let number = self.send_message(now, id, echo, true, Extent::Padded(datagram_len));
        if let (Some(search), Some(number)) = (&mut self.mtus.searches[id.index()], number) {
            search.sent(now, number, size, rtt, overtaking);
            if search.is_companion_due(now) {
                self.send_companion(now, id);
            }
        }
    }

    fn send_companion(&mut self, now: Time, id: PathId) {
        let echo = self.paths[id.index()]
            .as_ref()
            .and_then(|path| path.echoes.newest());
        let number = self.send_message(now, id, echo, true, Extent::Plain);
        if let (Some(search), Some(number)) = (&mut self.mtus.searches[id.index()], number) {
            search.companion_sent(number);
        }
    }

    fn bounds(&self, id: PathId) -> Bounds {
        let peer = self.paths[id.index()].as_ref().and_then(|path| path.peer);
        let is_ipv4 = peer.is_none_or(|peer| peer.is_ipv4());
        let least = if is_ipv4 {
            LEAST_LINK_MTU_V4
        } else {
            LEAST_LINK_MTU_V6
        };
        Bounds {
            ceiling: self.config_mtu,
            base: self.inner(BASE_LINK_MTU, is_ipv4).min(self.config_mtu),
            least: self.inner(least, is_ipv4).min(self.config_mtu),
        }
    }

    /// A message of ours came back.
    pub(super) fn note_carried(&mut self, now: Time, id: PathId, echo: Option<Echo>) {
        if let (Some(search), Some(path), Some(echo)) = (
            &mut self.mtus.searches[id.index()],
            &self.paths[id.index()],
            echo,
        ) {
            search.answered(now, echo.number, path.round_trips_lost());
            if path.loss_at_peer_ppm >= MUCH_LOST_PPM {
                search.doubt(now);
            }
            self.follow_mtus();
        }
    }

    /// The configured MTU is another one.
    pub(super) fn search_mtus_anew(&mut self, now: Time) {
        self.mtus.interface = self.config_mtu;
        self.mtus.said = [self.config_mtu; MAX_PATHS];
        self.search_mtus(now);
    }

    /// Lets the line out know how large packets may be now, and the operator when a path's MTU is known.
    pub(super) fn follow_mtus(&mut self) {
        let narrow = self.narrow_paths();
        if std::mem::replace(&mut self.mtus.left_out, narrow) != narrow {
            // The line out is to leave them out, or to use them again, at once.
            self.next_settle = Some(Time::ZERO);
        }
        let mut tightest = self.config_mtu;
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            if self.paths[id.index()].is_none() {
                continue;
            }
            let mtu = self.mtu_of(id);
            if !narrow.contains(id) {
                tightest = tightest.min(mtu);
            }
            let said = self.mtus.said[id.index()];
            if mtu != said && !self.is_searched(id) {
                self.mtus.said[id.index()] = mtu;
                let lowered = mtu < said;
                self.events.push(Event::PathMtu {
                    path: id,
                    mtu,
                    lowered,
                });
            }
        }
        let mtu = u32::from(tightest);
        self.shared.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Paths that carry so much less than one that is up that they are left out.
    pub(super) fn narrow_paths(&self) -> PathSet {
        let paths = || {
            (0..MAX_PATHS)
                .filter_map(PathId::new)
                .filter_map(|id| Some((id, self.paths[id.index()].as_ref()?)))
        };
        let up = paths().filter(|(_, path)| path.state == PathState::Up);
        let best = up.map(|(id, _)| self.mtu_of(id)).max().unwrap_or(0);
        let mut narrow = PathSet::EMPTY;
        for (id, _) in paths() {
            if is_narrow(self.mtu_of(id), best) {
                narrow.insert(id);
            }
        }
        narrow
    }

    /// Whether the path works and how much it carries is being found out.
    fn is_searched(&self, id: PathId) -> bool {
        let is_up = |path: &crate::path::Path| path.state == PathState::Up;
        self.paths[id.index()].as_ref().is_some_and(is_up)
            && self.mtus.searches[id.index()]
                .as_ref()
                .is_some_and(|search| search.is_searching())
    }

    /// Largest inner packet that fits the path, as far as is known, in bytes.
    #[must_use]
    pub fn mtu_of(&self, path: PathId) -> u16 {
        let mtus = &self.mtus;
        let searched = mtus.searches[path.index()]
            .as_ref()
            .map(|search| search.size());
        let told = mtus.told[path.index()].map(|(mtu, _)| mtu);
        let known = searched.or(told).unwrap_or(self.config_mtu);
        known.min(self.config_mtu)
    }

    /// The MTU that the TUN is to have from now on, in bytes, when that has changed. Not while it is being
    /// found out: then the line out tells senders what fits.
    pub fn poll_mtu(&mut self) -> Option<u16> {
        let mtu = self.shared.mtu();
        let mut paths = (0..MAX_PATHS).filter_map(PathId::new);
        if mtu == self.mtus.interface || paths.any(|id| self.is_searched(id)) {
            return None;
        }
        self.mtus.interface = mtu;
        Some(mtu)
    }
}

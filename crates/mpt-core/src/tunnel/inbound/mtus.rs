//! How large packets may be: what is sent to find out, and what follows.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::Inbound;
use super::probing::Extent;
use crate::crypto::DATA_OVERHEAD;
use crate::path::{MAX_PATHS, PathId};
use crate::time::Time;
use crate::tunnel::mtus::{Ask, TooBig};
use crate::wire::probe::Echo;

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
        let what = TooBig {
            link_mtu,
            is_ipv4: to.is_ipv4(),
            gre_len: self.gre_len() as u16,
        };
        if self.mtus.too_big(now, path, what, self.opening.is_some()) {
            self.follow_mtus();
        }
    }

    /// Sends the padded probes that are due; in a plain tunnel, forgets what ICMP said long ago.
    pub(super) fn search_mtus(&mut self, now: Time) {
        self.mtus.expire(now);
        if self.opening.is_some() && self.may_speak() {
            for id in (0..MAX_PATHS).filter_map(PathId::new) {
                self.search_mtu(now, id);
            }
        }
        self.follow_mtus();
    }

    fn search_mtu(&mut self, now: Time, id: PathId) {
        let (gre_len, is_idle) = (self.gre_len() as u16, self.activity.is_idle());
        let Some(path) = &self.paths[id.index()] else {
            return;
        };
        let mut next = self.mtus.ask(now, id, path, gre_len, is_idle);
        while let Some(ask) = next.take() {
            let echo = self.paths[id.index()]
                .as_ref()
                .and_then(|path| path.echoes.newest());
            let extent = match ask {
                Ask::Padded(size) => Extent::Padded(usize::from(size) + DATA_OVERHEAD),
                Ask::Companion => Extent::Plain,
            };
            let number = self.send_message(now, id, echo, true, extent);
            if let (Some(number), Some(path)) = (number, &self.paths[id.index()]) {
                next = self.mtus.asked(now, id, path, ask, number);
            }
        }
    }

    /// A message of this session may have come back, even behind a newer one.
    pub(super) fn note_carried(&mut self, now: Time, id: PathId, echo: Option<Echo>) {
        let echo = echo.filter(|echo| echo.session == self.session);
        if let (Some(path), Some(echo)) = (&self.paths[id.index()], echo)
            && self.mtus.note_carried(now, id, path, echo)
        {
            self.follow_mtus();
        }
    }

    /// Lets the line out know how large packets may be now, and the operator when a path's MTU is known.
    pub(super) fn follow_mtus(&mut self) {
        let (mtu, others_left_out) = self.mtus.follow(&self.paths, &mut self.events);
        if others_left_out {
            // The line out is to leave them out, or to use them again, at once.
            self.next_settle = Some(Time::ZERO);
        }
        self.shared.mtu.store(u32::from(mtu), Ordering::Relaxed);
    }

    /// Largest inner packet that fits the path, as far as is known, in bytes.
    #[must_use]
    pub fn mtu_of(&self, path: PathId) -> u16 {
        self.mtus.of(path)
    }

    /// The MTU that the TUN is to have from now on, in bytes, when that has changed. Not while it is being
    /// found out: then the line out tells senders what fits.
    pub fn poll_mtu(&mut self) -> Option<u16> {
        self.mtus.take_interface(self.shared.mtu(), &self.paths)
    }
}

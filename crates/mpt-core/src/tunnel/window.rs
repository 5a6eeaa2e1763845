//! The window in which packets wait for those before them, the buffers that they lie in, and what has left it for the TUN.
//!
//! The window is as wide, and has as many buffers, as is configured and measured ([`Sizing`]).

mod status;

use std::ops::Range;
use std::time::Duration;

use super::ready::Ready;
use super::sizing::{LEAST_WINDOW, ReorderSettings, Sizing};
use crate::crypto::DATA_OVERHEAD;
use crate::path::{MAX_PATHS, PathId, PathSet, Paths, RoundTrip};
use crate::receive::buffer::{Buffer, Packer, Pool, Stored};
use crate::receive::reorder::{MAX_DISTANCE, Recovery, Reorder, Verdict};
use crate::seq::Seq;
use crate::time::Time;

/// Room in a buffer beyond the MTU, in bytes: the GRE header with everything that is accepted, or what sealing adds.
const HEADER_ROOM: usize = if DATA_OVERHEAD > 16 {
    DATA_OVERHEAD
} else {
    16
};
/// Buffers beyond a full window: a batch in the caller's hands and one on its way to the TUN.
const SPARE_BUFFERS: usize = 192;
/// The same where buffers take trains; half of them may be held by lone packets before what is held
/// is packed together.
const SPARE_TRAINS: usize = 128;
/// When fewer can be taken, what is held is packed together.
const SHORT_OF_BUFFERS: usize = 64;
/// A buffer that takes any train, in bytes.
const TRAIN_BYTES: usize = 65_536;
/// More packets than this do not overtake a message of a session that has just begun.
const MAX_OVERTAKING: i32 = 1024;

/// See the module.
pub(super) struct Window {
    pool: Pool,
    reorder: Reorder<Stored>,
    ready: Ready,
    sizing: Sizing,
    /// What a packet takes up at most.
    packet_bytes: usize,
    receives_trains: bool,
    /// Once what is ready has left, the buffers are to take so many bytes at most.
    gives_back: Option<usize>,
}

impl Window {
    /// A window for inner packets of up to `mtu` bytes. It has no buffers before [`Window::configure`].
    pub(super) fn new(settings: ReorderSettings, mtu: u16, receives_trains: bool) -> Window {
        Window {
            pool: Pool::new(0, 0),
            reorder: Reorder::new(settings.at_first(), Seq::FIRST),
            ready: Ready::default(),
            sizing: Sizing::new(settings),
            packet_bytes: packet_bytes(mtu),
            receives_trains,
            gives_back: None,
        }
    }

    /// Changes how packets are put in order.
    pub(super) fn configure(
        &mut self,
        now: Time,
        settings: ReorderSettings,
        recovery: Option<Recovery>,
    ) {
        let widest = self.widest();
        let config = self.reorder.config();
        let config = self.sizing.configure(settings, config, widest);
        self.reorder
            .reconfigure(now, config, &mut self.ready.out(&self.pool));
        // A window that holds nothing waits for no recovery either.
        self.reorder.set_recovery(now, recovery);
        self.resize_pool();
    }

    /// Inner packets have so many bytes at most. Takes effect with [`Window::configure`].
    pub(super) fn set_mtu(&mut self, mtu: u16) {
        self.packet_bytes = packet_bytes(mtu);
    }

    /// What it was told to do last.
    pub(super) fn settings(&self) -> ReorderSettings {
        self.sizing.settings
    }

    /// The widest window that memory allows.
    fn widest(&self) -> u32 {
        Sizing::widest(self.packet_bytes, self.receives_trains)
    }

    /// Buffers for a full window, what is in hand, and what waits to be packed together.
    fn resize_pool(&mut self) {
        let config = self.reorder.config();
        let held = config.grows_to.unwrap_or(config.window) as usize;
        // A block is gathered in buffers as a window is held in them.
        let block = self.sizing.settings.block.map_or(0, usize::from);
        let window = held.max(block);
        if self.receives_trains {
            let packed = (window * self.packet_bytes).div_ceil(TRAIN_BYTES);
            self.pool.resize(TRAIN_BYTES, 2 * packed + SPARE_TRAINS);
        } else {
            self.pool.resize(self.packet_bytes, window + SPARE_BUFFERS);
        }
    }

    /// Follows what is measured of the paths, where the settings leave that to the tunnel. `recovery`: how long the peer's
    /// resends take, if it sends any.
    pub(super) fn follow(&mut self, now: Time, paths: &Paths, recovery: Option<Duration>) {
        let config = self.sizing.follow(now, paths, &mut self.reorder, recovery);
        if config != self.reorder.config() {
            self.reorder
                .reconfigure(now, config, &mut self.ready.out(&self.pool));
        }
    }

    /// A free buffer to receive into. `None` only when the caller holds more than a batch.
    pub(super) fn take_buffer(&mut self) -> Option<Buffer> {
        if self.pool.available() <= SHORT_OF_BUFFERS {
            let mut packer = Packer::new(&mut self.pool);
            self.reorder.for_each_held(|packet| packer.pack(packet));
            packer.finish();
        }
        self.pool.take()
    }

    /// Takes a buffer that was filled, or is given back. What is returned stands for it until [`Window::release`].
    pub(super) fn keep(&mut self, buffer: Buffer) -> u32 {
        self.pool.keep(buffer)
    }

    /// The buffer is not used any more, except by the packets in it that wait.
    #[inline]
    pub(super) fn release(&mut self, buffer: u32) {
        self.pool.release(buffer);
    }

    /// What lies in a buffer.
    #[inline]
    pub(super) fn buffer_mut(&mut self, buffer: u32) -> &mut [u8] {
        self.pool.bytes_mut(buffer)
    }

    /// What lies in a buffer at `place`.
    #[inline]
    pub(super) fn part(&self, buffer: u32, place: Range<usize>) -> &[u8] {
        self.pool.part(buffer, place)
    }

    /// An inner packet that lies in a buffer.
    #[inline]
    pub(super) fn packet_mut(&mut self, packet: Stored) -> &mut [u8] {
        self.pool.packet_mut(packet)
    }

    /// An inner packet that lies in a buffer, to read.
    #[inline]
    pub(super) fn packet(&self, packet: Stored) -> &[u8] {
        self.pool.bytes(packet)
    }

    /// The window, to ask what it knows.
    #[inline]
    pub(super) fn reorder(&self) -> &Reorder<Stored> {
        &self.reorder
    }

    /// A packet that lies in a buffer uses it, too, until [`Window::release`].
    #[inline]
    pub(super) fn retain(&mut self, packet: Stored) {
        self.pool.retain(packet.buffer);
    }

    /// A packet without a number waits for none.
    #[inline]
    pub(super) fn push(&mut self, packet: Stored) {
        self.ready.push(packet);
    }

    /// Takes a packet that arrived on `path`, if it is known on which: see [`Reorder::insert`].
    #[inline]
    pub(super) fn insert(
        &mut self,
        now: Time,
        path: Option<PathId>,
        seq: Seq,
        packet: Stored,
    ) -> Verdict {
        self.reorder
            .insert(now, path, seq, packet, &mut self.ready.out(&self.pool))
    }

    /// The packet with this number was taken: what need not wait for its turn leaves.
    #[inline]
    pub(super) fn pass(&mut self, now: Time, seq: Seq) {
        self.ready.pass(now, &self.pool, &mut self.reorder, seq);
    }

    /// The packet's number is not believed. It leaves all the same if it only acknowledges; returns whether.
    pub(super) fn push_unbelieved(&mut self, packet: Stored) -> bool {
        self.ready.push_unbelieved(&self.pool, packet)
    }

    /// A packet came once more: see [`Reorder::note_copy`].
    pub(super) fn note_copy(&mut self, now: Time, path: Option<PathId>, seq: Seq) -> bool {
        self.reorder
            .note_copy(now, path, seq, &mut self.ready.out(&self.pool))
    }

    /// All numbers below `edge` that went over `path` were sent before: see [`Reorder::announce`].
    pub(super) fn announce(&mut self, now: Time, path: PathId, edge: Seq) -> bool {
        self.reorder
            .announce(now, path, edge, &mut self.ready.out(&self.pool))
    }

    /// The first packet of a peer that nothing is known of has this number.
    pub(super) fn begin(&mut self, first: Seq) {
        match first.value() < self.reorder.config().window {
            true => self.reorder.hear_of(first),
            false => self.reorder.begin_at(first),
        }
    }

    /// Begins anew with this number. What the packets are numbered by begins anew, too.
    pub(super) fn resync(&mut self, now: Time, first: Seq) {
        self.reorder
            .resync(now, first, &mut self.ready.out(&self.pool));
    }

    /// A number is believed although it is far ahead.
    pub(super) fn believe(&mut self, seq: Seq) {
        self.reorder.believe(seq);
    }

    /// A session of the peer has proved itself and sends `next_seq` next. What came before that proof may have been a
    /// recording. Sealed, nothing of before it opens; plain, the first packets may have come before the first probe. Returns
    /// whether the window began anew, as by [`Window::resync`].
    pub(super) fn begin_session(&mut self, now: Time, next_seq: Seq, began: Began) -> bool {
        let began_lately = !began.is_sealed && next_seq.value() < self.reorder.config().window;
        // Data overtake a message, but by no more than paths differ.
        let ahead = next_seq.distance_from(self.reorder.next_expected());
        let is_elsewhere = ahead >= MAX_DISTANCE as i32 || ahead < -MAX_OVERTAKING;
        if began.is_restart || is_elsewhere || began.is_first && !began_lately {
            self.resync(now, next_seq);
            return true;
        }
        if !began_lately {
            // It is we who began anew: what is old went to our former self.
            self.reorder.close_past();
        } else if began.is_first {
            self.reorder.hear_of(next_seq);
        } else {
            // The packet that was heard of first may have been forged.
            self.reorder.know_from(next_seq);
        }
        false
    }

    /// On these paths something may be under way.
    pub(super) fn wait_for(&mut self, now: Time, paths: PathSet) {
        self.reorder
            .wait_for(now, paths, &mut self.ready.out(&self.pool));
    }

    /// How quickly the peer's resends can be here, if it sends any.
    pub(super) fn set_recovery(&mut self, now: Time, recovery: Option<Recovery>) {
        self.reorder.set_recovery(now, recovery);
    }

    /// The round trip of a path.
    pub(super) fn set_rtt(&mut self, now: Time, path: PathId, rtt: RoundTrip) {
        self.reorder.set_rtt(now, path, rtt);
    }

    /// Nothing is known of the path any more.
    pub(super) fn forget_path(&mut self, path: PathId) {
        self.reorder.forget_path(path);
    }

    /// The widest reordering window within a path.
    pub(super) fn widest_displacement(&self) -> Duration {
        let paths = (0..MAX_PATHS).filter_map(PathId::new);
        let windows = paths.map(|path| self.reorder.displacement(path));
        windows.max().unwrap_or_default()
    }

    /// When [`Window::handle_timeout`] is to be called at the latest.
    pub(super) fn poll_timeout(&mut self) -> Option<Time> {
        self.reorder.poll_timeout()
    }

    /// Ends what waits for too long.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.reorder
            .handle_timeout(now, &mut self.ready.out(&self.pool));
    }

    /// Whether what is for the TUN may stay for what the other paths have ready in this moment, because block sort can then
    /// put it in order with that.
    pub(super) fn may_gather(&self) -> bool {
        let block = self.sizing.settings.block;
        block.is_some_and(|block| self.ready.len() < usize::from(block))
            && self.pool.available() > SHORT_OF_BUFFERS
    }

    /// What is for the TUN is about to leave: block sort puts it in order, where that is configured.
    pub(super) fn sort_blocks(&mut self) {
        if let Some(block) = self.sizing.settings.block {
            self.ready.sort_blocks(block.into());
        }
    }

    /// The next packet for the TUN, which uses its buffer until [`Window::release`]. One that has left before is there for the
    /// measures of order alone.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Stored> {
        self.ready.pop()
    }

    /// All that was for the TUN has left. Returns whether memory was to be given back, and was.
    pub(super) fn finish(&mut self) -> bool {
        let Some(to) = self.gives_back.take() else {
            return false;
        };
        self.ready.rest();
        self.pool.trim(to);
        true
    }

    /// Packets that wait for those before them, or for the interface.
    pub(super) fn held(&self) -> u64 {
        u64::from(self.reorder.held() - self.reorder.left()) + self.ready.len() as u64
    }

    /// Bytes of memory that packets take here: those that wait for those before them, and buffers for more.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.pool.memory() + self.reorder.memory() + self.ready.memory()
    }

    /// Nothing comes: what packets need is not needed.
    pub(super) fn rest(&mut self) {
        self.pool.rest();
        self.reorder.rest();
        self.ready.rest();
    }

    /// Gives memory back until that is `to` bytes at most: what is free; then the window releases those with the lowest
    /// numbers, as one that is full does. These take theirs until [`Window::finish`].
    pub(super) fn give_back(&mut self, now: Time, to: usize) {
        self.reorder
            .give_back(now, 0, LEAST_WINDOW, &mut self.ready.out(&self.pool));
        self.pool.trim(to.saturating_sub(self.reorder.memory()));
        let packets = self.packets_in(self.memory().saturating_sub(to));
        self.reorder
            .give_back(now, packets, LEAST_WINDOW, &mut self.ready.out(&self.pool));
        self.gives_back = Some(to.saturating_sub(self.reorder.memory()));
    }

    /// How many of the packets that are held are to go for so many bytes: each has a buffer, or several were packed into one.
    fn packets_in(&self, bytes: usize) -> u32 {
        let lone = bytes.div_ceil(self.packet_bytes);
        let held = self.reorder.held() as usize;
        let packed = held
            .saturating_mul(bytes)
            .div_ceil(self.pool.memory().max(1));
        u32::try_from(lone.max(packed)).unwrap_or(u32::MAX)
    }
}

/// How a session of the peer came to be: for [`Window::begin_session`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Began {
    /// There was another before it.
    pub(super) is_restart: bool,
    /// No packet of the peer had come before.
    pub(super) is_first: bool,
    /// Nothing opens that was sealed before it.
    pub(super) is_sealed: bool,
}

/// What a packet takes up at most.
fn packet_bytes(mtu: u16) -> usize {
    (usize::from(mtu) + HEADER_ROOM).next_multiple_of(512)
}

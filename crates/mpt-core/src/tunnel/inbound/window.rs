//! The reorder window and the buffers, as large as is configured and measured.

use super::{Inbound, SPARE_BUFFERS, SPARE_TRAINS, TRAIN_BYTES};
use crate::crypto::DATA_OVERHEAD;
use crate::path::Paths;
use crate::time::Time;
use crate::tunnel::sizing::{LEAST_WINDOW, ReorderSettings, Sizing};

/// Room in a buffer beyond the MTU: the GRE header with everything that is accepted, or what sealing adds.
const HEADER_ROOM: usize = if DATA_OVERHEAD > 16 {
    DATA_OVERHEAD
} else {
    16
};

impl Inbound {
    /// Changes how packets are put in order.
    pub fn set_reorder(&mut self, now: Time, settings: ReorderSettings) {
        let widest = self.widest_window();
        let config = self.reorder.config();
        let config = self.sizing.configure(settings, config, widest);
        self.reorder
            .reconfigure(now, config, &mut self.ready.out(&self.pool));
        // A window that holds nothing waits for no recovery either.
        let recovery = self.recovery();
        self.reorder.set_recovery(now, recovery);
        self.resize_pool();
        self.size_window(now);
    }

    /// The widest window that memory allows.
    pub(super) fn widest_window(&self) -> u32 {
        Sizing::widest(self.packet_bytes(), self.receives_trains)
    }

    /// Follows what is measured, where the settings leave that to the tunnel.
    pub(super) fn size_window(&mut self, now: Time) {
        follow_clock(&mut self.paths);
        let recovery = self.recovery().map(|recovery| recovery.hold);
        let (sizing, reorder) = (&mut self.sizing, &mut self.reorder);
        let config = sizing.follow(now, &self.paths, reorder, recovery);
        if config != self.reorder.config() {
            self.reorder
                .reconfigure(now, config, &mut self.ready.out(&self.pool));
        }
    }

    /// Buffers for a full window, what is in hand, and what waits to be packed together.
    pub(super) fn resize_pool(&mut self) {
        let packet_bytes = self.packet_bytes();
        let config = self.reorder.config();
        let held = config.grows_to.unwrap_or(config.window) as usize;
        // A block is gathered in buffers as a window is held in them.
        let block = self.sizing.settings.block.map_or(0, usize::from);
        let window = held.max(block);
        if self.receives_trains {
            let packed = (window * packet_bytes).div_ceil(TRAIN_BYTES);
            self.pool.resize(TRAIN_BYTES, 2 * packed + SPARE_TRAINS);
        } else {
            self.pool.resize(packet_bytes, window + SPARE_BUFFERS);
        }
    }

    /// Packets that wait for those before them, or for the interface.
    pub(crate) fn held(&self) -> u64 {
        u64::from(self.reorder.held()) + self.ready.len() as u64
    }

    /// Bytes of memory that packets take here: those that wait in the window for those before them, and buffers for more.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        let ready = self.ready.memory();
        self.pool.memory() + self.reorder.memory() + self.coalescer.memory() + ready
    }

    /// Gives memory back until that is `to` bytes at most: what is free; then the window releases those with the lowest
    /// numbers, as one that is full does. These take theirs until [`Inbound::drain_tun`], which is to follow. Whether there was
    /// anything to give.
    pub(crate) fn give_back(&mut self, now: Time, to: usize) -> bool {
        let before = (self.memory(), self.reorder.held());
        if before.0 <= to {
            return false;
        }
        if self.coalescer.is_empty() {
            self.coalescer.rest();
        }
        self.reorder
            .give_back(now, 0, LEAST_WINDOW, &mut self.ready.out(&self.pool));
        self.pool.trim(to.saturating_sub(self.reorder.memory()));
        let packets = self.packets_in(self.memory().saturating_sub(to));
        self.reorder
            .give_back(now, packets, LEAST_WINDOW, &mut self.ready.out(&self.pool));
        self.gives_back = Some(to.saturating_sub(self.reorder.memory()));
        (self.memory(), self.reorder.held()) != before
    }

    /// How many of the packets that are held are to go for so many bytes: each has a buffer, or several were packed into one.
    fn packets_in(&self, bytes: usize) -> u32 {
        let lone = bytes.div_ceil(self.packet_bytes());
        let held = self.reorder.held() as usize;
        let packed = held
            .saturating_mul(bytes)
            .div_ceil(self.pool.memory().max(1));
        u32::try_from(lone.max(packed)).unwrap_or(u32::MAX)
    }

    /// What a packet takes up at most.
    pub(super) fn packet_bytes(&self) -> usize {
        (usize::from(self.mtus.config()) + HEADER_ROOM).next_multiple_of(512)
    }
}

/// When the peer's clock was set, the first message to show it corrects the delays of all paths.
fn follow_clock(paths: &mut Paths) {
    let mut all = paths.iter_mut().flatten();
    if let Some(set) = all.find_map(|path| path.one_way.take_clock_step()) {
        for path in paths.iter_mut().flatten() {
            path.one_way.follow_clock_step(set);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::path::{PathConfig, PathId};
    use crate::tunnel::{TunnelConfig, tunnel};

    #[test]
    fn what_was_measured_of_a_path_that_is_not_heard_any_more_is_forgotten() {
        let (_, mut inbound) = tunnel(&TunnelConfig::of_test(1, 1464));
        for index in [0, 1] {
            let path = PathConfig::of_test();
            inbound.set_path(Time::ZERO, PathId::new(index).unwrap(), path);
            let path = inbound.paths[index].as_mut().unwrap();
            path.one_way.sample(5_000_000, 0);
            inbound.hear_data(Time::ZERO, PathId::new(index).unwrap());
        }
        let later = Time::ZERO + Duration::from_secs(61);
        inbound.hear_data(later, PathId::new(0).unwrap());
        inbound.settle(later);
        let known = [0, 1].map(|index| inbound.paths[index].as_ref().unwrap().one_way.ns());
        assert_eq!(known, [Some(5_000_000), None]);
    }
}

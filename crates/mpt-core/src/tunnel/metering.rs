//! Where the line in measures order: [`order`](crate::receive::order) has the meters, here is what they are told.

use super::inbound::Inbound;
use crate::control::order::OrderStatus;
use crate::path::{MAX_PATHS, PathId};
use crate::receive::buffer::Stored;
use crate::time::Time;

impl Inbound {
    /// A packet arrives whose number the window believes.
    #[inline]
    pub(super) fn measure_arrival(&mut self, now: Time, path: PathId, packet: Stored) {
        if let (Some(number), Some(path)) = (packet.number, &mut self.paths[path.index()]) {
            self.order.arrive(now, number, packet.len);
            path.order.arrive(now, number, packet.len);
        }
    }

    /// Order as it was measured; a path goes by the name that `name_of` has for it.
    pub fn report_order(
        &mut self,
        now: Time,
        mut name_of: impl FnMut(PathId) -> Option<String>,
    ) -> OrderStatus {
        self.end_order_interval(now);
        let mut status = self.order.status(now);
        for id in (0..MAX_PATHS).filter_map(PathId::new) {
            if let (Some(path), Some(name)) = (&mut self.paths[id.index()], name_of(id)) {
                status.paths.insert(name, path.order.status());
            }
        }
        status
    }

    /// Ends the interval over which order is measured, if it is due.
    pub(super) fn end_order_interval(&mut self, now: Time) {
        if self.order.tick(now) {
            for path in self.paths.iter_mut().flatten() {
                path.order.end_interval();
            }
        }
    }
}

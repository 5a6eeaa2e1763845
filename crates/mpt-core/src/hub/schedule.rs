//! Which peers want to be called, and when the next does: what is due is found without looking at the others.

use std::collections::BTreeSet;

use crate::crypto::HubSlot;
use crate::time::Time;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// By slot.
    entries: Vec<Entry>,
    due: BTreeSet<(Time, HubSlot)>,
    /// Those that something was done with, in that order.
    touched: Vec<HubSlot>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    due: Option<Time>,
    is_touched: bool,
}

impl Schedule {
    fn entry(&mut self, slot: HubSlot) -> &mut Entry {
        let number = slot.number();
        if self.entries.len() <= number {
            self.entries.resize(number + 1, Entry::default());
        }
        &mut self.entries[number]
    }

    /// Something was done with the peer: it is to be polled.
    pub(super) fn touch(&mut self, slot: HubSlot) {
        if !std::mem::replace(&mut self.entry(slot).is_touched, true) {
            self.touched.push(slot);
        }
    }

    /// One that is to be polled.
    pub(super) fn pop_touched(&mut self) -> Option<HubSlot> {
        let slot = self.touched.pop()?;
        self.entry(slot).is_touched = false;
        Some(slot)
    }

    /// The peer wants to be called then.
    pub(super) fn set(&mut self, slot: HubSlot, due: Option<Time>) {
        let before = std::mem::replace(&mut self.entry(slot).due, due);
        if before != due {
            if let Some(at) = before {
                self.due.remove(&(at, slot));
            }
            if let Some(at) = due {
                self.due.insert((at, slot));
            }
        }
    }

    /// When the next wants to be called.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// One that wants to be called by now.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<HubSlot> {
        let &(at, slot) = self.due.first()?;
        if at > now {
            return None;
        }
        self.set(slot, None);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_due_once_at_its_last_time_and_touched_once() {
        let slot = |number| HubSlot::new(number).unwrap();
        let at = Time::from_nanos;
        let mut schedule = Schedule::default();
        for (number, due) in [
            (7, Some(9)),
            (2, Some(5)),
            (7, Some(3)),
            (1, Some(1)),
            (1, None),
        ] {
            schedule.set(slot(number), due.map(at));
            schedule.touch(slot(number));
        }
        assert_eq!(schedule.next(), Some(at(3)));
        assert_eq!(schedule.pop_due(at(2)), None);
        assert_eq!(schedule.pop_due(at(5)), Some(slot(7)));
        assert_eq!(schedule.pop_due(at(5)), Some(slot(2)));
        assert_eq!(schedule.pop_due(at(99)), None);
        assert_eq!(schedule.next(), None);
        let touched: Vec<_> = std::iter::from_fn(|| schedule.pop_touched()).collect();
        assert_eq!(touched, [slot(1), slot(2), slot(7)]);
    }
}

//! The memory that the packets of all peers of a line take: one pool, of which each has a fair share.
//!
//! Each peer's own bounds hold first ([`crate::send`], [`crate::receive`]), and while the pool has room nothing else does:
//! who needs more than others may have it. When the pool is full, those who hold most give back, down to the *level* at
//! which what is left fits: who holds less than that keeps all. The level is never less than an even share among those who
//! hold anything, so who is within that loses nothing, whatever the others do.
//!
//! Nothing is looked up for a packet. After a batch each peer of it says what it holds, and the sum follows the
//! difference. All peers are looked at only when the pool is full, and then a part of it ([`FREED`]) is freed, which has to
//! fill again before they are looked at once more.

use super::HubSlot;

/// When the pool is full, this part of it is freed, by the divisor. All peers are looked at then, and not again before as much
/// has filled: of the least pool of the daemon, 64 MiB, that is 4 MiB.
const FREED: usize = 16;
/// So often the level is raised from the even share by what others leave of theirs. Each time takes a look at all, and a level
/// that could be higher still is a fair one.
const RAISED: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Memory {
    /// Bytes that all may hold together.
    most: usize,
    /// Bytes that they hold.
    sum: usize,
    /// By slot.
    held: Vec<usize>,
}

impl Default for Memory {
    /// Without a bound.
    fn default() -> Memory {
        Memory::new(usize::MAX)
    }
}

impl Memory {
    /// All peers together may hold `most` bytes.
    pub(super) fn new(most: usize) -> Memory {
        Memory {
            most,
            sum: 0,
            held: Vec::new(),
        }
    }

    /// The peer holds so many bytes now.
    #[inline]
    pub(super) fn note(&mut self, slot: HubSlot, bytes: usize) {
        let number = slot.number();
        if self.held.len() <= number {
            self.held.resize(number + 1, 0);
        }
        let before = std::mem::replace(&mut self.held[number], bytes);
        self.sum = self.sum - before + bytes;
    }

    /// Bytes that all hold.
    #[cfg(test)]
    pub(super) fn sum(&self) -> usize {
        self.sum
    }

    /// The level that those are to come down to who hold more, if the pool is full.
    #[inline]
    pub(super) fn level(&self) -> Option<usize> {
        (self.sum > self.most).then(|| self.fair_level())
    }

    /// The next peer, from this number on, that holds more than so much.
    pub(super) fn above(&self, level: usize, from: usize) -> Option<HubSlot> {
        let rest = self.held.get(from..)?;
        let next = rest.iter().position(|&held| held > level)?;
        HubSlot::new(from + next)
    }

    fn fair_level(&self) -> usize {
        let target = self.most - self.most / FREED;
        let mut level = 0;
        for _ in 0..RAISED {
            let (mut below, mut above) = (0, 0);
            for &held in &self.held {
                match held > level {
                    true => above += 1,
                    false => below += held,
                }
            }
            // Those below hold no more than the level each, so what is left of the target is as much for each above.
            let raised = (target - below).checked_div(above).unwrap_or(level);
            if raised == level {
                break;
            }
            level = raised;
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 1 << 20;

    fn slot(number: usize) -> HubSlot {
        HubSlot::new(number).unwrap()
    }

    #[test]
    fn who_leaves_of_its_share_leaves_it_to_those_who_hold_more() {
        let mut memory = Memory::new(1600);
        for (number, held) in [(0, 100), (3, 0), (4, 300), (7, 700), (9, 500)] {
            memory.note(slot(number), held);
        }
        assert_eq!((memory.sum(), memory.level()), (1600, None));
        memory.note(slot(3), 1);
        // Of 1,500 bytes an even share is 300. The third has 500, less than a half of what the first two leave.
        assert_eq!(memory.level(), Some(599));
        assert_eq!(memory.above(599, 0), Some(slot(7)));
        assert_eq!(memory.above(599, 8), None);
        assert_eq!(memory.above(599, 99), None);
    }

    proptest! {
        /// The sum is that of what was noted. The level of a full pool frees a part of it, takes nothing of an even share,
        /// and no more than need be of others.
        #[test]
        fn a_full_pool_comes_down_to_its_level(
            notes in prop::collection::vec((0..40usize, 0..MOST / 4), 1..400),
        ) {
            let mut memory = Memory::new(MOST);
            let mut model = [0; 40];
            for (number, held) in notes {
                memory.note(slot(number), held);
                model[number] = held;
                prop_assert_eq!(memory.sum(), model.iter().sum::<usize>());
                let Some(level) = memory.level() else {
                    prop_assert!(memory.sum() <= MOST);
                    continue;
                };
                let target = MOST / 16 * 15;
                let active = model.iter().filter(|&&held| held > 0).count();
                prop_assert!(level >= target / active);
                let mut from = 0;
                while let Some(above) = memory.above(level, from) {
                    from = above.number() + 1;
                    prop_assert!(model[above.number()] > level);
                    model[above.number()] = level;
                    memory.note(above, level);
                }
                prop_assert!(model.iter().all(|&held| held <= level));
                prop_assert_eq!(memory.sum(), model.iter().sum::<usize>());
                prop_assert!((target - 40..=target).contains(&memory.sum()), "{}", memory.sum());
            }
        }
    }
}

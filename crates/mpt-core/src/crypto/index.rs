//! Indices: by which a sealed packet finds its session.

use super::Entropy;
use super::packet::UNORDERED;
use super::wire::is_index;

/// Which of a hub's peers the sessions are with. Their indices begin with it, so that a hub finds the peer of a
/// sealed packet without looking anything up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HubSlot(u32);

impl HubSlot {
    /// Bits of an index that are the session's own, the lowest of them clear.
    pub const OWN_BITS: u32 = 15;
    /// How many there are.
    pub const COUNT: usize = 1 << (u32::BITS - HubSlot::OWN_BITS);

    /// The slot of this number; `None` from [`HubSlot::COUNT`] on.
    #[must_use]
    pub const fn new(number: usize) -> Option<HubSlot> {
        if number < HubSlot::COUNT {
            Some(HubSlot(number as u32))
        } else {
            None
        }
    }

    /// The slot that a session's index is of.
    #[must_use]
    pub const fn of_index(index: u32) -> HubSlot {
        HubSlot(index >> HubSlot::OWN_BITS)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// A random index that is not in use, of this slot if there is one.
pub(super) fn fresh_index(
    entropy: &mut Entropy,
    slot: Option<HubSlot>,
    taken: &[Option<u32>],
) -> u32 {
    let (prefix, own) = match slot {
        Some(slot) => (slot.0 << HubSlot::OWN_BITS, (1 << HubSlot::OWN_BITS) - 1),
        None => (0, u32::MAX),
    };
    let mut bytes = [0; 4];
    entropy(&mut bytes);
    let mut random = u32::from_ne_bytes(bytes) & !UNORDERED;
    loop {
        let index = prefix | random & own;
        if is_index(index) && !taken.contains(&Some(index)) {
            return index;
        }
        random = random.wrapping_add(UNORDERED + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_of_its_slot_and_not_in_use_whatever_chance_says() {
        for seed in [0, 1, 0x7f, 0xff] {
            for slot in [0, 1, HubSlot::COUNT - 1] {
                let slot = HubSlot::new(slot).unwrap();
                let mut entropy: Entropy = Box::new(move |out| out.fill(seed));
                let mut taken = [None; 5];
                for at in 0..taken.len() {
                    let index = fresh_index(&mut entropy, Some(slot), &taken);
                    assert!(is_index(index) && !taken.contains(&Some(index)));
                    assert_eq!(HubSlot::of_index(index), slot);
                    taken[at] = Some(index);
                }
            }
        }
        assert_eq!(HubSlot::new(HubSlot::COUNT), None);
    }
}

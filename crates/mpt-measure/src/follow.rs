//! Which of GRE's sequence numbers to believe.
//!
//! A capture of GRE does not say where its stream began or that its sender started again: the
//! numbers jump. A jump is believed as RFC 3550 A.1 believes it, when several packets in a row
//! confirm it; until then such packets are held, and a lone one is a stray that is not measured,
//! since one wild number would make everything after it "reordered".

use std::mem;

/// Farther behind the highest number than any reordering.
const BEHIND: u32 = 8192;
/// Farther ahead of it than any loss.
const AHEAD: u32 = 1 << 16;
/// Packets in a row that confirm a jump.
const CONFIRM: usize = 8;
/// How far from each other they may be.
const NEAR: u32 = 1024;

/// A packet that waits for its number to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) number: u32,
    pub(crate) bytes: u32,
    pub(crate) at_ns: u64,
}

/// What to do with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Measure it. So many packets held before it were strays.
    Take { strays: u64 },
    /// Nothing yet. So many packets held before it were strays.
    Hold { strays: u64 },
    /// The numbers began anew with these packets, of which it is the last.
    Restart(Vec<Held>),
}

/// Follows the numbers of one stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Follow {
    highest: Option<u32>,
    held: Vec<Held>,
}

impl Follow {
    /// Judges the next packet.
    pub(crate) fn judge(&mut self, packet: Held) -> Verdict {
        let Some(highest) = self.highest else {
            self.highest = Some(packet.number);
            return Verdict::Take { strays: 0 };
        };
        let ahead = packet.number.wrapping_sub(highest);
        let behind = highest.wrapping_sub(packet.number);
        if ahead <= AHEAD || behind <= BEHIND {
            if ahead <= AHEAD {
                self.highest = Some(packet.number);
            }
            let strays = self.drop_held();
            return Verdict::Take { strays };
        }
        let near = self.held.last().is_none_or(|last| {
            let apart = packet.number.wrapping_sub(last.number);
            apart.min(apart.wrapping_neg()) <= NEAR
        });
        let strays = if near { 0 } else { self.drop_held() };
        self.held.push(packet);
        if self.held.len() < CONFIRM {
            return Verdict::Hold { strays };
        }
        self.restart_at(&packet);
        Verdict::Restart(mem::take(&mut self.held))
    }

    /// Something else told that the sender began anew. Returns how many held packets were strays.
    pub(crate) fn forget(&mut self) -> u64 {
        self.highest = None;
        self.drop_held()
    }

    fn restart_at(&mut self, last: &Held) {
        // The highest of a few that are near each other, modulo 2^32.
        let ahead = |held: &&Held| held.number.wrapping_sub(last.number) as i32;
        self.highest = self.held.iter().max_by_key(ahead).map(|held| held.number);
    }

    /// Packets that were never confirmed; they are forgotten.
    pub(crate) fn drop_held(&mut self) -> u64 {
        let strays = self.held.len() as u64;
        self.held.clear();
        strays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(number: u32) -> Held {
        Held {
            number,
            bytes: 1,
            at_ns: 0,
        }
    }

    #[test]
    fn one_wild_number_is_a_stray() {
        let mut follow = Follow::default();
        follow.judge(held(100));
        assert_eq!(follow.judge(held(1 << 30)), Verdict::Hold { strays: 0 });
        assert_eq!(follow.judge(held(101)), Verdict::Take { strays: 1 });
    }

    #[test]
    fn a_new_beginning_is_believed_when_it_goes_on() {
        let mut follow = Follow::default();
        follow.judge(held(1_000_000));
        for number in 0..7 {
            assert_eq!(follow.judge(held(number)), Verdict::Hold { strays: 0 });
        }
        let Verdict::Restart(packets) = follow.judge(held(7)) else {
            panic!("eight in a row");
        };
        assert_eq!(packets.len(), 8);
        assert_eq!(follow.judge(held(8)), Verdict::Take { strays: 0 });
    }

    #[test]
    fn numbers_wrap_without_a_jump() {
        let mut follow = Follow::default();
        for number in [u32::MAX - 1, 0, u32::MAX, 1] {
            assert_eq!(follow.judge(held(number)), Verdict::Take { strays: 0 });
        }
        assert_eq!(follow.highest, Some(1));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut follow = Follow::default();
        follow.judge(held(0));
        for step in 1..1000u32 {
            follow.judge(held(0x4000_0000u32.wrapping_add(step * 100_000)));
            assert!(follow.held.len() < CONFIRM);
        }
    }
}

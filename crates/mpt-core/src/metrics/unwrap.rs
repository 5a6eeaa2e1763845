//! Sequence numbers that never wrap.
//!
//! On the wire a number has 16 or 32 bits and starts again at 0. Every order metric compares numbers
//! and would call all packets after a roll-over reordered (RFC 4737 §6 says so), so the first thing
//! done to a number is to add the missing digits: of all numbers with these low bits, the one next
//! to the *highest* seen so far. The highest and not the last, so that a late packet cannot drag the
//! reference back.

/// Bits of a sequence number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SequenceBits {
    /// As in ICMP echo.
    Sixteen,
    /// As in GRE (RFC 2890).
    #[default]
    ThirtyTwo,
}

/// Turns wire numbers into numbers that never wrap.
#[derive(Debug, Clone)]
pub struct Unwrapper {
    bits: SequenceBits,
    highest: Option<i64>,
}

impl Unwrapper {
    /// For numbers of `bits` bits. The first number is taken as it is; one that precedes it across
    /// the wrap comes out negative.
    #[must_use]
    pub fn new(bits: SequenceBits) -> Self {
        Unwrapper {
            bits,
            highest: None,
        }
    }

    /// A new stream begins: the next number is again taken as it is.
    pub fn restart(&mut self) {
        self.highest = None;
    }

    /// The number that `wire` stands for; bits above the width are ignored.
    #[inline]
    pub fn unwrap(&mut self, wire: u32) -> i64 {
        let number = match (self.bits, self.highest) {
            (SequenceBits::Sixteen, None) => i64::from(wire as u16),
            (SequenceBits::ThirtyTwo, None) => i64::from(wire),
            (SequenceBits::Sixteen, Some(highest)) => {
                highest + i64::from((wire as u16).wrapping_sub(highest as u16) as i16)
            }
            (SequenceBits::ThirtyTwo, Some(highest)) => {
                highest + i64::from(wire.wrapping_sub(highest as u32) as i32)
            }
        };
        self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
        number
    }

    /// The number that `wire` stands for, with `count` - 1 more behind it.
    #[inline]
    pub fn unwrap_run(&mut self, wire: u32, count: u32) -> i64 {
        let first = self.unwrap(wire);
        let last = first + i64::from(count.max(1)) - 1;
        self.highest = self.highest.max(Some(last));
        first
    }

    /// Whether `wire` or a number above it was unwrapped.
    #[inline]
    #[must_use]
    pub fn is_behind(&self, wire: u32) -> bool {
        self.highest.is_some_and(|highest| match self.bits {
            SequenceBits::Sixteen => (wire as u16).wrapping_sub(highest as u16) as i16 <= 0,
            SequenceBits::ThirtyTwo => wire.wrapping_sub(highest as u32) as i32 <= 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_packet_does_not_move_the_reference() {
        let mut unwrapper = Unwrapper::new(SequenceBits::Sixteen);
        let wire = [0x8000, 0xffff, 0x8001, 0x0001, 0xfffe, 0x8000];
        let numbers: Vec<i64> = wire.iter().map(|&w| unwrapper.unwrap(w)).collect();
        assert_eq!(
            numbers,
            [0x8000, 0xffff, 0x8001, 0x1_0001, 0xfffe, 0x1_8000]
        );
    }

    #[test]
    fn what_precedes_the_first_number_is_negative() {
        let mut unwrapper = Unwrapper::new(SequenceBits::ThirtyTwo);
        assert_eq!(unwrapper.unwrap(0), 0);
        assert_eq!(unwrapper.unwrap(u32::MAX), -1);
    }

    #[test]
    fn bits_above_the_width_are_ignored() {
        let mut unwrapper = Unwrapper::new(SequenceBits::Sixteen);
        assert_eq!(unwrapper.unwrap(0xabcd_0001), 1);
        assert_eq!(unwrapper.unwrap(0x1234_0002), 2);
    }
}

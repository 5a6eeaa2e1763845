//! GRE sequence numbers (RFC 2890 §2.2): 32 bits, first 0, one space for the whole tunnel,
//! compared modulo 2^32 as serial numbers (RFC 1982).

/// A GRE sequence number. It has no `Ord`: order modulo 2^32 is not transitive; use
/// [`Seq::distance_from`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u32);

impl Seq {
    /// The first number that a sender uses.
    pub const FIRST: Seq = Seq(0);

    /// The sequence number with this value on the wire.
    #[must_use]
    pub const fn new(value: u32) -> Seq {
        Seq(value)
    }

    /// The value on the wire.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The number `steps` later, around 2^32.
    #[must_use]
    pub const fn plus(self, steps: u32) -> Seq {
        Seq(self.0.wrapping_add(steps))
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Seq {
        self.plus(1)
    }

    /// How far this number is ahead of `other`, negative when it is behind; exact for distances
    /// below 2^31.
    #[must_use]
    pub const fn distance_from(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether this number comes after `other`.
    #[must_use]
    pub const fn is_after(self, other: Seq) -> bool {
        self.distance_from(other) > 0
    }

    /// The later of two numbers.
    #[must_use]
    pub const fn later(self, other: Seq) -> Seq {
        if self.is_after(other) { self } else { other }
    }

    /// Whether this number was given out after `known`, which may be of any age: of a path that has carried nothing
    /// for days. One that is behind by more than packets are ever out of order is of the next time round.
    #[must_use]
    pub const fn supersedes(self, known: Seq) -> bool {
        known.0.wrapping_sub(self.0) > MOST_DISORDER
    }
}

/// No packet comes so many numbers after later ones: seconds at a million packets a second, and far less than 2^31.
const MOST_DISORDER: u32 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_goes_around_two_to_the_32() {
        assert!(Seq::new(0).is_after(Seq::new(u32::MAX)));
        assert_eq!(Seq::new(5).distance_from(Seq::new(u32::MAX - 4)), 10);
        assert_eq!(Seq::new(u32::MAX).next(), Seq::FIRST);
        assert_eq!(Seq::new(1).later(Seq::new(u32::MAX)), Seq::new(1));
    }

    #[test]
    fn a_number_supersedes_one_of_any_age_and_none_that_it_was_overtaken_by() {
        let known = Seq::new(1000);
        for ahead in [1, 70_000, 1 << 31, (1 << 31) + 5, u32::MAX - (1 << 23)] {
            assert!(known.plus(ahead).supersedes(known), "{ahead}");
        }
        for behind in [0, 1, 70_000, 1 << 22] {
            assert!(!known.supersedes(known.plus(behind)), "{behind}");
        }
    }
}

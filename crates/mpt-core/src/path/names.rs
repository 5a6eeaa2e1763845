//! What the two ends call a path. The end that calls tells its name of the path in its messages until a few of them
//! have come back, and again when the other has begun anew.
//!
//! One that came back is not enough: who is asked by a stranger sends his message back as well, and believes
//! nothing of it ([`super::place`]).

use crate::wire::name::PathName;

/// So many messages that tell the name have to come back.
const TOLD: u8 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Names {
    own: Option<PathName>,
    /// Number of the first message that told it.
    told_in: Option<u32>,
    /// How many that tell it came back.
    came_back: u8,
    peer: Option<PathName>,
}

impl Names {
    /// This end's name of the path.
    pub(crate) fn set_own(&mut self, own: Option<PathName>) {
        if self.own != own {
            self.own = own;
            self.tell_again();
        }
    }

    pub(super) fn own(&self) -> Option<PathName> {
        self.own
    }

    /// The name, while it is to be told.
    pub(crate) fn to_tell(&self) -> Option<PathName> {
        self.own.filter(|_| self.came_back < TOLD)
    }

    /// The message of this number tells it.
    pub(crate) fn told(&mut self, number: u32) {
        self.told_in.get_or_insert(number);
    }

    /// The message of this number came back.
    pub(super) fn came_back(&mut self, number: u32) {
        if self.told_in.is_some_and(|told_in| number >= told_in) {
            self.came_back = self.came_back.saturating_add(1);
        }
    }

    /// The peer tells its name of the path.
    pub(crate) fn hear(&mut self, name: PathName) {
        self.peer = Some(name);
    }

    /// What the peer calls it, if it has told.
    pub(crate) fn peer(&self) -> Option<PathName> {
        self.peer
    }

    /// The peer has begun anew, or the path leads to another one of it.
    pub(super) fn tell_again(&mut self) {
        (self.told_in, self.came_back) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_until_it_was_heard_and_again_to_who_has_begun_anew() {
        let mut names = Names::default();
        names.set_own(PathName::new("lte"));
        names.came_back(3);
        for number in 4..4 + u32::from(TOLD) {
            assert!(names.to_tell().is_some());
            names.told(number);
            names.came_back(3);
            assert!(names.to_tell().is_some(), "an older one came back");
            names.came_back(number);
        }
        assert_eq!(names.to_tell(), None);
        names.tell_again();
        assert!(names.to_tell().is_some());
    }
}

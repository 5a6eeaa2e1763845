//! What the line in learns and the line out has to know: it goes through one bounded channel, as it happens.
//!
//! What is a level and no event ([`super::Shared`]: which paths are usable, the MTU) is not told but seen.

use std::net::SocketAddr;

use crate::crypto::KeyChange;
use crate::path::{Answered, MAX_PATHS, PathId};
use crate::time::Time;
use crate::wire::report::Report;

/// Something that the line in has learnt.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are reports, and a box would be an allocation for each"
)]
pub enum News {
    /// What the peer reports of what this end sent, and when that came.
    Report(Time, Report),
    /// A probe was answered.
    Answered(PathId, Answered),
    /// In a sealed tunnel: there are other keys, or none.
    Keys(KeyChange),
    /// In a sealed tunnel: the peer of a path is elsewhere, and this socket leads there.
    Peer(PathId, PathId, SocketAddr),
}

/// Answers to probes that wait to be told: of each path the newest, which says all that those before it said.
#[derive(Debug, Default)]
pub(super) struct Answers {
    newest: [Option<Answered>; MAX_PATHS],
}

impl Answers {
    pub(super) fn note(&mut self, path: PathId, answered: Answered) {
        self.newest[path.index()] = Some(answered);
    }

    pub(super) fn pop(&mut self) -> Option<News> {
        let waiting = self.newest.iter().position(Option::is_some);
        let path = waiting.and_then(PathId::new)?;
        let answered = self.newest[path.index()].take()?;
        Some(News::Answered(path, answered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_path_the_newest_answer_is_told_once() {
        let mut answers = Answers::default();
        let told = |answers: &mut Answers| match answers.pop() {
            Some(News::Answered(path, answered)) => Some((path.index(), answered.forward_ns)),
            Some(_) => panic!("other news"),
            None => None,
        };
        for (path, forward_ns) in [(3, 1), (0, 2), (3, 3)] {
            let answered = Answered {
                forward_ns,
                ..Answered::default()
            };
            answers.note(PathId::new(path).unwrap(), answered);
        }
        assert_eq!(told(&mut answers), Some((0, 2)));
        assert_eq!(told(&mut answers), Some((3, 3)));
        assert_eq!(told(&mut answers), None);
    }
}

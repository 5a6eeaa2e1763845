//! What the line in writes into the log: each line names the tunnel and the path, says what is still so
//! when it is written, and nothing that a peer, a link or a stranger does makes more than a few.
//!
//! A path's state is said when it has lasted for [`SETTLED`]; paths of which the same is to be said share
//! a line. Changes that come faster than lines may go are summed up in the next one; that no path is up any more, or
//! one again, does not wait for that because others flap. Every change is a line at the level `debug`. A change of the
//! peer's address, of keys or of a handshake's trouble is said at once, and again after a while only,
//! with how often it has happened meanwhile. `mpt-ctl status` knows all of it at any time.

use std::collections::HashMap;
use std::time::Duration;

use mpt_core::control::PathState;
use mpt_core::path::{MAX_PATHS, PathId};
use mpt_core::time::Time;

/// A state that does not last this long is not said.
const SETTLED: Duration = Duration::from_secs(1);
/// Lines about states of paths that may be written one after the other, …
const LINES: u32 = 5;
/// … and the time after which there may be one more. So an hour has eight at most, and eight more with which the last
/// path went or the first came back.
const LINE_EVERY: Duration = Duration::from_secs(20 * 60);
/// A thing that happens again is said so often at most.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// Most things that are remembered for that.
const MAX_THINGS: usize = 128;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    /// A change.
    Info,
    /// An operator should act.
    Warn,
}

/// A line that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// What was said of a tunnel, and what is to be.
#[derive(Debug)]
pub(crate) struct Journal {
    tunnel: String,
    paths: [Option<Entry>; MAX_PATHS],
    lines: Ration,
    /// For the last path that goes and the first that comes back.
    outages: Ration,
    things: HashMap<String, Thing>,
}

/// Lines that may be written: [`LINES`] at once, one more each [`LINE_EVERY`].
#[derive(Debug)]
struct Ration {
    left: u32,
    refilled: Time,
}

impl Ration {
    fn new(now: Time) -> Ration {
        Ration {
            left: LINES,
            refilled: now,
        }
    }

    fn refill(&mut self, now: Time) {
        while self.left < LINES && now.since(self.refilled) >= LINE_EVERY {
            self.left += 1;
            self.refilled = self.refilled + LINE_EVERY;
        }
        if self.left == LINES {
            self.refilled = now;
        }
    }

    /// From when on a line may be written.
    fn from(&self) -> Time {
        match self.left {
            0 => self.refilled + LINE_EVERY,
            _ => self.refilled,
        }
    }
}

/// What a path is doing: a state, and why.
type Told = (PathState, Option<String>);

#[derive(Debug)]
struct Entry {
    name: String,
    said: Told,
    now: Told,
    since: Time,
    /// Changes since the last line.
    changes: u32,
}

#[derive(Debug)]
struct Thing {
    said: Time,
    /// How often it happened since.
    again: u32,
}

impl Journal {
    pub(crate) fn new(tunnel: &str, now: Time) -> Journal {
        Journal {
            tunnel: tunnel.to_owned(),
            paths: Default::default(),
            lines: Ration::new(now),
            outages: Ration::new(now),
            things: HashMap::new(),
        }
    }

    /// A path is in another state.
    pub(crate) fn path(
        &mut self,
        now: Time,
        id: PathId,
        name: &str,
        state: PathState,
        reason: Option<String>,
    ) {
        let told = (state, reason);
        let slot = &mut self.paths[id.index()];
        // That a path is being probed at first goes without saying.
        let entry = slot.get_or_insert_with(|| Entry {
            name: name.to_owned(),
            said: (PathState::Probing, None),
            now: (PathState::Probing, None),
            since: now,
            changes: 0,
        });
        name.clone_into(&mut entry.name);
        if entry.now.0 != told.0 {
            entry.changes += 1;
            tracing::debug!("tunnel {}: path {name}: {:?}", self.tunnel, told.0);
        }
        (entry.now, entry.since) = (told, now);
    }

    /// A path is no more.
    pub(crate) fn forget_path(&mut self, id: PathId) {
        self.paths[id.index()] = None;
    }

    /// Something that can happen again happened: the line to be written, if one is. `thing` tells it from
    /// others.
    pub(crate) fn happened(
        &mut self,
        now: Time,
        thing: &str,
        level: Level,
        text: &str,
    ) -> Option<Line> {
        let text = format!("tunnel {}: {text}", self.tunnel);
        let Some(known) = self.things.get_mut(thing) else {
            if self.things.len() >= MAX_THINGS {
                self.things
                    .retain(|_, thing| now.since(thing.said) < AGAIN_AFTER);
            }
            if self.things.len() >= MAX_THINGS {
                return None;
            }
            let said = Thing {
                said: now,
                again: 0,
            };
            self.things.insert(thing.to_owned(), said);
            return Some(Line { level, text });
        };
        known.again += 1;
        if now.since(known.said) < AGAIN_AFTER {
            return None;
        }
        let times = std::mem::take(&mut known.again);
        known.said = now;
        let text = match times {
            0 | 1 => text,
            times => format!("{text}; this happened {times} times since it was last said"),
        };
        Some(Line { level, text })
    }

    /// When [`Journal::take`] may have a line.
    pub(crate) fn due(&self) -> Option<Time> {
        let news = || self.paths.iter().flatten().filter(|entry| entry.is_news());
        let settled = || news().map(|entry| entry.since + SETTLED);
        let of_any = settled().min()?.max(self.lines.from());
        // By then all that is under way is settled.
        let of_all = self.is_outage(|entry| &entry.now).then(|| settled().max());
        let of_all = of_all.flatten().map(|at| at.max(self.outages.from()));
        Some(of_all.map_or(of_any, |at| at.min(of_any)))
    }

    /// Whether the last path went, or the first came back, since lines told of paths.
    fn is_outage(&self, state: impl Fn(&Entry) -> &Told) -> bool {
        self.is_any_up(state) != self.is_any_up(|entry| &entry.said)
    }

    fn is_any_up(&self, state: impl Fn(&Entry) -> &Told) -> bool {
        let mut paths = self.paths.iter().flatten();
        paths.any(|entry| state(entry).0 == PathState::Up)
    }

    /// The next line about states of paths that is to be written.
    pub(crate) fn take(&mut self, now: Time) -> Option<Line> {
        self.lines.refill(now);
        self.outages.refill(now);
        let is_settled = |entry: &Entry| now.since(entry.since) >= SETTLED;
        let is_due = |entry: &&Entry| entry.is_news() && is_settled(entry);
        let told = self.paths.iter().flatten().find(is_due)?.now.clone();
        let is_outage = self.is_outage(|entry| match is_settled(entry) {
            true => &entry.now,
            false => &entry.said,
        });
        let ration = match self.lines.left {
            0 if is_outage => &mut self.outages,
            _ => &mut self.lines,
        };
        ration.left = ration.left.checked_sub(1)?;
        let (mut names, mut changes) = (Vec::new(), 0);
        for entry in self.paths.iter_mut().flatten() {
            if entry.is_news() && entry.now == told {
                names.push(entry.name.clone());
                changes += std::mem::take(&mut entry.changes);
                entry.said = told.clone();
            }
        }
        Some(self.line(&names, &told, changes))
    }

    fn line(&self, names: &[String], told: &Told, changes: u32) -> Line {
        let (whose, is) = match names {
            [name] => (format!("path {name}"), "is"),
            names => (format!("paths {}", names.join(", ")), "are"),
        };
        let (level, what) = match told.0 {
            PathState::Up => (Level::Info, "up"),
            PathState::Down => (Level::Warn, "down"),
            PathState::Probing => (Level::Info, "being probed"),
            PathState::AdminDown => (Level::Info, "out of service"),
            PathState::Waiting => (Level::Info, "waiting"),
        };
        let mut text = format!("tunnel {}: {whose} {is} {what}", self.tunnel);
        if let Some(reason) = &told.1 {
            text += &format!(": {reason}");
        }
        if changes as usize > names.len() {
            text += &format!(", after {changes} changes since the last line on it");
        }
        Line { level, text }
    }
}

impl Entry {
    fn is_news(&self) -> bool {
        self.now != self.said
    }
}

impl Line {
    pub(crate) fn write(&self) {
        match self.level {
            Level::Info => tracing::info!("{}", self.text),
            Level::Warn => tracing::warn!("{}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000;

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    fn journal() -> Journal {
        Journal::new("mpt0", at(0))
    }

    fn id(index: usize) -> PathId {
        PathId::new(index).unwrap()
    }

    fn down(journal: &mut Journal, ms: u64, index: usize, name: &str) {
        let reason = Some("no probe was answered for 1s".to_owned());
        journal.path(at(ms), id(index), name, PathState::Down, reason);
    }

    fn lines(journal: &mut Journal, ms: u64) -> Vec<String> {
        let lines = std::iter::from_fn(|| journal.take(at(ms)));
        lines.map(|line| line.text).collect()
    }

    /// In these seconds a path goes each ten and comes back five later: the lines.
    fn flap(journal: &mut Journal, seconds: std::ops::Range<u64>) -> Vec<String> {
        let mut said = Vec::new();
        for second in seconds {
            let ms = second * SECOND;
            match second % 10 {
                0 => down(journal, ms, 0, "lte"),
                5 => journal.path(at(ms), id(0), "lte", PathState::Up, None),
                _ => {}
            }
            said.extend(lines(journal, ms));
        }
        said
    }

    #[test]
    fn a_state_that_ends_at_once_is_not_said() {
        let mut journal = journal();
        down(&mut journal, 0, 0, "lte");
        journal.path(at(1), id(0), "lte", PathState::Up, None);
        assert_eq!(lines(&mut journal, 1000), [""; 0]);
        assert_eq!(journal.due(), Some(at(1001)));
        let text = "tunnel mpt0: path lte is up, after 2 changes since the last line on it";
        assert_eq!(lines(&mut journal, 1001), [text]);
        assert_eq!(journal.due(), None);
    }

    #[test]
    fn paths_of_which_the_same_is_said_share_a_line() {
        let mut journal = journal();
        for (index, name) in ["fibre", "lte", "dsl"].into_iter().enumerate() {
            down(&mut journal, 10 * index as u64, index, name);
        }
        let text = "tunnel mpt0: paths fibre, lte, dsl are down: no probe was answered for 1s";
        assert_eq!(lines(&mut journal, 1000), [text]);
    }

    #[test]
    fn a_path_that_flaps_for_an_hour_makes_eight_lines_that_tell_of_all_changes() {
        let mut journal = journal();
        journal.path(at(0), id(1), "fibre", PathState::Up, None);
        let mut said = lines(&mut journal, 1000);
        said.extend(flap(&mut journal, 2..3602));
        assert!((7..=8).contains(&said.len()), "{said:#?}");
        assert!(said.last().unwrap().contains("changes since"), "{said:#?}");
    }

    #[test]
    fn that_no_path_is_up_is_said_however_much_another_flaps() {
        let mut journal = journal();
        journal.path(at(0), id(1), "fibre", PathState::Up, None);
        for second in 0..100 {
            let ms = second * 2 * SECOND;
            match second % 2 {
                0 => down(&mut journal, ms, 0, "lte"),
                _ => journal.path(at(ms), id(0), "lte", PathState::Up, None),
            }
            lines(&mut journal, ms + SECOND);
        }
        // Both go, not at once, and lines of one alone are not written any more.
        down(&mut journal, 300_000, 0, "lte");
        assert_eq!(lines(&mut journal, 301_500), [""; 0]);
        assert!(journal.due().unwrap() > at(400_000));
        down(&mut journal, 301_500, 1, "fibre");
        assert_eq!(journal.due(), Some(at(302_500)));
        assert_eq!(lines(&mut journal, 302_499), [""; 0]);
        let said = lines(&mut journal, 302_500);
        let text = "tunnel mpt0: paths lte, fibre are down: no probe was answered for 1s";
        assert!(said.len() == 1 && said[0].starts_with(text), "{said:?}");
        journal.path(at(310_000), id(1), "fibre", PathState::Up, None);
        assert_eq!(journal.due(), Some(at(311_000)));
        assert_eq!(
            lines(&mut journal, 311_000),
            ["tunnel mpt0: path fibre is up"]
        );
        assert_eq!(journal.due(), None);
    }

    #[test]
    fn an_hour_in_which_all_paths_flap_makes_sixteen_lines() {
        let mut journal = journal();
        let said = flap(&mut journal, 0..3600);
        assert!((13..=16).contains(&said.len()), "{said:#?}");
    }

    #[test]
    fn what_happens_again_is_said_again_after_an_hour_with_a_count() {
        let mut journal = journal();
        let mut said = Vec::new();
        for second in 0..=3600 {
            let text = "path lte: its peer is at 10.0.0.1:4 now";
            let line = journal.happened(at(second * SECOND), "moved lte", Level::Info, text);
            said.extend(line.map(|line| line.text));
        }
        let text = "tunnel mpt0: path lte: its peer is at 10.0.0.1:4 now";
        let again = "; this happened 3600 times since it was last said";
        assert_eq!(said, [text.to_owned(), format!("{text}{again}")]);
    }

    #[test]
    fn what_strangers_can_make_happen_is_bounded() {
        let mut journal = journal();
        let said = (0..1000).filter_map(|number| {
            journal.happened(at(number), &number.to_string(), Level::Info, "something")
        });
        assert_eq!(said.count(), MAX_THINGS);
    }
}

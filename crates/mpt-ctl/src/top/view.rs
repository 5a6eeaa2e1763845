//! What is shown, and what keys do to it.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use mpt_core::control::{PathState, Request, Status};
use mpt_measure::table::clean;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::asking::News;
use super::rows::{Row, Sort, What, rows};
use super::track::Track;

/// Rows whose past is remembered. A hub may have more peers; those have none.
const MAX_TRACKS: usize = 4096;

/// What is to be done for a key.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    Ask(Request),
    Quit,
}

/// What is shown.
pub(super) struct View {
    /// With colours.
    pub(super) colour: bool,
    live: Scene,
    /// What was so when somebody paused.
    frozen: Option<Scene>,
    sort: Sort,
    reversed: bool,
    opened: BTreeSet<String>,
    selected: Option<String>,
    /// The path that is to be taken out of service, if that is meant.
    asked: Option<String>,
    /// Help is shown.
    pub(super) helps: bool,
    /// What came of the last wish.
    said: Option<String>,
}

/// What is known at a moment.
#[derive(Clone, Default)]
struct Scene {
    status: Option<Box<Status>>,
    tracks: HashMap<String, Track>,
    /// Why the daemon does not answer, and since when.
    trouble: Option<(String, Instant)>,
}

impl View {
    pub(super) fn new(colour: bool) -> View {
        View {
            colour,
            live: Scene::default(),
            frozen: None,
            sort: Sort::default(),
            reversed: false,
            opened: BTreeSet::new(),
            selected: None,
            asked: None,
            helps: false,
            said: None,
        }
    }

    /// The daemon has said something, or has not.
    pub(super) fn learn(&mut self, news: News, now: Instant) {
        match news {
            News::Status(status) => self.take(status, now),
            News::Done(Ok(said)) => self.said = Some(clean(&said)),
            News::Done(Err(why)) => self.said = Some(clean(&why)),
        }
    }

    /// How the tunnel does, or why that is not known.
    pub(super) fn take(&mut self, status: Result<Box<Status>, String>, now: Instant) {
        match status {
            Ok(status) => {
                self.live.status = Some(status);
                self.live.trouble = None;
            }
            Err(why) => {
                let since = self.live.trouble.take().map_or(now, |(_, since)| since);
                self.live.trouble = Some((clean(&why), since));
            }
        }
        self.track();
        let rows = self.rows();
        let is_there = |key: &String| rows.iter().any(|row| row.key == *key);
        if !self.selected.as_ref().is_some_and(is_there) {
            self.selected = rows.first().map(|row| row.key.clone());
        }
    }

    /// Adds this moment to the past of each row.
    fn track(&mut self) {
        let Some(status) = &self.live.status else {
            return;
        };
        let now = rows(status, &self.opened, Sort::Configured, false);
        let is_known = self.live.trouble.is_none();
        let keys: BTreeSet<&str> = now.iter().map(|row| &*row.key).collect();
        self.live.tracks.retain(|key, _| keys.contains(&**key));
        for row in &now {
            if self.live.tracks.len() >= MAX_TRACKS && !self.live.tracks.contains_key(&row.key) {
                continue;
            }
            let track = self.live.tracks.entry(row.key.clone()).or_default();
            track.add(is_known.then_some(row.now));
        }
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control {
            return match key.code == KeyCode::Char('c') {
                true => Action::Quit,
                false => Action::Nothing,
            };
        }
        if let Some(name) = self.asked.take() {
            return match key.code == KeyCode::Char('y') {
                true => Action::Ask(Request::PathDown { name }),
                false => Action::Nothing,
            };
        }
        self.said = None;
        if std::mem::take(&mut self.helps) {
            return Action::Nothing;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "there are many keys")]
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.helps = true,
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::PageUp => self.choose(-10),
            KeyCode::PageDown => self.choose(10),
            KeyCode::Home => self.choose(isize::MIN),
            KeyCode::End => self.choose(isize::MAX),
            KeyCode::Enter => self.open(),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('p' | ' ') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(self.live.clone()),
                };
            }
            KeyCode::Char('d') => self.take_out(),
            KeyCode::Char('u') => return self.put_back(),
            _ => {}
        }
        Action::Nothing
    }

    fn choose(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let at = self.selected_in(&rows).saturating_add_signed(by);
        self.selected = rows.get(at.min(last)).map(|row| row.key.clone());
    }

    /// Shows the paths of the peer that is chosen, or hides them.
    fn open(&mut self) {
        let Some(row) = self.chosen() else {
            return;
        };
        if row.what == What::Peer && !self.opened.remove(&row.key) {
            self.opened.insert(row.key);
        }
    }

    /// Asks whether that is meant.
    fn take_out(&mut self) {
        match self.chosen() {
            Some(Row {
                what: What::Path(PathState::AdminDown),
                name,
                ..
            }) => {
                self.said = Some(format!("Path {name} is out of service; u puts it back."));
            }
            Some(Row {
                what: What::Path(_),
                key,
                ..
            }) => self.asked = Some(key),
            Some(_) => self.said = Some(AT_THE_PEER.to_owned()),
            None => {}
        }
    }

    fn put_back(&mut self) -> Action {
        match self.chosen() {
            Some(Row {
                what: What::Path(PathState::AdminDown),
                key,
                ..
            }) => {
                return Action::Ask(Request::PathUp { name: key });
            }
            Some(Row {
                what: What::Path(_),
                name,
                ..
            }) => {
                self.said = Some(format!("Path {name} is in service."));
            }
            Some(_) => self.said = Some(AT_THE_PEER.to_owned()),
            None => {}
        }
        Action::Nothing
    }

    /// The rows as they are shown.
    pub(super) fn rows(&self) -> Vec<Row> {
        let status = self.status();
        status.map_or(Vec::new(), |status| {
            rows(status, &self.opened, self.sort, self.reversed)
        })
    }

    /// The place of the row that is chosen, the first where none is.
    pub(super) fn selected_in(&self, rows: &[Row]) -> usize {
        let selected = self.selected.as_ref();
        let is_it = |row: &Row| selected.is_some_and(|key| row.key == *key);
        rows.iter().position(is_it).unwrap_or(0)
    }

    fn chosen(&self) -> Option<Row> {
        let mut rows = self.rows();
        let at = self.selected_in(&rows);
        (at < rows.len()).then(|| rows.swap_remove(at))
    }

    fn shown(&self) -> &Scene {
        self.frozen.as_ref().unwrap_or(&self.live)
    }

    /// What is shown of the tunnel; nothing while nothing is known.
    pub(super) fn status(&self) -> Option<&Status> {
        self.shown().status.as_deref()
    }

    /// The past of a row.
    pub(super) fn past(&self, key: &str) -> Option<&Track> {
        self.shown().tracks.get(key)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// By what rows are sorted, where that is not as they are configured.
    pub(super) fn order(&self) -> String {
        let way = if self.reversed { ", reversed" } else { "" };
        format!("{}{way}", self.sort.name())
    }

    /// Why the daemon does not answer, if it does not; also while the picture stands still.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        let (why, since) = self.live.trouble.as_ref()?;
        let seconds = now.saturating_duration_since(*since).as_secs();
        Some(format!(
            "No answer for {seconds} s, asked again and again: {why}"
        ))
    }

    /// An answer is waited for, of whoever looks.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// A question to whoever looks, or what came of his wish.
    pub(super) fn message(&self) -> Option<String> {
        let Some(name) = &self.asked else {
            return self.said.clone();
        };
        let paths = self.status().map_or(&[][..], |status| &status.paths);
        let others = paths
            .iter()
            .any(|path| path.name != *name && path.state == PathState::Up);
        let warning = match others {
            true => "",
            false => "No other path is up: nothing will get through. ",
        };
        Some(format!(
            "{warning}Take path {} out of service? (y/n)",
            clean(name)
        ))
    }
}

const AT_THE_PEER: &str =
    "A hub uses what the peer calls on: `mpt-ctl path down` is for the peer's end.";

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use mpt_core::control::verdict::judge;
    use mpt_core::control::{PathStatus, TunnelStatus};

    pub(in super::super) fn status() -> Status {
        let path = |name: &str, tx_bps, rtt_us| PathStatus {
            name: name.into(),
            state: PathState::Up,
            tx_bps,
            rx_bps: tx_bps / 40,
            rtt_us: Some(rtt_us),
            tx_packets: 1000,
            rx_packets: 1000,
            mtu: 1464,
            receive_buffer_bytes: 4_194_304,
            receive_buffer_wanted_bytes: 4_194_304,
            ..PathStatus::default()
        };
        let mut status = Status {
            tunnel: TunnelStatus {
                name: "mpt0".into(),
                uptime_s: 7980,
                scheduler: "adaptive".into(),
                peer_session: Some("77aa01b2c3d4e5f6".into()),
                ..TunnelStatus::default()
            },
            paths: vec![
                path("fibre", 95_300_000, 10_340),
                path("lte", 23_800_000, 48_200),
            ],
            ..Status::default()
        };
        status.paths[1].loss = 0.004;
        status.paths[1].tx_queue_us = 4_900;
        status.verdict = judge(&status);
        status
    }

    pub(in super::super) fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    pub(in super::super) fn press(view: &mut View, keys: &str) -> Action {
        let mut last = Action::Nothing;
        for letter in keys.chars() {
            last = view.press(key(match letter {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            }));
        }
        last
    }

    pub(in super::super) fn view() -> View {
        let mut view = View::new(false);
        view.take(Ok(Box::new(status())), Instant::now());
        view
    }

    fn path_down(name: &str) -> Action {
        Action::Ask(Request::PathDown { name: name.into() })
    }

    #[test]
    fn a_path_is_taken_out_of_service_only_after_a_yes() {
        let mut view = view();
        assert_eq!(press(&mut view, "jd"), Action::Nothing);
        assert_eq!(
            view.message().unwrap(),
            "Take path lte out of service? (y/n)"
        );
        assert_eq!(press(&mut view, "n"), Action::Nothing);
        assert_eq!(view.message(), None);
        assert_eq!(press(&mut view, "y"), Action::Nothing, "nothing is asked");
        assert_eq!(press(&mut view, "dy"), path_down("lte"));
        // q does not quit while there is a question: it is a no.
        assert_eq!(press(&mut view, "dq"), Action::Nothing);
        assert_eq!(press(&mut view, "q"), Action::Quit);
    }

    #[test]
    fn the_last_path_that_is_up_is_said_to_be() {
        let mut view = view();
        let mut one = status();
        one.paths[1].state = PathState::AdminDown;
        view.take(Ok(Box::new(one)), Instant::now());
        press(&mut view, "d");
        let message = view.message().unwrap();
        assert!(message.starts_with("No other path is up"), "{message}");
        press(&mut view, "njd");
        let message = view.message().unwrap();
        assert_eq!(message, "Path lte is out of service; u puts it back.");
        let up = Request::PathUp { name: "lte".into() };
        assert_eq!(press(&mut view, "u"), Action::Ask(up));
        assert_eq!(press(&mut view, "ku"), Action::Nothing);
    }

    #[test]
    fn what_is_chosen_stays_chosen_where_it_goes() {
        let mut view = view();
        press(&mut view, "j");
        assert_eq!(view.selected_in(&view.rows()), 1);
        press(&mut view, "ssss");
        assert_eq!(view.order(), "round trip");
        assert_eq!(view.selected_in(&view.rows()), 0);
        press(&mut view, "r");
        assert_eq!(
            (view.order().as_str(), view.selected_in(&view.rows())),
            ("round trip, reversed", 1)
        );
        let mut gone = status();
        gone.paths.pop();
        view.take(Ok(Box::new(gone)), Instant::now());
        assert_eq!(view.chosen().unwrap().name, "fibre");
        for code in [
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageDown,
            KeyCode::PageUp,
        ] {
            view.press(key(code));
        }
        assert_eq!(view.chosen().unwrap().name, "fibre");
    }

    #[test]
    fn a_pause_holds_the_picture_and_goes_on_with_what_is_so_then() {
        let mut view = view();
        press(&mut view, "p");
        let mut later = status();
        later.paths[0].tx_bps = 1;
        view.take(Ok(Box::new(later)), Instant::now());
        assert_eq!(view.rows()[0].now.out_bps, 95_300_000);
        press(&mut view, "p");
        assert_eq!(view.rows()[0].now.out_bps, 1);
        let past = view.past("fibre").unwrap();
        assert_eq!(
            past.last(9, |s| Some(s.out_bps)).len(),
            2,
            "none is missing"
        );
    }

    #[test]
    fn a_daemon_that_goes_away_is_said_to_have_and_its_return_is_seen() {
        let mut view = view();
        let start = Instant::now();
        view.take(Err("mpt-tund is not running\u{7}".into()), start);
        view.take(Err("mpt-tund is not running\u{7}".into()), start);
        let later = start + std::time::Duration::from_secs(3);
        let trouble = view.trouble(later).unwrap();
        assert!(trouble.starts_with("No answer for 3 s"), "{trouble}");
        assert!(!trouble.contains('\u{7}'));
        assert_eq!(view.rows().len(), 2, "what was known stays");
        let past = view.past("lte").unwrap().last(9, |s| Some(s.out_bps));
        assert_eq!(past, [None, None, Some(23_800_000)]);
        view.take(Ok(Box::new(status())), later);
        assert_eq!(view.trouble(later), None);
    }

    #[test]
    fn any_key_closes_the_help_and_control_c_quits_whatever_is_shown() {
        let mut view = view();
        press(&mut view, "?");
        assert!(view.helps);
        assert_eq!(press(&mut view, "q"), Action::Nothing);
        assert!(!view.helps);
        press(&mut view, "d");
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.press(control_c), Action::Quit);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut view = View::new(false);
        for round in 0..3 {
            let path = |number| PathStatus {
                name: format!("p{round}-{number}"),
                ..PathStatus::default()
            };
            let many = Status {
                paths: (0..MAX_TRACKS + 50).map(path).collect(),
                ..Status::default()
            };
            view.take(Ok(Box::new(many)), Instant::now());
            assert_eq!(view.live.tracks.len(), MAX_TRACKS);
        }
    }
}

use std::time::Duration;

use mpt_core::control::verdict::judge;
use mpt_core::control::{HubStatus, PeerState, PeerStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::asking::News;
use crate::top::view::tests::{press, status, view};

/// What is on a screen of this size, without blanks at the ends of lines.
fn drawn(view: &View, width: u16, height: u16) -> String {
    shown(&on(view, width, height, Instant::now()))
}

fn on(view: &View, width: u16, height: u16, now: Instant) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, now)).unwrap();
    terminal.backend().buffer().clone()
}

fn shown(buffer: &Buffer) -> String {
    let lines = buffer.area.rows().map(|row| {
        let cells = row.columns().map(|at| buffer[(at.x, at.y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// A view with a past: the first path gets faster, the second has a gap.
fn grown() -> View {
    let mut view = view();
    for step in 1..=12 {
        let mut next = status();
        next.paths[0].tx_bps = step * 8_000_000;
        next.paths[1].loss = step as f64 / 1000.0;
        next.reorder.window = 742;
        next.reorder.window_auto = true;
        next.verdict = judge(&next);
        let known = match step {
            5..7 => Err("mpt-tund is not running".to_owned()),
            _ => Ok(Box::new(next)),
        };
        view.take(known, Instant::now());
    }
    view
}

#[test]
fn two_paths_on_80_by_24() {
    insta::assert_snapshot!(drawn(&grown(), 80, 24), @r"
    tunnel mpt0, running for 2 h 13 min, sorted: as configured                    ok
    All is well: 2 paths up.


    PATH          STATE       OUT bit/s   IN bit/s      RTT    LOSS    QUEUE   SHARE
    fibre         up             96.0 M      2.4 M  10.3 ms     0 %     0 µs  80.1 %
                             ▂▂  ▄▅▆▆▇█ ██  ██████   ██████                   ▅▅▆▆▆▆
    lte           up             23.8 M      595 k  48.2 ms   1.2 %   4.9 ms  19.9 %
                             ██  ██████ ██  ██████   ██████  ▄▅▆▆▇█   ▃▃▃▃▃▃  ▂▂▁▁▁▁









    tunnel    out 120 Mbit/s, in 3.0 Mbit/s
    reorder   window auto (742), 0 held (most 0), 0 gaps open, hold p99 0 µs
    bytes     0 B out, 0 B in
    recovery  0 found lost, 0 sent again, 0 needlessly

    ↑↓ choose  s sort  r reverse  p pause  d out of service  u back  ? help  q quit
    ");
}

#[test]
fn a_small_window_has_what_matters_most() {
    insta::assert_snapshot!(drawn(&grown(), 48, 12), @r"
    tunnel mpt0, running for 2 h 13 min, sorted:… ok
    All is well: 2 paths up.
    PATH          STATE         OUT bit/s        RTT
    fibre         up               96.0 M    10.3 ms
                              ▁▂▂  ▄▅▆▆▇█ ██  ██████
    lte           up               23.8 M    48.2 ms
                             ████  ██████ ██  ██████


    tunnel    out 120 Mbit/s, in 3.0 Mbit/s

    ? help  q quit
    ");
    insta::assert_snapshot!(drawn(&grown(), 30, 5), @r"
    The window is too small: 40 ×
    8 at least; it has 30 × 5. q
    quits.
    ");
}

#[test]
fn a_question_and_trouble_stand_above_the_keys() {
    let mut view = grown();
    press(&mut view, "jd");
    let asked = drawn(&view, 80, 24);
    assert!(
        asked.contains("\nTake path lte out of service? (y/n)\n"),
        "{asked}"
    );
    press(&mut view, "n");
    let start = Instant::now();
    let done = News::Done(Ok("path lte is out of service".into()));
    view.learn(done, start);
    let said = drawn(&view, 80, 24);
    assert!(said.contains("\npath lte is out of service\n"), "{said}");
    view.take(Err("mpt-tund is not running".into()), start);
    let later = on(&view, 80, 24, start + Duration::from_secs(9));
    let later = shown(&later);
    assert!(
        later.contains("\nNo answer for 9 s, asked again and again: mpt-tund is not running\n"),
        "{later}"
    );
    assert!(later.contains("fibre"), "what was known stays: {later}");
}

#[test]
fn help_lies_over_it() {
    let mut view = grown();
    press(&mut view, "?");
    let helped = drawn(&view, 80, 24);
    for line in HELP {
        assert!(helped.contains(line), "{line}: {helped}");
    }
}

fn hub() -> Status {
    let paths = status().paths;
    let peer = |name: &str, state, paths| PeerStatus {
        name: name.into(),
        state,
        paths,
        ..PeerStatus::default()
    };
    let mut hub = Status {
        hub: Some(HubStatus {
            peers: 3,
            up: 1,
            ..HubStatus::default()
        }),
        peers: vec![
            peer("alice", PeerState::Up, paths),
            peer("bob", PeerState::Away, vec![]),
            peer("carol\u{1b}]0;x\u{7}", PeerState::Down, vec![]),
        ],
        ..status()
    };
    hub.verdict = judge(&hub);
    hub
}

#[test]
fn a_hub_shows_its_peers_and_the_paths_of_those_that_are_opened() {
    let mut view = View::new(false);
    for _ in 0..3 {
        view.take(Ok(Box::new(hub())), Instant::now());
    }
    press(&mut view, "\n");
    insta::assert_snapshot!(drawn(&view, 80, 24), @r"
    tunnel mpt0, running for 2 h 13 min, 1 of 3 peers up, sorted: as configured   ok
    All is well.
    - Of 3 peers 1 are there. `mpt-ctl peers` shows who; peers call by themselves.

    PEER          STATE       OUT bit/s   IN bit/s      RTT    LOSS    QUEUE   SHARE
    alice         up              119 M      3.0 M  10.3 ms  0.40 %   4.9 ms   100 %
                                    ███        ███      ███     ▃▃▃      ▃▃▃     ███
      fibre       up             95.3 M      2.4 M  10.3 ms     0 %     0 µs  80.0 %

      lte         up             23.8 M      595 k  48.2 ms  0.40 %   4.9 ms  20.0 %

    bob           away                0          0        –     0 %     0 µs     0 %

    carol�]0;x�   down                0          0        –     0 %     0 µs     0 %




    tunnel    out 119 Mbit/s, in 3.0 Mbit/s
    bytes     0 B out, 0 B in



    ↑↓ choose  s sort  r reverse  p pause  d out of service  u back  ? help  q quit
    ");
    press(&mut view, "jd");
    let said = drawn(&view, 80, 24);
    assert!(said.contains("is for the peer's end"), "{said}");
}

#[test]
fn no_size_is_a_panic() {
    let mut peers = View::new(true);
    peers.take(Ok(Box::new(hub())), Instant::now());
    press(&mut peers, "\n");
    let mut views = [View::new(true), grown(), peers];
    let sizes = (0..90).flat_map(|width| (0..30).map(move |height| (width, height)));
    for (round, keys) in ["?", "?d", "nG"].into_iter().enumerate() {
        for (number, (width, height)) in sizes.clone().enumerate() {
            if number % 3 == round {
                on(&views[number / 3 % 3], width, height, Instant::now());
            }
        }
        for view in &mut views {
            press(view, keys);
        }
    }
    on(&views[1], 1000, 400, Instant::now());
}

#[test]
fn without_colour_nothing_has_one_and_what_is_chosen_is_seen_all_the_same() {
    let colours = |colour| {
        let mut view = grown();
        view.colour = colour;
        let buffer = on(&view, 80, 24, Instant::now());
        let painted =
            |cell: &&ratatui::buffer::Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
        let reversed = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
        let cells = &buffer.content;
        (
            cells.iter().filter(painted).count(),
            cells.iter().filter(reversed).count(),
        )
    };
    let (painted, reversed) = colours(false);
    assert_eq!(painted, 0);
    assert!(reversed > 0);
    assert!(colours(true).0 > 0);
}

#[test]
fn the_chosen_row_is_in_sight_however_many_there_are() {
    let mut many = status();
    many.paths = (0..16)
        .map(|number| PathStatus {
            name: format!("path-{number}"),
            ..many.paths[0].clone()
        })
        .collect();
    let mut view = View::new(false);
    view.take(Ok(Box::new(many)), Instant::now());
    for _ in 0..16 {
        let chosen = view.rows()[view.selected_in(&view.rows())].name.clone();
        let screen = drawn(&view, 80, 24);
        assert!(
            screen.contains(&format!("\n{chosen} ")),
            "{chosen}: {screen}"
        );
        press(&mut view, "j");
    }
    assert!(drawn(&view, 80, 24).contains("above, 0 below"));
}

//! Draws the view: title and verdict, rows with their past, sums, and what keys do.

use std::time::Instant;

use mpt_core::control::units::{bits_per_second, bytes, long_time_s, time_us};
use mpt_core::control::verdict::Level;
use mpt_core::control::{PathState, PathStatus, ReorderStatus, Status};
use mpt_measure::table::{Tone, broken, clean, truncated};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Clear, RenderDirection, Sparkline, Widget};

use super::columns::{Column, Places, places};
use super::rows::{Row, What};
use super::view::View;

/// The smallest window that something is drawn in, in columns and lines.
const LEAST: (u16, u16) = (40, 8);

const KEYS: &str =
    "↑↓ choose  s sort  r reverse  p pause  d out of service  u back  ? help  q quit";
const FEW_KEYS: &str = "? help  q quit";

const HELP: [&str; 14] = [
    "↑ ↓  k j   choose a path, or a peer",
    "Enter      a peer's paths, or not",
    "s  r       sort by the next; reverse",
    "p          pause, go on",
    "d          out of service (asks)",
    "u          back in service",
    "q  Ctrl-C  quit",
    "",
    "OUT IN     bits a second",
    "LOSS       of what is sent, recently",
    "QUEUE      wait on the way",
    "SHARE      of all that is sent",
    "Below: the past, newest on the right,",
    "each as high as its greatest.",
];

/// Draws all of it; `now` says how long ago something was.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, now: Instant) {
    let area = frame.area();
    let ink = Ink {
        colour: view.colour,
    };
    let buffer = frame.buffer_mut();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(buffer, area, ink);
    }
    let (verdict_lines, sum_lines) = match area.height {
        22.. => (3, 4),
        16.. => (2, 2),
        11.. => (1, 1),
        _ => (1, 0),
    };
    let [title, verdict, table, sums, message, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(verdict_lines),
        Constraint::Fill(1),
        Constraint::Length(sum_lines),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    if let Some(status) = view.status() {
        draw_title(buffer, title, status, view, ink);
        draw_verdict(buffer, verdict, status, ink);
        draw_rows(buffer, table, view, ink);
        draw_sums(buffer, sums, status, ink);
    }
    draw_message(buffer, message, view, now, ink);
    let line = match usize::from(keys.width) >= KEYS.chars().count() {
        true => KEYS,
        false => FEW_KEYS,
    };
    ink.write(buffer, keys, line, Tone::Faint);
    if view.helps {
        draw_help(buffer, area, ink);
    }
}

/// How tones look here.
#[derive(Debug, Clone, Copy)]
struct Ink {
    colour: bool,
}

impl Ink {
    fn style(self, tone: Tone) -> Style {
        let painted = |colour| match self.colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => painted(Color::Green),
            Tone::Doubtful => painted(Color::Yellow),
            Tone::Bad => painted(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Writes a text at the left of a line, "…" where it is cut.
    fn write(self, buffer: &mut Buffer, line: Rect, text: &str, tone: Tone) {
        if !line.is_empty() {
            let text = truncated(text, usize::from(line.width));
            buffer.set_stringn(line.x, line.y, text, line.width.into(), self.style(tone));
        }
    }

    /// Writes a text at the right of a line.
    fn write_right(self, buffer: &mut Buffer, line: Rect, text: &str, tone: Tone) {
        let length = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        let left = line.width.saturating_sub(length);
        let line = Rect {
            x: line.x + left,
            width: line.width - left,
            ..line
        };
        self.write(buffer, line, text, tone);
    }
}

fn too_small(buffer: &mut Buffer, area: Rect, ink: Ink) {
    let (width, height) = LEAST;
    let text = format!(
        "The window is too small: {width} × {height} at least; it has {} × {}. q quits.",
        area.width, area.height
    );
    let lines = broken(&text, area.width.into());
    for (line, text) in area.rows().zip(lines) {
        ink.write(buffer, line, &text, Tone::Plain);
    }
}

fn draw_title(buffer: &mut Buffer, line: Rect, status: &Status, view: &View, ink: Ink) {
    let tunnel = &status.tunnel;
    let (word, tone) = match status.verdict.level {
        Level::Ok => ("ok", Tone::Good),
        Level::Degraded => ("degraded", Tone::Bad),
        Level::Down => ("down", Tone::Bad),
    };
    let paused = if view.is_paused() { "paused, " } else { "" };
    let verdict = format!("{paused}{word}");
    let peers = status.hub.as_ref().map_or(String::new(), |hub| {
        format!(", {} of {} peers up", hub.up, hub.peers)
    });
    let title = format!(
        "tunnel {}, running for {}{peers}, sorted: {}",
        clean(&tunnel.name),
        long_time_s(tunnel.uptime_s),
        view.order()
    );
    let left = Rect {
        width: line.width.saturating_sub(verdict.len() as u16 + 1),
        ..line
    };
    ink.write(buffer, left, &title, Tone::Heading);
    ink.write_right(buffer, line, &verdict, tone);
}

fn draw_verdict(buffer: &mut Buffer, area: Rect, status: &Status, ink: Ink) {
    let mut lines = Vec::new();
    let up = status
        .paths
        .iter()
        .filter(|path| path.state == PathState::Up);
    if status.verdict.level == Level::Ok {
        let text = match (&status.hub, up.count()) {
            (Some(_), _) => "All is well.".to_owned(),
            (None, 1) => "All is well: 1 path up.".to_owned(),
            (None, count) => format!("All is well: {count} paths up."),
        };
        lines.push((text, Tone::Good));
    }
    for finding in &status.verdict.messages {
        let (mark, tone) = match finding.level {
            Level::Ok => ("- ", Tone::Plain),
            Level::Degraded | Level::Down => ("! ", Tone::Bad),
        };
        let text = clean(&finding.sentence());
        let room = usize::from(area.width).saturating_sub(mark.len());
        for (number, line) in broken(&text, room).into_iter().enumerate() {
            let mark = if number == 0 { mark } else { "  " };
            lines.push((format!("{mark}{line}"), tone));
        }
    }
    let room = usize::from(area.height);
    if lines.len() > room
        && let Some((last, _)) = lines.get_mut(room.saturating_sub(1))
    {
        let more = " …  more: mpt-ctl status";
        *last = truncated(
            last,
            usize::from(area.width).saturating_sub(more.chars().count()),
        );
        last.push_str(more);
    }
    for (line, (text, tone)) in area.rows().zip(lines) {
        ink.write(buffer, line, &text, tone);
    }
}

fn draw_rows(buffer: &mut Buffer, area: Rect, view: &View, ink: Ink) {
    let Some(first) = area.rows().next() else {
        return;
    };
    let rows = view.rows();
    let at = places(first);
    let is_peers = rows.first().is_some_and(|row| row.what == What::Peer);
    let what = if is_peers { "PEER" } else { "PATH" };
    ink.write(buffer, at.name, what, Tone::Heading);
    ink.write(buffer, at.state, "STATE", Tone::Heading);
    for &(column, place) in &at.numbers {
        ink.write_right(buffer, place, column.title(), Tone::Heading);
    }
    let body = Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..area
    };
    if rows.is_empty() {
        return ink.write(buffer, body, "None is configured.", Tone::Faint);
    }
    // Two lines a row, as long as one row has them.
    let height = if body.height >= 2 { 2 } else { 1 };
    let room = usize::from(body.height / height);
    let selected = view.selected_in(&rows);
    let skipped = (selected + 1).saturating_sub(room);
    for (place, (number, row)) in rows.iter().enumerate().skip(skipped).take(room).enumerate() {
        let line = Rect {
            y: body.y + place as u16 * height,
            height: 1,
            ..body
        };
        draw_row(buffer, line, row, number == selected, ink);
        if height == 2 {
            draw_past(buffer, line, view, row, ink);
        }
    }
    let below = rows.len().saturating_sub(skipped + room);
    if skipped + below > 0 {
        let more = format!("{skipped} above, {below} below");
        ink.write_right(
            buffer,
            Rect {
                width: at.name.width + 1 + at.state.width,
                ..first
            },
            &more,
            Tone::Faint,
        );
    }
}

fn draw_row(buffer: &mut Buffer, line: Rect, row: &Row, is_chosen: bool, ink: Ink) {
    let at = places(line);
    let indent = if row.is_below { "  " } else { "" };
    ink.write(
        buffer,
        at.name,
        &format!("{indent}{}", row.name),
        Tone::Plain,
    );
    if is_chosen {
        // A colour alone would not be seen by all.
        buffer.set_style(at.name, Style::new().add_modifier(Modifier::REVERSED));
    }
    let (state, tone) = row.state;
    ink.write(buffer, at.state, state, tone);
    for &(column, place) in &at.numbers {
        let tone = match column {
            Column::Loss if row.now.loss >= 0.01 => Tone::Doubtful,
            Column::Out
            | Column::In
            | Column::Rtt
            | Column::Loss
            | Column::Queue
            | Column::Share => Tone::Plain,
        };
        ink.write_right(buffer, place, &column.text(&row.now), tone);
    }
}

/// The line below a row: what its numbers were.
fn draw_past(buffer: &mut Buffer, line: Rect, view: &View, row: &Row, ink: Ink) {
    let Some(past) = view.past(&row.key) else {
        return;
    };
    let Places { numbers, .. } = places(Rect {
        y: line.y + 1,
        ..line
    });
    for (column, place) in numbers {
        let values = past.last(place.width.into(), column.value());
        let greatest = values.iter().flatten().copied().max().unwrap_or(0);
        let style = match ink.colour {
            true => Style::new().fg(Color::Cyan),
            false => Style::new(),
        };
        Sparkline::default()
            .data(values)
            .max(greatest.max(column.full()))
            .direction(RenderDirection::RightToLeft)
            .absent_value_symbol(" ")
            .style(style)
            .render(place, buffer);
    }
}

/// The tunnel as a whole: rates, what waits, the reorder window, what was sent again.
fn draw_sums(buffer: &mut Buffer, area: Rect, status: &Status, ink: Ink) {
    let tunnel = &status.tunnel;
    let sum = |of: fn(&PathStatus) -> u64| {
        let rate = status.rate_bps(of);
        rate.map_or_else(|| "–".to_owned(), bits_per_second)
    };
    let waiting = match tunnel.queue_packets {
        0 => String::new(),
        packets => format!(", {packets} packets wait ({})", bytes(tunnel.queue_bytes)),
    };
    let (out, inward) = (sum(|path| path.tx_bps), sum(|path| path.rx_bps));
    let all = format!("out {out}, in {inward}{waiting}");
    let bytes = format!(
        "{} out, {} in",
        bytes(tunnel.tx_bytes),
        bytes(tunnel.rx_bytes)
    );
    let mut lines = vec![("tunnel", all), ("bytes", bytes)];
    if status.hub.is_none() {
        let recovery = &tunnel.recovery;
        lines.insert(1, ("reorder", window(&status.reorder)));
        lines.push((
            "recovery",
            format!(
                "{} found lost, {} sent again, {} needlessly",
                recovery.lost, recovery.resent, recovery.spurious
            ),
        ));
    }
    for (line, (name, text)) in area.rows().zip(lines) {
        ink.write(buffer, line, name, Tone::Heading);
        let rest = Rect {
            x: line.x + 10.min(line.width),
            width: line.width.saturating_sub(10),
            ..line
        };
        ink.write(buffer, rest, &text, Tone::Plain);
    }
}

fn window(reorder: &ReorderStatus) -> String {
    let window = match (reorder.window, reorder.window_auto) {
        (0, _) => return "off".to_owned(),
        (window, true) => format!("auto ({window})"),
        (window, false) => window.to_string(),
    };
    format!(
        "window {window}, {} held (most {}), {} gaps open, hold p99 {}",
        reorder.held,
        reorder.held_max,
        reorder.gaps_open,
        time_us(reorder.hold_us.p99)
    )
}

fn draw_message(buffer: &mut Buffer, line: Rect, view: &View, now: Instant, ink: Ink) {
    // What came of a wish hides no trouble; a question has to be seen by who is to answer it.
    let trouble = view.trouble(now).filter(|_| !view.is_asking());
    let (text, tone) = match (trouble, view.message()) {
        (Some(trouble), _) => (trouble, Tone::Bad),
        (None, Some(message)) => (message, Tone::Heading),
        (None, None) => return,
    };
    ink.write(buffer, line, &text, tone);
}

fn draw_help(buffer: &mut Buffer, area: Rect, ink: Ink) {
    let width = HELP
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0) as u16
        + 2;
    let height = HELP.len() as u16 + 2;
    let place = Rect {
        x: area.x + area.width.saturating_sub(width) / 2,
        y: area.y + area.height.saturating_sub(height) / 2,
        width,
        height,
    }
    .intersection(area);
    Clear.render(place, buffer);
    let block = Block::bordered().title("Keys");
    let inside = block.inner(place);
    block.render(place, buffer);
    for (line, text) in inside.rows().zip(HELP) {
        ink.write(buffer, line, text, Tone::Plain);
    }
}

#[cfg(test)]
mod tests;

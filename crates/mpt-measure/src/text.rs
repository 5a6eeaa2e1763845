//! A report for people.

use crate::order;
use crate::table::{Look, Tone};
use mpt_core::control::units;

use super::report::{Report, StreamReport};

/// The report as text; coloured and broken as `look` says.
pub(crate) fn text(report: &Report, look: Look) -> String {
    let mut text = String::new();
    for stream in &report.streams {
        text += &stream_text(stream, look);
        text.push('\n');
    }
    if let Some(round_trip) = &report.round_trip {
        let us = |ns: u64| units::time_us(ns / 1000);
        let value = format!(
            "least {}, mean {}, median {}, 99 % {}, max {}",
            us(round_trip.min_ns),
            us(round_trip.mean_ns),
            us(round_trip.p50_ns),
            us(round_trip.p99_ns),
            us(round_trip.max_ns)
        );
        text += &(order::row("round trip", &value) + "\n");
    }
    text + &remarks(report, look)
}

/// What is said below the numbers: where, how it ended, and what to know to judge them.
pub(crate) fn remarks(report: &Report, look: Look) -> String {
    let mut text = look.sentence(
        Tone::Plain,
        "",
        &format!("{}: {}.", report.at, report.ended),
    );
    for line in ignored(report) {
        text += &look.sentence(Tone::Plain, "", &line);
    }
    for note in &report.notes {
        text += &look.sentence(Tone::Doubtful, "Note: ", &format!("{note}."));
    }
    text
}

fn stream_text(stream: &StreamReport, look: Look) -> String {
    let mut text = look.paint(Tone::Heading, &stream.name) + "\n";
    let mut row = |name: &str, value: String| text += &order::row(name, &value);
    row("numbers", stream.numbering.name().into());
    if let Some(plan) = stream.plan {
        row(
            "planned",
            format!(
                "{} packets of {} bytes at {} a second",
                plan.packets, plan.frame_bytes, plan.rate_pps
            ),
        );
    }
    row("received", received(stream));
    if stream.restarts > 0 || stream.strays > 0 {
        row(
            "numbers began anew",
            format!("{} times; {} strays", stream.restarts, stream.strays),
        );
    }
    text += &order::text(&stream.order, look);
    if let Some(delay) = &stream.delay {
        let us = |ns: u64| units::time_us(ns / 1000);
        let pdv = &delay.pdv_ns;
        text += &order::row(
            "delay variation",
            &format!(
                "PDV median {}, 99 % {}, max {}; IPDV mean {}; jitter {}",
                us(pdv.p50),
                us(pdv.p99),
                us(pdv.max),
                us(delay.ipdv_size_ns.mean as u64),
                us(delay.jitter_ns as u64)
            ),
        );
    }
    text
}

fn received(stream: &StreamReport) -> String {
    let mut text = match stream.sent {
        Some(sent) => format!("{} of {sent} sent", stream.received),
        None => format!("{}", stream.received),
    };
    if let Some(lost) = stream.lost {
        let share = lost as f64 / (lost + stream.received).max(1) as f64;
        text += &format!(", {lost} lost ({})", units::percent(share));
    }
    text += &format!(", {} copies", stream.duplicates);
    if let Some(rate) = stream.received_pps {
        text += &format!("; {:.2} s, {rate:.0} a second", stream.seconds);
    }
    text
}

/// What came and was not measured, a sentence each.
fn ignored(report: &Report) -> Vec<String> {
    let ignored = &report.ignored;
    let mut lines = Vec::new();
    let mut count = |packets: u64, what: &str| {
        if packets > 0 {
            lines.push(format!("Not measured: {packets} {what}."));
        }
    };
    count(ignored.strangers, "packets of others");
    count(ignored.malformed, "malformed packets");
    count(ignored.other_packets, "packets of further streams");
    for unread in &ignored.frames {
        count(unread.frames, &format!("frames {}", unread.why));
    }
    lines
}

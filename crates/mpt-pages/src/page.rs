//! A manual page of each command.

use std::time::{Duration, SystemTime};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Where manual pages of what administrators run stand.
pub(crate) const SECTION: &str = "8";
/// Longest heading in what follows the help, in letters; a longer line before a block is a sentence.
const MAX_HEADING: usize = 30;

/// The command with what it hands on to those below, and with the names of their pages.
pub(crate) fn built(program: &Command) -> Command {
    let mut built = program.clone().disable_help_subcommand(true);
    built.build();
    built
}

/// Names and texts of the pages of a program and of all its commands.
pub(crate) fn pages(program: &Command) -> Vec<(String, Vec<u8>)> {
    let mut pages = Vec::new();
    add(&built(program), None, &mut pages);
    pages
}

fn name_of(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or(command.get_name()).to_owned()
}

fn add(command: &Command, above: Option<&str>, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = name_of(command);
    pages.push((name.clone(), page(command, above)));
    for below in command.get_subcommands() {
        add(below, Some(&name), pages);
    }
}

fn page(command: &Command, above: Option<&str>) -> Vec<u8> {
    let man = Man::new(command.clone())
        .section(SECTION)
        .date(date())
        .source(format!("MPT {}", env!("CARGO_PKG_VERSION")))
        .manual("MPT multipath tunnel");
    let mut text = Vec::new();
    // Writing into memory does not fail.
    let _ = man.render_title(&mut text);
    let _ = man.render_name_section(&mut text);
    let _ = man.render_synopsis_section(&mut text);
    let _ = man.render_description_section(&mut text);
    let _ = man.render_options_section(&mut text);
    if command.has_subcommands() {
        let _ = man.render_subcommands_section(&mut text);
    }
    let mut rest = Roff::new();
    let after = command.get_after_long_help().or(command.get_after_help());
    if let Some(after) = after {
        add_sections(&after.to_string(), &mut rest);
    }
    rest.control("SH", ["SEE ALSO"]);
    rest.text([roman(see_also(&name_of(command), above))]);
    let _ = rest.to_writer(&mut text);
    text
}

/// The day that pages are of: that of the commit, which `SOURCE_DATE_EPOCH` names in seconds where pages are made for a
/// package, else today.
fn date() -> String {
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    let time = match seconds.map(Duration::from_secs) {
        Some(since) => SystemTime::UNIX_EPOCH + since,
        None => SystemTime::now(),
    };
    let day = humantime::format_rfc3339_seconds(time).to_string();
    day.split('T').next().unwrap_or_default().to_owned()
}

/// A section for each heading of what follows the help, line by line as it stands there.
fn add_sections(text: &str, page: &mut Roff) {
    let mut is_open = false;
    for line in text.lines() {
        let found = heading(line);
        if let Some(found) = &found {
            close(is_open, page);
            page.control("SH", [found.as_str()]);
        } else if !is_open {
            page.control("SH", ["NOTES"]);
        }
        if found.is_some() || !is_open {
            page.control("nf", []);
            is_open = true;
        }
        if found.is_none() {
            page.text([roman(line)]);
        }
    }
    close(is_open, page);
}

fn close(is_open: bool, page: &mut Roff) {
    if is_open {
        page.control("fi", []);
    }
}

/// The heading that a line of the help is: "Exit codes:".
pub(crate) fn heading(line: &str) -> Option<String> {
    let heading = line.strip_suffix(':')?;
    let is_one = heading.len() <= MAX_HEADING && heading.starts_with(char::is_uppercase);
    is_one.then(|| heading.to_uppercase())
}

fn see_also(name: &str, above: Option<&str>) -> String {
    let others = ["mpt-tund", "mpt-ctl"].into_iter().filter(|&it| it != name);
    let others = above
        .into_iter()
        .chain(others.filter(|&it| above != Some(it)));
    let others: Vec<String> = others.map(|it| format!("{it}({SECTION})")).collect();
    others.join(", ")
}

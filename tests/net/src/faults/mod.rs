//! Faults, one after another on a running pair, each with what pings saw of it and what both ends said.
//!
//! A [`Bench`] is a tunnel over [`Uplinks`](crate::Uplinks) with pings every 10 ms through it and an eye on both
//! ends' status. A [`Fault`] says what is expected; [`Bench::run`] breaks something, waits until each end names
//! it, mends it, and waits until everything is as configured. A row that fails does not hide those after it:
//! [`Bench::finish`] tells of all at once, and holds the rows against docs/faults.md.

mod table;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::Daemon;
use crate::echo::Echo;
use crate::settings::Side;
use crate::uplinks::Uplinked;
use crate::watch::{self, Watch};
use table::Row;

/// How long an end may take to name what is wrong, and to be as configured once it is not any more. The
/// machine may be busy; what depends on time is measured in the lab.
const PATIENCE: Duration = Duration::from_secs(8);
/// Pings must have been answered for this long for a fault to be over.
const CALM: Duration = Duration::from_millis(300);
/// Time between two looks at a status.
const STEP: Duration = Duration::from_millis(50);

/// What an end is to say: a code, and a part of the sentence that goes with it, where `…` stands for anything.
type Says = Option<(&'static str, &'static str)>;

/// A fault, and what is expected of it.
#[derive(Debug, Clone)]
pub struct Fault {
    what: String,
    says: [Says; 2],
    cannot_know: [bool; 2],
    lasts: Duration,
    stall: Option<Duration>,
    back: Duration,
    by_hand: Option<&'static str>,
}

impl Fault {
    /// A fault of which, unless said otherwise, neither end needs to say a word.
    #[must_use]
    pub fn new(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            says: [None; 2],
            cannot_know: [false; 2],
            lasts: Duration::ZERO,
            stall: None,
            back: PATIENCE,
            by_hand: None,
        }
    }

    /// The client's status names it with this code and these words.
    #[must_use]
    pub fn client(mut self, code: &'static str, words: &'static str) -> Self {
        self.says[Side::A as usize] = Some((code, words));
        self
    }

    /// The server's status names it with this code and these words.
    #[must_use]
    pub fn server(mut self, code: &'static str, words: &'static str) -> Self {
        self.says[Side::B as usize] = Some((code, words));
        self
    }

    /// This end cannot know: from where it stands all is well, though no ping is answered.
    #[must_use]
    pub fn unknown_to(mut self, side: Side) -> Self {
        self.cannot_know[side as usize] = true;
        self
    }

    /// It lasts this long, although both ends have named it before.
    #[must_use]
    pub fn lasts_ms(mut self, time: u64) -> Self {
        self.lasts = Duration::from_millis(time);
        self
    }

    /// Pings may be without an answer for this long, from the fault to its end.
    #[must_use]
    pub fn stalls_at_most_ms(mut self, time: u64) -> Self {
        self.stall = Some(Duration::from_millis(time));
        self
    }

    /// Everything is as configured this long after it was mended.
    #[must_use]
    pub fn back_within_ms(mut self, time: u64) -> Self {
        self.back = Duration::from_millis(time);
        self
    }

    /// It does not mend itself: this has to be done.
    #[must_use]
    pub fn by_hand(mut self, remedy: &'static str) -> Self {
        self.by_hand = Some(remedy);
        self
    }
}

/// A running pair, and the rows so far.
#[derive(Debug)]
pub struct Bench {
    rows: Vec<Row>,
    failures: Vec<String>,
    watch: Watch,
    echo: Echo,
    /// Client, server, and the hosts between them.
    pub pair: Uplinked,
}

impl Bench {
    /// Pings through a pair whose paths are up.
    #[must_use]
    pub fn new(pair: Uplinked) -> Self {
        let echo = Echo::start(&pair.net.client, &pair.net.server, Side::B.inner_v4());
        let sockets = [pair.client.socket(), pair.server.socket()];
        let watch = Watch::start(sockets, echo.ears());
        Self {
            rows: Vec::new(),
            failures: Vec::new(),
            watch,
            echo,
            pair,
        }
    }

    /// Breaks something, waits until both ends name it, mends it, and waits until all is as configured.
    pub fn run(
        &mut self,
        fault: &Fault,
        break_it: impl FnOnce(&mut Uplinked),
        mend_it: impl FnOnce(&mut Uplinked),
    ) {
        if !self.calm(PATIENCE) {
            self.fail(fault, "not calm before it; restarting both ends");
            self.start_afresh();
        }
        let start = Instant::now();
        break_it(&mut self.pair);
        let said = [Side::A, Side::B].map(|side| self.await_word(fault, side));
        std::thread::sleep(fault.lasts.saturating_sub(start.elapsed()));
        mend_it(&mut self.pair);
        let mended = Instant::now();
        // Until then pings from before would count.
        let settling = CALM + Echo::under_way();
        std::thread::sleep(settling);
        let is_back = self.calm(fault.back);
        let back = mended.elapsed().saturating_sub(settling);
        let seen = self.echo.seen(start, Instant::now());
        for lie in self.watch.lies(start) {
            if !fault.cannot_know[lie.end] {
                let end = ["client", "server"][lie.end];
                let ms = lie.silence.as_millis();
                self.fail(
                    fault,
                    &format!("the {end} says that all is well after {ms} ms without an answer"),
                );
                break;
            }
        }
        if !is_back {
            self.fail(
                fault,
                &format!(
                    "not as configured {back:?} after it was mended: {}",
                    self.told()
                ),
            );
        }
        if let Some(limit) = fault.stall.filter(|limit| seen.stall > *limit) {
            self.fail(
                fault,
                &format!("pings stall for {:?}, {limit:?} is the limit", seen.stall),
            );
        }
        let mends = match fault.by_hand {
            Some(remedy) => format!("no: {remedy}"),
            None => "yes".to_owned(),
        };
        let row = Row {
            what: fault.what.clone(),
            seen: Some(seen),
            mends,
            says: said,
        };
        println!("{} back after {} ms", row.line(), back.as_millis());
        self.rows.push(row);
    }

    /// A row of something that is refused, or does not touch the pings.
    pub fn note(&mut self, what: &str, mends: &str, says: [String; 2]) {
        let row = Row {
            what: what.to_owned(),
            seen: None,
            mends: mends.to_owned(),
            says,
        };
        println!("{}", row.line());
        self.rows.push(row);
    }

    /// Waits until this end says what is expected of it; what it said, for the table.
    fn await_word(&mut self, fault: &Fault, side: Side) -> String {
        let Some((code, words)) = fault.says[side as usize] else {
            return "–".to_owned();
        };
        let start = Instant::now();
        let mut last = None;
        while start.elapsed() < PATIENCE {
            last = watch::ask(&self.daemon(side).socket()).or(last);
            let messages = last.as_ref().map(watch::messages).unwrap_or_default();
            let mut fitting = messages
                .iter()
                .filter(|(its, text)| its == code && has_words(text, words));
            if let Some((code, text)) = fitting.next() {
                self.check_exit(fault, side);
                return format!("`{code}`: {text}");
            }
            std::thread::sleep(STEP);
        }
        let said = last.map(|status| summary(&status)).unwrap_or_default();
        let end = name(side);
        self.fail(
            fault,
            &format!("the {end} does not say `{code}` with '{words}', but {said}"),
        );
        "–".to_owned()
    }

    /// `mpt-ctl status` says by its exit code what it says in words.
    fn check_exit(&mut self, fault: &Fault, side: Side) {
        let output = self.daemon(side).ctl_output(&["status"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let expected = ["ok", "degraded", "down"]
            .iter()
            .position(|level| *level == watch::level(&status));
        let code = output.status.code();
        if expected.and_then(|code| i32::try_from(code).ok()) != code {
            self.fail(
                fault,
                &format!(
                    "mpt-ctl status ends with {code:?} where the level is {:?}",
                    watch::level(&status)
                ),
            );
        }
    }

    fn daemon(&self, side: Side) -> &Daemon {
        match side {
            Side::A => &self.pair.client,
            Side::B => &self.pair.server,
        }
    }

    /// Waits until pings are answered and both ends are as configured; whether it came to that.
    pub fn calm(&self, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let configured = [Side::A, Side::B].iter().all(|side| {
                let status = watch::ask(&self.daemon(*side).socket());
                status.is_some_and(|status| watch::is_as_configured(&status))
            });
            if configured
                && self
                    .echo
                    .await_answers(CALM, left.min(Duration::from_secs(1)))
            {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(STEP);
        }
    }

    /// The pings.
    #[must_use]
    pub fn echo(&self) -> &Echo {
        &self.echo
    }

    fn start_afresh(&mut self) {
        self.pair.net.let_through();
        for (daemon, host) in [
            (&mut self.pair.client, &self.pair.net.client),
            (&mut self.pair.server, &self.pair.net.server),
        ] {
            daemon.crash_and_restart(host);
        }
        self.calm(PATIENCE);
    }

    /// What both ends say now.
    #[must_use]
    pub fn told(&self) -> String {
        let told = [Side::A, Side::B].map(|side| {
            let status = watch::ask(&self.daemon(side).socket());
            let said = status.map_or("nothing".to_owned(), |status| summary(&status));
            format!("the {} says {said}", name(side))
        });
        told.join("; ")
    }

    /// Notes that a row does not keep what it promises.
    pub fn fail(&mut self, fault: &Fault, how: &str) {
        println!("!! {}: {how}", fault.what);
        self.failures.push(format!("{}: {how}", fault.what));
    }

    /// Takes the rows of a bench before it, on other hosts, in front of its own.
    #[must_use]
    pub fn join(mut self, before: Option<Self>) -> Self {
        if let Some(before) = before {
            let Self {
                mut rows,
                mut failures,
                ..
            } = before;
            rows.append(&mut self.rows);
            failures.append(&mut self.failures);
            (self.rows, self.failures) = (rows, failures);
        }
        self
    }

    /// Holds the rows against section `section` of docs/faults.md.
    ///
    /// # Panics
    /// When a row did not keep what it promises, or the page says something else.
    pub fn finish(mut self, section: &str) {
        let rows = std::mem::take(&mut self.rows);
        self.check();
        table::compare(section, &rows);
        table::pin(section, &rows);
    }

    /// Ends without the page.
    ///
    /// # Panics
    /// When a row did not keep what it promises.
    pub fn check(self) {
        let Self {
            rows: _,
            failures,
            watch,
            echo,
            pair,
        } = self;
        drop((watch, echo));
        if !failures.is_empty() {
            println!("{}\n{}", pair.client.log(), pair.server.log());
        }
        drop(pair);
        assert!(
            failures.is_empty(),
            "{} faults:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
}

/// Whether a sentence has these words, with anything for `…`.
fn has_words(text: &str, words: &str) -> bool {
    let mut rest = Some(text);
    for part in words.split('…') {
        rest = rest
            .and_then(|rest| rest.split_once(part))
            .map(|(_, rest)| rest);
    }
    rest.is_some()
}

fn name(side: Side) -> &'static str {
    match side {
        Side::A => "client",
        Side::B => "server",
    }
}

/// Level, codes and sentences in one line, and the paths that are not up.
fn summary(status: &Value) -> String {
    let messages = watch::messages(status);
    let said: Vec<String> = messages
        .iter()
        .map(|(code, text)| format!("`{code}`: {text}"))
        .collect();
    let paths = status["paths"].as_array().cloned().unwrap_or_default();
    let states: Vec<String> = (paths.iter())
        .map(|path| format!("{}: {}", path["name"], path["state"]))
        .collect();
    format!(
        "{} [{}] ({}; missing: {})",
        watch::level(status),
        said.join(" | "),
        states.join(", "),
        status["tunnel"]["missing"]
    )
}

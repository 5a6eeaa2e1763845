//! Whether a tunnel does what it is for, and if not, why: the first thing an operator wants to know.
//!
//! Each rule looks at a status for one situation and says what it is, what it costs and what would
//! mend it. A finding has a level of its own, and the verdict has the worst of them:
//!
//! * *down*: nothing gets through;
//! * *degraded*: packets get through, and less well than what is configured promises: fewer paths,
//!   packets lost or out of order, what would be lost in the next burst no less;
//! * *ok*: a note. It explains what is seen, was wanted so, or costs nobody anything now.
//!
//! What happened counts while it is recent ([`Recent`](super::recent::Recent)); counters since start say
//! nothing about now. Findings stand in the order of their weight: a tunnel without a path needs no
//! advice on its window. Strangers knock at every open port, so counts that they can raise are a note,
//! and that only when they are a noticeable share of what arrives, unless a path is missing: then they
//! are the first thing to look at.

mod budgets;
mod code;
mod drops;
mod handshake;
mod hub;
mod machine;
mod order;
mod paths;

use serde::{Deserialize, Serialize};

use super::Status;
pub use code::Code;
pub(crate) use order::NO_TRAFFIC_BPS;
pub(super) use paths::is_used_unprobed;

/// How a tunnel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As configured.
    #[default]
    Ok,
    /// Something is missing or lost, and packets get through.
    Degraded,
    /// Nothing gets through.
    Down,
}

/// One thing that there is to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// One of [`Code`], or of a later version's.
    pub code: String,
    /// How bad this alone is; [`Level::Ok`] is a note.
    #[serde(default)]
    pub level: Level,
    /// What is the case, in a sentence.
    pub text: String,
    /// What to do about it, in a sentence; empty where there is nothing to do.
    #[serde(default)]
    pub remedy: String,
}

impl Finding {
    /// A note: it changes no verdict.
    pub(super) fn note(code: Code, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::at(Level::Ok, code, text, remedy)
    }

    /// Something that makes the tunnel degraded.
    pub(super) fn degraded(
        code: Code,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::at(Level::Degraded, code, text, remedy)
    }

    /// Something for which nothing gets through.
    pub(super) fn down(code: Code, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::at(Level::Down, code, text, remedy)
    }

    pub(super) fn at(
        level: Level,
        code: Code,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            code: code.name().to_owned(),
            level,
            text: text.into(),
            remedy: remedy.into(),
        }
    }

    /// Text and remedy.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.remedy.as_str() {
            "" => self.text.clone(),
            remedy => format!("{} {remedy}", self.text),
        }
    }
}

/// How a tunnel does, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst of the findings'.
    pub level: Level,
    /// What there is to say, the most important first.
    pub messages: Vec<Finding>,
}

/// That of a status which a daemon made that knows no verdicts.
impl Default for Verdict {
    fn default() -> Verdict {
        let older = "This mpt-tund gives no verdict: it is older than mpt-ctl.";
        let remedy = "`systemctl restart mpt` starts the new one.";
        Verdict::of(vec![Finding::degraded(Code::NotJudged, older, remedy)])
    }
}

impl Verdict {
    /// The same of a tunnel that goes on as it was, since the last reload was refused.
    #[must_use]
    pub fn with_refused_reload(mut self, why: &str) -> Verdict {
        self.messages.push(Finding::degraded(
            Code::ReloadRefused,
            format!("The last reload was refused, and all goes on as it was: {why}."),
            "This stands until a reload succeeds or mpt-tund starts again.",
        ));
        Verdict::of(self.messages)
    }

    fn of(mut messages: Vec<Finding>) -> Verdict {
        // Stable: within a level the order of the rules stays.
        messages.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        Verdict {
            level: messages.first().map_or(Level::Ok, |worst| worst.level),
            messages,
        }
    }
}

/// Judges a status, whatever verdict stands in it.
#[must_use]
pub fn judge(status: &Status) -> Verdict {
    let mut messages = Vec::new();
    match &status.hub {
        Some(hub) => messages.extend(hub::findings(status, hub)),
        None => {
            messages.extend(handshake::finding(status));
            messages.extend(paths::findings(status));
            messages.extend(budgets::findings(status));
            messages.extend(order::findings(status));
        }
    }
    messages.extend(machine::findings(status));
    messages.extend(drops::findings(status));
    Verdict::of(messages)
}

/// The time of [`super::recent::Recent`] in words, such as "in the last 10 s".
fn lately(status: &Status) -> String {
    let seconds = status.recent.span_ms.div_ceil(1000).max(1);
    format!("in the last {seconds} s")
}

/// `count` of `things`, in words: one thing or several.
fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests;

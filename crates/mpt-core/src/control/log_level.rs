//! How much the daemon logs: `mpt-ctl log`.

use serde::{Deserialize, Serialize};

/// Least importance of what is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Only that a tunnel cannot go on.
    Error,
    /// Also what an operator should act on.
    Warn,
    /// Also changes of state.
    Info,
    /// Also decisions and their reasons.
    Debug,
    /// Also single packets.
    Trace,
}

impl LogLevel {
    /// From the least that is logged to the most.
    pub const ALL: [LogLevel; 5] = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];

    /// Its name on the command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }

    /// The level of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|level| level.name() == name)
    }

    /// What is logged, for the command lines' help.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            LogLevel::Error => "Only that a tunnel cannot go on",
            LogLevel::Warn => "Also what an operator should act on",
            LogLevel::Info => "Also changes of state",
            LogLevel::Debug => "Also decisions and their reasons",
            LogLevel::Trace => "Also single packets; slow",
        }
    }
}

/// What is logged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    /// The level in force.
    pub level: LogLevel,
    /// What it was before the request, where that was to set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<LogLevel>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_called_the_same_in_json_and_on_the_command_line() {
        for level in LogLevel::ALL {
            let json = serde_json::to_value(level).unwrap();
            assert_eq!(json, level.name());
            assert_eq!(LogLevel::named(level.name()), Some(level));
        }
        assert!(LogLevel::Error < LogLevel::Trace);
    }
}

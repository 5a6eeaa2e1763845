//! `mpt-ctl log`: how much the daemon logs.

use mpt_core::control::LogStatus;

/// What is logged, and what was.
pub(super) fn show(log: LogStatus) -> String {
    let level = log.level.name();
    match log.was.map(|was| was.name()) {
        None => format!("The log level is {level}.\n"),
        Some(was) if was == level => format!("The log level is {level}, as it was.\n"),
        Some(was) => format!("The log level is {level} now; it was {was}.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::LogLevel;

    #[test]
    fn a_level_is_told_with_what_it_was() {
        let told = |was| {
            let level = LogLevel::Debug;
            show(LogStatus { level, was })
        };
        assert_eq!(told(None), "The log level is debug.\n");
        assert_eq!(
            told(Some(LogLevel::Info)),
            "The log level is debug now; it was info.\n"
        );
        assert_eq!(
            told(Some(LogLevel::Debug)),
            "The log level is debug, as it was.\n"
        );
    }
}

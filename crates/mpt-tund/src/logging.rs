//! The daemon's log: to standard error, at a level that `mpt-ctl log` changes while it runs.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use mpt_core::control::{LogLevel, LogStatus};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

/// What is logged, of all tunnels.
pub(crate) struct Logging {
    filter: reload::Handle<Targets, Registry>,
    level: LogLevel,
}

impl Logging {
    /// Begins to log, with times unless the journal adds its own.
    pub(crate) fn start(level: LogLevel) -> Logging {
        let (filter, logging) = Logging::new(level);
        let lines = fmt::layer()
            .with_target(false)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        let log = tracing_subscriber::registry().with(filter);
        if std::env::var_os("JOURNAL_STREAM").is_some() {
            log.with(lines.without_time()).init();
        } else {
            log.with(lines).init();
        }
        logging
    }

    /// What lets lines of this level pass, and what changes it.
    fn new(level: LogLevel) -> (reload::Layer<Targets, Registry>, Logging) {
        let (filter, handle) = reload::Layer::new(filter_of(level));
        let logging = Logging {
            filter: handle,
            level,
        };
        (filter, logging)
    }

    /// What is logged now, after it was changed if that is asked for. Threads see it with their next line.
    ///
    /// # Errors
    /// When there is no log any more.
    pub(crate) fn answer(&mut self, level: Option<LogLevel>) -> anyhow::Result<LogStatus> {
        let was = self.level;
        let Some(level) = level else {
            return Ok(LogStatus {
                level: was,
                was: None,
            });
        };
        let say = || {
            tracing::info!(
                "mpt-ctl: the log level was {}, it is {}",
                was.name(),
                level.name()
            )
        };
        // Said while it is heard.
        if level < was {
            say();
        }
        let changed = self.filter.reload(filter_of(level));
        changed.context("the log level cannot be changed")?;
        self.level = level;
        if level > was {
            say();
        }
        Ok(LogStatus {
            level,
            was: Some(was),
        })
    }
}

/// Where the resolver warns of each word of `/etc/resolv.conf` that it does not know, at each look-up.
const RESOLV_CONF: &str = "hickory_resolver::system_conf";

fn filter_of(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let all = Targets::new().with_default(level);
    all.with_target(RESOLV_CONF, LevelFilter::ERROR)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn lines_of_a_level_come_and_go_with_it() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let (filter, mut logging) = Logging::new(LogLevel::Info);
        let lines = fmt::layer().with_writer(Arc::clone(&file)).with_ansi(false);
        let log = tracing_subscriber::registry().with(filter).with(lines);
        tracing::subscriber::with_default(log, || {
            let says = || {
                tracing::debug!("a decision");
                tracing::warn!("a trouble");
                tracing::warn!(target: "hickory_resolver::system_conf::unix", "a word");
            };
            let level = |level, was| LogStatus { level, was };
            let (info, debug, error) = (LogLevel::Info, LogLevel::Debug, LogLevel::Error);
            says();
            assert_eq!(logging.answer(None).unwrap(), level(info, None));
            let set = logging.answer(Some(debug)).unwrap();
            assert_eq!(set, level(debug, Some(info)));
            says();
            logging.answer(Some(error)).unwrap();
            says();
            assert_eq!(logging.answer(None).unwrap(), level(error, None));
        });
        let mut text = String::new();
        (&*file).rewind().unwrap();
        (&*file).read_to_string(&mut text).unwrap();
        let words = [
            "a decision",
            "a trouble",
            "was info, it is debug",
            "was debug, it is error",
            "a word",
        ];
        let counts = words.map(|words| text.matches(words).count());
        assert_eq!(counts, [1, 2, 1, 1, 0], "{text}");
    }
}

//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::measure::{Measure, Unit};
use crate::system::Kind;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// The whole comparison.
    Measure,
    /// Where the time goes.
    Profile { seconds: u32 },
    /// Send UDP as fast as it goes.
    UdpSend {
        to: SocketAddr,
        len: usize,
        time: Duration,
    },
    /// Count what comes.
    UdpReceive { at: SocketAddr },
    /// Copy between a TUN and a socket.
    Relay {
        tun: String,
        local: SocketAddr,
        remote: SocketAddr,
    },
}

/// Everything that can be said on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) job: Job,
    pub(crate) runs: usize,
    pub(crate) quick: bool,
    pub(crate) markdown: bool,
    /// Where the tables go, between its marks.
    pub(crate) file: Option<PathBuf>,
    /// No run is begun that would not end before this.
    pub(crate) limit: Duration,
    only: Vec<String>,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            job: Job::Measure,
            runs: 5,
            quick: false,
            markdown: false,
            file: None,
            limit: Duration::from_secs(760),
            only: Vec::new(),
        };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            match word.as_str() {
                // What cargo says to every benchmark.
                "--bench" => {}
                "--quick" => (options.quick, options.runs) = (true, 1),
                "--runs" => options.runs = number(words.next())?,
                "--only" => options.only.push(words.next().ok_or("--only what?")?),
                "--markdown" => {
                    options.markdown = true;
                    let file = words.next_if(|next| !next.starts_with('-'));
                    options.file = file.map(PathBuf::from);
                }
                "--profile" => {
                    let seconds = words.next_if(|next| !next.starts_with('-'));
                    let seconds = seconds.map_or(Ok(5), |word| number(Some(word)))?;
                    options.job = Job::Profile {
                        seconds: seconds.clamp(1, 60),
                    };
                }
                "udp-send" => {
                    options.job = Job::UdpSend {
                        to: number(words.next())?,
                        len: number(words.next())?,
                        time: Duration::from_millis(number(words.next())?),
                    };
                }
                "udp-receive" => {
                    options.job = Job::UdpReceive {
                        at: number(words.next())?,
                    };
                }
                "relay" => {
                    options.job = Job::Relay {
                        tun: words.next().ok_or("relay which TUN?")?,
                        local: number(words.next())?,
                        remote: number(words.next())?,
                    };
                }
                other => return Err(format!("no option {other}; see --help")),
            }
        }
        options.runs = options.runs.max(1);
        Ok(options)
    }

    pub(crate) fn wants_system(&self, name: &str) -> bool {
        let systems = Kind::ALL.map(|kind| kind.to_string());
        self.wants(name, &systems)
    }

    pub(crate) fn wants_measure(&self, name: &str) -> bool {
        let measures = Measure::ALL.map(|measure| measure.to_string());
        self.wants(name, &measures)
    }

    /// Whether one of the words names `name`, or none of them any of its `siblings`.
    fn wants(&self, name: &str, siblings: &[String]) -> bool {
        let names = |word: &String, name: &str| name.contains(word.as_str());
        let mut said = self
            .only
            .iter()
            .filter(|word| siblings.iter().any(|sibling| names(word, sibling)))
            .peekable();
        said.peek().is_none() || said.any(|word| names(word, name))
    }

    /// How long a measurement takes.
    pub(crate) fn time(&self, measure: Measure) -> Duration {
        Duration::from_millis(match (measure.unit(), self.quick) {
            (Unit::Gbps, false) => 2000,
            (Unit::Gbps, true) => 1000,
            (Unit::Kpps | Unit::Microseconds, false) => 1000,
            (Unit::Kpps | Unit::Microseconds, true) => 500,
        })
    }
}

fn number<T: std::str::FromStr>(word: Option<String>) -> Result<T, String> {
    let word = word.ok_or("a value is missing")?;
    word.parse().map_err(|_| format!("what is {word}?"))
}

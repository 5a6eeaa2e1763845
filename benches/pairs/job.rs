//! One measurement.

use std::hash::{Hash as _, Hasher as _};
use std::str::FromStr;

use net::profile::download::{self, Over};
use net::profile::field::{self, Measure, Pair};
use net::profile::figure::{self, Figure};
use net::profile::measure::{self, Variant};
use net::profile::{Line, Profile, table};

use crate::comparison::joined;

/// What stands before a job's result in what it prints.
pub(crate) const MARK: &str = "result: ";

/// A measurement, as words: `raw 0 NAME 1`, `ideal NAME 1`, `tunnel NAME 1`, `figure NAME`, `load 0 NAME`,
/// `load mptcp NAME`, `load tunnel NAME`, `field tunnel NAME cubic,call`; the last number is the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Job {
    /// A flow over one link of a profile.
    Raw {
        profile: String,
        line: usize,
        run: u32,
    },
    /// A flow over the ideal link of a profile.
    Ideal { profile: String, run: u32 },
    /// A flow through the tunnel over a profile.
    Tunnel { profile: String, run: u32 },
    /// A figure.
    Figure { name: String },
    /// Downloads over a pair of links.
    Load { pair: String, over: Over },
    /// A minute in the weather of a pair of links.
    Field {
        pair: String,
        over: Over,
        measures: Vec<Measure>,
    },
}

/// Over what files of a pair are loaded.
pub(crate) const OVER: [Over; 4] = [Over::Link(0), Over::Link(1), Over::Mptcp, Over::Tunnel];

impl Job {
    /// What these profiles, figures and downloads ask for.
    pub(crate) fn needed(
        profiles: &[Profile],
        figures: &[Figure],
        downloads: &[Profile],
        runs: u32,
    ) -> Vec<Self> {
        let mut jobs = Vec::new();
        for profile in profiles {
            let name = || profile.name.to_owned();
            for run in 1..=runs {
                jobs.push(Self::Tunnel {
                    profile: name(),
                    run,
                });
                jobs.extend([0, 1].map(|line| Self::Raw {
                    profile: name(),
                    line,
                    run,
                }));
                if profile.ideal().is_some() {
                    jobs.push(Self::Ideal {
                        profile: name(),
                        run,
                    });
                }
            }
        }
        jobs.extend(figures.iter().map(|figure| Self::Figure {
            name: figure.name.to_owned(),
        }));
        let loads = |pair: &Profile| OVER.map(|over| Self::load(pair, over));
        jobs.extend(downloads.iter().flat_map(loads));
        jobs
    }

    /// Downloads over this of a pair.
    pub(crate) fn load(pair: &Profile, over: Over) -> Self {
        let pair = pair.name.to_owned();
        Self::Load { pair, over }
    }

    /// The profile or figure that it belongs to; downloads belong to none.
    pub(crate) fn subject(&self) -> &str {
        match self {
            Self::Raw { profile, .. }
            | Self::Ideal { profile, .. }
            | Self::Tunnel { profile, .. } => profile,
            Self::Figure { name } => name,
            Self::Load { .. } | Self::Field { .. } => "",
        }
    }

    /// The link that it measures without any tunnel.
    fn line(&self) -> Option<Line> {
        match self {
            Self::Raw { profile, line, .. } => Some(table::named(profile)?.lines[*line].clone()),
            Self::Ideal { profile, .. } => table::named(profile)?.ideal(),
            Self::Tunnel { .. } | Self::Figure { .. } | Self::Load { .. } | Self::Field { .. } => {
                None
            }
        }
    }

    /// All that its result depends on, if no daemon is involved: it need not be taken twice.
    pub(crate) fn key(&self, variant: &Variant) -> Option<String> {
        let Variant { place, seconds, .. } = variant;
        match self {
            Self::Raw { run, .. } | Self::Ideal { run, .. } => {
                let line = self.line()?.key();
                Some(format!("run {run}, {seconds} s, voice, {place:?}: {line}"))
            }
            Self::Load { pair, over } => {
                let [first, second] = download::pair_named(pair)?.lines.map(|line| line.key());
                match over {
                    Over::Link(0) => Some(format!("load, {place:?}: {first}")),
                    Over::Link(_) => Some(format!("load, {place:?}: {second}")),
                    Over::Mptcp => Some(format!("load, {place:?}: MPTCP: {first} + {second}")),
                    Over::Tunnel => None,
                }
            }
            Self::Field {
                pair,
                over,
                measures,
            } => {
                let pair = Pair::named(pair)?;
                let forecasts = pair.forecasts();
                let what = match over {
                    Over::Link(link) => format!("{} {:?}", pair.weathers[*link], forecasts[*link]),
                    Over::Mptcp => format!("MPTCP, {} {forecasts:?}", pair.name),
                    Over::Tunnel => return None,
                };
                let mut hash = std::hash::DefaultHasher::new();
                what.hash(&mut hash);
                let name = what.split(' ').next().unwrap_or_default();
                Some(format!(
                    "field, {}, {name}: {:x}",
                    names(measures),
                    hash.finish()
                ))
            }
            Self::Tunnel { .. } | Self::Figure { .. } => None,
        }
    }

    /// Takes it, here; the result as JSON.
    pub(crate) fn run(&self, variant: &Variant) -> String {
        let text = match self {
            Self::Raw { .. } | Self::Ideal { .. } => {
                let line = self.line().expect("a profile of the table");
                serde_json::to_string(&measure::raw(&line, variant))
            }
            Self::Tunnel { profile, .. } => {
                let profile = table::named(profile).expect("a profile of the table");
                serde_json::to_string(&measure::tunnel(&profile, variant))
            }
            Self::Figure { name } => {
                let figure = figure::ALL.iter().find(|figure| figure.name == name);
                let figure = figure.expect("a figure of the list");
                serde_json::to_string(&(figure.take)(variant))
            }
            Self::Load { pair, over } => {
                let pair = download::pair_named(pair).expect("a pair of the list");
                serde_json::to_string(&download::load(&pair, *over, &download::ALL, variant))
            }
            Self::Field {
                pair,
                over,
                measures,
            } => {
                let pair = Pair::named(pair).expect("a pair of the list");
                serde_json::to_string(&field::stand(&pair, *over, measures))
            }
        };
        text.expect("numbers and texts")
    }
}

fn word(over: Over) -> String {
    match over {
        Over::Link(link) => link.to_string(),
        Over::Mptcp => "mptcp".to_owned(),
        Over::Tunnel => "tunnel".to_owned(),
    }
}

fn over_what(word: &str) -> Result<Over, String> {
    Ok(match word {
        "mptcp" => Over::Mptcp,
        "tunnel" => Over::Tunnel,
        "0" => Over::Link(0),
        "1" => Over::Link(1),
        _ => return Err(format!("over what is {word}?")),
    })
}

fn names(measures: &[Measure]) -> String {
    joined(measures.iter().map(Measure::to_string), ",")
}

impl std::fmt::Display for Job {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Raw { profile, line, run } => write!(to, "raw {line} {profile} {run}"),
            Self::Ideal { profile, run } => write!(to, "ideal {profile} {run}"),
            Self::Tunnel { profile, run } => write!(to, "tunnel {profile} {run}"),
            Self::Figure { name } => write!(to, "figure {name}"),
            Self::Load { pair, over } => write!(to, "load {} {pair}", word(*over)),
            Self::Field {
                pair,
                over,
                measures,
            } => write!(to, "field {} {pair} {}", word(*over), names(measures)),
        }
    }
}

impl FromStr for Job {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("what is {word}?"));
        Ok(match words.as_slice() {
            ["raw", line, profile, run] => Self::Raw {
                profile: (*profile).to_owned(),
                line: usize::from(number(line)? > 0),
                run: number(run)?,
            },
            ["ideal", profile, run] => Self::Ideal {
                profile: (*profile).to_owned(),
                run: number(run)?,
            },
            ["tunnel", profile, run] => Self::Tunnel {
                profile: (*profile).to_owned(),
                run: number(run)?,
            },
            ["figure", name] => Self::Figure {
                name: (*name).to_owned(),
            },
            ["load", over, pair] => Self::Load {
                pair: (*pair).to_owned(),
                over: over_what(over)?,
            },
            ["field", over, pair, measures] => Self::Field {
                pair: (*pair).to_owned(),
                over: over_what(over)?,
                measures: measures
                    .split(',')
                    .map(str::parse)
                    .collect::<Result<_, _>>()?,
            },
            _ => return Err(format!("no job {text}")),
        })
    }
}

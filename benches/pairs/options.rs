//! The command line.

use std::path::PathBuf;

use net::Place;
use net::profile::download;
use net::profile::field::{self, Measure, Pair};
use net::profile::figure::{self, Figure};
use net::profile::measure::Variant;
use net::profile::{Profile, table};

use crate::job::Job;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Everything that is asked for, and the tables.
    Measure,
    /// Say what there is.
    List,
    /// One measurement, here.
    Job(Job),
}

/// Everything that can be said on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) wish: Wish,
    pub(crate) runs: u32,
    pub(crate) markdown: bool,
    /// Do not use what was kept of links alone.
    pub(crate) fresh: bool,
    /// Labs at a time; as many as processors are idle when not given.
    pub(crate) lanes: Option<usize>,
    /// What every tunnel is given besides addresses.
    pub(crate) variant: Variant,
    /// Where everything that was measured goes, as JSON.
    pub(crate) json: Option<PathBuf>,
    /// Whose programs are measured instead of this checkout's.
    pub(crate) programs: Option<PathBuf>,
    /// What is measured in the weather.
    pub(crate) measures: Vec<Measure>,
    /// Exact names.
    names: Vec<String>,
    /// Parts of names.
    only: Vec<String>,
    kinds: Kinds,
}

/// Which measurements are taken; all, unless one kind is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    Profiles,
    Figures,
    Downloads,
    Weather,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            wish: Wish::Measure,
            runs: 1,
            markdown: false,
            fresh: false,
            lanes: None,
            variant: Variant::default(),
            json: None,
            programs: None,
            measures: Vec::new(),
            names: Vec::new(),
            only: Vec::new(),
            kinds: Kinds::All,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} what?"));
            match word.as_str() {
                // What cargo says to every benchmark.
                "--bench" => {}
                "--list" => options.wish = Wish::List,
                "--only" => options.only.push(value()?),
                "--programs" => options.programs = Some(folder(&value()?)?),
                "--seconds" => options.variant.seconds = number(&value()?)?.clamp(4, 600),
                "--profiles" => options.kinds = Kinds::Profiles,
                "--figures" => options.kinds = Kinds::Figures,
                "--downloads" => options.kinds = Kinds::Downloads,
                "--weather" => options.kinds = Kinds::Weather,
                "--measure" => options.measures.push(value()?.parse()?),
                "--runs" => options.runs = number(&value()?)?.clamp(1, 99),
                "--lanes" => options.lanes = Some(number(&value()?)?.clamp(1, 64) as usize),
                "--markdown" => options.markdown = true,
                "--fresh" => options.fresh = true,
                "--json" => options.json = Some(value()?.into()),
                "--near" => options.variant.place = Place::Near,
                "--tunnel" => line(&mut options.variant.tunnel, &value()?),
                "--reorder" => line(&mut options.variant.reorder, &value()?),
                "--recovery" => line(&mut options.variant.recovery, &value()?),
                "job" => options.wish = Wish::Job(value()?.parse()?),
                name if is_name(name) => options.names.push(name.to_owned()),
                other => return Err(format!("no option or profile {other}; see --help, --list")),
            }
        }
        if options.measures.is_empty() {
            options.measures = Measure::ALL.to_vec();
        }
        options.measures.sort_unstable();
        Ok(options)
    }

    /// The pairs of links in the weather: where it is asked for, or one of them by its name.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let is_asked = |pair: &Pair| match self.kinds {
            Kinds::Weather => self.wants(pair.name),
            Kinds::All => self.names.iter().any(|name| name == pair.name),
            Kinds::Profiles | Kinds::Figures | Kinds::Downloads => false,
        };
        field::PAIRS.into_iter().filter(is_asked).collect()
    }

    /// The words that give a job the same variant.
    pub(crate) fn job_words(&self, job: &Job) -> Vec<String> {
        let seconds = self.variant.seconds.to_string();
        let mut words = ["job", &job.to_string(), "--seconds", &seconds]
            .map(str::to_owned)
            .to_vec();
        for (word, lines) in [
            ("--tunnel", &self.variant.tunnel),
            ("--reorder", &self.variant.reorder),
            ("--recovery", &self.variant.recovery),
        ] {
            for line in lines.lines() {
                words.extend([word.to_owned(), line.to_owned()]);
            }
        }
        if self.variant.place == Place::Near {
            words.push("--near".to_owned());
        }
        words
    }

    pub(crate) fn profiles(&self) -> Vec<Profile> {
        if !matches!(self.kinds, Kinds::All | Kinds::Profiles) {
            return Vec::new();
        }
        let all = table::all().into_iter();
        all.filter(|one| self.wants(one.name)).collect()
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        if !matches!(self.kinds, Kinds::All | Kinds::Figures) {
            return Vec::new();
        }
        let all = figure::ALL.into_iter();
        all.filter(|one| self.wants(one.name)).collect()
    }

    /// The pairs of links over which files are loaded. A name that a profile has as well means the profile,
    /// where all kinds are measured.
    pub(crate) fn downloads(&self) -> Vec<Profile> {
        let all = download::pairs().into_iter();
        let is_profile = |pair: &Profile| table::named(pair.name).is_some();
        match self.kinds {
            Kinds::Profiles | Kinds::Figures | Kinds::Weather => Vec::new(),
            Kinds::Downloads => all.filter(|one| self.wants(one.name)).collect(),
            Kinds::All if self.names.is_empty() && self.only.is_empty() => all.collect(),
            Kinds::All => all
                .filter(|one| !is_profile(one) && self.wants(one.name))
                .collect(),
        }
    }

    fn wants(&self, name: &str) -> bool {
        let is_all = self.only.is_empty() && self.names.is_empty();
        is_all
            || self.names.iter().any(|word| name == word)
            || self.only.iter().any(|word| name.contains(word.as_str()))
    }
}

fn is_name(word: &str) -> bool {
    table::named(word).is_some()
        || download::pair_named(word).is_some()
        || Pair::named(word).is_some()
        || figure::ALL.iter().any(|figure| figure.name == word)
}

/// A folder by its full name: a job may have another root.
fn folder(word: &str) -> Result<PathBuf, String> {
    std::fs::canonicalize(word).map_err(|error| format!("{word}: {error}"))
}

fn line(lines: &mut String, more: &str) {
    lines.push_str(more);
    lines.push('\n');
}

fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("what is {word}?"))
}

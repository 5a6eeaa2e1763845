//! Downloads by new connections, and how they are said.

use net::profile::Profile;
use net::profile::download::{ALL, Files, LARGE_BYTES, Loaded, OF_BEST, Over};

use crate::comparison::{joined, value};
use crate::job::Job;
use crate::lanes::Outcomes;
use crate::report::print_table;

/// What came of a pair's downloads: medians in milliseconds, by size.
struct Times<'a> {
    pair: &'a Profile,
    links: [Option<Vec<Loaded>>; 2],
    mptcp: Option<Vec<Loaded>>,
    tunnel: Option<Vec<Loaded>>,
}

/// Prints the table; true when all is as asked.
pub(crate) fn print(markdown: bool, pairs: &[Profile], outcomes: &Outcomes) -> bool {
    println!(
        "Downloads, each by a new connection (CUBIC): medians from the first SYN to the last byte, in ms; the \
         tunnel / the best link alone / MPTCP. Asked of the tunnel: {OF_BEST} of the best link alone at most, and \
         of large files what MPTCP takes.\n"
    );
    let all: Vec<Times> = pairs
        .iter()
        .map(|pair| Times::new(pair, outcomes))
        .collect();
    let mut heads = vec!["links".to_owned()];
    heads.extend(ALL.iter().map(size));
    heads.push("verdict".to_owned());
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = all.iter().map(Times::cells).collect();
    print_table(markdown, &heads, &rows);
    all.iter().all(|times| times.missed().is_empty())
}

fn size(files: &Files) -> String {
    let (bytes, count) = (files.bytes, files.count);
    if bytes >= 1_000_000 {
        format!("{} MB x {count}", bytes / 1_000_000)
    } else {
        format!("{} kB x {count}", bytes / 1000)
    }
}

impl<'a> Times<'a> {
    fn new(pair: &'a Profile, outcomes: &Outcomes) -> Self {
        let of = |over| value::<Option<Vec<Loaded>>>(&Job::load(pair, over), outcomes).flatten();
        Self {
            pair,
            links: [0, 1].map(|link| of(Over::Link(link))),
            mptcp: of(Over::Mptcp),
            tunnel: of(Over::Tunnel),
        }
    }

    /// Of one size: the tunnel, the best link alone, MPTCP.
    fn medians(&self, files: &Files) -> [Option<f64>; 3] {
        let median = |all: &Option<Vec<Loaded>>| {
            let of_size = |loaded: &&Loaded| loaded.bytes == files.bytes;
            Some(all.as_ref()?.iter().find(of_size)?.median_ms())
        };
        let [first, second] = &self.links;
        let best = median(first)
            .zip(median(second))
            .map(|(first, second)| first.min(second));
        [median(&self.tunnel), best, median(&self.mptcp)]
    }

    /// What is not as asked, in words.
    fn missed(&self) -> Vec<String> {
        let of_size = |files: &Files| {
            let mut missed = Vec::new();
            let [tunnel, best, mptcp] = self.medians(files);
            let (Some(tunnel), Some(best)) = (tunnel, best) else {
                return vec![format!("{} failed", size(files))];
            };
            if tunnel > OF_BEST * best {
                missed.push(format!("{} {:.2} of best", size(files), tunnel / best));
            }
            if let Some(mptcp) = mptcp.filter(|mptcp| files.bytes >= LARGE_BYTES && tunnel > *mptcp)
            {
                missed.push(format!("{} {:.2} of MPTCP", size(files), tunnel / mptcp));
            }
            missed
        };
        ALL.iter().flat_map(of_size).collect()
    }

    fn cells(&self) -> Vec<String> {
        let ms = |median: Option<f64>| median.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        let mut cells = vec![self.pair.text()];
        cells.extend(
            ALL.iter()
                .map(|files| joined(self.medians(files).into_iter().map(ms), " / ")),
        );
        let missed = self.missed();
        cells.push(if missed.is_empty() {
            "met".to_owned()
        } else {
            format!("missed: {}", missed.join(", "))
        });
        cells
    }
}

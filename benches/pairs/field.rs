//! The weather: how the tunnel stands in it beside each link alone and MPTCP, and how that is said.

use net::profile::download::Over;
use net::profile::field::{self, Measure, OF_BEST, Pair, Stood};

use crate::comparison::value;
use crate::job::{Job, OVER};
use crate::lanes::Outcomes;
use crate::report::print_table;

/// The jobs of these pairs.
pub(crate) fn jobs(pairs: &[Pair], measures: &[Measure]) -> Vec<Job> {
    let minutes = field::minutes(measures);
    let mut jobs = Vec::new();
    for pair in pairs {
        for minute in &minutes {
            // MPTCP carries no QUIC.
            let is_there = |over: &Over| *over != Over::Mptcp || minute[..] != [Measure::Quic];
            jobs.extend(
                OVER.into_iter()
                    .filter(is_there)
                    .map(|over| job(pair, over, minute)),
            );
        }
    }
    jobs
}

fn job(pair: &Pair, over: Over, measures: &[Measure]) -> Job {
    Job::Field {
        pair: pair.name.to_owned(),
        over,
        measures: measures.to_vec(),
    }
}

/// A value of a minute, of which more is better.
type Value = fn(&Stood) -> Option<f64>;

/// The measures that the tunnel is to bring a share of the better link alone in; of times the inverse.
const SHARES: [(&str, Value); 7] = [
    ("CUBIC", |one| one.cubic_mbps),
    ("QUIC", |one| one.quic_mbps),
    ("BBR", |one| one.bbr_mbps),
    ("down beside up", |one| Some(one.both_mbps?[0])),
    ("up beside down", |one| Some(one.both_mbps?[1])),
    ("page", |one| Some(1e3 / one.page_ms?)),
    ("call's p99", |one| Some(1e3 / one.call?[1])),
];

/// Prints the table; true when all is as asked.
pub(crate) fn print(
    markdown: bool,
    pairs: &[Pair],
    measures: &[Measure],
    outcomes: &Outcomes,
) -> bool {
    println!(
        "A minute of the weather. Tunnel as a share of the better link alone ({OF_BEST} is asked), of times the \
         inverse; in brackets the tunnel's value in Mbit/s or ms, and what MPTCP has of that link. Call: lost of 1000, \
         and the longest silence in ms; tunnel / better link alone.\n"
    );
    let mut heads = vec!["links"];
    heads.extend(SHARES.map(|(head, _)| head));
    heads.extend(["call lost", "silence", "below"]);
    let minutes = field::minutes(measures);
    let mut all_met = true;
    let rows: Vec<Vec<String>> = pairs
        .iter()
        .map(|pair| {
            let stood = |over, minute: &Vec<_>| value(&job(pair, over, minute), outcomes);
            let of = |over| -> Option<Stood> {
                let minutes = minutes.iter().filter_map(|one| stood(over, one));
                minutes.reduce(Stood::beside)
            };
            let (tunnel, mptcp) = (of(Over::Tunnel), of(Over::Mptcp));
            let links = [0, 1].map(|link| of(Over::Link(link)));
            let mut below = Vec::new();
            let mut cells = vec![pair.name.to_owned()];
            for (head, get) in SHARES {
                let best = links.iter().flatten().filter_map(get).reduce(f64::max);
                let share = |one: &Option<Stood>| Some(get(one.as_ref()?)? / best?);
                cells.push(match share(&tunnel) {
                    Some(share_of_best) => {
                        if share_of_best < OF_BEST {
                            below.push(head);
                        }
                        let got = tunnel.as_ref().and_then(get).unwrap_or(f64::NAN);
                        let got = match head {
                            "page" | "call's p99" => format!("{:.0} ms", 1e3 / got),
                            _ => format!("{got:.1}"),
                        };
                        let other = share(&mptcp).map_or(String::new(), |it| format!("; {it:.2}"));
                        format!("{share_of_best:.2} ({got}{other})")
                    }
                    None => "-".to_owned(),
                });
            }
            for place in [0, 2] {
                let get = |one: &Stood| Some(one.call?[place]);
                let best = links.iter().flatten().filter_map(get).reduce(f64::min);
                let digits = 1 - place / 2;
                let text =
                    |one: Option<f64>| one.map_or("-".into(), |one| format!("{one:.digits$}"));
                let got = tunnel.as_ref().and_then(get);
                cells.push(format!("{} / {}", text(got), text(best)));
            }
            all_met &= tunnel.is_some() && below.is_empty();
            cells.push(if below.is_empty() {
                "-".into()
            } else {
                below.join(", ")
            });
            cells
        })
        .collect();
    print_table(markdown, &heads, &rows);
    all_met
}

//! Is a bond ever worse than its best link? Asked of links that nobody chose.
//!
//! A [`Case`] is a set of links drawn from a [`Family`] and a seed, what happens to them in mid-run, and
//! the traffic. [`Case::run`] sends that traffic over the tunnel with all links, and over each link alone
//! (one path, shared by weight, nothing sent again: what a plain tunnel over that link gives). Both are
//! compared over the family's [`Phase`]s: the [`Outcome`]. A [`Tally`] sums up many of them.
//!
//! Everything follows from the seed: `--one SEED` of the bench `campaign` repeats what its table of the
//! worst names.

mod draw;
mod family;
mod outcome;
mod page;
mod replay;
mod tally;
mod watch;
mod weather;
mod world;

pub use family::{Case, Change, Family, Phase, Traffic, What};
pub use outcome::{Call, Measured, Outcome, Run};
pub use replay::Recorded;
pub use tally::{Calls, Row, Tally};
pub use weather::{Forecast, Weather};

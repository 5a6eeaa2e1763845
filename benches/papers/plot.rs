//! Charts, as all experiments draw them.

pub(crate) use mpt_chart::{Chart, Mark, Series};

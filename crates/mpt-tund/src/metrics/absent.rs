//! In the place of [`exporter`](self) where the feature `metrics` is off: a configuration with `[metrics]` is refused
//! then, so that none of this is ever begun.

use tokio::sync::mpsc;

use super::{Asked, Socket};

#[derive(Debug)]
pub(super) enum Exporter {}

impl Exporter {
    pub(super) fn begin(
        _: Socket,
        _: &[String],
        _: &mpsc::Sender<Asked>,
    ) -> anyhow::Result<Exporter> {
        anyhow::bail!("this mpt-tund was built without metrics")
    }

    pub(super) fn set_tunnels(&self, _: &[String]) {
        match *self {}
    }

    pub(super) fn has_ended(&self) -> bool {
        match *self {}
    }
}

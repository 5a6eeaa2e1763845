//! A tunnel's two lines: its threads, and what goes from one to the other.

use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use mpt_core::hub::{HubConfig, Worker};
use mpt_core::tunnel::{TunnelConfig, sealed_tunnel, tunnel};
use tokio::sync::{Notify, mpsc};

use super::Mtus;
use super::threads::{self, Ended};
use crate::config::Config;
use crate::hub::handover::Others;
use crate::hub::{self, Wakes};
use crate::{downlink, sealing, uplink};

/// News that may wait on their way from the line in to the line out: nearly all are the peer's reports, which come
/// every few milliseconds.
const MAX_NEWS: usize = 16;
/// The same of all peers of a hub.
const MAX_HUB_NEWS: usize = 1024;

/// What the two lines of a worker listen to.
pub(super) type Commands = (
    mpsc::Receiver<uplink::Command>,
    mpsc::Receiver<downlink::Command>,
);

/// What both lines are made with.
pub(super) struct Lines<'a> {
    /// The tunnel's name and its session.
    pub(super) whose: (&'a str, u64),
    pub(super) ended: &'a Ended,
    pub(super) mtus: &'a Mtus,
    pub(super) sockets: &'a downlink::Sockets,
    /// For each worker.
    pub(super) commands: Vec<Commands>,
}

impl Lines<'_> {
    /// Those of a tunnel with two ends.
    ///
    /// # Errors
    /// When there are no threads to be had.
    pub(super) fn of_two_ends(
        mut self,
        config: &Config,
        tunnel_config: &TunnelConfig,
    ) -> anyhow::Result<Vec<JoinHandle<()>>> {
        let (name, session) = self.whose;
        let (mut outbound, mut inbound) = match sealing::sessions(config, session) {
            Some(sessions) => sealed_tunnel(tunnel_config, sessions),
            None => tunnel(tunnel_config),
        };
        outbound.set_mss_clamped(config.tunnel.clamps_mss);
        inbound.set_mss_clamped(config.tunnel.clamps_mss);
        let (news, told) = mpsc::channel(MAX_NEWS);
        let carries = Arc::new(Notify::new());
        let out = uplink::Outlets {
            tunnel: name.to_owned(),
            carries: carries.clone(),
        };
        let outlets = downlink::Outlets {
            tunnel: name.to_owned(),
            news,
            mtus: self.mtus.clone(),
            sockets: self.sockets.clone(),
            carries,
        };
        let receives_trains = tunnel_config.receives_trains;
        let (to_out, to_in) = self.commands.pop().context("a tunnel without lines")?;
        Ok(vec![
            threads::spawn(&format!("{name}-out"), self.whose, self.ended, move || {
                uplink::run(outbound, told, to_out, out)
            })?,
            threads::spawn(&format!("{name}-in"), self.whose, self.ended, move || {
                downlink::run(inbound, receives_trains, outlets, to_in)
            })?,
        ])
    }

    /// Those of a hub: a pair for each worker.
    ///
    /// # Errors
    /// As with [`Lines::of_two_ends`].
    pub(super) fn of_hub(
        self,
        config: impl Fn(Worker) -> Option<HubConfig>,
    ) -> anyhow::Result<Vec<JoinHandle<()>>> {
        let (name, _) = self.whose;
        let workers = self.commands.len();
        let mut threads = Vec::with_capacity(2 * workers);
        let ways = Others::all(workers);
        for ((number, (to_out, to_in)), (out_others, in_others)) in
            self.commands.into_iter().enumerate().zip(ways)
        {
            let worker = Worker::new(number, workers).context("a worker too many")?;
            let config = config(worker).context("a hub without keys")?;
            let of_out = (worker, config.memory);
            let (news, told) = mpsc::channel(MAX_HUB_NEWS);
            let wakes = Arc::new(Wakes::default());
            let outlets = hub::downlink::Outlets {
                tunnel: name.to_owned(),
                news,
                sockets: self.sockets.clone(),
                wakes: wakes.clone(),
            };
            // The first has the names that the only one has.
            let number = if number == 0 {
                String::new()
            } else {
                number.to_string()
            };
            let name = |line| format!("{name}-{line}{number}");
            threads.push(threads::spawn(
                &name("out"),
                self.whose,
                self.ended,
                move || hub::uplink::run(of_out, told, to_out, wakes, out_others),
            )?);
            threads.push(threads::spawn(
                &name("in"),
                self.whose,
                self.ended,
                move || hub::downlink::run(config, outlets, in_others, to_in),
            )?);
        }
        Ok(threads)
    }
}

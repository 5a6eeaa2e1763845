//! The α/β path of "Modeling and Simulation of Out-of-Order Impact in TCP Protocol": its delay is
//! N(200 α + 50 ms, 200 α / 3 ms), never below 50 ms, and drawn anew after times of mean β.
//!
//! A thread draws and waits, and tells a `tc` that stays in B's namespace. A packet keeps the delay
//! that held when it came, as in the paper's simulator, so that packets overtake each other where the
//! delay falls. The draws repeat for the same seed.

use std::f64::consts::TAU;
use std::io::Write as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use net::{Hosts, Random};

use crate::Line;

/// How a path's delay changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switching {
    pub(crate) alpha: f64,
    /// Mean time between changes.
    pub(crate) beta_ms: f64,
}

/// Changes under way, until dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    tc: Child,
}

impl Switching {
    /// Starts to change the delay of what B takes in.
    pub(crate) fn start(self, hosts: &Hosts, seed: u64) -> Running {
        let mut command = hosts.b.command("tc");
        let command = command.args(["-batch", "-"]).stdin(Stdio::piped());
        let mut tc = command.spawn().expect("tc in B's namespace");
        let mut input = tc.stdin.take().expect("a pipe to tc");
        let delayed = Line::delayed(hosts);
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut random = Random(seed);
            while !until.load(Ordering::Relaxed) {
                let delay_us = (1e3 * self.delay_ms(&mut random)) as u64;
                let change = format!(
                    "qdisc change dev {delayed} root netem limit 5000 delay {delay_us}us\n"
                );
                // It ends when tc does.
                if input.write_all(change.as_bytes()).is_err() {
                    break;
                }
                let wait_ms = -self.beta_ms * fraction(&mut random).ln();
                std::thread::sleep(Duration::from_secs_f64(wait_ms / 1e3));
            }
        });
        Running {
            stop,
            thread: Some(thread),
            tc,
        }
    }

    fn delay_ms(self, random: &mut Random) -> f64 {
        let (u, v) = (fraction(random), fraction(random));
        let normal = (-2.0 * u.ln()).sqrt() * (TAU * v).cos();
        let spread = 200.0 * self.alpha;
        (50.0 + spread + spread / 3.0 * normal).max(50.0)
    }
}

/// Above 0 and at most 1.
fn fraction(random: &mut Random) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Its input has ended; it may have ended as well.
        let _ = self.tc.kill();
        let _ = self.tc.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_the_papers_mean_and_spread() {
        let (path, mut random) = (
            Switching {
                alpha: 1.0,
                beta_ms: 250.0,
            },
            Random(7),
        );
        let delays: Vec<f64> = (0..20_000).map(|_| path.delay_ms(&mut random)).collect();
        let mean = delays.iter().sum::<f64>() / 20_000.0;
        let variance = delays
            .iter()
            .map(|delay| (delay - mean).powi(2))
            .sum::<f64>()
            / 20_000.0;
        assert!((mean - 250.0).abs() < 2.0, "{mean}");
        assert!((variance.sqrt() - 66.7).abs() < 2.0, "{variance}");
        assert!(delays.iter().all(|delay| *delay >= 50.0));
    }
}

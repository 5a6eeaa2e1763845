//! A flood of datagrams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Sends what `send` makes, about so many a second, until it is dropped.
pub(crate) struct Flood(Arc<AtomicBool>);

impl Flood {
    pub(crate) fn start(a_second: f64, mut send: impl FnMut() + Send + 'static) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let flood = Flood(stop.clone());
        thread::spawn(move || {
            let (began, mut sent) = (Instant::now(), 0);
            while !stop.load(Ordering::Relaxed) {
                // What it is late by for more than 10 ms is not made up for.
                let due = (began.elapsed().as_secs_f64() * a_second) as u64;
                let late = due.saturating_sub(sent);
                (0..late.min((a_second / 100.0) as u64)).for_each(|_| send());
                sent = due;
                thread::sleep(Duration::from_millis(1));
            }
        });
        flood
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

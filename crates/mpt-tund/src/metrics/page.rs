//! The pages that are served, as old as a second at most.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Asked, Sample, families, plain};
use mpt_core::control::order::OrderStatus;

/// How long a page is served again, so that a scraper in haste costs the tunnels nothing.
const FRESH: Duration = Duration::from_secs(1);
/// The same of order, which takes more to report and is measured in intervals of so long.
const ORDER_FRESH: Duration = Duration::from_secs(10);

/// In which form a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus's own text, version 0.0.4.
    Plain,
}

impl Form {
    /// What is told of it in `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The one that fits an `Accept`.
    pub(super) fn accepted(accept: &str) -> Form {
        match accept.contains("application/openmetrics-text") {
            true => Form::OpenMetrics,
            false => Form::Plain,
        }
    }
}

/// What became of connections, since the thread began.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Pages that were served.
    pub(super) served: Cell<u64>,
    /// Requests for something else.
    pub(super) not_found: Cell<u64>,
    /// What was no request.
    pub(super) malformed: Cell<u64>,
    /// Connections that took too long.
    pub(super) slow: Cell<u64>,
    /// Connections that were cut off for others, the oldest first.
    pub(super) cut_off: Cell<u64>,
}

impl Counts {
    /// Each with its name.
    pub(super) fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("served", self.served.get()),
            ("not_found", self.not_found.get()),
            ("malformed", self.malformed.get()),
            ("slow", self.slow.get()),
            ("cut_off", self.cut_off.get()),
        ]
    }
}

/// Counts one more.
pub(super) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// What asks the control thread, and keeps its answer for a while.
#[derive(Debug)]
pub(super) struct Pages {
    tunnels: Arc<Mutex<Vec<String>>>,
    measuring: mpsc::Sender<Asked>,
    /// Held while the control thread is asked: one question at a time.
    last: tokio::sync::Mutex<Last>,
    pub(super) counts: Counts,
}

#[derive(Debug, Default)]
struct Last {
    page: Option<(Instant, String)>,
    plain: Option<String>,
    /// When the control thread was last asked, also where nobody waited for the answer.
    asked_at: Option<Instant>,
    orders_at: Option<Instant>,
    orders: Vec<(String, Box<OrderStatus>)>,
}

/// Nobody answers any more: the daemon ends.
#[derive(Debug)]
pub(super) struct Stopping;

impl Pages {
    pub(super) fn new(tunnels: Arc<Mutex<Vec<String>>>, measuring: mpsc::Sender<Asked>) -> Pages {
        Pages {
            tunnels,
            measuring,
            last: tokio::sync::Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// The page of this moment, or of one less than [`FRESH`] ago.
    pub(super) async fn page(&self, form: Form) -> Result<String, Stopping> {
        let mut last = self.last.lock().await;
        let is_fresh = |(at, _): &(Instant, String)| at.elapsed() < FRESH;
        if !last.page.as_ref().is_some_and(is_fresh) {
            if let Some(asked_at) = last.asked_at {
                tokio::time::sleep_until(asked_at + FRESH).await;
            }
            let samples = self.measure(&mut last).await?;
            let text = families::write(samples, &self.counts.all());
            last.page = Some((Instant::now(), text));
            last.plain = None;
        }
        let Last { page, plain, .. } = &mut *last;
        let text = page.as_ref().map_or("", |(_, text)| text);
        Ok(match form {
            Form::OpenMetrics => text.to_owned(),
            Form::Plain => plain.get_or_insert_with(|| plain::of(text)).clone(),
        })
    }

    fn tunnels(&self) -> Vec<String> {
        let tunnels = self.tunnels.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.clone()
    }

    /// Asks for a sample of each tunnel, with the last order that was told.
    async fn measure(&self, last: &mut Last) -> Result<Vec<Sample>, Stopping> {
        let tunnels = self.tunnels();
        let is_old = |at: Instant| at.elapsed() >= ORDER_FRESH;
        let with_order = last.orders_at.is_none_or(is_old);
        // Before the question: who closes the connection meanwhile leaves the time, not the answer.
        last.asked_at = Some(Instant::now());
        if with_order {
            last.orders_at = last.asked_at;
        }
        let (reply, answer) = oneshot::channel();
        let asked = Asked {
            tunnels,
            with_order,
            reply,
        };
        self.measuring.send(asked).await.map_err(|_| Stopping)?;
        let mut samples = answer.await.map_err(|_| Stopping)?;
        if with_order {
            let told = samples.iter().filter_map(|sample| {
                let order = sample.order.clone()?;
                Some((sample.status.tunnel.name.clone(), order))
            });
            last.orders = told.collect();
        }
        for sample in samples.iter_mut().filter(|sample| sample.runs) {
            let mut known = last.orders.iter();
            let known = known.find(|(name, _)| *name == sample.status.tunnel.name);
            sample.order = known.map(|(_, order)| order.clone());
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_core::control::Status;

    /// Asks for a page at each of these times, in milliseconds; which questions that brought, with order or without.
    fn asked_at(times: &[u64]) -> Vec<bool> {
        crate::testing::paused_runtime().block_on(async {
            let (measuring, mut questions) = mpsc::channel::<Asked>(4);
            let tunnels = Arc::new(Mutex::new(vec!["mpt0".to_owned()]));
            let pages = Pages::new(tunnels, measuring);
            let answers = tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Some(asked) = questions.recv().await {
                    seen.push(asked.with_order);
                    let order = asked.with_order.then(Box::default);
                    let _ = asked
                        .reply
                        .send(vec![Sample::new(Status::default(), order)]);
                }
                seen
            });
            let begun = Instant::now();
            for time in times {
                tokio::time::sleep_until(begun + Duration::from_millis(*time)).await;
                pages.page(Form::Plain).await.unwrap();
                pages.page(Form::OpenMetrics).await.unwrap();
            }
            drop(pages);
            answers.await.unwrap()
        })
    }

    #[test]
    fn whoever_asks_often_gets_a_page_of_a_second_ago() {
        assert_eq!(asked_at(&[0, 100, 900, 999]), [true]);
        assert_eq!(asked_at(&[0, 1000, 1500, 2100]).len(), 3);
    }

    #[test]
    fn order_is_asked_for_once_in_ten_seconds() {
        assert_eq!(
            asked_at(&[0, 2000, 9000, 10_000, 12_000]),
            [true, false, false, true, false]
        );
    }

    #[test]
    fn who_does_not_wait_for_the_answer_does_not_ask_sooner() {
        crate::testing::paused_runtime().block_on(async {
            let (measuring, mut questions) = mpsc::channel::<Asked>(64);
            let pages = Pages::new(Arc::default(), measuring);
            for _ in 0..35 {
                let given_up = tokio::time::timeout(FRESH / 10, pages.page(Form::Plain));
                assert!(given_up.await.is_err());
            }
            let asked = std::iter::from_fn(|| questions.try_recv().ok()).count();
            assert!(asked <= 4, "{asked} questions in 3.5 s");
        });
    }

    #[test]
    fn the_form_is_the_one_that_is_accepted() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Form::accepted(prometheus), Form::OpenMetrics);
        assert_eq!(Form::accepted("*/*"), Form::Plain);
        assert_eq!(Form::accepted(""), Form::Plain);
    }
}

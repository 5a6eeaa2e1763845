//! A tunnel's lines of one direction, as the control thread tells them: one, or one for each of a hub's workers.

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot};

/// Where commands go, by worker.
pub(super) struct Told<C>(Vec<mpsc::Sender<C>>);

impl<C: Send + Sync + 'static> Told<C> {
    /// So many lines, for each of which `most` commands may wait; and what they are to listen to.
    pub(super) fn new(lines: usize, most: usize) -> (Told<C>, Vec<mpsc::Receiver<C>>) {
        let channels = (0..lines).map(|_| mpsc::channel(most));
        let (told, heard) = channels.unzip();
        (Told(told), heard)
    }

    /// Tells each what `command` says for its worker.
    ///
    /// # Errors
    /// When one of the threads has ended.
    pub(super) async fn tell(&self, mut command: impl FnMut(usize) -> C) -> anyhow::Result<()> {
        for (worker, line) in self.0.iter().enumerate() {
            line.send(command(worker)).await?;
        }
        Ok(())
    }

    /// The same, where it says something.
    ///
    /// # Errors
    /// When one of the threads has ended.
    pub(super) async fn tell_some(
        &self,
        mut command: impl FnMut(usize) -> Option<C>,
    ) -> anyhow::Result<()> {
        for (worker, line) in self.0.iter().enumerate() {
            if let Some(command) = command(worker) {
                line.send(command).await?;
            }
        }
        Ok(())
    }

    /// Has one after the other add what it knows to `answer`.
    ///
    /// # Errors
    /// When one of the threads has ended.
    pub(super) async fn ask<T>(
        &self,
        mut answer: T,
        command: impl Fn(T, oneshot::Sender<T>) -> C,
    ) -> anyhow::Result<T> {
        for line in &self.0 {
            let (reply, answered) = oneshot::channel();
            line.send(command(answer, reply)).await?;
            answer = answered.await?;
        }
        Ok(answer)
    }

    /// Asks the first, who is the only one where there are two ends.
    ///
    /// # Errors
    /// When its thread has ended.
    pub(super) async fn ask_first<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> C,
    ) -> anyhow::Result<T> {
        let (reply, answered) = oneshot::channel();
        let first = self.0.first().context("a tunnel without lines")?;
        first.send(command(reply)).await?;
        Ok(answered.await?)
    }

    /// Has each do something; each says by what is returned when it has.
    ///
    /// # Errors
    /// When one of the threads has ended.
    pub(super) async fn order(
        &self,
        command: impl Fn(oneshot::Sender<()>) -> C,
    ) -> anyhow::Result<Vec<oneshot::Receiver<()>>> {
        let mut done = Vec::with_capacity(self.0.len());
        for line in &self.0 {
            let (reply, answered) = oneshot::channel();
            line.send(command(reply)).await?;
            done.push(answered);
        }
        Ok(done)
    }
}

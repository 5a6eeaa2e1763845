//! What the kernel dropped at the queue of the tunnel's interface.

/// A count over all interfaces that the tunnel has had.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dropped {
    total: u64,
    /// What the interface's counter said last. It may have begun before the tunnel opened it.
    seen: Option<u64>,
}

impl Dropped {
    /// An interface was opened, whose counter says this, as far as it is known.
    pub(super) fn opened(&mut self, counter: Option<u64>) {
        self.seen = counter;
    }

    /// Its counter says this now, as far as it is known. Packets dropped since the tunnel started.
    pub(super) fn count(&mut self, counter: Option<u64>) -> u64 {
        if let Some(now) = counter {
            let before = self.seen.replace(now).unwrap_or(now);
            self.total += now.saturating_sub(before);
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_dropped_since_the_start_counts_and_is_not_forgotten() {
        let mut dropped = Dropped::default();
        assert_eq!(dropped.count(None), 0);
        dropped.opened(Some(1000));
        assert_eq!(dropped.count(Some(1007)), 7);
        assert_eq!(dropped.count(None), 7, "nobody says");
        dropped.opened(Some(0));
        assert_eq!(dropped.count(Some(3)), 10, "another interface");
        dropped.opened(None);
        assert_eq!(dropped.count(Some(500)), 10);
    }
}

//! What a sender behind the TUN is told by ICMP of packets that are not sent.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;
use crate::wire::icmp;

/// Most messages waiting to be written to the TUN.
const MAX_QUEUED: usize = 16;
/// Least time between two of them (RFC 1812 §4.3.2.8 asks for a limit).
const INTERVAL: Duration = Duration::from_millis(2);

/// ICMP error messages that wait to be written to the TUN, no more than the limits let through.
#[derive(Default)]
pub(crate) struct IcmpErrors {
    queued: VecDeque<Vec<u8>>,
    next: Time,
}

impl IcmpErrors {
    /// Queues the message of so many bytes that `write` makes, if it makes one and the limits allow it.
    pub(crate) fn push(&mut self, now: Time, write: impl FnOnce(&mut [u8]) -> Option<usize>) {
        if now < self.next || self.queued.len() >= MAX_QUEUED {
            return;
        }
        let mut message = vec![0; icmp::MAX_LEN];
        if let Some(len) = write(&mut message) {
            message.truncate(len);
            self.queued.push_back(message);
            self.next = now + INTERVAL;
        }
    }

    /// The next message.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        self.queued.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_goes_each_2_ms_sixteen_wait_and_what_makes_none_costs_no_turn() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut errors = IcmpErrors::default();
        errors.push(at(0), |_| None);
        assert!(errors.pop().is_none());
        for ms in 0..100 {
            errors.push(at(ms), |_| Some(ms as usize + 1));
        }
        let lens: Vec<_> =
            std::iter::from_fn(|| errors.pop().map(|message| message.len())).collect();
        assert_eq!(lens, (0..16).map(|sent| 2 * sent + 1).collect::<Vec<_>>());
    }
}

//! What waits for a hub's processor: a queue for each peer, served in turn.
//!
//! While a line of a hub keeps up, nothing waits here. When more comes than it can handle, the line takes what comes
//! from the kernel, which knows no peers, and puts it here: then who sends ten times as much as the others waits ten
//! times as long, and not they. It is FQ-CoDel (RFC 8290) with a peer for a flow: deficit round robin, peers that
//! just began to send first; CoDel (RFC 8289) gives up what a peer sends more than its share for long; and all
//! queues together have one pool of memory, which, when it is full, the peer pays with the longest queue.

use std::collections::VecDeque;
use std::time::Duration;

use super::HubSlot;
use crate::send::queue::codel::{Codel, INTERVAL, Verdict};
use crate::time::Time;

/// Most bytes that wait in a line of a hub, each item's [`ITEM_BYTES`] included: 30 ms of 2 Gbit/s.
pub(super) const POOL_BYTES: usize = 8 << 20;
/// Bytes that an item counts beside its own: 96 that it takes in its queue and 32 of the allocator, rounded up for its
/// buffer. Datagrams of 12 bytes that counted as 12 would be 700,000 in a full pool, and 130 MB.
const ITEM_BYTES: usize = 128;
/// The longest queue gives up its oldest until it has this share, in quarters, of what the second longest has. Who has the
/// longest is looked for among all peers, so more than an item is taken at once: of a thousand equal queues of the smallest
/// datagrams 458 items make room for a train of 64 kB, in 31 looks
/// (`cargo test -p mpt-core --lib a_pool_of_small_items -- --nocapture`).
const KEPT_QUARTERS: usize = 3;
/// What a peer always has waiting is given up when it waits longer than this (CoDel's target). The sender's law, of the peer
/// or of the flows in it, keeps a queue of its own, 5 ms and what jitter adds, and takes what is dropped here for loss: with
/// CoDel's 10 ms eight peers that send what they can had 0.97 of a slow hub together and the least 0.80 of the mean, with
/// 40 ms 1.00 and 1.00. It is for whoever heeds no queue.
const TARGET: Duration = Duration::from_millis(40);
/// What a peer may have handled in its turn, in bytes of [`cost`]: one and a half full trains. What waits of a peer is sent, and
/// written to the interface, in long trains then, which cost least a byte: a hundred clients together get 1.7 times as much down
/// as with 16 KiB, and 1.3 times as much up (`benches/hub --shares 100`). With 256 KiB peers do not share evenly, since more
/// fits into a turn than a peer has waiting.
const QUANTUM: i64 = 128 << 10;
/// What a packet costs beside its bytes, in bytes: seals, numbers and system calls take as long as a copy of that.
const PACKET_COST: usize = 512;
/// Several peers share a line of the hub if packets of two came within this time. Idle ones probe less often.
const RUSH: Duration = Duration::from_secs(10);
/// Buffers that are kept for what comes next.
const MAX_SPARE: usize = 256;
/// What waits is in a buffer of at most so many times its length: the pool counts bytes that wait, and not those around them.
const MAX_SLACK: usize = 4;
/// A peer of which nothing waits keeps room for so many.
const IDLE_ITEMS: usize = 64;

/// What is known of bytes that wait: a train of datagrams, a super-packet, a packet.
pub(super) trait Load {
    /// Packets in `len` bytes.
    fn packets(&self, len: usize) -> u64;
    /// How many of `len` bytes go when one packet is given up.
    fn first(&self, len: usize) -> usize;
}

struct Item<L> {
    load: L,
    bytes: Vec<u8>,
    /// Up to there it was given up.
    start: usize,
    since: Time,
}

/// Bytes that a peer has waiting, as they count in its turn.
fn cost<L: Load>(item: &Item<L>) -> i64 {
    let len = item.bytes.len() - item.start;
    (len + item.load.packets(len) as usize * PACKET_COST) as i64
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// In neither list: nothing waits.
    Idle,
    /// Among those that just began.
    New,
    Old,
}

struct PeerQueue<L> {
    items: VecDeque<Item<L>>,
    bytes: usize,
    deficit: i64,
    turn: Turn,
    codel: Codel,
}

/// A peer, or all together who are none.
pub(super) type Whose = Option<HubSlot>;

fn place(whose: Whose) -> usize {
    whose.map_or(0, |slot| slot.number() + 1)
}

/// See the module.
pub(super) struct Waiting<L> {
    /// By [`place`]; those that never waited have none.
    peers: Vec<Option<Box<PeerQueue<L>>>>,
    new: VecDeque<Whose>,
    old: VecDeque<Whose>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Packets that were given up and not told of yet.
    lost: u64,
    /// Whose the last was that was handled, and when it was another's than the one before.
    last: Option<Whose>,
    changed: Option<Time>,
}

impl<L> Default for Waiting<L> {
    fn default() -> Waiting<L> {
        Waiting {
            peers: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            lost: 0,
            last: None,
            changed: None,
        }
    }
}

impl<L: Load> Waiting<L> {
    /// Something of `whose` is handled.
    pub(super) fn note_whose(&mut self, now: Time, whose: Whose) {
        if self.last.replace(whose).is_some_and(|last| last != whose) {
            self.changed = Some(now);
        }
    }

    /// Whether that was several peers' lately.
    pub(super) fn is_shared(&self, now: Time) -> bool {
        self.changed.is_some_and(|at| now.since(at) < RUSH)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether the pool is full: more may come, at the cost of what waits.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= POOL_BYTES
    }

    /// Packets that were given up since this was last asked.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Lets `bytes`, at least one, of a peer wait.
    pub(super) fn push(&mut self, now: Time, whose: Whose, load: L, bytes: &[u8]) {
        let size = bytes.len() + ITEM_BYTES;
        self.make_room(size);
        let number = place(whose);
        if self.peers.len() <= number {
            self.peers.resize_with(number + 1, || None);
        }
        let peer = self.peers[number].get_or_insert_with(|| {
            Box::new(PeerQueue {
                items: VecDeque::new(),
                bytes: 0,
                deficit: 0,
                turn: Turn::Idle,
                codel: Codel::default(),
            })
        });
        let fits = |spare: &mut Vec<u8>| spare.capacity() <= MAX_SLACK * bytes.len();
        let mut room = self.spare.pop_if(fits).unwrap_or_default();
        room.extend_from_slice(bytes);
        peer.items.push_back(Item {
            load,
            bytes: room,
            start: 0,
            since: now,
        });
        peer.bytes += size;
        self.bytes += size;
        if peer.turn == Turn::Idle {
            (peer.turn, peer.deficit) = (Turn::New, QUANTUM);
            self.new.push_back(whose);
        }
    }

    /// What is to be handled next: whose it is, and where in the bytes it begins. Give the bytes back with
    /// [`Waiting::give_back`].
    pub(super) fn pop(&mut self, now: Time) -> Option<(Whose, L, Vec<u8>, usize)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let slot = *list.front()?;
            let Some(peer) = self.peers.get_mut(place(slot)).and_then(Option::as_mut) else {
                list.pop_front();
                continue;
            };
            if peer.deficit <= 0 {
                list.pop_front();
                peer.deficit += QUANTUM;
                peer.turn = Turn::Old;
                self.old.push_back(slot);
                continue;
            }
            if let Some(item) = self.next_of(now, slot) {
                return Some((slot, item.load, item.bytes, item.start));
            }
            // A new one goes through the other list once, lest it come back as new.
            let (list, turn) = match is_new {
                true => (&mut self.new, Turn::Old),
                false => (&mut self.old, Turn::Idle),
            };
            list.pop_front();
            if is_new {
                self.old.push_back(slot);
            }
            if let Some(Some(peer)) = self.peers.get_mut(place(slot)) {
                peer.turn = turn;
            }
        }
    }

    /// The peer's first that CoDel lets pass.
    fn next_of(&mut self, now: Time, slot: Whose) -> Option<Item<L>> {
        let peer = self.peers.get_mut(place(slot))?.as_mut()?;
        loop {
            let Some(first) = peer.items.front_mut() else {
                peer.codel.emptied();
                peer.items.shrink_to(IDLE_ITEMS);
                return None;
            };
            let waited = now.since(first.since);
            let len = first.bytes.len() - first.start;
            let is_last = peer.items.len() == 1;
            let verdict = peer.codel.judge(now, waited, is_last, TARGET, INTERVAL);
            let first = peer.items.front_mut()?;
            if verdict == Verdict::Drop {
                let gone = first.load.first(len).clamp(1, len);
                self.lost += first.load.packets(gone);
                first.start += gone;
                peer.bytes -= gone;
                self.bytes -= gone;
                if gone < len {
                    continue;
                }
                if let Some(item) = peer.items.pop_front() {
                    peer.bytes -= ITEM_BYTES;
                    self.bytes -= ITEM_BYTES;
                    keep(&mut self.spare, item.bytes);
                }
                continue;
            }
            let item = peer.items.pop_front()?;
            peer.deficit -= cost(&item);
            peer.bytes -= len + ITEM_BYTES;
            self.bytes -= len + ITEM_BYTES;
            return Some(item);
        }
    }

    /// Takes back what [`Waiting::pop`] gave, to be used again.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) {
        keep(&mut self.spare, bytes);
        if self.is_empty() {
            // It was a rush: the next is far away.
            self.spare.truncate(MAX_SPARE / 8);
        }
    }

    /// Gives up what waits of a peer. Returns how many packets that were.
    pub(super) fn forget(&mut self, slot: Whose) -> u64 {
        let Some(peer) = self.peers.get_mut(place(slot)).and_then(Option::take) else {
            return 0;
        };
        self.bytes -= peer.bytes;
        self.new.retain(|known| *known != slot);
        self.old.retain(|known| *known != slot);
        let packets = |item: &Item<L>| item.load.packets(item.bytes.len() - item.start);
        peer.items.iter().map(packets).sum()
    }

    /// Makes room for so many bytes at the cost of who has most waiting. Returns how often it looked for who that is.
    fn make_room(&mut self, size: usize) -> usize {
        let mut looked = 0;
        while !self.is_empty() && self.bytes + size > POOL_BYTES {
            looked += 1;
            let Some((longest, second)) = self.longest() else {
                break;
            };
            self.shed(longest, size, second / 4 * KEPT_QUARTERS);
        }
        looked
    }

    /// Who has most waiting, and how many bytes the next of them has.
    fn longest(&self) -> Option<(Whose, usize)> {
        let mut longest = None;
        let (mut most, mut second) = (0, 0);
        for slot in self.new.iter().chain(&self.old) {
            let peer = self.peers.get(place(*slot)).and_then(Option::as_ref);
            let bytes = peer.map_or(0, |peer| peer.bytes);
            if bytes >= most {
                (longest, most, second) = (Some(*slot), bytes, most);
            } else {
                second = second.max(bytes);
            }
        }
        Some((longest?, second))
    }

    /// Gives up a peer's oldest, one at least, until there is room for `size` bytes or the peer has no more than `left`.
    fn shed(&mut self, slot: Whose, size: usize, left: usize) {
        let Some(peer) = self.peers.get_mut(place(slot)).and_then(Option::as_mut) else {
            return;
        };
        while let Some(item) = peer.items.pop_front() {
            let len = item.bytes.len() - item.start;
            self.lost += item.load.packets(len);
            peer.bytes -= len + ITEM_BYTES;
            self.bytes -= len + ITEM_BYTES;
            keep(&mut self.spare, item.bytes);
            if self.bytes + size <= POOL_BYTES || peer.bytes <= left {
                break;
            }
        }
    }
}

fn keep(spare: &mut Vec<Vec<u8>>, mut bytes: Vec<u8>) {
    if spare.len() < MAX_SPARE {
        bytes.clear();
        spare.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hub::Came;

    const PACKET: usize = 1400;

    /// Trains of packets of one size.
    struct Train;

    impl Load for Train {
        fn packets(&self, len: usize) -> u64 {
            len.div_ceil(PACKET) as u64
        }

        fn first(&self, _: usize) -> usize {
            PACKET
        }
    }

    fn slot(number: usize) -> Whose {
        Some(HubSlot::new(number).unwrap())
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// What became of a peer's packets.
    #[derive(Debug, Clone, Default)]
    struct Share {
        handled: usize,
        /// Those that waited in the end.
        left: usize,
        /// The longest that one waited before it was handled.
        waited: Duration,
    }

    /// For a second, in each millisecond each peer sends so many packets in trains of at most `train`, and 1000 packets
    /// in all can be handled in ten.
    fn share(sends: &[usize], train: usize) -> Vec<Share> {
        let mut waiting = Waiting::default();
        let mut shares = vec![Share::default(); sends.len()];
        let mut room = 0i64;
        for ms in 0..1000 {
            let now = at(ms * 1000);
            for (number, packets) in sends.iter().enumerate() {
                let mut left = *packets;
                while left > 0 {
                    let here = left.min(train);
                    // Its first bytes say when it came.
                    let mut bytes = vec![0; here * PACKET];
                    bytes[..8].copy_from_slice(&ms.to_le_bytes());
                    waiting.push(now, slot(number), Train, &bytes);
                    left -= here;
                }
            }
            assert!(waiting.bytes <= POOL_BYTES);
            room = room.min(0) + 100;
            while room > 0
                && let Some((slot, load, bytes, start)) = waiting.pop(now)
            {
                let packets = load.packets(bytes.len() - start);
                room -= packets as i64;
                let share = &mut shares[slot.unwrap().number()];
                share.handled += packets as usize;
                if start == 0 {
                    let came = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    share.waited = share.waited.max(now.since(at(came * 1000)));
                }
                waiting.give_back(bytes);
            }
        }
        for (number, share) in shares.iter_mut().enumerate() {
            share.left = waiting.forget(slot(number)) as usize;
        }
        shares
    }

    #[test]
    fn a_hundred_peers_that_send_too_much_share_evenly_however_they_send() {
        for train in [1, 10, 45] {
            let sends: Vec<usize> = (0..100).map(|number| 2 + number % 9).collect();
            let shares = share(&sends, train);
            let all: usize = shares.iter().map(|share| share.handled).sum();
            assert!(all > 98_000, "{all} of 100,000");
            let least = shares.iter().map(|share| share.handled).min().unwrap();
            let most = shares.iter().map(|share| share.handled).max().unwrap();
            assert!(least * 10 >= all / 100 * 9, "{least} to {most}");
            assert!(most * 10 <= all / 100 * 11, "{least} to {most}");
        }
    }

    #[test]
    fn who_sends_ten_times_its_share_costs_the_others_nothing() {
        let mut sends = vec![9; 10];
        sends.push(500);
        let shares = share(&sends, 45);
        for share in &shares[..10] {
            assert_eq!(share.handled + share.left, 9_000, "none is lost");
            assert!(share.left <= 5 * 9, "{share:?}");
            assert!(share.waited <= Duration::from_millis(5), "{share:?}");
        }
        // And it gets what they leave.
        assert!(shares[10].handled > 9_000, "{:?}", shares[10]);
    }

    #[test]
    fn a_peer_in_a_long_rush_waits_no_longer_than_codel_lets_it() {
        let mut waiting = Waiting::default();
        let mut last = Duration::ZERO;
        // A peer sends a hundredth more than is handled; CoDel drops ever more until it is no more than that.
        for ms in 0..8000u64 {
            for _ in 0..10 + u64::from(ms % 10 == 0) {
                let mut bytes = vec![0; PACKET];
                bytes[..8].copy_from_slice(&ms.to_le_bytes());
                waiting.push(at(ms * 1000), slot(3), Train, &bytes);
            }
            for _ in 0..10 {
                let Some((_, _, bytes, _)) = waiting.pop(at(ms * 1000)) else {
                    break;
                };
                let came = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                last = at(ms * 1000).since(at(came * 1000));
                waiting.give_back(bytes);
            }
        }
        let lost = waiting.take_lost();
        assert!(lost > 300, "{lost} of 800");
        assert!(last < Duration::from_millis(60), "{last:?}");
    }

    #[test]
    fn what_waits_takes_memory_by_its_length_whatever_came_before() {
        let mut waiting = Waiting::default();
        let capacity = |waiting: &Waiting<Train>| {
            let items = waiting.peers.iter().flatten().flat_map(|peer| &peer.items);
            let held: usize = items.map(|item| item.bytes.capacity()).sum();
            held + waiting.spare.iter().map(Vec::capacity).sum::<usize>()
        };
        let most = MAX_SLACK * POOL_BYTES + MAX_SPARE * 65_536;
        for round in 0..50 {
            for _ in 0..POOL_BYTES / 65_000 {
                waiting.push(at(round), slot(1), Train, &[0; 65_000]);
            }
            for _ in 0..2000 {
                waiting.push(at(round), slot(2), Train, &[0; 100]);
            }
            assert!(capacity(&waiting) <= most);
            for _ in 0..200 {
                let (_, _, bytes, _) = waiting.pop(at(round)).unwrap();
                waiting.give_back(bytes);
            }
            let small = waiting.peers[place(slot(2))]
                .iter()
                .flat_map(|peer| &peer.items);
            let small = small.map(|item| item.bytes.capacity()).max();
            assert!(small <= Some(MAX_SLACK * 100), "{small:?}");
        }
        while let Some((_, _, bytes, _)) = waiting.pop(at(50)) {
            waiting.give_back(bytes);
        }
        let items = waiting
            .peers
            .iter()
            .flatten()
            .map(|peer| peer.items.capacity());
        assert!(items.max() <= Some(IDLE_ITEMS));
    }

    /// Who sends the smallest datagrams has no more of them waiting than the pool has memory for, and it is quickly done
    /// to make room among a thousand peers.
    #[test]
    fn a_pool_of_small_items_is_bounded_and_makes_room_at_little_cost() {
        const SMALL: usize = 12;
        const TRAIN: usize = 64_000;
        let mut waiting = Waiting::default();
        let items = |waiting: &Waiting<Train>| {
            let queues = waiting.peers.iter().flatten();
            queues.map(|peer| peer.items.len()).sum::<usize>()
        };
        // All have the same, so that the longest is another one each time.
        for number in 0..2 * POOL_BYTES / (SMALL + ITEM_BYTES) {
            waiting.push(at(0), slot(number % 1000), Train, &[0; SMALL]);
        }
        let full = items(&waiting);
        let started = std::time::Instant::now();
        let looked = waiting.make_room(TRAIN + ITEM_BYTES);
        let took = started.elapsed();
        let shed = full - items(&waiting);
        println!("{full} items; to shed {shed} of them it looked {looked} times, in {took:?}");
        assert!(full * (SMALL + ITEM_BYTES) <= POOL_BYTES, "{full}");
        assert!(size_of::<Item<Came>>() <= 96);
        assert!(shed >= TRAIN / (SMALL + ITEM_BYTES), "{shed}");
        assert!(looked * 8 <= shed, "{looked} times for {shed}");
        // Each item that leaves, whichever way, leaves nothing of its size behind.
        while waiting.pop(at(500_000)).is_some() {}
        assert!(waiting.is_empty() && items(&waiting) == 0);
    }

    #[test]
    fn a_peer_that_is_forgotten_leaves_nothing_behind() {
        let mut waiting = Waiting::default();
        for number in [1, 2, 1] {
            waiting.push(at(0), slot(number), Train, &[7; 100]);
        }
        assert_eq!(waiting.forget(slot(1)), 2);
        assert_eq!(waiting.pop(at(0)).unwrap().0, slot(2));
        assert!(waiting.pop(at(0)).is_none() && waiting.is_empty());
    }
}

//! Block sort: what arrived together is put in order, and nothing waits.
//!
//! A receiver does not take packets one by one. While it is busy, or its network card holds the
//! interrupt back, several come, and it gets them as one batch. "Sorting Reordered Packets with
//! Interrupt Coalescing" (SRPIC) uses that: packets that came within one batch can change places at
//! no cost in time, since none of them has left yet. What was overtaken by more than its batch stays
//! out of order. So this is for tunnels whose paths are nearly alike and whose users want no added
//! delay; the [reorder window](crate::receive::reorder), which waits, puts everything right.
//!
//! *Three lists, and one sort.* The paper keeps three lists for each TCP flow of a batch: packets
//! below the number that the flow expects, packets in sequence from it on, and those beyond a hole. The
//! first and the last are kept sorted, the middle one is so by itself, and they leave in this order.
//! But everything in the first is below everything in the second, and that below everything in the
//! third: one behind the other they are the batch, sorted. And the packets of a tunnel have one
//! numbering, in which those of each flow follow each other as the host sent them. So a sort by the
//! tunnel's number does for all flows at once what the lists do for one, needs not know what a flow
//! is, and works as well for what is not TCP. Flows are told apart where it pays, in
//! [`coalesce`](crate::receive::coalesce), which sees each flow's packets in sequence.
//!
//! *Blocks.* A batch is cut into blocks of a fixed number of packets; none leaves its block, so that
//! the work for a packet is bounded however large the batch. The paper's cards bring 7 packets at a time
//! at a gigabit, and 30 to 60 at six. A packet without a number stays in its place and nothing crosses it: nobody knows where it
//! belongs. Neither does anything cross from one numbering of the sender to the next.
//!
//! *Cost.* A sort by insertion, as in the paper's lists: a packet in sequence costs one comparison, one
//! that is not a binary search and a move of what it was overtaken by, at most a block. It is stable
//! and takes no memory.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// Packets in a block, if nothing else is said: the paper's own default.
pub const DEFAULT_BLOCK: u16 = 32;
/// What a block may be, in packets. One packet is always in order; beyond a thousand there is hardly a
/// batch to fill a block.
pub const BLOCKS: RangeInclusive<u16> = 2..=1024;

/// Sorts `packets`, which arrived together in this order, within blocks of so many. `compare` says
/// which of two is the earlier one, or `None` when the two must not change places: a packet without a
/// number and any other, or numbers that have nothing to do with each other. Two that may must be
/// comparable with the same third ones.
pub fn sort_blocks<T>(
    packets: &mut [T],
    block: usize,
    compare: impl Fn(&T, &T) -> Option<Ordering>,
) {
    for block in packets.chunks_mut(block.max(1)) {
        let mut run = 0;
        for at in 1..block.len() {
            match compare(&block[at - 1], &block[at]) {
                None => run = at,
                Some(Ordering::Less | Ordering::Equal) => {}
                Some(Ordering::Greater) => {
                    let (sorted, packet) = (&block[run..at], &block[at]);
                    let to = sorted.partition_point(|earlier| {
                        compare(earlier, packet).is_some_and(Ordering::is_le)
                    });
                    block[run + to..=at].rotate_right(1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::weighted;
    use proptest::prelude::*;

    use super::*;

    /// A numbering, a number in it, and which packet this is.
    type Packet = (Option<(u8, u32)>, usize);

    fn compare(a: &Packet, b: &Packet) -> Option<Ordering> {
        let ((numbering, a), (other, b)) = (a.0?, b.0?);
        (numbering == other).then(|| a.cmp(&b))
    }

    fn packets(numbers: impl IntoIterator<Item = Option<(u8, u32)>>) -> Vec<Packet> {
        numbers.into_iter().zip(0..).collect()
    }

    fn sorted(numbers: &[u32], block: usize) -> Vec<u32> {
        let mut numbers = numbers.to_vec();
        sort_blocks(&mut numbers, block, |a, b| Some(a.cmp(b)));
        numbers
    }

    #[test]
    fn before_in_sequence_and_after_leave_one_behind_the_other() {
        // The paper's Table 2: 1 is before, 2 to 5 are in sequence, 6 and 7 were beyond a hole.
        assert_eq!(sorted(&[2, 3, 1, 4, 6, 7, 5], 32), [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn no_packet_leaves_its_block() {
        assert_eq!(sorted(&[5, 4, 3, 2, 1, 0], 4), [2, 3, 4, 5, 0, 1]);
        assert_eq!(sorted(&[3, 2, 1], 1), [3, 2, 1]);
    }

    #[test]
    fn a_packet_without_a_number_stays_and_nothing_crosses_it() {
        let number = |number| Some((0, number));
        let mut packets = packets([number(2), number(1), None, number(0), None, number(3)]);
        sort_blocks(&mut packets, 32, compare);
        let order: Vec<usize> = packets.iter().map(|&(_, at)| at).collect();
        assert_eq!(order, [1, 0, 2, 3, 4, 5]);
    }

    #[test]
    fn what_the_sender_numbered_anew_stays_behind_what_it_sent_before() {
        let mut packets = packets([(0, 9), (0, 8), (1, 1), (1, 0), (0, 7)].map(Some));
        sort_blocks(&mut packets, 32, compare);
        let order: Vec<usize> = packets.iter().map(|&(_, at)| at).collect();
        assert_eq!(order, [1, 0, 3, 2, 4]);
    }

    #[test]
    fn equal_numbers_keep_their_order() {
        let mut packets = packets([5, 3, 5, 3, 3].map(|number| Some((0, number))));
        sort_blocks(&mut packets, 32, compare);
        let order: Vec<usize> = packets.iter().map(|&(_, at)| at).collect();
        assert_eq!(order, [1, 3, 4, 0, 2]);
    }

    proptest! {
        /// Within a block: the same packets; what has no number in its place; each flow, and every run,
        /// in the order of its numbers; and the same that a stable sort of each run gives.
        #[test]
        fn a_block_is_a_permutation_with_every_run_in_order(
            numbers in vec(weighted(0.9, (0..2u8, 0..50u32)), 0..200),
            block in 1..70usize,
        ) {
            let before = packets(numbers);
            let mut after = before.clone();
            sort_blocks(&mut after, block, compare);
            for (before, after) in before.chunks(block).zip(after.chunks(block)) {
                let mut back = after.to_vec();
                back.sort_unstable_by_key(|&(_, at)| at);
                prop_assert_eq!(before, &back);
                for (before, after) in before.iter().zip(after) {
                    prop_assert_eq!(before.0.is_none(), after.0.is_none());
                    prop_assert!(before.0.is_some() || before == after);
                }
                let runs = |packets: &[Packet]| {
                    let runs = packets.chunk_by(|a, b| compare(a, b).is_some());
                    runs.map(<[Packet]>::to_vec).collect::<Vec<_>>()
                };
                let mut expected = runs(before);
                expected.iter_mut().for_each(|run| run.sort_by_key(|&(number, _)| number));
                prop_assert_eq!(expected.concat(), after);
                for flow in 0..3 {
                    for run in runs(after) {
                        let flow = run.iter().filter(|(number, _)| {
                            number.is_some_and(|(_, number)| number % 3 == flow)
                        });
                        prop_assert!(flow.is_sorted_by_key(|&(number, _)| number));
                    }
                }
            }
        }
    }
}

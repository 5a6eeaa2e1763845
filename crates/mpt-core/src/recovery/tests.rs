use super::*;
use proptest::prelude::*;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

proptest! {
    /// Whatever is kept is the packet that was sent, over growth, wrapping and eviction.
    #[test]
    fn what_is_kept_is_what_was_sent(
        lens in proptest::collection::vec(20..9000usize, 1..2000),
        first: u32,
        done_every in 1..50usize,
    ) {
        let mut recovery = Recovery::new(true);
        let path = PathId::new(0).unwrap();
        let content = |index: usize, len: usize| -> Vec<u8> {
            (0..len).map(|at| (at * 7 + index * 13) as u8).collect()
        };
        for (index, &len) in lens.iter().enumerate() {
            let seq = Seq::new(first.wrapping_add(index as u32));
            recovery.keep(at(1), seq, path, 0, &content(index, len));
            prop_assert_eq!(recovery.packet(seq), Some(&content(index, len)[..]));
            if index % done_every == 0 {
                recovery.kept.pop_front();
                recovery.first = recovery.first.next();
            }
        }
        for (index, &len) in lens.iter().enumerate() {
            let seq = Seq::new(first.wrapping_add(index as u32));
            if let Some(packet) = recovery.packet(seq) {
                prop_assert_eq!(packet, &content(index, len)[..]);
            }
        }
        prop_assert!(recovery.memory() <= MAX_BYTES);
    }
}

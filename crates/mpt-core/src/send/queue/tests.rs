use super::*;
use proptest::prelude::*;

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// A queue, and the packets that wait in it.
struct Waiting {
    queue: Queue,
    slab: Slab,
}

impl Waiting {
    fn new() -> Waiting {
        Waiting {
            queue: Queue::new(),
            slab: Slab::default(),
        }
    }

    fn push(&mut self, now: Time, flow: u64, packet: &[u8]) {
        let stored = (self.slab).store(packet.len(), |out| out.copy_from_slice(packet));
        self.queue.push(&mut self.slab, now, flow, stored);
    }

    fn pop(&mut self, now: Time) -> Option<Vec<u8>> {
        let packet = self.queue.pop(&mut self.slab, now)?;
        let bytes = self.slab.bytes(&packet).to_vec();
        self.slab.release(packet);
        assert_eq!(self.slab.holders(), self.queue.packets());
        Some(bytes)
    }
}

fn v4(tos: u8) -> Vec<u8> {
    let mut packet = vec![0; 1000];
    packet[0] = 0x45;
    packet[1] = tos;
    let sum = checksum::Sum::of(&packet[..20]).checksum();
    put_u16(&mut packet, 10, sum);
    packet
}

#[test]
fn flows_take_turns_and_a_new_one_goes_first() {
    let mut waiting = Waiting::new();
    for _ in 0..10 {
        waiting.push(at(0), 1, &[1; 1400]);
        waiting.push(at(0), 2, &[2; 1400]);
    }
    let mut order: Vec<u8> = (0..8)
        .filter_map(|_| waiting.pop(at(1)).map(|packet| packet[0]))
        .collect();
    waiting.push(at(1), 3, &[3; 100]);
    order.extend(waiting.pop(at(1)).map(|packet| packet[0]));
    assert_eq!(order[8], 3);
    for flow in [1, 2] {
        let count = order[..8].iter().filter(|&&byte| byte == flow).count();
        assert!((3..=5).contains(&count), "{order:?}");
    }
}

#[test]
fn small_and_large_packets_share_bytes() {
    let mut waiting = Waiting::new();
    for _ in 0..1000 {
        waiting.push(at(0), 1, &[1; 100]);
        waiting.push(at(0), 2, &[2; 1400]);
    }
    let mut bytes = [0; 3];
    while bytes.iter().sum::<usize>() < 100_000 {
        let packet = waiting.pop(at(1)).unwrap();
        bytes[usize::from(packet[0])] += packet.len();
    }
    assert!(bytes[1].abs_diff(bytes[2]) < 4000, "{bytes:?}");
}

/// Serves a packet each millisecond while two arrive, and returns what was lost.
fn overload(packet: &[u8], ms: u64) -> (Waiting, Losses) {
    let mut waiting = Waiting::new();
    for now in 0..ms {
        let now = at(now * 1000);
        waiting.push(now, 1, packet);
        waiting.push(now, 1, packet);
        waiting.pop(now);
    }
    let losses = waiting.queue.losses();
    (waiting, losses)
}

#[test]
fn a_standing_queue_is_dropped_from_and_a_short_one_is_not() {
    assert_eq!(overload(&v4(ecn::NOT_ECT), 80).1, Losses::default());
    let (_, losses) = overload(&v4(ecn::NOT_ECT), 1000);
    assert!(losses.late > 10 && losses.marked == 0, "{losses:?}");
}

/// Lets every packet wait for this long, one a millisecond, and says how many were dropped. The path's
/// round trip of 20 ms allows a wait of 10 ms.
fn dropped_after(wait_ms: u64, added_ms: u64) -> u64 {
    let mut waiting = Waiting::new();
    let ms = Duration::from_millis;
    waiting.queue.set_round_trip(ms(20), ms(added_ms));
    for now in 0..wait_ms + 1000 {
        waiting.push(at(now * 1000), 1, &v4(ecn::NOT_ECT));
        if now >= wait_ms {
            waiting.pop(at(now * 1000));
        }
    }
    let losses = waiting.queue.losses();
    assert_eq!((losses.overflowed, losses.marked), (0, 0));
    losses.late
}

#[test]
fn the_wait_for_a_slower_path_is_allowed_and_no_more() {
    for added_ms in [0, 30, 100, 400] {
        assert_eq!(dropped_after(added_ms + 9, added_ms), 0, "{added_ms}");
        assert!(dropped_after(added_ms + 11, added_ms) > 0, "{added_ms}");
    }
}

#[test]
fn a_slower_path_adds_half_a_second_of_patience_at_most() {
    for added_ms in [500, 501, 5000] {
        assert_eq!(dropped_after(509, added_ms), 0, "{added_ms}");
        assert!(dropped_after(511, added_ms) > 0, "{added_ms}");
    }
}

#[test]
fn a_packet_with_fewer_than_four_behind_it_is_not_dropped() {
    for (behind, is_standing) in [(3, false), (4, true)] {
        let mut waiting = Waiting::new();
        for _ in 0..behind {
            waiting.push(at(0), 1, &[0; QUANTUM as usize]);
        }
        // Each waits for as many times 100 ms as there are before it.
        for turn in 1..50 {
            waiting.push(at(turn * 100_000), 1, &[0; QUANTUM as usize]);
            waiting.pop(at(turn * 100_000));
        }
        assert_eq!(waiting.queue.losses().late > 0, is_standing, "{behind}");
    }
}

#[test]
fn ecn_capable_packets_are_marked_and_stay_intact() {
    let (mut waiting, losses) = overload(&v4(ecn::ECT_0), 1000);
    assert!(losses.marked > 10 && losses.late == 0, "{losses:?}");
    let mut seen = 0;
    while let Some(packet) = waiting.pop(at(2_000_000)) {
        assert!(checksum::Sum::of(&packet[..20]).is_intact());
        seen += u32::from(packet[1] == ecn::CE);
    }
    assert!(seen > 0);
    let mut v6 = vec![0x60, 0x20];
    assert!(mark(&mut v6));
    assert_eq!(v6, [0x60, 0x30]);
    assert!(!mark(&mut [0x60, 0x0f]));
}

#[test]
fn the_longest_flow_pays_when_it_is_full() {
    let mut waiting = Waiting::new();
    waiting.push(at(0), 2, &[2; 1400]);
    for _ in 0..MAX_PACKETS + 100 {
        waiting.push(at(0), 1, &[1; 1400]);
    }
    let Waiting {
        mut queue,
        mut slab,
    } = waiting;
    assert!(queue.packets() <= MAX_PACKETS && queue.bytes() <= MAX_BYTES);
    assert!(queue.losses().overflowed > 0);
    assert!(queue.holds(2));
    assert_eq!(slab.holders(), queue.packets());
    queue.clear(&mut slab);
    assert_eq!((slab.holders(), queue.packets()), (0, 0));
}

proptest! {
    /// Packets come out once each, those of a flow in order, or are counted as lost.
    #[test]
    fn nothing_vanishes_and_flows_keep_their_order(
        steps in proptest::collection::vec((0..6u64, 20..1500usize, 0..3u32), 1..600),
        gap_us in 1..20_000u64,
    ) {
        let mut waiting = Waiting::new();
        let (mut number, mut out) = (0u32, 0u64);
        let mut last = [0; 6];
        let pushed = steps.len() as u64;
        let mut pop = |waiting: &mut Waiting, now: Time| {
            waiting.pop(now).map(|packet| {
                let flow = usize::from(packet[1]);
                let number = u32::from_be_bytes([packet[16], packet[17], packet[18], packet[19]]);
                assert!(number > last[flow]);
                last[flow] = number;
            })
        };
        for (step, (flow, len, pops)) in (0..).zip(steps) {
            let now = at(step * gap_us);
            number += 1;
            let mut packet = vec![0; len];
            packet[1] = flow as u8;
            packet[16..20].copy_from_slice(&number.to_be_bytes());
            waiting.push(now, flow, &packet);
            for _ in 0..pops {
                out += u64::from(pop(&mut waiting, now).is_some());
            }
        }
        while pop(&mut waiting, at(u64::MAX / 4000)).is_some() {
            out += 1;
        }
        prop_assert_eq!(out + waiting.queue.losses().late, pushed);
        prop_assert!(waiting.queue.is_empty() && waiting.queue.bytes() == 0);
        prop_assert_eq!(waiting.slab.holders(), 0);
    }
}

//! What the packets of all peers take out of one pool.

use std::time::Duration;

use allocation_counter::measure;
use proptest::prelude::*;

use super::SECOND;
use super::world::{Spec, World, address};
use crate::control::TunnelStatus;
use crate::control::drops::DropReason;
use crate::hub::HubNews;
use crate::send::scheduler::Policy;

const MILLISECOND: Duration = Duration::from_millis(1);
const CLIENTS: usize = 8;
/// What the hub's lines have for all of them, in bytes: an eighth of what they would hold.
const MEMORY: usize = 8 << 20;
/// What remains when the pool was full, for each.
const EVEN_SHARE: usize = MEMORY / 16 * 15 / CLIENTS;
/// The length of packets, in bytes.
const LEN: u16 = 1300;

fn up(clients: usize, memory: usize) -> World {
    let mut world = World::with_memory(&vec![Spec::default(); clients], memory);
    world.run_for(2 * SECOND);
    world
}

/// Sends these clients more than their paths take, so many times 10 ms long, and returns the most that all held.
fn flood_out(world: &mut World, clients: &[usize], rounds: usize) -> usize {
    let mut most = 0;
    for _ in 0..rounds {
        for &client in clients {
            world.send_to(client, (600, LEN));
            most = most.max(held_out(world));
        }
        world.run_for(10 * MILLISECOND);
        most = most.max(held_out(world));
    }
    most
}

/// The same, and then they report nothing: what is sent is kept, and what is not waits.
fn fill_out(world: &mut World, clients: &[usize]) -> usize {
    let before = flood_out(world, clients, 30);
    for &client in clients {
        world.clients[client].is_mute = true;
    }
    before.max(flood_out(world, clients, 15))
}

/// These clients leave a gap and send so many packets a millisecond behind it, which are held; returns the most that the hub
/// held of all.
fn fill_in(world: &mut World, clients: &[usize], packets: u64) -> usize {
    for &client in clients {
        leave_a_gap(world, client);
    }
    let mut most = 0;
    for _ in 0..200 {
        for &client in clients {
            world.send_long(client, address(client), address(client), (packets, LEN));
        }
        world.run_for(MILLISECOND);
        most = most.max(held_in(world));
    }
    most
}

/// One number is lost, and nothing tells that it does not come.
fn leave_a_gap(world: &mut World, client: usize) {
    let sender = &mut world.clients[client];
    (sender.loses_second, sender.loses) = (true, 1);
    sender.outbound.set_policy(Policy::Backup);
    sender.outbound.set_recovery(false);
}

/// What a line holds of all peers, in bytes, which is what it thinks that it is.
fn checked((sum, held): (usize, Vec<usize>)) -> usize {
    assert_eq!(sum, held.iter().sum::<usize>());
    sum
}

fn held_out(world: &World) -> usize {
    checked(world.hub_outbound.held())
}

fn held_in(world: &World) -> usize {
    checked(world.hub_inbound.held())
}

fn kept(world: &mut World, client: usize) -> u64 {
    let mut status = TunnelStatus::default();
    let slot = world.slots[client];
    world.hub_outbound.peer(slot).unwrap().report(&mut status);
    status.recovery.memory_bytes + status.queue_bytes
}

fn overflowed(world: &mut World, client: usize) -> u64 {
    let slot = world.slots[client];
    let inbound = world.hub_inbound.peer(slot).unwrap();
    inbound.report_reorder().gaps_overflowed
}

/// What a busy peer takes at the hub beside its packets, in bytes: notes on what was sent, and what an idle one takes.
const BESIDE: usize = 750_000;

/// The hub is stopped: the bytes that this frees, to be compared with those that both lines held.
fn stop(world: &mut World) -> (usize, usize) {
    let held = held_out(world) + held_in(world);
    let freed = measure(|| world.stop_hub()).bytes_current;
    (usize::try_from(-freed).unwrap(), held)
}

#[test]
fn peers_that_all_hold_what_they_can_stay_within_the_pool_and_share_it_evenly() {
    let all: Vec<usize> = (0..CLIENTS).collect();
    let (mut bounded, mut free) = (up(CLIENTS, MEMORY), up(CLIENTS, usize::MAX));
    let [out, out_free] = [&mut bounded, &mut free].map(|world| fill_out(world, &all));
    assert!(out_free > 10 * MEMORY, "they would hold {out_free}");
    assert!(out <= MEMORY, "{out}");
    let (_, held) = bounded.hub_outbound.held();
    let least = held.iter().min().unwrap();
    assert!(*least > EVEN_SHARE / 10 * 9, "{held:?}");
    for world in [&mut bounded, &mut free] {
        let (taken, held) = stop(world);
        assert!(taken < held + CLIENTS * BESIDE, "{taken}, and not {held}");
    }

    let (mut bounded, mut free) = (up(CLIENTS, MEMORY), up(CLIENTS, usize::MAX));
    let [within, within_free] = [&mut bounded, &mut free].map(|world| fill_in(world, &all, 25));
    assert!(within_free > 6 * MEMORY, "they would hold {within_free}");
    assert!(within <= MEMORY, "{within}");
    for world in [&mut bounded, &mut free] {
        let (taken, held) = stop(world);
        assert!(taken < held + CLIENTS * BESIDE, "{taken}, and not {held}");
    }
    println!(
        "{CLIENTS} peers hold {} kB out and {} kB in, of {} each, where they would hold {} and {}",
        out / 1000,
        within / 1000,
        MEMORY / 1000,
        out_free / 1000,
        within_free / 1000,
    );
}

#[test]
fn a_peer_within_its_share_loses_nothing_while_the_others_take_all_they_can() {
    let others: Vec<usize> = (1..CLIENTS).collect();
    let mut world = up(CLIENTS, MEMORY);
    assert!(flood_out(&mut world, &others, 30) > MEMORY / 16 * 15);
    world.clients[0].is_mute = true;
    world.send_to(0, (600, LEN));
    let before = kept(&mut world, 0);
    assert!(before > EVEN_SHARE as u64 * 7 / 10, "{before}");
    fill_out(&mut world, &others);
    assert_eq!(kept(&mut world, 0), before);
    assert!(kept(&mut world, 1) < 2 * EVEN_SHARE as u64);

    let mut world = up(CLIENTS, MEMORY);
    leave_a_gap(&mut world, 0);
    world.send_long(0, address(0), address(0), (300, LEN));
    assert!(fill_in(&mut world, &others, 25) > MEMORY / 16 * 15);
    assert_eq!(overflowed(&mut world, 0), 0);
    assert!(overflowed(&mut world, 1) > 0);
    world.run_for(SECOND);
    // All but the one that was lost.
    assert_eq!(world.clients[0].delivered, 299);
}

#[test]
fn one_peer_alone_has_what_it_would_have_without_a_pool() {
    /// What the daemon gives a line at least.
    const LEAST: usize = 64 << 20;
    let seen = |memory| {
        let mut world = up(2, memory);
        let out = fill_out(&mut world, &[0]);
        let within = fill_in(&mut world, &[1], 120);
        let slot = world.slots[1];
        let reorder = world.hub_inbound.peer(slot).unwrap().report_reorder();
        let totals = (world.hub_outbound.total(), world.hub_inbound.total().drops);
        (out, within, reorder, totals)
    };
    let (bounded, free) = (seen(LEAST), seen(usize::MAX));
    println!(
        "one alone holds {} kB out and {} kB in",
        free.0 / 1000,
        free.1 / 1000
    );
    assert!(free.0 > 13 << 20 && free.1 > 32 << 20, "{free:?}");
    assert_eq!(format!("{bounded:?}"), format!("{free:?}"));
}

#[test]
fn what_is_given_back_is_delivered_or_counted() {
    let all: Vec<usize> = (0..CLIENTS).collect();
    let dropped = |world: &World| -> u64 { world.hub_drops().iter().map(|(_, count)| count).sum() };
    for memory in [MEMORY, 300_000] {
        let mut world = up(CLIENTS, memory);
        flood_out(&mut world, &all, 30);
        world.run_for(2 * SECOND);
        let delivered: u64 = world.clients.iter().map(|client| client.delivered).sum();
        let (sent, lost) = (30 * 600 * CLIENTS as u64, dropped(&world));
        assert!(lost > sent / 10);
        assert_eq!(delivered + lost, sent, "{:?}", world.hub_drops());

        let mut world = up(CLIENTS, memory);
        fill_in(&mut world, &all, 25);
        world.run_for(2 * SECOND);
        let delivered: u64 = world.clients.iter().map(|client| client.delivered).sum();
        // Of each client one packet is lost on the way.
        let sent = (200 * 25 - 1) * CLIENTS as u64;
        assert_eq!(delivered + dropped(&world), sent, "{:?}", world.hub_drops());
    }
}

#[test]
fn a_window_gives_back_as_much_as_is_asked_and_holds_the_rest() {
    let mut world = up(1, usize::MAX);
    for _ in 0..100 {
        leave_a_gap(&mut world, 0);
        world.send_long(0, address(0), address(0), (50, LEN));
        world.run_for(MILLISECOND);
    }
    let (now, slot) = (world.now, world.slots[0]);
    let inbound = world.hub_inbound.peer(slot).unwrap();
    let before = (inbound.memory(), inbound.report_reorder());
    assert!(!inbound.give_back(now, before.0));
    assert!(inbound.give_back(now, before.0 / 3));
    let mut delivered = 0;
    inbound.drain_tun(|_, _| {
        delivered += 1;
        true
    });
    let after = inbound.report_reorder();
    let third = before.0 / 4..=before.0 / 3;
    assert!(
        third.contains(&inbound.memory()),
        "{before:?}, {}",
        inbound.memory()
    );
    assert_eq!(after.held + delivered, before.1.held);
    assert!((50..80).contains(&after.gaps_overflowed), "{after:?}");
    assert!(after.window < before.1.window, "{before:?}, {after:?}");
    // All of it is there to be given.
    assert!(inbound.give_back(now, 0));
    inbound.drain_tun(|_, _| true);
    assert!(!inbound.give_back(now, 0) && inbound.memory() == 0);
}

#[test]
fn who_is_away_or_forgotten_holds_nothing() {
    let mut world = up(3, usize::MAX);
    fill_out(&mut world, &[0, 1, 2]);
    let before = held_out(&world);
    world.hub_outbound.forget_peer(world.slots[2]);
    assert!(held_out(&world) < before / 4 * 3);
    let ends = HubNews::Ends(world.slots[1]);
    world.hub_outbound.learn(world.now, ends);
    assert!(held_out(&world) < before / 2);
    // Two that say nothing any more.
    world.run_for(200 * SECOND);
    assert!(world.hub_inbound.present().is_empty());
    assert_eq!((held_out(&world), held_in(&world)), (0, 0));
}

#[test]
fn what_waits_of_a_peer_that_goes_is_counted() {
    let mut world = up(3, usize::MAX);
    fill_out(&mut world, &[0, 1]);
    leave_a_gap(&mut world, 2);
    for _ in 0..50 {
        world.send_long(2, address(2), address(2), (4, LEN));
        world.run_for(MILLISECOND);
    }
    let waits = |world: &mut World, client: usize| {
        let mut status = TunnelStatus::default();
        let slot = world.slots[client];
        world.hub_outbound.peer(slot).unwrap().report(&mut status);
        status.queue_packets
    };
    let counted = |world: &World, why: DropReason| {
        let drops = world.hub_drops();
        drops.iter().find(|(of, _)| *of == why).map_or(0, |of| of.1)
    };
    let gone = [DropReason::PeerAway, DropReason::NoPeer].map(|why| counted(&world, why));
    let waiting = [0, 1].map(|client| waits(&mut world, client));
    assert!(waiting.iter().all(|&packets| packets > 100), "{waiting:?}");
    let ends = HubNews::Ends(world.slots[0]);
    world.hub_outbound.learn(world.now, ends);
    world.hub_outbound.forget_peer(world.slots[1]);
    let now = [DropReason::PeerAway, DropReason::NoPeer].map(|why| counted(&world, why));
    assert_eq!([0, 1].map(|of| now[of] - gone[of]), waiting);
    let slot = world.slots[2];
    let held = world.hub_inbound.peer(slot).unwrap().held();
    assert!(held > 100, "{held}");
    let before = counted(&world, DropReason::NotAllowed);
    world.hub_inbound.remove_peer(slot);
    assert_eq!(counted(&world, DropReason::NotAllowed) - before, held);
}

#[derive(Debug, Clone)]
enum Step {
    ToClient(usize, u64, u16),
    FromClient(usize, u64, u16),
    Gap(usize),
    Mute(usize, bool),
    Off(usize, bool),
    Remove(usize),
    Restart,
    Wait(Duration),
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..4usize;
    let packets = || (client(), 1..500u64, 64..1400u16);
    prop_oneof![
        8 => packets().prop_map(|(client, packets, len)| Step::ToClient(client, packets, len)),
        8 => packets().prop_map(|(client, packets, len)| Step::FromClient(client, packets, len)),
        2 => client().prop_map(Step::Gap),
        2 => (client(), any::<bool>()).prop_map(|(client, is)| Step::Mute(client, is)),
        1 => (client(), any::<bool>()).prop_map(|(client, is)| Step::Off(client, is)),
        1 => client().prop_map(Step::Remove),
        1 => Just(Step::Restart),
        8 => (0..50u64).prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
        2 => (0..10u64).prop_map(|s| Step::Wait(Duration::from_secs(s))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever peers send and are sent, and however they come, rest and go: the sum is what they hold, and in the pool.
    #[test]
    fn the_sum_is_what_peers_hold(steps in prop::collection::vec(step(), 1..60)) {
        const SMALL: usize = 1 << 20;
        let mut world = up(4, SMALL);
        for step in steps {
            match step {
                Step::ToClient(client, packets, len) => world.send_to(client, (packets, len)),
                Step::FromClient(client, packets, len) => {
                    let to = address((client + 1) % 4);
                    world.send_long(client, address(client), to, (packets, len));
                }
                Step::Gap(client) => leave_a_gap(&mut world, client),
                Step::Mute(client, is) => world.clients[client].is_mute = is,
                Step::Off(client, is) => world.clients[client].is_off = is,
                Step::Remove(client) => world.remove(client),
                Step::Restart => world.restart_hub(),
                Step::Wait(span) => world.run_for(span),
            }
            prop_assert!(held_out(&world) <= SMALL);
            prop_assert!(held_in(&world) <= SMALL);
        }
    }
}

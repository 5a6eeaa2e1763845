//! A hub and clients in virtual time: links without loss, a delay each.

mod floods;
mod memory;
mod sockets;
mod workers;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use allocation_counter::measure;
use world::{Spec, World, address};

use crate::control::PathState;
use crate::control::drops::DropReason;
use crate::hub::{Came, HubSlot};
use crate::path::PathId;
use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);

fn path(index: usize) -> PathId {
    PathId::new(index).unwrap()
}

#[test]
fn three_clients_of_two_paths_reach_the_hub_and_each_other_and_tell_their_paths_names() {
    let mut world = World::new(&[Spec::default(), Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    for client in 0..3 {
        let paths = world.paths_at_hub(client);
        let told: Vec<_> = paths.iter().map(|path| path.peer_name.as_deref()).collect();
        assert_eq!(told, [Some("fibre"), Some("lte")], "client {client}");
        assert!(paths.iter().all(|path| path.state == PathState::Up));
        for to in 0..3 {
            if to != client {
                world.send(client, address(client), address(to), 100);
            }
        }
    }
    world.run_for(SECOND);
    for client in 0..3 {
        assert_eq!(world.clients[client].delivered, 200, "client {client}");
    }
    assert_eq!(world.hub_drops(), []);
}

#[test]
fn an_inner_source_that_is_not_the_peer_s_is_dropped_and_counted_and_holds_nothing_up() {
    let mut world = World::new(&[Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    for _ in 0..50 {
        world.send(0, address(1), address(1), 1);
        world.send(0, address(0), address(1), 1);
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(SECOND);
    assert_eq!(world.clients[1].delivered, 50);
    assert_eq!(world.hub_drops(), [(DropReason::NotAllowed, 50)]);
}

#[test]
fn who_has_the_rest_may_send_from_all_that_no_other_has_at_that_time() {
    let rest = Spec {
        has_rest: true,
        ..Spec::default()
    };
    let mut world = World::new(&[rest, Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    let taken = |world: &mut World, from| {
        let before = world.clients[1].delivered;
        world.send(0, from, address(1), 5);
        world.run_for(SECOND);
        world.clients[1].delivered - before
    };
    let elsewhere = "192.0.2.1".parse().unwrap();
    assert_eq!(taken(&mut world, elsewhere), 5);
    assert_eq!(taken(&mut world, address(0)), 5);
    assert_eq!(taken(&mut world, address(2)), 0);
    // What was another's is of the rest when he has gone.
    world.remove(2);
    assert_eq!(taken(&mut world, address(2)), 5);
    // And who else sends has his own alone, before and after.
    world.send(1, elsewhere, address(0), 1);
    world.run_for(SECOND);
    let drops = world.hub_drops();
    assert!(drops.contains(&(DropReason::NotAllowed, 6)), "{drops:?}");
}

#[test]
fn one_key_on_two_hosts_changes_hands_no_faster_than_every_five_seconds() {
    let twin = Spec {
        twin_of: Some(0),
        ..Spec::default()
    };
    let mut world = World::new(&[Spec::default(), twin, Spec::default()]);
    world.run_for(2 * SECOND);
    let before = world.restarts(0);
    for _ in 0..300 {
        for client in [0, 1] {
            world.send(client, address(0), address(2), 1);
        }
        world.send(2, address(2), address(0), 1);
        world.run_for(Duration::from_millis(100));
    }
    let changes = world.restarts(0) - before;
    assert!((2..=7).contains(&changes), "{changes} in 30 s");
}

#[test]
fn a_peer_that_is_taken_away_in_mid_traffic_is_gone_and_the_others_go_on() {
    let mut world = World::new(&[Spec::default(), Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    for round in 0..100 {
        if round == 50 {
            world.remove(1);
        }
        for client in 0..3 {
            world.send(client, address(client), address((client + 1) % 3), 1);
        }
        world.run_for(Duration::from_millis(2));
    }
    world.run_for(SECOND);
    let delivered: Vec<_> = world
        .clients
        .iter()
        .map(|client| client.delivered)
        .collect();
    // From 2 to 0 all; from 0 to 1 and from 1 to 2 until it was taken away.
    assert_eq!(delivered[0], 100);
    assert!((40..=50).contains(&delivered[1]), "{delivered:?}");
    assert!((40..=50).contains(&delivered[2]), "{delivered:?}");
    let drops = world.hub_drops();
    for why in [DropReason::NoPeer, DropReason::UnknownSession] {
        assert!(drops.iter().any(|(known, _)| *known == why), "{drops:?}");
    }
}

#[test]
fn all_come_back_by_themselves_when_the_hub_has_restarted() {
    let mut world = World::new(&vec![Spec::default(); 20]);
    world.run_for(2 * SECOND);
    world.restart_hub();
    world.run_for(4 * SECOND);
    for client in 0..20 {
        world.send(client, address(client), address((client + 1) % 20), 10);
    }
    world.run_for(SECOND);
    for client in &world.clients {
        assert_eq!(client.delivered, 10);
    }
}

/// So it is with many who call a hub that cannot keep up: what they agreed the hub has replaced, and nothing more of
/// it arrives until they are idle.
#[test]
fn a_client_whose_keys_are_nobody_s_when_it_falls_idle_before_a_path_was_up_calls_again() {
    let mut world = World::new(&[Spec::default()]);
    world.run_for(Duration::from_millis(15));
    // The hub has answered; the client hears that, and is not heard any more.
    world.clients[0].is_mute = true;
    world.run_for(10 * SECOND);
    world.restart_hub();
    world.clients[0].is_mute = false;
    world.run_for(12 * SECOND);
    let paths = world.paths_at_hub(0);
    assert_eq!(paths.len(), 2);
    assert!(paths.iter().all(|path| path.state == PathState::Up));
}

#[test]
fn who_is_no_peer_gets_no_answer_and_leaves_nothing_behind() {
    let stranger = Spec {
        is_stranger: true,
        ..Spec::default()
    };
    let mut world = World::new(&[stranger]);
    world.run_for(5 * SECOND);
    assert_eq!(world.clients[0].heard, 0);
    assert!(world.hub_inbound.present().is_empty());
    assert!(world.hub_inbound.public_keys().1.is_some());
}

#[test]
fn a_peer_that_is_away_costs_nothing_and_who_sends_to_it_is_told() {
    let mut world = World::new(&[Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    world.clients[1].is_off = true;
    world.run_for(200 * SECOND);
    assert_eq!(world.hub_inbound.present(), [world.slots[0]]);
    assert_eq!(world.hub_outbound.present(), [world.slots[0]]);
    world.sent_to[1] = 0;
    world.run_for(60 * SECOND);
    assert_eq!(world.sent_to[1], 0);
    world.send(0, address(0), address(1), 1);
    world.run_for(SECOND);
    assert_eq!(world.clients[0].unreachable, 1);
    world.clients[1].is_off = false;
    world.run_for(10 * SECOND);
    world.send(0, address(0), address(1), 5);
    world.run_for(SECOND);
    assert_eq!(world.clients[1].delivered, 5);
}

/// Both paths call one socket.
#[test]
fn what_answers_a_handshake_counts_on_the_path_that_it_answers() {
    let mut world = World::new(&[Spec {
        sockets: [1, 1],
        ..Spec::default()
    }]);
    world.records = true;
    world.run_for(2 * SECOND);
    world.records = false;
    let sent = |world: &mut World| {
        let paths = world.paths_at_hub(0);
        [0, 1].map(|path: usize| paths[path].control_tx_bytes)
    };
    let before = sent(&mut world);
    world.repeat_initiations();
    world.run_for(Duration::from_millis(15));
    let now = sent(&mut world);
    let [first, second] = [0, 1].map(|path| now[path] - before[path]);
    let response = (20 + 8 + 4 + crate::crypto::RESPONSE_BYTES) as u64;
    assert!(first > 0 && first % response == 0, "{first}");
    assert_eq!(first, second);
}

#[test]
fn an_initiation_that_comes_again_after_the_peer_was_away_is_old() {
    let mut world = World::new(&[Spec::default()]);
    world.records = true;
    world.run_for(2 * SECOND);
    world.records = false;
    world.clients[0].is_off = true;
    world.run_for(200 * SECOND);
    assert!(world.hub_inbound.present().is_empty());
    world.repeat_initiations();
    world.run_for(SECOND);
    assert!(world.hub_inbound.present().is_empty());
    assert!(
        world
            .hub_drops()
            .iter()
            .any(|(why, _)| *why == DropReason::Replayed)
    );
    let peer = world.hub_inbound.summary(world.slots[0]).unwrap();
    assert!(peer.drops.of(DropReason::Replayed) > 0);
}

/// What an idle peer of two paths may take at the hub, in bytes: 1,000 of them fit 128 MiB with room for what the
/// allocator loses.
const IDLE_PEER: i64 = 100_000;

#[test]
fn an_idle_peer_takes_little_memory_and_one_that_was_busy_gives_most_of_it_back() {
    const CLIENTS: usize = 8;
    let mut world = World::new(&vec![Spec::default(); CLIENTS]);
    world.run_for(30 * SECOND);
    // Of the clients' memory nothing is asked: they have theirs.
    world.stop_hub();
    let idle = measure(|| {
        world.restart_hub();
        world.run_for(40 * SECOND);
    });
    assert_eq!(world.hub_inbound.present().len(), CLIENTS);
    let each = idle.bytes_current / CLIENTS as i64;
    println!("an idle peer of two paths takes {} kB", each / 1000);
    assert!((10_000..IDLE_PEER).contains(&each), "{each} bytes");

    let mut delivered = 0;
    let busy = measure(|| {
        for _ in 0..200 {
            for client in 0..CLIENTS {
                world.send(client, address(client), address((client + 1) % CLIENTS), 8);
            }
            world.run_for(Duration::from_millis(5));
        }
        world.run_for(SECOND);
        delivered = world.clients.iter().map(|client| client.delivered).sum();
        world.run_for(60 * SECOND);
    });
    assert!(delivered > 12_000, "{delivered}");
    let each = busy.bytes_current / CLIENTS as i64;
    println!(
        "a minute after it was busy it takes {} kB more than before",
        each / 1000
    );
    assert!(each < IDLE_PEER, "{each} bytes more than before");
}

#[test]
fn a_hub_does_not_measure_order_which_it_tells_nobody() {
    let mut world = World::new(&[Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    world.send(0, address(0), address(1), 20);
    world.run_for(SECOND);
    assert_eq!(world.clients[1].delivered, 20);
    let slot = world.slots[0];
    let peer = world.hub_inbound.peer(slot).unwrap();
    let order = peer.report_order(Time::ZERO, |_| None);
    for point in [order.arriving, order.leaving] {
        assert_eq!(point.since_start.reordering.received, 0);
    }
}

#[test]
fn a_peer_s_rate_limit_holds_in_each_direction_and_touches_no_other() {
    let mut world = World::new(&[Spec::default(), Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    world.limit(0, Some(1_000_000));
    // From the limited one, to it, and past it: 4 Mbit/s each, packets of 200 bytes.
    let offered = |world: &mut World| {
        let before = [0, 1, 2].map(|client| world.clients[client].delivered);
        for _ in 0..500 {
            for (from, to) in [(0, 1), (1, 0), (1, 2)] {
                world.send(from, address(from), address(to), 25);
            }
            world.run_for(Duration::from_millis(10));
        }
        world.run_for(SECOND);
        let now = [0, 1, 2].map(|client| world.clients[client].delivered);
        [0, 1, 2].map(|client| now[client] - before[client])
    };
    let all = 500 * 25;
    // A second more than the five, perhaps, that the last packets wait for; and a burst of two super-packets.
    let least = 5 * 125_000 / 200;
    let most = (6 * 125_000 + 2 * 65_536) / 200;
    let [of_0, of_1, of_2] = offered(&mut world);
    assert!((least..=most).contains(&of_0), "{of_0} to it");
    assert!((least..=most).contains(&of_1), "{of_1} from it");
    assert_eq!(of_2, all);
    let dropped = 2 * all - of_0 - of_1;
    assert_eq!(world.hub_drops(), [(DropReason::RateLimit, dropped)]);
    world.limit(0, None);
    assert_eq!(offered(&mut world), [all, all, all]);
    // It holds when the peer has called anew, too.
    world.limit(0, Some(1_000_000));
    world.restart_hub();
    world.limit(0, Some(1_000_000));
    world.run_for(10 * SECOND);
    let [_, of_1, _] = offered(&mut world);
    assert!((least..=most).contains(&of_1), "{of_1} after a restart");
}

#[test]
fn what_waits_of_a_peer_that_is_taken_away_is_counted_at_once() {
    let mut world = World::new(&[Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    world.handles = Some(1);
    for _ in 0..100 {
        world.send(0, address(0), address(1), 20);
        world.run_for(Duration::from_millis(1));
    }
    assert!(world.hub_inbound.is_waiting());
    let shares = |world: &World| world.hub_inbound.total().drops.of(DropReason::PeerShare);
    let before = shares(&world);
    world.hub_inbound.remove_peer(world.slots[0]);
    assert!(shares(&world) > before + 100, "{before}");
}

#[test]
fn two_peers_may_exchange_keys_in_one_change() {
    let mut world = World::new(&[Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    let slots = world.slots.clone();
    for (slot, other) in [(slots[0], 1), (slots[1], 0)] {
        world.hub_inbound.set_peer(slot, world::caller_keys(other));
    }
    world.run_for(5 * SECOND);
    assert_eq!(world.hub_inbound.present(), slots);
    // Who is taken away takes his key along.
    world.hub_inbound.remove_peer(slots[0]);
    world.run_for(5 * SECOND);
    assert_eq!(world.hub_inbound.present(), slots[1..]);
}

/// The two lines hear of a change one after the other, and a peer may call in between.
#[test]
fn who_calls_between_the_lines_hearing_of_a_change_gets_his_own_and_nothing_of_another() {
    let [first, next] = [0, 9].map(|number| world::caller_keys(number).public_key);
    for line_out_is_first in [true, false] {
        let mut world = World::new(&[Spec::default(), Spec::default()]);
        let slot = world.slots[0];
        let (before, after) = match line_out_is_first {
            true => (first, next),
            false => (next, first),
        };
        world.hub_outbound.set_peer(slot, before);
        let change = |world: &mut World| {
            world.hub_outbound.forget_peer(slot);
            world.hub_outbound.set_peer(slot, after);
        };
        if line_out_is_first {
            // Another has his place and his addresses, and he calls once more.
            change(&mut world);
        }
        world.run_for(2 * SECOND);
        assert!(world.hub_inbound.peer(slot).unwrap().is_up());
        if !line_out_is_first {
            // He has called before the line out knew that the place is his.
            assert!(world.hub_outbound.peer(slot).is_none());
            change(&mut world);
        }
        world.send(1, address(1), address(0), 20);
        world.run_for(SECOND);
        let due = if line_out_is_first { 0 } else { 20 };
        assert_eq!(world.clients[0].delivered, due, "{line_out_is_first}");
    }
}

#[test]
fn what_was_counted_of_all_does_not_fall_when_a_peer_goes_or_gets_another_key() {
    let mut world = World::new(&[Spec::default(), Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    world.send(1, address(1), address(0), 100);
    world.send(0, address(0), address(1), 10);
    world.send(0, address(2), address(1), 1);
    world.run_for(SECOND);
    let counted = |world: &World| {
        let (packets, bytes, _) = world.hub_outbound.total();
        let total = world.hub_inbound.total();
        (total.rx_packets, total.rx_bytes, packets, bytes)
    };
    let before = counted(&world);
    assert_eq!((before.0, before.2), (110, 110));
    let slot = world.slots[0];
    world.hub_inbound.set_peer(slot, world::caller_keys(9));
    assert_eq!(counted(&world), before);
    world.remove(1);
    assert_eq!(counted(&world), before);
    assert_eq!(world.hub_drops(), [(DropReason::NotAllowed, 1)]);
}

#[test]
fn a_hub_whose_host_has_slept_agrees_keys_anew_with_who_is_there() {
    let mut world = World::new(&[Spec::default(), Spec::default()]);
    world.run_for(2 * SECOND);
    world.clients[1].is_off = true;
    world.resume_hub();
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.hub_inbound.present(), world.slots);
    assert!(world.hub_inbound.peer(world.slots[0]).unwrap().is_up());
    // Who does not answer is away, as after any other silence.
    world.run_for(10 * SECOND);
    assert_eq!(world.hub_inbound.present(), world.slots[..1]);
    assert_eq!(world.hub_drops(), []);
}

#[test]
fn an_empty_datagram_is_counted_whether_it_waits_or_not() {
    let mut world = World::new(&[]);
    let came = Came {
        socket: path(0),
        from: SocketAddr::from(([192, 0, 2, 1], 9)),
        tos: 0,
        segment_size: None,
        waited: Duration::ZERO,
    };
    world.hub_inbound.handle_datagram(Time::ZERO, came, &[]);
    world.hub_inbound.enqueue(Time::ZERO, came, &[]);
    assert_eq!(world.hub_drops(), [(DropReason::NotSealed, 2)]);
}

/// The adaptive senders of all clients, which find their rates by the delays that the hub's turns give them.
#[test]
fn clients_that_all_send_what_they_can_get_even_shares_of_a_slow_hub() {
    const CLIENTS: usize = 8;
    /// Packets in a millisecond that are a client's share.
    const SHARE: u64 = 4;
    let mut world = World::new(&vec![Spec::default(); CLIENTS]);
    world.run_for(2 * SECOND);
    world.handles = Some(CLIENTS as u64 * SHARE);
    let received = |world: &World| -> Vec<u64> {
        let summary = |slot: &HubSlot| world.hub_inbound.summary(*slot).unwrap();
        let slots = world.slots.iter();
        slots.map(|slot| summary(slot).rx_packets).collect()
    };
    let shares = |before: &[u64], now: &[u64]| {
        let got = now.iter().zip(before).map(|(now, before)| now - before);
        let got: Vec<u64> = got.collect();
        let mean = got.iter().sum::<u64>() / CLIENTS as u64;
        let least = got.iter().min().copied().unwrap_or(0);
        (mean, least as f64 / mean as f64)
    };
    let hub = Ipv4Addr::new(10, 99, 0, 1);
    let mut begun = Vec::new();
    for second in 0..4 {
        let before = received(&world);
        if second == 1 {
            begun.clone_from(&before);
        }
        for _ in 0..1000 {
            for client in 0..CLIENTS {
                world.send(client, address(client), hub, 3 * SHARE);
            }
            world.run_for(Duration::from_millis(1));
        }
        let (mean, least) = shares(&before, &received(&world));
        println!("second {second}: {mean} packets each, the least {least:.2} of that");
    }
    let (mean, least) = shares(&begun, &received(&world));
    println!("without the first: {mean} packets each, the least {least:.2} of that");
    assert!(mean * 100 >= 3000 * SHARE * 97, "{mean}");
    assert!(least >= 0.9, "{least}");
}

//! Peers and strangers that send more than a hub handles.

use super::*;

#[test]
fn a_peer_that_sends_more_than_a_slow_hub_handles_costs_another_nothing() {
    let mut world = World::new(&vec![Spec::default(); 4]);
    world.run_for(2 * SECOND);
    world.handles = Some(10);
    for _ in 0..1500 {
        world.send(0, address(0), address(2), 25);
        world.send(1, address(1), address(3), 2);
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(6 * SECOND);
    let [much, little] = [2, 3].map(|client| world.clients[client].delivered);
    assert!(little >= 2_970, "{little} of 3,000");
    assert!(much >= 8_000, "{much} of the 12,000 that are left");
    assert!(!world.hub_inbound.is_waiting());
}

/// For a second a flood, of which a slow hub cannot handle a fifth, comes beside 2,000 packets of a peer to another.
fn rush(flood: impl Fn(&mut World)) -> World {
    let mut world = World::new(&vec![Spec::default(); 2]);
    world.run_for(2 * SECOND);
    world.handles = Some(10);
    for _ in 0..1000 {
        flood(&mut world);
        world.send(0, address(0), address(1), 2);
        world.run_for(Duration::from_millis(1));
    }
    world
}

#[test]
fn a_flood_of_what_is_nobody_s_has_one_turn_among_the_peers_of_a_slow_hub() {
    let mut world = rush(|world| world.flood(50));
    world.run_for(SECOND);
    let delivered = world.clients[1].delivered;
    assert!(delivered >= 1_980, "{delivered} of 2,000");
    assert!(
        world.hub_inbound.is_waiting(),
        "it was more than is handled"
    );
}

#[test]
fn a_flood_that_names_a_peer_from_elsewhere_is_not_in_that_peer_s_turn() {
    let mut world = rush(|world| world.flood_as(0, 50));
    world.run_for(SECOND);
    let delivered = world.clients[1].delivered;
    assert!(delivered >= 1_980, "{delivered} of 2,000");
}

/// For a second the first of three clients sends so many reports in each millisecond, and 2,000 packets to the second, which sends
/// as many to the third.
fn reports_beside_packets(handles: Option<u64>, reports: u64) -> World {
    let mut world = World::new(&vec![Spec::default(); 3]);
    world.run_for(2 * SECOND);
    world.handles = handles;
    for _ in 0..1000 {
        world.report(0, reports);
        world.send(0, address(0), address(1), 2);
        world.send(1, address(1), address(2), 2);
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(SECOND);
    world
}

#[test]
fn of_a_peer_that_floods_a_hub_with_reports_few_are_opened_and_its_packets_pass() {
    let mut world = reports_beside_packets(None, 100);
    let delivered = [1, 2].map(|client| world.clients[client].delivered);
    assert_eq!(delivered, [2000; 2]);
    let shares = |world: &World| {
        [0, 1].map(|client| {
            let peer = world.hub_inbound.summary(world.slots[client]).unwrap();
            peer.drops.of(DropReason::PeerShare)
        })
    };
    // 1,024 at once and 5,000 in the second are opened.
    let [greedy, other] = shares(&world);
    assert!((93_800..94_200).contains(&greedy), "{greedy}");
    assert_eq!(other, 0);
    let paths = world.paths_at_hub(0);
    assert!(paths.iter().all(|path| path.state == PathState::Up));
    // It may send as many as ever when it has done with it.
    world.report(0, 500);
    world.run_for(SECOND);
    assert_eq!(shares(&world), [greedy, 0]);
}

#[test]
fn a_flood_of_reports_to_a_slow_hub_costs_another_nothing() {
    let world = reports_beside_packets(Some(12), 100);
    assert_eq!(world.clients[2].delivered, 2000);
    let peer = world.hub_inbound.summary(world.slots[0]).unwrap();
    let refused = peer.drops.of(DropReason::PeerShare);
    // Of those that wait most are given up (`Waiting`).
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn all_that_a_peer_of_many_paths_may_send_of_control_messages_is_opened() {
    let world = reports_beside_packets(None, 4);
    let shares = world.hub_inbound.total().drops.of(DropReason::PeerShare);
    assert_eq!(shares, 0);
    // What a path has held back comes at once.
    let mut world = World::new(&[Spec::default()]);
    world.run_for(2 * SECOND);
    world.report(0, 1000);
    world.run_for(SECOND);
    let shares = world.hub_inbound.total().drops.of(DropReason::PeerShare);
    assert_eq!(shares, 0);
}

#[test]
fn forged_control_messages_do_not_use_up_what_a_peer_may_send() {
    let mut world = World::new(&[Spec::default()]);
    world.run_for(2 * SECOND);
    for _ in 0..1000 {
        world.forge(0, 20);
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(SECOND);
    assert_eq!(world.hub_drops(), [(DropReason::Forged, 20_000)]);
}

#[test]
fn a_train_that_is_not_of_control_messages_alone_is_never_refused() {
    let mut world = reports_beside_packets(None, 100);
    world.report(0, 3000);
    // They come after that, and nothing is earned yet.
    world.run_for(Duration::from_millis(10));
    let inbound = world.hub_inbound.peer(world.slots[0]).unwrap();
    let message = world.clients[0].inbound.seal_control(path(0), &[1; 60]);
    let len = message.len();
    let mut data = vec![0; len];
    data[..4].copy_from_slice(&[0x30, 0, 0x88, 0xb6]);
    assert!(inbound.refuses(world.now, &message.repeat(3), len));
    let mixed = [message.as_slice(), &data, &message].concat();
    assert!(!inbound.refuses(world.now, &mixed, len));
}

//! By which of the hub's sockets a peer's paths lead, and what becomes of them when one is of no use.

use std::time::Duration;

use super::world::{Spec, World, address};
use super::{SECOND, path};
use crate::control::PathState;

/// Which of a client's paths are up at the hub.
fn up(world: &mut World, client: usize) -> Vec<bool> {
    let paths = world.paths_at_hub(client).into_iter();
    paths.map(|path| path.state == PathState::Up).collect()
}

/// Two clients that are up: both paths of the first call one socket, those of the second one each.
fn by_one_and_by_both() -> World {
    let by_one = Spec {
        sockets: [0, 0],
        ..Spec::default()
    };
    let mut world = World::new(&[by_one, Spec::default()]);
    world.run_for(2 * SECOND);
    world
}

#[test]
fn two_paths_of_a_client_go_to_one_socket_from_behind_one_nat() {
    let spec = Spec {
        sockets: [0, 0],
        nat: Some(9),
        ..Spec::default()
    };
    let mut world = World::new(&[spec.clone(), spec]);
    world.run_for(2 * SECOND);
    for client in 0..2 {
        assert_eq!(up(&mut world, client), [true, true]);
        let paths = world.paths_at_hub(client);
        assert_ne!(paths[0].remote, paths[1].remote);
        world.send(client, address(client), address(1 - client), 500);
    }
    world.run_for(SECOND);
    assert_eq!(
        world
            .clients
            .iter()
            .map(|client| client.delivered)
            .sum::<u64>(),
        1000
    );
    // Both are counted where they came from.
    for path in world.paths_at_hub(0) {
        assert!(path.rx_packets > 20, "{path:?}");
    }
}

#[test]
fn a_path_that_calls_another_socket_is_followed_there_and_the_other_path_stays() {
    let mut world = World::new(&[Spec::default()]);
    world.run_for(2 * SECOND);
    world.move_path(0, 1, 0);
    world.run_for(3 * SECOND);
    let hub = world.hub_inbound.peer(world.slots[0]).unwrap();
    assert_eq!([0, 1].map(|at| hub.socket_of(path(at)).index()), [0, 0]);
    assert_eq!(up(&mut world, 0), [true, true]);
}

#[test]
fn a_link_of_the_hub_that_goes_is_left_at_once_and_used_again_where_it_still_leads() {
    let mut world = by_one_and_by_both();
    assert_eq!(up(&mut world, 1), [true, true]);
    // What is sent to the second client goes over what is left from this moment on.
    world.set_link(1, false, true);
    assert_eq!(up(&mut world, 1), [true, false]);
    for _ in 0..200 {
        world.send(0, address(0), address(1), 1);
        world.run_for(Duration::from_millis(1));
    }
    assert_eq!(up(&mut world, 1), [true, false]);
    world.run_for(SECOND);
    assert_eq!(world.clients[1].delivered, 200);
    world.set_link(1, true, false);
    world.run_for(SECOND / 2);
    assert_eq!(up(&mut world, 1), [true, true]);
    // Clients come by another device.
    world.set_link(1, false, false);
    assert_eq!(up(&mut world, 1), [true, false]);
    world.run_for(2 * SECOND);
    assert_eq!(up(&mut world, 1), [true, true]);
}

#[test]
fn a_socket_of_the_hub_that_is_taken_away_is_left_at_once() {
    let mut world = by_one_and_by_both();
    world.remove_socket(1);
    assert_eq!(up(&mut world, 1), [true, false]);
    world.send(0, address(0), address(1), 200);
    world.run_for(SECOND);
    assert_eq!(world.clients[1].delivered, 200);
    // It calls another.
    world.move_path(1, 1, 0);
    world.run_for(3 * SECOND);
    assert_eq!(up(&mut world, 1), [true, true]);
}

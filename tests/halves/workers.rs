//! What two workers of a hub count together: the room for packets that one hands to the other.

use loom::sync::{Arc, Mutex};
use loom::thread;

mod counts {
    pub(super) use loom::sync::Arc;
    pub(super) use loom::sync::atomic::{AtomicUsize, Ordering};
}

#[path = "../../crates/mpt-tund/src/hub/handover/room.rs"]
mod room;

use room::Room;

/// Room for two packets of two bytes, and not for three.
const MOST: usize = 5;

/// The owner takes some, whatever becomes of them, and the rest goes with the channel.
#[test]
fn no_more_is_under_way_than_there_is_room_for_and_all_of_it_comes_back() {
    loom::model(|| {
        let room = Arc::new(Room::default());
        let channel = Arc::new(Mutex::new(Vec::new()));
        let (counted, from) = (room.clone(), channel.clone());
        let owner = thread::spawn(move || {
            for _ in 0..2 {
                let packet = from.lock().unwrap().pop();
                drop(packet);
                assert!(counted.taken() <= MOST);
            }
        });
        let mut handed = 0;
        for _ in 0..3 {
            if let Some(held) = Room::take(&room, 2, MOST) {
                channel.lock().unwrap().push(held);
                handed += 1;
            }
            assert!(room.taken() <= MOST);
        }
        assert!(handed >= 2, "there was room for two at any time");
        owner.join().unwrap();
        channel.lock().unwrap().clear();
        assert_eq!(room.taken(), 0);
    });
}

#[test]
#[should_panic(expected = "more than there is room for")]
fn two_that_take_would_take_too_much() {
    loom::model(|| {
        let room = Arc::new(Room::default());
        let other = room.clone();
        let taking = thread::spawn(move || Room::take(&other, 3, MOST));
        let held = Room::take(&room, 3, MOST);
        let others = taking.join().unwrap();
        assert!(
            held.is_none() || others.is_none(),
            "more than there is room for"
        );
    });
}

//! Two workers of a hub, and what one hands to the other while peers come and go.

use std::time::Duration;

use super::world::{Spec, call_of, caller_keys, worker_of_two};
use crate::control::drops::DropReason;
use crate::crypto::PresharedKey;
use crate::hub::{Came, HubInbound, HubNews, HubSlot, PeerKeys};
use crate::path::PathId;
use crate::time::Time;

const NOW: Time = Time::from_nanos(1_000_000_000);

/// Of the second worker.
fn slot() -> HubSlot {
    HubSlot::new(1).unwrap()
}

fn came() -> Came {
    Came {
        socket: PathId::new(0).unwrap(),
        from: "192.0.2.7:4754".parse().unwrap(),
        tos: 0,
        segment_size: None,
        waited: Duration::ZERO,
    }
}

fn begins(hub: &mut HubInbound) -> usize {
    let news = std::iter::from_fn(|| hub.poll_news());
    news.filter(|news| matches!(news, HubNews::Begins(..)))
        .count()
}

#[test]
fn a_call_is_opened_by_the_first_worker_and_answered_by_the_owner_who_looks_again() {
    let [mut first, mut second] = [0, 1].map(|number| worker_of_two(NOW, number));
    for hub in [&mut first, &mut second] {
        hub.set_peer(slot(), caller_keys(1));
    }
    let call = call_of(NOW, 1, &Spec::default());
    first.handle_datagram(NOW, came(), &call);
    let (to, handed) = first.poll_handed().unwrap();
    assert_eq!(to, 1);
    assert!(first.peer(slot()).is_none());

    // It is taken away while its call is under way: nobody calls then.
    second.remove_peer(slot());
    second.handle_handed(NOW, handed);
    assert_eq!(begins(&mut second), 0);
    assert_eq!(second.total().drops.of(DropReason::BadHandshake), 1);

    // A copy is looked at again, since nobody has answered.
    let (to, handed) = second.poll_handed().unwrap();
    assert_eq!(to, 0);
    first.handle_handed(NOW, handed);
    second.set_peer(slot(), caller_keys(1));
    first.handle_datagram(NOW, came(), &call);
    let (_, handed) = first.poll_handed().unwrap();
    second.handle_handed(NOW, handed);
    assert_eq!(begins(&mut second), 1);

    // Or there is another in its place by then.
    let later = NOW + Duration::from_secs(1);
    let other = PeerKeys {
        psk: PresharedKey::none(),
        ..caller_keys(2)
    };
    second.set_peer(slot(), other);
    first.handle_datagram(later, came(), &call_of(later, 1, &Spec::default()));
    let (_, handed) = first.poll_handed().unwrap();
    second.handle_handed(later, handed);
    assert_eq!(begins(&mut second), 0);
    assert_eq!(second.total().drops.of(DropReason::BadHandshake), 2);

    // It is back.
    second.remove_peer(slot());
    second.set_peer(slot(), caller_keys(1));
    let later = NOW + Duration::from_secs(2);
    let call = call_of(later, 1, &Spec::default());
    first.handle_datagram(later, came(), &call);
    let (_, handed) = first.poll_handed().unwrap();
    second.handle_handed(later, handed);
    assert_eq!(begins(&mut second), 1);
    let answer = second.peer(slot()).unwrap().poll_transmit();
    assert!(answer.is_some());

    // A copy is answered by the owner, too, and not opened again.
    first.handle_datagram(later, came(), &call);
    let (to, handed) = first.poll_handed().unwrap();
    assert_eq!(to, 1);
    second.handle_handed(later, handed);
    assert_eq!(begins(&mut second), 0);
    assert_eq!(second.total().drops.of(DropReason::Replayed), 0);
    // Without the peer it is a replay.
    first.handle_datagram(later, came(), &call);
    let (_, handed) = first.poll_handed().unwrap();
    second.remove_peer(slot());
    second.handle_handed(later, handed);
    assert_eq!(second.total().drops.of(DropReason::Replayed), 1);
    // Of this one the first worker is told, as of the call for which there was another peer.
    assert_eq!(std::iter::from_fn(|| second.poll_handed()).count(), 2);
}

#[test]
fn what_comes_to_the_wrong_worker_is_handed_over_once_and_counted_where_there_is_no_room() {
    let [mut first, mut second] = [0, 1].map(|number| worker_of_two(NOW, number));
    first.set_peer(slot(), caller_keys(1));
    second.set_peer(slot(), caller_keys(1));
    // A sealed datagram of the second's peer, with whom nothing is agreed.
    let mut sealed = vec![0; 60];
    sealed[..4].copy_from_slice(&[0x30, 0x00, 0x88, 0xb6]);
    sealed[4..8].copy_from_slice(&(1u32 << HubSlot::OWN_BITS | 2).to_be_bytes());
    first.handle_datagram(NOW, came(), &sealed);
    let (to, handed) = first.poll_handed().unwrap();
    assert_eq!(to, 1);
    second.handle_handed(NOW, handed);
    assert!(second.poll_handed().is_none());
    assert_eq!(second.total().drops.of(DropReason::UnknownSession), 1);

    // A call that came to the second goes to the first, and from there to the owner.
    let call = call_of(NOW, 1, &Spec::default());
    second.handle_datagram(NOW, came(), &call);
    let (to, handed) = second.poll_handed().unwrap();
    assert_eq!(to, 0);
    first.handle_handed(NOW, handed);
    let (to, handed) = first.poll_handed().unwrap();
    assert_eq!(to, 1);
    first.not_handed(handed);
    assert_eq!(first.total().drops.of(DropReason::HandshakeLimit), 1);
    // It may come again, and is opened anew.
    first.handle_datagram(NOW, came(), &call);
    let (_, handed) = first.poll_handed().unwrap();
    second.handle_handed(NOW, handed);
    assert_eq!(begins(&mut second), 1);

    // However many come, so many wait and no more.
    for _ in 0..5000 {
        first.handle_datagram(NOW, came(), &sealed);
    }
    let waiting = std::iter::from_fn(|| first.poll_handed()).count() as u64;
    let lost = first.total().drops.of(DropReason::PeerShare);
    assert_eq!(waiting + lost, 5000);
    assert!((1000..4000).contains(&waiting), "{waiting}");
}

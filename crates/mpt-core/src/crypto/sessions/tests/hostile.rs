//! What somebody else can do: copies, recordings, changed bits, floods, and packets of a former life.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);

/// The first initiation of end 0 and its response by end 1.
fn exchange() -> ([Sessions; 2], Vec<u8>, Vec<u8>) {
    let now = Time::ZERO;
    let mut a = Sessions::new(config(0), now, WALL, entropy(3));
    let mut b = Sessions::new(config(1), now, WALL, entropy(4));
    a.set_paths(PathSet::only(path(0)));
    a.handle_timeout(now);
    let initiation = a.poll_transmit().unwrap().contents[4..].to_vec();
    b.handle_message(now, sender(0), &initiation).unwrap();
    let response = b.poll_transmit().unwrap();
    assert_eq!(response.to, Some(address(0)));
    let response = response.contents[4..].to_vec();
    ([a, b], initiation, response)
}

#[test]
fn a_copy_gets_the_same_answer_and_a_recording_none() {
    let ([_, mut b], initiation, response) = exchange();
    let now = Time::ZERO + Duration::from_secs(1);
    b.handle_message(now, sender(0), &initiation).unwrap();
    assert_eq!(b.poll_transmit().unwrap().contents[4..], response);
    assert_eq!(b.established, 1);
    let later = Time::ZERO + Duration::from_secs(60);
    let refused = b.handle_message(later, sender(5), &initiation);
    assert_eq!(refused, Err(Refused::Replayed));
    assert!(b.poll_transmit().is_none(), "no path to initiate on");
    assert_eq!(b.established, 1);
}

#[test]
fn a_recorded_initiation_begins_no_handshake() {
    let ([mut a, mut b], initiation, response) = exchange();
    a.handle_message(Time::ZERO, sender(1), &response).unwrap();
    b.set_paths(PathSet::only(path(0)));
    for second in 11..100 {
        let now = Time::ZERO + Duration::from_secs(second);
        let mut out = [0; 64];
        let len = a.seal_control(path(0), None, b"alive", &mut out).unwrap();
        b.open(now, &mut out[..len]).unwrap();
        b.handle_timeout(now);
        let refused = b.handle_message(now, sender(0), &initiation);
        assert_eq!(refused, Err(Refused::Replayed));
        assert!(b.poll_transmit().is_none(), "after {second} s");
    }
}

/// An end keeps no times of initiations when it starts, so that recordings of the time before are answered. They put off
/// its own call by the second that one of them may take to be confirmed, however many there are.
#[test]
fn many_recorded_initiations_put_off_a_call_by_one_second_in_all() {
    let recording = |number: u32| {
        let wall = WALL + SECOND * number;
        let mut former = Sessions::new(
            config(1),
            Time::ZERO,
            wall,
            entropy(100 + u64::from(number)),
        );
        former.set_paths(PathSet::only(path(0)));
        former.handle_timeout(Time::ZERO);
        former.poll_transmit().unwrap().contents[4..].to_vec()
    };
    let ([mut a, _], _, response) = exchange();
    a.handle_message(Time::ZERO, sender(1), &response).unwrap();
    // From here on nothing comes of the peer: it has begun anew, and waits to be called.
    let is_initiation = |contents: &[u8]| contents[4] == Kind::Initiation as u8;
    let call = (1..400_u32).find_map(|step| {
        let now = Time::ZERO + STEP * step;
        if step % 5 == 1 {
            let recording = recording(step / 5);
            a.handle_message(now, sender(1), &recording).unwrap();
        }
        a.handle_timeout(now);
        let sent = std::iter::from_fn(|| Some(a.poll_transmit()?.contents.to_vec()));
        let call = sent.filter(|contents| is_initiation(contents)).last();
        call.map(|contents| (now, contents[4..].to_vec()))
    });
    let (called, call) = call.unwrap();
    println!("called anew after {:?}", called.since(Time::ZERO));
    assert!(called <= Time::ZERO + STEP * 2 + SECOND, "{called:?}");
    // Further ones leave the call as it is.
    let now = called + STEP;
    a.handle_message(now, sender(1), &recording(90)).unwrap();
    let mut anew = Sessions::new(config(1), now, WALL, entropy(5));
    anew.handle_message(now, sender(0), &call).unwrap();
    let response = anew.poll_transmit().unwrap().contents[4..].to_vec();
    let before = a.sending;
    a.handle_message(now, sender(1), &response).unwrap();
    assert!(a.sending > before);
}

#[test]
fn a_clock_that_is_set_right_counts_at_the_next_handshake() {
    let (day, now) = (Duration::from_secs(86_400), Time::ZERO);
    let mut b = Sessions::new(config(1), now, WALL, entropy(4));
    let mut initiation = |wall: Duration, set_to: Option<Duration>, seed| {
        let mut a = Sessions::new(config(0), now, wall, entropy(seed));
        if let Some(set_to) = set_to {
            a.set_wall_clock(Box::new(move |_| set_to));
        }
        a.set_paths(PathSet::only(path(0)));
        a.handle_timeout(now);
        let message = a.poll_transmit().unwrap().contents[4..].to_vec();
        b.handle_message(now, sender(0), &message)
    };
    assert_eq!(initiation(WALL, None, 3), Ok(()));
    let behind = initiation(WALL - day, None, 5);
    assert_eq!(behind, Err(Refused::Replayed), "booted a day back");
    let set_right = initiation(WALL - day, Some(WALL + Duration::from_secs(9)), 6);
    assert_eq!(set_right, Ok(()));
}

#[test]
fn a_cookie_is_kept_and_shown_with_the_next_copy() {
    let now = Time::ZERO;
    let mut a = Sessions::new(config(0), now, WALL, entropy(3));
    a.set_paths(PathSet::only(path(0)));
    a.handle_timeout(now);
    let initiation = a.poll_transmit().unwrap().contents[4..].to_vec();
    let mac1 = initiation[136..152].try_into().unwrap();
    let to = Addressee::new(&config(1).private_key.public_key());
    // Anybody who has seen the initiation and knows the public key can make these.
    for n in 0..10_000_u32 {
        let mut nonce = [0; 24];
        nonce[..4].copy_from_slice(&n.to_be_bytes());
        let sealed = to.seal_cookie(&nonce, &mac1, &[n as u8; 16]);
        let mut reply = vec![Kind::CookieReply as u8, 0, 0, 0];
        reply.extend(nonce);
        reply.extend(sealed);
        a.handle_message(now, sender(1), &reply).unwrap();
        assert!(a.poll_transmit().is_none());
    }
    a.handle_timeout(now + Duration::from_millis(250));
    let copy = &a.poll_transmit().unwrap().contents[4..];
    assert_eq!(copy[..152], initiation[..152]);
    assert_ne!(copy[152..], [0; 16]);
    assert!(a.poll_transmit().is_none());
}

#[test]
fn a_response_is_good_once_and_for_who_asked() {
    let ([mut a, mut b], _, response) = exchange();
    let now = Time::ZERO;
    assert_eq!(
        b.handle_message(now, sender(0), &response),
        Err(Refused::BadMac)
    );
    a.handle_message(now, sender(1), &response).unwrap();
    // Every path brings a copy.
    a.handle_message(now, sender(1), &response).unwrap();
    assert_eq!(a.established, 1);
    let ([mut again, _], ..) = exchange();
    again.handshake.abandon();
    assert_eq!(
        again.handle_message(now, sender(1), &response),
        Err(Refused::Unexpected)
    );
}

#[test]
fn false_responses_cost_little_and_change_nothing() {
    let ([mut a, _], _, response) = exchange();
    let to = Addressee::new(&config(0).private_key.public_key());
    let mut forged = response.clone();
    forged[50] ^= 1;
    let tag = to.mac1(&forged[..80]);
    forged[80..].copy_from_slice(&tag);
    for _ in 0..10 {
        let refused = a.handle_message(Time::ZERO, sender(1), &forged);
        assert_eq!(refused, Err(Refused::NotOpened));
    }
    a.handle_message(Time::ZERO, sender(1), &response).unwrap();
    assert_eq!(a.established, 1);
}

/// He sees each initiation on path 0 and is quicker than path 1.
#[test]
fn a_flood_of_responses_on_one_path_does_not_keep_keys_from_being_renewed() {
    let ([mut a, mut b], _, response) = exchange();
    a.set_paths(PathSet::from_bits(0b11));
    a.handle_message(Time::ZERO, sender(1), &response).unwrap();
    let to = Addressee::new(&config(0).private_key.public_key());
    for round in 1..=20 {
        let asked = Time::ZERO + REKEY_AFTER * round;
        a.initiate(asked);
        let initiation = a.poll_transmit().unwrap().contents[4..].to_vec();
        while a.poll_transmit().is_some() {}
        b.handle_message(asked, sender(0), &initiation).unwrap();
        let response = b.poll_transmit().unwrap().contents[4..].to_vec();
        let mut forged = response.clone();
        for n in 0..2000_u32 {
            let now = asked + Duration::from_micros(20) * n;
            forged[8..12].copy_from_slice(&n.to_be_bytes());
            let tag = to.mac1(&forged[..80]);
            forged[80..].copy_from_slice(&tag);
            a.handle_message(now, sender(1), &forged).unwrap_err();
        }
        let on_path_1 = Sender {
            path: path(1),
            ..sender(1)
        };
        let now = asked + Duration::from_millis(40);
        a.handle_message(now, on_path_1, &response).unwrap();
        assert_eq!(a.established, u64::from(round) + 1);
    }
}

#[test]
fn no_bit_of_a_handshake_may_be_changed() {
    let (_, initiation, response) = exchange();
    let mut b = Sessions::new(config(1), Time::ZERO, WALL, entropy(4));
    let ([mut a, _], _, again) = exchange();
    assert_eq!(response, again, "the same randomness makes the same bytes");
    for at in 0..INITIATION_BYTES - 16 {
        let mut changed = initiation.clone();
        changed[at] ^= 0x10;
        b.handle_message(Time::ZERO, sender(0), &changed)
            .unwrap_err();
    }
    for at in 0..response.len() {
        let mut changed = response.clone();
        changed[at] ^= 0x10;
        a.handle_message(Time::ZERO, sender(1), &changed)
            .unwrap_err();
    }
    assert_eq!((a.established, b.established), (0, 0));
}

/// An initiation with a right mac1 that does not open, different for each `n`.
pub(in crate::crypto::sessions) fn flood(to: &Addressee, n: u32) -> Vec<u8> {
    let mut bytes = vec![0; INITIATION_BYTES];
    bytes[0] = Kind::Initiation as u8;
    bytes[4..8].copy_from_slice(&n.to_be_bytes());
    bytes[8] = 1;
    let tag = to.mac1(&bytes[..136]);
    bytes[136..152].copy_from_slice(&tag);
    bytes
}

/// What `rate` initiations a second do to end 1 in `seconds`, all from different addresses, while
/// end 0 calls: how many were worked on, how many cookies were sent, and when the two had a session.
fn flooded(
    rate: u32,
    seconds: u32,
    forged_known: bool,
    peer_known: bool,
) -> (u32, u32, Option<Time>) {
    let mut b = Sessions::new(config(1), Time::ZERO, WALL, entropy(4));
    let mut a = Sessions::new(config(0), Time::ZERO, WALL, entropy(3));
    a.set_paths(PathSet::only(path(0)));
    let to_b = Addressee::new(&config(1).private_key.public_key());
    let (mut worked_on, mut cookies, mut met) = (0, 0, None);
    for n in 0..rate * seconds {
        let now = Time::ZERO + Duration::from_secs(1) * n / rate;
        let from = Sender {
            address: SocketAddr::from((n.to_be_bytes(), n as u16)),
            known: forged_known,
            ..sender(0)
        };
        match b.handle_message(now, from, &flood(&to_b, n)) {
            Err(Refused::NotOpened) => worked_on += 1,
            Err(Refused::Unproven) => {}
            other => panic!("{other:?}"),
        }
        if a.poll_timeout().is_some_and(|at| at <= now) && n >= rate / 2 {
            a.handle_timeout(now);
        }
        while let Some(initiation) = a.poll_transmit() {
            let from = Sender {
                known: peer_known,
                ..sender(0)
            };
            let _ = b.handle_message(now, from, &initiation.contents[4..]);
        }
        while let Some(reply) = b.poll_transmit() {
            cookies += 1;
            if reply.to == Some(address(0)) {
                let _ = a.handle_message(now, sender(1), &reply.contents[4..]);
            }
        }
        if met.is_none() && a.established == 1 {
            met = Some(now);
        }
        assert!(b.sessions.iter().flatten().count() <= 1);
    }
    (worked_on, cookies, met)
}

#[test]
fn a_flood_costs_little_and_leaves_nothing() {
    for (forged_known, most_cookies) in [(false, 5_510), (true, 2_210)] {
        let (worked_on, cookies, _) = flooded(100_000, 1, forged_known, false);
        assert!(worked_on <= 41, "{worked_on} in a second");
        assert!(cookies <= most_cookies, "{cookies} in a second");
    }
}

#[test]
fn a_flood_from_one_port_leaves_others_their_cookies() {
    let mut b = Sessions::new(config(1), Time::ZERO, WALL, entropy(4));
    let to_b = Addressee::new(&config(1).private_key.public_key());
    let mut cookies_at = |port: u16, n: u32| {
        let from = Sender {
            address: SocketAddr::from(([192, 0, 2, 1], port)),
            known: false,
            ..sender(0)
        };
        let now = Time::ZERO + Duration::from_secs(1) * n / 100_000;
        let _ = b.handle_message(now, from, &flood(&to_b, n));
        std::iter::from_fn(|| b.poll_transmit().map(drop)).count()
    };
    let flooded: usize = (0..=100_000).map(|n| cookies_at(1, n)).sum();
    assert!((20..=31).contains(&flooded), "{flooded} in a second");
    let others: usize = (2..12).map(|port| cookies_at(port, 100_001)).sum();
    assert_eq!(others, 10);
}

#[test]
fn a_flood_does_not_keep_the_peer_out() {
    let half = Time::from_nanos(500_000_000);
    let (.., met) = flooded(20_000, 1, false, true);
    assert_eq!(met, Some(half), "known: nothing stands in its way");
    let (.., met) = flooded(5_000, 5, false, false);
    assert!(
        met.is_some_and(|at| at.since(half) < Duration::from_secs(3)),
        "{met:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_bytes_are_refused(
        kind in 0..8u8,
        head in 0..3usize,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        length in prop::sample::select(vec![0, 60, 96, 168, 500]),
    ) {
        let ([mut a, mut b], ..) = exchange();
        let mut message = vec![kind, 0, 0, 0];
        message.extend(&bytes);
        if length < 500 {
            message.resize(length, 7);
        }
        for sessions in [&mut a, &mut b] {
            prop_assert!(sessions.handle_message(Time::ZERO, sender(0), &message).is_err());
            let mut datagram = [[0x30, 0, 0x88, 0xb6], [0x20, 0, 0x88, 0xb6], [0; 4]][head].to_vec();
            let index = sessions.indices()[0].unwrap_or(1);
            datagram.extend(index.to_be_bytes());
            datagram.extend(&bytes);
            prop_assert!(sessions.open(Time::ZERO, &mut datagram).is_err());
        }
    }

    /// Of ten thousand copies, changed or not, each packet comes through once.
    #[test]
    fn no_packet_is_opened_twice(seed: u64) {
        let ([mut a, mut b], _, response) = exchange();
        a.handle_message(Time::ZERO, sender(1), &response).unwrap();
        let mut out = [0; 64];
        let len = a.seal_control(path(0), None, b"probe", &mut out).unwrap();
        prop_assert_eq!(len, CONTROL_OVERHEAD + 5);
        b.open(Time::ZERO, &mut out[..len].to_vec()).unwrap();
        let mut random = entropy(seed);
        for _ in 0..200 {
            let mut at = [0; 2];
            random(&mut at);
            let mut copy = out[..len].to_vec();
            copy[usize::from(at[0]) % len] ^= at[1];
            prop_assert!(b.open(Time::ZERO, &mut copy).is_err());
        }
    }
}

#[test]
fn a_late_packet_of_a_former_life_leads_nowhere() {
    let ([mut a, mut b], _, response) = exchange();
    a.handle_message(Time::ZERO, sender(1), &response).unwrap();
    let mut late = [0; 64];
    let len = a.seal_control(path(0), None, b"late", &mut late).unwrap();

    let now = Time::ZERO + Duration::from_millis(100);
    let anew = CryptoConfig {
        session: 77,
        ..config(0)
    };
    let mut a = Sessions::new(anew, now, WALL, entropy(9));
    b.set_paths(PathSet::only(path(0)));
    b.initiate(now);
    let initiation = b.poll_transmit().unwrap().contents[4..].to_vec();
    a.handle_message(now, sender(1), &initiation).unwrap();
    let response = a.poll_transmit().unwrap().contents[4..].to_vec();
    b.handle_message(now, sender(0), &response).unwrap();
    assert_eq!(b.sending, Some(2));

    b.open(now, &mut late[..len]).unwrap();
    assert_eq!(b.sending, Some(2));
    assert_eq!(b.sessions.iter().flatten().count(), 2);
    b.handle_timeout(now + OLD_KEYS_KEPT);
    assert_eq!(b.sessions.iter().flatten().count(), 1);
}

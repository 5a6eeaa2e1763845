//! Cookies in every order of events, with the real [`Sessions`]: each sequence is played from the start.

use super::tests::hostile::flood;
use super::tests::{WALL, address, config, entropy, path, sender};
use super::*;
use crate::crypto::mac::{Addressee, mac2};
use crate::crypto::{COOKIE_REPLY_BYTES, INITIATION_BYTES};
use crate::wire::kind::Kind;

/// All sequences of `len` of these.
fn every_order<T: Copy>(of: &[T], len: u32, mut play: impl FnMut(&[T])) {
    for number in 0..of.len().pow(len) {
        let mut rest = number;
        let sequence: Vec<T> = (0..len)
            .map(|_| {
                let next = of[rest % of.len()];
                rest /= of.len();
                next
            })
            .collect();
        play(&sequence);
    }
}

/// A cookie reply to the initiation with this mac1, as its addressee makes it, and whoever knows the public key.
fn reply(to: &Addressee, mac1: &[u8], cookie: &[u8; 16], nonce: u8) -> Vec<u8> {
    let nonce = [nonce; 24];
    let mut reply = vec![Kind::CookieReply as u8, 0, 0, 0];
    reply.extend(nonce);
    reply.extend(to.seal_cookie(&nonce, mac1.try_into().unwrap(), cookie));
    assert_eq!(reply.len(), COOKIE_REPLY_BYTES);
    reply
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initiator {
    /// The timer is due.
    Timer,
    /// Nothing answers for long, then the timer is due: another initiation.
    LongTimer,
    /// A cookie reply, whoever made it, on this path.
    Cookie(u8, usize),
    /// The one before, once more.
    Repeated,
    /// One for another initiation.
    Foreign,
}

#[test]
fn in_no_order_does_a_cookie_reply_make_an_initiation_leave() {
    let to = Addressee::new(&config(1).private_key.public_key());
    let events = [
        Initiator::Timer,
        Initiator::LongTimer,
        Initiator::Cookie(7, 0),
        Initiator::Cookie(8, 0),
        Initiator::Cookie(9, 1),
        Initiator::Repeated,
        Initiator::Foreign,
    ];
    every_order(&events, 4, |sequence| {
        let mut now = Time::ZERO;
        let mut a = Sessions::new(config(0), now, WALL, entropy(3));
        a.set_paths(PathSet::from_bits(0b11));
        a.handle_timeout(now);
        let mut sent: Vec<Vec<u8>> = leaving(&mut a).into_iter().map(|(_, sent)| sent).collect();
        assert_eq!(sent.len(), 2);
        let mut last = None;
        // The cookie that is to be shown on each path, and since when.
        let mut shown: [Option<([u8; 16], Time)>; 2] = [None; 2];
        for &event in sequence {
            let mac1 = sent[0][136..152].to_vec();
            match event {
                Initiator::Timer | Initiator::LongTimer => {
                    if event == Initiator::LongTimer {
                        now = now + Duration::from_secs(60);
                    }
                    now = now.max(a.poll_timeout().unwrap());
                    a.handle_timeout(now);
                    let copies = leaving(&mut a);
                    assert_eq!(copies.len(), 2, "{sequence:?}");
                    for (on, copy) in &copies {
                        let cookie = shown[on.index()]
                            .filter(|(_, since)| now.since(*since) < Duration::from_secs(120));
                        let expected =
                            cookie.map_or([0; 16], |(cookie, _)| mac2(&cookie, &copy[..152]));
                        assert_eq!(copy[152..], expected, "{sequence:?}");
                    }
                    sent = copies.into_iter().map(|(_, sent)| sent).collect();
                    continue;
                }
                Initiator::Cookie(byte, on) => {
                    let cookie = [byte; 16];
                    let reply = reply(&to, &mac1, &cookie, byte);
                    a.handle_message(now, from(1, on), &reply).unwrap();
                    shown[on] = Some((cookie, now));
                    last = Some((reply, on, mac1, cookie));
                }
                Initiator::Repeated => {
                    let Some((reply, on, of, cookie)) = &last else {
                        continue;
                    };
                    let taken = a.handle_message(now, from(1, *on), reply);
                    assert_eq!(taken.is_ok(), *of == mac1, "{sequence:?}");
                    if taken.is_ok() {
                        shown[*on] = Some((*cookie, now));
                    }
                }
                Initiator::Foreign => {
                    let reply = reply(&to, &[1; 16], &[2; 16], 3);
                    let refused = a.handle_message(now, from(1, 0), &reply);
                    assert_eq!(refused, Err(Refused::NotOpened));
                }
            }
            assert_eq!(leaving(&mut a), [], "{sequence:?}");
        }
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Responder {
    /// An initiation without mac2.
    Plain,
    /// With the mac2 of a cookie that somebody made up.
    Forged,
    /// With that of a cookie that another address got.
    OfAnother,
    /// With its own.
    Proven,
    /// A cookie reply that this end itself has sent.
    Reflected,
}

#[test]
fn in_no_order_does_an_initiation_without_its_cookie_cost_arithmetic_under_load() {
    let now = Time::ZERO;
    let to = Addressee::new(&config(1).private_key.public_key());
    let events = [
        Responder::Plain,
        Responder::Forged,
        Responder::OfAnother,
        Responder::Proven,
        Responder::Proven,
        Responder::Reflected,
    ];
    every_order(&events, 4, |sequence| {
        let mut b = Sessions::new(config(1), now, WALL, entropy(4));
        let mut number = 0;
        let mut next = || {
            number += 1;
            flood(&to, number)
        };
        let stranger = |host| Sender {
            known: false,
            ..from(host, 0)
        };
        while b.handle_message(now, stranger(0), &next()) == Err(Refused::NotOpened) {}
        let _ = leaving(&mut b);
        let mut cookie_of = |b: &mut Sessions, host| {
            let asking = next();
            let refused = b.handle_message(now, stranger(host), &asking);
            assert_eq!(refused, Err(Refused::Unproven));
            let replies = leaving(b);
            let reply = &replies[0].1;
            let mac1 = asking[136..152].try_into().unwrap();
            let nonce = reply[4..28].try_into().unwrap();
            let cookie = to.open_cookie(nonce, mac1, reply[28..].try_into().unwrap());
            (cookie.unwrap(), reply.clone())
        };
        let (own, reflected) = cookie_of(&mut b, 0);
        let (of_another, _) = cookie_of(&mut b, 5);
        for &event in sequence {
            let mut initiation = next();
            let mut show = |cookie: &[u8; 16]| {
                let tag = mac2(cookie, &initiation[..152]);
                initiation[152..].copy_from_slice(&tag);
            };
            let expected = match event {
                Responder::Plain => Refused::Unproven,
                Responder::Forged => {
                    show(&[1; 16]);
                    Refused::Unproven
                }
                Responder::OfAnother => {
                    show(&of_another);
                    Refused::Unproven
                }
                Responder::Proven => {
                    show(&own);
                    // Worked on: it has no content that would open.
                    Refused::NotOpened
                }
                Responder::Reflected => {
                    let refused = b.handle_message(now, stranger(0), &reflected);
                    assert_eq!(refused, Err(Refused::Unexpected));
                    continue;
                }
            };
            let refused = b.handle_message(now, stranger(0), &initiation);
            assert_eq!(refused, Err(expected), "{sequence:?}");
            let answers = leaving(&mut b).len();
            let cookies = usize::from(expected == Refused::Unproven);
            assert_eq!(answers, cookies, "{sequence:?}");
        }
        // A host has five worked on at once, however it proves itself.
        let before = sequence.iter().filter(|event| **event == Responder::Proven);
        for left in (before.count()..7).map(|proven| 5_usize.saturating_sub(proven)) {
            let mut initiation = next();
            let tag = mac2(&own, &initiation[..152]);
            initiation[152..].copy_from_slice(&tag);
            let refused = b.handle_message(now, stranger(0), &initiation);
            let expected = match left {
                0 => Refused::RateLimited,
                _ => Refused::NotOpened,
            };
            assert_eq!(refused, Err(expected), "{sequence:?}");
        }
    });
}

fn from(end: usize, on: usize) -> Sender {
    Sender {
        path: path(on),
        address: address(end),
        ..sender(end)
    }
}

/// What leaves, without its GRE header, and over which path.
fn leaving(sessions: &mut Sessions) -> Vec<(PathId, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some(next) = sessions.poll_transmit() {
        let message = next.contents[4..].to_vec();
        assert!(message.len() <= INITIATION_BYTES);
        sent.push((next.path, message));
    }
    sent
}

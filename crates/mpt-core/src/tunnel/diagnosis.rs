//! Why two ends do not come to speak: what arrives instead of packets that open, and what it tells.
//!
//! Anybody can send such datagrams. So nothing here changes what the tunnel does. Something is said only
//! while no path works, only of datagrams from the host where the peer is configured to be, if it is, and of
//! more than one; and it is forgotten when no more come.

use std::time::Duration;

use crate::control::{Handshake, HandshakeState};
use crate::crypto::{PublicKey, Refused};
use crate::path::Paths;
use crate::time::Time;
use crate::wire::gre::{CONTROL_ETHERTYPE, SEALED_ETHERTYPE};
use crate::wire::kind::Kind;

/// A path works if something of the peer came over it so lately.
const HEARD: Duration = Duration::from_secs(2);
/// Without a path for this long, what has been seen may say why.
const WAITED: Duration = Duration::from_secs(1);
/// Without any answer for this long, nobody answers: the third copy of an initiation has had 3 s.
const UNANSWERED: Duration = Duration::from_secs(5);
/// What came before that says nothing of now: a peer calls every 20 s at least.
const FRESH: Duration = Duration::from_secs(90);
/// So many datagrams of a kind show something.
const ENOUGH: u32 = 2;
/// So many initiations were answered in vain: the copies of one, of which the answers may all be lost, are 8.
const ENOUGH_ANSWERED: u32 = 9;

/// Something that arrived instead of what opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// An answer to this end's initiation that does not open.
    AnswerNotOpened,
    /// An initiation by another key than the one configured for the peer.
    Stranger,
    /// A handshake message for another public key than this end's.
    OtherKey,
    /// An initiation of the peer that is older than one before.
    Older,
    /// Plain GRE, in a sealed tunnel.
    Plain,
    /// Sealed packets or handshakes, in a plain tunnel.
    Sealed,
    /// An initiation of the peer, which was answered.
    Answered,
}

const SIGNS: usize = Sign::Answered as usize + 1;

/// What keeps two ends apart, as far as this end can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Seen(Sign),
    /// Nothing comes at all.
    Unanswered,
}

/// What has arrived, and what it amounts to.
#[derive(Debug, Default)]
pub(super) struct Diagnosis {
    seen: [Seen; SIGNS],
    /// When something of the peer opened last.
    heard: Option<Time>,
    /// Since when no path works.
    waiting_since: Option<Time>,
    works: bool,
    found: Option<Trouble>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: u32,
    last: Time,
}

/// What the paths tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    /// A path is up.
    works: bool,
    /// Handshakes go somewhere, and no error comes back.
    asks: bool,
}

impl Situation {
    /// As the paths are. `asks`: handshakes may go over some of them.
    pub(super) fn of(now: Time, paths: &Paths, asks: bool) -> Situation {
        let mut situation = Situation { works: false, asks };
        for path in paths.iter().flatten() {
            let heard = path.rhythm.heard();
            situation.works |= path.is_up() || heard.is_some_and(|at| now.since(at) < HEARD);
            situation.asks &= !path.is_refused();
        }
        situation
    }
}

impl Diagnosis {
    /// A packet of the peer has opened.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard = Some(now);
    }

    /// What became of a handshake message of the peer's host.
    pub(super) fn note_handshake(&mut self, now: Time, kind: Kind, outcome: Result<(), Refused>) {
        let sign = match outcome {
            Ok(()) if kind == Kind::Initiation => Sign::Answered,
            Err(Refused::BadMac) => Sign::OtherKey,
            Err(Refused::Stranger) => Sign::Stranger,
            Err(Refused::Replayed) => Sign::Older,
            Err(Refused::NotOpened) if kind == Kind::Response => Sign::AnswerNotOpened,
            Ok(()) | Err(_) => return,
        };
        self.note(now, sign);
    }

    /// A datagram of the peer's host came to a sealed tunnel and is not sealed.
    pub(super) fn note_unsealed(&mut self, now: Time, datagram: &[u8]) {
        if is_plain(datagram) {
            self.note(now, Sign::Plain);
        }
    }

    /// A datagram of the peer's host came to a plain tunnel and is no packet of it.
    pub(super) fn note_strange(&mut self, now: Time, datagram: &[u8]) {
        if is_sealed(datagram) {
            self.note(now, Sign::Sealed);
        }
    }

    fn note(&mut self, now: Time, sign: Sign) {
        let seen = &mut self.seen[sign as usize];
        if now.since(seen.last) >= FRESH {
            seen.count = 0;
        }
        seen.count = seen.count.saturating_add(1);
        seen.last = now;
    }

    /// Works out what is wrong. Returns whether that is news.
    pub(super) fn consider(&mut self, now: Time, situation: Situation) -> bool {
        self.works = situation.works;
        if situation.works || self.heard.is_some_and(|heard| now.since(heard) < HEARD) {
            (self.waiting_since, self.found) = (None, None);
            self.seen = Default::default();
            return false;
        }
        let waited = now.since(*self.waiting_since.get_or_insert(now));
        let found = self.trouble(now, waited, situation.asks);
        let is_news = found.is_some() && found != self.found;
        self.found = found;
        is_news
    }

    fn trouble(&self, now: Time, waited: Duration, asks: bool) -> Option<Trouble> {
        let count = |sign: Sign| {
            let seen = self.seen[sign as usize];
            if now.since(seen.last) < FRESH {
                seen.count
            } else {
                0
            }
        };
        if waited < WAITED {
            return None;
        }
        let telling = [
            Sign::AnswerNotOpened,
            Sign::Stranger,
            Sign::OtherKey,
            Sign::Older,
            Sign::Plain,
            Sign::Sealed,
        ];
        if let Some(sign) = telling.into_iter().find(|sign| count(*sign) >= ENOUGH) {
            return Some(Trouble::Seen(sign));
        }
        if waited < UNANSWERED {
            return None;
        }
        match count(Sign::Answered) {
            0 => asks.then_some(Trouble::Unanswered),
            answered => (answered >= ENOUGH_ANSWERED).then_some(Trouble::Seen(Sign::Answered)),
        }
    }

    /// As `mpt-ctl status` shows it; nothing of a plain tunnel that has no trouble. `keys`: this end's public
    /// key, and that of somebody who called with another one than the peer's.
    pub(super) fn report(&self, keys: Option<(PublicKey, Option<PublicKey>)>) -> Option<Handshake> {
        let Some(found) = self.found else {
            let state = match self.works {
                true => HandshakeState::Agreed,
                false => HandshakeState::Waiting,
            };
            return keys.map(|_| Handshake {
                state,
                ..Handshake::default()
            });
        };
        let (own, stranger) = keys.unzip();
        let (state, text, remedy) = explain(found);
        let text = text.to_owned();
        let told = match (found, own, stranger.flatten()) {
            (Trouble::Seen(Sign::OtherKey), Some(own), _) => format!(": {own}"),
            (Trouble::Seen(Sign::Stranger), _, Some(key)) => format!(": with {key}"),
            _ => String::new(),
        };
        Some(Handshake {
            state,
            text: text + &told + ".",
            remedy: remedy.to_owned(),
        })
    }
}

/// What is the case, and what to do about it.
fn explain(trouble: Trouble) -> (HandshakeState, &'static str, &'static str) {
    let psk = "Give both ends the same psk_file, or none.";
    let crypto = "Both ends have [crypto], or neither.";
    match trouble {
        Trouble::Seen(Sign::AnswerNotOpened) => (
            HandshakeState::WrongPsk,
            "The peer answers handshakes, and its answers do not open: the preshared keys differ",
            psk,
        ),
        Trouble::Seen(Sign::Answered) => (
            HandshakeState::WrongPsk,
            "The peer's handshakes are answered, and it takes no answer: the preshared keys differ, or \
             answers do not reach it",
            psk,
        ),
        Trouble::Seen(Sign::Stranger) => (
            HandshakeState::WrongKey,
            "Handshakes arrive that are made with another key than peer_public_key",
            "If `mpt-ctl pubkey < FILE`, with the file of the peer's private_key_file, prints that one there, \
             write it as peer_public_key here.",
        ),
        Trouble::Seen(Sign::OtherKey) => (
            HandshakeState::WrongKey,
            "Handshakes arrive that are made for another public key than this end's",
            "The peer's peer_public_key must be this end's, which `mpt-ctl pubkey < FILE` prints here, with the \
             file of private_key_file.",
        ),
        Trouble::Seen(Sign::Older) => (
            HandshakeState::PeerClockBehind,
            "The peer's handshakes bear an older date than its last one: its clock was set back, or somebody \
             repeats old ones",
            "Set the peer's clock right; `date -u` shows it. If it was ahead before and is right, restart mpt-tund \
             here, which forgets the date.",
        ),
        Trouble::Seen(Sign::Plain) => (
            HandshakeState::PeerNotSealed,
            "The peer sends packets that are not sealed, and this end seals",
            crypto,
        ),
        Trouble::Seen(Sign::Sealed) => (
            HandshakeState::PeerIsSealed,
            "The peer seals its packets, and this end does not",
            crypto,
        ),
        Trouble::Unanswered => (
            HandshakeState::Unanswered,
            "Handshakes are not answered, and nothing comes from the peer",
            "Is mpt-tund running at the other end, and is UDP let through to its port? A peer that knows another \
             key of this end, or has another one than peer_public_key, does not answer either: its status says \
             so, and `mpt-ctl pubkey < FILE` shows each end's.",
        ),
    }
}

/// Whether a datagram is one that only a sealed tunnel sends.
fn is_sealed(datagram: &[u8]) -> bool {
    let Some(([_, _, high, low], message)) = datagram.split_first_chunk::<4>() else {
        return false;
    };
    match u16::from_be_bytes([*high, *low]) {
        SEALED_ETHERTYPE => true,
        CONTROL_ETHERTYPE => Kind::of(message).is_ok_and(Kind::is_handshake),
        _ => false,
    }
}

/// Whether a datagram that is not sealed is GRE as a plain tunnel sends it.
fn is_plain(datagram: &[u8]) -> bool {
    let Some(&[flags, version, high, low]) = datagram.first_chunk::<4>() else {
        return false;
    };
    // Nothing but key and sequence number, version 0 (RFC 2890 §2).
    flags & !0x30 == 0
        && version == 0
        && matches!(
            u16::from_be_bytes([high, low]),
            0x0800 | 0x86dd | CONTROL_ETHERTYPE
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Situation = Situation {
        works: false,
        asks: true,
    };

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    /// What is found after 12 s in which these came every second.
    fn found(signs: &[Sign], situation: Situation) -> Option<Trouble> {
        let mut diagnosis = Diagnosis::default();
        diagnosis.consider(at(0), situation);
        for second in 1..=12 {
            for sign in signs {
                diagnosis.note(at(second), *sign);
            }
            diagnosis.consider(at(second), situation);
        }
        diagnosis.found
    }

    #[test]
    fn what_arrives_says_what_is_wrong() {
        use Sign::{AnswerNotOpened, Answered, Older, OtherKey, Plain, Sealed, Stranger};
        assert_eq!(found(&[], APART), Some(Trouble::Unanswered));
        for signs in [
            &[OtherKey][..],
            &[Stranger],
            &[AnswerNotOpened, Answered],
            &[Older],
            &[Plain],
            &[Sealed],
            &[Answered],
        ] {
            let trouble = Some(Trouble::Seen(signs[0]));
            assert_eq!(found(signs, APART), trouble, "{signs:?}");
        }
        let silent = Situation {
            asks: false,
            ..APART
        };
        assert_eq!(found(&[], silent), None, "nobody was asked");
    }

    #[test]
    fn one_datagram_and_old_ones_say_nothing() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.consider(at(0), APART);
        diagnosis.note(at(4), Sign::OtherKey);
        assert!(!diagnosis.consider(at(4), APART));
        diagnosis.note(at(100), Sign::OtherKey);
        assert!(diagnosis.consider(at(101), APART));
        assert_eq!(diagnosis.found, Some(Trouble::Unanswered));
        diagnosis.note(at(102), Sign::OtherKey);
        assert!(diagnosis.consider(at(103), APART));
        assert_eq!(diagnosis.found, Some(Trouble::Seen(Sign::OtherKey)));
        assert!(!diagnosis.consider(at(104), APART), "said once");
        assert!(diagnosis.consider(at(200), APART));
        assert_eq!(diagnosis.found, Some(Trouble::Unanswered), "it fades");
    }

    #[test]
    fn nothing_is_said_while_a_path_works_or_what_came_opened() {
        let mut diagnosis = Diagnosis::default();
        for second in 0..100 {
            for sign in [Sign::OtherKey, Sign::Plain] {
                diagnosis.note(at(second), sign);
            }
            let works = second % 2 == 0;
            if !works {
                diagnosis.hear(at(second));
            }
            assert!(!diagnosis.consider(at(second), Situation { works, ..APART }));
            let key = PublicKey::from_base64("3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=");
            let told = diagnosis.report(Some((key.unwrap(), None))).unwrap();
            assert_eq!(told.text, "");
        }
    }

    #[test]
    fn plain_and_sealed_datagrams_are_told_apart() {
        for (bytes, sealed, plain) in [
            (&[0x10, 0, 0x08, 0x00, 0][..], false, true),
            (&[0x30, 0, 0x86, 0xdd, 0], false, true),
            (&[0x00, 0, 0x88, 0xb5, 1], false, true),
            (&[0x00, 0, 0x88, 0xb5, 3], true, true),
            (&[0x30, 0, 0x88, 0xb6, 0], true, false),
            (&[0x40, 0, 0x08, 0x00, 0], false, false),
            (&[0xff], false, false),
        ] {
            assert_eq!((is_sealed(bytes), is_plain(bytes)), (sealed, plain));
        }
    }
}

//! Agreeing on keys: one message each way, and a third kind that keeps floods out.
//!
//! An initiator sends its initiation over every path that it may use, and the same again after 250 ms,
//! 500 ms and then every second, for five seconds; then a new one, with a new ephemeral key. A responder
//! answers each copy, on the path that it came by, with one and the same response, which costs it nothing.
//! So neither a lost message nor a path that is dead holds the handshake up, and a round trip may be longer
//! than the pause between copies.
//!
//! A responder goes from the cheap to the costly: a copy of what was answered gets that answer, and anything else
//! has to pass [`Reception`] before public keys are computed with. An initiation that opens, is the
//! peer's and is newer than all before is answered; nothing else has changed any state.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use zeroize::Zeroizing;

use super::mac::{Addressee, COOKIE_LIFETIME, Tag};
use super::noise::{Identity, Initiator, Keys, NotOpened};
use super::reception::{Caller, InitiationTag, Moment, Reception};
use super::wire::{self, End, INITIATION_BYTES, Message, Offer, RESPONSE_BYTES, Timestamp};
use super::{CryptoConfig, Entropy, PublicKey, WallClock};
use crate::path::{MAX_PATHS, PathId, PathSet};
use crate::time::Time;
use crate::wire::gre::{Header, Protocol};

/// How long one initiation is repeated before another one takes its place.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long its copies are answered.
const ATTEMPT_ANSWERED: Duration = Duration::from_secs(10);
/// The pause before the first copy; the next ones are twice as long each.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Most messages waiting to be sent.
const MAX_QUEUED: usize = 64;
/// GRE header of a control message, without key and number.
const GRE_BYTES: usize = 4;

/// Why a handshake message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is laid out as none of the three.
    #[error("not a handshake message")]
    Malformed,
    /// Its sender does not know this end's public key.
    #[error("a handshake message for another key")]
    BadMac,
    /// This end is under load, and the address has not proved itself; it was sent a cookie, within
    /// limits.
    #[error("an initiation from an unproven address, under load")]
    Unproven,
    /// Too many came from its host, or from all.
    #[error("too many initiations")]
    RateLimited,
    /// It was changed on the way, made for another key, or with another preshared key.
    #[error("a handshake message that does not open")]
    NotOpened,
    /// It is from somebody who is not the peer.
    #[error("an initiation from a stranger")]
    Stranger,
    /// It is the peer's and not newer than one before: a recording, or the peer's clock went back.
    #[error("an initiation that is not newer than one before")]
    Replayed,
    /// Nothing was sent that it could answer.
    #[error("an answer to nothing that was asked")]
    Unexpected,
}

/// A handshake message to be sent.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeTransmit<'a> {
    /// The path; where `to` is given, the [`Sender::path`] that is answered.
    pub path: PathId,
    /// Where to; `None` for the path's peer.
    pub to: Option<SocketAddr>,
    /// The whole datagram, GRE header included.
    pub contents: &'a [u8],
}

/// Who sent a message.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// The path whose socket received it; of an initiation to a hub, the hub's socket.
    pub path: PathId,
    /// Its address.
    pub address: SocketAddr,
    /// The path's peer was last seen at that address, or is configured there. Believed only as far
    /// as that a flood from other addresses leaves it its share.
    pub known: bool,
}

/// How soon an initiation is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// After [`FIRST_PAUSE`], or this if it is longer, and again.
    CopyAfter(Duration),
    /// Not at all: after this long another one takes its place.
    OnceIn(Duration),
}

/// What a handshake brings.
pub(super) struct Agreed {
    pub(super) keys: Keys,
    pub(super) own: End,
    pub(super) peer: End,
    pub(super) initiated: bool,
}

/// One end's part in handshakes with its peer.
pub(super) struct Handshake {
    config: CryptoConfig,
    peer: Addressee,
    /// Of what calls here without a hub's having received it.
    reception: Reception,
    entropy: Entropy,
    /// How long after 1970 it is. Asked for each handshake: the clock may be set meanwhile.
    wall: WallClock,
    pending: Option<Pending>,
    /// mac1 of the last response that was taken: each path brings a copy.
    finished: Option<Tag>,
    answered: Option<Answered>,
    last_sent: Timestamp,
    last_received: Timestamp,
    /// Who called last and is not the peer.
    stranger: Option<PublicKey>,
    cookies: [Option<(Tag, Time)>; MAX_PATHS],
    queue: VecDeque<Outgoing>,
    leaving: Option<Outgoing>,
}

/// An initiation that waits for its response.
struct Pending {
    own: End,
    state: Initiator,
    message: [u8; INITIATION_BYTES],
    until: Time,
    next_copy: Time,
    pause: Duration,
    /// It is sent once only.
    is_calm: bool,
}

/// The last initiation that was answered, and how.
struct Answered {
    mac1: Tag,
    response: [u8; RESPONSE_BYTES],
    at: Time,
}

#[derive(Clone, Copy)]
struct Outgoing {
    path: PathId,
    to: Option<SocketAddr>,
    bytes: [u8; GRE_BYTES + INITIATION_BYTES],
    len: usize,
}

impl Handshake {
    pub(super) fn new(
        config: CryptoConfig,
        now: Time,
        wall: WallClock,
        mut entropy: Entropy,
    ) -> Handshake {
        Handshake {
            reception: Reception::new(now, config.private_key.clone(), &mut entropy),
            peer: Addressee::new(&config.peer_public_key),
            config,
            wall,
            pending: None,
            finished: None,
            answered: None,
            last_sent: Timestamp::default(),
            last_received: Timestamp::default(),
            stranger: None,
            cookies: [None; MAX_PATHS],
            entropy,
            queue: VecDeque::new(),
            leaving: None,
        }
    }

    pub(super) fn set_wall_clock(&mut self, wall: WallClock) {
        self.wall = wall;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether an initiation waits that is sent once only.
    pub(super) fn is_calm(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.is_calm)
    }

    /// The index that a response would bring into use.
    pub(super) fn pending_index(&self) -> Option<u32> {
        self.pending.as_ref().map(|pending| pending.own.index)
    }

    /// Gives up waiting for a response.
    pub(super) fn abandon(&mut self) {
        self.pending = None;
    }

    /// This end's public key.
    pub(super) fn public_key(&self) -> PublicKey {
        self.config.private_key.public_key()
    }

    /// The public key of who called last, if it is not the peer's.
    pub(super) fn stranger(&self) -> Option<PublicKey> {
        self.stranger
    }

    /// When the pending initiation is to be sent again or given up.
    pub(super) fn deadline(&self) -> Option<Time> {
        let pending = self.pending.as_ref()?;
        Some(pending.next_copy.min(pending.until))
    }

    /// Sends the pending initiation again if that is due. Returns whether it is past its time.
    pub(super) fn handle_timeout(&mut self, now: Time, paths: PathSet) -> bool {
        let Some(pending) = &mut self.pending else {
            return false;
        };
        if now >= pending.until {
            return true;
        }
        if now >= pending.next_copy {
            pending.pause = (pending.pause * 2).min(LONGEST_PAUSE);
            pending.next_copy = now + pending.pause;
            self.send_initiation(now, paths);
        }
        false
    }

    /// Begins a handshake on all `paths`. `own.index` must not be in use.
    pub(super) fn initiate(&mut self, now: Time, paths: PathSet, own: End, haste: Haste) {
        let (attempt, pause) = match haste {
            Haste::CopyAfter(least) => (ATTEMPT, least.clamp(FIRST_PAUSE, LONGEST_PAUSE)),
            Haste::OnceIn(attempt) => (attempt, attempt),
        };
        let since_1970 = (self.wall)(now);
        self.last_sent = Timestamp::at(since_1970).max(self.last_sent.next());
        let offer = Offer {
            timestamp: self.last_sent,
            end: own,
        };
        let ephemeral = random(&mut self.entropy);
        let identity = identity(&self.config);
        let written = wire::initiation(
            |out| Initiator::start(identity, ephemeral, &offer.emit(), out),
            |over| self.peer.mac1(over),
        );
        // Fails for a peer's key that is none; then it is as if nobody answered.
        self.pending = written.ok().map(|(message, state)| Pending {
            own,
            state,
            message,
            until: now + attempt,
            next_copy: now + pause,
            pause,
            is_calm: matches!(haste, Haste::OnceIn(_)),
        });
        self.send_initiation(now, paths);
    }

    fn send_initiation(&mut self, now: Time, paths: PathSet) {
        for path in paths.iter() {
            self.send_initiation_on(now, path);
        }
    }

    fn send_initiation_on(&mut self, now: Time, path: PathId) {
        let Some(pending) = &self.pending else {
            return;
        };
        let mut message = pending.message;
        if let Some((cookie, since)) = &self.cookies[path.index()]
            && now.since(*since) < COOKIE_LIFETIME
        {
            wire::prove(&mut message, cookie);
        }
        self.send(path, None, &message);
    }

    /// Takes a message. `own` is this end as it would be in a new session, its index not in use.
    pub(super) fn handle_message(
        &mut self,
        now: Time,
        sender: Sender,
        message: &[u8],
        own: impl FnOnce(&mut Entropy) -> End,
    ) -> Result<Option<Agreed>, Refused> {
        match Message::parse(message).ok_or(Refused::Malformed)? {
            Message::Initiation(initiation) => self.answer(now, sender, initiation, own),
            Message::Response(response) => self.finish(now, sender, response),
            Message::CookieReply { nonce, sealed } => {
                let pending = self.pending.as_ref().ok_or(Refused::Unexpected)?;
                let mac1 = wire::mac1_of(&pending.message);
                let cookie = self.peer.open_cookie(nonce, &mac1, *sealed);
                let cookie = cookie.ok_or(Refused::NotOpened)?;
                // The next copy shows it. Anybody who sees the initiation can make cookies: none of them makes
                // this end send anything.
                self.cookies[sender.path.index()] = Some((cookie, now));
                Ok(None)
            }
        }
    }

    fn answer(
        &mut self,
        now: Time,
        sender: Sender,
        initiation: wire::Initiation<'_>,
        own: impl FnOnce(&mut Entropy) -> End,
    ) -> Result<Option<Agreed>, Refused> {
        let tag = self.reception.check_initiation(initiation)?;
        if let Some(answered) = self.answer_again(now, sender, tag) {
            return answered.map(|()| None);
        }
        let opened =
            self.reception
                .open_initiation(now, sender, (initiation, tag), &mut self.entropy);
        let caller = match opened {
            Ok(caller) => caller,
            Err(turned_away) => {
                if let Some(reply) = turned_away.cookie_reply {
                    self.send(sender.path, Some(sender.address), &reply);
                }
                return Err(turned_away.why);
            }
        };
        if caller.initiator != self.config.peer_public_key {
            self.stranger = Some(caller.initiator);
            return Err(Refused::Stranger);
        }
        self.accept(now, sender, caller, own).map(Some)
    }

    /// Answers a copy of the last initiation that was answered, if this is one, as far as there is time.
    pub(super) fn answer_again(
        &mut self,
        now: Time,
        sender: Sender,
        tag: InitiationTag,
    ) -> Option<Result<(), Refused>> {
        let answered = self.answered.as_ref().filter(|answered| {
            answered.mac1 == tag.0 && now.since(answered.at) < ATTEMPT_ANSWERED
        })?;
        let response = answered.response;
        if !self.reception.may_reply(now, sender) {
            return Some(Err(Refused::RateLimited));
        }
        self.send(sender.path, Some(sender.address), &response);
        Some(Ok(()))
    }

    /// Initiations up to this moment are old.
    pub(super) fn forget_until(&mut self, moment: Moment) {
        self.last_received = self.last_received.max(moment.0);
    }

    /// Answers the peer, whose initiation has opened.
    pub(super) fn accept(
        &mut self,
        now: Time,
        sender: Sender,
        caller: Caller,
        own: impl FnOnce(&mut Entropy) -> End,
    ) -> Result<Agreed, Refused> {
        let offer = caller.offer.ok_or(Refused::Malformed)?;
        if offer.timestamp <= self.last_received {
            return Err(Refused::Replayed);
        }
        let own = own(&mut self.entropy);
        let responder = caller.responder;
        let (response, keys) = wire::response(
            offer.end.index,
            |out| responder.answer(&self.config.psk, &own.emit(), out),
            |over| self.peer.mac1(over),
        )
        .map_err(|NotOpened| Refused::NotOpened)?;
        self.last_received = offer.timestamp;
        self.answered = Some(Answered {
            mac1: caller.mac1,
            response,
            at: now,
        });
        self.send(sender.path, Some(sender.address), &response);
        Ok(Agreed {
            keys,
            own,
            peer: offer.end,
            initiated: false,
        })
    }

    fn finish(
        &mut self,
        now: Time,
        sender: Sender,
        response: wire::Response<'_>,
    ) -> Result<Option<Agreed>, Refused> {
        let (over, mac1) = response.mac1();
        if !self.reception.is_for_this_end(over, mac1) {
            return Err(Refused::BadMac);
        }
        if self.finished.is_some_and(|finished| finished == mac1) {
            return Ok(None);
        }
        let pending = self.pending.as_mut();
        let pending = pending.filter(|pending| pending.own.index == response.receiver());
        let pending = pending.ok_or(Refused::Unexpected)?;
        if !self.reception.may_finish(now, sender) {
            return Err(Refused::RateLimited);
        }
        let mut payload = End::EMPTY;
        let keys = pending.state.finish(response.noise(), &mut payload);
        let keys = keys.map_err(|NotOpened| Refused::NotOpened)?;
        let own = pending.own;
        self.pending = None;
        self.finished = mac1.try_into().ok();
        let peer = End::parse(&payload).ok_or(Refused::Malformed)?;
        Ok(Some(Agreed {
            keys,
            own,
            peer,
            initiated: true,
        }))
    }

    pub(super) fn entropy(&mut self) -> &mut Entropy {
        &mut self.entropy
    }

    fn send(&mut self, path: PathId, to: Option<SocketAddr>, message: &[u8]) {
        if self.queue.len() >= MAX_QUEUED {
            return;
        }
        let header = Header {
            key: None,
            sequence: None,
            protocol: Protocol::Control,
        };
        let mut bytes = [0; _];
        let start = header.emit(&mut bytes);
        let len = start + message.len();
        bytes[start..len].copy_from_slice(message);
        self.queue.push_back(Outgoing {
            path,
            to,
            bytes,
            len,
        });
    }

    pub(super) fn poll_transmit(&mut self) -> Option<HandshakeTransmit<'_>> {
        let leaving = self.leaving.insert(self.queue.pop_front()?);
        Some(HandshakeTransmit {
            path: leaving.path,
            to: leaving.to,
            contents: &leaving.bytes[..leaving.len],
        })
    }
}

fn identity(config: &CryptoConfig) -> Identity<'_> {
    Identity {
        private: &config.private_key,
        peer: &config.peer_public_key,
        psk: &config.psk,
    }
}

/// Random bytes that are wiped.
pub(super) fn random<const N: usize>(entropy: &mut Entropy) -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    entropy(bytes.as_mut());
    bytes
}

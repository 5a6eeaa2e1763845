//! What an end does with an initiation before it has to do with the one who sent it, from the cheap to the
//! costly.
//!
//! mac1 comes first. Then [`Budget`] says whether the initiation may be worked on as it is; when too many come, a
//! cookie is sent instead, and only a sender that shows it goes on, within its host's share. Only then comes the
//! arithmetic of public keys, which tells who calls ([`Caller`]). Nothing here knows a peer: a hub has one reception
//! for all of its peers, and finds the caller by the key that comes out.

use zeroize::Zeroizing;

use super::budget::Budget;
use super::handshake::{Refused, Sender, random};
use super::keys::{KEY_BYTES, PresharedKey};
use super::mac::{Addressee, COOKIE_NONCE_BYTES, CookieSecret, Tag};
use super::noise::{Identity, NotOpened, Responder};
use super::wire::{self, COOKIE_REPLY_BYTES, INITIATION_BYTES, Initiation, Message, Offer};
use super::{Entropy, PrivateKey, PublicKey};
use crate::time::Time;

/// Takes initiations for one private key.
pub struct Reception {
    private_key: PrivateKey,
    own: Addressee,
    secret: CookieSecret,
    budget: Budget,
}

/// Somebody whose initiation opened: who it is, and what is to be answered.
pub struct Caller {
    pub(super) responder: Responder,
    pub(super) initiator: PublicKey,
    /// `None` when it makes no sense.
    pub(super) offer: Option<Offer>,
    pub(super) mac1: Tag,
}

impl Caller {
    /// The static key that he has shown to have.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.initiator
    }

    /// When he made it, by his clock: later in each initiation than in all before. `None` when it does not say.
    #[must_use]
    pub fn moment(&self) -> Option<Moment> {
        Some(Moment(self.offer.as_ref()?.timestamp))
    }
}

/// The moment of an initiation, by its sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub(super) wire::Timestamp);

/// Nothing came of an initiation.
pub struct TurnedAway {
    /// Why; count it.
    pub why: Refused,
    /// What is to be sent to where it came from, if anything is.
    pub cookie_reply: Option<[u8; COOKIE_REPLY_BYTES]>,
}

impl From<Refused> for TurnedAway {
    fn from(why: Refused) -> TurnedAway {
        TurnedAway {
            why,
            cookie_reply: None,
        }
    }
}

/// What tells an initiation from others: its copies have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InitiationTag(pub(super) Tag);

impl Reception {
    /// One for a tunnel with a single peer.
    pub(super) fn new(now: Time, private_key: PrivateKey, entropy: &mut Entropy) -> Reception {
        Reception {
            own: Addressee::new(&private_key.public_key()),
            private_key,
            secret: CookieSecret::new(now, random(entropy)),
            budget: Budget::new(),
        }
    }

    /// One for a hub, whose peers may all call at once.
    #[must_use]
    pub fn of_hub(now: Time, private_key: PrivateKey, entropy: &mut Entropy) -> Reception {
        Reception {
            budget: Budget::of_hub(),
            ..Reception::new(now, private_key, entropy)
        }
    }

    /// Takes a datagram's handshake message, without its GRE header, if it is an initiation for this key.
    ///
    /// # Errors
    /// Why it is none.
    pub fn check(&self, message: &[u8]) -> Result<InitiationTag, Refused> {
        match Message::parse(message).ok_or(Refused::Malformed)? {
            Message::Initiation(initiation) => self.check_initiation(initiation),
            Message::Response(_) | Message::CookieReply { .. } => Err(Refused::Unexpected),
        }
    }

    pub(super) fn check_initiation(
        &self,
        initiation: Initiation<'_>,
    ) -> Result<InitiationTag, Refused> {
        let (over, mac1) = initiation.mac1();
        match (self.own.is_mac1(over, mac1), mac1.try_into()) {
            (true, Ok(mac1)) => Ok(InitiationTag(mac1)),
            _ => Err(Refused::BadMac),
        }
    }

    /// Whether one more answer that costs little may be sent.
    pub(super) fn may_reply(&mut self, now: Time, sender: Sender) -> bool {
        self.budget.reply(now, sender)
    }

    /// Whether a response may be worked on.
    pub(super) fn may_finish(&mut self, now: Time, sender: Sender) -> bool {
        self.budget.response(now, sender)
    }

    pub(super) fn is_for_this_end(&self, over: &[u8], mac1: &[u8]) -> bool {
        self.own.is_mac1(over, mac1)
    }

    /// Opens an initiation that [`Reception::check`] has let pass with this tag.
    ///
    /// # Errors
    /// It does not open, or there is no time for it.
    pub fn open(
        &mut self,
        now: Time,
        sender: Sender,
        (message, tag): (&[u8; INITIATION_BYTES], InitiationTag),
        entropy: &mut Entropy,
    ) -> Result<Caller, TurnedAway> {
        match Message::parse(message) {
            Some(Message::Initiation(initiation)) => {
                self.open_initiation(now, sender, (initiation, tag), entropy)
            }
            _ => Err(Refused::Malformed.into()),
        }
    }

    pub(super) fn open_initiation(
        &mut self,
        now: Time,
        sender: Sender,
        (initiation, InitiationTag(mac1)): (Initiation<'_>, InitiationTag),
        entropy: &mut Entropy,
    ) -> Result<Caller, TurnedAway> {
        self.admit(now, sender, initiation, mac1, entropy)?;
        let mut payload = Offer::EMPTY;
        // The preshared key is mixed in with the answer: by then it is known whose it is.
        let (nobody, none) = (PublicKey::from_bytes([0; KEY_BYTES]), PresharedKey::none());
        let identity = Identity {
            private: &self.private_key,
            peer: &nobody,
            psk: &none,
        };
        let ephemeral: Zeroizing<[u8; KEY_BYTES]> = random(entropy);
        let responder = Responder::read(identity, ephemeral, initiation.noise(), &mut payload);
        let responder = responder.map_err(|NotOpened| Refused::NotOpened)?;
        Ok(Caller {
            initiator: responder.initiator().ok_or(Refused::NotOpened)?,
            offer: Offer::parse(&payload),
            responder,
            mac1,
        })
    }

    /// Whether an initiation may cost arithmetic.
    fn admit(
        &mut self,
        now: Time,
        sender: Sender,
        initiation: Initiation<'_>,
        mac1: Tag,
        entropy: &mut Entropy,
    ) -> Result<(), TurnedAway> {
        if self.budget.unproven(now, sender.known) {
            return Ok(());
        }
        if self.secret.is_stale(now) {
            self.secret = CookieSecret::new(now, random(entropy));
        }
        if let Some((over, mac2)) = initiation.mac2()
            && self.secret.is_mac2(sender.address, over, mac2)
        {
            let host = self.secret.bucket(sender.address);
            return match self.budget.proven(now, sender.known, host) {
                true => Ok(()),
                false => Err(Refused::RateLimited.into()),
            };
        }
        let cookie = self.secret.cookie(sender.address);
        // Strangers cannot foresee a cookie, and so not with whom they share.
        let asker = cookie[0];
        let cookie_reply = self.budget.cookie(now, sender, asker).then(|| {
            let nonce = random::<COOKIE_NONCE_BYTES>(entropy);
            wire::cookie_reply(&nonce, &self.own.seal_cookie(&nonce, &mac1, &cookie))
        });
        Err(TurnedAway {
            why: Refused::Unproven,
            cookie_reply,
        })
    }
}

/// Which session of this end's a handshake message answers: the initiator's index in a response. Nobody has
/// vouched for it.
#[must_use]
pub fn claimed_answer(message: &[u8]) -> Option<u32> {
    match Message::parse(message)? {
        Message::Response(response) => Some(response.receiver()),
        Message::Initiation(_) | Message::CookieReply { .. } => None,
    }
}

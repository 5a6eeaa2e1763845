//! The vectors of `tests/vectors/sealed.json`, which another implementation of docs/protocol.md made:
//! every byte of a handshake, a cookie and sealed packets, written and read.

use std::time::Duration;

use serde::Deserialize;
use zeroize::Zeroizing;

use super::mac::Addressee;
use super::noise::{Identity, Initiator, Keys, Responder};
use super::opener::Opener;
use super::packet::{SealedHeader, lay_out};
use super::sealer::ControlSealer;
use super::wire::{self, End, Message, Offer, Timestamp};
use super::{
    CONTROL_OVERHEAD, Cipher, DATA_HEAD_BYTES, DATA_OVERHEAD, DataSealer, INITIATION_BYTES,
    KEY_BYTES, Opened, PresharedKey, PrivateKey, PublicKey, Route,
};
use crate::seq::Seq;
use crate::wire::gre::Protocol;

type Secret = Zeroizing<[u8; KEY_BYTES]>;

#[derive(Deserialize)]
struct File {
    initiator: Pair,
    responder: Pair,
    psk: Hex,
    initiation: Sent,
    response: Sent,
    keys: Agreed,
    cookie: Cookie,
    packet: Hex,
    data: Vec<Sealed>,
    control_message: Hex,
    control: Vec<Sealed>,
}

#[derive(Deserialize)]
struct Pair {
    private: Hex,
    public: Hex,
}

/// An initiation or a response.
#[derive(Deserialize)]
struct Sent {
    ephemeral: Hex,
    #[serde(default)]
    seconds: u64,
    #[serde(default)]
    nanoseconds: u32,
    index: u32,
    next_number: u64,
    session: u64,
    hardware_aes: bool,
    message: Hex,
}

#[derive(Deserialize)]
struct Agreed {
    to_responder: Hex,
    to_initiator: Hex,
}

#[derive(Deserialize)]
struct Cookie {
    cookie: Hex,
    nonce: Hex,
    reply: Hex,
    initiation: Hex,
}

#[derive(Deserialize)]
struct Sealed {
    cipher: String,
    number: u64,
    #[serde(default)]
    ordered: bool,
    /// Of a control message, as its receiver's.
    #[serde(default)]
    from: u8,
    #[serde(default)]
    to: Option<u8>,
    datagram: Hex,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Hex(Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Hex, Self::Error> {
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(&String::from_utf8_lossy(pair), 16);
        pairs.map(byte).collect::<Result<_, _>>().map(Hex)
    }
}

impl Hex {
    fn secret(&self) -> Secret {
        Zeroizing::new(self.array())
    }

    fn array<const N: usize>(&self) -> [u8; N] {
        self.0[..].try_into().unwrap()
    }
}

impl Pair {
    fn private(&self) -> PrivateKey {
        let private = PrivateKey::from_bytes(self.private.secret());
        assert_eq!(private.public_key().bytes()[..], self.public.0);
        private
    }

    fn public(&self) -> PublicKey {
        self.private().public_key()
    }
}

impl Sent {
    fn end(&self) -> End {
        End {
            index: self.index,
            next_number: self.next_number,
            session: self.session,
            hardware_aes: self.hardware_aes,
        }
    }

    fn offer(&self) -> Offer {
        Offer {
            timestamp: Timestamp::at(Duration::new(self.seconds, self.nanoseconds)),
            end: self.end(),
        }
    }
}

impl Sealed {
    fn cipher(&self) -> Cipher {
        match &*self.cipher {
            "aes-256-gcm" => Cipher::Aes256Gcm,
            "chacha20-poly1305" => Cipher::ChaCha20Poly1305,
            other => panic!("{other}"),
        }
    }
}

fn file() -> File {
    serde_json::from_str(include_str!("../../../../tests/vectors/sealed.json")).unwrap()
}

/// Writes the initiation and compares it.
fn initiate(file: &File) -> Initiator {
    let (private, psk) = (file.initiator.private(), psk(file));
    let identity = Identity {
        private: &private,
        peer: &file.responder.public(),
        psk: &psk,
    };
    let to = Addressee::new(&file.responder.public());
    let (message, state) = wire::initiation(
        |out| {
            let payload = file.initiation.offer().emit();
            Initiator::start(identity, file.initiation.ephemeral.secret(), &payload, out)
        },
        |over| to.mac1(over),
    )
    .unwrap();
    assert_eq!(message[..], file.initiation.message.0);
    state
}

fn psk(file: &File) -> PresharedKey {
    PresharedKey::from_random(file.psk.array())
}

fn assert_keys(keys: &Keys, send: &Hex, receive: &Hex) {
    assert_eq!(keys.send.as_slice(), send.0);
    assert_eq!(keys.receive.as_slice(), receive.0);
}

#[test]
fn the_initiator_writes_and_reads_the_vectors() {
    let file = file();
    let mut state = initiate(&file);
    let Some(Message::Response(response)) = Message::parse(&file.response.message.0) else {
        panic!("no response");
    };
    let (over, mac1) = response.mac1();
    assert!(Addressee::new(&file.initiator.public()).is_mac1(over, mac1));
    assert_eq!(response.receiver(), file.initiation.index);
    let mut payload = End::EMPTY;
    let keys = state.finish(response.noise(), &mut payload).unwrap();
    assert_eq!(End::parse(&payload), Some(file.response.end()));
    assert_keys(&keys, &file.keys.to_responder, &file.keys.to_initiator);
}

#[test]
fn the_responder_reads_and_writes_the_vectors() {
    let file = file();
    let (private, psk) = (file.responder.private(), psk(&file));
    let identity = Identity {
        private: &private,
        peer: &file.initiator.public(),
        psk: &psk,
    };
    let Some(Message::Initiation(initiation)) = Message::parse(&file.initiation.message.0) else {
        panic!("no initiation");
    };
    let (over, mac1) = initiation.mac1();
    assert!(Addressee::new(&file.responder.public()).is_mac1(over, mac1));
    assert!(initiation.mac2().is_none());
    let mut payload = Offer::EMPTY;
    let ephemeral = file.response.ephemeral.secret();
    let responder = Responder::read(identity, ephemeral, initiation.noise(), &mut payload).unwrap();
    assert_eq!(responder.initiator(), Some(file.initiator.public()));
    assert_eq!(Offer::parse(&payload), Some(file.initiation.offer()));

    let to = Addressee::new(&file.initiator.public());
    let (message, keys) = wire::response(
        file.initiation.index,
        |out| responder.answer(identity.psk, &file.response.end().emit(), out),
        |over| to.mac1(over),
    )
    .unwrap();
    assert_eq!(message[..], file.response.message.0);
    assert_keys(&keys, &file.keys.to_initiator, &file.keys.to_responder);
}

#[test]
fn a_cookie_is_sealed_opened_and_shown_as_in_the_vectors() {
    let File {
        responder,
        initiation,
        cookie,
        ..
    } = file();
    let to = Addressee::new(&responder.public());
    let mut message: [u8; INITIATION_BYTES] = initiation.message.array();
    let (nonce, mac1) = (cookie.nonce.array(), wire::mac1_of(&message));
    let sealed = to.seal_cookie(&nonce, &mac1, &cookie.cookie.array());
    assert_eq!(wire::cookie_reply(&nonce, &sealed)[..], cookie.reply.0);
    let Some(Message::CookieReply { nonce, sealed }) = Message::parse(&cookie.reply.0) else {
        panic!("no cookie reply");
    };
    let opened = to.open_cookie(nonce, &mac1, *sealed).unwrap();
    assert_eq!(opened[..], cookie.cookie.0);
    wire::prove(&mut message, &opened);
    assert_eq!(message[..], cookie.initiation.0);
}

#[test]
fn packets_are_sealed_and_opened_as_in_the_vectors() {
    let file = file();
    let (key, index) = (file.keys.to_responder.array(), file.response.index);
    let opener = |sealed: &Sealed| Opener::new(1, sealed.cipher(), &key, sealed.number);
    for sealed in &file.data {
        let mut datagram = vec![0; DATA_OVERHEAD + file.packet.0.len()];
        let sequence = sealed.ordered.then_some(Seq::new(sealed.number as u32));
        lay_out(sequence, Protocol::Ipv4, &mut datagram);
        datagram[DATA_HEAD_BYTES..][..file.packet.0.len()].copy_from_slice(&file.packet.0);
        let mut sealer = DataSealer::new(sealed.cipher(), &key, index, 0);
        sealer.seal(sealed.number, &mut datagram).unwrap();
        assert_eq!(datagram, sealed.datagram.0);

        let header = SealedHeader::parse(&datagram).unwrap();
        match opener(sealed).open(header, 0, &mut datagram).unwrap() {
            Opened::Data { number, packet, .. } => {
                assert_eq!(number, sealed.ordered.then_some(sealed.number));
                assert_eq!(datagram[packet], file.packet.0);
            }
            Opened::Control { .. } | Opened::Copy { .. } => panic!("data"),
        }
    }
    for sealed in &file.control {
        let mut datagram = vec![0; CONTROL_OVERHEAD + file.control_message.0.len()];
        let sealer = ControlSealer::new(sealed.cipher(), &key, index);
        let route = Route {
            from: sealed.from,
            to: sealed.to,
        };
        sealer
            .seal(route, sealed.number, &file.control_message.0, &mut datagram)
            .unwrap();
        assert_eq!(datagram, sealed.datagram.0);

        let header = SealedHeader::parse(&datagram).unwrap();
        match opener(sealed).open(header, 0, &mut datagram).unwrap() {
            Opened::Control { message, .. } => {
                assert_eq!(datagram[message], file.control_message.0);
            }
            Opened::Data { .. } | Opened::Copy { .. } => panic!("a control message"),
        }
    }
}

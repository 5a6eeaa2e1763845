//! Probes: how two ends learn that a path works, how long it takes and what is lost.
//!
//! A probe and its answer are one kind of message. Each tells what its sender has sent, and echoes the newest message
//! that its sender has received on that path, with the moments of receipt and of sending, so that
//! either end can work out the round trip whoever began:
//!
//! `rtt = (now - echo.sent) - (sent - echo.received)`
//!
//! A message that asks for a reply gets the receiver's own message at once. Since that carries an
//! echo as well, one message each way and keepalive interval serves both ends. An echo of a message
//! that was sent a moment ago also proves that its sender is there *now*: a replayed recording
//! cannot contain it. That is why a new session is believed only with such an echo, and within
//! a session whatever a message says; one without is echoed and answered, no more.
//!
//! The layout, in network byte order, behind a GRE header without sequence number whose Protocol
//! Type is [`crate::wire::gre::CONTROL_ETHERTYPE`]:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 1 |
//! | 1 | flags: 1 reply wanted, 2 echo present, 4 path out of service at the sender, 8 receiver reports wanted, 16 lost packets are sent again, 32 the sender may go on from another port |
//! | 2 | path, the sender's index |
//! | 3 | zero |
//! | 4–7 | number of this message on this path, from 1 |
//! | 8–15 | session of the sender, random at its start, never 0 |
//! | 16–23 | time of sending, sender's clock, ns |
//! | 24–31 | datagrams sent on this path so far, this one included |
//! | 32–39 | their bytes, GRE headers included |
//! | 40–43 | the tunnel's next sequence number: all below that went this way were sent before |
//! | 44–47 | echo: number |
//! | 48–55 | echo: session |
//! | 56–63 | echo: its time of sending, by its sender's clock |
//! | 64–71 | echo: time of its receipt, by this message's sender's clock |
//! | 72–79 | datagrams received on this path so far |
//! | 80–87 | their bytes |
//! | 88–91 | loss recently seen on this path, in millionths |
//!
//! Bytes behind these are ignored, so that later versions can add some.

use crate::seq::Seq;
use crate::time::Time;
use crate::wire::ip;
use crate::wire::kind::{ControlError, Kind};

/// Length of a message without its GRE header, in bytes.
pub const MESSAGE_BYTES: usize = 92;

/// Length of what follows a message in a sealed tunnel, in bytes.
pub const PROOF_BYTES: usize = 16;
const FLAG_REPLY_WANTED: u8 = 1;
const FLAG_ECHO: u8 = 2;
const FLAG_OUT_OF_SERVICE: u8 = 4;
const FLAG_REPORTS_WANTED: u8 = 8;
const FLAG_RESENDS: u8 = 16;
const FLAG_MAY_MOVE: u8 = 32;

/// One control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The receiver is to answer at once.
    pub reply_wanted: bool,
    /// The sender's operator has taken this path out of service.
    pub out_of_service: bool,
    /// The sender wants to know what arrives (see [`crate::wire::report`]).
    pub reports_wanted: bool,
    /// The sender sends again what a report says is missing.
    pub resends: bool,
    /// The sender may go on from another port of its own where nothing is answered on this path.
    pub may_move: bool,
    /// The sender's index of the path.
    pub path: u8,
    /// Number of this message on this path.
    pub number: u32,
    /// The sender's session.
    pub session: u64,
    /// When it was sent, by the sender's clock.
    pub sent: Time,
    /// Datagrams sent on this path so far, this one included.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// The tunnel's next sequence number when this was sent.
    pub next_seq: Seq,
    /// The newest message received, if any.
    pub echo: Option<Echo>,
    /// Datagrams received on this path so far.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Loss recently seen on this path, in millionths.
    pub loss_ppm: u32,
}

/// The part of a message that speaks of the newest one received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// Its number.
    pub number: u32,
    /// Its sender's session.
    pub session: u64,
    /// When it was sent, by its sender's clock.
    pub sent: Time,
    /// When it was received, by the echoing end's clock.
    pub received: Time,
}

/// What follows a message in a sealed tunnel: what shows that who sent it hears what is sent to him.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The receiver is to send this back to where the message came from.
    pub code: u64,
    /// The newest code that came from where this message goes to; 0 when none did.
    pub answer: u64,
}

impl Proof {
    /// Reads what stands behind a message. `None` for another kind, or when nothing does.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Proof> {
        let (message, rest) = payload.split_first_chunk::<MESSAGE_BYTES>()?;
        let bytes = rest.first_chunk::<PROOF_BYTES>()?;
        (Kind::of(message) == Ok(Kind::Probe)).then(|| Proof {
            code: ip::u64_at(bytes, 0),
            answer: ip::u64_at(bytes, 8),
        })
    }

    /// Writes it.
    pub fn emit(&self, out: &mut [u8; PROOF_BYTES]) {
        out[..8].copy_from_slice(&self.code.to_be_bytes());
        out[8..].copy_from_slice(&self.answer.to_be_bytes());
    }
}

impl Message {
    /// Reads a message from the payload of a GRE packet.
    ///
    /// # Errors
    /// When the payload is too short, of another kind, or has no session.
    pub fn parse(payload: &[u8]) -> Result<Message, ControlError> {
        let Some(bytes) = payload.first_chunk::<MESSAGE_BYTES>() else {
            return Err(ControlError::Truncated);
        };
        if Kind::of(bytes)? != Kind::Probe {
            return Err(ControlError::Kind(bytes[0]));
        }
        let u32_at = |at: usize| ip::u32_at(bytes, at);
        let u64_at = |at: usize| ip::u64_at(bytes, at);
        let session = u64_at(8);
        if session == 0 {
            return Err(ControlError::NoSession);
        }
        let echo = Echo {
            number: u32_at(44),
            session: u64_at(48),
            sent: Time::from_nanos(u64_at(56)),
            received: Time::from_nanos(u64_at(64)),
        };
        Ok(Message {
            reply_wanted: bytes[1] & FLAG_REPLY_WANTED != 0,
            out_of_service: bytes[1] & FLAG_OUT_OF_SERVICE != 0,
            reports_wanted: bytes[1] & FLAG_REPORTS_WANTED != 0,
            resends: bytes[1] & FLAG_RESENDS != 0,
            may_move: bytes[1] & FLAG_MAY_MOVE != 0,
            path: bytes[2],
            number: u32_at(4),
            session,
            sent: Time::from_nanos(u64_at(16)),
            tx_packets: u64_at(24),
            tx_bytes: u64_at(32),
            next_seq: Seq::new(u32_at(40)),
            echo: (bytes[1] & FLAG_ECHO != 0).then_some(echo),
            rx_packets: u64_at(72),
            rx_bytes: u64_at(80),
            loss_ppm: u32_at(88).min(1_000_000),
        })
    }

    /// Writes the message to `out`.
    pub fn emit(&self, out: &mut [u8; MESSAGE_BYTES]) {
        out.fill(0);
        out[0] = Kind::Probe as u8;
        if self.reply_wanted {
            out[1] |= FLAG_REPLY_WANTED;
        }
        if self.out_of_service {
            out[1] |= FLAG_OUT_OF_SERVICE;
        }
        if self.reports_wanted {
            out[1] |= FLAG_REPORTS_WANTED;
        }
        if self.resends {
            out[1] |= FLAG_RESENDS;
        }
        if self.may_move {
            out[1] |= FLAG_MAY_MOVE;
        }
        out[2] = self.path;
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &self.number.to_be_bytes());
        put(8, &self.session.to_be_bytes());
        put(16, &self.sent.as_nanos().to_be_bytes());
        put(24, &self.tx_packets.to_be_bytes());
        put(32, &self.tx_bytes.to_be_bytes());
        put(40, &self.next_seq.value().to_be_bytes());
        if let Some(echo) = self.echo {
            put(44, &echo.number.to_be_bytes());
            put(48, &echo.session.to_be_bytes());
            put(56, &echo.sent.as_nanos().to_be_bytes());
            put(64, &echo.received.as_nanos().to_be_bytes());
        }
        put(72, &self.rx_packets.to_be_bytes());
        put(80, &self.rx_bytes.to_be_bytes());
        put(88, &self.loss_ppm.to_be_bytes());
        if self.echo.is_some() {
            out[1] |= FLAG_ECHO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let time = any::<u64>().prop_map(Time::from_nanos);
        let echo = (any::<u32>(), any::<u64>(), time.clone(), time.clone()).prop_map(
            |(number, session, sent, received)| Echo {
                number,
                session,
                sent,
                received,
            },
        );
        (
            (
                (any::<bool>(), any::<bool>()),
                (any::<bool>(), any::<bool>(), any::<bool>()),
                any::<u8>(),
                any::<u32>(),
                1..=u64::MAX,
                time,
            ),
            (
                any::<u64>(),
                any::<u64>(),
                any::<u32>(),
                proptest::option::of(echo),
            ),
            (any::<u64>(), any::<u64>(), 0..=1_000_000u32),
        )
            .prop_map(|(a, b, c)| Message {
                reply_wanted: a.0.0,
                out_of_service: a.0.1,
                reports_wanted: a.1.0,
                resends: a.1.1,
                may_move: a.1.2,
                path: a.2,
                number: a.3,
                session: a.4,
                sent: a.5,
                tx_packets: b.0,
                tx_bytes: b.1,
                next_seq: Seq::new(b.2),
                echo: b.3,
                rx_packets: c.0,
                rx_bytes: c.1,
                loss_ppm: c.2,
            })
    }

    proptest! {
        #[test]
        fn what_was_emitted_parses_to_the_same(message in message()) {
            let mut bytes = [0; MESSAGE_BYTES];
            message.emit(&mut bytes);
            prop_assert_eq!(Message::parse(&bytes), Ok(message));
            prop_assert_eq!(Message::parse(&bytes[1..]), Err(ControlError::Truncated));
        }

        #[test]
        fn any_bytes_parse_or_fail_without_panic(bytes: Vec<u8>) {
            let _ = Message::parse(&bytes);
        }
    }
}

//! A client who does nothing but report.
//!
//! He has a peer's keys, agrees on a session, opens a path as any client does and keeps it open. All else that he sends are
//! receiver reports, each newer than the last and as long as one may be: what an authenticated peer can ask most with.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mpt_core::crypto::{
    CryptoConfig, Opened, PresharedKey, PrivateKey, PublicKey, Sender, Sessions,
};
use mpt_core::path::{PathId, PathSet};
use mpt_core::seq::Seq;
use mpt_core::time::Time;
use mpt_core::wire::probe::{Echo, MESSAGE_BYTES, Message, PROOF_BYTES, Proof};
use mpt_core::wire::report::{MAX_MISSING, MAX_REPORT_BYTES, Missing, PathReport, Report};
use mpt_io::clock;

use crate::clients::entropy;

/// GRE header of a handshake's message.
const HANDSHAKE: [u8; 4] = [0, 0, 0x88, 0xb5];
/// He probes so often, and hears what the hub says.
const PROBING: Duration = Duration::from_millis(50);
/// The hub's messages that show a path to be open: it answers what has shown that it hears.
const OPEN: u32 = 10;

/// See the module.
pub(crate) struct Reporter {
    sessions: Sessions,
    session: u64,
    socket: UdpSocket,
    hub: SocketAddr,
    /// The hub's newest message, when it came, and the code that it wants back.
    heard: Option<(Message, Time, u64)>,
    /// The hub's messages that echo one of his.
    echoed: u32,
    /// When he probes next.
    due: Time,
    probes: u32,
    reports: u32,
}

impl Reporter {
    /// Calls the hub from this socket, until a path is open.
    pub(crate) fn call(
        private_key: PrivateKey,
        hub_key: PublicKey,
        socket: UdpSocket,
        hub: SocketAddr,
    ) -> Reporter {
        let mut session = [0; 8];
        entropy()(&mut session);
        let session = u64::from_ne_bytes(session).max(1);
        let crypto = CryptoConfig {
            private_key,
            peer_public_key: hub_key,
            psk: PresharedKey::none(),
            session,
            hardware_aes: mpt_core::crypto::has_hardware_aes(),
        };
        let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let mut sessions = Sessions::new(crypto, clock::now(), since_1970, entropy());
        sessions.set_paths(PathSet::from_bits(1));
        socket.set_nonblocking(true).unwrap();
        let mut this = Reporter {
            sessions,
            session,
            socket,
            hub,
            heard: None,
            echoed: 0,
            due: clock::now(),
            probes: 0,
            reports: 0,
        };
        let began = clock::now();
        while this.echoed < OPEN {
            assert!(
                clock::now().since(began) < Duration::from_secs(10),
                "the hub does not hear who reports"
            );
            this.look();
            std::thread::sleep(Duration::from_millis(1));
        }
        this
    }

    /// Sends a report to this address, and now and then a probe to the hub.
    pub(crate) fn report(&mut self, to: SocketAddr) {
        self.look();
        let Some((said, came, _)) = self.heard else {
            return;
        };
        self.reports += 1;
        let report = Report {
            number: self.reports,
            session: self.session,
            about: said.session,
            sent: clock::now(),
            next: said.next_seq,
            high: said.next_seq,
            paths: [PathReport {
                path: 0,
                edge: said.next_seq,
                edge_arrived: came,
                packets: self.reports.into(),
                bytes: self.reports.into(),
            }]
            .into_iter()
            .collect(),
            missing: (0..MAX_MISSING as u32)
                .map(|gap| Missing {
                    first: Seq::new(said.next_seq.value().wrapping_sub(4 * (gap + 1))),
                    count: 2,
                })
                .collect(),
            duplicates: [].into_iter().collect(),
        };
        let mut bytes = [0; MAX_REPORT_BYTES];
        let len = report.emit(&mut bytes);
        let _ = self.say(&bytes[..len], to);
    }

    /// Seals a message and sends it.
    fn say(&mut self, message: &[u8], to: SocketAddr) -> io::Result<usize> {
        let mut sealed = [0; 1500];
        let path = PathId::new(0).unwrap();
        let own = self.heard.map(|(said, ..)| said.path);
        match self.sessions.seal_control(path, own, message, &mut sealed) {
            Some(len) => self.socket.send_to(&sealed[..len], to),
            None => Ok(0),
        }
    }

    /// Hears what came, probes, and goes on with the handshake, if it is time.
    fn look(&mut self) {
        let now = clock::now();
        if now < self.due {
            return;
        }
        self.due = now + PROBING;
        let mut bytes = [0; 2048];
        while let Ok((len, _)) = self.socket.recv_from(&mut bytes) {
            self.hear(now, &mut bytes[..len]);
        }
        self.sessions.handle_timeout(now);
        let _ = self.sessions.poll_keys();
        while self.sessions.poll_event().is_some() {}
        while let Some(transmit) = self.sessions.poll_transmit() {
            let _ = self.socket.send_to(transmit.contents, self.hub);
        }
        self.probe(now);
    }

    fn hear(&mut self, now: Time, bytes: &mut [u8]) {
        let sender = Sender {
            path: PathId::new(0).unwrap(),
            address: self.hub,
            known: true,
        };
        if let Some(message) = bytes.strip_prefix(&HANDSHAKE) {
            let _ = self.sessions.handle_message(now, sender, message);
        } else if let Ok(Opened::Control { message, .. }) = self.sessions.open(now, bytes)
            && let message = &bytes[message]
            && let (Ok(said), Some(proof)) = (Message::parse(message), Proof::parse(message))
        {
            self.echoed += u32::from(said.echo.is_some_and(|echo| echo.session == self.session));
            self.heard = Some((said, now, proof.code));
        }
    }

    fn probe(&mut self, now: Time) {
        self.probes += 1;
        let heard = self.heard;
        let message = Message {
            reply_wanted: true,
            out_of_service: false,
            reports_wanted: false,
            resends: true,
            may_move: false,
            path: 0,
            number: self.probes,
            session: self.session,
            sent: now,
            tx_packets: self.probes.into(),
            tx_bytes: self.probes.into(),
            next_seq: Seq::new(0),
            echo: heard.map(|(said, received, _)| Echo {
                number: said.number,
                session: said.session,
                sent: said.sent,
                received,
            }),
            rx_packets: 0,
            rx_bytes: 0,
            loss_ppm: 0,
        };
        let mut bytes = [0; MESSAGE_BYTES + PROOF_BYTES];
        let (head, tail) = bytes.split_first_chunk_mut::<MESSAGE_BYTES>().unwrap();
        message.emit(head);
        let proof = Proof {
            code: self.probes.into(),
            answer: heard.map_or(0, |(.., code)| code),
        };
        proof.emit(tail.first_chunk_mut().unwrap());
        let _ = self.say(&bytes, self.hub);
    }
}

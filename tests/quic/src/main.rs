//! A download by QUIC, by a stack that others wrote (quinn): a server that sends to whoever comes as long as it is read,
//! and a client that says how much came in each second.
//!
//! `quic-transfer serve ADDRESS:PORT` says `ready` when it listens, and at each connection's end what its packets met. `quic-transfer fetch ADDRESS:PORT SECONDS` prints
//! the Mbit/s of each second from its first packet on, a line each.
//!
//! Congestion control is quinn's default, CUBIC. Windows are wider than its own, which stop at 100 Mbit/s and 100 ms; everything
//! else is as quinn has it. The server's key is made anew at each start and nobody knows it: what is tested is a way, not who
//! is at its end.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, SignatureScheme};

/// Bytes that may be under way: as many as Chromium allows a stream. With TCP's 64 MiB of these tests quinn gives up a
/// connection that fills a queue of seconds: where every other packet of it is lost there are more than 1024 gaps.
const WINDOW_BYTES: u32 = 6 << 20;
/// Bytes of one write, and of one read at most.
const PIECE_BYTES: usize = 256 * 1024;
/// After so long without a packet a connection is over: quinn's own value.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match words.as_slice() {
        ["serve", address] => runtime.block_on(serve(address.parse()?)),
        ["fetch", address, seconds] => {
            let seconds = seconds.parse().context("how many seconds?")?;
            runtime.block_on(fetch(address.parse()?, seconds))
        }
        _ => bail!("usage: quic-transfer serve ADDRESS:PORT | fetch ADDRESS:PORT SECONDS"),
    }
}

/// Sends to whoever comes.
async fn serve(address: SocketAddr) -> anyhow::Result<()> {
    let endpoint = Endpoint::server(server_config()?, address)?;
    println!("ready");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                // A client that has seen enough ends its connection.
                let _ = give(&connection).await;
                let path = connection.stats().path;
                println!(
                    "{} packets, {} lost, window cut {} times to {} bytes, round trip {:.1?}",
                    path.sent_packets,
                    path.lost_packets,
                    path.congestion_events,
                    path.cwnd,
                    path.rtt
                );
            }
        });
    }
    Ok(())
}

/// Sends on one stream for as long as it is read.
async fn give(connection: &Connection) -> anyhow::Result<()> {
    let mut stream = connection.open_uni().await?;
    let piece = vec![0; PIECE_BYTES];
    loop {
        stream.write_all(&piece).await?;
    }
}

/// Reads for so many seconds, and prints what came in each.
async fn fetch(address: SocketAddr, seconds: usize) -> anyhow::Result<()> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let endpoint = Endpoint::client(any)?;
    let start = Instant::now();
    let connecting = endpoint.connect_with(client_config()?, address, "server.test")?;
    let connection = connecting.await.context("the handshake")?;
    let mut stream = connection.accept_uni().await.context("the stream")?;
    let (mut bytes, mut piece) = (vec![0_usize; seconds], vec![0; PIECE_BYTES]);
    let end = start + Duration::from_secs(seconds as u64);
    // Over a way that is dead for it, nothing more comes: that is what it got.
    while let Ok(read) = tokio::time::timeout_at(end.into(), stream.read(&mut piece)).await {
        let Some(count) = read? else {
            bail!("the stream ended")
        };
        if let Some(second) = bytes.get_mut(start.elapsed().as_secs() as usize) {
            *second += count;
        }
    }
    connection.close(VarInt::from_u32(0), b"enough");
    // The server hears of it.
    endpoint.wait_idle().await;
    for bytes in bytes {
        println!("{:.3}", bytes as f64 * 8e-6);
    }
    Ok(())
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .max_idle_timeout(Some(VarInt::from_u32(PATIENCE.as_millis() as u32).into()));
    Arc::new(transport)
}

/// With a key alone, in place of a certificate (RFC 7250).
fn server_config() -> anyhow::Result<ServerConfig> {
    let random = ring::rand::SystemRandom::new();
    let Ok(pair) = ring::signature::Ed25519KeyPair::generate_pkcs8(&random) else {
        bail!("no random bytes")
    };
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pair.as_ref()))?;
    let public = key.public_key().context("a public key")?;
    let public = CertificateDer::from(public.to_vec());
    let key = Arc::new(CertifiedKey::new(vec![public], key));
    let crypto = rustls::ServerConfig::builder_with_provider(provider::default_provider().into())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    config.transport_config(transport());
    Ok(config)
}

fn client_config() -> anyhow::Result<ClientConfig> {
    let provider = provider::default_provider();
    let verifier = Arc::new(Anyone(provider.signature_verification_algorithms));
    let crypto = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(transport());
    Ok(config)
}

/// Any server will do, if it has the key that it shows.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General(
            "QUIC is TLS 1.3 (RFC 9001 §4.2)".to_owned(),
        ))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

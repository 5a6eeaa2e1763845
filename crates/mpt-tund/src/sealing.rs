//! What the sessions of a sealed tunnel need of the system: the wall clock, random bytes, and whether
//! this machine has AES in hardware.

use std::time::{Duration, SystemTime};

use mpt_core::crypto::{CryptoConfig, Entropy, Sessions, has_hardware_aes};

use mpt_core::hub::{HubConfig, Worker};
use mpt_core::path::MAX_PATHS;
use mpt_core::tunnel::TunnelConfig;

use crate::clock;
use crate::config::Config;
use crate::hub;

/// The sessions of a tunnel with `[crypto]`, none yet.
pub(crate) fn sessions(config: &Config, session: u64) -> Option<Sessions> {
    let crypto = config.crypto.as_ref()?;
    let config = CryptoConfig {
        private_key: crypto.private_key.clone(),
        peer_public_key: crypto.peer_public_key?,
        psk: crypto.psk.clone(),
        session,
        hardware_aes: has_hardware_aes(),
    };
    let mut sessions = Sessions::new(config, clock::now(), since_1970(), entropy());
    sessions.set_wall_clock(Box::new(|_| since_1970()));
    Some(sessions)
}

/// What the peers of a hub have in common, for one of its workers; none if the tunnel is no hub.
pub(crate) fn hub(config: &Config, tunnel: &TunnelConfig, worker: Worker) -> Option<HubConfig> {
    let crypto = config.crypto.as_ref()?;
    config.peers.as_ref()?;
    Some(HubConfig {
        // What arrives is copied to its peer packet by packet.
        tunnel: TunnelConfig {
            receives_trains: false,
            ..tunnel.clone()
        },
        clamps_mss: config.tunnel.clamps_mss,
        private_key: crypto.private_key.clone(),
        hardware_aes: has_hardware_aes(),
        called: [None; MAX_PATHS],
        worker,
        memory: hub::memory::of_line(config.workers()),
        entropy: Box::new(entropy),
        wall: Box::new(|| Box::new(|_| since_1970())),
    })
}

/// The wall clock. One before 1970 is as good as one in 1970: the peer then calls.
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Says what a tunnel without `[crypto]` is, what is wrong about its keys with one, and which settings have no effect.
pub(crate) fn announce(config: &Config) {
    let name = &config.tunnel.name;
    for warning in config.warnings() {
        tracing::warn!("tunnel {name}: {warning}");
    }
    match &config.crypto {
        Some(crypto) => {
            for warning in crypto.warnings() {
                tracing::warn!("tunnel {name}: {warning}");
            }
        }
        None => tracing::warn!(
            "tunnel {name} is not protected: anybody on the way can read and forge its packets; \
             [crypto] in {} seals them",
            config.file.display()
        ),
    }
}

/// The kernel's random numbers.
fn entropy() -> Entropy {
    Box::new(|mut out| {
        while !out.is_empty() {
            let flags = rustix::rand::GetRandomFlags::empty();
            match rustix::rand::getrandom(&mut *out, flags) {
                Ok(filled) => out = &mut out[filled..],
                Err(rustix::io::Errno::INTR) => {}
                // There is no other, and keys of anything less would be none.
                Err(error) => panic!("the kernel has no random numbers: {error}"),
            }
        }
    })
}

//! What can be said of a datagram, or of the packet in it, without knowing the tunnel.

use crate::control::drops::DropReason;
use crate::seq::Seq;
use crate::wire::ecn::{self, Decap};
use crate::wire::gre::{self, GreError, Protocol};
use crate::wire::ip::{Packet, PacketMut, Version};

/// What a datagram is.
pub(super) enum Content {
    Control {
        /// Where the message begins, in bytes.
        offset: usize,
    },
    Packet {
        sequence: Option<Seq>,
        /// Where the inner packet begins, and its length, in bytes.
        offset: usize,
        len: usize,
    },
}

/// Everything that can be said of a datagram by itself. Brings DSCP and ECN of the
/// outer header into the inner one.
pub(super) fn look_at(bytes: &mut [u8], key: Option<u32>, tos: u8) -> Result<Content, DropReason> {
    let (header, offset) = gre::parse(bytes, key).map_err(drop_for)?;
    let payload = &mut bytes[offset..];
    let version = match header.protocol {
        Protocol::Ipv4 => Version::V4,
        Protocol::Ipv6 => Version::V6,
        Protocol::Control => return Ok(Content::Control { offset }),
        Protocol::Sealed => return Err(DropReason::UnknownProtocol),
    };
    let len = look_into(payload, version, tos)?;
    Ok(Content::Packet {
        sequence: header.sequence,
        offset,
        len,
    })
}

/// Looks at an inner packet, which must be of this version, and brings DSCP and ECN of the outer header
/// into it. Returns its length.
pub(super) fn look_into(
    payload: &mut [u8],
    version: Version,
    tos: u8,
) -> Result<usize, DropReason> {
    let packet = Packet::parse(payload).map_err(|_| DropReason::BadInner)?;
    if packet.version() != version {
        return Err(DropReason::BadInner);
    }
    let len = packet.total_len();
    match ecn::inner_after(tos, packet.tos()) {
        Decap::Keep => {}
        Decap::Set(tos) => {
            if let Ok(mut packet) = PacketMut::parse(payload) {
                packet.set_tos(tos);
            }
        }
        Decap::Drop => return Err(DropReason::Ecn),
    }
    Ok(len)
}

fn drop_for(error: GreError) -> DropReason {
    match error {
        GreError::Truncated | GreError::Version(_) | GreError::ReservedBits => DropReason::BadGre,
        GreError::Checksum => DropReason::BadChecksum,
        GreError::Key => DropReason::BadKey,
        GreError::Protocol(_) => DropReason::UnknownProtocol,
    }
}

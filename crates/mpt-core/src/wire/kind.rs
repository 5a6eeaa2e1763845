//! The kinds of control messages, and why bytes are none.

/// GRE header of a handshake message: no flags, Protocol Type 0x88B5.
pub(crate) const HANDSHAKE_GRE: [u8; 4] = [0x00, 0x00, 0x88, 0xb5];
/// What keeps a mapping open and means nothing else: RFC 3948 §2.3.
pub(crate) const LONE_BYTE: [u8; 1] = [0xff];

/// What a control message is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// See [`crate::wire::probe`].
    Probe = 1,
    /// See [`crate::wire::report`].
    Report = 2,
    /// The first message of a handshake: see [`crate::crypto`], as for the two that follow.
    Initiation = 3,
    /// The answer to one.
    Response = 4,
    /// The answer to one instead, while there are many.
    CookieReply = 5,
    /// See [`crate::wire::edges`].
    Edges = 6,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [
        Kind::Probe,
        Kind::Report,
        Kind::Initiation,
        Kind::Response,
        Kind::CookieReply,
        Kind::Edges,
    ];

    /// The kind of a message.
    ///
    /// # Errors
    /// When the message is empty or of a kind that this version does not know.
    pub fn of(message: &[u8]) -> Result<Kind, ControlError> {
        let &first = message.first().ok_or(ControlError::Truncated)?;
        let mut known = Kind::ALL.into_iter();
        let known = known.find(|&kind| kind as u8 == first);
        known.ok_or(ControlError::Kind(first))
    }

    /// Whether it belongs to a handshake, and so is never sealed.
    #[must_use]
    pub const fn is_handshake(self) -> bool {
        matches!(self, Kind::Initiation | Kind::Response | Kind::CookieReply)
    }
}

/// Why bytes are not the control message that they are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Fewer bytes than its kind has, or than its counts announce.
    #[error("the control message is too short")]
    Truncated,
    /// Of another kind, or of one that this version does not know.
    #[error("control message of another kind, {0}")]
    Kind(u8),
    /// More entries than a message may have, or an empty range.
    #[error("the control message's counts make no sense")]
    Counts,
    /// Session 0, which nobody uses.
    #[error("control message without a session")]
    NoSession,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_its_first_byte() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(&[kind as u8, 9]), Ok(kind));
        }
        assert_eq!(Kind::of(&[7]), Err(ControlError::Kind(7)));
        assert_eq!(Kind::of(&[]), Err(ControlError::Truncated));
    }
}

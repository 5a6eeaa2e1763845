//! Why the two ends do not come to speak.

use super::{Code, Finding};
use crate::control::{HandshakeState, PathState, Status};

/// What was found, while no path is up.
pub(super) fn finding(status: &Status) -> Option<Finding> {
    let handshake = status.tunnel.handshake.as_ref()?;
    let code = match handshake.state {
        HandshakeState::Waiting | HandshakeState::Agreed => return None,
        HandshakeState::Unanswered => Code::HandshakeUnanswered,
        HandshakeState::WrongKey => Code::HandshakeWrongKey,
        HandshakeState::WrongPsk => Code::HandshakeWrongPsk,
        HandshakeState::PeerNotSealed => Code::PeerNotSealed,
        HandshakeState::PeerIsSealed => Code::PeerIsSealed,
        HandshakeState::PeerClockBehind => Code::PeerClockBehind,
    };
    if status.paths.iter().any(|path| path.state == PathState::Up) {
        return None;
    }
    Some(Finding::down(code, &handshake.text, &handshake.remedy))
}

/// Whether a finding about what arrives says less than what was found.
pub(super) fn explains(status: &Status, code: Code) -> bool {
    let state = status.tunnel.handshake.as_ref().map(|known| known.state);
    let speaks = state.is_some_and(|state| state != HandshakeState::Unanswered);
    let is_less = matches!(
        code,
        Code::NotSealed | Code::NotOpened | Code::BadHandshakes | Code::UnknownProtocol
    );
    speaks && is_less && finding(status).is_some()
}

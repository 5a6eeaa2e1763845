//! Whether the two ends have come to speak, and if not, why: as far as this end can tell.

use serde::{Deserialize, Serialize};

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandshakeState {
    /// Nothing has come of it yet, and nothing says why.
    #[default]
    Waiting,
    /// A path works.
    Agreed,
    /// Handshakes are sent, and nothing comes.
    Unanswered,
    /// One end has not the key that the other knows.
    WrongKey,
    /// The preshared keys differ.
    WrongPsk,
    /// The peer does not seal, and this end does.
    PeerNotSealed,
    /// The peer seals, and this end does not.
    PeerIsSealed,
    /// The peer's handshakes bear an older date than the last one that was taken.
    PeerClockBehind,
}

/// How it stands, in words. What is said rests on datagrams that anybody can send: it is a hint for a
/// person, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Handshake {
    /// How it stands.
    pub state: HandshakeState,
    /// What is the case, in a sentence; empty while there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

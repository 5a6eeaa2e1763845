//! The control messages that two ends exchange once they know each other, behind a GRE header without
//! sequence number whose Protocol Type is [`crate::wire::gre::CONTROL_ETHERTYPE`], sealed or not.

use super::edges::Edges;
use super::kind::{ControlError, Kind};
use super::probe::Message;
use super::report::Report;

/// One control message.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one call, and nothing is allocated for a report"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// A path is probed, or a probe answered.
    Probe(Message),
    /// What arrived, and what is missing.
    Report(Report),
    /// Which paths numbers do not go over.
    Edges(Edges),
}

impl Control {
    /// Reads a message from the payload of a GRE packet.
    ///
    /// # Errors
    /// When it is of no kind that stands here, too short for its kind, or makes no sense.
    pub fn parse(payload: &[u8]) -> Result<Control, ControlError> {
        match Kind::of(payload)? {
            Kind::Probe => Message::parse(payload).map(Control::Probe),
            Kind::Report => Report::parse(payload).map(Control::Report),
            Kind::Edges => Edges::parse(payload).map(Control::Edges),
            kind @ (Kind::Initiation | Kind::Response | Kind::CookieReply) => {
                Err(ControlError::Kind(kind as u8))
            }
        }
    }
}

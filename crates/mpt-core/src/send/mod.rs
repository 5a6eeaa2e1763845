//! The sender's side: which path takes a packet and when, what waits for that, and what goes again.
//!
//! In the order in which a packet meets them: [`segment`] cuts a super-packet; [`scheduler`] chooses its path, and
//! how much that takes now; what no path takes waits in the `queue`; it joins a [`train`]. What was sent is
//! noted (`sent`), so that the peer's reports tell what became of it: which path has fallen silent
//! (`silence`), and what was lost and goes again (`recovery`).

pub(crate) mod queue;
pub(crate) mod recovery;
pub mod scheduler;
pub mod segment;
pub(crate) mod sent;
pub(crate) mod silence;
pub mod train;

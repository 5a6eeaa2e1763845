//! The sender's side: which path takes a packet and when, what waits for that, and what goes again.
//!
//! In the order in which a packet meets them: [`segment`] cuts a super-packet; [`scheduler`] chooses its path by a
//! fixed rule, or the `sender` by what paths turn out to deliver. The sender's parts, each with its own state:
//! `scheduler::adaptive` with a pace for each path, the choice; `tiers`, cheaper paths before dearer ones; `queue`,
//! what no path takes; `committed`, what has its number and waits for its path; `sparse`, what goes by itself;
//! `classes`, what some packets are to have that others are not. What was sent is noted (`sent`), so that the peer's
//! reports tell what became of it: what was lost and goes again (`recovery`), and which path has fallen silent
//! (`silence`, `rescue`). The bytes of all that waits or may go again are in the `slab`. Whose packet is not sent is told (`icmp_errors`). Each packet becomes a datagram
//! (`datagrams`) in a [`train`]. Rates and delays are those of [`units`].

pub mod classes;
pub(crate) mod committed;
pub(crate) mod datagrams;
pub(crate) mod icmp_errors;
pub(crate) mod lanes;
pub(crate) mod queue;
pub(crate) mod recovery;
pub(crate) mod rescue;
pub mod scheduler;
pub mod segment;
pub(crate) mod sender;
pub(crate) mod sent;
pub(crate) mod silence;
pub(crate) mod slab;
pub(crate) mod sparse;
pub mod tiers;
pub mod train;
pub(crate) mod turn;
pub mod units;

//! The receiver's side: packets of all paths, put back into order.
//!
//! Datagrams are received into a [`buffer`], and wait there as long as [`reorder`] holds them;
//! [`block_sort`] sorts without holding. What continues its own TCP connection does not wait for others (`connections`).
//! `order` measures order before and behind both, and [`coalesce`] makes
//! consecutive packets of a flow a super-packet for the TUN; `refusals` cuts it again where the TUN does not take it.

pub mod block_sort;
pub mod buffer;
pub mod coalesce;
pub(crate) mod connections;
pub(crate) mod order;
pub(crate) mod refusals;
pub mod reorder;

//! The receiver's side: packets of all paths, put back into order.
//!
//! Datagrams are received into a [`buffer`], and wait there as long as [`reorder`] holds them;
//! [`block_sort`] sorts without holding. `order` measures order before and behind both, and [`coalesce`] makes
//! consecutive packets of a flow a super-packet for the TUN.

pub mod block_sort;
pub mod buffer;
pub mod coalesce;
pub(crate) mod order;
pub mod reorder;

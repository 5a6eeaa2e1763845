//! The multipath GRE-in-UDP tunnel without I/O: no sockets, no clock, no threads. Bytes and times
//! go in by `handle_*`, bytes and times come out by `poll_*`; `mpt-tund` moves them between the
//! kernel and here, `mpt-sim` between two tunnels in virtual time.
//!
//! * [`tunnel`]: the machine, and its two lines, [`tunnel::Outbound`] and [`tunnel::Inbound`]; they use
//! * [`hub`]: many peers behind one interface and a few sockets;
//! * [`send`]: what the line out decides: paths, queue, recovery;
//! * [`receive`]: what the line in does with what came: order;
//! * [`path`]: what is known of a path: its probes, its peer, its MTU;
//! * [`crypto`]: the handshake and the sealing of a sealed tunnel;
//! * [`wire`]: every format on the wire;
//! * [`metrics`]: how far a stream is from its order;
//! * [`control`]: what `mpt-ctl` asks and sees.
//!
//! All count on [`seq`], numbers with modular order, [`time`], the [`limits`] of settings, and what may be an
//! [`endpoint`] of a path.
#![forbid(unsafe_code)]

mod bucket;
pub mod control;
pub mod crypto;
pub mod endpoint;
pub mod hub;
pub mod limits;
pub mod metrics;
pub mod path;
pub mod receive;
pub mod send;
pub mod seq;
pub mod time;
pub mod tunnel;
mod windowed;
pub mod wire;

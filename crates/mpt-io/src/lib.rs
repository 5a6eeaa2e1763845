//! What a tunnel reads and writes, many packets a system call: its interface ([`tun`]), the sockets of its paths
//! ([`udp`]), and the clocks by which its core is told the time ([`clock`]).
//!
//! All `unsafe` code that a packet passes through is here. Nothing here drives a tunnel: the daemon does, and so does what
//! measures a hub with many clients (benches/hub_clients).

pub mod clock;
pub mod tun;
pub mod udp;

/// Whether many packets cross a system call at a time: super-packets to and from the TUN, trains to
/// and from the paths' sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offload {
    /// As far as the kernel has it.
    #[default]
    Auto,
    /// Where the TUN cannot do it the tunnel does not start. (Sockets go as with `Auto`: whether a
    /// train passes depends on the device that it meets, which may change.)
    On,
    /// One packet at a time.
    Off,
}

impl Offload {
    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Offload::Auto => "auto",
            Offload::On => "on",
            Offload::Off => "off",
        }
    }
}

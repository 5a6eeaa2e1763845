//! Socket addresses as the kernel lays them out (`sockaddr_in`, `sockaddr_in6`).
//!
//! They are read and written as bytes: 28 are enough for both families, no union is cast, and an
//! address of any other family is simply not an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for the largest address that a UDP socket meets, aligned as `sockaddr` asks.
#[repr(C, align(4))]
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    bytes: [u8; RawAddress::CAPACITY],
    len: u8,
}

impl RawAddress {
    /// Size of `sockaddr_in6` in bytes.
    pub(super) const CAPACITY: usize = size_of::<libc::sockaddr_in6>();
    /// Size of `sockaddr_in` in bytes.
    const V4: usize = size_of::<libc::sockaddr_in>();
    /// Room for the kernel to write an address to.
    pub(super) const EMPTY: RawAddress = RawAddress {
        bytes: [0; Self::CAPACITY],
        len: 0,
    };

    /// Where the kernel reads the address.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Where the kernel writes an address.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Bytes in use, as `msg_namelen` wants to know.
    pub(super) fn len(&self) -> u32 {
        u32::from(self.len)
    }

    /// The address in the first `len` bytes, which the kernel wrote.
    pub(super) fn read(&self, len: u32) -> Option<SocketAddr> {
        let len = usize::try_from(len).ok()?;
        parse(self.bytes.get(..len.min(Self::CAPACITY))?)
    }
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> RawAddress {
        let mut raw = RawAddress::EMPTY;
        let bytes = &mut raw.bytes;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, Self::V4)
            }
            SocketAddr::V6(v6) => {
                // std keeps the flow information as the kernel does, in the network's order.
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, Self::CAPACITY)
            }
        };
        raw.bytes[0..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        raw.len = len as u8;
        raw
    }
}

/// The address that `bytes` begin with, or `None` when they are too short or of another family.
pub(super) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = libc::c_int::from(u16::from_ne_bytes(array(bytes, 0)?));
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match family {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(array::<4>(bytes, 4)?);
            Some(SocketAddr::new(IpAddr::V4(ip), port))
        }
        libc::AF_INET6 => {
            let flow = u32::from_ne_bytes(array(bytes, 4)?);
            let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
        }
        _ => None,
    }
}

/// `N` bytes of `bytes` from `at`, or `None` when they end before.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_the_kernel_and_back() {
        let v6 = SocketAddrV6::new("fe80::1".parse().unwrap(), 4754, 0, 7);
        for address in ["192.0.2.1:4754".parse().unwrap(), SocketAddr::V6(v6)] {
            let raw = RawAddress::from(address);
            assert_eq!(raw.read(raw.len()), Some(address));
        }
    }

    #[test]
    fn short_or_foreign_addresses_are_none() {
        let raw = RawAddress::from("[2001:db8::1]:1".parse::<SocketAddr>().unwrap());
        for len in 0..RawAddress::CAPACITY as u32 {
            assert_eq!(raw.read(len), None, "{len} bytes");
        }
        assert_eq!(parse(&[1, 0, b'/', b't', b'm', b'p', 0, 0]), None);
    }
}

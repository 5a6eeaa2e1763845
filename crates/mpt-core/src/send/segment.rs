//! Super-packets into packets of the path MTU, each written once, straight to where it is sent from.
//!
//! A TUN with offloads hands over up to 64 KiB of a TCP or UDP flow at once (see [`crate::wire::vnet`]).
//! [`Segments`] knows at once how many packets that makes and how long each is, so that the scheduler
//! can divide them among the paths, and then writes each behind its GRE header in the train
//! of the path that was chosen. The copy of the payload also sums it: the checksum is free.
//!
//! Everything in the headers that is the same in all segments is summed once; a segment adds its
//! own length, sequence number and flags. The pseudo header's sum is taken from the partial checksum
//! that came with the packet: it is right even behind an IPv6 routing header, whose final destination
//! is not in the IPv6 header.
//!
//! A packet that is not a super-packet is the case of one segment: it is copied, and its checksum
//! completed if that was left to us.

mod template;

use crate::wire::checksum::Sum;
use crate::wire::ip::{Packet, ParseError, Version, protocol, put_u16};
use crate::wire::transport::{tcp, udp};
use crate::wire::vnet::{self, Checksum, Gso, VnetError, VnetHeader};
use template::{IpTemplate, Place, TcpTemplate, UdpTemplate};

/// Why a super-packet cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// It is not an IP packet.
    #[error(transparent)]
    Ip(#[from] ParseError),
    /// The checksum that is to be completed is not in the packet.
    #[error(transparent)]
    Vnet(#[from] VnetError),
    /// The virtio header and the packet speak of different things: version, protocol, place of the
    /// checksum; or the packet is a fragment, or its transport header is cut short.
    #[error("the virtio header does not describe this packet")]
    Mismatch,
    /// SYN or RST in a super-packet: such a segment has no successor.
    #[error("a TCP super-packet with SYN or RST")]
    Flags,
    /// A packet, or the UDP datagrams of a super-packet, exceed the MTU. It is for the caller to
    /// answer ([`crate::wire::icmp`]) or to complete and fragment ([`crate::wire::fragment`]) them; called again
    /// with `usize::MAX` for an MTU, [`Segments::new`] yields them as they are.
    #[error("the packet does not fit the MTU")]
    TooBig,
    /// The MTU has no room for one byte of TCP payload behind its headers.
    #[error("the MTU has no room for the packet's headers")]
    MtuTooSmall,
}

/// The packets that a super-packet is cut into.
#[derive(Debug, Clone)]
pub struct Segments<'a> {
    packet: Packet<'a>,
    /// IP header, extension headers and transport header, in bytes.
    headers_len: usize,
    /// Payload bytes in each segment but the last.
    step: usize,
    count: usize,
    next: usize,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// One packet; the checksum's place if it is to be completed.
    Whole(Option<(usize, usize)>),
    Tcp(IpTemplate, TcpTemplate),
    Udp(IpTemplate, UdpTemplate),
}

impl<'a> Segments<'a> {
    /// Plans the cutting of `packet`, which came with `header`, into packets of at most `mtu` bytes.
    ///
    /// TCP is cut finer than `header` says where the MTU wants it. UDP is not: a datagram's length is
    /// its meaning.
    ///
    /// # Errors
    /// See [`SegmentError`]. The packet is then to be counted and dropped, but for
    /// [`SegmentError::TooBig`].
    pub fn new(header: &VnetHeader, packet: &'a [u8], mtu: usize) -> Result<Self, SegmentError> {
        let packet = Packet::parse(packet)?;
        match header.gso {
            Gso::None => Self::whole(packet, header.checksum, mtu),
            Gso::Tcp4 { size, .. } => {
                Self::tcp(packet, Version::V4, header.checksum, size.get().into(), mtu)
            }
            Gso::Tcp6 { size, .. } => {
                Self::tcp(packet, Version::V6, header.checksum, size.get().into(), mtu)
            }
            Gso::Udp { size } => Self::udp(packet, header.checksum, size.get().into(), mtu),
        }
    }

    /// The super-packet as it came.
    #[must_use]
    pub const fn packet(&self) -> Packet<'a> {
        self.packet
    }

    /// How many packets there are in all, at least one.
    #[must_use]
    pub const fn segments(&self) -> usize {
        self.count
    }

    /// How many have not been written by [`Segments::write_next`] yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.count - self.next
    }

    /// Their bytes, headers included.
    pub(crate) fn remaining_bytes(&self) -> usize {
        let left = self.next..self.count;
        left.map(|index| self.segment_len(index)).sum()
    }

    /// The length of packet `index` in bytes, headers included. All but the last are equal, and the
    /// last is not longer.
    ///
    /// # Panics
    /// When there is no such packet.
    #[inline]
    #[must_use]
    pub fn segment_len(&self, index: usize) -> usize {
        self.headers_len + self.payload(index).len()
    }

    /// Writes the next packet to the front of `out` and returns its length; 0 after the last.
    ///
    /// # Panics
    /// When `out` is shorter than [`Segments::segment_len`] of that packet.
    #[inline]
    pub fn write_next(&mut self, out: &mut [u8]) -> usize {
        if self.next == self.count {
            return 0;
        }
        self.next += 1;
        self.write(self.next - 1, out)
    }

    /// Writes packet `index` to the front of `out` and returns its length. For those who send a
    /// packet more than once.
    ///
    /// # Panics
    /// When there is no such packet, or `out` is shorter than its length.
    pub fn write(&self, index: usize, out: &mut [u8]) -> usize {
        let payload = self.payload(index);
        let length = self.headers_len + payload.len();
        let (headers, body) = out[..length].split_at_mut(self.headers_len);
        headers.copy_from_slice(&self.packet.bytes()[..self.headers_len]);
        match &self.form {
            Form::Whole(place) => self.write_whole(*place, &mut out[..length]),
            Form::Tcp(ip, tcp) => {
                let sum = Sum::copy(payload, body);
                ip.write(self.packet.version(), index, length, headers);
                let place = Place {
                    offset: index * self.step,
                    length: length - tcp.start,
                    is_first: index == 0,
                    is_last: index + 1 == self.count,
                };
                tcp.write(&place, sum, &mut headers[tcp.start..]);
            }
            Form::Udp(ip, udp) => {
                let sum = Sum::copy(payload, body);
                ip.write(self.packet.version(), index, length, headers);
                udp.write(length - udp.start, sum, &mut headers[udp.start..]);
            }
        }
        length
    }

    /// What packet `index` carries behind its headers.
    #[inline]
    fn payload(&self, index: usize) -> &'a [u8] {
        assert!(index < self.count, "a segment beyond the last");
        let rest = &self.packet.bytes()[self.headers_len + index * self.step..];
        &rest[..rest.len().min(self.step)]
    }

    fn whole(packet: Packet<'a>, checksum: Checksum, mtu: usize) -> Result<Self, SegmentError> {
        let place = match checksum {
            Checksum::Stated | Checksum::Verified => None,
            Checksum::Partial { start, offset } => {
                vnet::check_place(start, offset, packet.total_len())?;
                if usize::from(start) < packet.header_len() {
                    return Err(SegmentError::Mismatch);
                }
                Some((usize::from(start), usize::from(offset)))
            }
        };
        if packet.total_len() > mtu {
            return Err(SegmentError::TooBig);
        }
        Ok(Self {
            packet,
            headers_len: 0,
            step: packet.total_len(),
            count: 1,
            next: 0,
            form: Form::Whole(place),
        })
    }

    fn write_whole(&self, place: Option<(usize, usize)>, out: &mut [u8]) {
        let bytes = self.packet.bytes();
        let Some((start, offset)) = place else {
            out.copy_from_slice(bytes);
            return;
        };
        out[..start].copy_from_slice(&bytes[..start]);
        let sum = Sum::copy(&bytes[start..], &mut out[start..]);
        put_u16(out, start + offset, vnet::completed(sum, offset));
    }

    fn tcp(
        packet: Packet<'a>,
        version: Version,
        checksum: Checksum,
        size: usize,
        mtu: usize,
    ) -> Result<Self, SegmentError> {
        let start = transport_at(&packet, protocol::TCP, checksum, tcp::CHECKSUM)?;
        let segment = &packet.bytes()[start..];
        let header_len = tcp::header_len(segment).ok_or(SegmentError::Mismatch)?;
        if packet.version() != version {
            return Err(SegmentError::Mismatch);
        }
        if segment[tcp::FLAGS] & (tcp::SYN | tcp::RST) != 0 {
            return Err(SegmentError::Flags);
        }
        let headers_len = start + header_len;
        let room = mtu.saturating_sub(headers_len);
        if room == 0 {
            return Err(SegmentError::MtuTooSmall);
        }
        let ip = IpTemplate::new(&packet);
        let form = Form::Tcp(ip, TcpTemplate::new(segment, start, header_len));
        Ok(Self::planned(packet, headers_len, size.min(room), form))
    }

    fn udp(
        packet: Packet<'a>,
        checksum: Checksum,
        size: usize,
        mtu: usize,
    ) -> Result<Self, SegmentError> {
        let start = transport_at(&packet, protocol::UDP, checksum, udp::CHECKSUM)?;
        let datagram = &packet.bytes()[start..];
        if datagram.len() < udp::HEADER {
            return Err(SegmentError::Mismatch);
        }
        let headers_len = start + udp::HEADER;
        let longest = size.min(packet.total_len() - headers_len);
        if headers_len + longest > mtu {
            return Err(SegmentError::TooBig);
        }
        let ip = IpTemplate::new(&packet);
        let form = Form::Udp(ip, UdpTemplate::new(datagram, start));
        Ok(Self::planned(packet, headers_len, size, form))
    }

    fn planned(packet: Packet<'a>, headers_len: usize, step: usize, form: Form) -> Self {
        let payload_len = packet.total_len() - headers_len;
        Self {
            packet,
            headers_len,
            step,
            count: payload_len.div_ceil(step).max(1),
            next: 0,
            form,
        }
    }
}

/// Where the transport header begins, if it is what the virtio header says it is.
fn transport_at(
    packet: &Packet<'_>,
    protocol: u8,
    checksum: Checksum,
    checksum_offset: usize,
) -> Result<usize, SegmentError> {
    let transport = packet.transport()?;
    let described = match checksum {
        Checksum::Partial { start, offset } => {
            usize::from(start) == transport.offset && usize::from(offset) == checksum_offset
        }
        Checksum::Stated | Checksum::Verified => false,
    };
    if described && transport.protocol == protocol && transport.fragment.is_none() {
        Ok(transport.offset)
    } else {
        Err(SegmentError::Mismatch)
    }
}

#[cfg(test)]
mod tests;

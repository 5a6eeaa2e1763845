//! Capture files: pcap in both byte orders, with microseconds or nanoseconds, and pcapng.
//!
//! A file that ends within a packet, as one does that is still being written or whose disk was full,
//! is read up to there, and [`Capture::next`] says so. So is one whose blocks stop making sense.

use std::io::{self, Read};

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

use super::frame::LinkType;

/// The reader's buffer, in bytes: above the largest frame of any capture program.
const BUFFER_BYTES: usize = 1 << 20;
/// Interfaces of a pcapng section that are told apart.
const INTERFACES: usize = 1024;

/// Why a file cannot be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error("is empty")]
    Empty,
    #[error("is compressed: gunzip it first")]
    Compressed,
    #[error("is no pcap or pcapng file")]
    Format,
    #[error("ends within a packet after {0} frames: it was cut off, or is still being written")]
    CutOff(u64),
    #[error("makes no sense after {0} frames: it is damaged")]
    Damaged(u64),
    #[error("cannot be read: {0}")]
    Read(String),
}

/// A capture file that is read a frame at a time.
pub(crate) struct Capture {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    /// Byte order of the section of pcapng that is read.
    is_big_endian: bool,
    /// Nanoseconds in a unit of an old-style file's fraction of a second.
    fraction_ns: u64,
    frames: u64,
    /// How much of the buffer the last frame took.
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: LinkType,
    resolution: Resolution,
    offset_s: i64,
}

/// The unit of a pcapng interface's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// 10^-n seconds.
    Decimal(u32),
    /// 2^-n seconds.
    Binary(u32),
}

/// One captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) link: LinkType,
    /// When it was captured, in nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) bytes: &'a [u8],
}

impl Frame<'_> {
    /// A frame of an interface that the file does not describe, or of one too many: what its bytes are is unknown.
    const UNDESCRIBED: Frame<'static> = Frame {
        link: LinkType::Undescribed,
        at_ns: 0,
        bytes: &[],
    };
}

impl Capture {
    /// Begins to read a file.
    pub(crate) fn open(source: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        let mut source = source;
        let mut magic = Vec::new();
        let looked = source.by_ref().take(2).read_to_end(&mut magic);
        looked.map_err(|error| CaptureError::Read(error.to_string()))?;
        match magic.as_slice() {
            [] => return Err(CaptureError::Empty),
            [0x1f, 0x8b] | [0x28, 0xb5] => return Err(CaptureError::Compressed),
            _ => {}
        }
        let whole = Whole(io::Cursor::new(magic).chain(source));
        let reader = create_reader(BUFFER_BYTES, whole).map_err(|error| match error {
            PcapError::Incomplete(_) | PcapError::UnexpectedEof => CaptureError::CutOff(0),
            PcapError::ReadError => CaptureError::Read("input/output error".into()),
            PcapError::Eof => CaptureError::Empty,
            PcapError::BufferTooSmall
            | PcapError::HeaderNotRecognized
            | PcapError::NomError(..)
            | PcapError::OwnedNomError(..) => CaptureError::Format,
        })?;
        Ok(Capture {
            reader,
            interfaces: Vec::new(),
            is_big_endian: false,
            fraction_ns: 1000,
            frames: 0,
            taken: 0,
        })
    }

    /// Frames read so far.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Hands the next frame to `take`; `false` at the end of the file.
    pub(crate) fn next(&mut self, take: impl FnOnce(Frame<'_>)) -> Result<bool, CaptureError> {
        // Once without growth is the end of the file, which the reader sees next.
        let mut fruitless = false;
        loop {
            self.reader.consume(self.taken);
            self.taken = 0;
            let (length, block) = match self.reader.next() {
                Ok(read) => read,
                Err(PcapError::Eof) => return Ok(false),
                Err(PcapError::Incomplete(_)) => {
                    let before = self.reader.data().len();
                    if self.reader.refill().is_err() {
                        return Err(CaptureError::Read("input/output error".into()));
                    }
                    let grown = self.reader.data().len() > before;
                    if !grown && fruitless {
                        return Err(CaptureError::Damaged(self.frames));
                    }
                    fruitless = !grown;
                    continue;
                }
                Err(PcapError::UnexpectedEof) => return Err(CaptureError::CutOff(self.frames)),
                Err(
                    PcapError::BufferTooSmall
                    | PcapError::ReadError
                    | PcapError::HeaderNotRecognized
                    | PcapError::NomError(..)
                    | PcapError::OwnedNomError(..),
                ) => return Err(CaptureError::Damaged(self.frames)),
            };
            self.taken = length;
            let frame = match block {
                PcapBlockOwned::LegacyHeader(header) => {
                    let nanoseconds = header.is_nanosecond_precision();
                    self.fraction_ns = if nanoseconds { 1 } else { 1000 };
                    // Bits above 16 of the link type tell of check sequences.
                    let link = LinkType::new(header.network.0 & 0xffff);
                    self.interfaces = vec![Interface::new(link, 6, 0)];
                    None
                }
                PcapBlockOwned::Legacy(packet) => {
                    let fraction_ns = u64::from(packet.ts_usec) * self.fraction_ns;
                    let at_ns = u64::from(packet.ts_sec) * 1_000_000_000 + fraction_ns;
                    self.interfaces.first().map(|interface| Frame {
                        link: interface.link,
                        at_ns,
                        bytes: packet.data,
                    })
                }
                PcapBlockOwned::NG(block) => {
                    if let Block::SectionHeader(section) = &block {
                        self.is_big_endian = section.big_endian();
                    }
                    of_block(&mut self.interfaces, block, self.is_big_endian)
                }
            };
            if let Some(frame) = frame {
                self.frames += 1;
                take(frame);
                return Ok(true);
            }
        }
    }
}

/// The frame in a block of pcapng, if it holds one.
fn of_block<'a>(
    interfaces: &mut Vec<Interface>,
    block: Block<'a>,
    is_big_endian: bool,
) -> Option<Frame<'a>> {
    match block {
        Block::SectionHeader(_) => {
            interfaces.clear();
            None
        }
        Block::InterfaceDescription(described) => {
            if interfaces.len() < INTERFACES {
                let link = LinkType::new(described.linktype.0);
                // The parser takes this option for little-endian in any section.
                let offset_s = match is_big_endian {
                    true => described.if_tsoffset.swap_bytes(),
                    false => described.if_tsoffset,
                };
                interfaces.push(Interface::new(link, described.if_tsresol, offset_s));
            }
            None
        }
        Block::EnhancedPacket(packet) => {
            let place = usize::try_from(packet.if_id).ok();
            let Some(interface) = place.and_then(|place| interfaces.get(place)) else {
                return Some(Frame::UNDESCRIBED);
            };
            let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            Some(Frame {
                link: interface.link,
                at_ns: interface.nanoseconds(units),
                bytes: packet.data.get(..usize::try_from(packet.caplen).ok()?)?,
            })
        }
        // It carries no time: its order is all there is.
        Block::SimplePacket(packet) => {
            let Some(interface) = interfaces.first() else {
                return Some(Frame::UNDESCRIBED);
            };
            let length = usize::try_from(packet.origlen).unwrap_or(usize::MAX);
            Some(Frame {
                link: interface.link,
                at_ns: 0,
                bytes: packet.data.get(..length).unwrap_or(packet.data),
            })
        }
        Block::NameResolution(_)
        | Block::InterfaceStatistics(_)
        | Block::SystemdJournalExport(_)
        | Block::DecryptionSecrets(_)
        | Block::ProcessInformation(_)
        | Block::Custom(_)
        | Block::Unknown(_) => None,
    }
}

impl Interface {
    /// `resolution` as pcapng's option if_tsresol has it.
    fn new(link: LinkType, resolution: u8, offset_s: i64) -> Self {
        let exponent = u32::from(resolution & 0x7f);
        Interface {
            link,
            resolution: if resolution & 0x80 == 0 {
                Resolution::Decimal(exponent)
            } else {
                Resolution::Binary(exponent)
            },
            offset_s,
        }
    }

    fn nanoseconds(&self, units: u64) -> u64 {
        let units = u128::from(units);
        let ns = match self.resolution {
            Resolution::Decimal(n) if n <= 9 => units * 10u128.pow(9 - n),
            Resolution::Decimal(n) => units.checked_div(10u128.pow((n - 9).min(38))).unwrap_or(0),
            Resolution::Binary(n) => (units * 1_000_000_000).checked_shr(n).unwrap_or(0),
        };
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        let at_ns = i128::try_from(ns)
            .unwrap_or(i128::MAX)
            .saturating_add(offset_ns);
        u64::try_from(at_ns).unwrap_or(0)
    }
}

/// Fills every buffer it is given up to the end: the header must not come in pieces, as it may
/// from a pipe.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pcap file of raw IP packets, with nanoseconds.
    pub(crate) fn pcap(link: u32, packets: &[(u64, Vec<u8>)], big_endian: bool) -> Vec<u8> {
        let word = |value: u32| {
            if big_endian {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let half = |value: u16| {
            if big_endian {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let mut file = Vec::new();
        file.extend(word(0xa1b2_3c4d));
        file.extend([half(2), half(4)].concat());
        for value in [0, 0, 65_535, link] {
            file.extend(word(value));
        }
        for (at_ns, bytes) in packets {
            file.extend(word((at_ns / 1_000_000_000) as u32));
            file.extend(word((at_ns % 1_000_000_000) as u32));
            file.extend(word(bytes.len() as u32));
            file.extend(word(bytes.len() as u32));
            file.extend(bytes);
        }
        file
    }

    /// A frame's link type, time and bytes.
    type Seen = (LinkType, u64, Vec<u8>);

    fn read(file: Vec<u8>) -> (Vec<Seen>, Result<(), CaptureError>) {
        let mut frames = Vec::new();
        let mut capture = match Capture::open(io::Cursor::new(file)) {
            Ok(capture) => capture,
            Err(error) => return (frames, Err(error)),
        };
        loop {
            let next = capture.next(|f| frames.push((f.link, f.at_ns, f.bytes.to_vec())));
            match next {
                Ok(true) => {}
                Ok(false) => return (frames, Ok(())),
                Err(error) => return (frames, Err(error)),
            }
        }
    }

    #[test]
    fn both_byte_orders_read_the_same() {
        let packets = vec![
            (1_500_000_000_123_456_789, vec![1, 2, 3]),
            (1_600_000_000_000_000_001, vec![]),
        ];
        let little = read(pcap(101, &packets, false));
        assert_eq!(little, read(pcap(101, &packets, true)));
        assert_eq!(little.1, Ok(()));
        assert_eq!(little.0[0], (LinkType::RawIp, packets[0].0, vec![1, 2, 3]));
    }

    #[test]
    fn microseconds_are_told_from_nanoseconds() {
        let mut file = pcap(1, &[(7_000_000_999, vec![9])], false);
        file[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
        assert_eq!(read(file).0[0].1, 7_000_999_000);
    }

    #[test]
    fn a_cut_file_is_read_up_to_the_cut() {
        let packets: Vec<_> = (0..10).map(|n| (n, vec![0; 100])).collect();
        let mut file = pcap(1, &packets, false);
        file.truncate(file.len() - 1);
        let (frames, end) = read(file.clone());
        assert_eq!((frames.len(), end), (9, Err(CaptureError::CutOff(9))));
        file.truncate(20);
        assert_eq!(read(file).1, Err(CaptureError::CutOff(0)));
    }

    #[test]
    fn what_is_no_capture_is_named() {
        let end = |file: &[u8]| read(file.to_vec()).1;
        assert_eq!(end(b""), Err(CaptureError::Empty));
        assert_eq!(end(b"hello, this is a text"), Err(CaptureError::Format));
        assert_eq!(end(&[0x1f, 0x8b, 8, 0]), Err(CaptureError::Compressed));
        assert_eq!(end(&pcap(1, &[], false)), Ok(()));
    }

    #[test]
    fn a_length_beyond_all_measure_is_damage() {
        let mut file = pcap(1, &[(0, vec![0; 2_000_000])], false);
        file[24 + 8..24 + 12].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
        assert_eq!(read(file).1, Err(CaptureError::Damaged(0)));
        let mut file = pcapng(6, 1);
        let packet = file.len() - 36;
        for length in [0x7fff_fffcu32, BUFFER_BYTES as u32 - 4, 0, 13] {
            file[packet + 4..packet + 8].copy_from_slice(&length.to_le_bytes());
            let longer = [&file[..], &[0; 3 * BUFFER_BYTES]].concat();
            let (frames, end) = read(longer);
            assert_eq!(
                (frames.len(), end),
                (0, Err(CaptureError::Damaged(0))),
                "{length}"
            );
        }
    }

    #[test]
    fn a_frame_of_an_interface_that_is_not_described_is_counted() {
        let mut file = pcapng(9, 7);
        let interface = file.len() - 36 + 8;
        file[interface] = 1;
        let (frames, end) = read(file);
        assert_eq!(
            (frames, end),
            (vec![(LinkType::Undescribed, 0, vec![])], Ok(()))
        );
    }

    #[test]
    fn times_of_an_interface_are_offset_in_both_byte_orders() {
        let words = |words: &[u32], big_endian: bool| -> Vec<u8> {
            let bytes = words.iter().map(|word| match big_endian {
                true => word.to_be_bytes(),
                false => word.to_le_bytes(),
            });
            bytes.flatten().collect()
        };
        let pair = |high: u32, low: u32, big_endian| match big_endian {
            true => high << 16 | low,
            false => low << 16 | high,
        };
        for big_endian in [false, true] {
            // An offset of 3 s, its halves in the order of the section.
            let offset = if big_endian { [0, 3] } else { [3, 0] };
            let file = [
                &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, pair(1, 0, big_endian)][..],
                &[u32::MAX, u32::MAX, 28],
                &[1, 36, pair(101, 0, big_endian), 0],
                &[pair(14, 8, big_endian), offset[0], offset[1], 0, 36],
                &[6, 36, 0, 0, 5_000_000, 3, 3, 0, 36],
            ]
            .map(|part| words(part, big_endian))
            .concat();
            let (frames, end) = read(file);
            assert_eq!((frames.len(), end), (1, Ok(())), "{big_endian}");
            assert_eq!(frames[0].1, 8_000_000_000, "{big_endian}");
        }
    }

    /// Section header, one interface with nanoseconds, one packet.
    fn pcapng(resolution: u8, units: u64) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes()[..], &length, body, &length].concat()
        };
        let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[255; 8]].concat();
        let options = [9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0];
        let interface = [&[101, 0, 0, 0, 0, 0, 1, 0][..], &options].concat();
        let times = [(units >> 32) as u32, units as u32, 3, 3]
            .map(u32::to_le_bytes)
            .concat();
        let packet = [&[0; 4][..], &times, &[7, 8, 9, 0]].concat();
        let blocks = [
            block(0x0a0d_0d0a, &section),
            block(1, &interface),
            block(6, &packet),
        ];
        blocks.concat()
    }

    #[test]
    fn pcapng_times_have_their_interface_s_unit() {
        let at = |resolution, units| read(pcapng(resolution, units)).0;
        assert_eq!(
            at(9, 5_000_000_001),
            [(LinkType::RawIp, 5_000_000_001, vec![7, 8, 9])]
        );
        assert_eq!(at(6, 5_000_001)[0].1, 5_000_001_000);
        assert_eq!(at(0x80 | 10, 5 << 10)[0].1, 5_000_000_000);
        assert_eq!(at(12, 5_000_000_000_000)[0].1, 5_000_000_000);
        assert_eq!(at(0x7f, u64::MAX)[0].1, 0);
        assert_eq!(at(0xff, u64::MAX)[0].1, 0);
    }

    proptest! {
        #[test]
        fn any_file_is_read_without_harm(
            start in 0..4usize,
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            at in 0..200usize,
        ) {
            let mut file = match start {
                0 => Vec::new(),
                1 => pcap(1, &[(0, vec![1; 60]), (1, vec![2; 60])], false),
                2 => pcap(113, &[(0, vec![1; 60])], true),
                _ => pcapng(6, 1),
            };
            let at = at.min(file.len());
            let end = (at + bytes.len() / 8).min(file.len());
            file.splice(at..end, bytes);
            let _ = read(file);
        }
    }
}

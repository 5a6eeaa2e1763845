//! Packets as datagrams: each gets its header, and its number if it has one, and joins the train of its path.

use std::collections::VecDeque;

use crate::crypto::{DATA_HEAD_BYTES, TAG_BYTES, lay_out};
use crate::path::{MAX_PATHS, PathId};
use crate::send::committed::CommittedPacket;
use crate::send::slab::Stored;
use crate::send::train::{MAX_BYTES, MAX_COPIES, Train};
use crate::seq::Seq;
use crate::time::Time;
use crate::wire::gre::{Header, Protocol};
use crate::wire::ip::Version;

/// Most used trains that are kept, 64 KiB each.
const MAX_SPARE: usize = 32;
/// Most copies that wait for their time: those of 5 ms at 5 Mbit/s, in full packets, and more.
const MAX_LATER: usize = 16;

/// What stands before and behind an inner packet on its way out, in bytes.
#[derive(Debug, Clone, Copy)]
struct Framing {
    sealed: bool,
    head: usize,
    tail: usize,
}

impl Framing {
    /// What it adds.
    fn overhead(self) -> usize {
        self.head + self.tail
    }

    /// Writes what stands before the packet.
    #[inline]
    fn emit(self, header: &Header, head: &mut [u8]) {
        if self.sealed {
            lay_out(header.sequence, header.protocol, head);
        } else {
            header.emit(head);
        }
    }
}

/// The trains, and what the next datagram is given.
pub(crate) struct Datagrams {
    key: Option<u32>,
    sealed: bool,
    numbered: bool,
    next_seq: Seq,
    /// The train that each path's packets join.
    open: [Option<Train>; MAX_PATHS],
    /// Trains that are complete, in the order in which they must go.
    ready: VecDeque<Train>,
    /// Copies that wait for their time, the next first.
    later: VecDeque<(Time, Train)>,
    /// The train that the caller is sending.
    leaving: Option<Train>,
    /// Used trains, to be used again.
    spare: Vec<Train>,
    /// The highest number that was written for each path since that was last asked.
    last_on: [Option<Seq>; MAX_PATHS],
    packets: u64,
    bytes: u64,
}

impl Datagrams {
    pub(crate) fn new(key: Option<u32>, numbered: bool) -> Datagrams {
        Datagrams {
            key,
            sealed: false,
            numbered,
            next_seq: Seq::FIRST,
            open: Default::default(),
            ready: VecDeque::new(),
            later: VecDeque::new(),
            leaving: None,
            spare: Vec::new(),
            last_on: [None; MAX_PATHS],
            packets: 0,
            bytes: 0,
        }
    }

    /// From now on leaves room for sealing.
    pub(crate) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Nothing was sent for some seconds: gives the memory of used trains back.
    pub(crate) fn rest(&mut self) {
        self.forget_spare();
        if self.later.is_empty() {
            self.later = VecDeque::new();
        }
        if self.ready.is_empty() {
            (self.ready, self.leaving) = Default::default();
        }
    }

    /// Bytes of memory that used trains take.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.spare.len() * MAX_BYTES
    }

    /// Gives the memory of used trains back.
    pub(crate) fn forget_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// From now on uses another GRE key.
    pub(crate) fn set_key(&mut self, key: Option<u32>) {
        self.key = key;
    }

    /// From now on numbers packets, or does not.
    pub(crate) fn set_numbered(&mut self, numbered: bool) {
        self.numbered = numbered;
    }

    pub(crate) fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// The number that the next packet gets.
    pub(crate) fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// Packets that were given a header, and their bytes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// The highest number that was written for the path since this was last asked.
    pub(crate) fn take_last_on(&mut self, path: PathId) -> Option<Seq> {
        self.last_on[path.index()].take()
    }

    /// What GRE, and sealing, add to the next packet, in bytes.
    pub(crate) fn overhead(&self) -> usize {
        self.framing(&self.header(Version::V4)).overhead()
    }

    fn framing(&self, header: &Header) -> Framing {
        let (head, tail) = match self.sealed {
            true => (DATA_HEAD_BYTES, TAG_BYTES),
            false => (header.buffer_len(), 0),
        };
        Framing {
            sealed: self.sealed,
            head,
            tail,
        }
    }

    fn header(&self, version: Version) -> Header {
        Header {
            key: self.key,
            sequence: self.numbered.then_some(self.next_seq),
            protocol: match version {
                Version::V4 => Protocol::Ipv4,
                Version::V6 => Protocol::Ipv6,
            },
        }
    }

    /// Counts a packet of `inner_len` bytes, and makes its header with the next number.
    pub(crate) fn next_header(&mut self, version: Version, inner_len: usize) -> Header {
        let header = self.header(version);
        self.count(inner_len);
        if header.sequence.is_some() {
            self.next_seq = self.next_seq.next();
        }
        header
    }

    /// Counts a packet of `inner_len` bytes, and makes its header without a number.
    pub(crate) fn unnumbered_header(&mut self, version: Version, inner_len: usize) -> Header {
        self.count(inner_len);
        Header {
            sequence: None,
            ..self.header(version)
        }
    }

    fn count(&mut self, inner_len: usize) {
        self.packets += 1;
        self.bytes += inner_len as u64;
    }

    /// Length of the datagram that a packet of `inner_len` bytes with this header becomes.
    fn datagram_len(&self, header: &Header, inner_len: usize) -> usize {
        inner_len + self.framing(header).overhead()
    }

    /// Appends a datagram to the path's train. Returns where its inner packet of `inner_len` bytes is
    /// to be written, and the datagram's length.
    pub(crate) fn append(
        &mut self,
        path: PathId,
        header: &Header,
        tos: u8,
        inner_len: usize,
    ) -> (&mut [u8], usize) {
        let framing = self.framing(header);
        let len = inner_len + framing.overhead();
        if let Some(seq) = header.sequence {
            let last = &mut self.last_on[path.index()];
            *last = Some(last.map_or(seq, |last| last.later(seq)));
        }
        let (head, rest) = self
            .train_for(path, tos, len)
            .append(tos, len)
            .split_at_mut(framing.head);
        framing.emit(header, head);
        (&mut rest[..inner_len], len)
    }

    /// Whether copies can be told from each other without a number in order: in a sealed tunnel.
    pub(crate) fn tells_copies(&self) -> bool {
        self.sealed
    }

    /// A train of its own for one datagram, of which copies go: they are one datagram, sealed once. Returns as
    /// [`Datagrams::append`] does.
    pub(crate) fn append_with_copies(
        &mut self,
        path: PathId,
        copies: [Option<(PathId, Option<Time>)>; MAX_COPIES],
        header: &Header,
        tos: u8,
        inner_len: usize,
    ) -> (&mut [u8], usize) {
        debug_assert!(header.sequence.is_none());
        let framing = self.framing(header);
        let len = inner_len + framing.overhead();
        let mut train = fresh(&mut self.spare, path);
        train.copies = copies;
        let start = framing.head;
        framing.emit(header, &mut train.append(tos, len)[..start]);
        self.ready.push_back(train);
        // It was put there just now.
        let bytes = match self.ready.back_mut() {
            Some(train) => &mut train.bytes_mut()[start..start + inner_len],
            None => &mut [],
        };
        (bytes, len)
    }

    /// When a copy is to go.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.later.front().map(|&(at, _)| at)
    }

    /// Copies whose time has come are to go now.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while self.later.front().is_some_and(|&(at, _)| at <= now) {
            let due = self.later.pop_front();
            self.ready.extend(due.map(|(_, train)| train));
        }
    }

    /// Appends a packet that has had its number for longer. Returns the datagram's length.
    pub(crate) fn append_numbered(
        &mut self,
        path: PathId,
        (seq, version): (Seq, Version),
        tos: u8,
        packet: &[u8],
    ) -> usize {
        let header = Header {
            sequence: Some(seq),
            ..self.header(version)
        };
        let (out, len) = self.append(path, &header, tos, packet.len());
        out.copy_from_slice(packet);
        len
    }

    /// A packet that has its number, to wait for its path.
    pub(crate) fn committed(
        &self,
        seq: Seq,
        version: Version,
        tos: u8,
        packet: Stored,
    ) -> CommittedPacket {
        let header = Header {
            sequence: Some(seq),
            ..self.header(version)
        };
        CommittedPacket {
            seq,
            version,
            tos,
            len: self.datagram_len(&header, packet.len()),
            packet,
            moved_from: None,
        }
    }

    /// The inner packet of `inner_len` bytes that was appended last to the path's train.
    pub(crate) fn last(&self, path: PathId, inner_len: usize) -> Option<&[u8]> {
        let tail = self.framing(&self.header(Version::V4)).tail;
        let train = self.open[path.index()].as_ref();
        train.map(|train| &train.last(inner_len + tail)[..inner_len])
    }

    /// The path's open train, or a new one when that cannot take the datagram.
    fn train_for(&mut self, path: PathId, tos: u8, len: usize) -> &mut Train {
        let open = &mut self.open[path.index()];
        if let Some(train) = open.take_if(|train| !train.fits(tos, len)) {
            self.ready.push_back(train);
        }
        let spare = &mut self.spare;
        open.get_or_insert_with(|| fresh(spare, path))
    }

    /// The next train that is complete.
    pub(crate) fn pop_ready(&mut self) -> Option<Train> {
        self.ready.pop_front()
    }

    /// The next train, be it complete or not.
    pub(crate) fn pop(&mut self) -> Option<Train> {
        let ready = self.ready.pop_front();
        ready.or_else(|| self.open.iter_mut().find_map(Option::take))
    }

    /// Takes away what the path's train holds: so many datagrams.
    pub(crate) fn clear(&mut self, path: PathId) -> usize {
        debug_assert!(self.ready.is_empty(), "paths are removed between batches");
        self.later.retain(|(_, train)| train.path != path);
        let train = self.open[path.index()].take();
        train.map_or(0, |train| train.datagrams)
    }

    /// Keeps the train until the caller has sent it, which is when it asks for the next one.
    pub(crate) fn leave(&mut self, train: Train) -> &Train {
        self.leaving.insert(train)
    }

    /// The train that was being sent has left: its next copy goes, or it can be used again.
    pub(crate) fn recycle(&mut self) {
        let Some(mut train) = self.leaving.take() else {
            return;
        };
        match train.copies.iter_mut().find_map(Option::take) {
            Some((path, Some(at))) if self.later.len() < MAX_LATER => {
                (train.path, train.is_copy) = (path, true);
                self.later.push_back((at, train));
            }
            // Where too many wait for their time, it goes now: it was counted as sent.
            Some((path, _)) => {
                (train.path, train.is_copy) = (path, true);
                self.ready.push_front(train);
            }
            None => {
                self.spare.push(train);
                self.spare.truncate(MAX_SPARE);
            }
        }
    }

    /// A train that does not leave can be used again.
    pub(crate) fn give_back(&mut self, train: Train) {
        self.spare.push(train);
    }
}

/// A train for `path`: a used one, or a new one.
fn fresh(spare: &mut Vec<Train>, path: PathId) -> Train {
    match spare.pop() {
        Some(mut train) => {
            train.reset(path);
            train
        }
        None => Train::new(path),
    }
}

//! Receive buffers. A datagram is received into one, and what the reorder window holds is a
//! descriptor into it, not a copy. A buffer is free again when nothing points into it.
//!
//! The pool grows as it is needed, up to a limit that covers a full window and one batch in hand,
//! so that memory is bounded whatever arrives.

/// A receive buffer that is in the caller's hands.
#[derive(Debug)]
pub struct Buffer {
    id: u32,
    bytes: Box<[u8]>,
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// A packet within a buffer of the pool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stored {
    pub(crate) buffer: u32,
    pub(crate) start: u16,
    pub(crate) len: u16,
}

/// The buffers of one tunnel.
#[derive(Debug)]
pub(crate) struct Pool {
    /// By id; `None` while the buffer is in the caller's hands.
    buffers: Vec<Option<Box<[u8]>>>,
    free: Vec<u32>,
    buffer_bytes: usize,
    limit: usize,
}

impl Pool {
    pub(crate) fn new(buffer_bytes: usize, limit: usize) -> Pool {
        Pool {
            buffers: Vec::new(),
            free: Vec::new(),
            buffer_bytes,
            limit,
        }
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Gives buffers another size, each when it is next taken.
    pub(crate) fn set_buffer_bytes(&mut self, buffer_bytes: usize) {
        self.buffer_bytes = buffer_bytes;
    }

    /// A free buffer; `None` when the limit is reached.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        if let Some(id) = self.free.pop() {
            let mut bytes = self.buffers[id as usize].take()?;
            if bytes.len() != self.buffer_bytes {
                bytes = vec![0; self.buffer_bytes].into_boxed_slice();
            }
            return Some(Buffer { id, bytes });
        }
        if self.buffers.len() >= self.limit {
            return None;
        }
        let id = u32::try_from(self.buffers.len()).ok()?;
        self.buffers.push(None);
        Some(Buffer {
            id,
            bytes: vec![0; self.buffer_bytes].into_boxed_slice(),
        })
    }

    /// Takes back a buffer that something points into.
    pub(crate) fn keep(&mut self, buffer: Buffer) -> u32 {
        self.buffers[buffer.id as usize] = Some(buffer.bytes);
        buffer.id
    }

    /// Makes a kept buffer free again.
    pub(crate) fn free(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Takes back a buffer that nothing points into.
    pub(crate) fn put_back(&mut self, buffer: Buffer) {
        let id = self.keep(buffer);
        self.free(id);
    }

    /// The bytes of a kept packet.
    pub(crate) fn bytes(&self, packet: Stored) -> &[u8] {
        let start = packet.start as usize;
        self.buffers[packet.buffer as usize]
            .as_deref()
            .map_or(&[], |bytes| &bytes[start..start + packet.len as usize])
    }
}

//! Writer of encoded fields.

use alloc::vec::Vec;

/// Writer that appends encoded fields to a caller's buffer.
#[derive(Debug)]
pub struct WireWriter<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> WireWriter<'b> {
    /// Appends to `out`.
    pub const fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a `u8`.
    #[inline]
    pub fn u8(&mut self, number: u8) {
        self.out.push(number);
    }

    /// Appends a `u16`.
    #[inline]
    pub fn u16(&mut self, number: u16) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// Appends a `u32`.
    #[inline]
    pub fn u32(&mut self, number: u32) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// Appends a `u64`.
    #[inline]
    pub fn u64(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// Appends a count. It saturates at 32 bits: such a message exceeds
    /// [`limits::MAX_MESSAGE_LEN`](crate::limits::MAX_MESSAGE_LEN), which is checked when the message is complete.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Appends bytes without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a length of four bytes and the bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Appends a length of four bytes and the output of `write`.
    pub fn sub(&mut self, write: impl FnOnce(&mut WireWriter<'_>)) {
        let offset = self.out.len();
        self.u32(0);
        write(&mut WireWriter { out: self.out });
        let length = self.out.len() - offset - 4;
        self.overwrite_u32(offset, u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// Length of the buffer in bytes.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Overwrites the four bytes at `offset`.
    pub(crate) fn overwrite_u32(&mut self, offset: usize, number: u32) {
        if let Some(bytes) = self.out.get_mut(offset..).and_then(|from| from.first_chunk_mut::<4>()) {
            *bytes = number.to_be_bytes();
        }
    }
}

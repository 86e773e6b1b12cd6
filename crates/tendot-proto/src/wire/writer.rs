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

    /// One byte.
    #[inline]
    pub fn u8(&mut self, number: u8) {
        self.out.push(number);
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, number: u16) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, number: u32) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// The number of something. More than 32 bits can tell is no message anyway: it ends at
    /// [`limits::MESSAGE`](crate::limits::MESSAGE), which is checked when the message is complete.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// The bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A length of four bytes, then the bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// A length of four bytes, then whatever `write` appends.
    pub fn sub(&mut self, write: impl FnOnce(&mut WireWriter<'_>)) {
        let at = self.out.len();
        self.u32(0);
        write(&mut WireWriter { out: self.out });
        let length = self.out.len() - at - 4;
        self.overwrite_u32(at, u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// How many bytes the buffer holds.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Puts a number over the four bytes at `at`, which have been written before.
    pub(crate) fn overwrite_u32(&mut self, at: usize, number: u32) {
        if let Some(place) = self.out.get_mut(at..).and_then(|from| from.first_chunk_mut::<4>()) {
            *place = number.to_be_bytes();
        }
    }
}

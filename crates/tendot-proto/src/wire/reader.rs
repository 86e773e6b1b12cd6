//! Bounded reader of untrusted bytes.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;

/// Bounded reader of untrusted bytes; every read names its field for error messages.
///
/// Lengths are compared with the available bytes before anything else happens; nothing is allocated.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a> {
    rest: &'a [u8],
    /// Offset of the first byte after `rest`, from the start of decoding.
    end: usize,
}

impl<'a> WireReader<'a> {
    /// Reads `bytes`; offsets count from their start.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, end: bytes.len() }
    }

    /// Reads `bytes` that begin at `offset` of a larger input.
    pub const fn at_offset(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, end: offset + bytes.len() }
    }

    /// Offset of the next byte.
    pub const fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Bytes not read yet.
    pub const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes have been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `len` bytes.
    #[inline]
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.truncated(field, len));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Reads `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(field, N));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads a `u8`.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.array(field)?))
    }

    /// Reads a `u16`.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    /// Reads a `u32`.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    /// Reads a `u64`.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    /// Reads a length of four bytes and as many bytes. An error has the offset of the length.
    #[inline]
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        self.bytes_up_to(field, limits::MAX_FIELD_LEN)
    }

    /// Reads a length of four bytes and as many bytes, at most `max`. An error has the offset of the length.
    #[inline]
    pub fn bytes_up_to(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
        let offset = self.offset();
        let len = self.u32(field)? as usize;
        if len > max {
            return Err(DecodeError::new(field, offset, DecodeErrorKind::TooLong { len, max }));
        }
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            let kind = DecodeErrorKind::Truncated { expected: len, available: self.rest.len() };
            return Err(DecodeError::new(field, offset, kind));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a length of four bytes and returns a reader of exactly as many bytes.
    pub fn sub(&mut self, field: &'static str) -> Result<Self, DecodeError> {
        let bytes = self.bytes(field)?;
        Ok(Self { rest: bytes, end: self.offset() })
    }

    /// Reads the number of items of a list, each of at least `min_item_len` bytes. A count that the remaining bytes
    /// cannot hold is an error here, before any loop over it.
    #[inline]
    pub fn count(&mut self, field: &'static str, min_item_len: usize) -> Result<u32, DecodeError> {
        let offset = self.offset();
        let wire_count = self.u32(field)?;
        let count = wire_count as usize;
        if count > limits::MAX_LIST_ITEMS {
            let kind = DecodeErrorKind::TooManyItems { count, max: limits::MAX_LIST_ITEMS };
            return Err(DecodeError::new(field, offset, kind));
        }
        // Both factors are small, so the product fits 32 bits.
        if count * min_item_len > self.rest.len() {
            let kind = DecodeErrorKind::CountExceedsInput { count, available: self.rest.len() };
            return Err(DecodeError::new(field, offset, kind));
        }
        Ok(wire_count)
    }

    /// Fails if bytes are left.
    pub fn expect_end(&self, field: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(self.error(field, DecodeErrorKind::TrailingBytes { count })),
        }
    }

    /// Error at the current offset.
    pub fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(field, self.offset(), kind)
    }

    #[cold]
    fn truncated(&self, field: &'static str, expected: usize) -> DecodeError {
        self.error(field, DecodeErrorKind::Truncated { expected, available: self.rest.len() })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn sub_reader_is_bounded() {
        let mut outer = WireReader::new(&[0, 0, 0, 2, 7, 8, 9]);
        let mut inner = outer.sub("inner").unwrap();
        assert_eq!((inner.offset(), outer.offset()), (4, 6));
        assert_eq!(inner.u16("pair"), Ok(0x0708));
        let error = inner.u8("beyond").unwrap_err();
        assert_eq!((error.field(), error.offset()), ("beyond", 6));
        assert_eq!(outer.u8("after"), Ok(9));
    }

    #[test]
    fn length_error_points_to_length_field() {
        let error = WireReader::new(&[0x7f, 0xff, 0xff, 0xff, 1]).bytes("handle").unwrap_err();
        assert_eq!(
            error.to_string(),
            "handle at byte 0: length 2147483647 exceeds the limit of 1048576 bytes"
        );
        let error = WireReader::new(&[0, 0, 0, 4, 1]).bytes("handle").unwrap_err();
        assert_eq!(error.to_string(), "handle at byte 0: needs 4 bytes, only 1 left");
        let error = WireReader::new(&[0, 0, 0, 4, 1]).count("indexes", 4).unwrap_err();
        assert_eq!(error.to_string(), "indexes at byte 0: 4 items do not fit in the remaining 1 bytes");
    }
}

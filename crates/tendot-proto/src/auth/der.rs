//! DER elements (X.690) as far as RSA keys need them.

use alloc::vec::Vec;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::wire::WireReader;

/// Tag of an INTEGER.
pub(super) const INTEGER: u8 = 0x02;
/// Tag of a BIT STRING.
pub(super) const BIT_STRING: u8 = 0x03;
/// Tag of an OCTET STRING.
pub(super) const OCTET_STRING: u8 = 0x04;
/// Tag of a SEQUENCE.
pub(super) const SEQUENCE: u8 = 0x30;

/// Content of the next element, which must have this tag and a length of up to four bytes.
pub(super) fn read_element<'a>(
    reader: &mut WireReader<'a>,
    tag: u8,
    field: &'static str,
) -> Result<&'a [u8], DecodeError> {
    let start = *reader;
    let code = reader.u8(field)?;
    if code != tag {
        return Err(start.error(field, DecodeErrorKind::InvalidCode { code: u32::from(code) }));
    }
    let length = match reader.u8(field)? {
        short @ 0..=0x7f => usize::from(short),
        long @ 0x81..=0x84 => {
            let digits = reader.take(field, usize::from(long & 0x7f))?;
            digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
        }
        other => return Err(start.error(field, DecodeErrorKind::InvalidCode { code: u32::from(other) })),
    };
    reader.take(field, length)
}

/// Appends an element.
pub(super) fn write_element(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    let bytes = length.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = bytes.get(zeros..).unwrap_or_default();
    if length >= 0x80 {
        out.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
        out.extend_from_slice(digits);
    } else {
        out.push(u8::try_from(length).unwrap_or_default());
    }
    out.extend_from_slice(content);
}

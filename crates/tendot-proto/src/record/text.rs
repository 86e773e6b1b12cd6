use crate::error::{DecodeError, DecodeErrorKind};

/// Data that is text all through.
pub(super) fn decode_text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, DecodeError> {
    core::str::from_utf8(bytes)
        .map_err(|error| DecodeError::new(field, error.valid_up_to(), DecodeErrorKind::NotUtf8))
}

/// Whether JSON shows data as text: it is UTF-8 and has no control characters, except those that the deployed software
/// takes for white space. It means 0x09 to 0x0D, but looks for 0x09 to 0x13.
pub(super) fn printable_text(data: &[u8]) -> Option<&str> {
    let control = |byte: u8| matches!(byte, 0x00..=0x08 | 0x14..=0x1f | 0x7f);
    // Without leaving early, so that the compiler can look at many bytes at once.
    let none = !data.iter().fold(false, |found, byte| found | control(*byte));
    none.then(|| core::str::from_utf8(data).ok()).flatten()
}

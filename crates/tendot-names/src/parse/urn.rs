//! Syntax checks of URNs (RFC 8141).

use super::strip::StrippedInput;
use crate::percent::{UnencodedSet, invalid_triplet_offset};
use crate::{Error, ErrorKind};

/// Checks a URN (RFC 8141) and removes its r-, q- and f-components.
pub(super) fn check_urn(stripped: StrippedInput<'_>) -> Result<StrippedInput<'_>, Error> {
    let doi = stripped.strip_query_and_fragment();
    let bad_urn = |offset: usize| Error::new(ErrorKind::BadUrn, stripped.offset + offset);
    if let Some(offset) = doi.text.bytes().position(|byte| !is_urn_byte(byte)) {
        return Err(bad_urn(offset));
    }
    let components = stripped.text.get(doi.text.len()..).unwrap_or_default();
    let mut offset = doi.text.len();
    let (resolution_and_query, fragment) = components.split_once('#').unwrap_or((components, ""));
    if !resolution_and_query.is_empty() {
        let (resolution, query) = match resolution_and_query.strip_prefix("?+") {
            Some(rest) => rest.split_once("?=").map_or((Some(rest), None), |(r, q)| (Some(r), Some(q))),
            None => (None, resolution_and_query.strip_prefix("?=")),
        };
        if resolution.is_none() && query.is_none() {
            return Err(bad_urn(offset));
        }
        for component in [resolution, query].into_iter().flatten() {
            offset += 2;
            check_urn_component(component).map_err(|error| error.shifted_by(stripped.offset + offset))?;
            if component.is_empty() || component.starts_with(['/', '?']) {
                return Err(bad_urn(offset));
            }
            offset += component.len();
        }
    }
    check_urn_component(fragment).map_err(|error| error.shifted_by(stripped.offset + offset + 1))?;
    Ok(doi)
}

/// Checks the characters and the percent-encoding of an r-, q- or f-component.
///
/// The encoded octets need not be UTF-8 (RFC 8141 section 2, RFC 3986 section 2.1): the component is not decoded.
fn check_urn_component(text: &str) -> Result<(), Error> {
    if let Some(offset) = text.bytes().position(|byte| !is_urn_byte(byte) && byte != b'?') {
        return Err(Error::new(ErrorKind::BadUrn, offset));
    }
    match invalid_triplet_offset(text) {
        Some(offset) => Err(Error::new(ErrorKind::BadPercentEncoding, offset)),
        None => Ok(()),
    }
}

/// Whether a byte is allowed in the NSS of a URN: `pchar` of RFC 3986, or `/`.
#[inline]
pub(super) fn is_urn_byte(byte: u8) -> bool {
    UnencodedSet::URN.contains(byte)
}

/// Error for a URN of another namespace.
pub(super) fn unsupported_urn(text: &str) -> Error {
    let namespace = text.split(':').nth(1).unwrap_or_default();
    let is_namespace =
        namespace.len() >= 2 && namespace.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_namespace { Error::new(ErrorKind::UnknownForm, 4) } else { Error::new(ErrorKind::BadUrn, 4) }
}

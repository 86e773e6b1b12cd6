//! Syntax checks of URNs (RFC 8141).

use super::strip::StrippedInput;
use crate::percent::{InvalidTriplet, UnencodedSet, percent_decode};
use crate::{Error, ErrorKind};

/// Checks a URN (RFC 8141) and cuts its r-, q- and f-components.
pub(super) fn check_urn(peeled: StrippedInput<'_>) -> Result<StrippedInput<'_>, Error> {
    let name = peeled.strip_query_and_fragment();
    let bad = |at: usize| Error::new(ErrorKind::BadUrn, peeled.offset + at);
    if let Some(at) = name.text.bytes().position(|byte| !is_urn_byte(byte)) {
        return Err(bad(at));
    }
    let components = peeled.text.get(name.text.len()..).unwrap_or_default();
    let mut at = name.text.len();
    let (resolution_and_query, fragment) = components.split_once('#').unwrap_or((components, ""));
    if !resolution_and_query.is_empty() {
        let (resolution, query) = match resolution_and_query.strip_prefix("?+") {
            Some(rest) => rest.split_once("?=").map_or((Some(rest), None), |(r, q)| (Some(r), Some(q))),
            None => (None, resolution_and_query.strip_prefix("?=")),
        };
        if resolution.is_none() && query.is_none() {
            return Err(bad(at));
        }
        for component in [resolution, query].into_iter().flatten() {
            at += 2;
            check_urn_component(component).map_err(|error| error.shifted_by(peeled.offset + at))?;
            if component.is_empty() || component.starts_with(['/', '?']) {
                return Err(bad(at));
            }
            at += component.len();
        }
    }
    check_urn_component(fragment).map_err(|error| error.shifted_by(peeled.offset + at + 1))?;
    Ok(name)
}

/// What may stand in an r-, q- or f-component, percent-encoding well formed.
fn check_urn_component(text: &str) -> Result<(), Error> {
    if let Some(at) = text.bytes().position(|byte| !is_urn_byte(byte) && byte != b'?') {
        return Err(Error::new(ErrorKind::BadUrn, at));
    }
    percent_decode(text, InvalidTriplet::Refuse)
        .map(|_| ())
        .map_err(|error| Error::new(ErrorKind::BadPercentEncoding, error.offset()))
}

/// `pchar` of RFC 3986 and the slash.
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

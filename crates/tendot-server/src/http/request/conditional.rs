//! Preconditions of writes (`If-Match`, `If-None-Match`) and revision ETags of `/api/v1`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use crate::http::response::caching;
use crate::http::response::errors::invalid_precondition;
use crate::http::response::problem::Problem;
use crate::http::response::reply::{self, Reply, reply};

/// Precondition of a write: `If-Match` or `If-None-Match: *` (RFC 9110, section 13.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum WritePrecondition {
    /// No precondition.
    #[default]
    Any,
    /// Must not exist: `If-None-Match: *`.
    Absent,
    /// Must exist: `If-Match: *`.
    Present,
    /// Must have this revision: `If-Match: "12"`.
    Revision(u64),
}

impl WritePrecondition {
    /// Parses the precondition of a request.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Self, Box<Problem<'static>>> {
        let header = |name| {
            let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
            (values.next(), values.next())
        };
        let is_absent = match header(IF_NONE_MATCH) {
            (None, _) => false,
            (Some(b"*"), None) => true,
            _ => {
                return Err(invalid_precondition("`If-None-Match` must be `*`"));
            }
        };
        match header(IF_MATCH) {
            (None, _) if is_absent => Ok(Self::Absent),
            (None, _) => Ok(Self::Any),
            (Some(b"*"), None) if !is_absent => Ok(Self::Present),
            (Some(tag), None) if !is_absent => parse_revision_tag(tag)
                .map(Self::Revision)
                .ok_or_else(|| invalid_precondition("`If-Match` must be `*` or one ETag, such as `\"12\"`")),
            _ => Err(invalid_precondition("more than one precondition")),
        }
    }
}

/// Revision of an ETag. A compressed response has a weak one (`W/"12"`) of the same revision.
fn parse_revision_tag(tag: &[u8]) -> Option<u64> {
    let tag = std::str::from_utf8(tag).ok()?;
    let tag = tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?;
    // The part after `-` distinguishes representations of one revision.
    tag.split_once('-').map_or(tag, |(revision, _)| revision).parse().ok()
}

/// JSON reply with the ETag of a revision; 304 if the client has it already.
pub(crate) fn json_with_revision(
    status: StatusCode,
    body: &impl Serialize,
    revision: u64,
    request: &HeaderMap,
) -> Reply {
    let Ok(json) = serde_json::to_vec(body) else {
        return reply(StatusCode::INTERNAL_SERVER_ERROR, reply::JSON, "");
    };
    let mut response = reply(status, reply::JSON, json);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Parts of the body may change without the revision, or depend on the caller: hash it.
    let mut hasher = DefaultHasher::new();
    response.body().hash(&mut hasher);
    let tag = format!("\"{revision}-{:08x}\"", hasher.finish() as u32);
    let Ok(tag) = HeaderValue::try_from(tag) else { return response };
    response.headers_mut().insert(ETAG, tag.clone());
    if status == StatusCode::OK { caching::not_modified_if_match(response, &tag, request) } else { response }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preconditions() {
        check(&[], Some(WritePrecondition::Any));
        check(&[("if-match", "*")], Some(WritePrecondition::Present));
        check(&[("if-match", "\"12\"")], Some(WritePrecondition::Revision(12)));
        check(&[("if-match", "W/\"12\"")], Some(WritePrecondition::Revision(12)));
        check(&[("if-match", "\"12-00abcdef\"")], Some(WritePrecondition::Revision(12)));
        check(&[("if-none-match", "*")], Some(WritePrecondition::Absent));
        check(&[("if-none-match", "\"12\"")], None);
        check(&[("if-match", "12")], None);
        check(&[("if-match", "\"x\"")], None);
        check(&[("if-match", "\"1\", \"2\"")], None);
        check(&[("if-match", "\"1\""), ("if-match", "\"2\"")], None);
        check(&[("if-match", "*"), ("if-none-match", "*")], None);
    }

    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], expected: Option<WritePrecondition>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(WritePrecondition::from_headers(&map).ok(), expected, "{headers:?}");
    }

    #[test]
    fn tags() {
        let mut headers = HeaderMap::new();
        let response = json_with_revision(StatusCode::OK, &[1], 12, &headers);
        let tag = response.headers()[ETAG].clone();
        assert!(tag.to_str().unwrap().starts_with("\"12-") && response.body() == "[1]", "{tag:?}");
        headers.insert(IF_NONE_MATCH, tag);
        assert_eq!(json_with_revision(StatusCode::OK, &[2], 12, &headers).status(), StatusCode::OK);
        assert_eq!(json_with_revision(StatusCode::OK, &[1], 12, &headers).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(json_with_revision(StatusCode::OK, &[1], 13, &headers).status(), StatusCode::OK);
        assert_eq!(json_with_revision(StatusCode::CREATED, &[1], 12, &headers).status(), StatusCode::CREATED);
    }
}

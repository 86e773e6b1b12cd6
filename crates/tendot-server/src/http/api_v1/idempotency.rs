//! Idempotency keys of requests, and replies that are replayed.

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION};
use serde::Deserialize;
use serde_json::value::RawValue;
use tendot_registry::IdempotencyKey;

use crate::http::api_v1::api_request::IDEMPOTENCY_KEY;
use crate::http::api_v1::dois::doi_path;
use crate::http::api_v1::parties::tokens::token_path;
use crate::http::api_v1::{ApiError, ApiRequest, malformed};
use crate::http::response::caching;
use crate::http::response::reply::{self, Reply, reply};

/// Header that marks a replayed reply.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Members of a stored reply that identify the created object.
#[derive(Deserialize)]
struct StoredIdentity {
    name: Option<Box<str>>,
    id: Option<Box<str>>,
}

impl StoredIdentity {
    /// Path of the DOI or token.
    fn path(&self) -> Option<String> {
        let of_token = || self.id.as_deref().map(token_path);
        self.name.as_deref().map(doi_path).or_else(of_token)
    }
}

/// Idempotency key of the request, if it has one.
pub(crate) fn idempotency_key(request: &ApiRequest<'_>) -> Result<Option<IdempotencyKey>, Box<ApiError>> {
    let mut keys = request.head.headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(malformed("more than one `Idempotency-Key` header"));
    }
    let key = key.to_str().unwrap_or_default().trim();
    Ok(Some(IdempotencyKey::new(&request.caller, key)?))
}

/// Reply to a request that was executed before.
pub(crate) fn replay(stored: &RawValue) -> Reply {
    let mut response = reply(StatusCode::CREATED, reply::JSON, stored.get().to_owned());
    let headers = response.headers_mut();
    // The revision was not known when the reply was stored.
    if let Ok(identity) = serde_json::from_str::<StoredIdentity>(stored.get())
        && let Some(path) = identity.path().and_then(|path| HeaderValue::try_from(path).ok())
    {
        headers.insert(LOCATION, path);
    }
    headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    caching::set_private_no_store(headers);
    response
}

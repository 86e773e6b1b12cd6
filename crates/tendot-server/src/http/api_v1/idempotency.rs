//! Idempotency keys: the reply is stored in the same transaction as the write, so that a repeated request gets the stored reply
//! and changes nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tendot_registry::party::sha256_hex;
use tendot_registry::{Registry, RegistryError};
use tendot_store::{AuxEntry, ChangeSet, CommitError, Edit, Store, StoreError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::http::api_v1::api_request::IDEMPOTENCY_KEY;
use crate::http::api_v1::dois::{DoiJson, doi_path};
use crate::http::api_v1::{ApiError, ApiRequest, malformed};
use crate::http::pages::problem;
use crate::http::response::reply::{self, Reply, reply};
use crate::http::response::{caching, codes};

/// TTL of a key in milliseconds.
pub(crate) const KEY_TTL_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// Header that marks a replayed reply.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Maximum length of a key.
const MAX_KEY_LEN: usize = 255;

/// Prefix of the aux keys of idempotency keys.
const AUX_PREFIX: &str = "idempotency/";

/// Aux entries read at once by a purge: those of batches are long.
const PURGE_BATCH_SIZE: usize = 16;

/// Idempotency key of a request, with the fingerprint of its body and the stored reply.
pub(crate) struct IdempotencyKey {
    aux_key: String,
    body_fingerprint: String,
    /// Aux entry stored under the key.
    stored: Option<Box<[u8]>>,
}

/// Reply stored under an idempotency key.
#[derive(Deserialize, Serialize)]
struct StoredReply {
    /// Unix time in milliseconds.
    created_at: u64,
    body_fingerprint: String,
    reply: Box<RawValue>,
}

/// The `name` member of a stored reply.
#[derive(Deserialize)]
struct StoredName {
    name: Box<str>,
}

/// Aux key of the request's idempotency key, if it has one. It contains the caller: keys of different callers are distinct.
pub(crate) fn aux_key(request: &ApiRequest<'_>) -> Result<Option<String>, Box<ApiError>> {
    let mut keys = request.head.headers.get_all(IDEMPOTENCY_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return match request.head.headers.contains_key(IDEMPOTENCY_KEY) {
            true => Err(malformed("more than one `Idempotency-Key` header")),
            false => Ok(None),
        };
    };
    let key = key.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > MAX_KEY_LEN {
        return Err(malformed("`Idempotency-Key` must have 1 to 255 visible ASCII characters"));
    }
    let id = sha256_hex(format!("{}\0{key}", request.caller).as_bytes()).map_err(RegistryError::from)?;
    Ok(Some(format!("{AUX_PREFIX}{id}")))
}

impl IdempotencyKey {
    /// Loads the idempotency key of a request, if it has one.
    pub(crate) async fn load(
        registry: &Registry,
        request: &ApiRequest<'_>,
        body: &[u8],
    ) -> Result<Option<Self>, Box<ApiError>> {
        let Some(aux_key) = aux_key(request)? else { return Ok(None) };
        let body_fingerprint = sha256_hex(body).map_err(RegistryError::from)?;
        let stored = registry.store().get_aux(aux_key.as_bytes()).await.map_err(store_error)?;
        Ok(Some(Self { aux_key, body_fingerprint, stored }))
    }

    /// Stored reply to this request, if there is one.
    pub(crate) fn replay(&self, now_ms: u64) -> Result<Option<Reply>, Box<ApiError>> {
        let Some(stored) = &self.stored else { return Ok(None) };
        // The entry of a batch is not a stored reply.
        let Ok(stored) = serde_json::from_slice::<StoredReply>(stored) else { return Err(key_reused()) };
        if is_expired(stored.created_at, now_ms) {
            return Ok(None);
        }
        if stored.body_fingerprint != self.body_fingerprint {
            return Err(key_reused());
        }
        let mut response = reply(StatusCode::CREATED, reply::JSON, stored.reply.get().to_owned());
        let headers = response.headers_mut();
        // The revision was not known when the reply was stored.
        if let Ok(StoredName { name }) = serde_json::from_str(stored.reply.get())
            && let Ok(path) = HeaderValue::try_from(doi_path(&name))
        {
            headers.insert(LOCATION, path);
        }
        headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        caching::set_private_no_store(headers);
        Ok(Some(response))
    }

    /// Edits that store a reply.
    pub(crate) fn store_edits(&self, reply: &DoiJson<'_>, now_ms: u64) -> Vec<Edit> {
        let Ok(reply) = serde_json::value::to_raw_value(reply) else { return Vec::new() };
        let stored =
            StoredReply { created_at: now_ms, body_fingerprint: self.body_fingerprint.clone(), reply };
        let body = serde_json::to_vec(&stored).unwrap_or_default().into();
        let key: Box<[u8]> = self.aux_key.as_bytes().into();
        vec![
            Edit::RequireAux { key: key.clone(), value: self.stored.clone() },
            Edit::PutAux { key, value: body },
        ]
    }
}

/// In-process locks, one per idempotency key in use.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks(Mutex<HashMap<String, Arc<AsyncMutex<()>>>>);

impl KeyLocks {
    /// Acquires the lock of a key; `None` after the timeout.
    pub(crate) async fn acquire(&self, key: &str, wait: Duration) -> Option<OwnedMutexGuard<()>> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks without other references are unused.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(key.to_owned()).or_default())
        };
        timeout(wait, lock.lock_owned()).await.ok()
    }
}

/// Creation time of a key, and whether its batch is complete.
#[derive(Deserialize)]
struct KeyHeader {
    created_at: u64,
    #[serde(default = "default_is_complete")]
    is_complete: bool,
}

const fn default_is_complete() -> bool {
    true
}

/// Purges expired idempotency keys; `now_ms` is the Unix time in milliseconds.
pub async fn purge_idempotency_keys(registry: &Registry, now_ms: u64) -> Result<(), RegistryError> {
    let mut after: Option<Box<[u8]>> = None;
    loop {
        let entries =
            registry.store().list_aux(AUX_PREFIX.as_bytes(), after.as_deref(), PURGE_BATCH_SIZE).await?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut last: Box<[u8]> = Box::default();
        for AuxEntry { key, value: body } in entries {
            // Entries of a batch follow its header.
            if key <= last {
                continue;
            }
            let is_header = !key.get(AUX_PREFIX.len()..).unwrap_or_default().contains(&b'/');
            last = if is_header { [&key, &b"/\xff"[..]].concat().into() } else { key.clone() };
            let header = serde_json::from_slice::<KeyHeader>(&body).ok().filter(|_| is_header);
            // An incomplete batch is stored for another day.
            let is_valid = header.is_some_and(|header| {
                let extension = if header.is_complete { 0 } else { KEY_TTL_MILLIS };
                !is_expired(header.created_at.saturating_add(extension), now_ms)
            });
            if !is_valid {
                remove_key(registry, &key, body, now_ms).await?;
            }
        }
        after = Some(last);
        tokio::task::yield_now().await;
    }
}

/// Removes a key with all its entries, unless it is in use again meanwhile.
pub(crate) async fn remove_key(
    registry: &Registry,
    aux_key: &[u8],
    body: Box<[u8]>,
    now_ms: u64,
) -> Result<(), RegistryError> {
    let prefix = [aux_key, b"/"].concat();
    loop {
        let chunks = registry.store().list_aux(&prefix, None, PURGE_BATCH_SIZE).await?;
        let is_last = chunks.len() < PURGE_BATCH_SIZE;
        let mut edits = vec![Edit::RequireAux { key: aux_key.into(), value: Some(body.clone()) }];
        edits.extend(chunks.into_iter().map(|entry| Edit::RemoveAux { key: entry.key }));
        edits.extend(is_last.then(|| Edit::RemoveAux { key: aux_key.into() }));
        match registry
            .store()
            .commit(ChangeSet { author: "idempotency".into(), timestamp_ms: now_ms, edits })
            .await
        {
            Ok(_) if !is_last => tokio::task::yield_now().await,
            Ok(_) | Err(CommitError::RecordConflict(_) | CommitError::AuxConflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a key that was created at this time is expired; both in Unix milliseconds.
pub(crate) const fn is_expired(created_at: u64, now_ms: u64) -> bool {
    now_ms >= created_at.saturating_add(KEY_TTL_MILLIS)
}

pub(crate) fn key_reused() -> Box<ApiError> {
    let detail = "`Idempotency-Key` was used with a different body";
    problem(StatusCode::UNPROCESSABLE_ENTITY, codes::KEY_REUSED, detail)
        .hint("use a new key for a new request")
        .into()
}

pub(crate) fn store_error(error: StoreError) -> Box<ApiError> {
    RegistryError::from(error).into()
}

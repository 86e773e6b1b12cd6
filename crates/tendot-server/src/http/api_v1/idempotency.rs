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

use crate::http::api_v1::dois::{DoiJson, doi_path};
use crate::http::api_v1::{ApiError, ApiRequest, IDEMPOTENCY_KEY, malformed};
use crate::http::pages::problem;
use crate::http::response::caching;
use crate::http::response::reply::{self, Reply, reply};

/// TTL of a key in milliseconds.
pub(crate) const KEY_TTL_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// Header that marks a replayed reply.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Maximum length of a key.
const MAX_KEY_LEN: usize = 255;

/// Prefix of the aux keys of idempotency keys.
pub(crate) const NOTES: &str = "receipt/";

/// Aux entries read at once by a purge: those of batches are long.
const PURGE_BATCH_SIZE: usize = 16;

/// Idempotency key of a request, with the fingerprint of its body and the stored reply.
pub(crate) struct IdempotencyKey {
    note: String,
    body: String,
    /// Aux entry stored under the key.
    before: Option<Box<[u8]>>,
}

/// Reply stored under an idempotency key.
#[derive(Deserialize, Serialize)]
struct StoredReply {
    at: u64,
    body: String,
    answer: Box<RawValue>,
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
            true => Err(malformed("there are several `Idempotency-Key` headers")),
            false => Ok(None),
        };
    };
    let key = key.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > MAX_KEY_LEN {
        return Err(malformed("`Idempotency-Key` has 1 to 255 visible ASCII characters"));
    }
    let id = sha256_hex(format!("{}\0{key}", request.caller).as_bytes()).map_err(RegistryError::from)?;
    Ok(Some(format!("{NOTES}{id}")))
}

impl IdempotencyKey {
    /// Loads the idempotency key of a request, if it has one.
    pub(crate) async fn load(
        registry: &Registry,
        request: &ApiRequest<'_>,
        body: &[u8],
    ) -> Result<Option<Self>, Box<ApiError>> {
        let Some(note) = aux_key(request)? else { return Ok(None) };
        let body = sha256_hex(body).map_err(RegistryError::from)?;
        let before = registry.store().get_aux(note.as_bytes()).await.map_err(store_error)?;
        Ok(Some(Self { note, body, before }))
    }

    /// Stored reply to this request, if there is one.
    pub(crate) fn replay(&self, at: u64) -> Result<Option<Reply>, Box<ApiError>> {
        let Some(note) = &self.before else { return Ok(None) };
        // The entry of a batch is not a stored reply.
        let Ok(noted) = serde_json::from_slice::<StoredReply>(note) else { return Err(key_reused()) };
        if is_expired(noted.at, at) {
            return Ok(None);
        }
        if noted.body != self.body {
            return Err(key_reused());
        }
        let mut response = reply(StatusCode::CREATED, reply::JSON, noted.answer.get().to_owned());
        let headers = response.headers_mut();
        // The revision was not known when the reply was stored.
        if let Ok(StoredName { name }) = serde_json::from_str(noted.answer.get())
            && let Ok(path) = HeaderValue::try_from(doi_path(&name))
        {
            headers.insert(LOCATION, path);
        }
        headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        caching::set_private_no_store(headers);
        Ok(Some(response))
    }

    /// Edits that store a reply.
    pub(crate) fn store_edits(&self, answer: &DoiJson<'_>, at: u64) -> Vec<Edit> {
        let Ok(answer) = serde_json::value::to_raw_value(answer) else { return Vec::new() };
        let noted = StoredReply { at, body: self.body.clone(), answer };
        let body = serde_json::to_vec(&noted).unwrap_or_default().into();
        let key: Box<[u8]> = self.note.as_bytes().into();
        vec![
            Edit::RequireAux { key: key.clone(), value: self.before.clone() },
            Edit::PutAux { key, value: body },
        ]
    }
}

/// In-process locks, one per idempotency key in use.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks(Mutex<HashMap<String, Arc<AsyncMutex<()>>>>);

impl KeyLocks {
    /// Acquires the lock of a key; `None` after the timeout.
    pub(crate) async fn acquire(&self, key: &str, patience: Duration) -> Option<OwnedMutexGuard<()>> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks without other references are unused.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(key.to_owned()).or_default())
        };
        timeout(patience, lock.lock_owned()).await.ok()
    }
}

/// Creation time of a key, and whether its batch is complete.
#[derive(Deserialize)]
struct KeyHeader {
    at: u64,
    #[serde(default = "default_done")]
    done: bool,
}

const fn default_done() -> bool {
    true
}

/// Purges expired idempotency keys; `at` is in Unix milliseconds.
pub async fn sweep_receipts(registry: &Registry, at: u64) -> Result<(), RegistryError> {
    let mut after: Option<Box<[u8]>> = None;
    loop {
        let notes = registry.store().list_aux(NOTES.as_bytes(), after.as_deref(), PURGE_BATCH_SIZE).await?;
        if notes.is_empty() {
            return Ok(());
        }
        let mut beyond: Box<[u8]> = Box::default();
        for AuxEntry { key, value: body } in notes {
            // Entries of a batch follow its header.
            if key <= beyond {
                continue;
            }
            let is_head = !key.get(NOTES.len()..).unwrap_or_default().contains(&b'/');
            beyond = if is_head { [&key, &b"/\xff"[..]].concat().into() } else { key.clone() };
            let used = serde_json::from_slice::<KeyHeader>(&body).ok().filter(|_| is_head);
            // An incomplete batch has another day.
            let is_kept = used.is_some_and(|used| {
                !is_expired(used.at.saturating_add(if used.done { 0 } else { KEY_TTL_MILLIS }), at)
            });
            if !is_kept {
                remove_key(registry, &key, body, at).await?;
            }
        }
        after = Some(beyond);
        tokio::task::yield_now().await;
    }
}

/// Removes a key with all its entries, unless it is in use again meanwhile.
pub(crate) async fn remove_key(
    registry: &Registry,
    head: &[u8],
    body: Box<[u8]>,
    at: u64,
) -> Result<(), RegistryError> {
    let beginning = [head, b"/"].concat();
    loop {
        let pieces = registry.store().list_aux(&beginning, None, PURGE_BATCH_SIZE).await?;
        let is_last = pieces.len() < PURGE_BATCH_SIZE;
        let mut edits = vec![Edit::RequireAux { key: head.into(), value: Some(body.clone()) }];
        edits.extend(pieces.into_iter().map(|entry| Edit::RemoveAux { key: entry.key }));
        edits.extend(is_last.then(|| Edit::RemoveAux { key: head.into() }));
        match registry.store().commit(ChangeSet { author: "receipts".into(), timestamp_ms: at, edits }).await
        {
            Ok(_) if !is_last => tokio::task::yield_now().await,
            Ok(_) | Err(CommitError::RecordConflict(_) | CommitError::AuxConflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a key is expired.
pub(crate) const fn is_expired(noted: u64, now: u64) -> bool {
    now >= noted.saturating_add(KEY_TTL_MILLIS)
}

pub(crate) fn key_reused() -> Box<ApiError> {
    let detail = "this `Idempotency-Key` was used with another body";
    problem(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", detail).hint("a new request has a new key").into()
}

pub(crate) fn store_error(error: StoreError) -> Box<ApiError> {
    RegistryError::from(error).into()
}

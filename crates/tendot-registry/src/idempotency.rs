//! Idempotency keys: the reply is stored in the same transaction as the write, so that a repeated request gets the stored reply
//! and changes nothing.
//!
//! The aux entry of a key is the stored reply of a request, or the header of a batch journal (see
//! [`BatchJournal`](crate::batch::BatchJournal)), whose chunks follow it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tendot_store::{AuxEntry, Edit, Store};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::yield_now;

use crate::command::CommitOutcome;
use crate::party::sha256_hex;
use crate::{CallContext, Caller, Command, CommandOutcome, Registry, RegistryError, codes};

/// TTL of a key in milliseconds.
const KEY_TTL_MS: u64 = 24 * 60 * 60 * 1_000;

/// Maximum length of a key.
const MAX_KEY_LEN: usize = 255;

/// Prefix of the aux keys of idempotency keys.
const AUX_PREFIX: &str = "idempotency/";

/// Aux entries read at once by a purge: those of batches are long.
const PURGE_BATCH_SIZE: usize = 16;

/// Author of the removal of keys.
const AUTHOR: &str = "idempotency";

/// Idempotency key of a caller. Equal keys of different callers are distinct, and so are those of different tokens, even of
/// one subject: their scopes and prefixes may differ.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct IdempotencyKey {
    /// Key of the aux entry.
    aux_key: Box<str>,
}

impl IdempotencyKey {
    /// Key that a caller sends with a request.
    pub fn new(caller: &Caller, key: &str) -> Result<Self, RegistryError> {
        let is_valid =
            (1..=MAX_KEY_LEN).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_valid {
            let detail = "`Idempotency-Key` must have 1 to 255 visible ASCII characters";
            return Err(RegistryError::malformed(detail));
        }
        let owned_key = match caller {
            Caller::Token(token) => format!("token:{}\0{key}", token.id),
            Caller::Anonymous | Caller::Handle(_) | Caller::Operator => format!("{caller}\0{key}"),
        };
        let id = sha256_hex(owned_key.as_bytes())?;
        Ok(Self { aux_key: format!("{AUX_PREFIX}{id}").into() })
    }

    /// Error: another run of the batch with the key has not ended.
    pub fn in_use_error() -> RegistryError {
        key_in_use("a batch with this `Idempotency-Key` is still running")
    }

    pub(crate) fn aux_key(&self) -> &str {
        &self.aux_key
    }
}

/// Request with an idempotency key: its fingerprint, and the stored aux entry of the key.
#[derive(Debug)]
pub struct IdempotentRequest {
    key: IdempotencyKey,
    /// Fingerprint of operation and body.
    fingerprint: String,
    /// Aux entry stored under the key.
    stored: Option<Box<[u8]>>,
}

/// Reply stored under an idempotency key.
#[derive(Deserialize, Serialize)]
struct StoredReply {
    /// In milliseconds since 1970.
    created_at: u64,
    fingerprint: String,
    reply: Box<RawValue>,
}

/// Outcome of a command with an idempotency key.
#[derive(Debug)]
pub enum IdempotentOutcome<T> {
    /// Executed by this request.
    Executed(CommandOutcome<T>),
    /// Executed by another request with the same key, whose reply this is.
    Replayed(Box<RawValue>),
}

impl IdempotentRequest {
    /// Stored reply to this request, if there is one. Fails if the key was used for another request.
    pub fn stored_reply(&self, now_ms: u64) -> Result<Option<Box<RawValue>>, RegistryError> {
        let Some(stored) = self.stored.as_ref().filter(|entry| !is_expired_entry(entry, now_ms)) else {
            return Ok(None);
        };
        // The entry of a batch is not a stored reply.
        match serde_json::from_slice::<StoredReply>(stored) {
            Ok(stored) if stored.fingerprint == self.fingerprint => Ok(Some(stored.reply)),
            _ => Err(key_reused()),
        }
    }

    /// Edits that store a reply.
    fn store_edits(&self, reply: Option<Box<RawValue>>, now_ms: u64) -> Vec<Edit> {
        let Some(reply) = reply else { return Vec::new() };
        let stored = StoredReply { created_at: now_ms, fingerprint: self.fingerprint.clone(), reply };
        let key: Box<[u8]> = self.key.aux_key.as_bytes().into();
        vec![
            Edit::RequireAux { key: key.clone(), value: self.stored.clone() },
            Edit::PutAux { key, value: serde_json::to_vec(&stored).unwrap_or_default().into() },
        ]
    }
}

impl Registry {
    /// Loads the stored aux entry of the idempotency key of a request. `operation` is the name of the
    /// operation, such as `POST /dois`: a key is valid for one operation with one body.
    pub async fn load_idempotent_request(
        &self,
        key: IdempotencyKey,
        operation: &'static str,
        body: &[u8],
    ) -> Result<IdempotentRequest, RegistryError> {
        let fingerprint = sha256_hex(&[operation.as_bytes(), b"\0", body].concat())?;
        let stored = self.rules.store.get_aux(key.aux_key.as_bytes()).await?;
        Ok(IdempotentRequest { key, fingerprint, stored })
    }

    /// Executes a command and stores its reply in the same commit, so that the request is executed at most once.
    pub async fn execute_idempotent<T: Command>(
        &self,
        command: &T,
        call: CallContext<'_>,
        request: &IdempotentRequest,
        reply: impl Fn(&T::Output) -> Option<Box<RawValue>> + Send + Sync,
    ) -> Result<IdempotentOutcome<T::Output>, RegistryError> {
        let CallContext { caller, now_ms, budget, client } = call;
        let mut reloaded: Option<IdempotentRequest> = None;
        loop {
            let current = reloaded.as_ref().unwrap_or(request);
            let store_reply = |output: &T::Output| current.store_edits(reply(output), now_ms);
            let call = CallContext::new(caller, now_ms, &mut *budget).from_client(client);
            let outcome = self.execute_with(command, call, store_reply).await;
            let is_key_changed = matches!(outcome, Ok(CommitOutcome::ExtraConflict { .. }));
            let error = match outcome.and_then(CommitOutcome::into_result) {
                Ok((output, revision)) => {
                    return Ok(IdempotentOutcome::Executed(CommandOutcome { output, revision }));
                }
                Err(error) => error,
            };
            // A concurrent request with the same key may have been executed. The error stands if that cannot be read.
            let Ok(stored) = self.rules.store.get_aux(request.key.aux_key.as_bytes()).await else {
                return Err(error);
            };
            let (key, fingerprint) = (request.key.clone(), request.fingerprint.clone());
            let next = IdempotentRequest { key, fingerprint, stored };
            if let Some(reply) = next.stored_reply(now_ms)? {
                return Ok(IdempotentOutcome::Replayed(reply));
            }
            // The key changed but has no reply: its expired entry was purged meanwhile.
            if !is_key_changed || reloaded.is_some() {
                return Err(error);
            }
            reloaded = Some(next);
        }
    }

    /// Locks an idempotency key against concurrent runs of its batch in this process. Waits for the run that has the lock.
    pub async fn lock_key(&self, key: IdempotencyKey) -> KeyLock {
        let guard = self.key_locks.get(key.aux_key()).lock_owned().await;
        KeyLock { key, _guard: guard }
    }

    /// Purges expired idempotency keys, at a time in milliseconds since 1970.
    pub async fn purge_idempotency_keys(&self, now_ms: u64) -> Result<(), RegistryError> {
        let mut after: Option<Box<[u8]>> = None;
        loop {
            let store = &self.rules.store;
            let entries = store.list_aux(AUX_PREFIX.as_bytes(), after.as_deref(), PURGE_BATCH_SIZE).await?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut last: Box<[u8]> = Box::default();
            for AuxEntry { key, value: body } in entries {
                // Chunks of a batch follow its header.
                if key <= last {
                    continue;
                }
                let is_header = !key.get(AUX_PREFIX.len()..).unwrap_or_default().contains(&b'/');
                last = if is_header { [&key, &b"/\xff"[..]].concat().into() } else { key.clone() };
                let header = serde_json::from_slice::<KeyHeader>(&body).ok().filter(|_| is_header);
                if !header.is_some_and(|header| header.is_valid(now_ms)) {
                    self.remove_key(&key, body, now_ms).await?;
                }
            }
            after = Some(last);
            yield_now().await;
        }
    }

    /// Removes a key with all its entries, unless it is in use again meanwhile.
    pub(crate) async fn remove_key(
        &self,
        aux_key: &[u8],
        body: Box<[u8]>,
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let prefix = [aux_key, b"/"].concat();
        loop {
            let chunks = self.rules.store.list_aux(&prefix, None, PURGE_BATCH_SIZE).await?;
            let is_last = chunks.len() < PURGE_BATCH_SIZE;
            let mut edits = vec![Edit::RequireAux { key: aux_key.into(), value: Some(body.clone()) }];
            edits.extend(chunks.into_iter().map(|entry| Edit::RemoveAux { key: entry.key }));
            edits.extend(is_last.then(|| Edit::RemoveAux { key: aux_key.into() }));
            let is_unused = self.commit_once(AUTHOR, now_ms, edits).await?;
            if is_last || !is_unused {
                return Ok(());
            }
            yield_now().await;
        }
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

impl KeyHeader {
    /// Whether the key is not expired. An incomplete batch is stored for another day.
    const fn is_valid(&self, now_ms: u64) -> bool {
        let extension = if self.is_complete { 0 } else { KEY_TTL_MS };
        !is_expired(self.created_at.saturating_add(extension), now_ms)
    }
}

/// Whether the aux entry of a key is expired at a time in milliseconds since 1970, be it a stored reply or the header of a
/// batch journal.
pub(crate) fn is_expired_entry(entry: &[u8], now_ms: u64) -> bool {
    let header = serde_json::from_slice::<KeyHeader>(entry);
    header.is_ok_and(|header| is_expired(header.created_at, now_ms))
}

/// Whether a key that was created at this time is expired; both in milliseconds since 1970.
const fn is_expired(created_at: u64, now_ms: u64) -> bool {
    now_ms >= created_at.saturating_add(KEY_TTL_MS)
}

/// Error: the key was used for another request.
pub(crate) fn key_reused() -> RegistryError {
    RegistryError::new(codes::KEY_REUSED, "`Idempotency-Key` was used for another request")
        .with_hint("use a new key for a new request")
}

/// Error: the key cannot be used now.
pub(crate) fn key_in_use(detail: &str) -> RegistryError {
    RegistryError::new(codes::KEY_IN_USE, detail).with_hint("retry later")
}

/// In-process locks, one per key in use.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks(Mutex<HashMap<Box<str>, Arc<AsyncMutex<()>>>>);

impl KeyLocks {
    pub(crate) fn get(&self, key: &str) -> Arc<AsyncMutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Locks without other references are unused.
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(key.into()).or_default())
    }
}

/// Lock of an idempotency key; released when dropped.
#[derive(Debug)]
pub struct KeyLock {
    pub(crate) key: IdempotencyKey,
    _guard: OwnedMutexGuard<()>,
}

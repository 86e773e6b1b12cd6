//! The registry: entry point of every interface.

use std::sync::Arc;

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{AnyStore, ChangeCounters, CountPage, NameKey, RecordStatus, ServiceClock, Store};

use crate::command::TrackedStore;
use crate::history::ExposedSecrets;
use crate::idempotency::KeyLocks;
use crate::rules::Rules;
use crate::{CallContext, Error, RegistryError, RegistrySettings, SitePeers};

/// Authorization and registration rules over a store. Every read and write of every interface goes through it.
///
/// Nothing that is read is cached, except scan positions in the histories of key records (`exposed_secrets`). A change that another
/// process commits to the store takes effect at once.
#[derive(Debug)]
pub struct Registry {
    pub(crate) rules: Rules,
    pub(crate) key_locks: KeyLocks,
    pub(crate) clock: ServiceClock,
    exposed_secrets: ExposedSecrets,
}

impl Registry {
    /// Registry over `store`, without site peers.
    pub fn new(store: impl Into<AnyStore>, settings: RegistrySettings) -> Self {
        Self::with_shared_store(Arc::new(store.into()), settings)
    }

    /// Registry over a store that the caller uses, too. Writes that bypass the registry follow no rules.
    // For tests and benchmarks only: public because they are in other crates.
    #[doc(hidden)]
    pub fn with_shared_store(store: Arc<AnyStore>, settings: RegistrySettings) -> Self {
        let rules = Rules::new(TrackedStore::new(store), settings);
        Self {
            rules,
            key_locks: KeyLocks::default(),
            clock: ServiceClock::default(),
            exposed_secrets: ExposedSecrets::default(),
        }
    }

    /// Adds the other servers of the site, which are queried for records that authorize changes here.
    #[must_use]
    pub fn with_site_peers(mut self, site_peers: Arc<dyn SitePeers>) -> Self {
        self.rules.set_site_peers(site_peers);
        self
    }

    /// Settings of this registry.
    pub fn settings(&self) -> &RegistrySettings {
        &self.rules.settings
    }

    /// Change counters of the store, to validate cached responses; `None` if the store has none.
    pub fn change_counters(&self) -> Option<&ChangeCounters> {
        self.rules.store.change_counters()
    }

    /// Fails unless the caller is the operator, with the right to administer: for operations on the server itself.
    pub async fn authorize_operator(&self, mut call: CallContext<'_>) -> Result<(), RegistryError> {
        self.rules.principal(&mut call).await?.check_operator()
    }

    /// Key values (`HS_PUBKEY`, `HS_SECKEY`) of a record of this site, to verify an authentication response; empty if there
    /// is no such record.
    ///
    /// Secret keys are included, unless they have been publicly readable: pass them to [`HandleIdentity::verify`](crate::HandleIdentity::verify) and never send them to
    /// a client. Of a record on another server of the site only the public keys are returned.
    pub async fn key_values(
        &self,
        handle: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        let mut keys = self.current_key_values(handle, budget).await?;
        if keys.iter().any(HandleValue::is_secret) {
            let store = &self.rules.store;
            self.exposed_secrets.remove_exposed(store, handle, &mut keys, budget).await?;
        }
        Ok(keys)
    }

    /// Like [`key_values`](Self::key_values), without a look at the history of the record: for a session, whose key was checked
    /// when it began.
    pub async fn current_key_values(
        &self,
        handle: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        let values = self.rules.site_values(handle, budget).await?.unwrap_or_default();
        let exposed: Vec<&[u8]> =
            values.iter().filter(|value| value.is_exposed_secret()).map(|value| &*value.data).collect();
        let is_key = |value: &&HandleValue<'static>| {
            matches!(&*value.value_type, b"HS_PUBKEY" | b"HS_SECKEY")
                && !(value.is_secret() && exposed.contains(&&*value.data))
        };
        Ok(values.iter().filter(is_key).cloned().collect())
    }

    /// Stored spelling of a name.
    pub async fn stored_spelling(&self, key: &NameKey) -> Result<Option<Box<str>>, Error> {
        Ok(self.rules.store.get(key).await?.map(|entry| entry.name))
    }

    /// Next stored names of the same prefix in key order, live ones among at most `limit`, whether public or not.
    pub async fn names_after(&self, key: &NameKey, limit: usize) -> Result<Vec<Box<str>>, Error> {
        let listed = self.rules.store.list_names(key.prefix(), Some(key), limit).await?;
        let live = listed.into_iter().filter(|entry| entry.status == RecordStatus::Live);
        Ok(live.map(|entry| entry.name).collect())
    }

    /// Whether a prefix is homed.
    pub async fn is_homed_prefix(&self, prefix: &str) -> Result<bool, Error> {
        Ok(self.rules.store.is_homed(prefix.as_bytes()).await?)
    }

    /// Number of names under a prefix, counted up to `limit`, whether public or not.
    pub async fn count_names(&self, prefix: &str, limit: usize) -> Result<CountPage, Error> {
        Ok(self.rules.store.count_names(prefix.as_bytes(), None, limit).await?)
    }

    /// Number of homed prefixes, counted up to `limit`.
    pub async fn count_homed_prefixes(&self, limit: usize) -> Result<usize, Error> {
        Ok(self.rules.store.list_homed(None, limit).await?.len())
    }
}

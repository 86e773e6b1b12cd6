//! The registry: store, settings, site peers and quotas.

use std::sync::Arc;

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{AnyStore, NameKey, StoredRecord};

use crate::command::TrackedStore;
use crate::prefix::QuotaTable;
use crate::{Error, RegistrySettings, SitePeers, cost};

/// Authorization and registration rules over a store. Every read and write of every interface goes through it.
///
/// Nothing that is read is cached, except name counts of prefixes with a quota. A change that another process commits to the
/// store takes effect at once.
#[derive(Debug)]
pub struct Registry {
    pub(crate) store: TrackedStore,
    pub(crate) settings: Arc<RegistrySettings>,
    pub(crate) site_peers: Option<Arc<dyn SitePeers>>,
    pub(crate) quotas: Arc<QuotaTable>,
}

impl Registry {
    /// Registry over `store`, without site peers.
    pub fn new(store: impl Into<AnyStore>, settings: RegistrySettings) -> Self {
        let store = TrackedStore::new(store.into());
        Self { store, settings: Arc::new(settings), site_peers: None, quotas: Arc::default() }
    }

    /// Adds the other servers of the site, which are queried for records that authorize changes here.
    #[must_use]
    pub fn with_site_peers(self, site_peers: Arc<dyn SitePeers>) -> Self {
        Self { site_peers: Some(site_peers), ..self }
    }

    /// The store, for callers with rules of their own: import, export, the change feed.
    pub fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Settings of this registry.
    pub fn settings(&self) -> &RegistrySettings {
        &self.settings
    }

    /// Key values (`HS_PUBKEY`, `HS_SECKEY`) of a record of this site, to verify an authentication response; empty if there
    /// is no such record.
    ///
    /// Secret keys are included: pass them to [`HandleIdentity::verify`](crate::HandleIdentity::verify) and never send them to
    /// a client. Of a record on another server of the site only the public keys are returned.
    pub async fn key_values(
        &self,
        handle: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        let values = self.site_values(handle, budget).await?.unwrap_or_default();
        let is_key = |value: &HandleValue<'_>| matches!(&*value.value_type, b"HS_PUBKEY" | b"HS_SECKEY");
        Ok(values.into_iter().filter(is_key).collect())
    }

    /// Reads the stored record of a name. Does not check responsibility.
    pub(crate) async fn get_record(
        &self,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Option<StoredRecord>, Error> {
        budget.charge(cost::LOOKUP)?;
        // A name that exceeds the maximum key length cannot be stored.
        let Ok(key) = NameKey::new(name) else { return Ok(None) };
        Ok(self.store.get(&key).await?)
    }
}

use std::sync::Arc;

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{AnyStore, NameKey, StoredRecord};

use crate::doi::QuotaTable;
use crate::read_set::TrackedStore;
use crate::{Error, RegistrySettings, SitePeers, price};

/// Authorization and registration rules over a store. Every read and write of every interface goes through it.
///
/// It keeps nothing of what it reads, but how many names there are where only so many may be: what another process changes in
/// the store holds at once.
#[derive(Debug)]
pub struct Registry {
    pub(crate) store: TrackedStore,
    pub(crate) settings: Arc<RegistrySettings>,
    pub(crate) neighbours: Option<Arc<dyn SitePeers>>,
    pub(crate) quotas: Arc<QuotaTable>,
}

impl Registry {
    /// The rules over `store`.
    pub fn new(store: impl Into<AnyStore>, settings: RegistrySettings) -> Self {
        let store = TrackedStore::new(store.into());
        Self { store, settings: Arc::new(settings), neighbours: None, quotas: Arc::default() }
    }

    /// The same, with other servers of our site to ask for what they keep of what governs rights here.
    #[must_use]
    pub fn with_site_peers(self, neighbours: Arc<dyn SitePeers>) -> Self {
        Self { neighbours: Some(neighbours), ..self }
    }

    /// The store, for those who have rules of their own: import, export, the change feed.
    pub fn store(&self) -> &AnyStore {
        &self.store
    }

    /// What the operator decided.
    pub fn settings(&self) -> &RegistrySettings {
        &self.settings
    }

    /// The keys in a record that is kept here, for the verification of proofs; none if there is no such record or it is
    /// kept elsewhere. Secret keys are among them: they are for [`HandleIdentity::prove`](crate::HandleIdentity::prove) and not to
    /// be sent to anybody. Of a record that another server of our site keeps, they are those that everybody may read.
    pub async fn key_values(
        &self,
        handle: Handle<'_>,
        work: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        let values = self.site_values(handle, work).await?.unwrap_or_default();
        let is_key = |value: &HandleValue<'_>| matches!(&*value.value_type, b"HS_PUBKEY" | b"HS_SECKEY");
        Ok(values.into_iter().filter(is_key).collect())
    }

    /// What is kept under a name, whoever is responsible for it.
    pub(crate) async fn get_record(
        &self,
        name: &str,
        work: &mut Budget,
    ) -> Result<Option<StoredRecord>, Error> {
        work.charge(price::LOOKUP)?;
        // Names that are longer than any that is kept are not kept.
        let Ok(key) = NameKey::new(name) else { return Ok(None) };
        Ok(self.store.get(&key).await?)
    }
}

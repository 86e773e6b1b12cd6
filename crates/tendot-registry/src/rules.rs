//! Rules over one view of the store, in four layers; each layer uses only the layers below it.
//!
//! - [`RecordReader`]: typed reads of records, registry objects and prefixes, charged to a budget;
//! - [`SiteReader`]: responsibility, partition, site peers and templates;
//! - [`Authorizer`]: principals, admins and owners;
//! - [`Rules`]: plans of writes, with the quotas.
//!
//! Outside of a write, reads pass through. In a write, each attempt has its own view whose reads are tracked (see
//! [`TrackedStore`]).

#![allow(unreachable_pub, reason = "in the signature of a sealed trait")]

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use tendot_proto::Budget;
use tendot_store::{NameKey, StoredRecord};

use crate::command::TrackedStore;
use crate::prefix::{PlannedQuotas, QuotaTable};
use crate::{Error, RegistrySettings, SitePeers, cost};

/// Typed reads of records, registry objects and prefixes.
#[derive(Debug)]
pub struct RecordReader {
    pub(crate) store: TrackedStore,
}

/// Reads the records of this site: responsibility, partition, site peers, templates.
#[derive(Debug)]
pub struct SiteReader {
    records: RecordReader,
    pub(crate) settings: Arc<RegistrySettings>,
    pub(crate) site_peers: Option<Arc<dyn SitePeers>>,
}

/// Authorization: principals, admins and owners.
#[derive(Debug)]
pub struct Authorizer {
    site: SiteReader,
}

/// Plans writes by the rules of the registry.
#[derive(Debug)]
pub struct Rules {
    authorizer: Authorizer,
    pub(crate) quotas: Arc<QuotaTable>,
    /// Quotas that the plan relies on.
    planned_quotas: Mutex<PlannedQuotas>,
}

impl Rules {
    /// Rules over a store whose reads are not tracked.
    pub(crate) fn new(store: TrackedStore, settings: RegistrySettings) -> Self {
        let records = RecordReader { store };
        let site = SiteReader { records, settings: Arc::new(settings), site_peers: None };
        Self { authorizer: Authorizer { site }, quotas: Arc::default(), planned_quotas: Mutex::default() }
    }

    pub(crate) fn set_site_peers(&mut self, site_peers: Arc<dyn SitePeers>) {
        self.authorizer.site.site_peers = Some(site_peers);
    }

    /// Starts an optimistic transaction: the same rules, over a view whose reads are tracked.
    pub(crate) fn begin(&self) -> Self {
        self.with_store(self.store.begin())
    }

    /// The same rules without a read set, for reads whose edits have their own preconditions.
    pub(crate) fn untracked(&self) -> Self {
        self.with_store(self.store.untracked())
    }

    fn with_store(&self, store: TrackedStore) -> Self {
        let records = RecordReader { store };
        let (settings, site_peers) = (Arc::clone(&self.settings), self.site_peers.clone());
        let site = SiteReader { records, settings, site_peers };
        let quotas = Arc::clone(&self.quotas);
        Self { authorizer: Authorizer { site }, quotas, planned_quotas: Mutex::default() }
    }

    /// Makes the quota of a prefix a limit of the commit.
    pub(crate) fn rely_on_quota(&self, prefix: &str, quota: u64) {
        // Outside of a write, nothing is committed.
        if self.store.is_tracked() {
            self.planned_quotas.lock().unwrap_or_else(PoisonError::into_inner).insert(prefix.into(), quota);
        }
    }

    /// Store with the read set, and the quotas that the plan relies on.
    pub(crate) fn into_parts(self) -> (TrackedStore, PlannedQuotas) {
        let quotas = self.planned_quotas.into_inner().unwrap_or_else(PoisonError::into_inner);
        (self.authorizer.site.records.store, quotas)
    }
}

impl Deref for Rules {
    type Target = Authorizer;

    fn deref(&self) -> &Authorizer {
        &self.authorizer
    }
}

impl Deref for Authorizer {
    type Target = SiteReader;

    fn deref(&self) -> &SiteReader {
        &self.site
    }
}

impl Deref for SiteReader {
    type Target = RecordReader;

    fn deref(&self) -> &RecordReader {
        &self.records
    }
}

impl RecordReader {
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

//! Registry whose store the test can read and write, too.

use std::ops::Deref;
use std::sync::Arc;

use tempfile::TempDir;
use tendot_registry::{Registry, RegistrySettings, SitePeers};
use tendot_store::AnyStore;

/// Registry with access to its store.
#[derive(Debug)]
pub(crate) struct TestRegistry {
    registry: Registry,
    store: Arc<AnyStore>,
    /// Directory of an embedded store; dropped after it.
    _directory: Option<TempDir>,
}

impl TestRegistry {
    pub(crate) fn new(store: impl Into<AnyStore>, settings: RegistrySettings) -> Self {
        let store = Arc::new(store.into());
        Self { registry: Registry::with_shared_store(Arc::clone(&store), settings), store, _directory: None }
    }

    /// Keeps the directory of the store until the registry is dropped.
    pub(crate) fn in_directory(self, directory: TempDir) -> Self {
        Self { _directory: Some(directory), ..self }
    }

    pub(crate) fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Another registry over the same store, as another server has it.
    pub(crate) fn other(&self) -> Registry {
        Registry::with_shared_store(Arc::clone(&self.store), RegistrySettings::default())
    }

    pub(crate) fn with_site_peers(self, site_peers: Arc<dyn SitePeers>) -> Self {
        Self { registry: self.registry.with_site_peers(site_peers), ..self }
    }
}

impl Deref for TestRegistry {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

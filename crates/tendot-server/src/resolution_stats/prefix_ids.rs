//! Small ids of the prefixes that are allocated to registrants.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tendot_registry::Registry;

/// Prefixes whose allocation check is cached.
const MAX_CACHED_PREFIXES: usize = 1 << 16;

/// Small ids of the prefixes that are allocated to registrants.
#[derive(Debug, Default)]
pub(crate) struct PrefixIds(RwLock<PrefixIdTable>);

/// Cached allocation checks, and the ids assigned so far.
#[derive(Debug, Default)]
struct PrefixIdTable {
    /// Version of the store's prefixes for which the cached checks are valid.
    version: Option<u64>,
    cached_ids: HashMap<Box<[u8]>, Option<u32>>,
    /// All prefixes with an id; ids are never reused.
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32>,
}

impl PrefixIds {
    /// Id of a prefix, or `None` if it is not allocated.
    pub(crate) async fn id_for(&self, registry: &Registry, prefix: &[u8]) -> Option<u32> {
        // Allocated prefixes are numbers; others are not looked up.
        if !prefix.first().is_some_and(u8::is_ascii_digit) || prefix.starts_with(b"0.") {
            return None;
        }
        let version = registry.change_counters().and_then(|versions| versions.prefix_version());
        if version.is_some() {
            let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if table.version == version
                && let Some(id) = table.cached_ids.get(prefix)
            {
                return *id;
            }
        }
        let name = str::from_utf8(prefix).ok()?;
        let is_allocated = registry.is_allocated_prefix(name).await.ok()?;
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let id = if is_allocated { Some(table.assign_id(name)?) } else { None };
        if version.is_some() {
            if table.version != version || table.cached_ids.len() >= MAX_CACHED_PREFIXES {
                table.version = version;
                table.cached_ids.clear();
            }
            table.cached_ids.insert(prefix.into(), id);
        }
        id
    }

    /// Id of a prefix that already has one.
    pub(crate) fn id_if_assigned(&self, prefix: &str) -> Option<u32> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).ids.get(prefix).copied()
    }

    /// All prefixes, indexed by id.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).names.clone()
    }
}

impl PrefixIdTable {
    fn assign_id(&mut self, prefix: &str) -> Option<u32> {
        if let Some(id) = self.ids.get(prefix) {
            return Some(*id);
        }
        let (id, name) = (u32::try_from(self.names.len()).ok()?, Arc::<str>::from(prefix));
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        Some(id)
    }
}

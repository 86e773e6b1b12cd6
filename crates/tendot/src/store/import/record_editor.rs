//! Operations of a batch file on records in a store: add, modify, remove, delete, unhome.

use std::time::{SystemTime, UNIX_EPOCH};

use tendot_proto::{Budget, Handle};
use tendot_registry::{CallContext, Caller, Error, HandleWrite, Registry, RegistrySettings};
use tendot_store::EmbeddedStore;
use tokio::runtime::Runtime;

use crate::handle::batch_language::BatchOperation;
use crate::store::{StoreLocation, command_pool, open_error, open_postgres, read_error};
use crate::{CliError, runtime};

/// Store opened for single writes, by the rules of the registry: a deleted name under a prefix of the registry becomes a
/// tombstone.
pub(super) struct RecordEditor {
    registry: Registry,
    runtime: Runtime,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EditOutcome {
    Changed,
    Unchanged,
    Deleted,
    /// A prefix was unhomed.
    Unhomed,
}

impl RecordEditor {
    pub(super) fn open(location: &StoreLocation) -> Result<Self, CliError> {
        let runtime = runtime::multi_thread(1)?;
        let registry = match location {
            StoreLocation::Embedded(directory) => {
                let store = EmbeddedStore::open(directory).map_err(|error| open_error(&error))?;
                Registry::new(store, RegistrySettings::default())
            }
            StoreLocation::Postgres(address) => {
                let store = runtime.block_on(open_postgres(address, &command_pool()))?;
                Registry::new(store, RegistrySettings::default())
            }
        };
        Ok(Self { registry, runtime })
    }

    /// Executes an operation; the inner error is the reason why it is refused.
    pub(super) fn apply(&self, operation: &BatchOperation) -> Result<Result<EditOutcome, String>, CliError> {
        let name = Handle::from(operation.handle());
        let write = match operation {
            BatchOperation::Add(record) => {
                HandleWrite::AddValues { name, values: record.values.clone(), overwrite: false, force: true }
            }
            BatchOperation::Modify(record) => {
                HandleWrite::ModifyValues { name, values: record.values.clone(), force: true }
            }
            BatchOperation::Remove { indexes, .. } => {
                HandleWrite::RemoveValues { name, indexes: indexes.clone(), force: true }
            }
            BatchOperation::Delete { .. } => HandleWrite::Delete { name, permanent: false },
            BatchOperation::Unhome { .. } => HandleWrite::Unhome { prefix: name },
            // Imported in bulk, or skipped.
            BatchOperation::Create(_)
            | BatchOperation::Home { .. }
            | BatchOperation::Authenticate(_)
            | BatchOperation::SessionSetup => return Ok(Ok(EditOutcome::Unchanged)),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut budget = Budget::PER_REQUEST;
        let call = CallContext::new(&Caller::Operator, now_ms, &mut budget);
        match self.runtime.block_on(self.registry.write(&write, call)) {
            Ok(_) if matches!(write, HandleWrite::Delete { .. }) => Ok(Ok(EditOutcome::Deleted)),
            Ok(_) if matches!(write, HandleWrite::Unhome { .. }) => Ok(Ok(EditOutcome::Unhomed)),
            Ok(outcome) if outcome.revision.is_none() => Ok(Ok(EditOutcome::Unchanged)),
            Ok(_) => Ok(Ok(EditOutcome::Changed)),
            Err(Error::Store(error)) => Err(read_error(&error)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

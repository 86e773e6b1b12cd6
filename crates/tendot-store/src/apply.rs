//! Computes the writes of a change set from the current state, for every kind of store.

use std::collections::BTreeMap;

use tendot_proto::HandleValue;

use crate::model::change_set::check_size;
use crate::model::history;
use crate::{
    AuxCounter, AuxEntry, CommitError, CurrentRecord, Edit, EditKind, NameKey, NameKeyError, Precondition,
    PriorState, RecordConflict, RecordStatus, StoreError, StoredRecord,
};

/// Current state that a change set is applied to.
pub(crate) trait StateView {
    /// Registration of a record: the bytes, or a reference to them.
    type Registration: Clone + Default;

    /// Reads the current record of a name; `with_values` is false if only its name, revision and status are needed.
    fn record(
        &self,
        key: &NameKey,
        with_values: bool,
    ) -> Result<Option<SplitRecord<Self::Registration>>, StoreError>;

    /// Whether a prefix is homed.
    fn is_homed(&self, prefix: &NameKey) -> Result<bool, StoreError>;

    /// Current value of an aux entry.
    fn aux(&self, key: &[u8]) -> Result<Option<&[u8]>, StoreError>;

    /// Takes a new registration; `log_index` is the index of its log entry among those of the change set.
    fn add_registration(&mut self, registration: Box<[u8]>, log_index: usize) -> Self::Registration;

    /// Prepares the redaction of prior states. Returns the registration of the state before the redaction, which has the given
    /// content; `current` is the registration of the record, if there is one.
    fn redact(
        &mut self,
        redaction: &HistoryRedaction,
        current: Option<&Self::Registration>,
        prior_registration: Box<[u8]>,
    ) -> Result<Self::Registration, StoreError>;

    /// Whether a change needs a history entry; `is_first` is true for the first edit of a name in the change set.
    fn needs_history_entry(&self, _kind: EditKind, _is_first: bool) -> bool {
        true
    }
}

/// Record with its registration apart: the bytes, or the number under which a store has them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SplitRecord<R> {
    /// Record with an empty registration.
    pub(crate) record: StoredRecord,
    pub(crate) registration: R,
}

impl SplitRecord<Box<[u8]>> {
    /// Copies a record, optionally without values and registration.
    pub(crate) fn copy_of(record: &StoredRecord, with_values: bool) -> Self {
        let StoredRecord { name, revision, status, values, registration } = record;
        let (values, registration) =
            if with_values { (values.clone(), registration.clone()) } else { Default::default() };
        let (name, revision, status) = (name.clone(), *revision, *status);
        let record = StoredRecord { name, revision, status, values, registration: Box::default() };
        Self { record, registration }
    }
}

impl From<SplitRecord<Box<[u8]>>> for StoredRecord {
    fn from(SplitRecord { record, registration }: SplitRecord<Box<[u8]>>) -> Self {
        Self { registration, ..record }
    }
}

/// Redaction of prior states of a name.
#[derive(Clone, Debug)]
pub(crate) struct HistoryRedaction {
    pub(crate) key: NameKey,
    /// Value that replaces those of each state.
    pub(crate) mark: HandleValue<'static>,
    /// Sequence numbers of the log entries, and the new registrations.
    pub(crate) entries: Vec<(u64, Box<[u8]>)>,
}

impl HistoryRedaction {
    /// Redacts a prior state.
    pub(crate) fn redact(&self, state: &mut PriorState, registration: &[u8]) {
        if let PriorState::Record(record) = state {
            record.values = vec![self.mark.clone()];
            record.registration = registration.into();
        }
    }
}

/// Writes of a change set, computed before any of them is applied.
#[derive(Debug)]
pub(crate) struct WriteSet<R> {
    pub(crate) records: BTreeMap<NameKey, Option<SplitRecord<R>>>,
    pub(crate) homed: BTreeMap<NameKey, bool>,
    pub(crate) aux: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    pub(crate) log_entries: Vec<PendingLogEntry<R>>,
    /// Redactions of history entries that exist already.
    pub(crate) redactions: Vec<HistoryRedaction>,
}

/// Log entry to be appended, with the history entry that belongs to it.
#[derive(Debug)]
pub(crate) struct PendingLogEntry<R> {
    pub(crate) kind: EditKind,
    pub(crate) name: Box<str>,
    /// Name and record before the change, if the change needs a history entry.
    pub(crate) prior: Option<(NameKey, Option<SplitRecord<R>>)>,
}

impl PendingLogEntry<Box<[u8]>> {
    /// Takes the name and its prior state, without secrets.
    pub(crate) fn take_prior_state(&mut self) -> Option<(NameKey, PriorState)> {
        let (key, prior) = self.prior.take()?;
        let state = prior.map_or(PriorState::Absent, |prior| {
            let record = StoredRecord::from(prior);
            PriorState::Record(history::redact_secrets(&record).unwrap_or(record))
        });
        Some((key, state))
    }
}

/// Write of one record, whose precondition is to be checked.
struct RecordEdit {
    /// Index of the edit in its change set.
    index: usize,
    name: Box<str>,
    precondition: Precondition,
    write: RecordWrite,
}

enum RecordWrite {
    /// New values and, if it changes, the new registration.
    Put(Vec<HandleValue<'static>>, Option<Box<[u8]>>),
    Tombstone,
    Remove,
}

impl<R: Clone + Default> WriteSet<R> {
    /// Computes the writes of a change set that gets this revision. Each edit sees the effects of those before it.
    pub(crate) fn compute<V: StateView<Registration = R>>(
        view: &mut V,
        edits: Vec<Edit>,
        revision: u64,
    ) -> Result<Self, CommitError> {
        let mut writes = Self {
            records: BTreeMap::new(),
            homed: BTreeMap::new(),
            aux: BTreeMap::new(),
            log_entries: Vec::new(),
            redactions: Vec::new(),
        };
        for (index, edit) in edits.into_iter().enumerate() {
            match edit {
                Edit::Put { name, values, precondition } => {
                    let write = RecordWrite::Put(values, None);
                    writes.write_record(view, RecordEdit { index, name, precondition, write }, revision)?;
                }
                Edit::Register { name, values, registration, precondition } => {
                    let write = RecordWrite::Put(values, Some(registration));
                    writes.write_record(view, RecordEdit { index, name, precondition, write }, revision)?;
                }
                Edit::Tombstone { name, precondition } => {
                    let write = RecordWrite::Tombstone;
                    writes.write_record(view, RecordEdit { index, name, precondition, write }, revision)?;
                }
                Edit::Remove { name, precondition } => {
                    let write = RecordWrite::Remove;
                    writes.write_record(view, RecordEdit { index, name, precondition, write }, revision)?;
                }
                Edit::Redact { name, mark, redacts_current, registration, prior_registration, history } => {
                    let key = checked(index, NameKey::new(&name))?;
                    let redaction = HistoryRedaction { key, mark, entries: history };
                    let registrations = (registration, prior_registration);
                    writes.redact(view, index, name, redaction, redacts_current, registrations, revision)?;
                }
                Edit::Home { prefix } => writes.write_homed(index, prefix, true)?,
                Edit::Unhome { prefix } => writes.write_homed(index, prefix, false)?,
                Edit::RequireRevision { name, revision } => {
                    writes.require_revision(view, index, name, revision)?;
                }
                Edit::RequireHomed { prefix, is_homed } => {
                    writes.require_homed(view, index, prefix, is_homed)?;
                }
                Edit::PutAux { key, value } => writes.write_aux(index, key, Some(value))?,
                Edit::RemoveAux { key } => writes.write_aux(index, key, None)?,
                Edit::AdjustCounter { key, added, subtracted, limit } => {
                    writes.adjust_counter(view, index, key, (added, subtracted), limit)?;
                }
                Edit::RequireAux { key, value } => writes.require_aux(view, index, &key, value.as_deref())?,
            }
        }
        Ok(writes)
    }

    /// Revision of the store after these writes: aux entries alone get no revision.
    pub(crate) fn next_revision(&self, current: u64) -> u64 {
        current + u64::from(!self.log_entries.is_empty())
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.log_entries.is_empty() && self.aux.is_empty()
    }

    fn write_record<V: StateView<Registration = R>>(
        &mut self,
        view: &mut V,
        edit: RecordEdit,
        revision: u64,
    ) -> Result<(), CommitError> {
        let RecordEdit { index, name, precondition, write } = edit;
        let key = checked(index, NameKey::new(&name))?;
        let earlier = self.records.get(&key);
        let is_first = earlier.is_none();
        let current = earlier.cloned().map_or_else(|| view.record(&key, true), Ok)?;
        if !precondition.is_satisfied_by(current.as_ref().map(version)) {
            return Err(conflict(index, name, current));
        }
        let name = current.as_ref().map_or(name, |current| current.record.name.clone());
        let registration =
            || current.as_ref().map(|current| current.registration.clone()).unwrap_or_default();
        let (kind, status, values, registration) = match write {
            RecordWrite::Put(values, new) => {
                check_size(index, &values, new.as_deref().unwrap_or_default())?;
                let kind = if current.is_some() { EditKind::Update } else { EditKind::Create };
                let log_index = self.log_entries.len();
                let registration = new.map_or_else(registration, |new| view.add_registration(new, log_index));
                (kind, Some(RecordStatus::Live), values, registration)
            }
            RecordWrite::Tombstone => {
                let values =
                    current.as_ref().map(|current| current.record.values.clone()).unwrap_or_default();
                (EditKind::Tombstone, Some(RecordStatus::Tombstone), values, registration())
            }
            RecordWrite::Remove => (EditKind::Remove, None, Vec::new(), R::default()),
        };
        let record = status.map(|status| {
            let (name, no_registration) = (name.clone(), Box::default());
            let record = StoredRecord { name, revision, status, values, registration: no_registration };
            SplitRecord { record, registration }
        });
        let prior = view.needs_history_entry(kind, is_first).then(|| (key.clone(), current));
        self.records.insert(key, record);
        self.log_entries.push(PendingLogEntry { kind, name, prior });
        Ok(())
    }

    /// Redacts the history of a name; `registrations` are that of the record and that of the state before.
    #[allow(clippy::too_many_arguments, reason = "the fields of one edit")]
    fn redact<V: StateView<Registration = R>>(
        &mut self,
        view: &mut V,
        index: usize,
        name: Box<str>,
        redaction: HistoryRedaction,
        redacts_current: bool,
        registrations: (Box<[u8]>, Box<[u8]>),
        revision: u64,
    ) -> Result<(), CommitError> {
        let (registration, prior_registration) = registrations;
        let current = self.records.get(&redaction.key).cloned();
        let current = current.map_or_else(|| view.record(&redaction.key, true), Ok)?;
        let prior_registration = view.redact(
            &redaction,
            current.as_ref().map(|current| &current.registration),
            prior_registration,
        )?;
        let name = current.as_ref().map_or(name, |current| current.record.name.clone());
        let mut prior = None;
        if let Some(SplitRecord { mut record, .. }) = current {
            let values = vec![redaction.mark.clone()];
            let redacted = StoredRecord { values, ..record.clone() };
            let redacted = SplitRecord { record: redacted, registration: prior_registration };
            if redacts_current {
                record.values = vec![redaction.mark.clone()];
            }
            check_size(index, &record.values, &registration)?;
            record.revision = revision;
            let registration = view.add_registration(registration, self.log_entries.len());
            self.records.insert(redaction.key.clone(), Some(SplitRecord { record, registration }));
            prior = Some((redaction.key.clone(), Some(redacted)));
        }
        self.log_entries.push(PendingLogEntry { kind: EditKind::Redact, name, prior });
        self.redactions.push(redaction);
        Ok(())
    }

    fn require_revision<V: StateView<Registration = R>>(
        &self,
        view: &V,
        index: usize,
        name: Box<str>,
        expected: Option<u64>,
    ) -> Result<(), CommitError> {
        let key = checked(index, NameKey::new(&name))?;
        let current = match self.records.get(&key) {
            Some(earlier) => earlier.clone(),
            None => view.record(&key, false)?,
        };
        if current.as_ref().map(|current| current.record.revision) == expected {
            Ok(())
        } else {
            Err(conflict(index, name, current))
        }
    }

    fn write_homed(&mut self, index: usize, prefix: Box<str>, is_homed: bool) -> Result<(), CommitError> {
        self.homed.insert(checked(index, NameKey::from_prefix(&prefix))?, is_homed);
        let kind = if is_homed { EditKind::Home } else { EditKind::Unhome };
        self.log_entries.push(PendingLogEntry { kind, name: prefix, prior: None });
        Ok(())
    }

    fn require_homed<V: StateView<Registration = R>>(
        &self,
        view: &V,
        edit: usize,
        prefix: Box<str>,
        expected: bool,
    ) -> Result<(), CommitError> {
        let key = checked(edit, NameKey::from_prefix(&prefix))?;
        let is_homed = self.homed.get(&key).copied().map_or_else(|| view.is_homed(&key), Ok)?;
        if is_homed == expected { Ok(()) } else { Err(CommitError::HomedConflict { edit, prefix, is_homed }) }
    }

    fn write_aux(
        &mut self,
        index: usize,
        key: Box<[u8]>,
        value: Option<Box<[u8]>>,
    ) -> Result<(), CommitError> {
        check_size(index, &[], value.as_deref().unwrap_or_default())?;
        check_aux_key(index, &key)?;
        self.aux.insert(key, value);
        Ok(())
    }

    fn adjust_counter<V: StateView<Registration = R>>(
        &mut self,
        view: &V,
        index: usize,
        key: Box<[u8]>,
        (added, subtracted): (u64, u64),
        limit: Option<u64>,
    ) -> Result<(), CommitError> {
        check_aux_key(index, &key)?;
        let current = match self.aux.get(&key) {
            Some(earlier) => earlier.as_deref(),
            None => view.aux(&key)?,
        };
        let conflict = CommitError::AuxConflict { edit: index };
        let Some(counter) = current.and_then(AuxCounter::decode) else {
            return if limit.is_some() { Err(conflict) } else { Ok(()) };
        };
        let counter = counter.adjusted(added, subtracted);
        if added > 0 && limit.is_some_and(|limit| counter.count() > limit) {
            return Err(conflict);
        }
        self.aux.insert(key, Some(counter.encode()));
        Ok(())
    }

    fn require_aux<V: StateView<Registration = R>>(
        &self,
        view: &V,
        index: usize,
        key: &[u8],
        expected: Option<&[u8]>,
    ) -> Result<(), CommitError> {
        check_aux_key(index, key)?;
        let current = match self.aux.get(key) {
            Some(earlier) => earlier.as_deref(),
            None => view.aux(key)?,
        };
        if current == expected { Ok(()) } else { Err(CommitError::AuxConflict { edit: index }) }
    }
}

fn version<R>(current: &SplitRecord<R>) -> (u64, RecordStatus) {
    (current.record.revision, current.record.status)
}

fn conflict<R>(index: usize, name: Box<str>, current: Option<SplitRecord<R>>) -> CommitError {
    let current = current.map(|current| {
        let StoredRecord { name, revision, status, .. } = current.record;
        CurrentRecord { name, revision, status }
    });
    RecordConflict { edit: index, name, current }.into()
}

/// Adds the index of the edit to the error.
fn checked(index: usize, key: Result<NameKey, NameKeyError>) -> Result<NameKey, CommitError> {
    key.map_err(|error| CommitError::InvalidName { edit: index, error })
}

const fn check_aux_key(index: usize, key: &[u8]) -> Result<(), CommitError> {
    if AuxEntry::is_valid_key(key) { Ok(()) } else { Err(CommitError::InvalidAuxKey { edit: index }) }
}

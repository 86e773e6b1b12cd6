//! The commit loop of every write: plan over a read set, commit with the read set as preconditions, and plan again if
//! something that was read has changed.

use tendot_store::{ChangeSet, CommitError, Edit, Store, StoreError};

use crate::prefix::counter_edits;
use crate::rules::Rules;
use crate::{Error, Registry, RegistryError, codes};

/// Maximum number of attempts on write conflicts.
pub(crate) const MAX_COMMIT_ATTEMPTS: u32 = 8;

/// Operation that is planned over a read set and committed; see [`Registry::commit_planned`].
pub(crate) trait CommitPlanner: Send {
    /// Result of the operation.
    type Output: Send;
    type Error: From<CommitError> + Send;

    /// Maximum number of attempts.
    fn max_attempts(&self) -> u32 {
        MAX_COMMIT_ATTEMPTS
    }

    /// Plans one attempt. Whatever is read through `rules` becomes a precondition of the commit.
    fn plan(
        &mut self,
        rules: &Rules,
    ) -> impl Future<Output = Result<PlannedCommit<Self::Output>, Self::Error>> + Send;
}

/// Change set of one attempt, without the preconditions from its read set, and the result to return.
pub(crate) struct PlannedCommit<T> {
    /// Author in the change log.
    pub(crate) author: Box<str>,
    pub(crate) now_ms: u64,
    /// Changes of the operation.
    pub(crate) edits: Vec<Edit>,
    /// Aux entries for the caller of the operation, such as a stored reply, with their own preconditions.
    pub(crate) extra_edits: Vec<Edit>,
    pub(crate) output: T,
}

impl<T> PlannedCommit<T> {
    /// Result without changes.
    pub(crate) fn unchanged(output: T) -> Self {
        Self { author: Box::default(), now_ms: 0, edits: Vec::new(), extra_edits: Vec::new(), output }
    }
}

/// Outcome of the commit loop. Store errors are not part of it.
#[derive(Debug)]
pub(crate) enum CommitOutcome<T> {
    /// Committed; the revision is `None` if the operation itself changed nothing.
    Committed(T, Option<u64>),
    /// Something that was read changed in every attempt.
    Conflict { attempts: u32 },
    /// A precondition of the extra edits failed; planning again would not help.
    ExtraConflict { attempts: u32 },
    /// Too large for the store, or for the free space on its disk; a part of the operation may fit.
    DoesNotFit(CommitError),
}

impl<T> CommitOutcome<T> {
    /// Result and revision of the commit, or an error.
    pub(crate) fn into_result<E: From<CommitError> + From<WriteConflict>>(
        self,
    ) -> Result<(T, Option<u64>), E> {
        match self {
            Self::Committed(output, revision) => Ok((output, revision)),
            Self::Conflict { attempts } | Self::ExtraConflict { attempts } => {
                Err(WriteConflict { attempts }.into())
            }
            Self::DoesNotFit(error) => Err(error.into()),
        }
    }
}

/// Write conflict: data that was read changed during every attempt.
#[derive(Debug)]
pub(crate) struct WriteConflict {
    pub(crate) attempts: u32,
}

impl From<WriteConflict> for Error {
    fn from(WriteConflict { attempts }: WriteConflict) -> Self {
        Self::WriteConflict { attempts }
    }
}

impl From<WriteConflict> for RegistryError {
    fn from(WriteConflict { attempts }: WriteConflict) -> Self {
        let detail = format!("write conflict: data changed concurrently (attempts: {attempts}); retry");
        Self::new(codes::WRITE_CONFLICT, detail)
    }
}

/// Whether a commit failed because of another write, so that a new plan may succeed.
pub(crate) const fn is_conflict(error: &CommitError) -> bool {
    matches!(
        error,
        CommitError::RecordConflict(_) | CommitError::HomedConflict { .. } | CommitError::AuxConflict { .. }
    )
}

/// Whether a smaller change set might have been committed.
const fn is_oversized(error: &CommitError) -> bool {
    matches!(error, CommitError::TooLarge { .. } | CommitError::Store(StoreError::DiskFull { .. }))
}

impl Registry {
    /// Plans and commits an operation until nothing that was read for it has changed meanwhile.
    pub(crate) async fn commit_planned<P: CommitPlanner>(
        &self,
        operation: &mut P,
    ) -> Result<CommitOutcome<P::Output>, P::Error> {
        let max_attempts = operation.max_attempts();
        for attempts in 1..=max_attempts {
            let rules = self.rules.begin();
            let PlannedCommit { author, now_ms, edits, extra_edits, output } = operation.plan(&rules).await?;
            if edits.is_empty() && extra_edits.is_empty() {
                return Ok(CommitOutcome::Committed(output, None));
            }
            let has_changes = !edits.is_empty();
            let edits = match self.sign_edits(edits, now_ms).await {
                Ok(edits) => edits,
                Err(error) if is_oversized(&error) => return Ok(CommitOutcome::DoesNotFit(error)),
                Err(error) => return Err(error.into()),
            };
            let (store, quotas) = rules.into_parts();
            // If a concurrent commit has used up a quota, this is a conflict, too.
            let counter_edits = counter_edits(&edits, &quotas);
            let mut all_edits = store.into_preconditions();
            all_edits.extend(edits);
            all_edits.extend(counter_edits);
            let extra_start = all_edits.len();
            all_edits.extend(extra_edits);
            let change = ChangeSet { author, timestamp_ms: now_ms, edits: all_edits };
            match self.rules.store.commit(change).await {
                Ok(committed) => {
                    return Ok(CommitOutcome::Committed(output, has_changes.then_some(committed.revision)));
                }
                Err(CommitError::AuxConflict { edit }) if edit >= extra_start => {
                    return Ok(CommitOutcome::ExtraConflict { attempts });
                }
                Err(error) if is_conflict(&error) => {}
                Err(error) if is_oversized(&error) => return Ok(CommitOutcome::DoesNotFit(error)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(CommitOutcome::Conflict { attempts: max_attempts })
    }

    /// Commits a change set once, such as a purge; false if one of its preconditions failed.
    pub(crate) async fn commit_once(
        &self,
        author: &'static str,
        now_ms: u64,
        edits: Vec<Edit>,
    ) -> Result<bool, CommitError> {
        self.rules.commit_once(author, now_ms, edits).await
    }
}

impl Rules {
    /// Commits a change set that no plan depends on; false if one of its preconditions failed.
    pub(crate) async fn commit_once(
        &self,
        author: &'static str,
        now_ms: u64,
        edits: Vec<Edit>,
    ) -> Result<bool, CommitError> {
        let change = ChangeSet { author: author.into(), timestamp_ms: now_ms, edits };
        match self.store.commit(change).await {
            Ok(_) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pollster::block_on;
    use tendot_store::{AnyStore, AuxCounter, MemoryStore, NameKey, Precondition};

    use super::*;
    use crate::RegistrySettings;

    const NAME: &str = "10.1/read";
    const KEY: &[u8] = b"test/read";
    const EXTRA_KEY: &[u8] = b"test/extra";

    /// Object that a concurrent write changes.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    enum Interference {
        Record,
        HomedPrefix,
        AuxEntry,
        ExtraEntry,
        Quota,
    }

    /// Reads a record, a prefix and an aux entry, and writes another record; before each of the first `remaining` commits,
    /// another writer changes one of them.
    struct TestWrite {
        store: Arc<AnyStore>,
        interference: Interference,
        remaining: u32,
        plans: u32,
    }

    fn commit(store: &AnyStore, edit: Edit) {
        block_on(store.commit(ChangeSet { author: "other".into(), timestamp_ms: 0, edits: vec![edit] }))
            .unwrap();
    }

    fn put(name: &str) -> Edit {
        Edit::Put { name: name.into(), values: Vec::new(), precondition: Precondition::NotTombstone }
    }

    impl TestWrite {
        fn interfere(&self, rules: &Rules) {
            let number = self.plans;
            let value: Box<[u8]> = number.to_string().into_bytes().into();
            match self.interference {
                Interference::Record => commit(&self.store, put(NAME)),
                Interference::HomedPrefix => {
                    let prefix = "10.1".into();
                    let is_homed = number % 2 == 1;
                    commit(
                        &self.store,
                        if is_homed { Edit::Home { prefix } } else { Edit::Unhome { prefix } },
                    );
                }
                Interference::AuxEntry => commit(&self.store, Edit::PutAux { key: KEY.into(), value }),
                Interference::ExtraEntry => {
                    commit(&self.store, Edit::PutAux { key: EXTRA_KEY.into(), value });
                }
                // Another commit has used up the quota.
                Interference::Quota => {
                    rules.rely_on_quota("10.1", 1);
                    let value = AuxCounter { added: 1, subtracted: 0 }.encode();
                    commit(&self.store, Edit::PutAux { key: b"quota/10.1"[..].into(), value });
                }
            }
        }
    }

    impl CommitPlanner for TestWrite {
        type Output = u32;
        type Error = RegistryError;

        async fn plan(&mut self, rules: &Rules) -> Result<PlannedCommit<u32>, RegistryError> {
            self.plans += 1;
            rules.store.get(&NameKey::new(NAME).unwrap()).await?;
            rules.store.is_homed(b"10.1").await?;
            rules.store.get_aux(KEY).await?;
            if self.remaining > 0 {
                self.remaining -= 1;
                self.interfere(rules);
            }
            let name = "10.1/written".into();
            let edits = vec![Edit::Put { name, values: Vec::new(), precondition: Precondition::Absent }];
            let extra_edits = vec![Edit::RequireAux { key: EXTRA_KEY.into(), value: None }];
            Ok(PlannedCommit { author: "test".into(), now_ms: 1, edits, extra_edits, output: self.plans })
        }
    }

    /// Number of plans and the outcome of a write with this many conflicts.
    fn commit_with(interference: Interference, conflicts: u32) -> (u32, CommitOutcome<u32>) {
        let store = Arc::new(AnyStore::from(MemoryStore::new()));
        let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default());
        let mut write = TestWrite { store, interference, remaining: conflicts, plans: 0 };
        let outcome = block_on(registry.commit_planned(&mut write)).unwrap();
        (write.plans, outcome)
    }

    /// Number of plans and the result or error code of a write with this many conflicts.
    fn write_with(interference: Interference, conflicts: u32) -> (u32, Result<u32, &'static str>) {
        let (plans, outcome) = commit_with(interference, conflicts);
        let result = outcome.into_result::<RegistryError>().map(|(output, _)| output);
        (plans, result.map_err(|error| error.code))
    }

    #[test]
    fn conflicts_have_the_number_of_attempts() {
        for (interference, attempts) in
            [(Interference::Record, MAX_COMMIT_ATTEMPTS), (Interference::ExtraEntry, 1)]
        {
            let outcome = || commit_with(interference, MAX_COMMIT_ATTEMPTS).1;
            let error = outcome().into_result::<RegistryError>().unwrap_err();
            assert!(error.detail.contains(&format!("(attempts: {attempts})")), "{}", error.detail);
            let error = outcome().into_result::<Error>().unwrap_err();
            assert!(matches!(error, Error::WriteConflict { attempts: found } if found == attempts));
        }
    }

    #[test]
    fn every_kind_of_conflict_is_planned_again() {
        use Interference::{AuxEntry, HomedPrefix, Record};
        for interference in [Record, HomedPrefix, AuxEntry] {
            for conflicts in 0..MAX_COMMIT_ATTEMPTS {
                let plans = conflicts + 1;
                assert_eq!(write_with(interference, conflicts), (plans, Ok(plans)), "{interference:?}");
            }
            let all = MAX_COMMIT_ATTEMPTS;
            for conflicts in [all, all + 1] {
                assert_eq!(
                    write_with(interference, conflicts),
                    (all, Err("write-conflict")),
                    "{interference:?}"
                );
            }
        }
    }

    /// A quota that another commit has used up is a conflict: the plan checks it again.
    #[test]
    fn used_up_quota_is_a_conflict() {
        let all = MAX_COMMIT_ATTEMPTS;
        assert_eq!(write_with(Interference::Quota, all), (all, Err("write-conflict")));
    }

    /// The extra edits belong to the caller of the operation: their preconditions would fail in every attempt.
    #[test]
    fn conflict_of_extra_edits_ends_the_loop() {
        assert_eq!(write_with(Interference::ExtraEntry, 1), (1, Err("write-conflict")));
    }

    /// Only the store's limits remain an error of the request; no kind of conflict is reported as invalid.
    #[test]
    fn conflicts_are_not_invalid_requests() {
        let code = |error: CommitError| RegistryError::from(error).code;
        assert_eq!(code(CommitError::AuxConflict { edit: 0 }), "write-conflict");
        let prefix = "10.1".into();
        assert_eq!(code(CommitError::HomedConflict { edit: 0, prefix, is_homed: true }), "write-conflict");
        let conflict = tendot_store::RecordConflict { edit: 0, name: NAME.into(), current: None };
        assert_eq!(code(conflict.into()), "write-conflict");
        assert_eq!(code(CommitError::TooLarge { edit: 0, length: 2, limit: 1 }), "rejected-by-store");
    }

    #[test]
    fn single_commit_reports_a_conflict() {
        let registry = Registry::new(MemoryStore::new(), RegistrySettings::default());
        let required = |value: Option<&[u8]>| {
            let put = Edit::PutAux { key: KEY.into(), value: b"1"[..].into() };
            let require = Edit::RequireAux { key: KEY.into(), value: value.map(Into::into) };
            block_on(registry.commit_once("test", 1, vec![require, put])).unwrap()
        };
        assert!(required(None) && !required(None) && required(Some(b"1")));
    }
}

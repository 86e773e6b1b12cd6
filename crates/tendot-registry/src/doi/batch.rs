//! Many names are registered or changed, each for itself, and committed together.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use tendot_proto::{Budget, Handle};
use tendot_store::{ChangeSet, CommitError, Edit, NameKey, RecordStatus, Store, StoredRecord};

use super::deposit::{already_registered, check_prefix_matches, parse_doi};
use super::draw::BuildContext;
use super::{RecordChange, Registration, RegistrationRequest, build, is_reserved, quota};
use crate::party::{GROUP_INDEX, PrefixAllocation, Principal, Registrant, RegistryObjectKind, Scope};
use crate::refusal::RegistryErrorKind;
use crate::validate::normalization_variants;
use crate::{Caller, Registry, RegistryError, WriteWarning};

/// Line of a batch.
#[derive(Debug)]
pub struct BatchLine {
    /// Its number, from 1.
    pub number: u64,
    /// What it says, or why it says nothing.
    pub draft: Result<RegistrationRequest, RegistryError>,
    /// The name, if that can be read though the rest says nothing.
    pub name: Option<Box<str>>,
    /// What a new suffix is made of, if it has no name.
    pub random: [u8; 16],
}

impl BatchLine {
    fn rejected(&self, refusal: &RegistryError) -> BatchLineOutcome {
        let name = self.draft.as_ref().map_or(&self.name, |draft| &draft.name).clone();
        BatchLineOutcome::rejected(self.number, name, refusal.clone_without_source())
    }
}

/// Outcome of a batch line.
#[derive(Debug)]
pub struct BatchLineOutcome {
    /// Its number.
    pub number: u64,
    /// The name, as it was first registered; none if there is none.
    pub name: Option<Box<str>>,
    /// What was done, or why nothing was.
    pub result: Result<BatchLineStatus, RegistryError>,
    /// What who sent it should know.
    pub notes: Vec<WriteWarning>,
}

/// Success status of a batch line.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BatchLineStatus {
    /// The name is new.
    Created,
    /// It was changed.
    Updated,
    /// It was so already.
    Unchanged,
}

impl BatchLineStatus {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Steps that one line may cost.
const LINE_BUDGET: u32 = 5_000;

/// How often all lines are tried together while others are faster; then each is tried for itself.
const MAX_BATCH_ATTEMPTS: u32 = 3;

/// How often one line is.
const ALONE: u32 = 8;

impl Registry {
    /// Registers or changes the names of lines, and tells what became of each, in their order. Those that can be are
    /// committed in one change, those that cannot change nothing. Rights hold as they are when it is committed.
    ///
    /// `beside` gives edits of notes for the same change, made from the outcomes of all lines that are in it, which may be a
    /// few of them; if a note that they require is another by now, nothing more is done. With `dry` nothing is committed.
    pub async fn execute_batch(
        &self,
        lines: &[BatchLine],
        caller: &Caller,
        at: u64,
        dry: bool,
        beside: impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync,
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        for _ in 0..MAX_BATCH_ATTEMPTS {
            match self.try_batch(lines, caller, at, dry, &beside).await? {
                Tried::Done(outcomes) => return Ok(outcomes),
                Tried::Slower => {}
                Tried::TooLarge(_) => break,
            }
        }
        // Somebody else changes the same names all the time, or one is too large: that must not hold up the others.
        let mut outcomes = Vec::with_capacity(lines.len());
        for line in lines {
            outcomes.append(&mut self.execute_line(line, caller, at, dry, &beside).await?);
        }
        Ok(outcomes)
    }

    async fn execute_line(
        &self,
        line: &BatchLine,
        caller: &Caller,
        at: u64,
        dry: bool,
        beside: &(impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync),
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let line = std::slice::from_ref(line);
        let mut refusal =
            RegistryError::new(RegistryErrorKind::Busy, "contended", "others change the name all the time");
        for _ in 0..=ALONE {
            match self.try_batch(line, caller, at, dry, beside).await? {
                Tried::Done(outcomes) => return Ok(outcomes),
                Tried::Slower => {}
                Tried::TooLarge(why) => {
                    refusal = why;
                    break;
                }
            }
        }
        self.reject_all(line, &refusal, caller, at, dry, beside).await
    }

    async fn try_batch(
        &self,
        lines: &[BatchLine],
        caller: &Caller,
        at: u64,
        dry: bool,
        beside: &(impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync),
    ) -> Result<Tried, RegistryError> {
        let tracked = self.begin();
        let standing = match tracked.principal(caller, at, &mut Budget::new(LINE_BUDGET)).await {
            Ok(standing) => standing,
            Err(refusal) if refusal.failure.is_some() => return Err(refusal),
            // Who is no longer known has every line refused.
            Err(refusal) => {
                return self.reject_all(lines, &refusal, caller, at, dry, beside).await.map(Tried::Done);
            }
        };
        let mut batch = BatchPlanner {
            tracked: &tracked,
            registry: self,
            standing: &standing,
            at,
            lines: lines.len(),
            allocations: HashMap::new(),
            owners: HashMap::new(),
            rooms: HashMap::new(),
            planned: Vec::new(),
            places: HashMap::new(),
        };
        let mut outcomes = Vec::with_capacity(lines.len());
        for line in lines {
            let outcome = match &line.draft {
                Ok(draft) => batch.plan_line(line.number, draft, &line.random).await?,
                Err(refusal) => line.rejected(refusal),
            };
            outcomes.push(outcome);
        }
        if dry {
            return Ok(Tried::Done(outcomes));
        }
        let mut edits: Vec<Edit> = batch.planned.into_iter().map(|planned| planned.edit).collect();
        let beside = beside(&outcomes);
        if edits.is_empty() && beside.is_empty() {
            return Ok(Tried::Done(outcomes));
        }
        let mut all = tracked.store.into_preconditions();
        all.append(&mut edits);
        let own = all.len();
        all.extend(beside);
        // Others were faster in taking the room that there was.
        let Some(claim) = self.quotas.reserve(&all) else { return Ok(Tried::Slower) };
        let committed =
            self.store.commit(ChangeSet { by: standing.to_string().into(), at, edits: all }).await;
        claim.resolve(&committed);
        match committed {
            Ok(_) => Ok(Tried::Done(outcomes)),
            // Who sent the same before is still at it: what is done here would be done twice.
            Err(CommitError::Note { edit }) if edit >= own => {
                let detail = "the same batch is being carried out already";
                Err(RegistryError::new(RegistryErrorKind::Busy, "contended", detail))
            }
            Err(CommitError::Conflict(_) | CommitError::Homed { .. } | CommitError::Note { .. }) => {
                Ok(Tried::Slower)
            }
            Err(error @ CommitError::TooLarge { .. }) => Ok(Tried::TooLarge(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    async fn reject_all(
        &self,
        lines: &[BatchLine],
        refusal: &RegistryError,
        caller: &Caller,
        at: u64,
        dry: bool,
        beside: &(impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync),
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let outcomes: Vec<_> = lines.iter().map(|line| line.rejected(refusal)).collect();
        let edits = beside(&outcomes);
        if !dry && !edits.is_empty() {
            self.store.commit(ChangeSet { by: caller.to_string().into(), at, edits }).await?;
        }
        Ok(outcomes)
    }
}

/// What came of lines that were tried together.
enum Tried {
    Done(Vec<BatchLineOutcome>),
    /// Others were faster.
    Slower,
    /// One of them, or what is noted of all, is too large to be kept.
    TooLarge(RegistryError),
}

impl BatchLineOutcome {
    fn rejected(number: u64, name: Option<Box<str>>, refusal: RegistryError) -> Self {
        Self { number, name, result: Err(refusal), notes: Vec::new() }
    }
}

/// Plans the lines of one batch over a shared read set.
struct BatchPlanner<'a> {
    /// For everything but names: reads become preconditions.
    tracked: &'a Registry,
    /// For names: each has its own expectation when it is committed.
    registry: &'a Registry,
    standing: &'a Principal,
    at: u64,
    /// How many lines there are: no more names are made.
    lines: usize,
    allocations: HashMap<Box<str>, Option<PrefixAllocation>>,
    owners: HashMap<Box<str>, Registrant>,
    rooms: HashMap<Box<str>, RemainingQuota>,
    /// What is to be done, in the order of the lines …
    planned: Vec<PlannedRecord>,
    /// … and where in it each name is.
    places: HashMap<NameKey, usize>,
}

/// Quota left for this batch, and how much of it is used.
#[derive(Clone, Copy)]
struct RemainingQuota {
    left: u64,
    taken: u64,
}

/// Record as planned by the lines so far.
struct PlannedRecord {
    entry: StoredRecord,
    /// The revision that was read.
    there: Option<u64>,
    edit: Edit,
}

impl BatchPlanner<'_> {
    /// Plans a line. An error is one of the store.
    async fn plan_line(
        &mut self,
        number: u64,
        draft: &RegistrationRequest,
        random: &[u8; 16],
    ) -> Result<BatchLineOutcome, RegistryError> {
        let mut work = Budget::new(LINE_BUDGET);
        let name = match self.line_name(draft, random, &mut work).await {
            Ok(name) => name,
            Err(refusal) => {
                return failure_or(BatchLineOutcome::rejected(number, draft.name.clone(), refusal));
            }
        };
        match self.plan_record(&name, draft, &mut work).await {
            Ok((status, name, notes)) => {
                Ok(BatchLineOutcome { number, name: Some(name), result: Ok(status), notes })
            }
            Err(refusal) => failure_or(BatchLineOutcome::rejected(number, Some(name), refusal)),
        }
    }

    async fn line_name(
        &self,
        draft: &RegistrationRequest,
        random: &[u8; 16],
        work: &mut Budget,
    ) -> Result<Box<str>, RegistryError> {
        self.standing.check_scope(Scope::Deposit)?;
        match (&draft.name, &draft.prefix) {
            (Some(name), prefix) => {
                check_prefix_matches(name, prefix.as_deref())?;
                Ok(name.clone())
            }
            (None, Some(prefix)) => {
                let is_planned =
                    |name: &str| NameKey::new(name).is_ok_and(|key| self.places.contains_key(&key));
                self.registry.mint_name(prefix, random, is_planned, work).await
            }
            (None, None) => {
                Err(RegistryError::invalid("missing", "/name", "a deposit has a `name` or a `prefix`"))
            }
        }
    }

    async fn plan_record(
        &mut self,
        name: &str,
        draft: &RegistrationRequest,
        work: &mut Budget,
    ) -> Result<(BatchLineStatus, Box<str>, Vec<WriteWarning>), RegistryError> {
        let (prefix, _) = parse_doi(name)?;
        if let Slot::Vacant(slot) = self.allocations.entry(prefix.into()) {
            let allocation = self.tracked.allocation(prefix, work).await?;
            if allocation.is_some() {
                self.tracked.check_site_responsible(Handle::from(name), work).await?;
            }
            slot.insert(allocation);
        }
        let Some(Some(allocation)) = self.allocations.get(prefix) else {
            let detail = format!("the prefix `{prefix}` has been given to nobody here");
            return Err(RegistryError::new(RegistryErrorKind::NotFound, "no-such-prefix", detail)
                .with_pointer("/name"));
        };
        self.standing.check_prefix(prefix)?;
        if !self.registry.owns(Handle::from(name)) {
            return Err(crate::Error::OtherServer.into());
        }
        let key = NameKey::new(name)
            .map_err(|error| RegistryError::invalid("bad-name", "/name", error.to_string()))?;
        let place = self.places.get(&key).copied();
        let (there, read) = match place.and_then(|place| self.planned.get(place)) {
            Some(planned) => (Some(planned.entry.clone()), planned.there),
            None => {
                let entry = self.registry.store.get(&key).await?;
                let revision = entry.as_ref().map(|entry| entry.revision);
                (entry, revision)
            }
        };
        let mut notes = Vec::new();
        let group = match &there {
            None => {
                self.standing.check_registrant(&allocation.holder, Scope::Deposit)?;
                // What looks like it has to stay away until this is committed.
                notes = self.tracked.check_new_name(name, allocation, work).await?;
                self.check_confusable_in_batch(name, allocation, &mut notes)?;
                GROUP_INDEX
            }
            Some(entry) => {
                let given = Registration::of_record(entry)?.owner;
                let group = allocation.admin_group_index(given.as_deref());
                let owner = match given {
                    None => &allocation.holder,
                    Some(id) => match self.owners.entry(id) {
                        Slot::Occupied(slot) => slot.into_mut(),
                        Slot::Vacant(slot) => {
                            let id = slot.key().clone();
                            let held = self.tracked.get_object::<Registrant>(
                                RegistryObjectKind::Registrant,
                                &id,
                                work,
                            );
                            slot.insert(held.await?.it)
                        }
                    },
                };
                // Of names that are only reserved others do not learn, unless they could have made them.
                let is_ended = entry.state == RecordStatus::Tombstone;
                if (is_reserved(entry) || is_ended) && !self.standing.is_for_registrant(owner) {
                    self.standing.check_registrant(&allocation.holder, Scope::Deposit)?;
                    return Err(already_registered(entry)?);
                }
                self.standing.check_registrant(owner, Scope::Deposit)?;
                if is_ended {
                    return Err(already_registered(entry)?);
                }
                group
            }
        };
        if there.is_none() {
            let room = match self.rooms.get_mut(prefix) {
                Some(room) => Some(room),
                None => match self.tracked.remaining_quota(allocation, self.at, self.lines).await? {
                    Some(left) => {
                        Some(self.rooms.entry(prefix.into()).or_insert(RemainingQuota { left, taken: 0 }))
                    }
                    None => None,
                },
            };
            if room.is_some_and(|room| room.left == room.taken) {
                return Err(quota::reached(allocation));
            }
        }
        let limits = &self.tracked.settings.limits;
        let drawn =
            build(&BuildContext { allocation, group, limits, at: self.at }, name, draft, there.as_ref())?;
        let status = match drawn {
            RecordChange::Created(..) => BatchLineStatus::Created,
            RecordChange::Updated(..) => BatchLineStatus::Updated,
            RecordChange::Unchanged(..) => BatchLineStatus::Unchanged,
        };
        if status == BatchLineStatus::Created
            && let Some(room) = self.rooms.get_mut(prefix)
        {
            room.taken += 1;
        }
        let edit = drawn.to_edit(read);
        let spelled = match &drawn {
            RecordChange::Created(entry, _)
            | RecordChange::Updated(entry, _)
            | RecordChange::Unchanged(entry, _) => entry.name.clone(),
        };
        if let Some(edit) = edit {
            let (entry, _) = drawn.into_parts();
            let planned = PlannedRecord { entry, there: read, edit };
            match place.and_then(|place| self.planned.get_mut(place)) {
                Some(before) => *before = planned,
                None => {
                    self.places.insert(key, self.planned.len());
                    self.planned.push(planned);
                }
            }
        }
        Ok((status, spelled, notes))
    }

    /// What a line before this one makes may look like it, too.
    fn check_confusable_in_batch(
        &self,
        name: &str,
        allocation: &PrefixAllocation,
        notes: &mut Vec<WriteWarning>,
    ) -> Result<(), RegistryError> {
        if name.is_ascii() {
            return Ok(());
        }
        let planned = |form: String| {
            let place = *self.places.get(&NameKey::new(&form).ok()?)?;
            self.planned.get(place).map(|planned| planned.entry.name.clone())
        };
        let Some(with) = normalization_variants(name).into_iter().find_map(planned) else { return Ok(()) };
        if allocation.rejects_confusable() || !self.tracked.settings.limits.confusable_names {
            return Err(crate::Error::Confusable { with }.into());
        }
        notes.insert(0, WriteWarning::ConfusableWith { name: with });
        Ok(())
    }
}

/// What the store fails in is nobody's line.
fn failure_or(outcome: BatchLineOutcome) -> Result<BatchLineOutcome, RegistryError> {
    match outcome.result {
        Err(refusal) if refusal.failure.is_some() => Err(refusal),
        result => Ok(BatchLineOutcome { result, ..outcome }),
    }
}

#[cfg(test)]
mod tests {
    use tendot_store::MemoryStore;

    use super::*;
    use crate::RegistrySettings;
    use crate::party::{AllocatePrefix, CreateAgency, CreateRegistrant, PrefixPolicy};

    /// Two of the same batch, of which one was cut off and is still at work: a name was made twice.
    #[test]
    fn a_batch_that_is_under_way_is_not_done_twice() {
        pollster::block_on(async {
            let registry = Registry::new(MemoryStore::new(), RegistrySettings::default());
            let operator = Caller::Operator;
            let mut work = Budget::new(1_000_000);
            let (code, name): (Box<str>, Box<str>) = ("LIB".into(), "Library".into());
            let task =
                CreateAgency { code, name, metadata: Default::default(), range: None, locations: None };
            registry.execute(&task, &operator, 1, &mut work).await.unwrap();
            let agency = Some("LIB".into());
            let task = CreateRegistrant {
                agency,
                name: "Press".into(),
                contact: None,
                admins: Vec::new(),
                random: [7; 16],
            };
            let registrant = registry.execute(&task, &operator, 1, &mut work).await.unwrap().done.id;
            let task =
                AllocatePrefix { registrant, prefix: None, test: false, policy: PrefixPolicy::default() };
            registry.execute(&task, &operator, 1, &mut work).await.unwrap();

            let draft =
                RegistrationRequest::from_json(br#"{"prefix": "10.70000", "url": "https://example.org/"}"#)
                    .unwrap();
            let line = |random| {
                [BatchLine { number: 1, draft: Ok(draft.clone()), name: None, random: [random; 16] }]
            };
            let key: Box<[u8]> = b"receipt/x"[..].into();
            let beside = |_: &[BatchLineOutcome]| {
                let done: Box<[u8]> = b"done"[..].into();
                vec![
                    Edit::RequireNote { key: key.clone(), body: None },
                    Edit::PutNote { key: key.clone(), body: done },
                ]
            };
            let first = registry.execute_batch(&line(1), &operator, 2, false, beside).await.unwrap();
            assert!(matches!(first[0].result, Ok(BatchLineStatus::Created)));
            let second = registry.execute_batch(&line(2), &operator, 2, false, beside).await.unwrap_err();
            assert_eq!((second.code, second.reason), ("contended", RegistryErrorKind::Busy));
            let names =
                registry.list_dois(Some("10.70000"), None, None, 9, &operator, 3, &mut work).await.unwrap();
            assert_eq!(names.items.len(), 1);
        });
    }
}

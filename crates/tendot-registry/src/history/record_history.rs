//! History of one name: its changes with the states before and after, and transfers of its prefix.

use serde_json::value::RawValue;
use tendot_proto::{Handle, HandleValue};
use tendot_store::{
    EditKind, HistoryEntry, HistoryOrder, LogEntry, NameKey, PriorState, Store, StoredRecord,
};

use super::ChangeAuthor;
use super::holder_timeline::HolderTimeline;
use crate::metadata::KernelMetadata;
use crate::prefix::Prefix;
use crate::registration::{DoiStatus, RedactionMark, Registration, RegistrationState, VisibilityFilter};
use crate::resolve::is_readable;
use crate::rules::RecordReader;
use crate::{CallContext, Error, PrefixHolder, Registry, ResultPage, cost, party};

/// Event in the history of a name.
#[derive(Clone, Debug)]
pub struct HistoryEvent {
    /// Sequence number of the log entry.
    pub sequence: u64,
    /// Time of the event, in milliseconds since 1970.
    pub time_ms: u64,
    /// Author.
    pub author: ChangeAuthor,
    /// Kind of event.
    pub kind: HistoryEventKind,
}

/// Kind of event in the history of a name.
#[derive(Clone, Debug)]
pub enum HistoryEventKind {
    /// The name changed.
    Changed {
        /// Kind of change.
        kind: EditKind,
        /// State before the change.
        before: SnapshotState,
        /// State after the change.
        after: SnapshotState,
    },
    /// The prefix was transferred, and the name with it.
    PrefixTransferred {
        /// Previous holder.
        from: PrefixHolder,
        /// New holder.
        to: PrefixHolder,
    },
}

/// State of a name before or after an event.
#[derive(Clone, Debug)]
pub enum SnapshotState {
    /// No record.
    Absent,
    /// Record.
    Record(Box<RecordSnapshot>),
}

/// Record at one point of its history, as the caller may see it.
#[derive(Clone, Debug)]
pub struct RecordSnapshot {
    /// Status at that time.
    pub state: DoiStatus,
    /// Values that were readable at that time.
    pub values: Vec<HandleValue<'static>>,
    /// Metadata as kernel JSON.
    pub metadata: Option<Box<RawValue>>,
    /// Id of the owner, if there was one.
    pub registrant: Option<Box<str>>,
    /// Mark of a redaction, which removed values and metadata.
    pub redaction: Option<RedactionMark>,
}

impl RecordSnapshot {
    /// Title from the metadata.
    pub fn title(&self) -> Option<String> {
        let kernel = KernelMetadata::from_json(self.metadata.as_ref()?.get().as_bytes()).ok()?;
        Some(kernel.title().to_owned())
    }
}

impl Registry {
    /// Lists the history of a name, also of a retired or deleted one: at most `limit` events. There may be fewer although
    /// more follow.
    ///
    /// Values are filtered by their permissions at that time: public ones for all callers, admin-readable ones for the
    /// operator. Reserved states are visible to authorized principals only. An author is public if it is a handle identity, a
    /// party or a part of this program.
    pub async fn record_history(
        &self,
        name: Handle<'_>,
        order: HistoryOrder,
        limit: usize,
        mut call: CallContext<'_>,
    ) -> Result<ResultPage<HistoryEvent, u64>, Error> {
        let rules = &self.rules;
        name.validate_up_to(rules.settings.limits.max_name_bytes)?;
        let full = name.qualified();
        let name = Handle::new(&full);
        rules.check_server_responsible(name, call.budget).await?;
        // Log entry and record of each event, the name itself, and the states before and after.
        let lookups = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(4);
        call.budget.charge(cost::LOOKUP.saturating_mul(lookups))?;
        let text = name.to_str().map_err(|_| Error::NotFound)?;
        let key = NameKey::new(text).map_err(|_| Error::NotFound)?;
        let mut visibility = VisibilityFilter::new(call.caller, call.now_ms);
        let Some(first) = rules.store.history(&key, FROM_OLDEST, 1).await?.entries.into_iter().next() else {
            return Err(Error::NotFound);
        };
        if !rules.is_visible(text, &mut visibility).await? {
            return Err(Error::NotFound);
        }
        let own = rules.store.history(&key, order, limit).await?;
        let (mut changes, mut next) = (own.entries, own.next);
        let is_oldest_first = matches!(order, HistoryOrder::OldestFirst { .. });
        if !is_oldest_first {
            changes.reverse();
        }
        let last = match order {
            _ if !changes.is_empty() => changes.last().map_or(0, |last| last.log_entry.sequence),
            HistoryOrder::OldestFirst { after } => after,
            HistoryOrder::NewestFirst { before } => before.saturating_sub(1),
        };
        let end = rules.state_after(&key, last).await?;
        let birth = first.log_entry.sequence;
        let holders = rules.holder_timeline(name, birth, order, next, call.budget).await?;
        next = match (next, holders.truncated_at) {
            (Some(own), Some(truncated_at)) => {
                Some(if is_oldest_first { own.min(truncated_at) } else { own.max(truncated_at) })
            }
            (own, truncated_at) => own.or(truncated_at),
        };
        let view = HistoryView {
            is_operator: rules.is_operator(&mut call).await?,
            can_read_private: rules.can_see_reserved(text, &mut visibility, call.budget).await?,
            holders,
        };
        let mut items = view.events(changes, end);
        items.retain(|event| match next {
            Some(next) if is_oldest_first => event.sequence <= next,
            Some(next) => event.sequence >= next,
            None => true,
        });
        if !is_oldest_first {
            items.reverse();
        }
        if items.len() > limit {
            items.truncate(limit);
            next = items.last().map(|last| last.sequence);
        }
        Ok(ResultPage { items, next })
    }
}

impl RecordReader {
    /// State of a name after one of its changes.
    pub(super) async fn state_after(&self, key: &NameKey, sequence: u64) -> Result<PriorState, Error> {
        let following = self.store.history(key, HistoryOrder::OldestFirst { after: sequence }, 1).await?;
        if let Some(following) = following.entries.into_iter().next() {
            return Ok(following.prior);
        }
        Ok(self.store.get(key).await?.map_or(PriorState::Absent, PriorState::Record))
    }
}

/// From the oldest change.
const FROM_OLDEST: HistoryOrder = HistoryOrder::OldestFirst { after: 0 };

/// Renders log entries as events visible to one caller.
struct HistoryView {
    is_operator: bool,
    /// Whether reserved states are visible.
    can_read_private: bool,
    holders: HolderTimeline,
}

impl HistoryView {
    /// Merges the changes of the name, oldest first, with the transfers of its prefix. `end` is the state after the last
    /// change.
    fn events(&self, changes: Vec<HistoryEntry>, end: PriorState) -> Vec<HistoryEvent> {
        let follows = self.follows_prefix(&changes, &end);
        let transfers = self.holders.transfers().filter(|(line, ..)| {
            let later = follows.iter().find(|(sequence, _)| *sequence > line.sequence);
            later.or(follows.last()).is_none_or(|(_, follows)| *follows)
        });
        let mut events: Vec<HistoryEvent> = transfers
            .map(|(line, from, to)| {
                self.to_event(
                    line.clone(),
                    HistoryEventKind::PrefixTransferred { from: from.clone(), to: to.clone() },
                )
            })
            .collect();
        let mut changes = changes.into_iter().peekable();
        while let Some(past) = changes.next() {
            let sequence = past.log_entry.sequence;
            let after = changes.peek().map_or(&end, |next| &next.prior);
            let kind = HistoryEventKind::Changed {
                kind: past.log_entry.kind,
                before: self.snapshot_state(&past.prior, sequence),
                after: self.snapshot_state(after, sequence),
            };
            events.push(self.to_event(past.log_entry, kind));
        }
        events.sort_by_key(|event| event.sequence);
        events
    }

    /// For every interval between changes: whether the name follows its prefix. Names with an explicit owner do not.
    fn follows_prefix(&self, changes: &[HistoryEntry], end: &PriorState) -> Vec<(u64, bool)> {
        let follows = |state: &PriorState| match state {
            PriorState::Record(entry) => {
                Registration::of_record(entry).is_ok_and(|registration| registration.owner.is_none())
            }
            PriorState::Absent => false,
        };
        let known = changes.iter().map(|past| (past.log_entry.sequence, follows(&past.prior)));
        known.chain([(u64::MAX, follows(end))]).collect()
    }

    fn to_event(&self, line: LogEntry, kind: HistoryEventKind) -> HistoryEvent {
        let author = ChangeAuthor::visible(&line.author, self.is_operator);
        HistoryEvent { sequence: line.sequence, time_ms: line.timestamp_ms, author, kind }
    }

    fn snapshot_state(&self, record: &PriorState, sequence: u64) -> SnapshotState {
        match record {
            PriorState::Absent => SnapshotState::Absent,
            PriorState::Record(entry) => SnapshotState::Record(Box::new(self.snapshot(entry, sequence))),
        }
    }

    fn snapshot(&self, entry: &StoredRecord, sequence: u64) -> RecordSnapshot {
        // A prefix record has a different registration.
        let prefix = party::decode::<Prefix>(entry).ok();
        let registration = Registration::of_record(entry).ok();
        let registration_state =
            registration.as_ref().map_or(RegistrationState::Registered, |registration| registration.state);
        let is_visible = registration_state == RegistrationState::Registered || self.can_read_private;
        let redaction = RedactionMark::of_values(&entry.values);
        let is_readable = |value: &&HandleValue<'_>| {
            redaction.is_none() && is_visible && is_readable(value, self.is_operator)
        };
        let values = entry.values.iter().filter(is_readable);
        let (owner, metadata) =
            registration.map(|registration| (registration.owner, registration.metadata)).unwrap_or_default();
        let of_prefix = || self.holders.holder_at(sequence).map(|holder| holder.registrant.clone());
        RecordSnapshot {
            state: DoiStatus::new(entry.status, registration_state),
            values: values.cloned().collect(),
            metadata: metadata.filter(|_| is_visible),
            registrant: prefix.map(|prefix| prefix.registrant).or(owner).or_else(of_prefix),
            redaction,
        }
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_proto::{Budget, ValuePermissions};
    use tendot_store::{ChangeSet, Edit, MemoryStore, Precondition};

    use super::*;
    use crate::{Caller, RegistrySettings};

    /// Visibility follows the permissions at that time, whatever they are later.
    #[test]
    fn historical_permissions() {
        let store = MemoryStore::new();
        let commit = |edits| {
            block_on(store.commit(ChangeSet { author: "operator".into(), timestamp_ms: 0, edits })).unwrap()
        };
        commit(vec![Edit::Home { prefix: "10.1".into() }]);
        for (data, permissions) in
            [("one", 0x0e), ("two", 0x0c), ("three", 0x05), ("four", 0x0e), ("five", 0x0c)]
        {
            let value = HandleValue {
                permissions: ValuePermissions(permissions),
                ..HandleValue::new(1, "NOTE", data)
            };
            commit(vec![Edit::Put {
                name: "10.1/x".into(),
                values: vec![value],
                precondition: Precondition::NotTombstone,
            }]);
        }
        let registry = Registry::new(store, RegistrySettings::default());
        for (caller, expected) in [
            (Caller::Anonymous, ["", "one", "", "", "four"]),
            (Caller::Operator, ["", "one", "two", "", "four"]),
        ] {
            let (name, order) = (Handle::from("10.1/x"), HistoryOrder::OldestFirst { after: 0 });
            let mut budget = Budget::new(1_000);
            let call = CallContext::new(&caller, 0, &mut budget);
            let history = block_on(registry.record_history(name, order, 10, call)).unwrap();
            let visible = |event: HistoryEvent| match event.kind {
                HistoryEventKind::Changed { before: SnapshotState::Record(previous), .. } => {
                    previous.values.iter().map(|value| value.data.to_vec()).collect()
                }
                _ => Vec::new(),
            };
            let items = history.items.into_iter().map(visible);
            let found: Vec<String> =
                items.map(|values| String::from_utf8(values.concat()).unwrap()).collect();
            assert_eq!(found, expected, "{caller:?}");
        }
    }

    #[test]
    fn visible_values() {
        let store = MemoryStore::new();
        let commit = |by: &str, edits| {
            block_on(store.commit(ChangeSet { author: by.into(), timestamp_ms: 0, edits })).unwrap()
        };
        let value = |index, permissions| HandleValue {
            permissions: ValuePermissions(permissions),
            ..HandleValue::new(index, "NOTE", index.to_string())
        };
        let values = vec![value(1, 0x0e), value(2, 0x0c), value(3, 0x05)];
        let put = |name: &str| Edit::Put {
            name: name.into(),
            values: values.clone(),
            precondition: Precondition::NotTombstone,
        };
        let remove = Edit::Remove { name: "10.1/X".into(), precondition: Precondition::Live };
        commit("operator", vec![Edit::Home { prefix: "10.1".into() }, Edit::Home { prefix: "0.NA".into() }]);
        commit("me@example.org", vec![put("10.1/x"), put("0.NA/10.1"), put("10.2/x")]);
        commit("300:10.1/a", vec![remove]);
        let registry = Registry::new(store, RegistrySettings::default());
        let history = |name: &str, after, caller: &Caller| {
            let order = HistoryOrder::OldestFirst { after };
            let mut budget = Budget::new(1_000);
            let call = CallContext::new(caller, 0, &mut budget);
            block_on(registry.record_history(Handle::from(name), order, 10, call))
        };
        let visible = |caller: &Caller| {
            let items = history("10.1/X", 0, caller).unwrap().items.into_iter();
            items
                .map(|event| match event.kind {
                    HistoryEventKind::Changed { before: SnapshotState::Record(previous), .. } => {
                        let indexes = previous.values.iter().map(|value| value.index).collect();
                        (event.author.principal.into_string(), indexes)
                    }
                    _ => (event.author.principal.into_string(), Vec::new()),
                })
                .collect::<Vec<(String, Vec<u32>)>>()
        };
        let identity = crate::HandleIdentity::from_proof(300, "10.1/a").unwrap();
        for caller in [Caller::Anonymous, Caller::Handle(identity)] {
            assert_eq!(visible(&caller), [(String::new(), vec![]), ("300:10.1/a".into(), vec![1])]);
        }
        let all = [("me@example.org".into(), vec![]), ("300:10.1/a".into(), vec![1, 2])];
        assert_eq!(visible(&Caller::Operator), all);
        // Record of a prefix.
        assert_eq!(history("10.1", 0, &Caller::Anonymous).unwrap().items.len(), 1);
        assert!(matches!(history("10.2/x", 0, &Caller::Operator), Err(Error::NotResponsible { .. })));
        assert!(matches!(history("10.1/none", 0, &Caller::Anonymous), Err(Error::NotFound)));
        assert!(history("10.1/x", 99, &Caller::Anonymous).unwrap().items.is_empty());
        let (all, mut budget) = (HistoryOrder::OldestFirst { after: 0 }, Budget::new(1_000));
        let name = Handle::from("10.1/x");
        let call = CallContext::new(&Caller::Operator, 0, &mut budget);
        let expensive = registry.record_history(name, all, usize::MAX, call);
        assert!(matches!(block_on(expensive), Err(Error::BudgetExceeded(_))));
    }

    /// Prefix with more changes than one request visits: nothing is skipped or repeated, in either order.
    #[test]
    fn paging_with_many_holder_changes() {
        let store = MemoryStore::new();
        let register = |name: &str, registration: String| {
            let (name, registration) = (name.into(), registration.into_bytes().into());
            let edit = Edit::Register {
                name,
                values: Vec::new(),
                registration,
                precondition: Precondition::NotTombstone,
            };
            block_on(store.commit(ChangeSet {
                author: "operator".into(),
                timestamp_ms: 0,
                edits: vec![edit],
            }))
            .unwrap();
        };
        let holds = |who: usize, policy: usize| {
            let policy = format!(r#"{{"quota":{policy}}}"#);
            register(
                "0.NA/10.1",
                format!(
                    r#"{{"prefix":"10.1","registrant":"r{who}","agency":"A","allocated":0,"policy":{policy}}}"#
                ),
            );
        };
        let registration = |owner: &str, updated: usize| {
            let owned = format!(r#"@{{"state":"registered"{owner},"created":0,"updated":{updated}}}"#);
            register("10.1/x", owned);
        };
        let home = vec![Edit::Home { prefix: "10.1".into() }];
        block_on(store.commit(ChangeSet { author: "operator".into(), timestamp_ms: 0, edits: home }))
            .unwrap();
        holds(8, 0);
        holds(9, 0);
        holds(0, 0);
        registration("", 0);
        let mut expected = vec!["r0".to_owned()];
        for number in 1..=1_000 {
            holds(number / 100, number);
            if number % 100 == 0 {
                expected.push(format!("r{} to r{}", number / 100 - 1, number / 100));
            }
            if number % 150 == 0 {
                registration("", number);
                expected.push(format!("r{}", number / 100));
            }
        }
        registration(r#","owner":"other""#, 0);
        expected.push("other".into());
        holds(11, 0);
        let registry = Registry::new(store, RegistrySettings::default());
        let read = |mut order: HistoryOrder, limit: usize| {
            let mut visible = Vec::new();
            loop {
                let (name, budget) = (Handle::from("10.1/x"), &mut Budget::new(20_000));
                let call = CallContext::new(&Caller::Anonymous, 0, budget);
                let events = block_on(registry.record_history(name, order, limit, call)).unwrap();
                assert!(events.items.len() <= limit);
                visible.extend(events.items.into_iter().map(|event| match event.kind {
                    HistoryEventKind::Changed { after: SnapshotState::Record(now), .. } => {
                        now.registrant.unwrap().into()
                    }
                    HistoryEventKind::PrefixTransferred { from, to } => {
                        format!("{} to {}", from.registrant, to.registrant)
                    }
                    other => panic!("{other:?}"),
                }));
                let Some(next) = events.next else { return visible };
                order = match order {
                    HistoryOrder::OldestFirst { .. } => HistoryOrder::OldestFirst { after: next },
                    HistoryOrder::NewestFirst { .. } => HistoryOrder::NewestFirst { before: next },
                };
            }
        };
        for limit in [1, 2, 5, 100] {
            assert_eq!(read(FROM_OLDEST, limit), expected, "by {limit}");
            let mut newest: Vec<String> = read(HistoryOrder::NewestFirst { before: u64::MAX }, limit);
            newest.reverse();
            assert_eq!(newest, expected, "the newest first by {limit}");
        }
    }
}

//! What ever happened to a name: its own changes, with what was there before and after, and prefixes that changed hands with
//! it.

use serde_json::value::RawValue;
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions, ValueReference};
use tendot_store::{
    EditKind, HistoryEntry, HistoryOrder, LogEntry, NameKey, PriorState, RecordStatus, Store, StoredRecord,
};

use crate::doi::{DoiStatus, Registration, RegistrationState, VisibilityFilter};
use crate::metadata::KernelMetadata;
use crate::party::{self, Prefix};
use crate::{Caller, Error, Registry, price};

/// Events of one history request, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct HistoryEvents {
    /// In the order that was asked for.
    pub items: Vec<HistoryEvent>,
    /// The number to go on after, or before, if there is more.
    pub next: Option<u64>,
}

/// Event in the history of a name.
#[derive(Clone, Debug)]
pub struct HistoryEvent {
    /// The line of the log that tells of it.
    pub sequence: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// By whom; empty if that is not told.
    pub by: Box<str>,
    /// What happened.
    pub what: Happening,
}

/// What happened to a name.
#[derive(Clone, Debug)]
pub enum Happening {
    /// It changed.
    Changed {
        /// How.
        kind: EditKind,
        /// What was there before.
        before: Then,
        /// What was there after.
        after: Then,
    },
    /// Its prefix changed hands, and the name with it.
    Transferred {
        /// Who had it.
        from: PrefixHolder,
        /// Who got it.
        to: PrefixHolder,
    },
}

/// What was under a name at a time.
#[derive(Clone, Debug)]
pub enum Then {
    /// Nothing was.
    Nothing,
    /// This was.
    Record(Box<RecordSnapshot>),
    /// Nobody knows any more.
    Unknown,
}

/// Record at one point of its history, as the caller may see it.
#[derive(Clone, Debug)]
pub struct RecordSnapshot {
    /// How far it had come.
    pub state: DoiStatus,
    /// Values that could be read then.
    pub values: Vec<HandleValue<'static>>,
    /// Its metadata, as kernel JSON.
    pub metadata: Option<Box<RawValue>>,
    /// The id of the registrant who had it, if anybody did.
    pub registrant: Option<Box<str>>,
}

impl RecordSnapshot {
    /// The title that its metadata gave it.
    pub fn title(&self) -> Option<String> {
        let kernel = KernelMetadata::from_json(self.metadata.as_ref()?.get().as_bytes()).ok()?;
        Some(kernel.title().to_owned())
    }
}

/// Holder of a prefix: registrant and agency.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PrefixHolder {
    /// The registrant's id.
    pub registrant: Box<str>,
    /// The code of its agency.
    pub agency: Box<str>,
}

/// Changes of a prefix that are looked at for one answer, in pieces of so many.
const TIMELINE_PAGE_LEN: usize = 100;
const MAX_TIMELINE_PAGES: usize = 4;

impl Registry {
    /// What ever happened to a name that is kept here, also if it has ended or was removed: at most `limit` events. There may
    /// be fewer, and yet more to come.
    ///
    /// Of what was there, everybody gets the values that everybody could read then, and the operator those that anybody
    /// could; what was only reserved is for those concerned. Who made a change is told to everybody if it is a handle's
    /// identity, a party or a part of this program.
    #[allow(
        clippy::too_many_arguments,
        reason = "which part of which history, as whom and when: none of them stands for another"
    )]
    pub async fn record_history(
        &self,
        name: Handle<'_>,
        order: HistoryOrder,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<HistoryEvents, Error> {
        name.validate()?;
        let full = name.qualified();
        let name = Handle::new(&full);
        self.check_server_responsible(name, work).await?;
        // The line and the record that was there, once for the name itself, and for what came before and after.
        let lookups = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(4);
        work.charge(price::LOOKUP.saturating_mul(lookups))?;
        let text = name.to_str().map_err(|_| Error::NotFound)?;
        let key = NameKey::new(text).map_err(|_| Error::NotFound)?;
        let mut secrecy = VisibilityFilter::new(caller, at);
        let Some(first) = self.store.history(&key, FROM_OLDEST, 1).await?.items.into_iter().next() else {
            return Err(Error::NotFound);
        };
        if !self.is_visible(text, &mut secrecy).await? {
            return Err(Error::NotFound);
        }
        let own = self.store.history(&key, order, limit).await?;
        let (mut changes, mut next) = (own.items, own.next);
        let is_rising = matches!(order, HistoryOrder::OldestFirst { .. });
        if !is_rising {
            changes.reverse();
        }
        let last = match order {
            _ if !changes.is_empty() => changes.last().map_or(0, |last| last.line.sequence),
            HistoryOrder::OldestFirst { after } => after,
            HistoryOrder::NewestFirst { before } => before.saturating_sub(1),
        };
        let end = self.state_after(&key, last).await?;
        let prefix = self.holder_timeline(name, first.line.sequence, order, next, work).await?;
        next = match (next, prefix.cut) {
            (Some(own), Some(cut)) => Some(if is_rising { own.min(cut) } else { own.max(cut) }),
            (own, cut) => own.or(cut),
        };
        let teller = HistoryView {
            is_operator: self.is_operator(caller, at, work).await?,
            is_concerned: self.can_see_reserved(text, &mut secrecy, work).await?,
            prefix,
        };
        let mut items = teller.events(changes, end);
        items.retain(|event| match next {
            Some(next) if is_rising => event.sequence <= next,
            Some(next) => event.sequence >= next,
            None => true,
        });
        if !is_rising {
            items.reverse();
        }
        if items.len() > limit {
            items.truncate(limit);
            next = items.last().map(|last| last.sequence);
        }
        Ok(HistoryEvents { items, next })
    }

    /// What was under a name after one of its changes.
    async fn state_after(&self, key: &NameKey, sequence: u64) -> Result<PriorState, Error> {
        let following = self.store.history(key, HistoryOrder::OldestFirst { after: sequence }, 1).await?;
        if let Some(following) = following.items.into_iter().next() {
            return Ok(following.before);
        }
        Ok(self.store.get(key).await?.map_or(PriorState::Nothing, PriorState::Record))
    }

    /// Who had the prefix of a name, since the name came to be, in the part of its history that is asked for: up to `bound`.
    async fn holder_timeline(
        &self,
        name: Handle<'_>,
        birth: u64,
        order: HistoryOrder,
        bound: Option<u64>,
        work: &mut Budget,
    ) -> Result<HolderTimeline, Error> {
        let mut timeline = HolderTimeline::default();
        let Ok(prefix) = std::str::from_utf8(name.prefix()) else { return Ok(timeline) };
        if !party::is_doi_prefix(prefix) {
            return Ok(timeline);
        }
        let Ok(key) = NameKey::new(&format!("0.NA/{prefix}")) else { return Ok(timeline) };
        let (mut order, bound) = match order {
            HistoryOrder::OldestFirst { after } => {
                (HistoryOrder::OldestFirst { after: after.max(birth) }, bound.unwrap_or(u64::MAX))
            }
            newest @ HistoryOrder::NewestFirst { .. } => (newest, bound.unwrap_or_default().max(birth)),
        };
        // Newest first, the end of the part is where it begins.
        if let HistoryOrder::NewestFirst { before } = order {
            timeline.end = holder(&self.state_after(&key, before.saturating_sub(1)).await?);
        }
        for piece in 1..=MAX_TIMELINE_PAGES {
            work.charge(price::LOOKUP)?;
            let history = self.store.history(&key, order, TIMELINE_PAGE_LEN).await?;
            for past in history.items {
                work.charge(price::LOOKUP)?;
                let (sequence, before) = (past.line.sequence, holder(&past.before));
                match order {
                    HistoryOrder::OldestFirst { .. } if sequence > bound => {
                        timeline.end = before;
                        return Ok(timeline);
                    }
                    HistoryOrder::NewestFirst { .. } if sequence < bound => {
                        timeline.turns.reverse();
                        return Ok(timeline);
                    }
                    _ => timeline.turns.push((past.line, before)),
                }
            }
            let Some(next) = history.next else { break };
            if piece == MAX_TIMELINE_PAGES {
                timeline.cut = Some(next);
            }
            order = match order {
                HistoryOrder::OldestFirst { .. } => HistoryOrder::OldestFirst { after: next },
                HistoryOrder::NewestFirst { .. } => HistoryOrder::NewestFirst { before: next },
            };
        }
        match order {
            HistoryOrder::OldestFirst { after } => {
                let last = timeline.turns.last().map_or(after, |(line, _)| line.sequence);
                timeline.end = holder(&self.state_after(&key, last).await?);
            }
            HistoryOrder::NewestFirst { .. } => timeline.turns.reverse(),
        }
        Ok(timeline)
    }
}

/// From the beginning.
const FROM_OLDEST: HistoryOrder = HistoryOrder::OldestFirst { after: 0 };

/// Holders of a prefix over time, oldest first.
#[derive(Debug, Default)]
struct HolderTimeline {
    turns: Vec<(LogEntry, Option<PrefixHolder>)>,
    /// Who had it after the last of them.
    end: Option<PrefixHolder>,
    /// How far was looked, if not to the end.
    cut: Option<u64>,
}

impl HolderTimeline {
    /// Who had it at a change.
    fn holder_at(&self, sequence: u64) -> Option<&PrefixHolder> {
        let later = self.turns.iter().find(|(line, _)| line.sequence > sequence);
        later.map_or(&self.end, |(_, before)| before).as_ref()
    }

    /// When it changed hands, from whom and to whom.
    fn transfers(&self) -> impl Iterator<Item = (&LogEntry, &PrefixHolder, &PrefixHolder)> {
        self.turns.iter().enumerate().filter_map(|(number, (line, before))| {
            let after = self.turns.get(number + 1).map_or(&self.end, |(_, after)| after);
            let (from, to) = (before.as_ref()?, after.as_ref()?);
            (from != to).then_some((line, from, to))
        })
    }
}

/// Who had a prefix, by what was its record.
fn holder(record: &PriorState) -> Option<PrefixHolder> {
    let PriorState::Record(entry) = record else { return None };
    let Prefix { registrant, agency, .. } = party::decode(entry).ok()?;
    Some(PrefixHolder { registrant, agency })
}

/// Renders log entries as events visible to one caller.
struct HistoryView {
    is_operator: bool,
    /// Whether they may see what was only reserved.
    is_concerned: bool,
    prefix: HolderTimeline,
}

impl HistoryView {
    /// Changes of the name itself, the oldest first, and what was there after the last; with those of its prefix.
    fn events(&self, changes: Vec<HistoryEntry>, end: PriorState) -> Vec<HistoryEvent> {
        let follows = self.follows_prefix(&changes, &end);
        let transfers = self.prefix.transfers().filter(|(line, ..)| {
            let later = follows.iter().find(|(sequence, _)| *sequence > line.sequence);
            later.or(follows.last()).is_none_or(|(_, follows)| *follows)
        });
        let mut events: Vec<HistoryEvent> = transfers
            .map(|(line, from, to)| {
                self.to_event(line.clone(), Happening::Transferred { from: from.clone(), to: to.clone() })
            })
            .collect();
        let mut changes = changes.into_iter().peekable();
        while let Some(past) = changes.next() {
            let sequence = past.line.sequence;
            let after = changes.peek().map_or(&end, |next| &next.before);
            let what = Happening::Changed {
                kind: past.line.kind,
                before: self.snapshot_state(&past.before, sequence),
                after: self.snapshot_state(after, sequence),
            };
            events.push(self.to_event(past.line, what));
        }
        events.sort_by_key(|event| event.sequence);
        events
    }

    /// Up to each change, and after the last, whether the name was with its prefix: names that were given to others are not.
    fn follows_prefix(&self, changes: &[HistoryEntry], end: &PriorState) -> Vec<(u64, bool)> {
        let follows = |state: &PriorState| match state {
            PriorState::Record(entry) => {
                Registration::of_record(entry).is_ok_and(|deposit| deposit.owner.is_none())
            }
            PriorState::Nothing => false,
            PriorState::Unknown => true,
        };
        let known = changes.iter().map(|past| (past.line.sequence, follows(&past.before)));
        known.chain([(u64::MAX, follows(end))]).collect()
    }

    fn to_event(&self, line: LogEntry, what: Happening) -> HistoryEvent {
        let by = visible_author(line.by, self.is_operator);
        HistoryEvent { sequence: line.sequence, at: line.at, by, what }
    }

    fn snapshot_state(&self, record: &PriorState, sequence: u64) -> Then {
        match record {
            PriorState::Nothing => Then::Nothing,
            PriorState::Unknown => Then::Unknown,
            PriorState::Record(entry) => Then::Record(Box::new(self.snapshot(entry, sequence))),
        }
    }

    fn snapshot(&self, entry: &StoredRecord, sequence: u64) -> RecordSnapshot {
        // The record of a prefix has another registration.
        let prefix = party::decode::<Prefix>(entry).ok();
        let deposit = Registration::of_record(entry).ok();
        let stage = deposit.as_ref().map_or(RegistrationState::Registered, |deposit| deposit.state);
        let is_told = stage == RegistrationState::Registered || self.is_concerned;
        let readable = if self.is_operator { ValuePermissions::ADMIN_READ.0 } else { 0 }
            | ValuePermissions::PUBLIC_READ.0;
        let values = entry.values.iter().filter(|value| is_told && value.permissions.0 & readable != 0);
        let (owner, metadata) = deposit.map(|deposit| (deposit.owner, deposit.metadata)).unwrap_or_default();
        let of_prefix = || self.prefix.holder_at(sequence).map(|holder| holder.registrant.clone());
        RecordSnapshot {
            state: match (entry.state, stage) {
                (RecordStatus::Tombstone, _) => DoiStatus::Tombstone,
                (RecordStatus::Live, RegistrationState::Reserved) => DoiStatus::Reserved,
                (RecordStatus::Live, RegistrationState::Registered) => DoiStatus::Registered,
            },
            values: values.cloned().collect(),
            metadata: metadata.filter(|_| is_told),
            registrant: prefix.map(|prefix| prefix.registrant).or(owner).or_else(of_prefix),
        }
    }
}

/// Who made a change, as it is told; empty if it is not.
pub(crate) fn visible_author(by: Box<str>, is_operator: bool) -> Box<str> {
    if is_operator || is_public_author(&by) { by } else { "".into() }
}

/// Whether everybody may know that it was they: `300:0.NA/10.1000`, `agency:CODE`, `registrant:ID`, or one word, as
/// `operator` and `import`. Other stores and programs may write there what they like, also addresses.
fn is_public_author(by: &str) -> bool {
    let is_party = by.strip_prefix("agency:").or_else(|| by.strip_prefix("registrant:")).is_some_and(|id| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    });
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_index = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_identity =
        by.split_once(':').is_some_and(|(index, handle)| is_index(index) && handle.contains('/'));
    is_word(by) || is_party || (is_identity && ValueReference::parse(by).index != 0)
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_proto::HandleValue;
    use tendot_store::{ChangeSet, Edit, MemoryStore, Precondition};

    use super::*;
    use crate::RegistrySettings;

    #[test]
    fn who_is_told() {
        for (by, expected) in [
            ("300:0.NA/10.1000", true),
            ("operator", true),
            ("import", true),
            ("agency:alpha", true),
            ("registrant:R-1", true),
            ("registrant:me@example.org", false),
            ("registrant:", false),
            ("other:alpha", false),
            ("", false),
            ("0:0.NA/10.1000", false),
            ("192.0.2.1", false),
            ("192.0.2.1:4711", false),
            ("2001:db8::1", false),
            ("me@example.org", false),
            ("Bearer abc", false),
            ("300:", false),
            (":0.NA/10.1000", false),
        ] {
            assert_eq!(is_public_author(by), expected, "{by}");
        }
    }

    /// What was public then stays so, and what was not does, too, whatever became of it later.
    #[test]
    fn permissions_of_their_time() {
        let store = MemoryStore::new();
        let commit =
            |edits| block_on(store.commit(ChangeSet { by: "operator".into(), at: 0, edits })).unwrap();
        commit(vec![Edit::Home { prefix: "10.1".into() }]);
        for (data, permissions) in
            [("one", 0x0e), ("two", 0x0c), ("three", 0x05), ("four", 0x0e), ("five", 0x0c)]
        {
            let value = HandleValue {
                permissions: ValuePermissions(permissions),
                ..HandleValue::new(1, "NOTE", data)
            };
            commit(vec![Edit::Put { name: "10.1/x".into(), values: vec![value], expect: Precondition::Any }]);
        }
        let registry = Registry::new(store, RegistrySettings::default());
        for (caller, expected) in [
            (Caller::Anonymous, ["", "one", "", "", "four"]),
            (Caller::Operator, ["", "one", "two", "", "four"]),
        ] {
            let (name, order) = (Handle::from("10.1/x"), HistoryOrder::OldestFirst { after: 0 });
            let mut work = Budget::new(1_000);
            let history = block_on(registry.record_history(name, order, 10, &caller, 0, &mut work)).unwrap();
            let told = |event: HistoryEvent| match event.what {
                Happening::Changed { before: Then::Record(was), .. } => {
                    was.values.iter().map(|value| value.data.to_vec()).collect()
                }
                _ => Vec::new(),
            };
            let items = history.items.into_iter().map(told);
            let found: Vec<String> =
                items.map(|values| String::from_utf8(values.concat()).unwrap()).collect();
            assert_eq!(found, expected, "{caller:?}");
        }
    }

    #[test]
    fn what_is_told() {
        let store = MemoryStore::new();
        let commit =
            |by: &str, edits| block_on(store.commit(ChangeSet { by: by.into(), at: 0, edits })).unwrap();
        let value = |index, permissions| HandleValue {
            permissions: ValuePermissions(permissions),
            ..HandleValue::new(index, "NOTE", index.to_string())
        };
        let values = vec![value(1, 0x0e), value(2, 0x0c), value(3, 0x05)];
        let put =
            |name: &str| Edit::Put { name: name.into(), values: values.clone(), expect: Precondition::Any };
        let remove = Edit::Remove { name: "10.1/X".into(), expect: Precondition::Live };
        commit("operator", vec![Edit::Home { prefix: "10.1".into() }, Edit::Home { prefix: "0.NA".into() }]);
        commit("me@example.org", vec![put("10.1/x"), put("0.NA/10.1"), put("10.2/x")]);
        commit("300:10.1/a", vec![remove]);
        let registry = Registry::new(store, RegistrySettings::default());
        let history = |name: &str, after, caller: &Caller| {
            let order = HistoryOrder::OldestFirst { after };
            block_on(registry.record_history(
                Handle::from(name),
                order,
                10,
                caller,
                0,
                &mut Budget::new(1_000),
            ))
        };
        let told = |caller: &Caller| {
            let items = history("10.1/X", 0, caller).unwrap().items.into_iter();
            items
                .map(|event| match event.what {
                    Happening::Changed { before: Then::Record(was), .. } => {
                        let indexes = was.values.iter().map(|value| value.index).collect();
                        (event.by.into_string(), indexes)
                    }
                    _ => (event.by.into_string(), Vec::new()),
                })
                .collect::<Vec<(String, Vec<u32>)>>()
        };
        let identity = crate::HandleIdentity::proven(300, "10.1/a").unwrap();
        for caller in [Caller::Anonymous, Caller::Handle(identity)] {
            assert_eq!(told(&caller), [(String::new(), vec![]), ("300:10.1/a".into(), vec![1])]);
        }
        let all = [("me@example.org".into(), vec![]), ("300:10.1/a".into(), vec![1, 2])];
        assert_eq!(told(&Caller::Operator), all);
        // A prefix's own record.
        assert_eq!(history("10.1", 0, &Caller::Anonymous).unwrap().items.len(), 1);
        assert!(matches!(history("10.2/x", 0, &Caller::Operator), Err(Error::NotResponsible { .. })));
        assert!(matches!(history("10.1/none", 0, &Caller::Anonymous), Err(Error::NotFound)));
        assert!(history("10.1/x", 99, &Caller::Anonymous).unwrap().items.is_empty());
        let (all, mut work) = (HistoryOrder::OldestFirst { after: 0 }, Budget::new(1_000));
        let name = Handle::from("10.1/x");
        let dear = registry.record_history(name, all, usize::MAX, &Caller::Operator, 0, &mut work);
        assert!(matches!(block_on(dear), Err(Error::Exhausted(_))));
    }

    /// A prefix that was changed more often than is looked at for one answer: nothing is skipped or told twice, either way.
    #[test]
    fn pages_of_a_busy_prefix() {
        let store = MemoryStore::new();
        let register = |name: &str, registration: String| {
            let (name, registration) = (name.into(), registration.into_bytes().into());
            let edit = Edit::Register { name, values: Vec::new(), registration, expect: Precondition::Any };
            block_on(store.commit(ChangeSet { by: "operator".into(), at: 0, edits: vec![edit] })).unwrap();
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
        let deposit = |owner: &str, updated: usize| {
            let owned = format!(r#"{{"state":"registered"{owner},"created":0,"updated":{updated}}}"#);
            register("10.1/x", owned);
        };
        let home = vec![Edit::Home { prefix: "10.1".into() }];
        block_on(store.commit(ChangeSet { by: "operator".into(), at: 0, edits: home })).unwrap();
        holds(8, 0);
        holds(9, 0);
        holds(0, 0);
        deposit("", 0);
        let mut expected = vec!["r0".to_owned()];
        for number in 1..=1_000 {
            holds(number / 100, number);
            if number % 100 == 0 {
                expected.push(format!("r{} to r{}", number / 100 - 1, number / 100));
            }
            if number % 150 == 0 {
                deposit("", number);
                expected.push(format!("r{}", number / 100));
            }
        }
        deposit(r#","owner":"other""#, 0);
        expected.push("other".into());
        holds(11, 0);
        let registry = Registry::new(store, RegistrySettings::default());
        let read = |mut order: HistoryOrder, limit: usize| {
            let mut told = Vec::new();
            loop {
                let (name, work) = (Handle::from("10.1/x"), &mut Budget::new(20_000));
                let events =
                    block_on(registry.record_history(name, order, limit, &Caller::Anonymous, 0, work))
                        .unwrap();
                assert!(events.items.len() <= limit);
                told.extend(events.items.into_iter().map(|event| match event.what {
                    Happening::Changed { after: Then::Record(now), .. } => now.registrant.unwrap().into(),
                    Happening::Transferred { from, to } => {
                        format!("{} to {}", from.registrant, to.registrant)
                    }
                    other => panic!("{other:?}"),
                }));
                let Some(next) = events.next else { return told };
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

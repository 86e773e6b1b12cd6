//! Change feed: the change log as a caller may see it.

use tendot_store::{EditKind, LogEntry, NameKey, Store};

use super::ChangeAuthor;
use crate::party::{RegistryObjectKind, is_reserved_prefix};
use crate::registration::VisibilityFilter;
use crate::rules::{Authorizer, RecordReader};
use crate::{CallContext, Error, Registry, cost};

/// Position in the change feed: everything up to it has been read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChangeCursor {
    /// Last log entry that was read, completely or in part.
    pub sequence: u64,
    /// Last name that was read of an import entry; `None` if the entry was read completely.
    pub import_key: Option<NameKey>,
}

impl ChangeCursor {
    /// Position after a log entry.
    pub const fn after(sequence: u64) -> Self {
        Self { sequence, import_key: None }
    }
}

/// Events of one request to the change feed, and where to continue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangeEvents {
    /// Events, oldest first.
    pub items: Vec<ChangeEvent>,
    /// Position to continue at.
    pub next: ChangeCursor,
    /// Whether the end of the log was reached. Otherwise there may be fewer events than requested, even none.
    pub is_end: bool,
}

/// Event of the change feed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangeEvent {
    /// Sequence number of the log entry.
    pub sequence: u64,
    /// Kind of object.
    pub subject: ChangeSubject,
    /// Name in its original spelling, prefix, or id of the object.
    pub name: Box<str>,
    /// Kind of change.
    pub kind: EditKind,
    /// Time of the change, in milliseconds since 1970.
    pub time_ms: u64,
    /// Author.
    pub author: ChangeAuthor,
    /// Position after this event.
    pub cursor: ChangeCursor,
}

/// Kind of object that changed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ChangeSubject {
    /// Record of a name.
    Record,
    /// Prefix that was homed or unhomed.
    Prefix,
    /// Agency.
    Agency,
    /// Registrant.
    Registrant,
    /// Token; operator only.
    Token,
    /// Transfer; operator only. Both sides see it in their list of transfers.
    Transfer,
}

impl From<RegistryObjectKind> for ChangeSubject {
    fn from(kind: RegistryObjectKind) -> Self {
        match kind {
            RegistryObjectKind::Agency => Self::Agency,
            RegistryObjectKind::Registrant => Self::Registrant,
            RegistryObjectKind::Token => Self::Token,
            RegistryObjectKind::Transfer => Self::Transfer,
        }
    }
}

impl Registry {
    /// Lists changes after a position, as far as they are visible to the caller: at most `limit` events.
    ///
    /// Continuing at [`ChangeEvents::next`], or after any of the events, delivers every change exactly once, whatever is
    /// committed meanwhile. An import is expanded to the names that no later change has touched. Reserved names are visible
    /// to authorized principals, tokens and transfers to the operator only. Fails if the token is not valid at the time of
    /// the call.
    pub async fn list_changes(
        &self,
        after: &ChangeCursor,
        limit: usize,
        mut call: CallContext<'_>,
    ) -> Result<ChangeEvents, Error> {
        let rules = &self.rules;
        let limit = limit.max(1);
        call.budget.charge(cost::LOOKUP.saturating_add(cost::list(limit)))?;
        // Authorized for every page: the token may have been revoked meanwhile.
        rules.principal(&mut call).await?;
        let is_operator = rules.is_operator(&mut call).await?;
        let from = after.sequence.saturating_sub(u64::from(after.import_key.is_some()));
        let lines = rules.store.read_log(from, limit).await?;
        let mut changes = ChangeEvents {
            items: Vec::new(),
            next: ChangeCursor::after(after.sequence),
            is_end: lines.len() < limit,
        };
        for line in lines {
            let import_key = after.import_key.as_ref().filter(|_| line.sequence == after.sequence);
            if line.kind != EditKind::Import {
                changes.next = ChangeCursor::after(line.sequence);
                // The position is invalid if this entry has a single name.
                let item = visible_event(line, is_operator).filter(|_| import_key.is_none());
                changes.items.extend(item);
                continue;
            }
            changes.is_end = false;
            if changes.items.is_empty() {
                rules.expand_import(line, import_key, limit, is_operator, &mut changes).await?;
            }
            break;
        }
        let visibility = VisibilityFilter::new(call.caller, call.now_ms);
        rules.retain_visible(&mut changes.items, visibility).await?;
        Ok(changes)
    }
}

impl Authorizer {
    /// Drops reserved names that are not visible to the caller.
    async fn retain_visible(
        &self,
        items: &mut Vec<ChangeEvent>,
        mut visibility: VisibilityFilter<'_>,
    ) -> Result<(), Error> {
        let mut is_visible = Vec::with_capacity(items.len());
        for item in &*items {
            let is_record = item.subject == ChangeSubject::Record;
            is_visible.push(!is_record || self.is_visible(&item.name, &mut visibility).await?);
        }
        let mut is_visible = is_visible.into_iter();
        items.retain(|_| is_visible.next().unwrap_or_default());
        Ok(())
    }
}

impl RecordReader {
    /// Expands an import entry to its names.
    async fn expand_import(
        &self,
        line: LogEntry,
        import_key: Option<&NameKey>,
        limit: usize,
        is_operator: bool,
        changes: &mut ChangeEvents,
    ) -> Result<(), Error> {
        let page = self.store.names_at_revision(line.revision, import_key, limit).await?;
        for listed in page.names {
            let cursor =
                ChangeCursor { sequence: line.sequence, import_key: NameKey::new(&listed.name).ok() };
            let name_entry = LogEntry { name: listed.name, ..line.clone() };
            changes
                .items
                .extend(visible_event(name_entry, is_operator).map(|event| ChangeEvent { cursor, ..event }));
        }
        changes.next = ChangeCursor { sequence: line.sequence, import_key: page.next };
        Ok(())
    }
}

/// Event of a log entry; `None` if it is not visible.
fn visible_event(line: LogEntry, is_operator: bool) -> Option<ChangeEvent> {
    let is_homing = matches!(line.kind, EditKind::Home | EditKind::Unhome);
    let is_object = line.name.split_once('/').is_some_and(|(start, _)| is_reserved_prefix(start.as_bytes()));
    let (subject, name) = match is_object {
        false if is_homing => (ChangeSubject::Prefix, line.name),
        false => (ChangeSubject::Record, line.name),
        // Other names under the reserved prefix are never visible.
        true => {
            let (kind, id) = RegistryObjectKind::parse(&line.name)?;
            let is_public = !matches!(kind, RegistryObjectKind::Token | RegistryObjectKind::Transfer);
            (is_public || is_operator).then(|| (kind.into(), id.into()))?
        }
    };
    let cursor = ChangeCursor::after(line.sequence);
    let author = ChangeAuthor::visible(&line.author, is_operator);
    Some(ChangeEvent {
        sequence: line.sequence,
        subject,
        name,
        kind: line.kind,
        time_ms: line.timestamp_ms,
        author,
        cursor,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use pollster::block_on;
    use tendot_proto::{Budget, HandleValue};
    use tendot_store::{
        AnyStore, ChangeSet, Edit, EmbeddedImporter, EmbeddedStore, MemoryStore, Precondition,
    };

    use super::*;
    use crate::{Caller, RegistrySettings};

    fn put(name: &str) -> Edit {
        let values = vec![HandleValue::new(1, "URL", "https://example.org/")];
        Edit::Put { name: name.into(), values, precondition: Precondition::NotTombstone }
    }

    fn commit(store: &impl Store, by: &str, edits: Vec<Edit>) {
        block_on(store.commit(ChangeSet { author: by.into(), timestamp_ms: 7, edits })).unwrap();
    }

    fn read(registry: &Registry, after: &ChangeCursor, limit: usize, caller: &Caller) -> ChangeEvents {
        let changes = block_on(registry.list_changes(
            after,
            limit,
            CallContext::new(caller, 0, &mut Budget::new(10_000)),
        ))
        .unwrap();
        assert!(changes.items.len() <= limit);
        changes
    }

    /// All events after a position, read in pages of this size.
    fn all(registry: &Registry, after: ChangeCursor, limit: usize, caller: &Caller) -> Vec<ChangeEvent> {
        let (mut items, mut next) = (Vec::new(), after);
        loop {
            let changes = read(registry, &next, limit, caller);
            items.extend(changes.items);
            next = changes.next;
            if changes.is_end {
                return items;
            }
        }
    }

    #[test]
    fn events_by_caller() {
        let store = MemoryStore::new();
        commit(&store, "operator", vec![Edit::Home { prefix: "10.1".into() }, put("10.1/x")]);
        commit(&store, "agency:alpha", vec![put("0.TENDOT/agency/alpha"), put("0.tendot/registrant/r1")]);
        commit(&store, "operator", vec![put("0.TENDOT/token/t1"), put("0.TENDOT/transfer/9/x")]);
        commit(&store, "me@example.org", vec![put("0.TENDOT/secret/1"), put("0.TENDOTX/token/1")]);
        commit(
            &store,
            "operator",
            vec![Edit::Tombstone { name: "10.1/X".into(), precondition: Precondition::Live }],
        );
        commit(&store, "operator", vec![put("0.NA/10.1"), Edit::Unhome { prefix: "10.1".into() }]);
        let registry = Registry::new(store, RegistrySettings::default());
        let visible = |caller: &Caller| {
            let items = all(&registry, ChangeCursor::default(), 3, caller).into_iter();
            items
                .map(|item| {
                    format!(
                        "{} {:?} {:?} {} {}",
                        item.sequence, item.subject, item.kind, item.name, item.author.principal
                    )
                })
                .collect::<Vec<_>>()
        };
        let for_operator = [
            "1 Prefix Home 10.1 operator",
            "2 Record Create 10.1/x operator",
            "3 Agency Create alpha agency:alpha",
            "4 Registrant Create r1 agency:alpha",
            "5 Token Create t1 operator",
            "6 Transfer Create 9/x operator",
            "8 Record Create 0.TENDOTX/token/1 me@example.org",
            "9 Record Tombstone 10.1/x operator",
            "10 Record Create 0.NA/10.1 operator",
            "11 Prefix Unhome 10.1 operator",
        ];
        assert_eq!(visible(&Caller::Operator), for_operator);
        let for_anonymous: Vec<String> = for_operator
            .iter()
            .filter(|line| !line.contains(" Token ") && !line.contains(" Transfer "))
            .map(|line| line.replace("me@example.org", ""))
            .collect();
        assert_eq!(visible(&Caller::Anonymous), for_anonymous);
    }

    #[test]
    fn cursors() {
        let store = MemoryStore::new();
        commit(&store, "operator", (0..5).map(|number| put(&format!("10.1/{number}"))).collect());
        let registry = Registry::new(store, RegistrySettings::default());
        let whole = all(&registry, ChangeCursor::default(), 100, &Caller::Anonymous);
        assert_eq!(whole.len(), 5);
        for (read, item) in (1..).zip(&whole) {
            assert_eq!(item.cursor, ChangeCursor::after(read as u64));
            assert_eq!(all(&registry, item.cursor.clone(), 2, &Caller::Anonymous), whole[read..]);
        }
        // A position that was never returned repeats nothing.
        let invalid = ChangeCursor { sequence: 3, import_key: NameKey::new("10.1/0").ok() };
        assert_eq!(all(&registry, invalid, 2, &Caller::Anonymous), whole[3..]);
        assert_eq!(all(&registry, ChangeCursor::after(u64::MAX), 2, &Caller::Anonymous), []);
        let (begin, mut budget) = (ChangeCursor::default(), Budget::new(10_000));
        let call = CallContext::new(&Caller::Anonymous, 0, &mut budget);
        let expensive = registry.list_changes(&begin, usize::MAX, call);
        assert!(matches!(block_on(expensive), Err(Error::BudgetExceeded(_))));
    }

    /// An import is expanded name by name and continues at any position, even if names changed meanwhile.
    #[test]
    fn imports() {
        const NAMES: usize = 40;
        let directory = tempfile::tempdir().unwrap();
        let import = |by: &str, names: std::ops::Range<usize>| {
            let mut importer = EmbeddedImporter::open(directory.path(), by, 7).unwrap();
            for number in names {
                let value = HandleValue::new(1, "URL", format!("https://example.org/{by}"));
                importer.add(format!("10.1/Name-{number:02}").into(), &[value]).unwrap();
            }
            importer.finish(|_| {}).unwrap();
        };
        let store = EmbeddedStore::open(directory.path()).unwrap();
        commit(&store, "operator", vec![put("10.1/before")]);
        drop(store);
        import("import", 0..NAMES);
        let store = Arc::new(AnyStore::from(EmbeddedStore::open(directory.path()).unwrap()));
        commit(&*store, "operator", vec![put("10.1/name-07"), put("10.1/after")]);
        let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default());
        let whole = all(&registry, ChangeCursor::default(), 100, &Caller::Anonymous);
        let names: BTreeMap<&str, EditKind> = whole.iter().map(|item| (&*item.name, item.kind)).collect();
        assert_eq!((whole.len(), names.len()), (NAMES + 2, NAMES + 2));
        assert_eq!(names["10.1/Name-07"], EditKind::Update);
        assert_eq!(names["10.1/Name-08"], EditKind::Import);
        for limit in [1, 2, 7, 41, 1_000] {
            assert_eq!(
                all(&registry, ChangeCursor::default(), limit, &Caller::Anonymous),
                whole,
                "by {limit}"
            );
            for (read, item) in (1..).zip(&whole) {
                let rest = all(&registry, item.cursor.clone(), limit, &Caller::Anonymous);
                assert_eq!(rest, whole[read..], "by {limit} after {item:?}");
            }
        }
        // Interrupted in the middle, with changes before and after the position: a name that was read comes again with its
        // new entry only.
        let middle = whole.iter().position(|item| &*item.name == "10.1/Name-20").unwrap();
        let position = whole[middle].cursor.clone();
        let changed = vec![put("10.1/Name-10"), put("10.1/Name-30")];
        commit(&*store, "operator", changed);
        let rest = all(&registry, position, 3, &Caller::Anonymous);
        let count = |name: &str| rest.iter().filter(|item| &*item.name == name).count();
        assert_eq!((count("10.1/Name-10"), count("10.1/Name-20"), count("10.1/Name-30")), (1, 0, 1));
        assert_eq!((count("10.1/Name-21"), count("10.1/after")), (1, 1));
    }
}

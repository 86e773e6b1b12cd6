//! Copying: everything once, then what the log says has changed since.

use std::collections::BTreeMap;
use std::time::Duration;

use super::mark::Stage;
use super::pasts::HistoryCursor;
use super::side::{ROOM, Side, TOGETHER, Taken, MigratedHistoryEntry, Target, size_of_entry, size_of_past};
use super::state::{Limit, Then};
use super::{MAX_REMAINING_LOG_ENTRIES, MigrationError, MigrationReport, Migrator};
use crate::embedded::key::record_key;
use crate::history::is_of_record;
use crate::{Before, EditKind, Entry, Key, LogEntry, StoreError};

/// How often it is waited for a line that has to come, and for how long each time.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

impl<S: Side, T: Target, P: FnMut(&MigrationReport) + Send> Migrator<'_, S, T, P> {
    /// Copies what has not been copied once: lines, prefixes, records, and histories of names that have no record.
    pub(super) async fn copy_initial(&mut self) -> Result<(), MigrationError> {
        self.copy_log(self.mark.followed).await?;
        if let Stage::Records(mut after) = self.mark.stage.clone() {
            if after.is_none() {
                self.copy_homed().await?;
            }
            loop {
                let entries = records(self.source, after.as_ref()).await.map_err(MigrationError::Source)?;
                let Some((last, _)) = entries.last() else { break };
                after = Some(last.clone());
                let (names, entries): (Vec<_>, Vec<_>) =
                    entries.into_iter().map(|(key, entry)| (key, Some(entry))).unzip();
                self.copy_records_with_history(&names, entries).await?;
                self.mark.stage = Stage::Records(after.clone());
                self.flush().await?;
            }
            self.mark.stage = Stage::Removed(0);
        }
        if let Stage::Removed(mut after) = self.mark.stage {
            while let Some(lines) = self.lines(after, self.mark.followed).await? {
                let removed = lines.iter().filter(|line| line.kind == EditKind::Remove);
                self.copy_names(names_of(removed), true).await?;
                after = lines.last().map_or(self.mark.followed, |line| line.sequence);
                self.mark.stage = Stage::Removed(after);
                self.flush().await?;
            }
            self.mark.stage = Stage::Following;
            self.flush().await?;
        }
        Ok(())
    }

    /// Copies what has changed since, until little is left; then the target is what the source was at one line.
    pub(super) async fn follow(&mut self) -> Result<(), MigrationError> {
        let mut waited = 0;
        loop {
            let end = self.source.head().await.map_err(MigrationError::Source)?.sequence;
            let new = end.saturating_sub(self.mark.followed);
            if new == 0 && !self.is_unsettled {
                return self.copy_log(self.mark.followed).await;
            }
            if new == 0 {
                waited += 1;
                if waited > TRIES {
                    return Err(MigrationError::Restless);
                }
                std::thread::sleep(PAUSE);
                continue;
            }
            self.is_unsettled = false;
            let is_exact = self.round(end).await?;
            if is_exact && !self.is_unsettled && new < MAX_REMAINING_LOG_ENTRIES {
                return Ok(());
            }
        }
    }

    /// Copies what changed up to a line. Gives whether no name has been passed over that has changed since.
    async fn round(&mut self, end: u64) -> Result<bool, MigrationError> {
        self.copy_log(end).await?;
        let (mut after, mut is_exact) = (self.mark.followed, true);
        while let Some(lines) = self.lines(after, end).await? {
            for line in &lines {
                match line.kind {
                    EditKind::Home | EditKind::Unhome => {
                        // What has no key was never homed.
                        if let Ok(prefix) = Key::of_prefix(&line.name) {
                            self.piece.homed.insert(prefix, line.kind == EditKind::Home);
                        }
                    }
                    EditKind::Import => {
                        is_exact = false;
                        self.copy_imported(line.revision).await?;
                    }
                    _ => {}
                }
            }
            self.copy_names(names_of(&lines), false).await?;
            self.flush().await?;
            after = lines.last().map_or(end, |line| line.sequence);
        }
        self.mark.followed = end;
        self.flush().await?;
        Ok(is_exact)
    }

    /// Copies the records of an import that have not changed since; the others are in later lines.
    async fn copy_imported(&mut self, revision: u64) -> Result<(), MigrationError> {
        let mut after = None;
        loop {
            let piece = self.source.of_revision(revision, after.as_ref(), TOGETHER).await;
            let piece = piece.map_err(MigrationError::Source)?;
            let names = piece.names.iter().filter_map(|listed| Key::new(&listed.name).ok());
            self.copy_names(sorted(names), false).await?;
            after = piece.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Brings the target's log to this line, and the limit with it.
    pub(super) async fn copy_log(&mut self, end: u64) -> Result<(), MigrationError> {
        let mut after = self.target.store().head().await.map_err(MigrationError::Target)?.sequence;
        while let Some(lines) = self.lines(after, end).await? {
            after = lines.last().map_or(end, |line| line.sequence);
            self.piece.lines = lines;
            self.flush().await?;
        }
        let head = self.target.store().head().await.map_err(MigrationError::Target)?;
        self.limit = Limit { sequence: end, revision: head.revision };
        Ok(())
    }

    /// The next lines of the source up to this one; none if there are none left.
    pub(super) async fn lines(&self, after: u64, end: u64) -> Result<Option<Vec<LogEntry>>, MigrationError> {
        let left = usize::try_from(end.saturating_sub(after)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        let lines = self.source.changes(after, left.min(TOGETHER)).await.map_err(MigrationError::Source)?;
        if lines.is_empty() {
            let what = format!("the log has no line {}", after + 1);
            return Err(MigrationError::Source(StoreError::Damaged { what }));
        }
        Ok(Some(lines))
    }

    async fn copy_homed(&mut self) -> Result<(), MigrationError> {
        let mut after: Option<Box<str>> = None;
        loop {
            let homed = self.source.homed(after.as_deref().map(str::as_bytes), TOGETHER).await;
            let homed = homed.map_err(MigrationError::Source)?;
            self.piece
                .homed
                .extend(homed.iter().filter_map(|prefix| Some((Key::of_prefix(prefix).ok()?, true))));
            self.flush().await?;
            after = homed.into_iter().last();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies names whose keys are in order: all, or only those that have no record.
    async fn copy_names(&mut self, names: Vec<Key>, is_of_gone: bool) -> Result<(), MigrationError> {
        let mut rest = names;
        while !rest.is_empty() {
            let entries = self.source.entries(&rest).await.map_err(MigrationError::Source)?;
            let later = rest.split_off(entries.len().clamp(1, rest.len()));
            let known = rest.into_iter().zip(entries).filter(|(_, entry)| !is_of_gone || entry.is_none());
            let (names, entries): (Vec<_>, Vec<_>) = known.unzip();
            self.copy_records_with_history(&names, entries).await?;
            self.flush().await?;
            rest = later;
        }
        Ok(())
    }

    /// Copies names whose keys are in order, with their histories. The records are those that are there now.
    async fn copy_records_with_history(&mut self, names: &[Key], entries: Vec<Option<Entry>>) -> Result<(), MigrationError> {
        let mut pasts = HistoryCursor::new(self.source, names);
        for (number, (key, now)) in names.iter().zip(entries).enumerate() {
            let mut registration = Registration::default();
            let mut previous: Option<u64> = None;
            let mut later = None;
            while let Some(past) = pasts.next_for(number).await.map_err(MigrationError::Source)? {
                if !self.limit.has(&past) {
                    later = Some(past);
                    break;
                }
                let brought = match &past.before {
                    Before::Record(entry) => registration.brought(entry, previous),
                    _ => None,
                };
                let is_first = previous.is_none();
                previous = Some(past.line.sequence);
                self.piece.size += size_of_past(&past);
                self.piece.pasts.push(MigratedHistoryEntry { key: key.clone(), past, is_first, brought });
                if self.piece.is_full() {
                    self.flush().await?;
                }
            }
            match self.limit.then(now, later) {
                Then::Known(entry) => {
                    let taken = entry.map(|entry| {
                        self.piece.size += size_of_entry(&entry);
                        Taken { brought: registration.brought(&entry, previous), entry }
                    });
                    self.piece.records.push((key.clone(), taken));
                }
                Then::Unsettled => self.is_unsettled = true,
            }
        }
        Ok(())
    }
}

/// The last registration that was seen of a name, and the line that brought it.
#[derive(Default)]
struct Registration {
    bytes: Box<[u8]>,
    line: Option<u64>,
}

impl Registration {
    /// The line that brought the registration of a record which another line made what it is.
    fn brought(&mut self, entry: &Entry, made: Option<u64>) -> Option<u64> {
        if entry.registration.is_empty() {
            return None;
        }
        if entry.registration != self.bytes {
            *self = Self { bytes: entry.registration.clone(), line: made };
        }
        self.line
    }
}

/// The next records of a store, by their names.
pub(super) async fn records(side: &impl Side, after: Option<&Key>) -> Result<Vec<(Key, Entry)>, StoreError> {
    let (mut entries, mut size) = (Vec::new(), 0);
    let seen = |entry: &Entry| {
        size += size_of_entry(entry);
        // What is stored has a key.
        entries.extend(Key::new(&entry.name).ok().map(|key| (key, entry.clone())));
        size < ROOM && entries.len() < TOGETHER
    };
    side.visit(None, after, seen).await?;
    Ok(entries)
}

/// The names that lines are about, each once, in the order of their keys.
pub(super) fn names_of<'l>(lines: impl IntoIterator<Item = &'l LogEntry>) -> Vec<Key> {
    let lines = lines.into_iter().filter(|line| is_of_record(line.kind));
    sorted(lines.filter_map(|line| Key::new(&line.name).ok()))
}

fn sorted(names: impl Iterator<Item = Key>) -> Vec<Key> {
    let sorted: BTreeMap<_, _> = names.map(|key| (record_key(&key).into_owned(), key)).collect();
    sorted.into_values().collect()
}

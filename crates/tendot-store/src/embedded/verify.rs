//! Reading everything there is, to find what is damaged.

use std::ops::Bound;

use heed::RoTxn;

use super::open::Bytewise;
use super::pages::PageFile;
use super::{Embedded, STORE_FORMAT, Tables, checksum, history, import, key, log, moving, registration};
use crate::{EditKind, Entry, Key, LogEntry, State, StoreError};

/// Entries that are read in one transaction, so that no old page is kept from being used again for long.
const SLICE: usize = 10_000;

/// Damage that is told one by one; the rest is counted.
const TOLD: usize = 1_000;

/// What was read, and what of it is damaged.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verified {
    /// Records that resolve.
    pub records: u64,
    /// Names that have been ended.
    pub tombstones: u64,
    /// What records share.
    pub parts: u64,
    /// Homed prefixes.
    pub prefixes: u64,
    /// Lines of the log.
    pub lines: u64,
    /// Changes with what was there before them.
    pub history: u64,
    /// Notes.
    pub notes: u64,
    /// What the registry knows of names, or knew.
    pub registrations: u64,
    /// Damage, what and where; at most 1,000.
    pub damage: Vec<String>,
    /// How much damage there is in all.
    pub damaged: u64,
}

impl Verified {
    pub(crate) fn damage(&mut self, what: impl ToString) {
        self.damaged += 1;
        if self.damage.len() < TOLD {
            self.damage.push(what.to_string());
        }
    }

    /// Keeps what is right, and tells of what is not.
    pub(crate) fn check<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(right) => Some(right),
            Err(StoreError::Damaged { what }) => {
                self.damage(what);
                None
            }
            Err(error) => {
                self.damage(error);
                None
            }
        }
    }
}

impl Embedded {
    /// Reads all that is stored and tells what is damaged; others may write meanwhile. `progress` is told now and then
    /// how far it is.
    ///
    /// ```
    /// use tendot_store::Embedded;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let store = Embedded::open(directory.path())?;
    /// assert!(store.verify(|_| {})?.damage.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self, mut progress: impl FnMut(&Verified)) -> Result<Verified, StoreError> {
        let mut inspection = Inspection {
            tables: self.tables(),
            verified: Verified::default(),
            progress: &mut progress,
            started: self.tables().read_txn()?.id(),
        };
        inspection.pages()?;
        if inspection.verified.damaged > 0 {
            // The engine would trust them.
            return Ok(inspection.verified);
        }
        inspection.meta()?;
        inspection.parts()?;
        inspection.records()?;
        inspection.prefixes()?;
        inspection.log()?;
        inspection.history()?;
        inspection.notes()?;
        inspection.registrations()?;
        Ok(inspection.verified)
    }
}

struct Inspection<'a> {
    tables: &'a Tables,
    verified: Verified,
    progress: &'a mut dyn FnMut(&Verified),
    /// The transaction that was the last one for readers when it began.
    started: usize,
}

impl Inspection<'_> {
    /// Looks at the pages of the engine, while nobody changes those of the last state.
    fn pages(&mut self) -> Result<(), StoreError> {
        if !PageFile::IS_SUPPORTED {
            return Ok(());
        }
        let env = &self.tables.env;
        let file = if env.path().is_dir() { env.path().join("data.mdb") } else { env.path().to_owned() };
        let page_size = env.unnamed_database_stat().page_size;
        let mut tries = 0;
        let checked = loop {
            let txn = self.tables.read_txn()?;
            let pages = PageFile::open(&file, page_size);
            tries += 1;
            // The state that is just being made durable is in the file already, and not yet for readers: its pages and
            // those of the one before are kept as long as we read.
            let read = txn.id() as u64;
            let is_last = |pages: &PageFile| (read..=read + 1).contains(&pages.transaction());
            match pages {
                // Somebody may have written twice meanwhile, but not each time.
                Ok(pages) if !is_last(&pages) && tries < 1_000 => {
                    drop(txn);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Ok(pages) if !is_last(&pages) => {
                    break Err("the engine reads another state than the last".to_owned());
                }
                Ok(mut pages) => break pages.check(),
                Err(error) => break Err(error),
            }
        };
        if let Err(damage) = checked {
            self.verified.damage(damage);
        }
        Ok(())
    }

    /// Gives every entry of a database to `check`, and looks each up as a reader would: a key that is damaged above the
    /// leaves leads readers astray, though who goes through all leaves sees nothing of it.
    fn walk(
        &mut self,
        what: &str,
        database: Bytewise,
        mut check: impl FnMut(&mut Self, &RoTxn<'_>, &[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let mut after: Option<Vec<u8>> = None;
        let mut count = 0;
        loop {
            let txn = self.tables.read_txn()?;
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let unreadable = |after: &Option<Vec<u8>>, error: &heed::Error| match after {
                Some(after) => format!("{what}s after `{}` can't be read: {error}", after.escape_ascii()),
                None => format!("{what}s can't be read: {error}"),
            };
            let entries = match database.range(&txn, &(from, Bound::Unbounded)) {
                Ok(entries) => entries,
                Err(error) => {
                    self.verified.damage(unreadable(&after, &error));
                    return Ok(());
                }
            };
            let mut last = None;
            let mut in_slice = 0;
            for entry in entries.take(SLICE) {
                let (key, value) = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        let after = last.map(<[u8]>::to_vec).or(after);
                        self.verified.damage(unreadable(&after, &error));
                        return Ok(());
                    }
                };
                if last.or(after.as_deref()).is_some_and(|before| before >= key) {
                    self.verified.damage(format!("{what} `{}`: it is out of order", key.escape_ascii()));
                    // What comes next could be what came before.
                    return Ok(());
                }
                if !matches!(database.get(&txn, key), Ok(Some(found)) if found == value) {
                    self.verified.damage(format!("{what} `{}`: readers do not find it", key.escape_ascii()));
                }
                check(self, &txn, key, value);
                last = Some(key);
                in_slice += 1;
            }
            count += in_slice as u64;
            (self.progress)(&self.verified);
            if in_slice < SLICE {
                // Only who reads a store that nobody writes can know how many there should have been.
                let is_still = txn.id() == self.started;
                match database.len(&txn) {
                    Ok(length) if is_still && length != count => {
                        self.verified.damage(format!("{length} {what}s should be there, {count} were found"));
                    }
                    Ok(_) => {}
                    Err(error) => self.verified.damage(format!("{what}s can't be counted: {error}")),
                }
                return Ok(());
            }
            after = last.map(<[u8]>::to_vec);
        }
    }

    fn meta(&mut self) -> Result<(), StoreError> {
        self.walk("setting", self.tables.databases.meta, |this, _, key, value| {
            let Some(body) = this.verified.check(checksum::open(key, value, "setting")) else { return };
            let is_right = match key {
                b"format" => body == STORE_FORMAT,
                b"revision" | b"sequence" | b"transaction" | history::SINCE => body.len() == 8,
                b"lineage" => body.len() == 16,
                import::Interrupted::NAME => log::decode(0, body).is_some(),
                moving::MARK => moving::decode(body).is_some(),
                _ => false,
            };
            if !is_right {
                this.verified.damage(format!("setting `{}`: it is not understood", key.escape_ascii()));
            }
        })
    }

    fn parts(&mut self) -> Result<(), StoreError> {
        self.walk("part", self.tables.databases.parts, |this, _, key, value| {
            let expected = this.verified.parts;
            this.verified.parts += 1;
            let number = key.try_into().map(u32::from_be_bytes);
            if number.map(u64::from).ok() != Some(expected) {
                let key = key.escape_ascii();
                this.verified.damage(format!("part `{key}`: number {expected} should be there"));
            }
            this.verified.check(checksum::open(key, value, "part"));
        })
    }

    fn records(&mut self) -> Result<(), StoreError> {
        self.walk("record", self.tables.databases.records, |this, txn, key, value| {
            let Some(entry) = this.verified.check(this.tables.entry(txn, key, value)) else { return };
            let of_name = Key::new(&entry.name).ok();
            if of_name.is_none_or(|name| *key::record_key(&name) != *key) {
                this.verified.damage(format!("record `{}`: it has another name", key.escape_ascii()));
            }
            let last = this.tables.counter(txn, b"revision");
            if this.verified.check(last).is_some_and(|last| entry.revision > last) {
                let (key, revision) = (key.escape_ascii(), entry.revision);
                this.verified.damage(format!("record `{key}`: revision {revision} has not been given yet"));
            }
            match entry.state {
                State::Live => this.verified.records += 1,
                State::Tombstone => this.verified.tombstones += 1,
            }
        })
    }

    fn prefixes(&mut self) -> Result<(), StoreError> {
        self.walk("prefix", self.tables.databases.homed, |this, _, key, value| {
            let Some(body) = this.verified.check(checksum::open(key, value, "prefix")) else { return };
            if !body.is_empty() || str::from_utf8(key).is_err() {
                this.verified.damage(format!("prefix `{}`: it is not understood", key.escape_ascii()));
            }
            this.verified.prefixes += 1;
        })
    }

    fn log(&mut self) -> Result<(), StoreError> {
        let what = "line of the log";
        let mut expected = 0_u64;
        self.walk(what, self.tables.databases.log, |this, _, key, value| {
            expected += 1;
            this.verified.lines += 1;
            let Some(body) = this.verified.check(checksum::open(key, value, what)) else { return };
            match key.try_into().map(u64::from_be_bytes) {
                Ok(sequence) if log::decode(sequence, body).is_some() => {
                    if sequence != expected {
                        this.verified.damage(format!("{what} {expected} is missing, {sequence} is there"));
                        expected = sequence;
                    }
                }
                _ => this.verified.damage(format!("{what} {expected}: it is not understood")),
            }
        })?;
        let txn = self.tables.read_txn()?;
        let Some(last) = self.verified.check(self.tables.counter(&txn, b"sequence")) else { return Ok(()) };
        // Lines may have come since; fewer than there were are damage.
        if last < expected || (last > expected && txn.id() == self.started) {
            self.verified.damage(format!("the last {what} should be {last}, and is {expected}"));
        }
        Ok(())
    }

    fn history(&mut self) -> Result<(), StoreError> {
        let Some(database) = self.tables.databases.history else { return Ok(()) };
        self.walk(history::WHAT, database, |this, txn, key, value| {
            this.verified.history += 1;
            let Some(old) = this.verified.check(checksum::open(key, value, history::WHAT)) else { return };
            let result = this.tables.check_history_entry(txn, key, old);
            if let Some(Some(problem)) = this.verified.check(result) {
                this.verified.damage(format!("{} `{}`: {problem}", history::WHAT, key.escape_ascii()));
            }
        })
    }
}

impl Inspection<'_> {
    fn notes(&mut self) -> Result<(), StoreError> {
        let Some(database) = self.tables.databases.notes else { return Ok(()) };
        self.walk("note", database, |this, _, key, value| {
            this.verified.notes += 1;
            this.verified.check(checksum::open(key, value, "note"));
        })
    }

    fn registrations(&mut self) -> Result<(), StoreError> {
        let Some(database) = self.tables.databases.registrations else { return Ok(()) };
        self.walk(registration::WHAT, database, |this, txn, key, value| {
            this.verified.registrations += 1;
            this.verified.check(checksum::open(key, value, registration::WHAT));
            let line = key.try_into().map(|key| this.tables.line(txn, u64::from_be_bytes(key)));
            let line = line.map_or(Some(None), |line| this.verified.check(line));
            // That of the log tells of itself if it is damaged.
            if line.is_some_and(|line| line.is_none()) {
                let (what, key) = (registration::WHAT, key.escape_ascii());
                this.verified.damage(format!("{what} `{key}`: the log has no such line"));
            }
        })
    }
}

impl Tables {
    /// What is wrong with an entry of the history, if anything is: it agrees with the log, and with the record after it.
    fn check_history_entry(
        &self,
        txn: &RoTxn<'_>,
        entry_key: &[u8],
        old: &[u8],
    ) -> Result<Option<&'static str>, StoreError> {
        let Some((record_key, sequence)) = history::split(entry_key) else {
            return Ok(Some("its key is not understood"));
        };
        let before = self.decode_replaced(txn, record_key, old)?;
        let is_of_it = |name: &str| Key::new(name).is_ok_and(|name| *key::record_key(&name) == *record_key);
        if before.as_ref().is_some_and(|before| !is_of_it(&before.name)) {
            return Ok(Some("it has another name"));
        }
        let line = match self.line(txn, sequence)? {
            Some(line) => line,
            None if self.databases.meta.get(txn, import::Interrupted::NAME).is_ok_and(|it| it.is_some()) => {
                return Ok(None);
            }
            None => return Ok(Some("the log has no such line")),
        };
        let name = match &before {
            _ if line.kind != EditKind::Import => &line.name,
            Some(before) => &before.name,
            None => return Ok(Some("an import has no such entry")),
        };
        let key = Key::new(name).ok().filter(|_| is_of_it(name));
        let Some(key) = key else { return Ok(Some("its line of the log is about another name")) };
        let after = history::Name::new(self, txn, &key)?.revision_after(Some(sequence))?;
        Ok(disagreement(&line, before.as_ref(), after))
    }
}

/// What is wrong with a change, by what was there before, and the revision of what was there after it.
pub(crate) fn disagreement(
    line: &LogEntry,
    before: Option<&Entry>,
    after: Option<u64>,
) -> Option<&'static str> {
    if before.is_some_and(|before| before.revision > line.revision) {
        return Some("what was there before came later");
    }
    match after {
        None if line.kind != EditKind::Remove => Some("what it made is not there"),
        Some(after) if after < line.revision => Some("what was there after it came earlier"),
        _ => None,
    }
}

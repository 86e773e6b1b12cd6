//! What a part of a source comes to, found out in any thread.

use std::collections::BTreeSet;

use tendot_proto::Handle;
use tendot_proto::record::Record;
use tendot_registry::Share;
use tendot_registry::party::is_reserved_prefix;
use tendot_store::{Batch, Key};

use super::report::{REFUSED, MAX_PRINTED_WARNINGS};
use super::{Item, check};
use crate::failure::shown;

/// Bytes that a piece has, more or less.
pub(super) const SIZE: usize = 1 << 18;

/// What is taken of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Whether prefixes are homed.
    pub(crate) homes: bool,
    /// The names that are kept here, if others are kept by other servers of the site.
    pub(crate) share: Option<Share>,
}

/// Records that are taken, and what there is to be told, in order.
pub(crate) struct Piece {
    taken: Taken,
    pub(crate) batch: Batch,
    /// Prefixes that are to be homed.
    pub(crate) homes: BTreeSet<Box<str>>,
    /// The lines where something was refused or odd, as many as anybody wants to know.
    pub(crate) told: Vec<(u64, Told)>,
    pub(crate) refused: u64,
    pub(crate) warnings: u64,
    /// Records that other servers of the site keep.
    pub(crate) elsewhere: u64,
}

/// What is told about a line.
pub(crate) enum Told {
    Refused(String),
    Warning(String),
}

impl Piece {
    pub(super) const fn new(taken: Taken) -> Self {
        Self {
            taken,
            batch: Batch::new(),
            homes: BTreeSet::new(),
            told: Vec::new(),
            refused: 0,
            warnings: 0,
            elsewhere: 0,
        }
    }

    /// Whether the next records better go into another one.
    pub(super) const fn is_full(&self) -> bool {
        self.batch.size() >= SIZE
    }

    pub(super) fn take(&mut self, line: u64, item: Item) {
        match item {
            Item::Refused(reason) => self.refuse(line, || reason),
            Item::Home(prefix) if self.taken.homes => {
                let is_prefix =
                    !prefix.is_empty() && !prefix.contains('/') && Key::of_prefix(&prefix).is_ok();
                if !is_prefix || is_reserved_prefix(prefix.as_bytes()) {
                    self.refuse(line, || format!("`{}` is no prefix", shown(prefix.as_bytes())));
                } else {
                    self.homes.insert(prefix.into());
                }
            }
            Item::Home(_) => {}
            Item::Record(record) => match check(&record) {
                Err(reason) => self.refuse(line, || format!("`{}`: {reason}", shown(&record.handle))),
                Ok(odd) => {
                    for what in odd {
                        self.warn(line, || format!("`{}`: {what}", shown(&record.handle)));
                    }
                    self.put(line, &record);
                }
            },
        }
    }

    fn put(&mut self, line: u64, record: &Record<'_>) {
        let handle = Handle::new(&record.handle);
        // It has been checked.
        let Ok(name) = handle.to_str() else { return };
        if self.taken.share.is_some_and(|share| !share.has(handle)) {
            self.elsewhere += 1;
        } else if let Err(error) = self.batch.put(name, &record.values) {
            return self.refuse(line, || format!("`{}`: {error}", shown(&record.handle)));
        }
        let prefix = name.split('/').next().unwrap_or_default();
        if !self.taken.homes || self.homes.contains(prefix) {
            return;
        }
        match Key::of_prefix(prefix) {
            Ok(_) => drop(self.homes.insert(prefix.into())),
            Err(error) => self.warn(line, || format!("`{}` is not homed: {error}", shown(&record.handle))),
        }
    }

    fn refuse(&mut self, line: u64, reason: impl FnOnce() -> String) {
        self.refused += 1;
        if self.refused <= REFUSED {
            self.told.push((line, Told::Refused(reason())));
        }
    }

    fn warn(&mut self, line: u64, what: impl FnOnce() -> String) {
        self.warnings += 1;
        if self.warnings <= MAX_PRINTED_WARNINGS {
            self.told.push((line, Told::Warning(what())));
        }
    }
}

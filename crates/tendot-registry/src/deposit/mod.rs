//! Everything that is written.
//!
//! A write is planned on what is there: what is wrong for everybody is said at once, what is needed is asked of who
//! asks, and only then is told what the write comes to. All that was looked at for this, be it a record, a prefix or a
//! group, has to be the same when it is carried out. If somebody else was faster, all of it is done again, so that no right
//! is used that was taken away in the meantime.
//!
//! - `create`, `delete`, `change` (values added, removed, modified), `home`: a plan each;
//! - `difference`: which rights it takes to make one record of another; `mint`: new names.

mod change;
mod create;
mod delete;
mod difference;
mod home;
mod mint;

pub(crate) use difference::is_same_value;

use std::fmt;

use tendot_proto::{Budget, Handle, HandleValue, Now};
use tendot_store::{ChangeSet, CommitError, Edit, Precondition, RecordStatus, Store, StoredRecord};

use crate::caller::Claimant;
use crate::doi::is_reserved;
use crate::party::Scope;
use crate::permission::{Requirement, has_admin};
use crate::{Caller, Error, Registry};

/// Write operation of the Handle protocol.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HandleWrite<'a> {
    /// A new record.
    Create {
        /// Its name; if a suffix is to be made, what the name is to begin with, the slash included.
        name: Handle<'a>,
        /// Its values. Dates are ours to set.
        values: Vec<HandleValue<'a>>,
        /// Whether a record that is there already is to have these values and no others.
        overwrite: bool,
        /// Sixteen random bytes if the name is to end in a new UUID, which is then never one that is there.
        mint: Option<[u8; 16]>,
        /// Whether a record that was administered may be left to nobody.
        force: bool,
    },
    /// A record is to be no longer.
    Delete {
        /// Its name.
        name: Handle<'a>,
        /// Whether its name is never to be given again, even if its prefix would allow it.
        for_ever: bool,
    },
    /// More values for a record.
    Add {
        /// Its name.
        name: Handle<'a>,
        /// The values.
        values: Vec<HandleValue<'a>>,
        /// Whether they may take the place of values with the same index.
        overwrite: bool,
        /// Whether a record that was administered may be left to nobody.
        force: bool,
    },
    /// Fewer values for a record.
    Remove {
        /// Its name.
        name: Handle<'a>,
        /// Their indexes.
        indexes: Vec<u32>,
        /// Whether a record that was administered may be left to nobody.
        force: bool,
    },
    /// Other values for a record, in the place of those with the same index.
    Modify {
        /// Its name.
        name: Handle<'a>,
        /// The values.
        values: Vec<HandleValue<'a>>,
        /// Whether a record that was administered may be left to nobody.
        force: bool,
    },
    /// Names under a prefix are to be kept here.
    Home {
        /// The prefix: `0.NA/10.1000` or `10.1000`; `0.NA/0.NA/10` for all prefixes derived from 10.
        prefix: Handle<'a>,
    },
    /// Names under a prefix are no longer to be kept here. Records stay.
    Unhome {
        /// The prefix, likewise.
        prefix: Handle<'a>,
    },
}

impl HandleWrite<'_> {
    /// The name that it is about; of prefixes that are homed, none.
    pub(crate) const fn name(&self) -> Option<Handle<'_>> {
        match self {
            Self::Create { name, .. }
            | Self::Delete { name, .. }
            | Self::Add { name, .. }
            | Self::Remove { name, .. }
            | Self::Modify { name, .. } => Some(*name),
            Self::Home { .. } | Self::Unhome { .. } => None,
        }
    }

    const fn is_forced(&self) -> bool {
        match self {
            Self::Create { force, .. }
            | Self::Add { force, .. }
            | Self::Remove { force, .. }
            | Self::Modify { force, .. } => *force,
            Self::Delete { .. } | Self::Home { .. } | Self::Unhome { .. } => false,
        }
    }
}

/// Outcome of a handle write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WriteOutcome {
    /// The name, as it was given or made.
    pub name: Box<str>,
    /// Whether something that was there had to give way.
    pub replaced: bool,
    /// The revision of the record; none if nothing had to be changed.
    pub revision: Option<u64>,
    /// What who asked should know.
    pub notes: Vec<WriteWarning>,
}

/// Warning about a write that was accepted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum WriteWarning {
    /// Nobody administers the record: only the administrators of its prefix and the operator can change it.
    NoAdministrator,
    /// The new name is the same text as another, with its accents composed otherwise.
    ConfusableWith {
        /// The other one.
        name: Box<str>,
    },
    /// The new name has letters of several scripts, some of which look the same.
    MixedScripts,
}

impl fmt::Display for WriteWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAdministrator => f.write_str(
                "the record has no HS_ADMIN value that gives a right: only administrators of its prefix can change it",
            ),
            Self::ConfusableWith { name } => write!(f, "the handle can't be told from `{name}`, which exists"),
            Self::MixedScripts => {
                f.write_str("the handle has letters of several scripts, some of which look the same")
            }
        }
    }
}

/// How often a write is tried while others are faster.
const TRIES: u32 = 8;

/// Plan of a handle write: its requirement, and the result for authorized callers.
pub(crate) struct WritePlan {
    pub(crate) needed: Requirement,
    /// Told only to those who have what is needed.
    outcome: Result<PlannedWrite, Error>,
}

/// Edits and warnings of a planned handle write.
struct PlannedWrite {
    name: Box<str>,
    replaced: bool,
    /// None if everything is already as it should be.
    edit: Option<Edit>,
    /// What else goes with it.
    beside: Option<Edit>,
    /// Whether the record was administered, and no longer is.
    locks_out: bool,
    notes: Vec<WriteWarning>,
}

impl Registry {
    /// Carries out a write, all of it or nothing.
    pub async fn write(
        &self,
        write: &HandleWrite<'_>,
        caller: &Caller,
        now: Now,
        work: &mut Budget,
    ) -> Result<WriteOutcome, Error> {
        for _ in 0..TRIES {
            let tracked = self.begin();
            let plan = tracked.plan_write(write, now.unix_u32(), work).await?;
            let at = now.unix.saturating_mul(1_000);
            let asker = Claimant::at_time(caller, at);
            tracked.authorize_for_name(write.name(), &plan.needed, asker, Scope::Deposit, work).await?;
            if let Ok(outcome) = &plan.outcome {
                tracked.check_prefix_policy(write, &outcome.name, at, work).await?;
            }
            let PlannedWrite { name, replaced, edit, beside, locks_out, notes } = plan.outcome?;
            if locks_out && !write.is_forced() {
                return Err(Error::LockedOut);
            }
            let Some(edit) = edit else { return Ok(WriteOutcome { name, replaced, revision: None, notes }) };
            let mut edits = tracked.store.into_preconditions();
            edits.push(edit);
            edits.extend(beside);
            // Others were faster in taking the room that there was.
            let Some(claim) = self.quotas.reserve(&edits) else { continue };
            let change = ChangeSet { by: caller.to_string().into(), at, edits };
            let committed = self.store.commit(change).await;
            claim.resolve(&committed);
            match committed {
                Ok(committed) => {
                    return Ok(WriteOutcome { name, replaced, revision: Some(committed.revision), notes });
                }
                Err(CommitError::Conflict(_) | CommitError::Homed { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error.into()),
                Err(error) => return Err(Error::Refused(error)),
            }
        }
        Err(Error::Contended { tries: TRIES })
    }

    /// What a write needs and comes to; what is new gets this date. An error here is one for everybody.
    pub(crate) async fn plan_write(
        &self,
        write: &HandleWrite<'_>,
        date: u32,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        match write {
            HandleWrite::Create { name, values, overwrite, mint, .. } => match mint {
                None => self.plan_create(*name, values, *overwrite, date, work).await,
                Some(random) => {
                    let minted = mint::mint_in_partition(*name, *random, self.settings.share, work)?;
                    self.plan_create(Handle::new(&minted), values, false, date, work).await
                }
            },
            HandleWrite::Delete { name, for_ever } => self.plan_delete(*name, *for_ever, work).await,
            HandleWrite::Add { name, values, overwrite, .. } => {
                self.plan_add_values(*name, values, *overwrite, date, work).await
            }
            HandleWrite::Remove { name, indexes, .. } => self.plan_remove_values(*name, indexes, work).await,
            HandleWrite::Modify { name, values, .. } => {
                self.plan_modify_values(*name, values, date, work).await
            }
            HandleWrite::Home { prefix } => self.plan_set_homed(*prefix, true, work).await,
            HandleWrite::Unhome { prefix } => self.plan_set_homed(*prefix, false, work).await,
        }
    }

    /// A record that is to be changed: its name as it was given, and what is there. None if nothing is, or is no longer.
    async fn load_live_record(
        &self,
        name: Handle<'_>,
        work: &mut Budget,
    ) -> Result<(Box<str>, Option<StoredRecord>), Error> {
        name.validate()?;
        let full = name.qualified();
        self.check_server_responsible(Handle::new(&full), work).await?;
        let text = std::str::from_utf8(&full).unwrap_or_default();
        let entry = self.get_record(text, work).await?;
        // What is only reserved is nobody's to see, and is changed where it was reserved.
        let is_there = |entry: &StoredRecord| entry.state == RecordStatus::Live && !is_reserved(entry);
        Ok((text.into(), entry.filter(is_there)))
    }
}

impl WritePlan {
    /// For a record that is not there. Those who say who they are learn it.
    const fn not_found() -> Self {
        Self { needed: Requirement::Proof, outcome: Err(Error::NotFound) }
    }
}

impl PlannedWrite {
    /// A record comes, or one that is there gets other values.
    fn put(name: Box<str>, values: Vec<HandleValue<'static>>, there: Option<&StoredRecord>) -> Self {
        let expect = there.map_or(Precondition::Absent, |entry| Precondition::Revision(entry.revision));
        let is_left = !has_admin(&values);
        Self {
            name: name.clone(),
            replaced: there.is_some(),
            edit: Some(Edit::Put { name, values, expect }),
            beside: None,
            locks_out: is_left && there.is_some_and(|entry| has_admin(&entry.values)),
            notes: if is_left { vec![WriteWarning::NoAdministrator] } else { Vec::new() },
        }
    }

    /// Everything is as it should be.
    const fn unchanged(name: Box<str>) -> Self {
        Self { name, replaced: true, edit: None, beside: None, locks_out: false, notes: Vec::new() }
    }
}

/// A given value as it is kept: with our date, not the one that came with it.
fn with_timestamp(value: &HandleValue<'_>, date: u32) -> HandleValue<'static> {
    HandleValue { timestamp: date, ..value.clone().into_owned() }
}

//! Writes of the Handle protocol: plan, authorize, check the policy, commit.
//!
//! A write is planned over a read set. Errors that do not depend on the caller are returned at once; the planned result only
//! after authorization. Everything that was read (records, prefixes, groups) becomes a precondition of the commit; on a
//! conflict the write is planned again, so that no permission is used that was revoked meanwhile.
//!
//! - `create`, `values`, `delete`, `home`: one plan each; `policy`: the prefix policy;
//! - `record_diff`: permissions required to turn one record into another; `mint_uuid`: generated names.

mod create;
mod delete;
mod home;
mod mint_uuid;
mod policy;
mod record_diff;
mod values;

pub(crate) use home::parse_homed_prefix;
pub(crate) use record_diff::{is_same_value, set_timestamps};

use std::fmt;

use tendot_names::{Parser, SyntaxRules};
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{Edit, Precondition, RecordStatus, StoredRecord};

use crate::authorization::{Claimant, Requirement, has_admin};
use crate::call::handle_timestamp;
use crate::command::{CommitPlanner, PlannedCommit};
use crate::party::Scope;
use crate::registration::{Registration, is_reserved};
use crate::rules::Rules;
use crate::validate::{check_secret_changes, check_value, prefix_of};
use crate::{CallContext, Error, InvalidValue, Registry};

/// Write operation of the Handle protocol.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HandleWrite<'a> {
    /// Creates a record.
    Create {
        /// Name; if a UUID is minted, the start of the name including the slash.
        name: Handle<'a>,
        /// Values; the server sets their timestamps.
        values: Vec<HandleValue<'a>>,
        /// Whether an existing record is replaced.
        overwrite: bool,
        /// Whether secrets of the replaced record stay if no value has their index. Handle.Net's create removes them.
        keep_secrets: bool,
        /// Random bytes for a UUID suffix. An existing record is then never overwritten.
        uuid_bytes: Option<[u8; 16]>,
        /// Whether the last admin may be removed.
        force: bool,
    },
    /// Deletes a record.
    Delete {
        /// Name of the record.
        name: Handle<'a>,
        /// Whether a tombstone is left even if the prefix allows reuse.
        permanent: bool,
    },
    /// Adds values.
    AddValues {
        /// Name of the record.
        name: Handle<'a>,
        /// Values to write.
        values: Vec<HandleValue<'a>>,
        /// Whether values with the same index are replaced.
        overwrite: bool,
        /// Whether the last admin may be removed.
        force: bool,
    },
    /// Removes values.
    RemoveValues {
        /// Name of the record.
        name: Handle<'a>,
        /// Indexes of the values.
        indexes: Vec<u32>,
        /// Whether the last admin may be removed.
        force: bool,
    },
    /// Replaces the values with the same indexes.
    ModifyValues {
        /// Name of the record.
        name: Handle<'a>,
        /// Values to write.
        values: Vec<HandleValue<'a>>,
        /// Whether the last admin may be removed.
        force: bool,
    },
    /// Homes a prefix: this service becomes responsible for its names.
    Home {
        /// Prefix: `0.NA/10.1000` or `10.1000`; `0.NA/0.NA/10` for all prefixes derived from 10.
        prefix: Handle<'a>,
    },
    /// Unhomes a prefix. Its records stay in the store.
    Unhome {
        /// Prefix, as for `Home`.
        prefix: Handle<'a>,
    },
}

impl HandleWrite<'_> {
    /// Name of the record; `None` for homed prefixes.
    pub(crate) const fn name(&self) -> Option<Handle<'_>> {
        match self {
            Self::Create { name, .. }
            | Self::Delete { name, .. }
            | Self::AddValues { name, .. }
            | Self::RemoveValues { name, .. }
            | Self::ModifyValues { name, .. } => Some(*name),
            Self::Home { .. } | Self::Unhome { .. } => None,
        }
    }

    const fn is_forced(&self) -> bool {
        match self {
            Self::Create { force, .. }
            | Self::AddValues { force, .. }
            | Self::RemoveValues { force, .. }
            | Self::ModifyValues { force, .. } => *force,
            Self::Delete { .. } | Self::Home { .. } | Self::Unhome { .. } => false,
        }
    }
}

/// Outcome of a handle write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WriteOutcome {
    /// Name, as sent or minted.
    pub name: Box<str>,
    /// Whether something existing was replaced.
    pub replaced: bool,
    /// Revision of the record; `None` if nothing changed.
    pub revision: Option<u64>,
    /// Warnings for the caller.
    pub warnings: Vec<WriteWarning>,
}

/// Warning about a write that was accepted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum WriteWarning {
    /// The record has no admin: only admins of its prefix and the operator can change it.
    NoAdmin,
    /// The new name looks like an existing one.
    ConfusableWith {
        /// Existing name.
        name: Box<str>,
    },
    /// The new name mixes scripts with similar letters.
    MixedScripts,
    /// The metadata does not distinguish the name from another one of the registrant.
    DuplicateOf {
        /// Other name.
        name: Box<str>,
    },
    /// The new name, which was written without `doi:` or a URL, looks percent-encoded; it was not decoded.
    PercentEncoded {
        /// Decoded name, and the form in which it would be registered.
        intended: Option<(Box<str>, Box<str>)>,
    },
}

impl WriteWarning {
    /// Warning about a bare name that looks percent-encoded.
    pub(crate) fn percent_encoded(name: &str) -> Self {
        let uri = format!("doi:{name}");
        let decoded = Parser::strict().rules(SyntaxRules::Minimal2002).parse_doi(&uri).ok();
        let decoded: Option<Box<str>> = decoded.map(|decoded| decoded.as_str().into());
        Self::PercentEncoded { intended: decoded.map(|decoded| (decoded, uri.into())) }
    }
}

impl fmt::Display for WriteWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAdmin => f.write_str(
                "record has no HS_ADMIN value with a permission; only administrators of the prefix can change it",
            ),
            Self::ConfusableWith { name } => {
                write!(f, "handle is confusable with existing `{name}` ({})", crate::uri_form(name))
            }
            Self::MixedScripts => {
                f.write_str("handle mixes scripts with confusable letters")
            }
            Self::PercentEncoded { intended } => {
                f.write_str("name looks percent-encoded and is stored as it stands")?;
                match intended {
                    Some((decoded, uri)) => write!(f, "; to register `{decoded}`, send `{uri}`"),
                    None => Ok(()),
                }
            }
            Self::DuplicateOf { name } => {
                write!(f, "title, creators, date and type of the metadata equal those of `{name}`")
            }
        }
    }
}

/// Plan of a handle write: its requirement, and the result for authorized callers.
pub(crate) struct WritePlan {
    pub(crate) requirement: Requirement,
    /// Whether values change that grant access.
    changes_access: bool,
    /// Result, only for authorized callers.
    result: Result<PlannedWrite, Error>,
}

/// Edits and warnings of a planned handle write.
struct PlannedWrite {
    name: Box<str>,
    existed: bool,
    /// `None` if nothing changes.
    edit: Option<Edit>,
    /// Registration of the existing record; derived from its values if it has none.
    registration: Option<ExistingRegistration>,
    /// Additional edit of an aux entry.
    aux_edit: Option<Edit>,
    /// Whether the write removes the last admin.
    removes_last_admin: bool,
    warnings: Vec<WriteWarning>,
}

/// Registration of an existing record that a write changes.
struct ExistingRegistration {
    registration: Registration,
    /// Whether the record has one; false for records that were created over the Handle protocol or imported.
    is_stored: bool,
}

impl Registry {
    /// Executes a write atomically.
    pub async fn write(&self, write: &HandleWrite<'_>, call: CallContext<'_>) -> Result<WriteOutcome, Error> {
        let (outcome, revision) =
            self.commit_planned(&mut WriteCommit { write, call }).await?.into_result::<Error>()?;
        Ok(WriteOutcome { revision, ..outcome })
    }
}

/// Handle write in the commit loop.
struct WriteCommit<'a> {
    write: &'a HandleWrite<'a>,
    call: CallContext<'a>,
}

impl CommitPlanner for WriteCommit<'_> {
    type Output = WriteOutcome;
    type Error = Error;

    async fn plan(&mut self, rules: &Rules) -> Result<PlannedCommit<WriteOutcome>, Error> {
        let (write, now_ms, budget) = (self.write, self.call.now_ms, &mut *self.call.budget);
        let plan = rules.plan_write(write, now_ms, budget).await?;
        let claimant = Claimant::at_time(self.call.caller, now_ms);
        rules.authorize_for_name(write.name(), &plan.requirement, claimant, Scope::Register, budget).await?;
        if plan.changes_access {
            rules.authorize_access_change(write.name(), self.call.caller, now_ms, budget).await?;
        }
        if let Ok(planned) = &plan.result {
            rules.check_prefix_policy(write, &planned.name, planned.existed, now_ms, budget).await?;
        }
        let PlannedWrite { name, existed, edit, registration, aux_edit, removes_last_admin, warnings } =
            plan.result?;
        if removes_last_admin && !write.is_forced() {
            return Err(Error::RemovesLastAdmin);
        }
        let outcome = WriteOutcome { name, replaced: existed, revision: None, warnings };
        let Some(edit) = edit else { return Ok(PlannedCommit::unchanged(outcome)) };
        let edit = rules.update_registration(edit, registration, now_ms, budget).await?;
        Ok(PlannedCommit {
            author: self.call.log_author(self.call.caller),
            now_ms,
            edits: [edit].into_iter().chain(aux_edit).collect(),
            extra_edits: Vec::new(),
            output: outcome,
        })
    }
}

impl Rules {
    /// Sets the time of the last change in the registration of a name under an allocated prefix, as the registry API does.
    async fn update_registration(
        &self,
        edit: Edit,
        existing: Option<ExistingRegistration>,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<Edit, Error> {
        let Some(ExistingRegistration { registration, is_stored }) = existing else { return Ok(edit) };
        let Edit::Put { name, values, precondition } = edit else { return Ok(edit) };
        let prefix = prefix_of(&name);
        if !is_stored && self.prefix_record(prefix, budget).await?.is_none() {
            return Ok(Edit::Put { name, values, precondition });
        }
        let registration = Registration { updated_ms: now_ms, ..registration }.to_bytes();
        Ok(Edit::Register { name, values, registration, precondition })
    }

    /// Plans a write at a time. Errors do not depend on the caller.
    pub(crate) async fn plan_write(
        &self,
        write: &HandleWrite<'_>,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let planner = WritePlanner { rules: self, now_ms };
        match write {
            HandleWrite::Create { name, values, overwrite, keep_secrets, uuid_bytes, .. } => match uuid_bytes
            {
                None => {
                    let overwrite = overwrite.then_some(Overwrite { keep_secrets: *keep_secrets });
                    planner.plan_create(*name, values, overwrite, budget).await
                }
                Some(random_bytes) => {
                    let minted =
                        mint_uuid::mint_in_partition(*name, *random_bytes, self.settings.partition, budget)?;
                    planner.plan_create(Handle::new(&minted), values, None, budget).await
                }
            },
            HandleWrite::Delete { name, permanent } => planner.plan_delete(*name, *permanent, budget).await,
            HandleWrite::AddValues { name, values, overwrite, .. } => {
                planner.plan_add_values(*name, values, *overwrite, budget).await
            }
            HandleWrite::RemoveValues { name, indexes, .. } => {
                planner.plan_remove_values(*name, indexes, budget).await
            }
            HandleWrite::ModifyValues { name, values, .. } => {
                planner.plan_modify_values(*name, values, budget).await
            }
            HandleWrite::Home { prefix } => planner.plan_set_homed(*prefix, true, budget).await,
            HandleWrite::Unhome { prefix } => planner.plan_set_homed(*prefix, false, budget).await,
        }
    }
}

/// Overwriting of an existing record.
#[derive(Clone, Copy)]
struct Overwrite {
    keep_secrets: bool,
}

/// Plans handle writes. Errors do not depend on the caller.
struct WritePlanner<'a> {
    rules: &'a Rules,
    /// Time of the write, in milliseconds since 1970.
    now_ms: u64,
}

impl WritePlanner<'_> {
    /// Loads a record to be changed: its name as sent, and the record if it is live.
    async fn load_live_record(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<(Box<str>, Option<StoredRecord>), Error> {
        name.validate_up_to(self.rules.settings.limits.max_name_bytes)?;
        let full = name.qualified();
        self.rules.check_server_responsible(Handle::new(&full), budget).await?;
        let text = std::str::from_utf8(&full).unwrap_or_default();
        let entry = self.rules.get_record(text, budget).await?;
        // Reserved names are invisible here and are changed through the registry API.
        let is_visible = |entry: &StoredRecord| entry.status == RecordStatus::Live && !is_reserved(entry);
        Ok((text.into(), entry.filter(is_visible)))
    }

    /// Value as it is stored: with the server's timestamp, and secrets without public permissions.
    fn to_stored(&self, value: &HandleValue<'_>) -> HandleValue<'static> {
        let (timestamp, permissions) = (handle_timestamp(self.now_ms), value.stored_permissions());
        HandleValue { timestamp, permissions, ..value.clone().into_owned() }
    }

    /// Checks a value that is added to a record, or replaces one of its values.
    fn check_new_value(
        &self,
        value: &HandleValue<'_>,
        previous: &[HandleValue<'_>],
        budget: &mut Budget,
    ) -> Result<(), InvalidValue> {
        check_value(value, &self.rules.settings.limits, budget)?;
        check_secret_changes(value, previous)
    }
}

impl WritePlan {
    /// Plan for a record that does not exist. Any authenticated caller gets to know that.
    const fn not_found() -> Self {
        Self { requirement: Requirement::Authenticated, changes_access: false, result: Err(Error::NotFound) }
    }
}

impl PlannedWrite {
    /// Creates a record or replaces its values.
    fn put(
        name: Box<str>,
        values: Vec<HandleValue<'static>>,
        existing: Option<&StoredRecord>,
    ) -> Result<Self, Error> {
        let expect = existing.map_or(Precondition::Absent, |entry| Precondition::AtRevision(entry.revision));
        let lacks_admin = !has_admin(&values);
        // The registration of a prefix record is that of the prefix.
        let registration = match existing {
            Some(entry) if !Handle::from(&*entry.name).is_prefix_handle() => {
                let is_stored = !entry.registration.is_empty();
                Some(ExistingRegistration { registration: Registration::of_record(entry)?, is_stored })
            }
            _ => None,
        };
        Ok(Self {
            name: name.clone(),
            existed: existing.is_some(),
            edit: Some(Edit::Put { name, values, precondition: expect }),
            registration,
            aux_edit: None,
            removes_last_admin: lacks_admin && existing.is_some_and(|entry| has_admin(&entry.values)),
            warnings: if lacks_admin { vec![WriteWarning::NoAdmin] } else { Vec::new() },
        })
    }

    /// Nothing to change.
    const fn unchanged(name: Box<str>) -> Self {
        Self {
            name,
            existed: true,
            edit: None,
            registration: None,
            aux_edit: None,
            removes_last_admin: false,
            warnings: Vec::new(),
        }
    }
}

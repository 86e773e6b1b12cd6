//! Names that are registered: what is sent for them, what is kept of them, and what becomes of them.
//!
//! `draft` is what is sent; `draw` makes a record of it, under the rules of its prefix; `deposit` registers, changes and ends
//! one name, `batch` many; `suffix` makes new names; `list` finds them; `secrecy` says who may know of those that are reserved.

mod batch;
mod deposit;
mod draft;
mod draw;
mod list;
mod once;
mod quota;
mod secrecy;
mod suffix;

pub use batch::{BatchLine, BatchLineOutcome, BatchLineStatus};
pub use deposit::{RegisterDoi, RetireDoi, UpdateDoi};
pub use draft::RegistrationRequest;
pub(crate) use draw::{RecordChange, build, check_admin_index_free};
pub(crate) use list::owned_key;
pub use list::{DoiList, DoiListItem};
pub(crate) use quota::{QuotaTable, reached};
pub(crate) use secrecy::VisibilityFilter;
pub use suffix::is_minted;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tendot_proto::{Budget, HandleValue};
use tendot_store::{HistoryOrder, NameKey, RecordStatus, Store, StoredRecord};

use crate::metadata::{CitationSummary, KernelMetadata, MetadataFormat, RegistryFields};
use crate::party::{Principal, Registrant, RegistryObjectKind};
use crate::{Caller, Error, Registry, RegistryError, WriteWarning, party, price};

/// Registration of a DOI as stored beside its values. The state is serialized first, metadata last.
///
/// How it is written is looked at without reading all of it: the state comes first.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Registration {
    pub(crate) state: RegistrationState,
    /// The registrant who has it, if it is not the one who has its prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Box<str>>,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issue: Option<MetadataIssue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Box<RawValue>>,
}

/// Requested or stored state of a registration.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationState {
    /// It is kept for somebody, and does not resolve yet.
    Reserved,
    /// It resolves, and will for ever.
    #[default]
    Registered,
}

/// Issue of the kernel metadata declaration: number and time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MetadataIssue {
    /// 1 for the first, and one more each time that it was changed.
    pub number: u32,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// The beginning of what is kept of a name that is only reserved.
const RESERVED_JSON_START: &[u8] = br#"{"state":"reserved""#;

/// Whether a name does not resolve yet.
pub fn is_reserved(entry: &StoredRecord) -> bool {
    entry.registration.starts_with(RESERVED_JSON_START)
}

/// Whether there is metadata of a name, by how what is kept of it begins: metadata comes last, and what is before it is short.
pub(crate) fn has_metadata(entry: &StoredRecord) -> bool {
    const MAX_BYTES_BEFORE_METADATA: usize = 256;
    let kept = &*entry.registration;
    let beginning = kept.get(..MAX_BYTES_BEFORE_METADATA).unwrap_or(kept);
    beginning.starts_with(br#"{"state":"#) && memchr::memmem::find(beginning, br#","metadata":{"#).is_some()
}

/// DOI with its values and registration, as the caller may see it.
#[derive(Clone, Debug)]
pub struct DoiRecord {
    /// As it was first spelled.
    pub name: Box<str>,
    /// What became of it.
    pub state: DoiStatus,
    /// Its values, without those that only administrators may read unless who asks is one.
    pub values: Vec<HandleValue<'static>>,
    /// Its metadata, as kernel JSON.
    pub metadata: Option<Box<RawValue>>,
    /// Which declaration that is.
    pub issue: Option<MetadataIssue>,
    /// The id of its registrant.
    pub registrant: Box<str>,
    /// The code of its agency.
    pub agency: Box<str>,
    /// Since when it has been registered or reserved, in milliseconds since 1970.
    pub created: u64,
    /// When it was last changed.
    pub updated: u64,
    /// When it was ended, if it was.
    pub ended: Option<u64>,
    /// The number of the change that made it so; 0 while it has not been carried out.
    pub revision: u64,
    /// What who registers it should know.
    pub notes: Vec<WriteWarning>,
}

/// Status of a DOI, from its registration state and the record's status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DoiStatus {
    /// It does not resolve yet.
    Reserved,
    /// It resolves.
    Registered,
    /// It does not resolve any more, and is never given again.
    Tombstone,
    /// It was only reserved, or to try things out, and is gone: only the answer to who ended it says so.
    Removed,
}

impl DoiStatus {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Registered => "registered",
            Self::Tombstone => "tombstone",
            Self::Removed => "removed",
        }
    }
}

impl DoiRecord {
    /// Where it leads first: its value at index 1.
    pub fn url(&self) -> Option<&str> {
        let value = self.values.iter().find(|value| value.index == 1 && value.has_type("URL"))?;
        std::str::from_utf8(&value.data).ok()
    }

    /// Its metadata in a format; none if there is none.
    pub fn metadata_in(&self, format: MetadataFormat) -> Option<String> {
        self.with_kernel(|kernel, facts| format.render(kernel, facts, self.url()))
    }

    /// Its metadata in few words; none if there is none.
    pub fn citation_summary(&self) -> Option<CitationSummary> {
        self.with_kernel(CitationSummary::from_kernel)
    }

    fn with_kernel<T>(&self, make: impl FnOnce(&KernelMetadata, &RegistryFields<'_>) -> T) -> Option<T> {
        let kernel = KernelMetadata::from_json(self.metadata.as_ref()?.get().as_bytes()).ok()?;
        let issue = self.issue.unwrap_or(MetadataIssue { number: 1, at: self.created });
        let day = i64::try_from(issue.at).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
        let day = day.unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
        let agency = self.agency.to_ascii_uppercase();
        let facts = RegistryFields {
            name: &self.name,
            agency: &agency,
            issue_date: &day,
            issue_number: issue.number,
        };
        Some(make(&kernel, &facts))
    }
}

impl Registration {
    /// What is kept of a name; of one that came by another way than ours, what its values tell.
    pub(crate) fn of_record(entry: &StoredRecord) -> Result<Self, Error> {
        if !entry.registration.is_empty() {
            return party::decode(entry);
        }
        let dates = || entry.values.iter().map(|value| u64::from(value.timestamp) * 1_000);
        Ok(Self {
            state: RegistrationState::Registered,
            owner: None,
            created: dates().min().unwrap_or_default(),
            updated: dates().max().unwrap_or_default(),
            issue: None,
            metadata: None,
        })
    }
}

impl Registry {
    /// A name that was registered, for everybody; one that is only reserved, for those concerned.
    pub async fn get_doi(
        &self,
        name: &str,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<DoiRecord, RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        let no_such = || RegistryError::not_found("name", name);
        let (prefix, _) = name.split_once('/').ok_or_else(no_such)?;
        let record = self.prefix_entry(prefix, work).await?.ok_or_else(no_such)?;
        let prefix: party::Prefix = party::decode(&record)?;
        let entry = self.get_record(name, work).await?.ok_or_else(no_such)?;
        let deposit = Registration::of_record(&entry)?;
        let owner = deposit.owner.clone().unwrap_or_else(|| prefix.registrant.clone());
        let owner = self.get_object::<Registrant>(RegistryObjectKind::Registrant, &owner, work).await?.it;
        if deposit.state == RegistrationState::Reserved && !standing.can_read_under(&prefix.prefix, &owner) {
            return Err(no_such());
        }
        let ended = if entry.state == RecordStatus::Tombstone {
            self.last_change_time(&entry.name, work).await?
        } else {
            None
        };
        let mut registered = shown(entry, deposit, &owner, &standing);
        registered.ended = ended;
        Ok(registered)
    }

    /// When a name was last changed.
    async fn last_change_time(&self, name: &str, work: &mut Budget) -> Result<Option<u64>, Error> {
        work.charge(price::LOOKUP)?;
        let Ok(key) = NameKey::new(name) else { return Ok(None) };
        let history = self.store.history(&key, HistoryOrder::NewestFirst { before: u64::MAX }, 1).await?;
        Ok(history.items.first().map(|past| past.line.at))
    }
}

/// A name as it is told to somebody.
fn shown(entry: StoredRecord, deposit: Registration, owner: &Registrant, standing: &Principal) -> DoiRecord {
    let StoredRecord { name, revision, state, mut values, .. } = entry;
    let prefix = name.split_once('/').map_or(&*name, |(prefix, _)| prefix);
    let may_see = standing.can_read_under(prefix, owner);
    values.retain(|value| {
        value.permissions.is_public()
            || may_see && value.permissions.has(tendot_proto::ValuePermissions::ADMIN_READ)
    });
    DoiRecord {
        name,
        state: match (state, deposit.state) {
            (RecordStatus::Tombstone, _) => DoiStatus::Tombstone,
            (RecordStatus::Live, RegistrationState::Reserved) => DoiStatus::Reserved,
            (RecordStatus::Live, RegistrationState::Registered) => DoiStatus::Registered,
        },
        values,
        metadata: deposit.metadata,
        issue: deposit.issue,
        registrant: owner.id.clone(),
        agency: owner.agency.clone(),
        created: deposit.created,
        updated: deposit.updated,
        ended: None,
        revision,
        notes: Vec::new(),
    }
}

//! Registration as stored and as returned to callers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tendot_names::InputForm;
use tendot_proto::{Budget, HandleValue};
use tendot_store::{
    EditKind, HistoryEntry, HistoryOrder, NameKey, RecordStatus, Store, StoreError, StoredRecord,
};

use crate::authorization::Principal;
use crate::metadata::{CitationSummary, KernelMetadata, MetadataFormat, RegistryFields};
use crate::party::Registrant;
use crate::prefix::Prefix;
use crate::resolve::is_readable;
use crate::rules::RecordReader;
use crate::validate::prefix_of;
use crate::{CallContext, Error, Registry, RegistryError, WriteWarning, cost, party};

/// Registration of a DOI as stored beside its values: a tag, then JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Registration {
    pub(crate) state: RegistrationState,
    /// Id of the owner, if it is not the holder of the prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Box<str>>,
    #[serde(rename = "created")]
    pub(crate) created_ms: u64,
    #[serde(rename = "updated")]
    pub(crate) updated_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issue: Option<MetadataIssue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Box<RawValue>>,
}

/// Requested or stored state of a registration.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationState {
    /// Reserved: does not resolve yet.
    Reserved,
    /// Registered: resolves.
    #[default]
    Registered,
}

/// Issue of the kernel metadata declaration: number and time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MetadataIssue {
    /// Number of the issue, starting with 1.
    pub number: u32,
    /// Time of the issue, in milliseconds since 1970.
    #[serde(rename = "at")]
    pub time_ms: u64,
}

/// First byte of a stored registration: bits added to this base, readable without parsing. No JSON begins with it.
const TAG_BASE: u8 = b'@';

/// Bit of the tag: the name is reserved.
const TAG_RESERVED: u8 = 1;

/// Bit of the tag: the name has metadata.
const TAG_METADATA: u8 = 2;

/// Tag of a record with a registration.
fn tag_of(entry: &StoredRecord) -> Option<u8> {
    let all = TAG_BASE | TAG_RESERVED | TAG_METADATA;
    entry.registration.first().copied().filter(|tag| (TAG_BASE..=all).contains(tag))
}

/// Whether a name is reserved and does not resolve yet.
pub fn is_reserved(entry: &StoredRecord) -> bool {
    tag_of(entry).is_some_and(|tag| tag & TAG_RESERVED != 0)
}

/// Whether a name has metadata.
pub(crate) fn has_metadata(entry: &StoredRecord) -> bool {
    tag_of(entry).is_some_and(|tag| tag & TAG_METADATA != 0)
}

/// DOI with its values and registration, as the caller may see it.
#[derive(Clone, Debug)]
pub struct DoiRecord {
    /// Name in its original spelling.
    pub name: Box<str>,
    /// Status of the DOI.
    pub state: DoiStatus,
    /// Values; non-public ones only for authorized callers.
    pub values: Vec<HandleValue<'static>>,
    /// Metadata as kernel JSON.
    pub metadata: Option<Box<RawValue>>,
    /// Issue of the metadata.
    pub issue: Option<MetadataIssue>,
    /// Id of the owner.
    pub registrant: Box<str>,
    /// Code of the owner's agency.
    pub agency: Box<str>,
    /// Time of registration or reservation, in milliseconds since 1970.
    pub created_ms: u64,
    /// Time of the last change, in milliseconds since 1970.
    pub updated_ms: u64,
    /// Time of retirement, in milliseconds since 1970.
    pub retired_ms: Option<u64>,
    /// Revision of the record; 0 before the commit.
    pub revision: u64,
    /// Warnings for the caller.
    pub warnings: Vec<WriteWarning>,
    /// Form in which the name of a new registration was written, if it was not bare.
    pub input_form: Option<InputForm>,
}

/// Status of a DOI, from its registration state and the record's status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DoiStatus {
    /// Reserved: does not resolve yet.
    Reserved,
    /// Registered: resolves.
    Registered,
    /// Retired: does not resolve and is never reused.
    Retired,
    /// Deleted: was reserved or under a test prefix. Returned only to the caller who deletes it.
    Deleted,
}

impl DoiStatus {
    pub(crate) const fn new(status: RecordStatus, state: RegistrationState) -> Self {
        match (status, state) {
            (RecordStatus::Tombstone, _) => Self::Retired,
            (RecordStatus::Live, RegistrationState::Reserved) => Self::Reserved,
            (RecordStatus::Live, RegistrationState::Registered) => Self::Registered,
        }
    }

    /// Name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Registered => "registered",
            Self::Retired => "tombstone",
            Self::Deleted => "deleted",
        }
    }
}

impl DoiRecord {
    /// URL at index 1.
    pub fn url(&self) -> Option<&str> {
        std::str::from_utf8(&url_value(&self.values)?.data).ok()
    }

    /// Metadata in a format; `None` if there is none.
    pub fn metadata_in(&self, format: MetadataFormat) -> Option<String> {
        self.with_kernel(|kernel, fields| format.render(kernel, fields, self.url()))
    }

    /// Short citation from the metadata; `None` if there is none.
    pub fn citation_summary(&self) -> Option<CitationSummary> {
        self.with_kernel(CitationSummary::from_kernel)
    }

    fn with_kernel<T>(&self, make: impl FnOnce(&KernelMetadata, &RegistryFields<'_>) -> T) -> Option<T> {
        let kernel = serde_json::from_str::<KernelMetadata>(self.metadata.as_ref()?.get()).ok()?;
        let issue = self.issue.unwrap_or(MetadataIssue { number: 1, time_ms: self.created_ms });
        let day = i64::try_from(issue.time_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let day = day.unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
        let agency = self.agency.to_ascii_uppercase();
        let fields = RegistryFields {
            name: &self.name,
            agency: &agency,
            issue_date: &day,
            issue_number: issue.number,
        };
        Some(make(&kernel, &fields))
    }
}

/// Number of redactions that may follow the retirement of a name; there is nothing to redact after the first.
const MAX_REDACTIONS: usize = 3;

/// Index of the URL of a registered name.
pub(super) const URL_INDEX: u32 = 1;

/// URL value of a registered name.
pub(crate) fn url_value<'v>(values: &'v [HandleValue<'static>]) -> Option<&'v HandleValue<'static>> {
    values.iter().find(|value| value.index == URL_INDEX && value.has_type("URL"))
}

impl Registration {
    /// Id of the owner of the name: the explicit owner, or the holder of the prefix.
    pub(crate) fn owner_id<'a>(&'a self, prefix: &'a Prefix) -> &'a str {
        self.owner.as_deref().unwrap_or(&prefix.registrant)
    }

    /// Stored form: tag and JSON.
    pub(crate) fn to_bytes(&self) -> Box<[u8]> {
        let is_reserved = self.state == RegistrationState::Reserved;
        let reserved = if is_reserved { TAG_RESERVED } else { 0 };
        let metadata = if self.metadata.is_some() { TAG_METADATA } else { 0 };
        [&[TAG_BASE | reserved | metadata], &*party::encode(self)].concat().into()
    }

    /// Whether the name is hidden from a principal: reserved names look as if they did not exist.
    pub(crate) fn is_hidden_from(&self, principal: &Principal, prefix: &str, owner: &Registrant) -> bool {
        self.state == RegistrationState::Reserved && !principal.can_read_under(prefix, owner)
    }

    /// Registration of a record. For records created by other means it is derived from the timestamps of the values.
    pub(crate) fn of_record(entry: &StoredRecord) -> Result<Self, Error> {
        if let Some((_, json)) = entry.registration.split_first() {
            if tag_of(entry).is_none() {
                let detail = format!("corrupt registration of `{}`: no tag", entry.name);
                return Err(StoreError::Corrupt { detail }.into());
            }
            return party::decode_json(&entry.name, json);
        }
        Ok(Self {
            state: RegistrationState::Registered,
            owner: None,
            created_ms: value_times_ms(&entry.values).min().unwrap_or_default(),
            updated_ms: value_times_ms(&entry.values).max().unwrap_or_default(),
            issue: None,
            metadata: None,
        })
    }

    /// Time of the last update, derived from registration and values: an import changes the values, but not the registration.
    /// Imports without timestamps are only in the change log, which a list cannot read for each name.
    pub(crate) fn last_update_ms(&self, values: &[HandleValue<'_>]) -> u64 {
        self.updated_ms.max(value_times_ms(values).max().unwrap_or_default())
    }
}

/// Known timestamps of values, in milliseconds since 1970.
fn value_times_ms(values: &[HandleValue<'_>]) -> impl Iterator<Item = u64> {
    // A timestamp of 0 is unknown.
    values.iter().map(|value| u64::from(value.timestamp) * 1_000).filter(|time_ms| *time_ms > 0)
}

impl Registry {
    /// Gets a DOI. Registered names are public; reserved ones are visible to authorized principals only.
    pub async fn get_doi(&self, name: &str, mut call: CallContext<'_>) -> Result<DoiRecord, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        let (rules, budget) = (&self.rules, call.budget);
        let not_found = || RegistryError::not_found("DOI", name);
        let (prefix, _) = name.split_once('/').ok_or_else(not_found)?;
        let record = rules.prefix_record(prefix, budget).await?.ok_or_else(not_found)?;
        let prefix: Prefix = party::decode(&record)?;
        let entry = rules.get_record(name, budget).await?.ok_or_else(not_found)?;
        let registration = Registration::of_record(&entry)?;
        let owner = rules.find_owner(Some(&registration), &prefix, budget).await?.ok_or_else(not_found)?;
        if registration.is_hidden_from(&principal, &prefix.prefix, &owner) {
            return Err(not_found());
        }
        let registration = rules.with_creation_time(registration, &entry.name, budget).await?;
        let changed_ms = rules.last_change_time(&entry.name, budget).await?;
        let updated_ms = registration.last_update_ms(&entry.values).max(changed_ms.unwrap_or_default());
        let mut registered = visible_record(entry, registration, &owner, &principal);
        if registered.state == DoiStatus::Retired {
            registered.retired_ms = changed_ms;
        } else {
            registered.updated_ms = updated_ms;
        }
        Ok(registered)
    }
}

impl RecordReader {
    /// Owner of a name under an allocated prefix. Without a registration, the owner of a new name.
    pub(crate) async fn find_owner(
        &self,
        registration: Option<&Registration>,
        prefix: &Prefix,
        budget: &mut Budget,
    ) -> Result<Option<Registrant>, Error> {
        let id = registration.map_or(&*prefix.registrant, |registration| registration.owner_id(prefix));
        Ok(self.find_object::<Registrant>(id, budget).await?.map(|object| object.value))
    }

    /// Registration with its time of creation: that of the first change of the name, if nothing else is known.
    pub(crate) async fn with_creation_time(
        &self,
        mut registration: Registration,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Registration, Error> {
        if registration.created_ms == 0
            && let Ok(key) = NameKey::new(name)
        {
            budget.charge(cost::LOOKUP)?;
            let history = self.store.history(&key, HistoryOrder::OldestFirst { after: 0 }, 1).await?;
            let first = history.entries.first().map(|past| past.log_entry.timestamp_ms);
            registration.created_ms = first.unwrap_or_default();
        }
        Ok(registration)
    }

    /// Time of the last change of a name, redactions excepted.
    async fn last_change_time(&self, name: &str, budget: &mut Budget) -> Result<Option<u64>, Error> {
        budget.charge(cost::LOOKUP)?;
        let Ok(key) = NameKey::new(name) else { return Ok(None) };
        let newest = HistoryOrder::NewestFirst { before: u64::MAX };
        let is_change = |past: &&HistoryEntry| past.log_entry.kind != EditKind::Redact;
        // States may be large, and redactions are rare.
        let mut history = self.store.history(&key, newest, 1).await?;
        if history.entries.first().is_some_and(|past| !is_change(&past)) {
            history = self.store.history(&key, newest, MAX_REDACTIONS + 1).await?;
        }
        Ok(history.entries.iter().find(is_change).map(|past| past.log_entry.timestamp_ms))
    }
}

/// DOI record as the principal may see it.
pub(super) fn visible_record(
    entry: StoredRecord,
    registration: Registration,
    owner: &Registrant,
    principal: &Principal,
) -> DoiRecord {
    let StoredRecord { name, revision, status, mut values, .. } = entry;
    let prefix = prefix_of(&name);
    let can_read = principal.can_read_under(prefix, owner);
    values.retain(|value| is_readable(value, can_read));
    DoiRecord {
        name,
        state: DoiStatus::new(status, registration.state),
        values,
        metadata: registration.metadata,
        issue: registration.issue,
        registrant: owner.id.clone(),
        agency: owner.agency.clone(),
        created_ms: registration.created_ms,
        updated_ms: registration.updated_ms,
        retired_ms: None,
        revision,
        warnings: Vec::new(),
        input_form: None,
    }
}

/// Key of the aux entry for a name that a registrant owns under the prefix of another. The name is hashed, because names
/// exceed the maximum key length.
pub(crate) fn owned_name_key(registrant: &str, name: &str) -> Result<Vec<u8>, Error> {
    let name = name.to_ascii_uppercase();
    Ok(format!("owned-name/{registrant}/{}", party::sha256_hex(name.as_bytes())?).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State and metadata are in the tag, whatever the JSON looks like; other objects have none.
    #[test]
    fn state_and_metadata_are_found_without_parsing() {
        for (state, metadata, owner_len) in [
            (RegistrationState::Reserved, None, 64),
            (RegistrationState::Registered, None, 64),
            (RegistrationState::Reserved, Some("{}"), 0),
            (RegistrationState::Registered, Some(r#"{"a":1}"#), 64),
        ] {
            let registration = Registration {
                state,
                owner: (owner_len > 0).then(|| "x".repeat(owner_len).into()),
                created_ms: u64::MAX,
                updated_ms: u64::MAX,
                issue: Some(MetadataIssue { number: u32::MAX, time_ms: u64::MAX }),
                metadata: metadata.map(|json| RawValue::from_string(json.into()).unwrap()),
            };
            let entry = StoredRecord {
                name: "10.1/x".into(),
                revision: 1,
                status: RecordStatus::Live,
                values: Vec::new(),
                registration: registration.to_bytes(),
            };
            assert_eq!(is_reserved(&entry), state == RegistrationState::Reserved, "{registration:?}");
            assert_eq!(has_metadata(&entry), metadata.is_some(), "{registration:?}");
            let decoded = Registration::of_record(&entry).unwrap();
            assert_eq!((decoded.state, decoded.metadata.is_some()), (state, metadata.is_some()));
            let json = br#"{"state":"reserved","metadata":{"a":1}}"#;
            let other = StoredRecord { registration: json[..].into(), ..entry };
            assert!(
                !is_reserved(&other) && !has_metadata(&other) && Registration::of_record(&other).is_err()
            );
        }
    }
}

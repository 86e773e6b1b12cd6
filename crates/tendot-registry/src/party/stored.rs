//! Storage of registry objects: kinds, ids, revisions.

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tendot_proto::Budget;
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, Digest, HashAlgorithm};
use tendot_store::{Edit, NameKey, Precondition, RecordStatus, Store, StoreError, StoredRecord};

use crate::party::RESERVED_PREFIX;
use crate::rules::RecordReader;
use crate::{Error, RegistryError, codes};

/// Kind of object stored under the reserved prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RegistryObjectKind {
    /// Registration agency.
    Agency,
    /// Registrant.
    Registrant,
    /// API token.
    Token,
    /// Transfer.
    Transfer,
}

impl RegistryObjectKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Agency, Self::Registrant, Self::Token, Self::Transfer];

    /// Name in messages and keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agency => "agency",
            Self::Registrant => "registrant",
            Self::Token => "token",
            Self::Transfer => "transfer",
        }
    }

    /// Record name of an object.
    pub(crate) fn storage_name(self, id: &str) -> String {
        format!("{RESERVED_PREFIX}/{}/{id}", self.as_str())
    }

    /// Parses a name under the reserved prefix into kind and id.
    pub fn parse(name: &str) -> Option<(Self, &str)> {
        let rest = name.get(RESERVED_PREFIX.len()..)?.strip_prefix('/')?;
        name.get(..RESERVED_PREFIX.len())?.eq_ignore_ascii_case(RESERVED_PREFIX).then_some(())?;
        let (kind, id) = rest.split_once('/')?;
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(kind)).map(|known| (known, id))
    }
}

/// Object of a kind that is stored under the reserved prefix.
pub(crate) trait RegistryObject: DeserializeOwned + Serialize + Send {
    const KIND: RegistryObjectKind;

    /// Id within the kind.
    fn id(&self) -> &str;
}

/// Stored object with its revision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Versioned<T> {
    /// The object.
    pub value: T,
    /// Revision of the last change.
    pub revision: u64,
}

/// Serializes an object for the store.
pub(crate) fn encode(object: &impl Serialize) -> Box<[u8]> {
    // Cannot fail: all keys are strings.
    serde_json::to_vec(object).unwrap_or_default().into()
}

/// Deserializes an object from its record.
pub(crate) fn decode<T: DeserializeOwned>(entry: &StoredRecord) -> Result<T, Error> {
    decode_json(&entry.name, &entry.registration)
}

/// Deserializes JSON of the record with this name.
pub(crate) fn decode_json<T: DeserializeOwned>(name: &str, json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| {
        StoreError::Corrupt { detail: format!("corrupt registration of `{name}`: {error}") }.into()
    })
}

/// Edit that stores an object; it must be new, or unchanged since `revision`.
pub(crate) fn put_edit<T: RegistryObject>(object: &T, revision: Option<u64>) -> Edit {
    Edit::Register {
        name: T::KIND.storage_name(object.id()).into(),
        values: Vec::new(),
        registration: encode(object),
        precondition: revision.map_or(Precondition::Absent, Precondition::AtRevision),
    }
}

impl RecordReader {
    /// Finds an object by id.
    pub(crate) async fn find_object<T: RegistryObject>(
        &self,
        id: &str,
        budget: &mut Budget,
    ) -> Result<Option<Versioned<T>>, Error> {
        // No object has an invalid id.
        if !is_valid_id(id) {
            return Ok(None);
        }
        match self.get_record(&T::KIND.storage_name(id), budget).await? {
            Some(entry) if entry.status == RecordStatus::Live => {
                Ok(Some(Versioned { value: decode(&entry)?, revision: entry.revision }))
            }
            _ => Ok(None),
        }
    }

    /// Gets an object by id; fails if there is none.
    pub(crate) async fn get_object<T: RegistryObject>(
        &self,
        id: &str,
        budget: &mut Budget,
    ) -> Result<Versioned<T>, RegistryError> {
        let object = self.find_object(id, budget).await?;
        object.ok_or_else(|| RegistryError::not_found(T::KIND.as_str(), id))
    }

    /// Gets an agency or registrant that a request names at `pointer`.
    pub(crate) async fn get_named_object<T: RegistryObject>(
        &self,
        id: &str,
        pointer: &str,
        budget: &mut Budget,
    ) -> Result<Versioned<T>, RegistryError> {
        let object = self.find_object(id, budget).await?;
        object.ok_or_else(|| {
            let code = match T::KIND {
                RegistryObjectKind::Agency => codes::UNKNOWN_AGENCY,
                _ => codes::UNKNOWN_REGISTRANT,
            };
            RegistryError::invalid(code, pointer, format!("unknown {} `{id}`", T::KIND.as_str()))
        })
    }

    /// Visits the live objects of a kind in id order until `visit` returns false.
    pub(crate) async fn visit_objects<T: RegistryObject>(
        &self,
        mut visit: impl FnMut(Versioned<T>) -> bool + Send,
    ) -> Result<(), Error> {
        self.visit_records(T::KIND, None, |_, entry| match entry.status {
            RecordStatus::Live => Ok(visit(Versioned { value: decode(entry)?, revision: entry.revision })),
            RecordStatus::Tombstone => Ok(true),
        })
        .await
    }

    /// Visits the records of a kind with their ids.
    pub(crate) async fn visit_records(
        &self,
        kind: RegistryObjectKind,
        after: Option<&str>,
        mut visit: impl FnMut(&str, &StoredRecord) -> Result<bool, Error> + Send,
    ) -> Result<(), Error> {
        let start = kind.storage_name("");
        let after = NameKey::new(&kind.storage_name(after.unwrap_or_default()))
            .map_err(|error| StoreError::Corrupt { detail: error.to_string() })?;
        let mut problem = None;
        self.store
            .scan_records(Some(RESERVED_PREFIX.as_bytes()), Some(&after), |entry| {
                let parts = entry.name.split_at_checked(start.len());
                let Some((_, id)) = parts.filter(|(kind, _)| kind.eq_ignore_ascii_case(&start)) else {
                    return false;
                };
                visit(id, entry).unwrap_or_else(|error| {
                    problem = Some(error);
                    false
                })
            })
            .await?;
        problem.map_or(Ok(()), Err)
    }
}

/// Edit that marks the holdings of an agency or registrant as changed. A command that scans all holdings conflicts with it,
/// so that nothing added meanwhile is missed (phantom protection).
pub(crate) fn touch_holdings(kind: RegistryObjectKind, id: &str, what: &str) -> Edit {
    Edit::PutAux { key: holdings_key(kind, id), value: what.as_bytes().into() }
}

/// Edit that removes the mark of [`touch_holdings`] together with the object.
pub(crate) fn clear_holdings(kind: RegistryObjectKind, id: &str) -> Edit {
    Edit::RemoveAux { key: holdings_key(kind, id) }
}

fn holdings_key(kind: RegistryObjectKind, id: &str) -> Box<[u8]> {
    format!("holdings/{}/{}", kind.as_str(), id.to_ascii_uppercase()).into_bytes().into()
}

impl RecordReader {
    /// Reads the holdings marker before a scan of all holdings, so that the commit fails if something is added meanwhile.
    pub(crate) async fn guard_holdings(&self, kind: RegistryObjectKind, id: &str) -> Result<(), Error> {
        self.store.get_aux(&holdings_key(kind, id)).await?;
        Ok(())
    }
}

/// Fails unless the object has the expected revision.
pub(crate) fn check_revision(expected: Option<u64>, revision: u64) -> Result<(), RegistryError> {
    match expected {
        Some(expected) if expected != revision => {
            let detail = format!("revision mismatch: current {revision}, expected {expected}");
            Err(RegistryError::new(codes::REVISION_MISMATCH, detail)
                .with_hint("read the current revision and retry"))
        }
        _ => Ok(()),
    }
}

/// Whether an id is valid: ASCII letters, digits and `-._`, so that it has one spelling in a path.
pub(crate) fn is_valid_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 64
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

/// Crockford's base 32: without `i`, `l`, `o` and `u`, so that no letters are similar.
pub(crate) const BASE32_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Generates an id in base 32.
pub(crate) fn generate_id(random: &[u8]) -> String {
    let digit =
        |byte: &u8| BASE32_ALPHABET.get(usize::from(byte % 32)).map_or('0', |digit| char::from(*digit));
    random.iter().take(12).map(digit).collect()
}

/// SHA-256 in lower-case hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> Result<String, Error> {
    sha256(bytes).map(|hash| HEXLOWER.encode(&hash))
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> Result<Digest, Error> {
    let hash = AwsLcProvider.hash(HashAlgorithm::Sha256, &[bytes]);
    let failed = |error: String| StoreError::Backend { operation: "hashing", error: error.into() };
    Ok(hash.map_err(|error| failed(error.to_string()))?)
}

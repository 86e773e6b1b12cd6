//! Who takes part: agencies, registrants, and the tokens by which they are known.
//!
//! They are entries of the store under a prefix that nobody else can use, without values: what is known of them is their
//! registration. So they have revisions, lines in the log and a history as names have, and change with names in one go.

mod agency;
mod looking;
mod prefix;
mod registrant;
mod standing;
mod token;

pub use agency::{Agency, AgencyClosure, CreateAgency, Demand, UpdateAgency};
use data_encoding::HEXLOWER;
pub(crate) use looking::ScanBudget;
pub use prefix::Lookalikes;
pub(crate) use prefix::{ADMIN_INDEX, GROUP_INDEX, PrefixAllocation, free_index, is_doi_prefix};
pub use prefix::{AllocatePrefix, Prefix, PrefixPolicy, PrefixRange, UpdatePrefix};
pub use registrant::{CreateRegistrant, Registrant, UpdateRegistrant};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use standing::{ActingRole, Principal};
use tendot_proto::Budget;
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};
use tendot_store::{Edit, NameKey, Precondition, RecordStatus, Store, StoreError, StoredRecord};
pub use token::{ApiToken, CreateToken, RevokeToken, Role, Scope, TokenIdentity};

use crate::refusal::RegistryErrorKind;
use crate::{Error, Registry, RegistryError};

/// The prefix under which parties are kept.
pub const RESERVED_PREFIX: &str = "0.TENDOT";

/// Whether a prefix is the one under which parties are kept.
pub fn is_reserved_prefix(prefix: &[u8]) -> bool {
    prefix.eq_ignore_ascii_case(RESERVED_PREFIX.as_bytes())
}

/// Kind of object stored under the reserved prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RegistryObjectKind {
    /// A registration agency.
    Agency,
    /// A registrant.
    Registrant,
    /// A token.
    Token,
    /// A transfer.
    Transfer,
}

impl RegistryObjectKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Agency, Self::Registrant, Self::Token, Self::Transfer];

    /// What it is called in a sentence, and in the key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agency => "agency",
            Self::Registrant => "registrant",
            Self::Token => "token",
            Self::Transfer => "transfer",
        }
    }

    /// Where one of them is kept.
    pub(crate) fn storage_name(self, id: &str) -> String {
        format!("{RESERVED_PREFIX}/{}/{id}", self.name())
    }

    /// What a name under the reserved prefix is, and its id.
    pub fn parse(name: &str) -> Option<(Self, &str)> {
        let rest = name.get(RESERVED_PREFIX.len()..)?.strip_prefix('/')?;
        name.get(..RESERVED_PREFIX.len())?.eq_ignore_ascii_case(RESERVED_PREFIX).then_some(())?;
        let (kind, id) = rest.split_once('/')?;
        Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(kind)).map(|known| (known, id))
    }
}

/// Something that is kept, and its revision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held<T> {
    /// What it is.
    pub it: T,
    /// The number of the change that made it so.
    pub revision: u64,
}

/// What is registered, as it is written in the store.
pub(crate) fn encode(it: &impl Serialize) -> Box<[u8]> {
    // Nothing that is kept has keys that are no text.
    serde_json::to_vec(it).unwrap_or_default().into()
}

/// The same, read again.
pub(crate) fn decode<T: DeserializeOwned>(entry: &StoredRecord) -> Result<T, Error> {
    serde_json::from_slice(&entry.registration).map_err(|error| {
        StoreError::Damaged { what: format!("what is registered of `{}`: {error}", entry.name) }.into()
    })
}

/// An edit by which something is kept; it has to be new, or as it was read.
pub(crate) fn put_edit(
    kind: RegistryObjectKind,
    id: &str,
    it: &impl Serialize,
    revision: Option<u64>,
) -> Edit {
    let expect = revision.map_or(Precondition::Absent, Precondition::Revision);
    Edit::Register {
        name: kind.storage_name(id).into(),
        values: Vec::new(),
        registration: encode(it),
        expect,
    }
}

impl Registry {
    /// Something that is kept under an id, if it is.
    pub(crate) async fn find_object<T: DeserializeOwned>(
        &self,
        kind: RegistryObjectKind,
        id: &str,
        work: &mut Budget,
    ) -> Result<Option<Held<T>>, Error> {
        // What is no id of ours is under none.
        if !is_valid_id(id) {
            return Ok(None);
        }
        match self.get_record(&kind.storage_name(id), work).await? {
            Some(entry) if entry.state == RecordStatus::Live => {
                Ok(Some(Held { it: decode(&entry)?, revision: entry.revision }))
            }
            _ => Ok(None),
        }
    }

    /// The same; without it, it is not found.
    pub(crate) async fn get_object<T: DeserializeOwned>(
        &self,
        kind: RegistryObjectKind,
        id: &str,
        work: &mut Budget,
    ) -> Result<Held<T>, RegistryError> {
        self.find_object(kind, id, work).await?.ok_or_else(|| RegistryError::not_found(kind.name(), id))
    }

    /// Shows all of a kind to `visit`, by their ids, after one, as long as it wants more.
    pub(crate) async fn visit_objects<T: DeserializeOwned>(
        &self,
        kind: RegistryObjectKind,
        after: Option<&str>,
        mut visit: impl FnMut(Held<T>) -> bool + Send,
    ) -> Result<(), Error> {
        self.visit_records(kind, after, |_, entry| match entry.state {
            RecordStatus::Live => Ok(visit(Held { it: decode(entry)?, revision: entry.revision })),
            RecordStatus::Tombstone => Ok(true),
        })
        .await
    }

    /// The same with their ids, and as they are kept.
    async fn visit_records(
        &self,
        kind: RegistryObjectKind,
        after: Option<&str>,
        mut visit: impl FnMut(&str, &StoredRecord) -> Result<bool, Error> + Send,
    ) -> Result<(), Error> {
        let start = kind.storage_name("");
        let after = NameKey::new(&kind.storage_name(after.unwrap_or_default()))
            .map_err(|error| StoreError::Damaged { what: error.to_string() })?;
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

/// An edit that tells that an agency or a registrant has got something: what it has is looked through by who changes all of
/// it, and what comes meanwhile must not be missed.
pub(crate) fn gets(kind: RegistryObjectKind, id: &str, what: &str) -> Edit {
    Edit::PutNote { key: holdings(kind, id), body: what.as_bytes().into() }
}

fn holdings(kind: RegistryObjectKind, id: &str) -> Box<[u8]> {
    format!("holdings/{}/{}", kind.name(), id.to_ascii_uppercase()).into_bytes().into()
}

impl Registry {
    /// Before all is looked through that an agency or a registrant has: nothing may come to it until that is committed.
    pub(crate) async fn look_through(&self, kind: RegistryObjectKind, id: &str) -> Result<(), Error> {
        self.store.note(&holdings(kind, id)).await?;
        Ok(())
    }
}

/// What is to be changed has to be what who asks took it for.
pub(crate) fn check_revision(expected: Option<u64>, revision: u64) -> Result<(), RegistryError> {
    match expected {
        Some(expected) if expected != revision => {
            let detail =
                format!("it was changed in the meantime: it has revision {revision}, not {expected}");
            Err(RegistryError::new(RegistryErrorKind::Precondition, "changed", detail)
                .with_hint("read it again"))
        }
        _ => Ok(()),
    }
}

/// Whether an id can be one of ours: letters, digits and few others, so that each has one spelling in a path.
pub(crate) fn is_valid_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 64
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

/// A new id of random letters and digits that nobody mistakes for others.
pub(crate) fn generate_id(random: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digit = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).map_or('0', |digit| char::from(*digit));
    random.iter().take(12).map(digit).collect()
}

/// SHA-256 in lower-case digits.
pub fn sha256_hex(bytes: &[u8]) -> Result<String, Error> {
    let hash = AwsLcProvider.hash(HashAlgorithm::Sha256, &[bytes]);
    let hash =
        hash.map_err(|error| StoreError::Failed { doing: "hashing", error: error.to_string().into() })?;
    Ok(HEXLOWER.encode(&hash))
}

/// Text for people: not empty, not too long, without what nobody sees.
pub(crate) fn check_text(text: &str, pointer: &str, longest: usize) -> Result<(), RegistryError> {
    if text.trim().is_empty() {
        return Err(RegistryError::invalid("missing", pointer, "there has to be some text"));
    }
    if text.len() > longest {
        let detail = format!("{} bytes, at most {longest} are taken", text.len());
        return Err(RegistryError::invalid("too-long", pointer, detail));
    }
    match text.chars().find(|character| crate::is_invisible(*character)) {
        Some(character) => {
            let detail = format!("U+{:04X} is not visible", u32::from(character));
            Err(RegistryError::invalid("not-visible", pointer, detail))
        }
        None => Ok(()),
    }
}

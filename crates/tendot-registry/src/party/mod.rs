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

pub use agency::{Agency, UpdateAgency, Demand, AgencyClosure, CreateAgency};
use data_encoding::HEXLOWER;
pub(crate) use looking::ScanBudget;
pub use prefix::Lookalikes;
pub(crate) use prefix::{ADMIN, PrefixAllocation, GROUP, free_index, is_prefix};
pub use prefix::{AllocatePrefix, Policy, Prefix, UpdatePrefix, Range};
pub use registrant::{CreateRegistrant, Registrant, UpdateRegistrant};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use standing::{ActingRole, Principal};
use tendot_proto::Work;
use tendot_proto::crypto::{AwsLcProvider, Crypto as _, Hash};
use tendot_store::{Edit, Entry, Precondition, Key, State, Store, StoreError};
pub use token::{CreateToken, Role, Scope, Token, RevokeToken, TokenIdentity};

use crate::refusal::Reason;
use crate::{Error, Refusal, Registry};

/// The prefix under which parties are kept.
pub const RESERVED: &str = "0.TENDOT";

/// Whether a prefix is the one under which parties are kept.
pub fn is_reserved_prefix(prefix: &[u8]) -> bool {
    prefix.eq_ignore_ascii_case(RESERVED.as_bytes())
}

/// What kind of thing is kept under the reserved prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// A registration agency.
    Agency,
    /// A registrant.
    Registrant,
    /// A token.
    Token,
    /// A transfer.
    Transfer,
}

impl Kind {
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
        format!("{RESERVED}/{}/{id}", self.name())
    }

    /// What a name under the reserved prefix is, and its id.
    pub fn of(name: &str) -> Option<(Self, &str)> {
        let rest = name.get(RESERVED.len()..)?.strip_prefix('/')?;
        name.get(..RESERVED.len())?.eq_ignore_ascii_case(RESERVED).then_some(())?;
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
pub(crate) fn write(it: &impl Serialize) -> Box<[u8]> {
    // Nothing that is kept has keys that are no text.
    serde_json::to_vec(it).unwrap_or_default().into()
}

/// The same, read again.
pub(crate) fn read<T: DeserializeOwned>(entry: &Entry) -> Result<T, Error> {
    serde_json::from_slice(&entry.registration).map_err(|error| {
        StoreError::Damaged { what: format!("what is registered of `{}`: {error}", entry.name) }.into()
    })
}

/// An edit by which something is kept; it has to be new, or as it was read.
pub(crate) fn put(kind: Kind, id: &str, it: &impl Serialize, revision: Option<u64>) -> Edit {
    let expect = revision.map_or(Precondition::Absent, Precondition::Revision);
    Edit::Register { name: kind.storage_name(id).into(), values: Vec::new(), registration: write(it), expect }
}

impl Registry {
    /// Something that is kept under an id, if it is.
    pub(crate) async fn held<T: DeserializeOwned>(
        &self,
        kind: Kind,
        id: &str,
        work: &mut Work,
    ) -> Result<Option<Held<T>>, Error> {
        // What is no id of ours is under none.
        if !is_valid_id(id) {
            return Ok(None);
        }
        match self.get(&kind.storage_name(id), work).await? {
            Some(entry) if entry.state == State::Live => {
                Ok(Some(Held { it: read(&entry)?, revision: entry.revision }))
            }
            _ => Ok(None),
        }
    }

    /// The same; without it, it is not found.
    pub(crate) async fn required<T: DeserializeOwned>(
        &self,
        kind: Kind,
        id: &str,
        work: &mut Work,
    ) -> Result<Held<T>, Refusal> {
        self.held(kind, id, work).await?.ok_or_else(|| Refusal::not_found(kind.name(), id))
    }

    /// Shows all of a kind to `visit`, by their ids, after one, as long as it wants more.
    pub(crate) async fn visit_objects<T: DeserializeOwned>(
        &self,
        kind: Kind,
        after: Option<&str>,
        mut visit: impl FnMut(Held<T>) -> bool + Send,
    ) -> Result<(), Error> {
        self.visit_records(kind, after, |_, entry| match entry.state {
            State::Live => Ok(visit(Held { it: read(entry)?, revision: entry.revision })),
            State::Tombstone => Ok(true),
        })
        .await
    }

    /// The same with their ids, and as they are kept.
    async fn visit_records(
        &self,
        kind: Kind,
        after: Option<&str>,
        mut visit: impl FnMut(&str, &Entry) -> Result<bool, Error> + Send,
    ) -> Result<(), Error> {
        let start = kind.storage_name("");
        let after = Key::new(&kind.storage_name(after.unwrap_or_default()))
            .map_err(|error| StoreError::Damaged { what: error.to_string() })?;
        let mut problem = None;
        self.store
            .visit(Some(RESERVED.as_bytes()), Some(&after), |entry| {
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
pub(crate) fn gets(kind: Kind, id: &str, what: &str) -> Edit {
    Edit::PutNote { key: holdings(kind, id), body: what.as_bytes().into() }
}

fn holdings(kind: Kind, id: &str) -> Box<[u8]> {
    format!("holdings/{}/{}", kind.name(), id.to_ascii_uppercase()).into_bytes().into()
}

impl Registry {
    /// Before all is looked through that an agency or a registrant has: nothing may come to it until that is committed.
    pub(crate) async fn look_through(&self, kind: Kind, id: &str) -> Result<(), Error> {
        self.store.note(&holdings(kind, id)).await?;
        Ok(())
    }
}

/// What is to be changed has to be what who asks took it for.
pub(crate) fn check_revision(expected: Option<u64>, revision: u64) -> Result<(), Refusal> {
    match expected {
        Some(expected) if expected != revision => {
            let detail =
                format!("it was changed in the meantime: it has revision {revision}, not {expected}");
            Err(Refusal::new(Reason::Precondition, "changed", detail).hint("read it again"))
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
pub(crate) fn new_id(random: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digit = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).map_or('0', |digit| char::from(*digit));
    random.iter().take(12).map(digit).collect()
}

/// SHA-256 in lower-case digits.
pub fn fingerprint(bytes: &[u8]) -> Result<String, Error> {
    let hash = AwsLcProvider.hash(Hash::Sha256, &[bytes]);
    let hash =
        hash.map_err(|error| StoreError::Failed { doing: "hashing", error: error.to_string().into() })?;
    Ok(HEXLOWER.encode(&hash))
}

/// Text for people: not empty, not too long, without what nobody sees.
pub(crate) fn check_text(text: &str, pointer: &str, longest: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::invalid("missing", pointer, "there has to be some text"));
    }
    if text.len() > longest {
        let detail = format!("{} bytes, at most {longest} are taken", text.len());
        return Err(Refusal::invalid("too-long", pointer, detail));
    }
    match text.chars().find(|character| crate::is_invisible(*character)) {
        Some(character) => {
            let detail = format!("U+{:04X} is not visible", u32::from(character));
            Err(Refusal::invalid("not-visible", pointer, detail))
        }
        None => Ok(()),
    }
}

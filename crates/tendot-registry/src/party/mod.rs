//! Agencies, registrants and API tokens.
//!
//! They are stored as records without values under the reserved prefix; their data is the registration. So they have
//! revisions, log entries and a history like names, and are committed together with names.
//!
//! In reading order: `stored` (storage of registry objects), `agency`, `registrant`, `token`.

mod agency;
mod registrant;
mod stored;
mod token;

pub use agency::{Agency, AgencyClosure, CreateAgency, MetadataPolicy, UpdateAgency};
pub use registrant::{CreateRegistrant, Registrant, UpdateRegistrant};
pub(crate) use stored::{
    BASE32_ALPHABET, RegistryObject, check_revision, clear_holdings, decode, decode_json, encode,
    generate_id, put_edit, sha256, touch_holdings,
};
pub use stored::{RegistryObjectKind, Versioned, sha256_hex};
pub(crate) use token::proposal_key;
pub use token::{ApiToken, CreateToken, RevokeToken, Role, Scope, TokenIdentity, TokenRevocation};

pub use crate::prefix::{
    AllocatePrefix, ConfusablePolicy, DuplicatePolicy, NameRules, Prefix, PrefixPolicy, PrefixRange,
    UpdatePrefix,
};

/// Reserved prefix of registry objects.
pub const RESERVED_PREFIX: &str = "0.TENDOT";

/// Whether a prefix is the reserved one.
pub fn is_reserved_prefix(prefix: &[u8]) -> bool {
    prefix.eq_ignore_ascii_case(RESERVED_PREFIX.as_bytes())
}

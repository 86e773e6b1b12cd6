//! What is found out about a name by its record alone.

use tendot_proto::{Permissions, Value};
use tendot_store::{Entry, Key, State};

use super::{Finding, Reader};
use crate::doi::{Deposit, NameState};
use crate::validate::check_link;
use crate::{Error, Limits, OddUrl};

/// A name that was looked at.
pub(super) struct Looked {
    pub(super) name: Box<str>,
    pub(super) key: Key,
    pub(super) state: NameState,
    pub(super) created: u64,
    pub(super) links: Vec<Finding>,
}

/// None of a name that who reads is not to know of.
pub(super) fn look(entry: &Entry, reader: &Reader, limits: &Limits) -> Result<Option<Looked>, Error> {
    let (Some(state), Ok(key)) = (reader.state_of(entry)?, Key::new(&entry.name)) else { return Ok(None) };
    let deposit = Deposit::of(entry)?;
    let is_others = reader.is_others(&deposit);
    let is_seen = |value: &&Value<'_>| {
        value.permissions.is_public() || !is_others && value.permissions.has(Permissions::ADMIN_READ)
    };
    let links = match entry.state {
        State::Tombstone => Vec::new(),
        State::Live => {
            let values = entry.values.iter().filter(is_seen);
            values.filter_map(|value| odd_link(&entry.name, value, reader, limits)).collect()
        }
    };
    Ok(Some(Looked { name: entry.name.clone(), key, state, created: deposit.created, links }))
}

/// What is wrong with the link in a value, if it has one and something is.
fn odd_link(name: &str, value: &Value<'_>, reader: &Reader, limits: &Limits) -> Option<Finding> {
    let (code, why) = match check_link(value, limits) {
        Err(odd) => (code(&odd), format!("the address {odd}")),
        Ok(()) => {
            let refusal = reader.allocation.check_addresses(value, "").err()?;
            (refusal.code, refusal.detail)
        }
    };
    let data = String::from_utf8_lossy(&value.data).into_owned();
    Some(Finding::Link { name: name.into(), index: value.index, data, code, why })
}

const fn code(odd: &OddUrl) -> &'static str {
    match odd {
        OddUrl::NotUtf8 { .. } => "not-utf8",
        OddUrl::Control { .. } => "control",
        OddUrl::TooLong { .. } => "too-long",
        OddUrl::Relative => "relative",
        OddUrl::Scheme { .. } => "scheme",
        OddUrl::NoHost => "no-host",
        OddUrl::Credentials => "credentials",
        OddUrl::Homograph { .. } => "homograph",
    }
}

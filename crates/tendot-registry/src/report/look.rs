//! What is found out about a name by its record alone.

use tendot_proto::{Permissions, Value};
use tendot_store::{Entry, Key, State};

use super::{Finding, Reader};
use crate::doi::{Deposit, DoiStatus};
use crate::validate::check_link;
use crate::{Error, Limits, UrlFault};

/// A name that was looked at.
pub(super) struct InspectedName {
    pub(super) name: Box<str>,
    pub(super) key: Key,
    pub(super) state: DoiStatus,
    pub(super) created: u64,
    pub(super) links: Vec<Finding>,
}

/// None of a name that who reads is not to know of.
pub(super) fn look(entry: &Entry, reader: &Reader, limits: &Limits) -> Result<Option<InspectedName>, Error> {
    let (Some(state), Ok(key)) = (reader.visible_status(entry)?, Key::new(&entry.name)) else { return Ok(None) };
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
    Ok(Some(InspectedName { name: entry.name.clone(), key, state, created: deposit.created, links }))
}

/// What is wrong with the link in a value, if it has one and something is.
fn odd_link(name: &str, value: &Value<'_>, reader: &Reader, limits: &Limits) -> Option<Finding> {
    let (code, why) = match check_link(value, limits) {
        Err(odd) => (code(&odd), format!("the address {odd}")),
        Ok(()) => {
            let refusal = reader.allocation.check_value_hosts(value, "").err()?;
            (refusal.code, refusal.detail)
        }
    };
    let data = String::from_utf8_lossy(&value.data).into_owned();
    Some(Finding::Link { name: name.into(), index: value.index, data, code, why })
}

const fn code(odd: &UrlFault) -> &'static str {
    match odd {
        UrlFault::NotUtf8 { .. } => "not-utf8",
        UrlFault::Control { .. } => "control",
        UrlFault::TooLong { .. } => "too-long",
        UrlFault::Relative => "relative",
        UrlFault::Scheme { .. } => "scheme",
        UrlFault::NoHost => "no-host",
        UrlFault::Credentials => "credentials",
        UrlFault::Homograph { .. } => "homograph",
    }
}

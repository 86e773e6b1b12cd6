//! What is found out about a name by its record alone.

use tendot_proto::{HandleValue, ValuePermissions};
use tendot_store::{NameKey, RecordStatus, StoredRecord};

use super::{ReportContext, ReportFinding};
use crate::doi::{DoiStatus, Registration};
use crate::validate::check_url_value;
use crate::{Error, RecordLimits, UrlFault};

/// Name inspected for a report.
pub(super) struct InspectedName {
    pub(super) name: Box<str>,
    pub(super) key: NameKey,
    pub(super) state: DoiStatus,
    pub(super) created: u64,
    pub(super) links: Vec<ReportFinding>,
}

/// None of a name that who reads is not to know of.
pub(super) fn inspect(
    entry: &StoredRecord,
    reader: &ReportContext,
    limits: &RecordLimits,
) -> Result<Option<InspectedName>, Error> {
    let (Some(state), Ok(key)) = (reader.visible_status(entry)?, NameKey::new(&entry.name)) else {
        return Ok(None);
    };
    let deposit = Registration::of_record(entry)?;
    let is_others = reader.belongs_to_other(&deposit);
    let is_seen = |value: &&HandleValue<'_>| {
        value.permissions.is_public() || !is_others && value.permissions.has(ValuePermissions::ADMIN_READ)
    };
    let links = match entry.state {
        RecordStatus::Tombstone => Vec::new(),
        RecordStatus::Live => {
            let values = entry.values.iter().filter(is_seen);
            values.filter_map(|value| link_finding(&entry.name, value, reader, limits)).collect()
        }
    };
    Ok(Some(InspectedName { name: entry.name.clone(), key, state, created: deposit.created, links }))
}

/// What is wrong with the link in a value, if it has one and something is.
fn link_finding(
    name: &str,
    value: &HandleValue<'_>,
    reader: &ReportContext,
    limits: &RecordLimits,
) -> Option<ReportFinding> {
    let (code, why) = match check_url_value(value, limits) {
        Err(odd) => (code(&odd), format!("the address {odd}")),
        Ok(()) => {
            let refusal = reader.allocation.check_value_hosts(value, "").err()?;
            (refusal.code, refusal.detail)
        }
    };
    let data = String::from_utf8_lossy(&value.data).into_owned();
    Some(ReportFinding::Link { name: name.into(), index: value.index, data, code, why })
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

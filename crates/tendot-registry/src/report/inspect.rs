//! Findings from a single record.

use tendot_proto::HandleValue;
use tendot_store::{NameKey, RecordStatus, StoredRecord};

use super::{ReportContext, ReportFinding};
use crate::registration::{DoiStatus, Registration};
use crate::resolve::is_readable;
use crate::validate::{check_target_urls, check_url_value};
use crate::{Error, RecordLimits};

/// Name inspected for a report.
pub(super) struct InspectedName {
    pub(super) name: Box<str>,
    pub(super) key: NameKey,
    pub(super) state: DoiStatus,
    pub(super) created_ms: u64,
    pub(super) links: Vec<ReportFinding>,
}

/// Inspects a record; `None` if the name is not visible.
pub(super) fn inspect(
    entry: &StoredRecord,
    context: &ReportContext<'_>,
    limits: &RecordLimits,
) -> Result<Option<InspectedName>, Error> {
    let (Some(state), Ok(key)) = (context.visible_status(entry)?, NameKey::new(&entry.name)) else {
        return Ok(None);
    };
    let registration = Registration::of_record(entry)?;
    let is_foreign = context.belongs_to_other(&registration);
    let is_visible = |value: &&HandleValue<'_>| is_readable(value, !is_foreign);
    let links = match entry.status {
        RecordStatus::Tombstone => Vec::new(),
        RecordStatus::Live => {
            let values = entry.values.iter().filter(is_visible);
            values.filter_map(|value| link_finding(&entry.name, value, context, limits)).collect()
        }
    };
    Ok(Some(InspectedName {
        name: entry.name.clone(),
        key,
        state,
        created_ms: registration.created_ms,
        links,
    }))
}

/// Finding for the link in a value, if it is invalid or not allowed.
fn link_finding(
    name: &str,
    value: &HandleValue<'_>,
    context: &ReportContext<'_>,
    limits: &RecordLimits,
) -> Option<ReportFinding> {
    let (code, detail) = match check_url_value(value, limits).and_then(|()| check_target_urls(value)) {
        Err(fault) => (fault.code(), format!("invalid URL: {fault}")),
        Ok(()) => {
            let rejection = context.allocation.check_value_hosts(value, "").err()?;
            (rejection.code, rejection.detail)
        }
    };
    let data = String::from_utf8_lossy(&value.data).into_owned();
    Some(ReportFinding::Link { name: name.into(), index: value.index, data, code, detail })
}

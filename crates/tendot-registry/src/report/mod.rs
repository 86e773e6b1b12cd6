//! Reports for prefix holders: resolved and never resolved names, failed resolutions, invalid links, confusable names.
//!
//! In reading order: this file has the reports and the summary, `inspect` the findings from one record, `resolution_stats`
//! the stored counts.

mod inspect;
mod resolution_stats;

pub use resolution_stats::{FailedResolutionCount, ResolutionCount, day_number, name_hash};

use inspect::{InspectedName, inspect};
use resolution_stats::FailedResolutionStats;
use tendot_store::{NameKey, RecordStatus, Store, StoredRecord};

use crate::authorization::Principal;
use crate::prefix::PrefixAllocation;
use crate::registration::{DoiStatus, Registration, RegistrationState};
use crate::rules::Rules;
use crate::validate::{has_mixed_scripts, lookalike_variants};
use crate::{CallContext, Error, Registry, RegistryError, ResultPage, cost};

/// Maximum number of records inspected per request.
const MAX_INSPECTED_RECORDS: usize = 1_000;

/// Kind of a prefix report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportKind {
    /// Registered names that were resolved.
    Resolved,
    /// Registered names that were never resolved.
    NeverResolved,
    /// Names whose resolution failed.
    FailedResolutions,
    /// Links that would be rejected today.
    Links,
    /// Names that are confusable with others.
    Confusable,
}

/// Finding of a prefix report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReportFinding {
    /// Resolved name.
    Resolved {
        /// Name in its original spelling.
        name: Box<str>,
        /// Number of resolutions.
        count: u64,
        /// First day, in days since 1970.
        first: u32,
        /// Last day, in days since 1970.
        last: u32,
    },
    /// Name that was never resolved.
    NeverResolved {
        /// Name in its original spelling.
        name: Box<str>,
        /// Time of registration, in milliseconds since 1970.
        created_ms: u64,
    },
    /// Name that was not found.
    FailedResolution {
        /// Name as requested.
        name: Box<str>,
        /// Number of resolutions.
        count: u64,
        /// First day, in days since 1970.
        first: u32,
        /// Last day, in days since 1970.
        last: u32,
        /// Current status, if it is visible to the caller.
        state: Option<DoiStatus>,
    },
    /// Link that would be rejected today.
    Link {
        /// Name in its original spelling.
        name: Box<str>,
        /// Index of the value.
        index: u32,
        /// Data of the value, lossily decoded.
        data: String,
        /// Code of the fault.
        code: &'static str,
        /// Description of the fault.
        detail: String,
    },
    /// Confusable name.
    Confusable {
        /// Name in its original spelling.
        name: Box<str>,
        /// Name it is confusable with; `None` if it mixes scripts.
        confusable_with: Option<Box<str>>,
    },
}

/// Totals of the reports of a prefix.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PrefixSummary {
    /// Registered names.
    pub registered: u64,
    /// Reserved names.
    pub reserved: u64,
    /// Retired names.
    pub retired: u64,
    /// Registered names that were resolved.
    pub resolved: u64,
    /// Total of these resolutions.
    pub resolutions: u64,
    /// Registered names that were never resolved.
    pub never_resolved: u64,
    /// Names whose resolution failed.
    pub failed_names: u64,
    /// Total of these resolutions.
    pub failed_resolutions: u64,
    /// Links that would be rejected today.
    pub invalid_links: u64,
    /// Names that are confusable with others.
    pub confusable: u64,
}

impl PrefixSummary {
    /// Adds the summary of another part of the prefix.
    pub const fn merge(&mut self, other: &Self) {
        self.registered += other.registered;
        self.reserved += other.reserved;
        self.retired += other.retired;
        self.resolved += other.resolved;
        self.resolutions = self.resolutions.saturating_add(other.resolutions);
        self.never_resolved += other.never_resolved;
        self.failed_names += other.failed_names;
        self.failed_resolutions += other.failed_resolutions;
        self.invalid_links += other.invalid_links;
        self.confusable += other.confusable;
    }
}

/// Prefix of a report, and the principal who reads it.
struct ReportContext<'a> {
    rules: &'a Rules,
    allocation: PrefixAllocation,
    principal: Principal,
}

impl ReportContext<'_> {
    fn prefix(&self) -> &str {
        &self.allocation.prefix.prefix
    }

    /// Whether a name belongs to another registrant than the holder of the prefix.
    fn belongs_to_other(&self, registration: &Registration) -> bool {
        let owner = registration.owner_id(&self.allocation.prefix);
        !self.principal.is_operator() && *owner != *self.allocation.holder.id
    }

    /// Status of a name; `None` if it is not visible.
    fn visible_status(&self, entry: &StoredRecord) -> Result<Option<DoiStatus>, Error> {
        let registration = Registration::of_record(entry)?;
        let is_hidden =
            registration.state == RegistrationState::Reserved && self.belongs_to_other(&registration);
        Ok((!is_hidden).then(|| DoiStatus::new(entry.status, registration.state)))
    }
}

impl Registry {
    /// Summary of the names of a prefix after one, and the cursor if there are more. Only for principals who act for the
    /// holder; otherwise not found.
    pub async fn prefix_summary(
        &self,
        prefix: &str,
        after: Option<&str>,
        call: CallContext<'_>,
    ) -> Result<(PrefixSummary, Option<Box<str>>), RegistryError> {
        let (rules, context) = (&self.rules, self.report_context(prefix, call).await?);
        let mut summary = PrefixSummary::default();
        if after.is_none() {
            let visit = |_, failed: FailedResolutionStats| {
                summary.failed_names += 1;
                summary.failed_resolutions = summary.failed_resolutions.saturating_add(failed.total());
                true
            };
            rules.visit_failed_resolutions(context.prefix(), None, visit).await?;
        }
        let (all, next) = context.inspect_names(after, usize::MAX, |_| true).await?;
        for inspected in &all {
            match inspected.state {
                DoiStatus::Reserved => summary.reserved += 1,
                DoiStatus::Retired | DoiStatus::Deleted => summary.retired += 1,
                DoiStatus::Registered => {
                    summary.registered += 1;
                    match rules.resolution_stats(context.prefix(), &inspected.key).await? {
                        None => summary.never_resolved += 1,
                        Some(stats) => {
                            summary.resolved += 1;
                            summary.resolutions = summary.resolutions.saturating_add(stats.count);
                        }
                    }
                }
            }
            summary.invalid_links += inspected.links.len() as u64;
            summary.confusable += u64::from(context.confusable_finding(inspected).await?.is_some());
        }
        Ok((summary, next))
    }

    /// Findings of a report after a name; all findings of one name come together. Only for principals who act for the holder;
    /// otherwise not found.
    pub async fn report(
        &self,
        kind: ReportKind,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        call: CallContext<'_>,
    ) -> Result<ResultPage<ReportFinding>, RegistryError> {
        let context = self.report_context(prefix, call).await?;
        if kind == ReportKind::FailedResolutions {
            return context.report_failed_resolutions(after, limit).await;
        }
        let is_wanted = |inspected: &InspectedName| match kind {
            ReportKind::Resolved | ReportKind::NeverResolved => inspected.state == DoiStatus::Registered,
            ReportKind::Links => !inspected.links.is_empty(),
            _ => !inspected.name.is_ascii() && inspected.state != DoiStatus::Retired,
        };
        let (all, mut next) = context.inspect_names(after, limit, is_wanted).await?;
        let mut items = Vec::new();
        for inspected in all {
            if items.len() >= limit {
                // Names without findings after the last one are inspected again.
                next = items.last().map(|last: &ReportFinding| last.name().into());
                break;
            }
            match kind {
                ReportKind::Links => items.extend(inspected.links),
                ReportKind::Confusable => items.extend(context.confusable_finding(&inspected).await?),
                _ => {
                    let stats = self.rules.resolution_stats(context.prefix(), &inspected.key).await?;
                    let (name, created_ms) = (inspected.name, inspected.created_ms);
                    items.extend(match stats {
                        Some(resolution_stats::ResolutionStats { count, first, last }) => {
                            Some(ReportFinding::Resolved { name, count, first, last })
                                .filter(|_| kind == ReportKind::Resolved)
                        }
                        None => Some(ReportFinding::NeverResolved { name, created_ms })
                            .filter(|_| kind == ReportKind::NeverResolved),
                    });
                }
            }
        }
        Ok(ResultPage { items, next })
    }

    /// Context of a report; not found unless the principal may read it.
    async fn report_context(
        &self,
        prefix: &str,
        mut call: CallContext<'_>,
    ) -> Result<ReportContext<'_>, RegistryError> {
        let (rules, not_found) = (&self.rules, || RegistryError::not_found("report", prefix));
        let principal = rules.principal(&mut call).await?;
        let allocation = rules.load_allocation(prefix, call.budget).await?.ok_or_else(not_found)?;
        if !principal.can_read_under(&allocation.prefix.prefix, &allocation.holder) {
            return Err(not_found());
        }
        call.budget.charge(cost::list(MAX_INSPECTED_RECORDS)).map_err(Error::from)?;
        Ok(ReportContext { rules, allocation, principal })
    }
}

impl ReportContext<'_> {
    async fn report_failed_resolutions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ResultPage<ReportFinding>, RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok()).map(|key| name_hash(&key));
        let (mut found, mut next) = (Vec::new(), None::<Box<str>>);
        self.rules
            .visit_failed_resolutions(self.prefix(), after, |_, failed| {
                if found.len() >= limit.min(MAX_INSPECTED_RECORDS) {
                    next = found.last().map(|last: &FailedResolutionStats| last.name.clone());
                    return false;
                }
                found.push(failed);
                true
            })
            .await?;
        let mut items = Vec::new();
        for failed in found {
            let entry = match NameKey::new(&failed.name) {
                Ok(key) => self.rules.store.get(&key).await?,
                Err(_) => None,
            };
            items.push(ReportFinding::FailedResolution {
                count: failed.total(),
                first: failed.days.keys().next().copied().unwrap_or_default(),
                last: failed.days.keys().next_back().copied().unwrap_or_default(),
                state: entry.map(|entry| self.visible_status(&entry)).transpose()?.flatten(),
                name: failed.name,
            });
        }
        Ok(ResultPage { items, next })
    }

    /// Inspects names of a prefix after one; returns at most `limit` that `is_wanted` accepts, and the cursor.
    async fn inspect_names(
        &self,
        after: Option<&str>,
        limit: usize,
        is_wanted: impl Fn(&InspectedName) -> bool + Send + Sync,
    ) -> Result<(Vec<InspectedName>, Option<Box<str>>), RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok());
        let (mut all, mut next, mut seen) = (Vec::new(), None, 0);
        let (mut last, mut problem) = (None, None);
        self.rules
            .store
            .scan_records(Some(self.prefix().as_bytes()), after.as_ref(), |entry| {
                if seen >= MAX_INSPECTED_RECORDS || all.len() >= limit {
                    next = last.take();
                    return false;
                }
                seen += 1;
                last = Some(entry.name.clone());
                match inspect(entry, self, &self.rules.settings.limits) {
                    Ok(inspected) => all.extend(inspected.filter(&is_wanted)),
                    Err(error) => problem = Some(error),
                }
                problem.is_none()
            })
            .await?;
        match problem {
            Some(error) => Err(error.into()),
            None => Ok((all, next)),
        }
    }

    /// Finding for a name that is confusable with another.
    async fn confusable_finding(
        &self,
        inspected: &InspectedName,
    ) -> Result<Option<ReportFinding>, RegistryError> {
        if inspected.name.is_ascii() || inspected.state == DoiStatus::Retired {
            return Ok(None);
        }
        for form in lookalike_variants(&inspected.name) {
            let Ok(key) = NameKey::new(&form) else { continue };
            let Some(entry) = self.rules.store.get(&key).await? else { continue };
            // Reserved names must not be disclosed here.
            let is_registered =
                entry.status == RecordStatus::Live && !crate::registration::is_reserved(&entry);
            if is_registered && key != inspected.key {
                return Ok(Some(ReportFinding::Confusable {
                    name: inspected.name.clone(),
                    confusable_with: Some(entry.name),
                }));
            }
        }
        let mixed = || ReportFinding::Confusable { name: inspected.name.clone(), confusable_with: None };
        Ok(has_mixed_scripts(&inspected.name).then(mixed))
    }
}

impl ReportFinding {
    /// Name of the finding.
    pub const fn name(&self) -> &str {
        match self {
            Self::Resolved { name, .. }
            | Self::NeverResolved { name, .. }
            | Self::FailedResolution { name, .. }
            | Self::Link { name, .. }
            | Self::Confusable { name, .. } => name,
        }
    }
}

//! What those who have a prefix should know of it: names that nobody asks for, names that are asked for and are not there,
//! links that are not right, names that can't be told from others. `figures` has what is counted for that.

mod figures;
mod look;

pub use figures::{FailedResolutionCount, ResolutionCount, day_number, name_hash};
use look::{InspectedName, inspect};
use tendot_proto::Budget;
use tendot_store::{NameKey, RecordStatus, Store, StoredRecord};

use crate::doi::{DoiStatus, Registration, RegistrationState};
use crate::party::{PrefixAllocation, Principal};
use crate::validate::{has_mixed_scripts, normalization_variants};
use crate::{Caller, Error, Registry, RegistryError, price};

/// Records that are looked at in one call.
const MAX_INSPECTED_RECORDS: usize = 1_000;

/// Kind of a prefix report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportKind {
    /// Names that are registered and were resolved.
    Resolved,
    /// Names that are registered and never were.
    NeverResolved,
    /// Names that were asked for and not found.
    Failed,
    /// Links that would not be taken today.
    Links,
    /// Names that can't be told from others.
    Confusable,
}

/// Finding of a prefix report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReportFinding {
    /// A name that was resolved.
    Resolved {
        /// As it was first spelled.
        name: Box<str>,
        /// How often.
        count: u64,
        /// The first day, counted from 1970 on.
        first: u32,
        /// The last day.
        last: u32,
    },
    /// A name that was never resolved.
    NeverResolved {
        /// As it was first spelled.
        name: Box<str>,
        /// Since when it is there, in milliseconds since 1970.
        created: u64,
    },
    /// A name that was not found.
    Failed {
        /// As it was asked for.
        name: Box<str>,
        /// How often.
        count: u64,
        /// The first day, counted from 1970 on.
        first: u32,
        /// The last day.
        last: u32,
        /// What it is now, if who asks may know.
        state: Option<DoiStatus>,
    },
    /// A link that would not be taken today.
    Link {
        /// As it was first spelled.
        name: Box<str>,
        /// Where in its record.
        index: u32,
        /// The link, as far as it is text.
        data: String,
        /// What is wrong, for programs.
        code: &'static str,
        /// What is wrong, for people.
        why: String,
    },
    /// A name that can't be told from another.
    Confusable {
        /// As it was first spelled.
        name: Box<str>,
        /// The other; none if it has letters of several scripts, by which it could look like many.
        with: Option<Box<str>>,
    },
}

/// Findings of one report request, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct ReportFindings {
    /// The lines; there may be none, and yet more to come.
    pub items: Vec<ReportFinding>,
    /// What to ask for as `after`, if there may be more.
    pub next: Option<Box<str>>,
}

/// Totals of the reports of a prefix.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PrefixSummary {
    /// Names that resolve.
    pub registered: u64,
    /// Names that do not resolve yet.
    pub reserved: u64,
    /// Names that do not resolve any more.
    pub ended: u64,
    /// Those that resolve and ever were resolved.
    pub resolved: u64,
    /// How often all of these were.
    pub resolutions: u64,
    /// Those that resolve and never were.
    pub never_resolved: u64,
    /// Names that were asked for and not found.
    pub failed: u64,
    /// How often all of these were.
    pub failures: u64,
    /// Links that would not be taken today.
    pub links: u64,
    /// Names that can't be told from others.
    pub confusable: u64,
}

impl PrefixSummary {
    /// Adds what is in another part of the prefix.
    pub const fn merge(&mut self, other: &Self) {
        self.registered += other.registered;
        self.reserved += other.reserved;
        self.ended += other.ended;
        self.resolved += other.resolved;
        self.resolutions = self.resolutions.saturating_add(other.resolutions);
        self.never_resolved += other.never_resolved;
        self.failed += other.failed;
        self.failures += other.failures;
        self.links += other.links;
        self.confusable += other.confusable;
    }
}

/// Prefix of a report, and the principal who reads it.
struct ReportContext {
    allocation: PrefixAllocation,
    standing: Principal,
}

impl ReportContext {
    fn prefix(&self) -> &str {
        &self.allocation.prefix.prefix
    }

    /// Whether a name is that of another registrant than the one who has the prefix.
    fn belongs_to_other(&self, deposit: &Registration) -> bool {
        let owner = deposit.owner.as_ref();
        !self.standing.is_operator() && owner.is_some_and(|owner| **owner != *self.allocation.holder.id)
    }

    /// What is seen of a name; none if who reads is not to know of it.
    fn visible_status(&self, entry: &StoredRecord) -> Result<Option<DoiStatus>, Error> {
        let deposit = Registration::of_record(entry)?;
        Ok(match (entry.state, deposit.state) {
            (RecordStatus::Live, RegistrationState::Registered) => Some(DoiStatus::Registered),
            (_, RegistrationState::Reserved) if self.belongs_to_other(&deposit) => None,
            (RecordStatus::Live, RegistrationState::Reserved) => Some(DoiStatus::Reserved),
            (RecordStatus::Tombstone, _) => Some(DoiStatus::Tombstone),
        })
    }
}

impl Registry {
    /// A part of the summary of a prefix, of the names after one, and where to go on, if there are more. For those who act for
    /// its registrant; to others there is none.
    pub async fn prefix_summary(
        &self,
        prefix: &str,
        after: Option<&str>,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<(PrefixSummary, Option<Box<str>>), RegistryError> {
        let reader = self.report_context(prefix, caller, at, work).await?;
        let mut summary = PrefixSummary::default();
        if after.is_none() {
            self.visit_failed_resolutions(reader.prefix(), None, |_, failed| {
                summary.failed += 1;
                summary.failures = summary.failures.saturating_add(failed.total());
                true
            })
            .await?;
        }
        let (all, next) = self.inspect_names(&reader, after, usize::MAX, |_| true).await?;
        for looked in &all {
            match looked.state {
                DoiStatus::Reserved => summary.reserved += 1,
                DoiStatus::Tombstone | DoiStatus::Removed => summary.ended += 1,
                DoiStatus::Registered => {
                    summary.registered += 1;
                    match self.resolution_stats(reader.prefix(), &looked.key).await? {
                        None => summary.never_resolved += 1,
                        Some(noted) => {
                            summary.resolved += 1;
                            summary.resolutions = summary.resolutions.saturating_add(noted.count);
                        }
                    }
                }
            }
            summary.links += looked.links.len() as u64;
            summary.confusable += u64::from(self.confusable_finding(looked).await?.is_some());
        }
        Ok((summary, next))
    }

    /// Some lines of a report, about what comes after a name; where they are about one name, all of them. For those who act for
    /// the registrant of the prefix; to others there is none.
    #[allow(
        clippy::too_many_arguments,
        reason = "which report, as whom and when: none of them stands for another"
    )]
    pub async fn report(
        &self,
        (report, prefix): (ReportKind, &str),
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<ReportFindings, RegistryError> {
        let reader = self.report_context(prefix, caller, at, work).await?;
        if report == ReportKind::Failed {
            return self.report_failed_resolutions(&reader, after, limit).await;
        }
        let is_wanted = |looked: &InspectedName| match report {
            ReportKind::Resolved | ReportKind::NeverResolved => looked.state == DoiStatus::Registered,
            ReportKind::Links => !looked.links.is_empty(),
            _ => !looked.name.is_ascii() && looked.state != DoiStatus::Tombstone,
        };
        let (all, mut next) = self.inspect_names(&reader, after, limit, is_wanted).await?;
        let mut items = Vec::new();
        for looked in all {
            if items.len() >= limit {
                // What was looked at and had nothing to tell is looked at again.
                next = items.last().map(|last: &ReportFinding| last.name().into());
                break;
            }
            match report {
                ReportKind::Links => items.extend(looked.links),
                ReportKind::Confusable => items.extend(self.confusable_finding(&looked).await?),
                _ => {
                    let noted = self.resolution_stats(reader.prefix(), &looked.key).await?;
                    let (name, created) = (looked.name, looked.created);
                    items.extend(match noted {
                        Some(figures::ResolutionStats { count, first, last }) => {
                            Some(ReportFinding::Resolved { name, count, first, last })
                                .filter(|_| report == ReportKind::Resolved)
                        }
                        None => Some(ReportFinding::NeverResolved { name, created })
                            .filter(|_| report == ReportKind::NeverResolved),
                    });
                }
            }
        }
        Ok(ReportFindings { items, next })
    }

    async fn report_failed_resolutions(
        &self,
        reader: &ReportContext,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ReportFindings, RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok()).map(|key| name_hash(&key));
        let (mut found, mut next) = (Vec::new(), None::<Box<str>>);
        self.visit_failed_resolutions(reader.prefix(), after, |_, failed| {
            if found.len() >= limit.min(MAX_INSPECTED_RECORDS) {
                next = found.last().map(|last: &figures::FailedResolutionStats| last.name.clone());
                return false;
            }
            found.push(failed);
            true
        })
        .await?;
        let mut items = Vec::new();
        for failed in found {
            let entry = match NameKey::new(&failed.name) {
                Ok(key) => self.store.get(&key).await?,
                Err(_) => None,
            };
            items.push(ReportFinding::Failed {
                count: failed.total(),
                first: failed.days.keys().next().copied().unwrap_or_default(),
                last: failed.days.keys().next_back().copied().unwrap_or_default(),
                state: entry.map(|entry| reader.visible_status(&entry)).transpose()?.flatten(),
                name: failed.name,
            });
        }
        Ok(ReportFindings { items, next })
    }

    /// Who reads the reports of a prefix. To those whom they do not concern there is none.
    async fn report_context(
        &self,
        prefix: &str,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<ReportContext, RegistryError> {
        let none = || RegistryError::not_found("report of", prefix);
        let standing = self.principal(caller, at, work).await?;
        let allocation = self.allocation(prefix, work).await?.ok_or_else(none)?;
        if !standing.can_read_under(&allocation.prefix.prefix, &allocation.holder) {
            return Err(none());
        }
        work.charge(price::list(MAX_INSPECTED_RECORDS)).map_err(Error::from)?;
        Ok(ReportContext { allocation, standing })
    }

    /// Looks at some names of a prefix after one: those that are wanted, at most `limit`, and where to go on.
    async fn inspect_names(
        &self,
        reader: &ReportContext,
        after: Option<&str>,
        limit: usize,
        is_wanted: impl Fn(&InspectedName) -> bool + Send + Sync,
    ) -> Result<(Vec<InspectedName>, Option<Box<str>>), RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok());
        let (mut all, mut next, mut seen) = (Vec::new(), None, 0);
        let (mut last, mut problem) = (None, None);
        self.store
            .scan_records(Some(reader.prefix().as_bytes()), after.as_ref(), |entry| {
                if seen >= MAX_INSPECTED_RECORDS || all.len() >= limit {
                    next = last.take();
                    return false;
                }
                seen += 1;
                last = Some(entry.name.clone());
                match inspect(entry, reader, &self.settings.limits) {
                    Ok(looked) => all.extend(looked.filter(&is_wanted)),
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

    /// What a name can't be told from.
    async fn confusable_finding(
        &self,
        looked: &InspectedName,
    ) -> Result<Option<ReportFinding>, RegistryError> {
        if looked.name.is_ascii() || looked.state == DoiStatus::Tombstone {
            return Ok(None);
        }
        for form in normalization_variants(&looked.name) {
            let Ok(key) = NameKey::new(&form) else { continue };
            let Some(entry) = self.store.get(&key).await? else { continue };
            // Of those that are only reserved nobody is to learn by this.
            let is_registered = entry.state == RecordStatus::Live && !crate::doi::is_reserved(&entry);
            if is_registered && key != looked.key {
                return Ok(Some(ReportFinding::Confusable {
                    name: looked.name.clone(),
                    with: Some(entry.name),
                }));
            }
        }
        let mixed = || ReportFinding::Confusable { name: looked.name.clone(), with: None };
        Ok(has_mixed_scripts(&looked.name).then(mixed))
    }
}

impl ReportFinding {
    /// The name that it is about.
    pub const fn name(&self) -> &str {
        match self {
            Self::Resolved { name, .. }
            | Self::NeverResolved { name, .. }
            | Self::Failed { name, .. }
            | Self::Link { name, .. }
            | Self::Confusable { name, .. } => name,
        }
    }
}

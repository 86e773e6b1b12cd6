//! What those who have a prefix should know of it: names that nobody asks for, names that are asked for and are not there,
//! links that are not right, names that can't be told from others. `figures` has what is counted for that.

mod figures;
mod look;

pub use figures::{FailedResolutionCount, ResolutionCount, day, fingerprint};
use look::{InspectedName, look};
use tendot_proto::Work;
use tendot_store::{Entry, Key, State, Store};

use crate::doi::{Deposit, DoiStatus, Stage};
use crate::party::{PrefixAllocation, Principal};
use crate::validate::{is_mixed, other_forms};
use crate::{Caller, Error, Refusal, Registry, price};

/// Records that are looked at in one call.
const LOOKED_AT: usize = 1_000;

/// A report of a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Report {
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

/// A line of a report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Finding {
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

/// Some lines of a report, and where to go on.
#[derive(Clone, Debug, Default)]
pub struct ReportFindings {
    /// The lines; there may be none, and yet more to come.
    pub items: Vec<Finding>,
    /// What to ask for as `after`, if there may be more.
    pub next: Option<Box<str>>,
}

/// How much there is to report.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Summary {
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

impl Summary {
    /// Adds what is in another part of the prefix.
    pub const fn add(&mut self, other: &Self) {
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

/// A prefix, and who reads its reports.
struct Reader {
    allocation: PrefixAllocation,
    standing: Principal,
}

impl Reader {
    fn prefix(&self) -> &str {
        &self.allocation.prefix.prefix
    }

    /// Whether a name is that of another registrant than the one who has the prefix.
    fn is_others(&self, deposit: &Deposit) -> bool {
        let owner = deposit.owner.as_ref();
        !self.standing.is_operator() && owner.is_some_and(|owner| **owner != *self.allocation.holder.id)
    }

    /// What is seen of a name; none if who reads is not to know of it.
    fn visible_status(&self, entry: &Entry) -> Result<Option<DoiStatus>, Error> {
        let deposit = Deposit::of(entry)?;
        Ok(match (entry.state, deposit.state) {
            (State::Live, Stage::Registered) => Some(DoiStatus::Registered),
            (_, Stage::Reserved) if self.is_others(&deposit) => None,
            (State::Live, Stage::Reserved) => Some(DoiStatus::Reserved),
            (State::Tombstone, _) => Some(DoiStatus::Tombstone),
        })
    }
}

impl Registry {
    /// A part of the summary of a prefix, of the names after one, and where to go on, if there are more. For those who act for
    /// its registrant; to others there is none.
    pub async fn summary(
        &self,
        prefix: &str,
        after: Option<&str>,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<(Summary, Option<Box<str>>), Refusal> {
        let reader = self.reader(prefix, caller, at, work).await?;
        let mut summary = Summary::default();
        if after.is_none() {
            self.visit_failed_resolutions(reader.prefix(), None, |_, failed| {
                summary.failed += 1;
                summary.failures = summary.failures.saturating_add(failed.total());
                true
            })
            .await?;
        }
        let (all, next) = self.look_at(&reader, after, usize::MAX, |_| true).await?;
        for looked in &all {
            match looked.state {
                DoiStatus::Reserved => summary.reserved += 1,
                DoiStatus::Tombstone | DoiStatus::Removed => summary.ended += 1,
                DoiStatus::Registered => {
                    summary.registered += 1;
                    match self.resolved(reader.prefix(), &looked.key).await? {
                        None => summary.never_resolved += 1,
                        Some(noted) => {
                            summary.resolved += 1;
                            summary.resolutions = summary.resolutions.saturating_add(noted.count);
                        }
                    }
                }
            }
            summary.links += looked.links.len() as u64;
            summary.confusable += u64::from(self.confusable(looked).await?.is_some());
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
        (report, prefix): (Report, &str),
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<ReportFindings, Refusal> {
        let reader = self.reader(prefix, caller, at, work).await?;
        if report == Report::Failed {
            return self.report_failed_resolutions(&reader, after, limit).await;
        }
        let is_wanted = |looked: &InspectedName| match report {
            Report::Resolved | Report::NeverResolved => looked.state == DoiStatus::Registered,
            Report::Links => !looked.links.is_empty(),
            _ => !looked.name.is_ascii() && looked.state != DoiStatus::Tombstone,
        };
        let (all, mut next) = self.look_at(&reader, after, limit, is_wanted).await?;
        let mut items = Vec::new();
        for looked in all {
            if items.len() >= limit {
                // What was looked at and had nothing to tell is looked at again.
                next = items.last().map(|last: &Finding| last.name().into());
                break;
            }
            match report {
                Report::Links => items.extend(looked.links),
                Report::Confusable => items.extend(self.confusable(&looked).await?),
                _ => {
                    let noted = self.resolved(reader.prefix(), &looked.key).await?;
                    let (name, created) = (looked.name, looked.created);
                    items.extend(match noted {
                        Some(figures::Resolved { count, first, last }) => {
                            Some(Finding::Resolved { name, count, first, last })
                                .filter(|_| report == Report::Resolved)
                        }
                        None => Some(Finding::NeverResolved { name, created })
                            .filter(|_| report == Report::NeverResolved),
                    });
                }
            }
        }
        Ok(ReportFindings { items, next })
    }

    async fn report_failed_resolutions(
        &self,
        reader: &Reader,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ReportFindings, Refusal> {
        let after = after.and_then(|after| Key::new(after).ok()).map(|key| fingerprint(&key));
        let (mut found, mut next) = (Vec::new(), None::<Box<str>>);
        self.visit_failed_resolutions(reader.prefix(), after, |_, failed| {
            if found.len() >= limit.min(LOOKED_AT) {
                next = found.last().map(|last: &figures::Failed| last.name.clone());
                return false;
            }
            found.push(failed);
            true
        })
        .await?;
        let mut items = Vec::new();
        for failed in found {
            let entry = match Key::new(&failed.name) {
                Ok(key) => self.store.get(&key).await?,
                Err(_) => None,
            };
            items.push(Finding::Failed {
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
    async fn reader(
        &self,
        prefix: &str,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<Reader, Refusal> {
        let none = || Refusal::not_found("report of", prefix);
        let standing = self.standing(caller, at, work).await?;
        let allocation = self.allocation(prefix, work).await?.ok_or_else(none)?;
        if !standing.can_read_under(&allocation.prefix.prefix, &allocation.holder) {
            return Err(none());
        }
        work.spend(price::names(LOOKED_AT)).map_err(Error::from)?;
        Ok(Reader { allocation, standing })
    }

    /// Looks at some names of a prefix after one: those that are wanted, at most `limit`, and where to go on.
    async fn look_at(
        &self,
        reader: &Reader,
        after: Option<&str>,
        limit: usize,
        is_wanted: impl Fn(&InspectedName) -> bool + Send + Sync,
    ) -> Result<(Vec<InspectedName>, Option<Box<str>>), Refusal> {
        let after = after.and_then(|after| Key::new(after).ok());
        let (mut all, mut next, mut seen) = (Vec::new(), None, 0);
        let (mut last, mut problem) = (None, None);
        self.store
            .visit(Some(reader.prefix().as_bytes()), after.as_ref(), |entry| {
                if seen >= LOOKED_AT || all.len() >= limit {
                    next = last.take();
                    return false;
                }
                seen += 1;
                last = Some(entry.name.clone());
                match look(entry, reader, &self.settings.limits) {
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
    async fn confusable(&self, looked: &InspectedName) -> Result<Option<Finding>, Refusal> {
        if looked.name.is_ascii() || looked.state == DoiStatus::Tombstone {
            return Ok(None);
        }
        for form in other_forms(&looked.name) {
            let Ok(key) = Key::new(&form) else { continue };
            let Some(entry) = self.store.get(&key).await? else { continue };
            // Of those that are only reserved nobody is to learn by this.
            let is_registered = entry.state == State::Live && !crate::doi::is_reserved(&entry);
            if is_registered && key != looked.key {
                return Ok(Some(Finding::Confusable { name: looked.name.clone(), with: Some(entry.name) }));
            }
        }
        let mixed = || Finding::Confusable { name: looked.name.clone(), with: None };
        Ok(is_mixed(&looked.name).then(mixed))
    }
}

impl Finding {
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

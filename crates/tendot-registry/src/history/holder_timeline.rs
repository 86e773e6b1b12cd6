//! Holders of a prefix over time.

use tendot_proto::{Budget, Handle};
use tendot_store::{HistoryOrder, LogEntry, NameKey, PriorState, Store};

use crate::prefix::{Prefix, is_numeric_prefix};
use crate::rules::RecordReader;
use crate::{Error, cost, party};

/// Holder of a prefix: registrant and agency.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PrefixHolder {
    /// Id of the registrant.
    pub registrant: Box<str>,
    /// Code of its agency.
    pub agency: Box<str>,
}

/// Maximum number of changes of a prefix per request, as page length and number of pages.
const TIMELINE_PAGE_LEN: usize = 100;
const MAX_TIMELINE_PAGES: usize = 4;

impl RecordReader {
    /// Holders of the prefix of a name since its creation, within the requested part of the history: up to `bound`.
    pub(super) async fn holder_timeline(
        &self,
        name: Handle<'_>,
        birth: u64,
        order: HistoryOrder,
        bound: Option<u64>,
        budget: &mut Budget,
    ) -> Result<HolderTimeline, Error> {
        let mut timeline = HolderTimeline::default();
        let Ok(prefix) = std::str::from_utf8(name.prefix()) else { return Ok(timeline) };
        if !is_numeric_prefix(prefix) {
            return Ok(timeline);
        }
        let Ok(key) = NameKey::new(&format!("0.NA/{prefix}")) else { return Ok(timeline) };
        let (mut order, bound) = match order {
            HistoryOrder::OldestFirst { after } => {
                (HistoryOrder::OldestFirst { after: after.max(birth) }, bound.unwrap_or(u64::MAX))
            }
            newest @ HistoryOrder::NewestFirst { .. } => (newest, bound.unwrap_or_default().max(birth)),
        };
        // In newest-first order, the part ends where the scan starts.
        if let HistoryOrder::NewestFirst { before } = order {
            timeline.current = prefix_holder(&self.state_after(&key, before.saturating_sub(1)).await?);
        }
        for page in 1..=MAX_TIMELINE_PAGES {
            budget.charge(cost::LOOKUP)?;
            let history = self.store.history(&key, order, TIMELINE_PAGE_LEN).await?;
            for past in history.entries {
                budget.charge(cost::LOOKUP)?;
                let (sequence, before) = (past.log_entry.sequence, prefix_holder(&past.prior));
                match order {
                    HistoryOrder::OldestFirst { .. } if sequence > bound => {
                        timeline.current = before;
                        return Ok(timeline);
                    }
                    HistoryOrder::NewestFirst { .. } if sequence < bound => {
                        timeline.holder_changes.reverse();
                        return Ok(timeline);
                    }
                    _ => timeline.holder_changes.push((past.log_entry, before)),
                }
            }
            let Some(next) = history.next else { break };
            if page == MAX_TIMELINE_PAGES {
                timeline.truncated_at = Some(next);
            }
            order = match order {
                HistoryOrder::OldestFirst { .. } => HistoryOrder::OldestFirst { after: next },
                HistoryOrder::NewestFirst { .. } => HistoryOrder::NewestFirst { before: next },
            };
        }
        match order {
            HistoryOrder::OldestFirst { after } => {
                let last = timeline.holder_changes.last().map_or(after, |(line, _)| line.sequence);
                timeline.current = prefix_holder(&self.state_after(&key, last).await?);
            }
            HistoryOrder::NewestFirst { .. } => timeline.holder_changes.reverse(),
        }
        Ok(timeline)
    }
}

/// Holders of a prefix over time, oldest first.
#[derive(Debug, Default)]
pub(super) struct HolderTimeline {
    pub(super) holder_changes: Vec<(LogEntry, Option<PrefixHolder>)>,
    /// Holder after the last change.
    pub(super) current: Option<PrefixHolder>,
    /// Sequence number of the last visited change, if there are more.
    pub(super) truncated_at: Option<u64>,
}

impl HolderTimeline {
    /// Holder at a change.
    pub(super) fn holder_at(&self, sequence: u64) -> Option<&PrefixHolder> {
        let later = self.holder_changes.iter().find(|(line, _)| line.sequence > sequence);
        later.map_or(&self.current, |(_, before)| before).as_ref()
    }

    /// Transfers with the previous and the new holder.
    pub(super) fn transfers(&self) -> impl Iterator<Item = (&LogEntry, &PrefixHolder, &PrefixHolder)> {
        self.holder_changes.iter().enumerate().filter_map(|(number, (line, before))| {
            let after = self.holder_changes.get(number + 1).map_or(&self.current, |(_, after)| after);
            let (from, to) = (before.as_ref()?, after.as_ref()?);
            (from != to).then_some((line, from, to))
        })
    }
}

/// Holder in a state of the prefix record.
fn prefix_holder(record: &PriorState) -> Option<PrefixHolder> {
    let PriorState::Record(entry) = record else { return None };
    let Prefix { registrant, agency, .. } = party::decode(entry).ok()?;
    Some(PrefixHolder { registrant, agency })
}

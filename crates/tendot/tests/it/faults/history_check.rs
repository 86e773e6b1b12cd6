//! The history of a name explains every outcome and every read: there is an order of the operations that agrees with the history
//! and with what the clients have observed (linearizability).
//!
//! Most changes are identified by their URL, which one operation writes. The history has their order, so it suffices to compare
//! it with the times of the operations.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::ledger::{Action, ObservedState, Operation, Outcome, operation_of_url};

/// State of a name in its history.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NameState {
    pub(super) state: ObservedState,
    /// Registrant of a registered name.
    pub(super) registrant: Option<String>,
}

impl NameState {
    const ABSENT: Self = Self { state: ObservedState::Absent, registrant: None };

    /// State `before` or `after` a change.
    fn from_json(snapshot: &Json) -> Self {
        if snapshot.is_null() {
            return Self::ABSENT;
        }
        let values = snapshot["values"].as_array().unwrap();
        let url = values.iter().find(|value| value["type"] == "URL").map(|value| &value["data"]["value"]);
        let state = match snapshot["state"].as_str() {
            Some("tombstone") => ObservedState::Retired,
            _ => ObservedState::Url(url.and_then(Json::as_str).unwrap_or_default().to_owned()),
        };
        Self { state, registrant: snapshot["registrant"].as_str().map(str::to_owned) }
    }
}

/// Change in the history of a name.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) sequence: u64,
    pub(super) kind: String,
    before: NameState,
    after: NameState,
}

impl Change {
    /// Change in the response of `/api/v1/history`.
    pub(super) fn from_json(item: &Json) -> Self {
        Self {
            sequence: item["seq"].as_u64().unwrap(),
            kind: item["kind"].as_str().unwrap().to_owned(),
            before: NameState::from_json(&item["before"]),
            after: NameState::from_json(&item["after"]),
        }
    }

    /// URL that the change has written, if it has written one.
    fn written_url(&self) -> Option<&str> {
        match &self.after.state {
            ObservedState::Url(url) if self.after.state != self.before.state => Some(url),
            _ => None,
        }
    }
}

/// Name, its history, and the operations of all clients on it.
#[derive(Debug)]
pub(super) struct HistoryChecker<'l> {
    name: &'l str,
    history: &'l [Change],
    operations: &'l [&'l Operation],
    /// Operation of each change, if it is identified by its URL.
    authors: Vec<Option<&'l Operation>>,
}

impl<'l> HistoryChecker<'l> {
    /// Checks the history of a name; returns its final state.
    pub(super) fn check(
        name: &'l str,
        history: &'l [Change],
        operations: &'l [&'l Operation],
    ) -> Result<NameState, String> {
        let mut checker = Self { name, history, operations, authors: Vec::new() };
        checker.check_chain()?;
        checker.identify()?;
        checker.check_order()?;
        checker.match_others()?;
        for operation in operations {
            if let Action::Read { observed } = &operation.action
                && operation.outcome == Outcome::Acknowledged
            {
                checker.check_read(operation, observed)?;
            }
        }
        Ok(history.last().map_or(NameState::ABSENT, |change| change.after.clone()))
    }

    fn error<T>(&self, reason: &str) -> Result<T, String> {
        let lines = self.operations.iter().map(|operation| format!("  {operation:?}\n"));
        let changes = self.history.iter().map(|change| format!("  {change:?}\n"));
        Err(format!(
            "{}: {reason}\noperations:\n{}history:\n{}",
            self.name,
            lines.collect::<String>(),
            changes.collect::<String>()
        ))
    }

    /// Each change begins where the one before ended.
    fn check_chain(&self) -> Result<(), String> {
        let (mut state, mut sequence) = (&NameState::ABSENT, 0);
        for change in self.history {
            if change.before != *state || change.sequence <= sequence {
                return self.error(&format!("change {} does not follow the one before", change.sequence));
            }
            let is_absent = state.state == ObservedState::Absent;
            let is_kind = match &change.after.state {
                ObservedState::Absent => !is_absent && change.kind == "remove",
                ObservedState::Retired => !is_absent && change.kind == "tombstone",
                ObservedState::Url(_) => change.kind == if is_absent { "create" } else { "update" },
            };
            if !is_kind || state.state == ObservedState::Retired {
                return self.error(&format!("change {} is impossible", change.sequence));
            }
            (state, sequence) = (&change.after, change.sequence);
        }
        Ok(())
    }

    /// Finds the operation of each URL: applied once, unless it was refused.
    fn identify(&mut self) -> Result<(), String> {
        let mut applied = BTreeSet::new();
        for change in self.history {
            let Some(url) = change.written_url() else {
                self.authors.push(None);
                continue;
            };
            let id = operation_of_url(url);
            let author = self.operations.iter().find(|operation| Some(operation.id) == id);
            let Some(author) = author else {
                return self.error(&format!("change {} has no operation", change.sequence));
            };
            let is_possible = match author.action {
                Action::Create => change.kind == "create",
                Action::Update => change.kind == "update",
                Action::Put => true,
                _ => false,
            };
            if !is_possible || author.outcome == Outcome::Refused || !applied.insert(author.id) {
                return self.error(&format!(
                    "change {}: operation {} was refused, or applied twice",
                    change.sequence, author.id
                ));
            }
            self.authors.push(Some(author));
        }
        let writes = |action: &Action| matches!(action, Action::Create | Action::Update | Action::Put);
        let lost = self.operations.iter().find(|operation| {
            writes(&operation.action)
                && operation.outcome == Outcome::Acknowledged
                && !applied.contains(&operation.id)
        });
        match lost {
            Some(lost) => self.error(&format!("operation {} was acknowledged and is lost", lost.id)),
            None => Ok(()),
        }
    }

    /// The history does not contradict the times of the operations.
    fn check_order(&self) -> Result<(), String> {
        let mut latest_start = 0;
        for author in self.authors.iter().flatten() {
            latest_start = latest_start.max(author.started);
            if author.ended.is_some_and(|ended| ended < latest_start) {
                return self.error(&format!("operation {} took effect after its end", author.id));
            }
        }
        Ok(())
    }

    /// Times between which the operation of a change has taken effect, by the changes around it.
    fn window(&self, position: usize) -> (u64, u64) {
        let (before, after) = self.authors.split_at(position);
        let first = before.iter().flatten().map(|author| author.started).max().unwrap_or_default();
        let last = after.iter().flatten().filter_map(|author| author.ended).min().unwrap_or(u64::MAX);
        (first, last)
    }

    /// Assigns the other changes, deletions and transfers, to operations that fit: every change to one, and every acknowledged
    /// operation to a change (bipartite matching).
    fn match_others(&mut self) -> Result<(), String> {
        let is_other = |operation: &&&Operation| {
            let is_other = matches!(operation.action, Action::Delete | Action::Transfer { .. });
            is_other && operation.outcome != Outcome::Refused
        };
        let mut operations: Vec<&Operation> = self.operations.iter().filter(is_other).copied().collect();
        // An assigned operation stays assigned.
        operations.sort_by_key(|operation| operation.outcome != Outcome::Acknowledged);
        let fitting: Vec<_> = operations.iter().map(|operation| self.fitting_changes(operation)).collect();
        let mut owners: Vec<Option<usize>> = vec![None; self.history.len()];
        for (number, operation) in operations.iter().enumerate() {
            let is_assigned = assign(number, &fitting, &mut owners, &mut BTreeSet::new());
            if !is_assigned && operation.outcome == Outcome::Acknowledged {
                return self.error(&format!("operation {} was acknowledged and is lost", operation.id));
            }
        }
        for (position, owner) in owners.into_iter().enumerate() {
            let owner = owner.map(|number| operations[number]);
            let change = &self.history[position];
            if owner.is_none() && self.authors[position].is_none() {
                return self.error(&format!("change {} has no operation", change.sequence));
            }
            // Only one operation can have retired the name, so this is the one.
            let is_known = |owner: &&Operation| owner.outcome == Outcome::Acknowledged;
            if let Some(owner) = owner.filter(is_known).filter(|_| change.kind == "tombstone") {
                self.authors[position] = Some(owner);
            }
        }
        Ok(())
    }

    /// Positions of the deletions and transfers that may be the effect of an operation.
    fn fitting_changes(&self, operation: &Operation) -> Vec<usize> {
        let is_fitting = |position: &usize| {
            let after = &self.history[*position].after;
            let is_same = match &operation.action {
                Action::Delete => !matches!(after.state, ObservedState::Url(_)),
                Action::Transfer { to } => after.registrant.as_ref() == Some(to),
                _ => false,
            };
            let (first, last) = self.window(*position);
            let is_then = operation.started <= last && operation.ended.is_none_or(|ended| ended >= first);
            self.authors[*position].is_none() && is_same && is_then
        };
        (0..self.history.len()).filter(is_fitting).collect()
    }

    /// A read returns a state that the name had between its begin and its end. Acknowledgements count at the same server only:
    /// others that share the database may be behind for a moment.
    fn check_read(&self, read: &Operation, observed: &ObservedState) -> Result<(), String> {
        let is_visible = |author: &Operation| {
            let is_acknowledged = author.outcome == Outcome::Acknowledged && author.server == read.server;
            is_acknowledged && author.ended.is_some_and(|ended| ended < read.started)
        };
        let states =
            std::iter::once(&NameState::ABSENT).chain(self.history.iter().map(|change| &change.after));
        let is_possible = states.enumerate().any(|(position, state)| {
            let (before, after) = self.authors.split_at(position);
            let is_future =
                before.iter().flatten().any(|author| read.ended.is_some_and(|end| end < author.started));
            let is_past = after.iter().flatten().any(|author| is_visible(author));
            state.state == *observed && !is_future && !is_past
        });
        if is_possible {
            return Ok(());
        }
        self.error(&format!("read {} returned a state that the name did not have then", read.id))
    }
}

/// Assigns an operation to one of its changes, and operations that are in the way to others (augmenting path).
fn assign(
    operation: usize,
    fitting: &[Vec<usize>],
    owners: &mut [Option<usize>],
    visited: &mut BTreeSet<usize>,
) -> bool {
    for change in &fitting[operation] {
        if !visited.insert(*change) {
            continue;
        }
        if owners[*change].is_none_or(|owner| assign(owner, fitting, owners, visited)) {
            owners[*change] = Some(operation);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ledger::url;
    use super::*;

    const NAME: &str = "10.1/n";

    fn operation(id: usize, action: Action, times: (u64, u64), outcome: Outcome) -> Operation {
        let ended = (outcome != Outcome::Unknown).then_some(times.1);
        Operation { id, name: NAME.into(), action, server: 0, started: times.0, ended, outcome }
    }

    /// History in which operations write their URLs, and `None` retires the name.
    fn history(writes: &[Option<usize>]) -> Vec<Change> {
        let mut before = Json::Null;
        let changes = writes.iter().enumerate().map(|(number, write)| {
            let after = match write {
                Some(id) => {
                    json!({"state": "registered", "values": [{"type": "URL", "data": {"value": url(*id)}}]})
                }
                None => json!({"state": "tombstone", "values": []}),
            };
            let kind = match (&before, write) {
                (_, None) => "tombstone",
                (Json::Null, _) => "create",
                _ => "update",
            };
            let item = json!({"seq": number + 1, "kind": kind, "before": before, "after": after});
            before = after;
            Change::from_json(&item)
        });
        changes.collect()
    }

    fn check(operations: &[Operation], writes: &[Option<usize>]) -> Result<NameState, String> {
        HistoryChecker::check(NAME, &history(writes), &operations.iter().collect::<Vec<_>>())
    }

    /// The checker rejects invalid histories.
    #[test]
    fn faulty_histories_are_detected() {
        use Outcome::{Acknowledged, Refused, Unknown};
        let create = operation(0, Action::Create, (0, 1), Acknowledged);
        let update = |outcome| operation(1, Action::Update, (2, 3), outcome);
        let retire = |outcome| operation(2, Action::Delete, (4, 5), outcome);
        let read = |observed, times| operation(3, Action::Read { observed }, times, Acknowledged);
        let fails = |operations: &[Operation], writes: &[Option<usize>], reason: &str| {
            let error = check(operations, writes).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        let all = [create.clone(), update(Acknowledged), retire(Acknowledged)];
        assert_eq!(check(&all, &[Some(0), Some(1), None]).unwrap().state, ObservedState::Retired);
        fails(&all, &[Some(0), None], "operation 1 was acknowledged and is lost");
        fails(&all, &[Some(0), Some(1)], "operation 2 was acknowledged and is lost");
        fails(&all, &[Some(0), Some(7), None], "has no operation");
        fails(
            &[create.clone(), update(Acknowledged)],
            &[Some(0), Some(1), None],
            "change 3 has no operation",
        );
        fails(&[create.clone(), update(Refused)], &[Some(0), Some(1)], "was refused");
        fails(&[create.clone(), update(Acknowledged)], &[Some(0), Some(1), Some(0)], "applied twice");
        // A refused retirement, and one that ended before the update began.
        fails(&[create.clone(), retire(Refused)], &[Some(0), None], "change 2 has no operation");
        let early = operation(2, Action::Delete, (1, 2), Acknowledged);
        let late = operation(1, Action::Update, (3, 4), Acknowledged);
        fails(&[create.clone(), early, late], &[Some(0), Some(1), None], "operation 2 was acknowledged");
        // Unknown outcomes may be applied, or not, and late.
        for writes in [&[Some(0)][..], &[Some(0), Some(1)], &[Some(0), None], &[Some(0), Some(1), None]] {
            check(&[create.clone(), update(Unknown), retire(Unknown)], writes).unwrap();
        }
        // Of two retirements, the second one was acknowledged; the first one cannot have happened later.
        let killed = Operation { ended: Some(3), ..operation(4, Action::Delete, (2, 3), Unknown) };
        check(&[create.clone(), killed.clone(), retire(Acknowledged)], &[Some(0), None]).unwrap();
        let late = operation(1, Action::Update, (4, 5), Acknowledged);
        fails(&[create.clone(), killed, late], &[Some(0), Some(1), None], "change 3 has no operation");
        // Two updates in the wrong order.
        let second = operation(4, Action::Update, (6, 7), Acknowledged);
        let updates = [create.clone(), update(Acknowledged), second];
        check(&updates, &[Some(0), Some(1), Some(4)]).unwrap();
        fails(&updates, &[Some(0), Some(4), Some(1)], "operation 1 took effect after its end");
        // Reads of an old, a future and a refused state.
        let with_read = |observed, times| [create.clone(), update(Acknowledged), read(observed, times)];
        let writes = [Some(0), Some(1)];
        check(&with_read(ObservedState::Url(url(0)), (2, 4)), &writes).unwrap();
        for (observed, times) in [(url(0), (4, 5)), (url(1), (0, 1)), (url(9), (0, 9))] {
            fails(&with_read(ObservedState::Url(observed), times), &writes, "read 3 returned a state");
        }
        fails(&with_read(ObservedState::Absent, (4, 5)), &writes, "read 3 returned a state");
        let retired = [create, retire(Acknowledged), read(ObservedState::Url(url(0)), (6, 7))];
        fails(&retired, &[Some(0), None], "read 3 returned a state");
    }
}

//! Checks everything after the faults: records, histories, change feed, lists, quotas, tokens and transfers agree with what the
//! clients know.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use tendot_testing::http::{HttpConnection, HttpRequest, HttpResponse};
use tendot_testing::wait_for;

use super::history_check::{Change, HistoryChecker, NameState};
use super::ledger::{ObservedState, Operation, Outcome, ProposalState, Token};
use super::load::{Load, QUOTA};
use super::replay_check;
use super::service::{HANDLE_PREFIX, MAIN_PREFIX, QUOTA_PREFIX};

/// Revoked tokens that are checked: the last ones.
const MAX_REVOKED_TOKENS: usize = 5;

/// Reads from one server, as the operator.
struct Reader {
    connection: HttpConnection,
    token: String,
}

impl Reader {
    fn new(load: &Load, server: usize) -> Self {
        let connection = HttpConnection::open(load.service.http_address(server)).unwrap();
        Self { connection, token: load.service.operator.clone() }
    }

    fn send(&mut self, request: HttpRequest) -> HttpResponse {
        self.connection.exchange(&request.bearer(&self.token)).unwrap()
    }

    #[track_caller]
    fn get(&mut self, target: &str) -> Json {
        let response = self.send(HttpRequest::get(target));
        assert_eq!(response.status, 200, "{target}: {}{}", response.head, response.text());
        response.json()
    }

    /// All items of a list.
    fn list(&mut self, target: &str) -> Vec<Json> {
        let (mut items, mut after) = (Vec::new(), String::new());
        loop {
            let mut page = self.get(&format!("{target}limit=50{after}"));
            items.append(page["items"].as_array_mut().unwrap());
            match &page["next"] {
                Json::Null => return items,
                Json::String(next) => after = format!("&after={next}"),
                next => after = format!("&after={next}"),
            }
        }
    }

    /// History of a name; empty if it never existed.
    fn history(&mut self, name: &str) -> Vec<Change> {
        let target = format!("/api/v1/history/{name}?");
        let first = self.send(HttpRequest::get(&target));
        if first.status == 404 {
            return Vec::new();
        }
        self.list(&target).iter().map(Change::from_json).collect()
    }
}

impl Load {
    /// Checks a run after its faults, with servers that were restarted.
    pub(super) fn check(&self) {
        replay_check::resend_batches(self);
        replay_check::replay_registrations(self);
        let mut reader = Reader::new(self, 0);
        let feed = reader.send(HttpRequest::get("/api/v1/changes")).json_lines();
        let histories = self.check_histories(&mut reader, &feed);
        self.check_feed(&feed, &histories);
        let states: BTreeMap<&str, &NameState> =
            histories.iter().map(|(name, (_, state))| (name.as_str(), state)).collect();
        self.check_records(&mut reader, &states);
        self.check_lists(&mut reader, &states);
        self.check_transfers(&mut reader);
        self.check_tokens();
        check_quota(&mut reader, &feed);
        self.service.verify();
    }

    /// Checks the history of every name; returns it with the final state.
    fn check_histories(
        &self,
        reader: &mut Reader,
        feed: &[Json],
    ) -> BTreeMap<String, (Vec<Change>, NameState)> {
        let operations = self.ledger.operations();
        let mut by_name: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
        for operation in &operations {
            by_name.entry(&operation.name).or_default().push(operation);
        }
        // A name that no client has written would be one, too.
        for change in feed {
            if let Some(name) = change["name"].as_str().filter(|name| is_written_name(name)) {
                by_name.entry(name).or_default();
            }
        }
        let (mut histories, mut errors) = (BTreeMap::new(), Vec::new());
        for (name, operations) in by_name {
            let history = reader.history(name);
            match HistoryChecker::check(name, &history, &operations) {
                Ok(state) => drop(histories.insert(name.to_owned(), (history, state))),
                Err(error) => errors.push(error),
            }
        }
        assert!(errors.is_empty(), "{} names:\n{}", errors.len(), errors.join("\n"));
        histories
    }

    /// The change feed has the changes of all histories and nothing else, and the client that followed it has received the same.
    fn check_feed(&self, feed: &[Json], histories: &BTreeMap<String, (Vec<Change>, NameState)>) {
        let change = |change: &Json| {
            let text = |member: &str| change[member].as_str().unwrap().to_owned();
            (change["seq"].as_u64().unwrap(), text("name"), text("kind"))
        };
        let is_written = |change: &&Json| change["name"].as_str().is_some_and(is_written_name);
        let changes: Vec<_> = feed.iter().filter(is_written).map(change).collect();
        let mut expected: Vec<_> = histories
            .iter()
            .flat_map(|(name, (history, _))| {
                history.iter().map(move |change| (change.sequence, name.clone(), change.kind.clone()))
            })
            .collect();
        expected.sort();
        assert_eq!(changes, expected, "the change feed and the histories differ");
        // Without the `Z`, since zeros at the end of a fraction are left out.
        let times = feed.iter().map(|change| change["at"].as_str().unwrap().trim_end_matches('Z'));
        assert!(times.is_sorted(), "the times of the change feed decrease");
        // All changes but those of the import, which are listed with later changes of their names.
        let is_single = |change: &&Json| change["kind"] != "import";
        let followed = self.followed.lock().unwrap();
        let followed: Vec<_> = followed.iter().filter(is_single).collect();
        let all: Vec<_> = feed.iter().filter(is_single).take(followed.len()).collect();
        assert_eq!(followed, all, "a reader of the change feed has seen other changes");
    }

    /// Every name resolves to its final state.
    fn check_records(&self, reader: &mut Reader, states: &BTreeMap<&str, &NameState>) {
        for (name, NameState { state, registrant }) in states {
            let redirect = reader.send(HttpRequest::get(&format!("/{name}")));
            let resolved = match redirect.status {
                302 => ObservedState::Url(redirect.header("location").unwrap().to_owned()),
                404 => ObservedState::Absent,
                410 => ObservedState::Retired,
                status => panic!("{name}: {status}: {}", redirect.text()),
            };
            assert_eq!(resolved, *state, "{name}");
            if *state == ObservedState::Absent || name.starts_with(HANDLE_PREFIX) {
                continue;
            }
            let doi = reader.get(&format!("/api/v1/dois/{name}"));
            assert_eq!(super::workload::observed_state(&doi), *state, "{doi}");
            assert_eq!(doi["registrant"], self.owner(registrant.as_deref()), "{doi}");
        }
    }

    /// Registrant of a name: the holder of the prefix unless it was transferred.
    fn owner<'a>(&'a self, registrant: Option<&'a str>) -> &'a str {
        registrant.unwrap_or(&self.service.registrants[0])
    }

    /// The lists of prefixes and registrants have exactly the names that exist.
    fn check_lists(&self, reader: &mut Reader, states: &BTreeMap<&str, &NameState>) {
        let names = |items: Vec<Json>| -> Vec<(String, bool)> {
            let entry =
                |item: &Json| (item["name"].as_str().unwrap().to_owned(), item["state"] == "registered");
            let mut names: Vec<_> = items.iter().map(entry).collect();
            names.sort();
            names
        };
        let expected = |is_listed: &dyn Fn(&str, &NameState) -> bool| -> Vec<(String, bool)> {
            let listed = states.iter().filter(|(name, state)| {
                state.state != ObservedState::Absent
                    && !name.starts_with(HANDLE_PREFIX)
                    && is_listed(name, state)
            });
            listed.map(|(name, state)| ((*name).to_owned(), state.state != ObservedState::Retired)).collect()
        };
        for prefix in [MAIN_PREFIX, QUOTA_PREFIX] {
            let listed = reader.list(&format!("/api/v1/dois?prefix={prefix}&"));
            let start = format!("{prefix}/");
            assert_eq!(names(listed), expected(&|name, _| name.starts_with(&start)), "{prefix}");
        }
        for registrant in &self.service.registrants {
            let listed = reader.list(&format!("/api/v1/dois?registrant={registrant}&"));
            let owned = |_: &str, state: &NameState| self.owner(state.registrant.as_deref()) == registrant;
            assert_eq!(names(listed), expected(&owned), "{registrant}");
        }
        let listed = reader.get(&format!("/api/handles?prefix={HANDLE_PREFIX}"));
        let listed = listed["handles"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        let listed: BTreeSet<&str> = listed.filter(|name| is_written_name(name)).collect();
        let is_live = |state: &NameState| matches!(state.state, ObservedState::Url(_));
        let live = states.iter().filter(|(name, state)| name.starts_with(HANDLE_PREFIX) && is_live(state));
        assert_eq!(listed, live.map(|(name, _)| *name).collect(), "{HANDLE_PREFIX}");
    }

    /// Every transfer is in the state of its last acknowledged request, and none exists that was refused.
    fn check_transfers(&self, reader: &mut Reader) {
        let proposals = self.ledger.proposals.lock().unwrap();
        // Per name and recipient: the least and the greatest number of proposals.
        let mut bounds: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for proposal in proposals.iter() {
            let (least, greatest) = bounds.entry((&proposal.name, &proposal.to)).or_default();
            *least += usize::from(proposal.outcome == Outcome::Acknowledged);
            *greatest += usize::from(proposal.outcome != Outcome::Refused);
        }
        let listed = reader.list("/api/v1/transfers?");
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for transfer in &listed {
            let name = transfer["names"][0].as_str().unwrap();
            *counts.entry((name, transfer["to"].as_str().unwrap())).or_default() += 1;
        }
        for key in counts.keys().chain(bounds.keys()) {
            let (least, greatest) = bounds.get(key).copied().unwrap_or_default();
            let count = counts.get(key).copied().unwrap_or_default();
            assert!((least..=greatest).contains(&count), "{key:?}: {count}, not {least} to {greatest}");
        }
        let states: BTreeMap<&str, &Json> =
            listed.iter().map(|transfer| (transfer["id"].as_str().unwrap(), &transfer["state"])).collect();
        for proposal in proposals.iter() {
            let Some(id) = &proposal.id else { continue };
            let state = states.get(&**id).unwrap_or_else(|| panic!("{proposal:?} is lost"));
            let is_consistent = match proposal.state {
                ProposalState::Proposed => **state == "proposed",
                ProposalState::Accepted => **state == "done",
                ProposalState::Declined => **state == "declined",
                ProposalState::NotAccepted => **state != "done",
            };
            assert!(is_consistent, "{proposal:?} is {state}");
        }
    }

    /// Revoked tokens are rejected by all servers, all others are accepted.
    fn check_tokens(&self) {
        let tokens = self.ledger.tokens.lock().unwrap();
        let (revoked, valid): (Vec<&Token>, Vec<&Token>) = tokens.iter().partition(|token| token.is_revoked);
        // Failed authentications are limited.
        let revoked = revoked.iter().rev().take(MAX_REVOKED_TOKENS);
        for server in 0..self.service.len() {
            let address = self.service.http_address(server);
            for token in revoked.clone().chain(&valid) {
                let request = HttpRequest::get("/api/v1/transfers?limit=1").bearer(&token.secret);
                let status = wait_for("authentication is not throttled", || {
                    Some(request.send(address).status).filter(|status| *status != 429)
                });
                assert_eq!(status, if token.is_revoked { 401 } else { 200 }, "server {server}: {token:?}");
            }
        }
    }
}

/// Whether a name may be written by clients, unlike those that were imported.
fn is_written_name(name: &str) -> bool {
    let Some((prefix, number)) = name.split_once("/N") else { return false };
    [MAIN_PREFIX, QUOTA_PREFIX, HANDLE_PREFIX].contains(&prefix) && number.parse::<usize>().is_ok()
}

/// The quota was never exceeded, and exactly as many names are left as there are fewer names.
fn check_quota(reader: &mut Reader, feed: &[Json]) {
    let mut names = 0;
    let start = format!("{QUOTA_PREFIX}/");
    for change in feed.iter().filter(|change| change["name"].as_str().unwrap().starts_with(&start)) {
        match change["kind"].as_str() {
            Some("create") => names += 1,
            Some("tombstone") => names -= 1,
            _ => {}
        }
        assert!(names <= QUOTA, "quota exceeded by change {}", change["seq"]);
    }
    for number in names..=QUOTA {
        let name = format!("{start}LEFT-{number}");
        let body = json!({"name": name, "url": "https://example.org/"});
        let response = reader.send(HttpRequest::new("POST", "/api/v1/dois").json(&body));
        let expected = if number < QUOTA { 201 } else { 507 };
        assert_eq!(response.status, expected, "{names} of {QUOTA}, then {name}: {}", response.text());
    }
}

//! Batches with idempotency keys: sent again until every line is answered.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tendot_testing::http::HttpRequest;
use tendot_testing::{WAIT_TIMEOUT, wait_for};

use super::ledger::{Action, Batch, Ledger, Outcome, url};
use super::request::{ClassifiedResponse, Connections, is_temporary};
use super::service::{MAIN_PREFIX, QUOTA_PREFIX};
use super::workload::Client;

impl Client<'_> {
    /// Sends a batch of new and existing names.
    pub(super) fn batch(&mut self) {
        // One in three has names under the quota, too.
        let prefix = if self.rng.percent(33) { QUOTA_PREFIX } else { MAIN_PREFIX };
        let server = self.server();
        let mut names = BTreeSet::new();
        for number in 0..self.rng.in_range(2, 12) {
            names.insert(self.name(if number % 2 == 0 { prefix } else { MAIN_PREFIX }));
        }
        let ledger = &self.load.ledger;
        let begin = |name: &String| ledger.begin(name, Action::Put, server);
        let operations: Vec<usize> = names.iter().map(begin).collect();
        let lines = names.iter().zip(&operations);
        let lines = lines.map(|(name, id)| format!("{}\n", json!({"name": name, "url": url(*id)})));
        let key = self.new_key();
        let request = self.agency_request("POST", "/api/v1/dois/batch").header(&key);
        let request = request.header("Content-Type: application/x-ndjson").body(lines.collect::<String>());
        let servers = self.attempts(server);
        let (answer, results) = send_batch(&mut self.connections, servers, &request, operations.len());
        for (operation, result) in operations.iter().zip(&results) {
            ledger.set_server(*operation, answer.server);
            record_result(ledger, *operation, result);
        }
        ledger.batches.lock().unwrap().push(Batch { request, operations, results });
    }
}

/// Sends a batch until the response has all results; returns it and the results.
pub(super) fn send_batch(
    connections: &mut Connections<'_>,
    mut server: impl FnMut() -> usize,
    request: &HttpRequest,
    lines: usize,
) -> (ClassifiedResponse, Vec<Json>) {
    wait_for("the batch has results", || {
        // Resent at once, the batch of a lost connection may still be running.
        let answer = connections.send(server(), request, WAIT_TIMEOUT);
        if answer.status == 200 {
            let results = answer.response.json_lines();
            assert_eq!(results.len(), lines, "{results:?}");
            return Some((answer, results));
        }
        let may_succeed =
            answer.status == 0 || answer.outcome == Outcome::Unknown || is_temporary(&answer.code);
        assert!(may_succeed, "{}", answer.response.text());
        None
    })
}

/// Records the result of a line.
pub(super) fn record_result(ledger: &Ledger, operation: usize, result: &Json) {
    let outcome = match result["status"].as_str() {
        Some("created" | "updated") => Outcome::Acknowledged,
        Some("refused") => {
            let code = result["error"]["code"].as_str().unwrap_or_default();
            assert_ne!(code, "outcome-unknown", "the batch must be aborted: {result}");
            ledger.count_code(code);
            Outcome::Refused
        }
        // Every line has a URL of its own.
        _ => panic!("unexpected result: {result}"),
    };
    ledger.finish(operation, outcome, false);
}

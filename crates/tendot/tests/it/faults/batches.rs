//! Batches with idempotency keys: sent again until every line is answered.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tendot_testing::http::HttpRequest;

use super::ledger::{Action, Batch, Ledger, Outcome, UNKNOWN_SERVER, url};
use super::request::{ClassifiedResponse, Connections};
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
            // Another server than the first may repeat results that it does not know yet.
            ledger.set_server(*operation, if answer.server == server { server } else { UNKNOWN_SERVER });
            record_result(ledger, *operation, result);
        }
        ledger.batches.lock().unwrap().push(Batch { request, operations, results });
    }
}

/// Sends a batch until the response has all results; returns it and the results.
pub(super) fn send_batch(
    connections: &mut Connections<'_>,
    server: impl FnMut() -> usize,
    request: &HttpRequest,
    lines: usize,
) -> (ClassifiedResponse, Vec<Json>) {
    // Resent at once, the batch of a lost connection may still be running.
    let answer = connections.send_until_answered(server, request);
    assert_eq!(answer.status, 200, "{}", answer.response.text());
    let results = answer.response.json_lines();
    assert_eq!(results.len(), lines, "{results:?}");
    (answer, results)
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

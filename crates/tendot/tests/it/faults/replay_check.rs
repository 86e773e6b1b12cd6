//! Idempotency keys: a request that is sent again changes nothing and gets the recorded reply.

use serde_json::{Value as Json, json};
use tendot_testing::{SeededRng, WAIT_TIMEOUT};

use super::batches::{record_result, send_batch};
use super::load::Load;
use super::request::Connections;

/// Requests of a kind that are sent again.
const MAX_REPLAYS: usize = 200;

/// Sends batches again: accepted lines have the result that they had. A refused line is tried again, so it may be accepted now.
pub(super) fn resend_batches(load: &Load) {
    let mut connections = Connections::new(&load.service, &load.ledger);
    let batches = load.ledger.batches.lock().unwrap();
    for (number, batch) in sample(&batches) {
        let (answer, results) = send_batch(&mut connections, || 0, &batch.request, batch.operations.len());
        let is_replayed = answer.response.header("idempotency-replayed") == Some("true");
        // On a full disk, the end of a batch may be missing in its journal.
        let may_be_incomplete = load.ledger.code_count("disk-full") > 0;
        assert!(is_replayed || may_be_incomplete, "batch {number}: {}", answer.response.head);
        for ((before, after), operation) in batch.results.iter().zip(&results).zip(&batch.operations) {
            if before["status"] == "refused" {
                record_result(&load.ledger, *operation, after);
            } else {
                assert_eq!(before, after, "batch {number}");
            }
        }
    }
}

/// Sends registrations again; a key with another body is refused.
pub(super) fn replay_registrations(load: &Load) {
    let mut connections = Connections::new(&load.service, &load.ledger);
    let registrations = load.ledger.registrations.lock().unwrap();
    let mut rng = SeededRng::new(0);
    for (_, registration) in sample(&registrations) {
        let server = rng.below(load.service.len());
        let answer = connections.send(server, &registration.request, WAIT_TIMEOUT);
        let is_replayed = answer.response.header("idempotency-replayed") == Some("true");
        assert!(answer.status == 201 && is_replayed, "{}{}", answer.response.head, answer.response.text());
        assert_eq!(answer.json(), registration.reply);
    }
    if let Some(registration) = registrations.first() {
        let body = json!({"name": "10.70000/OTHER", "url": "https://example.org/"});
        let other = registration.request.clone().body(body.to_string());
        let response = other.send(load.service.http_address(0));
        assert_eq!((response.status, &response.json()["code"]), (422, &Json::from("key-reused")));
    }
}

/// Items at equal distances, with their numbers.
fn sample<T>(items: &[T]) -> impl Iterator<Item = (usize, &T)> {
    items.iter().enumerate().step_by(items.len().div_ceil(MAX_REPLAYS).max(1))
}

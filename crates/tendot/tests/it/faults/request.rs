//! Sends a request to a server and classifies its outcome.

use std::time::Duration;

use serde_json::Value as Json;
use tendot_testing::http::{HttpConnection, HttpRequest, HttpResponse};
use tendot_testing::{WAIT_TIMEOUT, wait_for};

use super::ledger::{Ledger, Outcome};
use super::load::pause;
use super::service::Service;

/// Time between two attempts while a server is down or cannot write: an immediate retry would only load the machine.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Error codes of refusals that the operations of a run may get.
const EXPECTED_CODES: [&str; 18] = [
    "already-decided",
    "already-owner",
    "already-registered",
    "disk-full",
    "invalid-token",
    "key-in-use",
    "name-retired",
    "not-found",
    "overloaded",
    "ownership-changed",
    "proposer-invalid",
    "quota-exceeded",
    "retired",
    "store-read-only",
    "store-unavailable",
    "unauthenticated",
    "unknown-name",
    "write-conflict",
];

/// Codes after which the same request may succeed.
const TEMPORARY_CODES: [&str; 6] =
    ["disk-full", "key-in-use", "overloaded", "store-read-only", "store-unavailable", "write-conflict"];

/// Whether a request is worth another attempt.
pub(super) fn is_temporary(code: &str) -> bool {
    TEMPORARY_CODES.contains(&code)
}

/// Whether the message of a Handle server says that the outcome is unknown.
pub(super) fn is_unknown_message(message: &str) -> bool {
    message.contains("outcome unknown")
}

/// Response to a request, or that there was none, and what it says about the outcome.
#[derive(Debug)]
pub(super) struct ClassifiedResponse {
    pub(super) outcome: Outcome,
    /// Server that the request was sent to.
    pub(super) server: usize,
    /// Status; 0 without a response.
    pub(super) status: u16,
    /// Error code; empty without an error.
    pub(super) code: String,
    pub(super) response: HttpResponse,
}

impl ClassifiedResponse {
    fn without_response(outcome: Outcome, server: usize) -> Self {
        Self { outcome, server, status: 0, code: String::new(), response: HttpResponse::default() }
    }

    pub(super) fn json(&self) -> Json {
        self.response.json()
    }
}

/// Connections of one client to all servers.
#[derive(Debug)]
pub(super) struct Connections<'w> {
    service: &'w Service,
    ledger: &'w Ledger,
    open: Vec<Option<HttpConnection>>,
}

impl<'w> Connections<'w> {
    pub(super) fn new(service: &'w Service, ledger: &'w Ledger) -> Self {
        let open = (0..service.len()).map(|_| None).collect();
        Self { service, ledger, open }
    }

    /// Sends a request once, and waits for at most `timeout`.
    pub(super) fn send(
        &mut self,
        server: usize,
        request: &HttpRequest,
        timeout: Duration,
    ) -> ClassifiedResponse {
        let connection = match self.open[server].take() {
            Some(connection) => Ok(connection),
            None => HttpConnection::open(self.service.http_address(server)),
        };
        let Ok(mut connection) = connection else {
            pause(RETRY_DELAY);
            return ClassifiedResponse::without_response(Outcome::Refused, server);
        };
        connection.stream().set_read_timeout(Some(timeout)).unwrap();
        let Ok(response) = connection.exchange(request) else {
            return ClassifiedResponse::without_response(Outcome::Unknown, server);
        };
        if response.header("connection") != Some("close") {
            self.open[server] = Some(connection);
        }
        self.classify(response, server)
    }

    /// Retries a request until it gets a final answer: with an idempotency key, or idempotent by itself.
    /// Each attempt goes to a random one of the servers.
    pub(super) fn send_until_answered(
        &mut self,
        mut server: impl FnMut() -> usize,
        request: &HttpRequest,
    ) -> ClassifiedResponse {
        wait_for(&format!("a final answer to {request:?}"), || {
            let answer = self.send(server(), request, WAIT_TIMEOUT);
            let is_final = answer.status != 0 && answer.outcome != Outcome::Unknown;
            (is_final && !is_temporary(&answer.code)).then_some(answer)
        })
    }

    fn classify(&self, response: HttpResponse, server: usize) -> ClassifiedResponse {
        let status = response.status;
        if matches!(status, 200..=399) {
            return ClassifiedResponse {
                outcome: Outcome::Acknowledged,
                server,
                status,
                code: String::new(),
                response,
            };
        }
        let json = response.json();
        let code = match json["code"].as_str() {
            Some(code) => code.to_owned(),
            // The API of Handle.Net, and pages.
            None => format!("{status}/{}", json["responseCode"]),
        };
        self.ledger.count_code(&code);
        let is_unknown = code == "outcome-unknown" || is_unknown_message(&response.text());
        let is_expected = EXPECTED_CODES.contains(&&*code)
            || matches!(&*code, "404/100" | "404/null" | "410/null" | "409/101")
            // Failed authentications, with revoked tokens, are limited.
            || matches!(status, 429 | 503 | 507)
            || status == 500 && response.text().contains("disk is full");
        assert!(is_unknown || is_expected, "unexpected response: {}{}", response.head, response.text());
        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::Refused };
        ClassifiedResponse { outcome, server, status, code, response }
    }
}

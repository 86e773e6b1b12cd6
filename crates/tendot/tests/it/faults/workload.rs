//! Random operations of one client.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tendot_testing::http::HttpRequest;
use tendot_testing::{SeededRng, WAIT_TIMEOUT};

use super::ledger::{Action, KeyedRegistration, ObservedState, Outcome, Token, UNKNOWN_SERVER, url};
use super::load::Load;
use super::request::{ClassifiedResponse, Connections, is_temporary};
use super::service::{HANDLE_PREFIX, MAIN_PREFIX, QUOTA_PREFIX};

/// Operations after which one name of the pool is replaced by a new one: retired names cannot be used again.
const OPERATIONS_PER_NAME: usize = 6;

/// Names in use at a time, per prefix.
const NAME_POOL_SIZE: usize = 12;

/// A client: its random numbers, connections and token.
#[derive(Debug)]
pub(super) struct Client<'w> {
    pub(super) load: &'w Load,
    pub(super) rng: SeededRng,
    pub(super) connections: Connections<'w>,
    number: usize,
    /// Number of the next idempotency key.
    next_key: usize,
    /// Token that this client has created and not yet revoked; index in the ledger.
    token: Option<usize>,
}

impl<'w> Client<'w> {
    pub(super) fn new(load: &'w Load, number: usize, seed: u64) -> Self {
        let rng = SeededRng::new(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let connections = Connections::new(&load.service, &load.ledger);
        Self { load, rng, connections, number, next_key: 0, token: None }
    }

    /// Executes operations until the load ends.
    pub(super) fn run(&mut self) {
        while !self.load.is_finished() {
            match self.rng.below(100) {
                0..18 => self.register(MAIN_PREFIX),
                18..34 => self.update(),
                34..39 => self.retire(MAIN_PREFIX),
                39..47 => self.batch(),
                47..55 => self.transfer(),
                55..61 => self.use_token(),
                61..75 => self.native_operation(),
                75..80 => self.put_handle(),
                80..86 => self.register(QUOTA_PREFIX),
                86..90 => self.retire(QUOTA_PREFIX),
                _ => self.read(),
            }
        }
    }

    /// A random server.
    pub(super) fn server(&mut self) -> usize {
        self.rng.below(self.load.service.len())
    }

    /// Servers for the attempts of one request: this one, then random ones.
    pub(super) fn attempts(&self, first: usize) -> impl FnMut() -> usize + use<> {
        let (count, mut rng, mut first) = (self.load.service.len(), self.rng.clone(), Some(first));
        move || first.take().unwrap_or_else(|| rng.below(count))
    }

    /// A name in use: other clients use it, too.
    pub(super) fn name(&mut self, prefix: &str) -> String {
        let first = self.load.ledger.len() / OPERATIONS_PER_NAME;
        format!("{prefix}/N{}", first + self.rng.below(NAME_POOL_SIZE))
    }

    /// An idempotency key that was not used before.
    pub(super) fn new_key(&mut self) -> String {
        self.next_key += 1;
        format!("Idempotency-Key: client-{}-{}", self.number, self.next_key)
    }

    /// Time that a client waits for a response; sometimes short.
    pub(super) fn timeout(&mut self) -> Duration {
        match self.load.settings.short_timeout {
            Some(timeout) if self.rng.percent(30) => timeout,
            _ => WAIT_TIMEOUT,
        }
    }

    pub(super) fn agency_request(&self, method: &str, target: &str) -> HttpRequest {
        HttpRequest::new(method, target).bearer(&self.load.service.agency)
    }

    pub(super) fn finish(&self, operation: usize, answer: &ClassifiedResponse) {
        // A lost connection means that the server was killed; a response with an unknown outcome does not.
        let is_server_dead = answer.status == 0 && self.load.settings.lost_connection_means_kill;
        // A repeated reply may come from a server that does not know the change yet.
        let is_replayed = answer.response.header("idempotency-replayed") == Some("true");
        self.load.ledger.set_server(operation, if is_replayed { UNKNOWN_SERVER } else { answer.server });
        self.load.ledger.finish(operation, answer.outcome, is_server_dead);
    }

    /// Sends the request of an operation once.
    fn send(&mut self, operation: usize, server: usize, request: &HttpRequest) {
        let timeout = self.timeout();
        let answer = self.connections.send(server, request, timeout);
        self.finish(operation, &answer);
    }

    fn register(&mut self, prefix: &str) {
        let (name, server) = (self.name(prefix), self.server());
        let id = self.load.ledger.begin(&name, Action::Create, server);
        let request = self.agency_request("POST", "/api/v1/dois");
        let request = request.json(&json!({"name": name, "url": url(id)}));
        if self.rng.coin() {
            return self.send(id, server, &request);
        }
        let request = request.header(&self.new_key());
        // The key makes it one operation, also at the other servers.
        let servers = self.attempts(server);
        let answer = self.connections.send_until_answered(servers, &request);
        self.finish(id, &answer);
        if answer.outcome == Outcome::Acknowledged {
            assert_eq!(answer.status, 201, "{}", answer.response.text());
            let reply = answer.json();
            assert_eq!((&reply["name"], &reply["url"]), (&json!(name), &json!(url(id))), "{reply}");
            self.load.ledger.registrations.lock().unwrap().push(KeyedRegistration { request, reply });
        }
    }

    fn update(&mut self) {
        let (name, server) = (self.name(MAIN_PREFIX), self.server());
        let id = self.load.ledger.begin(&name, Action::Update, server);
        let request = self.agency_request("PUT", &format!("/api/v1/dois/{name}"));
        self.send(id, server, &request.json(&json!({"url": url(id)})));
    }

    fn retire(&mut self, prefix: &str) {
        let mut name = self.name(prefix);
        if prefix == QUOTA_PREFIX {
            // Older names, too: otherwise the quota would be used up permanently.
            let names = self.load.ledger.len() / OPERATIONS_PER_NAME + NAME_POOL_SIZE;
            name = format!("{prefix}/N{}", self.rng.below(names));
        }
        let server = self.server();
        let id = self.load.ledger.begin(&name, Action::Delete, server);
        let request = self.agency_request("DELETE", &format!("/api/v1/dois/{name}"));
        self.send(id, server, &request);
    }

    /// Creates or replaces a record with the API of Handle.Net.
    fn put_handle(&mut self) {
        let (name, server) = (self.name(HANDLE_PREFIX), self.server());
        let id = self.load.ledger.begin(&name, Action::Put, server);
        let values = json!([{"index": 1, "type": "URL", "data": url(id)}]);
        let request = HttpRequest::new("PUT", &format!("/api/handles/{name}"));
        let request = request.bearer(&self.load.service.operator).body(values.to_string());
        self.send(id, server, &request);
    }

    /// Reads a name: its record, or its redirect.
    fn read(&mut self) {
        let prefix = *self.rng.pick(&[MAIN_PREFIX, QUOTA_PREFIX, HANDLE_PREFIX]);
        // Reads at any server.
        let (name, server) = (self.name(prefix), self.server());
        let is_record = prefix != HANDLE_PREFIX && self.rng.coin();
        let request = if is_record {
            self.agency_request("GET", &format!("/api/v1/dois/{name}"))
        } else {
            HttpRequest::get(&format!("/{name}"))
        };
        let absent = Action::Read { observed: ObservedState::Absent };
        let id = self.load.ledger.begin(&name, absent, server);
        let timeout = self.timeout();
        let answer = self.connections.send(server, &request, timeout);
        let observed = match answer.status {
            200 => observed_state(&answer.json()),
            302 => ObservedState::Url(answer.response.header("location").unwrap().to_owned()),
            404 => ObservedState::Absent,
            410 => ObservedState::Retired,
            _ => return self.load.ledger.finish(id, Outcome::Refused, false),
        };
        self.load.ledger.finish_read(id, observed);
    }

    /// Creates a token, registers a name with it, or revokes it: then it is rejected.
    fn use_token(&mut self) {
        match self.token {
            None => self.create_token(),
            Some(token) if self.rng.percent(30) => self.revoke_token(token),
            Some(token) => {
                // Others may read it from a standby that does not have it yet.
                let server = self.load.ledger.tokens.lock().unwrap()[token].server;
                self.register_with_token(token, server, true);
            }
        }
    }

    fn create_token(&mut self) {
        let body = json!({"role": "registrant", "subject": self.load.service.registrants[0]});
        let request = self.agency_request("POST", "/api/v1/tokens").json(&body);
        let server = self.server();
        let answer = self.connections.send(server, &request, WAIT_TIMEOUT);
        if answer.outcome == Outcome::Acknowledged {
            let json = answer.json();
            let [id, secret] = ["id", "token"].map(|member| json[member].as_str().unwrap().to_owned());
            let mut tokens = self.load.ledger.tokens.lock().unwrap();
            self.token = Some(tokens.len());
            tokens.push(Token { id, secret, server, is_revoked: false });
        }
    }

    fn revoke_token(&mut self, token: usize) {
        let id = self.load.ledger.tokens.lock().unwrap()[token].id.clone();
        let request = self.agency_request("DELETE", &format!("/api/v1/tokens/{id}"));
        let server = self.server();
        let answer = self.connections.send_until_answered(|| server, &request);
        // An earlier attempt may have revoked it.
        assert!(matches!(answer.status, 200 | 404), "{}", answer.response.text());
        self.token = None;
        self.load.ledger.tokens.lock().unwrap()[token].is_revoked = true;
        // Failed authentications are limited, and with them native requests of the same client.
        if self.rng.percent(25) {
            self.register_with_token(token, server, false);
        }
    }

    fn register_with_token(&mut self, token: usize, server: usize, is_valid: bool) {
        let secret = self.load.ledger.tokens.lock().unwrap()[token].secret.clone();
        let name = self.name(MAIN_PREFIX);
        let id = self.load.ledger.begin(&name, Action::Create, server);
        let request = HttpRequest::new("POST", "/api/v1/dois").bearer(&secret);
        let request = request.json(&json!({"name": name, "url": url(id)}));
        let answer = self.connections.send(server, &request, WAIT_TIMEOUT);
        self.finish(id, &answer);
        let is_rejected = answer.status == 401;
        let is_answered = !matches!(answer.status, 0 | 429) && !is_temporary(&answer.code);
        assert!(
            !is_answered || answer.outcome == Outcome::Unknown || is_rejected != is_valid,
            "token {token}, valid: {is_valid}: {}",
            answer.response.head
        );
    }
}

/// State of a DOI as JSON.
pub(super) fn observed_state(doi: &Json) -> ObservedState {
    match doi["state"].as_str() {
        Some("registered") => ObservedState::Url(doi["url"].as_str().unwrap().to_owned()),
        Some("tombstone") => ObservedState::Retired,
        state => panic!("unexpected state {state:?}: {doi}"),
    }
}

//! Ledger of operations: when each began and ended, and what its client learned.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value as Json;
use tendot_testing::http::HttpRequest;

/// What a client knows about an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// Committed.
    Acknowledged,
    /// Nothing was changed.
    Refused,
    /// Committed, not committed, or committed later.
    Unknown,
}

/// In place of a server: it is not known which one made the change.
pub(super) const UNKNOWN_SERVER: usize = usize::MAX;

/// State of a name that a client has read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ObservedState {
    Absent,
    Retired,
    Url(String),
}

/// What an operation does to its name. Every URL is written by one operation only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    /// Creates the name with the URL of the operation.
    Create,
    /// Changes the URL of an existing name.
    Update,
    /// Creates the name, or changes its URL.
    Put,
    /// Retires or deletes the name.
    Delete,
    /// Accepts the transfer of the name to a registrant.
    Transfer { to: String },
    /// Reads the name.
    Read { observed: ObservedState },
}

impl Action {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Transfer { .. } => "transfer",
            Self::Read { .. } => "read",
        }
    }
}

/// Operation on a name. Its times are numbers of one logical clock for all clients.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) action: Action,
    /// Server that the request was last sent to.
    pub(super) server: usize,
    pub(super) started: u64,
    /// Time after which the operation cannot take effect; `None` if there is no such time.
    pub(super) ended: Option<u64>,
    pub(super) outcome: Outcome,
}

/// Registration with an idempotency key, and its reply.
#[derive(Clone, Debug)]
pub(super) struct KeyedRegistration {
    pub(super) request: HttpRequest,
    pub(super) reply: Json,
}

/// Batch with an idempotency key.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) request: HttpRequest,
    /// Operation of each line.
    pub(super) operations: Vec<usize>,
    /// Last result of each line.
    pub(super) results: Vec<Json>,
}

/// Transfer of one name.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) name: String,
    pub(super) to: String,
    /// Id of the transfer, if the proposal was acknowledged.
    pub(super) id: Option<String>,
    pub(super) outcome: Outcome,
    /// State that the last acknowledged request must have led to.
    pub(super) state: ProposalState,
}

/// Known state of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ProposalState {
    Proposed,
    Accepted,
    Declined,
    /// The acceptance was refused: anything but accepted.
    NotAccepted,
}

/// API token.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) secret: String,
    /// Server that made it.
    pub(super) server: usize,
    pub(super) is_revoked: bool,
}

/// Everything that the clients of one run have done.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    clock: AtomicU64,
    operations: Mutex<Vec<Operation>>,
    acknowledged: AtomicU64,
    codes: Mutex<BTreeMap<String, u64>>,
    pub(super) registrations: Mutex<Vec<KeyedRegistration>>,
    pub(super) batches: Mutex<Vec<Batch>>,
    pub(super) proposals: Mutex<Vec<Proposal>>,
    pub(super) tokens: Mutex<Vec<Token>>,
}

/// URL that an operation writes.
pub(super) fn url(operation: usize) -> String {
    format!("https://example.org/{operation}")
}

/// Operation that has written a URL.
pub(super) fn operation_of_url(url: &str) -> Option<usize> {
    url.strip_prefix("https://example.org/")?.parse().ok()
}

impl Ledger {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Begins an operation, before its request is sent; returns its id.
    pub(super) fn begin(&self, name: &str, action: Action, server: usize) -> usize {
        let mut operations = self.operations.lock().unwrap();
        let id = operations.len();
        let (name, outcome) = (name.to_owned(), Outcome::Unknown);
        operations.push(Operation { id, name, action, server, started: self.tick(), ended: None, outcome });
        id
    }

    /// Ends an operation. An unknown outcome has no end unless its server is dead.
    pub(super) fn finish(&self, id: usize, outcome: Outcome, is_server_dead: bool) {
        let ended = self.tick();
        let mut operations = self.operations.lock().unwrap();
        operations[id].outcome = outcome;
        operations[id].ended = (outcome != Outcome::Unknown || is_server_dead).then_some(ended);
        let is_read = matches!(operations[id].action, Action::Read { .. });
        if outcome == Outcome::Acknowledged && !is_read {
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Sets the server that has answered a request that was sent to several.
    pub(super) fn set_server(&self, id: usize, server: usize) {
        self.operations.lock().unwrap()[id].server = server;
    }

    /// Ends a read.
    pub(super) fn finish_read(&self, id: usize, state: ObservedState) {
        self.operations.lock().unwrap()[id].action = Action::Read { observed: state };
        self.finish(id, Outcome::Acknowledged, false);
    }

    /// Number of operations.
    pub(super) fn len(&self) -> usize {
        self.operations.lock().unwrap().len()
    }

    /// Number of acknowledged changes.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        self.operations.lock().unwrap().clone()
    }

    /// Counts an error code.
    pub(super) fn count_code(&self, code: &str) {
        *self.codes.lock().unwrap().entry(code.to_owned()).or_default() += 1;
    }

    /// Number of errors with this code.
    pub(super) fn code_count(&self, code: &str) -> u64 {
        self.codes.lock().unwrap().get(code).copied().unwrap_or_default()
    }

    /// Numbers of operations by kind and outcome, of requests with idempotency keys, and of errors by code.
    pub(super) fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for operation in self.operations() {
            let column = match operation.outcome {
                Outcome::Acknowledged => 0,
                Outcome::Unknown => 1,
                Outcome::Refused => 2,
            };
            counts.entry(operation.action.as_str()).or_default()[column] += 1;
        }
        let counts = counts.iter().map(|(action, [acknowledged, unknown, refused])| {
            format!("{action}: {acknowledged} acknowledged, {unknown} unknown, {refused} refused\n")
        });
        let is_revoked = |token: &&Token| token.is_revoked;
        format!(
            "{}{} registrations with keys, {} batches, {} tokens revoked; errors: {:?}",
            counts.collect::<String>(),
            self.registrations.lock().unwrap().len(),
            self.batches.lock().unwrap().len(),
            self.tokens.lock().unwrap().iter().filter(is_revoked).count(),
            self.codes.lock().unwrap()
        )
    }
}

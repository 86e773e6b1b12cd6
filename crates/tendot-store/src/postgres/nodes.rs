//! The servers of a database: which of them takes changes, how far the others have come, and who is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool};
use tokio::sync::Notify;

use super::connect::{Address, Host};
use super::error::Failure;
use super::freshness::Freshness;
use super::shared::Shared;
use super::{DatabaseHost, HostRole, PostgresError, PostgresSettings};

/// How long there may be no server that takes changes before they are refused at once instead of waiting for one.
const GRACE: Duration = Duration::from_secs(1);

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    /// What is there now.
    Current,
    /// What is there at this line of the log, or later.
    Since(u64),
}

/// The servers of a database, all those that its address names.
#[derive(Debug)]
pub(super) struct Nodes {
    all: Box<[Node]>,
    /// Whether standbys are asked, too.
    asks_standbys: bool,
    /// Whose turn it is among the standbys.
    turn: AtomicUsize,
    lead: Mutex<Lead>,
    pub(super) freshness: Freshness,
}

/// Which server takes changes. It stays so as long as it does, whoever else says the same of themselves.
#[derive(Debug)]
struct Lead {
    number: Option<usize>,
    /// Since when there is none, if there was one.
    lost: Option<Instant>,
}

/// One server.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: String,
    /// Connections for what takes longer, each for one at a time.
    readers: Pool,
    /// Connections for single records.
    pub(super) shared: Shared,
    /// The connection that writes.
    writing: Pool,
    seen: Mutex<Seen>,
    /// Wakes who watches it.
    pub(super) wake: Notify,
}

/// What was last seen of a server.
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: State,
    /// When it last knew all that the primary was known to have.
    level: Instant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// It was not asked yet, or did not answer just now.
    Unsure,
    /// It was asked whether it is there, and was not.
    Gone,
    /// It answers, and has come to this line of the log.
    Standby(u64),
    Primary(u64),
}

impl Nodes {
    pub(super) fn new(address: &Address, settings: &PostgresSettings) -> Result<Self, PostgresError> {
        let node = |host: &Host| {
            let half = settings.connections.div_ceil(2);
            let pool = |most| address.pool(host, most, settings);
            Ok(Node {
                place: host.place.clone(),
                readers: pool(half)?,
                shared: Shared::new(pool(half)?, half),
                writing: pool(1)?,
                seen: Mutex::new(Seen { state: State::Unsure, level: Instant::now() }),
                wake: Notify::new(),
            })
        };
        Ok(Self {
            all: address.hosts.iter().map(node).collect::<Result<_, PostgresError>>()?,
            asks_standbys: address.asks_standbys,
            turn: AtomicUsize::new(0),
            lead: Mutex::new(Lead { number: None, lost: None }),
            freshness: Freshness::new(),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.all.iter()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Node> {
        self.all.get(number)
    }

    /// Whom to ask, of those that were not tried yet; `tried` has a bit for each. None if nobody is left who could answer.
    pub(super) fn pick(&self, read: Read, tried: &mut u64) -> Option<&Node> {
        let number = self.find(read, *tried)?;
        *tried |= 1 << number;
        self.get(number)
    }

    fn find(&self, read: Read, tried: u64) -> Option<usize> {
        let left = || self.all.iter().enumerate().filter(move |(number, _)| tried & (1 << number) == 0);
        let standby = |node: &Node| match node.state() {
            State::Standby(line) => Some(line),
            _ => None,
        };
        if let Read::Since(line) = read
            && self.asks_standbys
        {
            let knowing = |node: &Node| standby(node).is_some_and(|known| known >= line);
            let number = left().filter(|(_, node)| knowing(node)).count();
            if number > 0 {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % number;
                return left().filter(|(_, node)| knowing(node)).nth(turn).map(|(number, _)| number);
            }
        }
        let is_left = |number: &usize| tried & (1 << number) == 0;
        if let Some(lead) = self.lead().number.filter(is_left) {
            return Some(lead);
        }
        // The primary is not there. Standbys that know all that we know do as well; and who is not particular is told what the
        // last one knows.
        let most = left().filter_map(|(number, node)| Some((standby(node)?, number))).max();
        match (read, most) {
            (Read::Since(_), Some((_, number))) => return Some(number),
            (Read::Current, Some((line, number))) if line >= self.freshness.known() => return Some(number),
            _ => {}
        }
        left().find(|(_, node)| node.state() == State::Unsure).map(|(number, _)| number)
    }

    /// The server that takes changes.
    pub(super) fn primary(&self) -> Result<&Node, Failure> {
        self.lead().number.and_then(|number| self.get(number)).ok_or(Failure::NoPrimary)
    }

    /// Whether there has been none for so long that nobody should wait.
    pub(super) fn lacks_primary(&self) -> bool {
        let lead = self.lead();
        lead.number.is_none() && lead.lost.is_none_or(|lost| lost.elapsed() > GRACE)
    }

    fn lead(&self) -> std::sync::MutexGuard<'_, Lead> {
        self.lead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server answered. Tells whether it is the one whose log is to be followed: the primary's, or that of any other if
    /// there is none.
    pub(super) fn saw(&self, number: usize, takes_changes: bool, line: u64) -> bool {
        let Some(node) = self.get(number) else { return false };
        let mut lead = self.lead();
        if takes_changes && lead.number.is_none() {
            if lead.lost.is_some() {
                tracing::info!(host = %node.place, "this server of the database takes changes now");
            }
            lead.number = Some(number);
        } else if !takes_changes && lead.number == Some(number) {
            tracing::warn!(host = %node.place, "this server of the database takes no more changes");
            *lead = Lead { number: None, lost: Some(Instant::now()) };
        }
        let (is_lead, is_led) = (lead.number == Some(number), lead.number.is_some());
        drop(lead);
        let state = if takes_changes { State::Primary(line) } else { State::Standby(line) };
        let mut seen = node.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(seen.state, State::Gone) {
            tracing::info!(host = %node.place, "a server of the database is there");
        }
        seen.state = state;
        if takes_changes || line >= self.freshness.known() {
            seen.level = Instant::now();
        }
        is_lead || !is_led && !takes_changes
    }

    /// A server was asked whether it is there, and did not answer.
    pub(super) fn missed(&self, number: usize, why: &Failure) {
        let Some(node) = self.get(number) else { return };
        let mut lead = self.lead();
        if lead.number == Some(number) {
            *lead = Lead { number: None, lost: Some(Instant::now()) };
        }
        drop(lead);
        let mut seen = node.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // A standby that does not know the tables yet will in a moment.
        if !matches!(seen.state, State::Gone) && !why.is_of_tables() {
            tracing::warn!(host = %node.place, %why, "a server of the database is not reached");
        }
        seen.state = State::Gone;
    }

    /// What is known of each, for people.
    pub(super) fn hosts(&self) -> Vec<DatabaseHost> {
        let known = self.freshness.known();
        let host = |node: &Node| {
            let seen = *node.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (role, behind) = match seen.state {
                State::Unsure | State::Gone => (HostRole::Unreachable, None),
                State::Standby(line) => (HostRole::Standby, Some(known.saturating_sub(line))),
                State::Primary(_) => (HostRole::Primary, Some(0)),
            };
            let lag = behind.map(|behind| if behind == 0 { Duration::ZERO } else { seen.level.elapsed() });
            DatabaseHost { place: node.place.clone(), role, behind, lag }
        };
        self.all.iter().map(host).collect()
    }
}

impl Node {
    fn state(&self) -> State {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).state
    }

    pub(super) async fn reader(&self) -> Result<Object, Failure> {
        Ok(self.readers.get().await?)
    }

    pub(super) async fn writing(&self) -> Result<Object, Failure> {
        Ok(self.writing.get().await?)
    }

    /// It did not answer. Who watches it looks at once; until then others are asked before it.
    pub(super) fn suspect(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(seen.state, State::Standby(_)) {
            seen.state = State::Unsure;
        }
        drop(seen);
        self.wake.notify_one();
    }
}

//! The servers of a database: which of them takes changes, how far the others have come, and who is asked.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connect::{ConnectionString, HostConfig};
use super::error::DatabaseError;
use super::freshness::ReadFence;
use super::shared::PipelinedPool;
use super::{DatabaseHost, HostRole, PostgresOpenError, PostgresSettings};

/// How long there may be no server that takes changes before they are refused at once instead of waiting for one.
const PRIMARY_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    /// What is there now.
    Current,
    /// What is there at this line of the log, or later.
    Since(u64),
}

/// Host chosen for a read, and whether it is current enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadTarget<'n> {
    pub(super) node: &'n ClusterHost,
    /// Whether it knows what has to be known; else nobody does who is there, and the answer is the best there is.
    pub(super) is_sure: bool,
}

/// The hosts of a database: which one is primary, and how far the standbys have replayed.
#[derive(Debug)]
pub(super) struct Cluster {
    all: Box<[ClusterHost]>,
    /// Whether standbys are asked, too.
    asks_standbys: bool,
    /// Whose turn it is among the standbys.
    turn: AtomicUsize,
    lead: Mutex<PrimaryState>,
    /// The primary is another one, or was lost.
    led_anew: Notify,
    /// Whether the primary may be another one than before, or was out of sight: what was known of it may not be so any more.
    pub(super) is_anew: AtomicBool,
    pub(super) freshness: ReadFence,
}

/// Current primary, or since when there is none.
///
/// It stays so as long as it does, whoever else says the same of themselves.
#[derive(Debug)]
struct PrimaryState {
    number: Option<usize>,
    /// Since when there is none, if there was one.
    lost: Option<Instant>,
}

/// One database host: connection pools and observed state.
#[derive(Debug)]
pub(super) struct ClusterHost {
    number: usize,
    pub(super) place: String,
    /// Connections for what takes longer, each for one at a time.
    readers: Pool,
    /// Connections for single records.
    pub(super) shared: PipelinedPool,
    /// The connection that writes.
    writing: Pool,
    /// The connection of who watches it.
    watching: Pool,
    seen: Mutex<HostObservation>,
    /// Wakes who watches it.
    pub(super) wake: Notify,
    /// Nobody is to wait for it any longer.
    given_up: Notify,
}

/// Last observation of a host.
#[derive(Clone, Debug)]
struct HostObservation {
    state: State,
    /// When it last knew all that the primary was known to have.
    level: Instant,
    /// The last transaction that a standby knows, which the primary has to know, too, before the standby is asked.
    commit: Option<Commit>,
    is_confirmed: bool,
    /// The last one that a primary knew, too: while there is none, a standby that was away and still has it is asked again.
    confirmed: Option<Commit>,
}

/// The number of a transaction, and by what it is told from others of this number.
pub(super) type Commit = (i64, String);

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

/// Answer of a host to a status query.
#[derive(Debug)]
pub(super) struct HostStatus {
    pub(super) takes_changes: bool,
    pub(super) line: u64,
    pub(super) commit: Option<Commit>,
    /// Whether it knows a transaction of the last primary that was seen.
    pub(super) is_confirmed: bool,
}

impl Cluster {
    pub(super) fn new(
        address: &ConnectionString,
        settings: &PostgresSettings,
    ) -> Result<Self, PostgresOpenError> {
        let node = |(number, host): (usize, &HostConfig)| {
            let half = settings.connections.div_ceil(2);
            let pool = |most| address.pool(host, most, settings);
            let (state, level) = (State::Unsure, Instant::now());
            Ok(ClusterHost {
                number,
                place: host.place.clone(),
                readers: pool(half)?,
                shared: PipelinedPool::new(pool(half)?, half, settings.patience),
                writing: pool(1)?,
                watching: pool(1)?,
                seen: Mutex::new(HostObservation {
                    state,
                    level,
                    commit: None,
                    is_confirmed: false,
                    confirmed: None,
                }),
                wake: Notify::new(),
                given_up: Notify::new(),
            })
        };
        Ok(Self {
            all: address.hosts.iter().enumerate().map(node).collect::<Result<_, PostgresOpenError>>()?,
            asks_standbys: address.asks_standbys,
            turn: AtomicUsize::new(0),
            lead: Mutex::new(PrimaryState { number: None, lost: None }),
            led_anew: Notify::new(),
            is_anew: AtomicBool::new(true),
            freshness: ReadFence::new(),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ClusterHost> {
        self.all.iter()
    }

    pub(super) fn get(&self, number: usize) -> Option<&ClusterHost> {
        self.all.get(number)
    }

    /// Whom to ask, of those that were not tried yet; `tried` has a bit for each. None if nobody is left who could answer.
    pub(super) fn pick_read_target(&self, read: Read, tried: &mut u64) -> Option<ReadTarget<'_>> {
        let (number, is_sure) = self.select_host(read, *tried)?;
        *tried |= 1 << number;
        Some(ReadTarget { node: self.get(number)?, is_sure })
    }

    fn select_host(&self, read: Read, tried: u64) -> Option<(usize, bool)> {
        let left = || self.all.iter().enumerate().filter(move |(number, _)| tried & (1 << number) == 0);
        if let Read::Since(line) = read
            && self.asks_standbys
        {
            let knowing = |node: &ClusterHost| node.standby_position().is_some_and(|known| known >= line);
            let number = left().filter(|(_, node)| knowing(node)).count();
            if number > 0 {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % number;
                return left().filter(|(_, node)| knowing(node)).nth(turn).map(|(number, _)| (number, true));
            }
        }
        let lead = self.primary_state().number;
        if let Some(lead) = lead.filter(|number| tried & (1 << number) == 0) {
            return Some((lead, true));
        }
        if !self.asks_standbys {
            return None;
        }
        let most = left().filter_map(|(number, node)| Some((node.standby_position()?, number))).max();
        match (read, most) {
            // The primary is not there, or did not answer just now: better an older answer than none.
            (Read::Since(line), Some((known, number))) => return Some((number, known >= line)),
            // Without a primary, a standby that knows all that we know does as well.
            (Read::Current, Some((known, number)))
                if lead.is_none() && known >= self.freshness.known_position() =>
            {
                return Some((number, true));
            }
            (Read::Current, _) => return None,
            (Read::Since(_), None) => {}
        }
        left().find(|(_, node)| node.observation().state == State::Unsure).map(|(number, _)| (number, false))
    }

    /// The server that takes changes.
    pub(super) fn primary(&self) -> Result<&ClusterHost, DatabaseError> {
        self.primary_state().number.and_then(|number| self.get(number)).ok_or(DatabaseError::NoPrimary)
    }

    /// The same, to be asked so long as it does, and for no longer than this.
    pub(super) fn primary_handle(&self, time: Duration) -> Result<PrimaryHandle<'_>, DatabaseError> {
        Ok(PrimaryHandle { nodes: self, node: self.primary()?, time })
    }

    /// Whether there has been none for so long that nobody should wait.
    pub(super) fn is_without_primary(&self) -> bool {
        let lead = self.primary_state();
        lead.number.is_none() && lead.lost.is_none_or(|lost| lost.elapsed() > PRIMARY_GRACE_PERIOD)
    }

    fn primary_state(&self) -> MutexGuard<'_, PrimaryState> {
        self.lead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server answered. Tells whether it is the one whose log is to be followed: the primary's, or that of any other if
    /// there is none.
    pub(super) fn record_status(&self, number: usize, told: &HostStatus) -> bool {
        let Some(node) = self.get(number) else { return false };
        let mut lead = self.primary_state();
        if told.takes_changes && lead.number.is_none() {
            if lead.lost.is_some() {
                tracing::info!(host = %node.place, "this server of the database takes changes now");
            }
            lead.number = Some(number);
            self.led_anew.notify_waiters();
            // What standbys know is to be held against what this one knows.
            self.all.iter().for_each(|node| node.observation().is_confirmed = false);
            self.is_anew.store(true, Ordering::SeqCst);
        } else if !told.takes_changes && lead.number == Some(number) {
            tracing::warn!(host = %node.place, "this server of the database takes no more changes");
            self.clear_primary(&mut lead);
        }
        let (is_lead, is_led) = (lead.number == Some(number), lead.number.is_some());
        drop(lead);
        let mut seen = node.observation();
        if seen.state == State::Gone {
            tracing::info!(host = %node.place, "a server of the database is there");
        }
        let was_primary = matches!(seen.state, State::Primary(_));
        if told.takes_changes && !is_lead && !was_primary {
            tracing::warn!(host = %node.place, "another server of the database takes changes, too; it is not asked");
        }
        seen.state = if told.takes_changes { State::Primary(told.line) } else { State::Standby(told.line) };
        seen.commit.clone_from(&told.commit);
        // Where nothing was ever committed there is nothing to be held against.
        seen.is_confirmed |= told.commit.is_none() || !is_led && told.is_confirmed;
        if seen.is_confirmed && told.commit.is_some() {
            seen.confirmed.clone_from(&told.commit);
        }
        if told.takes_changes || told.line >= self.freshness.known_position() {
            seen.level = Instant::now();
        }
        is_lead || !is_led && !told.takes_changes
    }

    /// Standbys of which it is not known whether the primary has what they have, and their last transactions.
    pub(super) fn unconfirmed_standbys(&self) -> Vec<(usize, Commit)> {
        let commit = |(number, node): (usize, &ClusterHost)| {
            let seen = node.observation();
            let is_asked = matches!(seen.state, State::Standby(_)) && !seen.is_confirmed;
            Some((number, seen.commit.clone().filter(|_| is_asked)?))
        };
        self.all.iter().enumerate().filter_map(commit).collect()
    }

    /// The primary knows the transaction, too.
    pub(super) fn confirm_standby(&self, number: usize, commit: &Commit) {
        let Some(mut seen) = self.get(number).map(ClusterHost::observation) else { return };
        if seen.commit.as_ref() == Some(commit) {
            seen.is_confirmed = true;
            seen.confirmed = Some(commit.clone());
        }
    }

    /// What a standby and a primary both knew.
    pub(super) fn confirmed_commit(&self, number: usize) -> Option<Commit> {
        self.get(number)?.observation().confirmed.clone()
    }

    fn clear_primary(&self, lead: &mut PrimaryState) {
        *lead = PrimaryState { number: None, lost: Some(Instant::now()) };
        self.led_anew.notify_waiters();
    }

    /// A server was asked whether it is there, and did not answer.
    pub(super) fn record_unreachable(&self, number: usize, why: &DatabaseError) {
        let Some(node) = self.get(number) else { return };
        let mut lead = self.primary_state();
        if lead.number == Some(number) {
            self.clear_primary(&mut lead);
        }
        drop(lead);
        let mut seen = node.observation();
        // A standby that does not know the tables yet will in a moment.
        if seen.state != State::Gone && !why.is_missing_table() {
            tracing::warn!(host = %node.place, %why, "a server of the database is not reached");
        }
        (seen.state, seen.is_confirmed) = (State::Gone, false);
        drop(seen);
        node.given_up.notify_waiters();
    }

    /// What is known of each, for people.
    pub(super) fn hosts(&self) -> Vec<DatabaseHost> {
        let (known, lead) = (self.freshness.known_position(), self.primary_state().number);
        let host = |node: &ClusterHost| {
            let is_asked =
                lead == Some(node.number) || self.asks_standbys && node.standby_position().is_some();
            let seen = node.observation();
            let (role, behind) = match seen.state {
                State::Unsure | State::Gone => (HostRole::Unreachable, None),
                State::Standby(line) => (HostRole::Standby, Some(known.saturating_sub(line))),
                State::Primary(_) => (HostRole::Primary, Some(0)),
            };
            let lag = behind.map(|behind| if behind == 0 { Duration::ZERO } else { seen.level.elapsed() });
            DatabaseHost { place: node.place.clone(), role, is_asked, behind, lag }
        };
        self.all.iter().map(host).collect()
    }
}

/// Primary with a deadline; requests fail early when it loses its role.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrimaryHandle<'n> {
    nodes: &'n Cluster,
    pub(super) node: &'n ClusterHost,
    time: Duration,
}

impl PrimaryHandle<'_> {
    /// What comes in time; nobody waits for one that takes no more changes.
    pub(super) async fn within<T>(&self, asked: impl Future<Output = T>) -> Result<T, DatabaseError> {
        let deposed = async {
            loop {
                let anew = self.nodes.led_anew.notified();
                if self.nodes.primary_state().number != Some(self.node.number) {
                    return;
                }
                anew.await;
            }
        };
        tokio::select! {
            biased;
            answer = timeout(self.time, asked) => answer.map_err(|_| DatabaseError::Silent),
            () = deposed => Err(DatabaseError::Silent),
        }
    }
}

impl ClusterHost {
    fn observation(&self) -> MutexGuard<'_, HostObservation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far a standby has come that may be asked.
    fn standby_position(&self) -> Option<u64> {
        let seen = self.observation();
        match seen.state {
            State::Standby(line) if seen.is_confirmed => Some(line),
            _ => None,
        }
    }

    /// What it answers, in time and unless it is given up.
    pub(super) async fn within<T, E>(
        &self,
        time: Duration,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Result<T, DatabaseError>
    where
        DatabaseError: From<E>,
    {
        tokio::select! {
            biased;
            answer = timeout(time, asked) => Ok(answer.map_err(|_| DatabaseError::Silent)??),
            () = self.given_up.notified() => Err(DatabaseError::Silent),
        }
    }

    pub(super) async fn read_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.readers.get().await?)
    }

    pub(super) async fn write_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.writing.get().await?)
    }

    pub(super) async fn monitor_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.watching.get().await?)
    }

    /// It did not answer. Who watches it looks at once; until then others are asked before it.
    pub(super) fn mark_suspect(&self) {
        let mut seen = self.observation();
        if matches!(seen.state, State::Standby(_)) {
            seen.state = State::Unsure;
        }
        drop(seen);
        self.wake.notify_one();
    }
}

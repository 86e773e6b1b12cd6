//! Hosts of a database, and the current primary.
//!
//! `host` is one host, `routing` chooses the host for a read, `connection_string` and `pool` connect, `pipelined_pool` shares
//! connections, `monitor` polls the hosts and follows the change log, `read_fence` tells which standbys are current enough.

pub(crate) mod connection_string;
pub(crate) mod host;
pub(crate) mod monitor;
pub(crate) mod pipelined_pool;
pub(crate) mod pool;
pub(crate) mod read_fence;
pub(crate) mod routing;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use connection_string::{ConnectionString, HostConfig};
use host::{ClusterHost, Commit, HostObservation, HostStatus, State};
use pipelined_pool::PipelinedPool;
use read_fence::ReadFence;

use super::error::DatabaseError;
use super::{DatabaseHost, HostRole, PostgresOpenError, PostgresSettings};

/// Time without a primary after which writes fail at once instead of waiting.
const PRIMARY_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// The hosts of a database: which one is primary, and how far the standbys have replayed.
#[derive(Debug)]
pub(crate) struct Cluster {
    all: Box<[ClusterHost]>,
    /// Whether standbys serve reads.
    asks_standbys: bool,
    /// Round-robin position among the standbys.
    turn: AtomicUsize,
    lead: Mutex<PrimaryState>,
    /// Notified when the primary changes or is lost.
    led_anew: Notify,
    /// Whether the primary may have changed since the log was last read, so that cached knowledge needs revalidation.
    pub(crate) is_anew: AtomicBool,
    pub(crate) freshness: ReadFence,
}

/// Current primary, or since when there is none.
///
/// A host stays primary while it says so, even if another host claims the role.
#[derive(Debug)]
struct PrimaryState {
    number: Option<usize>,
    /// When the last primary was lost.
    lost: Option<Instant>,
}

impl Cluster {
    pub(crate) fn new(
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ClusterHost> {
        self.all.iter()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&ClusterHost> {
        self.all.get(number)
    }

    /// Returns the primary.
    pub(crate) fn primary(&self) -> Result<&ClusterHost, DatabaseError> {
        self.primary_state().number.and_then(|number| self.get(number)).ok_or(DatabaseError::NoPrimary)
    }

    /// Returns the primary with a request timeout.
    pub(crate) fn primary_handle(&self, time: Duration) -> Result<PrimaryHandle<'_>, DatabaseError> {
        Ok(PrimaryHandle { nodes: self, node: self.primary()?, time })
    }

    /// Whether there has been no primary for longer than the grace period.
    pub(crate) fn is_without_primary(&self) -> bool {
        let lead = self.primary_state();
        lead.number.is_none() && lead.lost.is_none_or(|lost| lost.elapsed() > PRIMARY_GRACE_PERIOD)
    }

    fn primary_state(&self) -> MutexGuard<'_, PrimaryState> {
        self.lead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the status of a host. Returns whether its log is to be followed: that of the primary, or without one that of any
    /// standby.
    pub(crate) fn record_status(&self, number: usize, told: &HostStatus) -> bool {
        let Some(node) = self.get(number) else { return false };
        let mut lead = self.primary_state();
        if told.takes_changes && lead.number.is_none() {
            if lead.lost.is_some() {
                tracing::info!(host = %node.place, "this server of the database takes changes now");
            }
            lead.number = Some(number);
            self.led_anew.notify_waiters();
            // Standbys must be confirmed against the new primary.
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
        // Without any commit there is nothing to confirm.
        seen.is_confirmed |= told.commit.is_none() || !is_led && told.is_confirmed;
        if seen.is_confirmed && told.commit.is_some() {
            seen.confirmed.clone_from(&told.commit);
        }
        if told.takes_changes || told.line >= self.freshness.known_position() {
            seen.level = Instant::now();
        }
        is_lead || !is_led && !told.takes_changes
    }

    /// Standbys not yet confirmed against the primary, with their last commits.
    pub(crate) fn unconfirmed_standbys(&self) -> Vec<(usize, Commit)> {
        let commit = |(number, node): (usize, &ClusterHost)| {
            let seen = node.observation();
            let is_asked = matches!(seen.state, State::Standby(_)) && !seen.is_confirmed;
            Some((number, seen.commit.clone().filter(|_| is_asked)?))
        };
        self.all.iter().enumerate().filter_map(commit).collect()
    }

    /// Confirms a standby: the primary has its last commit.
    pub(crate) fn confirm_standby(&self, number: usize, commit: &Commit) {
        let Some(mut seen) = self.get(number).map(ClusterHost::observation) else { return };
        if seen.commit.as_ref() == Some(commit) {
            seen.is_confirmed = true;
            seen.confirmed = Some(commit.clone());
        }
    }

    /// Last commit of a standby that a primary confirmed.
    pub(crate) fn confirmed_commit(&self, number: usize) -> Option<Commit> {
        self.get(number)?.observation().confirmed.clone()
    }

    fn clear_primary(&self, lead: &mut PrimaryState) {
        *lead = PrimaryState { number: None, lost: Some(Instant::now()) };
        self.led_anew.notify_waiters();
    }

    /// Records that a host did not answer.
    pub(crate) fn record_unreachable(&self, number: usize, why: &DatabaseError) {
        let Some(node) = self.get(number) else { return };
        let mut lead = self.primary_state();
        if lead.number == Some(number) {
            self.clear_primary(&mut lead);
        }
        drop(lead);
        let mut seen = node.observation();
        // A standby may not have replayed the creation of the tables yet.
        if seen.state != State::Gone && !why.is_missing_table() {
            tracing::warn!(host = %node.place, %why, "a server of the database is not reached");
        }
        (seen.state, seen.is_confirmed) = (State::Gone, false);
        drop(seen);
        node.given_up.notify_waiters();
    }

    /// Observed state of all hosts, for display.
    pub(crate) fn hosts(&self) -> Vec<DatabaseHost> {
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
pub(crate) struct PrimaryHandle<'n> {
    nodes: &'n Cluster,
    pub(crate) node: &'n ClusterHost,
    time: Duration,
}

impl PrimaryHandle<'_> {
    /// Awaits a request; fails on timeout, or when the host is no longer primary.
    pub(crate) async fn within<T>(&self, asked: impl Future<Output = T>) -> Result<T, DatabaseError> {
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

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
use host::{ClusterHost, CommitId, HostObservation, HostState, HostStatus};
use pipelined_pool::PipelinedPool;
use read_fence::ReadFence;

use super::error::DatabaseError;
use super::{DatabaseHost, HostRole, PostgresOpenError, PostgresSettings};

/// Time without a primary after which writes fail at once instead of waiting.
const PRIMARY_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// The hosts of a database: which one is primary, and how far the standbys have replayed.
#[derive(Debug)]
pub(crate) struct Cluster {
    hosts: Box<[ClusterHost]>,
    /// Whether standbys serve reads.
    use_standbys: bool,
    /// Round-robin position among the standbys.
    next_standby: AtomicUsize,
    primary: Mutex<PrimaryState>,
    /// Notified when the primary changes or is lost.
    primary_changed: Notify,
    /// Whether the primary may have changed since the log was last read, so that cached knowledge needs revalidation.
    pub(crate) needs_revalidation: AtomicBool,
    pub(crate) read_fence: ReadFence,
}

/// Current primary, or since when there is none.
///
/// A host stays primary while it says so, even if another host claims the role.
#[derive(Debug)]
struct PrimaryState {
    number: Option<usize>,
    /// When the last primary was lost.
    lost_at: Option<Instant>,
}

impl Cluster {
    pub(crate) fn new(
        address: &ConnectionString,
        settings: &PostgresSettings,
    ) -> Result<Self, PostgresOpenError> {
        let host = |(number, host): (usize, &HostConfig)| {
            let half = settings.connections.div_ceil(2);
            let pool = |most| address.pool(host, most, settings);
            let (state, caught_up_at) = (HostState::Unknown, Instant::now());
            Ok(ClusterHost {
                number,
                place: host.place.clone(),
                read_pool: pool(half)?,
                pipelined_pool: PipelinedPool::new(pool(half)?, half, settings.patience),
                write_pool: pool(1)?,
                monitor_pool: pool(1)?,
                observation: Mutex::new(HostObservation {
                    state,
                    caught_up_at,
                    commit: None,
                    is_confirmed: false,
                    confirmed: None,
                }),
                poll_now: Notify::new(),
                abandoned: Notify::new(),
            })
        };
        Ok(Self {
            hosts: address.hosts.iter().enumerate().map(host).collect::<Result<_, PostgresOpenError>>()?,
            use_standbys: address.use_standbys,
            next_standby: AtomicUsize::new(0),
            primary: Mutex::new(PrimaryState { number: None, lost_at: None }),
            primary_changed: Notify::new(),
            needs_revalidation: AtomicBool::new(true),
            read_fence: ReadFence::new(),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ClusterHost> {
        self.hosts.iter()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&ClusterHost> {
        self.hosts.get(number)
    }

    /// Returns the primary.
    pub(crate) fn primary(&self) -> Result<&ClusterHost, DatabaseError> {
        self.primary_state().number.and_then(|number| self.get(number)).ok_or(DatabaseError::NoPrimary)
    }

    /// Returns the primary with a request timeout.
    pub(crate) fn primary_handle(&self, time: Duration) -> Result<PrimaryHandle<'_>, DatabaseError> {
        Ok(PrimaryHandle { cluster: self, host: self.primary()?, time })
    }

    /// Whether there has been no primary for longer than the grace period.
    pub(crate) fn is_without_primary(&self) -> bool {
        let primary = self.primary_state();
        primary.number.is_none()
            && primary.lost_at.is_none_or(|lost_at| lost_at.elapsed() > PRIMARY_GRACE_PERIOD)
    }

    fn primary_state(&self) -> MutexGuard<'_, PrimaryState> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the status of a host. Returns whether its log is to be followed: that of the primary, or without one that of any
    /// standby.
    pub(crate) fn record_status(&self, number: usize, status: &HostStatus) -> bool {
        let Some(host) = self.get(number) else { return false };
        let mut primary = self.primary_state();
        if status.is_primary && primary.number.is_none() {
            if primary.lost_at.is_some() {
                tracing::info!(host = %host.place, "this server of the database takes changes now");
            }
            primary.number = Some(number);
            self.primary_changed.notify_waiters();
            // Standbys must be confirmed against the new primary.
            self.hosts.iter().for_each(|host| host.observation().is_confirmed = false);
            self.needs_revalidation.store(true, Ordering::SeqCst);
        } else if !status.is_primary && primary.number == Some(number) {
            tracing::warn!(host = %host.place, "this server of the database takes no more changes");
            self.clear_primary(&mut primary);
        }
        let (is_current_primary, has_primary) = (primary.number == Some(number), primary.number.is_some());
        drop(primary);
        let mut observation = host.observation();
        if observation.state == HostState::Unreachable {
            tracing::info!(host = %host.place, "a server of the database is there");
        }
        let was_primary = matches!(observation.state, HostState::Primary(_));
        if status.is_primary && !is_current_primary && !was_primary {
            tracing::warn!(host = %host.place, "another server of the database takes changes, too; it is not asked");
        }
        observation.state =
            if status.is_primary { HostState::Primary(status.line) } else { HostState::Standby(status.line) };
        observation.commit.clone_from(&status.commit);
        // Without any commit there is nothing to confirm.
        observation.is_confirmed |= status.commit.is_none() || !has_primary && status.is_confirmed;
        if observation.is_confirmed && status.commit.is_some() {
            observation.confirmed.clone_from(&status.commit);
        }
        if status.is_primary || status.line >= self.read_fence.known_position() {
            observation.caught_up_at = Instant::now();
        }
        is_current_primary || !has_primary && !status.is_primary
    }

    /// Standbys not yet confirmed against the primary, with their last commits.
    pub(crate) fn unconfirmed_standbys(&self) -> Vec<(usize, CommitId)> {
        let commit = |(number, host): (usize, &ClusterHost)| {
            let observation = host.observation();
            let is_asked = matches!(observation.state, HostState::Standby(_)) && !observation.is_confirmed;
            Some((number, observation.commit.clone().filter(|_| is_asked)?))
        };
        self.hosts.iter().enumerate().filter_map(commit).collect()
    }

    /// Confirms a standby: the primary has its last commit.
    pub(crate) fn confirm_standby(&self, number: usize, commit: &CommitId) {
        let Some(mut observation) = self.get(number).map(ClusterHost::observation) else { return };
        if observation.commit.as_ref() == Some(commit) {
            observation.is_confirmed = true;
            observation.confirmed = Some(commit.clone());
        }
    }

    /// Last commit of a standby that a primary confirmed.
    pub(crate) fn confirmed_commit(&self, number: usize) -> Option<CommitId> {
        self.get(number)?.observation().confirmed.clone()
    }

    fn clear_primary(&self, primary: &mut PrimaryState) {
        *primary = PrimaryState { number: None, lost_at: Some(Instant::now()) };
        self.primary_changed.notify_waiters();
    }

    /// Records that a host did not answer.
    pub(crate) fn record_unreachable(&self, number: usize, why: &DatabaseError) {
        let Some(host) = self.get(number) else { return };
        let mut primary = self.primary_state();
        if primary.number == Some(number) {
            self.clear_primary(&mut primary);
        }
        drop(primary);
        let mut observation = host.observation();
        // A standby may not have replayed the creation of the tables yet.
        if observation.state != HostState::Unreachable && !why.is_missing_table() {
            tracing::warn!(host = %host.place, %why, "a server of the database is not reached");
        }
        (observation.state, observation.is_confirmed) = (HostState::Unreachable, false);
        drop(observation);
        host.abandoned.notify_waiters();
    }

    /// Observed state of all hosts, for display.
    pub(crate) fn hosts(&self) -> Vec<DatabaseHost> {
        let (known, primary) = (self.read_fence.known_position(), self.primary_state().number);
        let host = |host: &ClusterHost| {
            let is_asked =
                primary == Some(host.number) || self.use_standbys && host.standby_position().is_some();
            let observation = host.observation();
            let (role, behind) = match observation.state {
                HostState::Unknown | HostState::Unreachable => (HostRole::Unreachable, None),
                HostState::Standby(line) => (HostRole::Standby, Some(known.saturating_sub(line))),
                HostState::Primary(_) => (HostRole::Primary, Some(0)),
            };
            let lag = behind
                .map(|behind| if behind == 0 { Duration::ZERO } else { observation.caught_up_at.elapsed() });
            DatabaseHost { place: host.place.clone(), role, is_asked, behind, lag }
        };
        self.hosts.iter().map(host).collect()
    }
}

/// Primary with a deadline; requests fail early when it loses its role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrimaryHandle<'n> {
    cluster: &'n Cluster,
    pub(crate) host: &'n ClusterHost,
    time: Duration,
}

impl PrimaryHandle<'_> {
    /// Awaits a request; fails on timeout, or when the host is no longer primary.
    pub(crate) async fn within<T>(&self, asked: impl Future<Output = T>) -> Result<T, DatabaseError> {
        let deposed = async {
            loop {
                let anew = self.cluster.primary_changed.notified();
                if self.cluster.primary_state().number != Some(self.host.number) {
                    return;
                }
                anew.await;
            }
        };
        tokio::select! {
            biased;
            answer = timeout(self.time, asked) => answer.map_err(|_| DatabaseError::Timeout),
            () = deposed => Err(DatabaseError::Timeout),
        }
    }
}

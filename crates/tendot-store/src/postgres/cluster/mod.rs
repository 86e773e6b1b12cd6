//! Hosts of a database, and the current primary.
//!
//! `host` is one host, `routing` chooses the host for a read, `connection_string` and `pool` connect, `pipelined_pool` shares
//! connections, `monitor` polls the hosts and follows the change log, `read_fence` decides which standbys are current enough,
//! `timeline` and `primary` which of several primaries is the current one.

pub(crate) mod connection_string;
pub(crate) mod host;
pub(crate) mod monitor;
pub(crate) mod pipelined_pool;
pub(crate) mod pool;
pub(crate) mod primary;
pub(crate) mod read_fence;
pub(crate) mod routing;
pub(crate) mod timeline;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use connection_string::{ConnectionString, HostConfig};
use host::{ClusterHost, CommitId, HostObservation, HostState, HostStatus};
use pipelined_pool::PipelinedPool;
use primary::PrimaryState;
use read_fence::ReadFence;
use timeline::{HostTimeline, Timeline, TimelineFile};

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
    /// Remembers the highest timeline seen.
    timeline_file: Option<TimelineFile>,
    /// Time of the primary, in milliseconds since 1970, and when it was measured.
    clock: Mutex<Option<(u64, Instant)>>,
}

impl Cluster {
    pub(crate) fn new(
        connection: &ConnectionString,
        settings: &PostgresSettings,
    ) -> Result<Self, PostgresOpenError> {
        let host = |(index, host): (usize, &HostConfig)| {
            let half = settings.max_connections.div_ceil(2);
            let pool = |max_size| connection.pool(host, max_size, settings);
            let (state, caught_up_at) = (HostState::Unknown, Instant::now());
            Ok(ClusterHost {
                index,
                address: host.address.clone(),
                read_pool: pool(half)?,
                pipelined_pool: PipelinedPool::new(pool(half)?, half, settings.wait_timeout),
                write_pool: pool(1)?,
                monitor_pool: pool(1)?,
                observation: Mutex::new(HostObservation {
                    state,
                    caught_up_at,
                    last_commit: None,
                    is_confirmed: false,
                    confirmed_commit: None,
                    timeline: HostTimeline::default(),
                }),
                poll_now: Notify::new(),
                abandoned: Notify::new(),
            })
        };
        let timeline_file = settings.timeline_file.as_deref().map(|path| {
            TimelineFile::open(path).map_err(|error| PostgresOpenError::TimelineFile {
                path: path.display().to_string(),
                reason: error.to_string(),
            })
        });
        let timeline_file = timeline_file.transpose()?;
        let highest = timeline_file.as_ref().and_then(TimelineFile::timeline);
        Ok(Self {
            hosts: connection.hosts.iter().enumerate().map(host).collect::<Result<_, PostgresOpenError>>()?,
            use_standbys: connection.use_standbys,
            next_standby: AtomicUsize::new(0),
            primary: Mutex::new(PrimaryState::new(highest)),
            primary_changed: Notify::new(),
            needs_revalidation: AtomicBool::new(true),
            read_fence: ReadFence::new(),
            timeline_file,
            clock: Mutex::new(None),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ClusterHost> {
        self.hosts.iter()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&ClusterHost> {
        self.hosts.get(index)
    }

    /// Returns the primary.
    pub(crate) fn primary(&self) -> Result<&ClusterHost, DatabaseError> {
        self.primary_state().host.and_then(|index| self.get(index)).ok_or(DatabaseError::NoPrimary)
    }

    /// Returns the primary with a request timeout.
    pub(crate) fn primary_handle(&self, timeout: Duration) -> Result<PrimaryHandle<'_>, DatabaseError> {
        let (host, timeline) = {
            let primary = self.primary_state();
            (primary.host, primary.timeline)
        };
        let host = host.and_then(|index| self.get(index)).ok_or(DatabaseError::NoPrimary)?;
        Ok(PrimaryHandle { cluster: self, host, timeline, timeout })
    }

    /// Highest timeline that this server knows of.
    pub(crate) fn highest_timeline(&self) -> Option<Timeline> {
        self.primary_state().highest
    }

    /// Fails if a promotion has superseded a primary with this timeline.
    pub(crate) fn check_timeline(&self, timeline: Option<Timeline>) -> Result<(), DatabaseError> {
        let is_superseded = timeline.is_some_and(|timeline| self.primary_state().is_superseded(timeline));
        if is_superseded { Err(DatabaseError::Superseded) } else { Ok(()) }
    }

    /// Loads known timelines before the first poll: from the tables of the hosts and from the hosts.
    pub(crate) fn learn_timelines(&self, systems: &[u64], timelines: impl IntoIterator<Item = Timeline>) {
        let mut primary = self.primary_state();
        primary.forget_other_systems(systems);
        timelines.into_iter().for_each(|timeline| primary.learn(timeline));
    }

    /// Time of the primary in milliseconds since 1970: as measured last, and the time since then.
    pub(crate) fn clock_ms(&self) -> Option<u64> {
        let (measured_ms, at) = (*self.clock.lock().unwrap_or_else(PoisonError::into_inner))?;
        let elapsed = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(measured_ms.saturating_add(elapsed))
    }

    /// Whether the highest timeline is not in its file yet.
    pub(crate) fn has_unsaved_timeline(&self) -> bool {
        let saved = self.timeline_file.as_ref().map(TimelineFile::timeline);
        saved.is_some_and(|saved| saved != self.highest_timeline())
    }

    /// Writes the highest timeline to its file. Waits for the disk.
    pub(crate) fn save_timeline(&self) {
        if let (Some(file), Some(highest)) = (&self.timeline_file, self.highest_timeline()) {
            file.save(highest);
        }
    }

    /// Whether there has been no primary for longer than the grace period.
    pub(crate) fn is_without_primary(&self) -> bool {
        self.grace_left() == Some(Duration::ZERO)
    }

    /// Completes when there has been no primary for longer than the grace period.
    pub(crate) async fn wait_without_primary(&self) {
        loop {
            let changed = self.primary_changed.notified();
            match self.grace_left() {
                None => changed.await,
                Some(Duration::ZERO) => return,
                // Either the primary has changed, or the time is over.
                Some(left) => drop(timeout(left, changed).await),
            }
        }
    }

    /// Rest of the grace period; `None` while there is a primary.
    fn grace_left(&self) -> Option<Duration> {
        let primary = self.primary_state();
        let lost_for = primary.lost_at.map_or(PRIMARY_GRACE_PERIOD, |lost_at| lost_at.elapsed());
        primary.host.is_none().then(|| PRIMARY_GRACE_PERIOD.saturating_sub(lost_for))
    }

    fn primary_state(&self) -> MutexGuard<'_, PrimaryState> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the status of a host. Returns whether its log is to be followed: that of the primary, or without one that of any
    /// standby.
    pub(crate) fn record_status(&self, index: usize, status: &HostStatus) -> bool {
        let Some(host) = self.get(index) else { return false };
        host.observation().timeline = status.timeline;
        let mut primary = self.primary_state();
        self.update_primary(&mut primary, host, status);
        if primary.host == Some(index) {
            let measured = (status.clock_ms, status.measured_at);
            *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
        }
        let (is_current_primary, has_primary) = (primary.host == Some(index), primary.host.is_some());
        drop(primary);
        let mut observation = host.observation();
        if observation.state == HostState::Unreachable {
            tracing::info!(host = %host.address, "database host reachable again");
        }
        let was_primary = matches!(observation.state, HostState::Primary(_));
        if status.is_primary && !is_current_primary && !was_primary {
            tracing::warn!(
                host = %host.address,
                timeline = status.timeline.current.map(|timeline| timeline.number),
                "second primary detected; ignoring this host: stop it"
            );
        }
        observation.state = if status.is_primary {
            HostState::Primary(status.sequence)
        } else {
            HostState::Standby(status.sequence)
        };
        observation.last_commit.clone_from(&status.last_commit);
        // Without any commit there is nothing to confirm.
        observation.is_confirmed |= status.last_commit.is_none() || !has_primary && status.is_confirmed;
        if observation.is_confirmed && status.last_commit.is_some() {
            observation.confirmed_commit.clone_from(&status.last_commit);
        }
        if status.is_primary || status.sequence >= self.read_fence.known_position() {
            observation.caught_up_at = Instant::now();
        }
        is_current_primary || !has_primary && !status.is_primary
    }

    /// Standbys not yet confirmed against the primary, with their last commits.
    pub(crate) fn unconfirmed_standbys(&self) -> Vec<(usize, CommitId)> {
        let unconfirmed = |(index, host): (usize, &ClusterHost)| {
            let observation = host.observation();
            let is_unconfirmed =
                matches!(observation.state, HostState::Standby(_)) && !observation.is_confirmed;
            Some((index, observation.last_commit.clone().filter(|_| is_unconfirmed)?))
        };
        self.hosts.iter().enumerate().filter_map(unconfirmed).collect()
    }

    /// Confirms a standby: the primary has its last commit.
    pub(crate) fn confirm_standby(&self, index: usize, commit: &CommitId) {
        let Some(mut observation) = self.get(index).map(ClusterHost::observation) else { return };
        if observation.last_commit.as_ref() == Some(commit) {
            observation.is_confirmed = true;
            observation.confirmed_commit = Some(commit.clone());
        }
    }

    /// Last commit of a standby that a primary confirmed.
    pub(crate) fn confirmed_commit(&self, index: usize) -> Option<CommitId> {
        self.get(index)?.observation().confirmed_commit.clone()
    }

    /// Records that a host did not answer.
    pub(crate) fn record_unreachable(&self, index: usize, reason: &DatabaseError) {
        let Some(host) = self.get(index) else { return };
        let mut primary = self.primary_state();
        if primary.host == Some(index) {
            self.clear_primary(&mut primary);
        }
        drop(primary);
        let mut observation = host.observation();
        // A standby may not have replayed the creation of the tables yet.
        if observation.state != HostState::Unreachable && !reason.is_missing_table() {
            tracing::warn!(host = %host.address, %reason, "database host unreachable");
        }
        (observation.state, observation.is_confirmed) = (HostState::Unreachable, false);
        drop(observation);
        host.abandoned.notify_waiters();
    }

    /// Observed state of all hosts, for display.
    pub(crate) fn hosts(&self) -> Vec<DatabaseHost> {
        let (known, primary) = (self.read_fence.known_position(), self.primary_state().host);
        let host = |host: &ClusterHost| {
            let serves_reads =
                primary == Some(host.index) || self.use_standbys && host.standby_position().is_some();
            let observation = host.observation();
            let (role, lag_entries) = match observation.state {
                HostState::Unknown | HostState::Unreachable => (HostRole::Unreachable, None),
                HostState::Standby(sequence) => (HostRole::Standby, Some(known.saturating_sub(sequence))),
                HostState::Primary(_) if primary == Some(host.index) => (HostRole::Primary, Some(0)),
                HostState::Primary(_) => (HostRole::SecondPrimary, None),
            };
            let timeline = observation.timeline.current.filter(|_| role != HostRole::Unreachable);
            let timeline = timeline.map(|timeline| timeline.number);
            let lag = lag_entries.map(|entries| {
                if entries == 0 { Duration::ZERO } else { observation.caught_up_at.elapsed() }
            });
            DatabaseHost { address: host.address.clone(), role, serves_reads, lag_entries, lag, timeline }
        };
        self.hosts.iter().map(host).collect()
    }
}

/// Primary with a deadline; requests fail early when it loses its role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrimaryHandle<'n> {
    pub(crate) cluster: &'n Cluster,
    pub(crate) host: &'n ClusterHost,
    /// Timeline of the primary; `None` if the database has no timelines.
    pub(crate) timeline: Option<Timeline>,
    timeout: Duration,
}

impl PrimaryHandle<'_> {
    /// Fails if a promotion has superseded this primary.
    pub(crate) fn check_timeline(&self) -> Result<(), DatabaseError> {
        self.cluster.check_timeline(self.timeline)
    }

    /// Awaits a request; fails on timeout, or when the host is no longer primary.
    pub(crate) async fn with_timeout<T>(&self, request: impl Future<Output = T>) -> Result<T, DatabaseError> {
        let deposed = async {
            loop {
                let changed = self.cluster.primary_changed.notified();
                if self.cluster.primary_state().host != Some(self.host.index) {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            result = timeout(self.timeout, request) => result.map_err(|_| DatabaseError::Timeout),
            () = deposed => Err(DatabaseError::Timeout),
        }
    }
}

//! Polls the hosts for reachability and role, and follows the change log, which works on every system with PostgreSQL's
//! protocol.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::Object;
use futures_util::future::join;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Cluster;
use super::host::{ClusterHost, CommitId, HostStatus};
use super::timeline::{HostTimeline, SELECT_TIMELINE, record_timeline_sql, recorded_timeline};
use crate::postgres::error::{self, DatabaseError, with_timeout};
use crate::postgres::{PostgresSettings, read, row, schema};

/// Poll interval. Changes of other processes are known after this time and a round trip.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Minimum interval between polls triggered by failed requests.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Log entries per page, and maximum number of pages per poll; beyond that, everything counts as changed.
const LOG_PAGE_LEN: usize = 1_000;
const MAX_LOG_PAGES: usize = 20;

const SELECT_STATUS: &str = "\
    select current_setting('transaction_read_only'), c.sequence, c.commits, \
        (select commit_id from tendot_commits where number = c.commits), \
        (select commit_id from tendot_commits where number = $1), \
        (select commit_id from tendot_commits where number = $2), \
        (select compatible from tendot_schema where id = 1), c.timeline, \
        (extract(epoch from clock_timestamp()) * 1000)::bigint \
    from tendot_counters c where c.id = 1";

const SELECT_COMMIT_IDS: &str = "select number, commit_id from tendot_commits where number = any($1)";

/// Position up to which the change log was read.
#[derive(Clone, Debug, Default)]
struct LogCursor {
    sequence: u64,
    /// Last commit of the primary; if it is missing, the history has diverged.
    last_commit: Option<CommitId>,
}

/// Background tasks that poll every host; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    _tasks: JoinSet<()>,
}

/// State shared by the polling tasks.
struct MonitorTask {
    cluster: Arc<Cluster>,
    cursor: Mutex<Option<LogCursor>>,
    /// Timeout of a poll.
    timeout: Duration,
    /// Whether the database has no timelines: another system with PostgreSQL's protocol.
    has_no_timelines: AtomicBool,
}

impl Monitor {
    /// Starts the polling tasks after polling each host once.
    pub(crate) async fn start(cluster: &Arc<Cluster>, settings: &PostgresSettings) -> Self {
        let timeout = settings.probe_timeout.min(settings.wait_timeout / 2);
        let monitor = Arc::new(MonitorTask {
            cluster: Arc::clone(cluster),
            cursor: Mutex::new(None),
            timeout,
            has_no_timelines: AtomicBool::new(false),
        });
        let mut first = JoinSet::new();
        let mut tasks = JoinSet::new();
        for index in 0..cluster.iter().count() {
            let (now, later) = (Arc::clone(&monitor), Arc::clone(&monitor));
            first.spawn(async move { now.poll_host(index).await });
            tasks.spawn(async move { later.run(index).await });
        }
        while first.join_next().await.is_some() {}
        Self { _tasks: tasks }
    }
}

impl MonitorTask {
    async fn run(&self, index: usize) {
        let Some(host) = self.cluster.get(index) else { return };
        loop {
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                () = host.poll_now.notified() => sleep(MIN_POLL_INTERVAL).await,
            }
            self.poll_host(index).await;
        }
    }

    async fn poll_host(&self, index: usize) {
        let Some(host) = self.cluster.get(index) else { return };
        let commit = self.log_cursor().as_ref().and_then(|cursor| cursor.last_commit.clone());
        let commits = [commit, self.cluster.confirmed_commit(index)];
        let known = self.cluster.read_fence.known_position();
        let mut result = self.query_status(host, &commits).await;
        // A broken connection says nothing about the host, but failure to reconnect does. The new connection may reach another
        // host if there is a proxy.
        let is_reconnected = matches!(result, Err(DatabaseError::Sql(_)));
        if is_reconnected {
            result = self.query_status(host, &commits).await;
        }
        let (client, status, is_same) = match result {
            Ok(result) => result,
            Err(error) => return self.cluster.record_unreachable(index, &error),
        };
        let follows_log = self.cluster.record_status(index, &status);
        self.save_timeline();
        if !follows_log {
            return self.record_timeline(client, &status).await;
        }
        if status.is_primary && (is_reconnected || !is_same) {
            self.cluster.needs_revalidation.store(true, Ordering::SeqCst);
        }
        // With the same history, the host has everything known before the query.
        let restart = || self.restart_at(&status, is_same && status.sequence >= known);
        // The next poll checks reachability.
        let read = self.read_new_log_entries(&client, &status, restart);
        match with_timeout(self.timeout, read).await {
            Ok(()) => {}
            Err(DatabaseError::Corrupt(error)) => {
                tracing::error!(host = %host.address, %error, "unreadable log entry; all cached records invalidated");
                restart();
            }
            Err(_) => return drop(Object::take(client)),
        }
        // Last, because it may wait for the lock of a commit.
        self.record_timeline(client, &status).await;
    }

    /// Writes the highest timeline to the file of this server.
    fn save_timeline(&self) {
        if self.cluster.has_unsaved_timeline() {
            let cluster = Arc::clone(&self.cluster);
            // Not awaited: a disk that hangs must not stop the polls. A failure is logged, and the next poll repeats it.
            drop(tokio::task::spawn_blocking(move || cluster.save_timeline()));
        }
    }

    /// Records the highest timeline in every primary that has a lower one, so that other servers refuse a superseded primary even if
    /// they reach no other host.
    async fn record_timeline(&self, client: Object, status: &HostStatus) {
        let highest = self.cluster.highest_timeline().filter(|highest| {
            let is_recorded = status
                .recorded_timeline
                .is_some_and(|recorded| recorded == *highest || highest.is_superseded_by(recorded));
            status.is_primary && status.timeline.system == Some(highest.system) && !is_recorded
        });
        let Some(highest) = highest else { return };
        let sql = record_timeline_sql(highest);
        if let Err(error) = with_timeout(self.timeout, client.batch_execute(&sql)).await {
            // Other transactions may hold the lock; the next poll repeats it.
            tracing::debug!(%error, %highest, "cannot record the timeline");
            drop(Object::take(client));
        }
    }

    /// Timeline of a host, if the database has timelines.
    async fn query_timeline(&self, client: &Object) -> Result<HostTimeline, DatabaseError> {
        if self.has_no_timelines.load(Ordering::Relaxed) {
            return Ok(HostTimeline::default());
        }
        let query = async {
            let statement = client.prepare_cached(SELECT_TIMELINE).await?;
            client.query_one(&statement, &[]).await
        };
        match query.await {
            Ok(row) => Ok(HostTimeline::from_row(&row)?),
            Err(error) if error::is_unsupported(&error) => {
                tracing::warn!(
                    reason = error::message(&error),
                    "cannot read the timeline of the database: a superseded primary is not detected"
                );
                self.has_no_timelines.store(true, Ordering::Relaxed);
                Ok(HostTimeline::default())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Queries the status of a host, and whether it has the last known commit of the primary, and the last one it shared with a
    /// primary.
    async fn query_status(
        &self,
        host: &ClusterHost,
        commits: &[Option<CommitId>; 2],
    ) -> Result<(Object, HostStatus, bool), DatabaseError> {
        // The host may have two addresses, the first of which does not answer.
        let client = with_timeout(2 * self.timeout, host.monitor_connection()).await?;
        let [last, shared] =
            commits.each_ref().map(|commit| commit.as_ref().map_or(0, |commit| commit.number));
        let query = async {
            let statement = client.prepare_cached(SELECT_STATUS).await?;
            Ok::<_, DatabaseError>(client.query_one(&statement, &[&last, &shared]).await?)
        };
        let started = Instant::now();
        let queries = async {
            let (timeline, row) = join(self.query_timeline(&client), query).await;
            Ok::<_, DatabaseError>((timeline?, row?))
        };
        let (timeline, row) = match with_timeout(self.timeout, queries).await {
            Ok(result) => result,
            Err(error) => {
                drop(Object::take(client));
                return Err(error);
            }
        };
        let compatible: Option<i32> = row::column(&row, 6)?;
        if compatible.is_some_and(|compatible| compatible > schema::latest_version()) {
            return Err(DatabaseError::SchemaTooNew);
        }
        let number = row::column::<i64>(&row, 2)?;
        let has_commit = |commit: &Option<CommitId>, column| {
            let id: Option<&str> = row::column(&row, column)?;
            Ok::<_, DatabaseError>(commit.as_ref().map(|commit| id == Some(&commit.id)))
        };
        let [last, shared] = [has_commit(&commits[0], 4)?, has_commit(&commits[1], 5)?];
        let status = HostStatus {
            is_primary: row::column::<&str>(&row, 0)? == "off",
            sequence: row::to_u64(row::column(&row, 1)?),
            last_commit: row::column::<Option<String>>(&row, 3)?.map(|id| CommitId { number, id }),
            is_confirmed: last == Some(true) || shared == Some(true),
            timeline,
            recorded_timeline: recorded_timeline(&row, 7)?,
            clock_ms: row::to_u64(row::column(&row, 8)?),
            // In the middle between request and response.
            measured_at: started + started.elapsed() / 2,
        };
        Ok((client, status, last.unwrap_or(true)))
    }

    /// Reads new log entries.
    async fn read_new_log_entries(
        &self,
        client: &Object,
        status: &HostStatus,
        restart: impl Fn(),
    ) -> Result<(), DatabaseError> {
        if status.is_primary {
            self.confirm_standbys(client).await?;
        }
        let cursor = self.log_cursor().as_ref().map(|cursor| cursor.sequence);
        let Some(mut sequence) = cursor.filter(|sequence| {
            // A standby may lag behind.
            !status.is_primary
                || *sequence <= status.sequence && !self.cluster.needs_revalidation.load(Ordering::SeqCst)
        }) else {
            restart();
            return Ok(());
        };
        for _ in 0..MAX_LOG_PAGES {
            if status.sequence <= sequence {
                if let Some(cursor) = self.log_cursor().as_mut().filter(|_| status.is_primary) {
                    cursor.last_commit.clone_from(&status.last_commit);
                }
                return Ok(());
            }
            let log_entries = read::read_log_of_host(client, sequence, LOG_PAGE_LEN).await?;
            log_entries.iter().for_each(|log_entry| self.cluster.read_fence.record_log_entry(log_entry));
            sequence = log_entries.last().map_or(status.sequence, |last| last.sequence);
            // Of two concurrent readers, the further one wins; extra invalidations are harmless.
            if let Some(cursor) = self.log_cursor().as_mut() {
                cursor.sequence = cursor.sequence.max(sequence);
            }
        }
        restart();
        Ok(())
    }

    /// Restarts at this position: everything counts as changed, and the history may differ.
    fn restart_at(&self, status: &HostStatus, is_same: bool) {
        if status.is_primary {
            self.cluster.needs_revalidation.store(false, Ordering::SeqCst);
        }
        self.cluster.read_fence.reset(status.sequence, is_same);
        let (sequence, last_commit) = (status.sequence, status.last_commit.clone());
        *self.log_cursor() = Some(LogCursor { sequence, last_commit });
    }

    /// Checks that the primary has the last commits of the standbys; a standby with another commit has diverged.
    async fn confirm_standbys(&self, client: &Object) -> Result<(), DatabaseError> {
        let unconfirmed = self.cluster.unconfirmed_standbys();
        if unconfirmed.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = unconfirmed.iter().map(|(_, commit)| commit.number).collect();
        let statement = client.prepare_cached(SELECT_COMMIT_IDS).await?;
        for row in client.query(&statement, &[&numbers]).await? {
            let known = CommitId { number: row::column(&row, 0)?, id: row::column(&row, 1)? };
            for (index, commit) in unconfirmed.iter().filter(|(_, commit)| *commit == known) {
                self.cluster.confirm_standby(*index, commit);
            }
        }
        Ok(())
    }

    fn log_cursor(&self) -> MutexGuard<'_, Option<LogCursor>> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

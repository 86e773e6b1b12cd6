//! Polls the hosts for reachability and role, and follows the change log, which works on every system with PostgreSQL's
//! protocol.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::host::{ClusterHost, CommitId, HostStatus};
use crate::postgres::error::DatabaseError;
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
        (select id from tendot_commits where number = c.commits), \
        (select id from tendot_commits where number = $1), \
        (select id from tendot_commits where number = $2), \
        (select compatible from tendot_schema where id = 1) \
    from tendot_counters c where c.id = 1";

const SELECT_COMMIT_IDS: &str = "select number, id from tendot_commits where number = any($1)";

/// Position up to which the change log was read.
#[derive(Clone, Debug, Default)]
struct LogCursor {
    line: u64,
    /// Last commit of the primary; if it is missing, the history has diverged.
    commit: Option<CommitId>,
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
    time: Duration,
}

impl Monitor {
    /// Starts the polling tasks after polling each host once.
    pub(crate) async fn start(cluster: &Arc<Cluster>, settings: &PostgresSettings) -> Self {
        let time = settings.probe_timeout.min(settings.patience / 2);
        let monitor = Arc::new(MonitorTask { cluster: Arc::clone(cluster), cursor: Mutex::new(None), time });
        let mut first = JoinSet::new();
        let mut tasks = JoinSet::new();
        for number in 0..cluster.iter().count() {
            let (now, later) = (Arc::clone(&monitor), Arc::clone(&monitor));
            first.spawn(async move { now.poll_host(number).await });
            tasks.spawn(async move { later.run(number).await });
        }
        while first.join_next().await.is_some() {}
        Self { _tasks: tasks }
    }
}

impl MonitorTask {
    async fn run(&self, number: usize) {
        let Some(host) = self.cluster.get(number) else { return };
        loop {
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                () = host.poll_now.notified() => sleep(MIN_POLL_INTERVAL).await,
            }
            self.poll_host(number).await;
        }
    }

    async fn poll_host(&self, number: usize) {
        let Some(host) = self.cluster.get(number) else { return };
        let commit = self.log_cursor().as_ref().and_then(|cursor| cursor.commit.clone());
        let commits = [commit, self.cluster.confirmed_commit(number)];
        let known = self.cluster.read_fence.known_position();
        let mut asked = self.query_status(host, &commits).await;
        // A broken connection says nothing about the host, but failure to reconnect does. The new connection may reach another
        // host if there is a proxy.
        let is_other = matches!(asked, Err(DatabaseError::Sql(_)));
        if is_other {
            asked = self.query_status(host, &commits).await;
        }
        let (client, status, is_same) = match asked {
            Ok(asked) => asked,
            Err(why) => return self.cluster.record_unreachable(number, &why),
        };
        if !self.cluster.record_status(number, &status) {
            return;
        }
        if status.is_primary && (is_other || !is_same) {
            self.cluster.needs_revalidation.store(true, Ordering::SeqCst);
        }
        // With the same history, the host has everything known before the query.
        let begin = || self.restart_at(&status, is_same && status.line >= known);
        // The next poll checks reachability.
        match self.with_timeout(self.read_new_log_entries(&client, &status, begin)).await {
            Ok(()) => {}
            Err(DatabaseError::Corrupt(error)) => {
                tracing::error!(host = %host.place, %error, "a line of the log can't be read; nothing is kept");
                begin();
            }
            Err(_) => drop(Object::take(client)),
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
        let connecting = timeout(2 * self.time, host.monitor_connection());
        let client = connecting.await.map_err(|_| DatabaseError::Timeout)??;
        let [last, shared] =
            commits.each_ref().map(|commit| commit.as_ref().map_or(0, |(number, _)| *number));
        let asked = async {
            let statement = client.prepare_cached(SELECT_STATUS).await?;
            Ok(client.query_one(&statement, &[&last, &shared]).await?)
        };
        let row = match self.with_timeout(asked).await {
            Ok(row) => row,
            Err(why) => {
                drop(Object::take(client));
                return Err(why);
            }
        };
        let compatible: Option<i32> = row::column(&row, 6)?;
        if compatible.is_some_and(|compatible| compatible > schema::latest_version()) {
            return Err(DatabaseError::SchemaTooNew);
        }
        let commit = row::column::<i64>(&row, 2)?;
        let knows = |commit: &Option<CommitId>, column| {
            let known: Option<&str> = row::column(&row, column)?;
            Ok::<_, DatabaseError>(commit.as_ref().map(|(_, id)| known == Some(id)))
        };
        let [last, shared] = [knows(&commits[0], 4)?, knows(&commits[1], 5)?];
        let status = HostStatus {
            is_primary: row::column::<&str>(&row, 0)? == "off",
            line: row::to_u64(row::column(&row, 1)?),
            commit: row::column::<Option<String>>(&row, 3)?.map(|id| (commit, id)),
            is_confirmed: last == Some(true) || shared == Some(true),
        };
        Ok((client, status, last.unwrap_or(true)))
    }

    /// Reads new log entries.
    async fn read_new_log_entries(
        &self,
        client: &Object,
        status: &HostStatus,
        begin: impl Fn(),
    ) -> Result<(), DatabaseError> {
        if status.is_primary {
            self.confirm_standbys(client).await?;
        }
        let known = self.log_cursor().as_ref().map(|cursor| cursor.line);
        let Some(mut line) = known.filter(|line| {
            // A standby may lag behind.
            !status.is_primary
                || *line <= status.line && !self.cluster.needs_revalidation.load(Ordering::SeqCst)
        }) else {
            begin();
            return Ok(());
        };
        for _ in 0..MAX_LOG_PAGES {
            if status.line <= line {
                if let Some(cursor) = self.log_cursor().as_mut().filter(|_| status.is_primary) {
                    cursor.commit.clone_from(&status.commit);
                }
                return Ok(());
            }
            let lines = read::read_log(client, line, LOG_PAGE_LEN).await?;
            lines.iter().for_each(|line| self.cluster.read_fence.record_log_entry(line));
            line = lines.last().map_or(status.line, |last| last.sequence);
            // Of two concurrent readers, the further one wins; extra invalidations are harmless.
            if let Some(cursor) = self.log_cursor().as_mut() {
                cursor.line = cursor.line.max(line);
            }
        }
        begin();
        Ok(())
    }

    /// Restarts at this position: everything counts as changed, and the history may differ.
    fn restart_at(&self, status: &HostStatus, is_same: bool) {
        if status.is_primary {
            self.cluster.needs_revalidation.store(false, Ordering::SeqCst);
        }
        self.cluster.read_fence.reset(status.line, is_same);
        *self.log_cursor() = Some(LogCursor { line: status.line, commit: status.commit.clone() });
    }

    /// Checks that the primary has the last commits of the standbys; a standby with another commit has diverged.
    async fn confirm_standbys(&self, client: &Object) -> Result<(), DatabaseError> {
        let unconfirmed = self.cluster.unconfirmed_standbys();
        if unconfirmed.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = unconfirmed.iter().map(|(_, (number, _))| *number).collect();
        let statement = client.prepare_cached(SELECT_COMMIT_IDS).await?;
        for row in client.query(&statement, &[&numbers]).await? {
            let known: CommitId = (row::column(&row, 0)?, row::column(&row, 1)?);
            for (number, commit) in unconfirmed.iter().filter(|(_, commit)| *commit == known) {
                self.cluster.confirm_standby(*number, commit);
            }
        }
        Ok(())
    }

    async fn with_timeout<T>(
        &self,
        asked: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, DatabaseError> {
        timeout(self.time, asked).await.unwrap_or(Err(DatabaseError::Timeout))
    }

    fn log_cursor(&self) -> MutexGuard<'_, Option<LogCursor>> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Looks at each server of a database some times a second: whether it is there, whether it takes changes, and what others have
//! changed. The log tells that, in the same way on every system that speaks PostgreSQL's protocol.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::error::Failure;
use super::nodes::{Commit, Node, Cluster, Told};
use super::{PostgresSettings, read, row, schema};

/// How often. What others changed is known here after this time and a round trip.
const PAUSE: Duration = Duration::from_millis(200);

/// Between two looks that follow each other because somebody got no answer.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Lines of the log that are read together, and how often in a row; after more, everything may have changed.
const LINES: usize = 1_000;
const PAGES: usize = 20;

const LOOK: &str = "\
    select current_setting('transaction_read_only'), c.sequence, c.commits, \
        (select id from tendot_commits where number = c.commits), \
        (select id from tendot_commits where number = $1), \
        (select id from tendot_commits where number = $2), \
        (select compatible from tendot_schema where id = 1) \
    from tendot_counters c where c.id = 1";

const KNOWN: &str = "select number, id from tendot_commits where number = any($1)";

/// How far the log was followed.
#[derive(Clone, Debug, Default)]
struct LogCursor {
    line: u64,
    /// The last transaction of the primary that was seen: if it is not there any more, another history is.
    commit: Option<Commit>,
}

/// The tasks that watch; they end with this.
#[derive(Debug)]
pub(super) struct Watch {
    _tasks: JoinSet<()>,
}

struct MonitorTask {
    nodes: Arc<Cluster>,
    followed: Mutex<Option<LogCursor>>,
    /// How long a server may take to answer.
    time: Duration,
}

impl Watch {
    /// Begins to watch, when all servers have been looked at once.
    pub(super) async fn start(nodes: &Arc<Cluster>, settings: &PostgresSettings) -> Self {
        let time = settings.probe_timeout.min(settings.patience / 2);
        let watching = Arc::new(MonitorTask { nodes: Arc::clone(nodes), followed: Mutex::new(None), time });
        let mut first = JoinSet::new();
        let mut tasks = JoinSet::new();
        for number in 0..nodes.iter().count() {
            let (now, later) = (Arc::clone(&watching), Arc::clone(&watching));
            first.spawn(async move { now.look(number).await });
            tasks.spawn(async move { later.run(number).await });
        }
        while first.join_next().await.is_some() {}
        Self { _tasks: tasks }
    }
}

impl MonitorTask {
    async fn run(&self, number: usize) {
        let Some(node) = self.nodes.get(number) else { return };
        loop {
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = node.wake.notified() => sleep(MIN_POLL_INTERVAL).await,
            }
            self.look(number).await;
        }
    }

    async fn look(&self, number: usize) {
        let Some(node) = self.nodes.get(number) else { return };
        let commit = self.followed().as_ref().and_then(|followed| followed.commit.clone());
        let commits = [commit, self.nodes.confirmed(number)];
        let known = self.nodes.freshness.known();
        let mut asked = self.ask(node, &commits).await;
        // A connection that is broken tells nothing of the server, but another that cannot be made does. Who answers on it may
        // be another one, where something in between hands connections on.
        let is_other = matches!(asked, Err(Failure::Server(_)));
        if is_other {
            asked = self.ask(node, &commits).await;
        }
        let (client, told, is_same) = match asked {
            Ok(asked) => asked,
            Err(why) => return self.nodes.record_unreachable(number, &why),
        };
        if !self.nodes.record_status(number, &told) {
            return;
        }
        if told.takes_changes && (is_other || !is_same) {
            self.nodes.is_anew.store(true, Ordering::SeqCst);
        }
        // What was known before it was asked is known there, too, if the history is the same.
        let begin = || self.begin_at(&told, is_same && told.line >= known);
        // Whether the server is there tells the next look.
        match self.within(self.follow(&client, &told, begin)).await {
            Ok(()) => {}
            Err(Failure::Unread(error)) => {
                tracing::error!(host = %node.place, %error, "a line of the log can't be read; nothing is kept");
                begin();
            }
            Err(_) => drop(Object::take(client)),
        }
    }

    /// What a server says of itself, and whether it knows the transaction that was last seen. The other one is what it was last
    /// known to share with a primary.
    async fn ask(&self, node: &Node, commits: &[Option<Commit>; 2]) -> Result<(Object, Told, bool), Failure> {
        // There may be two addresses, of which the first does not answer.
        let connecting = timeout(2 * self.time, node.watching());
        let client = connecting.await.map_err(|_| Failure::Silent)??;
        let [last, shared] =
            commits.each_ref().map(|commit| commit.as_ref().map_or(0, |(number, _)| *number));
        let asked = async {
            let statement = client.prepare_cached(LOOK).await?;
            Ok(client.query_one(&statement, &[&last, &shared]).await?)
        };
        let row = match self.within(asked).await {
            Ok(row) => row,
            Err(why) => {
                drop(Object::take(client));
                return Err(why);
            }
        };
        let compatible: Option<i32> = row::column(&row, 6)?;
        if compatible.is_some_and(|compatible| compatible > schema::known()) {
            return Err(Failure::Newer);
        }
        let commit = row::column::<i64>(&row, 2)?;
        let knows = |commit: &Option<Commit>, column| {
            let known: Option<&str> = row::column(&row, column)?;
            Ok::<_, Failure>(commit.as_ref().map(|(_, id)| known == Some(id)))
        };
        let [last, shared] = [knows(&commits[0], 4)?, knows(&commits[1], 5)?];
        let told = Told {
            takes_changes: row::column::<&str>(&row, 0)? == "off",
            line: row::number(row::column(&row, 1)?),
            commit: row::column::<Option<String>>(&row, 3)?.map(|id| (commit, id)),
            is_confirmed: last == Some(true) || shared == Some(true),
        };
        Ok((client, told, last.unwrap_or(true)))
    }

    /// Reads what is new in the log.
    async fn follow(&self, client: &Object, told: &Told, begin: impl Fn()) -> Result<(), Failure> {
        if told.takes_changes {
            self.confirm(client).await?;
        }
        let known = self.followed().as_ref().map(|followed| followed.line);
        let Some(mut line) = known.filter(|line| {
            // A standby may simply not have come so far.
            !told.takes_changes || *line <= told.line && !self.nodes.is_anew.load(Ordering::SeqCst)
        }) else {
            begin();
            return Ok(());
        };
        for _ in 0..PAGES {
            if told.line <= line {
                if let Some(followed) = self.followed().as_mut().filter(|_| told.takes_changes) {
                    followed.commit.clone_from(&told.commit);
                }
                return Ok(());
            }
            let lines = read::lines(client, line, LINES).await?;
            lines.iter().for_each(|line| self.nodes.freshness.logged(line));
            line = lines.last().map_or(told.line, |last| last.sequence);
            // Of two who follow at the same time, who has come further is right; nothing is marked too seldom.
            if let Some(followed) = self.followed().as_mut() {
                followed.line = followed.line.max(line);
            }
        }
        begin();
        Ok(())
    }

    /// Follows from here on: anything may have changed before, and the history may be another.
    fn begin_at(&self, told: &Told, is_same: bool) {
        if told.takes_changes {
            self.nodes.is_anew.store(false, Ordering::SeqCst);
        }
        self.nodes.freshness.changed(told.line, is_same);
        *self.followed() = Some(LogCursor { line: told.line, commit: told.commit.clone() });
    }

    /// Asks the primary whether it has what standbys have: one that has something else followed another.
    async fn confirm(&self, client: &Object) -> Result<(), Failure> {
        let unconfirmed = self.nodes.unconfirmed();
        if unconfirmed.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = unconfirmed.iter().map(|(_, (number, _))| *number).collect();
        let statement = client.prepare_cached(KNOWN).await?;
        for row in client.query(&statement, &[&numbers]).await? {
            let known: Commit = (row::column(&row, 0)?, row::column(&row, 1)?);
            for (number, commit) in unconfirmed.iter().filter(|(_, commit)| *commit == known) {
                self.nodes.confirm(*number, commit);
            }
        }
        Ok(())
    }

    async fn within<T>(&self, asked: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        timeout(self.time, asked).await.unwrap_or(Err(Failure::Silent))
    }

    fn followed(&self) -> MutexGuard<'_, Option<LogCursor>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

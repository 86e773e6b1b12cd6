//! Looks at each server of a database some times a second: whether it is there, whether it takes changes, and what others have
//! changed. The log tells that, in the same way on every system that speaks PostgreSQL's protocol.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;

use super::error::Failure;
use super::nodes::{Node, Nodes};
use super::{PostgresSettings, read, row};
use crate::StoreError;

/// How often. What others changed is known here after this time and a round trip.
const PAUSE: Duration = Duration::from_millis(200);

/// Between two looks that follow each other because somebody got no answer.
const SHORT_PAUSE: Duration = Duration::from_millis(20);

/// Lines of the log that are read one by one, and how often in a row; after more, everything may have changed.
const LINES: usize = 1_000;
const PAGES: usize = 20;

const LOOK: &str = "\
    select current_setting('transaction_read_only'), c.sequence, c.commits, \
        (select id from tendot_commits where number = c.commits), (select id from tendot_commits where number = $1) \
    from tendot_counters c where c.id = 1";

/// How far the log was followed.
#[derive(Clone, Debug, Default)]
struct Followed {
    line: u64,
    /// The last transaction that was seen: if it is not there any more, another history is.
    commit: Option<(i64, String)>,
}

/// The tasks that watch; they end with this.
#[derive(Debug)]
pub(super) struct Watch {
    _tasks: JoinSet<()>,
}

struct Watching {
    nodes: Arc<Nodes>,
    followed: Mutex<Option<Followed>>,
    /// How long a server may take to answer.
    time: Duration,
}

impl Watch {
    /// Begins to watch, when all servers have been looked at once.
    pub(super) async fn start(nodes: &Arc<Nodes>, settings: &PostgresSettings) -> Self {
        let time = settings.patience / 2;
        let watching = Arc::new(Watching { nodes: Arc::clone(nodes), followed: Mutex::new(None), time });
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

impl Watching {
    async fn run(&self, number: usize) {
        let Some(node) = self.nodes.get(number) else { return };
        loop {
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = node.wake.notified() => sleep(SHORT_PAUSE).await,
            }
            self.look(number).await;
        }
    }

    async fn look(&self, number: usize) {
        let Some(node) = self.nodes.get(number) else { return };
        let commit = self.followed().as_ref().and_then(|followed| followed.commit.clone());
        let last = commit.as_ref().map_or(0, |(number, _)| *number);
        let mut asked = ask(node, last, self.time).await;
        // A connection that is broken tells nothing of the server, but another that cannot be made does.
        if matches!(asked, Err(Failure::Server(_))) {
            asked = ask(node, last, self.time).await;
        }
        let told = asked.and_then(|row| Ok(Told::read(&row)?));
        let told = match told {
            Ok(told) => told,
            Err(why) => return self.nodes.missed(number, &why),
        };
        if !self.nodes.saw(number, told.takes_changes, told.line) {
            return;
        }
        let is_same = commit.is_none_or(|(_, id)| told.known_commit.as_ref() == Some(&id));
        if told.takes_changes && !is_same {
            tracing::warn!(host = %node.place, "the database has another history than before");
        }
        let followed = timeout(self.time, self.follow(node, &told, is_same)).await;
        if let Err(why) = followed.unwrap_or(Err(Failure::Silent)) {
            self.nodes.missed(number, &why);
        }
    }

    /// Reads what is new in the log.
    async fn follow(&self, node: &Node, told: &Told, is_same: bool) -> Result<(), Failure> {
        let freshness = &self.nodes.freshness;
        let mut line = self.followed().as_ref().map(|followed| followed.line);
        for _ in 0..PAGES {
            let Some(known) = line else { break };
            // A standby may simply not have come so far.
            if told.takes_changes && (!is_same || told.line < known) {
                break;
            }
            if told.line <= known {
                let mut followed = self.followed();
                // Of two who follow at the same time, who has come further is right; nothing is marked too seldom.
                if let Some(followed) = followed.as_mut().filter(|followed| followed.line <= known) {
                    let commit = told.last_commit.clone().filter(|_| told.takes_changes);
                    *followed = Followed { line: known, commit: commit.or_else(|| followed.commit.take()) };
                }
                return Ok(());
            }
            let client = node.shared.get().await?;
            let lines = read::lines(&client, known, LINES).await?;
            lines.iter().for_each(|line| freshness.logged(line));
            line = Some(lines.last().map_or(told.line, |last| last.sequence));
        }
        freshness.changed(told.line);
        *self.followed() = Some(Followed { line: told.line, commit: told.last_commit.clone() });
        Ok(())
    }

    fn followed(&self) -> MutexGuard<'_, Option<Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server told of itself.
struct Told {
    takes_changes: bool,
    line: u64,
    last_commit: Option<(i64, String)>,
    /// What it knows the transaction by that was asked for.
    known_commit: Option<String>,
}

impl Told {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let number = row::column(row, 2)?;
        Ok(Self {
            takes_changes: row::column::<&str>(row, 0)? == "off",
            line: row::number(row::column(row, 1)?),
            last_commit: row::column::<Option<String>>(row, 3)?.map(|id| (number, id)),
            known_commit: row::column(row, 4)?,
        })
    }
}

async fn ask(node: &Node, commit: i64, time: Duration) -> Result<Row, Failure> {
    let client = timeout(time, node.shared.get()).await.map_err(|_| Failure::Silent)??;
    let asked = async {
        let statement = client.prepare_cached(LOOK).await?;
        Ok(client.query_one(&statement, &[&commit]).await?)
    };
    let row = timeout(time, asked).await.unwrap_or(Err(Failure::Silent));
    if row.is_err() {
        node.shared.forget(&client).await;
    }
    row
}

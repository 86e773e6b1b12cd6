//! Connection loss at every byte of a commit: the commit is applied once and completely, or its outcome is reported as in doubt.

use std::time::Duration;

use tendot_store::{
    CommitError, Edit, NameKey, PostgresSettings, PostgresStore, Precondition, Store as _, StoreError,
};

use tendot_testing::{repetitions, wait_until_async};

use super::chaos_proxy::{ChaosProxy, CutMode, Direction};
use super::{block_on, commit, logged_names, open, put, server_and_database, settings};

/// Store behind a proxy, and the same store without it.
struct ProxyFixture {
    proxy: ChaosProxy,
    store: PostgresStore,
    direct: PostgresStore,
    /// Bytes of one commit by direction.
    bytes: [usize; 2],
}

impl ProxyFixture {
    async fn new(settings: &PostgresSettings) -> Self {
        let (server, database) = server_and_database();
        let direct = open(&server.url(&database)).await;
        let proxy = ChaosProxy::start(server.port).await;
        let address = format!("postgres://postgres@127.0.0.1:{}/{database}", proxy.port);
        let store = PostgresStore::open(&address, settings).await.unwrap();
        // The first commit prepares the statements.
        warm_up(&store, 0).await;
        // The minimum of several commits: polls of the monitor pass the proxy, too.
        let mut bytes = [usize::MAX; 2];
        for number in 1..6 {
            proxy.take_byte_counts();
            warm_up(&store, number).await;
            let counts = proxy.take_byte_counts();
            bytes = [bytes[0].min(counts[0]), bytes[1].min(counts[1])];
        }
        assert!(bytes[0] > 500 && bytes[1] > 100, "{bytes:?}");
        Self { proxy, store, direct, bytes }
    }

    /// How often a commit was applied; asserts that all of its parts were applied equally often.
    async fn committed_count(&self, round: &str, number: usize) -> usize {
        let mut counts = Vec::new();
        for end in ["a", "b"] {
            let key = NameKey::new(&format!("10.1000/{round}-{number:06}-{end}")).unwrap();
            let history = self
                .direct
                .history(&key, tendot_store::HistoryOrder::OldestFirst { after: 0 }, 10)
                .await
                .unwrap();
            let exists = self.direct.get(&key).await.unwrap().is_some();
            assert_eq!(exists, !history.entries.is_empty());
            counts.push(history.entries.len());
        }
        let aux = self.direct.get_aux(format!("{round}-{number:06}").as_bytes()).await.unwrap();
        counts.push(usize::from(aux.is_some()));
        assert!(counts == [counts[0]; 3], "{round} {number}: applied in part, {counts:?}");
        counts[0]
    }

    /// Cuts at `cuts` positions of a commit. The store resolves the transaction in doubt and repeats it if it was not committed.
    async fn check(&self, direction: Direction, cut: CutMode, cuts: u64) {
        let round = format!("{direction:?}-{cut:?}");
        let bytes = self.bytes[direction as usize];
        let step = bytes.div_ceil(usize::try_from(cuts).unwrap());
        for number in (0..=bytes).step_by(step) {
            self.proxy.cut_after(direction, number, cut);
            let result = commit_parts(&self.store, &round, number).await;
            let revision =
                result.unwrap_or_else(|error| panic!("after {number} bytes {direction:?}: {error}"));
            assert!(self.proxy.was_cut(), "after {number} of {bytes} bytes {direction:?}");
            assert_eq!(self.committed_count(&round, number).await, 1, "after {number} bytes {direction:?}");
            let key = NameKey::new(&format!("10.1000/{round}-{number:06}-a")).unwrap();
            assert_eq!(self.direct.get(&key).await.unwrap().unwrap().revision, revision);
        }
        // The log has no gaps and no duplicate names.
        let mut names = logged_names(&self.direct).await;
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

/// Commits two records and an aux entry. If they were committed twice, the first name would be rejected, and the second would
/// have two log entries.
async fn commit_parts(store: &PostgresStore, round: &str, number: usize) -> Result<u64, CommitError> {
    let name = |end| format!("10.1000/{round}-{number:06}-{end}");
    let aux = format!("{round}-{number:06}");
    let edits = vec![
        put(&name("a"), "x", Precondition::Absent),
        put(&name("b"), "x", Precondition::NotTombstone),
        Edit::PutAux { key: aux.as_bytes().into(), value: b"x"[..].into() },
    ];
    commit(store, edits).await
}

/// Commits once, with retries: some tests have a short timeout.
async fn warm_up(store: &PostgresStore, number: usize) {
    let mut attempts = 0;
    wait_until_async("a commit succeeds", async || {
        attempts += 1;
        commit_parts(store, &format!("warm-{attempts}"), number).await.is_ok()
    })
    .await;
}

/// Positions at which a commit is cut; a full run cuts at every byte.
fn cuts() -> u64 {
    repetitions("TENDOT_TEST_CUTS", 60, 10_000)
}

#[test]
fn cut_towards_server() {
    block_on(async {
        ProxyFixture::new(&settings()).await.check(Direction::ToServer, CutMode::Both, cuts()).await;
    });
}

#[test]
fn cut_towards_client() {
    block_on(async {
        ProxyFixture::new(&settings()).await.check(Direction::ToClient, CutMode::Both, cuts()).await;
    });
}

/// The server receives the rest of a commit after the client has lost its connection and attempts to resolve the transaction.
#[test]
fn late_delivery() {
    block_on(async {
        ProxyFixture::new(&settings()).await.check(Direction::ToServer, CutMode::Late, cuts().min(80)).await;
    });
}

/// If the server cannot be reached again, the outcome may be reported as in doubt; any other error means that nothing was written.
#[test]
fn in_doubt_without_server() {
    let settings = PostgresSettings { wait_timeout: Duration::from_millis(400), ..settings() };
    block_on(async {
        let fixture = ProxyFixture::new(&settings).await;
        let [to_server, to_client] = fixture.bytes;
        let positions = (0..=to_server).step_by(97).map(|bytes| (Direction::ToServer, bytes));
        let positions =
            positions.chain((0..=to_client).step_by(41).map(|bytes| (Direction::ToClient, bytes)));
        let (mut in_doubt, mut rejected) = (0, 0);
        for (number, (direction, bytes)) in positions.enumerate() {
            fixture.proxy.set_refusing(true);
            fixture.proxy.cut_after(direction, bytes, CutMode::Both);
            let result = commit_parts(&fixture.store, "unreachable", number).await;
            fixture.proxy.wait_until_closed().await;
            let count = fixture.committed_count("unreachable", number).await;
            match result {
                Ok(_) => assert_eq!(count, 1, "{bytes} bytes {direction:?}"),
                Err(CommitError::Store(StoreError::InDoubt { .. })) => in_doubt += 1,
                Err(CommitError::Store(error)) => {
                    assert_eq!(count, 0, "{bytes} bytes {direction:?}: {error}");
                    rejected += 1;
                }
                Err(error) => panic!("{bytes} bytes {direction:?}: {error}"),
            }
            fixture.proxy.set_refusing(false);
            // A failed attempt may have created its names.
            let mut attempts = 0;
            wait_until_async("commits succeed again", async || {
                attempts += 1;
                commit_parts(&fixture.store, &format!("after-{attempts}"), number).await.is_ok()
            })
            .await;
        }
        assert!(in_doubt > 0 && rejected > 0, "{in_doubt} in doubt, {rejected} rejected");
    });
}

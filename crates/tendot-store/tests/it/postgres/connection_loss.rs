//! The connection is cut at every byte of a deposit.

use std::time::Duration;

use tendot_store::{CommitError, Edit, Expect, Key, Postgres, PostgresSettings, Store as _, StoreError};

use super::chaos_proxy::{CutMode, Direction, ChaosProxy};
use crate::{block_on, commit, open, put, settings};

/// A store behind a proxy, the same without, and how many bytes one deposit takes each way.
struct ProxyFixture {
    proxy: ChaosProxy,
    store: Postgres,
    direct: Postgres,
    bytes: [usize; 2],
}

impl ProxyFixture {
    async fn new(settings: &PostgresSettings) -> Self {
        let server = tokio::task::spawn_blocking(tendot_testing::postgres::shared_server).await.unwrap();
        let database = server.create_database();
        let direct = open(&server.url(&database)).await;
        let proxy = ChaosProxy::start(server.port).await;
        let address = format!("postgres://postgres@127.0.0.1:{}/{database}", proxy.port);
        let store = Postgres::open(&address, settings).await.unwrap();
        // The first prepares what the others use.
        deposit(&store, "warm", 0).await.unwrap();
        proxy.take_byte_counts();
        deposit(&store, "warm", 1).await.unwrap();
        let bytes = proxy.take_byte_counts();
        assert!(bytes[0] > 500 && bytes[1] > 100, "{bytes:?}");
        Self { proxy, store, direct, bytes }
    }

    /// How often a deposit is found in all that there is.
    async fn found(&self, round: &str, number: usize) -> usize {
        let mut found = Vec::new();
        for end in ["a", "b"] {
            let key = Key::new(&format!("10.1000/{round}-{number:06}-{end}")).unwrap();
            let history =
                self.direct.history(&key, tendot_store::Order::OldestFirst { after: 0 }, 10).await.unwrap();
            let is_there = self.direct.get(&key).await.unwrap().is_some();
            assert_eq!(is_there, !history.items.is_empty());
            found.push(history.items.len());
        }
        let note = self.direct.note(format!("{round}-{number:06}").as_bytes()).await.unwrap();
        found.push(usize::from(note.is_some()));
        assert!(found == [found[0]; 3], "{round} {number}: a part of it, {found:?}");
        found[0]
    }

    /// Cuts after each of these numbers of bytes. The store finds out what happened and does what was not done.
    async fn check(&self, direction: Direction, cut: CutMode, step: usize) {
        let round = format!("{direction:?}-{cut:?}");
        let bytes = self.bytes[direction as usize];
        for number in (0..=bytes).step_by(step) {
            self.proxy.cut_after(direction, number, cut);
            let result = deposit(&self.store, &round, number).await;
            let revision =
                result.unwrap_or_else(|error| panic!("after {number} bytes {direction:?}: {error}"));
            assert!(self.proxy.was_cut(), "after {number} of {bytes} bytes {direction:?}");
            assert_eq!(self.found(&round, number).await, 1, "after {number} bytes {direction:?}");
            let key = Key::new(&format!("10.1000/{round}-{number:06}-a")).unwrap();
            assert_eq!(self.direct.get(&key).await.unwrap().unwrap().revision, revision);
        }
        // The log as a whole: no gaps, nothing twice.
        let mut names = crate::logged(&self.direct).await;
        let lines = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), lines);
    }
}

/// Were it done twice, the first name would be refused, and the second one had two lines.
async fn deposit(store: &Postgres, round: &str, number: usize) -> Result<u64, CommitError> {
    let name = |end| format!("10.1000/{round}-{number:06}-{end}");
    let note = format!("{round}-{number:06}");
    let edits = vec![
        put(&name("a"), "x", Expect::Absent),
        put(&name("b"), "x", Expect::Any),
        Edit::PutNote { key: note.as_bytes().into(), body: b"x"[..].into() },
    ];
    commit(store, edits).await
}

#[test]
fn cut_towards_server() {
    block_on(async {
        ProxyFixture::new(&settings()).await.check(Direction::ToServer, CutMode::Both, 1).await;
    });
}

#[test]
fn cut_towards_client() {
    block_on(async {
        ProxyFixture::new(&settings()).await.check(Direction::ToClient, CutMode::Both, 1).await;
    });
}

/// What was sent arrives when the client has long been told that the connection is gone, and asks what became of it.
#[test]
fn late_delivery() {
    block_on(async {
        ProxyFixture::new(&settings()).await.check(Direction::ToServer, CutMode::Late, 17).await;
    });
}

/// If the database cannot be asked again, the client is not told a lie: a refusal means that nothing was done.
#[test]
fn in_doubt_without_server() {
    let settings = PostgresSettings { patience: Duration::from_millis(400), ..settings() };
    block_on(async {
        let fixture = ProxyFixture::new(&settings).await;
        let [to_server, to_client] = fixture.bytes;
        let all = (0..=to_server).step_by(97).map(|bytes| (Direction::ToServer, bytes));
        let all = all.chain((0..=to_client).step_by(41).map(|bytes| (Direction::ToClient, bytes)));
        let (mut unknown, mut refused) = (0, 0);
        for (number, (direction, bytes)) in all.enumerate() {
            fixture.proxy.set_refusing(true);
            fixture.proxy.cut_after(direction, bytes, CutMode::Both);
            let result = deposit(&fixture.store, "refused", number).await;
            // The server has to notice, too.
            tokio::time::sleep(Duration::from_millis(30)).await;
            let found = fixture.found("refused", number).await;
            match result {
                Ok(_) => assert_eq!(found, 1, "{bytes} bytes {direction:?}"),
                Err(CommitError::Store(StoreError::Unknown { .. })) => unknown += 1,
                Err(CommitError::Store(error)) => {
                    assert_eq!(found, 0, "{bytes} bytes {direction:?}: {error}");
                    refused += 1;
                }
                Err(error) => panic!("{bytes} bytes {direction:?}: {error}"),
            }
            fixture.proxy.set_refusing(false);
            // And it goes on.
            let mut tries = 0;
            while let Err(error) = deposit(&fixture.store, &format!("after-{tries}"), number).await {
                tries += 1;
                assert!(tries < 10, "{error}");
            }
        }
        assert!(unknown > 0 && refused > 0, "{unknown} unknown, {refused} refused");
    });
}

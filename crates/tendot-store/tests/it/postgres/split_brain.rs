//! Two primaries: a standby is promoted while the old primary accepts writes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tendot_store::{
    CommitError, HostRole, NameKey, PostgresOpenError, PostgresSettings, PostgresStore, Precondition,
    Store as _, StoreError,
};
use tendot_testing::postgres::{PostgresCluster, PostgresServer};
use tendot_testing::wait_until_async;

use super::{block_on, commit, open, put, server_and_database, settings};

/// URL of the database with these hosts, in this order.
fn url(hosts: &[&PostgresServer]) -> String {
    let hosts: Vec<String> = hosts.iter().map(|host| format!("127.0.0.1:{}", host.port)).collect();
    format!("postgres://postgres@{}/postgres", hosts.join(","))
}

/// Whether a host has the record of a name.
async fn has_record(host: &PostgresServer, name: &str) -> bool {
    let sql = format!("select count(*) from tendot_records where name = '{name}'");
    host.query_text("postgres", &sql).await == "1"
}

async fn create(store: &PostgresStore, name: &str) -> Result<u64, CommitError> {
    commit(store, vec![put(name, "x", Precondition::NotTombstone)]).await
}

async fn wait_until_caught_up(store: &PostgresStore) {
    let is_caught_up = async || store.hosts().iter().all(|host| host.lag_entries == Some(0));
    wait_until_async("no host lags", is_caught_up).await;
}

fn with_file(path: &Path) -> PostgresSettings {
    PostgresSettings { timeline_file: Some(path.into()), ..settings() }
}

/// The log is followed also while the timeline cannot be recorded in the database.
#[test]
fn log_is_followed_without_a_recorded_timeline() {
    let (server, database) = server_and_database();
    block_on(async {
        let address = server.url(&database);
        let (store, other) = (open(&address).await, open(&address).await);
        let refuse = "begin; create function refuse() returns trigger language plpgsql as \
                      $$ begin raise exception 'not now'; end $$; \
                      create trigger refuse before update of timeline on tendot_counters execute function refuse(); \
                      alter table tendot_counters disable trigger refuse; \
                      update tendot_counters set timeline = null; \
                      alter table tendot_counters enable trigger refuse; commit";
        server.execute(&database, refuse).await;
        let key = NameKey::new("10.1000/a").unwrap();
        let counters = store.change_counters().unwrap();
        for _ in 0..3 {
            let version = counters.version_of(&key).unwrap();
            create(&other, "10.1000/a").await.unwrap();
            wait_until_async("the change is seen", async || !counters.is_current(version)).await;
        }
    });
}

/// Every write that begins after the promotion was seen is in the promoted host: even after a restart, in any order of hosts, and
/// with only the old primary reachable.
#[test]
fn superseded_primary_receives_no_writes() {
    let cluster = PostgresCluster::start();
    let directory = tempfile::tempdir().unwrap();
    let timeline_file = directory.path().join("timeline");
    block_on(async {
        let (old, new) = (&cluster.primary, &cluster.standbys[0]);
        old.alter_system("synchronous_standby_names = ''");
        let settings = with_file(&timeline_file);
        let store = Arc::new(PostgresStore::open(&url(&[old, new]), &settings).await.unwrap());
        // It cannot reach the new primary.
        let isolated = open(&url(&[old])).await;
        create(&store, "10.1000/first").await.unwrap();
        wait_until_caught_up(&store).await;

        let (stop, is_stopped) = tokio::sync::watch::channel(false);
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (store, is_stopped) = (Arc::clone(&store), is_stopped.clone());
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for number in 0.. {
                        if *is_stopped.borrow() {
                            break;
                        }
                        let (name, start) = (format!("10.1000/{writer}-{number}"), Instant::now());
                        if create(&store, &name).await.is_ok() {
                            acknowledged.push((name, start));
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        new.promote();
        wait_until_async("the promotion is seen", async || {
            let roles: Vec<HostRole> = store.hosts().iter().map(|host| host.role).collect();
            roles == [HostRole::SecondPrimary, HostRole::Primary]
        })
        .await;
        let seen = Instant::now();
        for number in 0..50 {
            create(&store, &format!("10.1000/after-{number}")).await.unwrap();
        }
        stop.send(true).unwrap();
        let mut later = 0;
        for writer in writers {
            for (name, _) in writer.await.unwrap().into_iter().filter(|(_, start)| *start > seen) {
                assert!(has_record(new, &name).await, "{name} is lost");
                later += 1;
            }
        }
        assert!(later > 0);
        assert!(has_record(new, "10.1000/after-49").await && !has_record(old, "10.1000/after-49").await);
        let timelines: Vec<_> = store.hosts().iter().map(|host| host.timeline).collect();
        assert_eq!(timelines, [Some(1), Some(2)]);

        // The server that reaches both recorded the timeline in the old primary.
        wait_until_async("the isolated server is refused", async || {
            let refused = create(&isolated, "10.1000/isolated").await.is_err();
            refused && isolated.hosts()[0].role == HostRole::SecondPrimary
        })
        .await;
        let error = create(&isolated, "10.1000/isolated").await.unwrap_err();
        assert!(matches!(error, CommitError::Store(StoreError::ReadOnly { .. })), "{error}");
        drop((store, isolated));

        for (number, hosts) in [[old, new], [new, old]].iter().enumerate() {
            let store = open(&url(hosts)).await;
            let name = format!("10.1000/reopened-{number}");
            create(&store, &name).await.unwrap();
            assert!(has_record(new, &name).await);
        }
        check_superseded(&url(&[old]), &super::settings()).await;
        // Even if nothing was recorded in it: the server remembers.
        old.execute("postgres", "update tendot_counters set timeline = null").await;
        check_superseded(&url(&[old]), &settings).await;
        // Without the file, nothing is known.
        create(&open(&url(&[old])).await, "10.1000/unknown").await.unwrap();
    });
}

async fn check_superseded(url: &str, settings: &PostgresSettings) {
    let error = PostgresStore::open(url, settings).await.unwrap_err();
    let PostgresOpenError::Superseded { timeline: 1, highest: 2, .. } = error else { panic!("{error}") };
}

/// The old primary waits for standbys that follow the new one: waiting and later writes go to the new one, instead of failing.
#[test]
fn synchronous_primary_is_superseded() {
    let cluster = PostgresCluster::start();
    block_on(async {
        let store = Arc::new(open(&cluster.url("postgres", "")).await);
        create(&store, "10.1000/first").await.unwrap();
        wait_until_caught_up(&store).await;
        let new = cluster.promote();
        for number in 0..10 {
            let name = format!("10.1000/after-{number}");
            // The first ones may be refused before the promotion is seen.
            wait_until_async("the write is acknowledged", async || create(&store, &name).await.is_ok()).await;
            assert!(has_record(new, &name).await, "{name}");
        }
        assert_eq!(store.hosts()[0].role, HostRole::SecondPrimary);
    });
}

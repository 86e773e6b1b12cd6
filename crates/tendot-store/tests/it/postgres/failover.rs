//! A primary and its standbys: who is asked, and what happens when the primary goes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tendot_store::{
    CommitError, Edit, Expect, HostRole, Key, Postgres, PostgresSettings, Store as _, StoreError, recent,
};
use tendot_testing::postgres::{PostgresCluster, PostgresServer};

use crate::{block_on, commit, put, settings};

async fn open(cluster: &PostgresCluster, options: &str) -> Postgres {
    let settings = PostgresSettings { patience: Duration::from_secs(5), ..settings() };
    let address = cluster.url("postgres", options);
    Postgres::open(&address, &settings).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Does something that waits for servers, beside the runtime.
async fn run_blocking<T: Send + 'static>(cluster: &Arc<PostgresCluster>, act: fn(&PostgresCluster) -> T) -> T {
    let cluster = Arc::clone(cluster);
    tokio::task::spawn_blocking(move || act(&cluster)).await.unwrap()
}

async fn wait_until_async(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < end, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn url(store: &Postgres, name: &str) -> Option<String> {
    let entry = store.get(&Key::new(name).unwrap()).await.unwrap()?;
    Some(String::from_utf8_lossy(&entry.values[0].data).into_owned())
}

fn host_roles(store: &Postgres) -> Vec<HostRole> {
    store.hosts().into_iter().map(|host| host.role).collect()
}

/// How often a server was asked for records.
async fn record_reads(server: &PostgresServer) -> u64 {
    let sql = "select coalesce(idx_scan, 0) from pg_stat_user_tables where relname = 'tendot_records'";
    server.query_text("postgres", sql).await.parse().unwrap_or(0)
}

const NAME: &str = "10.1000/1";

#[test]
fn read_routing() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        let (store, other) =
            (open(&cluster, "").await, open(&cluster, "target_session_attrs=read-write").await);
        let edits = vec![put(NAME, "first", Expect::Absent), Edit::Home { prefix: "10.1000".into() }];
        commit(&store, edits).await.unwrap();
        let expected = [HostRole::Primary, HostRole::Standby, HostRole::Standby];
        wait_until_async("all are seen", async || host_roles(&store) == expected).await;

        // What was just written here is there, whoever is asked.
        for round in 0..200 {
            let data = format!("round {round}");
            commit(&store, vec![put(NAME, &data, Expect::Any)]).await.unwrap();
            assert_eq!(recent(url(&store, NAME)).await, Some(data), "what we wrote ourselves");
            assert!(recent(store.is_homed(b"10.1000")).await.unwrap());
        }

        // What others write is there at once for who record_reads what is current, and soon for all; and versions tell.
        let versions = store.versions().unwrap();
        let key = Key::new(NAME).unwrap();
        let mut took = Vec::new();
        for round in 0..10 {
            let version = versions.of(&key).unwrap();
            let data = format!("other {round}");
            commit(&other, vec![put(NAME, &data, Expect::Any)]).await.unwrap();
            let committed = Instant::now();
            assert_eq!(url(&store, NAME).await, Some(data.clone()), "the primary is asked");
            wait_until_async("versions tell", async || !versions.is_current(version)).await;
            // From here on nobody is asked who does not know it.
            assert_eq!(recent(url(&store, NAME)).await, Some(data));
            took.push(committed.elapsed());
        }
        // On a busy machine anything may take longer once.
        took.sort();
        assert!(took[5] < Duration::from_secs(1) && took[9] < Duration::from_secs(5), "{took:?}");

        // Standbys are really asked, and the primary is spared; or the other way round if that is said.
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;
        for (asked, expects_standbys) in [(&store, true), (&other, false)] {
            for _ in 0..400 {
                assert!(recent(url(asked, NAME)).await.is_some());
            }
            // The servers count when a connection has been quiet for a while.
            let standbys = async || record_reads(&cluster.standbys[0]).await + record_reads(&cluster.standbys[1]).await;
            if expects_standbys {
                wait_until_async("the standbys are asked", async || standbys().await >= 200).await;
            } else {
                wait_until_async("the primary is asked", async || record_reads(&cluster.primary).await >= 400).await;
            }
        }

        // One of them stops; then both.
        run_blocking(&cluster, |cluster| cluster.standbys[0].kill()).await;
        for _ in 0..50 {
            assert!(recent(url(&store, NAME)).await.is_some());
        }
        wait_until_async("it is missed", async || host_roles(&store)[1] == HostRole::Unreachable).await;
        commit(&store, vec![put(NAME, "with one", Expect::Any)]).await.unwrap();
        assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("with one"));
        run_blocking(&cluster, |cluster| cluster.standbys[0].restart()).await;
        wait_until_async("it is back", async || host_roles(&store)[1] == HostRole::Standby).await;
    });
}

/// A standby that does not follow is not asked for what it cannot know.
#[test]
fn lagging_standby() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        let store = open(&cluster, "").await;
        commit(&store, vec![put(NAME, "first", Expect::Absent), put("10.1000/2", "other", Expect::Absent)])
            .await
            .unwrap();
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;
        cluster.standbys[0].execute("postgres", "select pg_wal_replay_pause()").await;
        for round in 0..20 {
            let data = format!("round {round}");
            commit(&store, vec![put(NAME, &data, Expect::Any)]).await.unwrap();
            for _ in 0..4 {
                assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some(&*data));
                assert_eq!(recent(url(&store, "10.1000/2")).await.as_deref(), Some("other"));
            }
        }
        wait_until_async("the lag is told", async || {
            let host = store.hosts().swap_remove(1);
            host.behind == Some(20) && host.lag.is_some_and(|lag| lag > Duration::from_millis(300))
        })
        .await;
        cluster.standbys[0].execute("postgres", "select pg_wal_replay_resume()").await;
        wait_until_async("it is level again", async || store.hosts()[1].behind == Some(0)).await;
    });
}

/// A standby that takes no logins is nobody's trouble: others are asked.
#[test]
fn standby_rejects_logins() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        cluster.primary.execute("postgres", "create role tendot superuser login").await;
        let settings = PostgresSettings { patience: Duration::from_secs(5), ..settings() };
        let address = cluster.url("postgres", "").replace("//postgres@", "//tendot@");
        // Those who come too early are not known to standbys.
        let known = "select count(*) from pg_roles where rolname = 'tendot'";
        for standby in &cluster.standbys {
            wait_until_async("the role is known", async || standby.psql(known) == "1").await;
        }
        let store = Postgres::open(&address, &settings).await.unwrap();
        commit(&store, vec![put(NAME, "first", Expect::Absent)]).await.unwrap();
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;
        for standby in &cluster.standbys {
            let rules = standby.dir().join("data/pg_hba.conf");
            let before = std::fs::read_to_string(&rules).unwrap();
            std::fs::write(&rules, format!("host all tendot all reject\n{before}")).unwrap();
            standby.psql("select pg_reload_conf()");
            let own = standby.url("postgres").replace("//postgres@", "//tendot@");
            wait_until_async("the rule is known", async || {
                tokio_postgres::connect(&own, tokio_postgres::NoTls).await.is_err()
            })
            .await;
            // Who watches it keeps its connection, so that the standby is still asked.
            standby.psql(
                "select pg_terminate_backend(pid) from pg_stat_activity \
                 where usename = 'tendot' and query not like '%from tendot_counters c%'",
            );
        }
        for _ in 0..100 {
            assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("first"));
        }
        wait_until_async("they are watched", async || host_roles(&store)[1..] == [HostRole::Standby; 2]).await;
    });
}

/// What is acknowledged is on a standby, too, if these are waited for, whatever the database's own default is.
#[test]
fn synchronous_commit_is_enforced() {
    let server = PostgresServer::start("");
    block_on(async {
        for default in ["off", "local"] {
            let database = server.create_database();
            let sql = format!("alter database {database} set synchronous_commit = {default}");
            server.execute("postgres", &sql).await;
            let store = crate::open(&server.url(&database)).await;
            server.psql("alter system set synchronous_standby_names = 'nobody'");
            server.psql("select pg_reload_conf()");
            wait_until_async("it is known", async || server.psql("show synchronous_standby_names") == "nobody").await;
            // Those who are connected already hear of it a moment later.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let mut committing = pin!(commit(&store, vec![put(NAME, "x", Expect::Absent)]));
            let early = tokio::time::timeout(Duration::from_secs(1), &mut committing).await;
            assert!(early.is_err(), "{default}: acknowledged before a standby has it");
            server.psql("alter system reset synchronous_standby_names");
            server.psql("select pg_reload_conf()");
            committing.await.unwrap();
        }
    });
}

/// The primary is killed under load. Reads go on, changes are refused soon, and after a standby was promoted all goes on: nothing
/// that was acknowledged is lost, and nothing is there twice.
#[test]
fn failover_under_load() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        let store = Arc::new(open(&cluster, "").await);
        let other = open(&cluster, "").await;
        commit(&store, vec![put(NAME, "first", Expect::Absent)]).await.unwrap();
        let (end, ended) = tokio::sync::watch::channel(false);
        let clients: Vec<_> = (0..16)
            .map(|client| {
                let (store, ended) = (Arc::clone(&store), ended.clone());
                tokio::spawn(async move {
                    let mut told = HashMap::new();
                    let mut slowest = Duration::ZERO;
                    for number in 0.. {
                        if *ended.borrow() {
                            break;
                        }
                        let name = format!("10.1000/{client}-{number}");
                        let start = Instant::now();
                        let result = commit(&store, vec![put(&name, "x", Expect::Absent)]).await;
                        let result = match result {
                            Ok(_) => Some(true),
                            Err(CommitError::Store(StoreError::Unknown { .. })) => None,
                            Err(CommitError::Store(StoreError::ReadOnly { .. })) => {
                                slowest = slowest.max(start.elapsed());
                                tokio::time::sleep(Duration::from_millis(50)).await;
                                Some(false)
                            }
                            Err(CommitError::Store(_)) => Some(false),
                            Err(error) => panic!("{name}: {error}"),
                        };
                        told.insert(name, result);
                    }
                    (told, slowest)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        run_blocking(&cluster, |cluster| cluster.primary.kill()).await;
        let killed = Instant::now();
        // Reads go on, those that want to know what is there now, too: both standbys may know all.
        while killed.elapsed() < Duration::from_secs(3) {
            assert_eq!(recent(url(&other, NAME)).await.as_deref(), Some("first"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        wait_until_async("it is missed", async || host_roles(&other)[0] == HostRole::Unreachable).await;
        let refused = commit(&other, vec![put(NAME, "second", Expect::Any)]).await.unwrap_err();
        assert!(matches!(refused, CommitError::Store(StoreError::ReadOnly { .. })), "{refused}");

        run_blocking(&cluster, |cluster| {
            cluster.promote();
        })
        .await;
        wait_until_async("changes are taken", async || {
            commit(&store, vec![put(NAME, "third", Expect::Any)]).await.is_ok()
        })
        .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        end.send(true).unwrap();
        let (mut acknowledged, mut unknown) = (0, 0);
        for client in clients {
            let (told, slowest) = client.await.unwrap();
            assert!(slowest < Duration::from_secs(6), "refused after {slowest:?}");
            for (name, result) in told {
                let is_there = store.get(&Key::new(&name).unwrap()).await.unwrap().is_some();
                match result {
                    Some(expected) => assert_eq!(is_there, expected, "{name}"),
                    None => unknown += 1,
                }
                acknowledged += u32::from(result == Some(true));
            }
        }
        assert!(acknowledged > 100, "{acknowledged} acknowledged");
        assert_eq!(unknown, 0, "the new primary was asked");
        wait_until_async("the other store knows", async || recent(url(&other, NAME)).await.as_deref() == Some("third"))
            .await;
        crate::logged(&store).await;

        // The old primary comes back as a standby.
        run_blocking(&cluster, |cluster| {
            let is_primary = |server: &&PostgresServer| server.psql("select pg_is_in_recovery()") == "f";
            let new = cluster.standbys.iter().find(is_primary).unwrap();
            cluster.primary.rejoin(new, "old");
        })
        .await;
        wait_until_async("it is there again", async || {
            host_roles(&store).iter().filter(|role| **role == HostRole::Standby).count() == 2
                && store.hosts().iter().all(|host| host.behind == Some(0))
        })
        .await;
    });
}

/// A primary that was lost with a change that nobody else had, and comes back as a standby by itself, is not asked: it knows another
/// history. And what was kept of that change is not kept any more.
#[test]
fn diverged_standby_is_not_used() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        let store = open(&cluster, "").await;
        let other = "10.1000/2";
        commit(&store, vec![put(NAME, "first", Expect::Absent), put(other, "first", Expect::Absent)])
            .await
            .unwrap();
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;
        // Nobody follows, and nobody is waited for.
        run_blocking(&cluster, |cluster| {
            cluster.standbys.iter().for_each(PostgresServer::kill);
            cluster.primary.psql("alter system set synchronous_standby_names = ''");
            cluster.primary.psql("select pg_reload_conf()");
        })
        .await;
        for round in 0..5 {
            commit(&store, vec![put(NAME, &format!("lost {round}"), Expect::Any)]).await.unwrap();
        }
        let (versions, key) = (store.versions().unwrap(), Key::new(NAME).unwrap());
        assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("lost 4"));
        let version = versions.of(&key).unwrap();
        run_blocking(&cluster, |cluster| {
            cluster.primary.kill();
            cluster.standbys.iter().for_each(PostgresServer::restart);
            let new = cluster.promote();
            cluster.primary.restart_diverged(new);
        })
        .await;
        wait_until_async("changes are taken", async || {
            commit(&store, vec![put(other, "second", Expect::Any)]).await.is_ok()
        })
        .await;
        assert!(!versions.is_current(version), "what was made of the lost change is not right any more");
        wait_until_async("it is there", async || host_roles(&store)[0] == HostRole::Standby).await;
        for _ in 0..200 {
            assert_eq!(recent(url(&store, other)).await.as_deref(), Some("second"));
            assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("first"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Without a primary, standbys that were away for a moment are asked again: they have what was known of them, or all that was known.
#[test]
fn standbys_restart_without_primary() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        let store = open(&cluster, "").await;
        commit(&store, vec![put(NAME, "first", Expect::Absent)]).await.unwrap();
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;
        // It starts from here.
        run_blocking(&cluster, |cluster| cluster.primary.psql("checkpoint")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        run_blocking(&cluster, |cluster| {
            cluster.standbys[1].psql("checkpoint");
            cluster.standbys[1].psql("alter system set recovery_min_apply_delay = '1h'");
            cluster.standbys[1].psql("select pg_reload_conf()");
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        commit(&store, vec![put(NAME, "second", Expect::Any)]).await.unwrap();
        wait_until_async("one is level", async || store.hosts()[1].behind == Some(0)).await;
        assert_eq!(store.hosts()[2].behind, Some(1), "the other one waits");
        let answer = async |store: &Postgres| {
            let entry = recent(store.get(&Key::new(NAME).unwrap())).await.ok()??;
            Some(String::from_utf8_lossy(&entry.values[0].data).into_owned())
        };
        run_blocking(&cluster, |cluster| {
            cluster.primary.kill();
            cluster.standbys.iter().for_each(PostgresServer::kill);
        })
        .await;
        wait_until_async("nobody is there", async || answer(&store).await.is_none()).await;
        let asked = || store.hosts().iter().map(|host| host.is_asked).collect::<Vec<_>>();
        run_blocking(&cluster, |cluster| cluster.standbys[1].restart()).await;
        wait_until_async("an older answer is better than none", async || {
            answer(&store).await.as_deref() == Some("first")
        })
        .await;
        assert_eq!(asked(), [false, false, true]);
        run_blocking(&cluster, |cluster| cluster.standbys[0].restart()).await;
        wait_until_async("who knows all is asked", async || asked() == [false, true, true]).await;
        for _ in 0..20 {
            assert_eq!(answer(&store).await.as_deref(), Some("second"));
        }
    });
}

/// Servers that are silent, though nobody refuses a connection: others are asked, changes that run_blocking are refused soon, and after a
/// promotion all goes on.
#[test]
fn unresponsive_hosts() {
    let cluster = Arc::new(PostgresCluster::start());
    block_on(async {
        // Nobody waits as long as they might.
        let settings = PostgresSettings::default();
        let store = Postgres::open(&cluster.url("postgres", ""), &settings).await.unwrap();
        let store = Arc::new(store);
        commit(&store, vec![put(NAME, "first", Expect::Absent)]).await.unwrap();
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;
        assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("first"));

        run_blocking(&cluster, |cluster| cluster.standbys[0].signal("STOP")).await;
        let (stopped, mut slowest) = (Instant::now(), Duration::ZERO);
        while stopped.elapsed() < Duration::from_secs(3) {
            let asked = Instant::now();
            assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("first"));
            slowest = slowest.max(asked.elapsed());
        }
        assert!(slowest < Duration::from_secs(8), "answered after {slowest:?}");
        assert_eq!(host_roles(&store)[1], HostRole::Unreachable);
        run_blocking(&cluster, |cluster| cluster.standbys[0].signal("CONT")).await;
        wait_until_async("all is level", async || store.hosts().iter().all(|host| host.behind == Some(0))).await;

        run_blocking(&cluster, |cluster| cluster.primary.signal("STOP")).await;
        let waiting: Vec<_> = (0..4)
            .map(|number| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    // The first is sent, the others run_blocking behind it.
                    tokio::time::sleep(Duration::from_millis(50 * number)).await;
                    let asked = Instant::now();
                    let name = format!("10.1000/waiting-{number}");
                    (commit(&store, vec![put(&name, "x", Expect::Absent)]).await, asked.elapsed())
                })
            })
            .collect();
        for waiting in waiting {
            let (refused, time) = waiting.await.unwrap();
            let refused = refused.unwrap_err();
            assert!(matches!(refused, CommitError::Store(StoreError::ReadOnly { .. })), "{refused}");
            assert!(time < Duration::from_secs(15), "refused after {time:?}");
        }
        assert_eq!(recent(url(&store, NAME)).await.as_deref(), Some("first"));

        run_blocking(&cluster, |cluster| {
            cluster.promote();
        })
        .await;
        let promoted = Instant::now();
        wait_until_async("changes are taken", async || {
            commit(&store, vec![put(NAME, "second", Expect::Any)]).await.is_ok()
        })
        .await;
        assert!(promoted.elapsed() < Duration::from_secs(10), "after {:?}", promoted.elapsed());
        run_blocking(&cluster, |cluster| cluster.primary.kill()).await;
        assert_eq!(crate::logged(&store).await.len(), 2);
    });
}

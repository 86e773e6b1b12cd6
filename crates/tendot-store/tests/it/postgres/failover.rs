//! Failover: a primary with two standbys, the routing of reads, and hosts that lag, diverge, stop responding or fail.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tendot_store::{
    CommitError, Edit, HostRole, NameKey, PostgresSettings, PostgresStore, Precondition, Store as _,
    StoreError, with_stale_reads,
};
use tendot_testing::postgres::{PostgresCluster, PostgresServer};
use tendot_testing::wait_until_async;

use super::{block_on, commit, logged_names, put, settings};

async fn open(cluster: &PostgresCluster, options: &str) -> PostgresStore {
    super::open(&cluster.url("postgres", options)).await
}

async fn url(store: &PostgresStore, name: &str) -> Option<String> {
    let entry = store.get(&NameKey::new(name).unwrap()).await.unwrap()?;
    Some(String::from_utf8_lossy(&entry.values[0].data).into_owned())
}

fn host_roles(store: &PostgresStore) -> Vec<HostRole> {
    store.hosts().into_iter().map(|host| host.role).collect()
}

async fn wait_until_caught_up(store: &PostgresStore) {
    let is_caught_up = async || store.hosts().iter().all(|host| host.lag_entries == Some(0));
    wait_until_async("no host lags", is_caught_up).await;
}

/// How often a server has read records by index.
async fn record_reads(server: &PostgresServer) -> u64 {
    let sql = "select coalesce(idx_scan, 0) from pg_stat_user_tables where relname = 'tendot_records'";
    server.query_text("postgres", sql).await.parse().unwrap_or(0)
}

const NAME: &str = "10.1000/1";

/// Stale reads go to standbys that have everything the reader may expect; other reads go to the primary.
#[test]
fn read_routing() {
    let cluster = PostgresCluster::start();
    block_on(async {
        let (store, other) =
            (open(&cluster, "").await, open(&cluster, "target_session_attrs=read-write").await);
        let edits = vec![put(NAME, "first", Precondition::Absent), Edit::Home { prefix: "10.1000".into() }];
        commit(&store, edits).await.unwrap();
        let expected = [HostRole::Primary, HostRole::Standby, HostRole::Standby];
        wait_until_async("all hosts are seen", async || host_roles(&store) == expected).await;

        // The store reads its own writes, from every host.
        for round in 0..200 {
            let data = format!("round {round}");
            commit(&store, vec![put(NAME, &data, Precondition::NotTombstone)]).await.unwrap();
            assert_eq!(with_stale_reads(url(&store, NAME)).await, Some(data), "own write");
            assert!(with_stale_reads(store.is_homed(b"10.1000")).await.unwrap());
        }

        // Writes of others: current reads see them at once, stale reads as soon as the change counter has changed.
        let counters = store.change_counters().unwrap();
        let key = NameKey::new(NAME).unwrap();
        for round in 0..10 {
            let version = counters.version_of(&key).unwrap();
            let data = format!("other {round}");
            commit(&other, vec![put(NAME, &data, Precondition::NotTombstone)]).await.unwrap();
            assert_eq!(url(&store, NAME).await, Some(data.clone()), "the primary serves the read");
            let has_changed = async || !counters.is_current(version);
            wait_until_async("the change counter has changed", has_changed).await;
            assert_eq!(with_stale_reads(url(&store, NAME)).await, Some(data));
        }

        // Standbys serve the reads, not the primary; with `target_session_attrs=read-write` only the primary.
        wait_until_caught_up(&store).await;
        for (reader, expects_standbys) in [(&store, true), (&other, false)] {
            for _ in 0..400 {
                assert!(with_stale_reads(url(reader, NAME)).await.is_some());
            }
            // Servers update these counters when a connection has been idle for a while.
            let standbys =
                async || record_reads(&cluster.standbys[0]).await + record_reads(&cluster.standbys[1]).await;
            if expects_standbys {
                wait_until_async("the standbys serve the reads", async || standbys().await >= 200).await;
            } else {
                wait_until_async("the primary serves the read", async || {
                    record_reads(&cluster.primary).await >= 400
                })
                .await;
            }
        }

        // One standby fails and comes back.
        cluster.standbys[0].kill();
        for _ in 0..50 {
            assert!(with_stale_reads(url(&store, NAME)).await.is_some());
        }
        wait_until_async("the failure of the standby is noticed", async || {
            host_roles(&store)[1] == HostRole::Unreachable
        })
        .await;
        commit(&store, vec![put(NAME, "with one", Precondition::NotTombstone)]).await.unwrap();
        assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("with one"));
        cluster.standbys[0].restart();
        wait_until_async("the standby is back", async || host_roles(&store)[1] == HostRole::Standby).await;
    });
}

/// A standby that lags does not serve records that it has not replayed yet.
#[test]
fn lagging_standby() {
    let cluster = PostgresCluster::start();
    block_on(async {
        let store = open(&cluster, "").await;
        commit(
            &store,
            vec![put(NAME, "first", Precondition::Absent), put("10.1000/2", "other", Precondition::Absent)],
        )
        .await
        .unwrap();
        wait_until_caught_up(&store).await;
        cluster.standbys[0].execute("postgres", "select pg_wal_replay_pause()").await;
        for round in 0..20 {
            let data = format!("round {round}");
            commit(&store, vec![put(NAME, &data, Precondition::NotTombstone)]).await.unwrap();
            for _ in 0..4 {
                assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some(&*data));
                assert_eq!(with_stale_reads(url(&store, "10.1000/2")).await.as_deref(), Some("other"));
            }
        }
        wait_until_async("the lag is reported", async || {
            let host = store.hosts().swap_remove(1);
            host.lag_entries == Some(20) && host.lag.is_some_and(|lag| lag > Duration::from_millis(300))
        })
        .await;
        cluster.standbys[0].execute("postgres", "select pg_wal_replay_resume()").await;
        wait_until_async("the standby has caught up", async || store.hosts()[1].lag_entries == Some(0)).await;
    });
}

/// If a standby rejects logins, other hosts serve the reads.
#[test]
fn standby_rejects_logins() {
    let cluster = PostgresCluster::start();
    block_on(async {
        cluster.primary.execute("postgres", "create role tendot superuser login").await;
        let address = cluster.url("postgres", "").replace("//postgres@", "//tendot@");
        let count_roles = "select count(*) from pg_roles where rolname = 'tendot'";
        for standby in &cluster.standbys {
            wait_until_async("the standby has the role", async || standby.psql(count_roles) == "1").await;
        }
        let store = super::open(&address).await;
        commit(&store, vec![put(NAME, "first", Precondition::Absent)]).await.unwrap();
        wait_until_caught_up(&store).await;
        for standby in &cluster.standbys {
            let rules = standby.dir().join("data/pg_hba.conf");
            let before = std::fs::read_to_string(&rules).unwrap();
            std::fs::write(&rules, format!("host all tendot all reject\n{before}")).unwrap();
            standby.psql("select pg_reload_conf()");
            let standby_url = standby.url("postgres").replace("//postgres@", "//tendot@");
            wait_until_async("the rule is in force", async || {
                tokio_postgres::connect(&standby_url, tokio_postgres::NoTls).await.is_err()
            })
            .await;
            // The monitor keeps its connection, so that the standby is still a candidate for reads.
            standby.psql(
                "select pg_terminate_backend(pid) from pg_stat_activity \
                 where usename = 'tendot' and query not like '%from tendot_counters c%'",
            );
        }
        for _ in 0..100 {
            assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("first"));
        }
        wait_until_async("both are seen as standbys", async || {
            host_roles(&store)[1..] == [HostRole::Standby; 2]
        })
        .await;
    });
}

/// Commits wait for synchronous standbys even if the database has another default for `synchronous_commit`.
#[test]
fn synchronous_commit_is_enforced() {
    let server = PostgresServer::start_volatile("");
    block_on(async {
        for default in ["off", "local"] {
            let database = server.create_database();
            let sql = format!("alter database {database} set synchronous_commit = {default}");
            server.execute("postgres", &sql).await;
            let store = super::open(&server.url(&database)).await;
            server.alter_system("synchronous_standby_names = 'missing'");
            let sql = format!(
                "select count(*) from pg_stat_activity where datname = '{database}' and wait_event = 'SyncRep'"
            );
            let waiting_commit = tokio::spawn(async move {
                commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await
            });
            wait_until_async("the commit waits or is done", async || {
                waiting_commit.is_finished() || server.query_text(&database, &sql).await != "0"
            })
            .await;
            assert!(!waiting_commit.is_finished(), "{default}: acknowledged before a standby has it");
            server.alter_system("synchronous_standby_names = ''");
            waiting_commit.await.unwrap().unwrap();
        }
    });
}

/// The primary is killed under load. Reads go on, commits are rejected soon, and after a promotion commits succeed again: no
/// acknowledged commit is lost, and none is applied twice.
#[test]
fn failover_under_load() {
    let cluster = PostgresCluster::start();
    block_on(async {
        let store = Arc::new(open(&cluster, "").await);
        let other = open(&cluster, "").await;
        commit(&store, vec![put(NAME, "first", Precondition::Absent)]).await.unwrap();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (stop, is_stopped) = tokio::sync::watch::channel(false);
        let clients: Vec<_> = (0..16)
            .map(|client| {
                let (store, mut is_stopped) = (Arc::clone(&store), is_stopped.clone());
                let acknowledged = Arc::clone(&acknowledged);
                tokio::spawn(async move {
                    let mut results = HashMap::new();
                    let mut slowest = Duration::ZERO;
                    for number in 0.. {
                        if *is_stopped.borrow() {
                            break;
                        }
                        let name = format!("10.1000/{client}-{number}");
                        let start = Instant::now();
                        let result = commit(&store, vec![put(&name, "x", Precondition::Absent)]).await;
                        let result = match result {
                            Ok(_) => {
                                acknowledged.fetch_add(1, Ordering::SeqCst);
                                Some(true)
                            }
                            Err(CommitError::Store(StoreError::InDoubt { .. })) => None,
                            Err(CommitError::Store(StoreError::ReadOnly { .. })) => {
                                slowest = slowest.max(start.elapsed());
                                // Not more often than this while there is no primary.
                                let _ = tokio::time::timeout(Duration::from_millis(50), is_stopped.changed())
                                    .await;
                                Some(false)
                            }
                            Err(CommitError::Store(_)) => Some(false),
                            Err(error) => panic!("{name}: {error}"),
                        };
                        results.insert(name, result);
                    }
                    (results, slowest)
                })
            })
            .collect();
        let more_commits = async |number: u64| {
            let expected = acknowledged.load(Ordering::SeqCst) + number;
            let is_reached = async || acknowledged.load(Ordering::SeqCst) >= expected;
            wait_until_async("more commits are acknowledged", is_reached).await;
        };
        more_commits(200).await;
        let serves_reads = async || other.hosts()[1..].iter().all(|host| host.serves_reads);
        wait_until_async("the standbys serve reads", serves_reads).await;
        cluster.primary.kill();
        // Reads continue meanwhile: both standbys may be current.
        let mut reads = 0;
        wait_until_async("the failure is noticed", async || {
            assert_eq!(with_stale_reads(url(&other, NAME)).await.as_deref(), Some("first"));
            reads += 1;
            reads >= 200 && host_roles(&other)[0] == HostRole::Unreachable
        })
        .await;
        let error = commit(&other, vec![put(NAME, "second", Precondition::NotTombstone)]).await.unwrap_err();
        assert!(matches!(error, CommitError::Store(StoreError::ReadOnly { .. })), "{error}");

        cluster.promote();
        wait_until_async("commits succeed again", async || {
            commit(&store, vec![put(NAME, "third", Precondition::NotTombstone)]).await.is_ok()
        })
        .await;
        more_commits(50).await;
        stop.send(true).unwrap();
        let mut in_doubt = 0;
        for client in clients {
            let (results, slowest) = client.await.unwrap();
            // Normally after one second; not after the timeout for commits, which is 20 seconds.
            assert!(slowest < Duration::from_secs(15), "rejected after {slowest:?}");
            for (name, result) in results {
                let exists = store.get(&NameKey::new(&name).unwrap()).await.unwrap().is_some();
                match result {
                    Some(expected) => assert_eq!(exists, expected, "{name}"),
                    None => in_doubt += 1,
                }
            }
        }
        assert_eq!(in_doubt, 0, "the new primary resolves all commits in doubt");
        wait_until_async("the other store follows", async || {
            with_stale_reads(url(&other, NAME)).await.as_deref() == Some("third")
        })
        .await;
        logged_names(&store).await;

        // The old primary comes back as a standby.
        let is_primary = |server: &&PostgresServer| server.psql("select pg_is_in_recovery()") == "f";
        let new_primary = cluster.standbys.iter().find(is_primary).unwrap();
        cluster.primary.rejoin(new_primary, "old");
        wait_until_async("both standbys have caught up", async || {
            host_roles(&store).iter().filter(|role| **role == HostRole::Standby).count() == 2
                && store.hosts().iter().all(|host| host.lag_entries == Some(0))
        })
        .await;
    });
}

/// A primary that failed with commits that no standby had, and comes back as a standby, does not serve reads, because its history has
/// diverged; and change counters of the lost commits are no longer current.
#[test]
fn diverged_standby_is_not_used() {
    let cluster = PostgresCluster::start();
    block_on(async {
        let store = open(&cluster, "").await;
        let other_name = "10.1000/2";
        commit(
            &store,
            vec![put(NAME, "first", Precondition::Absent), put(other_name, "first", Precondition::Absent)],
        )
        .await
        .unwrap();
        wait_until_caught_up(&store).await;
        // Commits that no standby receives.
        cluster.standbys.iter().for_each(PostgresServer::kill);
        cluster.primary.alter_system("synchronous_standby_names = ''");
        for round in 0..5 {
            commit(&store, vec![put(NAME, &format!("lost {round}"), Precondition::NotTombstone)])
                .await
                .unwrap();
        }
        let (counters, key) = (store.change_counters().unwrap(), NameKey::new(NAME).unwrap());
        assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("lost 4"));
        let version = counters.version_of(&key).unwrap();
        cluster.primary.kill();
        cluster.standbys.iter().for_each(PostgresServer::restart);
        let new_primary = cluster.promote();
        cluster.primary.restart_diverged(new_primary);
        wait_until_async("commits succeed again", async || {
            commit(&store, vec![put(other_name, "second", Precondition::NotTombstone)]).await.is_ok()
        })
        .await;
        assert!(!counters.is_current(version), "the lost commit is still current");
        wait_until_async("the old primary is seen as a standby", async || {
            host_roles(&store)[0] == HostRole::Standby
        })
        .await;
        for _ in 0..200 {
            assert_eq!(with_stale_reads(url(&store, other_name)).await.as_deref(), Some("second"));
            assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("first"));
            // Spread over several polls of the monitor, which come every 200 ms and are not visible here.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Without a primary, restarted standbys serve reads again: an older result is better than none, and the newest is preferred.
#[test]
fn standbys_restart_without_primary() {
    let cluster = PostgresCluster::start();
    block_on(async {
        let store = open(&cluster, "").await;
        commit(&store, vec![put(NAME, "first", Precondition::Absent)]).await.unwrap();
        wait_until_caught_up(&store).await;
        // The second standby restarts from here.
        cluster.primary.psql("checkpoint");
        let position = cluster.primary.psql("select pg_current_wal_lsn()");
        let delayed = &cluster.standbys[1];
        let replayed = format!("select pg_last_wal_replay_lsn() >= '{position}'");
        wait_until_async("the checkpoint is replayed", async || delayed.psql(&replayed) == "t").await;
        delayed.psql("checkpoint");
        delayed.alter_system("recovery_min_apply_delay = '1h'");
        let sql = "select count(*) from pg_stat_activity \
                   where backend_type = 'startup' and wait_event = 'RecoveryApplyDelay'";
        wait_until_async("the second standby delays", async || {
            commit(&store, vec![put("10.1000/2", "x", Precondition::NotTombstone)]).await.unwrap();
            delayed.query_text("postgres", sql).await != "0"
        })
        .await;
        commit(&store, vec![put(NAME, "second", Precondition::NotTombstone)]).await.unwrap();
        wait_until_async("only the second standby is behind", async || {
            let hosts = store.hosts();
            hosts[1].lag_entries == Some(0) && hosts[2].lag_entries.is_some_and(|entries| entries > 0)
        })
        .await;
        let read = async |store: &PostgresStore| {
            let entry = with_stale_reads(store.get(&NameKey::new(NAME).unwrap())).await.ok()??;
            Some(String::from_utf8_lossy(&entry.values[0].data).into_owned())
        };
        cluster.primary.kill();
        cluster.standbys.iter().for_each(PostgresServer::kill);
        wait_until_async("no host responds", async || read(&store).await.is_none()).await;
        let serving = || store.hosts().iter().map(|host| host.serves_reads).collect::<Vec<_>>();
        cluster.standbys[1].restart();
        wait_until_async("the delayed standby serves reads", async || {
            read(&store).await.as_deref() == Some("first") && serving() == [false, false, true]
        })
        .await;
        cluster.standbys[0].restart();
        wait_until_async("the newest standby serves reads", async || serving() == [false, true, true]).await;
        for _ in 0..20 {
            assert_eq!(read(&store).await.as_deref(), Some("second"));
        }
    });
}

/// Hosts that accept connections and never respond: other hosts serve the reads, commits are rejected soon, and succeed again after a
/// promotion.
#[test]
fn unresponsive_hosts() {
    let cluster = PostgresCluster::start();
    block_on(async {
        // Much longer than the limits below: the test fails if a call waits for it.
        let timeout = Duration::from_secs(120);
        let settings = PostgresSettings { wait_timeout: timeout, statement_timeout: timeout, ..settings() };
        let store = PostgresStore::open(&cluster.url("postgres", ""), &settings).await.unwrap();
        let store = Arc::new(store);
        commit(&store, vec![put(NAME, "first", Precondition::Absent)]).await.unwrap();
        wait_until_caught_up(&store).await;
        assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("first"));

        cluster.standbys[0].signal("STOP");
        let mut slowest = Duration::ZERO;
        wait_until_async("the standby is seen as unreachable", async || {
            let start = Instant::now();
            assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("first"));
            slowest = slowest.max(start.elapsed());
            host_roles(&store)[1] == HostRole::Unreachable
        })
        .await;
        // Normally one or two seconds.
        assert!(slowest < timeout / 4, "the slowest read took {slowest:?}");
        cluster.standbys[0].signal("CONT");
        wait_until_caught_up(&store).await;

        cluster.primary.signal("STOP");
        let commits: Vec<_> = (0..4)
            .map(|number| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    // Not all at once: the first is sent, the others wait behind it; neither is visible here.
                    tokio::time::sleep(Duration::from_millis(50 * number)).await;
                    let start = Instant::now();
                    let name = format!("10.1000/waiting-{number}");
                    (commit(&store, vec![put(&name, "x", Precondition::Absent)]).await, start.elapsed())
                })
            })
            .collect();
        for pending in commits {
            let (error, elapsed) = pending.await.unwrap();
            let error = error.unwrap_err();
            assert!(matches!(error, CommitError::Store(StoreError::ReadOnly { .. })), "{error}");
            // Normally three or four seconds.
            assert!(elapsed < timeout / 2, "rejected after {elapsed:?}");
        }
        assert_eq!(with_stale_reads(url(&store, NAME)).await.as_deref(), Some("first"));

        cluster.promote();
        wait_until_async("commits succeed again", async || {
            commit(&store, vec![put(NAME, "second", Precondition::NotTombstone)]).await.is_ok()
        })
        .await;
        cluster.primary.kill();
        assert_eq!(logged_names(&store).await.len(), 2);
    });
}

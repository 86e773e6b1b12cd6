//! A standby is promoted while the old primary still accepts writes: no server writes to the old one once the promotion was seen,
//! even after a restart, and `/readyz` and the metrics show it.

use tendot_testing::postgres::{PostgresCluster, PostgresServer};
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer, stderr};

/// URL of the database with these hosts, in this order.
fn url(hosts: [&PostgresServer; 2]) -> String {
    let [first, second] = hosts.map(|host| format!("127.0.0.1:{}", host.port));
    format!("postgres://postgres@{first},{second}/postgres")
}

fn start(dir: &TestDir, hosts: [&PostgresServer; 2]) -> TestServer {
    TestServer::builder(dir).store(&url(hosts)).start()
}

/// Writes a name through a server, and checks which host has it.
#[track_caller]
fn check_written(server: &TestServer, name: &str, primary: &PostgresServer) {
    let response =
        server.put_handle(&format!("10.1000/{name}"), "https://example.org/").send(server.address());
    assert_eq!(response.status, 201, "{}", response.text());
    let sql = format!("select count(*) from tendot_records where name = '10.1000/{name}'");
    assert_eq!(primary.psql(&sql), "1", "{name} is not in the current primary");
}

#[track_caller]
fn wait_for_readiness(server: &TestServer, status: u16, text: &str) {
    wait_until(text, || {
        let response = server.get("/readyz?write");
        response.status == status && response.text() == text
    });
}

#[test]
fn writes_go_to_the_promoted_host() {
    let cluster = PostgresCluster::start();
    let (old, new) = (&cluster.primary, &cluster.standbys[0]);
    old.alter_system("synchronous_standby_names = ''");
    let dirs = [TestDir::new(), TestDir::new()];
    let servers = [start(&dirs[0], [old, new]), start(&dirs[1], [new, old])];
    let response = servers[0].request("POST", "/api/prefixes/10.1000").send(servers[0].address());
    assert!(response.status < 300, "{}", response.text());
    check_written(&servers[1], "before", old);
    wait_until("the standby has the write", || {
        new.psql("select count(*) from tendot_records where name = '10.1000/before'") == "1"
    });

    new.promote();
    let split = "ready, warning: two primaries: a second database host accepts writes\n";
    for (number, server) in servers.iter().enumerate() {
        wait_for_readiness(server, 200, split);
        check_written(server, &format!("after-{number}"), new);
        let metrics = server.get("/metrics").text().into_owned();
        for (metric, host, value) in [
            ("tendot_database_primary", new, "1.0"),
            ("tendot_database_primary", old, "0.0"),
            ("tendot_database_second_primary", old, "1.0"),
            ("tendot_database_second_primary", new, "0.0"),
            ("tendot_database_timeline", old, "1.0"),
            ("tendot_database_timeline", new, "2.0"),
        ] {
            let line = format!("{metric}{{host=\"127.0.0.1:{}\"}} {value}\n", host.port);
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
    }
    let [first, second] = servers;
    assert_eq!((first.terminate(), second.terminate()), (Some(0), Some(0)));

    // After a restart, in the other order of hosts.
    let server = start(&dirs[0], [new, old]);
    check_written(&server, "restarted", new);
    wait_for_readiness(&server, 200, split);

    // The promoted host is lost: better no writes than writes to the old primary.
    new.kill();
    wait_until("writes are refused", || server.get("/readyz?write").status == 503);
    let response = server.put_handle("10.1000/lost", "https://example.org/").send(server.address());
    assert_eq!(response.status, 503, "{}", response.text());
    assert_eq!(server.terminate(), Some(0));
    let output = TestServer::builder(&dirs[1])
        .store(&url([old, new]))
        .set("postgres.timeout=2s")
        .command()
        .output()
        .unwrap();
    let messages = stderr(&output);
    assert!(messages.contains("has been superseded: it is on timeline 1"), "{messages}");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(old.psql("select count(*) from tendot_records where name = '10.1000/lost'"), "0");
}

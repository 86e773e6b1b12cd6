//! Two servers on one database are consistent, and a hung database does not delay the shutdown.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value as Json, json};
use tendot_testing::postgres::{PostgresServer, create_database_url};

use crate::support::{TestDir, TestServer};

#[track_caller]
fn post(server: &TestServer, path: &str, body: &Json) -> Json {
    let response = server.request("POST", &format!("/api/v1/{path}")).json(body).send(server.address());
    assert_eq!(response.status, 201, "{}", response.text());
    response.json()
}

/// Allocates the prefix 10.70000 to a registrant.
fn create_prefix(server: &TestServer) {
    post(server, "agencies", &json!({"code": "LIB", "name": "Library", "metadata": "optional"}));
    let registrant = post(server, "registrants", &json!({"agency": "LIB", "name": "Press"}));
    post(server, "prefixes", &json!({"registrant": registrant["id"]}));
}

/// Many clients register the same names at both: each is registered once, and both servers redirect to the same URL.
#[test]
fn two_servers_one_database() {
    const CLIENTS: usize = 32;
    const NAMES: usize = 4;
    let dir = TestDir::new();
    // Both read the operator token from this directory.
    let builder = TestServer::builder(&dir).store(&create_database_url());
    let servers = [builder.start(), builder.start()];
    create_prefix(&servers[0]);
    let start = Barrier::new(CLIENTS);
    let created: Vec<usize> = thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (server, start) = (&servers[client % 2], &start);
            scope.spawn(move || {
                start.wait();
                let register = |number: usize| {
                    let name = format!("10.70000/{}", (client + number) % NAMES);
                    let body = json!({"name": name, "url": format!("https://example.org/{client}")});
                    let request = server.request("POST", "/api/v1/dois").json(&body);
                    let response = request.send(server.address());
                    let is_created = response.status == 201;
                    assert!(
                        is_created || response.text().contains("already-registered"),
                        "{}",
                        response.text()
                    );
                    usize::from(is_created)
                };
                (0..NAMES).map(register).sum()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(created.iter().sum::<usize>(), NAMES, "{created:?}");
    for number in 0..NAMES {
        let [first, second] = servers
            .each_ref()
            .map(|server| server.get(&format!("/10.70000/{number}")).header("location").unwrap().to_owned());
        assert_eq!(first, second);
    }
}

/// The server exits although the database to which it has to write statistics does not answer.
#[test]
fn shutdown_with_hung_database() {
    let database = PostgresServer::start("");
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).store(&database.url(&database.create_database()));
    let server = builder.set("postgres.timeout=2s").start();
    create_prefix(&server);
    post(&server, "dois", &json!({"name": "10.70000/x", "url": "https://example.org/"}));
    assert_eq!(server.get("/10.70000/x").status, 302);
    assert!(!database.signal("STOP").is_empty());
    server.signal("TERM");
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.wait()));
    // Otherwise the database could not be stopped at the end of the test.
    database.signal("CONT");
    assert_eq!(code.unwrap(), Some(0));
}

/// Two servers register names under one prefix, alone and in batches, until its quota is used up: not one name too many.
#[test]
fn two_servers_one_quota() {
    const QUOTA: usize = 500;
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).store(&create_database_url());
    let servers = [builder.start(), builder.start()];
    post(&servers[0], "agencies", &json!({"code": "LIB", "name": "Library", "metadata": "optional"}));
    let registrant = post(&servers[0], "registrants", &json!({"agency": "LIB", "name": "Press"}));
    let policy = json!({"quota": QUOTA});
    post(&servers[0], "prefixes", &json!({"registrant": registrant["id"], "policy": policy}));
    let line = |name: String| json!({"name": format!("10.70000/{name}"), "url": "https://example.org/"});
    let created: usize = thread::scope(|scope| {
        let mut clients = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            for client in 0..4 {
                clients.push(scope.spawn(move || {
                    let register = |name: usize| {
                        let body = line(format!("{number}-{client}-{name}"));
                        let request = server.request("POST", "/api/v1/dois").json(&body);
                        let response = request.send(server.address());
                        let is_full = response.text().contains("quota-exceeded");
                        assert!(response.status == 201 || is_full, "{}", response.text());
                        response.status == 201
                    };
                    (0..100).filter(|name| register(*name)).count()
                }));
            }
            clients.push(scope.spawn(move || {
                let lines: String =
                    (0..200).map(|name| format!("{}\n", line(format!("{number}-batch-{name}")))).collect();
                let request = server.request("POST", "/api/v1/dois/batch");
                let request = request.header("Content-Type: application/x-ndjson").body(lines.as_bytes());
                let response = request.send(server.address());
                assert_eq!(response.status, 200, "{}", response.text());
                let results = response.text();
                assert!(
                    results.lines().all(|line| line.contains("created") || line.contains("quota-exceeded"))
                );
                results.lines().filter(|line| line.contains(r#""status":"created""#)).count()
            }));
        }
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(created, QUOTA);
}

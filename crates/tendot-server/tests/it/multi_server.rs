//! Two servers over one PostgreSQL database: writes are executed once, and changes are visible on both.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tendot_proto::OpFlags;
use tendot_proto::endpoint::Transport;
use tendot_server::{Maintenance, ResolutionCounter};
use tendot_testing::{is_full_run, wait_until};

use crate::support::api_client::{ApiClient, Fixtures};
use crate::support::http_server::TOKEN;
use crate::support::native_server::{NativeServerOptions, NativeTestServer, resolution, url_value};
use crate::support::stores::{open_postgres, postgres_url};

const CLIENTS: usize = 32;

/// Two servers over one database.
struct ServerPair {
    servers: [ApiClient; 2],
    counters: [Arc<ResolutionCounter>; 2],
    fixtures: Fixtures,
}

impl ServerPair {
    fn new() -> Self {
        let url = postgres_url();
        let counters = [(); 2].map(|()| Arc::new(ResolutionCounter::new(true)));
        let servers = counters.each_ref().map(|counter| {
            ApiClient::start_with(open_postgres(&url), |http| http.resolution_counter(Arc::clone(counter)))
        });
        let fixtures = servers[0].create_fixtures();
        Self { servers, counters, fixtures }
    }

    fn server(&self, number: usize) -> &ApiClient {
        &self.servers[number % 2]
    }

    /// Calls both servers from many threads at the same time.
    fn concurrently<T: Send>(&self, clients: usize, call: impl Fn(usize, &ApiClient) -> T + Sync) -> Vec<T> {
        let barrier = Barrier::new(clients);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..clients)
                .map(|number| {
                    let (call, barrier) = (&call, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        call(number, self.server(number))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// The number of names under the first prefix.
    fn name_count(&self) -> usize {
        let (mut after, mut count) = (String::new(), 0);
        loop {
            let path = format!("/dois?prefix={}&limit=1000&after={after}", self.fixtures.prefixes[0]);
            let listed = self.servers[1].check("GET", &path, TOKEN, &Json::Null, (200, ""));
            count += listed["items"].as_array().unwrap().len();
            match listed["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return count,
            }
        }
    }
}

/// Each name is created once; all other attempts get a conflict.
#[test]
fn concurrent_registrations_of_the_same_names() {
    const NAMES: usize = 12;
    let pair = ServerPair::new();
    let token = &pair.fixtures.tokens[0];
    let results = pair.concurrently(CLIENTS, |client, server| {
        let register = |number: usize| {
            let name = format!("10.70000/{}", (number + client) % NAMES);
            let body = json!({"name": name, "url": format!("https://example.org/{client}")});
            let response = server.json("POST", "/dois", token, &[], &body);
            (name, response.status, response.json["code"].as_str().unwrap_or_default().to_owned(), client)
        };
        (0..NAMES).map(register).collect::<Vec<_>>()
    });
    let mut created = BTreeMap::new();
    for (name, status, code, client) in results.into_iter().flatten() {
        match (status, &*code) {
            (201, _) => assert_eq!(created.insert(name.clone(), client), None, "{name} was created twice"),
            (409, "already-registered") => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!((created.len(), pair.name_count()), (NAMES, NAMES));
    for (name, client) in created {
        for server in &pair.servers {
            assert_eq!(server.redirect_of(&name), (302, Some(format!("https://example.org/{client}"))));
        }
    }
}

/// Allocated prefixes are unique.
#[test]
fn concurrent_prefix_allocations() {
    let pair = ServerPair::new();
    let body = json!({"registrant": pair.fixtures.registrants[0]});
    let allocated = pair.concurrently(8, |_, server| {
        loop {
            let response = server.json("POST", "/prefixes", TOKEN, &[], &body);
            match response.status {
                201 => return response.json["prefix"].as_str().unwrap().to_owned(),
                503 => assert_eq!(response.json["code"], "write-conflict"),
                _ => panic!("{}", response.json),
            }
        }
    });
    assert_eq!(allocated.iter().collect::<BTreeSet<_>>().len(), allocated.len(), "{allocated:?}");
}

/// A revoked token and a transferred prefix take effect on the other server at once.
#[test]
fn permissions_apply_at_once() {
    let pair = ServerPair::new();
    let [first, second] = &pair.servers;
    let (tokens, registrants) = (&pair.fixtures.tokens, &pair.fixtures.registrants);
    let body = |name: &str| json!({"name": format!("10.70000/{name}"), "url": "https://example.org/"});
    second.check("POST", "/dois", &tokens[0], &body("before"), (201, ""));
    second.check("POST", "/dois", &tokens[1], &body("not-yet"), (403, "forbidden"));
    let transfer = json!({"prefix": "10.70000", "to": registrants[1], "force": true});
    assert_eq!(first.create("/transfers", &transfer)["state"], "done");
    second.check("POST", "/dois", &tokens[0], &body("no-longer"), (403, "forbidden"));
    second.check("POST", "/dois", &tokens[1], &body("now"), (201, ""));
    let id = tokens[1].split('_').nth(1).unwrap();
    first.check("DELETE", &format!("/tokens/{id}"), TOKEN, &Json::Null, (200, ""));
    second.check("POST", "/dois", &tokens[1], &body("never"), (401, "unauthenticated"));
}

/// A request that both servers receive at the same time is executed once, and both return the same response.
#[test]
fn idempotency_key_of_a_registration() {
    let pair = ServerPair::new();
    for round in 0..8 {
        let key = format!("Idempotency-Key: deposit-{round}");
        let body = json!({"prefix": "10.70000", "url": "https://example.org/"});
        let names = pair.concurrently(4, |_, server| {
            let response = server.json("POST", "/dois", &pair.fixtures.tokens[0], &[&key], &body);
            assert_eq!(response.status, 201, "{}", response.json);
            response.json["name"].as_str().unwrap().to_owned()
        });
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 1, "{names:?}");
        assert_eq!(pair.name_count(), round + 1);
    }
}

/// The server that receives a batch last executes it and the other aborts; a client that repeats it gets all results.
#[test]
fn idempotency_key_of_a_batch() {
    const LINES: usize = 4_000;
    let pair = ServerPair::new();
    let line = "{\"prefix\":\"10.70000\",\"url\":\"https://example.org/\"}\n";
    for round in 1..=2 {
        let key = format!("Idempotency-Key: batch-{round}");
        let results = pair.concurrently(2, |client, server| {
            // The second client starts while the first batch is in progress, later in each round.
            if client == 1 {
                let names = LINES * (round - 1) + 400 * (round - 1);
                wait_until("the first batch is in progress", || pair.name_count() > names);
            }
            // Different sizes, so that the servers group the lines differently.
            let body = line.repeat(LINES);
            let parts: Vec<_> = body.as_bytes().chunks(line.len() * (300 + 77 * client)).collect();
            for attempt in 1..=50 {
                let path = "/api/v1/dois/batch";
                let response = server.send_in_parts("POST", path, &pair.fixtures.tokens[0], &[&key], &parts);
                if response.status == 200 {
                    let results = response.json_lines();
                    assert!(results.iter().all(|line| line["status"] == "created"), "{results:?}");
                    if results.len() == LINES {
                        return results;
                    }
                }
                // Backoff, different for each client: each attempt cancels that of the other.
                thread::sleep(Duration::from_millis(50 * attempt * (1 + client as u64)));
            }
            panic!("the batch is never completed");
        });
        assert!(results[0] == results[1], "both clients get the same results");
        assert_eq!(pair.name_count(), LINES * round);
    }
}

/// Resolution counts of both servers add up, also if they are flushed at the same time.
#[test]
fn resolution_counts_add_up() {
    let pair = ServerPair::new();
    let name = json!({"name": "10.70000/counted", "url": "https://example.org/"});
    pair.servers[0].create("/dois", &name);
    for round in 1..=3 {
        for (server, times) in pair.servers.iter().zip([5, 7]) {
            for _ in 0..times {
                assert_eq!(server.redirect_of("10.70000/counted").0, 302);
                assert_eq!(server.redirect_of("10.70000/nothing").0, 404);
            }
        }
        pair.concurrently(2, |number, server| {
            let (registry, counter) = (server.server.http.registry(), &pair.counters[number]);
            server.server.runtime.block_on(Maintenance::default().flush(registry, counter));
        });
        let response = pair.servers[1].check("GET", "/reports/10.70000", TOKEN, &Json::Null, (200, ""));
        assert_eq!(
            (&response["resolutions"], &response["failures"]),
            (&json!(12 * round), &json!(12 * round)),
            "{response}"
        );
    }
}

/// A subscriber of one server receives changes that are made through the other.
#[test]
fn change_feed_of_the_other_server() {
    let pair = ServerPair::new();
    let mut stream = pair.servers[1].server.connect();
    let head = "GET /api/v1/changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut events = BufReader::new(stream).lines().map_while(Result::ok);
    events.by_ref().find(|line| line.starts_with("retry: ")).unwrap();
    let name = json!({"name": "10.70000/new", "url": "https://example.org/"});
    let started = Instant::now();
    pair.servers[0].create("/dois", &name);
    assert!(events.any(|line| line.starts_with("data: ") && line.contains("10.70000/new")));
    // The log is polled every 10 ms; the heartbeat, which would show it in any case, comes after 15 s.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

/// The other server shows a change soon, despite its cache, and at once for authoritative queries.
#[test]
fn changes_are_visible_on_the_other_server() {
    let pair = ServerPair::new();
    let [first, second] = &pair.servers;
    first.create("/dois", &json!({"name": "10.70000/moving", "url": "https://example.org/0"}));
    let mut delays = Vec::new();
    for number in 1..=5 {
        // Fill the cache.
        for _ in 0..3 {
            assert_eq!(second.redirect_of("10.70000/moving").0, 302);
        }
        let to = format!("https://example.org/{number}");
        first.check("PUT", "/dois/10.70000/moving", TOKEN, &json!({"url": to}), (200, ""));
        let changed = Instant::now();
        let moved = (302, Some(to));
        assert_eq!(first.redirect_of("10.70000/moving"), moved, "the server that made the change shows it");
        assert_eq!(
            second.redirect_of("10.70000/moving?auth"),
            moved,
            "authoritative queries bypass the cache"
        );
        wait_until("the other server shows the change", || second.redirect_of("10.70000/moving") == moved);
        delays.push(changed.elapsed());
    }
    check_delays(delays);
}

/// Changes are visible within a second. The bound is checked in full runs only, which have the machine for themselves; other runs
/// show that the cache is invalidated, since entries are valid for a day.
fn check_delays(mut delays: Vec<Duration>) {
    delays.sort();
    assert!(!is_full_run() || delays[delays.len() / 2] < Duration::from_secs(1), "{delays:?}");
}

/// Like [`changes_are_visible_on_the_other_server`], over the native protocol.
#[test]
fn changes_are_visible_over_the_native_protocol() {
    let database_url = postgres_url();
    let [first, second] = [(); 2]
        .map(|()| NativeTestServer::start_over(open_postgres(&database_url), NativeServerOptions::default()));
    let cacheable = resolution("10.5555/moving");
    let mut authoritative = cacheable;
    authoritative.header.flags |= OpFlags::AUTHORITATIVE;
    let mut delays = Vec::new();
    for url in ["https://example.org/first", "https://example.org/second", "https://example.org/third"] {
        first.put("10.5555/moving", vec![url_value(1, url)]);
        let changed = Instant::now();
        let has_url = |query: &tendot_proto::Message<'_>| {
            let response = second.exchange(Transport::Tcp, &query.to_bytes().unwrap()).remove(0);
            response.windows(url.len()).any(|part| part == url.as_bytes())
        };
        assert!(has_url(&authoritative), "authoritative queries bypass the cache");
        wait_until("the other server shows the change", || has_url(&cacheable));
        delays.push(changed.elapsed());
        // Fill the cache with both.
        for query in [&cacheable, &authoritative, &cacheable, &authoritative] {
            assert!(has_url(query));
        }
    }
    check_delays(delays);
}

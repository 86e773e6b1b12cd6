//! Two servers on one database: whichever is asked, the same holds, and nothing is done twice.

#![allow(clippy::duplicate_mod, reason = "each kind of service knows its store")]

mod client;
mod native;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, Scene, lines};
use native::{Setting, resolution, start_over};
use serde_json::{Value as Json, json};
use server::{TOKEN, store};
use tendot_proto::OpFlags;
use tendot_proto::endpoint::Transport;
use tendot_server::{Tally, Upkeep};
use tendot_store::Postgres;
use tendot_testing::postgres::create_database_url;

const CLIENTS: usize = 32;

/// Two servers, and what both know.
struct Pair {
    servers: [Client<Postgres>; 2],
    tallies: [Arc<Tally>; 2],
    scene: Scene,
}

impl Pair {
    fn new() -> Self {
        let address = create_database_url();
        let tallies = [(); 2].map(|()| Arc::new(Tally::new(true)));
        let servers = tallies
            .each_ref()
            .map(|tally| Client::start_as(store::open(&address), |http| http.tally(Arc::clone(tally))));
        let scene = servers[0].scene();
        Self { servers, tallies, scene }
    }

    fn server(&self, number: usize) -> &Client<Postgres> {
        &self.servers[number % 2]
    }

    /// What both are asked at the same time, by many.
    fn at_once<T: Send>(&self, clients: usize, ask: impl Fn(usize, &Client<Postgres>) -> T + Sync) -> Vec<T> {
        let barrier = Barrier::new(clients);
        thread::scope(|scope| {
            let asking: Vec<_> = (0..clients)
                .map(|number| {
                    let (ask, barrier) = (&ask, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        ask(number, self.server(number))
                    })
                })
                .collect();
            asking.into_iter().map(|asking| asking.join().unwrap()).collect()
        })
    }

    /// The names of the first prefix.
    fn names(&self) -> usize {
        let (mut after, mut count) = (String::new(), 0);
        loop {
            let path = format!("/dois?prefix={}&limit=1000&after={after}", self.scene.prefixes[0]);
            let listed = self.servers[1].check("GET", &path, TOKEN, &Json::Null, (200, ""));
            count += listed["items"].as_array().unwrap().len();
            match listed["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return count,
            }
        }
    }
}

/// Each name is made once, and all others are told that it is there.
#[test]
fn the_same_names_at_once() {
    const NAMES: usize = 12;
    let pair = Pair::new();
    let token = &pair.scene.tokens[0];
    let answers = pair.at_once(CLIENTS, |client, server| {
        let answer = |number: usize| {
            let name = format!("10.70000/{}", (number + client) % NAMES);
            let body = json!({"name": name, "url": format!("https://example.org/{client}")});
            let told = server.told("POST", "/dois", token, &[], &body);
            (name, told.status, told.json["code"].as_str().unwrap_or_default().to_owned(), client)
        };
        (0..NAMES).map(answer).collect::<Vec<_>>()
    });
    let mut made = BTreeMap::new();
    for (name, status, code, client) in answers.into_iter().flatten() {
        match (status, &*code) {
            (201, _) => assert_eq!(made.insert(name.clone(), client), None, "{name} was made twice"),
            (409, "already-registered") => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!((made.len(), pair.names()), (NAMES, NAMES));
    for (name, client) in made {
        for server in &pair.servers {
            assert_eq!(server.leads(&name), (302, Some(format!("https://example.org/{client}"))));
        }
    }
}

/// Prefixes that nobody chose are different ones.
#[test]
fn prefixes_at_once() {
    let pair = Pair::new();
    let body = json!({"registrant": pair.scene.ids[0]});
    let given = pair.at_once(8, |_, server| {
        loop {
            let told = server.told("POST", "/prefixes", TOKEN, &[], &body);
            match told.status {
                201 => return told.json["prefix"].as_str().unwrap().to_owned(),
                503 => assert_eq!(told.json["code"], "contended"),
                _ => panic!("{}", told.json),
            }
        }
    });
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len(), "{given:?}");
}

/// A token that one revokes, and a prefix that one gives to another registrant: the other knows at once.
#[test]
fn rights_hold_at_once() {
    let pair = Pair::new();
    let [here, there] = &pair.servers;
    let (tokens, ids) = (&pair.scene.tokens, &pair.scene.ids);
    let body = |name: &str| json!({"name": format!("10.70000/{name}"), "url": "https://example.org/"});
    there.check("POST", "/dois", &tokens[0], &body("before"), (201, ""));
    there.check("POST", "/dois", &tokens[1], &body("not-yet"), (403, "not-yours"));
    let transfer = json!({"prefix": "10.70000", "to": ids[1], "force": true});
    assert_eq!(here.make("/transfers", &transfer)["state"], "done");
    there.check("POST", "/dois", &tokens[0], &body("no-longer"), (403, "not-yours"));
    there.check("POST", "/dois", &tokens[1], &body("now"), (201, ""));
    let id = tokens[1].split('_').nth(1).unwrap();
    here.check("DELETE", &format!("/tokens/{id}"), TOKEN, &Json::Null, (204, ""));
    there.check("POST", "/dois", &tokens[1], &body("never"), (401, "not-authenticated"));
}

/// One request that comes to both at the same time is carried out once, and both answer the same.
#[test]
fn one_key_for_a_deposit() {
    let pair = Pair::new();
    for round in 0..8 {
        let key = format!("Idempotency-Key: deposit-{round}");
        let body = json!({"prefix": "10.70000", "url": "https://example.org/"});
        let names = pair.at_once(4, |_, server| {
            let told = server.told("POST", "/dois", &pair.scene.tokens[0], &[&key], &body);
            assert_eq!(told.status, 201, "{}", told.json);
            told.json["name"].as_str().unwrap().to_owned()
        });
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 1, "{names:?}");
        assert_eq!(pair.names(), round + 1);
    }
}

/// The same of a batch: who is sent it last carries it out, and the other is cut off. Whoever sends it again gets all answers.
#[test]
fn one_key_for_a_batch() {
    const LINES: usize = 4_000;
    let pair = Pair::new();
    let line = "{\"prefix\":\"10.70000\",\"url\":\"https://example.org/\"}\n";
    for round in 1..=2 {
        let key = format!("Idempotency-Key: batch-{round}");
        let answers = pair.at_once(2, |client, server| {
            // The second comes while the first is at work, after one time or another.
            thread::sleep(Duration::from_millis(client as u64 * 40 * round));
            // Lines that one deposits together are not those that the other does.
            let body = line.repeat(LINES);
            let pieces: Vec<_> = body.as_bytes().chunks(line.len() * (300 + 77 * client)).collect();
            for attempt in 1..=50 {
                let path = "/api/v1/dois/batch";
                let found = server.try_send("POST", path, &pair.scene.tokens[0], &[&key], &pieces);
                if found.status == 200 {
                    let answers = lines(&found.body);
                    assert!(answers.iter().all(|line| line["status"] == "created"), "{answers:?}");
                    if answers.len() == LINES {
                        return answers;
                    }
                }
                // Who comes again at once takes it from the other before anything was done, and the other from them.
                thread::sleep(Duration::from_millis(50 * attempt * (1 + client as u64)));
            }
            panic!("the batch never ends");
        });
        assert!(answers[0] == answers[1], "both are told the same names");
        assert_eq!(pair.names(), LINES * round as usize);
    }
}

/// What both have counted is added up, also if they write it down at the same time.
#[test]
fn figures_add_up() {
    let pair = Pair::new();
    let name = json!({"name": "10.70000/counted", "url": "https://example.org/"});
    pair.servers[0].make("/dois", &name);
    for round in 1..=3 {
        for (server, times) in pair.servers.iter().zip([5, 7]) {
            for _ in 0..times {
                assert_eq!(server.leads("10.70000/counted").0, 302);
                assert_eq!(server.leads("10.70000/nothing").0, 404);
            }
        }
        pair.at_once(2, |number, server| {
            let (registry, tally) = (server.service.http.registry(), &pair.tallies[number]);
            server.service.runtime.block_on(Upkeep::default().write(registry, tally));
        });
        let told = pair.servers[1].check("GET", "/reports/10.70000", TOKEN, &Json::Null, (200, ""));
        assert_eq!(
            (&told["resolutions"], &told["failures"]),
            (&json!(12 * round), &json!(12 * round)),
            "{told}"
        );
    }
}

/// Who follows what changes at one server hears of what is done at the other.
#[test]
fn changes_of_the_other() {
    let pair = Pair::new();
    let mut stream = pair.servers[1].service.connect();
    let head = "GET /api/v1/changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut events = BufReader::new(stream).lines().map_while(Result::ok);
    events.by_ref().find(|line| line.starts_with("retry: ")).unwrap();
    let name = json!({"name": "10.70000/new", "url": "https://example.org/"});
    let asked = Instant::now();
    pair.servers[0].make("/dois", &name);
    assert!(events.any(|line| line.starts_with("data: ") && line.contains("10.70000/new")));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

/// What one changes, the other shows within a second, whatever it keeps; and at once to who asks for what is right now.
#[test]
fn changes_are_seen() {
    let pair = Pair::new();
    let [here, there] = &pair.servers;
    here.make("/dois", &json!({"name": "10.70000/moving", "url": "https://example.org/0"}));
    let mut took = Vec::new();
    for number in 1..=5 {
        // So that it is kept.
        for _ in 0..3 {
            assert_eq!(there.leads("10.70000/moving").0, 302);
        }
        let to = format!("https://example.org/{number}");
        here.check("PUT", "/dois/10.70000/moving", TOKEN, &json!({"url": to}), (200, ""));
        let changed = Instant::now();
        let moved = (302, Some(to));
        assert_eq!(here.leads("10.70000/moving"), moved, "who changed it sees it");
        assert_eq!(there.leads("10.70000/moving?auth"), moved, "it is asked for what is right now");
        while there.leads("10.70000/moving") != moved {
            assert!(changed.elapsed() < Duration::from_secs(5), "kept for too long");
            thread::sleep(Duration::from_millis(10));
        }
        took.push(changed.elapsed());
    }
    check_soon(took);
}

/// Changes are seen within a second; on a busy machine anything may take longer once.
fn check_soon(mut took: Vec<Duration>) {
    took.sort();
    assert!(took[took.len() / 2] < Duration::from_secs(1), "{took:?}");
}

/// The same natively.
#[test]
fn changes_are_seen_natively() {
    let address = create_database_url();
    let [here, there] = [(); 2].map(|()| start_over(store::open(&address), Setting::default()));
    let plain = resolution("10.5555/moving");
    let mut authoritative = plain;
    authoritative.header.flags = authoritative.header.flags.with(OpFlags::AUTHORITATIVE);
    let mut took = Vec::new();
    for to in ["https://example.org/first", "https://example.org/second", "https://example.org/third"] {
        here.put("10.5555/moving", vec![native::url(1, to)]);
        let changed = Instant::now();
        let leads = |question: &tendot_proto::Message<'_>| {
            let answer = there.ask(Transport::Tcp, &question.to_bytes().unwrap()).remove(0);
            answer.windows(to.len()).any(|part| part == to.as_bytes())
        };
        assert!(leads(&authoritative), "it is asked for what is right now");
        while !leads(&plain) {
            assert!(changed.elapsed() < Duration::from_secs(5), "kept for too long");
            thread::sleep(Duration::from_millis(10));
        }
        took.push(changed.elapsed());
        // So that both are kept, if they can be.
        for question in [&plain, &authoritative, &plain, &authoritative] {
            assert!(leads(question));
        }
    }
    check_soon(took);
}

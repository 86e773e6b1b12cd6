//! What an operator relies on, over real connections: figures, names of requests, compression, rates, proxies, the end.

mod server;

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use server::{Found, TOKEN, plain, start};
use tendot_proto::{Permissions, Value};
use tendot_server::http::{Limits, Rate, Rates, Trust};
use tendot_store::{Change, Edit, Expect, Store as _};

#[test]
fn figures() {
    let service = start(Limits::default(), None, |http| http.figure("tendot_x", "y", true, || Some(5.0)));
    for _ in 0..3 {
        service.ask("GET", "/10.5555/ONE", "");
    }
    service.ask("GET", "/10.5555/NONE", "");
    service.ask("GET", "/api/handles/10.5555/ONE", "");
    let found = service.ask("GET", "/metrics", "");
    assert_eq!(
        found.header("content-type"),
        Some("application/openmetrics-text;version=1.0.0;charset=utf-8")
    );
    let text = String::from_utf8(found.body).unwrap();
    for line in [
        "tendot_http_requests_total{kind=\"redirect\",code=\"302\"} 3",
        "tendot_http_requests_total{kind=\"redirect\",code=\"404\"} 1",
        "tendot_http_requests_total{kind=\"read\",code=\"200\"} 1",
        "tendot_http_request_duration_seconds_count{kind=\"redirect\"} 4",
        "tendot_http_connections_accepted_total 6.0",
        "tendot_http_rate_limited_total 0.0",
        "tendot_store_last_change 3.0",
        "tendot_x_total 5.0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    assert!(text.contains("tendot_build_info{version=\"") && text.contains("process_start_time_seconds 1"));
    assert!(!text.contains("5555"), "a name is a label");
    // What comes through a proxy does not come from this machine.
    assert_eq!(service.ask("GET", "/metrics", "X-Forwarded-For: 127.0.0.1").status, 403);
}

#[test]
fn requests_have_names() {
    let service = start(Limits::default(), None, |http| {
        let proxies = vec!["127.0.0.2/32".parse().unwrap()];
        http.trust(Trust { proxies, ..Trust::default() })
    });
    let of = |headers: &str| service.ask("GET", "/livez", headers).header("x-request-id").unwrap().to_owned();
    let made = of("X-Request-Id: mine");
    assert!(made.len() == 16 && made != of(""), "{made}");

    let service = start(Limits::default(), None, |http| {
        http.trust(Trust { proxies: vec!["127.0.0.0/8".parse().unwrap()], ..Trust::default() })
    });
    let found = service.ask("GET", "/livez", "X-Request-Id: mine\nX-Forwarded-For: 192.0.2.1");
    assert_eq!(found.header("x-request-id"), Some("mine"));
}

#[test]
fn attack_h8_who_may_send_credentials() {
    let write = |service: &server::Service, headers: &str| {
        let headers = format!("{headers}\nAuthorization: Bearer {TOKEN}\nContent-Length: 0");
        service.ask("PUT", "/api/handles/10.5555/X", headers.trim_start()).status
    };
    let near = plain();
    assert_eq!(write(&near, ""), 400);
    assert_eq!(write(&near, "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: https"), 400);
    let asked = |service: &server::Service, headers: &str| {
        let headers = format!("{headers}\nAuthorization: Bearer {TOKEN}");
        service.ask("GET", "/api/prefixes", headers.trim_start()).status
    };
    assert_eq!(asked(&near, ""), 200);
    assert_eq!(asked(&near, "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: https"), 403);
    let behind = start(Limits::default(), None, |http| {
        http.trust(Trust { proxies: vec!["127.0.0.1/32".parse().unwrap()], ..Trust::default() })
    });
    assert_eq!(asked(&behind, "X-Forwarded-For: 192.0.2.1"), 403);
    assert_eq!(asked(&behind, "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: https"), 200);
}

#[test]
fn who_asks_too_often_waits() {
    let service = start(Limits::default(), None, |http| {
        let rate = Rate { per_second: 1, burst: 3 };
        let proxies = vec!["127.0.0.1/32".parse().unwrap()];
        http.rates(Rates { client: rate, network: Rate { burst: 5, ..rate }, loopback: false })
            .trust(Trust { proxies, ..Trust::default() })
    });
    let ask = |client: &str| service.ask("GET", "/10.5555/ONE", &format!("X-Forwarded-For: {client}"));
    let statuses: Vec<u16> = (0..5).map(|_| ask("192.0.2.1").status).collect();
    assert_eq!(statuses, [302, 302, 302, 429, 429]);
    let held = ask("192.0.2.1");
    assert_eq!(held.header("retry-after"), Some("1"));
    assert_eq!(held.header("cache-control"), Some("no-store"));
    // Two more of the same network, and one of another.
    let statuses: Vec<u16> = (2..5).map(|host| ask(&format!("192.0.2.{host}")).status).collect();
    assert_eq!(statuses, [302, 302, 429]);
    assert_eq!(ask("198.51.100.1").status, 302);
    assert_eq!(service.ask("GET", "/livez", "X-Forwarded-For: 192.0.2.1").status, 200);
    // A proxy that says nothing is not held back for all.
    let unsaid = "X-Forwarded-Proto: https";
    assert!((0..9).all(|_| service.ask("GET", "/10.5555/ONE", unsaid).status == 302));
}

#[test]
fn this_machine_does_not_wait_unless_told() {
    let rate = Rate { per_second: 1, burst: 1 };
    for (loopback, expected) in [(false, 302), (true, 429)] {
        let service = start(Limits::default(), None, |http| {
            http.rates(Rates { client: rate, network: Rate { burst: 100, ..rate }, loopback })
        });
        service.ask("GET", "/10.5555/ONE", "");
        assert_eq!(service.ask("GET", "/10.5555/ONE", "").status, expected);
    }
}

#[test]
fn answers_are_compressed() {
    let service = plain();
    let target = "/api/handles/10.5555/LARGE";
    let whole = service.ask("GET", target, "");
    assert_eq!((whole.header("content-encoding"), whole.header("vary")), (None, Some("Accept-Encoding")));
    let tag = whole.header("etag").unwrap().to_owned();
    let small = service.ask("GET", target, "Accept-Encoding: br, gzip");
    assert_eq!(small.header("content-encoding"), Some("gzip"));
    assert_eq!(small.header("vary"), Some("Accept-Encoding"));
    assert_eq!(small.header("content-length").unwrap(), small.body.len().to_string());
    assert!(small.body.len() < whole.body.len() / 4, "{} of {}", small.body.len(), whole.body.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&small.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, whole.body);
    // The same content, and not the same bytes.
    assert_eq!(small.header("etag").unwrap(), format!("W/{tag}"));
    for known in [&tag, &format!("W/{tag}")] {
        let headers = format!("Accept-Encoding: gzip\nIf-None-Match: {known}");
        let same = service.ask("GET", target, &headers);
        assert_eq!((same.status, same.header("vary")), (304, Some("Accept-Encoding")));
    }
    let head = service.ask("HEAD", target, "Accept-Encoding: gzip");
    assert_eq!(head.header("content-length"), small.header("content-length"));
    // What is small, and what is for one alone, stays as it is.
    assert_eq!(service.ask("GET", "/10.5555/ONE", "Accept-Encoding: gzip").header("content-encoding"), None);
    let own = service.ask("GET", target, &format!("Accept-Encoding: gzip\nAuthorization: Bearer {TOKEN}"));
    assert_eq!((own.status, own.header("content-encoding")), (200, None));
}

/// Asked to end under load, it answers all that it has taken, and says that the connection ends.
#[test]
fn attack_s12_the_end_under_load() {
    for round in 0..3 {
        let mut service = plain();
        let (failed, asked, is_ending) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let address = service.address;
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (failed, asked, is_ending) = (&failed, &asked, &is_ending);
                scope.spawn(move || {
                    loop {
                        let Ok(mut stream) = std::net::TcpStream::connect(address) else { return };
                        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                        // Some ask again and again on a connection, some once.
                        for request in 0..if number % 2 == 0 { 1_000 } else { 1 } {
                            // And some of those rest in between.
                            std::thread::sleep(Duration::from_millis(if number % 4 == 0 { 2 } else { 0 }));
                            let said = b"GET /10.5555/ONE HTTP/1.1\r\nHost: a\r\n\r\n";
                            let mut piece = [0; 4 << 10];
                            let answer = stream.write_all(said).and_then(|()| stream.read(&mut piece));
                            let Some(read) = answer.ok().filter(|read| *read > 0) else {
                                // Who comes between the last look at those who wait and the end is not taken.
                                let is_taken = request > 0 || !is_ending.load(Ordering::Relaxed);
                                failed.fetch_add(usize::from(is_taken), Ordering::Relaxed);
                                return;
                            };
                            asked.fetch_add(1, Ordering::Relaxed);
                            let found = Found::of(&piece[..read]);
                            assert_eq!(found.status, 302);
                            if found.header("connection") == Some("close") {
                                break;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(300 + 50 * round));
            let begun = Instant::now();
            is_ending.store(true, Ordering::Relaxed);
            let _ = service.end.take().unwrap().send(());
            service.runtime.block_on(service.served.take().unwrap()).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        });
        assert!(asked.load(Ordering::Relaxed) > 100);
        assert_eq!(failed.load(Ordering::Relaxed), 0, "of {}", asked.load(Ordering::Relaxed));
    }
}

/// A request that was sent when the end had just been asked for is answered, on a connection that had nothing to do.
#[test]
fn attack_s12_who_rests_at_the_end() {
    let mut service = plain();
    let mut stream = service.connect();
    let mut ask = || {
        stream.write_all(b"GET /10.5555/ONE HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut piece = [0; 4 << 10];
        let read = stream.read(&mut piece).unwrap();
        Found::of(&piece[..read])
    };
    assert_eq!(ask().header("connection"), None);
    let _ = service.end.take().unwrap().send(());
    std::thread::sleep(Duration::from_millis(100));
    let last = ask();
    assert_eq!((last.status, last.header("connection")), (302, Some("close")));
}

/// The operator sees in a history what administrators could read, and who it was whatever is told there.
#[test]
fn histories_for_the_operator() {
    let service = plain();
    let hidden = Value { permissions: Permissions(0x0c), ..Value::new(1, "NOTE", "for administrators") };
    let put = Edit::Put { name: "10.5555/HIDDEN".into(), values: vec![hidden], expect: Expect::Any };
    for _ in 0..2 {
        let change = Change { by: "me@example.org".into(), at: 0, edits: vec![put.clone()] };
        service.runtime.block_on(service.http.registry().store().commit(change)).unwrap();
    }
    let ask = |headers: &str| {
        let found = service.ask("GET", "/api/v1/history/10.5555/HIDDEN", headers);
        (
            found.status,
            found.header("cache-control").unwrap().to_owned(),
            String::from_utf8(found.body).unwrap(),
        )
    };
    let token = format!("Authorization: Bearer {TOKEN}");
    let (status, caching, body) = ask(&token);
    assert_eq!((status, &*caching), (200, "private, no-store"));
    assert!(body.contains("for administrators") && body.contains("me@example.org"), "{body}");
    let (status, caching, body) = ask("");
    assert_eq!((status, &*caching), (200, "no-cache"));
    assert!(!body.contains("for administrators") && !body.contains("me@example.org"), "{body}");
    let found = service.ask("GET", "/api/v1/history/10.5555/HIDDEN", "Authorization: Bearer wrong");
    assert_eq!((found.status, found.header("content-type")), (401, Some("application/problem+json")));
    assert!(found.header("www-authenticate").is_some());
}

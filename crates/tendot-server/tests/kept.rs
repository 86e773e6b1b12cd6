//! Answers that are kept are those that would be given without them.

mod service;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use service::Service;

const RECORDS: [&str; 5] = [
    r#"{"handle":"10.5555/plain","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/a"},"ttl":86400},{"index":100,"type":"HS_ADMIN","data":{"format":"admin","value":{"handle":"10.5555/ADMIN","index":301,"permissions":"111111111111"}},"ttl":86400}]}"#,
    r#"{"handle":"10.5555/places","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/u"},"ttl":60},{"index":2,"type":"10320/loc","data":{"format":"string","value":"<locations chooseby='locatt,weighted'><location id='1' weight='0' http_role='conneg' media-type='application/json' href='https://example.org/json'/><location id='2' weight='1' href='https://example.org/html'/></locations>"},"ttl":60}]}"#,
    r#"{"handle":"10.5555/hidden","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/h"},"permissions":"1100","ttl":86400}]}"#,
    r#"{"handle":"10.5555/short","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/s"},"ttl":"2000-01-01T00:00:00Z"}]}"#,
    r#"{"handle":"10.5555/ADMIN","values":[{"index":301,"type":"HS_SECKEY","data":{"format":"string","value":"opensesame"},"permissions":"1100","ttl":86400}]}"#,
];

/// A header with a password that is right.
const BASIC: &str = "Authorization: Basic MzAxJTNBMTAuNTU1NSUyRkFETUlOOm9wZW5zZXNhbWU=";

fn put(service: Service, name: &str, url: &str) {
    let body = format!(
        r#"{{"values":[{{"index":1,"type":"URL","data":{{"format":"string","value":"{url}"}}}},
        {{"index":100,"type":"HS_ADMIN","data":{{"format":"admin","value":{{"handle":"10.5555/ADMIN","index":301,"permissions":"111111111111"}}}}}}]}}"#
    );
    let put = service.ask("PUT", &format!("/api/handles/{name}"), &[BASIC], &body);
    assert!(matches!(put.status, 200 | 201), "{put:?}");
}

#[test]
fn a_second_answer_is_as_the_first() {
    let service = Service::start(RECORDS, true);
    for name in ["plain", "PLAIN", "places", "hidden", "short", "nothing", "ADMIN"] {
        for path in [format!("/10.5555/{name}"), format!("/api/handles/10.5555/{name}")] {
            for headers in [
                &[][..],
                &["Accept: application/json"],
                &["If-None-Match: *"],
                &[BASIC],
                &["Accept-Encoding: gzip"],
            ] {
                for method in ["GET", "HEAD"] {
                    // The first may have been asked for by an earlier round: with a parameter that means nothing, it is not kept.
                    let fresh = service.ask(method, &format!("{path}?"), headers, "");
                    let first = service.ask(method, &path, headers, "");
                    let second = service.ask(method, &path, headers, "");
                    let told = |found: &service::Found| {
                        let of_its_own = ["date", "x-request-id", "expires"];
                        let mut head: Vec<String> = found.head.lines().map(str::to_ascii_lowercase).collect();
                        head.retain(|line| !of_its_own.iter().any(|name| line.starts_with(name)));
                        head.sort();
                        (head, found.body.clone(), found.header("Expires").is_some())
                    };
                    assert_eq!(told(&first), told(&fresh), "{method} {path} {headers:?}");
                    assert_eq!(told(&second), told(&fresh), "{method} {path} {headers:?} again");
                }
            }
        }
    }
}

#[test]
fn a_change_is_seen_at_once() {
    let service = Service::start(RECORDS, true);
    let seen = |target: &str| {
        let redirect = service.get("/10.5555/plain", &[]);
        let spelled = service.get("/10.5555/PLAIN", &[]);
        let json = service.get("/api/handles/10.5555/plain", &[]);
        assert_eq!(redirect.header("Location"), Some(target));
        assert_eq!(spelled.header("Location"), Some(target));
        assert!(json.body.contains(target), "{}", json.body);
    };
    for _ in 0..3 {
        seen("https://example.org/a");
    }
    for number in 0..20 {
        let url = format!("https://example.org/{number}");
        put(service, "10.5555/Plain", &url);
        seen(&url);
        seen(&url);
        // The change before this one is the last of which the page has the values; the JSON has what came after, too.
        let before = if number == 0 { "a".into() } else { (number - 1).to_string() };
        for (path, has_after) in [("/api/v1/history/10.5555/plain", true), ("/10.5555/plain?history", false)]
        {
            let history = service.get(path, &[]).body;
            assert!(history.contains(&format!("example.org/{before}")), "{path}: {history}");
            assert_eq!(history.contains(&format!("{url}\"")), has_after, "{path}: {history}");
        }
    }
    // Of its prefix, which the answer depended on, too.
    put(service, "10.5555/plain", "https://example.org/a");
    let deleted = service.ask("DELETE", "/api/handles/10.5555/plain", &[BASIC], "");
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(service.get("/10.5555/plain", &[]).status, 404);
    assert_eq!(service.get("/api/handles/10.5555/plain", &[]).status, 404);
}

/// Nobody who has seen a change sees what was before it, whichever way the record is asked for.
#[test]
fn time_does_not_go_back() {
    let service = Service::start(RECORDS, true);
    put(service, "10.5555/plain", "https://example.org/0");
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                for path in ["/10.5555/plain", "/api/handles/10.5555/plain", "/10.5555/PLAIN"].iter().cycle()
                {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let least = acknowledged.load(Ordering::SeqCst).max(last);
                    let found = service.get(path, &[]);
                    let (_, after) = format!("{}{}", found.head, found.body)
                        .split_once("https://example.org/")
                        .map(|(before, after)| (before.to_owned(), after.to_owned()))
                        .unwrap();
                    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
                    last = digits.parse().unwrap();
                    assert!(last >= least, "{path}: {last} after {least}");
                }
            });
        }
        for number in 1..300 {
            put(service, "10.5555/plain", &format!("https://example.org/{number}"));
            acknowledged.store(number, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

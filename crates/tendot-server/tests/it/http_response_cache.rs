//! HTTP response cache: cached responses equal uncached ones, and a write invalidates them at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tendot_testing::http::HttpResponse;

use crate::support::records_server::RecordsServer;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(cached_responses_equal_uncached_ones, writes_invalidate_at_once, reads_are_monotonic,);

const RECORDS: [&str; 5] = [
    r#"{"handle":"10.5555/plain","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/a"},"ttl":86400},{"index":100,"type":"HS_ADMIN","data":{"format":"admin","value":{"handle":"10.5555/ADMIN","index":301,"permissions":"111111111111"}},"ttl":86400}]}"#,
    r#"{"handle":"10.5555/places","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/u"},"ttl":60},{"index":2,"type":"10320/loc","data":{"format":"string","value":"<locations chooseby='locatt,weighted'><location id='1' weight='0' http_role='conneg' media-type='application/json' href='https://example.org/json'/><location id='2' weight='1' href='https://example.org/html'/></locations>"},"ttl":60}]}"#,
    r#"{"handle":"10.5555/hidden","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/h"},"permissions":"1100","ttl":86400}]}"#,
    r#"{"handle":"10.5555/short","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/s"},"ttl":"2000-01-01T00:00:00Z"}]}"#,
    r#"{"handle":"10.5555/ADMIN","values":[{"index":301,"type":"HS_SECKEY","data":{"format":"string","value":"opensesame"},"permissions":"1100","ttl":86400}]}"#,
];

/// Credentials of `301:10.5555/ADMIN`.
const BASIC: &str = "Authorization: Basic MzAxJTNBMTAuNTU1NSUyRkFETUlOOm9wZW5zZXNhbWU=";

const JSON: &str = "Content-Type: application/json";

fn put(server: &RecordsServer, name: &str, url: &str) {
    let body = format!(
        r#"{{"values":[{{"index":1,"type":"URL","data":{{"format":"string","value":"{url}"}}}},
        {{"index":100,"type":"HS_ADMIN","data":{{"format":"admin","value":{{"handle":"10.5555/ADMIN","index":301,"permissions":"111111111111"}}}}}}]}}"#
    );
    let put = server.request("PUT", &format!("/api/handles/{name}"), &[BASIC, JSON], &body);
    assert!(matches!(put.status, 200 | 201), "{put:?}");
}

fn cached_responses_equal_uncached_ones(store: StoreKind) {
    let server = RecordsServer::start(store, RECORDS, true);
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
                    // Responses to a path with a query are not cached.
                    let uncached = server.request(method, &format!("{path}?"), headers, "");
                    let first = server.request(method, &path, headers, "");
                    let second = server.request(method, &path, headers, "");
                    let stable_parts = |response: &HttpResponse| {
                        let varying = ["date", "x-request-id", "expires"];
                        let mut head: Vec<String> =
                            response.head.lines().map(str::to_ascii_lowercase).collect();
                        head.retain(|line| !varying.iter().any(|name| line.starts_with(name)));
                        head.sort();
                        (head, response.body.clone(), response.header("Expires").is_some())
                    };
                    assert_eq!(stable_parts(&first), stable_parts(&uncached), "{method} {path} {headers:?}");
                    assert_eq!(
                        stable_parts(&second),
                        stable_parts(&uncached),
                        "{method} {path} {headers:?} again"
                    );
                }
            }
        }
    }
}

fn writes_invalidate_at_once(store: StoreKind) {
    let server = RecordsServer::start(store, RECORDS, true);
    let check_target = |target: &str| {
        let redirect = server.get("/10.5555/plain", &[]);
        let other_case = server.get("/10.5555/PLAIN", &[]);
        let json = server.get("/api/handles/10.5555/plain", &[]);
        assert_eq!(redirect.header("Location"), Some(target));
        assert_eq!(other_case.header("Location"), Some(target));
        assert!(json.text().contains(target), "{}", json.text());
    };
    for _ in 0..3 {
        check_target("https://example.org/a");
    }
    for number in 0..20 {
        let url = format!("https://example.org/{number}");
        put(&server, "10.5555/Plain", &url);
        check_target(&url);
        check_target(&url);
        // The page shows the values before each change, the JSON also those after it.
        let before = if number == 0 { "a".into() } else { (number - 1).to_string() };
        for (path, has_after) in [("/api/v1/history/10.5555/plain", true), ("/10.5555/plain?history", false)]
        {
            let response = server.get(path, &[]);
            let history = response.text();
            assert!(history.contains(&format!("example.org/{before}")), "{path}: {history}");
            assert_eq!(history.contains(&format!("{url}\"")), has_after, "{path}: {history}");
        }
    }
    // Deletion invalidates, too.
    put(&server, "10.5555/plain", "https://example.org/a");
    let deleted = server.request("DELETE", "/api/handles/10.5555/plain", &[BASIC], "");
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(server.get("/10.5555/plain", &[]).status, 404);
    assert_eq!(server.get("/api/handles/10.5555/plain", &[]).status, 404);
}

/// A client that has read a change never reads an earlier state, on any path.
fn reads_are_monotonic(store: StoreKind) {
    let server = RecordsServer::start(store, RECORDS, true);
    put(&server, "10.5555/plain", "https://example.org/0");
    let (acknowledged, is_finished) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                for path in ["/10.5555/plain", "/api/handles/10.5555/plain", "/10.5555/PLAIN"].iter().cycle()
                {
                    if is_finished.load(Ordering::Relaxed) {
                        return;
                    }
                    let minimum = acknowledged.load(Ordering::SeqCst).max(last);
                    let response = server.get(path, &[]);
                    let (_, after) = format!("{}{}", response.head, response.text())
                        .split_once("https://example.org/")
                        .map(|(before, after)| (before.to_owned(), after.to_owned()))
                        .unwrap();
                    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
                    last = digits.parse().unwrap();
                    assert!(last >= minimum, "{path}: {last} after {minimum}");
                }
            });
        }
        for number in 1..300 {
            put(&server, "10.5555/plain", &format!("https://example.org/{number}"));
            acknowledged.store(number, Ordering::SeqCst);
        }
        is_finished.store(true, Ordering::Relaxed);
    });
}

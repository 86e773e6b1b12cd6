//! Reverse lookup (`/hrls/handles`): names by the values of their records, with limits on time and size.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tendot_proto::{HandleValue, ValuePermissions};
use tendot_server::http::HttpLimits;
use tendot_store::{
    AnyStore, ChangeSet, CommitError, CommitInfo, CountPage, Edit, History, HistoryOrder, LogEntry,
    NameEntry, NameKey, NamePage, Store, StoreError, StoreHead, StoredRecord,
};
use tendot_testing::http::HttpResponse;
use tendot_testing::wait_until;

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TOKEN, TestServer, bind, read_text, start_over};
use crate::support::stores::{StoreKind, over_stores};

over_stores!(lookup_results, rejected_requests; not embedded: attack_long_lookups);

fn records() -> Vec<Edit> {
    let url = |data: &'static str| HandleValue::new(1, "URL", data);
    let secret =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(300, "HS_SECKEY", "secret") };
    let mut edits = vec![
        put_edit("10.5555/ONE", vec![url("https://example.org/one;x?y"), secret]),
        put_edit(
            "10.5555/two",
            vec![url("https://example.org/2"), HandleValue::with_data(2, "RAW", vec![0xff, 0])],
        ),
        put_edit("10.6666/three", vec![url("https://example.com/3")]),
        home_edit("10.5555"),
        home_edit("10.6666"),
    ];
    let large = || HandleValue::new(2, "LARGE", "x".repeat(1 << 20));
    edits.extend((0..20).map(|number| put_edit(&format!("10.6666/large-{number}"), vec![large()])));
    edits
}

fn serve(store: StoreKind) -> TestServer {
    start_over(store.open(), bind(), records(), HttpLimits::default(), None, |http| http)
}

fn look_up(server: &TestServer, target: &str) -> HttpResponse {
    server.request("GET", target, &format!("Authorization: Bearer {TOKEN}"))
}

fn lookup_results(store: StoreKind) {
    let server = serve(store);
    let check = |target: &str, expected: Json| {
        let response = look_up(&server, target);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        assert_eq!(response.header("cache-control"), Some("private, no-store"), "{target}");
        assert_eq!(response.json(), expected, "{target}");
    };
    check("/hrls/handles", json!([]));
    check("/hrls/handles?limit=5", json!([]));
    check("/hrls/handles?URL=https://example.org/one;x?y", json!(["10.5555/ONE"]));
    check("/hrls/handles?URL=https%3A%2F%2Fexample.org%2F%2A", json!(["10.5555/ONE", "10.5555/two"]));
    check("/hrls/handles/?url=*e*3", json!(["10.6666/three"]));
    check("/hrls/handles/10.5555?URL=*", json!(["10.5555/ONE", "10.5555/two"]));
    check("/hrls/handles/10.555?URL=*", json!([]));
    check("/hrls/handles?URL=*&limit=1", json!(["10.5555/ONE"]));
    check("/hrls/handles?URL=*&limit=1&page=2", json!(["10.6666/three"]));
    check("/hrls/handles?URL=*&limit=2&page=1", json!(["10.6666/three"]));
    check("/hrls/handles?URL=*&limit=2&page=2", json!([]));
    check("/hrls/handles?URL=*&limit=2&page=4294967295", json!([]));
    check("/hrls/handles?URL=*&limit=0", json!([]));
    check(
        "/hrls/handles?URL=*&limit=200000&enforcesql=false",
        json!(["10.5555/ONE", "10.5555/two", "10.6666/three"]),
    );
    check("/hrls/handles?URL=none", json!([]));
    check("/hrls/handles?URL=none&retrieverecords=true", json!({}));
    check("/hrls/handles?HS_SECKEY=*", json!([]));
    let url = |data: &str| json!({"type": "URL", "value": data});
    let raw = json!({"type": "RAW", "value": "/wA=", "format": "base64"});
    check(
        "/hrls/handles?URL=https://example.org/*&retrieverecords=true",
        json!({
            "10.5555/ONE": [url("https://example.org/one;x?y")],
            "10.5555/two": [url("https://example.org/2"), raw],
        }),
    );
    check("/hrls/handles?URL=*3&retrieverecords=false", json!(["10.6666/three"]));
}

fn rejected_requests(store: StoreKind) {
    let server = serve(store);
    let check = |target: &str, header: &str, status: u16, code: &str| {
        let response = server.request("GET", target, header);
        let problem = response.json();
        assert_eq!(
            (response.status, &problem["code"]),
            (status, &json!(code)),
            "{target} {header}: {problem}"
        );
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
        assert_eq!(response.header("www-authenticate").is_some(), status == 401);
    };
    let operator = format!("Authorization: Bearer {TOKEN}");
    check("/hrls/handles?URL=*", "", 401, "unauthenticated");
    check("/hrls/handles", "", 401, "unauthenticated");
    check("/hrls/handles?URL=*", "Authorization: Bearer other", 401, "unauthenticated");
    // A user of the servlet: `eudat`.
    check("/hrls/handles?URL=*", "Authorization: Basic ZXVkYXQ6c2VjcmV0", 401, "unauthenticated");
    // `300:10.5555/ONE`: authenticated, without permission.
    check("/hrls/handles?URL=*", "Authorization: Basic MzAwJTNBMTAuNTU1NS9PTkU6c2VjcmV0", 403, "forbidden");
    // Through an untrusted proxy.
    check(
        "/hrls/handles?URL=*",
        &format!("{operator}\nX-Forwarded-For: 192.0.2.1"),
        403,
        "insecure-transport",
    );
    for parameter in ["limit=x", "limit=-1", "limit=", "page=1.5", "limit=4294967296", "URL=%zz"] {
        check(&format!("/hrls/handles?URL=*&{parameter}"), &operator, 400, "malformed");
    }
    let many = "&URL=*".repeat(33);
    check(&format!("/hrls/handles?limit=1{many}"), &operator, 400, "malformed");
    assert_eq!(look_up(&server, &format!("/hrls/handles?limit=1{}", &many[6..])).status, 200);
    check("/hrls/handles?LARGE=*&retrieverecords=true", &operator, 400, "too-large");
    check("/hrls/handles?LARGE=*&retrieverecords=true&limit=17", &operator, 400, "too-large");
    assert_eq!(look_up(&server, "/hrls/handles?LARGE=*&retrieverecords=true&limit=15").status, 200);
    assert_eq!(look_up(&server, "/hrls/handles?LARGE=*").status, 200);
}

/// A store whose scans wait for a lock.
#[derive(Debug)]
struct GatedStore {
    store: AnyStore,
    gate: Arc<Mutex<()>>,
    visits: Arc<AtomicUsize>,
}

impl Store for GatedStore {
    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock().unwrap());
        self.store.scan_records(prefix, after, visit).await
    }

    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.store.get(key).await
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        self.store.list_names(prefix, after, limit).await
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        self.store.seek_names(prefix, starts).await
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        self.store.count_names(prefix, after, limit).await
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.store.is_homed(prefix).await
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.store.list_homed(after, limit).await
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        self.store.commit(change).await
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.store.head().await
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.store.read_log(after, limit).await
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.store.history(key, order, limit).await
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.store.get_aux(key).await
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<tendot_store::AuxEntry>, StoreError> {
        self.store.list_aux(key_prefix, after, limit).await
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.store.names_at_revision(revision, after, limit).await
    }
}

/// The nice values of the threads with this name.
fn niceness(name: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("stat"));
    let stats = tasks.filter_map(|path| std::fs::read_to_string(path).ok());
    let matching = stats.filter(|stat| stat.contains(&format!("({name})")));
    matching
        .map(|stat| stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().parse().unwrap())
        .collect()
}

/// Names resolve during a lookup; lookups have a time limit and queue for each other; a lookup whose client disconnects is
/// cancelled.
fn attack_long_lookups(store: StoreKind) {
    let gated = GatedStore { store: store.open(), gate: Arc::default(), visits: Arc::default() };
    let (gate, visits) = (Arc::clone(&gated.gate), Arc::clone(&gated.visits));
    // Long enough for the last lookup on a busy machine, in a thread with a low priority.
    let timeout = Duration::from_secs(5);
    let server = start_over(AnyStore::boxed(gated), bind(), records(), HttpLimits::default(), None, |http| {
        http.reverse_lookup_timeout(timeout)
    });
    let closed_gate = gate.lock().unwrap();
    let wait_for_visits = |count| {
        wait_until(&format!("{count} slices are visited"), || visits.load(Ordering::SeqCst) >= count);
    };
    let look_up_code = || {
        let response = look_up(&server, "/hrls/handles?URL=*");
        let problem = response.json();
        assert_eq!(response.header("retry-after").is_some(), problem["code"] == "overloaded");
        (response.status, problem["code"].as_str().unwrap().to_owned())
    };
    let mut codes = std::thread::scope(|scope| {
        let first = scope.spawn(look_up_code);
        wait_for_visits(1);
        if cfg!(target_os = "linux") {
            assert!(niceness("reverse-lookup").contains(&10));
        }
        // The second runs when the first has timed out; the third has timed out while waiting by then.
        let waiting = [scope.spawn(look_up_code), scope.spawn(look_up_code)];
        for _ in 0..100 {
            assert_eq!(server.request("GET", "/10.5555/ONE", "").status, 302);
        }
        let waiting = waiting.map(|other| other.join().unwrap());
        [vec![first.join().unwrap()], waiting.into()].concat()
    });
    codes.sort();
    assert_eq!(
        codes,
        ["budget-exceeded", "budget-exceeded", "overloaded"].map(|code| (503, code.to_owned()))
    );
    assert_eq!(visits.load(Ordering::SeqCst), 2);
    let start_lookup = || {
        let mut stream = server.connect();
        let target = "GET /hrls/handles?URL=* HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        write!(stream, "{target}Authorization: Bearer {TOKEN}\r\n\r\n").unwrap();
        stream
    };
    let abandoned = start_lookup();
    wait_for_visits(3);
    drop(abandoned);
    let next = start_lookup();
    wait_for_visits(4);
    drop(closed_gate);
    assert!(read_text(&next).starts_with("HTTP/1.1 200 "));
    // The three lookups without a client have visited one slice each, and visit none while others are run to their end.
    let totals = [(); 4].map(|()| {
        let total = visits.load(Ordering::SeqCst);
        assert_eq!(look_up(&server, "/hrls/handles?URL=*").status, 200);
        total
    });
    let slices = totals[1] - totals[0];
    assert!(slices > 2, "{slices} slices");
    assert_eq!(totals, [1, 2, 3, 4].map(|lookups| 3 + slices * lookups), "{slices} slices");
}

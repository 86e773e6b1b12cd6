//! A full disk: 507 for exactly the changes that did not fit, alone and in batches; writes succeed again when space is freed.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tendot_testing::{MountedDisk, wait_until};

use crate::support::{TestDir, TestServer};

/// Space that is left, far less than is written.
const FREE_BYTES: u64 = 2 << 20;

/// Lines of a batch.
const LINES: usize = 1_000;

#[test]
fn full_ext4_disk() {
    check(&MountedDisk::ext4(40 << 20));
}

#[test]
fn full_xfs_disk() {
    check(&MountedDisk::xfs());
}

#[test]
fn full_tmpfs() {
    check(&MountedDisk::tmpfs("size=40m"));
}

fn line(name: &str) -> String {
    json!({"name": name, "url": format!("https://example.org/{}", "x".repeat(1_500))}).to_string()
}

/// Whether a line of a batch was accepted; otherwise it did not fit.
fn is_accepted(result: &Json) -> bool {
    let is_accepted = matches!(result["status"].as_str(), Some("created" | "updated"));
    let error = &result["error"];
    assert!(
        is_accepted || (&error["status"], &error["code"]) == (&json!(507), &json!("disk-full")),
        "{result}"
    );
    is_accepted
}

/// A server whose data are on a small disk, with the prefix 10.70000.
struct SmallServer {
    server: TestServer,
    /// Names that were acknowledged, and those that were refused.
    stored: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl SmallServer {
    fn start(dir: &TestDir, disk: &MountedDisk) -> Self {
        let data = disk.path().join("data");
        let server = TestServer::builder(dir).data(data.to_str().unwrap()).start();
        let post = |path: &str, body| {
            let response = server.request("POST", path).json(&body).send(server.address());
            assert_eq!(response.status, 201, "{}", response.text());
            response.json()
        };
        post("/api/v1/agencies", json!({"code": "LIB", "name": "Library", "metadata": "optional"}));
        let registrant = json!({"agency": "LIB", "name": "Press", "contact": "a@example.org"});
        let registrant = post("/api/v1/registrants", registrant);
        post("/api/v1/prefixes", json!({"registrant": registrant["id"], "prefix": "10.70000"}));
        Self { server, stored: BTreeSet::new(), refused: BTreeSet::new() }
    }

    /// Registers one name.
    fn register(&mut self, name: &str) {
        let request = self.server.request("POST", "/api/v1/dois").body(line(name));
        let response = request.header("Content-Type: application/json").send(self.server.address());
        let code = response.json()["code"].as_str().map(ToOwned::to_owned);
        match (response.status, code.as_deref()) {
            (201, _) => self.stored.insert(name.into()),
            (507, Some("disk-full")) => self.refused.insert(name.into()),
            _ => panic!("{name}: {}", response.text()),
        };
    }

    /// Sends a batch; every line has a result.
    fn send_batch(&self, lines: &[String], key: &str) -> Vec<Json> {
        let mut request = self.server.request("POST", "/api/v1/dois/batch").body(lines.join("\n"));
        if !key.is_empty() {
            request = request.header(&format!("Idempotency-Key: {key}"));
        }
        let response = request.header("Content-Type: application/x-ndjson").send(self.server.address());
        assert_eq!(response.status, 200, "{}", response.text());
        let results = response.json_lines();
        assert_eq!(results.len(), lines.len(), "{:?}", results.last());
        results
    }

    /// Registers names in one batch. Returns the number of refused ones.
    fn register_batch(&mut self, names: &[String]) -> usize {
        let lines: Vec<String> = names.iter().map(|name| line(name)).collect();
        let refused_before = self.refused.len();
        for (name, result) in names.iter().zip(self.send_batch(&lines, "")) {
            let names = if is_accepted(&result) { &mut self.stored } else { &mut self.refused };
            names.insert(name.clone());
        }
        self.refused.len() - refused_before
    }

    /// Checks that log, health checks and metrics say that the disk is full.
    fn check_status(&mut self) {
        self.server.wait_for_log("the disk is full: changes that do not fit are refused; free space");
        let mut attempts = 0;
        wait_until("the health checks say that the disk is full", || {
            // A smaller change that fits ends the state.
            self.register(&format!("10.70000/status-{attempts}"));
            attempts += 1;
            let responses = ["/readyz", "/readyz?write"].map(|target| {
                let response = self.server.get(target);
                (response.status, response.text().into_owned())
            });
            let reason = "read-only: the disk is full\n";
            responses == [(200, format!("ready, {reason}")), (503, reason.to_owned())]
                && self.server.metric("tendot_store_writable") == 0.0
        });
    }

    /// Checks that exactly the acknowledged names exist.
    fn check_names(&self) {
        let (mut found, mut after) = (BTreeSet::new(), String::new());
        loop {
            let target = format!("/api/v1/dois?prefix=10.70000&limit=1000&after={after}");
            let page = self.server.request("GET", &target).send(self.server.address());
            assert_eq!(page.status, 200, "{}", page.text());
            let page = page.json();
            let items = page["items"].as_array().unwrap();
            found.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => next.clone_into(&mut after),
                None => break,
            }
        }
        assert_eq!(found.len(), self.stored.len());
        assert!(found == self.stored, "{:?}", found.symmetric_difference(&self.stored).take(5));
    }
}

fn check(disk: &MountedDisk) {
    let dir = TestDir::new();
    let mut server = SmallServer::start(&dir, disk);
    let names = |kind: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("10.70000/{kind}-{number:04}")).collect()
    };
    server.register("10.70000/first");
    disk.fill_to(FREE_BYTES);
    let batch = names("batch", LINES);
    assert!(server.register_batch(&batch) > 100, "the disk is not full");
    for name in names("single", 10) {
        server.register(&name);
    }
    assert!(server.refused.iter().any(|name| name.contains("single")), "the disk is not full");
    server.check_status();
    // Each name twice: the second line is not overwritten by the first one when the batch is sent again.
    let (keyed, second) = (names("keyed", LINES / 8), "https://example.org/second");
    let mut lines: Vec<String> = keyed.iter().map(|name| line(name)).collect();
    lines.extend(keyed.iter().map(|name| json!({"name": name, "url": second}).to_string()));
    for (name, result) in keyed.iter().cycle().zip(server.send_batch(&lines, "a-key")) {
        if is_accepted(&result) {
            server.stored.insert(name.clone());
        }
    }
    assert!(keyed.iter().any(|name| !server.stored.contains(name)), "the disk is not full");
    server.check_names();
    assert_eq!(server.server.get("/10.70000/first").status, 302);

    disk.remove_filler();
    // XFS frees the space of a removed file later.
    let mut attempts = 0;
    wait_until("there is space again", || {
        let name = format!("10.70000/attempt-{attempts}");
        attempts += 1;
        server.register(&name);
        server.stored.contains(&name)
    });
    // A repeated batch keeps the results of accepted lines, and tries the others again.
    let results = server.send_batch(&lines, "a-key");
    let (first, later) = results.split_at(keyed.len());
    for (name, (first, later)) in keyed.iter().zip(first.iter().zip(later)) {
        let location = server.server.get(&format!("/{name}")).header("location").map(ToOwned::to_owned);
        assert!(is_accepted(first) || is_accepted(later), "{first} {later}");
        assert_eq!(location.as_deref() == Some(second), is_accepted(later), "{first} {later} {location:?}");
    }
    server.stored.extend(keyed);
    let refused: Vec<String> = std::mem::take(&mut server.refused).into_iter().collect();
    assert_eq!(server.register_batch(&refused), 0);
    server.register("10.70000/last");
    assert!(server.refused.is_empty());
    server.check_names();
    assert_eq!(server.server.get("/readyz?write").status, 200);
    server.server.wait_for_log("the store is writable again");
    assert_eq!(server.server.terminate(), Some(0));
    let data = disk.path().join("data");
    dir.run_ok(&["verify", "--data", data.to_str().unwrap()]);
}

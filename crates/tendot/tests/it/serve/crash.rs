//! Writes acknowledged over HTTP resolve after the server was killed under load.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tendot_testing::http::HttpRequest;
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer};

/// The server is killed with SIGKILL under load, five times.
#[test]
fn acknowledged_writes_survive_kill() {
    let dir = TestDir::new();
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..5_usize {
        let server = TestServer::builder(&dir).demo().start();
        let written = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for writer in 0..6 {
                let (server, written) = (&server, &written);
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for number in 0..10_000 {
                        let name = format!("10.5555/W{writer}-{}", number % 40);
                        let url = format!("https://example.org/{round}/{number}");
                        match connection.exchange(&server.put_handle(&name, &url)) {
                            Ok(response) if response.status < 300 => {
                                written.lock().unwrap().push((name, url));
                            }
                            Ok(response) => panic!("{name}: {}", response.head),
                            Err(_) => break,
                        }
                    }
                });
            }
            // Export and backup open the store while it grows.
            if round == 0 {
                for _ in 0..5 {
                    dir.run_ok(&["export"]);
                }
                dir.run_ok(&["backup", "copy"]);
            }
            let enough = 30 + round * 17;
            wait_until("some writes are acknowledged", || written.lock().unwrap().len() >= enough);
            server.signal("KILL");
        });
        drop(server);
        acknowledged.extend(written.into_inner().unwrap());
        check(&dir, &acknowledged);
    }
    // The backup made under load can be restored.
    let restored = TestDir::new();
    restored.run_ok(&["restore", dir.file("copy").to_str().unwrap()]);
    restored.run_ok(&["verify"]);
}

fn check(dir: &TestDir, acknowledged: &BTreeMap<String, String>) {
    let server = TestServer::builder(dir).start();
    let mut connection = server.connect();
    for (name, url) in acknowledged {
        let response = connection.exchange(&HttpRequest::get(&format!("/{name}"))).unwrap();
        let found = response.header("location").unwrap_or_default();
        // A write that was in flight when the server was killed may have been applied, too.
        let number = |url: &str| -> Vec<u64> {
            url.split('/').skip(3).map(|part| part.parse().unwrap_or_default()).collect()
        };
        assert!(response.status == 302 && number(found) >= number(url), "{name}: {found}, not {url}");
    }
    dir.run_ok(&["verify"]);
}

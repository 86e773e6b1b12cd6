//! Names under allocated prefixes are found from the root, also after the site's key and address have changed.

use serde_json::Value as Json;

use super::TestRegistry;
use crate::support::{StoreKind, TestDir, TestServer, tendot, tests_per_store, text_output};

tests_per_store!(found_from_the_root);

const SERVICE_HANDLE: &str = "0.SERV/TENDOT";

/// Resolves a name, beginning at the site of this server as the root.
#[track_caller]
fn resolve_from_root(dir: &TestDir, name: &str) {
    let root = dir.path().join("tendot-data/siteinfo.json");
    let root = root.to_str().unwrap();
    let (code, stdout, stderr) = text_output(tendot().args(["resolve", "--root", root, name]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("1 URL https://example.org/a"), "{stdout}");
}

/// Values of a record, by type and text.
fn values(server: &TestServer, name: &str) -> Vec<(String, Json)> {
    let record = server.get(&format!("/api/handles/{name}")).json();
    let values = record["values"].as_array().unwrap_or_else(|| panic!("{record}"));
    values
        .iter()
        .map(|value| (value["type"].as_str().unwrap().to_owned(), value["data"]["value"].clone()))
        .collect()
}

fn found_from_the_root(store: StoreKind) {
    let dir = TestDir::new();
    let database = store.env();
    let start = |dir: &TestDir| TestServer::builder(dir).with_native().envs(database.clone()).start();
    let server = start(&dir);
    assert_eq!(server.get(&format!("/api/handles/{SERVICE_HANDLE}")).status, 400, "published when needed");
    let registry = TestRegistry::with_prefix(dir, server);
    registry.run_ok(&["doi", "create", "10.70000/a", "--url", "https://example.org/a"]);
    resolve_from_root(&registry.dir, "10.70000/a");
    let reference = ("HS_SERV".to_owned(), Json::from(SERVICE_HANDLE));
    let prefix_record = values(&registry.server, "0.NA/10.70000");
    assert!(prefix_record.contains(&reference), "{prefix_record:?}");
    let site = values(&registry.server, SERVICE_HANDLE);
    assert!(site.len() == 1 && site[0].0 == "HS_SITE", "{site:?}");

    // Another key: one record changes.
    let TestRegistry { server, dir, .. } = registry;
    assert_eq!(server.terminate(), Some(0));
    for file in std::fs::read_dir(dir.path().join("tendot-data")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("privkey") || name.starts_with("pubkey") || name.starts_with("siteinfo") {
            std::fs::remove_file(&path).unwrap();
        }
    }
    let server = start(&dir);
    resolve_from_root(&dir, "10.70000/a");
    assert_eq!(values(&server, "0.NA/10.70000"), prefix_record);
    let changed = values(&server, SERVICE_HANDLE);
    assert!(changed.len() == 1 && changed != site, "{changed:?}");

    // An existing reference is kept, and the policy changes nothing about it.
    let registry = TestRegistry::of(dir, server);
    registry.run_ok(&["prefix", "update", "10.70000", "--confusable", "refuse"]);
    assert_eq!(values(&registry.server, "0.NA/10.70000"), prefix_record);
}

//! Duplicate metadata from the command line: warnings, the policy of a prefix, and the index that `tendot verify --repair` rebuilds.

use super::TestRegistry;
use crate::support::{StoreKind, TestDir, TestServer, stderr, tests_per_store};

tests_per_store!(duplicate_metadata);

const METADATA: &str = r#"{"primaryReferentType":"Creation","referentCreation":{"name":[{"value":"A title","type":"Title"}],
    "structuralType":"Digital","mode":["Visual"],"character":["Language"],"type":["Article"],
    "principalAgent":[{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"}]}}"#;

fn duplicate_metadata(store: StoreKind) {
    let dir = TestDir::new();
    let env = store.env();
    let server = TestServer::builder(&dir).envs(env.clone()).start();
    let registry = TestRegistry::with_prefix(dir, server);
    registry.dir.write("a.json", METADATA);
    let create = |name| {
        registry.run(&["doi", "create", name, "--url", "https://example.org/", "--metadata", "a.json"])
    };
    let warning = "warning: title, creators, date and type of the metadata equal those of `10.70000/one`\n";
    assert_eq!(stderr(&create("10.70000/one")), "10.70000/one registered\n");
    assert!(stderr(&create("10.70000/two")).starts_with(warning));
    let shown = registry.run_ok(&["prefix", "update", "10.70000", "--duplicates", "refuse"]);
    assert!(shown.contains("  policy      duplicates refuse\n"), "{shown}");
    let refused = create("10.70000/three");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("(duplicate-metadata at /metadata)"), "{}", stderr(&refused));
    registry.run_ok(&["prefix", "update", "10.70000", "--unset", "duplicates"]);

    // After a transfer the index has the names under the previous registrant, until it is rebuilt.
    let other = registry.run_ok(&["registrant", "create", "--agency", "LIB", "Other"]);
    registry.run_ok(&["transfer", "create", "--prefix", "10.70000", "--to", &other, "--force", "--yes"]);
    let TestRegistry { server, dir, .. } = registry;
    drop(server);
    let verify = |expected: &str| {
        let output = dir.tendot(&["verify", "--repair"]).envs(env.clone()).output().unwrap();
        assert!(output.status.success() && stderr(&output).contains(expected), "{}", stderr(&output));
    };
    verify("index of descriptions: 2 names with metadata, 1 entries added, 1 corrected");
    verify("index of descriptions: 2 names with metadata, 0 entries added, 0 corrected");
    let server = TestServer::builder(&dir).envs(env.clone()).start();
    let registry = TestRegistry::of(dir, server);
    let create = ["doi", "create", "10.70000/four", "--url", "https://example.org/", "--metadata", "a.json"];
    assert!(stderr(&registry.run(&create)).starts_with(warning));
}

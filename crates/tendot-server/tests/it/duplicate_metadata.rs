//! Metadata must distinguish the object: a name whose title, creators, date and type equal those of another name of the same
//! registrant gets a warning, or is refused by the policy of its prefix; in batches, too.

use serde_json::{Value as Json, json};
use tendot_store::Store as _;
use tendot_testing::block_on;

use crate::support::api_client::ApiClient;
use crate::support::fixtures::kernel_metadata;
use crate::support::http_server::TOKEN;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    statement_114_duplicate_metadata_is_reported,
    duplicates_by_policy,
    duplicates_in_batches,
    concurrent_duplicates,
    duplicates_of_others
);

struct DuplicateFixture {
    client: ApiClient,
    registrant: Json,
}

impl DuplicateFixture {
    fn new(store: StoreKind) -> Self {
        let client = ApiClient::start(store.open());
        client.create("/agencies", &json!({"code": "LIB", "name": "The library", "metadata": "optional"}));
        let registrant =
            client.create("/registrants", &json!({"agency": "LIB", "name": "Press"}))["id"].clone();
        let fixture = Self { client, registrant };
        fixture.add_prefix("10.70000", &json!({}));
        fixture
    }

    fn add_prefix(&self, prefix: &str, policy: &Json) {
        let body = json!({"registrant": self.registrant, "prefix": prefix, "policy": policy});
        self.client.create("/prefixes", &body);
    }

    fn body(name: &str, title: &str) -> Json {
        let metadata: Json = serde_json::from_str(&kernel_metadata(title)).unwrap();
        json!({"name": name, "url": "https://example.org/", "metadata": metadata})
    }

    /// Warnings of a registration.
    #[track_caller]
    fn register(&self, name: &str, title: &str) -> Vec<String> {
        warnings(&self.client.create("/dois", &Self::body(name, title)))
    }

    #[track_caller]
    fn update(&self, name: &str, title: &str) -> Vec<String> {
        let mut body = Self::body(name, title);
        body.as_object_mut().unwrap().remove("name");
        let updated = self.client.json("PUT", &format!("/dois/{name}"), TOKEN, &[], &body);
        assert_eq!(updated.status, 200, "{}", updated.json);
        warnings(&updated.json)
    }
}

fn warnings(body: &Json) -> Vec<String> {
    let warnings = body["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

fn duplicate_of(name: &str) -> Vec<String> {
    vec![format!("title, creators, date and type of the metadata equal those of `{name}`")]
}

fn statement_114_duplicate_metadata_is_reported(store: StoreKind) {
    let fixture = DuplicateFixture::new(store);
    fixture.add_prefix("10.70001", &json!({}));
    assert_eq!(fixture.register("10.70000/One", "A title"), [""; 0]);
    assert_eq!(fixture.register("10.70000/other", "Another title"), [""; 0]);
    // Under any prefix of the registrant; differences of case and white space do not distinguish.
    assert_eq!(fixture.register("10.70001/two", "a  TITLE"), duplicate_of("10.70000/One"));
    let dry = fixture.client.json(
        "POST",
        "/dois?dry-run=true",
        TOKEN,
        &[],
        &DuplicateFixture::body("10.70000/dry", "A title"),
    );
    assert_eq!(warnings(&dry.json), duplicate_of("10.70000/One"));
    // An update that changes nothing about it is not reported.
    assert_eq!(fixture.update("10.70001/two", "a  TITLE"), [""; 0]);
    assert_eq!(fixture.update("10.70000/other", "A title"), duplicate_of("10.70000/One"));
    // Names that changed or were retired are no longer duplicates.
    assert_eq!(fixture.update("10.70000/One", "Now different"), [""; 0]);
    assert_eq!(fixture.register("10.70000/three", "A title"), duplicate_of("10.70001/two"));
    for name in ["10.70001/two", "10.70000/other", "10.70000/three"] {
        let retired = fixture.client.json("DELETE", &format!("/dois/{name}"), TOKEN, &[], &json!(null));
        assert_eq!(retired.status, 200, "{}", retired.json);
    }
    assert_eq!(fixture.register("10.70000/four", "A title"), [""; 0]);
    // Many names with one description: the index is bounded.
    for number in 0..20 {
        assert_eq!(fixture.register(&format!("10.70000/same-{number}"), "A title").len(), 1);
    }
    let entries = block_on(fixture.client.server.store.list_aux(b"d/", None, 1_000)).unwrap();
    assert!(!entries.is_empty());
    assert!(entries.iter().all(|entry| entry.value.split(|byte| *byte == 0).count() <= 4), "{entries:?}");
}

fn duplicates_by_policy(store: StoreKind) {
    let fixture = DuplicateFixture::new(store);
    fixture.add_prefix("10.70001", &json!({"duplicates": "refuse"}));
    fixture.add_prefix("10.70002", &json!({"duplicates": "allow"}));
    fixture.register("10.70000/one", "A title");
    let body = DuplicateFixture::body("10.70001/two", "A title");
    let refused = fixture.client.check("POST", "/dois", TOKEN, &body, (409, "duplicate-metadata"));
    assert_eq!((&refused["existing"], &refused["pointer"]), (&json!("10.70000/one"), &json!("/metadata")));
    assert_eq!(fixture.register("10.70001/two", "Own title"), [""; 0]);
    let update = json!({"metadata": body["metadata"]});
    fixture.client.check("PUT", "/dois/10.70001/two", TOKEN, &update, (409, "duplicate-metadata"));
    assert_eq!(fixture.register("10.70002/three", "A title"), [""; 0]);
    assert_eq!(fixture.register("10.70002/four", "A title"), [""; 0]);
    let policy = json!({"policy": {"duplicates": "nonsense"}});
    fixture.client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (400, "malformed"));
}

fn duplicates_in_batches(store: StoreKind) {
    let fixture = DuplicateFixture::new(store);
    fixture.add_prefix("10.70001", &json!({"duplicates": "refuse"}));
    fixture.register("10.70000/one", "Stored");
    let lines = [
        ("10.70000/a", "Stored"),
        ("10.70000/b", "New"),
        ("10.70000/c", "New"),
        ("10.70000/b", "Changed again"),
        ("10.70001/d", "New"),
        ("10.70001/e", "Unique"),
    ];
    let body: String =
        lines.iter().map(|(name, title)| DuplicateFixture::body(name, title).to_string() + "\n").collect();
    let headers = ["Content-Type: application/x-ndjson"];
    let response = fixture.client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, body.as_bytes());
    let results: Vec<Json> =
        response.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |number: usize| (results[number]["status"].as_str().unwrap(), warnings(&results[number]));
    assert_eq!(of(0), ("created", duplicate_of("10.70000/one")));
    assert_eq!(of(1), ("created", Vec::new()));
    assert_eq!(of(2), ("created", duplicate_of("10.70000/b")));
    assert_eq!(of(3), ("updated", Vec::new()));
    assert_eq!(of(4), ("refused", Vec::new()));
    assert_eq!(
        (&results[4]["error"]["code"], &results[4]["error"]["existing"]),
        (&json!("duplicate-metadata"), &json!("10.70000/c"))
    );
    assert_eq!(of(5), ("created", Vec::new()));
}

/// Registrations with one description do not fail because of one another.
fn concurrent_duplicates(store: StoreKind) {
    let fixture = DuplicateFixture::new(store);
    let without_warning = std::thread::scope(|scope| {
        let register = |number| {
            let fixture = &fixture;
            scope.spawn(move || fixture.register(&format!("10.70000/{number}"), "A title").is_empty())
        };
        let registrations: Vec<_> = (0..24).map(register).collect();
        registrations.into_iter().map(|thread| thread.join().unwrap()).filter(|first| *first).count()
    });
    assert_eq!(without_warning, 1, "only the first has no duplicate");
}

fn duplicates_of_others(store: StoreKind) {
    let fixture = DuplicateFixture::new(store);
    let other =
        fixture.client.create("/registrants", &json!({"agency": "LIB", "name": "Shop"}))["id"].clone();
    fixture.client.create("/prefixes", &json!({"registrant": other, "prefix": "10.70005"}));
    fixture.register("10.70000/one", "A title");
    assert_eq!(fixture.register("10.70005/one", "A title"), [""; 0]);
    // A token for one prefix learns nothing about reserved names of another.
    fixture.add_prefix("10.70006", &json!({}));
    let mut reserved = DuplicateFixture::body("10.70006/reserved", "Planned");
    reserved["state"] = json!("reserved");
    fixture.client.create("/dois", &reserved);
    let token = json!({"role": "registrant", "subject": fixture.registrant, "prefixes": ["10.70000"]});
    let token = fixture.client.create("/tokens", &token)["token"].as_str().unwrap().to_owned();
    let body = DuplicateFixture::body("10.70000/planned", "Planned");
    let created = fixture.client.check("POST", "/dois", &token, &body, (201, ""));
    assert_eq!(warnings(&created), [""; 0]);
    assert_eq!(fixture.register("10.70000/planned-2", "Planned"), duplicate_of("10.70006/reserved"));
}

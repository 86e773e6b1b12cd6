//! Statements about registration, by the commands of the registry; one server per document.

use serde_json::{Value as Json, json};

use crate::support::{StoreKind, TestDir, TestServer, tests_per_store, text_output};

tests_per_store!(identity_of_names, parties, metadata, deposits);

/// A server with the agency `LIB`.
struct TestRegistry {
    dir: TestDir,
    server: TestServer,
    operator: String,
}

impl TestRegistry {
    fn start(store: StoreKind, metadata: &str) -> Self {
        let dir = TestDir::new();
        let server = TestServer::builder(&dir).envs(store.env()).start();
        let operator = server.token();
        let registry = Self { dir, server, operator };
        registry.run_ok(&["agency", "create", "LIB", "The library", "--metadata", metadata]);
        registry
    }

    /// Runs a command with a token; returns exit code, standard output and standard error.
    fn run_as(&self, token: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.dir.tendot(arguments);
        text_output(command.env("TENDOT_SERVER", self.server.url()).env("TENDOT_TOKEN", token))
    }

    /// Standard output of a command that succeeds.
    #[track_caller]
    fn run_ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run_as(&self.operator, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        stdout.trim_end().to_owned()
    }

    /// Checks that a command is refused with this error code.
    #[track_caller]
    fn check_refused(&self, token: &str, arguments: &[&str], error: &str) {
        let (code, _, stderr) = self.run_as(token, arguments);
        assert!(code != Some(0) && stderr.contains(error), "{arguments:?}: {stderr}");
    }

    fn registrant(&self, agency: &str, name: &str) -> String {
        self.run_ok(&["registrant", "create", "--agency", agency, name])
    }

    fn prefix(&self, registrant: &str, prefix: &str) {
        assert_eq!(self.run_ok(&["prefix", "create", "--registrant", registrant, prefix]), prefix);
    }

    fn token(&self, role: &str, subject: &str) -> String {
        self.run_ok(&["token", "create", "--role", role, "--subject", subject])
    }

    fn create(&self, name: &str) -> String {
        self.run_ok(&["doi", "create", name, "--url", "https://example.org/x"])
    }

    fn show(&self, name: &str) -> Json {
        serde_json::from_str(&self.run_ok(&["doi", "show", "--json", name])).unwrap()
    }
}

/// Creation, party or place with this name.
fn kernel_metadata(referent: &str, title: &str) -> Json {
    let (member, details) = match referent {
        "Creation" => (
            "referentCreation",
            json!({"name": [{"value": title, "type": "Title"}], "structuralType": "Physical", "mode": ["Visual"],
                "character": ["Language"], "type": ["Book"],
                "principalAgent": [{"name": {"value": "Bak, Per", "type": "Name"}, "role": "Author"}]}),
        ),
        "Party" => (
            "referentParty",
            json!({"name": [{"value": title, "type": "Name"}], "structuralType": "Individual",
                "associatedRole": ["Author"]}),
        ),
        _ => ("referentPlace", json!({"name": [{"value": title, "type": "Name"}]})),
    };
    json!({"primaryReferentType": referent, member: details})
}

fn identity_of_names(store: StoreKind) {
    let registry = TestRegistry::start(store, "optional");
    let press = registry.registrant("LIB", "Press");
    registry.prefix(&press, "10.123");
    statement_020_composed_and_decomposed_side_by_side(&registry);
    statement_095_unique_within_the_prefix(&registry, &press);
    statement_138_existing_name_in_other_case(&registry);
    statement_136_spelling_is_kept(&registry);
    statement_142_control_characters_are_refused(&registry);
    statement_126_never_given_again(&registry);
}

fn statement_020_composed_and_decomposed_side_by_side(registry: &TestRegistry) {
    for name in ["10.123/\u{c1}", "10.123/A\u{301}"] {
        assert_eq!(registry.create(name), name);
        assert_eq!(registry.show(name)["name"], name);
    }
}

fn statement_095_unique_within_the_prefix(registry: &TestRegistry, press: &str) {
    registry.prefix(press, "10.124");
    assert_eq!(registry.create("10.123/same"), "10.123/same");
    assert_eq!(registry.create("10.124/same"), "10.124/same");
    let again = ["doi", "create", "10.123/same", "--url", "https://example.org/y"];
    registry.check_refused(&registry.operator, &again, "already-registered");
}

fn statement_138_existing_name_in_other_case(registry: &TestRegistry) {
    registry.create("10.123/ABC");
    let again = ["doi", "create", "10.123/AbC", "--url", "https://example.org/y"];
    registry.check_refused(&registry.operator, &again, "already registered as `10.123/ABC`");
}

/// A departure: names are stored as first spelled, and found in any case.
fn statement_136_spelling_is_kept(registry: &TestRegistry) {
    registry.create("10.123/MixedCase");
    for name in ["10.123/MIXEDCASE", "10.123/mixedcase"] {
        assert_eq!(registry.show(name)["name"], "10.123/MixedCase");
    }
}

fn statement_142_control_characters_are_refused(registry: &TestRegistry) {
    for control in ['\u{1}', '\u{1f}', '\u{80}', '\u{9f}'] {
        let name = format!("10.123/a{control}b");
        let create = ["doi", "create", &name, "--url", "https://example.org/"];
        registry.check_refused(&registry.operator, &create, "control character");
    }
}

fn statement_126_never_given_again(registry: &TestRegistry) {
    registry.create("10.123/gone");
    registry.run_ok(&["doi", "retire", "10.123/gone", "--yes"]);
    let again = ["doi", "create", "10.123/GONE", "--url", "https://example.org/y"];
    registry.check_refused(&registry.operator, &again, "error: ");
    assert_eq!(registry.server.get("/10.123/gone").status, 410);
}

fn parties(store: StoreKind) {
    let registry = TestRegistry::start(store, "optional");
    statement_046_operator_appoints_agencies(&registry);
    statement_129_to_132_agencies_registrants_prefixes(&registry);
    statement_045_registered_through_an_agency(&registry);
    statement_057_registrant_makes_the_suffix(&registry);
    statement_058_administration_is_transferred(&registry);
    statement_125_agency_ends(&registry);
}

fn statement_046_operator_appoints_agencies(registry: &TestRegistry) {
    let agency = registry.token("agency", "LIB");
    registry.check_refused(&agency, &["agency", "create", "NEW", "Another"], "operator role required");
    registry.run_ok(&["agency", "create", "MUS", "The museum"]);
}

fn statement_129_to_132_agencies_registrants_prefixes(registry: &TestRegistry) {
    let press = registry.registrant("LIB", "Press");
    let (agency, own) = (registry.token("agency", "LIB"), registry.token("registrant", &press));
    // An agency allocates prefixes, as many as a registrant needs; a registrant does not, nor another agency.
    for prefix in ["10.71001", "10.71002"] {
        let create = ["prefix", "create", "--registrant", &press, prefix];
        let (code, _, stderr) = registry.run_as(&agency, &create);
        assert_eq!(code, Some(0), "{stderr}");
    }
    let create = ["prefix", "create", "--registrant", &press, "10.71003"];
    registry.check_refused(&own, &create, "forbidden");
    registry.check_refused(&registry.token("agency", "MUS"), &create, "error: ");
    // What is deposited under the prefix is accepted.
    let deposit = ["doi", "create", "10.71001/x", "--url", "https://example.org/x"];
    assert_eq!(registry.run_as(&own, &deposit).0, Some(0));
    let listed = registry.run_ok(&["prefix", "list"]);
    assert!(listed.contains("10.71001") && listed.contains("10.71002"), "{listed}");
}

fn statement_045_registered_through_an_agency(registry: &TestRegistry) {
    let create = |name| ["doi", "create", name, "--url", "https://example.org/x"];
    registry.check_refused(&registry.operator, &create("10.9999/x"), "unknown-prefix");
    registry.check_refused("wrong", &create("10.71001/y"), "error: ");
    let other = registry.registrant("MUS", "Shop");
    registry.check_refused(&registry.token("registrant", &other), &create("10.71001/y"), "error: ");
}

fn statement_057_registrant_makes_the_suffix(registry: &TestRegistry) {
    let suffix = "(own)/Suffix;2.é";
    assert_eq!(registry.create(&format!("10.71001/{suffix}")), format!("10.71001/{suffix}"));
}

/// Also statement 59: who administers the name can be asked.
fn statement_058_administration_is_transferred(registry: &TestRegistry) {
    let shop = registry.registrant("MUS", "Museum shop");
    let before = registry.show("10.71001/x");
    let transfer = registry.run_ok(&["transfer", "create", "10.71001/x", "--to", &shop]);
    registry.run_ok(&["transfer", "accept", &transfer]);
    let after = registry.show("10.71001/x");
    assert_eq!((&before["agency"], &after["agency"]), (&json!("LIB"), &json!("MUS")));
    assert_ne!(before["registrant"], after["registrant"]);
    assert_eq!(after["registrant"], shop);
    // The prefix does not tell.
    assert_eq!(registry.show("10.71001/(own)/Suffix;2.é")["agency"], "LIB");
}

fn statement_125_agency_ends(registry: &TestRegistry) {
    let close = json!({"agency": "LIB", "to": "MUS", "force": true});
    let closed = registry.server.request("POST", "/api/v1/transfers").json(&close);
    assert_eq!(closed.send(registry.server.address()).status, 201);
    let moved = registry.show("10.71001/(own)/Suffix;2.é");
    assert_eq!((&moved["agency"], &moved["state"]), (&json!("MUS"), &json!("registered")));
    assert_eq!(registry.server.get("/10.71001/(own)/Suffix;2.%C3%A9").status, 302);
}

fn metadata(store: StoreKind) {
    let registry = TestRegistry::start(store, "required");
    let press = registry.registrant("LIB", "Press");
    registry.prefix(&press, "10.70000");
    statement_004_any_referent(&registry);
    statement_111_metadata_is_required(&registry);
    statement_113_incomplete_metadata(&registry);
}

/// Also statements 74 and 115: objects of any type, in the kernel schema.
fn statement_004_any_referent(registry: &TestRegistry) {
    for referent in ["Creation", "Party", "Place"] {
        let (name, metadata) = (format!("10.70000/{referent}"), kernel_metadata(referent, referent));
        let file = registry.dir.write("metadata.json", metadata.to_string());
        registry.run_ok(&["doi", "create", &name, "--url", "https://example.org/", "--metadata", &file]);
        assert_eq!(registry.show(&name)["metadata"]["primaryReferentType"], referent);
    }
}

/// Also statement 112: by every way of registration.
fn statement_111_metadata_is_required(registry: &TestRegistry) {
    let single = ["doi", "create", "10.70000/x", "--url", "https://example.org/x"];
    registry.check_refused(&registry.operator, &single, "requires kernel metadata");
    let lines = registry.dir.write("batch.jsonl", r#"{"name":"10.70000/x","url":"https://example.org/x"}"#);
    registry.check_refused(&registry.operator, &["doi", "import", &lines], "requires kernel metadata");
    let table = registry.dir.write("batch.csv", "name,url\n10.70000/x,https://example.org/x\n");
    registry.check_refused(&registry.operator, &["doi", "import", &table], "requires kernel metadata");
    let put = registry.server.put_handle("10.70000/x", "https://example.org/x");
    let response = put.send(registry.server.address());
    assert!(response.status >= 400 && response.text().contains("requires kernel metadata"));
    assert_eq!(registry.server.get("/10.70000/x").status, 404);
}

fn statement_113_incomplete_metadata(registry: &TestRegistry) {
    for member in ["name", "structuralType", "mode", "character", "type", "principalAgent"] {
        let mut metadata = kernel_metadata("Creation", "Incomplete");
        metadata["referentCreation"].as_object_mut().unwrap().remove(member);
        let file = registry.dir.write("metadata.json", metadata.to_string());
        let create = ["doi", "create", "10.70000/x", "--url", "https://example.org/", "--metadata", &file];
        registry.check_refused(&registry.operator, &create, "invalid-metadata");
    }
}

fn deposits(store: StoreKind) {
    let registry = TestRegistry::start(store, "optional");
    let press = registry.registrant("LIB", "Press");
    registry.prefix(&press, "10.1006");
    statement_127_deposit(&registry);
    statement_128_directory(&registry);
    statement_168_encoded_name_is_decoded(&registry);
}

fn statement_127_deposit(registry: &TestRegistry) {
    registry.run_ok(&[
        "doi",
        "create",
        "10.1006/rwei.1999.0001",
        "--url",
        "https://example.org/abo",
        "--value",
        "3:EMAIL:doi@example.org",
    ]);
    assert_eq!(
        registry.server.get("/10.1006/rwei.1999.0001").header("location"),
        Some("https://example.org/abo")
    );
}

fn statement_128_directory(registry: &TestRegistry) {
    registry.run_ok(&["doi", "update", "10.1006/rwei.1999.0001", "--url", "https://example.org/moved"]);
    assert_eq!(registry.show("10.1006/rwei.1999.0001")["url"], "https://example.org/moved");
    assert_eq!(
        registry.server.get("/10.1006/rwei.1999.0001").header("location"),
        Some("https://example.org/moved")
    );
}

fn statement_168_encoded_name_is_decoded(registry: &TestRegistry) {
    for (input, name) in [
        ("https://doi.org/10.1006/rwei.1999%22.0001", "10.1006/rwei.1999\".0001"),
        ("doi:10.1006/456%23789", "10.1006/456#789"),
        ("urn:doi:10.1006/100%25", "10.1006/100%"),
    ] {
        assert_eq!(registry.create(input), name);
        assert_eq!(registry.show(name)["name"], name);
    }
}

//! `/openapi.json` and DataCite JSON pass the validators of their Python packages, and `/openapi.json` the rules of Redocly.

use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};
use tendot_testing::{ensure_programs, npm_program, run_checked};

use super::python_environment;
use crate::support::{TestDir, TestServer};

/// Pinned versions. `jsonschema` comes with both.
const PACKAGES: [&str; 2] = ["openapi-spec-validator==0.9.0", "datacite==1.4.1"];

/// The document is valid OpenAPI 3.1; every request body has an example, and it conforms to its schema.
const CHECK_OPENAPI: &str = r##"
import json, sys
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
document = json.load(open(sys.argv[1]))
validate(document)
count = 0
for name, schema in document["components"]["schemas"].items():
    validator = Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document["components"]})
    for example in schema.get("examples", []):
        validator.validate(example)
        count += 1
for path, item in document["paths"].items():
    for method, operation in item.items():
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            reference = content["schema"].get("$ref", "").rsplit("/", 1)[-1]
            schema = document["components"]["schemas"].get(reference, {})
            if media_type == "application/json" and reference != "AuthParams":
                assert schema.get("examples"), f"{method} {path}: {reference} has no example"
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                assert "example" in parameter, f"{method} {path}: {parameter['name']} has no example"
metadata = Draft202012Validator({"$ref": "#/components/schemas/Metadata", "components": document["components"]})
for text in sys.argv[2:]:
    metadata.validate(json.load(open(text)))
assert not metadata.is_valid({"primaryReferentType": "Creation", "referentCreation": {"title": "x"}})
print(count)
"##;

/// The schema is that of deposits; responses of DataCite have these further members.
const CHECK_DATACITE: &str = r#"
import json, sys
from datacite import schema45
document = json.load(open(sys.argv[1]))
for member in ("id", "agency"):
    document.pop(member)
for member in ("citeproc", "bibtex", "ris", "schemaOrg"):
    document["types"].pop(member)
schema45.validator.validate(document)
"#;

/// Package of the npm registry and its version, integrity and program.
const REDOCLY: [&str; 4] = [
    "@redocly/cli",
    "1.34.11",
    "sha512-NTFegt2uQ0A4xewDPcTadsZYSlmEUzF7wnvRgmFI8Ftvjpq/coIdr9EQPmCF6wjrh9UBKdz2rMNckxLo/jhViA==",
    "redocly",
];

/// Problems that `redocly lint` finds in a document, by its recommended rules: `RULE: MESSAGE`.
fn redocly_problems(dir: &TestDir, document: &Json) -> Vec<String> {
    let [package, version, integrity, program] = REDOCLY;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = npm_program(target, package, version, integrity, program);
    let openapi = dir.write("redocly.json", document.to_string());
    let output = Command::new(program)
        .args(["lint", "--extends=recommended", "--format=json", "--max-problems=1000"])
        .arg(openapi)
        .current_dir(dir.path())
        .envs([("REDOCLY_TELEMETRY", "off"), ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report: Json =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let problems = report["problems"].as_array().unwrap_or_else(|| panic!("{report}"));
    let text = |problem: &Json, member: &str| problem[member].as_str().unwrap().to_owned();
    problems
        .iter()
        .map(|problem| {
            format!("{}: {} {}", text(problem, "ruleId"), text(problem, "message"), problem["location"])
        })
        .collect()
}

/// The document has neither errors nor warnings; faults are found.
#[test]
fn redocly_finds_no_problems() {
    ensure_programs(&["node", "npm"], &["nodejs", "npm"]);
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).start();
    let mut document = server.get("/openapi.json").json();
    let problems = redocly_problems(&dir, &document);
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));

    document["servers"] = json!([]);
    document["paths"]["/livez"]["get"].as_object_mut().unwrap().remove("summary");
    document["paths"]["/livez"]["get"]["responses"] = json!({"200": {"description": "OK"}});
    document["paths"]["/{undefined}/livez"] = document["paths"]["/livez"].clone();
    let problems = redocly_problems(&dir, &document);
    for rule in ["no-empty-servers", "operation-summary", "operation-4xx-response", "path-parameters-defined"]
    {
        assert!(problems.iter().any(|problem| problem.starts_with(rule)), "{rule}: {problems:?}");
    }
}

#[test]
fn openapi_and_datacite_validators_pass() {
    let python = python_environment(&PACKAGES).join("python");
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).start();
    let openapi = dir.write("openapi.json", server.get("/openapi.json").text().as_bytes());
    let create = |path: &str, body: &serde_json::Value| {
        let response = server.request("POST", &format!("/api/v1/{path}")).json(body).send(server.address());
        assert_eq!(response.status, 201, "{path}: {}", response.text());
        response.json()
    };
    create("agencies", &json!({"code": "LIB", "name": "Library"}));
    let registrant = create("registrants", &json!({"agency": "LIB", "name": "Press"}))["id"].clone();
    create("prefixes", &json!({"registrant": registrant, "prefix": "10.70000"}));
    let article = json!({"primaryReferentType": "Creation", "referentCreation": {
        "name": [{"value": "Self-organized criticality", "type": "Title", "primaryLanguage": "en"}],
        "structuralType": "Digital", "mode": ["Visual"], "character": ["Language"], "type": ["Article"],
        "principalAgent": [{"name": {"value": "Bak, Per", "type": "Name"}, "role": "Author"}],
        "linkedCreation": [{"name": [{"value": "Physical Review Letters", "type": "Title"}],
            "identifier": [{"nonUriValue": "0031-9007", "type": "ISSN"}], "referentCreationRole": "Part",
            "referentCreationSequenceIdentifier": [{"value": "59", "type": "VolumeNumber"},
                {"value": "4", "type": "IssueNumber"}, {"value": "381", "type": "PageNumber"}]}],
        "creationDate": {"date": "1987-07-27", "creationDateType": "PublicationDate"}}});
    let registration = json!({"name": "10.70000/soc", "url": "https://example.org/soc", "metadata": article});
    create("dois", &registration);
    let in_format = |format: &str| server.get(&format!("/api/v1/metadata/10.70000/soc?format={format}"));
    // Both views conform to the schema of metadata.
    let kernel = dir.write("kernel.json", in_format("kernel-json").text().as_bytes());
    let system = dir.write("system.json", in_format("system-json").text().as_bytes());
    run_checked(Command::new(&python).args(["-c", CHECK_OPENAPI]).arg(openapi).arg(kernel).arg(system));
    let datacite = in_format("datacite-json");
    // Members that Zotero reads.
    let json = datacite.json();
    assert_eq!(
        (&json["container"]["type"], &json["publicationYear"]),
        (&json!("Series"), &json!("1987")),
        "{json}"
    );
    assert_eq!(json["types"]["citeproc"], "article-journal", "{json}");
    let item = &json["relatedItems"][0];
    let found = (&item["relationType"], &item["relatedItemType"], &item["volume"], &item["issue"]);
    assert_eq!(found, (&json!("IsPublishedIn"), &json!("Journal"), &json!("59"), &json!("4")), "{json}");
    let datacite = dir.write("datacite.json", datacite.text().as_bytes());
    run_checked(Command::new(&python).args(["-c", CHECK_DATACITE]).arg(datacite));
    let csl = in_format("csl-json").json();
    assert_eq!((&csl["type"], &csl["volume"]), (&json!("article-journal"), &json!("59")), "{csl}");
}

//! Zotero's own translators import CSL-JSON, BibTeX, RIS and DataCite JSON with the right item type and fields.
//!
//! The translators are those of Zotero's translation server, as the npm package bundles them.

use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};
use tendot_testing::{ensure_programs, npm_package};

use super::interop_file;
use crate::support::{TestDir, TestServer};

const PACKAGE: (&str, &str) = ("zotero-translators", "0.0.2");

const SHA512: &str = "bd0832dd6b16b823eac59f88a39aed2b3397fda70a647805cc968a2252490f3b\
                      f7546b66a507c2f7f47f9288a65c7864f41c60ec9903205bbd864c34cd22d2a0";

const FORMATS: [&str; 4] = ["csl-json", "bibtex", "ris", "datacite-json"];

/// Kernel type, whether it is in a periodical, and the item types that Zotero makes of the formats.
const KINDS: [(&str, bool, [&str; 4]); 8] = [
    ("Article", true, ["journalArticle"; 4]),
    ("JournalArticle", true, ["journalArticle"; 4]),
    ("Book", false, ["book"; 4]),
    ("BookChapter", false, ["bookSection"; 4]),
    ("Thesis", false, ["thesis"; 4]),
    ("Report", false, ["report"; 4]),
    // Neither Zotero's BibTeX nor its items have this type.
    ("Dataset", false, ["document", "book", "document", "document"]),
    ("Film", false, ["film", "book", "film", "film"]),
];

fn metadata(kind: &str, is_in_periodical: bool) -> Json {
    let mut creation = json!({
        "name": [{"value": "Self-organized criticality", "type": "Title", "primaryLanguage": "en"}],
        "structuralType": "Digital", "mode": ["Visual"], "character": ["Language"], "type": [kind],
        "principalAgent": [{"name": {"value": "Bak, Per", "type": "Name"}, "role": "Author"}],
        "creationDate": {"date": "1987-07-27", "creationDateType": "PublicationDate"}});
    if is_in_periodical {
        creation["linkedCreation"] = json!([{"name": [{"value": "Physical Review Letters", "type": "Title"}],
            "identifier": [{"nonUriValue": "0031-9007", "type": "ISSN"}], "referentCreationRole": "Part",
            "referentCreationSequenceIdentifier": [{"value": "59", "type": "VolumeNumber"},
                {"value": "4", "type": "IssueNumber"}, {"value": "381", "type": "PageNumber"}]}]);
    }
    json!({"primaryReferentType": "Creation", "referentCreation": creation})
}

#[test]
fn zotero_imports_every_format() {
    ensure_programs(&["node", "curl", "openssl"], &["nodejs", "curl", "openssl"]);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let bundle = npm_package(target, PACKAGE.0, PACKAGE.1, SHA512).join("index.js");
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).start();
    let create = |path: &str, body: &Json| {
        let response = server.request("POST", &format!("/api/v1/{path}")).json(body).send(server.address());
        assert_eq!(response.status, 201, "{path}: {}", response.text());
        response.json()
    };
    create("agencies", &json!({"code": "LIB", "name": "Library"}));
    let registrant = create("registrants", &json!({"agency": "LIB", "name": "Press"}))["id"].clone();
    create("prefixes", &json!({"registrant": registrant, "prefix": "10.70000"}));
    let mut command = Command::new("node");
    command.arg(interop_file("zotero.js")).arg(bundle);
    for (kind, is_in_periodical, _) in KINDS {
        let url = format!("https://example.org/{kind}");
        let metadata = metadata(kind, is_in_periodical);
        create("dois", &json!({"name": format!("10.70000/{kind}"), "url": url, "metadata": metadata}));
        for format in FORMATS {
            let text = server.get(&format!("/api/v1/metadata/10.70000/{kind}?format={format}"));
            command.arg(dir.write(&format!("{kind}.{format}"), text.text().as_bytes()));
        }
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let imported = String::from_utf8(output.stdout).unwrap();
    let mut items = imported.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    for (kind, is_in_periodical, expected) in KINDS {
        for (format, item_type) in FORMATS.iter().zip(expected) {
            let imported = items.next().unwrap();
            let [item] = &imported.as_array().unwrap()[..] else { panic!("{kind}, {format}: {imported}") };
            let check = |field: &str, expected: &str| {
                assert_eq!(item[field], expected, "{kind}, {format}: {field} of {item}");
            };
            check("itemType", item_type);
            check("title", "Self-organized criticality");
            check("url", &format!("https://example.org/{kind}"));
            let creator = &item["creators"][0];
            assert_eq!(
                (&creator["firstName"], &creator["lastName"]),
                (&json!("Per"), &json!("Bak")),
                "{item}"
            );
            let date = item["date"].as_str().unwrap();
            assert!(date.contains("1987") && (date.contains("July") || date.contains("07")), "{item}");
            if is_in_periodical {
                check("publicationTitle", "Physical Review Letters");
                check("volume", "59");
                check("pages", "381");
                check("ISSN", "0031-9007");
                check("DOI", &format!("10.70000/{kind}"));
                // Zotero's translator of DataCite JSON does not read it.
                if *format != "datacite-json" {
                    check("issue", "4");
                }
            }
        }
    }
    assert_eq!(items.next(), None);
}

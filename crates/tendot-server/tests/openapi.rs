//! The description of the interface against the service that it describes.

mod server;

use std::collections::BTreeSet;

use serde_json::Value as Json;
use server::{Service, plain};

const METHODS: [&str; 8] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE"];

fn document(service: &Service) -> Json {
    let found = service.ask("GET", "/openapi.json", "");
    assert_eq!((found.status, found.header("content-type")), (200, Some("application/json;charset=utf-8")));
    serde_json::from_slice(&found.body).unwrap()
}

/// What is described is done, what is not described is not, and `Allow` says the same.
#[test]
fn what_is_described_is_done_and_nothing_else() {
    let service = plain();
    let document = document(&service);
    assert_eq!(document["openapi"], "3.1.0");
    for (path, described) in document["paths"].as_object().unwrap() {
        let target = path
            .replace("{names}", "10.5555")
            .replace("{prefix}", "10.5555")
            .replace("{name}", "10.5555/ONE");
        let expected: BTreeSet<&str> = METHODS
            .into_iter()
            .filter(|method| described.get(method.to_ascii_lowercase()).is_some())
            .collect();
        let done = METHODS.into_iter().filter(|method| {
            let found = service.ask(method, &target, "Content-Length: 0");
            let allowed: BTreeSet<&str> = found.header("allow").unwrap_or_default().split(", ").collect();
            assert!(found.header("allow").is_none() || allowed == expected, "{method} {path}: {allowed:?}");
            assert_eq!(
                found.header("allow").is_some(),
                found.status == 405 || *method == "OPTIONS",
                "{method} {path}"
            );
            found.status != 405
        });
        assert_eq!(done.collect::<BTreeSet<_>>(), expected, "{path}");
    }
}

/// Nothing but names is answered at a path that is not described.
#[test]
fn what_is_not_described_is_a_name() {
    let service = plain();
    let document = document(&service);
    for path in
        ["/health", "/static/", "/static/other.css", "/docs/", "/openapi.yaml", "/robots", "/doiRA", "/ra"]
    {
        assert!(document["paths"].get(path).is_none(), "{path}");
        let found = service.ask("GET", path, "Accept: application/json");
        let problem: Json = serde_json::from_slice(&found.body).unwrap();
        assert!([400, 404].contains(&found.status) && problem["code"].is_string(), "{path}: {problem}");
    }
    assert_eq!(service.ask("GET", "/api/v9/dois", "").status, 404);
}

#[test]
fn references_and_names_in_the_document() {
    let document = document(&plain());
    let (mut references, mut identifiers) = (Vec::new(), BTreeSet::new());
    collect(&document, &mut references);
    for reference in references {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference}");
    }
    for (path, described) in document["paths"].as_object().unwrap() {
        for (method, operation) in described.as_object().unwrap() {
            assert!(identifiers.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            let groups = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]);
            assert!(groups.clone().any(|group| *group == operation["tags"][0]), "{method} {path}");
        }
    }
}

fn collect<'j>(json: &'j Json, references: &mut Vec<&'j str>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect(item, references)),
        Json::Object(members) => {
            references.extend(members.get("$ref").and_then(Json::as_str));
            members.values().for_each(|member| collect(member, references));
        }
        _ => {}
    }
}

#[test]
fn it_is_sent_once_and_small() {
    let service = plain();
    for path in ["/openapi.json", "/docs"] {
        let whole = service.ask("GET", path, "");
        let tag = whole.header("etag").unwrap();
        assert_eq!(service.ask("GET", path, &format!("If-None-Match: {tag}")).status, 304, "{path}");
        let small = service.ask("GET", path, "Accept-Encoding: gzip");
        assert_eq!(small.header("content-encoding"), Some("gzip"), "{path}");
        assert!(small.body.len() < whole.body.len() / 4, "{path}: {}", small.body.len());
    }
}

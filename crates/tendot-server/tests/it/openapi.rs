//! OpenAPI document: it lists exactly the paths and methods that the server serves.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tendot_store::MemoryStore;

use crate::support::api_client::ApiClient;
use crate::support::http_server::{TestServer, start_default};

const METHODS: [&str; 8] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE"];

fn document(server: &TestServer) -> Json {
    let response = server.request("GET", "/openapi.json", "");
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, Some("application/json;charset=utf-8"))
    );
    serde_json::from_slice(&response.body).unwrap()
}

/// Methods in the document are served, all others are rejected, and `Allow` lists the same.
#[test]
fn methods_match_the_document() {
    let server = start_default();
    let document = document(&server);
    assert_eq!(document["openapi"], "3.1.0");
    for (path, path_item) in document["paths"].as_object().unwrap() {
        let target = path
            .replace("{names}", "10.5555")
            .replace("{prefix}", "10.5555")
            .replace("{name}", "10.5555/ONE");
        let expected: BTreeSet<&str> = METHODS
            .into_iter()
            .filter(|method| path_item.get(method.to_ascii_lowercase()).is_some())
            .collect();
        let served = METHODS.into_iter().filter(|method| {
            let response = server.request(method, &target, "");
            let allowed: BTreeSet<&str> = response.header("allow").unwrap_or_default().split(", ").collect();
            assert!(
                response.header("allow").is_none() || allowed == expected,
                "{method} {path}: {allowed:?}"
            );
            assert_eq!(
                response.header("allow").is_some(),
                response.status == 405 || *method == "OPTIONS",
                "{method} {path}"
            );
            response.status != 405
        });
        assert_eq!(served.collect::<BTreeSet<_>>(), expected, "{path}");
    }
}

/// Operations that require authentication according to the document reject anonymous callers, on a connection that accepts
/// credentials.
#[test]
fn authenticated_operations_reject_anonymous_callers() {
    let client = ApiClient::start(MemoryStore::new());
    let registrants = client.create_fixtures().registrants;
    client.create("/dois", &json!({"name": "10.70000/A", "url": "https://example.org/a"}));
    let document = document(&client.server);
    let mut count = 0;
    for (path, path_item) in document["paths"].as_object().unwrap() {
        for (method, operation) in path_item.as_object().unwrap() {
            // An empty requirement allows anonymous callers.
            let security = operation["security"].as_array();
            if security.is_none_or(|requirements| requirements.contains(&json!({}))) {
                continue;
            }
            let mut target = path
                .replace("{name}", "10.70000/A")
                .replace("{prefix}", "10.70000")
                .replace("{code}", "A")
                .replace("{id}", &registrants[0]);
            if matches!(path.as_str(), "/api/handles" | "/api/prefixes") {
                target += "?prefix=10.70000";
            }
            let body = valid_body(method, path, &registrants);
            let response = client.send(&method.to_ascii_uppercase(), &target, "", &[], body.as_bytes());
            // Reports on prefixes of others are not found.
            let expected: &[u16] = if path.starts_with("/api/v1/reports/") { &[404] } else { &[401, 403] };
            assert!(expected.contains(&response.status), "{method} {target}: {}", response.head);
            count += 1;
        }
    }
    assert!(count > 40, "{count} operations");
}

/// A body with which an authorized request would succeed or be a no-op.
fn valid_body(method: &str, path: &str, registrants: &[String]) -> String {
    let body = match (method, path) {
        ("post", "/api/v1/agencies") => json!({"code": "C", "name": "Agency C"}),
        ("post", "/api/v1/registrants") => json!({"agency": "A", "name": "Press C"}),
        ("post", "/api/v1/prefixes") => json!({"registrant": registrants[0]}),
        ("post", "/api/v1/tokens") => json!({"role": "operator"}),
        ("post", "/api/v1/transfers") => json!({"prefix": "10.70000", "to": registrants[1]}),
        ("post", "/api/v1/dois") => json!({"name": "10.70000/B", "url": "https://example.org/b"}),
        ("post", "/api/v1/redactions") => json!({"name": "10.70000/A", "reason": "a request"}),
        ("put", "/api/v1/dois/{name}") => json!({"url": "https://example.org/b"}),
        ("put", "/api/handles/{name}") => {
            json!([{"index": 1, "type": "URL", "data": "https://example.org/b"}])
        }
        ("put", _) => json!({}),
        _ => return String::new(),
    };
    body.to_string()
}

/// A path that is not in the document is parsed as a name.
#[test]
fn undescribed_paths_are_names() {
    let server = start_default();
    let document = document(&server);
    for path in
        ["/health", "/static/", "/static/other.css", "/docs/", "/openapi.yaml", "/robots", "/doiRA", "/ra"]
    {
        assert!(document["paths"].get(path).is_none(), "{path}");
        let response = server.request("GET", path, "Accept: application/json");
        let problem: Json = serde_json::from_slice(&response.body).unwrap();
        assert!([400, 404].contains(&response.status) && problem["code"].is_string(), "{path}: {problem}");
    }
    assert_eq!(server.request("GET", "/api/v9/dois", "").status, 404);
}

#[test]
fn references_and_operation_ids() {
    let document = document(&start_default());
    let (mut references, mut identifiers) = (Vec::new(), BTreeSet::new());
    collect_references(&document, &mut references);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for (path, path_item) in document["paths"].as_object().unwrap() {
        for (method, operation) in path_item.as_object().unwrap() {
            assert!(identifiers.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            let groups = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]);
            assert!(groups.clone().any(|group| *group == operation["tags"][0]), "{method} {path}");
        }
    }
}

fn collect_references<'j>(json: &'j Json, references: &mut Vec<&'j str>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect_references(item, references)),
        Json::Object(members) => {
            references.extend(members.get("$ref").and_then(Json::as_str));
            members.values().for_each(|member| collect_references(member, references));
        }
        _ => {}
    }
}

#[test]
fn document_is_cacheable_and_compressed() {
    let server = start_default();
    for path in ["/openapi.json", "/docs"] {
        let uncompressed = server.request("GET", path, "");
        let tag = uncompressed.header("etag").unwrap();
        assert_eq!(server.request("GET", path, &format!("If-None-Match: {tag}")).status, 304, "{path}");
        let compressed = server.request("GET", path, "Accept-Encoding: gzip");
        assert_eq!(compressed.header("content-encoding"), Some("gzip"), "{path}");
        assert!(compressed.body.len() < uncompressed.body.len() / 4, "{path}: {}", compressed.body.len());
    }
}

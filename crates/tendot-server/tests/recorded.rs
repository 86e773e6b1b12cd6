//! What the deployed Handle.Net software was recorded to answer, asked again over a real connection.

mod service;

use serde_json::Value as Json;
use service::{Found, Service};

/// Answered otherwise, on purpose: see docs/compatibility.md.
const OTHERWISE: [(&str, &str); 7] = [
    ("json_unicode_raw", "the record is found"),
    ("json_bad_pct", "JSON says what is wrong"),
    ("proxy_query_hdl", "the page has one box for everything"),
    ("proxy_robots", "pages are not slowed down"),
    ("proxy_favicon", "the picture is a drawing"),
    ("json_gzip", "compressed by other code, the bytes differ"),
    ("proxy_not_homed", "the page says why"),
];

#[test]
fn recorded_exchanges() {
    let records = include_str!("../../../conformance/vectors/handle-net/records.jsonl");
    let start = |trust| Service::start(records.lines().chain([SECRET]), trust);
    // Recordings over HTTP were made by a server that takes no credentials there.
    let (plain, trusted) = (start(false), start(true));
    let vectors = include_str!("../../../conformance/vectors/handle-net/http.jsonl");
    let (mut asked, mut wrong) = (0, Vec::new());
    for line in vectors.lines() {
        let recorded: Json = serde_json::from_str(line).unwrap();
        let name = recorded["name"].as_str().unwrap();
        if !is_built(name) {
            continue;
        }
        asked += 1;
        let request = &recorded["request"];
        let server = if request["scheme"] == "https" { trusted } else { plain };
        let text = |name: &str| request[name].as_str().unwrap();
        let headers = request["headers"].as_object().unwrap().iter();
        let headers: Vec<String> =
            headers.map(|(name, value)| format!("{name}: {}", value.as_str().unwrap())).collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let found = server.ask(text("method"), text("target"), &headers, text("body"));
        if let Some(problem) = difference(name, &recorded, &found) {
            wrong.push(format!("{name}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 70, "only {asked} were asked");
}

/// What is answered today: reading and writing records, by password, and redirects.
fn is_built(name: &str) -> bool {
    let elsewhere = ["site", "prefix", "list_", "sessions", "status_", "verifications"];
    !elsewhere.iter().any(|part| name.starts_with(part)) && !name.contains("handle_auth")
}

fn difference(name: &str, recorded: &Json, found: &Found) -> Option<String> {
    let status = recorded["status"].as_u64().unwrap();
    if OTHERWISE.iter().any(|(other, _)| *other == name) {
        return (found.status >= 500).then(|| format!("status {}", found.status));
    }
    if u64::from(found.status) != status {
        return Some(format!("status {status} was recorded, {} came: {}", found.status, found.body));
    }
    let header = |wanted: &str| {
        let headers = recorded["headers"].as_array().unwrap().iter();
        headers.filter(|pair| pair[0] == wanted).map(|pair| pair[1].as_str().unwrap().to_owned()).next()
    };
    if header("Location").as_deref() != found.header("location") {
        return Some(format!("{:?} was recorded, {:?} came", header("Location"), found.header("location")));
    }
    if header("Content-Type").is_some_and(|kind| kind.starts_with("application/json"))
        && !found.body.is_empty()
    {
        let recorded: Json = serde_json::from_str(recorded["body"].as_str().unwrap()).unwrap_or_default();
        let found: Json = serde_json::from_str(&found.body).unwrap_or_default();
        return json_difference(name, &recorded, &found);
    }
    None
}

/// What is said in words is ours; names that are made up, and times, are new.
fn json_difference(name: &str, recorded: &Json, found: &Json) -> Option<String> {
    let plain = |json: &Json| {
        let mut json = json.clone();
        if let Some(members) = json.as_object_mut() {
            members.remove("message");
            if name == "put_mint" {
                members.remove("handle");
            }
        }
        json
    };
    let (recorded, found) = (plain(recorded), plain(found));
    (recorded != found).then(|| format!("\n  {recorded}\nwas recorded,\n  {found}\ncame"))
}

/// A record that was made while the exchanges were recorded.
const SECRET: &str = r#"{"handle":"10.5555/SECRET2","values":[
    {"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/secret2"},"permissions":"1100",
     "ttl":3600,"timestamp":"2026-11-15T18:01:18Z"},
    {"index":100,"type":"HS_ADMIN","data":{"format":"admin","value":
        {"handle":"0.NA/10.5555","index":200,"permissions":"111111111111"}},
     "ttl":86400,"timestamp":"2026-11-15T18:01:18Z"}]}"#;

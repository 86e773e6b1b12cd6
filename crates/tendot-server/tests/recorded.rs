//! What the deployed Handle.Net software was recorded to answer, asked again over a real connection.

mod service;
mod session;

use std::collections::HashMap;

use serde_json::Value as Json;
use service::{Found, Service};
use session::Session;

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
    let many: Vec<String> = (0..100_000).map(|number| simple(&format!("H-{number:06}"))).collect();
    // Others that had been made in the meantime, and of which nothing is known.
    let others: Vec<String> = (0..8).map(|number| simple(&format!("Z-{number}"))).collect();
    let all = || records.lines().chain([SECRET]).chain(many.iter().chain(&others).map(String::as_str));
    // Recordings over HTTP were made by a server that takes no credentials there.
    let start = |trust| Service::of_handle_net(all(), |http| http.trust_loopback(trust));
    let (plain, trusted) = (start(false), start(true));
    let mut sessions = Sessions { service: trusted, known: HashMap::new() };
    let vectors = include_str!("../../../conformance/vectors/handle-net/http.jsonl");
    let (mut asked, mut wrong) = (0, Vec::new());
    for line in vectors.lines() {
        let recorded: Json = serde_json::from_str(line).unwrap();
        let name = recorded["name"].as_str().unwrap();
        asked += 1;
        let request = &recorded["request"];
        let server = if request["scheme"] == "https" { trusted } else { plain };
        let text = |name: &str| request[name].as_str().unwrap();
        let headers = request["headers"].as_object().unwrap().iter();
        let headers: Vec<String> = headers
            .map(|(header, value)| match value.as_str().unwrap().strip_prefix("Handle ") {
                Some(said) => sessions.say_again(said, name),
                None => format!("{header}: {}", value.as_str().unwrap()),
            })
            .collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let found = server.ask(text("method"), text("target"), &headers, text("body"));
        let recorded = sessions.replace(&recorded, &found);
        if let Some(problem) = difference(name, &recorded, &found) {
            wrong.push(format!("{name}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(asked, 107);
}

/// A record that has nothing but a page.
fn simple(suffix: &str) -> String {
    let page = format!("https://example.org/{suffix}");
    format!(r#"{{"handle":"10.5555/{suffix}","values":[{{"index":1,"type":"URL","data":"{page}"}}]}}"#)
}

/// The sessions of the recorded client, each with ours that stands for it.
struct Sessions {
    service: Service,
    known: HashMap<String, Session>,
}

impl Sessions {
    /// What was said in a session, for ours: what was signed then is signed again.
    fn say_again(&mut self, said: &str, name: &str) -> String {
        let field = |wanted: &str| {
            let mut fields = said.split(", ").filter_map(|field| field.split_once('='));
            fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"'))
        };
        let service = self.service;
        let id = field("sessionId").unwrap();
        let session = self.known.entry(id.to_owned()).or_insert_with(|| Session::new(service));
        let Some(cnonce) = field("cnonce") else { return session.header() };
        let secret = if name.contains("bad") { "wrong" } else { session::SECRET };
        match field("type") {
            Some("HS_SECKEY") => session.by_secret(cnonce, secret),
            _ => session.by_key(cnonce),
        }
    }

    /// What was recorded, with our names of sessions and nonces in it.
    fn replace(&mut self, recorded: &Json, found: &Found) -> Json {
        let Ok(body) = serde_json::from_str::<Json>(recorded["body"].as_str().unwrap()) else {
            return recorded.clone();
        };
        let Some(id) = body["sessionId"].as_str() else { return recorded.clone() };
        let ours = serde_json::from_str::<Json>(&found.body).map(|json| Session::of(&json));
        let ours = self.known.entry(id.to_owned()).or_insert_with(|| ours.unwrap());
        let whole = recorded.to_string().replace(id, &ours.id);
        serde_json::from_str(&whole.replace(body["nonce"].as_str().unwrap(), &ours.nonce)).unwrap()
    }
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
            // The numbers are others, and nothing is said of the memory of a virtual machine.
            if name == "status_handle_admin" {
                let values = members.get_mut("values").and_then(Json::as_array_mut).into_iter().flatten();
                values.for_each(|value| value["data"] = Json::Null);
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

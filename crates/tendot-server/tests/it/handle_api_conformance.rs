//! Handle.Net's HTTP API: recorded exchanges get the same responses from this server.

use std::collections::HashMap;

use serde_json::Value as Json;
use tendot_testing::http::HttpResponse;

use crate::support::http_server::trust_loopback;
use crate::support::http_session::{HttpSession, SECRET};
use crate::support::records_server::RecordsServer;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(recorded_exchanges,);

/// Exchanges whose response differs on purpose, with the reason: see docs/reference/handle-net-compatibility.md.
const INTENDED_DIFFERENCES: [(&str, &str); 8] = [
    ("json_unicode_raw", "the record is found"),
    ("json_unicode_badpct", "bytes that are not UTF-8 are rejected"),
    ("json_bad_pct", "the JSON error has a reason"),
    ("proxy_query_hdl", "the page has one search box"),
    ("proxy_robots", "no crawl delay"),
    ("proxy_favicon", "the icon is an SVG"),
    ("json_gzip", "compressed by other code, the bytes differ"),
    ("proxy_not_homed", "404, and the page has a reason"),
];

fn recorded_exchanges(store: StoreKind) {
    let records = include_str!("../../../../conformance/vectors/handle-net/records.jsonl");
    let loaded: Vec<String> = (0..100_000).map(|number| record_with_url(&format!("H-{number:06}"))).collect();
    // Records that existed during the recording, with unknown content.
    let unknown_records: Vec<String> = (0..8).map(|number| record_with_url(&format!("Z-{number}"))).collect();
    let loaded = loaded.iter().chain(&unknown_records).map(String::as_str);
    let records = records.lines().chain([SECRET_RECORD]).chain(loaded);
    let plain_server = RecordsServer::start_handle_net(store, records, |http| trust_loopback(http, false));
    // The recorded server accepted no credentials over plain HTTP.
    let tls_server = plain_server.start_another(|http| trust_loopback(http, true));
    let mut sessions = Sessions { server: &tls_server, by_recorded_id: HashMap::new() };
    let vectors = include_str!("../../../../conformance/vectors/handle-net/http.jsonl");
    let (mut count, mut differences) = (0, Vec::new());
    for line in vectors.lines() {
        let recorded: Json = serde_json::from_str(line).unwrap();
        let name = recorded["name"].as_str().unwrap();
        count += 1;
        let request = &recorded["request"];
        let server = if request["scheme"] == "https" { &tls_server } else { &plain_server };
        let text = |name: &str| request[name].as_str().unwrap();
        let headers = request["headers"].as_object().unwrap().iter();
        let headers: Vec<String> = headers
            .map(|(header, value)| match value.as_str().unwrap().strip_prefix("Handle ") {
                Some(parameters) => sessions.translate(parameters, name),
                None => format!("{header}: {}", value.as_str().unwrap()),
            })
            .collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let response = server.request(text("method"), text("target"), &headers, text("body"));
        let recorded = sessions.replace_session(&recorded, &response);
        if let Some(problem) = difference(name, &recorded, &response) {
            differences.push(format!("{name}: {problem}"));
        }
    }
    assert!(differences.is_empty(), "{} of {count}:\n{}", differences.len(), differences.join("\n"));
    assert_eq!(count, 107);
}

/// A record with a URL.
fn record_with_url(suffix: &str) -> String {
    let page = format!("https://example.org/{suffix}");
    format!(r#"{{"handle":"10.5555/{suffix}","values":[{{"index":1,"type":"URL","data":"{page}"}}]}}"#)
}

/// Maps each recorded session to a session of this server.
struct Sessions<'s> {
    server: &'s RecordsServer,
    by_recorded_id: HashMap<String, HttpSession>,
}

impl Sessions<'_> {
    /// Translates a recorded header to the session of this server, with a new signature.
    fn translate(&mut self, parameters: &str, name: &str) -> String {
        let field = |wanted: &str| {
            let mut fields = parameters.split(", ").filter_map(|field| field.split_once('='));
            fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"'))
        };
        let server = self.server;
        let id = field("sessionId").unwrap();
        let session = self.by_recorded_id.entry(id.to_owned()).or_insert_with(|| HttpSession::create(server));
        let Some(cnonce) = field("cnonce") else { return session.header() };
        let secret = if name.contains("bad") { "wrong" } else { SECRET };
        match field("type") {
            Some("HS_SECKEY") => session.secret_proof(cnonce, secret),
            _ => session.key_proof(cnonce),
        }
    }

    /// The recorded exchange with the session id and nonce of this server's session.
    fn replace_session(&mut self, recorded: &Json, response: &HttpResponse) -> Json {
        let Ok(body) = serde_json::from_str::<Json>(recorded["body"].as_str().unwrap()) else {
            return recorded.clone();
        };
        let Some(id) = body["sessionId"].as_str() else { return recorded.clone() };
        let session = self
            .by_recorded_id
            .entry(id.to_owned())
            .or_insert_with(|| HttpSession::from_json(&response.json()));
        let text = recorded.to_string().replace(id, &session.id);
        serde_json::from_str(&text.replace(body["nonce"].as_str().unwrap(), &session.nonce)).unwrap()
    }
}

fn difference(name: &str, recorded: &Json, response: &HttpResponse) -> Option<String> {
    let status = recorded["status"].as_u64().unwrap();
    if INTENDED_DIFFERENCES.iter().any(|(other, _)| *other == name) {
        return (response.status >= 500).then(|| format!("status {}", response.status));
    }
    if u64::from(response.status) != status {
        return Some(format!(
            "status {status} was recorded, {} was received: {}",
            response.status,
            response.text()
        ));
    }
    let header = |wanted: &str| {
        let headers = recorded["headers"].as_array().unwrap().iter();
        headers.filter(|pair| pair[0] == wanted).map(|pair| pair[1].as_str().unwrap().to_owned()).next()
    };
    if header("Location").as_deref() != response.header("location") {
        return Some(format!(
            "{:?} was recorded, {:?} was received",
            header("Location"),
            response.header("location")
        ));
    }
    if header("Content-Type").is_some_and(|kind| kind.starts_with("application/json"))
        && !response.body.is_empty()
    {
        let recorded: Json = serde_json::from_str(recorded["body"].as_str().unwrap()).unwrap_or_default();
        return json_difference(name, &recorded, &response.json());
    }
    None
}

/// Compares bodies without messages, minted names and times.
fn json_difference(name: &str, recorded: &Json, response: &Json) -> Option<String> {
    let normalized = |json: &Json| {
        let mut json = json.clone();
        if let Some(members) = json.as_object_mut() {
            members.remove("message");
            if name == "put_mint" {
                members.remove("handle");
            }
            // The values are different, and there is no Java virtual machine to report on.
            if name == "status_handle_admin" {
                let values = members.get_mut("values").and_then(Json::as_array_mut).into_iter().flatten();
                values.for_each(|value| value["data"] = Json::Null);
            }
        }
        json
    };
    let (recorded, response) = (normalized(recorded), normalized(response));
    (recorded != response).then(|| format!("\n  {recorded}\nwas recorded,\n  {response}\nwas received"))
}

/// A record that was created during the recording.
const SECRET_RECORD: &str = r#"{"handle":"10.5555/SECRET2","values":[
    {"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/secret2"},"permissions":"1100",
     "ttl":3600,"timestamp":"2026-11-15T18:01:18Z"},
    {"index":100,"type":"HS_ADMIN","data":{"format":"admin","value":
        {"handle":"0.NA/10.5555","index":200,"permissions":"111111111111"}},
     "ttl":86400,"timestamp":"2026-11-15T18:01:18Z"}]}"#;

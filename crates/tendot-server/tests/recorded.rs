//! What the deployed Handle.Net software was recorded to answer, asked again over a real connection.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use serde_json::Value as Json;
use tendot_proto::Handle;
use tendot_proto::record::Record;
use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Limits, listen};
use tendot_store::{Change, Edit, Expect, Memory, Store as _};

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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Recordings over HTTP were made by a server that takes no credentials there.
    let (plain, trusted) = (start(&runtime, false), start(&runtime, true));
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
        let found = ask(server, request);
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
    if header("Location") != found.header("location") {
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

struct Found {
    status: u16,
    head: String,
    body: String,
}

impl Found {
    fn header(&self, name: &str) -> Option<String> {
        let line =
            self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")))?;
        Some(line[name.len() + 2..].to_owned())
    }
}

fn ask(server: SocketAddr, request: &Json) -> Found {
    let text = |name: &str| request[name].as_str().unwrap();
    let mut head =
        format!("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", text("method"), text("target"));
    for (name, value) in request["headers"].as_object().unwrap() {
        head += &format!("{name}: {}\r\n", value.as_str().unwrap());
    }
    let body = text("body");
    head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Found { status, head: head.to_owned(), body: body.to_owned() }
}

fn start(runtime: &tokio::runtime::Runtime, trust_loopback: bool) -> SocketAddr {
    let store = Memory::new();
    let mut prefixes = BTreeSet::new();
    let mut edits = Vec::new();
    let records = include_str!("../../../conformance/vectors/handle-net/records.jsonl").lines();
    for line in records.chain([SECRET]) {
        let record = Record::from_json(line.as_bytes()).unwrap();
        let handle = Handle::new(&record.handle);
        prefixes.insert(String::from_utf8(handle.prefix().to_vec()).unwrap());
        edits.push(Edit::Put {
            name: handle.to_string().into(),
            values: record.values,
            expect: Expect::Absent,
        });
    }
    edits.extend(prefixes.into_iter().map(|prefix| Edit::Home { prefix: prefix.into() }));
    let http = Http::new(Arc::new(Registry::new(store, Settings::default()))).trust_loopback(trust_loopback);
    runtime.block_on(async {
        http.registry().store().commit(Change { by: "test".into(), at: 0, edits }).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(listen(listener, Arc::new(http), Limits::default(), std::future::pending()));
        address
    })
}

//! A client of the registry, and who it speaks of.

#![allow(dead_code, reason = "each file of tests uses its own part")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value as Json, json};
use tendot_server::http::{Http, Limits};
use tendot_store::Store;

use super::server::{Found, Service, TOKEN, start_with};

/// Between two pieces of a body: longer than is waited for more of it.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

pub(crate) struct Client<S> {
    pub(crate) service: Service<S>,
}

/// An answer as JSON.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) head: Found,
    pub(crate) json: Json,
}

impl<S: Store + 'static> Client<S> {
    pub(crate) fn start(store: S) -> Self {
        Self::start_as(store, |http| http)
    }

    /// With a service of its own kind.
    pub(crate) fn start_as(store: S, with: impl FnOnce(Http<S>) -> Http<S>) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { service: start_with(store, socket, Vec::new(), Limits::default(), None, with) }
    }

    pub(crate) fn send(&self, method: &str, path: &str, token: &str, headers: &[&str], body: &[u8]) -> Found {
        let found = self.try_send(method, path, token, headers, &[body]);
        assert_ne!(found.status, 0, "there is no answer");
        found
    }

    /// The same in pieces, one after the other, where the answer may be cut off: then it is as far as it came, and has the
    /// status 0 without a head.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[&str],
        body: &[&[u8]],
    ) -> Found {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if !token.is_empty() {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for header in headers {
            head += &format!("{header}\r\n");
        }
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        head += &format!("Content-Length: {length}\r\n\r\n");
        let mut stream = self.service.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // What has come would be lost with a connection that is cut while something is sent.
        let mut answering = stream.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let mut answer = Vec::new();
            let _ = answering.read_to_end(&mut answer);
            answer
        });
        for (number, piece) in body.iter().enumerate() {
            if number > 0 {
                std::thread::sleep(PAUSE);
            }
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let answer = reading.join().unwrap();
        if !answer.windows(4).any(|four| four == b"\r\n\r\n") {
            return Found { status: 0, head: String::new(), body: Vec::new() };
        }
        let mut found = Found::of(&answer);
        if found.header("transfer-encoding") == Some("chunked") {
            found.body = joined(&found.body);
        }
        found
    }

    pub(crate) fn told(&self, method: &str, path: &str, token: &str, headers: &[&str], body: &Json) -> Told {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let head = self.send(method, &format!("/api/v1{path}"), token, headers, &body);
        let json = serde_json::from_slice(&head.body).unwrap_or(Json::Null);
        Told { status: head.status, head, json }
    }

    /// By the operator, and it has to go well.
    #[track_caller]
    pub(crate) fn make(&self, path: &str, body: &Json) -> Json {
        let told = self.told("POST", path, TOKEN, &[], body);
        assert_eq!(told.status, 201, "{path}: {}", told.json);
        told.json
    }

    #[track_caller]
    pub(crate) fn check(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Json,
        expected: (u16, &str),
    ) -> Json {
        let told = self.told(method, path, token, &[], body);
        let code = if told.status < 400 { None } else { told.json["code"].as_str() }.unwrap_or_default();
        assert_eq!((told.status, code), expected, "{method} {path}: {}", told.json);
        if told.status >= 400 {
            assert_eq!(told.head.header("content-type"), Some("application/problem+json"), "{path}");
        }
        told.json
    }

    pub(crate) fn batch(&self, token: &str, headers: &[&str], body: &str) -> Vec<Json> {
        let found = self.send("POST", "/api/v1/dois/batch", token, headers, body.as_bytes());
        assert_eq!(found.status, 200, "{}", String::from_utf8_lossy(&found.body));
        lines(&found.body)
    }

    /// Where a name leads, as everybody sees it.
    pub(crate) fn leads(&self, name: &str) -> (u16, Option<String>) {
        let found = self.send("GET", &format!("/{name}"), "", &[], b"");
        (found.status, found.header("location").map(str::to_owned))
    }

    /// Two agencies, a registrant and a prefix each, and their tokens.
    pub(crate) fn scene(&self) -> Scene {
        let mut scene = Scene::default();
        for code in ["A", "B"] {
            self.make("/agencies", &json!({"code": code, "name": format!("Agency {code}")}));
            let made = self.make("/registrants", &json!({"agency": code, "name": format!("Press {code}")}));
            let id = made["id"].as_str().unwrap().to_owned();
            let made = self.make("/prefixes", &json!({"registrant": id}));
            let prefix = made["prefix"].as_str().unwrap().to_owned();
            let token = |body: &Json| self.make("/tokens", body)["token"].as_str().unwrap().to_owned();
            scene.agencies.push(token(&json!({"role": "agency", "subject": code})));
            scene.tokens.push(token(&json!({"role": "registrant", "subject": id})));
            scene.ids.push(id);
            scene.prefixes.push(prefix);
        }
        scene
    }
}

#[derive(Default)]
pub(crate) struct Scene {
    pub(crate) ids: Vec<String>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) tokens: Vec<String>,
    pub(crate) agencies: Vec<String>,
}

pub(crate) fn lines(body: &[u8]) -> Vec<Json> {
    body.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// A body that came in chunks, as far as it came.
pub(crate) fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let Some(chunk) = body.get(end + 2..end + 2 + size) else { break };
        all.extend_from_slice(chunk);
        body = body.get(end + 2 + size + 2..).unwrap_or_default();
    }
    all
}

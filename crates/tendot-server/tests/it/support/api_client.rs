//! Client of the registry API `/api/v1`, with a server of its own.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tendot_server::http::{HttpLimits, HttpServer};
use tendot_store::AnyStore;
use tendot_testing::http::{HttpRequest, HttpResponse};

use super::http_server::{TOKEN, TestServer, bind, start_over};

/// Pause between two parts of a body: longer than the server waits for more lines before it executes those it has received.
const PART_INTERVAL: Duration = Duration::from_millis(10);

/// A server and a client of its API.
pub(crate) struct ApiClient {
    pub(crate) server: TestServer,
}

/// A response with its body as JSON.
pub(crate) struct JsonResponse {
    pub(crate) status: u16,
    pub(crate) http: HttpResponse,
    pub(crate) json: Json,
}

impl ApiClient {
    pub(crate) fn start(store: impl Into<AnyStore>) -> Self {
        Self::start_with(store, |http| http)
    }

    pub(crate) fn start_with(
        store: impl Into<AnyStore>,
        configure: impl FnOnce(HttpServer) -> HttpServer,
    ) -> Self {
        let server = start_over(store.into(), bind(), Vec::new(), HttpLimits::default(), None, configure);
        Self { server }
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[&str],
        body: &[u8],
    ) -> HttpResponse {
        let response = self.send_in_parts(method, path, token, headers, &[body]);
        assert_ne!(response.status, 0, "no response");
        response
    }

    /// Sends a body in parts, each of which the server executes by itself. If the connection is lost, the response has the bytes
    /// received so far, and the status 0 without a head.
    pub(crate) fn send_in_parts(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[&str],
        parts: &[&[u8]],
    ) -> HttpResponse {
        self.send_in_parts_counting(method, path, token, headers, parts, &AtomicUsize::new(0), |_| ())
    }

    /// Like [`ApiClient::send_in_parts`]; adds the bytes of the response to `received` as they come, and calls `before_part` with the
    /// number of each part before it is sent.
    #[allow(clippy::too_many_arguments, reason = "the parts of a request and two observers")]
    pub(crate) fn send_in_parts_counting(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[&str],
        parts: &[&[u8]],
        received: &AtomicUsize,
        before_part: impl Fn(usize),
    ) -> HttpResponse {
        let request = HttpRequest::new(method, path).header("Connection: close").bearer(token);
        let request = request.headers(headers.iter().copied()).body(parts.concat()).to_bytes();
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut stream = self.server.connect();
        stream.write_all(&request[..request.len() - length]).unwrap();
        std::thread::scope(|scope| {
            // Read concurrently: a reset of the connection discards received bytes that were not read.
            let mut reader = stream.try_clone().unwrap();
            let reading = scope.spawn(move || {
                let (mut bytes, mut buffer) = (Vec::new(), [0; 64 << 10]);
                while let Ok(read @ 1..) = reader.read(&mut buffer) {
                    bytes.extend_from_slice(&buffer[..read]);
                    received.fetch_add(read, Ordering::SeqCst);
                }
                bytes
            });
            for (number, part) in parts.iter().enumerate() {
                if number > 0 {
                    // The pause makes the server execute the part: there is no event to wait for.
                    std::thread::sleep(PART_INTERVAL);
                }
                before_part(number);
                if stream.write_all(part).is_err() {
                    break;
                }
            }
            HttpResponse::parse(&reading.join().unwrap())
        })
    }

    /// Sends JSON to a path below `/api/v1`.
    pub(crate) fn json(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[&str],
        body: &Json,
    ) -> JsonResponse {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let http = self.send(method, &format!("/api/v1{path}"), token, headers, &body);
        JsonResponse { status: http.status, json: http.json(), http }
    }

    /// Creates a resource as the operator; panics unless the status is 201.
    #[track_caller]
    pub(crate) fn create(&self, path: &str, body: &Json) -> Json {
        let created = self.json("POST", path, TOKEN, &[], body);
        assert_eq!(created.status, 201, "{path}: {}", created.json);
        created.json
    }

    /// Compares the status and the problem code, which is empty for success, and returns the body.
    #[track_caller]
    pub(crate) fn check(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Json,
        expected: (u16, &str),
    ) -> Json {
        let JsonResponse { status, http, json } = self.json(method, path, token, &[], body);
        let code = if status < 400 { None } else { json["code"].as_str() }.unwrap_or_default();
        assert_eq!((status, code), expected, "{method} {path}: {json}");
        if status >= 400 {
            assert_eq!(http.header("content-type"), Some("application/problem+json"), "{path}");
        }
        json
    }

    /// The result lines of a batch.
    #[track_caller]
    pub(crate) fn batch(&self, token: &str, headers: &[&str], body: &str) -> Vec<Json> {
        let response = self.send("POST", "/api/v1/dois/batch", token, headers, body.as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
        response.json_lines()
    }

    /// The status and the `Location` of a name, as an anonymous client sees it.
    pub(crate) fn redirect_of(&self, name: &str) -> (u16, Option<String>) {
        let response = self.send("GET", &format!("/{name}"), "", &[], b"");
        (response.status, response.header("location").map(str::to_owned))
    }

    /// Creates agencies A and B with a registrant, a prefix and tokens each; the prefixes are 10.70000 and 10.70001.
    pub(crate) fn create_fixtures(&self) -> Fixtures {
        let mut fixtures = Fixtures::default();
        for code in ["A", "B"] {
            let name = format!("Agency {code}");
            self.create("/agencies", &json!({"code": code, "name": name, "metadata": "optional"}));
            let registrant = json!({"agency": code, "name": format!("Press {code}")});
            let created = self.create("/registrants", &registrant);
            let id = created["id"].as_str().unwrap().to_owned();
            let created = self.create("/prefixes", &json!({"registrant": id}));
            let prefix = created["prefix"].as_str().unwrap().to_owned();
            let token = |body: &Json| self.create("/tokens", body)["token"].as_str().unwrap().to_owned();
            fixtures.agency_tokens.push(token(&json!({"role": "agency", "subject": code})));
            fixtures.tokens.push(token(&json!({"role": "registrant", "subject": id})));
            fixtures.registrants.push(id);
            fixtures.prefixes.push(prefix);
        }
        fixtures
    }
}

/// Two agencies with a registrant and a prefix each.
#[derive(Default)]
pub(crate) struct Fixtures {
    /// Ids of the registrants.
    pub(crate) registrants: Vec<String>,
    pub(crate) prefixes: Vec<String>,
    /// Tokens of the registrants.
    pub(crate) tokens: Vec<String>,
    pub(crate) agency_tokens: Vec<String>,
}

/// Kernel metadata with a title, as JSON.
pub(crate) fn kernel_json(title: &str) -> Json {
    json!({"primaryReferentType": "Creation", "referentCreation": {
        "name": [{"value": title, "type": "Title", "primaryLanguage": "en"}],
        "structuralType": "Digital", "mode": ["Visual"], "character": ["Language"], "type": ["Article"],
        "principalAgent": [{"name": {"value": "Bak, Per", "type": "Name"}, "role": "Author"}]}})
}

/// Runs each function, which takes an [`ApiClient`], as a test over each store.
macro_rules! over_all_stores {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $test() {
                super::$test(&super::ApiClient::start(tendot_store::MemoryStore::new()));
            })+
        }

        mod embedded {
            $(#[test]
            fn $test() {
                let directory = tendot_testing::ram_dir();
                let store = tendot_store::EmbeddedStore::open(directory.path()).unwrap();
                super::$test(&super::ApiClient::start(store));
            })+
        }

        mod postgres {
            $(#[test]
            fn $test() {
                let store = $crate::support::stores::StoreKind::Postgres.open();
                super::$test(&super::ApiClient::start(store));
            })+
        }
    };
}

pub(crate) use over_all_stores;

//! Servers with a registry, that can be killed and restarted.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value as Json, json};
use tendot_client::native::{AdminClient, AdminIdentity, AdminServer, RootSites};
use tendot_testing::http::{HttpRequest, HttpResponse};
use tendot_testing::{conformance, free_port};

use crate::support::{TestDir, TestServer, TestServerBuilder, text_output};

/// Prefix of registered names.
pub(super) const MAIN_PREFIX: &str = "10.70000";

/// Prefix with a quota.
pub(super) const QUOTA_PREFIX: &str = "10.70001";

/// Prefix that is not allocated, for names that can be deleted and created again.
pub(super) const HANDLE_PREFIX: &str = "10.5555";

/// Administrator of all names over the native protocol, with the secret key [`ADMIN_SECRET`] of the imported records.
const ADMIN_INDEX: u32 = 301;
const ADMIN_HANDLE: &str = "10.5555/ADMIN";
const ADMIN_SECRET: &[u8] = b"opensesame";

/// Servers on one store.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) dir: TestDir,
    /// URL of the store; `None` for the embedded one in the data directory.
    store: Option<String>,
    /// Data directory, relative to `dir` or absolute.
    data: String,
    servers: Vec<RunningServer>,
    /// Token of the operator.
    pub(super) operator: String,
    /// Token of the agency.
    pub(super) agency: String,
    /// Registrants of the agency; the first one holds both prefixes.
    pub(super) registrants: [String; 2],
}

/// Server with fixed addresses, so that clients find it again after a restart.
#[derive(Debug)]
struct RunningServer {
    builder: TestServerBuilder,
    process: Mutex<TestServer>,
    http: SocketAddr,
    native: SocketAddr,
}

impl RunningServer {
    fn start(builder: TestServerBuilder) -> Self {
        let [http, native] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let builder = builder.http(&http.to_string()).native(&native.to_string());
        Self { process: Mutex::new(builder.start()), builder, http, native }
    }
}

impl Service {
    /// Starts a server with the embedded store in `data`, and fills its registry.
    pub(super) fn embedded(data: &str, quota: u64) -> Self {
        Self::start(TestDir::new(), None, data, 1, quota)
    }

    /// Starts servers on one PostgreSQL store, and fills its registry.
    pub(super) fn postgres(store: &str, servers: usize, quota: u64) -> Self {
        Self::start(TestDir::new(), Some(store), "tendot-data", servers, quota)
    }

    fn start(dir: TestDir, store: Option<&str>, data: &str, servers: usize, quota: u64) -> Self {
        let records = conformance("vectors/handle-net/records.jsonl");
        let location = store.map_or(["--data", data], |url| ["--store", url]);
        let mut import = dir.tendot(&["import", records.to_str().unwrap()]);
        let (code, _, stderr) = text_output(import.args(location));
        assert_eq!(code, Some(0), "{stderr}");
        let admin = format!("native.admins={ADMIN_INDEX}:{ADMIN_HANDLE}");
        let mut builder = TestServer::builder(&dir).data(data);
        builder = builder.set(&admin).set("native.admins_full_access=true");
        if let Some(url) = store {
            builder = builder.store(url).set("postgres.timeout=5s");
        }
        let servers = (0..servers).map(|_| RunningServer::start(builder.clone())).collect::<Vec<_>>();
        let operator = servers[0].process.lock().unwrap().token();
        let (store, data) = (store.map(str::to_owned), data.to_owned());
        let (agency, registrants) = (String::new(), [const { String::new() }; 2]);
        let mut service = Self { dir, store, data, servers, operator, agency, registrants };
        service.fill_registry(quota);
        service
    }

    /// Creates an agency, its token, two registrants and two prefixes.
    fn fill_registry(&mut self, quota: u64) {
        self.post("agencies", &json!({"code": "LIB", "name": "The library", "metadata": "optional"}));
        let admin = format!("{ADMIN_INDEX}:{ADMIN_HANDLE}");
        for number in 0..2 {
            let name = format!("Press {number}");
            let registrant = self.post("registrants", &json!({"agency": "LIB", "name": name}));
            self.registrants[number] = registrant["id"].as_str().unwrap().to_owned();
            let target = format!("/api/v1/registrants/{}", self.registrants[number]);
            let request = HttpRequest::new("PUT", &target).bearer(&self.operator);
            self.send_checked(&request.json(&json!({"admins": [admin]})));
        }
        for prefix in [MAIN_PREFIX, QUOTA_PREFIX] {
            self.post("prefixes", &json!({"registrant": self.registrants[0], "prefix": prefix}));
        }
        let target = format!("/api/v1/prefixes/{QUOTA_PREFIX}");
        let request = HttpRequest::new("PUT", &target).bearer(&self.operator);
        self.send_checked(&request.json(&json!({"policy": {"quota": quota}})));
        let token = self.post("tokens", &json!({"role": "agency", "subject": "LIB"}));
        token["token"].as_str().unwrap().clone_into(&mut self.agency);
    }

    #[track_caller]
    fn send_checked(&self, request: &HttpRequest) -> HttpResponse {
        let response = request.send(self.http_address(0));
        assert!(matches!(response.status, 200 | 201), "{}{}", response.head, response.text());
        response
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Json) -> Json {
        let request = HttpRequest::new("POST", &format!("/api/v1/{path}")).bearer(&self.operator);
        self.send_checked(&request.json(body)).json()
    }

    /// Number of servers.
    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn http_address(&self, server: usize) -> SocketAddr {
        self.servers[server].http
    }

    /// Native client of a server, with full access.
    pub(super) fn admin_client(&self, server: usize, name: &str) -> AdminClient {
        let root = RootSites::from_addresses(&[self.servers[server].native], None);
        let server = AdminServer::for_handle(&root, name).unwrap();
        AdminClient::new(server, AdminIdentity::with_secret_key(ADMIN_INDEX, ADMIN_HANDLE, ADMIN_SECRET))
    }

    /// Sends a signal to a server.
    pub(super) fn signal(&self, server: usize, name: &str) {
        self.servers[server].process.lock().unwrap().signal(name);
    }

    /// Ends a server with a signal such as `KILL`, waits for its end, and starts it again.
    pub(super) fn restart(&self, server: usize, signal: &str) {
        let RunningServer { builder, process, .. } = &self.servers[server];
        let mut process = process.lock().unwrap();
        process.signal(signal);
        if signal == "KILL" {
            // Reaped without an exit code.
            process.wait();
        } else {
            assert_eq!(process.wait(), Some(0), "shutdown");
        }
        *process = builder.start();
    }

    /// Command on the store, such as `verify`.
    pub(super) fn store_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.dir.tendot(arguments);
        match &self.store {
            Some(url) => command.args(["--store", url]),
            None => command.args(["--data", &self.data]),
        };
        command
    }

    /// Runs `verify` on the store.
    pub(super) fn verify(&self) {
        let (code, stdout, stderr) = text_output(&mut self.store_command(&["verify"]));
        assert_eq!(code, Some(0), "{stdout}{stderr}");
    }
}

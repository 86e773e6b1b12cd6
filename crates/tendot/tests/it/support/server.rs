use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::json;
use tendot_testing::http::{HttpConnection, HttpRequest, HttpResponse};
use tendot_testing::{ServerProcess, WAIT_TIMEOUT, wait_for, wait_until};

use super::{TestDir, tendot};

/// Running `tendot serve`, killed on drop.
#[derive(Debug)]
pub(crate) struct TestServer {
    /// In a mutex, so that threads can share the server.
    process: Mutex<ServerProcess>,
    ready: String,
    pid: u32,
    data: PathBuf,
}

/// Builder of a server; by default with HTTP on a free port and without the native protocol.
#[derive(Clone, Debug)]
pub(crate) struct TestServerBuilder {
    dir: PathBuf,
    data: String,
    http: String,
    native: String,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl TestServerBuilder {
    /// HTTP address, or `off`.
    pub(crate) fn http(mut self, address: &str) -> Self {
        address.clone_into(&mut self.http);
        self
    }

    /// Address of the native protocol.
    pub(crate) fn native(mut self, address: &str) -> Self {
        address.clone_into(&mut self.native);
        self
    }

    /// Serves the native protocol on a free port of 127.0.0.1.
    pub(crate) fn with_native(self) -> Self {
        self.native("127.0.0.1:0")
    }

    /// Serves HTTPS on a free port of 127.0.0.1, with `certificate.pem` and `key.pem` in the directory.
    pub(crate) fn with_https(self) -> Self {
        let builder = self.args(&["--https", "127.0.0.1:0"]);
        builder.set("https.certificate=certificate.pem").set("https.key=key.pem")
    }

    /// Loads the demo records.
    pub(crate) fn demo(self) -> Self {
        self.args(&["--demo"])
    }

    /// Uses the memory store.
    pub(crate) fn in_memory(self) -> Self {
        self.store("memory:")
    }

    pub(crate) fn store(self, store: &str) -> Self {
        self.args(&["--store", store])
    }

    /// Data directory [default: tendot-data].
    pub(crate) fn data(mut self, name: &str) -> Self {
        name.clone_into(&mut self.data);
        self
    }

    /// Sets a setting, `key=value`.
    pub(crate) fn set(self, setting: &str) -> Self {
        self.args(&["--set", setting])
    }

    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    pub(crate) fn envs(mut self, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Command that starts the server.
    pub(crate) fn command(&self) -> Command {
        let mut command = tendot();
        command.current_dir(&self.dir).args(["serve", "--data", &self.data]);
        command.args(["--http", &self.http, "--native", &self.native]).args(&self.arguments);
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Starts the server and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(&self) -> TestServer {
        TestServer::from_command(&mut self.command(), &self.dir.join(&self.data))
    }
}

impl TestServer {
    /// Builder of a server in this directory.
    pub(crate) fn builder(dir: &TestDir) -> TestServerBuilder {
        TestServerBuilder {
            dir: dir.path().to_owned(),
            data: "tendot-data".into(),
            http: "127.0.0.1:0".into(),
            native: "off".into(),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Starts a server with any command, such as a shell script.
    #[track_caller]
    pub(crate) fn from_command(command: &mut Command, data: &Path) -> Self {
        let process = ServerProcess::start(command);
        let (ready, pid) = (process.ready.clone(), process.process.id());
        Self { process: Mutex::new(process), ready, pid, data: data.to_owned() }
    }

    fn process(&self) -> MutexGuard<'_, ServerProcess> {
        self.process.lock().unwrap()
    }

    /// HTTP address.
    #[track_caller]
    pub(crate) fn address(&self) -> SocketAddr {
        self.process().address("http://")
    }

    /// Native address.
    #[track_caller]
    pub(crate) fn native_address(&self) -> SocketAddr {
        self.process().address("hdl://")
    }

    /// HTTPS address.
    #[track_caller]
    pub(crate) fn https_address(&self) -> SocketAddr {
        self.process().address("https://")
    }

    /// URLs in the `ready` line.
    pub(crate) fn urls(&self) -> Vec<&str> {
        let addresses = self.ready.trim_start_matches("ready: ").split(' ');
        addresses.map(|address| address.trim_end_matches('/')).collect()
    }

    /// First URL in the `ready` line.
    pub(crate) fn url(&self) -> String {
        self.urls()[0].to_owned()
    }

    /// Operator token.
    #[track_caller]
    pub(crate) fn token(&self) -> String {
        let token = std::fs::read_to_string(self.data.join("operator.token")).unwrap();
        token.trim().to_owned()
    }

    /// Request with the operator token, to be completed and sent.
    pub(crate) fn request(&self, method: &str, target: &str) -> HttpRequest {
        HttpRequest::new(method, target).bearer(&self.token())
    }

    /// Sends a GET request without a token, on a new connection.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> HttpResponse {
        HttpRequest::get(target).send(self.address())
    }

    /// Value of a metric, summed over its labels.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.get("/metrics").metric(name).unwrap_or_default()
    }

    /// Keep-alive connection.
    pub(crate) fn connect(&self) -> HttpConnection {
        HttpConnection::open(self.address()).unwrap()
    }

    /// Request that sets the values of a handle to this URL.
    pub(crate) fn put_handle(&self, name: &str, url: &str) -> HttpRequest {
        let values = json!([{"index": 1, "type": "URL", "data": url}]);
        self.request("PUT", &format!("/api/handles/{name}")).body(values.to_string())
    }

    /// Waits for a log line that contains this text; returns the lines before it that were not read yet.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let line = self.process().log.recv_timeout(WAIT_TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("`{text}` was not logged"));
            if line.contains(text) {
                return before;
            }
            before.push(line);
        }
    }

    /// Waits for a log line that contains this text, also before the server was ready.
    #[track_caller]
    pub(crate) fn wait_for_startup_log(&self, text: &str) {
        let is_logged = self.process().startup.contains(text);
        if !is_logged {
            self.wait_for_log(text);
        }
    }

    /// Log lines that were not read yet.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        self.process().log.try_iter().collect()
    }

    /// Log lines that were not read yet, until the process exits.
    pub(crate) fn log_to_end(&self) -> Vec<String> {
        self.process().log.iter().collect()
    }

    /// CPU time used by the server.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.process().cpu_time()
    }

    /// Sends a signal such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        self.process().signal(name);
    }

    /// Waits until the process exits; returns its exit code.
    #[track_caller]
    pub(crate) fn wait(&self) -> Option<i32> {
        wait_for("the server exits", || self.process().process.try_wait().unwrap()).code()
    }

    /// Sends SIGTERM and waits; returns the exit code.
    #[track_caller]
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal("TERM");
        self.wait()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Waits until the peer of a connection on 127.0.0.1 has read everything that was sent.
pub(crate) fn wait_until_received(stream: &TcpStream) {
    let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let hex = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else { panic!("not IPv4: {address}") };
        let bits = u32::from_ne_bytes(address.ip().octets());
        format!("{bits:08X}:{:04X}", address.port())
    };
    let (local, peer) = (hex(local), hex(peer));
    wait_until("the server has read the request", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let sockets = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut own = sockets.filter(|fields| fields.len() > 4 && fields[1] == peer && fields[2] == local);
        own.next().is_some_and(|fields| fields[4].ends_with(":00000000"))
    });
}

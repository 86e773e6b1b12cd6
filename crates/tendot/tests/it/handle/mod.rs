//! `tendot handle`: administration of records natively and over REST, batch files, and TLS.

mod batch;
mod import;
mod records;
mod tls;

use std::path::PathBuf;

use serde_json::Value as Json;
use tendot_testing::conformance;

use crate::support::{StoreKind, TestDir, TestServer, text_output};

/// Administrator of all records, with the key in `admpriv.bin`.
const ADMIN: &str = "300:0.NA/10.5555";

/// Private key of [`ADMIN`], in the directory of each test.
const KEY: &str = "admpriv.bin";

/// Administrator of records, with the secret key `opensesame`.
const SECRET_ADMIN: &str = "301:10.5555/ADMIN";

fn handle_net(file: &str) -> String {
    let path: PathBuf = conformance("vectors/handle-net").join(file);
    path.to_str().unwrap().to_owned()
}

/// A server with the recorded records of Handle.Net.
struct HandleServer {
    server: TestServer,
    dir: TestDir,
}

impl HandleServer {
    fn start(store: StoreKind) -> Self {
        let (dir, env) = (TestDir::new(), store.env());
        let mut import = dir.tendot(&["import", &handle_net("records.jsonl")]);
        let (code, _, stderr) = text_output(import.envs(env.clone()));
        assert_eq!(code, Some(0), "{stderr}");
        dir.write("secret.txt", "opensesame\n");
        dir.write(KEY, std::fs::read(handle_net(KEY)).unwrap());
        dir.set_mode(KEY, 0o600);
        let server = TestServer::builder(&dir)
            .with_native()
            .set(&format!("native.admins={ADMIN}"))
            .set("native.admins_full_access=true")
            .envs(env)
            .start();
        Self { server, dir }
    }

    fn native(&self) -> String {
        format!("hdl://{}", self.server.native_address())
    }

    /// Runs `tendot handle`; returns exit code, standard output and standard error.
    fn run(&self, arguments: &[&str], credentials: &[&str]) -> (i32, String, String) {
        let (code, stdout, stderr) =
            text_output(&mut self.dir.tendot(&[&["handle"], arguments, credentials].concat()));
        (code.unwrap(), stdout, stderr)
    }

    /// Standard output of a run that succeeds.
    #[track_caller]
    fn run_ok(&self, arguments: &[&str], credentials: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments, credentials);
        assert_eq!(code, 0, "{arguments:?} {credentials:?}: {stdout}{stderr}");
        stdout
    }

    /// A run that fails with this exit code and message.
    #[track_caller]
    fn run_error(&self, arguments: &[&str], credentials: &[&str], code: i32, message: &str) {
        let (found, stdout, stderr) = self.run(arguments, credentials);
        assert_eq!(found, code, "{arguments:?} {credentials:?}: {stdout}{stderr}");
        assert!(stderr.contains(message), "{arguments:?} {credentials:?}: {stderr}");
    }

    /// Values of a record, by index.
    #[track_caller]
    fn values(&self, name: &str, credentials: &[&str]) -> Vec<(u64, String)> {
        let record: Json =
            serde_json::from_str(&self.run_ok(&["show", name, "--json"], credentials)).unwrap();
        assert_eq!((&record["responseCode"], &record["handle"]), (&1.into(), &name.into()));
        let values = record["values"].as_array().unwrap().iter();
        let mut values: Vec<_> = values
            .map(|value| {
                let data = &value["data"]["value"];
                (value["index"].as_u64().unwrap(), data.as_str().map_or_else(|| data.to_string(), Into::into))
            })
            .collect();
        values.sort();
        values
    }
}

/// Connections of all kinds: protocol and credentials.
fn connections(server: &HandleServer) -> Vec<Vec<String>> {
    let (native, http) = (server.native(), server.server.url());
    let all: [&[&str]; 6] = [
        &["--server", &native, "--auth", ADMIN, "--key", KEY],
        &["--server", &native, "--auth", ADMIN, "--key", KEY, "--server-key", "tendot-data/pubkey.bin"],
        &["--server", &native, "--auth", SECRET_ADMIN, "--secret-file", "secret.txt"],
        &["--server", &http, "--auth", ADMIN, "--key", KEY],
        &["--server", &http, "--auth", SECRET_ADMIN, "--secret-file", "secret.txt"],
        &["--server", &http, "--token-file", "tendot-data/operator.token"],
    ];
    all.iter().map(|arguments| arguments.iter().map(|text| (*text).to_owned()).collect()).collect()
}

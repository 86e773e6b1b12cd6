//! Registry commands, with the embedded store and with PostgreSQL.

mod batch_import;
mod client_examples;
mod connection;
mod dois;
mod duplicates;
mod parties;
mod redaction;
mod reports;
mod root;
mod sessions;
mod settings;
mod terminal;
mod tokens;

use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::support::{StoreKind, TestDir, TestServer};

/// A server with an agency, a registrant and its prefix 10.70000.
struct TestRegistry {
    server: TestServer,
    dir: TestDir,
    url: String,
    token: String,
    registrant: String,
}

impl TestRegistry {
    fn start(store: StoreKind) -> Self {
        let dir = TestDir::new();
        let server = TestServer::builder(&dir).envs(store.env()).start();
        Self::with_prefix(dir, server)
    }

    /// Adds agency, registrant and prefix to a server.
    fn with_prefix(dir: TestDir, server: TestServer) -> Self {
        let mut registry = Self::of(dir, server);
        registry.run_ok(&["agency", "create", "LIB", "The library", "--metadata", "optional"]);
        registry.registrant =
            registry.run_ok(&["registrant", "create", "--agency", "LIB", "Press", "--contact", "a@b.org"]);
        assert_eq!(registry.run_ok(&["prefix", "create", "--registrant", &registry.registrant]), "10.70000");
        registry
    }

    /// A registry without any content.
    fn of(dir: TestDir, server: TestServer) -> Self {
        let (url, token) = (server.url(), server.token());
        Self { server, dir, url, token, registrant: String::new() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.dir.tendot(arguments);
        command.env("TENDOT_SERVER", &self.url).env("TENDOT_TOKEN", &self.token);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    #[track_caller]
    fn run_ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// The objects that a command prints.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Vec<Json> {
        let stdout = self.run_ok(&[arguments, &["--json"]].concat());
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A command that fails with this exit code and message.
    #[track_caller]
    fn run_error(&self, arguments: &[&str], code: i32, message: &str) {
        check_error(&self.run(arguments), code, message, arguments);
    }
}

#[track_caller]
fn check_error(output: &Output, code: i32, message: &str, arguments: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

/// Text in which times and these ids are replaced, since they differ in each run.
fn normalize(text: &str, ids: &[(&str, &str)]) -> String {
    let is_time =
        |word: &str| word.len() >= 20 && word.starts_with("20") && word.ends_with('Z') && word.contains('T');
    let mut text = text.to_owned();
    for (id, name) in ids {
        text = text.replace(id, &format!("{name:<width$}", width = id.len()));
    }
    let lines = text.lines().map(|line| {
        let words: Vec<_> = line.split(' ').map(|word| if is_time(word) { "TIME" } else { word }).collect();
        words.join(" ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

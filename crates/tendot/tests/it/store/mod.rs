//! Commands on a store: import, export, backup, restore, verify and migrate.

mod audit;
mod backup;
mod configured;
mod import_export;
mod migrate;
mod postgres_import;
mod verify;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use crate::support::{TestDir, output_with_input, stderr};

/// A directory with the store of one test in `data`.
struct StoreDir {
    dir: TestDir,
}

impl StoreDir {
    fn new() -> Self {
        Self { dir: TestDir::new() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.dir.tendot(arguments);
        command.arg("--data").arg(self.dir.file("data"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        output_with_input(&mut self.command(arguments), input)
    }

    /// Standard output of a run that succeeds.
    #[track_caller]
    fn run_ok(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        output.stdout
    }

    /// The summary of an import that exits with this code.
    #[track_caller]
    fn import(&self, arguments: &[&str], code: i32) -> Json {
        let output = self.run(&[&["import", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        let mut summary: Json = serde_json::from_slice(&output.stdout).unwrap();
        let members = summary.as_object_mut().unwrap();
        assert!(members.remove("seconds").unwrap().is_f64() && members.remove("read").unwrap().is_u64());
        summary
    }

    /// All records by name.
    fn export(&self) -> BTreeMap<String, Json> {
        by_name(&self.run_ok(&["export"]))
    }
}

fn by_name(lines: &[u8]) -> BTreeMap<String, Json> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records = lines.map(|line| serde_json::from_slice::<Json>(line).unwrap());
    records.map(|record| (record["handle"].as_str().unwrap().to_owned(), record)).collect()
}

/// Records with a URL and an administrator, in mixed order, under 50 prefixes.
fn generate_records(count: u64) -> Vec<Json> {
    (0..count)
        .map(|number| {
            let mixed = number.wrapping_mul(2_654_435_761) % count;
            let handle = format!("10.{}/Rec-{mixed}", 5_000 + mixed % 50);
            json!({"handle": handle, "values": [
                {"index": 1, "type": "URL", "ttl": 86400, "timestamp": "2024-01-02T03:04:05Z",
                 "data": {"format": "string", "value": format!("https://example.org/articles/{mixed}?a=\"b\",c")}},
                {"index": 100, "type": "HS_ADMIN", "ttl": 86400, "timestamp": "2024-01-02T03:04:05Z",
                 "data": {"format": "admin", "value":
                    {"handle": "0.NA/10.5555", "index": 200, "permissions": "011111110011"}}},
            ]})
        })
        .collect()
}

/// Records as lines of JSON.
fn to_lines(records: &[Json]) -> String {
    records.iter().fold(String::new(), |mut lines, record| {
        writeln!(lines, "{record}").unwrap();
        lines
    })
}

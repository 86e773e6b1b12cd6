//! Export as a batch file: Handle.Net's batch tool executes it at both servers, with the same results.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use xshell::cmd;

use super::{Endpoints, java};
use crate::process::shell;

/// Identity of the batches, and its secret.
const ADMIN: &str = "301:10.5555/ADMIN";
const SECRET: &str = "opensesame";

/// Entries after those of the export: each operation, and two that fail.
const OPERATIONS: &str = "\
ADD 10.5555/BATCH-1
3 DESC 86400 1110 UTF8 three

MODIFY 10.5555/BATCH-1
2 DESC 60 1110 UTF8 changed

REMOVE 1:10.5555/batch ünïcode
CREATE 10.5555/BATCH-2
1 URL 86400 1110 UTF8 https://example.org/2
100 HS_ADMIN 86400 1110 ADMIN 301:111111111111:10.5555/ADMIN

CREATE 10.5555/BATCH-2
1 URL 86400 1110 UTF8 https://example.org/again

DELETE 10.5555/BATCH-2
DELETE 10.5555/BATCH-2

";

/// Exports records as a batch file, and executes it and further operations at both servers with `GenericBatch`.
pub(super) fn test_batches(tendot: &Path, dir: &Path, servers: [&Endpoints; 2]) -> Result<()> {
    fs::create_dir_all(dir)?;
    let records = test_records();
    let (source, data, batch) = (dir.join("records.jsonl"), dir.join("data"), dir.join("batch.txt"));
    fs::write(&source, records.iter().map(|record| format!("{record}\n")).collect::<String>())?;
    let sh = shell()?;
    cmd!(sh, "{tendot} import {source} --data {data}").ignore_stderr().run()?;
    cmd!(sh, "{tendot} export --format handle-batch --data {data} {batch}").run()?;
    let exported = fs::read_to_string(&batch)?;
    fs::write(&batch, exported + OPERATIONS)?;
    let mut results = Vec::new();
    for server in servers {
        let log = java::run_batch(&server.first(), ADMIN, SECRET, &batch)?;
        let mut stored = Vec::new();
        for name in ["10.5555/BATCH-1", "10.5555/batch ünïcode", "10.5555/BATCH-3", "10.5555/BATCH-2"] {
            stored.push(resolve(tendot, server, name)?);
        }
        results.push((results_of(&log), stored));
    }
    let [theirs, ours] = &results[..] else { unreachable!("two servers") };
    ensure!(theirs == ours, "results of a batch differ: {theirs:?} at Handle.Net, {ours:?} at Tendot");
    let (log, stored) = ours;
    let failed: Vec<&String> = log.iter().filter(|line| line.starts_with("==>FAILURE")).collect();
    ensure!(
        log.len() == 10
            && matches!(&failed[..], [create, delete]
            if create.contains("Error(101)") && delete.contains("Error(100)")),
        "unexpected results of a batch: {log:?}"
    );
    // What was exported and not changed comes back as it was.
    let untouched =
        records[2]["values"].as_array().map(|values| values.iter().map(without_timestamp).collect());
    ensure!(stored[2] == untouched && stored[3].is_none(), "unexpected records: {stored:?}");
    Ok(())
}

/// Records with text, Unicode, lists, administrators, permissions and TTLs.
fn test_records() -> [Value; 3] {
    let admin = json!({"index": 100, "type": "HS_ADMIN", "ttl": 86400, "data": {"format": "admin", "value":
        {"handle": "10.5555/ADMIN", "index": 301, "permissions": "111111111111"}}});
    let text = |index: u32, value_type: &str, ttl: u32, text: &str| json!({"index": index, "type": value_type, "ttl": ttl, "data": {"format": "string", "value": text}});
    let list = json!({"index": 5, "type": "HS_VLIST", "ttl": 86400, "data": {"format": "vlist", "value":
        [{"handle": "10.5555/ADMIN", "index": 301}, {"handle": "10.5555/ONE", "index": 1}]}});
    let url = |url: &str| text(1, "URL", 86_400, url);
    let description = text(2, "DESC", 60, "Grüße, 日本 \"quoted\"");
    [
        json!({"handle": "10.5555/BATCH-1", "values": [url("https://example.org/a?x=1"), description, admin]}),
        json!({"handle": "10.5555/batch ünïcode", "values": [list, text(1, "EMAIL", 86_400, "x@example.org"), admin]}),
        json!({"handle": "10.5555/BATCH-3", "values": [url("https://example.org/3"), text(7, "NOTE", 0, "a\\b"), admin]}),
    ]
}

/// Result lines of a log. The text of errors is that of each server.
fn results_of(log: &str) -> Vec<String> {
    let result = |line: &str| match line.find("Error(") {
        Some(at) => line.chars().take(at + "Error(100)".len()).collect(),
        None => line.to_owned(),
    };
    log.lines().filter(|line| line.starts_with("==>")).map(result).collect()
}

/// Values of a record by index, since servers store added values in different places; `None` if there is no record.
fn resolve(tendot: &Path, server: &Endpoints, name: &str) -> Result<Option<Vec<Value>>> {
    let (sh, address) = (shell()?, format!("hdl://127.0.0.1:{}", server.native_ports[0]));
    let output = cmd!(sh, "{tendot} resolve --json --tcp --server {address} {name}")
        .ignore_status()
        .ignore_stderr()
        .output()?;
    if output.status.code() == Some(1) {
        return Ok(None);
    }
    let record: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("cannot resolve {name}"))?;
    let mut values: Option<Vec<Value>> =
        record["values"].as_array().map(|values| values.iter().map(without_timestamp).collect());
    values.iter_mut().for_each(|values| values.sort_by_key(|value| value["index"].as_u64()));
    Ok(values)
}

fn without_timestamp(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(members) = value.as_object_mut() {
        members.remove("timestamp");
    }
    value
}

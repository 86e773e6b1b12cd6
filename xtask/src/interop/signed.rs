//! Signed records both ways: Handle.Net signs and Tendot verifies, Tendot signs and Handle.Net verifies.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use xshell::cmd;

use super::java;
use crate::process::shell;
use crate::root;

const SIGNER: &str = "300:0.NA/10.5555";
const ROOT: &str = "300:0.0/0.0";

/// Signs with one side and verifies with the other, valid records and forged ones.
pub(super) fn test_signed_records(tendot: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let vectors = root().join("conformance/vectors/handle-net");
    let records = dir.join("records.jsonl");
    fs::write(&records, to_lines(&test_records()))?;
    let keys =
        ["privkey.bin", "admpriv.bin", "pubkey.bin"].map(|file| vectors.join(file).display().to_string());
    let [root_key, signer_key, root_public_key] = &keys;
    let path = records.display().to_string();
    let theirs = java::signed_records(&["sign", &path, root_key, SIGNER, signer_key])?;
    let theirs = theirs.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let ours = sign(tendot, dir, &keys)?;
    for (side, signed) in [("handle-net", theirs), ("tendot", ours)] {
        let mut forged = signed.clone();
        for record in forged.iter_mut().filter(|record| is_signed(record)) {
            record["values"][0]["data"]["value"] = "https://evil.example/".into();
        }
        for (kind, records, is_trusted) in [("valid", &signed, true), ("forged", &forged, false)] {
            let file = dir.join(format!("{side}-{kind}.jsonl"));
            fs::write(&file, to_lines(records))?;
            let verified = java::signed_records(&["verify", &file.display().to_string(), root_public_key])?;
            let expected = if is_trusted { "trusted " } else { "rejected " };
            ensure!(
                verified.lines().count() == test_records().len()
                    && verified.lines().all(|line| line.starts_with(expected)),
                "Handle.Net about records signed by {side} ({kind}): {verified}"
            );
            verify(tendot, &dir.join(format!("{side}-{kind}")), &file, root_public_key, is_trusted)?;
        }
    }
    Ok(())
}

/// Records with several value types, TTLs and references.
fn test_records() -> [Value; 2] {
    let admin = json!({"index": 100, "type": "HS_ADMIN", "ttl": 3600, "data": {"format": "admin", "value":
        {"handle": "0.NA/10.5555", "index": 300, "permissions": "011111110011"}}});
    let url = |url: &str| json!({"index": 1, "type": "URL", "data": {"format": "string", "value": url}, "ttl": 86400});
    let note = json!({"index": 7, "type": "NOTE", "data": {"format": "string", "value": "Grüße"}, "ttl": "2038-01-01T00:00:00Z",
        "references": [{"handle": "10.5555/ONE", "index": 1}]});
    [
        json!({"handle": "10.5555/SIGNED", "values": [url("https://example.org/signed"), admin]}),
        json!({"handle": "10.5555/ünïcode", "values": [url("https://example.org/unicode"), note]}),
    ]
}

fn is_signed(record: &Value) -> bool {
    record["values"]
        .as_array()
        .is_some_and(|values| values.iter().any(|value| value["type"] == "HS_SIGNATURE"))
}

fn to_lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// Records of the trust anchor and the signer, and the test records with signatures by Tendot.
fn sign(tendot: &Path, dir: &Path, [root_key, signer_key, _]: &[String; 3]) -> Result<Vec<Value>> {
    let sh = shell()?;
    let certify = |key: &str, subject: &str, permit: &str| -> Result<Value> {
        let command = cmd!(
            sh,
            "{tendot} key certify {key} --subject {subject} --issuer {ROOT} --key {root_key} --permit {permit}"
        );
        Ok(serde_json::from_str(&command.ignore_stderr().read()?)?)
    };
    let mut records = vec![
        json!({"handle": "0.0/0.0", "values": [certify(root_key, ROOT, "everything")?]}),
        json!({"handle": "0.NA/10.5555",
            "values": [certify(signer_key, SIGNER, "handlesUnderThisPrefix:0.NA/10.5555")?]}),
    ];
    for record in test_records() {
        let file = dir.join("record.json");
        fs::write(&file, record.to_string())?;
        let name = record["handle"].as_str().context("no handle")?;
        let command = cmd!(
            sh,
            "{tendot} handle sign {name} --record {file} --signer {SIGNER} --signing-key {signer_key}"
        );
        records.push(serde_json::from_str(&command.ignore_stderr().read()?)?);
    }
    Ok(records)
}

/// Imports records into a store of Tendot, which verifies them there.
fn verify(tendot: &Path, data: &Path, records: &Path, anchor: &str, is_trusted: bool) -> Result<()> {
    let sh = shell()?;
    cmd!(sh, "{tendot} import --data {data} {records}").ignore_stderr().run()?;
    for record in test_records() {
        let name = record["handle"].as_str().context("no handle")?;
        let anchor = format!("trust.anchor={anchor}");
        let trace =
            cmd!(sh, "{tendot} explain --json --data {data} --set {anchor} {name}").ignore_stderr().read()?;
        let trace: Value = serde_json::from_str(&trace)?;
        ensure!(
            trace["signature"]["trusted"] == is_trusted,
            "Tendot about {name} in {}: {}",
            records.display(),
            trace["signature"]
        );
    }
    Ok(())
}

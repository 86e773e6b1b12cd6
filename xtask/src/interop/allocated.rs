//! Names under an allocated prefix: the Handle.Net client finds them from the root, over the service handle of the prefix record.

use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tendot_testing::free_port;
use xshell::cmd;

use super::{java, serve};
use crate::process::{shell, start_server};

const URL: &str = "https://example.org/allocated";

/// Registers a name under a new prefix with the registry of a new server, and resolves it with that server as the root.
pub(super) fn test_allocated_prefix(tendot: &Path, data_dir: &Path) -> Result<()> {
    let [native, http] = [(); 2].map(|()| free_port());
    let _server = start_server(serve(tendot, data_dir, Ipv4Addr::LOCALHOST, native, http))?;
    let sh = shell()?;
    let token = fs::read_to_string(data_dir.join("operator.token")).context("no operator token")?;
    let _url = sh.push_env("TENDOT_SERVER", format!("http://127.0.0.1:{http}"));
    let _token = sh.push_env("TENDOT_TOKEN", token.trim());
    cmd!(sh, "{tendot} agency create LIB Library --metadata optional").ignore_stdout().run()?;
    let registrant = cmd!(sh, "{tendot} registrant create --agency LIB Press").read()?;
    let prefix = cmd!(sh, "{tendot} prefix create --registrant {registrant}").read()?;
    let name = format!("{prefix}/ALLOCATED");
    cmd!(sh, "{tendot} doi create {name} --url {URL}").ignore_stdout().run()?;

    let (prefix_record, missing) = (format!("0.NA/{prefix}"), format!("{prefix}/NONE"));
    let mut requests = Vec::new();
    for name in [&name, &missing, &prefix_record] {
        for flags in [json!([]), json!(["certify"])] {
            requests.push(json!({
                "id": requests.len(), "op": "resolve", "handle": name, "transport": "root", "flags": flags,
            }));
        }
    }
    let responses = send(&format!("127.0.0.1:{native}"), &requests)?;
    for (response, expected) in responses.iter().zip([1, 1, 100, 100, 1, 1]) {
        ensure!(response["code"] == expected, "unexpected response: {response}");
    }
    for (response, value_type, text) in [
        (&responses[0], "URL", URL),
        (&responses[1], "URL", URL),
        (&responses[4], "HS_SERV", "0.SERV/TENDOT"),
        (&responses[5], "HS_SERV", "0.SERV/TENDOT"),
    ] {
        let mut values = response["values"].as_array().into_iter().flatten();
        let is_expected = |value: &Value| value["type"] == value_type && value["data"]["value"] == text;
        ensure!(values.any(is_expected), "no {value_type} value `{text}`: {response}");
    }
    // The Handle.Net client has followed this reference; the record of the prefix has no site of its own.
    let has_site = responses[4]["values"].to_string().contains("HS_SITE");
    ensure!(!has_site, "the prefix record has a site: {}", responses[4]);
    Ok(())
}

/// Responses of the server at `ADDRESS:PORT` to these requests of the Handle.Net client, one after another.
fn send(server: &str, requests: &[Value]) -> Result<Vec<Value>> {
    let mut process =
        java::client(&[server.to_owned()])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let text: String = requests.iter().map(|request| format!("{request}\n")).collect();
    process.stdin.take().context("no stdin")?.write_all(text.as_bytes())?;
    let output = process.wait_with_output()?;
    ensure!(output.status.success(), "the Handle.Net client failed: {}", output.status);
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let responses: Vec<Value> = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
    ensure!(responses.len() == requests.len(), "{} of {} responses", responses.len(), requests.len());
    Ok(responses)
}

//! Interoperability: the same requests to Tendot and to the Handle.Net server, with both clients; the responses must be equal.

mod allocated;
mod batches;
mod dumps;
pub(crate) mod java;
mod requests;
mod signed;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use tendot_testing::http::HttpRequest;
use tendot_testing::{ServerProcess, free_port};
use xshell::{Cmd, cmd};

use self::java::{HandleNetProcess, client, generate_site_key};
use self::requests::{is_partition_case, normalize_response, private_key, requests};
use crate::process::{apt_install, is_installed, shell, start_server};
use crate::root;

/// The identity that administers all servers; its key is [`private_key`].
const SERVER_ADMIN: &str = "300:0.NA/10.5555";

/// The example of `tendot-client` that does everything that an administrator can do.
const ADMIN_EXAMPLE: &str = "admin_operations";

/// Concurrent processes of `tendot resolve`; they mostly wait for the servers.
const RESOLVE_WORKERS: usize = 4;

/// Numbers of equal and different responses.
pub(crate) struct InteropReport {
    pub(crate) same: u64,
    pub(crate) different: u64,
}

/// Compares the responses, and fails if one differs.
pub(crate) fn run(tendot: Option<&Path>) -> Result<()> {
    let tendot = tendot.map(Path::canonicalize).transpose()?;
    let report = interop(tendot.as_deref())?;
    ensure!(report.different == 0, "{} responses differ from those of Handle.Net", report.different);
    Ok(())
}

/// Compares the responses of `tendot`, built here unless it is given, with those of the Handle.Net server.
pub(crate) fn interop(tendot: Option<&Path>) -> Result<InteropReport> {
    let programs = Programs::find_or_build(tendot)?;
    if !is_installed("openssl") {
        apt_install(&["openssl"])?;
    }
    java::prepare()?;
    let dir = root().join("target/interop/run");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let records = root().join("conformance/vectors/handle-net/records.jsonl");
    let ((_handle_net, handle_net), (_single, single), (_three, three)) = thread::scope(|scope| {
        let handle_net = scope.spawn(|| start_handle_net(&dir.join("java"), &records));
        let single = scope.spawn(|| start_tendot(&programs.tendot, &dir.join("tendot"), &records));
        let three = start_three_servers(&programs.tendot, &dir.join("three"), &records);
        Ok::<_, anyhow::Error>((join(handle_net)?, join(single)?, three?))
    })?;
    let [theirs, ours, partitioned] = thread::scope(|scope| {
        let own_client = scope.spawn(|| test_own_client(&programs, &dir, &handle_net, &single, &records));
        let exchanges = send_all([&handle_net, &single, &three]);
        let logins = test_secret_key_logins(&handle_net, &single);
        join(own_client)?;
        logins.and(exchanges)
    })?;
    // Not before: the batches would be in lists of names.
    batches::test_batches(&programs.tendot, &dir.join("batches"), [&handle_net, &single])?;
    allocated::test_allocated_prefix(&programs.tendot, &dir.join("allocated"))?;
    for (address, port) in three.addresses.iter().zip(&three.http_ports) {
        let metrics = HttpRequest::get("/metrics").try_send((*address, *port).into())?;
        let created = "operation=\"create\",code=\"1\"} ";
        ensure!(metrics.text().contains(created), "no name was created at {address}");
    }
    let mut report = compare_responses(&theirs, &ours)?;
    let theirs: Vec<Exchange> =
        theirs.into_iter().filter(|exchange| is_partition_case(&exchange.request)).collect();
    let of_three = compare_responses(&theirs, &partitioned)?;
    report.same += of_three.same;
    report.different += of_three.different;
    Ok(report)
}

/// Programs under test.
struct Programs {
    tendot: PathBuf,
    admin_example: PathBuf,
}

impl Programs {
    /// Builds them, unless `tendot` is given and the example lies beside it, where `cargo test` puts it.
    fn find_or_build(tendot: Option<&Path>) -> Result<Self> {
        let built = root().join("target/debug");
        if let Some(tendot) = tendot {
            let directory = tendot.parent().unwrap_or(&built);
            let admin_example = directory.join("examples").join(ADMIN_EXAMPLE);
            if admin_example.exists() {
                return Ok(Self { tendot: tendot.to_owned(), admin_example });
            }
        }
        let sh = shell()?;
        let program = if tendot.is_none() { &["--bin", "tendot"][..] } else { &[] };
        cmd!(sh, "cargo build --quiet --workspace --all-features --example {ADMIN_EXAMPLE} {program...}")
            .run()?;
        let admin_example = built.join("examples").join(ADMIN_EXAMPLE);
        Ok(Self { tendot: tendot.map_or_else(|| built.join("tendot"), Path::to_owned), admin_example })
    }
}

/// One request and its response.
struct Exchange {
    request: Value,
    response: Value,
}

/// Compares responses to the same requests, and prints those that differ.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
fn compare_responses(theirs: &[Exchange], ours: &[Exchange]) -> Result<InteropReport> {
    ensure!(theirs.len() == ours.len(), "request lists differ: {} and {}", theirs.len(), ours.len());
    let mut report = InteropReport { same: 0, different: 0 };
    for (their, our) in theirs.iter().zip(ours) {
        let request = &their.request;
        // The site record in a request is that of the server.
        let is_same = ["op", "handle", "transport"].iter().all(|field| request[field] == our.request[field]);
        ensure!(is_same, "request lists differ: {request} and {}", our.request);
        let mut expected = normalize_response(request, &their.response);
        // Intended differences are in docs/reference/handle-net-compatibility.md.
        if let Some(code) = request.get("expected_difference") {
            ensure!(expected["code"] != *code, "expected difference not observed: {request}");
            expected["code"] = code.clone();
        }
        if expected == normalize_response(request, &our.response) {
            report.same += 1;
        } else {
            report.different += 1;
            println!("{request}\n  Handle.Net {}\n  Tendot     {}", their.response, our.response);
        }
    }
    println!("{} identical, {} different", report.same, report.different);
    Ok(report)
}

/// Ports and public key of a server under test.
struct Endpoints {
    addresses: Vec<Ipv4Addr>,
    native_ports: Vec<u16>,
    http_ports: Vec<u16>,
    /// The HTTPS port, if the site record does not have it.
    https: Option<u16>,
    /// The HTTPS port of the JSON API.
    handle_api: Option<u16>,
    public_key: PathBuf,
}

impl Endpoints {
    /// Address for the Handle.Net client, `ADDRESS:PORT[:HTTPS-PORT]`; one server is enough to find a site.
    fn first(&self) -> String {
        let https = self.https.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}:{}{https}", self.addresses[0], self.native_ports[0])
    }
}

fn start_handle_net(data_dir: &Path, records: &Path) -> Result<(Vec<ServerProcess>, Endpoints)> {
    let [native, http, https] = [(); 3].map(|()| free_port());
    let server = HandleNetProcess {
        data_dir,
        native,
        http,
        https,
        server_admin: SERVER_ADMIN,
        records,
        is_durable: false,
    };
    let endpoints = Endpoints {
        addresses: vec![Ipv4Addr::LOCALHOST],
        native_ports: vec![native],
        http_ports: vec![http],
        https: None,
        handle_api: Some(https),
        public_key: data_dir.join("pubkey.bin"),
    };
    Ok((vec![start_server(server.command()?)?], endpoints))
}

/// A Tendot server with the same key for the Handle protocol and HTTPS, since the Handle.Net client wants it so.
fn start_tendot(tendot: &Path, data_dir: &Path, records: &Path) -> Result<(Vec<ServerProcess>, Endpoints)> {
    let sh = shell()?;
    cmd!(sh, "{tendot} import {records} --data {data_dir}").run()?;
    let (certificate, key) = (data_dir.join("certificate.pem"), data_dir.join("key.pem"));
    generate_site_key(data_dir)?;
    for file in ["pubkey.bin", "privkey.bin", "key.pem"] {
        fs::set_permissions(data_dir.join(file), fs::Permissions::from_mode(0o600))?;
    }
    cmd!(sh, "openssl req -x509 -subj /CN=localhost -key {key} -out {certificate}").run()?;
    let [native, http, https] = [(); 3].map(|()| free_port());
    let mut command = serve(tendot, data_dir, Ipv4Addr::LOCALHOST, native, http);
    command
        .args(["--https", &format!("127.0.0.1:{https}")])
        .args(["--set", &format!("https.certificate={}", certificate.display())])
        .args(["--set", &format!("https.key={}", key.display())]);
    let endpoints = Endpoints {
        addresses: vec![Ipv4Addr::LOCALHOST],
        native_ports: vec![native],
        http_ports: vec![http],
        https: Some(https),
        handle_api: Some(https),
        public_key: data_dir.join("pubkey.bin"),
    };
    Ok((vec![start_server(command)?], endpoints))
}

fn serve(tendot: &Path, data_dir: &Path, address: Ipv4Addr, native: u16, http: u16) -> Command {
    let mut command = Command::new(tendot);
    command.arg("serve").arg("--data").arg(data_dir);
    command.args(["--native", &format!("{address}:{native}"), "--http", &format!("{address}:{http}")]);
    command.args(["--set", &format!("native.admins={SERVER_ADMIN}")]);
    command.args(["--set", "native.admins_full_access=true"]);
    command.args(["--set", "native.allow_sha1=true"]);
    command
}

/// One site of three Tendot servers, each of which is responsible for a part of the names.
fn start_three_servers(tendot: &Path, dir: &Path, records: &Path) -> Result<(Vec<ServerProcess>, Endpoints)> {
    fs::create_dir_all(dir)?;
    let site = dir.join("site.json");
    let data_dirs = ["one", "two", "three"].map(|server| dir.join(server));
    let addresses = [1, 2, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let [native_ports, http_ports] = [(); 2].map(|()| [(); 3].map(|()| free_port()));
    let command = |number: usize| {
        serve(tendot, &data_dirs[number], addresses[number], native_ports[number], http_ports[number])
    };
    // The first start creates the key and the site record.
    for_each_server(|number| start_server(command(number)).map(drop))?;
    let records_of_servers = data_dirs.each_ref().map(|data_dir| data_dir.join("siteinfo.json"));
    let sh = shell()?;
    cmd!(sh, "{tendot} site combine --output {site} {records_of_servers...}").run()?;
    let servers = for_each_server(|number| {
        let (sh, data_dir) = (shell()?, &data_dirs[number]);
        cmd!(sh, "{tendot} import {records} --data {data_dir} --site {site}").run()?;
        let mut serve = command(number);
        serve.args(["--set", &format!("native.site_file={}", site.display())]);
        start_server(serve)
    })?;
    let endpoints = Endpoints {
        addresses: addresses.into(),
        native_ports: native_ports.into(),
        http_ports: http_ports.into(),
        https: None,
        handle_api: None,
        public_key: data_dirs[0].join("pubkey.bin"),
    };
    Ok((servers, endpoints))
}

fn for_each_server<T: Send>(work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let started = [0, 1, 2].map(|number| scope.spawn(move || work(number)));
        started.into_iter().map(join).collect()
    })
}

fn join<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// Sends all requests to each of the servers with one Handle.Net client: all to the first two, the partition cases to the third.
fn send_all(servers: [&Endpoints; 3]) -> Result<[Vec<Exchange>; 3]> {
    let mut process =
        client(&servers.map(Endpoints::first))?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = process.stdin.take().context("no stdin")?;
    let mut lines = BufReader::new(process.stdout.take().context("no stdout")?).lines();
    let mut next_response = || -> Result<Value> {
        Ok(serde_json::from_str(&lines.next().context("the Handle.Net client ended")??)?)
    };
    // The number of the server is the lowest digit of the number of a request.
    for server in 0..3 {
        writeln!(input, "{}", json!({"op": "site", "server": server, "id": server}))?;
    }
    let mut sites = [const { Value::Null }; 3];
    for _ in 0..3 {
        let mut response = next_response()?;
        let server = response["id"].as_u64().context("no id")? as usize;
        sites[server] = response["site"].take();
    }
    let mut exchanges = [0, 1, 2].map(|server| {
        let mut all = requests(&sites[server]);
        all.retain(|request| server < 2 || is_partition_case(request));
        for (number, request) in all.iter_mut().enumerate() {
            request["id"] = (number * 3 + server).into();
            request["server"] = server.into();
        }
        all.into_iter().map(|request| Exchange { request, response: Value::Null }).collect::<Vec<_>>()
    });
    let text: String = exchanges.iter().flatten().map(|exchange| format!("{}\n", exchange.request)).collect();
    thread::scope(|scope| {
        let writer = scope.spawn(move || Ok(input.write_all(text.as_bytes())?));
        for _ in 0..exchanges.iter().map(Vec::len).sum() {
            let response = next_response()?;
            let id = response["id"].as_u64().context("no id")? as usize;
            exchanges[id % 3][id / 3].response = response;
        }
        join(writer)
    })?;
    ensure!(process.wait()?.success(), "the Handle.Net client failed");
    for exchange in exchanges.iter_mut().flatten() {
        exchange.response["id"].take();
    }
    Ok(exchanges)
}

/// Handle.Net's adapter logs in with a secret key: it sends SHA-1, which needs a setting here.
fn test_secret_key_logins(handle_net: &Endpoints, single: &Endpoints) -> Result<()> {
    for (server, secret, expected) in
        [(handle_net, "opensesame", true), (single, "opensesame", true), (single, "wrong", false)]
    {
        let is_accepted = java::secret_key_login(&server.first(), "301:10.5555/ADMIN", secret)?;
        ensure!(is_accepted == expected, "login with `{secret}` at {}: {is_accepted}", server.first());
    }
    Ok(())
}

/// Tests our client: equal results at both servers, and all administrative operations at the Handle.Net server.
fn test_own_client(
    programs: &Programs,
    dir: &Path,
    handle_net: &Endpoints,
    single: &Endpoints,
    records: &Path,
) -> Result<()> {
    let mut names = Vec::new();
    for line in BufReader::new(fs::File::open(records)?).lines() {
        let record: Value = serde_json::from_str(&line?)?;
        names.push(record["handle"].as_str().context("a record has no handle")?.to_owned());
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let [theirs, ours] = [handle_net, single].map(|server| resolve(&programs.tendot, server, name));
            let [theirs, ours] = [theirs?, ours?];
            ensure!(theirs == ours, "resolution differs: {theirs:?} at Handle.Net, {ours:?} at Tendot");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = [(); RESOLVE_WORKERS].map(|()| scope.spawn(worker));
        signed::test_signed_records(&programs.tendot, &dir.join("signed"))?;
        dumps::test_dumps(&programs.tendot, &dir.join("dumps"), records)?;
        resolve_over_https(&programs.tendot, dir)?;
        administer(&programs.admin_example, &dir.join("java/resolver/bootstrap_handles"))?;
        administer_by_command(&programs.tendot, dir, handle_net)?;
        workers.into_iter().try_for_each(join)
    })
}

/// Results of our client at a server, over every transport.
fn resolve(tendot: &Path, server: &Endpoints, name: &str) -> Result<Vec<Value>> {
    let native = format!("hdl://127.0.0.1:{}", server.native_ports[0]);
    let http = format!("http://127.0.0.1:{}", server.http_ports[0]);
    let key = server.public_key.to_string_lossy();
    let transports: [(&str, &[&str]); 5] = [
        (&native, &["--udp"]),
        (&native, &["--tcp"]),
        (&native, &["--udp", "--require-certified", "--server-key", &key]),
        (&native, &["--tcp", "--auth", "--require-certified", "--server-key", &key]),
        (&http, &[]),
    ];
    let (sh, mut results) = (shell()?, Vec::new());
    for (server, options) in transports {
        let command = cmd!(sh, "{tendot} resolve --json --server {server} {options...} {name}");
        results.push(resolved(&command)?["values"].take());
    }
    Ok(results)
}

/// Output of `tendot resolve --json`. On a busy machine a peer may not respond in time.
fn resolved(command: &Cmd<'_>) -> Result<Value> {
    let output = command.read().or_else(|_| command.read()).or_else(|_| command.read())?;
    Ok(serde_json::from_str(&output)?)
}

/// Our client uses HTTPS if the site record has nothing else, and accepts the key in the record.
fn resolve_over_https(tendot: &Path, dir: &Path) -> Result<()> {
    let mut root: Value = serde_json::from_slice(&fs::read(dir.join("java/resolver/bootstrap_handles"))?)?;
    let records = root["handles"].as_object_mut().context("no records in the root")?;
    for value in records.values_mut().filter_map(|record| record["values"].as_array_mut()).flatten() {
        let servers = value["data"]["value"]["servers"].as_array_mut();
        for interfaces in
            servers.into_iter().flatten().filter_map(|server| server["interfaces"].as_array_mut())
        {
            interfaces.retain(|interface| interface["protocol"] == "HTTPS");
        }
    }
    let file = dir.join("https.json");
    fs::write(&file, root.to_string())?;
    let sh = shell()?;
    let record =
        resolved(&cmd!(sh, "{tendot} resolve --json --require-certified 0.NA/10.5555 --root {file}"))?;
    ensure!(record["transport"] == "https", "our client used {} instead of HTTPS", record["transport"]);
    Ok(())
}

/// Runs all administrative operations of our client at the server of this root.
fn administer(example: &Path, root_file: &Path) -> Result<()> {
    let (sh, key) = (shell()?, private_key());
    for identity in [[SERVER_ADMIN, &key, "all"], ["301:10.5555/ADMIN", "secret:opensesame", "names"]] {
        cmd!(sh, "{example} {root_file} 10.5555 {identity...}").run()?;
    }
    Ok(())
}

/// Runs `tendot handle` and `tendot handle batch` at the Handle.Net server, natively and over its JSON API (HTTPS).
fn administer_by_command(tendot: &Path, dir: &Path, server: &Endpoints) -> Result<()> {
    let (sh, key, server_key) = (shell()?, private_key(), &server.public_key);
    let secret = dir.join("secret.txt");
    fs::write(&secret, "opensesame\n")?;
    let native = format!("hdl://127.0.0.1:{}", server.native_ports[0]);
    let https = format!("https://127.0.0.1:{}", server.handle_api.context("no HTTPS port")?);
    let server_key = server_key.to_string_lossy();
    let secret = secret.to_string_lossy();
    let connections: [&[&str]; 5] = [
        &["--server", &native, "--auth", SERVER_ADMIN, "--key", &key],
        &["--server", &native, "--auth", SERVER_ADMIN, "--key", &key, "--server-key", &server_key],
        &["--server", &native, "--auth", "301:10.5555/ADMIN", "--secret-file", &secret],
        &["--server", &https, "--auth", SERVER_ADMIN, "--key", &key, "--server-key", &server_key],
        &[
            "--server",
            &https,
            "--auth",
            "301:10.5555/ADMIN",
            "--secret-file",
            &secret,
            "--server-key",
            &server_key,
        ],
    ];
    for (number, connection) in connections.into_iter().enumerate() {
        let name = format!("10.5555/ADMIN-COMMAND-{number}");
        let admins = ["100:HS_ADMIN:300:111111111111:0.NA/10.5555", "101:HS_ADMIN:301:10.5555/ADMIN"];
        cmd!(sh, "{tendot} handle create {name} 1:URL:https://example.org/1 2,ttl=60:EMAIL:x@y.org {admins...} {connection...}")
            .run()?;
        cmd!(sh, "{tendot} handle update {name} 1:URL:https://example.org/2 --remove 2 {connection...}")
            .run()?;
        let shown = cmd!(sh, "{tendot} handle show {name} --json {connection...}").read()?;
        let shown: Value = serde_json::from_str(&shown)?;
        let mut indexes: Vec<_> = shown["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|value| value["index"].as_u64())
            .collect();
        indexes.sort_unstable();
        ensure!(indexes == [1, 100, 101], "unexpected values: {shown}");
        let listed = cmd!(sh, "{tendot} handle list 10.5555 {connection...}").read()?;
        ensure!(
            listed.lines().any(|line| line.eq_ignore_ascii_case(&name)),
            "{name} is not listed: {listed}"
        );
        let batch = dir.join(format!("batch-{number}.txt"));
        fs::write(
            &batch,
            format!(
                "ADD {name}\n3 DESC 86400 1110 UTF8 three\n\nMODIFY {name}\n3 DESC 60 1110 UTF8 four\n\n\
                 REMOVE 3:{name}\nDELETE {name}\nDELETE {name}\n"
            ),
        )?;
        let results = cmd!(sh, "{tendot} handle batch {batch} {connection...}").ignore_status().read()?;
        let statuses: Vec<bool> = results.lines().map(|line| line.ends_with(": done")).collect();
        ensure!(statuses == [true, true, true, true, false], "unexpected results: {results}");
        if connection.contains(&SERVER_ADMIN) {
            let prefix = format!("10.5555.ADMIN{number}");
            cmd!(sh, "{tendot} handle home {prefix} {connection...}").run()?;
            let homed = cmd!(sh, "{tendot} handle list {connection...}").read()?;
            ensure!(homed.to_ascii_uppercase().contains(&format!("0.NA/{prefix}")), "not homed: {homed}");
            cmd!(sh, "{tendot} handle unhome {prefix} {connection...}").run()?;
        }
    }
    Ok(())
}

//! The client of Handle.Net asks our server and its own the same, and has to be told the same; and so does ours.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::java::{JavaServer, client, site_key};
use crate::process::{Server, install, is_there, output, run};
use crate::root;

/// Compares the answers of `tendot`, or of the one that is built here, with those of the Java server.
pub(crate) fn interop(tendot: Option<&str>) -> Result<()> {
    let tendot = if let Some(path) = tendot {
        PathBuf::from(path)
    } else {
        run(Command::new("cargo").args(["build", "--quiet", "-p", "tendot"]).current_dir(root()))?;
        root().join("target/debug/tendot")
    };
    if !is_there("openssl") {
        install(&["openssl"])?;
    }
    let folder = root().join("target/interop/run");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let records = root().join("conformance/vectors/handle-net/records.jsonl");
    let (java, theirs) = start_java(&folder.join("java"), &records)?;
    let (ours_server, ours) = start_tendot(&tendot, &folder, &records)?;
    for line in BufReader::new(fs::File::open(&records)?).lines() {
        let record: Value = serde_json::from_str(&line?)?;
        let name = record["handle"].as_str().context("a line has no handle")?;
        let [theirs, ours] = [resolve(&tendot, &theirs, name)?, resolve(&tendot, &ours, name)?];
        ensure!(theirs == ours, "our client found {theirs:?} at the Java server, and {ours:?} at tendot");
    }
    resolve_over_https(&tendot, &folder)?;
    administer(&folder.join("java/resolver/bootstrap_handles"))?;
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| ask_all(&theirs, questions));
        let ours = ask_all(&ours, questions);
        Ok::<_, anyhow::Error>((theirs.join().map_err(|_| anyhow!("the Java server was not asked"))??, ours?))
    })?;
    drop((java, ours_server));
    let different = compare(&theirs, &ours)?;
    let shared = ask_three(&tendot, &folder.join("three"), &records)?;
    let theirs: Vec<_> = theirs.into_iter().filter(|(question, _)| is_shared(question)).collect();
    let different = different + compare(&theirs, &shared)?;
    ensure!(different == 0, "the Java client was told something else by tendot");
    Ok(())
}

/// Compares answers to the same questions, and tells those that are not the same; how many.
#[allow(clippy::print_stdout, reason = "the report is what this command is for")]
fn compare(theirs: &[(Value, Value)], ours: &[(Value, Value)]) -> Result<usize> {
    ensure!(theirs.len() == ours.len(), "{} questions and {} are compared", theirs.len(), ours.len());
    let (mut same, mut different) = (0, 0);
    for ((question, they), (also, we)) in theirs.iter().zip(ours) {
        // The site in a question is that of who is asked.
        let is_same = ["op", "handle", "via"].iter().all(|field| question[field] == also[field]);
        ensure!(is_same, "{question} and {also} are compared");
        let (mut theirs, ours) = (comparable(they), comparable(we));
        // What we do otherwise on purpose is in docs/compatibility.md.
        if let Some(code) = question.get("otherwise") {
            ensure!(theirs["code"] != *code, "{question}: Java does the same");
            theirs["code"] = code.clone();
        }
        if theirs == ours {
            same += 1;
        } else {
            different += 1;
            println!("{question}\n  Java   {they}\n  tendot {we}");
        }
    }
    println!("{same} answers are the same, {different} are not");
    Ok(different)
}

fn start_java(folder: &Path, records: &Path) -> Result<(Server, Ports)> {
    let [native, http, https] = [free_port()?, free_port()?, free_port()?];
    let server =
        JavaServer { folder, native, http, https, admin: "300:0.NA/10.5555", records, synced: false };
    // Its site says where HTTPS is; ours does not.
    Ok((server.start(None)?, Ports { native, http, https: None, key: folder.join("pubkey.bin") }))
}

fn start_tendot(tendot: &Path, folder: &Path, records: &Path) -> Result<(Server, Ports)> {
    let data = folder.join("tendot");
    run(Command::new(tendot).arg("import").arg(records).arg("--data").arg(&data))?;
    let (certificate, key) = (data.join("certificate.pem"), data.join("key.pem"));
    run(site_key()?.arg(&data))?;
    for file in ["pubkey.bin", "privkey.bin", "key.pem"] {
        fs::set_permissions(data.join(file), fs::Permissions::from_mode(0o600))?;
    }
    run(Command::new("openssl")
        .args(["req", "-x509", "-subj", "/CN=localhost", "-key"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate))?;
    let [native, http, https] = [free_port()?, free_port()?, free_port()?];
    let at = |port: u16| format!("127.0.0.1:{port}");
    let server = Server::start(
        Command::new(tendot)
            .arg("serve")
            .arg("--data")
            .arg(&data)
            .args(["--native", &at(native), "--http", &at(http), "--https", &at(https)])
            .args(["--set", "native.admins=300:0.NA/10.5555"])
            .args(["--set", "native.admins_full_access=true"])
            .args(["--set", &format!("http.tls.certificate={}", certificate.display())])
            .args(["--set", &format!("http.tls.key={}", key.display())]),
    )?;
    Ok((server, Ports { native, http, https: Some(https), key: data.join("pubkey.bin") }))
}

/// Where a server is, and the file of its public key.
struct Ports {
    native: u16,
    http: u16,
    https: Option<u16>,
    key: PathBuf,
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// What our client finds there, in every way.
fn resolve(tendot: &Path, ports: &Ports, name: &str) -> Result<Vec<Value>> {
    let (native, http) =
        (format!("hdl://127.0.0.1:{}", ports.native), format!("http://127.0.0.1:{}", ports.http));
    let key = ports.key.to_string_lossy();
    let ways: [(&str, &[&str]); 5] = [
        (&native, &["--udp"]),
        (&native, &["--tcp"]),
        (&native, &["--udp", "--certified", "--server-key", &key]),
        (&native, &["--tcp", "--auth", "--certified", "--server-key", &key]),
        (&http, &[]),
    ];
    let mut found = Vec::new();
    for (server, way) in ways {
        let arguments = ["resolve", "--json", "--server", server];
        let answer = output(Command::new(tendot).args(arguments).args(way).arg(name))?;
        let mut answer: Value = serde_json::from_str(&answer)?;
        found.push(answer["values"].take());
    }
    Ok(found)
}

/// Our client finds a record at the Java server where that has nothing but HTTPS, and a key that is its own.
fn resolve_over_https(tendot: &Path, folder: &Path) -> Result<()> {
    let mut root: Value = serde_json::from_slice(&fs::read(folder.join("java/resolver/bootstrap_handles"))?)?;
    let records = root["handles"].as_object_mut().context("no records in the root")?;
    for value in records.values_mut().filter_map(|record| record["values"].as_array_mut()).flatten() {
        let servers = value["data"]["value"]["servers"].as_array_mut();
        for interfaces in
            servers.into_iter().flatten().filter_map(|server| server["interfaces"].as_array_mut())
        {
            interfaces.retain(|interface| interface["protocol"] == "HTTPS");
        }
    }
    let file = folder.join("https.json");
    fs::write(&file, root.to_string())?;
    let mut command = Command::new(tendot);
    let found =
        output(command.args(["resolve", "--json", "--certified", "0.NA/10.5555", "--root"]).arg(&file))?;
    let found: Value = serde_json::from_str(&found)?;
    ensure!(found["transport"] == "https", "our client asked the Java server over {}", found["transport"]);
    Ok(())
}

/// Our client does all that an administrator can do, at the server of this root.
fn administer(root_file: &Path) -> Result<()> {
    let key = private_key();
    for identity in [["300:0.NA/10.5555", &key, "all"], ["301:10.5555/ADMIN", "secret:opensesame", "names"]] {
        run(Command::new("cargo")
            .args(["run", "--quiet", "-p", "tendot-client", "--example", "admin_operations", "--"])
            .arg(root_file)
            .arg("10.5555")
            .args(identity)
            .current_dir(root()))?;
    }
    Ok(())
}

/// Asks one server, or the site that it is one of; each question with its answer.
fn ask_all(ports: &Ports, questions: impl Fn(&Value) -> Vec<Value>) -> Result<Vec<(Value, Value)>> {
    let mut process =
        client(ports.native, ports.https)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = process.stdin.take().context("no stdin")?;
    let mut answered = BufReader::new(process.stdout.take().context("no stdout")?).lines();
    let mut ask = |question: &Value| -> Result<Value> {
        writeln!(input, "{question}")?;
        let line = answered.next().context("the Java client ended")??;
        Ok(serde_json::from_str(&line)?)
    };
    let site = ask(&json!({"op": "site"}))?["site"].clone();
    let mut answers = Vec::new();
    for question in questions(&site) {
        let answer = ask(&question)?;
        answers.push((question, answer));
    }
    drop(input);
    ensure!(process.wait()?.success(), "the Java client failed");
    Ok(answers)
}

/// Whether servers that share the names are asked it, too: each lists what it keeps, and homes prefixes on its own. Of the
/// names of prefixes without a slash, the client takes another server to be the keeper.
fn is_shared(question: &Value) -> bool {
    let is = |field: &str, any: &[&str]| question[field].as_str().is_some_and(|found| any.contains(&found));
    let is_life = question["handle"].as_str().is_some_and(|handle| handle.starts_with("10.5555/LIFE"));
    is("via", &["udp", "tcp", "http"])
        && (is("op", &["resolve"]) || is_life && !is("op", &["list"]))
        && !is("handle", &["10.5555", "10.5562/NONE"])
}

/// Three servers that share the names, asked by the client of Handle.Net, which finds who keeps which.
fn ask_three(tendot: &Path, folder: &Path, records: &Path) -> Result<Vec<(Value, Value)>> {
    fs::create_dir_all(folder)?;
    let site = folder.join("site.json");
    let data = ["one", "two", "three"].map(|server| folder.join(server));
    let serve = |number: usize, native: u16, http: u16| {
        let mut command = Command::new(tendot);
        let at = |port: u16| format!("127.0.0.{}:{port}", number + 1);
        command.arg("serve").arg("--data").arg(&data[number]);
        command.args(["--native", &at(native), "--http", &at(http)]);
        command
    };
    let mut ports = Vec::new();
    for number in 0..data.len() {
        // It may be that the ports are not free at the other addresses; then they are at the next try.
        let [native, http] = [free_port()?, free_port()?];
        drop(Server::start(&mut serve(number, native, http))?);
        ports.push([native, http]);
    }
    let parts = data.each_ref().map(|data| data.join("siteinfo.json"));
    run(Command::new(tendot).args(["site", "join", "--into"]).arg(&site).args(parts))?;
    let mut servers = Vec::new();
    for (number, [native, http]) in ports.iter().copied().enumerate() {
        run(Command::new(tendot)
            .arg("import")
            .arg(records)
            .arg("--data")
            .arg(&data[number])
            .arg("--site")
            .arg(&site))?;
        let mut command = serve(number, native, http);
        command.args(["--set", "native.admins=300:0.NA/10.5555", "--set", "native.admins_full_access=true"]);
        servers.push(Server::start(command.args(["--set", &format!("native.site={}", site.display())]))?);
    }
    let [native, http] = ports[0];
    let first = Ports { native, http, https: None, key: data[0].join("pubkey.bin") };
    let answers = ask_all(&first, |site| questions(site).into_iter().filter(is_shared).collect())?;
    for (number, [_, http]) in ports.iter().enumerate() {
        let mut stream = TcpStream::connect((Ipv4Addr::new(127, 0, 0, u8::try_from(number + 1)?), *http))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics)?;
        let made = "operation=\"create\",code=\"1\"} ";
        ensure!(metrics.contains(made), "server {} of three was not asked to create a name", number + 1);
    }
    Ok(answers)
}

fn questions(site: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    resolutions(&mut all, "udp");
    // UDP is for questions only, here and there: writes are dropped or refused.
    for via in ["tcp", "http", "https"] {
        resolutions(&mut all, via);
        refusals(&mut all, via);
        prefixes(&mut all, via);
        for (number, key) in keys().iter().enumerate() {
            for session in SESSIONS {
                let name = format!("10.5555/LIFE-{via}-{number}-{}", session.unwrap_or("none"));
                life(&mut all, &name, via, key, session);
            }
        }
    }
    from_the_root(&mut all, site);
    all
}

const SESSIONS: [Option<&str>; 5] =
    [None, Some("plain"), Some("encrypted"), Some("certified"), Some("encrypted certified")];

fn private_key() -> String {
    root().join("conformance/vectors/handle-net/admpriv.bin").display().to_string()
}

/// Whose keys there are, in records of the recorded server.
fn keys() -> [Value; 2] {
    [
        json!({"as": "301:10.5555/ADMIN", "secret": "opensesame"}),
        json!({"as": "300:10.5555/ADMIN", "key": private_key()}),
    ]
}

/// The key of those who run the server.
fn operator() -> Value {
    json!({"as": "300:0.NA/10.5555", "key": private_key()})
}

/// A question with whatever else belongs to it.
fn with(question: Value, more: &Value) -> Value {
    let mut question = question;
    if let (Some(question), Some(more)) = (question.as_object_mut(), more.as_object()) {
        question.extend(more.clone());
    }
    question
}

fn resolutions(all: &mut Vec<Value>, via: &str) {
    let names = [
        "0.NA/10.5555",
        "0.NA/0.NA",
        "0.SITE/status",
        "10.5555/ONE",
        "10.5555/one",
        "10.5555/MULTI",
        "10.5555/BIG",
        "10.5555/SECRET",
        "10.5555/ALIAS",
        "10.5555/SPACE AND%25PCT",
        "10.5555/例-Ü",
        "10.5555/SLASH/IN/NAME?Q#F",
        "10.5555/NOURL",
        "10.5555/lowercase",
        "10.5555/NONE",
        "10.5557/NONE",
        "10.9999/NONE",
        "10.5555/",
        "10.5555",
        "",
    ];
    for name in names {
        all.push(json!({"op": "resolve", "handle": name, "via": via}));
    }
    for flags in [
        json!(["certify"]),
        json!(["cacheCertify"]),
        json!(["authoritative"]),
        json!(["digest"]),
        json!(["restricted"]),
        json!(["certify", "digest", "authoritative"]),
    ] {
        for name in ["10.5555/MULTI", "10.5555/BIG", "10.5555/NONE"] {
            all.push(json!({"op": "resolve", "handle": name, "via": via, "flags": flags}));
        }
    }
    for asked in [
        json!({"types": ["URL"]}),
        json!({"types": ["URL."]}),
        json!({"types": ["url"]}),
        json!({"types": ["NONE"]}),
        json!({"indexes": [2]}),
        json!({"indexes": [9]}),
        json!({"indexes": [7]}),
        json!({"types": ["URL"], "indexes": [3, 7]}),
        json!({"types": ["NOTE"], "flags": ["restricted"]}),
    ] {
        all.push(with(json!({"op": "resolve", "handle": "10.5555/MULTI", "via": via}), &asked));
    }
    for key in keys().into_iter().chain([operator()]) {
        for session in SESSIONS {
            let restricted = json!({"op": "resolve", "handle": "10.5555/SECRET", "via": via, "session": session, "flags": ["restricted"]});
            all.push(with(restricted, &key));
        }
    }
}

/// What goes wrong, and how it is said.
fn refusals(all: &mut Vec<Value>, via: &str) {
    let url = json!([{"index": 1, "type": "URL", "data": "https://example.org/"}]);
    let [secret, key] = keys();
    let mut ask = |op: &str, handle: &str, more: &Value, who: &Value| {
        all.push(with(with(json!({"op": op, "handle": handle, "via": via}), more), who));
    };
    for wrong in [
        json!({"as": "301:10.5555/ADMIN", "secret": "wrong"}),
        json!({"as": "300:10.5555/ONE", "key": private_key()}),
        json!({"as": "77:10.5555/ADMIN", "secret": "opensesame"}),
        json!({"as": "301:10.5555/NONE", "secret": "opensesame"}),
        json!({"as": "301:10.9999/NONE", "secret": "opensesame"}),
        json!({}),
    ] {
        ask("create", "10.5555/REFUSED", &json!({"values": url}), &wrong);
        ask("modify", "10.5555/ONE", &json!({"values": url}), &wrong);
        ask("delete", "10.5555/ONE", &json!({}), &wrong);
        ask("list", "0.NA/10.5555", &json!({}), &wrong);
        ask("home", "0.NA/10.5560", &json!({}), &wrong);
        ask("resolve", "10.5555/SECRET", &json!({"flags": ["restricted"]}), &wrong);
    }
    for who in [&secret, &key] {
        ask("create", "10.5555/ONE", &json!({"values": url}), who);
        ask("create", "10.9999/ONE", &json!({"values": url}), who);
        ask("create", "10.5555/REFUSED", &json!({"values": []}), who);
        ask("create", "10.5555/", &json!({"values": url}), who);
        ask("create", "0.NA/10.5561", &json!({"values": url}), who);
        ask("delete", "10.5555/NONE", &json!({}), who);
        ask("add", "10.5555/NONE", &json!({"values": url}), who);
        ask("modify", "10.5555/NONE", &json!({"values": url}), who);
        ask("remove", "10.5555/NONE", &json!({"indexes": [1]}), who);
        ask("home", "0.NA/10.5560", &json!({}), who);
        ask("prefixes", "0.NA/0.NA", &json!({}), who);
        ask("list", "0.NA/10.9999", &json!({}), who);
        ask("create", "10.5555/NOBODY", &json!({"values": url, "flags": ["overwrite"]}), &operator());
        // Nobody administers it: those of its prefix may help.
        ask("delete", "10.5555/NOBODY", &json!({"otherwise": 1}), who);
        ask("create", "10.5555/NOBODY", &json!({"values": url, "flags": ["overwrite"]}), &operator());
        for handle in ["10.5555/NOBODY", "10.5555/REFUSED", "10.5555/"] {
            ask("delete", handle, &json!({}), &operator());
        }
    }
}

/// Prefixes come and go, as the operator says.
fn prefixes(all: &mut Vec<Value>, via: &str) {
    let who = operator();
    for session in [None, Some("encrypted")] {
        for (op, handle) in [
            ("prefixes", "0.NA/0.NA"),
            ("home", "0.NA/10.5562"),
            ("home", "0.NA/10.5562"),
            ("prefixes", "0.NA/0.NA"),
            ("list", "0.NA/10.5562"),
            ("resolve", "10.5562/NONE"),
            ("unhome", "0.NA/10.5562"),
            ("unhome", "0.NA/10.5562"),
            ("resolve", "10.5562/NONE"),
            ("prefixes", "0.NA/0.NA"),
        ] {
            all.push(with(json!({"op": op, "handle": handle, "via": via, "session": session}), &who));
        }
    }
}

/// A record from its making to its end.
fn life(all: &mut Vec<Value>, name: &str, via: &str, key: &Value, session: Option<&str>) {
    let value = |index: u32, data: &str| json!({"index": index, "type": "URL", "data": format!("https://example.org/{data}")});
    let admin = json!({"index": 100, "type": "HS_ADMIN", "data":
        {"format": "admin", "value": {"handle": "0.NA/10.5555", "index": 200, "permissions": "111111111111"}}});
    let email =
        json!({"index": 3, "type": "EMAIL", "data": "a@example.org", "ttl": 60, "permissions": "1100"});
    let mut ask = |op: &str, more: &Value| {
        let question = json!({"op": op, "handle": name, "via": via, "session": session});
        all.push(with(with(question, more), key));
    };
    ask("create", &json!({"values": [value(1, "one"), admin]}));
    ask("create", &json!({"values": [value(1, "one"), admin]}));
    ask("create", &json!({"values": [value(1, "two"), admin], "flags": ["overwrite"]}));
    ask("add", &json!({"values": [value(2, "added"), email]}));
    ask("add", &json!({"values": [value(2, "again")]}));
    ask("add", &json!({"values": [value(2, "over")], "flags": ["overwrite"]}));
    ask("modify", &json!({"values": [value(1, "modified")]}));
    ask("modify", &json!({"values": [value(9, "nothing there")]}));
    ask("resolve", &json!({"flags": ["restricted", "authoritative"]}));
    ask("resolve", &json!({"flags": ["certify"]}));
    ask("remove", &json!({"indexes": [2]}));
    ask("remove", &json!({"indexes": [2]}));
    ask("resolve", &json!({"indexes": [1, 2, 3], "flags": ["restricted", "encrypt"]}));
    all.push(with(json!({"op": "list", "handle": "0.NA/10.5555", "via": via, "session": session}), key));
    let mut ask = |op: &str| {
        all.push(with(json!({"op": op, "handle": name, "via": via, "session": session}), key));
    };
    ask("delete");
    ask("delete");
    ask("resolve");
}

/// A prefix of the server's own, whose site is found as every client does it: by way of the root.
fn from_the_root(all: &mut Vec<Value>, site: &Value) {
    let operator = operator();
    let here = json!({"index": 1, "type": "HS_SITE", "data": {"format": "site", "value": site}});
    let url = json!([{"index": 1, "type": "URL", "data": "https://example.org/"}]);
    for (op, handle, values) in [
        ("create", "0.NA/10.5563", json!([here])),
        ("home", "0.NA/10.5563", json!([])),
        ("create", "10.5563/ONE", url),
    ] {
        all.push(with(json!({"op": op, "handle": handle, "values": values}), &operator));
    }
    for name in ["10.5563/ONE", "10.5563/NONE", "10.9999/NONE", "0.NA/10.9999"] {
        for flags in [json!([]), json!(["certify"])] {
            all.push(json!({"op": "resolve", "handle": name, "via": "root", "flags": flags}));
        }
    }
}

/// An answer without what may differ: times, words, the order of values, and how a name is spelt.
fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    let Some(fields) = answer.as_object_mut() else { return answer };
    fields.remove("message");
    if let Some(values) = fields.get_mut("values").and_then(Value::as_array_mut) {
        for value in values.iter_mut().filter_map(Value::as_object_mut) {
            value.remove("timestamp");
        }
        values.sort_by_key(|value| value["index"].as_u64());
    }
    if let Some(names) = fields.get_mut("names").and_then(Value::as_array_mut) {
        for name in names.iter_mut() {
            *name = name.as_str().map(str::to_ascii_uppercase).into();
        }
        names.sort_by_key(Value::to_string);
    }
    // `HandleException (KIND) …`; the rest has numbers of sessions and times in it.
    if let Some(Value::String(error)) = fields.get_mut("error") {
        error.truncate(error.find(')').unwrap_or(error.len()));
    }
    answer
}

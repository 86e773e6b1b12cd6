//! The commands of the registry, against a service that runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

/// A service with an agency, a registrant and its prefix 10.70000, which is killed when it is no longer needed.
struct Service {
    process: Child,
    directory: tempfile::TempDir,
    address: String,
    token: String,
    registrant: String,
}

impl Service {
    fn start() -> Self {
        let mut service = Self::start_empty(&["--http", "127.0.0.1:0"], "http://", |_| {});
        service.done(&["agency", "add", "LIB", "The library"]);
        service.registrant =
            service.done(&["registrant", "add", "--agency", "LIB", "Press", "--contact", "a@b.org"]);
        assert_eq!(service.done(&["prefix", "add", "--registrant", &service.registrant]), "10.70000");
        service
    }

    fn start_empty(arguments: &[&str], scheme: &str, prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let mut process = Command::new(env!("CARGO_BIN_EXE_tendot"))
            .current_dir(&directory)
            .args(["serve", "--native", "off"])
            .args(arguments)
            .envs(database())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = said.find(|line| line.starts_with("ready: ")).expect("it is ready");
        thread::spawn(move || said.for_each(drop));
        let address = ready.split(' ').find(|address| address.starts_with(scheme)).unwrap();
        let address = address.trim_end_matches('/').to_owned();
        let token = std::fs::read_to_string(directory.path().join("tendot-data/operator.token")).unwrap();
        Self { process, directory, address, token, registrant: String::new() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
        command.args(arguments).current_dir(&self.directory).stdin(Stdio::null());
        command
            .env("TENDOT_SERVER", &self.address)
            .env("TENDOT_TOKEN", &self.token)
            .env_remove("CLICOLOR_FORCE");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command prints that is carried out.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// The objects that a command prints.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Vec<Json> {
        let printed = self.done(&[arguments, &["--json"]].concat());
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], code: i32, said: &str) {
        check(&self.run(arguments), code, said, arguments);
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.directory.path().join(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
fn check(output: &Output, code: i32, said: &str, arguments: &[&str]) {
    let found = String::from_utf8_lossy(&output.stderr);
    assert!(found.contains(said), "{arguments:?}: {found}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {found}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

/// In the program `postgres`, which has the same tests once more, the store is a database of its own.
fn database() -> Option<(&'static str, String)> {
    let is_postgres = env!("CARGO_CRATE_NAME") == "postgres";
    is_postgres.then(|| ("TENDOT_STORE", tendot_testing::postgres::create_database_url()))
}

/// Text without what differs each time: times, and the ids that are given.
fn stable(text: &str, ids: &[(&str, &str)]) -> String {
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

#[test]
fn parties() {
    let service = Service::start();
    let press = &*service.registrant;
    let settings = ["--metadata", "required", "--range", "10.71000-10.71009", "--locations", "10.70000/loc"];
    assert_eq!(service.done(&[&["agency", "add", "MUS", "The museum"][..], &settings].concat()), "MUS");
    let shop =
        service.done(&["registrant", "add", "--agency", "mus", "Shop", "--admin", "300:10.71000/admin"]);
    let ids = [(press, "PRESS"), (&*shop, "SHOP")];
    let show = |arguments: &[&str], expected: &str| {
        assert_eq!(stable(&service.done(arguments), &ids), expected, "{arguments:?}");
    };

    show(
        &["agency", "list"],
        "CODE  NAME         STATE   METADATA    CREATED\n\
         LIB   The library  active  on-request  TIME\n\
         MUS   The museum   active  required    TIME",
    );
    show(
        &["agency", "set", "mus", "--name", "Museums", "--metadata", "on-request"],
        "MUS\n  name       Museums\n  state      active\n  metadata   on-request\n  \
         range      first 10.71000, last 10.71009\n  locations  10.70000/loc\n  created    TIME",
    );
    show(
        &["agency", "show", "LIB"],
        "LIB\n  name       The library\n  state      active\n  metadata   on-request\n  created    TIME",
    );
    show(
        &["registrant", "show", &shop],
        "SHOP\n  agency   MUS\n  name     Shop\n  admins   300:10.71000/admin\n  created  TIME",
    );
    show(
        &["registrant", "set", &shop, "--contact", "shop@example.org", "--no-admins"],
        "SHOP\n  agency   MUS\n  name     Shop\n  contact  shop@example.org\n  created  TIME",
    );
    show(
        &["registrant", "list", "--agency", "LIB"],
        "ID            AGENCY  NAME   CONTACT\nPRESS         LIB     Press  a@b.org",
    );

    let policy = [
        "--pattern",
        "[a-z]+",
        "--host",
        "example.org",
        "--host",
        "example.net",
        "--quota",
        "2",
        "--confusable",
        "refuse",
    ];
    let prefix = service.done(&[&["prefix", "add", "--registrant", &shop, "--test"][..], &policy].concat());
    assert_eq!(prefix, "10.71000");
    show(
        &["prefix", "list"],
        "PREFIX    REGISTRANT    AGENCY  TEST  POLICY\n\
         10.70000  PRESS         LIB     no    -\n\
         10.71000  SHOP          MUS     yes   confusable refuse, hosts example.org, example.net, pattern [a-z]+, quota 2",
    );
    // What is not given stays.
    show(
        &["prefix", "set", "10.71000", "--quota", "3", "--clear", "hosts", "--clear", "confusable"],
        "10.71000\n  registrant  SHOP\n  agency      MUS\n  test        yes\n  policy      pattern [a-z]+, quota 3\n  \
         allocated   TIME",
    );
    assert_eq!(service.json(&["prefix", "list", "--registrant", press])[0]["prefix"], "10.70000");
    assert_eq!(service.json(&["prefix", "list", "--agency", "MUS", "--limit", "1"]).len(), 1);
    service.refused(&["doi", "add", "10.71000/A1", "--url", "https://example.org/"], 1, "(pattern at /name)");
    service.refused(&["prefix", "add", "--registrant", press, "10.71000"], 1, "error: ");

    let transfer = service.done(&["prefix", "transfer", "10.71000", "--to", press]);
    assert_eq!(service.json(&["doi", "transfers"])[0]["state"], "proposed");
    assert_eq!(service.json(&["doi", "decline", &transfer])[0]["state"], "declined");
    service.done(&["prefix", "transfer", "10.71000", "--to", press, "--force"]);
    assert_eq!(service.json(&["prefix", "show", "10.71000"])[0]["registrant"], press);

    let end = service.run(&["agency", "end", "LIB", "--to", "MUS"]);
    assert!(String::from_utf8_lossy(&end.stderr).starts_with("the agency LIB has ended; MUS has"), "{end:?}");
    let agency = service.json(&["agency", "show", "LIB"]).remove(0);
    assert_eq!((&agency["state"], &agency["successor"]), (&json!("ended"), &json!("MUS")));
    assert_eq!(service.json(&["registrant", "show", press])[0]["agency"], "MUS");
}

#[test]
fn tokens() {
    let service = Service::start();
    let press = &*service.registrant;
    let arguments = [
        "token",
        "add",
        "--role",
        "registrant",
        "--subject",
        press,
        "--scope",
        "deposit",
        "--label",
        "nightly",
        "--expires",
        "2097-01-31",
        "--prefix",
        "10.70000",
    ];
    let made = service.run(&arguments);
    let token = String::from_utf8(made.stdout).unwrap();
    assert_eq!(token.lines().count(), 1);
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(said.ends_with("is made; it is not shown again\n") && !said.contains(token.trim()), "{said}");
    let listed = service.json(&["token", "list"]);
    let [only] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&only["scopes"], &only["expires"]), (&json!(["deposit"]), &json!("2097-01-31T00:00:00Z")));
    assert_eq!((&only["label"], &only["prefixes"]), (&json!("nightly"), &json!(["10.70000"])));
    let id = only["id"].as_str().unwrap();
    let table = service.done(&["token", "list"]);
    let expected = "ID            ROLE        SUBJECT       SCOPES   PREFIXES  EXPIRES LABEL\n\
                    ID            registrant  PRESS         deposit  10.70000  TIME  nightly";
    assert_eq!(
        stable(&table, &[(press, "PRESS"), (id, "ID")]).replace("               LABEL", " LABEL"),
        expected
    );

    let with = |token: &str, arguments: &[&str]| {
        service.command(arguments).env("TENDOT_TOKEN", token).output().unwrap()
    };
    let add = ["doi", "add", "10.70000/t", "--url", "https://example.org/t"];
    assert!(with(&token, &add).status.success());
    check(&with(&token, &["agency", "add", "X", "Y"]), 2, "error: ", &[]);
    let revoked = service.json(&["token", "revoke", id]);
    assert_eq!(revoked, [json!({"id": id, "revoked": true})]);
    check(
        &with(&token, &add),
        2,
        "hint: `--token` or TENDOT_TOKEN has one that is not known there, or no longer",
        &[],
    );
    service.refused(&["token", "revoke", id], 1, "(not-found)");
}

const METADATA: &str = r#"{"primaryReferentType":"Creation","referentCreation":{
    "name":[{"value":"Self-organized criticality","type":"Title","primaryLanguage":"en"}],"structuralType":"Digital",
    "mode":["Visual"],"character":["Language"],"type":["Article"],
    "principalAgent":[{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"}]}}"#;

#[test]
fn names() {
    let service = Service::start();
    let press = &*service.registrant;
    let shop = service.done(&["registrant", "add", "--agency", "LIB", "Shop"]);
    service.write("soc.json", METADATA);
    let add = [
        "doi",
        "add",
        "https://doi.org/10.70000/Soc",
        "--url",
        "https://example.org/soc",
        "--metadata",
        "soc.json",
    ];
    // Nothing is done by a rehearsal.
    let dry = service.run(&[&add[..], &["--dry-run"]].concat());
    assert_eq!(String::from_utf8_lossy(&dry.stderr), "10.70000/Soc would be registered\n");
    service.refused(&["doi", "show", "10.70000/Soc"], 1, "(not-found)");
    assert_eq!(service.done(&[&add[..], &["--value", "3:EMAIL:a@b.org"]].concat()), "10.70000/Soc");
    let shown = stable(&service.done(&["doi", "show", "doi:10.70000/SOC"]), &[(press, "PRESS")]);
    let expected = "10.70000/Soc\n  state       registered\n  registrant  PRESS\n  agency      LIB\n  \
                    url         https://example.org/soc\n  title       Self-organized criticality\n  created     TIME\n  \
                    updated     TIME\n    1 URL https://example.org/soc";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("\n    3 EMAIL a@b.org"), "{shown}");

    service.refused(
        &["doi", "add", "10.70000/SOC", "--url", "https://example.org/"],
        1,
        "registered as `10.70000/Soc`, since 20",
    );
    service.refused(
        &["doi", "add", "10.70000/SOC", "--url", "https://example.org/"],
        1,
        "hint: `tendot doi set '10.70000/Soc'` changes it",
    );
    service.refused(&["doi", "add", "10.70000/x", "--url", "//x"], 1, "(bad-url at /url)");
    service.write("wrong.json", "{\"primaryReferentType\":\"Nonsense\"}");
    service.refused(
        &["doi", "add", "10.70000/x", "--url", "https://example.org/", "--metadata", "wrong.json"],
        1,
        "(bad-metadata at /metadata",
    );
    service.write("wrong.xml", "<kernelMetadata/>");
    service.refused(
        &["doi", "add", "10.70000/x", "--metadata", "wrong.xml"],
        1,
        "`wrong.xml` is no kernel metadata:\n  ",
    );
    service.refused(&["doi", "add", "10.70000/x", "--metadata", "none.json"], 2, "`none.json` can't be read");
    service.refused(&["doi", "add", "10.70000/x", "--value", "EMAIL"], 2, "hint: such as");
    service.refused(&["doi", "add", "--url", "https://example.org/"], 2, "error: ");
    service.refused(&["doi", "add", "10.80000/x", "--url", "https://example.org/"], 1, "error: ");

    let minted = service.done(&["doi", "add", "--prefix", "10.70000", "--url", "https://example.org/m"]);
    assert!(minted.starts_with("10.70000/"), "{minted}");
    service.done(&["doi", "add", "10.70000/later", "--reserve"]);
    assert_eq!(service.json(&["doi", "show", "10.70000/later"])[0]["state"], "reserved");
    let set = service.json(&["doi", "set", "10.70000/later", "--register", "--url", "https://example.org/l"]);
    assert_eq!((&set[0]["state"], &set[0]["url"]), (&json!("registered"), &json!("https://example.org/l")));
    service.done(&["doi", "set", "10.70000/soc", "--url", "https://example.org/moved"]);
    // A name may have anything in it.
    let odd = "10.70000/../a%2Fb?c#d";
    assert_eq!(service.done(&["doi", "add", odd, "--url", "https://example.org/odd"]), odd);
    assert_eq!(service.json(&["doi", "show", odd])[0]["name"], odd);

    let transfer = service.done(&["doi", "transfer", "10.70000/soc", &minted, "--to", &shop]);
    let said = service.done(&["doi", "accept", &transfer]);
    assert!(said.contains("\n  state     done\n"), "{said}");
    let of_shop = service.json(&["doi", "list", "--registrant", &shop]);
    assert_eq!(of_shop.len(), 2, "{of_shop:?}");
    assert_eq!(service.json(&["doi", "list", "--prefix", "10.70000"]).len(), 4);
    assert_eq!(service.json(&["doi", "list", "--limit", "3"]).len(), 3);
    let table = stable(&service.done(&["doi", "list", "--registrant", press]), &[(press, "PRESS")]);
    let expected = "NAME                   STATE       REGISTRANT    URL                      UPDATED\n\
                    10.70000/../a%2Fb?c#d  registered  PRESS         https://example.org/odd  TIME\n\
                    10.70000/later         registered  PRESS         https://example.org/l    TIME";
    assert_eq!(table, expected);

    let ended = service.run(&["doi", "end", "10.70000/soc"]);
    assert!(String::from_utf8_lossy(&ended.stdout).contains("\n  state       tombstone\n"), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "it has ended, and is never given again\n");
    service.refused(&["doi", "set", "10.70000/soc", "--url", "https://example.org/"], 1, "(ended");
    let history = service.json(&["doi", "history", "10.70000/soc"]);
    let kinds: Vec<_> = history.iter().map(|change| change["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["create", "update", "update", "tombstone"]);
    let table = service.done(&["doi", "history", "10.70000/soc"]);
    assert!(
        table.lines().nth(2).unwrap().ends_with("update     operator  https://example.org/soc"),
        "{table}"
    );
}

#[test]
fn who_asks_and_whom() {
    let service = Service::start();
    let add = ["agency", "add", "X", "Y"];
    let without = service.command(&add).env_remove("TENDOT_TOKEN").output().unwrap();
    check(
        &without,
        2,
        "the operator's token is in the file `operator.token` of the service's data directory",
        &add,
    );
    // Not even beside it.
    assert!(service.directory.path().join("tendot-data/operator.token").exists());
    service.refused(
        &[&add[..], &["--token", "wrong"]].concat(),
        2,
        "hint: `--token` or TENDOT_TOKEN has one",
    );
    service.refused(&[&add[..], &["--token", "a\nb"]].concat(), 2, "error: the token is none");
    let public = service.command(&["agency", "list"]).env_remove("TENDOT_TOKEN").output().unwrap();
    assert!(public.status.success());
    // A flag wins over a variable.
    assert!(
        service
            .command(&["agency", "list", "--server", &service.address])
            .env("TENDOT_SERVER", "x")
            .output()
            .unwrap()
            .status
            .success()
    );
    service.refused(
        &["agency", "list", "--server", "http://127.0.0.1:1"],
        2,
        "hint: is it running? `tendot serve` starts a service",
    );
    service.refused(
        &["agency", "list", "--server", "localhost"],
        2,
        "error: `localhost` is no address of a service",
    );
    service.refused(
        &["agency", "list", "--server", "http://example.org"],
        2,
        "the token could be read on the way",
    );
    service.refused(&["agency", "show", "NONE"], 1, "error: there is no agency `NONE` (not-found)\n");
    service.refused(
        &["agency", "add", "LIB", "again"],
        1,
        "error: there is an agency `LIB` (agency-exists at /code)\n",
    );
    service.refused(&["agency", "show", ""], 2, "error: ");
    let none = service.run(&["doi", "list"]);
    assert_eq!(
        (String::from_utf8_lossy(&none.stderr).as_ref(), none.status.code()),
        ("there are none\n", Some(0))
    );
}

#[test]
fn over_tls() {
    let tls = [
        "--http",
        "off",
        "--https",
        "127.0.0.1:0",
        "--set",
        "http.tls.certificate=c.pem",
        "--set",
        "http.tls.key=k.pem",
    ];
    let service = Service::start_empty(&tls, "https://", |directory| {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(directory.join("c.pem"), certified.cert.pem()).unwrap();
        std::fs::write(directory.join("k.pem"), certified.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(directory.join("k.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();
    });
    assert_eq!(service.done(&["agency", "add", "LIB", "The library", "--trust", "c.pem"]), "LIB");
    let press = service.done(&["registrant", "add", "--agency", "LIB", "Press", "--trust", "c.pem"]);
    service.done(&["prefix", "add", "--registrant", &press, "--trust", "c.pem"]);
    service.write("names.csv", &batch(500, "csv"));
    let imported = service.run(&["doi", "import", "names.csv", "--trust", "c.pem"]);
    let said = String::from_utf8_lossy(&imported.stderr);
    assert!(said.contains("495 created, 0 updated, 0 unchanged, 5 refused; "), "{said}");
    // Nobody else vouches for it.
    service.refused(&["agency", "list"], 2, "can't be reached: ");
    service.refused(&["agency", "list", "--trust", "names.csv"], 2, "error: no certificate can be read");
}

/// What a service says does not steer a terminal (security row D7).
#[test]
fn nothing_from_outside_reaches_the_terminal_raw() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let evil = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J";
            let object =
                json!({"code": evil, "name": evil, "warnings": [evil], "state": [evil, {evil: evil}]});
            let (status, body) = match &line {
                line if line.contains("/agencies?") => ("200 OK", json!({"items": [object]})),
                line if line.contains("/agencies/") => ("200 OK", object),
                _ => (
                    "422 X",
                    json!({"status": 422, "code": evil, "detail": evil, "hint": evil, "pointer": evil, "since": evil,
                    "faults": [{}, {"pointer": evil, "message": evil}]}),
                ),
            };
            let body = body.to_string();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
            write!(
                stream,
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    for arguments in [["agency", "list"].as_slice(), &["agency", "show", "X"], &["doi", "show", "10.1/x"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_tendot"))
            .args(arguments)
            .args(["--server", &address])
            .output()
            .unwrap();
        let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(all.contains("\\u{1b}]0;owned\\u{7}\\u{202e}\\u{9b}2J"), "{all}");
        assert!(!all.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{all:?}");
    }
}

/// Names, of which one in a hundred is refused, and some are to be made.
fn batch(lines: usize, format: &str) -> String {
    let mut text = if format == "csv" { "name,prefix,url\n".to_owned() } else { String::new() };
    for number in 1..=lines {
        let (name, prefix, url) = match number {
            _ if number % 100 == 7 => (format!("10.70000/n{number}"), "", "//x".to_owned()),
            _ if number % 100 == 50 => (String::new(), "10.70000", format!("https://example.org/{number}")),
            _ => (format!("10.70000/n{number}"), "", format!("https://example.org/{number}")),
        };
        if format == "csv" {
            text += &format!("{name},{prefix},{url}\n");
        } else if prefix.is_empty() {
            text += &format!("{}\n", json!({"name": name, "url": url}));
        } else {
            text += &format!("{}\n", json!({"prefix": prefix, "url": url}));
        }
    }
    text
}

/// Each line has its result, in order, and the right one.
#[track_caller]
fn check_report(report: &str, lines: usize) {
    let results: Vec<Json> = report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), lines);
    for (number, result) in (1..=lines).zip(&results) {
        assert_eq!(result["line"], number, "{result}");
        let expected = if number % 100 == 7 { "refused" } else { "created" };
        assert_eq!(result["status"], expected, "{result}");
        assert_eq!(result["error"]["code"], if number % 100 == 7 { json!("bad-url") } else { Json::Null });
    }
}

#[test]
fn an_import_with_bad_lines() {
    let service = Service::start();
    service.write("names.ndjson", &batch(20_000, "ndjson"));
    let arguments = ["doi", "import", "names.ndjson", "--report", "report.ndjson"];
    let dry = service.run(&[&arguments[..], &["--dry-run", "--json"]].concat());
    let summary: Json = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(
        (&summary["created"], &summary["refused"], &summary["dry_run"]),
        (&json!(19_800), &json!(200), &json!(true))
    );
    assert_eq!(dry.status.code(), Some(1));
    assert!(service.json(&["doi", "list"]).is_empty());

    let first = service.run(&arguments);
    let said = String::from_utf8_lossy(&first.stderr);
    let line = "refused: `names.ndjson`, line 7: `10.70000/n7`: the address is relative: it needs a scheme such as `https:` (bad-url)\n";
    assert!(said.starts_with(line), "{said}");
    assert!(
        said.contains("refused: 100 more\n19800 created, 0 updated, 0 unchanged, 200 refused; "),
        "{said}"
    );
    assert!(!said.contains('\r') && !said.contains('\u{1b}'), "a bar nobody sees: {said}");
    assert_eq!(first.status.code(), Some(1));
    check_report(&service.read("report.ndjson"), 20_000);
    assert_eq!(service.json(&["doi", "list"]).len(), 19_800);

    // Curl waits for `100 Continue` before it sends so much.
    let address = format!("{}/api/v1/dois/batch?dry-run=true", service.address);
    let token = format!("Authorization: Bearer {}", service.token.trim());
    let mut curl = Command::new("curl");
    curl.current_dir(&service.directory).args(["-sSf", "-H", &token, "-H", "Expect: 100-continue"]);
    let answered = curl.args(["--data-binary", "@names.ndjson", &address]).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(answered.stdout.iter().filter(|byte| **byte == b'\n').count(), 20_000);

    // The same again is told, and done only with another key.
    let again = service.run(&arguments);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.starts_with("warning: `names.ndjson` was imported before"), "{said}");
    check_report(&service.read("report.ndjson"), 20_000);
    assert_eq!(service.json(&["doi", "list"]).len(), 19_800);
    let other = service.run(&["doi", "import", "names.ndjson", "--key", "another", "--json"]);
    let summary: Json = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(
        (&summary["unchanged"], &summary["created"]),
        (&json!(19_600), &json!(200)),
        "the made ones are others"
    );
    let reused = service.run(&["doi", "import", "report.ndjson", "--key", "another"]);
    check(&reused, 1, "(key-reused)", &["--key another"]);
}

#[test]
fn imports_from_everywhere() {
    let service = Service::start();
    service.write("one.csv", "name,url\n10.70000/a,https://example.org/a\n\"10.70000/b,c\",//x\n");
    service.write("two.txt", "{\"name\":\"10.70000/d\",\"url\":\"https://example.org/d\"}\n");
    let both = service.run(&["doi", "import", "one.csv", "two.txt", "--report", "report.csv"]);
    assert_eq!(both.status.code(), Some(1));
    let hint = "\"an address begins with `https://`, and has no user name and no line breaks\"";
    let expected = format!(
        "file,line,name,status,code,detail,pointer,hint\none.csv,2,10.70000/a,created,,,,\n\
         one.csv,3,\"10.70000/b,c\",refused,bad-url,the address is relative: it needs a scheme such as `https:`,/url,{hint}\n\
         two.txt,1,10.70000/d,created,,,,\n"
    );
    assert_eq!(service.read("report.csv"), expected);
    let both = service.run(&["doi", "import", "one.csv", "two.txt", "--key", "k", "--report", "-"]);
    let first = String::from_utf8(both.stdout).unwrap();
    assert!(
        first.starts_with(
            "{\"file\":\"one.csv\",\"line\":2,\"name\":\"10.70000/a\",\"status\":\"unchanged\"}\n"
        ),
        "{first}"
    );

    let mut standard = service.command(&["doi", "import", "-", "--format", "csv"]);
    let mut child = standard.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"doi,url\n10.70000/e,https://example.org/e\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("1 created, "), "{output:?}");
    assert!(output.status.success());

    service.write("empty.csv", "");
    service.refused(&["doi", "import", "empty.csv"], 2, "the first line names the columns");
    service.refused(&["doi", "import", "none.csv"], 2, "`none.csv` can't be read");
    service.refused(&["doi", "import", "."], 2, "`.` can't be read");
    service.refused(&["doi", "import", "one.csv", "--report", "./one.csv"], 2, "`one.csv` is to be imported");
    service.refused(
        &["doi", "import", "one.csv", "--report", "none/report"],
        2,
        "`none/report` can't be written",
    );
    service.refused(&["doi", "import", "one.csv", "--token", "wrong"], 2, "(not-authenticated)");
    service.refused(&["doi", "import", "one.csv", "--server", "http://127.0.0.1:1"], 2, "can't be reached");
}

/// Passes connections on, and cuts them after so many bytes from the client: a number for each cut, the last for all after it.
fn cutting(to: &str, after: Vec<u64>) -> String {
    let to = to.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let cuts = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut server = TcpStream::connect(&to).unwrap();
            let most = after.get(cuts.load(Ordering::SeqCst)).or(after.last()).copied().unwrap();
            let (mut back, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            let cuts = Arc::clone(&cuts);
            thread::spawn(move || {
                let passed = std::io::copy(&mut (&mut client).take(most), &mut server);
                if passed.is_ok_and(|passed| passed == most) {
                    cuts.fetch_add(1, Ordering::SeqCst);
                    // Some of it has been answered then.
                    thread::sleep(Duration::from_millis(300));
                }
                let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

#[test]
fn a_cut_import_goes_on() {
    let service = Service::start();
    let content = batch(20_000, "ndjson");
    let parts = [content.len() as u64 / 3, content.len() as u64 / 3 * 2];
    service.write("names.ndjson", &content);
    let proxy = cutting(&service.address, vec![parts[0], parts[1], u64::MAX]);
    let ran =
        service.run(&["doi", "import", "names.ndjson", "--report", "report.ndjson", "--server", &proxy]);
    let said = String::from_utf8_lossy(&ran.stderr);
    // The service cuts it off, too, while it is still busy with what came before.
    assert!(said.matches("was cut: ").count() >= 2, "{said}");
    assert!(said.contains("19800 created, 0 updated, 0 unchanged, 200 refused; "), "{said}");
    assert_eq!(ran.status.code(), Some(1), "{said}");
    check_report(&service.read("report.ndjson"), 20_000);
    // No name was made twice, and none was touched again.
    assert_eq!(service.json(&["doi", "list"]).len(), 19_800);
    for name in ["10.70000/n1", "10.70000/n10000", "10.70000/n20000"] {
        assert_eq!(service.json(&["doi", "history", name]).len(), 1, "{name}");
    }
}

/// Whoever is always cut gives up, says so, and goes on where it was another time.
#[test]
fn an_import_that_is_always_cut_ends() {
    let service = Service::start();
    let content = batch(4_000, "ndjson");
    service.write("names.ndjson", &content);
    let proxy = cutting(&service.address, vec![content.len() as u64 / 2]);
    let ran = service.run(&[
        "doi",
        "import",
        "names.ndjson",
        "--report",
        "report.ndjson",
        "--server",
        &proxy,
        "--tries",
        "2",
    ]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("2 of 2 times") && said.contains("hint: the same command goes on where it was"),
        "{said}"
    );
    let there = service.read("report.ndjson").lines().count();
    assert!(there > 100 && there < 2_100, "{there}");
    let ran = service.run(&["doi", "import", "names.ndjson", "--report", "report.ndjson"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    check_report(&service.read("report.ndjson"), 4_000);
    assert_eq!(service.json(&["doi", "list"]).len(), 3_960);
}

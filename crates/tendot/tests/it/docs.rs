//! The documentation is correct: tutorials are executed, generated pages are up to date, and every error code is described.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value as Json;
use tendot_testing::postgres::{chown_dir, pg_command};
use tendot_testing::{free_port, wait_for, workspace_root};

use crate::support::{StoreKind, TENDOT, TestDir, TestServer, stderr, tendot, tests_per_store};

mod pages;
mod security;
mod standards;

tests_per_store!(registry_tutorial);

/// Command of a page and its expected output.
struct DocCommand {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Commands in the `console` blocks of a page.
fn doc_commands(page: &str) -> Vec<DocCommand> {
    let mut commands: Vec<DocCommand> = Vec::new();
    let mut is_console = false;
    for (number, line) in page.lines().enumerate() {
        match (is_console, line) {
            (false, "```console") => is_console = true,
            (true, "```") => is_console = false,
            (false, _) => {}
            (true, line) => match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => {
                    commands.push(DocCommand {
                        line: number + 1,
                        command: command.to_owned(),
                        expected: Vec::new(),
                    });
                }
                (None, Some(step)) if step.expected.is_empty() && line.starts_with("> ") => {
                    step.command += &format!("\n{}", &line[2..]);
                }
                (None, Some(step)) => step.expected.push(line.to_owned()),
                (None, None) => panic!("line {}: output without a command", number + 1),
            },
        }
    }
    commands
}

/// Shell that executes a page; its processes are killed on drop.
struct DocShell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    dir: TestDir,
}

impl DocShell {
    fn start(variables: &[(&str, &str)], store: StoreKind) -> Self {
        let dir = TestDir::new();
        let programs = Path::new(TENDOT).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut process = Command::new("bash")
            .args(["--norc", "-s"])
            .current_dir(dir.path())
            .env("PATH", path)
            .envs(variables.iter().copied())
            .envs(store.env())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        writeln!(input, "exec 2>&1").unwrap();
        Self { process, input, output: BufReader::new(stdout), dir }
    }

    /// Output of a command; for a background command, until it is ready.
    fn run(&mut self, command: &str) -> String {
        if let Some(command) = command.strip_suffix(" &") {
            let log = self.dir.file("server.log");
            // May remain from an earlier server.
            let _ = std::fs::remove_file(&log);
            writeln!(self.input, "{command} > server.log 2>&1 < /dev/null &").unwrap();
            return wait_for(&format!("{command} is ready"), || {
                let output = std::fs::read_to_string(&log).unwrap_or_default();
                let is_ready = output.lines().any(|line| line.starts_with("ready")) && output.ends_with('\n');
                // On a busy machine a database host is reported as slow.
                let is_page = |line: &&str| !line.contains(r#""message":"database host unreachable""#);
                is_ready.then(|| output.lines().filter(is_page).map(|line| format!("{line}\n")).collect())
            });
        }
        // The next command may use `$?`.
        writeln!(self.input, "{{ {command}\n}} < /dev/null; status=$?; printf '\\036\\n'; (exit $status)")
            .unwrap();
        let mut output = String::new();
        loop {
            assert!(self.output.read_line(&mut output).unwrap() > 0, "the shell ended: {output}");
            if let Some(output) = output.strip_suffix("\u{1e}\n") {
                return output.to_owned();
            }
        }
    }
}

impl DocShell {
    /// Executes the commands of a page and compares their output; returns their number.
    fn follow(&mut self, path: &str, page: &str) -> usize {
        let commands = doc_commands(page);
        let number = commands.len();
        for DocCommand { line, command, expected } in commands {
            let output = self.run(&command);
            let lines: Vec<_> = output.lines().collect();
            assert!(matches(&expected, &lines), "{path}, line {line}:\n$ {command}\n{output}");
        }
        number
    }
}

impl Drop for DocShell {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.process.id())]).status();
        let _ = self.process.wait();
    }
}

/// True if the lines match: `…` matches any text, and on a line of its own any lines.
fn matches(expected: &[String], output: &[&str]) -> bool {
    match (expected.split_first(), output.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "…" => {
            (0..=output.len()).any(|passed| matches(rest, &output[passed..]))
        }
        (Some((first, rest)), Some((line, others))) => is_like(first, line) && matches(rest, others),
        _ => false,
    }
}

fn is_like(expected: &str, line: &str) -> bool {
    match expected.split_once('…') {
        None => expected == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|line| {
            line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| is_like(after, &line[at..]))
        }),
    }
}

fn registry_tutorial(store: StoreKind) {
    // Each test uses its own ports.
    let [http, native] = [(), ()].map(|()| format!("127.0.0.1:{}", free_port()));
    let page = std::fs::read_to_string(workspace_root().join("docs/tutorial/run-a-registry.md")).unwrap();
    let page = page.replace("127.0.0.1:8080", &http).replace("127.0.0.1:2641", &native);
    let mut variables = vec![("TENDOT_HTTP_ADDRESS", &*http), ("TENDOT_NATIVE_ADDRESS", &*native)];
    if store == StoreKind::Postgres {
        // At the level `info` the server also logs which database host is the primary, which the page does not show.
        variables.push(("TENDOT_LOG_LEVEL", "warn"));
    }
    let mut shell = DocShell::start(&variables, store);
    assert!(shell.follow("docs/tutorial/run-a-registry.md", &page) > 50);
}

/// The pages that `cargo xtask docs` writes are up to date.
#[test]
fn reference_pages_are_up_to_date() {
    let output = tendot()
        .args(["reference", "--check", "--dir"])
        .arg(workspace_root().join("docs/reference"))
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Stops the servers started by a page, which outlive the shell.
struct PostgresServers<'a>(&'a Path);

impl Drop for PostgresServers<'_> {
    fn drop(&mut self) {
        for name in ["one", "two", "three"] {
            let mut stop = pg_command("pg_ctl");
            let stopped = stop.args(["-m", "immediate", "-s", "stop", "-D"]).arg(self.0.join(name)).output();
            assert!(stopped.is_ok());
        }
    }
}

#[test]
fn postgresql_tutorial() {
    let page = workspace_root().join("docs/tutorial/postgresql-cluster.md");
    let mut page = std::fs::read_to_string(page).unwrap();
    for port in ["5431", "5432", "5433", "8081", "8082", "8083"] {
        page = page.replace(port, &free_port().to_string());
    }
    // Programs of PostgreSQL do not run as root; these scripts start them as another user.
    let programs = TestDir::new();
    for name in ["initdb", "pg_basebackup", "pg_ctl", "psql"] {
        let program = pg_command(name);
        let words = [program.get_program()].into_iter().chain(program.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
        programs.write(name, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")));
        programs.set_mode(name, 0o755);
    }
    let mut shell = DocShell::start(&[], StoreKind::Embedded);
    let directory = shell.dir.path().to_owned();
    let _servers = PostgresServers(&directory);
    chown_dir(&directory);
    shell.run(&format!("PATH={}:$PATH", programs.path().display()));
    assert!(shell.follow("docs/tutorial/postgresql-cluster.md", &page) > 30);
}

/// Every command on the page `/docs` of a server works.
#[test]
fn docs_page_commands_work() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().with_native().start();
    // Configuration of curl: a status of 400 or more is a failure.
    dir.write(".curlrc", "fail\nshow-error\n");
    let run = |command: &str| {
        let output = Command::new("sh")
            .args(["-c", command])
            .env("SERVER", server.url())
            .env("TOKEN", server.token())
            .env("CURL_HOME", dir.path())
            .output()
            .unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && !stdout.is_empty(), "{command}: {stdout}{stderr}");
        stdout.into_owned()
    };
    let document: Json = serde_json::from_str(&run("curl -s $SERVER/openapi.json")).unwrap();
    let page = run("curl -s $SERVER/docs");
    let mut commands = Vec::new();
    for path in document["paths"].as_object().unwrap().values() {
        for method in ["get", "post", "put", "delete"] {
            let samples = path[method]["x-codeSamples"].as_array().into_iter().flatten();
            commands.extend(samples.map(|sample| sample["source"].as_str().unwrap()));
        }
    }
    for command in &commands {
        let shown = command.replace('"', "&#34;").replace('&', "&#38;").replace("&#38;#34;", "&#34;");
        assert!(page.contains(&shown.replace('\'', "&#39;")), "{command} is not on the page");
        let stdout = run(command);
        let is_redirect = stdout.contains("\r\nlocation: https://example.org/\r\n")
            || stdout.contains("\r\nlocation: https://example.net/copies/2\r\n")
            || stdout.contains("\r\nlocation: /10.5555/DEMO\r\n");
        assert_eq!(command.contains("curl -si"), is_redirect, "{command}: {stdout}");
        if command.contains("/api/handles/") {
            let response: Json = serde_json::from_str(&stdout).unwrap();
            assert_eq!(response["responseCode"], 1, "{command}");
        }
    }
    assert!(commands.len() > 12, "{commands:?}");
}

#[test]
fn output_pattern_matching() {
    let check =
        |expected: &str, line: &str, is: bool| assert_eq!(is_like(expected, line), is, "{expected} {line}");
    check("a", "a", true);
    check("a", "ab", false);
    check("a…", "ab", true);
    check("a…c", "abbc", true);
    check("a…c", "abb", false);
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(matches(&lines("a … d"), &["a", "b", "c", "d"]) && matches(&lines("a …"), &["a"]));
    assert!(
        !matches(&lines("a … d"), &["a", "b"])
            && !matches(&lines("a"), &["a", "b"])
            && !matches(&lines("a b"), &["a"])
    );
}

/// Text of all Rust files in a directory, without their unit tests.
fn sources(dir: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            texts.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
        }
    }
}

/// The first literal of each call, if nothing but a path or a variable stands before it, and it is written as a code.
fn codes_of(text: &str, call: &str) -> BTreeSet<String> {
    let is_plain = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_:,&".contains(c);
    let after = text.split(call).skip(1);
    let literals = after.filter_map(|rest| {
        let (before, rest) = rest.split_once('"')?;
        let literal = rest.split('"').next()?;
        let is_code = !literal.is_empty() && literal.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        (before.chars().all(is_plain) && is_code).then(|| literal.to_owned())
    });
    literals.collect()
}

/// `reference_pages_are_up_to_date` compares the page with the two tables of codes; here no code bypasses them.
#[test]
fn every_error_code_is_documented() {
    let mut texts = Vec::new();
    for path in ["crates/tendot-registry/src", "crates/tendot-server/src/http"] {
        sources(&workspace_root().join(path), &mut texts);
    }
    let mut literals = BTreeSet::new();
    for text in &texts {
        let code = text.split("#[cfg(test)]").next().unwrap();
        for call in ["RegistryError::new(", "Self::new(", "problem(", "Problem::new(", "with_code("] {
            literals.extend(codes_of(code, call));
        }
    }
    assert!(literals.is_empty(), "codes that are in no table: {literals:?}");
    let page = std::fs::read_to_string(workspace_root().join("docs/reference/errors.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert!(rows > 70, "{rows} codes are documented");
}

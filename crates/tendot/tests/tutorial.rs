//! The pages about the registry say what is true: the tutorial is executed as it stands, and every error has its line.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command of a page, and what it prints there.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// The commands of the `console` blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for (number, line) in page.lines().enumerate() {
        match (is_console, line) {
            (false, "```console") => is_console = true,
            (true, "```") => is_console = false,
            (false, _) => {}
            (true, line) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { line: number + 1, command: command.to_owned(), expected: Vec::new() });
                }
                (None, Some(step)) if step.expected.is_empty() && line.starts_with("> ") => {
                    step.command += &format!("\n{}", &line[2..]);
                }
                (None, Some(step)) => step.expected.push(line.to_owned()),
                (None, None) => panic!("line {}: output without a command", number + 1),
            },
        }
    }
    steps
}

/// A shell that keeps its variables from one command to the next. All that it started ends with it.
struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
}

impl Shell {
    fn start(variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let folder = Path::new(env!("CARGO_BIN_EXE_tendot")).parent().unwrap().to_owned();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut process = Command::new("bash")
            .args(["--norc", "-s"])
            .current_dir(&directory)
            .env("PATH", path)
            .envs(variables.iter().copied())
            .envs(database())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        writeln!(input, "exec 2>&1").unwrap();
        Self { process, input, output: BufReader::new(output), directory }
    }

    /// What a command prints; one in the background until it says that it is ready.
    fn run(&mut self, command: &str) -> String {
        if let Some(command) = command.strip_suffix(" &") {
            let (log, started) = (self.directory.path().join("service.log"), Instant::now());
            // Another service may have left one.
            let _ = std::fs::remove_file(&log);
            writeln!(self.input, "{command} > service.log 2>&1 < /dev/null &").unwrap();
            loop {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                if said.lines().any(|line| line.starts_with("ready")) && said.ends_with('\n') {
                    return said;
                }
                assert!(started.elapsed() < Duration::from_secs(60), "{command} is not ready: {said}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // What `$?` is has to stay.
        writeln!(self.input, "{{ {command}\n}} < /dev/null; status=$?; printf '\\036\\n'; (exit $status)")
            .unwrap();
        let mut said = String::new();
        loop {
            assert!(self.output.read_line(&mut said).unwrap() > 0, "the shell ended: {said}");
            if let Some(said) = said.strip_suffix("\u{1e}\n") {
                return said.to_owned();
            }
        }
    }
}

impl Shell {
    /// Executes the commands of a page, which have to say what stands there. Gives their number.
    fn follow(&mut self, path: &str, page: &str) -> usize {
        let steps = steps(page);
        let number = steps.len();
        for Step { line, command, expected } in steps {
            let said = self.run(&command);
            let lines: Vec<_> = said.lines().collect();
            assert!(matches(&expected, &lines), "{path}, line {line}:\n$ {command}\n{said}");
        }
        number
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.process.id())]).status();
        let _ = self.process.wait();
    }
}

/// In the program `postgres`, which has the same tests once more, the store is a database of its own.
fn database() -> Vec<(&'static str, String)> {
    match env!("CARGO_CRATE_NAME") {
        // Which server takes changes is told, too.
        "postgres" => {
            vec![
                ("TENDOT_STORE", tendot_testing::postgres::create_database_url()),
                ("TENDOT_LOG_LEVEL", "warn".into()),
            ]
        }
        _ => Vec::new(),
    }
}

/// Whether lines are as expected: `…` is any text, and on a line of its own any lines.
fn matches(expected: &[String], said: &[&str]) -> bool {
    match (expected.split_first(), said.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "…" => {
            (0..=said.len()).any(|passed| matches(rest, &said[passed..]))
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

#[test]
fn the_tutorial_is_true() {
    let [http, native] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [http, native] = [http, native].map(|listener| listener.local_addr().unwrap().to_string());
    let page = std::fs::read_to_string(root().join("docs/registry.md")).unwrap();
    // Others on this machine may be asked at the usual ports.
    let page = page.replace("127.0.0.1:8080", &http).replace("127.0.0.1:2641", &native);
    let mut shell = Shell::start(&[("TENDOT_HTTP_ADDRESS", &http), ("TENDOT_NATIVE_ADDRESS", &native)]);
    assert!(shell.follow("docs/registry.md", &page) > 50);
}

/// The servers of the page, which outlive the shell.
struct Databases(PathBuf);

impl Drop for Databases {
    fn drop(&mut self) {
        for name in ["one", "two", "three"] {
            let mut stop = tendot_testing::postgres::pg_command("pg_ctl");
            let stopped = stop.args(["-m", "immediate", "-s", "stop", "-D"]).arg(self.0.join(name)).output();
            assert!(stopped.is_ok());
        }
    }
}

#[test]
fn the_page_about_postgresql_is_true() {
    let mut page = std::fs::read_to_string(root().join("docs/operating-postgresql.md")).unwrap();
    let listeners: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    for (port, listener) in ["5431", "5432", "5433", "8081", "8082", "8083"].iter().zip(listeners) {
        page = page.replace(port, &listener.local_addr().unwrap().port().to_string());
    }
    // PostgreSQL's programs do not run as root, and so others do it for them.
    let programs = tempfile::tempdir().unwrap();
    for name in ["initdb", "pg_basebackup", "pg_ctl", "psql"] {
        let program = tendot_testing::postgres::pg_command(name);
        let words = [program.get_program()].into_iter().chain(program.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
        let path = programs.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "))).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut shell = Shell::start(&[]);
    let _databases = Databases(shell.directory.path().to_owned());
    tendot_testing::postgres::chown_dir(shell.directory.path());
    shell.run(&format!("PATH={}:$PATH", programs.path().display()));
    assert!(shell.follow("docs/operating-postgresql.md", &page) > 30);
}

#[test]
fn what_is_like_what() {
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

/// All files of Rust in a folder, as text without tests.
fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
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

#[test]
fn every_error_is_told() {
    let crates = root().join("crates");
    let mut texts = Vec::new();
    sources(&crates.join("tendot-registry/src"), &mut texts);
    sources(&crates.join("tendot-server/src/http/registry"), &mut texts);
    let mut codes = BTreeSet::new();
    for text in &texts {
        for call in ["Refusal::new(", "Refusal::invalid(", "Self::new(Reason", "Self::invalid(", "problem("] {
            codes.extend(codes_of(text, call));
        }
    }
    let read = |path: &str| std::fs::read_to_string(crates.join(path)).unwrap();
    // What is wrong with a body, with who asks, and with metadata.
    let body = read("tendot-server/src/http/body.rs");
    codes.extend(codes_of(body.split("fn code(").nth(1).unwrap(), "=> "));
    let faults = read("tendot-registry/src/metadata/fault.rs");
    codes.extend(codes_of(&faults, "=> "));
    let pages = codes_of(&read("tendot-server/src/http/page/problem.rs"), "Problem::new(");
    codes.insert("not-authenticated".into());
    assert!(codes.len() > 70 && pages.contains("not-authenticated"), "{codes:?} {pages:?}");

    let page = std::fs::read_to_string(root().join("docs/api-errors.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let told: BTreeSet<_> = rows.map(str::to_owned).collect();
    let missing: Vec<_> = codes.difference(&told).collect();
    assert!(missing.is_empty(), "docs/api-errors.md does not tell of {missing:?}");
    let gone: Vec<_> = told.iter().filter(|code| !codes.contains(*code) && !pages.contains(*code)).collect();
    assert!(gone.is_empty(), "docs/api-errors.md tells of {gone:?}, which nobody says");
}

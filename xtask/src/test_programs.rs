//! Builds test programs and runs them in parallel, each as soon as it is built.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use xshell::cmd;

use crate::passed::PassedRecords;
use crate::process::shell;
use crate::report::{Counts, Report};
use crate::root;

/// Programs that run at the same time: most of their time they wait for servers, disks and each other.
const PROGRAMS_AT_ONCE: usize = 2;

/// Threads of each program.
const THREADS: &str = "4";

/// A program that has not finished by then hangs.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(5400);

/// The environment in which Cargo compiles the crates of the workspace with clippy, and all others as always. CI builds once, and
/// so is faster without what later builds could use.
pub(crate) fn build_environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_ci = std::env::var_os("CI").is_some();
    [("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")]
        .into_iter()
        .chain(is_ci.then_some(("CARGO_INCREMENTAL", "0")))
}

/// Which tests are built and how their programs are run.
pub(crate) struct TestRun<'a> {
    /// Arguments of `cargo test`, without `--no-run`.
    pub(crate) cargo: &'a [&'a str],
    /// Arguments of each program.
    pub(crate) arguments: &'a [&'a str],
    /// Environment of each program, known when the first one is built.
    pub(crate) environment: &'a (dyn Fn() -> Vec<(String, String)> + Sync),
    /// Results of earlier runs; programs that passed and can't have changed are not run again.
    pub(crate) passed: Option<&'a PassedRecords>,
    /// Prefix of the rows in the table.
    pub(crate) label: &'a str,
}

#[derive(Clone)]
struct Program {
    name: String,
    package: PathBuf,
    path: PathBuf,
}

/// The programs that take longest: they are started first, so that none of them is left over at the end.
const SLOWEST_PROGRAMS: [&str; 5] =
    ["tendot-registry it", "tendot-store disk", "tendot-store it", "tendot it", "tendot-server it"];

impl Program {
    /// Integration tests of the command start the program that is built beside them.
    fn depends_on(&self) -> Vec<PathBuf> {
        let is_of_command = self.package.join("src/main.rs").exists() && !self.name.ends_with("(bin)");
        if is_of_command { vec![root().join("target/debug/tendot")] } else { Vec::new() }
    }

    /// Larger for programs that take longer.
    fn weight(&self) -> usize {
        SLOWEST_PROGRAMS.iter().position(|name| *name == self.name).map_or(0, |at| at + 1)
    }
}

/// Programs that are built and wait to be run.
#[derive(Default)]
struct ProgramQueue {
    /// The programs, and whether all are built.
    state: Mutex<(Vec<Program>, bool)>,
    changed: Condvar,
}

impl ProgramQueue {
    fn push(&self, program: Program) {
        self.state.lock().expect("no panic while it is held").0.push(program);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.state.lock().expect("no panic while it is held").1 = true;
        self.changed.notify_all();
    }

    /// The program that takes longest of those that wait; none when all were run.
    fn pop(&self) -> Option<Program> {
        let state = self.state.lock().expect("no panic while it is held");
        let is_waiting = |state: &mut (Vec<Program>, bool)| state.0.is_empty() && !state.1;
        let mut state = self.changed.wait_while(state, is_waiting).expect("no panic while it is held");
        let (at, _) = state.0.iter().enumerate().max_by_key(|(_, program)| program.weight())?;
        Some(state.0.swap_remove(at))
    }
}

impl TestRun<'_> {
    /// Builds and runs the programs, and calls `after_build` while they still run; a row in the report for the build, and one
    /// for each program.
    pub(crate) fn run(&self, report: &Report, after_build: impl FnOnce()) {
        let queue = &ProgramQueue::default();
        std::thread::scope(|scope| {
            for _ in 0..PROGRAMS_AT_ONCE {
                scope.spawn(move || self.run_programs(queue, report));
            }
            report.step(&format!("{}build, clippy", self.label), || {
                let result = build(self.cargo, |program| queue.push(program));
                queue.close();
                let warnings = result?;
                Ok(Counts { passed: u64::from(warnings == 0), failed: warnings })
            });
            after_build();
        });
    }

    fn run_programs(&self, queue: &ProgramQueue, report: &Report) {
        while let Some(program) = queue.pop() {
            let depends_on = program.depends_on();
            if let Some(passed) = self.passed.and_then(|records| records.get(&program.path, &depends_on)) {
                let name = format!("{} (unchanged)", program.name);
                report.step(&name, || Ok(Counts { passed, failed: 0 }));
                continue;
            }
            report.step(&format!("{}{}", self.label, program.name), || {
                let counts = self.run_program(&program)?;
                if let Some(records) = self.passed
                    && counts.failed == 0
                {
                    records.insert(&program.path, &depends_on, counts.passed)?;
                }
                Ok(counts)
            });
        }
    }

    #[allow(clippy::print_stderr, reason = "the output of failed tests is what the command is for")]
    fn run_program(&self, program: &Program) -> Result<Counts> {
        let logs = root().join("target/xtask/logs");
        fs::create_dir_all(&logs)?;
        let log_path = logs.join(format!("{}{}.log", self.label, program.name).replace(['/', ' '], "-"));
        let mut log = File::options().create(true).truncate(true).read(true).write(true).open(&log_path)?;
        let mut command = Command::new(&program.path);
        command
            .args(self.arguments)
            .current_dir(&program.package)
            .env("CARGO_MANIFEST_DIR", &program.package)
            .envs((self.environment)())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", THREADS);
        }
        let start = Instant::now();
        let mut process = command.spawn().with_context(|| format!("{command:?}"))?;
        let status = wait(&mut process, PROGRAM_TIMEOUT)?;
        log.rewind()?;
        let mut output = String::new();
        for text in BufReader::new(log).split(b'\n') {
            output += &String::from_utf8_lossy(&text?);
            output.push('\n');
        }
        let mut counts = result_line(&output).unwrap_or_default();
        if !status.success() {
            counts.failed = counts.failed.max(1);
            let begin = output.find("\nfailures:\n").unwrap_or(0);
            eprintln!(
                "{}\n{} failed ({status}); all of its output: {}",
                &output[begin..],
                program.name,
                log_path.display()
            );
        }
        eprintln!(
            "{:<40} {:>5} passed {:>3} failed {:>6.1} s",
            format!("{}{}", self.label, program.name),
            counts.passed,
            counts.failed,
            start.elapsed().as_secs_f64()
        );
        Ok(counts)
    }
}

/// Builds with `cargo test --no-run` and reports each test program as soon as it is there; returns the number of warnings.
///
/// Clippy compiles the crates of the workspace: a build with its warnings takes a little longer than one without, and far less
/// than a build and a check.
#[allow(clippy::print_stderr, reason = "warnings are what clippy is for")]
fn build(arguments: &[&str], mut built: impl FnMut(Program)) -> Result<u64> {
    let sh = shell()?;
    let command =
        cmd!(sh, "cargo test {arguments...} --no-run --message-format=json").envs(build_environment());
    let line = command.to_string();
    let mut process = Command::from(command).stdout(Stdio::piped()).spawn()?;
    // Integration tests may start the programs of their package, which Cargo may build after them.
    let (mut waiting, mut packages_with_programs) = (Vec::new(), Vec::new());
    let mut warnings = 0;
    for text in BufReader::new(process.stdout.take().context("no stdout")?).lines() {
        let message: Value = serde_json::from_str(&text?)?;
        if message["reason"] == "compiler-message" {
            let diagnostic = &message["message"];
            eprint!("{}", diagnostic["rendered"].as_str().unwrap_or_default());
            // The last message of a crate counts the others, and is at no place.
            let has_place = diagnostic["spans"].as_array().is_some_and(|spans| !spans.is_empty());
            warnings +=
                u64::from(has_place && matches!(diagnostic["level"].as_str(), Some("warning" | "error")));
            continue;
        }
        let Some(path) = message["executable"].as_str() else { continue };
        let manifest = Path::new(message["manifest_path"].as_str().context("no manifest")?);
        let package = manifest.parent().context("a manifest is in a directory")?.to_owned();
        let name = package.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
        let target = message["target"]["name"].as_str().unwrap_or_default();
        if message["profile"]["test"] == true {
            let is_integration = kind == "test";
            let name = if is_integration { format!("{name} {target}") } else { format!("{name} ({kind})") };
            let has_program = package.join("src/main.rs").exists();
            let program = Program { name, package, path: path.into() };
            if is_integration && has_program && !packages_with_programs.contains(&program.package) {
                waiting.push(program);
            } else {
                built(program);
            }
        } else if kind == "bin" {
            waiting.extract_if(.., |program| program.package == package).for_each(&mut built);
            packages_with_programs.push(package);
        }
    }
    waiting.into_iter().for_each(built);
    ensure!(process.wait()?.success(), "`{line}` failed");
    Ok(warnings)
}

/// The last line of a program's output that has the counts.
fn result_line(output: &str) -> Option<Counts> {
    output.lines().rev().find_map(parse_result)
}

/// `test result: ok. 12 passed; 0 failed; …`
pub(crate) fn parse_result(line: &str) -> Option<Counts> {
    let mut words = line.strip_prefix("test result: ")?.split_whitespace().skip(1);
    let mut number = |unit: &str| {
        let number = words.next()?.parse().ok()?;
        (words.next()? == unit).then_some(number)
    };
    Some(Counts { passed: number("passed;")?, failed: number("failed;")? })
}

/// Kills a process that has not ended when the timeout expires.
fn wait(process: &mut Child, timeout: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            process.kill()?;
            return Ok(process.wait()?);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

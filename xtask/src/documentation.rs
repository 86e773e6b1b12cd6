//! Documentation checks: rustdoc without warnings, and doc tests.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, bail};
use xshell::cmd;

use crate::passed::{data_fingerprint, modified};
use crate::process::shell;
use crate::report::Counts;
use crate::root;
use crate::test_programs::{build_environment, parse_result};

/// Environment variable that makes this program act [as rustdoc](document_and_test); its value is the path of the real rustdoc.
pub(crate) const RUSTDOC_ENV: &str = "TENDOT_XTASK_RUSTDOC";

/// Environment variable with the fingerprint of files that examples may read; unset to test all crates again.
const DATA_ENV: &str = "TENDOT_XTASK_DATA";

/// Documents the libraries with warnings denied and runs their examples, against the crates that the tests were built with:
/// `cargo doc` would check every dependency again first.
pub(crate) fn check_libraries(arguments: &[&str], is_rerun: bool) -> Result<Counts> {
    let sh = shell()?;
    let rustdoc = cmd!(sh, "rustup which rustdoc").read()?;
    let mut command = cmd!(sh, "cargo test --doc --no-fail-fast {arguments...}").envs(build_environment());
    command = command.env("RUSTDOC", std::env::current_exe()?).env(RUSTDOC_ENV, rustdoc);
    if !is_rerun {
        command = command.env(DATA_ENV, data_fingerprint()?);
    }
    let line = command.to_string();
    let output = Command::from(command).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut total = Counts::default();
    for counts in text.lines().filter_map(parse_result) {
        total.passed += counts.passed;
        total.failed += counts.failed;
    }
    if !output.status.success() {
        bail!("{text}\n`{line}` failed");
    }
    Ok(total)
}

/// Replaces rustdoc when Cargo runs the doc tests of a library: documents the library first, with warnings denied. If nothing has
/// changed since both passed, prints the earlier results.
pub(crate) fn document_and_test(rustdoc: OsString) -> Result<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some(library) = library(&arguments) else { bail!("no library in {arguments:?}") };
    let record = root().join("target/xtask/documentation").join(&library.name);
    let state = std::env::var(DATA_ENV).ok().map(|data| format!("{data} {:?}", modified(&library.path)));
    if let Some(state) = &state
        && let Ok(text) = fs::read_to_string(&record)
        && let Some(results) = text.strip_prefix(&format!("{state}\n"))
    {
        print(results);
        return Ok(ExitCode::SUCCESS);
    }
    if !document(&rustdoc, &arguments, &library.name)? {
        return Ok(ExitCode::FAILURE);
    }
    let output = Command::new(rustdoc).args(&arguments).stderr(Stdio::inherit()).output()?;
    let results = String::from_utf8_lossy(&output.stdout);
    print(&results);
    if !output.status.success() {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(state) = state {
        fs::create_dir_all(root().join("target/xtask/documentation"))?;
        fs::write(record, format!("{state}\n{results}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Library to document.
struct Library {
    name: String,
    /// The compiled library.
    path: PathBuf,
}

/// Library from `--crate-name NAME … --extern NAME=PATH`.
fn library(arguments: &[OsString]) -> Option<Library> {
    let after = |option: &'static str| {
        arguments.windows(2).filter(move |pair| pair[0] == option).filter_map(|pair| pair[1].to_str())
    };
    let name = after("--crate-name").next()?;
    let path =
        after("--extern").filter_map(|value| value.split_once('=')).find(|(other, _)| *other == name)?.1;
    Some(Library { name: name.to_owned(), path: path.into() })
}

/// Runs rustdoc with the arguments of the doc tests to write documentation; returns false on warnings.
fn document(rustdoc: &OsString, arguments: &[OsString], name: &str) -> Result<bool> {
    let mut command = Command::new(rustdoc);
    let mut arguments = arguments.iter().peekable();
    let own_prefix = format!("{name}=");
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--test") => {}
            Some("--test-run-directory" | "--test-args") => {
                arguments.next();
            }
            // A library is not a dependency of its own documentation.
            Some("--extern")
                if arguments
                    .peek()
                    .and_then(|value| value.to_str())
                    .is_some_and(|value| value.starts_with(&own_prefix)) =>
            {
                arguments.next();
            }
            _ => {
                command.arg(argument);
            }
        }
    }
    let status = command.args(["-D", "warnings", "--out-dir"]).arg(root().join("target/doc")).status()?;
    Ok(status.success())
}

/// Documents everything with `cargo doc`, also programs.
pub(crate) fn check_programs(arguments: &[&str]) -> Result<()> {
    let sh = shell()?;
    Ok(cmd!(sh, "cargo doc {arguments...} --no-deps").env("RUSTDOCFLAGS", "-D warnings").run()?)
}

#[allow(clippy::print_stdout, reason = "Cargo passes it on")]
fn print(results: &str) {
    print!("{results}");
}

//! Development commands, `cargo xtask COMMAND`; CI runs `cargo xtask test`.

mod bench;
mod docs;
mod documentation;
mod fuzz;
mod interop;
mod passed;
mod peers;
mod process;
mod release_check;
mod report;
mod screenshots;
mod supply_chain;
mod test;
mod test_programs;
mod unicode;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::BenchCommand;
use clap::{Parser, Subcommand};

/// Development commands; CI runs `cargo xtask test`
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct XtaskArguments {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Format, language check, clippy, unit tests of what changed
    Check,
    /// Everything that CI runs, without test programs that are unchanged since they passed
    Test {
        /// Also long tests: fuzzing, thousands of kills, all feature sets, PostgreSQL 16 and 18, packages, the oldest Rust
        /// version
        #[arg(long)]
        full: bool,
        /// Also run test programs that are unchanged since they passed
        #[arg(long)]
        rerun: bool,
    },
    /// Kill the primary under load, promote a standby, report lost writes
    Failover,
    /// Run the PostgreSQL tests with versions 16 and 18
    PostgresVersions,
    /// Build the packages of all published crates, and compile with the oldest supported Rust version
    ReleaseCheck,
    /// Send the same requests to Tendot and Handle.Net and compare the responses
    Interop {
        /// Program to test [default: built from this workspace]
        tendot: Option<PathBuf>,
    },
    /// Fuzz one target or all
    Fuzz {
        /// Target [default: all]
        target: Option<String>,
        /// Time per target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Minimize the corpus of a fuzz target and save it
    FuzzMinimize {
        /// Target
        target: String,
    },
    /// Check dependencies for known vulnerabilities, with cargo-deny or cargo-audit
    Advisories,
    /// Write the bill of materials of the program (CycloneDX)
    Sbom {
        /// Output file [default: target/sbom/tendot-TARGET.cdx.json]
        file: Option<PathBuf>,
        /// Platform [default: this one]
        #[arg(long)]
        target: Option<String>,
    },
    /// Generate docs/reference/cli.md, settings.md and errors.md
    Docs,
    /// Write docs/images/*.png with headless Chromium
    Screenshots,
    /// Generate the character table from the Unicode database
    Unicode,
    /// Compare with other programs; most benchmarks write their section of docs/reference/performance.md
    #[command(subcommand)]
    Bench(BenchCommand),
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn main() -> anyhow::Result<ExitCode> {
    if let Some(rustdoc) = std::env::var_os(documentation::RUSTDOC_ENV) {
        return documentation::document_and_test(rustdoc);
    }
    let arguments = XtaskArguments::parse_from(expand_bench_alias(std::env::args_os().collect()));
    run(arguments.command)?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces `bench-http`, the old name of `bench http`.
fn expand_bench_alias(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.get(1).and_then(|word| word.to_str()?.strip_prefix("bench-").map(OsString::from));
    if let Some(name) = name {
        arguments.splice(1..2, ["bench".into(), name]);
    }
    arguments
}

fn run(command: XtaskCommand) -> anyhow::Result<()> {
    match command {
        XtaskCommand::Check => test::check(),
        XtaskCommand::Test { full, rerun } => test::test(full, rerun),
        XtaskCommand::Failover => test::failover(),
        XtaskCommand::PostgresVersions => report::Report::of(test::postgres_versions),
        XtaskCommand::ReleaseCheck => report::Report::of(release_check::check),
        XtaskCommand::Interop { tendot } => interop::run(tendot.as_deref()),
        XtaskCommand::Fuzz { target, seconds } => {
            let counts = fuzz::fuzz(target.as_deref(), seconds)?;
            anyhow::ensure!(counts.failed == 0, "{} targets failed", counts.failed);
            Ok(())
        }
        XtaskCommand::FuzzMinimize { target } => fuzz::minimize_corpus(&target),
        XtaskCommand::Advisories => supply_chain::check_advisories(),
        XtaskCommand::Sbom { file, target } => supply_chain::write_sbom(target, file.as_deref()),
        XtaskCommand::Docs => docs::write_reference_pages(),
        XtaskCommand::Screenshots => screenshots::take_screenshots(),
        XtaskCommand::Unicode => unicode::unicode(),
        XtaskCommand::Bench(command) => bench::run(command),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_well_formed() {
        XtaskArguments::command().debug_assert();
    }

    #[test]
    fn old_benchmark_names_are_aliases() {
        for line in ["bench-http", "bench-store 1000 2000", "bench-batches", "bench-postgres-store"] {
            let words = std::iter::once("xtask").chain(line.split(' ')).map(OsString::from).collect();
            let parsed = XtaskArguments::try_parse_from(expand_bench_alias(words));
            assert!(
                matches!(parsed, Ok(XtaskArguments { command: XtaskCommand::Bench(_) })),
                "{line}: {parsed:?}"
            );
        }
        assert!(XtaskArguments::try_parse_from(["xtask", "bench", "nothing"]).is_err());
    }
}

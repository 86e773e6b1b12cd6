//! Development commands, `cargo xtask COMMAND`; CI runs `cargo xtask test`.

mod bench;
mod docs;
mod documentation;
mod fuzz;
mod interop;
mod passed;
mod peers;
mod process;
mod report;
mod screenshots;
mod test;
mod test_programs;
mod unicode;
mod words;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check                    format, language check, clippy, unit tests of what changed
  test                     everything that CI runs, without test programs that are unchanged since they passed
  test --rerun             everything that CI runs
  test --full              also long fuzzing, thousands of kills, all feature sets, PostgreSQL 16 and 18
  failover                 kill the primary under load, promote a standby, report lost writes
  postgres-versions        run the PostgreSQL tests with versions 16 and 18
  interop [TENDOT]         send the same requests to Tendot and Handle.Net and compare the responses
  fuzz [TARGET] [SECONDS]  fuzz one target or all [default: 60 seconds each]
  fuzz-minimize TARGET     minimize the corpus of a target and save it
  docs                     generate docs/reference/cli.md, settings.md and errors.md
  screenshots              write docs/images/*.png with headless Chromium
  unicode                  generate the character table from the Unicode database

Benchmarks, as ratios to other programs; each writes its section of docs/reference/performance.md:
  bench names              parse, extract, messages, JSON
  bench store [RECORDS]…   embedded store against LMDB and PostgreSQL; with sizes, only these, and nothing is written
  bench batch              batch inserts against PostgreSQL; prints only
  bench registry           registrations over HTTP, change feed delay
  bench http               redirects and JSON against nginx and Handle.Net
  bench native             native protocol against a fixed-response server and Handle.Net
  bench postgres           PostgreSQL store against psql and pgbench
  bench postgres-http      redirects from PostgreSQL against the embedded store, two servers against one
  bench build              build time, size and speed of the profiles `dist` and `release`
  bench compare OLD NEW    two builds of tendot: instructions per request, requests per second; prints only";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn main() -> anyhow::Result<ExitCode> {
    match std::env::var_os(documentation::RUSTDOC_ENV) {
        Some(rustdoc) => documentation::document_and_test(rustdoc),
        None => run().map(|()| ExitCode::SUCCESS),
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // `bench-http` is an alias of `bench http`.
    if let Some(name) = words.first().and_then(|word| word.strip_prefix("bench-")) {
        words.splice(..1, ["bench", name]);
    }
    match words.as_slice() {
        ["check"] => test::check(),
        ["test"] => test::test(false, false),
        ["test", "--rerun"] => test::test(false, true),
        ["test", "--full"] => test::test(true, true),
        ["fuzz"] => fuzz::fuzz(None, 60).map(drop),
        ["fuzz", seconds] if seconds.parse::<u32>().is_ok() => fuzz::fuzz(None, seconds.parse()?).map(drop),
        ["fuzz", target] => fuzz::fuzz(Some(target), 60).map(drop),
        ["fuzz", target, seconds] => fuzz::fuzz(Some(target), seconds.parse()?).map(drop),
        ["fuzz-minimize", target] => fuzz::minimize_corpus(target),
        ["bench", name, arguments @ ..] => bench::run(name, arguments),
        ["failover"] => test::failover(),
        ["postgres-versions"] => {
            let report = report::Report::new();
            test::postgres_versions(&report);
            report.finish()
        }
        ["interop"] => interop_alone(None),
        ["interop", tendot] => interop_alone(Some(Path::new(tendot))),
        ["docs"] => docs::write_reference_pages(),
        ["screenshots"] => screenshots::take_screenshots(),
        ["unicode"] => unicode::unicode(),
        _ => anyhow::bail!("{USAGE}"),
    }
}

fn interop_alone(tendot: Option<&Path>) -> anyhow::Result<()> {
    let report = interop::interop(tendot)?;
    anyhow::ensure!(report.different == 0, "{} responses differ from those of Handle.Net", report.different);
    Ok(())
}

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
mod test;
mod test_programs;
mod unicode;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check                   format, clippy, and the unit tests of what changed
  test [--rerun|--full]   everything that CI checks and that changed since it passed; with --rerun all of it; with --full
                          also what takes hours: fuzzing, thousands of kills, all feature sets, PostgreSQL 16 and 18
  fuzz [TARGET] [SECONDS] fuzz one target or all, each for so many seconds [default: 60]
  fuzz-keep TARGET        keep the inputs that reach most of the code, of those that fuzzing found
  bench                   measure speed against other programs, as ratios
  bench-store [RECORDS]…  measure the embedded store against the bare engine and PostgreSQL, and write docs/speed.md;
                          with numbers of records, measure only these and write nothing
  bench-postgres-store    measure the store in PostgreSQL against psql and pgbench, and write docs/speed-postgres.md
  bench-batches           measure batches of deposits into the embedded store against PostgreSQL
  bench-registry          measure deposits and batches over HTTP: against the store, and PostgreSQL
  bench-http              measure redirects and JSON against nginx and Handle.Net's server
  bench-postgres-http     measure redirects from PostgreSQL against the embedded store, and from two servers against one
  bench-native            measure the native protocol against plain servers and Handle.Net's
  bench-compare OLD NEW   two builds of tendot against each other: instructions and rates
  bench-build             build time, size and speed of the profiles `dist` and `release`, and write docs/speed-build.md
  failover                kill the primary of a database under three services, promote a standby, and tell what was lost
  postgres-versions       the tests of PostgreSQL with versions 16 and 18, which Debian does not have
  interop [TENDOT]        have Handle.Net's client ask this program, and its own server, the same
  docs                    write the generated reference pages: docs/reference/cli.md, settings.md and errors.md
  unicode                 make the table of characters anew";

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
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => test::check(),
        ["test"] => test::test(false, false),
        ["test", "--rerun"] => test::test(false, true),
        ["test", "--full"] => test::test(true, true),
        ["fuzz"] => fuzz::fuzz(None, 60).map(drop),
        ["fuzz", seconds] if seconds.parse::<u32>().is_ok() => fuzz::fuzz(None, seconds.parse()?).map(drop),
        ["fuzz", target] => fuzz::fuzz(Some(target), 60).map(drop),
        ["fuzz", target, seconds] => fuzz::fuzz(Some(target), seconds.parse()?).map(drop),
        ["fuzz-keep", target] => fuzz::minimize_corpus(target),
        ["bench"] => bench::names::bench(),
        ["bench-store", sizes @ ..] => {
            let sizes: Result<Vec<u64>, _> = sizes.iter().map(|size| size.parse()).collect();
            bench::store::bench_store(&sizes?)
        }
        ["bench-postgres-store"] => bench::postgres_store::bench_postgres_store(),
        ["bench-batches"] => bench::batches::bench_batches(),
        ["bench-registry"] => bench::registry::bench_registry(),
        ["bench-http"] => bench::http::bench_http(),
        ["bench-postgres-http"] => bench::postgres_http::bench_postgres_http(),
        ["bench-native"] => bench::native::bench_native(),
        ["bench-compare", old, new] => bench::compare::bench_compare(Path::new(old), Path::new(new)),
        ["bench-build"] => bench::compare::bench_build(),
        ["failover"] => test::failover(),
        ["postgres-versions"] => {
            let report = report::Report::new();
            test::postgres_versions(&report);
            report.finish()
        }
        ["interop"] => interop_alone(None),
        ["interop", tendot] => interop_alone(Some(Path::new(tendot))),
        ["docs"] => docs::write_reference_pages(),
        ["unicode"] => unicode::unicode(),
        _ => anyhow::bail!("{USAGE}"),
    }
}

fn interop_alone(tendot: Option<&Path>) -> anyhow::Result<()> {
    let report = interop::interop(tendot)?;
    anyhow::ensure!(report.different == 0, "{} responses differ from those of Handle.Net", report.different);
    Ok(())
}

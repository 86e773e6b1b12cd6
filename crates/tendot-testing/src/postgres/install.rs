use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{install_packages, run_checked};

/// A program of PostgreSQL. It does not run as root: then it runs as the user `postgres`.
pub fn pg_command(name: &str) -> Command {
    let path = bin_dir().join(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path).current_dir("/");
    command
}

/// True if nothing has to be installed.
pub fn is_installed() -> bool {
    std::env::var_os("TENDOT_TEST_PG_BIN").is_some() || newest_install().is_some()
}

/// Installs PostgreSQL if it is missing.
pub fn ensure_installed() {
    bin_dir();
}

fn bin_dir() -> &'static Path {
    static BIN_DIR: OnceLock<PathBuf> = OnceLock::new();
    BIN_DIR.get_or_init(|| {
        let given = std::env::var_os("TENDOT_TEST_PG_BIN").map(PathBuf::from);
        given.or_else(newest_install).unwrap_or_else(|| {
            install_packages(&["postgresql"]);
            newest_install().expect("PostgreSQL 15 or newer is required")
        })
    })
}

/// Gives a directory to the user that servers run as.
pub fn chown_dir(path: &Path) {
    if is_root() {
        ensure_installed();
        run_checked(Command::new("chown").arg("postgres").arg(path));
    }
}

/// Gives a file to the user that servers run as, readable by no other.
pub fn chown_private_file(path: &Path) {
    chown_dir(path);
    run_checked(Command::new("chmod").arg("600").arg(path));
}

fn newest_install() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let numbers = versions.filter_map(|version| version.file_name().to_str()?.parse::<u32>().ok());
    let newest = numbers.filter(|number| *number >= 15).max()?;
    let programs = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
    programs.join("initdb").exists().then_some(programs)
}

fn is_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| run_checked(Command::new("id").arg("-u")).trim() == "0")
}

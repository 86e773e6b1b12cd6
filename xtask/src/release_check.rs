//! Release checks: packages build by themselves, and the crates compile with the oldest supported Rust version.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::cmd;

use crate::process::shell;
use crate::report::Report;
use crate::root;

/// Runs both checks.
pub(crate) fn check(report: &Report) {
    report.check("packages", check_packages);
    report.check("oldest Rust version", check_oldest_rust);
}

/// Makes the packages of all crates that are to be published, and builds each from its package and those of the others. Nothing is
/// uploaded.
fn check_packages() -> Result<()> {
    let target = root().join("target/packages");
    remove_earlier_packages(&target)?;
    let sh = shell()?;
    let publish = cmd!(sh, "cargo publish --dry-run --workspace --locked --allow-dirty --quiet");
    Ok(publish.arg("--target-dir").arg(target).run()?)
}

/// Removes the packages that an earlier check has unpacked and compiled: Cargo does not notice that one of the same version has changed.
fn remove_earlier_packages(target: &Path) -> Result<()> {
    if let Ok(compiled) = fs::read_dir(target.join("debug/.fingerprint")) {
        for package in compiled {
            let package = package?;
            if package.file_name().to_string_lossy().starts_with("tendot") {
                fs::remove_dir_all(package.path())?;
            }
        }
    }
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("no CARGO_HOME")?;
    let Ok(registries) = fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    for registry in registries {
        let registry = registry?;
        // Names of registries in directories have no host before the hyphen.
        if registry.file_name().to_string_lossy().starts_with('-') {
            fs::remove_dir_all(registry.path())?;
        }
    }
    Ok(())
}

/// Compiles the crates with the version in `rust-version`, which is installed if it is missing.
fn check_oldest_rust() -> Result<()> {
    let sh = shell()?;
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.context("Cargo.toml has no rust-version")?.trim_matches('"');
    let toolchain = format!("{version}.0");
    if !cmd!(sh, "rustup toolchain list").read()?.lines().any(|line| line.starts_with(&toolchain)) {
        cmd!(sh, "rustup toolchain install {toolchain} --profile minimal --no-self-update").run()?;
    }
    let target = root().join("target/oldest-rust");
    let check = cmd!(sh, "cargo +{toolchain} check --quiet --locked --workspace --all-features");
    Ok(check.arg("--target-dir").arg(target).run()?)
}

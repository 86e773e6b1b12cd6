//! Installation of other programs that tests use, while the first crates compile.

use std::process::Command;

use anyhow::{Context as _, Result};
use xshell::cmd;

use crate::interop::java;
use crate::process::{apt_install, is_installed, shell};

/// Targets that the libraries are checked for.
pub(crate) const TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "thumbv7m-none-eabi"];

/// Programs, and the Debian packages that have them.
const PROGRAMS: [(&[&str], &[&str]); 15] = [
    (&["chromium", "chromedriver"], &["chromium", "chromium-driver"]),
    (&["nginx"], &["nginx-light"]),
    (&["varnishd"], &["varnish"]),
    (&["curl"], &["curl"]),
    (&["nghttp", "h2load"], &["nghttp2-client"]),
    (&["promtool"], &["prometheus"]),
    (&["node", "npm"], &["nodejs", "npm"]),
    (&["python3"], &["python3", "python3-venv"]),
    (&["openssl"], &["openssl"]),
    (&["mvn", "javac"], &["maven", "openjdk-17-jdk-headless"]),
    (&["c++"], &["g++"]),
    (&["systemd-analyze"], &["systemd"]),
    (&["strace"], &["strace"]),
    (&["mkfs.ext4"], &["e2fsprogs"]),
    (&["mkfs.xfs"], &["xfsprogs"]),
];

/// Installs everything that is missing: needs root, and Debian or a relative.
pub(crate) fn install_peers() -> Result<()> {
    let is_missing = |programs: &[&str]| programs.iter().any(|program| !is_installed(program));
    let mut packages: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(programs, _)| is_missing(programs))
        .flat_map(|(_, packages)| *packages)
        .copied()
        .collect();
    // Debian's Python may be there without it.
    let has_venv = Command::new("python3").args(["-c", "import ensurepip, venv"]).status();
    if !has_venv.is_ok_and(|status| status.success()) {
        packages.push("python3-venv");
    }
    if !tendot_testing::postgres::is_installed() {
        packages.push("postgresql");
    }
    if !packages.is_empty() {
        apt_install(&packages).with_context(|| {
            format!("the tests need the Debian packages {packages:?}: run as root, or install them yourself")
        })?;
    }
    java::prepare()
}

/// Adds the components and targets of the Rust toolchain that are missing.
pub(crate) fn install_toolchain_parts() -> Result<()> {
    let sh = shell()?;
    let installed = cmd!(sh, "rustup component list --installed").read()?;
    for component in ["clippy", "rustfmt"] {
        if !installed.lines().any(|line| line.starts_with(component)) {
            cmd!(sh, "rustup component add {component}").run()?;
        }
    }
    let installed = cmd!(sh, "rustup target list --installed").read()?;
    for target in TARGETS {
        if !installed.lines().any(|line| line == target) {
            cmd!(sh, "rustup target add {target}").run()?;
        }
    }
    Ok(())
}

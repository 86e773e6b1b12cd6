//! Everything that CI checks.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::fuzz::fuzz;
use crate::interop::interop;
use crate::process::{install, is_there, output, run};
use crate::root;

pub(crate) fn test() -> Result<()> {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(root());
        command
    };
    crates_are_described()?;
    ensure_components(&["clippy", "rustfmt"])?;
    run(&mut cargo(&["fmt", "--check"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]))?;
    for folder in ["bench", "fuzz"] {
        run(cargo(&["fmt", "--check"]).current_dir(root().join(folder)))?;
        run(cargo(&["clippy", "--all-targets", "--", "-D", "warnings"]).current_dir(root().join(folder)))?;
    }
    // The library for browsers and for machines without an operating system, with each of its features alone.
    for target in ["wasm32-unknown-unknown", "thumbv7m-none-eabi"] {
        ensure_target(target)?;
        for features in ["", "alloc", "memchr", "alloc,memchr", "serde"] {
            let arguments =
                ["build", "--package=tendot-names", "--no-default-features", "--features", features];
            run(cargo(&arguments).args(["--target", target]))?;
        }
    }
    // The protocol without its cryptography, for browsers; 32 bits also put its arithmetic of lengths to the test.
    let arguments = ["build", "--package=tendot-proto", "--no-default-features"];
    run(cargo(&arguments).args(["--target", "wasm32-unknown-unknown"]))?;
    // The pages are tested in a browser.
    if !is_there("chromium") || !is_there("chromedriver") {
        install(&["chromium", "chromium-driver"])?;
    }
    // The service is tested behind a proxy, too, with the commands of its page, and by a program in Python.
    if Command::new("nginx").arg("-v").output().is_err() {
        install(&["nginx-light"])?;
    }
    if !is_there("curl") {
        install(&["curl"])?;
    }
    if !is_there("python3") {
        install(&["python3", "python3-venv"])?;
    }
    run(&mut cargo(&["test", "--workspace", "--all-features"]))?;
    run(&mut cargo(&["test", "--package=tendot-names", "--no-default-features", "--features=alloc"]))?;
    // What is weak has to stay off where it is not even compiled.
    run(&mut cargo(&["test", "--package=tendot-proto"]))?;
    // Programs of Handle.Net that others run: theirs with ours, and ours with theirs.
    interop(None)?;
    run(cargo(&["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    // Two minutes for the protocol, less than one for names.
    fuzz(None, 15, Some(10))
}

/// The one test that is about the loss of a primary, and what it prints.
pub(crate) fn fail_over() -> Result<()> {
    let arguments = ["test", "--quiet", "--package=tendot", "--test=fail_over", "--", "--nocapture"];
    run(Command::new("cargo").args(arguments).current_dir(root()))
}

/// The crates that ARCHITECTURE.md describes are those that exist.
fn crates_are_described() -> Result<()> {
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

fn ensure_components(components: &[&str]) -> Result<()> {
    let installed = output(Command::new("rustup").args(["component", "list", "--installed"]))?;
    for component in components {
        if !installed.lines().any(|line| line.starts_with(component)) {
            run(Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    Ok(())
}

fn ensure_target(target: &str) -> Result<()> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !installed.lines().any(|line| line == target) {
        run(Command::new("rustup").args(["target", "add", target]))?;
    }
    Ok(())
}

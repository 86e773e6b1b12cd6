use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run_checked;

/// Installs Debian packages if one of the programs does not start. Concurrent test programs are serialized.
pub fn ensure_programs(programs: &[&str], packages: &[&str]) {
    let is_missing = || programs.iter().any(|program| !is_installed(program));
    if is_missing() {
        let lock = File::create(std::env::temp_dir().join("tendot-test-install.lock")).unwrap();
        lock.lock().unwrap();
        if is_missing() {
            install_packages(packages);
        }
    }
}

/// Installs Debian packages; needs root.
pub fn install_packages(packages: &[&str]) {
    run_checked(Command::new("apt-get").args(["update", "-qq"]));
    run_checked(
        Command::new("apt-get")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    );
}

/// True if a program starts with `--version`, `-v` as nginx requires, `-V` as `mkfs.xfs` does, or `version` as OpenSSL 3.0 does.
pub fn is_installed(program: &str) -> bool {
    let starts = |argument: &str| {
        let mut command = Command::new(program);
        command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ["--version", "-v", "-V", "version"].into_iter().any(starts)
}

/// Directory of the programs of a Python environment with these packages, in `target`.
///
/// Installed once; concurrent test programs wait for each other.
pub fn python_environment(target: &Path, packages: &[&str]) -> PathBuf {
    fs::create_dir_all(target).unwrap();
    let environment = target.join(packages.join("-"));
    let lock = File::create(target.join(format!("{}.lock", packages[0]))).unwrap();
    lock.lock().unwrap();
    let (programs, complete) = (environment.join("bin"), environment.join("complete"));
    if !complete.exists() {
        run_checked(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        run_checked(
            Command::new(programs.join("python")).args(["-m", "pip", "install", "--quiet"]).args(packages),
        );
        File::create(complete).unwrap();
    }
    programs
}

/// A program of a package of the npm registry, which `npm` installs with its dependencies in `target`; scripts of packages do not run.
///
/// Installed once; concurrent test programs wait for each other. `integrity` is that of the package in npm's lock file.
pub fn npm_program(target: &Path, package: &str, version: &str, integrity: &str, program: &str) -> PathBuf {
    fs::create_dir_all(target).unwrap();
    let name = format!("{}-{version}", package.replace('/', "-"));
    let (directory, lock) = (target.join(&name), target.join(format!("{name}.lock")));
    let lock = File::create(lock).unwrap();
    lock.lock().unwrap();
    let complete = directory.join("complete");
    if !complete.exists() {
        fs::create_dir_all(&directory).unwrap();
        run_checked(
            Command::new("npm")
                .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--prefix"])
                .arg(&directory)
                .arg(format!("{package}@{version}")),
        );
        let locked = fs::read_to_string(directory.join("package-lock.json")).unwrap();
        assert!(locked.contains(integrity), "{package} {version} changed: {locked}");
        File::create(complete).unwrap();
    }
    directory.join("node_modules/.bin").join(program)
}

/// Directory of a package of the npm registry, in `target`. Only its own files are installed, no dependencies.
///
/// Downloaded once; concurrent test programs wait for each other. `sha512`: hash of the archive, in hexadecimal.
pub fn npm_package(target: &Path, name: &str, version: &str, sha512: &str) -> PathBuf {
    fs::create_dir_all(target).unwrap();
    let package = target.join(format!("{name}-{version}"));
    let lock = File::create(target.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let complete = package.join("complete");
    if !complete.exists() {
        let archive = target.join(format!("{name}-{version}.tgz"));
        run_checked(
            Command::new("npm")
                .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
                .arg(target)
                .arg(format!("{name}@{version}")),
        );
        let digest = Command::new("openssl").args(["dgst", "-sha512", "-r"]).arg(&archive).output().unwrap();
        let digest = String::from_utf8_lossy(&digest.stdout).into_owned();
        assert!(digest.starts_with(sha512), "{name} {version} changed: {digest}");
        fs::create_dir_all(&package).unwrap();
        run_checked(Command::new("tar").args(["-xzf"]).arg(&archive).arg("-C").arg(&package));
        File::create(complete).unwrap();
    }
    package.join("package")
}

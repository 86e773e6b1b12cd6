//! Builds and starts the Handle.Net peers of `interop/java`; jars and classes are in `target/interop`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use xshell::cmd;

use crate::process::{apt_install, is_installed, shell};
use crate::root;

/// Handle.Net server (Java), started by xtask.
pub(crate) struct HandleNetProcess<'a> {
    /// Data directory; it belongs to these ports.
    pub(crate) data_dir: &'a Path,
    pub(crate) native: u16,
    pub(crate) http: u16,
    pub(crate) https: u16,
    /// Admin with full access.
    pub(crate) server_admin: &'a str,
    /// Records that are loaded at the first start, one per line; their prefixes are homed.
    pub(crate) records: &'a Path,
    /// Whether writes are synced to disk before the response.
    pub(crate) is_durable: bool,
}

impl HandleNetProcess<'_> {
    /// The command that starts it; it prints `ready` on stderr when it listens.
    pub(crate) fn command(&self) -> Result<Command> {
        let (sh, class_path) = (shell()?, class_path("server")?);
        let &Self { data_dir, server_admin, records, .. } = self;
        let ports = [self.native, self.http, self.https].map(|port| port.to_string());
        let options = self.is_durable.then_some("--synced");
        let server = cmd!(sh, "java -cp {class_path} HandleNetServer {data_dir} {ports...}");
        Ok(server.arg(server_admin).arg(records).args(options).into())
    }
}

/// Handle.Net client for these servers, `ADDRESS:PORT[:HTTPS-PORT]`; reads requests line by line.
pub(crate) fn client(servers: &[String]) -> Result<Command> {
    // Without this directory it would read settings from the home directory.
    let settings = root().join("target/interop/client/settings");
    let (sh, class_path) = (shell()?, class_path("client")?);
    let options = ["-XX:+UseSerialGC", &format!("-Dnet.handle.configDir={}", settings.display())];
    Ok(cmd!(sh, "java {options...} -cp {class_path} HandleNetClient {servers...}").into())
}

/// Generates a site key in this directory.
pub(crate) fn generate_site_key(dir: &Path) -> Result<()> {
    let (sh, class_path) = (shell()?, class_path("client")?);
    Ok(cmd!(sh, "java -cp {class_path} SiteKey {dir}").run()?)
}

/// Output of `SignedRecords`, which signs and verifies records with the classes of Handle.Net.
pub(crate) fn signed_records(arguments: &[&str]) -> Result<String> {
    let settings = root().join("target/interop/client/settings");
    let (sh, class_path) = (shell()?, class_path("client")?);
    let option = format!("-Dnet.handle.configDir={}", settings.display());
    Ok(cmd!(sh, "java {option} -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 -cp {class_path} SignedRecords {arguments...}").read()?)
}

/// Whether the server at `ADDRESS:PORT` accepts a login with a secret key by Handle.Net's adapter.
pub(crate) fn secret_key_login(server: &str, identity: &str, secret: &str) -> Result<bool> {
    let settings = root().join("target/interop/client/settings");
    let (sh, class_path) = (shell()?, class_path("client")?);
    let option = format!("-Dnet.handle.configDir={}", settings.display());
    let output =
        cmd!(sh, "java {option} -cp {class_path} SecretKeyLogin {server} {identity} {secret}").read()?;
    Ok(output.lines().any(|line| line == "accepted"))
}

/// Log of Handle.Net's batch tool, which executes a batch file at the server at `ADDRESS:PORT` with a secret key.
pub(crate) fn run_batch(server: &str, identity: &str, secret: &str, batch: &Path) -> Result<String> {
    let settings = root().join("target/interop/client/settings");
    let (sh, class_path) = (shell()?, class_path("client")?);
    let option = format!("-Dnet.handle.configDir={}", settings.display());
    Ok(cmd!(sh, "java {option} -Dfile.encoding=UTF-8 -cp {class_path} BatchRunner {server} {identity} {secret} {batch}")
        .read()?)
}

/// Loads a JSON dump into the database of the Handle.Net server in this directory.
pub(crate) fn load_dump(dump: &Path, server: &Path) -> Result<()> {
    let (sh, class_path) = (shell()?, class_path("server")?);
    let tool = "net.handle.apps.tools.LoadHandlesIntoStorageFromJson";
    Ok(cmd!(sh, "java -cp {class_path} {tool} -f {dump} -h {server}").ignore_stdout().run()?)
}

/// Writes the database of the Handle.Net server in this directory as a JSON dump.
pub(crate) fn write_dump(server: &Path, dump: &Path) -> Result<()> {
    let (sh, class_path) = (shell()?, class_path("server")?);
    let tool = "net.handle.apps.tools.StorageToJson";
    Ok(cmd!(sh, "java -Dfile.encoding=UTF-8 -cp {class_path} {tool} {server} {dump}")
        .ignore_stdout()
        .run()?)
}

/// Downloads and compiles the peers, so that nothing has to be installed later.
pub(crate) fn prepare() -> Result<()> {
    ["server", "client"].into_iter().try_for_each(|which| class_path(which).map(drop))
}

/// The class path of a peer, which is downloaded and compiled if necessary.
fn class_path(which: &str) -> Result<String> {
    let (source, target) =
        (root().join("interop/java").join(which), root().join("target/interop").join(which));
    let (jars, classes) = (target.join("lib"), target.join("classes"));
    let sh = shell()?;
    if !is_up_to_date(&jars, &[source.join("pom.xml")])? {
        ensure_installed()?;
        let fresh = target.join("lib.new");
        let _dir = sh.push_dir(&source);
        cmd!(sh, "mvn --quiet --batch-mode dependency:copy-dependencies -DoutputDirectory={fresh}")
            .run()
            .context("cannot download the Handle.Net jars; is Maven Central reachable?")?;
        replace_dir(&fresh, &jars)?;
    }
    let files: Vec<PathBuf> = fs::read_dir(&source)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "java"))
        .collect();
    ensure!(!files.is_empty(), "no Java files in {}", source.display());
    if !is_up_to_date(&classes, &files)? {
        ensure_installed()?;
        let fresh = target.join("classes.new");
        let class_path = jars.join("*");
        cmd!(sh, "javac --release 17 -Xlint:all -Werror -cp {class_path} -d {fresh} {files...}").run()?;
        replace_dir(&fresh, &classes)?;
    }
    Ok(format!("{}:{}/*", classes.display(), jars.display()))
}

fn ensure_installed() -> Result<()> {
    if !is_installed("mvn") || !is_installed("javac") {
        apt_install(&["maven", "openjdk-17-jdk-headless"])
            .context("Maven and JDK 17 or later are required")?;
    }
    Ok(())
}

/// True if the directory is newer than these files.
fn is_up_to_date(directory: &Path, files: &[PathBuf]) -> Result<bool> {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let Ok(made) = changed(directory) else { return Ok(false) };
    let newest = files.iter().map(|path| changed(path)).collect::<Result<Vec<SystemTime>, _>>()?;
    Ok(newest.into_iter().all(|time| time <= made))
}

fn replace_dir(fresh: &Path, old: &Path) -> Result<()> {
    if old.exists() {
        fs::remove_dir_all(old)?;
    }
    fs::rename(fresh, old).with_context(|| format!("cannot move {}", fresh.display()))
}

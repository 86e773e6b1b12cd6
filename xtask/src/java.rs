//! The Java peers of `interop/java`: their jars are fetched and their files compiled once, into `target/interop`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};

use crate::process::{Server, install, is_there, run};
use crate::root;

/// A server of Handle.Net on this machine.
pub(crate) struct JavaServer<'a> {
    /// All that it keeps; a folder stays with its ports.
    pub(crate) folder: &'a Path,
    pub(crate) native: u16,
    pub(crate) http: u16,
    pub(crate) https: u16,
    /// Who may do everything.
    pub(crate) admin: &'a str,
    /// What it is filled with at its first start, a record a line; their prefixes are homed.
    pub(crate) records: &'a Path,
    /// Whether a write is on the disk before it is answered.
    pub(crate) synced: bool,
}

impl JavaServer<'_> {
    /// Starts it, on one core only if this is said, and waits until it answers.
    pub(crate) fn start(&self, core: Option<&str>) -> Result<Server> {
        let peer = peer("server")?;
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", core, "java"]);
                command
            }
            None => Command::new("java"),
        };
        command.arg("-cp").arg(peer).arg("Server").arg(self.folder);
        command.args([self.native, self.http, self.https].map(|port| port.to_string()));
        command.arg(self.admin).arg(self.records);
        if self.synced {
            command.arg("--synced");
        }
        Server::start(&mut command).context("the Java server did not start")
    }
}

/// The client of Handle.Net, which asks the server at these ports what it is told line by line.
pub(crate) fn client(native: u16, https: Option<u16>) -> Result<Command> {
    let mut command = Command::new("java");
    // Without this it would take its settings from the home directory.
    let settings = root().join("target/interop/client/settings");
    command.arg(format!("-Dnet.handle.configDir={}", settings.display())).arg("-cp").arg(peer("client")?);
    command.args(["Client", "127.0.0.1", &native.to_string()]);
    command.args(https.map(|port| port.to_string()));
    Ok(command)
}

/// Makes the key of a site, in the folder that is its argument.
pub(crate) fn site_key() -> Result<Command> {
    let mut command = Command::new("java");
    command.arg("-cp").arg(peer("client")?).arg("Key");
    Ok(command)
}

/// Fetches and compiles the peers, so that nothing has to be installed later.
pub(crate) fn prepare() -> Result<()> {
    ["server", "client"].into_iter().try_for_each(|which| peer(which).map(drop))
}

/// The class path of a peer, ready to be run.
fn peer(which: &str) -> Result<String> {
    if !is_there("mvn") || !is_there("javac") {
        install(&["maven", "openjdk-17-jdk-headless"])
            .context("the Java peers need Maven and a JDK, at least version 17")?;
    }
    let (source, target) =
        (root().join("interop/java").join(which), root().join("target/interop").join(which));
    let (jars, classes) = (target.join("lib"), target.join("classes"));
    if !is_newer(&jars, &[source.join("pom.xml")])? {
        let fresh = target.join("lib.new");
        run(Command::new("mvn")
            .args(["--quiet", "--batch-mode", "dependency:copy-dependencies"])
            .arg(format!("-DoutputDirectory={}", fresh.display()))
            .current_dir(&source))
        .context("the jars of the Java peers can't be had: is Maven Central reachable?")?;
        replace(&fresh, &jars)?;
    }
    let files: Vec<PathBuf> = fs::read_dir(&source)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "java"))
        .collect();
    ensure!(!files.is_empty(), "{} has no Java files", source.display());
    if !is_newer(&classes, &files)? {
        let fresh = target.join("classes.new");
        run(Command::new("javac")
            .args(["--release", "17", "-Xlint:all", "-Werror", "-cp"])
            .arg(jars.join("*"))
            .arg("-d")
            .arg(&fresh)
            .args(&files))?;
        replace(&fresh, &classes)?;
    }
    Ok(format!("{}:{}/*", classes.display(), jars.display()))
}

/// Whether all of these were made into the folder already.
fn is_newer(folder: &Path, than: &[PathBuf]) -> Result<bool> {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let Ok(made) = changed(folder) else { return Ok(false) };
    let newest = than.iter().map(|path| changed(path)).collect::<Result<Vec<SystemTime>, _>>()?;
    Ok(newest.into_iter().all(|time| time <= made))
}

fn replace(fresh: &Path, old: &Path) -> Result<()> {
    if old.exists() {
        fs::remove_dir_all(old)?;
    }
    fs::rename(fresh, old).with_context(|| format!("{} could not be moved", fresh.display()))
}

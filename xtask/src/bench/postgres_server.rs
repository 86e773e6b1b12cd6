//! PostgreSQL server for one benchmark, in its own directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::process::{apt_install, output, run};

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Running server, stopped on drop.
pub(crate) struct Postgres {
    folder: PathBuf,
}

impl Postgres {
    /// Creates a cluster and starts its server with default settings, but more memory and WAL space.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        if !Path::new(PROGRAMS).exists() {
            apt_install(&["postgresql-15"])?;
        }
        std::fs::create_dir_all(folder)?;
        if is_root()? {
            run(Command::new("chown").arg("postgres").arg(folder))?;
        }
        let postgres = Self { folder: folder.into() };
        let (data, log) = (folder.join("data"), folder.join("log"));
        run(program("initdb")?
            .arg("-D")
            .arg(&data)
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8"])
            .args(["--locale=C", "--no-sync"])
            .stdout(Stdio::null()))?;
        let options =
            format!("-k {} -c listen_addresses= -c shared_buffers=1GB -c max_wal_size=8GB", folder.display());
        run(program("pg_ctl")?
            .arg("-D")
            .arg(&data)
            .arg("-l")
            .arg(&log)
            .args(["-w", "-o", &options, "start"])
            .stdout(Stdio::null()))?;
        Ok(postgres)
    }

    /// Copies a file into a new table with the name as primary key; returns seconds and bytes on disk.
    pub(crate) fn copy(&self, file: &Path) -> Result<(f64, u64)> {
        self.query("create table records (name text primary key, record bytea not null)")?;
        let start = Instant::now();
        self.query(&format!("copy records from '{}'", file.display()))?;
        let seconds = start.elapsed().as_secs_f64();
        let size = self.query("select pg_total_relation_size('records')")?;
        Ok((seconds, size.trim().parse().context("a size")?))
    }

    fn query(&self, query: &str) -> Result<String> {
        output(program("psql")?.arg("-h").arg(&self.folder).args(["-U", "postgres", "-qAt", "-c", query]))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Ok(mut stop) = program("pg_ctl") {
            let _ = run(stop
                .arg("-D")
                .arg(self.folder.join("data"))
                .args(["-m", "fast", "stop"])
                .stdout(Stdio::null()));
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// PostgreSQL program; root runs it as user `postgres`, because it refuses to run as root.
fn program(name: &str) -> Result<Command> {
    let path = Path::new(PROGRAMS).join(name);
    if !is_root()? {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path).current_dir("/");
    Ok(command)
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{chown_dir, chown_private_file, pg_command};
use crate::{free_port, run_checked, wait_until};

/// PostgreSQL server in a temporary directory; stopped on drop, or when this process ends.
#[derive(Debug)]
pub struct PostgresServer {
    dir: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// None if another process started the server.
    processes: Option<Processes>,
}

#[derive(Debug)]
struct Processes {
    postmaster: Mutex<Child>,
    /// Stops the server and removes its directory when its standard input ends, however this process ends.
    supervisor: Child,
}

const SUPERVISOR: &str = "read line; pid=$(head -1 data/postmaster.pid 2>/dev/null) && kill -INT $pid; \
    while [ -e data/postmaster.pid ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done; rm -rf \"$PWD\"";

impl PostgresServer {
    /// Initializes and starts a server. The user `postgres` needs no password, `locked` does. Each line of `settings` is one of
    /// postgresql.conf.
    pub fn start(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let data = dir.join("data");
        chown_dir(&dir);
        run_checked(pg_command("initdb").arg("-D").arg(&data).args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]));
        let hba =
            "host all locked all scram-sha-256\nhost all,replication all all trust\nlocal all all trust\n";
        std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        let common = "listen_addresses = '127.0.0.1'\nshared_buffers = 32MB\nmax_connections = 200\n";
        let port = free_port();
        append_config(&dir, port, &format!("{common}{settings}"));
        Self::spawn(dir, port)
    }

    /// Starts a server for many tests side by side. It never waits for the disk, because nothing in it has to survive.
    pub fn start_shared() -> Self {
        Self::start("fsync = off\nfull_page_writes = off\nmax_connections = 1000")
    }

    /// A server of another process, at this port. It can't be stopped or restarted.
    pub fn attach(port: u16) -> Self {
        Self { dir: PathBuf::new(), port, processes: None }
    }

    /// Starts a standby of this server, which `synchronous_standby_names` knows by `name`.
    pub fn start_standby(&self, name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        chown_dir(&dir);
        let port = free_port();
        self.base_backup_to(&dir, port, name);
        Self::spawn(dir, port)
    }

    fn base_backup_to(&self, dir: &Path, port: u16, name: &str) {
        run_checked(
            pg_command("pg_basebackup")
                .args(["-h", "127.0.0.1", "-U", "postgres", "-X", "stream", "-c", "fast", "--no-sync", "-R"])
                .args(["-p", &self.port.to_string()])
                .arg("-D")
                .arg(dir.join("data")),
        );
        // Its settings would override ours.
        std::fs::write(dir.join("data/postgresql.auto.conf"), "").unwrap();
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.port);
        append_config(dir, port, &format!("primary_conninfo = '{primary}'"));
    }

    fn spawn(dir: PathBuf, port: u16) -> Self {
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR])
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let postmaster = Mutex::new(spawn_postmaster(&dir));
        let server = Self { dir, port, processes: Some(Processes { postmaster, supervisor }) };
        server.wait_ready();
        server
    }

    /// The URL of a database, as the user `postgres`.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates an empty database and returns its name.
    pub fn create_database(&self) -> String {
        self.clone_database("template1")
    }

    /// Creates a copy of a database that has no connections and returns its name.
    pub fn clone_database(&self, template: &str) -> String {
        let name = unique_database_name();
        self.psql(&format!("create database {name} template {template}"));
        name
    }

    /// The result of a statement in the database `postgres`, without header.
    pub fn psql(&self, sql: &str) -> String {
        self.psql_in("postgres", sql)
    }

    /// The result of a statement in a database, without header.
    pub fn psql_in(&self, database: &str, sql: &str) -> String {
        let mut command = pg_command("psql");
        command.args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-d",
            database,
            "-c",
            sql,
        ]);
        run_checked(command.args(["-p", &self.port.to_string()])).trim().to_owned()
    }

    /// Kills all of its processes at once, as a crash of the machine would.
    pub fn kill(&self) {
        let children = self.signal("KILL");
        self.postmaster().lock().unwrap().wait().unwrap();
        // Orphans that no process waits for remain as zombies.
        let is_gone = |pid: &u32| matches!(proc_stat(*pid).first().map(|state| &**state), None | Some("Z"));
        wait_until("all processes of the server are gone", || children.iter().all(is_gone));
    }

    /// Sends a signal to all of its processes; returns the process numbers of the children.
    pub fn signal(&self, name: &str) -> Vec<u32> {
        let postmaster = self.postmaster().lock().unwrap().id();
        let children = child_pids(postmaster);
        for pid in [postmaster].into_iter().chain(children.iter().copied()) {
            let signal = format!("-{name}");
            let _ = Command::new("kill").args([&signal, &pid.to_string()]).stderr(Stdio::null()).status();
        }
        children
    }

    /// Promotes a standby to primary.
    pub fn promote(&self) {
        run_checked(pg_command("pg_ctl").args(["promote", "-s", "-w", "-D"]).arg(self.dir.join("data")));
    }

    /// Lets a standby follow another primary, under a name.
    pub fn set_primary(&self, primary: &Self, name: &str) {
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", primary.port);
        self.psql(&format!("alter system set primary_conninfo = '{primary}'"));
        self.psql("select pg_reload_conf()");
    }

    /// Waits until this many synchronous standbys are connected.
    pub fn wait_for_standbys(&self, number: u32) {
        let sql = "select count(*) from pg_stat_replication where sync_state = 'quorum'";
        wait_until("the standbys are connected", || self.psql(sql).parse::<u32>().unwrap() >= number);
    }

    /// Makes a killed primary a standby of another server, under a name, and starts it: what only it had is lost.
    pub fn rejoin(&self, primary: &Self, name: &str) {
        std::fs::remove_dir_all(self.dir.join("data")).unwrap();
        primary.base_backup_to(&self.dir, self.port, name);
        self.restart();
    }

    /// Starts a killed primary as a standby of another server with everything that only it had: it cannot follow, but answers
    /// queries.
    pub fn restart_diverged(&self, primary: &Self) {
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name=diverged", primary.port);
        append_config(&self.dir, self.port, &format!("primary_conninfo = '{primary}'"));
        let signal = self.dir.join("data/standby.signal");
        std::fs::write(&signal, "").unwrap();
        chown_private_file(&signal);
        self.restart();
    }

    /// The directory of its files: `data` and `log`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a stopped or killed server again.
    pub fn restart(&self) {
        *self.postmaster().lock().unwrap() = spawn_postmaster(&self.dir);
        self.wait_ready();
    }

    fn postmaster(&self) -> &Mutex<Child> {
        &self.processes.as_ref().expect("a server that this process started").postmaster
    }

    fn wait_ready(&self) {
        let port = self.port.to_string();
        wait_until(&format!("PostgreSQL is ready; its log is {}/log", self.dir.display()), || {
            let status = pg_command("pg_isready").args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
            status.unwrap().success()
        });
    }
}

#[cfg(feature = "async")]
impl PostgresServer {
    /// Runs statements.
    pub async fn execute(&self, database: &str, sql: &str) {
        self.connect(database).await.batch_execute(sql).await.unwrap();
    }

    /// The first column of the first row, as text.
    pub async fn query_text(&self, database: &str, sql: &str) -> String {
        let messages = self.connect(database).await.simple_query(sql).await.unwrap();
        let row = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        row.unwrap_or_default()
    }

    /// A connection of its own.
    pub async fn connect(&self, database: &str) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url(database), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(Processes { postmaster, supervisor }) = &mut self.processes {
            drop(supervisor.stdin.take());
            let _ = postmaster.get_mut().unwrap().wait();
            let _ = supervisor.wait();
        }
    }
}

/// Appends to postgresql.conf, where the last line of a setting counts.
fn append_config(dir: &Path, port: u16, settings: &str) {
    let sockets = format!("unix_socket_directories = '{}'", dir.display());
    let mut file = std::fs::File::options().append(true).open(dir.join("data/postgresql.conf")).unwrap();
    write!(file, "\n{sockets}\nport = {port}\n{settings}\n").unwrap();
}

fn unique_database_name() -> String {
    static NEXT_DATABASE: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NEXT_DATABASE.fetch_add(1, Ordering::SeqCst))
}

fn spawn_postmaster(dir: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
    pg_command("postgres")
        .arg("-D")
        .arg(dir.join("data"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .process_group(0)
        .spawn()
        .unwrap()
}

fn child_pids(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| proc_stat(*pid).get(1) == Some(&parent.to_string())).collect()
}

/// The fields of `/proc/PID/stat` from the state on; empty if there is no such process.
fn proc_stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().map(str::to_owned).collect()
}

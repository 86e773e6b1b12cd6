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

/// An immediate shutdown: nothing in the directory is needed any more. A server that was stopped by a signal goes on first.
const SUPERVISOR: &str = "read line; pid=$(head -1 data/postmaster.pid 2>/dev/null) && kill -QUIT $pid && kill -CONT $pid; \
    while [ -e data/postmaster.pid ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done; rm -rf \"$PWD\"";

/// Settings of servers that lose nothing when they are killed, only when the machine fails: they never wait for the disk.
const VOLATILE: &str = "fsync = off\nfull_page_writes = off\n";

impl PostgresServer {
    /// Initializes and starts a server. The user `postgres` needs no password, `locked` does. Each line of `settings` is one of
    /// postgresql.conf.
    pub fn start(settings: &str) -> Self {
        Self::start_in(&std::env::temp_dir(), settings)
    }

    /// [`PostgresServer::start`] for tests: the server survives being killed, but never waits for the disk.
    pub fn start_volatile(settings: &str) -> Self {
        Self::start_in(&volatile_parent(), &format!("{VOLATILE}{settings}"))
    }

    fn start_in(parent: &Path, settings: &str) -> Self {
        let (dir, port) = (new_data_dir(parent), free_port());
        append_config(&dir, port, settings);
        let server = Self::spawn(dir, port);
        server.wait_ready();
        server
    }

    /// Starts a server for many tests side by side.
    pub fn start_shared() -> Self {
        Self::start_volatile("max_connections = 1000")
    }

    /// Starts a primary and its standbys, which `synchronous_standby_names` knows by these names, all at the same time: they
    /// begin with the same files.
    pub(super) fn start_replicated(standby_names: &[&str]) -> Vec<Self> {
        let primary_port = free_port();
        let start = |name: Option<&str>| {
            let (dir, mut port) = (new_data_dir(&volatile_parent()), primary_port);
            let mut settings = VOLATILE.to_owned();
            if let Some(name) = name {
                port = free_port();
                settings += &primary_conninfo(primary_port, name);
                create_standby_signal(&dir);
            }
            append_config(&dir, port, &settings);
            Self::spawn(dir, port)
        };
        let names = std::iter::once(None).chain(standby_names.iter().copied().map(Some));
        let servers: Vec<Self> = names.map(start).collect();
        servers.iter().for_each(Self::wait_ready);
        servers
    }

    /// A server of another process, at this port. It cannot be stopped or restarted.
    pub fn attach(port: u16) -> Self {
        Self { dir: PathBuf::new(), port, processes: None }
    }

    /// Starts a standby of this server, which `synchronous_standby_names` knows by `name`.
    pub fn start_standby(&self, name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        chown_dir(&dir);
        let port = free_port();
        self.base_backup_to(&dir, port, name);
        let server = Self::spawn(dir, port);
        server.wait_ready();
        server
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
        append_config(dir, port, &primary_conninfo(self.port, name));
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
        Self { dir, port, processes: Some(Processes { postmaster, supervisor }) }
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

    /// Creates a role, such as `guest login`, unless it exists: roles belong to the whole server, which tests share.
    pub fn create_role(&self, definition: &str) {
        self.psql(&format!(
            "do $$ begin create role {definition}; exception when duplicate_object or unique_violation then null; end $$"
        ));
    }

    /// Changes a setting such as `name = 'value'` and waits until new sessions have it.
    pub fn alter_system(&self, setting: &str) {
        self.psql(&format!("alter system set {setting}"));
        self.reload();
    }

    /// Reads the configuration files again and waits until new sessions and the checkpointer have the new settings.
    pub fn reload(&self) {
        let loaded = || self.psql("select pg_conf_load_time()");
        let before = loaded();
        self.psql("select pg_reload_conf()");
        wait_until("the settings are read", || loaded() != before);
        // The checkpointer decides whether commits wait for standbys. It reads its settings before it makes a checkpoint.
        self.psql("checkpoint");
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
        let pids = [postmaster].into_iter().chain(children.iter().copied()).map(|pid| pid.to_string());
        // A child may have ended by itself.
        let _ = Command::new("kill").arg(format!("-{name}")).args(pids).stderr(Stdio::null()).status();
        children
    }

    /// Promotes a standby to primary.
    pub fn promote(&self) {
        run_checked(pg_command("pg_ctl").args(["promote", "-s", "-w", "-D"]).arg(self.dir.join("data")));
    }

    /// Stops replication to a standby.
    pub fn stop_receiving(&self) {
        self.alter_system("primary_conninfo = ''");
        let receivers = || self.psql("select count(*) from pg_stat_wal_receiver");
        wait_until("the standby receives nothing", || receivers() == "0");
    }

    /// Lets a standby follow another primary, under a name.
    pub fn set_primary(&self, primary: &Self, name: &str) {
        self.alter_system(&primary_conninfo(primary.port, name));
    }

    /// Waits until this many synchronous standbys are connected.
    pub fn wait_for_standbys(&self, number: u32) {
        let sql = "select count(*) from pg_stat_replication where sync_state = 'quorum'";
        wait_until("the standbys are connected", || self.psql(sql).parse::<u32>().unwrap() >= number);
    }

    /// Makes a killed primary a standby of another server, under a name, and starts it: commits that only it had are lost.
    pub fn rejoin(&self, primary: &Self, name: &str) {
        std::fs::remove_dir_all(self.dir.join("data")).unwrap();
        primary.base_backup_to(&self.dir, self.port, name);
        self.restart();
    }

    /// Starts a killed primary as a standby of another server with everything that only it had: it cannot follow, but answers
    /// queries.
    pub fn restart_diverged(&self, primary: &Self) {
        append_config(&self.dir, self.port, &primary_conninfo(primary.port, "diverged"));
        create_standby_signal(&self.dir);
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

    /// Waits for the state `ready` in postmaster.pid, as `pg_ctl start` does.
    fn wait_ready(&self) {
        let pid = self.postmaster().lock().unwrap().id().to_string();
        let path = self.dir.join("data/postmaster.pid");
        wait_until(&format!("PostgreSQL is ready; its log is {}/log", self.dir.display()), || {
            let file = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = file.lines().map(str::trim).collect();
            lines.first() == Some(&&*pid) && lines.get(7) == Some(&"ready")
        });
    }
}

#[cfg(feature = "postgres")]
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

    /// Opens a connection.
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

/// Parent directory of volatile servers: in memory if there is enough of it, since a database is about a thousand files and
/// tests create hundreds of them.
fn volatile_parent() -> PathBuf {
    const ENOUGH_BYTES: u64 = 8 << 30;
    let available = Command::new("df").args(["--block-size=1", "--output=avail", "/dev/shm"]).output();
    let available = available.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let available = available.and_then(|text| text.lines().last()?.trim().parse::<u64>().ok());
    if available.is_some_and(|bytes| bytes >= ENOUGH_BYTES) {
        "/dev/shm".into()
    } else {
        std::env::temp_dir()
    }
}

/// A new directory with an initialized `data` inside, copied from one that all test programs of this machine share, because
/// `initdb` takes longer than starting the server.
fn new_data_dir(parent: &Path) -> PathBuf {
    let version = run_checked(pg_command("postgres").arg("--version"));
    let version: String = version.chars().filter(char::is_ascii_alphanumeric).collect();
    let template = std::env::temp_dir().join(format!("tendot-test-initdb-{version}"));
    let lock = std::fs::File::create(template.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !template.exists() {
        let draft = tempfile::tempdir().unwrap().keep();
        chown_dir(&draft);
        initialize(&draft.join("data"));
        std::fs::rename(draft, &template).unwrap();
    }
    drop(lock);
    let dir = tempfile::tempdir_in(parent).unwrap().keep();
    run_checked(Command::new("cp").arg("-a").arg(template.join("data")).arg(&dir));
    chown_dir(&dir);
    dir
}

fn initialize(data: &Path) {
    let options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"];
    run_checked(pg_command("initdb").args(options).arg("-D").arg(data));
    let hba = "host all locked all scram-sha-256\nhost all,replication all all trust\nlocal all all trust\n";
    std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
    let settings = "listen_addresses = '127.0.0.1'\nshared_buffers = 32MB\nmax_connections = 200\n";
    let mut file = std::fs::File::options().append(true).open(data.join("postgresql.conf")).unwrap();
    file.write_all(settings.as_bytes()).unwrap();
}

fn primary_conninfo(port: u16, name: &str) -> String {
    format!("primary_conninfo = 'host=127.0.0.1 port={port} user=postgres application_name={name}'")
}

fn create_standby_signal(dir: &Path) {
    let signal = dir.join("data/standby.signal");
    std::fs::write(&signal, "").unwrap();
    chown_private_file(&signal);
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

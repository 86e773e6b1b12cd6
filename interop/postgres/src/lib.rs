//! PostgreSQL's servers for tests and measurements: Debian's, installed if missing, or those whose programs are in the folder
//! `POSTGRESQL_PROGRAMS`; as an unprivileged user, each on a spare port and in a folder that is gone with it.
//!
//! Whatever goes wrong here ends the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

/// A server. It ends when it is dropped, or this process ends.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    /// Where it listens, at 127.0.0.1.
    pub port: u16,
    postmaster: Mutex<Child>,
    /// Ends the server and removes the folder when its input ends, however this process does.
    watch: Child,
}

/// The one for all tests that leave it as it is. It never waits for the disk, since nobody loses power here; and
/// services that run as long as their test do not end before it.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start("fsync = off\nmax_connections = 1000"))
}

/// The address of a database that is empty, for one test.
pub fn new_database() -> String {
    block_on(async { shared().address(&shared().database().await) })
}

/// Waits for something that begins tasks: they go on as long as this process. It may be within another such call.
pub fn block_on<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let _within = RUNTIME.get_or_init(|| Runtime::new().unwrap()).enter();
    pollster::block_on(future)
}

impl Server {
    /// Makes a cluster and starts its server. The user `postgres` needs no password, `locked` does. Each line of `settings` is
    /// one of postgresql.conf.
    pub fn start(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let data = folder.join("data");
        give_folder(&folder);
        run(program("initdb").arg("-D").arg(&data).args([
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
        let port = spare_port();
        configure(&folder, port, &format!("{common}{settings}"));
        Self::begin(folder, port)
    }

    /// A standby of this one, which follows it under the name `name`: that is what `synchronous_standby_names` knows it by.
    pub fn standby(&self, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        give_folder(&folder);
        let port = spare_port();
        self.copy_to(&folder, port, name);
        Self::begin(folder, port)
    }

    /// Copies this server's files into a folder, for a standby that follows it.
    fn copy_to(&self, folder: &Path, port: u16, name: &str) {
        run(program("pg_basebackup")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-X", "stream", "-c", "fast", "--no-sync", "-R"])
            .args(["-p", &self.port.to_string()])
            .arg("-D")
            .arg(folder.join("data")));
        // What is in this file would win over ours.
        std::fs::write(folder.join("data/postgresql.auto.conf"), "").unwrap();
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.port);
        configure(folder, port, &format!("primary_conninfo = '{primary}'"));
    }

    /// Starts the server of a folder.
    fn begin(folder: PathBuf, port: u16) -> Self {
        let watch = Command::new("sh")
            .arg("-c")
            .arg(
                "read line; pid=$(head -1 data/postmaster.pid 2>/dev/null) && kill -INT $pid; \
                 while [ -e data/postmaster.pid ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done; rm -rf \"$PWD\"",
            )
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let postmaster = Mutex::new(spawn(&folder));
        let server = Self { folder, port, postmaster, watch };
        server.wait();
        server
    }

    /// The address of a database, as the user `postgres`.
    pub fn address(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes a database, which is empty. Gives its name.
    pub async fn database(&self) -> String {
        let name = new_name();
        self.execute("postgres", &format!("create database {name}")).await;
        name
    }

    /// Makes a database that is as another is, to which nobody is connected. Gives its name.
    pub async fn copy(&self, of: &str) -> String {
        let name = new_name();
        self.execute("postgres", &format!("create database {name} template {of}")).await;
        name
    }

    /// Runs statements.
    pub async fn execute(&self, database: &str, sql: &str) {
        self.connect(database).await.batch_execute(sql).await.unwrap();
    }

    /// The first column of the first row, as text.
    pub async fn ask(&self, database: &str, sql: &str) -> String {
        let messages = self.connect(database).await.simple_query(sql).await.unwrap();
        let row = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        row.unwrap_or_default()
    }

    /// A connection beside the store.
    pub async fn connect(&self, database: &str) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.address(database), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Ends all of its processes at once, as a crash of the machine would.
    pub fn kill(&self) {
        let children = self.signal("KILL");
        self.postmaster.lock().unwrap().wait().unwrap();
        // Where nobody waits for orphans they stay for ever, as nothing but a number.
        let gone = |pid: &u32| matches!(stat(*pid).first().map(|state| &**state), None | Some("Z"));
        let end = Instant::now() + Duration::from_secs(10);
        while !children.iter().all(gone) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to all of its processes, and tells which they are beside the first.
    pub fn signal(&self, name: &str) -> Vec<u32> {
        let first = self.postmaster.lock().unwrap().id();
        let children = children(first);
        for pid in [first].into_iter().chain(children.iter().copied()) {
            let signal = format!("-{name}");
            let _ = Command::new("kill").args([&signal, &pid.to_string()]).stderr(Stdio::null()).status();
        }
        children
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        run(program("pg_ctl").arg("promote").arg("-s").arg("-w").arg("-D").arg(self.folder.join("data")));
    }

    /// Lets a standby follow another primary, under a name.
    pub fn follow(&self, primary: &Self, name: &str) {
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", primary.port);
        self.psql(&format!("alter system set primary_conninfo = '{primary}'"));
        self.psql("select pg_reload_conf()");
    }

    /// What a statement gives, without a runtime.
    pub fn psql(&self, sql: &str) -> String {
        let mut command = program("psql");
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
            "postgres",
            "-c",
            sql,
        ]);
        let output = command.args(["-p", &self.port.to_string()]).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until so many standbys follow that are waited for.
    fn wait_for_standbys(&self, number: u32) {
        let sql = "select count(*) from pg_stat_replication where sync_state = 'quorum'";
        let end = Instant::now() + Duration::from_secs(30);
        while self.psql(sql).parse::<u32>().unwrap() < number {
            assert!(Instant::now() < end, "the standbys do not follow");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Makes a primary that was killed a standby of another server, under a name, and starts it: what it alone had is given up.
    pub fn rejoin(&self, primary: &Self, name: &str) {
        std::fs::remove_dir_all(self.folder.join("data")).unwrap();
        primary.copy_to(&self.folder, self.port, name);
        self.restart();
    }

    /// Starts a primary that was killed as a standby of another, with all that it alone had: it cannot follow, but can be asked.
    pub fn return_astray(&self, primary: &Self) {
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name=astray", primary.port);
        configure(&self.folder, self.port, &format!("primary_conninfo = '{primary}'"));
        let signal = self.folder.join("data/standby.signal");
        std::fs::write(&signal, "").unwrap();
        give(&signal);
        self.restart();
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts it again.
    pub fn restart(&self) {
        *self.postmaster.lock().unwrap() = spawn(&self.folder);
        self.wait();
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let ready =
                program("pg_isready").args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]).status();
            if ready.unwrap().success() {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "the server does not start:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ = self.postmaster.lock().unwrap().wait();
        let _ = self.watch.wait();
    }
}

/// A primary that waits for one of two standbys before it says that something is committed.
#[derive(Debug)]
pub struct Cluster {
    /// The one that takes changes at first.
    pub primary: Server,
    /// Those that follow it.
    pub standbys: [Server; 2],
}

impl Cluster {
    /// Starts all three.
    pub fn start() -> Self {
        let primary = Server::start("");
        let standbys = STANDBYS.map(|name| primary.standby(name));
        primary.psql(&format!("alter system set {SYNCHRONOUS}"));
        primary.psql("select pg_reload_conf()");
        primary.wait_for_standbys(2);
        Self { primary, standbys }
    }

    /// The address of a database of all of them.
    pub fn address(&self, database: &str, options: &str) -> String {
        let [one, two] = &self.standbys;
        let hosts = [&self.primary, one, two].map(|server| format!("127.0.0.1:{}", server.port)).join(",");
        format!("postgres://postgres@{hosts}/{database}?{options}")
    }

    /// Promotes the standby that knows most, as those do who look after clusters, and lets the other one follow it. Gives the
    /// new primary.
    pub fn promote(&self) -> &Server {
        let known = |server: &Server| {
            let sql = "select pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint";
            server.psql(sql).parse::<u64>().unwrap()
        };
        let [one, two] = &self.standbys;
        let [first, second] = STANDBYS;
        let (best, rest, name) =
            if known(one) >= known(two) { (one, two, second) } else { (two, one, first) };
        best.psql(&format!("alter system set {SYNCHRONOUS}"));
        best.psql("select pg_reload_conf()");
        best.promote();
        rest.follow(best, name);
        best.wait_for_standbys(1);
        best
    }
}

const STANDBYS: [&str; 2] = ["one", "two"];

const SYNCHRONOUS: &str = "synchronous_standby_names = 'any 1 (one, two)'";

fn spare_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Adds lines to postgresql.conf; the last ones hold.
fn configure(folder: &Path, port: u16, settings: &str) {
    let sockets = format!("unix_socket_directories = '{}'", folder.display());
    let mut file = std::fs::File::options().append(true).open(folder.join("data/postgresql.conf")).unwrap();
    write!(file, "\n{sockets}\nport = {port}\n{settings}\n").unwrap();
}

fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NUMBER.fetch_add(1, Ordering::SeqCst))
}

fn spawn(folder: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    program("postgres")
        .arg("-D")
        .arg(folder.join("data"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .process_group(0)
        .spawn()
        .unwrap()
}

fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| stat(*pid).get(1) == Some(&parent.to_string())).collect()
}

/// What the system tells of a process, from its state on; nothing if there is none.
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().map(str::to_owned).collect()
}

/// A program of PostgreSQL, which does not run as root.
pub fn program(name: &str) -> Command {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    let path = PROGRAMS.get_or_init(|| {
        let given = std::env::var_os("POSTGRESQL_PROGRAMS").map(PathBuf::from);
        given.or_else(newest).unwrap_or_else(|| {
            run(Command::new("apt-get")
                .args(["install", "-y", "-q", "postgresql"])
                .env("DEBIAN_FRONTEND", "noninteractive"));
            newest().expect("PostgreSQL 15 or newer")
        })
    });
    let path = path.join(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path).current_dir("/");
    command
}

/// Gives a folder to the user that the server runs as.
pub fn give_folder(path: &Path) {
    if is_root() {
        program("initdb");
        run(Command::new("chown").arg("postgres").arg(path));
    }
}

/// Gives a file to the user that the server runs as, and to nobody else.
pub fn give(path: &Path) {
    if is_root() {
        program("initdb");
        run(Command::new("chown").arg("postgres").arg(path));
    }
    run(Command::new("chmod").arg("600").arg(path));
}

fn newest() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let numbers = versions.filter_map(|version| version.file_name().to_str()?.parse::<u32>().ok());
    let newest = numbers.filter(|number| *number >= 15).max()?;
    let programs = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
    programs.join("initdb").exists().then_some(programs)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

//! PostgreSQL's servers for tests and measurements: Debian's, installed if missing, as an unprivileged user, each on a spare
//! port and in a folder that is gone with it.
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
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
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
        let hba = "host all locked all scram-sha-256\nhost all all all trust\nlocal all all trust\n";
        std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        let common = "listen_addresses = '127.0.0.1'\nshared_buffers = 32MB\nmax_connections = 200\n";
        Self::begin(folder, &format!("{common}{settings}"))
    }

    /// A standby of this one, which follows it under the name `name`: that is what `synchronous_standby_names` knows it by.
    pub fn standby(&self, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        run(program("pg_basebackup")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-X", "stream", "-c", "fast", "--no-sync", "-R"])
            .args(["-p", &self.port.to_string()])
            .arg("-D")
            .arg(folder.join("data")));
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.port);
        Self::begin(folder, &format!("primary_conninfo = '{primary}'\n"))
    }

    /// Starts the server of a folder, with some lines more in postgresql.conf.
    fn begin(folder: PathBuf, settings: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let sockets = format!("unix_socket_directories = '{}'", folder.display());
        let mut file =
            std::fs::File::options().append(true).open(folder.join("data/postgresql.conf")).unwrap();
        write!(file, "\n{sockets}\nport = {port}\n{settings}\n").unwrap();
        // What a base backup has in this file would win over ours.
        std::fs::write(folder.join("data/postgresql.auto.conf"), "").unwrap();
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

    /// Makes a primary that was killed a standby of another server, under a name, and starts it: what it alone had is given up.
    pub fn rejoin(&self, primary: &Self, name: &str) {
        let data = self.folder.join("data");
        let source = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", primary.port);
        run(program("pg_rewind").arg("-D").arg(&data).arg("--source-server").arg(source));
        let primary = format!("host=127.0.0.1 port={} user=postgres application_name={name}", primary.port);
        let mut file = std::fs::File::options().append(true).open(data.join("postgresql.conf")).unwrap();
        write!(file, "\nport = {}\nprimary_conninfo = '{primary}'\n", self.port).unwrap();
        let sockets = format!("unix_socket_directories = '{}'", self.folder.display());
        writeln!(file, "{sockets}").unwrap();
        let signal = data.join("standby.signal");
        std::fs::write(&signal, "").unwrap();
        give(&signal);
        self.restart();
    }

    /// Where its programs and files are, for those that are run beside it.
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
        newest().unwrap_or_else(|| {
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

//! systemd units of `deploy/`: valid, hardened, and the program runs as they start it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tendot_testing::handle_keys::handle_net_file;
use tendot_testing::{ensure_programs, run_checked, wait_until, workspace_root};

use crate::support::{TENDOT, TestDir, TestServer, text_output};

const SERVICES: [&str; 2] = ["tendot.service", "postgresql/tendot@.service"];
const KEYS: &str = "tendot.service.d/keys.conf";
const PROGRAM: &str = "/usr/local/bin/tendot";

/// User that owns nothing on the machine of the tests, as with `DynamicUser`.
const SERVICE_USER: u32 = 61_184;

/// Values of a setting in the section `Service`, in order.
fn service_settings<'u>(unit: &'u str, name: &str) -> Vec<&'u str> {
    let mut section = "";
    let mut values = Vec::new();
    for line in unit.lines() {
        match line.split_once('=') {
            _ if line.starts_with('[') => section = line,
            Some((found, value)) if section == "[Service]" && found == name => values.push(value),
            _ => {}
        }
    }
    values
}

fn deploy_file(name: &str) -> String {
    fs::read_to_string(workspace_root().join("deploy").join(name)).unwrap()
}

fn systemd_analyze(arguments: &[&str]) -> Command {
    ensure_programs(&["systemd-analyze"], &["systemd"]);
    let mut command = Command::new("systemd-analyze");
    command.args(arguments);
    command
}

/// Copies all units, with the path of the program under test.
fn copy_units(dir: &TestDir) -> Vec<PathBuf> {
    fs::create_dir(dir.file("tendot.service.d")).unwrap();
    let units = ["tendot.socket", "tendot-native.socket", "postgresql/tendot.target", KEYS];
    let copy = |name: &&str| {
        let path = name.trim_start_matches("postgresql/");
        PathBuf::from(dir.write(path, deploy_file(name).replace(PROGRAM, TENDOT)))
    };
    units.iter().chain(&SERVICES).map(copy).filter(|path| !path.ends_with("keys.conf")).collect()
}

#[test]
fn units_are_valid() {
    let dir = TestDir::new();
    let units = copy_units(&dir);
    let mut verify = systemd_analyze(&["verify", "--man=no"]);
    let (code, stdout, stderr) = text_output(verify.args(&units));
    assert_eq!((code, &*stdout, &*stderr), (Some(0), "", ""));
    for service in
        units.iter().filter(|path| path.extension().is_some_and(|extension| extension == "service"))
    {
        // Tenths of the scale from 0 to 10; an ordinary service has 9.6.
        let mut security = systemd_analyze(&["security", "--offline=true", "--no-pager", "--threshold=18"]);
        let (code, stdout, stderr) = text_output(security.arg(service));
        assert_eq!(code, Some(0), "{stdout}{stderr}");
    }
}

/// Both services have the same restrictions, except for ports below 1024 and the user.
#[test]
fn services_are_equally_restricted() {
    let [one, several] = SERVICES.map(deploy_file);
    let restrictions = |unit: &str| {
        let lines =
            unit.lines().skip_while(|line| !line.starts_with("UMask=")).take_while(|line| !line.is_empty());
        let lines = lines.filter(|line| !line.starts_with('#') && !line.contains("Capabilit"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(restrictions(&one), restrictions(&several));
    for (name, value) in [("UMask", "0077"), ("LimitCORE", "0"), ("MemoryDenyWriteExecute", "yes")] {
        assert_eq!(service_settings(&one, name), [value], "{name}");
    }
}

/// Files as systemd sets them up for a service of another user.
struct ServiceFixture {
    dir: TestDir,
    /// Unit and its drop-in for keys.
    unit: String,
    program: PathBuf,
}

impl ServiceFixture {
    /// Keys and configuration are readable by root only.
    fn new() -> Self {
        let dir = TestDir::new();
        dir.set_mode("", 0o711);
        let fixture =
            Self { unit: deploy_file(SERVICES[0]) + &deploy_file(KEYS), program: dir.file("tendot"), dir };
        let dir = &fixture.dir;
        // The directory of the build may not be accessible to other users.
        fs::copy(TENDOT, &fixture.program).unwrap();
        dir.write_certificate(&["localhost"]);
        dir.write("signing.pem", handle_net_file("admpriv.bin"));
        let settings = "[http]\naddress = \"127.0.0.1:0\"\ntrust_loopback = true\n[https]\naddress = \"127.0.0.1:0\"\n\
                        [native]\naddress = \"off\"\n\
                        [signing]\nprefixes = [\"10.70000\"]\nsigner = \"300:0.NA/10.70000\"\n";
        dir.write("tendot.toml", settings);
        fixture.make_private("state", 0o700);
        fixture.load_credentials();
        fixture
    }

    /// Creates a directory of the service user.
    fn make_private(&self, name: &str, mode: u32) {
        fs::create_dir_all(self.dir.file(name)).unwrap();
        self.dir.set_mode(name, mode);
        chown(self.dir.file(name), Some(SERVICE_USER), Some(SERVICE_USER)).unwrap();
    }

    /// Copies the files of `LoadCredential=`, readable by the service user only.
    fn load_credentials(&self) {
        self.make_private("credentials", 0o500);
        for credential in service_settings(&self.unit, "LoadCredential") {
            let (name, source) = credential.split_once(':').unwrap();
            let source = Path::new(source).file_name().unwrap().to_str().unwrap();
            self.dir.set_mode(source, 0o600);
            let copy = format!("credentials/{name}");
            fs::copy(self.dir.file(source), self.dir.file(&copy)).unwrap();
            self.dir.set_mode(&copy, 0o400);
            chown(self.dir.file(&copy), Some(SERVICE_USER), Some(SERVICE_USER)).unwrap();
        }
    }

    /// Command that starts the service.
    fn command(&self) -> Command {
        let mut command = self.command_as_root();
        command.uid(SERVICE_USER).gid(SERVICE_USER);
        command
    }

    /// The same command line, as root.
    fn command_as_root(&self) -> Command {
        let line =
            service_settings(&self.unit, "ExecStart")[0].replace(PROGRAM, self.program.to_str().unwrap());
        let line = self.expand(&line);
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear().current_dir("/");
        let variables = service_settings(&self.unit, "Environment");
        for variable in variables.iter().flat_map(|variables| variables.split(' ')) {
            let (name, value) = variable.split_once('=').unwrap();
            command.env(name, self.expand(value));
        }
        command
    }

    fn expand(&self, text: &str) -> String {
        let path = |name: &str| self.dir.file(name).to_str().unwrap().to_owned();
        let text = text.replace("%d", &path("credentials")).replace("${STATE_DIRECTORY}", &path("state"));
        assert!(!text.contains(['%', '$']), "{text}");
        text
    }
}

/// Issue: a key of mode 0600 was not readable for the user of the service.
#[test]
fn service_user_reads_credentials() {
    let fixture = ServiceFixture::new();
    // The sources of the credentials are for root only.
    for (variable, file) in [("TENDOT_HTTPS_KEY", "key.pem"), ("TENDOT_SIGNING_KEY", "signing.pem")] {
        let (code, stdout, stderr) = text_output(fixture.command().env(variable, fixture.dir.file(file)));
        assert!(code == Some(2) && stderr.contains("Permission denied"), "{variable}: {stdout}{stderr}");
    }
    let server = TestServer::from_command(&mut fixture.command(), &fixture.dir.file("state"));
    assert_eq!(server.get("/readyz").status, 200);
    let address = server.https_address();
    let output = run_checked(Command::new("curl").args(["-sk", &format!("https://{address}/readyz")]));
    assert!(output.contains("ready"), "{output}");
    assert_eq!(fixture.dir.mode("state/operator.token"), 0o600);
    assert_eq!(server.terminate(), Some(0));
}

/// System calls that `SystemCallFilter=` allows.
fn allowed_system_calls(unit: &str) -> BTreeSet<String> {
    let groups = run_checked(&mut systemd_analyze(&["syscall-filter", "--no-pager"]));
    let mut members: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut group = "";
    for line in groups.lines() {
        match line.trim() {
            name if name.starts_with('@') && !line.starts_with(' ') => group = name,
            "" => group = "",
            name if !name.starts_with('#') && !group.is_empty() => {
                members.entry(group).or_default().push(name);
            }
            _ => {}
        }
    }
    fn expand<'m>(name: &'m str, members: &BTreeMap<&str, Vec<&'m str>>, into: &mut BTreeSet<String>) {
        match members.get(name) {
            Some(names) => names.iter().for_each(|name| expand(name, members, into)),
            None => drop(into.insert(name.to_owned())),
        }
    }
    // Always allowed.
    let mut allowed = BTreeSet::new();
    expand("@default", &members, &mut allowed);
    for filter in service_settings(unit, "SystemCallFilter") {
        let mut named = BTreeSet::new();
        for name in filter.trim_start_matches('~').split(' ') {
            expand(name, &members, &mut named);
        }
        if filter.starts_with('~') {
            allowed.retain(|name| !named.contains(name));
        } else {
            allowed.extend(named);
        }
    }
    allowed
}

#[test]
fn service_may_make_its_system_calls() {
    ensure_programs(&["strace"], &["strace"]);
    let fixture = ServiceFixture::new();
    let allowed = allowed_system_calls(&fixture.unit);
    assert!(allowed.len() > 200 && !allowed.contains("mount") && !allowed.contains("chown"), "{allowed:?}");
    let server = fixture.command_as_root();
    let trace = fixture.dir.file("trace");
    let mut command = Command::new("strace");
    // The program stays the child of this test, and is counted to its end.
    command
        .args(["-D", "-f", "-c", "-U", "name", "-o"])
        .arg(&trace)
        .arg(server.get_program())
        .args(server.get_args());
    command.env_clear().envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH").unwrap()).current_dir("/");
    let server = TestServer::from_command(&mut command, &fixture.dir.file("state"));
    let home = server.request("POST", "/api/prefixes/10.5555").send(server.address());
    assert_eq!(home.status, 200, "{}", home.text());
    let put = server.put_handle("10.5555/X", "https://example.org/").send(server.address());
    assert_eq!(put.status, 201, "{}", put.text());
    for path in ["/", "/10.5555/X", "/metrics", "/api/handles?prefix=10.5555"] {
        assert!(server.get(path).status < 500, "{path}");
    }
    let lookup = server.request("GET", "/hrls/handles?URL=*example*");
    assert!(lookup.send(server.address()).status < 500);
    server.signal("HUP");
    server.wait_for_log("certificate reloaded");
    assert_eq!(server.terminate(), Some(0));
    wait_until("the system calls are counted", || {
        fs::read_to_string(&trace).is_ok_and(|text| text.contains("futex") && text.ends_with('\n'))
    });
    let counted = fs::read_to_string(&trace).unwrap();
    // A name per line, between a heading, the sum and lines of hyphens.
    let is_name = |line: &&str| {
        !matches!(*line, "" | "syscall" | "total")
            && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let calls: BTreeSet<_> = counted.lines().map(str::trim).filter(is_name).map(str::to_owned).collect();
    assert!(calls.len() > 30, "{counted}");
    let denied: Vec<_> = calls.difference(&allowed).collect();
    assert!(denied.is_empty(), "not allowed by SystemCallFilter: {denied:?}");
}

//! The interface as it is described: the commands of `/docs`, and everything that schemathesis makes of `/openapi.json`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;

/// A service with the demo's records, which is killed when it is no longer needed.
struct Service {
    process: Child,
    directory: tempfile::TempDir,
    address: String,
    token: String,
}

impl Service {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_tendot"))
            .current_dir(&directory)
            .args(["serve", "--demo", "--http", "127.0.0.1:0", "--native", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = said.map(Result::unwrap).find(|line| line.starts_with("ready")).expect("it is ready");
        let addresses = ready.trim_start_matches("ready: ");
        let address = addresses.split(' ').next().unwrap_or_default().trim_end_matches('/').to_owned();
        let token = std::fs::read_to_string(directory.path().join("tendot-data/operator.token")).unwrap();
        Self { process, directory, address, token: token.trim().to_owned() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every command works as it stands on the page, and does what it should.
#[test]
fn the_commands_of_the_page_work() {
    let service = Service::start();
    // Curl reads it from there: a status of 400 and above is a failure.
    std::fs::write(service.directory.path().join(".curlrc"), "fail\nshow-error\n").unwrap();
    let run = |command: &str| {
        let ran = Command::new("sh")
            .args(["-c", command])
            .env("SERVER", &service.address)
            .env("TOKEN", &service.token)
            .env("CURL_HOME", service.directory.path())
            .output()
            .unwrap();
        let (said, failed) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && !said.is_empty(), "{command}: {said}{failed}");
        said.into_owned()
    };
    let document: Json = serde_json::from_str(&run("curl -s $SERVER/openapi.json")).unwrap();
    let page = run("curl -s $SERVER/docs");
    let mut commands = Vec::new();
    for path in document["paths"].as_object().unwrap().values() {
        for method in ["get", "post", "put", "delete"] {
            let samples = path[method]["x-codeSamples"].as_array().into_iter().flatten();
            commands.extend(samples.map(|sample| sample["source"].as_str().unwrap()));
        }
    }
    for command in &commands {
        let shown = command.replace('"', "&#34;").replace('&', "&#38;").replace("&#38;#34;", "&#34;");
        assert!(page.contains(&shown.replace('\'', "&#39;")), "{command} is not on the page");
        let said = run(command);
        let led = said.contains("\r\nlocation: https://example.org/\r\n")
            || said.contains("\r\nlocation: https://example.net/copies/2\r\n")
            || said.contains("\r\nlocation: /10.5555/DEMO\r\n");
        assert_eq!(command.contains("curl -si"), led, "{command}: {said}");
        if command.contains("/api/handles/") {
            let answer: Json = serde_json::from_str(&said).unwrap();
            assert_eq!(answer["responseCode"], 1, "{command}");
        }
    }
    assert!(commands.len() > 12, "{commands:?}");
}

/// The version is fixed, like the seed: a new one may look for more.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// What schemathesis makes of the description is answered as the description says.
#[test]
fn schemathesis_finds_nothing() {
    let program = schemathesis();
    let service = Service::start();
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis");
    let ran = Command::new("timeout")
        .arg("300")
        .arg(program)
        .arg("--config-file")
        .arg(settings.join("schemathesis.toml"))
        .arg("run")
        .arg(format!("{}/openapi.json", service.address))
        .arg("--no-color")
        .current_dir(service.directory.path())
        .env("PYTHONPATH", &settings)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SERVER", &service.address)
        .env("TOKEN", &service.token)
        .output()
        .unwrap();
    let (said, failed) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}{failed}");
    let cases = said.lines().find_map(|line| line.trim().split_once(" generated, ")?.0.parse::<u32>().ok());
    assert!(cases.is_some_and(|cases| cases > 1_000), "{said}");
}

/// Schemathesis, in an environment of its own below the target directory.
fn schemathesis() -> std::path::PathBuf {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join(SCHEMATHESIS);
    let python = environment.join("bin/python");
    let run = |command: &mut Command| {
        let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    let program = environment.join("bin/schemathesis");
    if !program.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        run(Command::new(python).args(["-m", "pip", "install", "--quiet", SCHEMATHESIS]));
    }
    program
}

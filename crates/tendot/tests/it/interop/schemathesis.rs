//! schemathesis generates requests from `/openapi.json`, and every response conforms to it.

use std::process::Command;

use tendot_testing::{is_full_run, repetitions};

use super::{interop_file, python_environment};
use crate::support::{TestDir, TestServer};

/// Pinned version; another one may generate other requests, even with the same seed.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

#[test]
fn schemathesis_passes() {
    let program = python_environment(&[SCHEMATHESIS]).join("schemathesis");
    let dir = TestDir::new();
    let server =
        TestServer::builder(&dir).demo().with_native().set("http.trusted_proxies=127.0.0.1/32").start();
    // Generated at the first request, which takes seconds in an unoptimized build; schemathesis times out after ten.
    assert_eq!(server.get("/openapi.json").status, 200);
    let settings = interop_file("schemathesis");
    let examples = repetitions("TENDOT_TEST_SCHEMATHESIS_EXAMPLES", 2, 12);
    let output = Command::new("timeout")
        // Less than the timeout of a test program.
        .arg("2400")
        .arg(program)
        .arg("--config-file")
        .arg(settings.join("schemathesis.toml"))
        .arg("run")
        .arg(format!("{}/openapi.json", server.url()))
        .arg("--no-color")
        .arg(format!("--max-examples={examples}"))
        .current_dir(dir.path())
        .env("PYTHONPATH", &settings)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SERVER", server.url())
        .env("TOKEN", server.token())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let cases = stdout.lines().find_map(|line| line.trim().split_once(" generated, ")?.0.parse::<u32>().ok());
    let expected = if is_full_run() { 1_000 } else { 300 };
    assert!(cases.is_some_and(|cases| cases > expected), "{stdout}");
}

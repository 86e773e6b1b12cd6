//! `--ca-file`: a usual self-signed certificate is accepted when it is the given file, as by curl.

use std::process::Command;

use crate::support::{TestDir, TestServer};

/// Makes a self-signed certificate with openssl's defaults, which mark it as a CA.
fn self_signed(dir: &TestDir, name: &str, options: &[&str]) {
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &certificate]);
    let output = openssl.args(options).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    dir.set_mode(&key, 0o600);
}

#[test]
fn self_signed_ca_certificates() {
    for options in [
        &["-subj", "/CN=127.0.0.1"][..],
        &["-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1"],
        &[
            "-subj",
            "/CN=server",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ],
    ] {
        let dir = TestDir::new();
        self_signed(&dir, "server", options);
        self_signed(&dir, "other", options);
        let server = TestServer::builder(&dir)
            .http("off")
            .demo()
            .args(&["--https", "127.0.0.1:0"])
            .set("https.certificate=server.pem")
            .set("https.key=server.key")
            .start();
        let (url, port) = (server.url(), server.https_address().port());
        let token = server.token();
        let commands: [&[&str]; 4] = [
            &["agency", "list"],
            &["resolve", "10.5555/DEMO"],
            &["handle", "show", "10.5555/DEMO"],
            &["handle", "list", "--token", &token],
        ];
        let by_curl = |file: &str, url: &str| {
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--noproxy", "*", "--cacert", file, &format!("{url}/livez")]);
            curl.current_dir(dir.path()).output().unwrap().status.success()
        };
        let wrong_name = format!("https://localhost:{port}");
        for (file, url, code) in
            [("server.pem", &url, 0), ("other.pem", &url, 2), ("server.pem", &wrong_name, 2)]
        {
            assert_eq!(by_curl(file, url), code == 0, "{options:?} {file} {url}");
            for command in commands {
                let arguments = [command, &["--server", url, "--ca-file", file]].concat();
                dir.run_to(code, &arguments);
            }
        }
        for command in commands {
            dir.run_to(2, &[command, &["--server", &url]].concat());
        }
        // A server with an upstream has a setting.
        let dir2 = TestDir::new();
        let file = dir.file("server.pem").display().to_string();
        let upstream = TestServer::builder(&dir2).set(&format!("upstream={url}"));
        assert_eq!(upstream.start().get("/10.5555/DEMO").status, 502);
        let trusting = upstream.set(&format!("upstream_ca_file={file}")).start();
        assert_eq!(trusting.get("/10.5555/DEMO").status, 302);
    }
}

#[test]
fn unusable_certificate_files() {
    let dir = TestDir::new();
    dir.write("none.pem", "nothing");
    for command in [&["agency", "list"][..], &["resolve", "10.5555/1"], &["handle", "show", "10.5555/1"]] {
        let arguments = [command, &["--server", "https://127.0.0.1:1", "--ca-file", "none.pem"]].concat();
        let (_, stderr) = dir.run_to(2, &arguments);
        assert!(stderr.contains("invalid CA certificates"), "{stderr}");
        let missing = [command, &["--server", "https://127.0.0.1:1", "--ca-file", "missing"]].concat();
        let (_, stderr) = dir.run_to(2, &missing);
        assert!(stderr.contains("cannot read `missing`"), "{stderr}");
    }
    let (_, stderr) =
        dir.run_to(2, &["resolve", "10.5555/1", "--server", "hdl://127.0.0.1", "--ca-file", "none.pem"]);
    assert!(stderr.contains("`--ca-file` requires `--server https://…`"), "{stderr}");
    // Not ignored where nothing is verified.
    for command in [&["resolve", "10.5555/1"][..], &["handle", "show", "10.5555/1"]] {
        let arguments = [command, &["--server", "http://127.0.0.1:1", "--ca-file", "none.pem"]].concat();
        let (_, stderr) = dir.run_to(2, &arguments);
        assert!(stderr.contains("require") && stderr.contains("`--server https://…`"), "{stderr}");
    }
    let (_, stderr) = dir.run_to(2, &["serve", "--set", "upstream_ca_file=none.pem"]);
    assert!(
        stderr.contains("`upstream_ca_file` has no effect unless `upstream` is an `https://` URL"),
        "{stderr}"
    );
}

//! Demo records resolve, writes require the operator token, other prefixes are resolved upstream, and a store has one server.

use std::process::Stdio;

use tendot_testing::http::HttpRequest;

use crate::support::{TestDir, TestServer, stderr};

/// Two servers, one of which is the upstream resolver of the other; `explain` queries it, too.
#[test]
fn upstream_resolver() {
    let (upstream_dir, dir) = (TestDir::new(), TestDir::new());
    let upstream = TestServer::builder(&upstream_dir).demo().start();
    let base = upstream.url();
    dir.write("tendot.toml", format!("upstream = \"{base}\"\n[cache]\nsize = \"1MiB\"\n"));
    let server = TestServer::builder(&dir).args(&["--config", "tendot.toml"]).start();
    let response = server.get("/10.5555/DEMO");
    assert_eq!((response.status, response.header("location")), (302, Some("https://example.org/")));
    let doctor = || {
        let (code, stdout, _) = dir.run(&["explain", "10.5555/demo", "--config", "tendot.toml"]);
        (code, stdout)
    };
    let (code, stdout) = doctor();
    let expected = format!("ok      upstream  fetched from {base}");
    assert!(code == Some(0) && stdout.contains(&expected), "{stdout}");
    drop(upstream);
    // The server has the record in its cache; `explain` has no cache.
    assert_eq!(server.get("/10.5555/DEMO").status, 302);
    assert_eq!(server.get("/10.5555/OTHER").status, 502);
    let (code, stdout) = doctor();
    let expected = format!("failed  upstream  {base} is unreachable");
    assert!(code == Some(2) && stdout.contains(&expected), "{stdout}");
}

#[test]
fn demo_records_resolve() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().start();
    let location = |target: &str| {
        let response = server.get(target);
        (response.status, response.header("location").unwrap_or_default().to_owned())
    };
    assert_eq!(location("/10.5555/demo"), (302, "https://example.org/".into()));
    assert_eq!(location("/10.5555/DEMO-ALIAS?x=y"), (301, "/10.5555/DEMO?x=y".into()));
    assert_eq!(
        location("/10.5555/DEMO-COPIES?locatt=country:gb"),
        (302, "https://example.net/copies/2".into())
    );
    let pasted = "/?text=Doe%2C+J.+A+first+record.+https%3A%2F%2Fdoi.org%2F10.5555%2FDEMO.";
    assert_eq!(location(pasted), (303, "/10.5555/DEMO".into()));
    assert_eq!(location("/10.5555/none").0, 404);
    assert_eq!(location("/readyz").0, 200);
    let response = HttpRequest::new("HEAD", "/10.5555/demo").send(server.address());
    assert_eq!((response.status, response.body.len()), (302, 0));
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn writes_need_the_token() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().start();
    let (name, url) = ("10.5555/NEW", "https://example.org/new");
    let rejected = HttpRequest::new("PUT", &format!("/api/handles/{name}")).bearer("wrong");
    let body = r#"[{"index":1,"type":"URL","data":"https://example.org/new"}]"#;
    assert_eq!(rejected.body(body).send(server.address()).status, 401);
    assert_eq!(server.put_handle(name, url).send(server.address()).status, 201);
    assert_eq!(server.put_handle(name, url).send(server.address()).status, 200);
    assert_eq!(dir.mode("tendot-data/operator.token"), 0o600);
}

#[test]
fn second_server_reports_lock_holder() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).start();
    let second = TestServer::builder(&dir).command().output().unwrap();
    let output = stderr(&second);
    assert_eq!(second.status.code(), Some(2));
    assert!(output.contains(&format!("in use by process {}", server.pid())), "{output}");
    assert!(output.contains("hint:"), "{output}");
    let import = dir.tendot(&["import", "-"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(import.status.code(), Some(2));
}

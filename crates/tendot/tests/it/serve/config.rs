//! `tendot config` shows every setting with its origin, and unknown settings are reported with file and line.

use crate::support::{TestDir, TestServer, text_output};

#[test]
fn settings_are_shown_with_their_origin() {
    let dir = TestDir::new();
    let run = |arguments: &[&str]| text_output(dir.tendot(arguments).env("TENDOT_LOG_LEVEL", "warn"));
    assert_eq!(run(&["config", "init", "t.toml"]).0, Some(0));
    assert_eq!(run(&["config", "init", "t.toml"]).0, Some(2));
    assert_eq!(run(&["config", "check", "t.toml"]).0, Some(0));
    assert_eq!(run(&["config", "check", "none.toml"]).0, Some(2));
    dir.write("t.toml", "[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n");
    let (code, settings, _) =
        run(&["config", "show", "--config", "t.toml", "--set", "http.rate_limit.enabled=false"]);
    assert_eq!(code, Some(0));
    let line = |key: &str| settings.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("http.trusted_proxies").starts_with("http.trusted_proxies = [\"10.0.0.0/8\"]"));
    assert!(line("http.trusted_proxies").ends_with("# t.toml:2"));
    assert!(line("log.level").ends_with("# TENDOT_LOG_LEVEL"));
    assert!(line("http.rate_limit.enabled").ends_with("# --set"));
    assert!(line("data").ends_with("# default"));
    let (_, json, _) = run(&["config", "show", "--json"]);
    let level = json.lines().find(|line| line.contains("log.level")).unwrap();
    assert_eq!(level, r#"{"key":"log.level","value":"warn","origin":"env","location":"TENDOT_LOG_LEVEL"}"#);

    dir.write("t.toml", "\n[htpp]\naddress = \"off\"\n");
    let error = "error: t.toml:3: unknown setting `htpp.address`; did you mean `http.address`?";
    let (code, _, stderr) = run(&["config", "check", "t.toml"]);
    assert!(code == Some(1) && stderr.starts_with(error), "{stderr}");
    let (code, _, stderr) = run(&["serve", "--config", "t.toml"]);
    assert!(code == Some(2) && stderr.starts_with(error) && stderr.contains("hint:"), "{stderr}");
    let (code, _, stderr) = run(&["serve", "--http", "off", "--native", "off", "--store", "memory:"]);
    assert!(code == Some(2) && stderr.contains("all listeners are disabled"), "{stderr}");
}

/// Pages have the operator's name and logo; doi.org stands only where it resolves the name.
#[test]
fn pages_of_an_operator() {
    let dir = TestDir::new();
    dir.write("logo.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
    let server = TestServer::builder(&dir)
        .demo()
        .set("http.operator_name=Example & Press")
        .set("http.operator_logo=logo.svg")
        .set("http.public_url=https://id.example.org/")
        .set("http.resolver_url=https://resolver.example.org")
        .start();
    assert_eq!(server.get("/favicon.svg").text(), "<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
    for path in [
        "/",
        "/docs",
        "/10.5555/DEMO?noredirect",
        "/10.5555/DEMO?explain",
        "/10.5555/NONE",
        "/10.5555/DEMO?history",
    ] {
        let page = server.get(path).text().into_owned();
        assert!(
            page.contains("Example &#38; Press</title>") && page.contains(">Example &#38; Press</a>"),
            "{page}"
        );
    }
    let record = server.get("/10.5555/DEMO?noredirect").text().into_owned();
    assert!(
        record.contains("https://id.example.org/10.5555/DEMO") && !record.contains("doi.org"),
        "{record}"
    );
    let foreign = server.get("/10.9999/x").text().into_owned();
    assert!(
        foreign.contains("https://resolver.example.org/10.9999/x") && !foreign.contains("doi.org"),
        "{foreign}"
    );

    let dir = TestDir::new();
    let plain = TestServer::builder(&dir).demo().in_memory().start();
    let record = plain.get("/10.5555/DEMO?noredirect").text().into_owned();
    assert!(record.contains("https://doi.org/10.5555/DEMO") && record.contains("Tendot</title>"), "{record}");
}

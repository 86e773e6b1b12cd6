//! Every written form that the program prints resolves at its own server: all names of the vectors, in all forms, as curl, Node
//! and Chromium send them, over HTTP/1.1 and HTTP/2, as a path, at `/api/handles`, as OpenURL, in the search box and with
//! `tendot resolve`.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use tendot_names::{Doi, OutputForm};
use tendot_testing::{conformance, ensure_programs, free_port, is_full_run};

use crate::support::{TestDir, TestServer, tendot, text_output};

const NODE_SCRIPT: &str = include_str!("written_forms/node.mjs");
const BROWSER_PAGE: &str = include_str!("written_forms/browser.html");

/// Forms that are percent-encoded, so that they can be the path of a URL.
const PATH_FORMS: [OutputForm; 9] = [
    OutputForm::Uri,
    OutputForm::Uri202411,
    OutputForm::Uri2003,
    OutputForm::Urn,
    OutputForm::Url,
    OutputForm::UrlMinimal,
    OutputForm::UrlFull,
    OutputForm::Info,
    OutputForm::Eidr,
];

/// Request target, and the number of the name that it must lead to.
struct Target {
    text: String,
    number: usize,
}

/// Valid names of the vectors that the server accepts, each once.
fn names() -> Vec<String> {
    let files = ["vectors/names.jsonl", "vectors/names-more.jsonl"];
    let cases = files.map(|file| std::fs::read_to_string(conformance(file)).unwrap()).concat();
    let mut names = vec![
        "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0".to_owned(),
        "10.1000/a`b".to_owned(),
        "10.5240/7791-8534-2C23-9030-8610-5".to_owned(),
    ];
    for case in cases.lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        if matches!(case["class"].as_str(), Some("name-valid" | "encode")) {
            names.extend(case["input"].as_str().map(str::to_owned));
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| {
        Doi::new(name).is_ok() && name.len() <= 2_048 && seen.insert(name.to_ascii_uppercase())
    });
    assert!(names.len() >= 30, "{}", names.len());
    names
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Forms of a name for an argument, a query parameter or the search box.
fn text_forms(doi: &Doi) -> Vec<String> {
    let is_excluded = |form: &OutputForm| match form {
        OutputForm::Html => true,
        // `doi:` begins a URI, in which a percent sign of the name would be decoded.
        OutputForm::Display => doi.as_str().contains('%'),
        _ => false,
    };
    let forms = OutputForm::ALL.into_iter().filter(|form| !is_excluded(form));
    forms.filter_map(|form| doi.format(form)).map(|form| form.to_string()).collect()
}

/// All targets of all names.
fn targets(names: &[String]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let doi = Doi::new(name).unwrap();
        let mut add = |text: String| targets.push(Target { text, number });
        // Clients remove such segments; only the URL forms write them so that they stay.
        let has_dot_segment = name.split('/').any(|segment| matches!(segment, "." | ".."));
        let is_url = |form| matches!(form, OutputForm::Url | OutputForm::UrlMinimal | OutputForm::UrlFull);
        for form in PATH_FORMS.into_iter().filter(|form| !has_dot_segment || is_url(*form)) {
            let Some(text) = doi.format(form).map(|form| form.to_string()) else { continue };
            let path = text.strip_prefix("https://doi.org/").unwrap_or(&text);
            add(format!("/{path}"));
            // The scheme-specific part (000, section 3).
            if let Some(specific) =
                path.strip_prefix("doi:").or(Some(path).filter(|path| path.starts_with("10.")))
            {
                add(format!("/api/handles/{specific}"));
            }
        }
        for text in text_forms(doi) {
            add(format!("/resolve?id={}", encode(&text)));
            add(format!("/openurl?rft_id={}", encode(&text)));
            add(format!("/?text={}", encode(&text)));
        }
    }
    targets
}

/// Checks the results of a client: status, last URL and body per target.
#[track_caller]
fn check(client: &str, targets: &[&Target], results: &[(u64, String, String)]) {
    assert_eq!(results.len(), targets.len(), "{client}");
    let mut failures = Vec::new();
    for (target, (status, url, body)) in targets.iter().zip(results) {
        let page = format!("/landed-{}-", target.number);
        if *status != 200 || !url.contains(&page) && !body.contains(&page) {
            failures.push(format!("{}: {status} {url} {}", target.text, body.get(..200).unwrap_or(body)));
        }
    }
    let count = failures.len();
    failures.truncate(20);
    assert!(failures.is_empty(), "{client}: {count} of {}\n{}", targets.len(), failures.join("\n"));
}

fn parse_result(json: &Json) -> (u64, String, String) {
    let text = |at: usize| json[at].as_str().unwrap_or_default().to_owned();
    (json[0].as_u64().unwrap_or_default(), text(1), text(2))
}

fn curl(dir: &TestDir, arguments: &[&str], base: &str, targets: &[&Target]) -> Vec<(u64, String, String)> {
    let config: String = targets
        .iter()
        .map(|target| {
            let quoted = target.text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("url = \"{base}{quoted}\"\n")
        })
        .collect();
    let config = dir.write("curl.conf", config);
    let mut command = Command::new("curl");
    command.args(["-gskL", "--path-as-is", "-w", "\u{1}%{http_code} %{url_effective}\u{2}", "-K", &config]);
    let (_, stdout, stderr) = text_output(command.args(arguments));
    let results = stdout.split_terminator('\u{2}').map(|result| {
        let (body, end) = result.rsplit_once('\u{1}').unwrap_or_else(|| panic!("{result}{stderr}"));
        let (status, url) = end.split_once(' ').unwrap();
        (status.parse().unwrap(), url.to_owned(), body.to_owned())
    });
    results.collect()
}

fn node(dir: &TestDir, client: &str, base: &str, targets: &[&Target]) -> Vec<(u64, String, String)> {
    let script = dir.write("node.mjs", NODE_SCRIPT);
    let list: Vec<&str> = targets.iter().map(|target| &*target.text).collect();
    let list = dir.write("targets.json", json!(list).to_string());
    let (_, stdout, stderr) = text_output(Command::new("node").args([&*script, client, base, &*list]));
    let results: Vec<_> =
        stdout.lines().map(|line| parse_result(&serde_json::from_str(line).unwrap())).collect();
    assert!(!results.is_empty(), "{stderr}");
    results
}

fn chromium(dir: &TestDir, base: &str, targets: &[&Target]) -> Vec<(u64, String, String)> {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let list: Vec<&str> = targets.iter().map(|target| &*target.text).collect();
    let address = format!("http://{}/", collector.local_addr().unwrap());
    let page = BROWSER_PAGE
        .replace("TARGETS", &json!(list).to_string().replace('<', "\\u003c"))
        .replace("BASE", &json!(base).to_string())
        .replace("COLLECTOR", &json!(address).to_string());
    let page = dir.write("browser.html", page);
    let mut browser = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--ignore-certificate-errors", "--disable-web-security", "--remote-debugging-port=0"])
        .arg(format!("--user-data-dir={}", dir.file("profile").display()))
        .arg(format!("file://{page}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stream, _) = collector.accept().unwrap();
    let (mut request, mut buffer) = (Vec::new(), [0; 64 << 10]);
    let body = loop {
        let read = stream.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "the browser closed the connection");
        request.extend_from_slice(&buffer[..read]);
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if request.len() >= end + 4 + length.parse::<usize>().unwrap() {
            break request.split_off(end + 4);
        }
    };
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n");
    let _ = browser.kill();
    let _ = browser.wait();
    let results: Vec<Json> = serde_json::from_slice(&body).unwrap();
    results.iter().map(parse_result).collect()
}

/// Characters in a target that the HTTP/2 library rejects, with a stream error: a client has to encode them.
fn is_sendable_over_http2(target: &Target) -> bool {
    !target.text.contains(['<', '>', '`'])
}

#[test]
fn written_forms_resolve() {
    ensure_programs(&["curl", "node", "chromium"], &["curl", "nodejs", "chromium"]);
    let (names, port, dir) = (names(), free_port(), TestDir::new());
    // The names lead to a path of the server itself, where clients that follow redirects end.
    let records: String = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let url = format!("http://127.0.0.1:{port}/livez?/landed-{number}-");
            let value = json!({"index": 1, "type": "URL", "data": {"format": "string", "value": url}});
            format!("{}\n", json!({"handle": name, "values": [value]}))
        })
        .collect();
    let records = dir.write("records.jsonl", records);
    dir.run_ok(&["import", &records]);
    dir.write_certificate(&["localhost"]);
    let server = TestServer::builder(&dir).http(&format!("127.0.0.1:{port}"));
    let server = server.with_https().set("http.trust_loopback=true").start();
    let base = format!("http://{}", server.address());
    let secure = format!("https://{}", server.https_address());

    let targets = targets(&names);
    let all: Vec<&Target> = targets.iter().collect();
    let (http2, unsendable): (Vec<&Target>, Vec<&Target>) =
        targets.iter().partition(|target| is_sendable_over_http2(target));
    assert!(!unsendable.is_empty());
    check("curl, HTTP/1.1", &all, &curl(&dir, &["--http1.1"], &base, &all));
    check("curl, HTTP/2", &http2, &curl(&dir, &["--http2"], &secure, &http2));
    // Browsers and `fetch` send a slash for a backslash (WHATWG URL).
    let web: Vec<&Target> = targets.iter().filter(|target| !target.text.contains('\\')).collect();
    check("Node, fetch", &web, &node(&dir, "fetch", &base, &web));
    check("Node, HTTP/1.1", &all, &node(&dir, "http1", &base, &all));
    check("Node, HTTP/2", &http2, &node(&dir, "http2", &secure, &http2));
    check("Chromium, HTTP/1.1", &web, &chromium(&dir, &base, &web));
    check("Chromium, HTTP/2", &web, &chromium(&dir, &secure, &web));
    // As documented: over HTTP/2 these fail as a stream, without a response.
    for (status, ..) in node(&dir, "http2", &secure, &unsendable) {
        assert_eq!(status, 0);
    }

    // Starting processes takes most of the time: a fourth of the forms, all of them at full length.
    let step = if is_full_run() { 1 } else { 4 };
    let forms: Vec<(usize, String)> = names
        .iter()
        .enumerate()
        .flat_map(|(number, name)| {
            text_forms(Doi::new(name).unwrap()).into_iter().map(move |form| (number, form))
        })
        .step_by(step)
        .collect();
    std::thread::scope(|scope| {
        for forms in forms.chunks(forms.len().div_ceil(4)) {
            let base = &base;
            scope.spawn(move || {
                for (number, form) in forms {
                    let arguments = ["resolve", "--server", base, "--", form];
                    let (code, stdout, stderr) = text_output(tendot().args(arguments));
                    let page = format!("/landed-{number}-");
                    assert!(code == Some(0) && stdout.contains(&page), "{form}: {stdout}{stderr}");
                }
            });
        }
    });
}

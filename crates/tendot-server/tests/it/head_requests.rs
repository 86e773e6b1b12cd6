//! HEAD as curl, nghttp and h2load send it, over HTTP/1.1, HTTP/2 without TLS and HTTP/2 over TLS: the head of the response to GET, and
//! no body. On every path of `/openapi.json`, and on kinds of responses.

use std::process::Command;
use std::sync::Arc;

use tendot_server::http::HttpLimits;
use tendot_testing::ensure_programs;

use crate::support::fixtures::PartyFixtures;
use crate::support::http_server::{TOKEN, TestServer, start, start_default};
use crate::tls::CertificateFiles;

/// Paths of kinds of responses: redirect, pages, 4xx, streamed, large, with a query.
const PATHS: [&str; 15] = [
    "/10.5555/ONE",
    "/10.5555/ONE?noredirect",
    "/10.5555/ONE?explain",
    "/10.5555/LARGE?noredirect",
    "/10.5555/NONE",
    "/10.9999/NONE",
    "/resolve?id=doi:10.5555/ONE",
    "/openurl?rft_id=info:doi/10.5555/ONE",
    "/doiRA/10.5555/ONE",
    "/api/handles?prefix=10.5555",
    "/api/handles/10.5555/LARGE",
    "/api/handles/10.5555/NONE",
    "/api/v1/dois?prefix=10.70000",
    "/hrls/handles?URL=*",
    "/undefined",
];

/// A server, its base URL, the paths, and the arguments that make a client speak a version of HTTP with it.
struct Endpoint {
    server: TestServer,
    scheme: &'static str,
    curl: &'static [&'static str],
    paths: Vec<String>,
}

fn endpoints() -> [Endpoint; 3] {
    let tls = || Some(Arc::new(CertificateFiles::new().load().unwrap()));
    let endpoint = |tls, scheme, curl| {
        let server = start(HttpLimits::default(), tls, |http| http);
        let parties = server.runtime.block_on(PartyFixtures::create(server.http.registry()));
        let paths = documented_paths(&parties).into_iter().chain(PATHS.map(str::to_owned)).collect();
        Endpoint { server, scheme, curl, paths }
    };
    [
        endpoint(None, "http", &["--http1.1"]),
        endpoint(None, "http", &["--http2-prior-knowledge"]),
        endpoint(tls(), "https", &["--http2", "--insecure"]),
    ]
}

/// Paths of `/openapi.json` with a GET operation, with what exists in place of their parameters.
fn documented_paths(parties: &PartyFixtures) -> Vec<String> {
    let document = start_default().get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap().iter();
    let readable = paths.filter(|(_, item)| item.get("get").is_some());
    let paths: Vec<String> = readable
        .map(|(path, _)| {
            path.replace("{name}", "10.70000/PAPER")
                .replace("{names}", "10.70000/PAPER,10.9999/x")
                .replace("{prefix}", "10.70000")
                .replace("{code}", "ALPHA")
                .replace("{id}", &parties.first)
                .replace("{identity}", "300:0.NA/10.5555")
        })
        .collect();
    assert!(paths.len() > 40 && !paths.iter().any(|path| path.contains('{')), "{paths:?}");
    paths
}

/// What curl prints about a response: status, length of the body, and `Content-Length`.
#[derive(Debug)]
struct Transfer {
    status: String,
    size: String,
    length: String,
}

impl Endpoint {
    fn urls(&self) -> Vec<String> {
        self.paths.iter().map(|path| self.url(path)).collect()
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.server.address)
    }

    /// Transfers of these URLs, over connections that stay open. curl 7.88 cannot use one without TLS again for HTTP/2.
    fn curl(&self, arguments: &[&str], urls: &[String]) -> Vec<Transfer> {
        let is_reused = !self.curl.contains(&"--http2-prior-knowledge");
        let urls = urls.chunks(if is_reused { urls.len() } else { 1 });
        urls.flat_map(|urls| self.curl_once(arguments, urls)).collect()
    }

    fn curl_once(&self, arguments: &[&str], urls: &[String]) -> Vec<Transfer> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--globoff", "--max-time", "60"])
            .args(["--write-out", "%{http_code}|%{size_download}|%header{content-length}\n"])
            .args(["--header", &authorization()])
            .args(self.curl)
            .args(arguments)
            .args(urls.iter().flat_map(|url| ["--output", "/dev/null", url]))
            .output()
            .unwrap();
        let (text, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "curl {arguments:?} {:?} {urls:?}: {error}\n{text}", self.curl);
        let transfer = |line: &str| {
            let mut fields = line.split('|').map(str::to_owned);
            let mut next = || fields.next().unwrap_or_else(|| panic!("{line}"));
            Transfer { status: next(), size: next(), length: next() }
        };
        text.lines().map(transfer).collect()
    }
}

fn authorization() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether two responses to a path are the same: metrics and durations change with each request.
fn is_constant(path: &str) -> bool {
    path != "/metrics" && !path.ends_with("?explain")
}

#[test]
fn head_has_no_body() {
    ensure_programs(&["curl"], &["curl"]);
    for endpoint in endpoints() {
        let (urls, paths) = (endpoint.urls(), &endpoint.paths);
        let (got, heads) = (endpoint.curl(&[], &urls), endpoint.curl(&["--head"], &urls));
        assert_eq!((got.len(), heads.len()), (paths.len(), paths.len()));
        for ((path, got), head) in paths.iter().zip(&got).zip(&heads) {
            let label = format!("{path} {:?}", endpoint.curl);
            assert_eq!((&head.status, &*head.size), (&got.status, "0"), "{label}");
            assert!(!head.status.starts_with('5'), "{label}");
            // The length of a streamed response is unknown.
            if is_constant(path) && !head.length.is_empty() {
                assert_eq!(head.length, got.size, "{label}");
            }
        }
        let succeeded = got.iter().filter(|transfer| transfer.status == "200").count();
        assert!(succeeded > 35, "{succeeded} of {}: {got:?}", paths.len());
        let changes = [endpoint.url("/api/v1/changes")];
        let events = endpoint.curl(&["--head", "--header", "Accept: text/event-stream"], &changes);
        assert_eq!((&*events[0].status, &*events[0].size), ("200", "0"), "{:?}", endpoint.curl);
    }
}

#[test]
fn other_http2_clients() {
    ensure_programs(&["nghttp", "h2load"], &["nghttp2-client"]);
    for endpoint in &endpoints()[1..] {
        for method in ["GET", "HEAD"] {
            check_nghttp(endpoint, method);
        }
        let (get, head) = (h2load(endpoint, "GET"), h2load(endpoint, "HEAD"));
        assert_eq!(get.statuses, head.statuses, "{}", head.report);
        assert!(head.report.contains(" (0) data"), "{}", head.report);
    }
}

/// nghttp sends all requests at once; it prints protocol errors, but ends with status 0.
fn check_nghttp(endpoint: &Endpoint, method: &str) {
    let output = Command::new("nghttp")
        .args(["--no-verify-peer", "--verbose", "--null-out", "--timeout=60"])
        .args(["-H", &format!(":method: {method}"), "-H", &authorization()])
        .args(endpoint.urls())
        .output()
        .unwrap();
    let log = text(&output.stdout);
    let label = format!("{method} {}: {}", endpoint.scheme, text(&output.stderr));
    assert!(output.status.success() && !log.contains("RST_STREAM"), "{label}");
    assert!(!log.contains("recv GOAWAY") || log.contains("NO_ERROR"), "{label}");
    let responses = log.lines().filter(|line| line.contains(":status: ")).count();
    assert_eq!(responses, endpoint.paths.len(), "{label}");
    let data_frames = log.lines().filter(|line| line.contains("recv DATA frame"));
    let has_data = data_frames.clone().any(|line| !line.contains("length=0"));
    assert_eq!(has_data, method == "GET", "{label}");
}

/// Report of h2load, and its line of status codes.
struct LoadReport {
    report: String,
    statuses: String,
}

/// Each of four clients requests all paths, ten at once.
fn h2load(endpoint: &Endpoint, method: &str) -> LoadReport {
    let urls = endpoint.urls();
    let requests = urls.len() * 4;
    let output = Command::new("h2load")
        .args(["-n", &requests.to_string(), "-c", "4", "-m", "10"])
        .args(["-H", &format!(":method: {method}"), "-H", &authorization()])
        .args(urls)
        .output()
        .unwrap();
    let report = text(&output.stdout);
    // Responses with a status of 400 and more count as failed.
    assert!(report.contains(&format!(" {requests} done, ")), "{report}");
    assert!(report.contains(" 0 errored, 0 timeout"), "{report}");
    let statuses = report.lines().find(|line| line.starts_with("status codes:")).unwrap().to_owned();
    assert!(statuses.ends_with(" 0 5xx"), "{report}");
    LoadReport { report, statuses }
}

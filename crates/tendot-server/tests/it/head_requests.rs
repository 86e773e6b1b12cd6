//! HEAD as curl, nghttp and h2load send it, over HTTP/1.1, HTTP/2 without TLS and HTTP/2 over TLS: the head of the response to GET, and
//! no body.

use std::process::Command;
use std::sync::Arc;

use tendot_server::http::HttpLimits;
use tendot_testing::ensure_programs;

use crate::support::http_server::{TestServer, start};
use crate::tls::CertificateFiles;

/// Paths of all kinds of responses: redirect, pages, JSON, 4xx, streamed, large, and files.
const PATHS: [&str; 22] = [
    "/",
    "/docs",
    "/openapi.json",
    "/metrics",
    "/livez",
    "/readyz",
    "/static/style.css",
    "/favicon.svg",
    "/10.5555/ONE",
    "/10.5555/ONE?noredirect",
    "/10.5555/ONE?explain",
    "/10.5555/LARGE?noredirect",
    "/10.5555/NONE",
    "/10.9999/NONE",
    "/resolve?id=doi:10.5555/ONE",
    "/doiRA/10.5555/ONE",
    "/api/handles/10.5555/ONE",
    "/api/handles/10.5555/LARGE",
    "/api/handles/10.5555/NONE",
    "/api/site",
    "/api/v1/changes",
    "/api/v1/dois?prefix=10.5555",
];

/// A server, its base URL, and the arguments that make a client speak a version of HTTP with it.
struct Endpoint {
    server: TestServer,
    scheme: &'static str,
    curl: &'static [&'static str],
}

fn endpoints() -> [Endpoint; 3] {
    let tls = || Some(Arc::new(CertificateFiles::new().load().unwrap()));
    let endpoint = |tls, scheme, curl| {
        let server = start(HttpLimits::default(), tls, |http| http);
        Endpoint { server, scheme, curl }
    };
    [
        endpoint(None, "http", &["--http1.1"]),
        endpoint(None, "http", &["--http2-prior-knowledge"]),
        endpoint(tls(), "https", &["--http2", "--insecure"]),
    ]
}

impl Endpoint {
    fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.server.address)
    }

    /// Status, body length and `Content-Length` of a response.
    fn curl(&self, arguments: &[&str], path: &str) -> (String, String, String) {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--globoff", "--max-time", "60", "--output", "/dev/null"])
            .args(["--write-out", "%{http_code}|%{size_download}|%header{content-length}"])
            .args(self.curl)
            .args(arguments)
            .arg(self.url(path))
            .output()
            .unwrap();
        let (text, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "curl {arguments:?} {:?} {path}: {error}", self.curl);
        let fields: Vec<&str> = text.split('|').collect();
        let [status, size, length] = fields[..] else { panic!("{text}") };
        (status.into(), size.into(), length.into())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn head_has_no_body() {
    ensure_programs(&["curl"], &["curl"]);
    for endpoint in endpoints() {
        for path in PATHS {
            let label = format!("{path} {:?}", endpoint.curl);
            let (get_status, get_size, _) = endpoint.curl(&[], path);
            let (status, size, length) = endpoint.curl(&["--head"], path);
            assert_eq!((status, &*size), (get_status, "0"), "{label}");
            // Metrics and durations (`?explain`) change with each request, and the length of a streamed response is unknown.
            let is_constant = path != "/metrics" && !path.ends_with("?explain");
            if is_constant && !length.is_empty() {
                assert_eq!(length, get_size, "{label}");
            }
        }
        let events = endpoint.curl(&["--head", "--header", "Accept: text/event-stream"], "/api/v1/changes");
        assert_eq!((&*events.0, &*events.1), ("200", "0"), "{:?}", endpoint.curl);
    }
}

#[test]
fn other_http2_clients() {
    ensure_programs(&["nghttp", "h2load"], &["nghttp2-client"]);
    for endpoint in &endpoints()[1..] {
        for path in PATHS {
            for method in ["GET", "HEAD"] {
                let header = format!(":method: {method}");
                // nghttp prints protocol errors, but ends with status 0.
                let nghttp = Command::new("nghttp")
                    .args(["--no-verify-peer", "--verbose", "--null-out", "--timeout=60", "-H", &header])
                    .arg(endpoint.url(path))
                    .output()
                    .unwrap();
                let log = text(&nghttp.stdout);
                let label = format!("{method} {path} {}: {log}{}", endpoint.scheme, text(&nghttp.stderr));
                assert!(nghttp.status.success() && !log.contains("RST_STREAM"), "{label}");
                assert!(!log.contains("recv GOAWAY") || log.contains("NO_ERROR"), "{label}");
                let data_frames = log.lines().filter(|line| line.contains("recv DATA frame"));
                let has_data = data_frames.clone().any(|line| !line.contains("length=0"));
                assert!(method == "GET" || !has_data, "{label}");
            }
        }
        let h2load = Command::new("h2load")
            .args(["-n", "200", "-c", "4", "-m", "10", "-H", ":method: HEAD"])
            .args(["/10.5555/ONE", "/docs", "/api/handles/10.5555/LARGE"].map(|path| endpoint.url(path)))
            .output()
            .unwrap();
        let report = text(&h2load.stdout);
        assert!(report.contains("200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    }
}

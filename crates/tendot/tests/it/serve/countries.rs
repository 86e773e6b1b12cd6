//! Settings for the country of clients.

use tendot_testing::country_database;
use tendot_testing::http::HttpRequest;

use crate::support::{TestDir, TestServer, text_output};

#[test]
fn country_database_and_header() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir)
        .demo()
        .in_memory()
        .set("http.trusted_proxies=127.0.0.1/32")
        .set("http.country_database=countries.mmdb")
        .set("http.country_header=X-Country")
        .set("http.location_parameters=id");
    let (code, _, stderr) = text_output(&mut builder.command());
    assert!(code == Some(2) && stderr.contains("country database `countries.mmdb`"), "{code:?} {stderr}");
    std::fs::write(dir.path().join("countries.mmdb"), country_database(&[("192.0.2.0/24", "GB")])).unwrap();
    let server = builder.start();
    let location = |target: &str, headers: &[&str]| {
        let request = HttpRequest::get(target).headers(headers.iter().copied());
        request.send(server.address()).header("location").unwrap_or_default().to_owned()
    };
    let target = "/10.5555/DEMO-COPIES";
    assert_eq!(location(target, &["X-Forwarded-For: 192.0.2.1"]), "https://example.net/copies/2");
    assert_eq!(location(target, &["X-Forwarded-For: 198.51.100.1"]), "https://example.org/copies/1");
    let header = &["X-Forwarded-For: 198.51.100.1", "X-Country: GB"];
    assert_eq!(location(target, header), "https://example.net/copies/2");
    assert_eq!(location("/10.5555/DEMO-COPIES?id=1", &[]), "https://example.net/copies/2");
}

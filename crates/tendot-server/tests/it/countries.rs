//! Country of a client: from a MaxMind DB file, a header of a trusted proxy, or the URL.

use std::fs;
use std::path::Path;

use http::HeaderName;
use tendot_proto::HandleValue;
use tendot_server::http::{CountryDatabase, HttpLimits, HttpServer, ProxyTrust};
use tendot_testing::http::HttpResponse;
use tendot_testing::{country_database, ram_dir, wait_until};

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TestServer, bind, start_at};

const LOCATIONS: &str = "<locations chooseby='locatt,country,weighted'>\
     <location href='https://any.example.org/' weight='1'/>\
     <location href='https://gb.example.org/' weight='0' country='gb'/>\
     <location href='https://de.example.org/' weight='0' country='DE'/></locations>";

fn start(configure: impl FnOnce(HttpServer) -> HttpServer) -> TestServer {
    let edits = vec![
        put_edit("10.5555/LOC", vec![HandleValue::new(1, "10320/loc", LOCATIONS)]),
        home_edit("10.5555"),
    ];
    start_at(bind(), edits, HttpLimits::default(), None, |http| {
        configure(http.proxy_trust(ProxyTrust {
            trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()],
            ..ProxyTrust::default()
        }))
    })
}

fn write_database(path: &Path, networks: &[(&str, &str)]) {
    // Replaced in one step, as `geoipupdate` does.
    let new = path.with_extension("new");
    fs::write(&new, country_database(networks)).unwrap();
    fs::rename(new, path).unwrap();
}

fn redirect(server: &TestServer, target: &str, headers: &str) -> HttpResponse {
    let response = server.request("GET", target, headers);
    assert_eq!(response.status, 302, "{target}: {}", response.text());
    response
}

#[track_caller]
fn check(server: &TestServer, target: &str, headers: &str, country: &str, is_private: bool) {
    let response = redirect(server, target, headers);
    let expected = format!("https://{country}.example.org/");
    assert_eq!(response.header("location"), Some(&*expected), "{target} {headers}");
    let control = response.header("cache-control").unwrap();
    assert_eq!(control.starts_with("private"), is_private, "{target} {headers}: {control}");
}

/// The steps of `?explain` for the selection.
fn selection(server: &TestServer, target: &str, headers: &str) -> Vec<String> {
    let trace = server.request("GET", target, headers).json();
    let steps = trace["steps"].as_array().unwrap().clone();
    let steps = steps.iter().filter(|step| step["step"] == "selection");
    steps.map(|step| step["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn country_of_an_address() {
    let directory = ram_dir();
    let path = directory.path().join("countries.mmdb");
    write_database(
        &path,
        &[
            ("192.0.2.0/24", "GB"),
            ("198.51.100.0/25", "DE"),
            ("203.0.113.7/32", "FR"),
            ("2001:db8:6::/48", "GB"),
        ],
    );
    let server = start(|http| http.country_database(CountryDatabase::load(&path).unwrap()));
    check(&server, "/10.5555/LOC", "X-Forwarded-For: 192.0.2.9", "gb", true);
    check(&server, "/10.5555/LOC", "X-Forwarded-For: ::ffff:198.51.100.1", "de", true);
    check(&server, "/10.5555/LOC", "X-Forwarded-For: 2001:db8:6:ffff::1", "gb", true);
    check(&server, "/10.5555/LOC?ip=2001:db8:6::1", "X-Forwarded-For: 198.51.100.1", "gb", false);
    // Another half of the network, a country without a location, and addresses without a country.
    for address in ["198.51.100.200", "203.0.113.7", "203.0.113.8", "2001:db8::1"] {
        check(&server, "/10.5555/LOC", &format!("X-Forwarded-For: {address}"), "any", true);
    }
    // The URL overrides the client, and the reply does not depend on it.
    check(&server, "/10.5555/LOC?country=de", "X-Forwarded-For: 192.0.2.9", "de", false);
    check(&server, "/10.5555/LOC?ip=192.0.2.1", "X-Forwarded-For: 198.51.100.1", "gb", false);
    // A header is not used unless it is configured.
    check(&server, "/10.5555/LOC", "X-Forwarded-For: 192.0.2.9\nCF-IPCountry: DE", "gb", true);
    let explain = |headers| selection(&server, "/10.5555/LOC?explain=json", headers);
    assert!(
        explain("X-Forwarded-For: 192.0.2.9")
            .contains(&"country GB (MaxMind DB): 1 location remaining".into())
    );
    let unknown = explain("X-Forwarded-For: 203.0.113.8");
    assert!(unknown.contains(&"country unknown: 3 locations remaining".into()), "{unknown:?}");
    let given = selection(&server, "/10.5555/LOC?explain=json&country=gb", "");
    assert!(given.contains(&"country GB (query parameter): 1 location remaining".into()), "{given:?}");
}

#[test]
fn country_header_of_a_trusted_proxy() {
    let directory = ram_dir();
    let path = directory.path().join("countries.mmdb");
    write_database(&path, &[("192.0.2.0/24", "GB")]);
    let server = start(|http| {
        http.country_database(CountryDatabase::load(&path).unwrap())
            .country_header(HeaderName::from_static("cf-ipcountry"))
    });
    let proxied = "X-Forwarded-For: 192.0.2.9\n";
    check(&server, "/10.5555/LOC", &format!("{proxied}CF-IPCountry: DE"), "de", true);
    // Unknown countries and invalid ones: the database is used.
    for unknown in ["XX", "T1", "", "Germany"] {
        check(&server, "/10.5555/LOC", &format!("{proxied}CF-IPCountry: {unknown}"), "gb", true);
    }
    // A client that is not a trusted proxy cannot choose its country.
    check(&server, "/10.5555/LOC", "CF-IPCountry: DE", "any", true);
    let steps = selection(&server, "/10.5555/LOC?explain=json", &format!("{proxied}CF-IPCountry: de"));
    assert!(steps.contains(&"country DE (header cf-ipcountry): 1 location remaining".into()), "{steps:?}");
}

/// Without a source of countries, the choice depends only on the URL.
#[test]
fn no_source_of_countries() {
    let server = start(|http| http);
    check(&server, "/10.5555/LOC", "X-Forwarded-For: 192.0.2.9\nCF-IPCountry: DE", "any", false);
    check(&server, "/10.5555/LOC?country=GB", "", "gb", false);
}

/// The database is replaced when its file changes; an invalid file is not used.
#[test]
fn changed_database() {
    let directory = ram_dir();
    let path = directory.path().join("countries.mmdb");
    assert!(CountryDatabase::load(&path).is_err());
    fs::write(&path, "no database").unwrap();
    assert!(CountryDatabase::load(&path).unwrap_err().to_string().contains("countries.mmdb"));
    write_database(&path, &[("192.0.2.0/24", "GB")]);
    let server = start(|http| http.country_database(CountryDatabase::load(&path).unwrap()));
    let location = || {
        let response = redirect(&server, "/10.5555/LOC", "X-Forwarded-For: 192.0.2.9");
        response.header("location").unwrap().to_owned()
    };
    assert_eq!(location(), "https://gb.example.org/");
    fs::write(path.with_extension("broken"), "no database").unwrap();
    fs::rename(path.with_extension("broken"), &path).unwrap();
    // Two checks of the file, 2 s apart.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(location(), "https://gb.example.org/");
    write_database(&path, &[("192.0.0.0/16", "DE")]);
    wait_until("the new database is used", || location() == "https://de.example.org/");
}

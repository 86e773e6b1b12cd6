//! Query parameters of DOI proxies: each of the table in `docs/reference/http.md` has a test. `auth` and `cert` are in
//! `upstream_resolver.rs`, the sources of the country in `countries.rs`.

use tendot_server::http::HttpLimits;
use tendot_testing::http::HttpResponse;

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TestServer, bind, start_over};
use crate::support::stores::{StoreKind, over_stores};
use tendot_proto::{HandleValue, ValuePermissions};

over_stores!(
    noredirect,
    ignore_aliases,
    index_and_type,
    index_and_type_of_an_alias,
    urlappend,
    locatt,
    action_redirect,
    action_showurls,
    action_showvalues,
    action_metadata,
    action_api,
    nols,
    country_and_ip,
    redirection_headers,
    pretty_callback_and_public_only,
    configured_location_parameters,
    unknown_and_repeated_parameters,
);

const LOCATIONS: &str = "<locations chooseby='locatt,address,country,weighted'>\
     <location id='0' href='https://a.example.org/' weight='1'/>\
     <location id='1' href='https://gb.example.org/' weight='0' country='gb'/>\
     <location id='2' href='https://meta.example.org/' weight='0' role='metadata'/>\
     <location id='3' href='https://campus.example.org/' weight='0' addresses='192.0.2.0/24'/>\
     <location id='4' href='https://mobile.example.org/' weight='0' view='mobile'/></locations>";

fn start(store: StoreKind) -> TestServer {
    let value = HandleValue::new;
    let one = vec![
        value(1, "URL", "https://example.org/one"),
        value(2, "URL.mobile", "https://m.example.org/one"),
        value(3, "EMAIL", "a@example.org"),
        HandleValue { permissions: ValuePermissions(0x0c), ..value(4, "NOTE", "hidden") },
    ];
    let edits = vec![
        put_edit("10.5555/ONE", one),
        put_edit("10.5555/ALIAS", vec![value(1, "HS_ALIAS", "10.5555/SECOND")]),
        put_edit("10.5555/SECOND", vec![value(7, "HS_ALIAS", "10.5555/ONE"), value(8, "DESC", "second")]),
        put_edit("10.5555/MISSING", vec![value(1, "HS_ALIAS", "10.5555/NONE")]),
        put_edit("10.5555/LOC", vec![value(1, "10320/loc", LOCATIONS)]),
        home_edit("10.5555"),
    ];
    start_over(store.open(), bind(), edits, HttpLimits::default(), None, |http| {
        http.location_parameters(["view".to_owned()])
    })
}

#[track_caller]
fn check(server: &TestServer, target: &str, status: u16, location: &str) -> HttpResponse {
    let response = server.get(target);
    let found = (response.status, response.header("location").unwrap_or_default());
    assert_eq!(found, (status, location), "{target}: {}", response.text());
    response
}

fn noredirect(store: StoreKind) {
    let server = start(store);
    let page = check(&server, "/10.5555/ONE?noredirect", 200, "");
    assert!(page.text().contains("a@example.org"));
    // An alias: the record that it leads to, with the names on the way.
    let page = check(&server, "/10.5555/ALIAS?noredirect", 200, "").text().into_owned();
    assert!(page.contains("<h1 class=\"name\"><bdi>10.5555/ONE</bdi></h1>"), "{page}");
    let way = "<p class=\"quiet\">Alias: \
         <a href=\"/10.5555/ALIAS?noredirect&amp;ignore_aliases\"><bdi>10.5555/ALIAS</bdi></a> → \
         <a href=\"/10.5555/SECOND?noredirect&amp;ignore_aliases\"><bdi>10.5555/SECOND</bdi></a> → this name.</p>";
    assert!(page.contains(way), "{page}");
    assert!(page.contains("https://example.org/one") && page.contains("a@example.org"), "{page}");
    assert!(check(&server, "/10.5555/MISSING?noredirect", 404, "").text().contains("10.5555/NONE"));
}

fn ignore_aliases(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/ALIAS", 301, "/10.5555/ONE");
    for target in ["/10.5555/ALIAS?ignore_aliases", "/10.5555/ALIAS?noredirect&ignore_aliases"] {
        let page = check(&server, target, 200, "").text().into_owned();
        assert!(page.contains("<h1 class=\"name\"><bdi>10.5555/ALIAS</bdi></h1>"), "{page}");
        assert!(page.contains("HS_ALIAS") && !page.contains("a@example.org"), "{page}");
    }
}

fn index_and_type(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/ONE?index=2", 302, "https://m.example.org/one");
    check(&server, "/10.5555/ONE?type=URL.mobile", 302, "https://m.example.org/one");
    check(&server, "/10.5555/ONE?type=URL.&index=3", 302, "https://example.org/one");
    check(&server, "/10.5555/ONE?index=x&index=2", 302, "https://m.example.org/one");
    check(&server, "/10.5555/ONE?type=EMAIL", 200, "");
    check(&server, "/10.5555/ONE?index=4", 404, "");
    let json = server.get("/api/handles/10.5555/ONE?index=3&type=URL").json();
    assert_eq!((json["values"].as_array().unwrap().len(), &json["values"][1]["index"]), (2, &3.into()));
}

/// The filters apply to the record that the alias leads to.
fn index_and_type_of_an_alias(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/ALIAS?type=EMAIL", 301, "/10.5555/ONE?type=EMAIL");
    check(&server, "/10.5555/ALIAS?index=2", 301, "/10.5555/ONE?index=2");
    // The alias record itself has a value at the index.
    check(&server, "/10.5555/SECOND?index=8", 301, "/10.5555/ONE?index=8");
    let page = check(&server, "/10.5555/ALIAS?noredirect&type=EMAIL", 200, "").text().into_owned();
    assert!(page.contains("a@example.org") && !page.contains("m.example.org"), "{page}");
    let page = check(&server, "/10.5555/SECOND?ignore_aliases&index=8", 200, "").text().into_owned();
    assert!(page.contains("second") && !page.contains("HS_ALIAS"), "{page}");
    check(&server, "/10.5555/ALIAS?ignore_aliases&type=EMAIL", 404, "");
}

fn urlappend(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/ONE?urlappend=%3Fa=b", 302, "https://example.org/one?a=b");
    check(&server, "/10.5555/ONE?urlappend=/x", 302, "https://example.org/one/x");
    check(&server, "/10.5555/ONE?urlappend=", 302, "https://example.org/one");
}

fn locatt(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/LOC?locatt=id:2", 302, "https://meta.example.org/");
    check(&server, "/10.5555/LOC?locatt=country", 302, "https://gb.example.org/");
    check(&server, "/10.5555/LOC?locatt=id:9&locatt=view:mobile", 302, "https://mobile.example.org/");
}

fn action_redirect(store: StoreKind) {
    check(&start(store), "/10.5555/ONE?action=redirect", 302, "https://example.org/one");
}

fn action_showurls(store: StoreKind) {
    let server = start(store);
    let response = check(&server, "/10.5555/LOC?action=showurls", 200, "");
    assert_eq!(response.header("content-type"), Some("text/xml;charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("public, max-age=86400"));
    let xml = response.text().into_owned();
    assert_eq!(xml.matches("<location ").count(), 5, "{xml}");
    assert!(xml.contains("country=\"gb\"") && xml.contains("href=\"https://gb.example.org/\""), "{xml}");
    let xml = check(&server, "/10.5555/ONE?action=showurls", 200, "").text().into_owned();
    assert!(xml.contains("https://example.org/one") && xml.contains("https://m.example.org/one"), "{xml}");
    check(&server, "/10.5555/ALIAS?action=showurls", 301, "/10.5555/ONE?action=showurls");
}

fn action_showvalues(store: StoreKind) {
    let server = start(store);
    let pages = ["showvalues", "redirect&noredirect"]
        .map(|action| check(&server, &format!("/10.5555/ONE?action={action}"), 200, "").text().into_owned());
    assert_eq!(pages[0], pages[1]);
}

fn action_metadata(store: StoreKind) {
    check(&start(store), "/10.5555/LOC?action=metadata", 302, "https://meta.example.org/");
}

/// As `/api/handles`, with its parameters, in every written form and through OpenURL.
fn action_api(store: StoreKind) {
    let server = start(store);
    for (target, query) in [
        ("/10.5555/ONE?action=api", ""),
        ("/doi:10.5555/ONE?action=api&pretty", "?pretty"),
        ("/10.5555/ONE?action=api&type=EMAIL", "?type=EMAIL"),
        ("/10.5555/ONE?action=api&callback=f", "?callback=f"),
        ("/resolve?id=doi:10.5555/ONE&action=api", ""),
    ] {
        let expected = server.get(&format!("/api/handles/10.5555/ONE{query}"));
        let response = server.get(target);
        assert_eq!((response.status, response.text()), (expected.status, expected.text()), "{target}");
        assert_eq!(response.header("content-type"), expected.header("content-type"), "{target}");
    }
    let missing = check(&server, "/10.5555/NONE?action=api", 404, "");
    assert_eq!(missing.json()["responseCode"], 100);
    // The record of an alias, as there.
    let alias = check(&server, "/10.5555/ALIAS?action=api", 200, "").json();
    assert_eq!(alias["values"][0]["type"], "HS_ALIAS");
}

/// There is no cookie for an appropriate copy, so there is nothing to ignore.
fn nols(store: StoreKind) {
    let server = start(store);
    for target in ["/10.5555/ONE", "/10.5555/ONE?nols=y", "/10.5555/ONE?nosfx=y"] {
        let response = server.request("GET", target, "Cookie: BASE-URL=https://library.example.org/sfx");
        let found = (response.status, response.header("location"), response.header("set-cookie"));
        assert_eq!(found, (302, Some("https://example.org/one"), None), "{target}");
    }
}

fn country_and_ip(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/LOC?country=GB", 302, "https://gb.example.org/");
    check(&server, "/10.5555/LOC?country=fr", 302, "https://a.example.org/");
    check(&server, "/10.5555/LOC?ip=192.0.2.77", 302, "https://campus.example.org/");
    check(&server, "/10.5555/LOC?ip=nonsense", 302, "https://a.example.org/");
}

fn redirection_headers(store: StoreKind) {
    let server = start(store);
    let response = check(&server, "/10.5555/ONE?redirectionHeaders", 200, "https://example.org/one");
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert!(response.header("access-control-expose-headers").unwrap().contains("Location"));
}

fn pretty_callback_and_public_only(store: StoreKind) {
    let server = start(store);
    assert!(server.get("/api/handles/10.5555/ONE?pretty").text().contains("\n  \"handle\""));
    assert!(server.get("/api/handles/10.5555/ONE?callback=a(b").text().starts_with("a_b({"));
    let agencies = server.get("/doiRA/10.5555/ONE,10.9999/x?callback=show");
    let script = agencies.text().into_owned();
    assert!(script.starts_with("show([{\"DOI\":\"10.5555/ONE\"") && script.ends_with("]);"), "{script}");
    assert_eq!(agencies.header("content-type"), Some("application/javascript;charset=utf-8"));
    assert!(server.get("/doiRA/10.5555/ONE").text().starts_with("[{"));
    assert!(!server.get("/api/handles/10.5555/ONE?publicOnly").text().contains("hidden"));
}

/// Parameters that the operator lists prefer the attribute of the same name.
fn configured_location_parameters(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/LOC?view=mobile", 302, "https://mobile.example.org/");
    check(&server, "/10.5555/LOC?view=print", 302, "https://a.example.org/");
    check(&server, "/10.5555/LOC?role=metadata", 302, "https://a.example.org/");
}

/// Unknown parameters are ignored and not forwarded; `;` separates like `&`, and `+` is no space.
fn unknown_and_repeated_parameters(store: StoreKind) {
    let server = start(store);
    check(&server, "/10.5555/ONE?utm_source=x&nocookie", 302, "https://example.org/one");
    check(&server, "/10.5555/ONE?x;index=2", 302, "https://m.example.org/one");
    check(&server, "/10.5555/ONE?urlappend=%3Fa+b", 302, "https://example.org/one?a+b");
}

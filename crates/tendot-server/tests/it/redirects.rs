//! Redirects: written forms of names, aliases, locations, and hostile requests and records.

use crate::support::records_server::RecordsServer;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    written_forms,
    unknown_paths,
    text_without_a_name,
    aliases,
    locations,
    several_namespaces,
    attack_r5_percent_encoding,
    attack_r6_paths_are_not_normalized,
    attack_r7_long_paths,
    attack_r9_own_paths,
    attack_h1_line_breaks_in_urls,
    attack_h2_unsafe_schemes,
    attack_h3_urlappend,
    attack_h6_xml_bombs,
    attack_h9_oversized_preferences,
    attack_h18_methods,
    attack_h19_oversized_etag_lists,
);

fn record(name: &str, values: &[(u32, &str, &str)]) -> String {
    let values: Vec<_> = values
        .iter()
        .map(|(index, value_type, data)| {
            serde_json::json!({"index": index, "type": value_type, "ttl": 3_600,
                "data": {"format": "string", "value": data}})
        })
        .collect();
    serde_json::json!({"handle": name, "values": values}).to_string()
}

fn url(name: &str, address: &str) -> String {
    record(name, &[(1, "URL", address)])
}

fn start(store: StoreKind, records: &[String]) -> RecordsServer {
    RecordsServer::start(store, records.iter().map(String::as_str), true)
}

#[track_caller]
fn check_redirect(server: &RecordsServer, target: &str, headers: &[&str], status: u16, location: &str) {
    let response = server.get(target, headers);
    let expected = (status, location);
    assert_eq!(
        (response.status, response.header("location").unwrap_or_default()),
        expected,
        "{target} {headers:?}"
    );
}

fn written_forms(store: StoreKind) {
    let server = start(
        store,
        &[
            url("10.5555/One", "https://example.org/one"),
            url("10.5555/a b%25c", "https://example.org/odd"),
            url("10.5555/slash/in?q#f", "https://example.org/slash"),
            url("10.5240/7791-8534", "https://example.org/film"),
            url("20.500/x", "https://example.org/handle"),
            record("10/abc", &[(1, "HS_ALIAS", "10.5555/ONE")]),
            url("10.5555/例-Ü", "https://example.org/例"),
        ],
    );
    let one = "https://example.org/one";
    for target in [
        "/10.5555/One",
        "/10.5555/ONE",
        "//10.5555/one",
        "/10.5555%2Fone",
        "/doi:10.5555/one",
        "/DOI:10.5555/one",
        "/hdl:10.5555/one",
        "/info:doi/10.5555/one",
        "/urn:doi:10.5555/one",
        "/urn:doi:10.5555:one",
        "/https://doi.org/10.5555/one",
        "/10.5555/one?foo=bar",
        "/10.5555/one?auth&cert;x",
        "/openurl?url_ver=z39.88-2003&rft_id=info:doi/10.5555/one",
        "/resolve?id=doi:10.5555/one",
    ] {
        check_redirect(&server, target, &[], 302, one);
    }
    check_redirect(&server, "/10.5555/a%20b%2525c", &[], 302, "https://example.org/odd");
    check_redirect(&server, "/10.5555/slash/in%3Fq%23f", &[], 302, "https://example.org/slash");
    check_redirect(&server, "/urn:eidr:10.5240:7791-8534", &[], 302, "https://example.org/film");
    check_redirect(&server, "/hdl:20.500/x", &[], 302, "https://example.org/handle");
    check_redirect(&server, "/10.5555/%E4%BE%8B-%C3%9C", &[], 302, "https://example.org/%E4%BE%8B");
    check_redirect(&server, "/10.5555/例-Ü", &[], 302, "https://example.org/%E4%BE%8B");
    // Only ASCII letters are case-insensitive.
    check_redirect(&server, "/10.5555/%E4%BE%8B-%C3%BC", &[], 404, "");
    check_redirect(&server, "/abc?x=y", &[], 301, "/10.5555/ONE?x=y");
    check_redirect(&server, "/10/abc", &[], 301, "/10.5555/ONE");
    check_redirect(&server, "/10.5555/one/", &[], 404, "");
    check_redirect(&server, "/10.9999/x", &[], 404, "");
}

/// Paths that are neither an endpoint nor a name of this server: a page with a plain sentence, or JSON.
fn unknown_paths(store: StoreKind) {
    let server = start(store, &[url("10.5555/One", "https://example.org/one")]);
    for (path, shown) in [
        ("/healthz", "healthz"),
        ("/works/10.5555/One", "works/10.5555/One"),
        ("/wp-login.php", "wp-login.php"),
        ("/Self-organized%20criticality", "Self-organized criticality"),
    ] {
        let page = server.get(path, &[]);
        let sentence = format!("{shown}</code> is neither a page of this server nor a name that it knows.");
        assert!(page.status == 404 && page.text().contains(&sentence), "{path}: {}", page.text());
        assert!(page.head.to_ascii_lowercase().contains("content-type: text/html"), "{path}: {}", page.head);
        let response = server.get(path, &["Accept: application/json"]);
        let problem = response.json();
        assert_eq!(
            (response.status, &problem["code"]),
            (404, &"unknown-endpoint".into()),
            "{path}: {problem}"
        );
        assert_eq!(problem["name"], shown, "{path}: {problem}");
    }
    let problem = server.get("/works/10.5555/one", &["Accept: application/json"]).json();
    assert_eq!(problem["suggestions"][0], "10.5555/One", "{problem}");
    let foreign = server.get("/20.9999/x", &["Accept: application/json"]).json();
    assert_eq!((&foreign["status"], &foreign["code"]), (&404.into(), &"not-responsible".into()), "{foreign}");
    let short = server.get("/10/login", &["Accept: application/json"]).json();
    assert_eq!((&short["status"], &short["code"]), (&404.into(), &"short-doi".into()), "{short}");
}

/// Text of the search box in which there is no name.
fn text_without_a_name(store: StoreKind) {
    let server = start(store, &[url("10.5555/One", "https://example.org/one")]);
    for text in ["Self-organized+criticality", "Bak+et+al.,+1987", "https://example.org/login"] {
        let page = server.get(&format!("/?text={text}"), &[]);
        assert!(
            page.status == 404 && page.text().contains("This text has no DOI or handle."),
            "{text}: {}",
            page.text()
        );
        let problem = server.get(&format!("/?text={text}"), &["Accept: application/json"]).json();
        assert_eq!(problem["code"], "no-identifier", "{problem}");
    }
    check_redirect(&server, "/?text=gf4gqc", &[], 303, "/10/gf4gqc");
    check_redirect(&server, "/?text=10.5555", &[], 303, "/10.5555");
}

fn aliases(store: StoreKind) {
    let alias = |name: &str, target: &str| record(name, &[(1, "HS_ALIAS", target)]);
    let mut records = vec![
        alias("10.5555/a", "10.5555/b"),
        alias("10.5555/b", "10.5555/c"),
        url("10.5555/c", "https://example.org/c"),
        alias("10.5555/loop", "10.5555/LOOP"),
        alias("10.5555/x", "10.5555/y"),
        alias("10.5555/y", "10.5555/X"),
        alias("10.5555/far", "10.9999/elsewhere?#"),
        alias("10.5555/evil", "//evil.net/x"),
    ];
    records.extend(
        (0..100).map(|number| alias(&format!("10.5555/n{number}"), &format!("10.5555/n{}", number + 1))),
    );
    let server = start(store, &records);
    check_redirect(&server, "/10.5555/a?locatt=x", &[], 301, "/10.5555/c?locatt=x");
    check_redirect(&server, "/10.5555/far", &[], 301, "/10.9999/elsewhere%3F%23");
    check_redirect(&server, "/10.5555/evil", &[], 301, "/evil.net/x");
    for loop_name in ["/10.5555/loop", "/10.5555/x", "/10.5555/n0"] {
        check_redirect(&server, loop_name, &[], 508, "");
    }
    check_redirect(&server, "/10.5555/a?ignore_aliases", &[], 200, "");
    check_redirect(&server, "/10.5555/a?noredirect", &[], 200, "");
}

/// Of several `HS_NAMESPACE` values, the one with the lowest index applies to templates, locations and agency alike.
fn several_namespaces(store: StoreKind) {
    let namespace = |delimiter: &str, agency: &str| {
        format!(
            "<namespace><DOI.RA>10.SERV/{agency}</DOI.RA><template delimiter='{delimiter}'><foreach>\
             <if value='type' test='equals' expression='URL'><value data='${{data}}?${{extension}}'/></if>\
             </foreach></template></namespace>"
        )
    };
    let (high, low) = (namespace("@", "DATACITE"), namespace("!", "CROSSREF"));
    for values in [[(30, &high), (20, &low)], [(20, &low), (30, &high)]] {
        let values = values.map(|(index, data)| (index, "HS_NAMESPACE", data.as_str()));
        let server =
            start(store, &[record("0.NA/10.8888", &values), url("10.8888/map", "https://example.org/map")]);
        check_redirect(&server, "/10.8888/map!x", &[], 302, "https://example.org/map?x");
        check_redirect(&server, "/10.8888/map@x", &[], 404, "");
        assert_eq!(server.get("/doiRA/10.8888", &[]).text(), r#"[{"DOI":"10.8888","RA":"Crossref"}]"#);
        // A work limit is an error, not an unknown agency: derived prefixes take many lookups.
        let derived = vec![format!("10.8888{}", ".1".repeat(16)); 99].join(",");
        let response = server.get(&format!("/doiRA/{derived},10.8888"), &[]);
        assert!(response.status == 503 && response.text().contains("budget-exceeded"), "{response:?}");
    }
}

fn locations(store: StoreKind) {
    let loc = "<locations chooseby='locatt,address,country,weighted'>\
        <location id='0' href='https://a.example.org/' weight='1'/>\
        <location id='1' href='https://b.example.org/' weight='0' country='gb' http_sc='303'/>\
        <location id='2' href_template='https://c.example.org/{hdl}' weight='0' http_role='conneg'/>\
        <location id='3' href='https://d.example.org/' weight='0' role='metadata' rel='describedby'/>\
        <location id='4' href='https://e.example.org/' weight='0' language='de'/></locations>";
    let namespace = "<namespace><locs>10.SERV/SERVICE</locs><DOI.RA>10.SERV/CROSSREF</DOI.RA></namespace>";
    let server = start(
        store,
        &[
            record("10.5555/loc", &[(1, "URL", "https://u.example.org/"), (1000, "10320/loc", loc)]),
            record(
                "10.5555/broken",
                &[(1, "URL", "https://u.example.org/"), (1000, "10320/loc", "<locations>")],
            ),
            record("10.5555/include", &[(1000, "10320/loc", "<locations include='10.5555/loc'/>")]),
            record(
                "10.5555/round",
                &[(1000, "10320/loc", "<locations include='10.5555/round,10.5555/loc'/>")],
            ),
            record("0.NA/10.6666", &[(20, "HS_NAMESPACE", namespace)]),
            url("10.6666/x", "https://f.example.org/"),
            record(
                "10.SERV/SERVICE",
                &[(
                    1,
                    "10320/loc",
                    "<locations><location weight='0' http_role='conneg' href_template='https://s.example.org/{hdl:path}'/></locations>",
                )],
            ),
            record(
                "0.NA/10.7777",
                &[(
                    20,
                    "HS_NAMESPACE",
                    "<namespace><status>inactive</status><statusmsg>moved</statusmsg></namespace>",
                )],
            ),
            url("10.7777/x", "https://g.example.org/"),
            record("10.5555/below", &[(2, "EMAIL", "x"), (3, "URL.mobile", "https://m.example.org/")]),
        ],
    );
    let json = &["Accept: application/json"][..];
    check_redirect(&server, "/10.5555/loc", &[], 302, "https://a.example.org/");
    check_redirect(&server, "/10.5555/loc?locatt=country:GB", &[], 303, "https://b.example.org/");
    check_redirect(&server, "/10.5555/loc?country=gb", &[], 303, "https://b.example.org/");
    check_redirect(&server, "/10.5555/loc?locatt=id:4", &[], 302, "https://e.example.org/");
    check_redirect(&server, "/10.5555/loc?locatt=mode:legacy", &[], 302, "https://u.example.org/");
    check_redirect(&server, "/10.5555/loc?action=metadata", &[], 302, "https://d.example.org/");
    check_redirect(&server, "/10.5555/loc", json, 302, "https://c.example.org/10.5555%2Floc");
    check_redirect(&server, "/10.5555/loc", &["Accept-Language: de"], 302, "https://e.example.org/");
    check_redirect(&server, "/10.5555/loc?redirectionHeaders", &[], 200, "https://a.example.org/");
    check_redirect(&server, "/10.5555/broken", &[], 302, "https://u.example.org/");
    check_redirect(&server, "/10.5555/include", &[], 302, "https://a.example.org/");
    check_redirect(&server, "/10.5555/round", &[], 302, "https://a.example.org/");
    check_redirect(&server, "/10.6666/x", &[], 302, "https://f.example.org/");
    check_redirect(&server, "/10.6666/x", json, 302, "https://s.example.org/10.6666/x");
    check_redirect(&server, "/10.5555/below", &[], 302, "https://m.example.org/");
    let response = server.get("/10.5555/loc", &[]);
    assert!(response.headers("vary").any(|vary| vary.contains("Accept")), "{}", response.head);
    assert_eq!(response.header("link"), Some("<https://d.example.org/>; rel=\"describedby\""));
    assert_eq!(response.header("cache-control"), Some("public, max-age=3600"));
    let response = server.get("/10.7777/x", &[]);
    assert!(response.status == 404 && response.text().contains("moved"), "{response:?}");
    let agencies =
        server.get("/doiRA/10.6666/x,10.6666,10.6666/none,10.5555/loc,nonsense,10.9999/x", &[]).json();
    let expected = serde_json::json!([
        {"DOI": "10.6666/x", "RA": "Crossref"}, {"DOI": "10.6666", "RA": "Crossref"},
        {"DOI": "10.6666/none", "status": "DOI does not exist"}, {"DOI": "10.5555/loc", "status": "Unknown"},
        {"DOI": "nonsense", "status": "Invalid DOI"}, {"DOI": "10.9999/x", "status": "Unknown"},
    ]);
    assert_eq!(agencies, expected);
    assert_eq!(server.get("/ra/10.6666", &[]).text(), r#"[{"DOI":"10.6666","RA":"Crossref"}]"#);
}

fn attack_r5_percent_encoding(store: StoreKind) {
    let server = start(
        store,
        &[url("10.5555/%2F", "https://example.org/"), url("10.5555/..", "https://example.org/dots")],
    );
    for malformed in
        ["/10.5555/%00", "/10.5555/%", "/10.5555/%z", "/10.5555/%zz", "/api/handles/10.5555/%0", "/?text=%zz"]
    {
        let response = server.get(malformed, &[]);
        assert!(response.status == 400 && response.text().contains("byte "), "{malformed}: {response:?}");
    }
    for (target, status) in [("/10.5555/%0d%0aX:y", 404), ("/10.5555/%C0%AF", 400), ("/10.5555/a+b", 404)] {
        let response = server.get(target, &[]);
        assert_eq!(response.status, status, "{target}");
        assert_eq!(response.header("x"), None, "{target}");
    }
    check_redirect(&server, "/10.5555/%252F", &[], 302, "https://example.org/");
    check_redirect(&server, "/10.5555/%2e%2e", &[], 302, "https://example.org/dots");
}

fn attack_r6_paths_are_not_normalized(store: StoreKind) {
    let names = [
        "10.5555/a//b",
        "10.5555/./x",
        "10.5555/../y",
        "10.5555/end.",
        "10.5555/j;jsessionid=1",
        "10.5555/b\\s",
    ];
    let records: Vec<_> = names.iter().map(|name| url(name, "https://example.org/")).collect();
    let server = start(store, &records);
    for target in [
        "/10.5555/a//b",
        "/10.5555/./x",
        "/10.5555/../y",
        "/10.5555/end.",
        "/10.5555/j;jsessionid=1",
        "/10.5555/b%5Cs",
    ] {
        check_redirect(&server, target, &[], 302, "https://example.org/");
    }
}

fn attack_r7_long_paths(store: StoreKind) {
    let server = start(store, &[url("10.5555/1", "https://example.org/")]);
    assert_eq!(server.get(&format!("/10.5555/{}", "x".repeat(64 << 10)), &[]).status, 414);
    // Shorter paths are names that exceed the maximum length.
    let status = server.get(&format!("/10.5555/{}", "x".repeat(20_000)), &[]).status;
    assert!((400..500).contains(&status), "{status}");
}

fn attack_r9_own_paths(store: StoreKind) {
    let server = start(store, &[url("10.5555/1", "https://example.org/")]);
    for path in ["/livez", "/readyz", "/robots.txt", "/static/style.css", "/", "/favicon.ico"] {
        assert!(server.get(path, &[]).status < 300 || path == "/readyz", "{path}");
    }
    for unknown_path in ["/static/../../etc/passwd", "/static/%2e%2e/x", "/api/", "/api/x", "/apix"] {
        let status = server.get(unknown_path, &[]).status;
        assert!((400..500).contains(&status), "{unknown_path}: {status}");
    }
}

fn attack_h1_line_breaks_in_urls(store: StoreKind) {
    let server = start(
        store,
        &[
            url("10.5555/1", "https://x/\r\nSet-Cookie:a=1"),
            url("10.5555/2", "https://x/\u{0}"),
            url("10.5555/3", "https://x/\u{2028}y"),
        ],
    );
    for target in ["/10.5555/1", "/10.5555/2"] {
        let response = server.get(target, &[]);
        assert_eq!(
            (response.status, response.header("set-cookie"), response.header("location")),
            (200, None, None)
        );
    }
    check_redirect(&server, "/10.5555/3", &[], 302, "https://x/%E2%80%A8y");
}

fn attack_h2_unsafe_schemes(store: StoreKind) {
    let hostile = [
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        " java\tscript:x",
        "//x/",
    ];
    let records: Vec<_> =
        hostile.iter().zip(0..).map(|(address, n)| url(&format!("10.5555/{n}"), address)).collect();
    let server = start(store, &records);
    for (number, address) in hostile.iter().enumerate() {
        let response = server.get(&format!("/10.5555/{number}"), &[]);
        assert_eq!((response.status, response.header("location")), (200, None), "{address}");
        let has_unsafe_link = response
            .text()
            .split("href=\"")
            .skip(1)
            .any(|rest| !rest.starts_with(['/', '#']) && !rest.starts_with("http"));
        assert!(!has_unsafe_link, "{}", response.text());
    }
}

fn attack_h3_urlappend(store: StoreKind) {
    let server =
        start(store, &[url("10.5555/1", "https://example.org"), url("10.5555/2", "https://example.org/a")]);
    let unchanged = "https://example.org";
    for suffix in [".evil.net", "@evil.net", ":81/", "%0d%0aX:y", "%40evil.net/", "%5C@evil.net", "%09/x"] {
        check_redirect(&server, &format!("/10.5555/1?urlappend={suffix}"), &[], 302, unchanged);
    }
    check_redirect(&server, "/10.5555/1?urlappend=//", &[], 302, "https://example.org//");
    check_redirect(&server, "/10.5555/2?urlappend=%3Fb%3Dc", &[], 302, "https://example.org/a?b=c");
    check_redirect(&server, "/10.5555/2?urlappend=.evil.net", &[], 302, "https://example.org/a.evil.net");
}

fn attack_h6_xml_bombs(store: StoreKind) {
    let bomb = "<!DOCTYPE l [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]><locations><location href='&b;'/></locations>";
    let many_locations = format!("<locations>{}</locations>", "<location href='https://x/'/>".repeat(10_000));
    let deep_nesting = format!("{}{}", "<locations>".repeat(10_000), "</locations>".repeat(10_000));
    let long_url = format!("<locations><location href='https://x/{}'/></locations>", "y".repeat(100_000));
    let documents = [bomb.to_owned(), many_locations, deep_nesting, long_url];
    let records: Vec<_> = documents
        .iter()
        .zip(0..)
        .map(|(loc, n)| {
            record(&format!("10.5555/{n}"), &[(1, "URL", "https://safe/"), (2, "10320/loc", loc)])
        })
        .collect();
    let server = start(store, &records);
    for number in 0..documents.len() {
        check_redirect(&server, &format!("/10.5555/{number}"), &[], 302, "https://safe/");
    }
}

fn attack_h9_oversized_preferences(store: StoreKind) {
    let server = start(store, &[url("10.5555/1", "https://example.org/")]);
    for value in ["a/b,".repeat(4_000), "*/*;q=NaN".into(), "a/b;q=9e99".into(), ",;,;=".into()] {
        for name in ["Accept", "Accept-Language"] {
            check_redirect(
                &server,
                "/10.5555/1",
                &[&format!("{name}: {value}")],
                302,
                "https://example.org/",
            );
        }
    }
}

fn attack_h18_methods(store: StoreKind) {
    let server = start(store, &[url("10.5555/1", "https://example.org/")]);
    let head = server.request("HEAD", "/10.5555/1", &[], "");
    let get = server.get("/10.5555/1", &[]);
    // These differ between requests.
    let varying = ["date", "expires", "x-request-id"];
    let stable_lines = |head: &str| -> Vec<String> {
        let lines = head.lines().filter(|line| !varying.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!((stable_lines(&head.head), &*head.body), (stable_lines(&get.head), &b""[..]));
    for method in ["TRACE", "PROPFIND", "get", "PATCH"] {
        let response = server.request(method, "/10.5555/1", &[], "");
        assert_eq!((response.status, response.header("allow").is_some()), (405, true), "{method}");
    }
    let options = server.request("OPTIONS", "/10.5555/1", &["Origin: https://page.example"], "");
    assert_eq!((options.status, options.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!(options.header("access-control-allow-credentials"), None);
}

fn attack_h19_oversized_etag_lists(store: StoreKind) {
    let server = start(store, &[url("10.5555/1", "https://example.org/")]);
    let tag = server.get("/10.5555/1", &[]).header("etag").unwrap().to_owned();
    let status = |tags: &str| server.get("/10.5555/1", &[&format!("If-None-Match: {tags}")]).status;
    assert_eq!((status(&tag), status("\"x\""), status(&"\"x\",".repeat(10_000))), (304, 302, 302));
}

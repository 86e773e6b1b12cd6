//! Names as clients write them: encodings other than UTF-8, OpenURL, targets that are not percent-encoded, look-alikes.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tendot_proto::HandleValue;
use tendot_testing::http::{HttpRequest, HttpResponse};

use crate::support::api_client::{ApiClient, over_all_stores};
use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TOKEN, TestServer, start_default};

over_all_stores!(
    statement_048_bytes_that_are_not_utf8_are_rejected,
    statement_048_bodies_that_are_not_utf8_are_rejected,
    statement_068_openurl_id_is_a_uri,
    statement_071_every_prefix_in_the_search_box,
    written_forms_in_the_handle_api,
    statement_022_look_alikes_are_refused_or_told_apart,
    unencoded_targets_are_redirected,
);

/// Bearer header of the operator.
fn operator() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

/// Stores records that redirect to a page of `https://example.org/`, and homes their prefixes.
fn load(client: &ApiClient, records: &[(&str, &str)]) {
    for (name, page) in records {
        let value = HandleValue::new(1, "URL", format!("https://example.org/{page}"));
        let (prefix, _) = name.split_once('/').unwrap();
        client.server.commit(vec![put_edit(name, vec![value]), home_edit(prefix)]);
    }
}

#[track_caller]
fn check_rejected(response: &HttpResponse, position: &str, context: &str) {
    assert_eq!(response.status, 400, "{context}: {}", response.text());
    let text = response.text().to_ascii_lowercase();
    assert!(text.contains("invalid utf-8") && text.contains(position), "{context}: {text}");
    assert!(!text.contains('\u{fffd}'), "{context}: {text}");
}

/// Sends a request with header lines of any bytes.
fn send_bytes(server: &TestServer, method: &str, target: &str, header: &[u8], body: &[u8]) -> HttpResponse {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n").into_bytes();
    bytes.extend_from_slice(header);
    if !header.is_empty() {
        bytes.extend_from_slice(b"\r\n");
    }
    if method != "GET" {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    let mut connection = tendot_testing::http::HttpConnection::open(server.address).unwrap();
    connection.write(&bytes).unwrap();
    connection.read_response(false).unwrap()
}

/// On every path, query and header the byte's position is reported, and nothing is stored.
fn statement_048_bytes_that_are_not_utf8_are_rejected(client: &ApiClient) {
    client.server.commit(vec![home_edit("10.70000")]);
    let server = &client.server;
    let operator = operator();
    let values = br#"[{"index": 1, "type": "URL", "data": "https://example.org/"}]"#;
    let put = send_bytes(server, "PUT", "/api/handles/10.70000/caf%E9", operator.as_bytes(), values);
    check_rejected(&put, "byte 25 of the path", "PUT");
    for (method, target, position) in [
        ("GET", "/10.70000/caf%E8", "byte 13 of the path"),
        ("GET", "/api/handles/10.70000/caf%E8", "byte 25 of the path"),
        ("DELETE", "/api/handles/10.70000/caf%E8", "byte 25 of the path"),
        ("GET", "/api/handles?prefix=caf%E8", "byte 10 of the query"),
        ("GET", "/api/v1/dois/10.70000/caf%E8", "byte 25 of the path"),
        ("PUT", "/api/v1/dois/10.70000/caf%E8", "byte 25 of the path"),
        ("GET", "/api/v1/dois?prefix=%E8", "byte 7 of the query"),
        ("GET", "/api/v1/metadata/10.70000/%E8", "byte 26 of the path"),
        ("GET", "/api/v1/history/10.70000/%E8", "byte 25 of the path"),
        ("GET", "/doiRA/10.70000/%E8", "byte 16 of the path"),
        ("GET", "/hrls/handles/%E8", "byte 14 of the path"),
        ("GET", "/10.70000/x?locatt=%E8", "byte 7 of the query"),
        ("GET", "/10.70000/x?%C3%A9=%C3", "byte 7 of the query"),
        ("GET", "/?text=caf%E8", "byte 8 of the query"),
        ("GET", "/?text=doi%3Adk%2Fcaf%25E8", "at byte 10"),
        ("GET", "/resolve?id=doi:10.70000/caf%E8", "byte 19 of the query"),
        ("GET", "/docs?x=%E8", "byte 2 of the query"),
        // UTF-8 of a surrogate, and an overlong form of a slash.
        ("GET", "/10.70000/%ED%A0%80", "byte 10 of the path"),
        ("GET", "/10.70000/%C0%AF", "byte 10 of the path"),
    ] {
        check_rejected(&send_bytes(server, method, target, operator.as_bytes(), b""), position, target);
        let json = send_bytes(server, method, target, b"Accept: application/json", b"");
        check_rejected(&json, position, target);
        assert!(json.header("content-type").unwrap().contains("json"), "{target}: {json:?}");
    }
    for (header, position) in [
        (&b"Accept: text/\xe9"[..], "byte 5 of the header `accept`"),
        (b"Idempotency-Key: \xe9", "byte 0 of the header `idempotency-key`"),
        (b"Authorization: Bearer \xe9", "byte 7 of the header `authorization`"),
        // `300%3Acaf%E9:x`, and the same identity of a session.
        (b"Authorization: Basic MzAwJTNBY2FmJUU5Ong=", "byte 9 of the identity"),
        (b"Authorization: Handle id=\"300%3Acaf%E9\", sessionId=x", "byte 9 of the identity"),
    ] {
        for target in ["/api/v1/dois", "/api/handles?prefix=10.70000"] {
            let response = send_bytes(server, "GET", target, header, b"");
            check_rejected(&response, position, &format!("{target} {header:?}"));
        }
    }
    // Headers of other programs are not interpreted.
    for header in [&b"Cookie: a=\xe9"[..], b"User-Agent: \xe9", b"Referer: \xe9"] {
        assert_eq!(send_bytes(server, "GET", "/livez", header, b"").status, 200, "{header:?}");
    }
    // Raw bytes in the request line.
    let raw = server.send_raw(b"GET /10.70000/caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(raw.starts_with("HTTP/1.1 400 "), "{raw}");
    assert!(raw.contains("invalid UTF-8 at byte 13 of the request target"), "{raw}");
    // Raw UTF-8 is read as it stands.
    assert_eq!(server.get("/10.70000/caf\u{e9}").status, 404);
    let listed = client.send("GET", "/api/handles?prefix=10.70000", TOKEN, &[], b"");
    assert_eq!(listed.json()["totalCount"], "0", "{}", listed.text());
}

fn statement_048_bodies_that_are_not_utf8_are_rejected(client: &ApiClient) {
    client.server.commit(vec![home_edit("10.70000")]);
    let server = &client.server;
    let form = "Content-Type: application/x-www-form-urlencoded";
    let json = "Content-Type: application/json";
    let operator = operator();
    for (method, target, content_type, body, position) in [
        (
            "PUT",
            "/api/handles/10.70000/x",
            json,
            &b"[{\"index\":1,\"type\":\"\xe9\"}]"[..],
            "byte 20 of the body",
        ),
        ("POST", "/api/handles", form, b"prefix=\xe9", "byte 7 of the body"),
        ("POST", "/api/handles", form, b"prefix=%E9", "byte 7 of the body"),
        ("POST", "/api/handles", json, b"{\"prefix\":\"\xe9\"}", "byte 11 of the body"),
        ("POST", "/api/sessions", json, b"{\"id\":\"\xe9\"}", "byte 7 of the body"),
        ("POST", "/api/v1/agencies", json, b"{\"code\":\"\xe9\"}", "byte 9 of the body"),
        ("POST", "/api/v1/dois", json, b"{\"name\":\"10.70000/caf\xe9\"}", "byte 21 of the body"),
        ("PUT", "/api/v1/dois/10.70000/x", json, b"{\"url\":\"\xe9\"}", "byte 8 of the body"),
        ("POST", "/", form, b"hdl=10.70000/caf\xe9", "byte 16 of the body"),
        ("POST", "/", form, b"hdl=10.70000/caf%E9", "byte 16 of the body"),
    ] {
        let headers = format!("{operator}\r\n{content_type}");
        let response = send_bytes(server, method, target, headers.as_bytes(), body);
        check_rejected(&response, position, &format!("{method} {target}"));
    }
    // A batch refuses only the line.
    let lines = b"{\"name\":\"10.70000/caf\xe9\",\"url\":\"https://example.org/\"}\n{\"name\":1}\n";
    let batch = |content_type: &str, body: &[u8]| {
        client.send("POST", "/api/v1/dois/batch", TOKEN, &[content_type], body)
    };
    let response = batch("Content-Type: application/x-ndjson", lines);
    let first: Json = serde_json::from_str(response.text().lines().next().unwrap()).unwrap();
    assert_eq!((&first["status"], &first["error"]["code"]), (&json!("refused"), &json!("malformed")));
    assert_eq!(first["error"]["detail"], "invalid UTF-8 at byte 21 of the line");
    let response = batch("Content-Type: text/csv", b"name,url\n10.70000/caf\xe9,https://example.org/\n");
    let first: Json = serde_json::from_str(response.text().lines().next().unwrap()).unwrap();
    assert_eq!(first["error"]["detail"], "invalid UTF-8 at byte 12 of the line", "{first}");
    check_rejected(&batch("Content-Type: text/csv", b"name,\xe9\n"), "byte 5 of the header row", "CSV");
    let listed = client.send("GET", "/api/handles?prefix=10.70000", TOKEN, &[], b"");
    assert_eq!(listed.json()["totalCount"], "0", "{}", listed.text());
}

/// 001, section 2.3, examples e and f.
fn statement_068_openurl_id_is_a_uri(client: &ApiClient) {
    load(
        client,
        &[
            ("alpha-beta/msws", "msws"),
            ("10.1000/456#789", "hash"),
            ("10.1000/456%23789", "percent"),
            ("10.abc/ab/cd", "abc"),
            ("10.1000/182", "182"),
            ("10/abcde", "short"),
        ],
    );
    let server = &client.server;
    for (query, page) in [
        ("id=doi%3Aalpha-beta%2Fmsws", "msws"),
        ("id=doi:alpha-beta/msws", "msws"),
        ("id=doi%3A10.1000%2F456%2523789", "hash"),
        ("rft_id=info%3Adoi%2F10.1000%2F456%2523789", "hash"),
        ("id=10.1000%2F456%2523789", "percent"),
        ("id=pmid%3A123&id=doi%3A10.1000%2F182&id=doi%3Aalpha-beta%2Fmsws", "182"),
        ("url_ver=Z39.88-2004&rft_id=info%3Apmid%2F1&rft_id=info%3Adoi%2F10.1000%2F182", "182"),
        ("rft_id=http%3A%2F%2Fexample.org%2Fx&rft.doi=10.1000%2F182", "182"),
        ("rft.genre=article&rft.doi=10.1000/182", "182"),
        ("doi%3A10.abc%2Fab%2Fcd", "abc"),
        ("doi:10.abc/ab/cd", "abc"),
        ("id=abcde", "short"),
    ] {
        for path in ["/resolve", "/openurl", "/openurl/"] {
            let response = server.get(&format!("{path}?{query}"));
            let expected = format!("https://example.org/{page}");
            let found = (response.status, response.header("location").unwrap_or_default());
            assert_eq!(found, (302, &*expected), "{path}?{query}");
        }
    }
    for query in ["genre=article&issn=0028-0836&volume=1", "rft_id=info%3Apmid%2F1", "title=a%2Fb"] {
        let page = server.get(&format!("/openurl?{query}"));
        assert_eq!(page.status, 404, "{query}");
        assert!(page.text().contains("Search by metadata is not supported."), "{}", page.text());
        let problem = server.request("GET", &format!("/openurl?{query}"), "Accept: application/json");
        assert_eq!((problem.status, &problem.json()["code"]), (404, &json!("no-identifier")), "{query}");
    }
    // Nothing of a query is cached for the path alone.
    let home = server.get("/openurl");
    assert!(home.status == 200 && home.text().contains("<form"), "{home:?}");
}

/// `doi:` and `urn:doi:` are removed before every prefix, and what follows is decoded.
fn statement_071_every_prefix_in_the_search_box(client: &ApiClient) {
    for (text, path) in [
        ("doi:alpha-beta/msws", "/alpha-beta/msws"),
        ("urn:doi:20.500.12345/x", "/20.500.12345/x"),
        ("DOI:dk/P%C3%A6dagogi%2037(2),%20562", "/dk/P%C3%A6dagogi%2037(2),%20562"),
        ("https://doi.org/10.1000/456%23789", "/10.1000/456%23789"),
        ("http://my.resolver.example/resolve?id=doi%3Aalpha-beta%2Fmsws", "/alpha-beta/msws"),
        ("20.500.12345/a%20b", "/20.500.12345/a%2520b"),
        ("see doi: 10.1000/182, page 3", "/10.1000/182"),
    ] {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let response = client.server.get(&format!("/?text={encoded}"));
        let found = (response.status, response.header("location").unwrap_or_default());
        assert_eq!(found, (303, path), "{text}");
    }
}

/// `/api/handles` reads, writes and deletes a name in its written forms.
fn written_forms_in_the_handle_api(client: &ApiClient) {
    load(client, &[("10.1000/182", "182")]);
    let value = br#"{"values":[{"index":1,"type":"URL","data":"https://example.org/"}]}"#;
    for form in ["doi:", "DOI:", "hdl:", "info:doi/", "urn:doi:", "https://doi.org/"] {
        let path = format!("/api/handles/{form}10.1000/182");
        let found = client.server.get(&path);
        assert_eq!((found.status, &found.json()["handle"]), (200, &json!("10.1000/182")), "{path}");
        let created = client.send("PUT", &format!("/api/handles/{form}10.1000/new"), TOKEN, &[], value);
        assert_eq!((created.status, &created.json()["handle"]), (201, &json!("10.1000/new")), "{form}");
        assert_eq!(client.send("DELETE", "/api/handles/doi:10.1000/NEW", TOKEN, &[], b"").status, 200);
    }
}

/// 000, section 2, note 2: hyphen, en dash and minus.
fn statement_022_look_alikes_are_refused_or_told_apart(client: &ApiClient) {
    client.create_fixtures();
    let policy = json!({"policy": {"confusable": "refuse"}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    let register = |name: &str| {
        let body = json!({"name": name, "url": "https://example.org/"}).to_string();
        client.send("POST", "/api/v1/dois", TOKEN, &["Content-Type: application/json"], body.as_bytes())
    };
    let dashes = ["-", "\u{2013}", "\u{2212}"];
    for (suffix, first) in [("a", "-"), ("b", "\u{2013}"), ("c", "\u{2212}")] {
        let name = |dash: &str| format!("10.70000/{suffix}{dash}d");
        assert_eq!(register(&name(first)).status, 201);
        for other in dashes.iter().filter(|dash| **dash != first) {
            let refused = register(&name(other));
            assert_eq!(refused.status, 409, "{}", refused.text());
            let problem = refused.json();
            let found = (&problem["code"], &problem["existing"]);
            assert_eq!(found, (&json!("confusable"), &json!(name(first))), "{problem}");
            // The URI forms stand beside the names.
            let detail = problem["detail"].as_str().unwrap();
            for uri in [tendot_registry::uri_form(&name(first)), tendot_registry::uri_form(&name(other))] {
                assert!(detail.contains(&uri), "{detail}");
            }
        }
    }
    // In a batch, and in names with several hyphens.
    let lines = "{\"name\":\"10.70000/x-y-z\",\"url\":\"https://example.org/\"}\n\
                 {\"name\":\"10.70000/x\u{2013}y-z\",\"url\":\"https://example.org/\"}\n\
                 {\"name\":\"10.70000/x\u{2212}y\u{2212}z\",\"url\":\"https://example.org/\"}\n";
    let headers = ["Content-Type: application/x-ndjson"];
    let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, lines.as_bytes());
    let statuses: Vec<Json> =
        response.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(statuses[0]["status"], "created", "{statuses:?}");
    for refused in &statuses[1..] {
        assert_eq!(refused["error"]["code"], "confusable", "{refused}");
    }
    // Two different dashes in one name; a Latin name after a Cyrillic one, and the reverse.
    let cyrillic = "\u{441}\u{43e}\u{440}\u{435}";
    for (first, second) in [
        ("e-f-g", "e\u{2013}f\u{2212}g"),
        ("h\u{2013}i\u{2212}j", "h-i-j"),
        ("k\u{2013}l\u{2212}m", "k\u{2212}l\u{2013}m"),
        (cyrillic, "cope"),
        ("scope", &format!("\u{455}{cyrillic}")),
    ] {
        let [first, second] = [first, second].map(|suffix| format!("10.70000/{suffix}"));
        assert_eq!(register(&first).status, 201, "{first}");
        let refused = register(&second);
        let problem = refused.json();
        let found = (refused.status, &problem["code"], &problem["existing"]);
        assert_eq!(found, (409, &json!("confusable"), &json!(first)), "{problem}");
    }
    let line = |name: &str| format!("{{\"name\":\"10.70000/{name}\",\"url\":\"https://example.org/\"}}\n");
    let lines = line(&format!("{cyrillic}-2")) + &line("cope-2");
    let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, lines.as_bytes());
    let text = response.text();
    let last: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "confusable", "{text}");
    // A suggestion that looks like the requested name.
    let path = "/10.70000/a%E2%80%93d";
    let problem =
        HttpRequest::get(path).header("Accept: application/json").send(client.server.address).json();
    assert_eq!(problem["suggestions"][0], "10.70000/a-d", "{problem}");
    assert_eq!(problem["uris"]["10.70000/a-d"], "doi:10.70000/a-d", "{problem}");
    assert_eq!(problem["uris"]["10.70000/a\u{2013}d"], "doi:10.70000/a%E2%80%93d", "{problem}");
    let page = client.server.get(path).text().into_owned();
    assert!(page.contains("doi:10.70000/a-d") && page.contains("doi:10.70000/a%E2%80%93d"), "{page}");
}

/// RFC 9112, section 3: redirect to the encoded target. Other characters are read as they stand, a space is an error.
fn unencoded_targets_are_redirected(client: &ApiClient) {
    let sici = "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-0";
    load(
        client,
        &[
            (sici, "sici"),
            ("10.1000/456#789", "hash"),
            ("10.1000/a`b", "accent"),
            ("10.1000/q\"\\^{|}[]", "odd"),
        ],
    );
    let server = &client.server;
    for (target, encoded, page) in [
        (format!("/{sici}"), "/10.1002/(SICI)1097-4571(199806)49:8%3C693::AID-ASI4%3E3.0.CO;2-0", "sici"),
        ("/10.1000/456#789".into(), "/10.1000/456%23789", "hash"),
        ("/10.1000/a`b".into(), "/10.1000/a%60b", "accent"),
    ] {
        let redirect = server.get(&target);
        let found = (redirect.status, redirect.header("location").unwrap_or_default());
        assert_eq!(found, (301, encoded), "{target}");
        assert!(redirect.header("x-request-id").is_some());
        let resolved = server.get(encoded);
        let expected = format!("https://example.org/{page}");
        assert_eq!((resolved.status, resolved.header("location")), (302, Some(&*expected)), "{encoded}");
        let head = server.request("HEAD", &target, "");
        assert_eq!((head.status, head.body.len()), (301, 0), "{target}");
        // A client may repeat a POST as a GET after 301, but not after 308.
        for method in ["POST", "PUT", "DELETE"] {
            let found = server.request(method, &target, "");
            assert_eq!((found.status, found.header("location")), (308, Some(encoded)), "{method} {target}");
        }
    }
    let found = server.get("/10.1000/q\"\\^{|}[]");
    assert_eq!((found.status, found.header("location")), (302, Some("https://example.org/odd")));
    // Neither the query is lost, nor does a target leave the server.
    let redirect = server.get("//evil.example/a<b?x=<y>&z");
    assert_eq!(redirect.header("location"), Some("/evil.example/a%3Cb?x=%3Cy%3E&z"));
    let space = server.get("/10.1000/a b");
    assert_eq!(space.status, 400);
    assert!(space.text().contains("space at byte 10 of the request target; encode it as `%20`"), "{space:?}");
}

/// The reply comes at once, whether the conflicting header is the last line or not, and before the body.
#[test]
fn two_content_lengths_are_rejected_at_once() {
    let server = start_default();
    let put = "PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\n";
    for request in [
        format!("{put}Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
        format!("{put}Content-Length: 4\r\nContent-Length: 4\r\n\r\n"),
        format!("{put}Content-Length: 4\r\nContent-Length: 5\r\n"),
        format!("{put}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"),
        "GET /livez HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\nHost: a\r\n\r\n".into(),
        "GET /livez HTTP/1.1\r\nHost: a\n\r\n".into(),
        "GET /livez HTTP/1.1\r\nHost: a\r\n\n".into(),
    ] {
        let mut stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let started = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = [0; 12];
        stream.read_exact(&mut response).unwrap_or_else(|error| panic!("{request:?}: {error}"));
        assert_eq!(response, *b"HTTP/1.1 400", "{request:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{request:?}");
    }
    // A byte at a time.
    let mut stream = server.connect();
    for byte in format!("{put}Content-Length: 4\r\nContent-Length: 4\r\n").bytes() {
        stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_micros(100));
    }
    let mut response = [0; 12];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(response, *b"HTTP/1.1 400");
}

#[test]
fn method_not_allowed_is_json_on_request() {
    let server = start_default();
    for target in ["/10.5555/ONE", "/docs", "/livez", "/resolve", "/doiRA/10.5555/ONE", "/api/v1/changes"] {
        let response = server.request("PATCH", target, "Accept: application/json");
        assert_eq!(response.status, 405, "{target}");
        assert!(response.header("allow").is_some(), "{target}");
        assert!(response.header("content-type").unwrap().starts_with("application/problem+json"), "{target}");
        assert_eq!(response.json()["code"], "method-not-allowed", "{target}");
    }
    let text = server.request("PATCH", "/10.5555/ONE", "Accept: */*");
    assert_eq!(text.header("content-type"), Some("text/plain;charset=utf-8"));
    assert!(text.text().starts_with("Method PATCH is not allowed; allowed: "), "{}", text.text());
    let handle_json = server.request("PATCH", "/api/handles/10.5555/ONE", "Accept: application/json");
    assert_eq!((handle_json.status, &handle_json.json()["responseCode"]), (405, &json!(4)));
}

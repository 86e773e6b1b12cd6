//! Batches of the registry API over each store: one result per line, replay and resumption by idempotency key, CSV, revoked
//! tokens.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value as Json, json};
use tendot_store::{Edit, NameKey, Store as _};
use tendot_testing::{WAIT_TIMEOUT, wait_for};

use crate::support::api_client::{ApiClient, kernel_json, over_all_stores};
use crate::support::http_server::{TOKEN, TestServer};

over_all_stores!(
    batch_results,
    batches_are_replayed,
    refused_lines_are_tried_again,
    audit_f1_secrets_of_refused_lines_are_not_stored,
    batches_resume_after_gaps,
    batch_keys_are_bound_to_the_body,
    refused_lines,
    csv_batches,
    slow_csv_rows,
    oversized_csv_rows,
    token_revoked_during_a_batch,
    audit_f7_batches_end_with_their_credentials,
);

fn batch_results(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    // Every hundredth of 5,000 lines is invalid; each line has a result, in order.
    let mut body = String::new();
    for number in 1..=5_000 {
        body += &match number % 100 {
            0 if number % 200 == 0 => format!("{{\"name\":\"10.70000/{number}\",\"url\":\"nowhere\"}}\n"),
            0 => "not JSON\n".to_owned(),
            _ => format!("{{\"name\":\"10.70000/{number}\",\"url\":\"https://example.org/{number}\"}}\r\n"),
        };
    }
    let response = client.batch(&fixtures.tokens[0], &["Content-Type: application/x-ndjson"], &body);
    assert_eq!(response.len(), 5_000);
    for (line, number) in response.iter().zip(1..) {
        let expected = if number % 100 == 0 { "refused" } else { "created" };
        assert_eq!((&line["line"], &line["status"]), (&json!(number), &json!(expected)), "{line}");
        if number % 100 == 0 {
            let code = if number % 200 == 0 { "invalid-url" } else { "malformed" };
            assert_eq!((&line["error"]["code"], &line["error"]["line"]), (&json!(code), &json!(number)));
        }
    }
    assert_eq!(client.redirect_of("10.70000/4999").0, 302);
    assert_eq!(client.redirect_of("10.70000/5000").0, 404);
    // Existing names are updated or unchanged; the lines of a batch apply in order.
    let line = |name: &str, url: &str| format!("{{\"name\":\"{name}\",\"url\":\"{url}\"}}\n");
    let mut body =
        line("10.70000/1", "https://example.org/1") + &line("10.70000/2", "https://example.org/new");
    body += "\n";
    body += &(line("10.70000/new", "https://example.org/a") + &line("10.70000/NEW", "https://example.org/b"));
    body += &(line("10.70001/x", "https://example.org/a") + &line("10.9/x", "https://example.org/a"));
    let mut lines = body.clone();
    for number in 0..3_000 {
        lines += &line("10.70000/same", &format!("https://example.org/{number}"));
    }
    let response = client.batch(&fixtures.tokens[0], &[], &lines);
    let statuses: Vec<&str> = response.iter().take(6).map(|line| line["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["unchanged", "updated", "created", "updated", "refused", "refused"]);
    assert_eq!((&response[2]["line"], &response[3]["name"]), (&json!(4), &json!("10.70000/new")));
    assert_eq!(client.redirect_of("10.70000/same").1.as_deref(), Some("https://example.org/2999"));
    // A dry run creates nothing.
    let response = client.send(
        "POST",
        "/api/v1/dois/batch?dry-run=true",
        &fixtures.tokens[0],
        &[],
        line("10.70000/dry", "https://a.org/").as_bytes(),
    );
    assert_eq!(response.json_lines()[0]["status"], "created");
    assert_eq!(client.redirect_of("10.70000/dry").0, 404);
    // Without valid credentials.
    for (token, status) in [("", 401), ("tendot_a_b", 401)] {
        assert_eq!(client.send("POST", "/api/v1/dois/batch", token, &[], b"{}").status, status);
    }
    assert_eq!(
        client.send("POST", "/api/v1/dois/batch", TOKEN, &["Content-Type: text/xml"], b"{}").status,
        415
    );
    for media_type in ["application/ndjson", "application/jsonl; charset=utf-8"] {
        let response = client.batch(TOKEN, &[&format!("Content-Type: {media_type}")], &body);
        assert_eq!(response[0]["status"], "unchanged", "{media_type}");
    }
    assert_eq!(client.batch(TOKEN, &[], ""), Vec::<Json>::new());
}

fn batches_are_replayed(client: &ApiClient) {
    client.create_fixtures();
    let body: String = (0..2_500)
        .map(|number| format!("{{\"prefix\":\"10.70000\",\"url\":\"https://example.org/{number}\"}}\n"))
        .collect();
    let key = "Idempotency-Key: batch-1";
    let first = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    let second = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    assert_eq!(first.body, second.body);
    assert_eq!(first.json_lines().len(), 2_500);
    for other in
        [format!("{body}{{}}\n"), body[..body.len() - 100].to_owned(), body.replacen("/7\"", "/x\"", 1)]
    {
        let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], other.as_bytes());
        assert_eq!(response.status, 422, "{}", response.text());
    }
    // A batch resumes after a lost connection: no line is executed twice, and every line has a result.
    let half = body.len() / 2;
    let mut stream = client.server.connect();
    let head = format!(
        "POST /api/v1/dois/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: batch-2\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body.as_bytes()[..half]).unwrap();
    let mut buffer = [0; 1_000];
    assert!(stream.read(&mut buffer).unwrap() > 0, "results are streamed while the body is sent");
    drop(stream);
    let key = ["Idempotency-Key: batch-2"];
    // The interrupted request may still be running.
    let resumed = wait_for("the key is free", || {
        let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &key, body.as_bytes());
        (response.json()["code"] != "key-in-use").then_some(response)
    });
    let response = resumed.json_lines();
    assert_eq!(response.len(), 2_500);
    let names: BTreeMap<&str, u64> = response
        .iter()
        .map(|line| (line["name"].as_str().unwrap(), line["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(names.len(), 2_500);
    let mut name_count = 0;
    let mut after = String::new();
    loop {
        let path = format!("/dois?prefix=10.70000&limit=1000{after}");
        let listed = client.check("GET", &path, "", &Json::Null, (200, ""));
        name_count += listed["items"].as_array().unwrap().len();
        match listed["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(name_count, 5_000);
}

/// A refused line of a batch that is sent again is tried again, unless an accepted line or a later change touched its name.
fn refused_lines_are_tried_again(client: &ApiClient) {
    client.create_fixtures();
    let restrict = |hosts: Json| {
        let policy = json!({"policy": {"hosts": hosts}});
        client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    };
    restrict(json!(["example.org"]));
    let line = |name: &str, url: &str| json!({"name": format!("10.70000/{name}"), "url": url}).to_string();
    let lines = [
        line("a", "https://example.com/a"),
        line("b", "https://example.org/b"),
        line("b", "https://example.com/other"),
        line("c", "https://example.com/c"),
        "{}".into(),
        json!({"prefix": "10.70000", "url": "https://example.com/minted"}).to_string(),
        line("d", "https://example.com/d"),
        line("d", "https://example.com/d2"),
    ];
    let body = lines.join("\n");
    let send =
        || client.send("POST", "/api/v1/dois/batch", TOKEN, &["Idempotency-Key: retried"], body.as_bytes());
    let statuses = || -> Vec<String> {
        let lines = send().json_lines();
        lines.iter().map(|line| line["status"].as_str().unwrap().to_owned()).collect()
    };
    let refused = "refused";
    let first = [refused, "created", refused, refused, refused, refused, refused, refused];
    assert_eq!(statuses(), first);
    assert_eq!(statuses(), first);
    restrict(json!([]));
    client.create("/dois", &json!({"name": "10.70000/c", "url": "https://example.org/changed"}));
    let again = ["created", "created", refused, refused, refused, "created", "created", "updated"];
    assert_eq!(statuses(), again);
    // Now all of them are replayed.
    let (second, third) = (send(), send());
    assert_eq!(second.body, third.body);
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(statuses(), again);
    let url = |name: &str| {
        let path = format!("/dois/10.70000/{name}");
        client.check("GET", &path, "", &Json::Null, (200, ""))["url"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        ["a", "b", "c", "d"].map(url),
        [
            "https://example.com/a",
            "https://example.org/b",
            "https://example.org/changed",
            "https://example.com/d2"
        ]
    );
    let listed = client.check("GET", "/dois?prefix=10.70000", "", &Json::Null, (200, ""));
    assert_eq!(listed["items"].as_array().unwrap().len(), 5);
}

/// The journal of a batch has no secrets of refused lines; sent again, such a line is tried again nevertheless.
fn audit_f1_secrets_of_refused_lines_are_not_stored(client: &ApiClient) {
    client.create_fixtures();
    let restrict = |hosts: Json| {
        let policy = json!({"policy": {"hosts": hosts}});
        client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    };
    restrict(json!(["example.org"]));
    let secret = json!([{"index": 300, "type": "HS_SECKEY", "data": "the batch's secret"}]);
    let lines = [
        json!({"name": "10.70000/a", "url": "https://example.com/a", "values": secret}),
        json!({"name": "10.70000/b", "url": "https://example.com/b"}),
    ];
    let body = lines.map(|line| line.to_string()).join("\n");
    let statuses = || -> Vec<String> {
        let headers = ["Idempotency-Key: secret"];
        let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, body.as_bytes());
        assert!(!response.text().contains("the batch's secret"));
        let lines = response.json_lines();
        lines.iter().map(|line| line["status"].as_str().unwrap().to_owned()).collect()
    };
    let stored = || -> String {
        let entries = client.server.store.list_aux(b"idempotency/", None, 100);
        let entries = client.server.runtime.block_on(entries).unwrap();
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.value).into_owned()).collect()
    };
    for _ in 0..2 {
        assert_eq!(statuses(), ["refused", "refused"]);
        let journal = stored();
        assert!(
            !journal.contains("the batch's secret") && journal.contains("https://example.com/b"),
            "{journal}"
        );
    }
    restrict(json!([]));
    for _ in 0..2 {
        assert_eq!(statuses(), ["created", "created"]);
        assert!(!stored().contains("the batch's secret"));
    }
    let key = NameKey::new("10.70000/a").unwrap();
    let record = client.server.runtime.block_on(client.server.store.get(&key)).unwrap().unwrap();
    assert!(record.values.iter().any(|value| *value.data == *b"the batch's secret"));
}

/// Lines without a result in the journal are executed when the batch is sent again, also if later lines have one, as after a
/// crash of the server.
fn batches_resume_after_gaps(client: &ApiClient) {
    client.create_fixtures();
    let body: String = (0..3_500)
        .map(|number| {
            format!("{{\"name\":\"10.70000/{number}\",\"url\":\"https://example.org/{number}\"}}\n")
        })
        .collect();
    let key = "Idempotency-Key: batch-1";
    let send = |body: &str| client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    let first = send(&body).json_lines();
    let TestServer { runtime, store, .. } = &client.server;
    let entries = runtime.block_on(store.list_aux(b"idempotency/", None, 100)).unwrap();
    let (header, chunks) = entries.split_first().unwrap();
    assert!(chunks.len() > 3);
    let mut edits = vec![Edit::PutAux {
        key: header.key.clone(),
        value: String::from_utf8_lossy(&header.value).replace("true", "false").into_bytes().into(),
    }];
    edits.extend([0, 2].map(|chunk: usize| Edit::RemoveAux { key: chunks[chunk].key.clone() }));
    client.server.commit(edits);
    // A line with a result was changed or removed.
    assert_eq!(send(&body.replacen("org/3499", "org/x", 1)).status, 422);
    assert_eq!(send(&body[..1_000]).status, 422);
    let second = send(&body).json_lines();
    assert_eq!(second.len(), 3_500);
    let mut repeated = 0;
    for ((first, second), number) in first.iter().zip(&second).zip(1..) {
        assert_eq!((&second["line"], &second["name"]), (&json!(number), &first["name"]));
        repeated += u32::from(second["status"] == "unchanged");
    }
    assert!((1..3_000).contains(&repeated), "{repeated} lines are executed again");
    let third = send(&body);
    assert_eq!(third.header("idempotency-replayed"), Some("true"));
    assert_eq!(third.json_lines(), second);
}

/// An idempotency key belongs to one request: its format, its columns and the lengths of its lines.
fn batch_keys_are_bound_to_the_body(client: &ApiClient) {
    client.create_fixtures();
    let send = |key: &str, media_type: &str, body: &str| {
        let headers = [&*format!("Idempotency-Key: {key}"), &*format!("Content-Type: {media_type}")];
        client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, body.as_bytes())
    };
    let line_of_length = |length: usize| format!("{}\n", "x".repeat(length));
    let (ndjson, csv) = ("application/x-ndjson", "text/csv");
    let row = "10.70000/a,https://example.org/\n";
    for (key, first, second) in [
        ("a", (csv, "name,url\n"), (ndjson, "")),
        ("b", (csv, "name,url\n"), (csv, "name,state\n")),
        ("c", (csv, &*format!("name,url\n{row}")), (csv, &*format!("url,name\n{row}"))),
        ("d", (ndjson, &*line_of_length(70_000)), (ndjson, &*line_of_length(70_001))),
        ("e", (csv, "name\n\"a\n"), (csv, "name\n\"ab\n")),
    ] {
        assert_eq!(send(key, first.0, first.1).status, 200, "{key}");
        let other = send(key, second.0, second.1);
        assert_eq!(other.status, 422, "{key}: {}", other.text());
        let header = format!("Idempotency-Key: {key}");
        let single = client.json("POST", "/dois", TOKEN, &[&header], &json!({"prefix": "10.70000"}));
        assert_eq!((single.status, single.json["code"].as_str()), (422, Some("key-reused")), "{key}");
        assert_eq!(send(key, first.0, first.1).header("idempotency-replayed"), Some("true"), "{key}");
    }
}

/// The result of a refused line has the name and the position of the fault, and is short: a thousand are in one journal entry.
fn refused_lines(client: &ApiClient) {
    client.create_fixtures();
    let response = client.batch(TOKEN, &[], "{\"name\":\"10.70000/a\",\"url\":7}\n7\n");
    assert_eq!(
        (&response[0]["name"], &response[0]["error"]["pointer"]),
        (&json!("10.70000/a"), &json!("/url")),
        "{response:?}"
    );
    assert!(!response[1].to_string().contains("struct"), "{response:?}");
    let response =
        client.batch(TOKEN, &["Content-Type: text/csv"], "url,name,state\nx,10.70000/a\nx,10.70000/b,y\n");
    let names: Vec<_> = response.iter().map(|line| &line["name"]).collect();
    assert_eq!(names, ["10.70000/a", "10.70000/b"], "{response:?}");
    // Every member is invalid.
    let mut invalid = kernel_json(&"x".repeat(300));
    for value in invalid.as_object_mut().unwrap().values_mut() {
        *value = json!("x".repeat(500));
    }
    for number in 0..20 {
        invalid[format!("{number}{}", "y".repeat(300))] = json!(1);
    }
    let body: String = (0..1_500)
        .map(|number| format!("{}\n", json!({"name": format!("10.70000/{number}"), "metadata": invalid})))
        .collect();
    let key = "Idempotency-Key: refused";
    let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    let response = response.json_lines();
    assert_eq!(response.len(), 1_500);
    for (line, number) in response.iter().zip(0..) {
        assert_eq!(line["name"], format!("10.70000/{number}"));
        assert_eq!(line["error"]["code"], "invalid-metadata");
        let (length, fault) = (line.to_string().len(), &line["error"]["faults"][0]);
        assert!(
            length < 1_500 && fault["code"] == "value-not-allowed" && fault["allowed"].is_null(),
            "{length}: {line}"
        );
    }
}

fn csv_batches(client: &ApiClient) {
    client.create_fixtures();
    let body = "name,url,metadata\r\n10.70000/a,https://example.org/a,\r\n10.70000/b,\"https://example.org/b\",\"{\"\"primaryReferentType\"\":\n1}\"\r\n\
                =cmd(),https://example.org/,\r\n10.70000/c,\"https://example.org/\"\"c\",\r\n10.70000/d\r\n";
    let response =
        client.send("POST", "/api/v1/dois/batch", TOKEN, &["Content-Type: text/csv"], body.as_bytes());
    let response = response.json_lines();
    let results: Vec<(u64, &str, &str)> = response
        .iter()
        .map(|line| {
            (
                line["line"].as_u64().unwrap(),
                line["status"].as_str().unwrap(),
                line["error"]["code"].as_str().unwrap_or(""),
            )
        })
        .collect();
    let expected = [
        (2, "created", ""),
        (3, "refused", "invalid-metadata"),
        (5, "refused", "invalid-name"),
        (6, "created", ""),
        (7, "refused", "malformed"),
    ];
    assert_eq!(results, expected, "{response:?}");
    let response =
        client.send("POST", "/api/v1/dois/batch", TOKEN, &["Content-Type: text/csv"], b"name,target\n");
    assert_eq!(response.status, 400);
}

/// A quoted CSV field that arrives with pauses longer than the interval of line groups remains one field.
fn slow_csv_rows(client: &ApiClient) {
    client.create_fixtures();
    let parts = [
        "name,url,metadata\n10.70000/a,https://example.org/a,\n10.70000/b,https://example.org/b,\"{\n",
        "\n\"\"a\"\":\n",
        "1}\"\n10.70000/c,https://example.org/c,\n",
    ];
    let parts = parts.map(str::as_bytes);
    let csv = ["Content-Type: text/csv"];
    let response = client.send_in_parts("POST", "/api/v1/dois/batch", TOKEN, &csv, &parts).json_lines();
    let results: Vec<_> =
        response.iter().map(|line| (line["line"].clone(), line["error"]["code"].clone())).collect();
    let expected = [(2, Json::Null), (3, json!("invalid-metadata")), (7, Json::Null)];
    assert_eq!(results, expected.map(|(line, code)| (json!(line), code)), "{response:?}");
}

/// An oversized row is refused once; the next row begins after its closing quote.
fn oversized_csv_rows(client: &ApiClient) {
    client.create_fixtures();
    let many_lines = "x\n".repeat(100_000);
    let long_line = "x".repeat(100_000);
    for (field, next) in
        [(many_lines, 100_003), (format!("{long_line}\n,"), 4), (format!("\n{long_line}\n,\n"), 6)]
    {
        let body = format!(
            "name,url\n10.70000/a,\"{field}\"\n10.70000/b,https://example.org/b\n10.70000/c,\"open\n\n"
        );
        let response = client.batch(TOKEN, &["Content-Type: text/csv"], &body);
        let results: Vec<_> =
            response.iter().map(|line| (line["line"].as_u64(), line["status"] == "refused")).collect();
        assert_eq!(results, [(Some(2), true), (Some(next), false), (Some(next + 1), true)], "{response:?}");
    }
}

fn token_revoked_during_a_batch(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let mut stream = client.server.connect();
    let head = format!(
        "POST /api/v1/dois/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        fixtures.tokens[0]
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut send_line = |name: &str| {
        send_chunk(&mut stream, &format!("{{\"name\":\"{name}\",\"url\":\"https://example.org/\"}}\n"));
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "the connection stays open");
            if line.starts_with("{\"line\"") {
                return serde_json::from_str::<Json>(&line).unwrap();
            }
        }
    };
    assert_eq!(send_line("10.70000/a")["status"], "created");
    let listed = client.check("GET", "/tokens", &fixtures.tokens[0], &Json::Null, (200, ""));
    let path = format!("/tokens/{}", listed["items"][0]["id"].as_str().unwrap());
    client.check("DELETE", &path, TOKEN, &Json::Null, (200, ""));
    let refused = send_line("10.70000/b");
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!("refused"), &json!("invalid-token")));
    assert_eq!(refused["name"], "10.70000/b");
    assert_eq!(client.redirect_of("10.70000/b").0, 404);
}

/// A batch stops when the operator token is replaced.
fn audit_f7_batches_end_with_their_credentials(client: &ApiClient) {
    client.create_fixtures();
    let mut stream = client.server.connect();
    let head = "POST /api/v1/dois/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n";
    stream.write_all(format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    // Whether the line has a result; not if the connection was closed.
    let mut send_line = |number: u32| {
        let line = format!("{{\"name\":\"10.70000/{number}\",\"url\":\"https://example.org/\"}}\n");
        let chunk = format!("{:x}\r\n{line}\r\n", line.len());
        if stream.write_all(chunk.as_bytes()).is_err() {
            return false;
        }
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) if line.starts_with("{\"line\"") => return true,
                Ok(1..) => {}
                _ => return false,
            }
        }
    };
    assert!(send_line(0));
    client.server.http.replace_operator_token("rotated");
    let started = Instant::now();
    let mut numbers = 1..;
    while send_line(numbers.next().unwrap()) {
        assert!(started.elapsed() < WAIT_TIMEOUT, "the batch continues");
    }
    assert!(started.elapsed() < WAIT_TIMEOUT, "nothing was received, and the batch did not end");
}

fn send_chunk(stream: &mut TcpStream, text: &str) {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).unwrap();
}

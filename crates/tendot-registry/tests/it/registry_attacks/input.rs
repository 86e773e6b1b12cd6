//! JSON and URLs of registrations.

use tendot_proto::record::PublicKey;

use super::*;

/// JSON is parsed strictly, and errors have the location.
#[test]
fn attack_d1_json() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let metadata = |inner: &str| format!(r#"{{"name": "10.1/a", "metadata": {inner}}}"#);
    let values = |inner: &str| format!(r#"{{"name": "10.1/a", "values": {inner}}}"#);
    for (json, code) in [
        (deep("[", "]"), "malformed"),
        (deep("{\"a\":", "}"), "malformed"),
        (metadata(&deep("[", "]")), "invalid-metadata"),
        (metadata(&deep("{\"a\":", "}")), "invalid-metadata"),
        (values(&deep("[", "]")), "malformed"),
        (r#"{"name": "10.1/a", "name": "10.1/b"}"#.into(), "malformed"),
        (r#"{"name": "10.1/a", "n\u0061me": "10.1/b"}"#.into(), "malformed"),
        (
            metadata(r#"{"primaryReferentType": "Creation", "primaryReferentType": "Party"}"#),
            "invalid-metadata",
        ),
        (values(r#"[{"index": 1, "index": 2, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (values(r#"[{"index": 1e400, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (values(r#"[{"index": 1.5, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (metadata("1e400"), "invalid-metadata"),
        (r#"{"name": "10.1/\ud800"}"#.into(), "malformed"),
        (metadata(r#"{"primaryReferentType": "\udfff"}"#), "invalid-metadata"),
        ("\u{feff}{\"name\": \"10.1/a\"}".into(), "malformed"),
        (r#"{"name": "10.1/a"} {}"#.into(), "malformed"),
        (r#"{"name": "10.1/a", "state": "tombstone"}"#.into(), "malformed"),
        (r#"{"name": ["10.1/a"]}"#.into(), "malformed"),
        (r#"{"nmae": "10.1/a"}"#.into(), "malformed"),
        ("".into(), "malformed"),
        ("null".into(), "malformed"),
    ] {
        let error = RegistrationRequest::from_json(json.as_bytes()).unwrap_err();
        let excerpt: String = json.chars().take(80).collect();
        assert_eq!(error.code, code, "{excerpt}: {}", error.detail);
        assert!(!error.detail.is_empty() && error.detail.len() < 1_000, "{excerpt}");
    }
    assert_eq!(RegistrationRequest::from_json(b"{\"name\": \"\xff\"}").unwrap_err().code, "malformed");
    // Parsed as other implementations do, then rejected.
    let body = request_from_json(
        r#"{"name": "10.71000/d1", "values": [{"index": -1, "type": "URL", "data": "https://a/"}]}"#,
    );
    let fixture = RegistryFixture::in_memory();
    let error = fixture
        .execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &fixture.caller('1'))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.code, "invalid-value");
}

/// A value that was imported, but would be rejected today, can be sent back unchanged.
#[test]
fn unchanged_values_are_not_checked_again() {
    let fixture = RegistryFixture::in_memory();
    let key = |bytes: usize| {
        let key = PublicKey::rsa(&vec![0xc1; bytes], &[1, 0, 1]);
        HandleValue::with_data(300, "HS_PUBKEY", key.to_bytes())
    };
    let imported = Edit::Put {
        name: "10.71000/imported".into(),
        values: vec![HandleValue::new(1, "URL", "https://a/"), key(128)],
        precondition: Precondition::Absent,
    };
    let change = ChangeSet { author: "import".into(), timestamp_ms: NOW, edits: vec![imported] };
    block_on(fixture.registry.store().commit(change)).unwrap();
    let update = |values: Vec<HandleValue<'static>>| {
        let request = RegistrationRequest {
            url: Some("https://b/".into()),
            values: Some(values),
            ..RegistrationRequest::default()
        };
        let change = UpdateDoi { name: "10.71000/imported".into(), request, expected_revision: None };
        fixture.execute_as(&change, &fixture.caller('1')).map(|outcome| outcome.output)
    };
    let updated = update(vec![key(128)]).unwrap();
    assert_eq!(updated.url(), Some("https://b/"));
    assert!(updated.values.iter().any(|value| value.index == 300));
    let moved = HandleValue { index: 301, ..key(128) };
    for changed in [key(136), moved] {
        let error = update(vec![changed]).unwrap_err();
        assert_eq!((error.code, error.pointer.as_deref()), ("invalid-value", Some("/values/0")));
    }
}

/// Invalid and misleading URLs.
#[test]
fn attack_d8_urls() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let long_url = format!("https://example.org/{}", "x".repeat(100_000));
    for url in [
        "/relative",
        "//example.org/",
        &long_url,
        "https://\u{430}pple.example/",
        "https://xn--pple-43d.example/",
        "https://user:password@example.org/",
        "javascript:alert(1)",
        "https://x/\r\nSet-Cookie:a=1",
        "",
    ] {
        let command = RegisterDoi { request: request("10.71000/d8", url), random_bytes: [0; 16] };
        let error = fixture.execute_as(&command, &caller).map(drop).unwrap_err();
        assert_eq!((error.code, error.pointer.as_deref()), ("invalid-url", Some("/url")), "{url}");
        let body = RegistrationRequest { url: Some(url.into()), ..RegistrationRequest::default() };
        let change = UpdateDoi { name: "10.71000/x".into(), request: body, expected_revision: None };
        assert_eq!(fixture.execute_as(&change, &caller).map(drop).unwrap_err().code, "invalid-url", "{url}");
        let body = RegistrationRequest {
            name: Some("10.71000/d8".into()),
            values: Some(vec![HandleValue::new(2, "URL", url.to_owned())]),
            ..RegistrationRequest::default()
        };
        let error = fixture
            .execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &caller)
            .map(drop)
            .unwrap_err();
        assert_eq!((error.code, error.pointer.as_deref()), ("invalid-value", Some("/values/0")), "{url}");
    }
    // The host list of a prefix covers all values with URLs.
    let hosts = Some(PrefixPolicy { hosts: vec!["example.org".into()], ..PrefixPolicy::default() });
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1.into(),
        policy: hosts,
        expected_revision: None,
    });
    let loc = |href: &str| {
        HandleValue::new(2, "10320/loc", format!(r#"<locations><location href="{href}"/></locations>"#))
    };
    let request_with = |value: HandleValue<'static>| RegistrationRequest {
        values: Some(vec![value]),
        ..request("10.71000/hosts", "https://www.example.org/")
    };
    let register = |body: RegistrationRequest| {
        fixture
            .execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &caller)
            .map(drop)
            .map_err(|error| error.code)
    };
    assert_eq!(register(request("10.71000/hosts", "https://evil.net/")), Err("host-not-allowed"));
    assert_eq!(
        register(request_with(HandleValue::new(2, "URL", "https://example.org.evil.net/"))),
        Err("host-not-allowed")
    );
    assert_eq!(register(request_with(loc("https://evil.net/"))), Err("host-not-allowed"));
    for disguised in ["https://example.org:x@evil.net/", "https://example.org@evil.net/"] {
        assert_eq!(register(request_with(loc(disguised))), Err("invalid-value"), "{disguised}");
    }
    let handle_add =
        |value: HandleValue<'static>| write(&fixture, &add("10.71000/x", vec![value]), &key_caller(KEY));
    assert_eq!((handle_add(loc("https://evil.net/")), handle_add(loc("https://example.org/"))), ('!', '+'));
    assert_eq!(handle_add(loc("https://example.org:x@evil.net/")), '!');
    assert_eq!(register(request_with(loc("https://example.org/x"))), Ok(()));
}

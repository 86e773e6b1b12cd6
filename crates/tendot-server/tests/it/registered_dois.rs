//! Registered DOI names over every protocol: content negotiation, retirement, histories, and that reserved names stay hidden.

use serde_json::{Value as Json, json};
use tendot_proto::endpoint::Transport;
use tendot_proto::{Budget, Handle, ValueReference};
use tendot_registry::transfer::TransferSubject;
use tendot_registry::{
    CallContext, Caller, ChangeCursor, Error, HandleIdentity, HandleOperation, HandleWrite, ReverseLookup,
    WriteOutcome,
};
use tendot_server::http::HttpLimits;
use tendot_store::Store as _;
use tendot_testing::block_on;
use tendot_testing::http::{HttpRequest, HttpResponse};

use crate::support::edits::{home_edit, put_edit};
use crate::support::fixtures::{PartyFixtures, kernel_metadata};
use crate::support::http_server::{TOKEN, TestServer, bind, start_over};
use crate::support::native_server::{NativeServerOptions, NativeTestServer, now, resolution, url_value};
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    metadata_by_content_negotiation,
    redirects_without_metadata_preference,
    cache_varies_by_accept,
    locations_by_media_type,
    trace,
    metadata_endpoint,
    reserved_names_are_hidden,
    writes_do_not_reveal_reserved_names,
    reserved_names_become_public,
    native_reads_and_writes,
    retired_names,
    registry_prefix_is_hidden,
    histories,
    record_pages,
    change_feed_skips_hidden_entries,
);

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn serve(store: StoreKind) -> (TestServer, PartyFixtures) {
    let edits =
        vec![home_edit("10.5555"), put_edit("10.5555/ONE", vec![url_value(1, "https://example.org/one")])];
    let server = start_over(store.open(), bind(), edits, HttpLimits::default(), None, |http| http);
    let parties = server.runtime.block_on(PartyFixtures::create(server.http.registry()));
    (server, parties)
}

fn write(server: &TestServer, operation: &HandleWrite<'_>) -> Result<WriteOutcome, Error> {
    let work = &mut Budget::new(10_000);
    let registry = server.http.registry();
    server
        .runtime
        .block_on(registry.write(operation, CallContext::new(&Caller::Operator, now().unix * 1_000, work)))
}

fn metadata_by_content_negotiation(store: StoreKind) {
    let (server, _) = serve(store);
    let check = |accept: &str, media_type: &str, excerpt: &str| {
        let response = server.request("GET", "/10.70000/paper", &format!("Accept: {accept}"));
        assert_eq!(response.status, 200, "{accept}: {}", response.text());
        assert_eq!(
            response.header("content-type"),
            Some(&*format!("{media_type};charset=utf-8")),
            "{accept}"
        );
        assert_eq!(
            (response.header("vary"), response.header("location")),
            (Some("Accept"), None),
            "{accept}"
        );
        assert!(response.text().contains(excerpt), "{accept}: {}", response.text());
        let tag = response.header("etag").unwrap();
        let not_modified =
            server.request("GET", "/10.70000/PAPER", &format!("Accept: {accept}\nIf-None-Match: {tag}"));
        assert_eq!((not_modified.status, not_modified.body.len()), (304, 0), "{accept}");
        let head = server.request("HEAD", "/10.70000/PAPER", &format!("Accept: {accept}"));
        assert_eq!((head.status, head.header("etag"), head.body.len()), (200, Some(tag), 0), "{accept}");
    };
    check("application/json", "application/json", "\"referentCreation\"");
    check("application/vnd.doi.kernel+json", "application/vnd.doi.kernel+json", "10.SERV/ALPHA");
    check("application/vnd.doi.kernel+xml", "application/vnd.doi.kernel+xml", "<referentCreation>");
    check("application/xml, */*;q=0.1", "application/xml", "<referentCreation>");
    check("application/vnd.doi.system+json", "application/vnd.doi.system+json", "Self-organized");
    check("application/vnd.citationstyles.csl+json", "application/vnd.citationstyles.csl+json", "\"Bak\"");
    check("application/x-bibtex", "application/x-bibtex", "@article");
    check("application/x-research-info-systems", "application/x-research-info-systems", "TY  - ");
    check("application/vnd.schemaorg.ld+json", "application/vnd.schemaorg.ld+json", "https://schema.org");
    check("application/vnd.datacite.datacite+json", "application/vnd.datacite.datacite+json", "titles");
    check("text/turtle, application/x-bibtex;q=0.2", "application/x-bibtex", "@article");
}

/// Browsers, and names without metadata, get a redirect; 406 is only for names that have metadata.
fn redirects_without_metadata_preference(store: StoreKind) {
    let (server, _) = serve(store);
    let check = |target: &str, accept: &str, status: u16, vary: Option<&str>| {
        let response = server.request("GET", target, accept);
        assert_eq!(
            (response.status, response.header("vary")),
            (status, vary),
            "{target} {accept}: {}",
            response.text()
        );
        assert_eq!(response.header("location").is_some(), status == 302, "{target} {accept}");
    };
    for accept in ["", "Accept: */*", BROWSER, "Accept: text/html, application/x-bibtex", "Accept: image/png"]
    {
        check("/10.70000/PAPER", accept, 302, Some("Accept"));
    }
    check("/10.70000/PAPER", "Accept: text/turtle, */*;q=0.1", 302, Some("Accept"));
    check("/10.70000/PAPER", "Accept: text/turtle", 406, Some("Accept"));
    check("/10.70000/PAPER", "Accept: application/json;q=0", 406, Some("Accept"));
    let page = server.request("GET", "/10.70000/PAPER?noredirect", "Accept: application/x-bibtex");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html;charset=utf-8")));
    for target in ["/10.70000/PLAIN", "/10.5555/ONE"] {
        for accept in
            ["Accept: text/turtle", "Accept: application/x-bibtex", "Accept: application/json", BROWSER]
        {
            check(target, accept, 302, None);
        }
    }
    let response = server.request("GET", "/10.70000/PAPER", "Accept: text/turtle");
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    let problem = response.json();
    assert_eq!((&problem["code"], &problem["status"]), (&json!("not-acceptable"), &json!(406)));
    assert!(problem["types"].as_array().unwrap().contains(&json!("application/x-bibtex")), "{problem}");
}

/// The response cache is not used where `Accept` matters, also if the record of the prefix has no rule.
fn cache_varies_by_accept(store: StoreKind) {
    let (server, _) = serve(store);
    server.commit(vec![put_edit("0.NA/10.70000", Vec::new())]);
    for _ in 0..3 {
        for (accept, status) in [(BROWSER, 302), ("Accept: application/x-bibtex", 200), ("Accept: a/b", 406)]
        {
            assert_eq!(server.request("GET", "/10.70000/PAPER", accept).status, status, "{accept}");
        }
    }
}

/// A location of the record for the media type precedes 406.
fn locations_by_media_type(store: StoreKind) {
    let (server, parties) = serve(store);
    let locations = r"<locations><location href='https://example.org/rdf' weight='0' media-type='text/turtle'/></locations>";
    let change = format!(
        r#"{{"values":[{{"index":2,"type":"10320/loc","data":{{"format":"string","value":"{locations}"}},"ttl":86400}}]}}"#
    );
    server.runtime.block_on(parties.update(server.http.registry(), "10.70000/PAPER", &change));
    let response = server.request("GET", "/10.70000/PAPER", "Accept: text/turtle");
    assert_eq!((response.status, response.header("location")), (302, Some("https://example.org/rdf")));
    assert_eq!(server.request("GET", "/10.70000/PAPER", "Accept: application/x-bibtex").status, 200);
}

fn trace(store: StoreKind) {
    let (server, _) = serve(store);
    let steps = |target: &str, accept: &str| {
        let trace = server.request("GET", target, accept).json();
        let steps = trace["steps"].as_array().unwrap().iter();
        let metadata = steps.filter(|step| step["step"] == "metadata");
        let messages: Vec<String> =
            metadata.map(|step| step["message"].as_str().unwrap().to_owned()).collect();
        (trace["outcome"].as_str().unwrap().to_owned(), messages.join("; "))
    };
    let (outcome, messages) = steps("/10.70000/PAPER?explain=json", "Accept: application/x-bibtex");
    assert_eq!(outcome, "resolves");
    assert!(messages.ends_with("`Accept` selects `application/x-bibtex`"), "{messages}");
    let (outcome, messages) = steps("/10.70000/PAPER?explain", "Accept: application/json");
    assert_eq!((&*outcome, &*messages), ("resolves", "available by content negotiation"));
    let (outcome, messages) = steps("/10.70000/PAPER?explain=json", "Accept: text/turtle");
    assert_eq!(outcome, "does-not-resolve");
    assert!(messages.ends_with("no format matches `Accept`"), "{messages}");
    assert_eq!(
        steps("/10.70000/PLAIN?explain=json", "Accept: text/turtle"),
        ("resolves".into(), String::new())
    );
}

fn metadata_endpoint(store: StoreKind) {
    let (server, parties) = serve(store);
    let check = |target: &str, accept: &str, status: u16, content_type: &str| {
        let response = server.request("GET", &format!("/api/v1/metadata/{target}"), accept);
        let actual = (response.status, response.header("content-type").unwrap().to_owned());
        assert_eq!(actual, (status, content_type.to_owned()), "{target} {accept}: {}", response.text());
        response.text().into_owned()
    };
    let (as_json, problem) = ("application/json;charset=utf-8", "application/problem+json");
    let metadata: Json = serde_json::from_str(&check("10.70000/PAPER", "", 200, as_json)).unwrap();
    let sent: Json = serde_json::from_str(&kernel_metadata("Self-organized criticality")).unwrap();
    assert_eq!(metadata["referentCreation"]["name"], sent["referentCreation"]["name"]);
    assert!(metadata.to_string().contains("10.70000/PAPER"), "{metadata}");
    check("10.70000%2Fpaper", BROWSER, 200, "application/xml;charset=utf-8");
    check("10.70000/PAPER", "Accept: */*", 200, as_json);
    check("10.70000/PAPER", "Accept: application/xml", 200, "application/xml;charset=utf-8");
    check("10.70000/PAPER", "Accept: application/x-bibtex", 200, "application/x-bibtex;charset=utf-8");
    check("10.70000/PAPER?format=bibtex", "", 200, "application/x-bibtex;charset=utf-8");
    check("10.70000/PAPER?format=other", "", 400, problem);
    check("10.70000/PAPER", "Accept: text/turtle", 406, problem);
    check("10.70000/GONE", "", 200, as_json);
    for target in ["10.70000/PLAIN", "10.70000/SECRET", "10.70000/NONE", "10.5555/ONE", "10.9999/x", "x"] {
        check(target, "", 404, problem);
        check(target, "Accept: text/turtle", 404, problem);
    }
    check("10.70000/%zz", "", 400, problem);
    server.runtime.block_on(parties.update(
        server.http.registry(),
        "10.70000/PAPER",
        &format!(r#"{{"metadata":{}}}"#, kernel_metadata("Another")),
    ));
    assert!(
        check("10.70000/PAPER?format=ris", "", 200, "application/x-research-info-systems;charset=utf-8")
            .contains("Another")
    );
}

/// Reserved names are hidden on every path, except from their registrant.
fn reserved_names_are_hidden(store: StoreKind) {
    let (server, parties) = serve(store);
    let operator = format!("Authorization: Bearer {TOKEN}");
    let secret = "10.70000/secret";
    let check_hidden = |response: &HttpResponse, request: &str| {
        let body = response.text().to_lowercase().replace(secret, "");
        assert!(!body.contains("secret") && !body.contains("unpublished title"), "{request}: {body}");
    };
    for (target, accept, status) in [
        ("/10.70000/SECRET", BROWSER, 404),
        ("/10.70000/SECRET", "Accept: application/x-bibtex", 404),
        ("/10.70000/SECRET?noredirect", BROWSER, 404),
        ("/10.70000/SECRET?explain=json", BROWSER, 200),
        ("/10.70000/SECRET?history", BROWSER, 404),
        ("/10.70000/SECRE", BROWSER, 404),
        ("/10.70000/SECRET.", BROWSER, 404),
        ("/api/handles/10.70000/SECRET", BROWSER, 404),
        ("/api/handles/10.70000/SECRET", &operator, 404),
        ("/doiRA/10.70000/SECRET", BROWSER, 200),
        ("/api/v1/history/10.70000/SECRET", BROWSER, 404),
        ("/api/v1/metadata/10.70000/SECRET", BROWSER, 404),
        ("/api/v1/changes", "Accept: application/x-ndjson", 200),
        ("/api/handles?prefix=10.70000", &operator, 200),
        ("/hrls/handles?URL=*", &operator, 200),
    ] {
        let response = server.request("GET", target, accept);
        assert_eq!(response.status, status, "{target}: {}", response.text());
        check_hidden(&response, target);
    }
    let suggestions =
        server.request("GET", "/10.70000/SECRE", "Accept: application/json").text().into_owned();
    assert!(!suggestions.contains("suggestions"), "{suggestions}");
    let agency = server.request("GET", "/doiRA/10.70000/SECRET", "").json();
    assert_eq!(agency[0]["status"], "DOI does not exist");
    assert_eq!(server.request("GET", "/api/handles/10.70000/SECRET", "").json()["responseCode"], 100);
    let listed = server.request("GET", "/api/handles?prefix=10.70000", &operator).json();
    assert_eq!(listed["handles"], json!(["10.70000/PAPER", "10.70000/PLAIN"]), "{listed}");
    assert_eq!(listed["totalCount"], json!("2"), "{listed}");
    // The operator sees the reserved name.
    let history = server.request("GET", "/api/v1/history/10.70000/SECRET", &operator).json();
    assert_eq!(history["items"][0]["after"]["state"], "reserved", "{history}");
    let changes = server.request("GET", "/api/v1/changes", &operator).text().into_owned();
    assert!(changes.contains("10.70000/SECRET"), "{changes}");
    // A reserved name that is removed leaves no trace.
    let registry = server.http.registry();
    server.runtime.block_on(parties.retire(registry, "10.70000/SECRET"));
    for target in ["/10.70000/SECRET", "/api/v1/history/10.70000/SECRET", "/10.70000/SECRET?history"] {
        assert_eq!(server.request("GET", target, "").status, 404, "{target}");
    }
    check_hidden(&server.request("GET", "/api/v1/changes", ""), "changes after its deletion");
}

/// Writes to a reserved name get the same errors as writes to a missing name. Not tested for changes of values, for which
/// Handle.Net requires no authentication if the name is missing.
fn writes_do_not_reveal_reserved_names(store: StoreKind) {
    let (server, _) = serve(store);
    let registry = server.http.registry();
    let other_identity = Caller::Handle(HandleIdentity::from_proof(300, "10.5555/ONE").unwrap());
    let value = || vec![url_value(1, "https://example.org/")];
    for caller in [&Caller::Anonymous, &other_identity] {
        let codes = |name: &str| {
            let name = Handle::from(name);
            let writes = [
                HandleWrite::Create {
                    name,
                    values: value(),
                    overwrite: false,
                    keep_secrets: false,
                    uuid_bytes: None,
                    force: false,
                },
                HandleWrite::Delete { name, permanent: false },
                HandleWrite::AddValues { name, values: value(), overwrite: true, force: false },
                HandleWrite::RemoveValues { name, indexes: vec![1], force: false },
            ];
            writes.map(|write| {
                let work = &mut Budget::new(10_000);
                let outcome = server
                    .runtime
                    .block_on(registry.write(&write, CallContext::new(caller, now().unix * 1_000, work)));
                let operation = HandleOperation::Write(write);
                let claim = ValueReference::parse("300:10.5555/ONE");
                let work = &mut Budget::new(10_000);
                let precheck = server.runtime.block_on(registry.precheck(&operation, &claim, work));
                (outcome.unwrap_err().response_code(), precheck.map_err(|error| error.response_code()))
            })
        };
        assert_eq!(codes("10.70000/SECRET"), codes("10.70000/NONE"), "{caller}");
    }
}

/// Once registered, a name is public; its reserved state stays hidden.
fn reserved_names_become_public(store: StoreKind) {
    let (server, parties) = serve(store);
    let registry = server.http.registry();
    server.runtime.block_on(parties.update(registry, "10.70000/SECRET", r#"{"state":"registered"}"#));
    assert_eq!(server.request("GET", "/10.70000/SECRET", BROWSER).status, 302);
    let history = server.request("GET", "/api/v1/history/10.70000/SECRET", "").json();
    let states: Vec<_> =
        history["items"].as_array().unwrap().iter().map(|item| &item["after"]["state"]).collect();
    assert_eq!(states, ["reserved", "registered"]);
    let before = &history["items"][1]["before"];
    assert_eq!(
        (&before["state"], &before["values"], before.get("metadata")),
        (&json!("reserved"), &json!([]), None)
    );
    assert!(history["items"][1]["after"]["metadata"].is_object(), "{history}");
    let operator = server
        .request("GET", "/api/v1/history/10.70000/SECRET", &format!("Authorization: Bearer {TOKEN}"))
        .json();
    assert!(operator["items"][1]["before"]["metadata"].is_object(), "{operator}");
    assert!(server.request("GET", "/api/v1/changes", "").text().contains("10.70000/SECRET"));
}

/// Reserved and retired names over the native protocol and in lists.
fn native_reads_and_writes(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let parties = block_on(PartyFixtures::create(&server.registry));
    for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
        for (name, code) in [
            ("10.70000/PAPER", 1),
            ("10.70000/SECRET", 100),
            ("10.70000/GONE", 100),
            ("10.70000/NONE", 100),
            ("0.TENDOT/agency/ALPHA", 301),
            ("0.tendot/agency/alpha", 301),
            (&format!("0.TENDOT/registrant/{}", parties.first), 301),
        ] {
            assert_eq!(server.code(transport, &resolution(name)), code, "{name}");
        }
    }
    let work = || Budget::new(100_000);
    let operator = &Caller::Operator;
    let list = |prefix: &'static str| {
        let (mut names, mut after) = (Vec::new(), None::<Box<str>>);
        loop {
            let (prefix, work) = (Handle::from(prefix), &mut work());
            let page = server.registry.list_handles(prefix, after.as_deref(), 1, operator, work);
            let page = block_on(page)?;
            names.extend(page.items.into_iter().map(String::from));
            after = page.next;
            if after.is_none() {
                return Ok::<_, Error>(names);
            }
        }
    };
    assert_eq!(list("0.NA/10.70000").unwrap(), ["10.70000/PAPER", "10.70000/PLAIN"]);
    assert!(list("0.TENDOT").is_err());
    let count_work = &mut work();
    let count = server.registry.count_handles(Handle::from("10.70000"), None, 100, operator, count_work);
    assert_eq!(block_on(count).unwrap().names, 2);
    let mut search = ReverseLookup::default();
    search.add_pattern("URL", "*10.70000*");
    let search_work = &mut work();
    let found = server.registry.reverse_lookup(&search, None, operator, search_work);
    let found = block_on(found).unwrap();
    let found: Vec<&str> = found.items.iter().map(|record| &*record.name).collect();
    assert_eq!(found, ["10.70000/PAPER", "10.70000/PLAIN"]);
}

/// A registered name becomes a tombstone whichever API deletes it, and is never registered again.
fn retired_names(store: StoreKind) {
    let (server, _) = serve(store);
    let operator = format!("Authorization: Bearer {TOKEN}\nContent-Type: application/json");
    let deleted = server.request("DELETE", "/api/handles/10.70000/PLAIN", &operator);
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let delete = HandleWrite::Delete { name: Handle::from("10.70000/PAPER"), permanent: false };
    write(&server, &delete).unwrap();
    for (name, title) in [("GONE", Some("What was")), ("PLAIN", None), ("PAPER", Some("Self-organized"))] {
        let page = server.request("GET", &format!("/10.70000/{name}"), BROWSER);
        assert_eq!(page.status, 410, "{name}");
        let page = page.text();
        for text in ["This name is retired", "will not be reused", "First Press", "Retired", "?history"] {
            assert!(page.contains(text), "{name}: {text} is missing: {page}");
        }
        assert!(title.is_none_or(|title| page.contains(title)), "{name}: {page}");
        let problem = server.request("GET", &format!("/10.70000/{name}"), "Accept: application/json");
        assert_eq!((problem.status, problem.header("content-type")), (410, Some("application/problem+json")));
        let problem = problem.json();
        assert_eq!(problem["registrant"]["name"], "First Press", "{problem}");
        assert!(problem["retired"].is_string() && problem["history"].is_string(), "{problem}");
        let handle = server.request("GET", &format!("/api/handles/10.70000/{name}"), "");
        let (status, handle) = (handle.status, handle.json());
        assert_eq!((status, &handle["responseCode"]), (404, &json!(100)), "{handle}");
        assert!(handle["message"].as_str().unwrap().contains("retired"), "{handle}");
        let full_name = format!("10.70000/{name}");
        let create = HandleWrite::Create {
            name: Handle::from(&*full_name),
            values: Vec::new(),
            overwrite: true,
            keep_secrets: false,
            uuid_bytes: None,
            force: false,
        };
        assert_eq!(write(&server, &create).unwrap_err().response_code().0, 101, "{name}");
    }
    // For the Handle protocol, a reserved name does not exist.
    let delete = HandleWrite::Delete { name: Handle::from("10.70000/SECRET"), permanent: false };
    assert_eq!(write(&server, &delete).unwrap_err().response_code().0, 100);
    assert_eq!(server.request("GET", "/10.70000/SECRET", BROWSER).status, 404);
}

/// The prefix of the registry's own records is hidden: nothing under it is shown, created or counted.
fn registry_prefix_is_hidden(store: StoreKind) {
    let (server, parties) = serve(store);
    let operator = format!("Authorization: Bearer {TOKEN}\nContent-Type: application/json");
    let registrant = format!("0.TENDOT/registrant/{}", parties.first);
    for name in ["0.TENDOT/agency/ALPHA", "0.tendot/agency/alpha", &registrant] {
        for (target, accept) in [
            (format!("/{name}"), BROWSER),
            (format!("/{name}?noredirect"), BROWSER),
            (format!("/{name}?history"), BROWSER),
            (format!("/{name}."), BROWSER),
            (format!("/api/handles/{name}"), &*operator),
            (format!("/api/v1/history/{name}"), &*operator),
        ] {
            let response = server.request("GET", &target, accept);
            let status = if target.starts_with("/api/handles/") { 400 } else { 404 };
            assert_eq!(response.status, status, "{target}: {}", response.text());
            assert!(!response.text().contains("Alpha Agency") && !response.text().contains("First Press"));
            assert!(!response.text().contains("Was it one of these"), "{target}");
        }
        let response = server.request("GET", &format!("/api/v1/metadata/{name}"), "");
        assert_eq!(response.status, 404, "{name}");
        for method in ["PUT", "DELETE"] {
            let request = HttpRequest::new(method, &format!("/api/handles/{name}"));
            let request = request.headers(operator.lines()).body(r#"{"values":[]}"#);
            let response = request.send(server.address);
            assert_eq!(response.status, 400, "{method} {name}: {}", response.text());
            assert_eq!(response.json()["responseCode"], 301, "{method} {name}: {}", response.text());
        }
    }
    for prefix in ["0.TENDOT", "0.NA/0.TENDOT", "0.NA/0.NA/0.tendot"] {
        let home = HandleWrite::Home { prefix: Handle::from(prefix) };
        assert_eq!(write(&server, &home).unwrap_err().response_code().0, 102, "{prefix}");
    }
    assert_eq!(server.request("GET", "/api/handles?prefix=0.TENDOT", &operator).status, 400);
    // Five names, including the reserved one, and the record of the prefix; PostgreSQL does not report a count.
    let home = server.request("GET", "/", BROWSER).text().into_owned();
    let has_count = server.runtime.block_on(server.store.name_count()).unwrap().is_some();
    assert_eq!(home.contains("<dd>6</dd>"), has_count, "{home}");
}

/// Histories show state, registrant and metadata before and after, and transfers of the prefix, page by page.
fn histories(store: StoreKind) {
    let (server, parties) = serve(store);
    let registry = server.http.registry();
    let (first, second) = (&*parties.first, &*parties.second);
    server.runtime.block_on(async {
        let prefix = || TransferSubject::Prefix("10.70000".into());
        parties.transfer(registry, prefix(), second).await;
        parties
            .update(
                registry,
                "10.70000/PAPER",
                &format!(r#"{{"metadata":{}}}"#, kernel_metadata("Second title")),
            )
            .await;
        parties.register(registry, "10.70000/LATE", None, "registered").await;
        parties.transfer(registry, prefix(), first).await;
        parties.transfer(registry, TransferSubject::Names(vec!["10.70000/PAPER".into()]), second).await;
        parties.transfer(registry, prefix(), second).await;
        parties.transfer(registry, TransferSubject::Agency("BETA".into()), "ALPHA").await;
        parties.retire(registry, "10.70000/PAPER").await;
    });
    let summary = |item: &Json| match item["kind"].as_str().unwrap() {
        "transfer" => format!("{} > {}", item["from"]["registrant"], item["to"]["registrant"]),
        kind => {
            let state = |state: &Json| match state {
                Json::Null => "-".to_owned(),
                state => format!(
                    "{} {} {}",
                    state["state"].as_str().unwrap(),
                    state["registrant"].as_str().unwrap(),
                    state["metadata"]["referentCreation"]["name"][0]["value"]
                ),
            };
            format!("{kind} {} > {}", state(&item["before"]), state(&item["after"]))
        }
    };
    let read_history = |name: &str, limit: usize| {
        let (mut after, mut items) = (0, Vec::new());
        loop {
            let target = format!("/api/v1/history/{name}?limit={limit}&after={after}");
            let history = server.request("GET", &target, "").json();
            let page = history["items"].as_array().unwrap();
            assert!(page.len() <= limit, "{history}");
            items.extend(page.iter().map(|item| {
                assert_eq!(item["by"], "operator", "{item}");
                summary(item).replace(first, "1").replace(second, "2").replace('"', "")
            }));
            let Some(next) = history["next"].as_u64() else { return items };
            assert!(next > after, "{history}");
            after = next;
        }
    };
    // The last two transfers of the prefix do not concern a name that was transferred by itself.
    let paper = [
        "create - > registered 1 Self-organized criticality",
        "1 > 2",
        "update registered 2 Self-organized criticality > registered 2 Second title",
        "2 > 1",
        "update registered 1 Second title > registered 2 Second title",
        "tombstone registered 2 Second title > tombstone 2 Second title",
    ];
    let late = ["create - > registered 2 null", "2 > 1", "1 > 2", "2 > 2"];
    for limit in [1, 2, 3, 4, 100] {
        assert_eq!(read_history("10.70000/paper", limit), paper, "by {limit}");
        assert_eq!(read_history("10.70000/LATE", limit), late, "by {limit}");
    }
    let history = server.request("GET", "/api/v1/history/10.70000/LATE", "").json();
    let last = history["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["from"]["agency"], &last["to"]["agency"]), (&json!("BETA"), &json!("ALPHA")));
    // The page lists the newest entry first.
    let page = server.request("GET", "/10.70000/PAPER?history", BROWSER).text().into_owned();
    for text in
        ["Transferred with its prefix", "<del><bdi>Self-organized criticality</bdi></del>", "Second title"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(page.matches("Transferred with its prefix").count(), 2, "{page}");
}

/// The page of a record shows its registrant and its metadata.
fn record_pages(store: StoreKind) {
    let (server, parties) = serve(store);
    let page = server.request("GET", "/10.70000/paper?noredirect", BROWSER).text().into_owned();
    for text in [
        "<h2 id=\"registration\">Registered</h2>",
        "Self-organized criticality",
        "Bak, Per; Tang, Chao",
        "Article",
        "<bdi>First Press</bdi>",
        "<bdi>Alpha Agency</bdi>",
        "2023-11-19",
        "/api/v1/metadata/10.70000/PAPER?format=bibtex",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains(&*parties.first) && !page.contains("HS_ADMIN"), "{page}");
    let page = server.request("GET", "/10.70000/PLAIN?noredirect", BROWSER).text().into_owned();
    assert!(page.contains("First Press") && !page.contains("/api/v1/metadata"), "{page}");
    assert!(!server.request("GET", "/10.5555/ONE?noredirect", BROWSER).text().contains("registration"));
}

/// The feed leaves out hidden changes and continues after them.
fn change_feed_skips_hidden_entries(store: StoreKind) {
    let (server, _) = serve(store);
    let registry = server.http.registry();
    let read = |limit: usize| {
        let (mut names, mut next) = (Vec::new(), ChangeCursor::default());
        loop {
            let work = &mut Budget::new(100_000);
            let changes = registry.list_changes(&next, limit, CallContext::new(&Caller::Anonymous, 0, work));
            let changes = server.runtime.block_on(changes).unwrap();
            names.extend(changes.items.into_iter().map(|item| String::from(item.name)));
            next = changes.next;
            if changes.is_end {
                return names;
            }
        }
    };
    let all_names = read(100);
    assert!(
        all_names.iter().any(|name| name == "10.70000/GONE")
            && !all_names.iter().any(|name| name.contains("SECRET"))
    );
    for limit in [1, 2, 3] {
        assert_eq!(read(limit), all_names, "by {limit}");
    }
}

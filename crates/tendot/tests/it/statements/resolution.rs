//! Statements about resolution, over HTTP and the native protocol; one server per document.

use serde_json::{Value as Json, json};
use tendot_testing::http::HttpResponse;

use crate::support::{StoreKind, TestDir, TestServer, tests_per_store, text_output};

tests_per_store!(draft_of_2024, draft_of_2002, urn_registration, z3984, draft_of_2003);

/// Figure 1 of the 2024 draft.
const FIGURE_1: &str = r#"{"responseCode":1,"handle":"10.1000/182","values":[
    {"index":1,"type":"URL","data":{"format":"string","value":"http://www.doi.org/hb.html"},"ttl":86400,
     "timestamp":"2004-01-21T14:14:17Z"},
    {"index":100,"type":"HS_ADMIN","data":{"format":"admin","value":{"handle":"0.na/10.1000","index":200,
     "permissions":"011111110010","legacyByteLength":true}},"ttl":86400,"timestamp":"2000-06-23T15:17:46Z"}]}"#;

/// Names of the documents, with the last part of their URLs.
const NAMES: [(&str, &str); 14] = [
    ("10.1103/PhysRevLett.59.381", "bak"),
    ("10.26321/\u{c1}.x", "composed"),
    ("10.26321/A\u{301}.x", "decomposed"),
    ("alpha-beta/182.342-24", "a"),
    ("10.abc/ab/cd/ef", "b"),
    ("1.23/2002/january/21/4690", "c"),
    ("alpha-beta/msws", "e"),
    ("10.1000/456#789", "456"),
    ("10.1000/100%", "percent"),
    ("10.5240/7791-8534-2C23-9030-8610-5", "eidr"),
    ("20.500.12345/x", "20"),
    ("10.123/ABC", "abc"),
    ("10.1006/rwei.1999\".0001", "quote"),
    ("dk/P\u{e6}dagogi 37(2), 562", "dk"),
];

/// A server with the names of the documents.
struct Resolver {
    dir: TestDir,
    server: TestServer,
}

impl Resolver {
    fn start(store: StoreKind) -> Self {
        let mut figure: Json = serde_json::from_str(FIGURE_1).unwrap();
        let mut records = vec![json!({"handle": "10.1000/182", "values": figure["values"].take()})];
        records.extend(NAMES.map(|(name, path)| {
            json!({"handle": name, "values": [
                {"index": 1, "type": "URL", "data": format!("https://example.org/{path}")},
                {"index": 2, "type": "EMAIL", "data": "doi@example.org"}]})
        }));
        let hidden =
            json!({"index": 1, "type": "URL", "data": "https://example.org/", "permissions": "1100"});
        records.push(json!({"handle": "10.1000/hidden", "values": [hidden]}));
        let lines: Vec<String> = records.iter().map(Json::to_string).collect();
        let (dir, variables) = (TestDir::new(), store.env());
        let file = dir.write("records.jsonl", lines.join("\n"));
        let imported = text_output(dir.tendot(&["import", &file]).envs(variables.clone()));
        assert_eq!(imported.0, Some(0), "{}", imported.2);
        let server = TestServer::builder(&dir).with_native().envs(variables).start();
        Self { dir, server }
    }

    fn get(&self, target: &str) -> HttpResponse {
        self.server.get(target)
    }

    /// Checks that a path redirects to this page of example.org.
    #[track_caller]
    fn check_redirect(&self, target: &str, path: &str) {
        let response = self.get(target);
        let expected = format!("https://example.org/{path}");
        assert_eq!((response.status, response.header("location")), (302, Some(&*expected)), "{target}");
    }

    /// Record of a name over HTTP: status and JSON.
    fn record(&self, encoded: &str) -> (u16, Json) {
        let response = self.get(&format!("/api/handles/{encoded}"));
        (response.status, response.json())
    }

    /// Record of a name by the command, over HTTP and natively.
    #[track_caller]
    fn check_command(&self, name: &str, data: &str) {
        let native = format!("hdl://{}", self.server.native_address());
        for server in [self.server.url(), native] {
            let stdout = self.dir.run_ok(&["resolve", "--server", &server, "--", name]);
            assert!(stdout.contains(data), "{name} at {server}: {stdout}");
        }
    }
}

fn draft_of_2024(store: StoreKind) {
    let resolver = Resolver::start(store);
    statement_002_name_stays_elements_change(&resolver);
    statement_007_uri_yields_the_record(&resolver);
    statement_019_composed_and_decomposed_resolve(&resolver);
    statement_025_get_with_the_scheme_specific_part(&resolver);
    statement_027_body_is_a_json_object(&resolver);
    statement_028_response_code_1(&resolver);
    statement_031_response_code_100(&resolver);
    statement_032_names_of_other_prefixes(&resolver);
    statement_034_response_code_200(&resolver);
    statement_035_handle_is_the_requested_name(&resolver);
    statement_038_record_of_figure_1(&resolver);
    statement_039_names_are_opaque(&resolver);
}

fn statement_002_name_stays_elements_change(resolver: &Resolver) {
    for path in ["first", "second"] {
        let put = resolver.server.put_handle("10.1000/changing", &format!("https://example.org/{path}"));
        assert!(matches!(put.send(resolver.server.address()).status, 200 | 201));
        resolver.check_redirect("/10.1000/changing", path);
        resolver.check_command("10.1000/changing", path);
    }
}

fn statement_007_uri_yields_the_record(resolver: &Resolver) {
    resolver.check_command("doi:10.1103/PhysRevLett.59.381", "1 URL https://example.org/bak");
    resolver.check_redirect("/doi:10.1103/PhysRevLett.59.381", "bak");
}

fn statement_019_composed_and_decomposed_resolve(resolver: &Resolver) {
    resolver.check_redirect("/10.26321/%C3%81.x", "composed");
    resolver.check_redirect("/10.26321/A%CC%81.x", "decomposed");
    resolver.check_command("10.26321/\u{c1}.x", "/composed");
    resolver.check_command("10.26321/A\u{301}.x", "/decomposed");
}

fn statement_025_get_with_the_scheme_specific_part(resolver: &Resolver) {
    for (name, path) in NAMES {
        let (_, uri, _) = resolver.dir.run(&["name", "--rules", "minimal2002", "--as", "uri", "--", name]);
        let (status, record) = resolver.record(uri.trim_end().strip_prefix("doi:").unwrap());
        assert_eq!((status, record["handle"].as_str()), (200, Some(name)));
        assert_eq!(record["values"][0]["data"]["value"], format!("https://example.org/{path}"));
    }
}

fn statement_027_body_is_a_json_object(resolver: &Resolver) {
    for name in ["10.1000/182", "10.1000/none", "10.1000/hidden"] {
        let response = resolver.get(&format!("/api/handles/{name}"));
        assert!(response.header("content-type").unwrap().starts_with("application/json"), "{name}");
        assert!(response.json().is_object(), "{name}");
    }
}

fn statement_028_response_code_1(resolver: &Resolver) {
    let (status, record) = resolver.record("10.1000/182");
    assert_eq!((status, &record["responseCode"]), (200, &json!(1)));
}

fn statement_031_response_code_100(resolver: &Resolver) {
    let (status, record) = resolver.record("10.1000/none");
    assert_eq!((status, &record["responseCode"]), (404, &json!(100)));
}

/// A departure: the deployed software has code 301 for prefixes of other servers.
fn statement_032_names_of_other_prefixes(resolver: &Resolver) {
    for name in ["10.9999/x", "no-name"] {
        let (status, record) = resolver.record(name);
        assert_eq!((status, &record["responseCode"]), (400, &json!(301)), "{name}");
    }
}

fn statement_034_response_code_200(resolver: &Resolver) {
    let (status, record) = resolver.record("10.1000/hidden");
    assert_eq!((status, &record["responseCode"]), (200, &json!(200)));
}

fn statement_035_handle_is_the_requested_name(resolver: &Resolver) {
    for name in ["10.123/ABC", "10.123/abc", "10.123/AbC"] {
        assert_eq!(resolver.record(name).1["handle"], name);
    }
}

fn statement_038_record_of_figure_1(resolver: &Resolver) {
    let expected: Json = serde_json::from_str(FIGURE_1).unwrap();
    assert_eq!(resolver.record("10.1000/182"), (200, expected));
}

fn statement_039_names_are_opaque(resolver: &Resolver) {
    // Neither the part before a slash or dot nor a longer text is the same name.
    for name in ["10.1000/182/", "10.1000/182/page", "10.1000/182.1", "10.1000/18", "10.1000/0182"] {
        assert_eq!(resolver.record(name).0, 404, "{name}");
    }
}

fn draft_of_2002(store: StoreKind) {
    let resolver = Resolver::start(store);
    statement_043_dereferenced_by_handle_system_or_http(&resolver);
    statement_044_query_components_of_the_service(&resolver);
    statement_065_examples_resolve(&resolver);
    statement_066_examples_by_command(&resolver);
    statement_068_openurl_request(&resolver);
}

fn statement_043_dereferenced_by_handle_system_or_http(resolver: &Resolver) {
    resolver.check_command("doi:10.1000/182", "1 URL http://www.doi.org/hb.html");
    assert_eq!(resolver.get("/doi:10.1000/182").header("location"), Some("http://www.doi.org/hb.html"));
}

fn statement_044_query_components_of_the_service(resolver: &Resolver) {
    assert_eq!(resolver.get("/doi:10.1000/182?noredirect").status, 200);
    let record = resolver.get("/api/handles/10.1000/182?type=URL").json();
    assert_eq!(record["values"].as_array().unwrap().len(), 1, "{record}");
}

fn statement_065_examples_resolve(resolver: &Resolver) {
    resolver.check_redirect("/doi:alpha-beta/182.342-24", "a");
    resolver.check_redirect("/doi:10.abc/ab/cd/ef", "b");
    resolver.check_redirect("/doi:1.23/2002/january/21/4690", "c");
}

fn statement_066_examples_by_command(resolver: &Resolver) {
    resolver.check_command("doi:alpha-beta/182.342-24", "https://example.org/a");
    resolver.check_command("doi:10.abc/ab/cd/ef", "https://example.org/b");
    resolver.check_command("doi:1.23/2002/january/21/4690", "https://example.org/c");
}

fn statement_068_openurl_request(resolver: &Resolver) {
    resolver.check_redirect("/resolve?id=doi%3Aalpha-beta%2Fmsws", "e");
}

fn urn_registration(store: StoreKind) {
    let resolver = Resolver::start(store);
    statement_075_names_are_handles(&resolver);
    statement_076_proxy_with_a_query_parameter(&resolver);
    statement_090_other_directory_indicators_resolve(&resolver);
    statement_117_as_doi_and_as_handle(&resolver);
    statement_118_eidr_and_doi(&resolver);
    statement_119_to_121_urns_resolve(&resolver);
    statement_122_url_in_the_record(&resolver);
    statement_123_query_parameters(&resolver);
    statement_124_specific_values(&resolver);
}

fn statement_075_names_are_handles(resolver: &Resolver) {
    let native = format!("hdl://{}", resolver.server.native_address());
    for transport in ["--udp", "--tcp"] {
        let stdout = resolver.dir.run_ok(&["resolve", "--server", &native, transport, "10.1000/456#789"]);
        assert!(stdout.contains("https://example.org/456"), "{stdout}");
    }
}

fn statement_076_proxy_with_a_query_parameter(resolver: &Resolver) {
    resolver.check_redirect("/10.1000/456%23789", "456");
    let page = resolver.get("/10.1000/456%23789?noredirect");
    assert!(page.status == 200 && page.text().contains("10.1000/456#789"));
}

fn statement_090_other_directory_indicators_resolve(resolver: &Resolver) {
    resolver.check_redirect("/20.500.12345/x", "20");
    resolver.check_redirect("/urn:doi:20.500.12345/x", "20");
    resolver.check_redirect("/urn:doi:alpha-beta/msws", "e");
}

fn statement_117_as_doi_and_as_handle(resolver: &Resolver) {
    for form in ["/10.123/ABC", "/doi:10.123/ABC", "/hdl:10.123/ABC", "/info:doi/10.123/ABC"] {
        resolver.check_redirect(form, "abc");
    }
}

fn statement_118_eidr_and_doi(resolver: &Resolver) {
    resolver.check_redirect("/urn:eidr:10.5240:7791-8534-2C23-9030-8610-5", "eidr");
    resolver.check_redirect("/urn:doi:10.5240/7791-8534-2C23-9030-8610-5", "eidr");
}

fn statement_119_to_121_urns_resolve(resolver: &Resolver) {
    resolver.check_command("urn:doi:10.1000/456%23789", "1 URL https://example.org/456");
    resolver.check_redirect("/urn:doi:10.1000/456%23789", "456");
    resolver.check_redirect("/10.1000/456%23789", "456");
    let page = resolver.get("/urn:doi:10.1000/456%23789?noredirect");
    assert!(page.status == 200 && page.text().contains("doi@example.org"));
}

fn statement_122_url_in_the_record(resolver: &Resolver) {
    resolver.check_redirect("/10.1103/PhysRevLett.59.381", "bak");
}

fn statement_123_query_parameters(resolver: &Resolver) {
    assert_eq!(resolver.get("/10.1103/PhysRevLett.59.381?noredirect").status, 200);
    resolver.check_redirect("/10.1103/PhysRevLett.59.381?auth", "bak");
    assert_eq!(resolver.get("/api/handles/10.1103/PhysRevLett.59.381?auth").status, 200);
}

fn statement_124_specific_values(resolver: &Resolver) {
    for query in ["type=EMAIL", "index=2"] {
        let record = resolver.get(&format!("/api/handles/10.1103/PhysRevLett.59.381?{query}")).json();
        let values = record["values"].as_array().unwrap();
        assert_eq!((values.len(), &values[0]["data"]["value"]), (1, &json!("doi@example.org")), "{query}");
    }
}

fn z3984(store: StoreKind) {
    let resolver = Resolver::start(store);
    statement_137_any_case_resolves(&resolver);
    statement_164_encoded_link_resolves(&resolver);
    statement_166_whole_string_is_sent(&resolver);
    statement_172_percent_sign_in_a_url(&resolver);
    statement_173_characters_represent_themselves(&resolver);
}

fn statement_137_any_case_resolves(resolver: &Resolver) {
    for name in ["10.123/ABC", "10.123/abc", "10.123/aBc"] {
        resolver.check_redirect(&format!("/{name}"), "abc");
        resolver.check_command(name, "https://example.org/abc");
    }
}

fn statement_164_encoded_link_resolves(resolver: &Resolver) {
    resolver.check_redirect("/10.1006/rwei.1999%22.0001", "quote");
}

fn statement_166_whole_string_is_sent(resolver: &Resolver) {
    resolver.check_redirect("/10.1000/456%23789", "456");
}

fn statement_172_percent_sign_in_a_url(resolver: &Resolver) {
    resolver.check_redirect("/10.1000/100%25", "percent");
}

fn statement_173_characters_represent_themselves(resolver: &Resolver) {
    for (encoded, name) in [("10.1000/456%23789", "10.1000/456#789"), ("10.1000/100%25", "10.1000/100%")] {
        assert_eq!(resolver.record(encoded).1["handle"], name);
    }
    assert_eq!(resolver.record("10.1000/456%2523789").0, 404, "decoded once");
}

fn draft_of_2003(store: StoreKind) {
    let resolver = Resolver::start(store);
    statement_179_services_of_a_name(&resolver);
    statement_191_every_form_resolves(&resolver);
    statement_192_forms_by_command(&resolver);
}

/// The record has the values, the page links them, and the record says which formats and services there are.
fn statement_179_services_of_a_name(resolver: &Resolver) {
    let page = resolver.get("/10.1103/PhysRevLett.59.381?noredirect");
    assert!(page.text().contains("https://example.org/bak") && page.text().contains("doi@example.org"));
    resolver.check_command("doi:10.1103/PhysRevLett.59.381", "2 EMAIL doi@example.org");
}

/// The five forms and the canonical one.
const FORMS: [&str; 6] = [
    "DOI:dk/P%C3%A6dagogi%2037(2),%20562",
    "doi:DK/P%C3%A6dagogi%2037(2),%20562",
    "doi:dk/P%c3%a6dagogi%2037(2),%20562",
    "doi:dk/p%c3%a6dagogi%2037(2),%20562",
    "doi:dk%2FP%C3%A6dagogi%2037%282%29%2C%20562",
    "doi:DK/P%C3%A6DAGOGI%2037(2),%20562",
];

fn statement_192_forms_by_command(resolver: &Resolver) {
    for form in FORMS {
        resolver.check_command(form, "https://example.org/dk");
    }
}

fn statement_191_every_form_resolves(resolver: &Resolver) {
    for form in FORMS {
        resolver.check_redirect(&format!("/{form}"), "dk");
    }
}

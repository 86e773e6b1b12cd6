//! Kernel metadata is extensible: elements of other namespaces are stored, returned in every kernel format, and shown.

use serde_json::{Value as Json, json};

use crate::support::api_client::ApiClient;
use crate::support::fixtures::kernel_metadata;
use crate::support::http_server::TOKEN;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    statement_115_elements_of_other_namespaces_are_kept,
    statement_115_extensions_in_json_are_kept,
    extensions_are_bounded,
    extensions_in_batches,
);

fn start(store: StoreKind) -> ApiClient {
    let client = ApiClient::start(store.open());
    client.create("/agencies", &json!({"code": "LIB", "name": "The library", "metadata": "optional"}));
    let registrant = client.create("/registrants", &json!({"agency": "LIB", "name": "Press"}))["id"].clone();
    client.create("/prefixes", &json!({"registrant": registrant, "prefix": "10.70000"}));
    client
}

fn metadata(client: &ApiClient, name: &str, format: &str) -> String {
    let response = client.send("GET", &format!("/api/v1/metadata/{name}?format={format}"), "", &[], b"");
    assert_eq!(response.status, 200, "{}", response.text());
    // Browsers must not run scripts of an extension.
    let policy = response.header("content-security-policy").unwrap_or_default();
    assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
    response.text().into_owned()
}

const FUNDING: &str =
    "<f:funding xmlns:f=\"https://example.org/fund\" call=\"7\"><f:body>Example Fund</f:body></f:funding>";

fn statement_115_elements_of_other_namespaces_are_kept(store: StoreKind) {
    let client = start(store);
    let xml = format!(
        "<kernelMetadata xmlns=\"http://www.doi.org/2010/DOISchema\"><primaryReferentType>Creation</primaryReferentType>\
         <referentCreation><name><value>Extended</value><type>Title</type></name><structuralType>Digital</structuralType>\
         <mode>Visual</mode><character>Language</character><type>Article</type><principalAgent><name><value>Bak, Per</value>\
         <type>Name</type></name></principalAgent><n:note xmlns:n=\"urn:x:note\">read me</n:note></referentCreation>{FUNDING}\
         </kernelMetadata>"
    );
    let body = json!({"name": "10.70000/x", "url": "https://example.org/x", "metadata": xml});
    client.create("/dois", &body);
    let written = metadata(&client, "10.70000/x", "kernel-xml");
    for expected in [
        "=\"https://example.org/fund\"",
        ":funding call=\"7\">",
        ":body>Example Fund</",
        "=\"urn:x:note\"",
        ":note>read me</",
    ] {
        assert!(written.contains(expected), "{expected}: {written}");
    }
    let (note, end) = (written.find(":note>").unwrap(), written.find("</referentCreation>").unwrap());
    assert!(note < end && end < written.find(":funding").unwrap(), "{written}");
    let funding = json!([{"namespace": "https://example.org/fund", "name": "funding", "attributes": {"call": "7"},
        "content": [{"name": "body", "content": "Example Fund"}]}]);
    let note = json!([{"namespace": "urn:x:note", "name": "note", "content": "read me"}]);
    let kernel: Json = serde_json::from_str(&metadata(&client, "10.70000/x", "kernel-json")).unwrap();
    assert_eq!((&kernel["extensions"], &kernel["referentCreation"]["extensions"]), (&funding, &note));
    let system: Json = serde_json::from_str(&metadata(&client, "10.70000/x", "system-json")).unwrap();
    assert_eq!(system["extensions"], json!([funding[0], note[0]]));
    // What the registry returns can be sent back.
    let update = client.json("PUT", "/dois/10.70000/x", TOKEN, &[], &json!({"metadata": written}));
    assert_eq!(update.status, 200, "{}", update.json);
    let again: Json = serde_json::from_str(&metadata(&client, "10.70000/x", "kernel-json")).unwrap();
    assert_eq!(
        (&again["extensions"], &again["referentCreation"]),
        (&kernel["extensions"], &kernel["referentCreation"])
    );
    let page = client.send("GET", "/10.70000/x?noredirect", "", &["Accept: text/html"], b"");
    let page = page.text();
    assert!(page.contains("funding: Example Fund (https://example.org/fund)"), "{page}");
    assert!(page.contains("note: read me (urn:x:note)"), "{page}");
}

fn kernel_with(extensions: &Json) -> Json {
    let mut kernel: Json = serde_json::from_str(&kernel_metadata("Extended")).unwrap();
    kernel["extensions"] = extensions.clone();
    kernel
}

fn statement_115_extensions_in_json_are_kept(store: StoreKind) {
    let client = start(store);
    let extensions =
        json!([{"namespace": "https://example.org/fund", "name": "grant", "content": "EU <7> & more"}]);
    let created = client.create(
        "/dois",
        &json!({"name": "10.70000/j", "url": "https://example.org/j", "metadata": kernel_with(&extensions)}),
    );
    assert_eq!(created["metadata"]["extensions"], extensions);
    let shown = client.json("GET", "/dois/10.70000/j", TOKEN, &[], &json!(null)).json;
    assert_eq!(shown["metadata"]["extensions"], extensions);
    let xml = metadata(&client, "10.70000/j", "kernel-xml");
    assert!(
        xml.contains("=\"https://example.org/fund\"") && xml.contains(">EU &lt;7&gt; &amp; more</"),
        "{xml}"
    );
    // Other formats have no place for them.
    assert!(!metadata(&client, "10.70000/j", "csl-json").contains("grant"));
}

fn extensions_are_bounded(store: StoreKind) {
    let client = start(store);
    let register = |extensions: Json| {
        let body = json!({"name": "10.70000/b", "url": "https://example.org/b", "metadata": kernel_with(&extensions)});
        client.json("POST", "/dois", TOKEN, &[], &body)
    };
    let element = |content: Json| json!({"namespace": "urn:x", "name": "a", "content": content});
    let deep = (0..9).fold(json!("x"), |content, _| json!([{"name": "b", "content": content}]));
    for (extensions, message) in [
        (json!([element(json!("x".repeat(70_000)))]), "bytes of extensions (maximum 65536)"),
        (json!(vec![element(json!("")); 101]), "101 items (maximum 100)"),
        (json!([element(deep)]), "nested deeper than 8 elements"),
        (json!([{"name": "a"}]), "missing `namespace`"),
        (json!([{"namespace": "http://www.w3.org/2001/XInclude", "name": "include"}]), "XInclude"),
        (json!({"grant": "EU"}), "expected an array"),
    ] {
        let refused = register(extensions);
        let faults = refused.json.to_string();
        assert!(
            refused.status == 422 && faults.contains("invalid-metadata") && faults.contains(message),
            "{message}: {faults}"
        );
    }
}

fn extensions_in_batches(store: StoreKind) {
    let client = start(store);
    let extensions = json!([{"namespace": "urn:x", "name": "a", "content": "batch"}]);
    let line =
        json!({"name": "10.70000/l", "url": "https://example.org/l", "metadata": kernel_with(&extensions)});
    let headers = ["Content-Type: application/x-ndjson"];
    let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, line.to_string().as_bytes());
    assert!(response.text().contains("created"), "{}", response.text());
    assert!(metadata(&client, "10.70000/l", "kernel-json").contains("batch"));
}

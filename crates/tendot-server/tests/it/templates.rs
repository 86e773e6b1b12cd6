//! Templates of a prefix: refused when they are written if they cannot be evaluated; `?explain` names the base of a derived record.

use serde_json::json;

use crate::support::api_client::ApiClient;
use crate::support::http_server::TOKEN;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(broken_template_is_refused, templates_share_the_budget_of_a_request, explain_names_the_template);

const TEMPLATE: &str = "<namespace><template delimiter='@'><foreach><if value='type' expression='URL'>\
                        <value data='${data}?${extension}'/></if></foreach></template></namespace>";

/// Writes the namespace of 10.5555 over HTTP; returns the status and the body.
fn put_namespace(client: &ApiClient, xml: &str) -> (u16, String) {
    let body = json!([{"index": 1, "type": "HS_NAMESPACE", "data": xml}]).to_string();
    let response =
        client.send("PUT", "/api/handles/0.NA/10.5555?overwrite=true", TOKEN, &[], body.as_bytes());
    (response.status, response.text().into_owned())
}

fn start(store: StoreKind) -> ApiClient {
    let client = ApiClient::start(store.open());
    for prefix in ["10.5555", "0.NA"] {
        let path = format!("/api/prefixes/{prefix}");
        assert_eq!(client.send("POST", &path, TOKEN, &[], b"").status, 200);
    }
    let map = json!([{"index": 1, "type": "URL", "data": "https://example.org/map"}]).to_string();
    assert_eq!(client.send("PUT", "/api/handles/10.5555/map", TOKEN, &[], map.as_bytes()).status, 201);
    client
}

/// Expressions are compiled before the caller is authorized: many small templates must not cost more than one.
fn templates_share_the_budget_of_a_request(store: StoreKind) {
    let client = start(store);
    let put = |count: u32| {
        let value = |index: u32| {
            let test =
                |number| format!("<if value='extension' test='matches' expression='{index}-{number}'/>");
            let tests: String = (0..5).map(test).collect();
            let xml = format!("<namespace><template delimiter='@'>{tests}</template></namespace>");
            json!({"index": index, "type": "HS_NAMESPACE", "data": xml})
        };
        let body = json!((1..=count).map(value).collect::<Vec<_>>()).to_string();
        client.send("PUT", "/api/handles/0.NA/10.5555?overwrite=true", TOKEN, &[], body.as_bytes())
    };
    let refused = put(20);
    assert!(refused.status >= 400 && refused.text().contains("budget"), "{}", refused.text());
    let written = put(2);
    assert!(written.status < 300, "{}", written.text());
}

fn broken_template_is_refused(store: StoreKind) {
    let client = start(store);
    let (status, body) = put_namespace(&client, TEMPLATE);
    assert!(status == 200 || status == 201, "{status} {body}");
    for (xml, reason) in [
        ("<namespace><template delimiter='@'>", "invalid prefix template: HS_NAMESPACE"),
        ("<namespace><template delimiter='@'><value/></template></namespace>", "needs a `type`"),
        (
            "<namespace><template delimiter='@'><if value='extension' test='like'/></template></namespace>",
            "unknown test `like`",
        ),
        (
            "<namespace><template delimiter='@'><if value='extension' test='matches' expression='('/>\
             </template></namespace>",
            "regex parse error",
        ),
    ] {
        let (status, body) = put_namespace(&client, xml);
        assert!(
            status == 400 && body.contains("\"responseCode\":202") && body.contains(reason),
            "{status} {body}"
        );
        // The record is unchanged.
        let response = client.send("GET", "/10.5555/map@x", "", &[], b"");
        assert_eq!(response.header("location"), Some("https://example.org/map?x"), "{xml}");
    }
}

fn explain_names_the_template(store: StoreKind) {
    let client = start(store);
    put_namespace(&client, TEMPLATE);
    let explain =
        |name: &str| client.send("GET", &format!("/10.5555/{name}?explain=json"), "", &[], b"").json();
    let trace = explain("map@x");
    assert_eq!((&trace["derived_from"], &trace["outcome"]), (&json!("10.5555/map"), &json!("resolves")));
    let step = json!({
        "step": "template",
        "ok": true,
        "message": "derived from `10.5555/map` by the template of the prefix"
    });
    assert!(trace["steps"].as_array().unwrap().contains(&step), "{trace}");
    let page = client.send("GET", "/10.5555/map@x?explain", "", &["Accept: text/html"], b"");
    assert!(page.text().contains("by the template of the prefix"), "{}", page.text());
    let stored = explain("map");
    assert_eq!(stored["derived_from"], json!(null));
    assert!(!stored.to_string().contains("template"), "{stored}");
}

//! The requests, as JSON lines for the Handle.Net client.
//!
//! Requests of one group are sent one after another, groups side by side. So only requests of the group [`SHARED`] may change
//! or resolve names that other groups use, too.

use serde_json::{Value, json};

use crate::root;

/// The group of requests that use the same names over each transport.
const SHARED: &str = "shared";

/// All requests to a server with this site record.
pub(super) fn requests(site: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    resolution_cases(&mut all, "udp");
    // UDP carries resolutions only: both servers drop or reject writes.
    for transport in ["tcp", "http", "https"] {
        resolution_cases(&mut all, transport);
        error_cases(&mut all, transport);
        homing_cases(&mut all, transport);
        for (number, key) in keys().iter().enumerate() {
            for session in SESSIONS {
                let name = format!("10.5555/LIFE-{transport}-{number}-{}", session.unwrap_or("none"));
                lifecycle_cases(&mut all, &name, transport, key, session);
            }
        }
    }
    root_cases(&mut all, site);
    for (id, request) in all.iter_mut().enumerate() {
        request["id"] = id.into();
        request["group"] = group_of(request).into();
    }
    all
}

/// Records of different keys over different transports have different names; everything else that writes shares names.
fn group_of(request: &Value) -> String {
    let text = |field: &str| request[field].as_str().unwrap_or_default();
    let lifecycle = request["lifecycle"].as_str().unwrap_or_default();
    let is_resolution = request["case"] == "resolution";
    if lifecycle.is_empty() && !is_resolution {
        return SHARED.to_owned();
    }
    // Sessions are those of a group: resolutions use them first, then the lifecycles of the first key.
    let suffix = if lifecycle.contains("-1-") { " second key" } else { "" };
    format!("{}{suffix}", text("transport"))
}

/// Whether a site of several servers gets the request, too. Not those that each server answers for itself: lists and homed
/// prefixes. The client sends names of prefixes without a slash to another server than the responsible one.
pub(super) fn is_partition_case(request: &Value) -> bool {
    let is = |field: &str, any: &[&str]| request[field].as_str().is_some_and(|found| any.contains(&found));
    is("transport", &["udp", "tcp", "http"])
        && (is("op", &["resolve"]) || request["lifecycle"].is_string() && !is("op", &["list"]))
        && !is("handle", &["10.5555", "10.5562/NONE"])
}

/// A response without what may differ: times, texts, the order of values, the letter case of names, and names that other
/// groups have created.
pub(super) fn normalize_response(request: &Value, response: &Value) -> Value {
    let mut response = response.clone();
    let Some(fields) = response.as_object_mut() else { return response };
    fields.remove("message");
    if let Some(values) = fields.get_mut("values").and_then(Value::as_array_mut) {
        for value in values.iter_mut().filter_map(Value::as_object_mut) {
            value.remove("timestamp");
        }
        values.sort_by_key(|value| value["index"].as_u64());
    }
    if let Some(names) = fields.get_mut("names").and_then(Value::as_array_mut) {
        let upper = |name: &Value| name.as_str().unwrap_or_default().to_ascii_uppercase();
        let created = upper(&request["lifecycle"]);
        let mut listed: Vec<String> = names.iter().map(upper).collect();
        listed.retain(|name| *name == created || !is_temporary(name));
        listed.sort();
        *names = listed.into_iter().map(Value::String).collect();
    }
    // `HandleException (KIND) …`; the rest contains session numbers and times.
    if let Some(Value::String(error)) = fields.get_mut("error") {
        error.truncate(error.find(')').unwrap_or(error.len()));
    }
    response
}

/// Whether another group, or our client, creates and deletes the name meanwhile.
fn is_temporary(name: &str) -> bool {
    name.starts_with("10.5555/LIFE-")
        || ["10.5555/REFUSED", "10.5555/NOBODY"].contains(&name)
        || name.contains("10.5555/ADMIN") && name != "10.5555/ADMIN"
        || name.starts_with("0.NA/10.5555.ADMIN")
}

const SESSIONS: [Option<&str>; 5] =
    [None, Some("plain"), Some("encrypted"), Some("certified"), Some("encrypted certified")];

/// The private key file of the administrator.
pub(super) fn private_key() -> String {
    root().join("conformance/vectors/handle-net/admpriv.bin").display().to_string()
}

/// Identities with a secret and with a public key, in records of the recorded server.
fn keys() -> [Value; 2] {
    [
        json!({"admin": "301:10.5555/ADMIN", "secret": "opensesame"}),
        json!({"admin": "300:10.5555/ADMIN", "key": private_key()}),
    ]
}

/// The server administrator.
fn server_admin() -> Value {
    json!({"admin": "300:0.NA/10.5555", "key": private_key()})
}

/// The request with more fields.
fn merged(mut request: Value, more: &Value) -> Value {
    if let (Some(request), Some(more)) = (request.as_object_mut(), more.as_object()) {
        request.extend(more.clone());
    }
    request
}

fn resolution_cases(all: &mut Vec<Value>, transport: &str) {
    let names = [
        "0.NA/10.5555",
        "0.NA/0.NA",
        "0.SITE/status",
        "10.5555/ONE",
        "10.5555/one",
        "10.5555/MULTI",
        "10.5555/BIG",
        "10.5555/SECRET",
        "10.5555/ALIAS",
        "10.5555/SPACE AND%25PCT",
        "10.5555/例-Ü",
        "10.5555/SLASH/IN/NAME?Q#F",
        "10.5555/NOURL",
        "10.5555/lowercase",
        "10.5555/NONE",
        "10.5557/NONE",
        "10.9999/NONE",
        "10.5555/",
        "10.5555",
        "",
    ];
    let mut push = |request: Value| all.push(merged(request, &json!({"case": "resolution"})));
    for name in names {
        push(json!({"op": "resolve", "handle": name, "transport": transport}));
    }
    for flags in [
        json!(["certify"]),
        json!(["cacheCertify"]),
        json!(["authoritative"]),
        json!(["digest"]),
        json!(["restricted"]),
        json!(["certify", "digest", "authoritative"]),
    ] {
        for name in ["10.5555/MULTI", "10.5555/BIG", "10.5555/NONE"] {
            push(json!({"op": "resolve", "handle": name, "transport": transport, "flags": flags}));
        }
    }
    for selection in [
        json!({"types": ["URL"]}),
        json!({"types": ["URL."]}),
        json!({"types": ["url"]}),
        json!({"types": ["NONE"]}),
        json!({"indexes": [2]}),
        json!({"indexes": [9]}),
        json!({"indexes": [7]}),
        json!({"types": ["URL"], "indexes": [3, 7]}),
        json!({"types": ["NOTE"], "flags": ["restricted"]}),
    ] {
        push(merged(json!({"op": "resolve", "handle": "10.5555/MULTI", "transport": transport}), &selection));
    }
    for key in keys().into_iter().chain([server_admin()]) {
        for session in SESSIONS {
            let restricted = json!({"op": "resolve", "handle": "10.5555/SECRET", "transport": transport, "session": session, "flags": ["restricted"]});
            push(merged(restricted, &key));
        }
    }
}

/// Requests that fail: wrong identities, missing names, missing permissions.
fn error_cases(all: &mut Vec<Value>, transport: &str) {
    let url = json!([{"index": 1, "type": "URL", "data": "https://example.org/"}]);
    let [secret, key] = keys();
    let mut push = |op: &str, handle: &str, more: &Value, identity: &Value| {
        all.push(merged(merged(json!({"op": op, "handle": handle, "transport": transport}), more), identity));
    };
    for invalid in [
        json!({"admin": "301:10.5555/ADMIN", "secret": "wrong"}),
        json!({"admin": "300:10.5555/ONE", "key": private_key()}),
        json!({"admin": "77:10.5555/ADMIN", "secret": "opensesame"}),
        json!({"admin": "301:10.5555/NONE", "secret": "opensesame"}),
        json!({"admin": "301:10.9999/NONE", "secret": "opensesame"}),
        json!({}),
    ] {
        push("create", "10.5555/REFUSED", &json!({"values": url}), &invalid);
        push("modify", "10.5555/ONE", &json!({"values": url}), &invalid);
        push("delete", "10.5555/ONE", &json!({}), &invalid);
        push("list", "0.NA/10.5555", &json!({}), &invalid);
        push("home", "0.NA/10.5560", &json!({}), &invalid);
        push("resolve", "10.5555/SECRET", &json!({"flags": ["restricted"]}), &invalid);
    }
    for identity in [&secret, &key] {
        push("create", "10.5555/ONE", &json!({"values": url}), identity);
        push("create", "10.9999/ONE", &json!({"values": url}), identity);
        push("create", "10.5555/REFUSED", &json!({"values": []}), identity);
        push("create", "0.NA/10.5561", &json!({"values": url}), identity);
        push("delete", "10.5555/NONE", &json!({}), identity);
        push("add", "10.5555/NONE", &json!({"values": url}), identity);
        push("modify", "10.5555/NONE", &json!({"values": url}), identity);
        push("remove", "10.5555/NONE", &json!({"indexes": [1]}), identity);
        push("home", "0.NA/10.5560", &json!({}), identity);
        push("prefixes", "0.NA/0.NA", &json!({}), identity);
        push("list", "0.NA/10.9999", &json!({}), identity);
        push("create", "10.5555/NOBODY", &json!({"values": url, "flags": ["overwrite"]}), &server_admin());
        // A record without administrators: Tendot lets the administrators of the prefix delete it.
        push("delete", "10.5555/NOBODY", &json!({"expected_difference": 1}), identity);
        push("create", "10.5555/NOBODY", &json!({"values": url, "flags": ["overwrite"]}), &server_admin());
        for handle in ["10.5555/NOBODY", "10.5555/REFUSED"] {
            push("delete", handle, &json!({}), &server_admin());
        }
    }
}

/// Prefixes homed and unhomed by the server administrator.
fn homing_cases(all: &mut Vec<Value>, transport: &str) {
    let admin = server_admin();
    for session in [None, Some("encrypted")] {
        for (op, handle) in [
            ("prefixes", "0.NA/0.NA"),
            ("home", "0.NA/10.5562"),
            ("home", "0.NA/10.5562"),
            ("prefixes", "0.NA/0.NA"),
            ("list", "0.NA/10.5562"),
            ("resolve", "10.5562/NONE"),
            ("unhome", "0.NA/10.5562"),
            ("unhome", "0.NA/10.5562"),
            ("resolve", "10.5562/NONE"),
            ("prefixes", "0.NA/0.NA"),
        ] {
            all.push(merged(
                json!({"op": op, "handle": handle, "transport": transport, "session": session}),
                &admin,
            ));
        }
    }
}

/// A record from its creation to its deletion.
fn lifecycle_cases(all: &mut Vec<Value>, name: &str, transport: &str, key: &Value, session: Option<&str>) {
    let value = |index: u32, data: &str| json!({"index": index, "type": "URL", "data": format!("https://example.org/{data}")});
    let owner = json!({"index": 100, "type": "HS_ADMIN", "data":
        {"format": "admin", "value": {"handle": "0.NA/10.5555", "index": 200, "permissions": "111111111111"}}});
    let email =
        json!({"index": 3, "type": "EMAIL", "data": "a@example.org", "ttl": 60, "permissions": "1100"});
    let mut push = |op: &str, more: &Value| {
        let handle = if op == "list" { "0.NA/10.5555" } else { name };
        let request = json!({
            "op": op, "handle": handle, "lifecycle": name, "transport": transport, "session": session,
        });
        all.push(merged(merged(request, more), key));
    };
    push("create", &json!({"values": [value(1, "one"), owner]}));
    push("create", &json!({"values": [value(1, "one"), owner]}));
    push("create", &json!({"values": [value(1, "two"), owner], "flags": ["overwrite"]}));
    push("add", &json!({"values": [value(2, "added"), email]}));
    push("add", &json!({"values": [value(2, "again")]}));
    push("add", &json!({"values": [value(2, "over")], "flags": ["overwrite"]}));
    push("modify", &json!({"values": [value(1, "modified")]}));
    push("modify", &json!({"values": [value(9, "nothing there")]}));
    push("resolve", &json!({"flags": ["restricted", "authoritative"]}));
    push("resolve", &json!({"flags": ["certify"]}));
    push("remove", &json!({"indexes": [2]}));
    push("remove", &json!({"indexes": [2]}));
    push("resolve", &json!({"indexes": [1, 2, 3], "flags": ["restricted", "encrypt"]}));
    push("list", &json!({}));
    push("delete", &json!({}));
    push("delete", &json!({}));
    push("resolve", &json!({}));
}

/// A prefix whose site is looked up from the root.
fn root_cases(all: &mut Vec<Value>, site: &Value) {
    let admin = server_admin();
    let site = json!({"index": 1, "type": "HS_SITE", "data": {"format": "site", "value": site}});
    let url = json!([{"index": 1, "type": "URL", "data": "https://example.org/"}]);
    for (op, handle, values) in [
        ("create", "0.NA/10.5563", json!([site])),
        ("home", "0.NA/10.5563", json!([])),
        ("create", "10.5563/ONE", url),
    ] {
        all.push(merged(json!({"op": op, "handle": handle, "values": values}), &admin));
    }
    for name in ["10.5563/ONE", "10.5563/NONE", "10.9999/NONE", "0.NA/10.9999"] {
        for flags in [json!([]), json!(["certify"])] {
            all.push(json!({"op": "resolve", "handle": name, "transport": "root", "flags": flags}));
        }
    }
}

//! Inputs of the fuzz targets: seeds made from the vectors, and the corpora in `fuzz/corpora`.

use std::fs;

use crate::{conformance, hex, workspace_root};

/// The names of the targets.
pub const TARGETS: [&str; 16] = [
    "name_parse",
    "name_format",
    "extract",
    "message",
    "message_body",
    "value_data",
    "record_json",
    "reassembly",
    "auth",
    "lookup",
    "replication",
    "http_head",
    "http_query",
    "http_credentials",
    "batch_body",
    "kernel_xml",
];

/// The seeds and the saved corpus of a target.
#[track_caller]
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut inputs = match target {
        "name_parse" | "name_format" | "extract" => name_seeds(),
        "message" | "reassembly" | "auth" | "lookup" => message_seeds(),
        "message_body" => body_seeds(),
        "value_data" => value_seeds(),
        "record_json" => record_seeds(),
        "replication" => replication_seeds(),
        "http_head" => http_head_seeds(),
        "http_query" => http_query_seeds(),
        "http_credentials" => http_credential_seeds(),
        "batch_body" => batch_seeds(),
        "kernel_xml" => kernel_seeds(),
        _ => panic!("unknown fuzz target `{target}`"),
    };
    inputs.extend(corpus(target));
    inputs
}

/// The saved corpus of a target; empty for a new one.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let file = workspace_root().join("fuzz/corpora").join(format!("{target}.hex"));
    fs::read_to_string(file).unwrap_or_default().lines().map(hex::decode).collect()
}

fn vectors(file: &str) -> String {
    let path = conformance("vectors").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The inputs of the vectors of names.
fn name_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in (vectors("names.jsonl") + &vectors("names-more.jsonl")).lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(input) = case["input"].as_str() {
            seeds.push(input.into());
            // The target for extraction takes its settings from the first byte.
            seeds.push(format!("\0{input}").into());
        }
    }
    seeds
}

/// The messages that were recorded.
fn message_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in vectors("handle-net/native.jsonl").lines() {
        let recorded: serde_json::Value = serde_json::from_str(line).unwrap();
        seeds.push(hex::decode(recorded["hex"].as_str().unwrap()));
    }
    seeds
}

/// Their bodies, after operation, code, flags and version as the target takes them.
fn body_seeds() -> Vec<Vec<u8>> {
    let messages = message_seeds().into_iter().filter(|message| message.len() > 44 && message[2] < 0x20);
    messages
        .map(|message| {
            [&message[22..24], &message[26..28], &message[29..30], &message[1..2], &message[44..]].concat()
        })
        .collect()
}

/// Data of values after their type and a zero.
fn value_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in vectors("handle-net/encodings.txt").lines() {
        let Some((name, digits)) = line.split_once(' ') else { continue };
        let value_type = match name {
            "admin" | "admin_legacy" => "HS_ADMIN",
            "vlist" => "HS_VLIST",
            "rsa_pub" | "dsa_pub" | "dh_pub" => "HS_PUBKEY",
            "site" => "HS_SITE",
            _ => continue,
        };
        seeds.push([value_type.as_bytes(), &[0], &hex::decode(digits)].concat());
    }
    for (value_type, text) in TEXTS {
        seeds.push([value_type.as_bytes(), &[0], text.as_bytes()].concat());
    }
    seeds
}

const TEXTS: [(&str, &str); 6] = [
    (
        "10320/loc",
        r#"<locations chooseby="locatt,weighted"><location id="0" href="https://a/" weight="1"/></locations>"#,
    ),
    ("10320/links", r#"<locations><location href="https://a/" rel="license"/></locations>"#),
    ("10320/headers", "X-One: two\n<meta name=\"a\">"),
    (
        "HS_NAMESPACE",
        "<namespace><contact>a@b</contact><locs>10.SERV/X</locs><template delimiter=\"@\"/></namespace>",
    ),
    ("HS_SIGNATURE", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOmEvYiIsInN1YiI6ImEvYyJ9.AAAA"),
    ("HS_CERT", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOmEvYiIsInN1YiI6IjE6YS9jIiwicGVybXMiOltdfQ.AAAA"),
];

/// The records that the recordings were made with.
fn record_seeds() -> Vec<Vec<u8>> {
    vectors("handle-net/records.jsonl").lines().map(Into::into).collect()
}

/// A little of each stream, after the byte that the target takes its settings from; states as text and JSON.
fn replication_seeds() -> Vec<Vec<u8>> {
    let value = "0000001a 00000001 00000000 00 00015180 0e 00000000 00000000 00000000";
    let streams = [
        "00 00000001 00000002 01 0000000000000065 00000003 412f42 02 0000018bcfe56800 00 0000018bcfe56800"
            .into(),
        format!(
            "00 00000002 00000002 02 00000009 303a736f7572636573 01 0000000000000065 00000003 412f42 01 \
             0000018bcfe56800 00000001 {value} 03 0000018bcfe56800 00"
        ),
        format!(
            "01 00000002 05 00000002 7b7d 00 0000018bcfe56800 0000000000000065 \
             03 00000003 412f42 0000018bcfe56800 00000001 04 00000003 412f42 0000018bcfe56800 00000001 \
             01 00000003 412f42 00000001 {value} 02 00000003 412f42 ff"
        ),
    ];
    let mut seeds = Vec::new();
    for stream in streams {
        seeds.push(hex::decode(&stream));
    }
    seeds.push(br#"{ "a" = ( { "last_txn_id" = "5" "last_timestamp" = "6" } { } ) b = "\"\\\n" }"#.into());
    seeds.push(
        br#"{"replicationServerStates":{"0:a":{"lastTxnId":5,"lastTimestamp":6}},"ownName":"b"}"#.into(),
    );
    seeds
}

/// Heads and bodies of requests, after the byte that says where they are divided.
fn http_head_seeds() -> Vec<Vec<u8>> {
    let requests = [
        "GET /10.5555/ONE HTTP/1.1\r\nHost: a.example\r\nAccept: application/json;q=0.5, text/html\r\n\r\n",
        "GET /10.5555/ONE HTTP/1.0\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\nGET /10.5555/MANY HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET /10.5555/a<b>c HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET http://a.example/10.5555/TEXT?locatt=country:gb HTTP/1.1\r\nHost: a.example\r\nIf-None-Match: \"1\"\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 15\r\n\r\nhdl=10.5555/ONEGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nf\r\nhdl=10.5555/ONE\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n[]",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\nOrigin: https://b.example\r\n\r\n",
        "GET / HTTP/1.1\nHost: a.example\n\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0",
    ];
    requests.iter().map(|request| [b"\x20", request.as_bytes()].concat()).collect()
}

/// Ends of request targets and forms, after the number of the endpoint.
fn http_query_seeds() -> Vec<Vec<u8>> {
    let inputs = [
        (0, "doi:10.5555%2FONE?noredirect&explain"),
        (0, "urn:doi:10.5555:ONE"),
        (0, "info:hdl/20.500.12345/x%C3%A9"),
        (0, "https://doi.org/10.5555/ONE"),
        (1, "urlappend=%3Fx%3D1&auth=true;type=URL&index=1"),
        (2, "locatt=country:gb&locatt=id:0"),
        (3, "ignore_aliases&noredirect"),
        (4, "type=DESC&index=2&callback=f&pretty=false"),
        (5, "prefix=10.5555&page=0&pageSize=2"),
        (6, "url_ver=Z39.88-2004&rft_id=info:doi/10.5555/ONE&id=doi%3A10.5555%2FONE"),
        (7, "10.5555,10.70000,not-a-prefix"),
        (8, "limit=10&cursor=x&query=y"),
        (9, "prefix=10.70000&state=registered&limit=10&cursor=x"),
        (10, "limit=1&at=2026-01-01T00:00:00Z"),
        (11, "format=csl-json"),
        (200, "hdl=10.5555%2FONE&auth=on&type=URL&index=1&index=2"),
    ];
    inputs.iter().map(|(endpoint, rest)| [&[*endpoint], rest.as_bytes()].concat()).collect()
}

/// Values of `Authorization` and, on the next line, of `Cookie`.
fn http_credential_seeds() -> Vec<Vec<u8>> {
    let inputs = [
        "Basic MzAwJTNBMC5OQS8xMC41NTU1OnNlY3JldA==\na=b; session=\"c\"",
        "Bearer tendot_0123456789abcdef_0123456789abcdef",
        "Handle sessionId=\"0123456789abcdef0123456789abcdef\"\nsessionId=0123456789abcdef0123456789abcdef",
        "Handle version=\"0\", id=\"300%3A0.NA%2F10.5555\", type=\"HS_SECKEY\", cnonce=\"AAEC\", alg=\"HMAC-SHA256\", signature=\"AAEC\"",
        "Handle sessionId=0123456789abcdef0123456789abcdef, id=300:0.NA/10.5555, type=HS_SECKEY, cnonce=AAEC, \
         alg=PBKDF2-HMAC-SHA1, signature=AAEC, salt=AAEC, iterations=1000, length=160",
        "Handle clientCert=\"true\"",
    ];
    inputs.iter().map(|input| input.as_bytes().to_vec()).collect()
}

/// Bodies of batches, after the bytes for their form and division.
fn batch_seeds() -> Vec<Vec<u8>> {
    let json = "\u{feff}{\"name\":\"10.70000/a\",\"url\":\"https://example.org/\"}\r\n\n\
                {\"prefix\":\"10.70000\",\"metadata\":{\"primaryReferentType\":\"Creation\"}}\n\
                {\"name\":\"10.70000/a\",\"state\":\"reserved\",\"values\":[{\"index\":2,\"type\":\"URL\",\"data\":\"https://a/\"}]}\nx";
    let csv = "name,url,state,metadata\n10.70000/a,https://example.org/,,\n\
               \"10.70000/b\",\"https://example.org/\"\"\nx\",reserved,<a/>\n";
    // Two lines as gzip.
    let gzip = "1f8b0800000000000203ab56ca4bcc4d55b2523234d033370002fd44251da5d2a21ca05046494941b195be7e6a45626e414eaa5e7e51babe522d175735869e24a03000c14dd04b4a000000";
    vec![
        [b"\0\x28", json.as_bytes()].concat(),
        [b"\x01\x30", csv.as_bytes()].concat(),
        [&[2, 9][..], &hex::decode(gzip)].concat(),
    ]
}

/// Kernel metadata of each type, from the tests of the registry.
fn kernel_seeds() -> Vec<Vec<u8>> {
    let folder = workspace_root().join("crates/tendot-registry/tests/fixtures/metadata");
    ["article", "party", "place"]
        .iter()
        .map(|name| fs::read(folder.join(format!("{name}.xml"))).unwrap())
        .collect()
}

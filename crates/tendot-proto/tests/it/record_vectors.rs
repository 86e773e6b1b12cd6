//! Values and records recorded from Handle.Net: bytes and JSON.

use serde_json::Value as Json;
use tendot_proto::record::{
    Admin, AdminPermissions, HandleRecord, HashOption, InterfaceKind, InterfaceProtocol, KeyComponents,
    PublicKey, Site, ValueList,
};
use tendot_proto::{HandleValue, ProtocolVersion, Ttl, ValueReference};
use tendot_testing::recordings::encoding;

const RECORDS: &str = include_str!("../../../../conformance/vectors/handle-net/records.jsonl");
const HTTP: &str = include_str!("../../../../conformance/vectors/handle-net/http.jsonl");
const SITE: &str = include_str!("../../../../conformance/vectors/handle-net/siteinfo.json");

#[test]
fn values() {
    let bytes = encoding("val_url");
    let url = HandleValue { timestamp: 0x6400_0000, ..HandleValue::new(1, "URL", "https://example.org/") };
    assert_eq!(HandleValue::from_bytes(&bytes), Ok(url.clone()));
    assert_eq!(url.to_bytes(), bytes);

    let bytes = encoding("val_abs");
    let email = HandleValue::from_bytes(&bytes).unwrap();
    assert_eq!(email.ttl, Ttl::Absolute(0x7000_0000));
    assert_eq!(email.references, [ValueReference::parse("300:10.1000/2")]);
    assert_eq!(email.to_bytes(), bytes);
    check_json(
        &email,
        r#"{"index":2,"type":"EMAIL","data":{"format":"string","value":"a@b.c"},"permissions":"1100","#
            .to_owned()
            + r#""ttl":"2029-07-18T05:49:52Z","timestamp":"2023-03-02T01:46:40Z","#
            + r#""references":[{"handle":"10.1000/2","index":300}]}"#,
    );
}

#[test]
fn admin() {
    for (name, legacy_byte_length) in [("admin", false), ("admin_legacy", true)] {
        let bytes = encoding(name);
        let admin = Admin {
            permissions: AdminPermissions(0x07f3),
            reference: ValueReference::parse("200:0.NA/10"),
            legacy_byte_length,
        };
        assert_eq!(Admin::from_bytes(&bytes).as_ref(), Ok(&admin));
        assert_eq!(admin.to_bytes(), bytes);
        let legacy = if legacy_byte_length { r#","legacyByteLength":true"# } else { "" };
        check_json(
            &HandleValue::with_data(100, "HS_ADMIN", bytes),
            format!(
                r#"{{"index":100,"type":"HS_ADMIN","data":{{"format":"admin","value":{{"handle":"0.NA/10","index":200,"permissions":"011111110011"{legacy}}}}},"ttl":86400}}"#
            ),
        );
    }
}

#[test]
fn vlist() {
    let bytes = encoding("vlist");
    let list = ValueList::from_bytes(&bytes).unwrap();
    assert_eq!(list.members, [ValueReference::parse("300:10.1000/A"), ValueReference::parse("0:0.NA/10")]);
    assert_eq!(list.to_bytes(), bytes);
    check_json(
        &HandleValue::with_data(200, "HS_VLIST", bytes),
        r#"{"index":200,"type":"HS_VLIST","data":{"format":"vlist","value":[{"handle":"10.1000/A","index":300},"#
            .to_owned()
            + r#"{"handle":"0.NA/10","index":0}]},"ttl":86400}"#,
    );
}

#[test]
fn keys() {
    let bytes = encoding("rsa_pub");
    let key = PublicKey::from_bytes(&bytes).unwrap();
    let KeyComponents::Rsa { modulus, exponent } = key.components() else { panic!("{key:?}") };
    assert_eq!((modulus.len(), modulus.first(), exponent), (64, Some(&0xc1), &[1, 0, 1][..]));
    assert_eq!(PublicKey::rsa(modulus, exponent).to_bytes(), bytes);
    assert_eq!(PublicKey::from_jwk(&serde_json::to_value(key.jwk()).unwrap()).unwrap().to_bytes(), bytes);

    let bytes = encoding("dsa_pub");
    let key = PublicKey::from_bytes(&bytes).unwrap();
    assert_eq!(key.components(), KeyComponents::Dsa { q: &[0x29], p: &[0x83], g: &[4], y: &[0x11] });
    assert_eq!(key.to_bytes(), bytes);
    check_json(
        &HandleValue::with_data(300, "HS_PUBKEY", bytes),
        r#"{"index":300,"type":"HS_PUBKEY","data":{"format":"key","value":{"kty":"DSA","y":"EQ","p":"gw","#
            .to_owned()
            + r#""q":"KQ","g":"BA"}},"ttl":86400}"#,
    );

    let bytes = encoding("dh_pub");
    let key = PublicKey::from_bytes(&bytes).unwrap();
    assert_eq!(key.components(), KeyComponents::DiffieHellman { y: &[0x90], p: &[0xfb], g: &[2] });
    assert_eq!(key.to_bytes(), bytes);
    assert!(key.jwk().is_none());
}

#[test]
fn site() {
    let bytes = encoding("site");
    let site = Site::from_bytes(&bytes).unwrap();
    assert_eq!((site.format_version, site.protocol_version, site.serial), (1, ProtocolVersion::LATEST, 5));
    assert!(site.is_primary() && !site.is_multi_primary());
    assert_eq!((site.hash_option, site.description()), (HashOption::WHOLE, Some("Test")));
    let [server] = &site.servers[..] else { panic!("{site:?}") };
    assert_eq!(
        (server.id, server.ip().to_string(), &*server.public_key),
        (1, "192.0.2.1".into(), &b"KEY"[..])
    );
    let interfaces =
        server.interfaces.iter().map(|interface| (interface.kind, interface.protocol, interface.port));
    assert!(interfaces.eq([
        (InterfaceKind::BOTH, InterfaceProtocol::TCP, 2641),
        (InterfaceKind::QUERY, InterfaceProtocol::UDP, 2641),
        (InterfaceKind::BOTH, InterfaceProtocol::HTTP, 8000),
    ]));
    assert_eq!(site.to_bytes(), bytes);
    check_json(
        &HandleValue::with_data(3, "HS_SITE", bytes),
        r#"{"index":3,"type":"HS_SITE","data":{"format":"site","value":{"version":1,"protocolVersion":"2.11","#
            .to_owned()
            + r#""serialNumber":5,"primarySite":true,"multiPrimary":false,"attributes":[{"name":"desc","value":"Test"}],"#
            + r#""servers":[{"serverId":1,"address":"192.0.2.1","publicKey":{"format":"base64","value":"S0VZ"},"#
            + r#""interfaces":[{"query":true,"admin":true,"protocol":"TCP","port":2641},"#
            + r#"{"query":true,"admin":false,"protocol":"UDP","port":2641},"#
            + r#"{"query":true,"admin":true,"protocol":"HTTP","port":8000}]}]}},"ttl":86400}"#,
    );
}

#[test]
fn bytes_and_texts() {
    check_data("X", b"\0\x01\x02", r#"{"format":"base64","value":"AAEC"}"#);
    check_data("X", b"\x0eA", r#"{"format":"string","value":"\u000eA"}"#);
    check_data("X", b"\x13", r#"{"format":"string","value":"\u0013"}"#);
    check_data("X", b"\x14", r#"{"format":"base64","value":"FA=="}"#);
    check_data("X", b"\x7f", r#"{"format":"base64","value":"fw=="}"#);
    check_data("X", b"\xff", r#"{"format":"base64","value":"/w=="}"#);
    check_data("X", "\t\r\n</é>".as_bytes(), r#"{"format":"string","value":"\t\r\n</é>"}"#);
    // Not valid for its type.
    check_data("HS_ADMIN", b"nobody", r#"{"format":"string","value":"nobody"}"#);
    check_data("HS_ADMIN", b"\0", r#"{"format":"base64","value":"AA=="}"#);
    check_data("HS_SITE.6", b"", r#"{"format":"string","value":""}"#);
    check_data("HS_SITES", b"\0\0\0\0", r#"{"format":"base64","value":"AAAAAA=="}"#);
    check_data("hs_vlist.x", b"\0\0\0\0", r#"{"format":"vlist","value":[]}"#);
    // The JSON form of the type would lose data: bytes that are not UTF-8, leading zeros of a key's integers.
    check_data(
        "HS_VLIST",
        b"\0\0\0\x01\0\0\0\x01\xff\0\0\0\0",
        r#"{"format":"base64","value":"AAAAAQAAAAH/AAAAAA=="}"#,
    );
    let key = b"\0\0\0\x0bDSA_PUB_KEY\0\0\0\0\0\x02\0\x01\0\0\0\0\0\0\0\0\0\0\0\0";
    assert!(PublicKey::from_bytes(key).is_ok());
    check_data(
        "HS_PUBKEY",
        key,
        r#"{"format":"base64","value":"AAAAC0RTQV9QVUJfS0VZAAAAAAACAAEAAAAAAAAAAAAAAAA="}"#,
    );
    // Permissions that Handle.Net does not know.
    check_data(
        "HS_ADMIN",
        b"\x17\xf3\0\0\0\x070.NA/10\0\0\0\xc8",
        r#"{"format":"admin","value":{"handle":"0.NA/10","index":200,"permissions":"0001011111110011"}}"#,
    );
}

#[track_caller]
fn check_data(value_type: &str, data: &[u8], json: &str) {
    let json = format!(r#"{{"index":1,"type":"{value_type}","data":{json},"ttl":86400}}"#);
    check_json(&HandleValue::with_data(1, value_type, data), json);
}

#[track_caller]
fn check_json(value: &HandleValue<'_>, json: String) {
    assert_eq!(serde_json::to_string(value).unwrap(), json);
    assert_eq!(HandleValue::from_json(json.as_bytes()).as_ref(), Ok(value));
    assert_eq!(&serde_json::from_str::<HandleValue<'_>>(&json).unwrap(), value);
}

#[test]
fn records() {
    let mut seen = 0;
    for line in RECORDS.lines() {
        let record = HandleRecord::from_json(line.as_bytes()).unwrap();
        for value in &record.values {
            assert_eq!(&HandleValue::from_bytes(&value.to_bytes()).unwrap(), value);
        }
        let json: Json = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), json);
        seen += 1;
    }
    assert_eq!(seen, 17);
}

/// The values of every HTTP response serialize to the text of the server.
#[test]
fn http_responses() {
    let mut seen = 0;
    for line in HTTP.lines() {
        let exchange: Json = serde_json::from_str(line).unwrap();
        let body = exchange["body"].as_str().unwrap();
        let values = ["\"values\": ", "\"values\":"].iter().find_map(|start| body.split_once(start));
        let is_get = exchange["request"]["method"] == "GET"
            && exchange["request"]["target"].as_str().unwrap().starts_with("/api/handles/");
        let Some((_, values)) = values.filter(|_| is_get) else { continue };
        let json: Json = serde_json::from_str(body).unwrap();
        let parsed = tendot_proto::record::values_from_json(&json).unwrap();
        let written = if body.contains('\n') {
            serde_json::to_string_pretty(&parsed).unwrap().replace('\n', "\n  ")
        } else {
            serde_json::to_string(&parsed).unwrap()
        };
        // The list ends with its bracket; the rest of the body does not matter.
        assert_eq!(Some(&*written), values.get(..written.len()), "{}", exchange["name"]);
        seen += 1;
    }
    assert_eq!(seen, 27);
}

#[test]
fn site_file() {
    let site: Json = serde_json::from_str(SITE).unwrap();
    let json = format!(r#"{{"index":1,"type":"HS_SITE","data":{{"format":"site","value":{SITE}}}}}"#);
    let value = HandleValue::from_json(json.as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&value).unwrap()["data"]["value"], site);
    let decoded = Site::from_bytes(&value.data).unwrap();
    assert_eq!(decoded.description(), Some("test site"));
    assert!(matches!(
        decoded.servers[0].decode_public_key().unwrap().components(),
        KeyComponents::Rsa { .. }
    ));
}

/// Old and unusual forms, as Handle.Net's code reads and writes them.
#[test]
fn json_compatibility_with_handle_net() {
    let site = |servers: &str| {
        let json = format!(
            r#"{{"index":1,"type":"HS_SITE","data":{{"format":"site","value":{{"protocolVersion":"2.11",
            "serialNumber":1,"primarySite":true,{servers}}}}}}}"#
        );
        HandleValue::from_json(json.as_bytes()).map(|value| serde_json::to_string(&value).unwrap())
    };
    let server = |key: &str| format!(r#"{{"serverId":1,"address":"192.0.2.1",{key}"interfaces":[]}}"#);
    // Without attributes and key, both are written as empty.
    let written = site(&format!(r#""servers":[{}]"#, server(""))).unwrap();
    assert!(written.contains(r#""attributes":[],"servers""#), "{written}");
    assert!(written.contains(r#""publicKey":{"format":"base64","value":""}"#), "{written}");
    // A key under its old name is hexadecimal.
    let old = site(&format!(r#""ServerList":[{}]"#, server(r#""PublicKey":"4b4559","#))).unwrap();
    assert!(old.contains(r#""publicKey":{"format":"base64","value":"S0VZ"}"#), "{old}");
    // The new name takes precedence.
    let both = site(&format!(r#""serverList":[{}],"servers":[]"#, server(""))).unwrap();
    assert!(both.contains(r#""servers":[]"#), "{both}");
    // IPv4-mapped IPv6 addresses are preserved.
    let mapped =
        site(&format!(r#""servers":[{}]"#, server("").replace("192.0.2.1", "::ffff:192.0.2.1"))).unwrap();
    assert!(mapped.contains(r#""address":"::ffff:c000:201""#), "{mapped}");
    // Integers of four bytes are signed in Java.
    let negative = br#"{"index":-1,"type":"X","data":"","ttl":-2}"#;
    let value = HandleValue::from_json(negative).unwrap();
    assert_eq!((value.index, value.ttl), (u32::MAX, Ttl::Relative(u32::MAX - 1)));
    let written = serde_json::to_string(&value).unwrap();
    assert_eq!(written, r#"{"index":-1,"type":"X","data":{"format":"string","value":""},"ttl":-2}"#);
    assert!(HandleValue::from_json(br#"{"index":-2147483649,"type":"X","data":""}"#).is_err());
}

//! Response cache of the native protocol: cached responses equal uncached ones, and a write invalidates them at once.

use tendot_proto::endpoint::Transport;
use tendot_proto::{Message, OpFlags, ProtocolVersion};
use tendot_store::{Edit, Precondition};

use crate::support::edits::home_edit;
use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    cached_responses_are_identical,
    digests_match_the_request,
    changes_are_visible_at_once,
    templates_are_not_cached,
);

/// The request with another number and expiration time.
fn numbered(request: &Message<'_>, number: u32) -> Vec<u8> {
    let mut request = *request;
    request.envelope.request_id = number;
    request.header.expiration += number;
    request.to_bytes().unwrap()
}

/// A response without request number and expiration time; the number; whether it has yet to expire.
fn split_response(response: &[u8]) -> (Vec<u8>, u32, bool) {
    let message = Message::from_bytes(response).unwrap();
    let expires_later = u64::from(message.header.expiration) > now().unix;
    let mut stable_bytes = response.to_vec();
    stable_bytes[8..12].fill(0);
    stable_bytes[36..40].fill(0);
    (stable_bytes, message.envelope.request_id, expires_later)
}

fn cached_responses_are_identical(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let mut number = 0;
    let mut check = |request: &Message<'_>| {
        for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
            let [first, second] = [1, 2].map(|_| {
                number += 1;
                let response = server.exchange(transport, &numbered(request, number)).remove(0);
                let (stable_bytes, request_id, expires_later) = split_response(&response);
                assert_eq!((request_id, expires_later), (number, true), "{request:?}");
                stable_bytes
            });
            assert_eq!(first, second, "{request:?}");
        }
    };
    for name in ["10.5555/1", "10.5555/MULTI", "10.5555/multi", "10.5555/NONE", "10.9999/1", "0.NA/10.5555"] {
        check(&resolution(name));
        for (indexes, types) in [(&[1][..], &[][..]), (&[], &[&b"URL"[..]]), (&[100], &[&b"EMAIL"[..]])] {
            check(&selection(name, indexes, types));
        }
        for flags in [OpFlags::AUTHORITATIVE, OpFlags::KEEP_CONNECTION, OpFlags::RECURSIVE] {
            let mut flagged = resolution(name);
            flagged.header.flags |= flags;
            check(&flagged);
        }
        let mut old = resolution(name);
        old.envelope.suggested_version = ProtocolVersion::new(2, 1);
        check(&old);
    }
}

/// The digest in a response is that of its request, also if the rest is cached.
fn digests_match_the_request(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let mut request = resolution("10.5555/MULTI");
    request.header.flags |= OpFlags::REQUEST_DIGEST;
    let responses = [1, 2, 3].map(|number| {
        let response = server.exchange_udp(&numbered(&request, number)).unwrap();
        split_response(&response).0
    });
    assert!(responses[0] != responses[1] && responses[1] != responses[2], "{responses:?}");
}

fn changes_are_visible_at_once(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let resolve = |name: &str| {
        let response = server.exchange(Transport::Udp, &resolution(name).to_bytes().unwrap()).remove(0);
        String::from_utf8_lossy(&response).into_owned()
    };
    const URLS: [&str; 3] = ["https://example.org/a", "https://example.org/b", "https://example.org/c"];
    for url in URLS.into_iter().cycle().take(30) {
        server.put("10.5555/CHANGED", vec![url_value(1, url)]);
        for name in ["10.5555/CHANGED", "10.5555/changed", "10.5555/CHANGED"] {
            assert!(resolve(name).contains(url), "{url}");
        }
    }
    let code = |name| server.code(Transport::Udp, &resolution(name));
    server.commit(Edit::Unhome { prefix: "10.5555".into() });
    assert_eq!(code("10.5555/CHANGED"), 301);
    server.commit(home_edit("10.5555"));
    assert_eq!(code("10.5555/CHANGED"), 1);
    server.commit(Edit::Remove { name: "10.5555/CHANGED".into(), precondition: Precondition::NotTombstone });
    assert_eq!(code("10.5555/CHANGED"), 100);
}

/// Responses from a template follow changes of the base record.
fn templates_are_not_cached(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let namespace = r#"<namespace><template delimiter="@"><foreach><if value="type" test="equals" expression="URL"><value data="${data}/${extension}"/></if></foreach></template></namespace>"#;
    let mut values = server.values("0.NA/10.5556").unwrap();
    values.push(tendot_proto::HandleValue::new(9, "HS_NAMESPACE", namespace));
    server.put("0.NA/10.5556", values);
    for url in ["https://example.org/a", "https://example.org/b"] {
        server.put("10.5556/BASE", vec![url_value(1, url)]);
        for _ in 0..2 {
            let response =
                server.exchange(Transport::Udp, &resolution("10.5556/BASE@p7").to_bytes().unwrap()).remove(0);
            assert!(String::from_utf8_lossy(&response).contains(url), "{}", error_message(&response));
        }
    }
}

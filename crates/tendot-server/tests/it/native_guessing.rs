//! Secrets cannot be guessed over the native protocol: failed attempts are limited, together with those over HTTP.

use std::net::Ipv4Addr;
use std::time::Instant;

use ipnet::IpNet;
use tendot_proto::auth::{Challenge, ClientKey, SecretKeyMac, SecretKeyResponse};
use tendot_proto::crypto::SystemRandom;
use tendot_proto::endpoint::Transport;
use tendot_proto::message::DigestAlgorithm;
use tendot_proto::{
    Handle, HandleValue, Message, MessageBody, Opcode, Request, RequestDigest, Response, ResponseData,
    ValuePermissions, tunnel,
};
use tendot_server::http::ProxyTrust;
use tendot_testing::auth_context;
use tendot_testing::http::HttpRequest;

use crate::support::http_session::basic;
use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    audit_f3_guessing_by_verify_challenge,
    audit_f3_guessing_by_challenge_response,
    audit_f3_tunnel_follows_client_address_rules,
    sha1_proofs_need_the_setting,
);

const KEY: &str = "301:10.5555/GUESSED";

fn start(store: StoreKind, options: NativeServerOptions) -> NativeTestServer {
    let server = NativeTestServer::start_over(store.open(), options);
    let secret =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(301, "HS_SECKEY", "secret") };
    server.put("10.5555/GUESSED", vec![secret]);
    let values = vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, KEY)];
    server.put("10.5555/OWNED", values);
    server
}

/// Request to verify a proof with a secret, for a challenge chosen by the client.
fn verification(mac: SecretKeyMac, secret: &str) -> Vec<u8> {
    let challenge = Challenge { nonce: &[7; 16], digest: &[9; 32] };
    let proof =
        SecretKeyResponse::create(mac, secret.as_bytes(), challenge, &mut SystemRandom, auth_context!())
            .unwrap();
    let request = Request::VerifyChallenge {
        key_handle: Handle::from("10.5555/GUESSED"),
        key_index: 301,
        nonce: challenge.nonce,
        digest: RequestDigest { algorithm: DigestAlgorithm::Sha256, bytes: challenge.digest },
        response: &proof,
    };
    Message::request(Opcode::VERIFY_CHALLENGE, request, 7, now()).to_bytes().unwrap()
}

/// Result of such a request, or the response code.
fn verify(server: &NativeTestServer, transport: Transport, mac: SecretKeyMac, secret: &str) -> u32 {
    result_of(&server.exchange(transport, &verification(mac, secret)).remove(0))
}

fn result_of(response: &[u8]) -> u32 {
    match Message::from_bytes(response).unwrap().body {
        MessageBody::Response(Response { data: ResponseData::ChallengeVerified(result), .. }) => {
            result.into()
        }
        _ => response_code(response),
    }
}

const SERVER_TOO_BUSY: u32 = 3;

/// Asserts that as many guesses as a client may make were answered: 20, and one per second.
#[track_caller]
fn assert_throttled(results: &[u32], failed: u32, started: Instant) {
    let answered = results.iter().filter(|result| **result == failed).count() as u64;
    assert!((20..=21 + started.elapsed().as_secs()).contains(&answered), "{answered} were answered");
    assert!(results.iter().all(|result| [failed, SERVER_TOO_BUSY].contains(result)), "{results:?}");
}

fn audit_f3_guessing_by_verify_challenge(store: StoreKind) {
    let server = start(store, NativeServerOptions::default());
    let started = Instant::now();
    let hmac = SecretKeyMac::HmacSha256;
    // Right answers are not limited.
    assert!((0..30).all(|_| verify(&server, Transport::Tcp, hmac, "secret") == 1));
    let guesses: Vec<u32> =
        (0..200).map(|number| verify(&server, Transport::Tcp, hmac, &format!("guess {number}"))).collect();
    assert_throttled(&guesses, 0, started);
    // Over HTTP the client has no more attempts, natively inside HTTP neither. On a busy machine it gets one back meanwhile.
    assert!((0..60).any(|_| verify(&server, Transport::Http, hmac, "guess") == SERVER_TOO_BUSY));
    let authorization = basic("301%3A10.5555/GUESSED", "guess");
    let request = HttpRequest::get("/api/handles/10.5555/OWNED").header(&authorization);
    assert!((0..60).any(|_| request.send(server.http).status == 429));
    // Datagrams are limited apart, since their sources may be forged.
    assert_eq!(verify(&server, Transport::Udp, hmac, "guess"), 0);
    // The owner of the key is not locked out.
    let owner = Ipv4Addr::new(127, 0, 0, 2);
    let request = delete_request("10.5555/OWNED").to_bytes().unwrap();
    let challenge = server.exchange_from(owner, &request);
    let proof = challenge_response(&request, &challenge, KEY, ClientKey::SecretKey(b"secret"), 8);
    assert_eq!(response_code(&server.exchange_from(owner, &proof)), 1);
}

fn audit_f3_guessing_by_challenge_response(store: StoreKind) {
    let server = start(store, NativeServerOptions::default());
    let started = Instant::now();
    let guess = |secret: &str| {
        server.authenticated_code(
            &delete_request("10.5555/OWNED"),
            KEY,
            ClientKey::SecretKey(secret.as_bytes()),
        )
    };
    let guesses: Vec<u32> = (0..60).map(|number| guess(&format!("guess {number}"))).collect();
    assert_throttled(&guesses, 403, started);
    assert!(server.values("10.5555/OWNED").is_some());
}

/// The clients of messages inside HTTP are found as for all HTTP requests: a trusted proxy reports them, or hides them, and an
/// untrusted one is one client.
fn audit_f3_tunnel_follows_client_address_rules(store: StoreKind) {
    let trust = |trusted_proxies: Vec<IpNet>| ProxyTrust { trusted_proxies, ..ProxyTrust::default() };
    let trusted = trust(vec!["127.0.0.1/32".parse().unwrap()]);
    let guess = |server: &NativeTestServer, header: &str| {
        let message = verification(SecretKeyMac::HmacSha256, "guess");
        let content_type = format!("Content-Type: {}", tunnel::CONTENT_TYPE);
        let request = HttpRequest::new("POST", "/").header(&content_type).header(header).body(message);
        result_of(&request.send(server.http).body)
    };
    let options = NativeServerOptions { proxy_trust: trusted, ..NativeServerOptions::default() };
    let server = start(store, options);
    let started = Instant::now();
    let guesses: Vec<u32> = (0..60).map(|_| guess(&server, "X-Forwarded-For: 192.0.2.1")).collect();
    assert_throttled(&guesses, 0, started);
    assert_eq!(guess(&server, "X-Forwarded-For: 198.51.100.1"), 0, "another client of the proxy");
    // Clients that the proxy hides are not limited together as one client.
    assert!((0..60).all(|_| guess(&server, "X-Forwarded-Proto: https") == 0));
    // The proxy itself is not limited, either.
    assert_eq!(verify(&server, Transport::Tcp, SecretKeyMac::HmacSha256, "guess"), 0);

    let options = NativeServerOptions { proxy_trust: trust(Vec::new()), ..NativeServerOptions::default() };
    let server = start(store, options);
    let started = Instant::now();
    let guesses: Vec<u32> =
        (0..60).map(|number| guess(&server, &format!("X-Forwarded-For: 192.0.2.{number}"))).collect();
    assert_throttled(&guesses, 0, started);
}

/// Handle.Net's library sends SHA-1 at login; it is accepted only with `native.allow_sha1`.
fn sha1_proofs_need_the_setting(store: StoreKind) {
    let refuses = start(store, NativeServerOptions::default());
    assert_eq!(verify(&refuses, Transport::Tcp, SecretKeyMac::Sha1, "secret"), 0);
    let accepts = start(store, NativeServerOptions { allow_sha1: true, ..NativeServerOptions::default() });
    for transport in [Transport::Tcp, Transport::Udp, Transport::Http] {
        assert_eq!(verify(&accepts, transport, SecretKeyMac::Sha1, "secret"), 1);
    }
    assert_eq!(verify(&accepts, Transport::Tcp, SecretKeyMac::Sha1, "guess"), 0);
    assert_eq!(verify(&accepts, Transport::Tcp, SecretKeyMac::Md5, "secret"), 0);
}

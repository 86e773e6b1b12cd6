//! Copies of UDP requests, resent by a client or duplicated by the network, get the reply to the first copy.

use std::net::UdpSocket;

use tendot_proto::auth::{ClientKey, ClientKeyExchange, DhGroup, Session};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::{Fragments, Message, MessageParts, OpFlags, Opcode, Request};
use tendot_testing::handle_keys::private_key;
use tendot_testing::{WAIT_TIMEOUT, auth_context};

use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(copies_of_a_session_setup, copies_of_a_challenge_response, copies_in_a_session);

/// Number of copies, as Handle.Net's client sends.
const COPIES: usize = 4;

fn exchange(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    send_udp(socket, message);
    receive_udp(socket, WAIT_TIMEOUT).expect("no response")
}

/// Sends all copies at once, then some after the first response; asserts that all responses are equal.
#[track_caller]
fn exchange_copies(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    for _ in 1..COPIES {
        send_udp(socket, message);
    }
    let first = exchange(socket, message);
    for _ in 0..COPIES {
        // Or the response to an earlier copy.
        assert!(exchange(socket, message) == first, "the responses differ");
    }
    first
}

fn session_setup(key_exchange: &ClientKeyExchange) -> Vec<u8> {
    let request = Request::SessionSetup(key_exchange.request(None, 60));
    let mut message = Message::request(Opcode::SESSION_SETUP, request, 7, now());
    message.header.flags |= OpFlags::CERTIFY | OpFlags::REQUEST_DIGEST;
    message.to_bytes().unwrap()
}

fn new_key_exchange() -> ClientKeyExchange {
    ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, auth_context!()).unwrap()
}

fn complete(key_exchange: ClientKeyExchange, setup: &[u8], response: &[u8]) -> Session {
    let key = private_key("privkey.bin").public_key().unwrap();
    let (sent, received) = (MessageParts::split(setup).unwrap(), MessageParts::split(response).unwrap());
    key_exchange.complete(&sent, &received, &key, auth_context!()).unwrap()
}

fn copies_of_a_session_setup(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let (socket, key_exchange) = (server.udp_socket(), new_key_exchange());
    let setup = session_setup(&key_exchange);
    let response = exchange_copies(&socket, &setup);
    assert!(Fragments::new(&response).unwrap().len() > 1, "the response has several datagrams");
    complete(key_exchange, &setup, &response);
    assert_eq!(server.request_count("udp", "session_setup", 1), 1);
    // Neither the same message from another client, nor another message with the same request id, is a copy.
    assert_ne!(server.exchange_udp(&setup).unwrap(), response);
    let socket = server.udp_socket();
    let other_key_exchange = new_key_exchange();
    let other_setup = session_setup(&other_key_exchange);
    assert_ne!(exchange(&socket, &setup), response);
    complete(other_key_exchange, &other_setup, &exchange(&socket, &other_setup));
    assert_eq!(server.request_count("udp", "session_setup", 1), 4);
}

/// A challenge accepts one response; copies of it are not further ones.
fn copies_of_a_challenge_response(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let socket = server.udp_socket();
    let mut request = resolution("10.5555/SECRET");
    request.header.flags -= OpFlags::PUBLIC_ONLY;
    let request = request.to_bytes().unwrap();
    let challenge = exchange_copies(&socket, &request);
    assert_eq!(response_code(&challenge), 402);
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let proof = challenge_response(&request, &challenge, SERVER_ADMIN, ClientKey::PrivateKey(&*key), 8);
    // Late responses to copies of the request do not arrive here.
    let socket = server.udp_socket();
    assert_eq!(response_code(&exchange_copies(&socket, &proof)), 1);
    assert_eq!(response_code(&server.exchange_udp(&proof).unwrap()), 405, "not a copy, but a replay");
}

/// Copies are not rejected as replayed messages.
fn copies_in_a_session(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let key_exchange = new_key_exchange();
    let setup = session_setup(&key_exchange);
    let mut session = complete(key_exchange, &setup, &server.exchange_udp(&setup).unwrap());
    let mut request = resolution("10.5555/ONE");
    request.envelope.session_id = session.id();
    request.header.flags |= OpFlags::CERTIFY;
    let mut request = request.to_bytes().unwrap();
    session.add_mac(&mut request, auth_context!()).unwrap();
    assert_eq!(response_code(&exchange_copies(&server.udp_socket(), &request)), 1);
    assert_eq!(response_code(&server.exchange_udp(&request).unwrap()), 505, "not a copy, but a replay");
}

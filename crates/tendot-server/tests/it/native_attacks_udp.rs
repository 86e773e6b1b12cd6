//! Attacks U1–U9 over UDP: datagrams with forged senders cause no amplification, memory use or writes.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use tendot_proto::auth::ClientKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Transport;
use tendot_proto::{Fragments, HandleValue, Message, OpFlags, Opcode, Request};
use tendot_server::http::Rate;
use tendot_server::native::{AmplificationLimits, NativeRateLimits};
use tendot_testing::handle_keys::private_key;
use tendot_testing::{WAIT_TIMEOUT, repetitions, wait_until};

use crate::support::native_server::*;

/// Ten datagrams per second and client, loopback included.
fn strict_limits() -> NativeServerOptions {
    let rates = NativeRateLimits {
        datagrams: Rate { per_second: 10, burst: 20 },
        cpu_per_second: Duration::from_millis(20),
        limit_loopback: true,
        exempt: Vec::new(),
    };
    NativeServerOptions { rates: Some(rates), ..unlimited() }
}

/// No rate limits; the amplification limit holds for loopback, too.
fn unlimited() -> NativeServerOptions {
    let amplification = AmplificationLimits { limit_loopback: true, ..AmplificationLimits::default() };
    NativeServerOptions { amplification, ..NativeServerOptions::default() }
}

#[test]
fn attack_u1_large_responses_to_many_requests() {
    let server = NativeTestServer::start(strict_limits());
    let large_values = (1..=50).map(|index| HandleValue::new(index, "DESC", "x".repeat(1_000))).collect();
    server.put("10.5555/LARGE", large_values);
    let large_request = resolution("10.5555/LARGE").to_bytes().unwrap();
    let socket = server.udp_socket();
    for _ in 0..500 {
        socket.send(&large_request).unwrap();
    }
    wait_until("500 responses were replaced", || server.dropped("unverified") >= 500);
    while receive_udp(&socket, Duration::from_millis(100)).is_some() {}
    // Responses of at most three times the size of the request are never dropped. The first response is to the first of these
    // requests: there was none to the 500 before.
    let mut small_request = resolution("10.5555/NONE");
    for number in 1_000..1_100 {
        small_request.envelope.request_id = number;
        let small_request = small_request.to_bytes().unwrap();
        socket.send(&small_request).unwrap();
        let response = receive_udp(&socket, WAIT_TIMEOUT).unwrap();
        assert_eq!(response[8..12], number.to_be_bytes());
        assert!(response.len() <= 3 * small_request.len());
    }
    // A TCP connection proves the client's address: it gets responses of any size.
    assert_eq!(server.code(Transport::Tcp, &resolution("10.5555/LARGE")), 1);
    wait_until("the address has used its rate and gets it back", || {
        socket.send(&large_request).unwrap();
        receive_udp(&socket, Duration::from_millis(500)).is_some_and(|response| response.len() > 50_000)
    });
}

/// An address that has not proved itself gets 1,600 bytes at most for one request, and an error instead of more.
#[test]
fn audit_f6_amplification_by_one_request() {
    let server = NativeTestServer::start(strict_limits());
    let values_of = |bytes: usize| vec![HandleValue::new(1, "DESC", "x".repeat(bytes))];
    server.put("10.5555/SMALL", values_of(1_200));
    server.put("10.5555/LARGE", values_of(1_600));
    let exchange = |name: &str| server.exchange_udp(&resolution(name).to_bytes().unwrap()).unwrap();
    let small = exchange("10.5555/SMALL");
    assert_eq!((response_code(&small), small.len() > 1_200), (1, true));
    let request = resolution("10.5555/LARGE").to_bytes().unwrap();
    let large = exchange("10.5555/LARGE");
    assert_eq!((response_code(&large), &*error_message(&large)), (2, "response too large for UDP; use TCP"));
    assert!(large.len() <= 3 * request.len(), "{}", large.len());
    assert_eq!(large[8..12], request[8..12], "the client takes it for the response to its request");
    assert_eq!(server.code(Transport::Tcp, &resolution("10.5555/LARGE")), 1);
}

/// The amplification limit does not depend on the rate limits: it holds without them, and for exempt networks.
#[test]
fn audit_f6_amplification_without_rate_limits() {
    let exempt =
        NativeRateLimits { exempt: vec!["127.0.0.0/8".parse().unwrap()], ..strict_limits().rates.unwrap() };
    for rates in [None, Some(exempt)] {
        let server = NativeTestServer::start(NativeServerOptions { rates, ..unlimited() });
        server.put("10.5555/LARGE", vec![HandleValue::new(1, "DESC", "x".repeat(1_600))]);
        let request = resolution("10.5555/LARGE").to_bytes().unwrap();
        assert_eq!(response_code(&server.exchange_udp(&request).unwrap()), 2);
        // A client that connects gets it over UDP, too.
        assert_eq!(server.code(Transport::Tcp, &resolution("10.5555/LARGE")), 1);
        assert_eq!(response_code(&server.exchange_udp(&request).unwrap()), 1);
    }
}

/// A network gets 16,000 bytes or three times what it sent in ten seconds, and each request an answer.
#[test]
fn audit_f6_amplification_by_many_requests() {
    let server = NativeTestServer::start(NativeServerOptions {
        rates: Some(NativeRateLimits {
            datagrams: Rate { per_second: 1_000_000, burst: 1_000_000 },
            ..strict_limits().rates.unwrap()
        }),
        ..unlimited()
    });
    server.put("10.5555/MEDIUM", vec![HandleValue::new(1, "DESC", "x".repeat(1_200))]);
    let request = resolution("10.5555/MEDIUM").to_bytes().unwrap();
    let [mut sent, mut received] = [0; 2];
    for host in 1..=200 {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).unwrap();
        socket.connect(server.native).unwrap();
        sent += socket.send(&request).unwrap();
        let response = receive_udp(&socket, WAIT_TIMEOUT).unwrap();
        let datagrams = (response.len() - 20).div_ceil(492);
        received += response.len() + 20 * (datagrams - 1);
        assert!(received <= (3 * sent).max(16_000), "{received} bytes for {sent}");
    }
    assert!(received > 16_000, "{received}");
}

/// Responses to a flood of requests are in sum smaller than three times the requests.
#[test]
fn attack_u1_sustained_amplification() {
    let server = NativeTestServer::start(strict_limits());
    let request = resolution("10.5555/MULTI").to_bytes().unwrap();
    let socket = server.udp_socket();
    let (mut sent, mut received, started) = (0, 0, Instant::now());
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 1024];
    let duration = Duration::from_secs(repetitions("TENDOT_TEST_AMPLIFICATION_SECONDS", 1, 10));
    while started.elapsed() < duration || sent < 50_000 || received == 0 {
        assert!(started.elapsed() < WAIT_TIMEOUT, "{sent} {received}");
        for _ in 0..2 {
            sent += socket.send(&request).unwrap();
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            received += length;
        }
        // About 2,000 requests per second: the allowance refills with time.
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(received < 3 * sent, "{received} bytes for {sent}");
}

#[test]
fn attack_u3_first_fragments() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let types: Vec<&[u8]> = vec![b"0123456789"; 10_000];
    let request = selection("10.5555/ONE", &[], &types[..]);
    let mut long_message = request.to_bytes().unwrap();
    let socket = server.udp_socket();
    // Each of them announces 100 kB; the reassembly table holds some hundred.
    let flood = u32::try_from(repetitions("TENDOT_TEST_FRAGMENTS", 20_000, 100_000)).unwrap();
    for number in 0..flood {
        long_message[8..12].copy_from_slice(&number.to_be_bytes());
        let first = Fragments::new(&long_message).unwrap().next().unwrap();
        let _ = socket.send(&first);
    }
    // With retries, as clients do: the socket buffer of the server may have been full.
    let retry = |request: &Message<'_>| {
        let request = request.to_bytes().unwrap();
        (0..120).find_map(|_| {
            let socket = server.udp_socket();
            send_udp(&socket, &request);
            receive_udp(&socket, Duration::from_millis(500)).map(|response| response_code(&response))
        })
    };
    assert_eq!(retry(&resolution("10.5555/ONE")), Some(1));
    // Other requests of several datagrams are still reassembled.
    let request = selection("10.5555/ONE", &[], &types[..90]);
    assert_eq!(retry(&request), Some(200));
}

#[test]
fn attack_u4_u5_inconsistent_fragments() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let types: Vec<&[u8]> = vec![b"URL"; 200];
    let request = selection("10.5555/ONE", &[], &types[..]);
    let message = request.to_bytes().unwrap();
    let datagrams: Vec<Vec<u8>> =
        Fragments::new(&message).unwrap().map(|datagram| datagram.to_vec()).collect();
    let [one, two, three] = &datagrams[..] else { panic!("{}", datagrams.len()) };
    let patched = |datagram: &[u8], at: usize, bytes: &[u8]| {
        let mut datagram = datagram.to_vec();
        datagram[at..at + bytes.len()].copy_from_slice(bytes);
        datagram
    };
    let accepted = |datagrams: &[&[u8]]| {
        let socket = server.udp_socket();
        for datagram in datagrams {
            socket.send(datagram).unwrap();
        }
        let response = receive_udp(&socket, WAIT_TIMEOUT).unwrap();
        assert_eq!(response_code(&response), 1);
    };
    let rejected = |datagrams: &[&[u8]]| server.assert_no_udp_reply(&server.udp_socket(), datagrams);
    accepted(&[three, one, two]);
    accepted(&[one, one, two, two, three]);
    rejected(&[one, two]);
    let past_the_end = patched(three, 12, &3_u32.to_be_bytes());
    rejected(&[one, two, &past_the_end, three]);
    let far_past_the_end = patched(three, 12, &u32::MAX.to_be_bytes());
    rejected(&[one, two, &far_past_the_end]);
    let other_length = patched(two, 16, &5_000_u32.to_be_bytes());
    rejected(&[one, &other_length, three]);
    rejected(&[&one[..400], two, three]);
    let other_version = patched(two, 0, &[2, 10]);
    rejected(&[one, &other_version, three]);
    // From two clients with the same request number.
    let (first, second) = (server.udp_socket(), server.udp_socket());
    first.send(one).unwrap();
    server.assert_no_udp_reply(&second, &[two]);
    server.assert_no_udp_reply(&first, &[three]);
    first.send(two).unwrap();
    assert_eq!(receive_udp(&first, WAIT_TIMEOUT).map(|response| response_code(&response)), Some(1));
    assert!(server.dropped("malformed") >= 3);
}

#[test]
fn attack_u6_no_reply_to_responses() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let request = resolution("10.5555/ONE").to_bytes().unwrap();
    let response = server.exchange_udp(&request).unwrap();
    server.assert_no_udp_reply(&server.udp_socket(), &[&response]);
    assert_eq!(server.dropped("not_a_request"), 1);
    // From the port of another server, which would reply to the response.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let other = UdpSocket::bind((Ipv4Addr::new(127, high, low, 77), 2641)).unwrap();
    other.connect(server.native).unwrap();
    other.send(&request).unwrap();
    wait_until("the datagram was dropped", || server.dropped("source_port") == 1);
    other.set_nonblocking(true).unwrap();
    assert!(other.recv(&mut [0; 1024]).is_err());
}

#[test]
fn attack_u7_administration_over_udp() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let before = server.change_count();
    let values = [url_value(1, "https://example.org/")];
    let no_operand = Request::NoOperand { handle: None };
    for request in [
        create_request("10.5555/U7", &values),
        values_request(Opcode::ADD_VALUE, "10.5555/U7", &values),
        values_request(Opcode::MODIFY_VALUE, "10.5555/U7", &values),
        delete_request("10.5555/ONE"),
        handle_request(Opcode::LIST_HANDLES, "10.5555/ONE"),
        handle_request(Opcode::HOME_PREFIX, "0.NA/10.5560"),
        handle_request(Opcode::UNHOME_PREFIX, "0.NA/10.5555"),
        Message::request(Opcode::LIST_HOMED_PREFIXES, no_operand, 7, now()),
    ] {
        let request = request.to_bytes().unwrap();
        let response = server.exchange_udp(&request).unwrap();
        let rejection = (4, "admin operations are not accepted over UDP; use TCP or HTTP");
        assert_eq!((response_code(&response), &*error_message(&response)), rejection);
        assert!(response.len() <= 3 * request.len());
    }
    // A challenge is small.
    let request = restricted_request().to_bytes().unwrap();
    let response = server.exchange_udp(&request).unwrap();
    assert_eq!(response_code(&response), 402);
    assert!(response.len() <= 3 * request.len());
    assert_eq!(server.change_count(), before);
}

#[test]
fn attack_u8_flood_of_challenges() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let request = delete_request("10.5555/ONE").to_bytes().unwrap();
    let challenge = server.exchange(Transport::Tcp, &request).remove(0);
    let (socket, mut flood, mut number) = (server.udp_socket(), restricted_request(), 0);
    // More challenges than the table holds.
    while server.request_count("udp", "resolve", 402) <= 10_000 {
        for _ in 0..16 {
            for _ in 0..64 {
                flood.envelope.request_id = number;
                let _ = socket.send(&flood.to_bytes().unwrap());
                number += 1;
            }
            // Paced by the responses; some datagrams may have been dropped.
            (0..64).all(|_| receive_udp(&socket, Duration::from_millis(300)).is_some());
        }
        assert!(number < 1_000_000, "too few challenges are issued");
    }
    // The challenge of a client that has proved its address by TCP is still in the table.
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let credentials = ClientKey::PrivateKey(&*key);
    let proof = challenge_response(&request, &challenge, SERVER_ADMIN, credentials, 8);
    assert_eq!(server.code_for_bytes(Transport::Tcp, &proof), 1);
}

/// One client can't fill the table of challenges, also not over TCP.
#[test]
fn attack_u8_challenges_of_one_client() {
    let server = NativeTestServer::start(strict_limits());
    let request = delete_request("10.5555/ONE").to_bytes().unwrap();
    // Concurrently: on a busy machine the allowance refills as fast as one connection uses it up.
    let codes: Vec<u32> = std::thread::scope(|scope| {
        let send =
            || -> Vec<u32> { (0..200).map(|_| server.code_for_bytes(Transport::Tcp, &request)).collect() };
        let clients = [(); 8].map(|()| scope.spawn(send));
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let challenges = codes.iter().filter(|code| **code == 402).count();
    assert!((20..codes.len()).contains(&challenges), "{challenges}");
    assert!(codes.iter().all(|code| matches!(code, 402 | 3)), "{codes:?}");
}

#[test]
fn attack_u9_signatures() {
    let server = NativeTestServer::start(strict_limits());
    let mut request = resolution("10.5555/ONE");
    request.header.flags |= OpFlags::CERTIFY;
    let socket = server.udp_socket();
    // On a busy machine the queue overflows before the allowance is used up, so the flood goes on until both have happened.
    wait_until("most requests were dropped, some for the CPU limit", || {
        for _ in 0..200 {
            // Copies of a request would get the reply to the first.
            request.envelope.request_id += 1;
            let _ = socket.send(&request.to_bytes().unwrap());
        }
        server.dropped("cpu_limit") > 0 && server.dropped("cpu_limit") + server.dropped("overloaded") > 1_000
    });
    // A signature costs 600 steps of an allowance of 20 milliseconds per second: two seconds' worth, plus the requests in
    // flight when the allowance was used up.
    let signed = server.request_count("udp", "resolve", 1);
    assert!((20..600).contains(&signed), "{signed}");
    let request = request.to_bytes().unwrap();
    assert_eq!(server.code_for_bytes(Transport::Tcp, &request), 3, "TCP clients get an error");
    wait_until("the allowance has refilled", || server.code_for_bytes(Transport::Tcp, &request) == 1);
}

/// A request for all values, also those that are not public.
fn restricted_request() -> Message<'static> {
    let mut request = resolution("10.5555/SECRET");
    request.header.flags -= OpFlags::PUBLIC_ONLY;
    request
}

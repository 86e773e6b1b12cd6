//! Lookups in a simulated network: transports, retransmission, dead sites, changes, sessions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tendot_proto::lookup::{
    AttemptError, ConnectionError, Lookup, LookupConfig, LookupErrorKind, LookupEvent, LookupRequest,
    LookupResponse, RttEstimates, ServerTarget,
};
use tendot_proto::message::{KeyExchangeMode, SessionKeyMaterial, SessionSetup};
use tendot_proto::record::{InterfaceProtocol, Site, SiteAttribute};
use tendot_proto::wire::WireList;
use tendot_proto::{Handle, HandleValue, OpFlags, Opcode, Request, ResponseCode};
use tendot_testing::SeededRng;

use super::simulated_network::*;

#[test]
fn resolves() {
    let (mut network, config) = small_network();
    let response = network.resolve(&config, "10.1/x").unwrap();
    assert_eq!(values(&response), urls(2));
    assert_eq!(response.transport, InterfaceProtocol::UDP);
    assert_eq!(network.messages.len(), 2);
    assert!(network.now_ms < 100);
}

#[test]
fn falls_back_to_tcp() {
    let (mut network, config) = small_network();
    for server in network.servers.values_mut() {
        server.loss_percent = 100;
    }
    let response = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(values(&response), urls(2));
    assert_eq!(response.transport, InterfaceProtocol::TCP);
    // After three datagrams to the root without a response, every server is queried over TCP.
    use InterfaceProtocol as T;
    assert_eq!(network.transports, [T::UDP, T::UDP, T::UDP, T::TCP, T::TCP]);
    assert!((3000..4000).contains(&network.now_ms), "{}", network.now_ms);
}

#[test]
fn resolves_over_http() {
    let (mut network, config) = small_network();
    let config = Arc::new(LookupConfig { transports: vec![InterfaceProtocol::HTTP], ..(*config).clone() });
    let response = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!((values(&response), response.from.port()), (urls(2), 8000));
}

#[test]
fn skips_dead_site() {
    for dead in ["192.0.2.11", "192.0.2.12"] {
        let (mut network, config) = small_network();
        network.servers.remove(&dead.parse().unwrap());
        let response = network.resolve(&config, "10.1/X").unwrap();
        assert_eq!(values(&response), urls(2));
        assert!(network.now_ms < 600, "{} ms", network.now_ms);
    }
}

#[test]
fn no_server_responds() {
    let (mut network, config) = small_network();
    network.servers.remove(&"192.0.2.1".parse().unwrap());
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::TimedOut, &b"0.NA/10.1"[..]));
    let output = error.to_string();
    assert!(output.starts_with("0.NA/10.1: timed out; 192.0.2.1:2641 over UDP: no response; "), "{output}");

    let (mut network, config) = small_network();
    for server in network.servers.values_mut() {
        (server.loss_percent, server.tcp) = (100, TcpBehavior::Refuses);
    }
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::NoUsableResponse);
    let unreachable = AttemptError::Connection(ConnectionError::Unreachable);
    assert_eq!(error.attempts.iter().filter(|attempt| attempt.error == unreachable).count(), 2);
}

#[test]
fn response_codes() {
    let (mut network, config) = small_network();
    let response = network.resolve(&config, "10.1/Y").unwrap();
    assert_eq!(response.message().unwrap().header.response_code, ResponseCode::HANDLE_NOT_FOUND);

    // After an internal error the next site is queried; every other code is a result.
    for failing in ["192.0.2.11", "192.0.2.12"] {
        let (mut network, config) = small_network();
        network.server(failing).fault = Fault::ResponseCode(ResponseCode::ERROR);
        assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));
    }
    let (mut network, config) = small_network();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).fault = Fault::ResponseCode(ResponseCode::SERVER_NOT_RESPONSIBLE);
    }
    let response = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(response.message().unwrap().header.response_code, ResponseCode::SERVER_NOT_RESPONSIBLE);
}

#[test]
fn unknown_prefix_is_confirmed_by_the_primary() {
    let (mut network, config) = small_network();
    let error = network.resolve(&config, "10.2/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::ServiceNotFound, &b"0.NA/10.2"[..]));
    assert_eq!(network.server("192.0.2.1").request_count, 2);
    // Without a primary site, the mirror's response is final.
    let mirror = Site { flags: 0, ..site(&["192.0.2.1"]) };
    let config = Arc::new(LookupConfig { root_sites: vec![Arc::new(mirror)], ..(*config).clone() });
    let error = network.resolve(&config, "10.2/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ServiceNotFound);
}

#[test]
fn response_fragments_in_any_order() {
    for seed in 0..50 {
        let (mut network, config) = small_network();
        network.random = SeededRng::new(seed);
        network.reverse_order = seed == 0;
        for address in ["192.0.2.11", "192.0.2.12"] {
            let server = network.server(address);
            server.records.insert("10.1/X".into(), urls(200));
            (server.max_delay_ms, server.duplicate_percent) = (if seed == 0 { 0 } else { 200 }, 30);
        }
        let response = network.resolve(&config, "10.1/X").unwrap();
        assert_eq!((values(&response), response.transport), (urls(200), InterfaceProtocol::UDP));
    }
}

/// A handle so long that the request needs several datagrams.
#[test]
fn request_in_fragments() {
    let (mut network, config) = small_network();
    let name = format!("10.1/{}", "X".repeat(2000));
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).records.insert(name.clone(), urls(1));
    }
    let response = network.resolve(&config, &name).unwrap();
    assert_eq!((values(&response), response.transport), (urls(1), InterfaceProtocol::UDP));
    assert_eq!(network.messages.len(), 2);
}

#[test]
fn server_is_selected_by_hash() {
    let (mut network, config) = small_network();
    let addresses = ["192.0.2.31", "192.0.2.32", "192.0.2.33"];
    network.server("192.0.2.1").records.insert("0.NA/10.1000".into(), vec![site_value(1, &addresses)]);
    network.server("192.0.2.33").records.insert("10.1000/1".into(), urls(1));
    network.server("192.0.2.32").records.insert("10.1000/ABC".into(), urls(2));
    assert_eq!(values(&network.resolve(&config, "10.1000/1").unwrap()), urls(1));
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "10.1000/abc").unwrap()), urls(2));
}

#[test]
fn changes_go_to_the_primary_over_tcp() {
    let (mut network, config) = small_network();
    let mirror = Site { flags: 0, ..site(&["192.0.2.11"]) }.to_bytes();
    let sites = vec![HandleValue::with_data(1, "HS_SITE", mirror), site_value(2, &["192.0.2.12"])];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), sites);
    let handle = Handle::from("10.1/X");
    let lookup = Lookup::new(Arc::clone(&config), delete_request(), network.now());
    let (response, _) = network.run(lookup, &config);
    let response = response.unwrap();
    assert_eq!(
        (response.transport, response.from.to_string()),
        (InterfaceProtocol::TCP, "192.0.2.12:2641".into())
    );
    assert_eq!(
        (network.server("192.0.2.11").request_count, network.server("192.0.2.12").request_count),
        (0, 1)
    );

    // And so do authoritative requests.
    let flags = OpFlags::DEFAULT | OpFlags::AUTHORITATIVE;
    let lookup_request = LookupRequest::resolve(handle, &[], &[]).with_flags(flags);
    let lookup = Lookup::new(Arc::clone(&config), lookup_request, network.now());
    network.messages.clear();
    let response = network.run(lookup, &config).0.unwrap();
    assert_eq!(response.from.to_string(), "192.0.2.12:2641");
}

/// A request that is not idempotent goes to one server, unless that one certainly did not receive it.
#[test]
fn changes_are_not_retransmitted() {
    let run = |network: &mut SimulatedNetwork, config: &Arc<LookupConfig>, lookup_request: &LookupRequest| {
        let lookup = Lookup::new(Arc::clone(config), lookup_request.clone(), network.now());
        let result = network.run(lookup, config).0;
        let request_counts =
            ["192.0.2.11", "192.0.2.12"].map(|address| network.server(address).request_count);
        (result, request_counts.iter().sum::<usize>())
    };
    for lookup_request in [delete_request(), session_request()] {
        // No valid response; which server comes first is random.
        for (tcp, fault) in [
            (TcpBehavior::Silent, Fault::None),
            (TcpBehavior::Accepts, Fault::Expired),
            (TcpBehavior::Accepts, Fault::RequestId),
        ] {
            let (mut network, config) = small_network();
            for address in ["192.0.2.11", "192.0.2.12"] {
                (network.server(address).tcp, network.server(address).fault) = (tcp, fault.clone());
            }
            let (result, request_count) = run(&mut network, &config, &lookup_request);
            let error = result.unwrap_err();
            assert_eq!((error.kind, error.attempts.len()), (LookupErrorKind::InDoubt, 1), "{error}");
            assert_eq!(request_count, usize::from(tcp == TcpBehavior::Accepts));
        }
        let (mut network, config) = small_network();
        for address in ["192.0.2.11", "192.0.2.12"] {
            network.server(address).fault = Fault::ResponseCode(ResponseCode::ERROR);
        }
        let (result, request_count) = run(&mut network, &config, &lookup_request);
        assert_eq!(result.unwrap().message().unwrap().header.response_code, ResponseCode::ERROR);
        assert_eq!(request_count, 1);

        for refusing in ["192.0.2.11", "192.0.2.12"] {
            let (mut network, config) = small_network();
            network.server(refusing).tcp = TcpBehavior::Refuses;
            let (result, request_count) = run(&mut network, &config, &lookup_request);
            assert_eq!((result.unwrap().transport, request_count), (InterfaceProtocol::TCP, 1));
        }
    }
}

/// Sessions are set up over TCP; over UDP, if configured, by one message to one server.
#[test]
fn session_setup_over_udp() {
    for (lookup_request, allow_single_shot_udp, expected) in [
        (session_request(), false, InterfaceProtocol::TCP),
        (session_request(), true, InterfaceProtocol::UDP),
        (delete_request(), true, InterfaceProtocol::TCP),
    ] {
        let (mut network, config) = small_network();
        let config = Arc::new(LookupConfig { allow_single_shot_udp, ..(*config).clone() });
        let lookup = Lookup::new(Arc::clone(&config), lookup_request, network.now());
        assert_eq!(network.run(lookup, &config).0.unwrap().transport, expected);
    }
    let (mut network, config) = small_network();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).loss_percent = 100;
    }
    let config = Arc::new(LookupConfig { allow_single_shot_udp: true, ..(*config).clone() });
    let lookup = Lookup::new(Arc::clone(&config), session_request(), network.now());
    let error = network.run(lookup, &config).0.unwrap_err();
    assert_eq!((error.kind, error.attempts.len()), (LookupErrorKind::InDoubt, 1), "{error}");
    assert_eq!(network.transports, [InterfaceProtocol::UDP; 2], "one to the root, one to a site");
    assert!((3000..3100).contains(&network.now_ms), "{}", network.now_ms);
}

fn delete_request() -> LookupRequest {
    let handle = Handle::from("10.1/X");
    LookupRequest::new(handle, Opcode::DELETE_HANDLE, &Request::HandleOnly { handle })
}

fn session_request() -> LookupRequest {
    let setup = SessionSetup {
        mode: KeyExchangeMode::DIFFIE_HELLMAN,
        timeout: 60,
        identity_handle: Handle::from(""),
        identity_index: SessionSetup::ANONYMOUS_INDEX,
        key: SessionKeyMaterial::PublicKey(b"key"),
    };
    LookupRequest::new(Handle::from("10.1/X"), Opcode::SESSION_SETUP, &Request::SessionSetup(setup))
}

#[test]
fn list_in_several_messages() {
    let (mut network, config) = small_network();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).fault = Fault::List(3);
    }
    let handle = Handle::from("0.NA/10.1");
    let request = Request::HandleOnly { handle };
    let lookup_request = LookupRequest::new(Handle::from("10.1/X"), Opcode::LIST_HANDLES, &request);
    let lookup = Lookup::new(Arc::clone(&config), lookup_request, network.now());
    let (response, events) = network.run(lookup, &config);
    assert!(response.is_ok());
    assert_eq!(events.iter().filter(|event| matches!(event, LookupEvent::PartialResponse(_))).count(), 2);
}

#[test]
fn server_with_domain_name() {
    let (mut network, config) = small_network();
    let attribute = |name: &'static str, value: &'static str| SiteAttribute {
        name: name.as_bytes().into(),
        value: value.as_bytes().into(),
    };
    let attributes = vec![attribute("domain", "one.example.org"), attribute("path", "/handles")];
    let named = Site { attributes, ..site(&["0.0.0.0"]) };
    let prefix_values = vec![HandleValue::with_data(1, "HS_SITE", named.to_bytes())];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), prefix_values);
    network.domains.insert("one.example.org".into(), vec!["192.0.2.12".parse().unwrap()]);
    let response = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!((values(&response), response.from.ip().to_string()), (urls(2), "192.0.2.12".into()));
    network.domains.clear();
    network.messages.clear();
    assert_eq!(network.resolve(&config, "10.1/X").unwrap_err().kind, LookupErrorKind::NoUsableSite);
}

/// Round-trip time estimates may be the largest possible duration.
#[test]
fn maximum_rtt_estimates() {
    #[derive(Debug)]
    struct MaxRtt;
    impl RttEstimates for MaxRtt {
        fn rtt(&self, _: IpAddr) -> Option<Duration> {
            Some(Duration::MAX)
        }
    }

    let (mut network, config) = small_network();
    let config = Arc::new(LookupConfig { rtt_estimates: Some(Arc::new(MaxRtt)), ..(*config).clone() });
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));
}

/// `Debug` output ends in logs, so it has no bytes of messages.
#[test]
fn debug_output_has_no_secrets() {
    let (mut network, config) = small_network();
    let handle = Handle::from("0.NA/10.1");
    // A request that contains a secret key.
    let secret = [HandleValue::new(3, "HS_SECKEY", "opensesame")];
    let request = Request::WriteValues { handle, values: WireList::from(&secret[..]) };
    let lookup_request = LookupRequest::new(handle, Opcode::CREATE_HANDLE, &request);
    let mut output = format!("{lookup_request:?}");
    let mut lookup = Lookup::new(config, lookup_request, network.now());
    output += &format!("{lookup:?}");
    let sent = lookup.poll_transmit(network.now(), &mut SeededRng::new(1)).unwrap();
    assert!(sent.bytes.windows(10).any(|window| window == b"opensesame"));
    output += &format!("{sent:?}{lookup:?}");
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), secret.to_vec());
    let (bytes, transport, from) = (sent.bytes, sent.transport, sent.to);
    let server = ServerTarget { site: Arc::default(), server_index: 0, ip: from.ip() };
    let response = LookupResponse { bytes, transport, from, server };
    output += &format!("{response:?}{:?}", LookupEvent::Finished(response.clone()));
    let secret = format!("{:?}", b"opensesame");
    let secret = secret.trim_matches(['[', ']']);
    assert!(!output.contains(secret) && !output.contains("opensesame"), "{output}");
    assert!(output.contains("0.NA/10.1") && output.contains("192.0.2.1:2641"), "{output}");
}

/// The second address of a server is used; IPv6 and IPv4 alternate.
#[test]
fn address_families_alternate() {
    let (mut network, config) = small_network();
    let config = Arc::new(LookupConfig { ipv6: true, ..(*config).clone() });
    let attributes = vec![SiteAttribute { name: b"alt_addr"[..].into(), value: b"2001:db8::12"[..].into() }];
    let both = Site { attributes, ..site(&["192.0.2.12"]) };
    let prefix_values = vec![HandleValue::with_data(1, "HS_SITE", both.to_bytes())];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), prefix_values);
    let response = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(response.from.ip().to_string(), "192.0.2.12");
    assert!((300..400).contains(&network.now_ms), "{}", network.now_ms);
    *network.server("2001:db8::12") = network.server("192.0.2.12").clone();
    network.messages.clear();
    let response = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(response.from.ip().to_string(), "2001:db8::12");
}

#[test]
fn cached_sites_are_used() {
    let (mut network, config) = small_network();
    let lookup_request = LookupRequest::resolve(Handle::from("10.1/X"), &[], &[]);
    let lookup = Lookup::new(Arc::clone(&config), lookup_request.clone(), network.now());
    let (_, events) = network.run(lookup, &config);
    let located = events.into_iter().find_map(|event| match event {
        LookupEvent::SitesLocated { prefix_handle, sites, expires_at } => {
            Some((prefix_handle, sites, expires_at))
        }
        _ => None,
    });
    let (prefix_handle, sites, expires_at) = located.unwrap();
    assert_eq!(
        (&prefix_handle[..], sites.len(), expires_at),
        (&b"0.NA/10.1"[..], 2, START_UNIX_SECS + 86_400)
    );

    network.servers.remove(&"192.0.2.1".parse().unwrap());
    network.messages.clear();
    let lookup = Lookup::with_sites(Arc::clone(&config), lookup_request, sites.clone(), network.now());
    assert_eq!(values(&network.run(lookup, &config).0.unwrap()), urls(2));
    assert_eq!(network.messages.len(), 1);

    let prefix_overrides = BTreeMap::from([(b"10.1".to_vec(), sites)]);
    let config = Arc::new(LookupConfig { prefix_overrides, ..(*config).clone() });
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));
}

//! Lookups against invalid responses and hostile records: correct or failed, always within the limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use tendot_proto::lookup::{AttemptError, Lookup, LookupConfig, LookupErrorKind, LookupEvent, LookupRequest};
use tendot_proto::message::ResponseMismatch;
use tendot_proto::record::{Site, SiteAttribute, SiteServer};
use tendot_proto::{Handle, HandleValue, ResponseCode};
use tendot_testing::{SeededRng, repetitions};

use super::simulated_network::*;

/// An invalid response of one site is rejected, and the other site is queried.
#[test]
fn invalid_responses_are_skipped() {
    for fault in [Fault::RequestId, Fault::SourcePort, Fault::OtherHandle, Fault::Expired] {
        for faulty in ["192.0.2.11", "192.0.2.12"] {
            let (mut network, config) = small_network();
            network.server(faulty).fault = fault.clone();
            let response = network.resolve(&config, "10.1/X").unwrap();
            assert_eq!(values(&response), urls(2));
            assert_ne!(response.from.ip().to_string(), faulty);
        }
    }
}

/// If both sites send invalid responses, the error gives the reasons.
#[test]
fn attack_c6_and_c7_only_invalid_responses() {
    check_attempt_errors(Fault::OtherHandle, |error| *error == AttemptError::WrongHandle);
    check_attempt_errors(Fault::Expired, |error| {
        matches!(error, AttemptError::Mismatch(ResponseMismatch::Expired { late: 1, .. }))
    });
    // Over UDP such responses are ignored; over TCP they are an error.
    check_attempt_errors(Fault::RequestId, |error| {
        matches!(error, AttemptError::Mismatch(ResponseMismatch::RequestId { .. }) | AttemptError::NoResponse)
    });
    let (mut network, config) = small_network();
    for address in ["192.0.2.11", "192.0.2.12"] {
        (network.server(address).fault, network.server(address).tcp) =
            (Fault::SourcePort, TcpBehavior::Refuses);
    }
    assert_eq!(network.resolve(&config, "10.1/X").unwrap_err().kind, LookupErrorKind::NoUsableResponse);
}

#[track_caller]
fn check_attempt_errors(fault: Fault, expected: impl Fn(&AttemptError) -> bool) {
    let (mut network, config) = small_network();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).fault = fault.clone();
    }
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::NoUsableResponse, &b"10.1/X"[..]));
    assert!(error.attempts.iter().all(|attempt| expected(&attempt.error)), "{error}");
}

/// Each of forty referrals names 63 servers by domain name only: the number of DNS lookups is limited.
#[test]
fn attack_c6_dns_lookup_limit() {
    let (mut network, config) = small_network();
    for number in 0..60_u32 {
        let named = (0..63).map(|other| {
            let domain = format!("{other}.{number}.example.org").into_bytes();
            let attributes = vec![SiteAttribute { name: b"domain"[..].into(), value: domain.into() }];
            let servers = vec![SiteServer { id: other, ..site(&["0.0.0.0"]).servers.remove(0) }];
            HandleValue::with_data(other + 2, "HS_SITE", Site { attributes, servers, ..site(&[]) }.to_bytes())
        });
        let next = site_value(1, &[&format!("203.0.113.{}", number + 1)]);
        let values = [next].into_iter().chain(named).collect();
        let server = network.server(&format!("203.0.113.{number}"));
        server.fault = Fault::Referral(ResponseCode::SERVICE_REFERRAL, "", values);
    }
    let root = network.server("192.0.2.1");
    root.records.insert("0.NA/10.3".into(), vec![site_value(1, &["203.0.113.0"])]);
    let error = network.resolve(&config, "10.3/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ReferralLimit { max: 40 });
    assert_eq!(network.dns_lookup_count, 8);
}

/// A record cannot lead into a private network unless the configuration allows it.
#[test]
fn records_lead_to_public_addresses_only() {
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "fe80::1", "fc00::1"] {
        check_private(address, address);
    }
    // IPv4 embedded in IPv6; the first address is where packets would arrive.
    check_private("127.0.0.1", "::ffff:127.0.0.1");
    check_private("64:ff9b::7f00:1", "64:ff9b::127.0.0.1");
}

#[track_caller]
fn check_private(address: &str, written: &str) {
    let attribute = |name: &'static str, value: &str| {
        vec![SiteAttribute { name: name.as_bytes().into(), value: value.as_bytes().to_vec().into() }]
    };
    let (mut network, config) = small_network();
    let config = LookupConfig { ipv6: true, ..(*config).clone() };
    network.domains.insert("one.example.org".into(), vec![written.parse().unwrap()]);
    // ::1 in the address field of a site is 0.0.0.1.
    let direct = site(&[written]);
    let private_addresses = [address, &direct.servers[0].ip().to_string()].map(String::from);
    for private in &private_addresses {
        network.server(private).records.insert("10.1/X".into(), urls(3));
    }
    let named = Site { attributes: attribute("domain", "one.example.org"), ..site(&["0.0.0.0"]) };
    let second = Site { attributes: attribute("alt_addr", written), ..site(&["0.0.0.0"]) };
    for site in [direct.clone(), named, second] {
        let value = HandleValue::with_data(1, "HS_SITE", site.to_bytes());
        network.server("192.0.2.1").records.insert("0.NA/10.1".into(), vec![value]);
        let sites = vec![Arc::new(site)];
        for private in &private_addresses {
            network.server(private).request_count = 0;
        }
        let lookup_request = LookupRequest::resolve(Handle::from("10.1/X"), &[], &[]);
        let known_sites_lookup =
            Lookup::with_sites(Arc::new(config.clone()), lookup_request, sites.clone(), network.now());
        for result in
            [network.resolve(&Arc::new(config.clone()), "10.1/X"), network.run(known_sites_lookup, &config).0]
        {
            assert_eq!(result.unwrap_err().kind, LookupErrorKind::NoUsableSite, "{written}");
        }
        assert!(
            private_addresses.iter().all(|private| network.server(private).request_count == 0),
            "{written}"
        );

        let prefix_overrides = BTreeMap::from([(b"10.1".to_vec(), sites)]);
        let allowed = LookupConfig { allow_private_addresses: true, ..config.clone() };
        for config in [allowed, LookupConfig { prefix_overrides, ..config.clone() }] {
            network.messages.clear();
            assert_eq!(values(&network.resolve(&Arc::new(config), "10.1/X").unwrap()), urls(3), "{written}");
        }
        network.messages.clear();
    }
    // A private root is the caller's choice, even if a record leads to it.
    let service = HandleValue::new(1, "HS_SERV", "0.NA/0.NA");
    for private in &private_addresses {
        network.server(private).records.insert("0.NA/10.1".into(), vec![service.clone()]);
    }
    let config = Arc::new(LookupConfig { root_sites: vec![Arc::new(direct)], ..config });
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(3), "{written}");
}

/// A newer serial of the root is reported, an older one ignored; of two records of one site the newer is used.
#[test]
fn attack_c8_site_serials() {
    for (serial, is_reported) in [(2, false), (3, false), (4, true), (0xffff, false)] {
        let (mut network, config) = small_network();
        network.server("192.0.2.1").fault = Fault::Serial(serial);
        let lookup_request = LookupRequest::resolve(Handle::from("10.1/X"), &[], &[]);
        let lookup = Lookup::new(Arc::clone(&config), lookup_request, network.now());
        let (response, events) = network.run(lookup, &config);
        assert_eq!(values(&response.unwrap()), urls(2));
        assert_eq!(
            events.iter().any(|event| matches!(event, LookupEvent::RootChanged)),
            is_reported,
            "{serial}"
        );
    }
    for order in [[1, 9], [9, 1]] {
        let (mut network, config) = small_network();
        let site_with_serial = |serial| {
            HandleValue::with_data(
                u32::from(serial),
                "HS_SITE",
                Site { serial, ..site(&["192.0.2.12"]) }.to_bytes(),
            )
        };
        network.server("192.0.2.1").records.insert("0.NA/10.1".into(), order.map(site_with_serial).to_vec());
        let response = network.resolve(&config, "10.1/X").unwrap();
        assert_eq!(response.server.site.serial, 9);
    }
}

/// A prefix with 256 sites, all dead: the number of messages is limited.
#[test]
fn attack_c6_message_limit() {
    let (mut network, config) = small_network();
    let many = (0..=255).map(|number| site_value(number + 1, &[&format!("203.0.113.{number}")])).collect();
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), many);
    let config = Arc::new(LookupConfig { max_messages: 20, ..(*config).clone() });
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::MessageLimit { sent: 20 });
    assert_eq!(network.messages.len(), 20);
}

/// Responses with changed or missing bytes: the lookup terminates within its limits.
#[test]
fn corrupted_responses() {
    let networks = repetitions("TENDOT_TEST_NETWORKS", 200, 2_000);
    let mut succeeded = 0;
    for seed in 0..networks {
        let (mut network, config) = small_network();
        network.random = SeededRng::new(seed);
        for server in network.servers.values_mut() {
            (server.fault, server.max_delay_ms) = (Fault::Corrupted, 100);
            server.loss_percent = [0, 100][seed as usize % 2];
        }
        succeeded += u64::from(network.resolve(&config, "10.1/X").is_ok());
    }
    assert!(succeeded > networks / 5, "{succeeded} of {networks}");
}

/// Random networks: the lookup terminates within its limits, a result is correct, and there is one if TCP works at one site of
/// each step.
#[test]
fn random_networks() {
    let networks = repetitions("TENDOT_TEST_NETWORKS", 200, 2_000);
    let (mut succeeded, mut failed) = (0, 0);
    for seed in 0..networks {
        let mut random = SeededRng::new(seed);
        let mut network = SimulatedNetwork::new(seed ^ 0xdead);
        let count = 1 + random.below(300) as u32;
        let roots = ["192.0.2.1", "192.0.2.2"];
        let services = ["192.0.2.11", "192.0.2.12", "2001:db8::13"];
        let service_sites: Vec<_> =
            (1..).zip(services).map(|(index, address)| site_value(index, &[address])).collect();
        let is_indirect = random.percent(30);
        let mut is_reachable = true;
        for step in [&roots[..], &services[..]] {
            let mut any = false;
            for address in step {
                let tcp = [TcpBehavior::Accepts, TcpBehavior::Refuses, TcpBehavior::Silent][random.below(3)];
                let loss_percent = [0, 0, 10, 40, 90, 100][random.below(6)];
                let max_delay_ms = [0, 50, 300, 900][random.below(4)];
                let fault = match random.below(8) {
                    0 => Fault::ResponseCode(ResponseCode::ERROR),
                    1 => Fault::Expired,
                    2 => Fault::RequestId,
                    _ => Fault::None,
                };
                any |= tcp == TcpBehavior::Accepts && matches!(fault, Fault::None) && max_delay_ms <= 300;
                let mut records = BTreeMap::new();
                if step.len() == 2 && is_indirect {
                    records.insert("0.NA/10.1".into(), vec![HandleValue::new(1, "HS_SERV", "0.SERV/A")]);
                    records.insert("0.SERV/A".into(), service_sites.clone());
                } else if step.len() == 2 {
                    records.insert("0.NA/10.1".into(), service_sites.clone());
                } else {
                    records.insert("10.1/X".into(), urls(count));
                }
                let duplicate_percent = random.below(50);
                *network.server(address) = SimulatedServer {
                    records,
                    loss_percent,
                    duplicate_percent,
                    max_delay_ms,
                    tcp,
                    fault,
                    ..SimulatedServer::default()
                };
            }
            is_reachable &= any;
        }
        let config = Arc::new(LookupConfig::new(roots.map(|address| Arc::new(site(&[address]))).to_vec()));
        match network.resolve(&config, "10.1/x") {
            Ok(response) => {
                succeeded += 1;
                assert_eq!(values(&response), urls(count), "seed {seed}");
            }
            Err(error) => {
                failed += 1;
                assert!(!is_reachable, "seed {seed}: {error}");
            }
        }
    }
    assert!(succeeded > networks * 2 / 5 && failed > networks / 25, "{succeeded} succeeded, {failed} failed");
}

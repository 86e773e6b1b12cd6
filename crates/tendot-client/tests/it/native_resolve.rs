//! Native resolution over real sockets: loss, delay, forgery, loops.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tendot_client::native::{NativeClient, ResolveError, ResolveOptions, RootSites};
use tendot_client::{CacheSettings, CacheStatus, LookupOutcome, ResolveRequest, Resolver};
use tendot_proto::lookup::{AttemptError, LookupConfig, LookupError, LookupErrorKind, RttEstimates};
use tendot_proto::record::{HashOption, InterfaceProtocol, Site, SiteAttribute, SiteServer};
use tendot_proto::{
    Envelope, Fragments, Handle, HandleValue, ResponseCode, Ttl, ValuePermissions, limits, tunnel,
};
use tendot_testing::handle_keys::public_key;
use tendot_testing::handle_server::{
    ALL_TRANSPORTS, DatagramFaults, ReplySocket, ServerTransport, StreamStep, TestHandleServer,
    TestHandleService, config, envelope, scripted_tcp_server, scripted_udp_server, site, site_value,
};
use tendot_testing::{WAIT_TIMEOUT, free_port};
use tokio::join;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{advance, timeout};

use crate::stopped_clock::StoppedClock;

const NAME: &str = "10.1000/182";
const URL: &str = "https://example.org/182";

/// A root service with the prefix record of [`NAME`].
fn root_service_for(server: &TestHandleServer) -> TestHandleService {
    TestHandleService::new().with_record("0.NA/10.1000", vec![site_value(1, &server.site())])
}

fn first_url(outcome: &LookupOutcome) -> &str {
    let LookupOutcome::Values(values) = outcome else { panic!("{outcome:?}") };
    str::from_utf8(&values[0].data).unwrap()
}

async fn resolve(config: LookupConfig) -> Result<LookupOutcome, ResolveError> {
    let native = NativeClient::new(config);
    let options = ResolveOptions::default();
    let reply = timeout(2 * WAIT_TIMEOUT, native.resolve(NAME, &options)).await;
    Ok(reply.expect("the lookup ignores its time limit")?.outcome)
}

/// Settings that query a server for [`NAME`] without a prefix lookup.
fn direct_config(server: &TestHandleServer) -> LookupConfig {
    let mut config = server.config();
    config.prefix_overrides.insert(b"10.1000".to_vec(), config.root_sites.clone());
    config
}

/// Settings that query an address for [`NAME`] without a prefix lookup.
fn direct_config_at(address: SocketAddr) -> LookupConfig {
    RootSites::from_addresses(&[address], None).into_direct_config(Handle::from(NAME))
}

async fn lookup_error(config: LookupConfig) -> LookupError {
    match resolve(config).await {
        Err(ResolveError::Lookup(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn resolves_through_root_by_hash() {
    let _clock = StoppedClock::new();
    let names: Vec<String> = (0..20).map(|number| format!("10.1000/{number}")).collect();
    let mut servers = Vec::new();
    for server in 0..3 {
        let mut service = TestHandleService::new();
        for name in &names {
            if Handle::from(&**name).server_index(HashOption::WHOLE, 3) == Some(server) {
                service = service.with_url(name, &format!("https://example.org/{server}"));
            }
        }
        servers.push(TestHandleServer::start(service).await);
    }
    let sites = site(servers.iter().map(|server| server.server(ALL_TRANSPORTS)).collect());
    let root = TestHandleServer::start(
        TestHandleService::new()
            .with_record("0.NA/10.1000", vec![HandleValue::new(1, "HS_SERV", "0.SERV/sites")])
            .with_record("0.SERV/sites", vec![site_value(7, &sites)]),
    )
    .await;
    let native = NativeClient::new(root.config());
    for name in &names {
        let reply = native.resolve(name, &ResolveOptions::default()).await.unwrap();
        let server = Handle::from(&**name).server_index(HashOption::WHOLE, 3).unwrap();
        assert_eq!(first_url(&reply.outcome), format!("https://example.org/{server}"));
        let server_address = reply.server.unwrap();
        assert_eq!(
            (server_address.address, server_address.transport),
            (servers[server].address, InterfaceProtocol::UDP)
        );
    }
    assert_eq!(root.service().requests.len(), 2, "prefix and service are looked up once");
    assert!(servers.iter().all(|server| !server.service().requests.is_empty()));
}

#[tokio::test]
async fn not_found_outcomes() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    let native = NativeClient::new(root.config());
    let not_found = native.resolve("10.1000/none", &ResolveOptions::default()).await.unwrap();
    assert_eq!(
        (not_found.outcome, not_found.server.unwrap().address),
        (LookupOutcome::NotFound, server.address)
    );
    let emails = ResolveOptions { types: vec!["EMAIL".into()], ..ResolveOptions::default() };
    assert_eq!(native.resolve(NAME, &emails).await.unwrap().outcome, LookupOutcome::NoValues);
    let unknown = native.resolve("10.2000/1", &ResolveOptions::default()).await.unwrap();
    assert_eq!((unknown.outcome, unknown.server), (LookupOutcome::NotFound, None), "unknown prefix");
    server.service().forced_code = Some(ResponseCode::SERVER_TOO_BUSY);
    let error = native.resolve(NAME, &ResolveOptions::default()).await.unwrap_err().to_string();
    assert!(error.ends_with("over UDP returned RC_SERVER_TOO_BUSY: forced code"), "{error}");
}

#[tokio::test]
async fn value_selection() {
    let _clock = StoppedClock::new();
    let secret =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(3, "EMAIL", "x@example.org") };
    let values = vec![HandleValue::new(1, "URL", URL), HandleValue::new(2, "DESC", "x"), secret];
    let server = TestHandleServer::start(TestHandleService::new().with_record(NAME, values)).await;
    let native = NativeClient::new(direct_config(&server));
    let check = async |types: &[&str], indexes: &[u32], expected: &[u32]| {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        let options = ResolveOptions { types, indexes: indexes.to_vec(), is_authoritative: false };
        let LookupOutcome::Values(values) = native.resolve(NAME, &options).await.unwrap().outcome else {
            panic!()
        };
        assert_eq!(values.iter().map(|value| value.index).collect::<Vec<_>>(), expected);
    };
    check(&[], &[], &[1, 2]).await;
    check(&["url"], &[], &[1]).await;
    check(&["URL"], &[2, 3], &[1, 2]).await;
    check(&[], &[2], &[2]).await;
    server.service().leaks_private_values = true;
    check(&[], &[], &[1, 2]).await;
}

#[tokio::test]
async fn works_with_caching_resolver() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    let resolver = Arc::new(Resolver::new(NativeClient::new(root.config()), CacheSettings::default()));
    let tasks = (0..50).map(|_| {
        let resolver = Arc::clone(&resolver);
        tokio::spawn(async move { first_url(&resolver.resolve(NAME).await.unwrap().outcome).to_owned() })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), URL);
    }
    resolver.resolve("10.1000/none").await.unwrap();
    resolver.resolve("10.1000/NONE").await.unwrap();
    assert_eq!(server.service().requests.len(), 2, "one for fifty callers, and one for the missing handle");
}

/// Many names of one prefix are resolved at once, and its sites are not yet known.
#[tokio::test]
async fn prefix_lookup_is_single_flight() {
    let _clock = StoppedClock::new();
    let mut service = TestHandleService::new();
    for number in 0..100 {
        service = service.with_url(&format!("10.1000/{number}"), URL);
    }
    let server = TestHandleServer::start(service).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    let native = NativeClient::new(root.config());
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let native = native.clone();
            tokio::spawn(async move {
                let reply = native.resolve(&format!("10.1000/{number}"), &ResolveOptions::default()).await;
                assert_eq!(first_url(&reply.unwrap().outcome), URL);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(root.service().requests.len(), 1);
    // For an unknown prefix each request is sent without waiting for a timeout.
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let native = native.clone();
            tokio::spawn(async move {
                let reply = native.resolve(&format!("10.2000/{number}"), &ResolveOptions::default()).await;
                assert_eq!(reply.unwrap().outcome, LookupOutcome::NotFound);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// The sites of a prefix are cached for their TTL, unless a server responds that it is not responsible.
#[tokio::test]
async fn moved_prefix_is_relocated() {
    let _clock = StoppedClock::new();
    let old =
        TestHandleServer::start(TestHandleService::new().with_url(NAME, "https://example.org/old")).await;
    let root = TestHandleServer::start(root_service_for(&old)).await;
    let native = NativeClient::new(root.config());
    let resolve = async || native.resolve(NAME, &ResolveOptions::default()).await.unwrap().outcome;
    assert_eq!(first_url(&resolve().await), "https://example.org/old");
    assert_eq!(first_url(&resolve().await), "https://example.org/old");
    assert_eq!(root.service().requests.len(), 1);

    let new = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    old.service().forced_code = Some(ResponseCode::SERVER_NOT_RESPONSIBLE);
    let values = vec![HandleValue { ttl: Ttl::Relative(0), ..site_value(1, &new.site()) }];
    root.service().records.insert(b"0.NA/10.1000".to_vec(), values);
    assert_eq!(first_url(&resolve().await), URL);
    assert_eq!(first_url(&resolve().await), URL);
    assert_eq!(root.service().requests.len(), 3, "a value with TTL 0 is not cached");
}

#[tokio::test]
async fn random_port_and_request_id() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let native = NativeClient::new(direct_config(&server));
    for _ in 0..20 {
        native.resolve(NAME, &ResolveOptions::default()).await.unwrap();
    }
    let ports: BTreeSet<u16> = server.service().requests.iter().map(|(_, from)| from.port()).collect();
    assert!(ports.len() >= 18, "{ports:?}");
}

/// Unanswered requests are repeated after a short wait; the answered one has no short timeout.
#[tokio::test]
async fn lost_datagrams() {
    let check = async |faults: DatagramFaults, unanswered: usize, transports: &[InterfaceProtocol]| {
        let long = HandleValue::new(1, "URL", format!("{URL}/{}", "x".repeat(2_000)));
        let service = TestHandleService::new().with_record(NAME, vec![long]);
        let server = TestHandleServer::with_datagram_faults(service, faults).await;
        let mut udp_timeouts = vec![Duration::from_millis(20); unanswered];
        if transports.last() == Some(&InterfaceProtocol::UDP) {
            udp_timeouts.push(WAIT_TIMEOUT);
        }
        let config = LookupConfig { udp_timeouts, timeout: WAIT_TIMEOUT, ..direct_config(&server) };
        let outcome = resolve(config).await.unwrap();
        assert_eq!(first_url(&outcome).len(), URL.len() + 2_001);
        assert_eq!(server.service().transports(), transports);
    };
    let (udp, none) = (InterfaceProtocol::UDP, DatagramFaults::default());
    check(DatagramFaults { reverse_fragments: true, ..none }, 0, &[udp]).await;
    check(DatagramFaults { duplicate_fragments: true, ..none }, 0, &[udp]).await;
    check(DatagramFaults { dropped_requests: 1, ..none }, 1, &[udp, udp]).await;
    check(DatagramFaults { dropped_requests: 2, reverse_fragments: true, ..none }, 2, &[udp, udp, udp]).await;
    check(DatagramFaults { dropped_fragment: Some(1), ..none }, 1, &[udp, udp]).await;
    check(DatagramFaults { dropped_requests: 9, ..none }, 3, &[udp, udp, udp, InterfaceProtocol::TCP]).await;
}

#[tokio::test]
async fn falls_back_to_tcp_then_http() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let closed_port = free_port();
    let check = async |closed: &[InterfaceProtocol], expected: InterfaceProtocol| {
        let mut entry = server.server(ALL_TRANSPORTS);
        for interface in &mut entry.interfaces {
            if closed.contains(&interface.protocol) {
                interface.port = u32::from(closed_port);
            }
        }
        let mut config = config(vec![site(vec![entry])]);
        config.prefix_overrides.insert(b"10.1000".to_vec(), config.root_sites.clone());
        let reply = NativeClient::new(config).resolve(NAME, &ResolveOptions::default()).await.unwrap();
        assert_eq!((first_url(&reply.outcome), reply.server.unwrap().transport), (URL, expected));
    };
    check(&[], InterfaceProtocol::UDP).await;
    check(&[InterfaceProtocol::UDP], InterfaceProtocol::TCP).await;
    check(&[InterfaceProtocol::UDP, InterfaceProtocol::TCP], InterfaceProtocol::HTTP).await;
}

#[tokio::test]
async fn fast_and_preferred_sites() {
    let fast = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let delay = DatagramFaults { delay: Duration::from_millis(400), ..DatagramFaults::default() };
    let slow =
        TestHandleServer::with_datagram_faults(TestHandleService::new().with_url(NAME, URL), delay).await;
    let mut slow_server = slow.server(&[InterfaceProtocol::UDP]);
    // Response times are stored by IP address, so the two need different ones.
    slow_server.address = SiteServer::encode_address([127, 0, 0, 2].into());
    slow_server.interfaces[0].port = u32::from(udp_relay(slow.address).await.port());
    let mut settings =
        config(vec![site(vec![fast.server(&[InterfaceProtocol::UDP])]), site(vec![slow_server])]);
    settings.prefix_overrides.insert(b"10.1000".to_vec(), settings.root_sites.clone());
    // Only the first site is queried.
    settings.timeout = WAIT_TIMEOUT;
    settings.next_site_delay = WAIT_TIMEOUT;
    settings.udp_timeouts = vec![WAIT_TIMEOUT];

    let native = NativeClient::new(settings.clone());
    while slow.service().requests.is_empty() || fast.service().requests.is_empty() {
        native.resolve(NAME, &ResolveOptions::default()).await.unwrap();
    }
    for _ in 0..20 {
        native.resolve(NAME, &ResolveOptions::default()).await.unwrap();
    }
    assert_eq!(slow.service().requests.len(), 1, "the slow site is queried once");

    // Other response times are used instead of the measured ones.
    settings.rtt_estimates = Some(Arc::new(PreferredServer([127, 0, 0, 2].into())));
    let native = NativeClient::new(settings);
    for _ in 0..3 {
        let reply = native.resolve(NAME, &ResolveOptions::default()).await.unwrap();
        assert_eq!(reply.server.unwrap().address.ip().to_string(), "127.0.0.2");
    }
}

/// Response times by which one server is the fastest.
#[derive(Debug)]
struct PreferredServer(IpAddr);

impl RttEstimates for PreferredServer {
    fn rtt(&self, server: IpAddr) -> Option<Duration> {
        Some(if server == self.0 { Duration::ZERO } else { Duration::from_secs(1) })
    }
}

/// Authoritative requests and changes go to the primary site, never to a mirror.
#[tokio::test]
async fn primary_sites() {
    let _clock = StoppedClock::new();
    let mirror =
        TestHandleServer::start(TestHandleService::new().with_url(NAME, "https://example.org/old")).await;
    let primary = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let mirror_site = Site { flags: 0, ..mirror.site() };
    let sites = vec![site_value(1, &mirror_site), site_value(2, &primary.site())];
    let root = TestHandleServer::start(TestHandleService::new().with_record("0.NA/10.1000", sites)).await;
    for _ in 0..10 {
        let native = NativeClient::new(root.config());
        let options = ResolveOptions { is_authoritative: true, ..ResolveOptions::default() };
        assert_eq!(first_url(&native.resolve(NAME, &options).await.unwrap().outcome), URL);
        assert!(native.locate_admin_server(NAME).await.unwrap().site().is_primary());
    }
    assert!(mirror.service().requests.is_empty());
}

#[tokio::test]
async fn unreachable_sites_are_forgotten() {
    let _clock = StoppedClock::new();
    let (sender, mut requests) = unbounded_channel();
    let silent = scripted_udp_server(move |_| {
        sender.send(()).unwrap();
        Vec::new()
    });
    let gone = RootSites::from_addresses(&[silent.await], None).sites()[0].as_ref().clone();
    let service = TestHandleService::new().with_record("0.NA/10.1000", vec![site_value(1, &gone)]);
    let root = TestHandleServer::start(service).await;
    let native = NativeClient::new(root.config());
    let mut fails_after_its_time = async || {
        let lookup = native.clone();
        let lookup = tokio::spawn(async move { lookup.resolve(NAME, &ResolveOptions::default()).await });
        requests.recv().await.unwrap();
        advance(native.config().timeout).await;
        lookup.await.unwrap().unwrap_err();
    };
    fails_after_its_time().await;
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    root.service().records.insert(b"0.NA/10.1000".to_vec(), vec![site_value(1, &server.site())]);
    // The cached sites are queried again until the lookup times out.
    fails_after_its_time().await;
    assert_eq!(first_url(&native.resolve(NAME, &ResolveOptions::default()).await.unwrap().outcome), URL);
}

/// A datagram that cannot be sent is not waited for.
#[tokio::test]
async fn unreachable_address_fails_fast() {
    let _clock = StoppedClock::new();
    let config = LookupConfig {
        transports: vec![InterfaceProtocol::UDP],
        ..direct_config_at("255.255.255.255:2641".parse().unwrap())
    };
    let error = lookup_error(config).await.to_string();
    assert!(error.contains("UDP: unreachable"), "{error}");
}

/// Forwards datagrams from 127.0.0.2.
async fn udp_relay(to: SocketAddr) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            let (length, from) = front.recv_from(&mut buffer).await.unwrap();
            let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            back.send_to(&buffer[..length], to).await.unwrap();
            let length = back.recv(&mut buffer).await.unwrap();
            front.send_to(&buffer[..length], from).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn referrals() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let first = TestHandleServer::start(TestHandleService::new()).await;
    first.service().referral =
        Some((ResponseCode::SERVICE_REFERRAL, Vec::new(), vec![site_value(1, &server.site())]));
    let root = TestHandleServer::start(root_service_for(&first)).await;
    assert_eq!(first_url(&resolve(root.config()).await.unwrap()), URL);
}

#[tokio::test]
async fn attack_referral_loop() {
    let _clock = StoppedClock::new();
    let (first, second) = (
        TestHandleServer::start(TestHandleService::new()).await,
        TestHandleServer::start(TestHandleService::new()).await,
    );
    for (server, other) in [(&first, &second), (&second, &first)] {
        let values = vec![site_value(1, &other.site())];
        server.service().referral = Some((ResponseCode::SERVICE_REFERRAL, Vec::new(), values));
    }
    let error = lookup_error(direct_config(&first)).await;
    assert_eq!(error.kind, LookupErrorKind::ReferralLoop);
    assert!(first.service().requests.len() + second.service().requests.len() < 4);

    // Two services that refer to each other, and an endless chain of services.
    let root = TestHandleServer::start(
        TestHandleService::new()
            .with_record("0.NA/10.1000", vec![HandleValue::new(1, "HS_SERV", "0.SERV/a")])
            .with_record("0.SERV/a", vec![HandleValue::new(1, "HS_SERV", "0.SERV/b")])
            .with_record("0.SERV/b", vec![HandleValue::new(1, "HS_SERV", "0.SERV/a")]),
    )
    .await;
    assert_eq!(resolve(root.config()).await.unwrap(), LookupOutcome::NotFound, "no server is found");
    assert!(root.service().requests.len() < 8);
    let mut service = TestHandleService::new()
        .with_record("0.NA/10.1000", vec![HandleValue::new(1, "HS_SERV", "0.SERV/0")]);
    for number in 0..200 {
        let next = format!("0.SERV/{}", number + 1);
        service =
            service.with_record(&format!("0.SERV/{number}"), vec![HandleValue::new(1, "HS_SERV", next)]);
    }
    let root = TestHandleServer::start(service).await;
    lookup_error(root.config()).await;
    assert!(root.service().requests.len() < 64, "{}", root.service().requests.len());
}

/// The owner of a prefix can enter any address in its record.
#[tokio::test]
async fn attack_private_addresses() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    let public_only = LookupConfig { allow_private_addresses: false, ..root.config() };
    let error = lookup_error(public_only.clone()).await;
    assert_eq!(error.kind, LookupErrorKind::NoUsableSite);
    assert!(server.service().requests.is_empty());

    // Nor through a domain name.
    let mut by_name = server.site();
    by_name.servers[0].address = [0; 16];
    by_name.attributes = vec![SiteAttribute { name: b"domain"[..].into(), value: b"localhost"[..].into() }];
    root.service().records.insert(b"0.NA/10.1000".to_vec(), vec![site_value(1, &by_name)]);
    assert_eq!(lookup_error(public_only).await.kind, LookupErrorKind::NoUsableSite);
    assert!(server.service().requests.is_empty());
    assert_eq!(
        first_url(&resolve(root.config()).await.unwrap()),
        URL,
        "unless private addresses are allowed"
    );
}

#[tokio::test]
async fn certified() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::with_other_key().with_url(NAME, URL)).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    let certified = LookupConfig { require_signatures: true, ..root.config() };
    assert_eq!(first_url(&resolve(certified.clone()).await.unwrap()), URL);

    let check = async |change: &dyn Fn(&mut TestHandleService), expected: &str| {
        let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
        let root = TestHandleServer::start(root_service_for(&server)).await;
        change(&mut server.service());
        let error =
            lookup_error(LookupConfig { require_signatures: true, ..root.config() }).await.to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(&|server| server.is_signing = false, "missing credential").await;
    check(&|server| server.clock_lag_secs = 50_000, "response expired").await;
    // The site record has another key than the server.
    let other = TestHandleServer::start(TestHandleService::with_other_key().with_url(NAME, URL)).await;
    let mut server = other.server(ALL_TRANSPORTS);
    server.public_key = public_key("pubkey.bin").to_bytes().into();
    let root = TestHandleServer::start(
        TestHandleService::new().with_record("0.NA/10.1000", vec![site_value(1, &site(vec![server]))]),
    )
    .await;
    let error = lookup_error(LookupConfig { require_signatures: true, ..root.config() }).await.to_string();
    assert!(error.contains("credential verification failed"), "{error}");
    assert_eq!(
        first_url(&resolve(root.config()).await.unwrap()),
        URL,
        "signatures are not checked otherwise"
    );
}

/// A certified request is verified even if the client does not require signatures, and its reply is cached apart from others.
#[tokio::test]
async fn certified_requests() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::with_other_key().with_url(NAME, URL)).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    let resolver = Resolver::new(NativeClient::new(root.config()), CacheSettings::default());
    let certified = || ResolveRequest { is_certified: true, ..ResolveRequest::from(NAME) };
    let signed = resolver.resolve(certified()).await.unwrap();
    assert_eq!(signed.cache_status, CacheStatus::Miss);
    assert_eq!(resolver.resolve(certified()).await.unwrap().cache_status, CacheStatus::Hit);
    assert_eq!(resolver.resolve(NAME).await.unwrap().cache_status, CacheStatus::Miss);
    assert_eq!(resolver.resolve(NAME).await.unwrap().cache_status, CacheStatus::Hit);
    assert_eq!(resolver.cache_entries(), 2);

    // A server that does not sign: its replies are used, unless they must be certified.
    let server = TestHandleServer::start(TestHandleService::new().with_url(NAME, URL)).await;
    let root = TestHandleServer::start(root_service_for(&server)).await;
    server.service().is_signing = false;
    let resolver = Resolver::new(NativeClient::new(root.config()), CacheSettings::default());
    assert!(resolver.resolve(NAME).await.is_ok());
    let error = resolver.resolve(certified()).await.unwrap_err().to_string();
    assert!(error.contains("missing credential"), "{error}");
}

/// The response of a regular server, for scripts to send or to corrupt.
fn valid_response(request: &[u8]) -> Vec<u8> {
    let mut service = TestHandleService::new().with_url(NAME, URL);
    service.respond(request, ServerTransport::Tcp).remove(0)
}

fn with_envelope(message: &[u8], change: impl Fn(&mut Envelope)) -> Vec<u8> {
    let mut envelope = envelope(message);
    change(&mut envelope);
    [&envelope.to_bytes()[..], &message[limits::ENVELOPE_LEN..]].concat()
}

#[tokio::test]
async fn attack_spoofed_responses() {
    let _clock = StoppedClock::new();
    // The invalid responses arrive before the valid one and are ignored.
    let address = scripted_udp_server(|request| {
        let valid = valid_response(request);
        let id = envelope(request).request_id;
        let forged = [&valid[..valid.len() - 7], b"x", &valid[valid.len() - 6..]].concat();
        vec![
            (ReplySocket::Other, forged.clone()),
            (ReplySocket::Server, with_envelope(&forged, |envelope| envelope.request_id = id ^ 1)),
            (ReplySocket::Server, with_envelope(&forged, |envelope| envelope.request_id = 0)),
            (ReplySocket::Server, forged[..10].to_vec()),
            (ReplySocket::Server, Vec::new()),
            (ReplySocket::Server, with_envelope(&forged, |envelope| envelope.length = u32::MAX)),
            (ReplySocket::Server, with_envelope(&forged, |envelope| envelope.length = 262_144)),
            (ReplySocket::Server, with_envelope(&forged, |envelope| envelope.sequence = 77)),
            (ReplySocket::Server, valid),
        ]
    })
    .await;
    assert_eq!(first_url(&resolve(direct_config_at(address)).await.unwrap()), URL);
}

/// Lookups end at their time limit, whatever a server sends over UDP.
#[tokio::test]
async fn attack_datagrams() {
    let unfinished = |request: &[u8]| {
        let mut message = valid_response(request);
        message.resize(100_000, 0);
        let message = with_envelope(&message, |envelope| envelope.length = 100_000 - 20);
        Fragments::new(&message).unwrap().skip(1).map(|fragment| fragment.to_vec()).collect()
    };
    join!(
        check_datagrams(|_| Vec::new(), "UDP: no response"),
        check_datagrams(unfinished, "UDP: no response"),
        check_datagrams(|request| vec![request.to_vec()], "message is not a response"),
        check_datagrams(|request| vec![valid_response(request)[..60].to_vec()], "bytes, only"),
    );
}

async fn check_datagrams(mut replies: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static, expected: &str) {
    let script = move |request: &[u8]| {
        replies(request).into_iter().map(|reply| (ReplySocket::Server, reply)).collect()
    };
    let config = direct_config_at(scripted_udp_server(script).await);
    let error = lookup_error(with_time_for(expected, config)).await.to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn attack_streams() {
    let huge = |request: &[u8]| {
        let message = with_envelope(&valid_response(request), |envelope| envelope.length = u32::MAX);
        vec![StreamStep::Send(message), StreamStep::Flood(vec![0; 1 << 16])]
    };
    let other_id = |request: &[u8]| {
        let message = with_envelope(&valid_response(request), |envelope| envelope.request_id ^= 1);
        vec![StreamStep::Send(message)]
    };
    let truncated = |request: &[u8]| vec![StreamStep::Send(valid_response(request)[..50].to_vec())];
    let slow =
        |request: &[u8]| vec![StreamStep::Trickle(valid_response(request), Duration::from_millis(100))];
    // A list without end, of messages that are each valid.
    let endless = |request: &[u8]| {
        let mut message = valid_response(request);
        message[28] |= 0x04;
        vec![StreamStep::Flood(message)]
    };
    join!(
        check_stream(|_| Vec::new(), "connection closed"),
        check_stream(|_| vec![StreamStep::Hang], "no response"),
        check_stream(truncated, "closed"),
        check_stream(slow, "no response"),
        check_stream(huge, "response too long"),
        check_stream(other_id, "request id mismatch"),
        check_stream(|_| vec![StreamStep::Flood(vec![2; 1 << 16])], "response too long"),
        check_stream(endless, "more than 4194304 bytes"),
    );
}

#[tokio::test]
async fn attack_tunnels() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {}\r\n\r\n", tunnel::CONTENT_TYPE).into_bytes();
    let page = b"HTTP/1.1 404 No\r\nContent-Type: text/html\r\n\r\n".to_vec();
    let endless = b"HTTP/1.1 200 OK\r\na: b\r\n".to_vec();
    join!(
        check_tunnel(vec![StreamStep::Send(b"SSH-2.0-x\r\n".to_vec())], "response is not HTTP/1"),
        check_tunnel(vec![StreamStep::Flood(endless)], "response head exceeds"),
        check_tunnel(vec![StreamStep::Send(page)], "status 404"),
        check_tunnel(vec![StreamStep::Send(head), StreamStep::Hang], "no response"),
    );
}

async fn check_stream(script: impl FnMut(&[u8]) -> Vec<StreamStep> + Send + 'static, expected: &str) {
    check_transport(scripted_tcp_server(script, false).await, InterfaceProtocol::TCP, expected).await;
}

async fn check_tunnel(steps: Vec<StreamStep>, expected: &str) {
    let address = scripted_tcp_server(move |_| steps.clone(), true).await;
    check_transport(address, InterfaceProtocol::HTTP, expected).await;
}

/// Resolves over one transport only and expects an error.
async fn check_transport(address: SocketAddr, transport: InterfaceProtocol, expected: &str) {
    let mut server = RootSites::from_addresses(&[address], None).sites()[0].servers[0].clone();
    server.interfaces.truncate(1);
    server.interfaces[0].protocol = transport;
    let mut config = config(vec![site(vec![server])]);
    config.prefix_overrides.insert(b"10.1000".to_vec(), config.root_sites.clone());
    let config = LookupConfig { transports: vec![transport], ..config };
    let error = resolve(with_time_for(expected, config)).await.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

/// Where a timeout is expected, the time of the whole lookup is short and the only limit; all other results may take long.
fn with_time_for(expected: &str, config: LookupConfig) -> LookupConfig {
    let is_timeout = expected.ends_with("no response");
    LookupConfig {
        timeout: if is_timeout { Duration::from_millis(300) } else { WAIT_TIMEOUT },
        udp_timeouts: vec![2 * WAIT_TIMEOUT],
        stream_timeout: 2 * WAIT_TIMEOUT,
        ..config
    }
}

/// A slow response is accepted if it is complete in time.
#[tokio::test]
async fn slow_stream_is_accepted() {
    let slow = |request: &[u8]| vec![StreamStep::Trickle(valid_response(request), Duration::from_millis(2))];
    let address = scripted_tcp_server(slow, false).await;
    let config = LookupConfig {
        transports: vec![InterfaceProtocol::TCP],
        timeout: WAIT_TIMEOUT,
        stream_timeout: WAIT_TIMEOUT,
        ..direct_config_at(address)
    };
    assert_eq!(first_url(&resolve(config).await.unwrap()), URL);
}

#[tokio::test]
async fn outdated_root_is_reported() {
    let _clock = StoppedClock::new();
    let server = TestHandleServer::start(TestHandleService::new().with_url("0.NA/10", "x")).await;
    let native = NativeClient::new(server.config());
    native.resolve("0.NA/10", &ResolveOptions::default()).await.unwrap();
    assert!(!native.is_root_outdated());
    server.service().endpoint.site_serial = 2;
    native.resolve("0.NA/10", &ResolveOptions::default()).await.unwrap();
    assert!(native.is_root_outdated());
}

#[tokio::test]
async fn unreachable_root() {
    let _clock = StoppedClock::new();
    let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let config = LookupConfig {
        allow_private_addresses: true,
        ..RootSites::from_addresses(&[closed], None).into_config()
    };
    let error = lookup_error(config).await;
    assert_eq!(String::from_utf8(error.handle.clone()).unwrap(), "0.NA/10.1000");
    assert!(
        error.attempts.iter().all(|attempt| matches!(attempt.error, AttemptError::Connection(_))),
        "{error}"
    );
}

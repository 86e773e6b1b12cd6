//! Resolution in the native protocol, over real sockets, with peers that are slow, lossy, lying or gone.

mod peer;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peer::service::Service;
use peer::{
    ALL, Datagrams, Peer, Sender, Step, config, config_at, envelope, rogue_datagrams, rogue_stream, site,
    site_value,
};
use tendot_client::native::{Native, NativeError, Query, Root};
use tendot_client::{CacheSettings, Found, Resolver};
use tendot_proto::lookup::{AttemptError, Config, LookupErrorKind};
use tendot_proto::record::{Attribute, HashOption, Site, Transport};
use tendot_proto::{Envelope, Fragments, Handle, Permissions, ResponseCode, Ttl, Value, limits, tunnel};

const NAME: &str = "10.1000/182";
const LINK: &str = "https://example.org/182";

/// A root that knows the prefix of [`NAME`] and all names themselves, since it is asked for them.
fn root_for(keeper: &Peer) -> Service {
    Service::new().with("0.NA/10.1000", vec![site_value(1, &keeper.site())])
}

fn link(found: &Found) -> &str {
    let Found::Values(values) = found else { panic!("{found:?}") };
    str::from_utf8(&values[0].data).unwrap()
}

async fn resolve(config: Config) -> Result<Found, NativeError> {
    Ok(Native::new(config).resolve(NAME, &Query::default()).await?.found)
}

/// A peer that is asked for [`NAME`] as if it were the server of its prefix.
fn only(peer: &Peer) -> Config {
    let mut config = peer.config();
    config.overrides.insert(b"10.1000".to_vec(), config.root.clone());
    config
}

fn only_at(address: SocketAddr) -> Config {
    Root::at(&[address], None).config_for(Handle::from(NAME))
}

#[tokio::test]
async fn from_the_root_to_the_server_by_hash() {
    let names: Vec<String> = (0..20).map(|number| format!("10.1000/{number}")).collect();
    let mut servers = Vec::new();
    for server in 0..3 {
        let mut service = Service::new();
        for name in &names {
            if Handle::from(&**name).server(HashOption::WHOLE, 3) == Some(server) {
                service = service.with_link(name, &format!("https://example.org/{server}"));
            }
        }
        servers.push(Peer::start(service).await);
    }
    let keeper = site(servers.iter().map(|server| server.server(ALL)).collect());
    let root = Peer::start(
        Service::new()
            .with("0.NA/10.1000", vec![Value::new(1, "HS_SERV", "0.SERV/keeper")])
            .with("0.SERV/keeper", vec![site_value(7, &keeper)]),
    )
    .await;
    let native = Native::new(root.config());
    for name in &names {
        let found = native.resolve(name, &Query::default()).await.unwrap();
        let server = Handle::from(&**name).server(HashOption::WHOLE, 3).unwrap();
        assert_eq!(link(&found.found), format!("https://example.org/{server}"));
        let from = found.from.unwrap();
        assert_eq!((from.address, from.transport), (servers[server].address, Transport::UDP));
    }
    assert_eq!(root.service().heard.len(), 2, "the prefix and its service are asked for once");
    assert!(servers.iter().all(|server| !server.service().heard.is_empty()));
}

#[tokio::test]
async fn what_is_not_there() {
    let keeper = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let root = Peer::start(root_for(&keeper)).await;
    let native = Native::new(root.config());
    let nothing = native.resolve("10.1000/none", &Query::default()).await.unwrap();
    assert_eq!((nothing.found, nothing.from.unwrap().address), (Found::Nothing, keeper.address));
    let none = Query { types: vec!["EMAIL".into()], ..Query::default() };
    assert_eq!(native.resolve(NAME, &none).await.unwrap().found, Found::NoValues);
    let unknown = native.resolve("10.2000/1", &Query::default()).await.unwrap();
    assert_eq!((unknown.found, unknown.from), (Found::Nothing, None), "nobody has the prefix");
    keeper.service().code = Some(ResponseCode::SERVER_TOO_BUSY);
    let error = native.resolve(NAME, &Query::default()).await.unwrap_err().to_string();
    assert!(error.ends_with("over UDP says RC_SERVER_TOO_BUSY: as told"), "{error}");
}

#[tokio::test]
async fn which_values() {
    let secret = Value { permissions: Permissions(0x0c), ..Value::new(3, "EMAIL", "x@example.org") };
    let values = vec![Value::new(1, "URL", LINK), Value::new(2, "DESC", "x"), secret];
    let peer = Peer::start(Service::new().with(NAME, values)).await;
    let native = Native::new(only(&peer));
    let check = async |types: &[&str], indexes: &[u32], expected: &[u32]| {
        let types = types.iter().map(|one| (*one).to_owned()).collect();
        let query = Query { types, indexes: indexes.to_vec(), is_authoritative: false };
        let Found::Values(values) = native.resolve(NAME, &query).await.unwrap().found else { panic!() };
        assert_eq!(values.iter().map(|value| value.index).collect::<Vec<_>>(), expected);
    };
    check(&[], &[], &[1, 2]).await;
    check(&["url"], &[], &[1]).await;
    check(&["URL"], &[2, 3], &[1, 2]).await;
    check(&[], &[2], &[2]).await;
    peer.service().is_talkative = true;
    check(&[], &[], &[1, 2]).await;
}

#[tokio::test]
async fn cached_with_all_that_a_cache_does() {
    let keeper = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let root = Peer::start(root_for(&keeper)).await;
    let resolver = Arc::new(Resolver::new(Native::new(root.config()), CacheSettings::default()));
    let many = (0..50).map(|_| {
        let resolver = Arc::clone(&resolver);
        tokio::spawn(async move { link(&resolver.resolve(NAME).await.unwrap().found).to_owned() })
    });
    for one in many.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), LINK);
    }
    resolver.resolve("10.1000/none").await.unwrap();
    resolver.resolve("10.1000/NONE").await.unwrap();
    assert_eq!(keeper.service().heard.len(), 2, "one for fifty, and one for what is not there");
}

/// Many names of a prefix at once, of which nothing is known yet.
#[tokio::test]
async fn a_prefix_is_asked_for_once() {
    let mut service = Service::new();
    for number in 0..100 {
        service = service.with_link(&format!("10.1000/{number}"), LINK);
    }
    let keeper = Peer::start(service).await;
    let root = Peer::start(root_for(&keeper)).await;
    let native = Native::new(root.config());
    let many: Vec<_> = (0..100)
        .map(|number| {
            let native = native.clone();
            tokio::spawn(async move {
                let found = native.resolve(&format!("10.1000/{number}"), &Query::default()).await;
                assert_eq!(link(&found.unwrap().found), LINK);
            })
        })
        .collect();
    for one in many {
        one.await.unwrap();
    }
    assert_eq!(root.service().heard.len(), 1);
    // If nobody knows the prefix, nobody waits for long.
    let started = Instant::now();
    let many: Vec<_> = (0..100)
        .map(|number| {
            let native = native.clone();
            tokio::spawn(async move {
                let found = native.resolve(&format!("10.2000/{number}"), &Query::default()).await;
                assert_eq!(found.unwrap().found, Found::Nothing);
            })
        })
        .collect();
    for one in many {
        one.await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

/// Sites of prefixes are kept as long as their values say, and not if they lead nowhere any more.
#[tokio::test]
async fn prefixes_that_move() {
    let old = Peer::start(Service::new().with_link(NAME, "https://example.org/old")).await;
    let root = Peer::start(root_for(&old)).await;
    let native = Native::new(root.config());
    let ask = async || native.resolve(NAME, &Query::default()).await.unwrap().found;
    assert_eq!(link(&ask().await), "https://example.org/old");
    assert_eq!(link(&ask().await), "https://example.org/old");
    assert_eq!(root.service().heard.len(), 1);

    let new = Peer::start(Service::new().with_link(NAME, LINK)).await;
    old.service().code = Some(ResponseCode::SERVER_NOT_RESPONSIBLE);
    let values = vec![Value { ttl: Ttl::Relative(0), ..site_value(1, &new.site()) }];
    root.service().records.insert(b"0.NA/10.1000".to_vec(), values);
    assert_eq!(link(&ask().await), LINK);
    assert_eq!(link(&ask().await), LINK);
    assert_eq!(root.service().heard.len(), 3, "a value without time is asked for each time");
}

#[tokio::test]
async fn each_question_has_its_own_port_and_number() {
    let peer = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let native = Native::new(only(&peer));
    for _ in 0..20 {
        native.resolve(NAME, &Query::default()).await.unwrap();
    }
    let ports: BTreeSet<u16> = peer.service().heard.iter().map(|(_, from)| from.port()).collect();
    assert!(ports.len() >= 18, "{ports:?}");
}

#[tokio::test]
async fn lost_datagrams() {
    let check = async |datagrams: Datagrams, transports: &[Transport]| {
        let long = Value::new(1, "URL", format!("{LINK}/{}", "x".repeat(2_000)));
        let peer = Peer::with_datagrams(Service::new().with(NAME, vec![long]), datagrams).await;
        let found = resolve(only(&peer)).await.unwrap();
        assert_eq!(link(&found).len(), LINK.len() + 2_001);
        assert_eq!(peer.service().transports(), transports);
    };
    let udp = Transport::UDP;
    check(Datagrams { backwards: true, ..Datagrams::default() }, &[udp]).await;
    check(Datagrams { doubled: true, ..Datagrams::default() }, &[udp]).await;
    check(Datagrams { lost: 1, ..Datagrams::default() }, &[udp, udp]).await;
    check(Datagrams { lost: 2, backwards: true, ..Datagrams::default() }, &[udp, udp, udp]).await;
    check(Datagrams { lost_piece: Some(1), ..Datagrams::default() }, &[udp, udp]).await;
    check(Datagrams { lost: 9, ..Datagrams::default() }, &[udp, udp, udp, Transport::TCP]).await;
}

#[tokio::test]
async fn then_tcp_then_http() {
    let peer = Peer::start(Service::new().with_link(NAME, LINK)).await;
    // Nobody listens at these ports.
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let check = async |dead_transports: &[Transport], expected: Transport| {
        let mut server = peer.server(ALL);
        for interface in &mut server.interfaces {
            if dead_transports.contains(&interface.transport) {
                interface.port = u32::from(dead.port());
            }
        }
        let mut config = config(vec![site(vec![server])]);
        config.overrides.insert(b"10.1000".to_vec(), config.root.clone());
        let found = Native::new(config).resolve(NAME, &Query::default()).await.unwrap();
        assert_eq!((link(&found.found), found.from.unwrap().transport), (LINK, expected));
    };
    check(&[], Transport::UDP).await;
    check(&[Transport::UDP], Transport::TCP).await;
    check(&[Transport::UDP, Transport::TCP], Transport::HTTP).await;
}

#[tokio::test]
async fn fast_and_preferred_sites() {
    let fast = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let late = Datagrams { late: Duration::from_millis(400), ..Datagrams::default() };
    let slow = Peer::with_datagrams(Service::new().with_link(NAME, LINK), late).await;
    let mut slow_server = slow.server(&[Transport::UDP]);
    // Another address of the same machine, so that the two can be told apart.
    slow_server.address = tendot_proto::record::Server::address_of([127, 0, 0, 2].into());
    slow_server.interfaces[0].port = u32::from(relay(slow.address).await.port());
    let mut settings = config(vec![site(vec![fast.server(&[Transport::UDP])]), site(vec![slow_server])]);
    settings.overrides.insert(b"10.1000".to_vec(), settings.root.clone());
    // Only the first that is asked.
    settings.next_site = Duration::from_secs(5);
    settings.datagram_waits = vec![Duration::from_secs(5)];

    let native = Native::new(settings.clone());
    while slow.service().heard.is_empty() || fast.service().heard.is_empty() {
        native.resolve(NAME, &Query::default()).await.unwrap();
    }
    for _ in 0..20 {
        native.resolve(NAME, &Query::default()).await.unwrap();
    }
    assert_eq!(slow.service().heard.len(), 1, "it was tried once");

    let native = Native::preferring(settings, vec![[127, 0, 0, 2].into()]);
    for _ in 0..3 {
        let found = native.resolve(NAME, &Query::default()).await.unwrap();
        assert_eq!(found.from.unwrap().address.ip().to_string(), "127.0.0.2");
    }
}

/// Mirrors answer, but what has to be certain, and what is to be changed, is a matter of the primary site.
#[tokio::test]
async fn primary_sites() {
    let mirror = Peer::start(Service::new().with_link(NAME, "https://example.org/old")).await;
    let primary = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let of_mirror = Site { flags: 0, ..mirror.site() };
    let sites = vec![site_value(1, &of_mirror), site_value(2, &primary.site())];
    let root = Peer::start(Service::new().with("0.NA/10.1000", sites)).await;
    for _ in 0..10 {
        let native = Native::new(root.config());
        let query = Query { is_authoritative: true, ..Query::default() };
        assert_eq!(link(&native.resolve(NAME, &query).await.unwrap().found), LINK);
        assert!(native.locate(NAME).await.unwrap().site().is_primary());
    }
    assert!(mirror.service().heard.is_empty());
}

/// Sites that do not answer any more are not asked for ever.
#[tokio::test]
async fn sites_that_have_gone() {
    let silent = rogue_datagrams(|_| Vec::new()).await;
    let gone = Root::at(&[silent], None).sites()[0].as_ref().clone();
    let root = Peer::start(Service::new().with("0.NA/10.1000", vec![site_value(1, &gone)])).await;
    let native = Native::new(Config { time: Duration::from_millis(700), ..root.config() });
    native.resolve(NAME, &Query::default()).await.unwrap_err();
    let keeper = Peer::start(Service::new().with_link(NAME, LINK)).await;
    root.service().records.insert(b"0.NA/10.1000".to_vec(), vec![site_value(1, &keeper.site())]);
    // In vain where they were, which takes all the time that there is.
    native.resolve(NAME, &Query::default()).await.unwrap_err();
    assert_eq!(link(&native.resolve(NAME, &Query::default()).await.unwrap().found), LINK);
}

/// What cannot be sent is not waited for.
#[tokio::test]
async fn addresses_that_lead_nowhere() {
    let config =
        Config { transports: vec![Transport::UDP], ..only_at("255.255.255.255:2641".parse().unwrap()) };
    let started = Instant::now();
    let error = failed(config).await.to_string();
    assert!(error.contains("UDP: cannot be reached"), "{error}");
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
}

/// Passes datagrams on from 127.0.0.2.
async fn relay(to: SocketAddr) -> SocketAddr {
    let front = tokio::net::UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            let (length, from) = front.recv_from(&mut buffer).await.unwrap();
            let back = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            back.send_to(&buffer[..length], to).await.unwrap();
            let length = back.recv(&mut buffer).await.unwrap();
            front.send_to(&buffer[..length], from).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn referrals() {
    let keeper = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let first = Peer::start(Service::new()).await;
    first.service().refers =
        Some((ResponseCode::SERVICE_REFERRAL, Vec::new(), vec![site_value(1, &keeper.site())]));
    let root = Peer::start(root_for(&first)).await;
    assert_eq!(link(&resolve(root.config()).await.unwrap()), LINK);
}

#[tokio::test]
async fn attack_referrals_without_end() {
    let (one, two) = (Peer::start(Service::new()).await, Peer::start(Service::new()).await);
    for (peer, other) in [(&one, &two), (&two, &one)] {
        let values = vec![site_value(1, &other.site())];
        peer.service().refers = Some((ResponseCode::SERVICE_REFERRAL, Vec::new(), values));
    }
    let error = failed(only(&one)).await;
    assert_eq!(error.kind, LookupErrorKind::ReferralLoop);
    assert!(one.service().heard.len() + two.service().heard.len() < 4);

    // A service that is found only through itself, and one that each time names a further one.
    let root = Peer::start(
        Service::new()
            .with("0.NA/10.1000", vec![Value::new(1, "HS_SERV", "0.SERV/a")])
            .with("0.SERV/a", vec![Value::new(1, "HS_SERV", "0.SERV/b")])
            .with("0.SERV/b", vec![Value::new(1, "HS_SERV", "0.SERV/a")]),
    )
    .await;
    assert_eq!(resolve(root.config()).await.unwrap(), Found::Nothing, "nobody serves it");
    assert!(root.service().heard.len() < 8);
    let mut service = Service::new().with("0.NA/10.1000", vec![Value::new(1, "HS_SERV", "0.SERV/0")]);
    for number in 0..200 {
        let next = format!("0.SERV/{}", number + 1);
        service = service.with(&format!("0.SERV/{number}"), vec![Value::new(1, "HS_SERV", next)]);
    }
    let root = Peer::start(service).await;
    failed(root.config()).await;
    assert!(root.service().heard.len() < 64, "{}", root.service().heard.len());
}

async fn failed(config: Config) -> tendot_proto::lookup::LookupError {
    match resolve(config).await {
        Err(NativeError::Lookup(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Whoever has a prefix can name any address in its record.
#[tokio::test]
async fn attack_records_that_lead_into_our_network() {
    let keeper = Peer::start(Service::new().with_link(NAME, LINK)).await;
    let root = Peer::start(root_for(&keeper)).await;
    let careful = Config { private_addresses: false, ..root.config() };
    let error = failed(careful.clone()).await;
    assert_eq!(error.kind, LookupErrorKind::NoSite);
    assert!(keeper.service().heard.is_empty());

    // Nor by a name of the DNS.
    let mut by_name = keeper.site();
    by_name.servers[0].address = [0; 16];
    by_name.attributes = vec![Attribute { name: b"domain"[..].into(), value: b"localhost"[..].into() }];
    root.service().records.insert(b"0.NA/10.1000".to_vec(), vec![site_value(1, &by_name)]);
    assert_eq!(failed(careful).await.kind, LookupErrorKind::NoSite);
    assert!(keeper.service().heard.is_empty());
    assert_eq!(link(&resolve(root.config()).await.unwrap()), LINK, "unless that is wanted");
}

#[tokio::test]
async fn certified() {
    let keeper = Peer::start(Service::with_key("admpriv").with_link(NAME, LINK)).await;
    let root = Peer::start(root_for(&keeper)).await;
    let certified = Config { certify: true, ..root.config() };
    assert_eq!(link(&resolve(certified.clone()).await.unwrap()), LINK);

    let check = async |change: &dyn Fn(&mut Service), expected: &str| {
        let keeper = Peer::start(Service::new().with_link(NAME, LINK)).await;
        let root = Peer::start(root_for(&keeper)).await;
        change(&mut keeper.service());
        let error = failed(Config { certify: true, ..root.config() }).await.to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(&|keeper| keeper.is_signing = false, "no credential of this kind").await;
    check(&|keeper| keeper.behind = 50_000, "the answer ended at").await;
    // The site has another key than the server.
    let other = Peer::start(Service::with_key("admpriv").with_link(NAME, LINK)).await;
    let mut server = other.server(ALL);
    server.public_key = peer::public_key("pubkey.bin").to_bytes().into();
    let root =
        Peer::start(Service::new().with("0.NA/10.1000", vec![site_value(1, &site(vec![server]))])).await;
    let error = failed(Config { certify: true, ..root.config() }).await.to_string();
    assert!(error.contains("does not fit the message and the key"), "{error}");
    assert_eq!(link(&resolve(root.config()).await.unwrap()), LINK, "nobody looks at it otherwise");
}

/// The answer to a request as a good server would give it, for those who are not.
fn good(request: &[u8]) -> Vec<u8> {
    let mut service = Service::new().with_link(NAME, LINK);
    service.answer(request, tendot_proto::endpoint::Transport::Tcp).remove(0)
}

fn with_envelope(message: &[u8], change: impl Fn(&mut Envelope)) -> Vec<u8> {
    let mut envelope = envelope(message);
    change(&mut envelope);
    [&envelope.to_bytes()[..], &message[limits::ENVELOPE..]].concat()
}

#[tokio::test]
async fn attack_answers_of_strangers_and_under_other_numbers() {
    // All of these come before the good one, and are not looked at.
    let address = rogue_datagrams(|request| {
        let good = good(request);
        let id = envelope(request).request_id;
        let forged = [&good[..good.len() - 7], b"x", &good[good.len() - 6..]].concat();
        vec![
            (Sender::Stranger, forged.clone()),
            (Sender::Server, with_envelope(&forged, |envelope| envelope.request_id = id ^ 1)),
            (Sender::Server, with_envelope(&forged, |envelope| envelope.request_id = 0)),
            (Sender::Server, forged[..10].to_vec()),
            (Sender::Server, Vec::new()),
            (Sender::Server, with_envelope(&forged, |envelope| envelope.length = u32::MAX)),
            (Sender::Server, with_envelope(&forged, |envelope| envelope.length = 262_144)),
            (Sender::Server, with_envelope(&forged, |envelope| envelope.sequence = 77)),
            (Sender::Server, good),
        ]
    })
    .await;
    let started = Instant::now();
    assert_eq!(link(&resolve(only_at(address)).await.unwrap()), LINK);
    assert!(started.elapsed() < Duration::from_millis(400), "the first request was answered");
}

/// What a server can say over UDP to no avail: the look-up ends in its time.
#[tokio::test]
async fn attack_datagrams() {
    check_datagrams(|_| Vec::new(), "UDP: no answer").await;
    check_datagrams(|request| vec![request.to_vec()], "the answer is a request").await;
    check_datagrams(|request| vec![good(request)[..60].to_vec()], "bytes announced").await;
    // Pieces of a long message, all but one.
    let pieces = |request: &[u8]| {
        let mut message = good(request);
        message.resize(100_000, 0);
        let message = with_envelope(&message, |envelope| envelope.length = 100_000 - 20);
        Fragments::new(&message).unwrap().skip(1).map(|piece| piece.to_vec()).collect()
    };
    check_datagrams(pieces, "UDP: no answer").await;
}

async fn check_datagrams(mut answers: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static, expected: &str) {
    let address = rogue_datagrams(move |request| {
        answers(request).into_iter().map(|answer| (Sender::Server, answer)).collect()
    })
    .await;
    let config = Config { time: Duration::from_millis(1_200), ..only_at(address) };
    let started = Instant::now();
    let error = failed(config).await.to_string();
    assert!(error.contains(expected), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn attack_streams() {
    let wait = || Step::Wait(Duration::from_secs(60));
    check_stream(|_| Vec::new(), "the connection was closed").await;
    check_stream(move |_| vec![wait()], "no answer").await;
    check_stream(|request| vec![Step::Send(good(request)[..50].to_vec())], "closed").await;
    check_stream(|request| vec![Step::Trickle(good(request), Duration::from_millis(100))], "no answer").await;
    let huge = |request: &[u8]| {
        let message = with_envelope(&good(request), |envelope| envelope.length = u32::MAX);
        vec![Step::Send(message), Step::Flood(vec![0; 1 << 16])]
    };
    check_stream(huge, "the answer is too long").await;
    let other_id =
        |request: &[u8]| vec![Step::Send(with_envelope(&good(request), |envelope| envelope.request_id ^= 1))];
    check_stream(other_id, "the answer is to request").await;
    check_stream(|_| vec![Step::Flood(vec![2; 1 << 16])], "the answer is too long").await;
    // A list without end, of messages that are each in order.
    let endless = |request: &[u8]| {
        let mut message = good(request);
        message[28] |= 0x04;
        vec![Step::Flood(message)]
    };
    check_stream(endless, "more than 4194304 bytes came").await;
}

#[tokio::test]
async fn attack_tunnels() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {}\r\n\r\n", tunnel::CONTENT_TYPE).into_bytes();
    check_tunnel(vec![Step::Send(b"SSH-2.0-x\r\n".to_vec())], "the answer is not HTTP").await;
    let endless = Step::Flood(b"HTTP/1.1 200 OK\r\na: b\r\n".to_vec());
    check_tunnel(vec![endless], "the head of the answer").await;
    let page = b"HTTP/1.1 404 No\r\nContent-Type: text/html\r\n\r\n".to_vec();
    check_tunnel(vec![Step::Send(page)], "has status 404").await;
    check_tunnel(vec![Step::Send(head), Step::Wait(Duration::from_secs(60))], "no answer").await;
}

async fn check_stream(steps: impl FnMut(&[u8]) -> Vec<Step> + Send + 'static, expected: &str) {
    check_only(rogue_stream(steps, false).await, Transport::TCP, expected).await;
}

async fn check_tunnel(steps: Vec<Step>, expected: &str) {
    check_only(rogue_stream(move |_| steps.clone(), true).await, Transport::HTTP, expected).await;
}

/// What comes of it if nothing but one transport works.
async fn check_only(address: SocketAddr, transport: Transport, expected: &str) {
    let mut server = Root::at(&[address], None).sites()[0].servers[0].clone();
    server.interfaces.truncate(1);
    server.interfaces[0].transport = transport;
    let mut config = config(vec![site(vec![server])]);
    config.overrides.insert(b"10.1000".to_vec(), config.root.clone());
    let config = Config { time: Duration::from_secs(1), transports: vec![transport], ..config };
    let started = Instant::now();
    let error = resolve(config).await.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

/// A slow answer is good as long as it comes in time.
#[tokio::test]
async fn byte_by_byte() {
    let slow = |request: &[u8]| vec![Step::Trickle(good(request), Duration::from_millis(2))];
    let address = rogue_stream(slow, false).await;
    let config = Config { transports: vec![Transport::TCP], ..only_at(address) };
    assert_eq!(link(&resolve(config).await.unwrap()), LINK);
}

#[tokio::test]
async fn a_root_that_has_changed() {
    let peer = Peer::start(Service::new().with_link("0.NA/10", "x")).await;
    let native = Native::new(peer.config());
    native.resolve("0.NA/10", &Query::default()).await.unwrap();
    assert!(!native.root_has_changed());
    peer.service().endpoint.site_serial = 2;
    native.resolve("0.NA/10", &Query::default()).await.unwrap();
    assert!(native.root_has_changed());
}

#[tokio::test]
async fn nobody_is_there() {
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let started = Instant::now();
    let error = failed(config_at(dead)).await;
    assert_eq!(String::from_utf8(error.handle.clone()).unwrap(), "0.NA/10.1000");
    assert!(error.attempts.iter().all(|one| matches!(one.error, AttemptError::Connection(_))), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

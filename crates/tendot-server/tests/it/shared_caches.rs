//! Behind the caches of nginx and Varnish: a choice made for one client is not served to another one, and nothing is served for
//! longer than its values are valid.

use std::net::{Ipv4Addr, SocketAddr};

use tendot_proto::{HandleValue, Ttl};
use tendot_server::http::{CountryDatabase, HttpLimits, ProxyTrust};
use tendot_testing::http::{HttpRequest, HttpResponse};
use tendot_testing::{country_database, free_port, ram_dir, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TOKEN, TestServer, bind, start_at};
use crate::support::proxies::{Nginx, Varnish};

const CAMPUS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OUTSIDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

const NGINX_CACHE: &str = "
proxy_cache_path DIRECTORY/cache keys_zone=responses:1m;
server {
    listen ADDRESS;
    location / {
        proxy_pass http://SERVER;
        proxy_http_version 1.1;
        proxy_cache responses;
        proxy_set_header X-Forwarded-For $remote_addr;
        add_header X-Cache $upstream_cache_status always;
    }
}
";

fn start_server() -> TestServer {
    let locations = |xml: &str| {
        let xml = format!("<locations chooseby='locatt,address,country,weighted'>{xml}</locations>");
        vec![HandleValue::new(1, "10320/loc", xml)]
    };
    let open = "<location href='https://open.example.org/' weight='1'/>";
    let short = HandleValue { ttl: Ttl::Relative(2), ..HandleValue::new(1, "URL", "https://example.org/1") };
    let edits = vec![
        put_edit("10.5555/ONE", vec![HandleValue::new(1, "URL", "https://example.org/one")]),
        put_edit("10.5555/SHORT", vec![short]),
        put_edit(
            "10.5555/CAMPUS",
            locations(&format!(
                "{open}<location href='https://campus.example.org/' weight='0' addresses='127.0.0.2/32'/>"
            )),
        ),
        put_edit(
            "10.5555/COUNTRY",
            locations(&format!("{open}<location href='https://gb.example.org/' weight='0' country='gb'/>")),
        ),
        put_edit(
            "10.5555/WEIGHT",
            locations(
                "<location href='https://a.example.org/' weight='1'/>\
                 <location href='https://b.example.org/' weight='1'/>",
            ),
        ),
        put_edit(
            "10.5555/LANGUAGE",
            locations(&format!("{open}<location href='https://de.example.org/' weight='0' language='de'/>")),
        ),
        put_edit(
            "10.5555/CONNEG",
            locations(&format!(
                "{open}<location href='https://data.example.org/' weight='0' http_role='conneg'/>"
            )),
        ),
        put_edit("10.5555/SECRET", {
            let permissions = tendot_proto::ValuePermissions(0x0c);
            let secret = HandleValue { permissions, ..HandleValue::new(2, "NOTE", "hidden") };
            vec![HandleValue::new(1, "URL", "https://example.org/secret"), secret]
        }),
        home_edit("10.5555"),
    ];
    let directory = ram_dir();
    let path = directory.path().join("countries.mmdb");
    std::fs::write(&path, country_database(&[("127.0.0.2/32", "GB"), ("127.0.0.3/32", "DE")])).unwrap();
    let countries = CountryDatabase::load(path).unwrap();
    start_at(bind(), edits, HttpLimits::default(), None, |http| {
        http.country_database(countries).proxy_trust(ProxyTrust {
            trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()],
            ..ProxyTrust::default()
        })
    })
}

/// Sends a request from a loopback address.
fn get(
    server: &TestServer,
    cache: SocketAddr,
    from: Ipv4Addr,
    target: &str,
    headers: &[&str],
) -> HttpResponse {
    let request = HttpRequest::get(target).header("Connection: close").headers(headers.iter().copied());
    server.runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let mut stream = socket.connect(cache).await.unwrap();
        stream.write_all(&request.to_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        HttpResponse::parse(&bytes)
    })
}

/// Whether the cache had the response: `X-Cache` of nginx, or the two transactions in `X-Varnish`.
fn is_hit(response: &HttpResponse) -> bool {
    response.header("x-cache") == Some("HIT")
        || response.header("x-varnish").is_some_and(|ids| ids.contains(' '))
}

fn check_cache(server: &TestServer, cache: SocketAddr) {
    let location = |from, target: &str, headers: &[&str]| {
        let response = get(server, cache, from, target, headers);
        response.header("location").unwrap_or_else(|| panic!("{target}: {}", response.head)).to_owned()
    };
    let is_cached = |from, target: &str, headers: &[&str]| is_hit(&get(server, cache, from, target, headers));
    // The cache works: a redirect that is the same for all clients is stored.
    assert!(!is_cached(CAMPUS, "/10.5555/ONE", &[]));
    assert!(is_cached(OUTSIDER, "/10.5555/ONE", &[]));
    assert_eq!(location(OUTSIDER, "/10.5555/ONE", &[]), "https://example.org/one");
    // By address, in both orders.
    for _ in 0..2 {
        assert_eq!(location(CAMPUS, "/10.5555/CAMPUS", &[]), "https://campus.example.org/");
        assert_eq!(location(OUTSIDER, "/10.5555/CAMPUS", &[]), "https://open.example.org/");
        assert_eq!(location(OUTSIDER, "/10.5555/CAMPUS?x", &[]), "https://open.example.org/");
        assert_eq!(location(CAMPUS, "/10.5555/CAMPUS?x", &[]), "https://campus.example.org/");
    }
    // An address in the URL is the same for all clients.
    assert_eq!(location(OUTSIDER, "/10.5555/CAMPUS?ip=127.0.0.2", &[]), "https://campus.example.org/");
    assert!(is_cached(CAMPUS, "/10.5555/CAMPUS?ip=127.0.0.2", &[]));
    // By country, which the address decides.
    for _ in 0..2 {
        assert_eq!(location(CAMPUS, "/10.5555/COUNTRY", &[]), "https://gb.example.org/");
        assert_eq!(location(OUTSIDER, "/10.5555/COUNTRY", &[]), "https://open.example.org/");
    }
    assert_eq!(location(OUTSIDER, "/10.5555/COUNTRY?country=gb", &[]), "https://gb.example.org/");
    assert!(is_cached(CAMPUS, "/10.5555/COUNTRY?country=gb", &[]));
    // By weight: both are chosen.
    for chosen in ["https://a.example.org/", "https://b.example.org/"] {
        wait_until(chosen, || location(OUTSIDER, "/10.5555/WEIGHT", &[]) == chosen);
    }
    // By language: stored per language, also without the header.
    let german = &["Accept-Language: de"][..];
    for _ in 0..2 {
        assert_eq!(location(OUTSIDER, "/10.5555/LANGUAGE", &[]), "https://open.example.org/");
        assert_eq!(location(OUTSIDER, "/10.5555/LANGUAGE", german), "https://de.example.org/");
    }
    assert!(is_cached(CAMPUS, "/10.5555/LANGUAGE", german));
    // By media type.
    let csl = &["Accept: application/vnd.citationstyles.csl+json"][..];
    for _ in 0..2 {
        assert_eq!(location(OUTSIDER, "/10.5555/CONNEG", csl), "https://data.example.org/");
        assert_eq!(location(OUTSIDER, "/10.5555/CONNEG", &[]), "https://open.example.org/");
    }
    // Anonymous and authenticated clients.
    let token = format!("Authorization: Bearer {TOKEN}");
    let secret = "/api/handles/10.5555/SECRET";
    for (headers, has_secret) in
        [(&[][..], false), (&[&*token, "X-Forwarded-Proto: https"], true), (&[], false)]
    {
        let response = get(server, cache, OUTSIDER, secret, headers);
        assert_eq!(response.text().contains("hidden"), has_secret, "{}", response.head);
    }
    // A change is seen when the TTL is over.
    assert_eq!(location(OUTSIDER, "/10.5555/SHORT", &[]), "https://example.org/1");
    let long = HandleValue::new(1, "URL", "https://example.org/2");
    server.commit(vec![put_edit("10.5555/SHORT", vec![long])]);
    let started = std::time::Instant::now();
    wait_until("the TTL of 2 s is over", || {
        location(OUTSIDER, "/10.5555/SHORT", &[]) == "https://example.org/2"
    });
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn choices_of_clients_behind_nginx() {
    let server = start_server();
    let directory = ram_dir();
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let replacements = [
        ("DIRECTORY", directory.path().display().to_string()),
        ("ADDRESS", address.to_string()),
        ("SERVER", server.address.to_string()),
    ];
    let _nginx = Nginx::start(directory.path(), address, NGINX_CACHE, &replacements);
    check_cache(&server, address);
}

#[test]
fn choices_of_clients_behind_varnish() {
    let server = start_server();
    let directory = ram_dir();
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let _varnish = Varnish::start(directory.path(), address, server.address);
    check_cache(&server, address);
}

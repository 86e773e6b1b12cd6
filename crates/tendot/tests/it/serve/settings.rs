//! Settings that the configuration passes to the servers of HTTP and the native protocol.

use std::process::{Command, Stdio};

use jiff::Timestamp;
use tendot_testing::http::HttpRequest;
use tendot_testing::wait_until;

use super::native::{exchange_datagram, resolution};
use crate::support::{NativeSession, TestDir, TestServer, sessions, stderr};

#[test]
fn security_txt_is_reloaded() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).in_memory().set("http.security_txt=security.txt");
    let write = |contact: &str| {
        let text = format!("Contact: mailto:{contact}\nExpires: 2100-01-01T00:00:00Z\n");
        dir.write("security.txt", &text);
        text
    };
    let output = builder.command().output().unwrap();
    assert!(output.status.code() == Some(2) && stderr(&output).contains("security.txt"), "{output:?}");
    let first = write("first@example.org");
    let server = builder.start();
    let served = || server.get("/.well-known/security.txt");
    assert_eq!((served().status, served().text().into_owned()), (200, first));
    let second = write("second@example.org");
    server.signal("HUP");
    wait_until("the file is served anew", || served().text() == second);
    // A file that cannot be used changes nothing.
    dir.write("security.txt", "Contact: nobody\n");
    server.signal("HUP");
    server.wait_for_log("security.txt reload failed");
    assert_eq!(served().text(), second);
}

#[test]
fn hsts_days() {
    let dir = TestDir::new();
    let hsts = |setting: &str| {
        let builder = TestServer::builder(&dir).demo().in_memory();
        let server = builder.set("http.trusted_proxies=127.0.0.1").set(setting).start();
        let request = HttpRequest::get("/10.5555/DEMO").header("X-Forwarded-For: 192.0.2.1");
        let response = request.header("X-Forwarded-Proto: https").send(server.address());
        response.header("strict-transport-security").map(str::to_owned)
    };
    assert_eq!(hsts("http.hsts_days=2").as_deref(), Some("max-age=172800"));
    assert_eq!(hsts("http.hsts_days=0"), None);
}

#[test]
fn client_certificates_are_requested() {
    let dir = TestDir::new();
    dir.write_certificate(&["localhost"]);
    for is_requested in [true, false] {
        let setting = format!("https.client_certificates={is_requested}");
        let server = TestServer::builder(&dir).in_memory().with_https().set(&setting).start();
        let address = server.https_address().to_string();
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &address, "-msg"]).stdin(Stdio::null());
        let output = openssl.output().unwrap();
        let messages = String::from_utf8_lossy(&output.stdout);
        assert!(messages.contains("ServerHello"), "{output:?}");
        assert_eq!(messages.contains("CertificateRequest"), is_requested, "{messages}");
    }
}

/// A time of the only session of the server, in milliseconds.
fn session_time(server: &TestServer, member: &str) -> i64 {
    let [session] = &*sessions(server) else { panic!("one session") };
    session[member].as_str().unwrap().parse::<Timestamp>().unwrap().as_millisecond()
}

/// Each of the two limits of native sessions has its setting.
#[test]
fn native_session_limits() {
    for (max_age, idle_timeout, start) in [("2000s", "1000s", "used"), ("1000s", "2000s", "created")] {
        let dir = TestDir::new();
        let builder = TestServer::builder(&dir).demo().with_native();
        let max_age = format!("native.session.max_age={max_age}");
        let idle_timeout = format!("native.session.idle_timeout={idle_timeout}");
        let server = builder.set(&max_age).set(&idle_timeout).start();
        let mut session = NativeSession::open(&dir, &server);
        wait_until("the last request is later than the first", || {
            session.write().unwrap();
            session_time(&server, "used") >= session_time(&server, "created") + 200
        });
        // Durations are rounded to milliseconds; the times are those of one response.
        let [listed] = &*sessions(&server) else { panic!("one session") };
        let time = |member: &str| listed[member].as_str().unwrap().parse::<Timestamp>().unwrap();
        let lifetime = time("expires").as_millisecond() - time(start).as_millisecond();
        assert!((lifetime - 1_000_000).abs() <= 10, "{max_age} {idle_timeout}: {listed}");
    }
}

/// A session ends by its age although it is used.
#[test]
fn native_sessions_end() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).demo().with_native();
    let server = builder.set("native.session.max_age=2s").start();
    let mut session = NativeSession::open(&dir, &server);
    wait_until("the session has ended", || session.write().is_err());
    assert!(sessions(&server).is_empty());
}

/// Responses over UDP to a network that has not proved its address are bounded by the setting.
#[test]
fn unverified_udp_bytes() {
    let dir = TestDir::new();
    for (bytes, is_refused) in [("3000", true), ("300000", false)] {
        let server = TestServer::builder(&dir)
            .data(bytes)
            .with_native()
            .set("native.rate_limit.loopback=true")
            .set(&format!("native.limits.unverified_udp_bytes={bytes}"))
            .start();
        let home = server.request("POST", "/api/prefixes/0.NA/10.5555").send(server.address());
        assert_eq!(home.status, 200, "{}", home.text());
        let url = format!("https://example.org/{}", "x".repeat(400));
        assert_eq!(server.put_handle("10.5555/LONG", &url).send(server.address()).status, 201);
        let codes = (0..20).map(|_| {
            let (datagram, _) = exchange_datagram(server.native_address(), &resolution("10.5555/LONG"));
            u32::from_be_bytes(*datagram[20..28].last_chunk::<4>().unwrap())
        });
        let codes: Vec<u32> = codes.collect();
        assert_eq!(codes[0], 1, "{bytes}: {codes:?}");
        assert_eq!(codes.contains(&2), is_refused, "{bytes}: {codes:?}");
    }
}

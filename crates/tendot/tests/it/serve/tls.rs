//! HTTP and HTTPS side by side, and a certificate that is reloaded on SIGHUP.

use crate::support::{TestDir, TestServer, text_output};

#[test]
fn http_and_https_together() {
    let dir = TestDir::new();
    dir.write_certificate(&["localhost"]);
    dir.set_mode("key.pem", 0o644);
    let builder =
        TestServer::builder(&dir).demo().in_memory().with_https().set("http.metrics_allow=127.0.0.1");
    let (code, _, stderr) = text_output(&mut builder.clone().http("off").command());
    assert!(code == Some(2) && stderr.contains("chmod 600"), "{stderr}");
    dir.set_mode("key.pem", 0o600);
    let server = builder.start();
    let urls = server.urls();
    assert!(urls[0].starts_with("http://") && urls[1].starts_with("https://"), "{urls:?}");
    assert_eq!(server.get("/10.5555/DEMO").status, 302);
    let metrics = server.get("/metrics");
    assert!(
        metrics.text().contains("tendot_tls_certificate_expiry_timestamp_seconds "),
        "{}",
        metrics.text()
    );
    server.signal("HUP");
    server.wait_for_log("certificate reloaded");
}

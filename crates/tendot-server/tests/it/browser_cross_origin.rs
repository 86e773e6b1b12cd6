//! Requests that a page of another origin makes a browser send with the password that it has stored.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;

use serde_json::{Value as Json, json};
use tendot_store::MemoryStore;
use tendot_testing::wait_until;

use crate::support::api_client::ApiClient;
use crate::support::http_server::{TOKEN, bind};
use crate::support::web_driver::{Browser, WebDriver};

const SECRET: &str = "open-sesame";

/// Chromium has stored the password of a registrant. A page on another port tries every request a page can make to register a name
/// with it.
#[test]
fn audit_f9_cross_origin_changes_in_chromium() {
    let client = ApiClient::start(MemoryStore::new());
    let fixtures = client.create_fixtures();
    create_key(&client, &fixtures.registrants[0], &fixtures.tokens[0]);
    let (server, attacker) = (client.server.address, start_page());
    let driver = WebDriver::start();
    let browser = driver.browser();
    // The user logs in once; Chromium keeps the password, and sends it again.
    browser.open_url(&format!("http://300%253A10.70000%252Fadmin:{SECRET}@{server}/api/v1/tokens"));
    browser.open(server, "/api/v1/tokens");
    assert!(browser.text().contains("\"items\""), "{}", browser.text());

    browser.open(attacker, "/");
    let sent = browser.run_async(ATTACKS, &json!([format!("http://{server}")]));
    assert_eq!(sent.as_array().map(Vec::len), Some(6), "{sent}");
    for form in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        browser.open(attacker, "/");
        submit_form(&browser, server, form);
        // The password was sent: without one, the answer would be that it is missing.
        wait_until(&format!("{form} is refused"), || browser.text().contains("cross-origin"));
    }
    let names = client.check("GET", "/dois?prefix=10.70000", TOKEN, &Json::Null, (200, ""));
    let names: Vec<&str> =
        names["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["10.70000/admin"]);
    let transfers = client.check("GET", "/transfers", TOKEN, &Json::Null, (200, ""));
    assert_eq!(transfers["items"], json!([]));

    // A page of the server itself may do it: the password would have been enough.
    browser.open(server, "/livez");
    let own = browser.run_async(OWN_REQUEST, &json!([]));
    assert_eq!(own, 201, "{own}");
}

/// Gives a registrant a key with a secret.
fn create_key(client: &ApiClient, registrant: &str, token: &str) {
    let admins = json!({"admins": ["300:10.70000/admin"]});
    client.check("PUT", &format!("/registrants/{registrant}"), token, &admins, (200, ""));
    let secret = json!([{"index": 300, "type": "HS_SECKEY", "data": SECRET}]);
    let name = json!({"name": "10.70000/admin", "url": "https://example.org/", "values": secret});
    client.check("POST", "/dois", token, &name, (201, ""));
}

/// Requests from scripts; their responses are opaque to the page.
const ATTACKS: &str = r#"
const [server, done] = arguments;
const dois = server + '/api/v1/dois';
const name = number => JSON.stringify({name: '10.70000/cross' + number, url: 'https://evil.example/'});
const json = {'Content-Type': 'application/json'};
const settled = [
    fetch(dois, {method: 'POST', mode: 'no-cors', credentials: 'include', body: name(1)}),
    fetch(dois, {method: 'POST', mode: 'cors', credentials: 'include', headers: json, body: name(2)}),
    fetch(server + '/api/handles/10.70000/cross3', {method: 'PUT', credentials: 'include', headers: json, body: '{"values":[]}'}),
    fetch(server + '/api/v1/transfers', {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"prefix":"10.70000","to":"x"}'}),
    fetch(server + '/api/v1/dois/batch', {method: 'POST', mode: 'no-cors', credentials: 'include', body: name(4)}),
    new Promise(resolve => {
        navigator.sendBeacon(dois, new Blob([name(5)], {type: 'text/plain'}));
        const request = new XMLHttpRequest();
        request.open('POST', dois);
        request.withCredentials = true;
        request.onloadend = () => resolve(request.status);
        request.send(name(6));
    }),
];
Promise.allSettled(settled).then(results => done(results.map(result => result.status)));
"#;

const OWN_REQUEST: &str = r#"
const [done] = arguments;
const body = JSON.stringify({name: '10.70000/own', url: 'https://example.org/'});
fetch('/api/v1/dois', {method: 'POST', headers: {'Content-Type': 'application/json'}, body})
    .then(response => done(response.status), error => done(String(error)));
"#;

/// Submits a form whose text is the JSON of a registration, and waits for the response.
fn submit_form(browser: &Browser<'_>, server: SocketAddr, enctype: &str) {
    browser.run(&format!(
        r#"const form = document.createElement('form');
        form.method = 'post';
        form.enctype = '{enctype}';
        form.action = 'http://{server}/api/v1/dois';
        const field = document.createElement('input');
        field.name = '{{"name": "10.70000/form", "url": "https://evil.example/", "prefix": "';
        field.value = '"}}';
        form.append(field);
        document.body.append(form);
        form.submit();"#
    ));
    browser.wait_for_url(&format!("http://{server}/api/v1/dois"));
}

/// A server with an empty page, on another port.
fn start_page() -> SocketAddr {
    let listener = bind();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\nConnection: close\r\n\r\n";
            let _ = write!(stream, "{head}<!doctype html>");
        }
    });
    address
}

//! Pages in a real browser: they work and are accessible (WCAG 2.2, AA). Debian's Chromium is driven over WebDriver; screenshots
//! are left in the temporary directory of the target directory, for review.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;

use serde_json::json;
use tendot_proto::HandleValue;
use tendot_registry::transfer::TransferSubject;
use tendot_server::http::HttpLimits;
use tendot_store::Edit;

use crate::support::edits::{home_edit, put_edit};
use crate::support::fixtures::{PartyFixtures, kernel_metadata};
use crate::support::http_server::{TestServer, bind, start_at};
use crate::support::web_driver::{Browser, WebDriver};

const ENTER: &str = "\u{E007}";
const TAB: &str = "\u{E004}";

/// One page of each kind.
const PAGES: [&str; 14] = [
    "/",
    "/docs",
    "/10.5555/ONE?noredirect",
    "/10.5555/WIDE?noredirect",
    "/10.5555/SCRIPT",
    "/10.5555/ONEE",
    "/10.9999/x",
    "/10.5555",
    "/10.5555/a%zzb",
    "/10.5555/LOC?explain&locatt=country:gb",
    "/10.5555/WIDE?history",
    "/10.70000/PAPER?noredirect",
    "/10.70000/PAPER?history",
    "/10.70000/GONE",
];

#[test]
fn pages_in_a_browser() {
    let target = start_publisher();
    let test_server = start_server(target);
    let server = test_server.address;
    let driver = WebDriver::start();
    let browser = driver.browser();
    pasted_text_redirects(&browser, server, target);
    suggestion_is_reachable_by_keyboard(&browser, server, target);
    name_is_selected_by_one_click(&browser, server);
    for page in PAGES {
        browser.open(server, page);
        check_accessible(&browser, page);
        browser.screenshot("light", page);
        browser.set_color_scheme("dark");
        check_accessible(&browser, page);
        browser.screenshot("dark", page);
        browser.set_color_scheme("light");
    }

    browser.emulate_phone();
    for page in PAGES {
        browser.open(server, page);
        // The window of a phone grows with its content; its screen does not.
        let excess = browser.run("return document.documentElement.scrollWidth - screen.width");
        assert!(excess.as_i64().unwrap() <= 0, "{page} is {excess} pixels too wide");
        browser.screenshot("phone", page);
    }
}

fn pasted_text_redirects(browser: &Browser<'_>, server: SocketAddr, target: SocketAddr) {
    browser.open(server, "/");
    assert_eq!(browser.run("return document.activeElement.id"), "text", "the search box has the focus");
    browser.press(&format!(
        "Bak, P. Self-organized criticality. https://doi.org/10.5555/one. Accessed 2026{ENTER}"
    ));
    browser.wait_for_url(&format!("http://{target}/landed"));
}

fn suggestion_is_reachable_by_keyboard(browser: &Browser<'_>, server: SocketAddr, target: SocketAddr) {
    browser.open(server, "/");
    browser.press(&format!("10.5555/ONEE{ENTER}"));
    browser.wait_for_url(&format!("http://{server}/10.5555/ONEE"));
    for _ in 0..8 {
        browser.press(TAB);
        if browser.run("return document.activeElement.getAttribute('href')") == "/10.5555/ONE" {
            let outline = browser.run("return getComputedStyle(document.activeElement).outlineWidth");
            assert_eq!(outline, "3px", "the focus is visible");
            browser.press(ENTER);
            browser.wait_for_url(&format!("http://{target}/landed"));
            return;
        }
    }
    panic!("no suggestion within eight steps");
}

fn name_is_selected_by_one_click(browser: &Browser<'_>, server: SocketAddr) {
    browser.open(server, "/10.5555/ONE?noredirect");
    let selected = browser.run(
        "const all = [...document.querySelectorAll('.copy code')];
         return all.every(element => getComputedStyle(element).userSelect == 'all') && all[0].textContent",
    );
    assert_eq!(selected, "https://doi.org/10.5555/ONE");
}

/// Language, title, landmarks, headings in order, accessible names, and contrast (WCAG 2.2, AA).
fn check_accessible(browser: &Browser<'_>, page: &str) {
    let faults = browser.run(CHECKS);
    assert_eq!(faults, json!([]), "{page}");
}

const CHECKS: &str = r"
const faults = [];
const all = selector => [...document.querySelectorAll(selector)];
if (document.documentElement.lang != 'en') faults.push('no language');
if (!document.title) faults.push('no title');
for (const element of ['header', 'main', 'footer', 'h1', 'header nav']) if (all(element).length != 1) faults.push('not exactly one ' + element);
const levels = all('h1, h2, h3, h4').map(heading => Number(heading.tagName[1]));
if (levels.some((level, index) => index ? level > levels[index - 1] + 1 : level != 1)) faults.push('headings ' + levels);
for (const input of all('input')) if (!input.labels.length) faults.push('input without label');
for (const element of all('a, button, summary')) if (!element.textContent.trim()) faults.push('no text in ' + element.outerHTML);
for (const image of all('img')) if (!image.hasAttribute('alt') || !image.naturalWidth) faults.push('image ' + image.src);
const ids = all('[id]').map(element => element.id);
if (new Set(ids).size != ids.length) faults.push('duplicate id');
for (const element of all('[aria-labelledby]')) if (!ids.includes(element.getAttribute('aria-labelledby'))) faults.push('missing label');
if (all('script').length) faults.push('script');
const luminance = color => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const background = element => {
    for (; element; element = element.parentElement) {
        const color = getComputedStyle(element).backgroundColor;
        if (!/, 0\)$/.test(color)) return color;
    }
    return 'rgb(255, 255, 255)';
};
for (const element of all('body *')) {
    const has_text = [...element.childNodes].some(node => node.nodeType == 3 && node.textContent.trim());
    if (!has_text && element.tagName != 'INPUT') continue;
    const [a, b] = [luminance(getComputedStyle(element).color), luminance(background(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.push('contrast ' + contrast.toFixed(2) + ' of ' + element.tagName + ' ' + element.className);
}
return faults;";

/// Starts a server with the page that a name redirects to.
fn start_publisher() -> SocketAddr {
    let listener = bind();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = BufReader::new(&stream).read_line(&mut String::new());
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\n";
            let _ = write!(stream, "{head}landed");
        }
    });
    address
}

fn start_server(target: SocketAddr) -> TestServer {
    let server = start_at(bind(), edits(target), HttpLimits::default(), None, |http| http);
    let registry = server.http.registry();
    server.runtime.block_on(async {
        let parties = PartyFixtures::create(registry).await;
        let update = format!(r#"{{"metadata":{}}}"#, kernel_metadata("Another title"));
        parties.update(registry, "10.70000/PAPER", &update).await;
        parties.transfer(registry, TransferSubject::Prefix("10.70000".into()), &parties.second).await;
    });
    server
}

fn edits(target: SocketAddr) -> Vec<Edit> {
    let url =
        |address: String| HandleValue { timestamp: 1_700_000_000, ..HandleValue::new(1, "URL", address) };
    let locations = "<locations chooseby='locatt,country,weighted'>\
        <location href='https://a.example.org/' weight='1'/>\
        <location href='https://b.example.org/' weight='0' country='gb'/></locations>";
    let wide = vec![
        url(format!("https://example.org/{}", "long".repeat(100))),
        HandleValue::new(2, "A.TYPE.THAT.IS.".repeat(5), "unbroken".repeat(200)),
        HandleValue::with_data(3, "BYTES", vec![0xff; 600]),
    ];
    vec![
        put_edit(
            "10.5555/ONE",
            vec![url(format!("http://{target}/landed")), HandleValue::new(2, "DESC", "The first")],
        ),
        put_edit(
            "10.5555/LOC",
            vec![url("https://example.org/loc".into()), HandleValue::new(2, "10320/loc", locations)],
        ),
        put_edit("10.5555/SCRIPT", vec![url("javascript:alert(1)".into())]),
        put_edit("10.5555/WIDE", wide.clone()),
        // A second version, so that the history shows all values.
        put_edit("10.5555/WIDE", wide),
        home_edit("10.5555"),
    ]
}

//! The pages in a real browser: Debian's Chromium, driven over WebDriver. Screenshots are left in the folder for tests' files
//! of the target directory, to be looked at.

mod deposits;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use deposits::{Parties, metadata};
use serde_json::{Value as Json, json};
use tendot_proto::Value;
use tendot_registry::transfer::What;
use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Limits, listen};
use tendot_store::{Change, Edit, Expect, Memory, Store as _};

const ENTER: &str = "\u{E007}";
const TAB: &str = "\u{E004}";

/// All pages that differ in how they are made.
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
fn in_a_browser() {
    let target = publisher();
    let service = service(target);
    let driver = Driver::start();

    let desktop = driver.browser(&json!({}));
    paste_leads_to_the_target(&desktop, service, target);
    a_near_name_is_found_by_keyboard(&desktop, service, target);
    a_name_is_copied_by_one_click(&desktop, service);
    for page in PAGES {
        desktop.open(service, page);
        is_accessible(&desktop, page);
        desktop.picture("light", page);
        desktop.set_dark();
        is_accessible(&desktop, page);
        desktop.picture("dark", page);
        desktop.set_light();
    }

    let phone = driver.browser(&json!({"deviceMetrics": {"width": 360, "height": 740, "pixelRatio": 2}}));
    for page in PAGES {
        phone.open(service, page);
        // The window of a phone grows with what is in it; its screen does not.
        let wide = phone.run("return document.documentElement.scrollWidth - screen.width");
        assert!(wide.as_i64().unwrap() <= 0, "{page} is {wide} pixels too wide");
        phone.picture("phone", page);
    }
}

fn paste_leads_to_the_target(browser: &Browser<'_>, service: SocketAddr, target: SocketAddr) {
    browser.open(service, "/");
    assert_eq!(browser.run("return document.activeElement.id"), "text", "the box has the focus");
    browser.press(&format!(
        "Bak, P. Self-organized criticality. https://doi.org/10.5555/one. Accessed 2026{ENTER}"
    ));
    browser.wait_for(&format!("http://{target}/landed"));
}

fn a_near_name_is_found_by_keyboard(browser: &Browser<'_>, service: SocketAddr, target: SocketAddr) {
    browser.open(service, "/");
    browser.press(&format!("10.5555/ONEE{ENTER}"));
    browser.wait_for(&format!("http://{service}/10.5555/ONEE"));
    for _ in 0..8 {
        browser.press(TAB);
        if browser.run("return document.activeElement.getAttribute('href')") == "/10.5555/ONE" {
            let outline = browser.run("return getComputedStyle(document.activeElement).outlineWidth");
            assert_eq!(outline, "3px", "what has the focus is seen");
            browser.press(ENTER);
            browser.wait_for(&format!("http://{target}/landed"));
            return;
        }
    }
    panic!("no near name within eight steps");
}

fn a_name_is_copied_by_one_click(browser: &Browser<'_>, service: SocketAddr) {
    browser.open(service, "/10.5555/ONE?noredirect");
    let selected = browser.run(
        "const all = [...document.querySelectorAll('.copy code')];
         return all.every(one => getComputedStyle(one).userSelect == 'all') && all[0].textContent",
    );
    assert_eq!(selected, "https://doi.org/10.5555/ONE");
}

/// Language, title, landmarks, headings in order, names of everything that can be used, and contrast (WCAG 2.2, AA).
fn is_accessible(browser: &Browser<'_>, page: &str) {
    let wrong = browser.run(CHECKS);
    assert_eq!(wrong, json!([]), "{page}");
}

const CHECKS: &str = r"
const wrong = [];
const all = selector => [...document.querySelectorAll(selector)];
if (document.documentElement.lang != 'en') wrong.push('no language');
if (!document.title) wrong.push('no title');
for (const one of ['header', 'main', 'footer', 'h1', 'header nav']) if (all(one).length != 1) wrong.push('not one ' + one);
const levels = all('h1, h2, h3, h4').map(heading => Number(heading.tagName[1]));
if (levels.some((level, at) => at ? level > levels[at - 1] + 1 : level != 1)) wrong.push('headings ' + levels);
for (const input of all('input')) if (!input.labels.length) wrong.push('input without label');
for (const one of all('a, button, summary')) if (!one.textContent.trim()) wrong.push('nothing to read in ' + one.outerHTML);
for (const image of all('img')) if (!image.hasAttribute('alt') || !image.naturalWidth) wrong.push('image ' + image.src);
const ids = all('[id]').map(one => one.id);
if (new Set(ids).size != ids.length) wrong.push('an id twice');
for (const one of all('[aria-labelledby]')) if (!ids.includes(one.getAttribute('aria-labelledby'))) wrong.push('label');
if (all('script').length) wrong.push('a script');
const light = color => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = one => {
    for (; one; one = one.parentElement) {
        const color = getComputedStyle(one).backgroundColor;
        if (!/, 0\)$/.test(color)) return color;
    }
    return 'rgb(255, 255, 255)';
};
for (const one of all('body *')) {
    const has_text = [...one.childNodes].some(node => node.nodeType == 3 && node.textContent.trim());
    if (!has_text && one.tagName != 'INPUT') continue;
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) wrong.push('contrast ' + contrast.toFixed(2) + ' of ' + one.tagName + ' ' + one.className);
}
return wrong;";

/// Where a name leads: a page that says so.
fn publisher() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
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

fn service(target: SocketAddr) -> SocketAddr {
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Memory::new();
            store.commit(Change { by: "test".into(), at: 0, edits: edits(target) }).await.unwrap();
            let registry = Registry::new(store, Settings::default());
            let parties = Parties::new(&registry).await;
            let titled = format!(r#"{{"metadata":{}}}"#, metadata("Another title"));
            parties.change(&registry, "10.70000/PAPER", &titled).await;
            parties.transfer(&registry, What::Prefix("10.70000".into()), &parties.second).await;
            let http = Http::new(Arc::new(registry));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            listen(listener, Arc::new(http), Limits::default(), std::future::pending()).await.unwrap();
        });
    });
    address.recv().unwrap()
}

fn edits(target: SocketAddr) -> Vec<Edit> {
    let put = |name: &str, values| Edit::Put { name: name.into(), values, expect: Expect::Absent };
    let url = |address: String| Value { timestamp: 1_700_000_000, ..Value::new(1, "URL", address) };
    let locations = "<locations chooseby='locatt,country,weighted'>\
        <location href='https://a.example.org/' weight='1'/>\
        <location href='https://b.example.org/' weight='0' country='gb'/></locations>";
    let wide = vec![
        url(format!("https://example.org/{}", "long".repeat(100))),
        Value::new(2, "A.TYPE.THAT.IS.".repeat(5), "unbroken".repeat(200)),
        Value::with_data(3, "BYTES", vec![0xff; 600]),
    ];
    vec![
        put("10.5555/ONE", vec![url(format!("http://{target}/landed")), Value::new(2, "DESC", "The first")]),
        put(
            "10.5555/LOC",
            vec![url("https://example.org/loc".into()), Value::new(2, "10320/loc", locations)],
        ),
        put("10.5555/SCRIPT", vec![url("javascript:alert(1)".into())]),
        put("10.5555/WIDE", wide.clone()),
        // So that its history has all of it.
        Edit::Put { name: "10.5555/WIDE".into(), values: wide, expect: Expect::Live },
        Edit::Home { prefix: "10.5555".into() },
    ]
}

/// ChromeDriver, which ends with the test.
struct Driver {
    process: Child,
    address: SocketAddr,
}

impl Driver {
    fn start() -> Self {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn();
        let mut process = started.expect("`cargo xtask test` installs chromium and chromium-driver");
        let said = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let port = said
            .filter_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok())
            .next();
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("it says its port")));
        Self { process, address }
    }

    fn browser(&self, emulation: &Json) -> Browser<'_> {
        let mut options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,900"]
        });
        if emulation.as_object().is_some_and(|emulation| !emulation.is_empty()) {
            options["mobileEmulation"] = emulation.clone();
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let session = self.ask("POST", "/session", &wanted);
        Browser { driver: self, session: session["sessionId"].as_str().unwrap().to_owned() }
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Json) -> Json {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(self.address).unwrap();
        let (host, length) = (self.address, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        // It does not close connections, whatever it is asked for.
        for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
            let line = line.to_ascii_lowercase();
            length =
                line.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut answer: Json = serde_json::from_slice(&body).unwrap();
        let value = answer["value"].take();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Browser<'d> {
    driver: &'d Driver,
    session: String,
}

impl Browser<'_> {
    #[track_caller]
    fn post(&self, what: &str, body: &Json) -> Json {
        self.driver.ask("POST", &format!("/session/{}/{what}", self.session), body)
    }

    fn get(&self, what: &str) -> Json {
        self.driver.ask("GET", &format!("/session/{}/{what}", self.session), &Json::Null)
    }

    fn open(&self, service: SocketAddr, page: &str) {
        self.post("url", &json!({"url": format!("http://{service}{page}")}));
    }

    fn run(&self, script: &str) -> Json {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Keys, one after the other, wherever the focus is.
    fn press(&self, keys: &str) {
        let strokes: Vec<Json> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.post("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    #[track_caller]
    fn wait_for(&self, address: &str) {
        let started = Instant::now();
        while self.get("url") != address {
            assert!(started.elapsed() < Duration::from_secs(10), "at {}, not at {address}", self.get("url"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn set_dark(&self) {
        let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
        self.post("goog/cdp/execute", &json!({"cmd": "Emulation.setEmulatedMedia", "params": dark}));
    }

    fn set_light(&self) {
        self.post(
            "goog/cdp/execute",
            &json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": []}}),
        );
    }

    fn picture(&self, kind: &str, page: &str) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
        std::fs::create_dir_all(&folder).unwrap();
        let name: String = page.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let whole = json!({"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": true}});
        let picture = self.post("goog/cdp/execute", &whole);
        let png = BASE64.decode(picture["data"].as_str().unwrap().as_bytes()).unwrap();
        std::fs::write(folder.join(format!("{kind}{name}.png")), png).unwrap();
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.driver.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
    }
}

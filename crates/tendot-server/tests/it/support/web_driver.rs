//! Chromium, driven over WebDriver by Debian's ChromeDriver.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use data_encoding::BASE64;
use serde_json::{Value as Json, json};
use tendot_testing::http::{HttpConnection, HttpRequest};
use tendot_testing::{ensure_programs, wait_until};

/// ChromeDriver, killed on drop.
pub(crate) struct WebDriver {
    process: Child,
    address: SocketAddr,
}

impl WebDriver {
    pub(crate) fn start() -> Self {
        ensure_programs(&["chromedriver"], &["chromium", "chromium-driver"]);
        let mut process =
            Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let port = lines
            .filter_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok())
            .next();
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("ChromeDriver prints its port")));
        Self { process, address }
    }

    pub(crate) fn browser(&self) -> Browser<'_> {
        let options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,900"]
        });
        let capabilities = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let session = self.request("POST", "/session", &capabilities);
        Browser { driver: self, session: session["sessionId"].as_str().unwrap().to_owned() }
    }

    #[track_caller]
    fn request(&self, method: &str, path: &str, body: &Json) -> Json {
        let request = HttpRequest::new(method, path);
        let request = if method == "GET" { request } else { request.json(body) };
        // ChromeDriver ignores `Connection: close`.
        let mut connection = HttpConnection::open(self.address).unwrap();
        let mut response = connection.exchange(&request).unwrap().json();
        let value = response["value"].take();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }
}

impl Drop for WebDriver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) struct Browser<'d> {
    driver: &'d WebDriver,
    session: String,
}

impl Browser<'_> {
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Json) -> Json {
        self.driver.request("POST", &format!("/session/{}/{path}", self.session), body)
    }

    pub(crate) fn get(&self, path: &str) -> Json {
        self.driver.request("GET", &format!("/session/{}/{path}", self.session), &Json::Null)
    }

    pub(crate) fn open(&self, server: SocketAddr, page: &str) {
        self.open_url(&format!("http://{server}{page}"));
    }

    pub(crate) fn open_url(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    pub(crate) fn run(&self, script: &str) -> Json {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script whose last argument is a function to call with the result.
    pub(crate) fn run_async(&self, script: &str, arguments: &Json) -> Json {
        self.post("execute/async", &json!({"script": script, "args": arguments}))
    }

    /// Text of the page.
    pub(crate) fn text(&self) -> String {
        self.run("return document.documentElement.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Types keys into the focused element.
    pub(crate) fn press(&self, keys: &str) {
        let strokes: Vec<Json> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.post("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    #[track_caller]
    pub(crate) fn wait_for_url(&self, address: &str) {
        wait_until(&format!("the browser shows {address}"), || self.get("url") == address);
    }

    pub(crate) fn set_color_scheme(&self, scheme: &str) {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.run_devtools_command("Emulation.setEmulatedMedia", &media);
    }

    pub(crate) fn emulate_phone(&self) {
        let metrics = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
        self.run_devtools_command("Emulation.setDeviceMetricsOverride", &metrics);
    }

    pub(crate) fn run_devtools_command(&self, command: &str, parameters: &Json) -> Json {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    pub(crate) fn screenshot(&self, kind: &str, page: &str) {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
        std::fs::create_dir_all(&dir).unwrap();
        let name: String = page.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let screenshot =
            self.run_devtools_command("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let png = BASE64.decode(screenshot["data"].as_str().unwrap().as_bytes()).unwrap();
        std::fs::write(dir.join(format!("{kind}{name}.png")), png).unwrap();
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.driver.request("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
    }
}

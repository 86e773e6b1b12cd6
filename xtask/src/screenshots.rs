//! Screenshots of the server's pages for the documentation, taken with headless Chromium.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::Result;
use tendot_testing::free_port;

use crate::process::{apt_install, is_installed, run, start_server};
use crate::root;

/// File names below `docs/images`, paths and window sizes.
const PAGES: [(&str, &str, &str); 1] = [("record.png", "/10.5555/DEMO?noredirect", "1000,900")];

/// Starts a server with the demo records and writes one image per page.
pub(crate) fn take_screenshots() -> Result<()> {
    if !is_installed("chromium") {
        apt_install(&["chromium"])?;
    }
    run(Command::new("cargo").args(["build", "--package", "tendot"]).current_dir(root()))?;
    let (data, address) = (tempfile::tempdir()?, format!("127.0.0.1:{}", free_port()));
    let mut serve = Command::new(root().join("target/debug/tendot"));
    serve.args(["serve", "--demo", "--native", "off", "--http", &address, "--data"]).arg(data.path());
    let _server = start_server(&mut serve)?;
    let folder = root().join("docs/images");
    fs::create_dir_all(&folder)?;
    for (file, path, size) in PAGES {
        let mut chromium = Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--hide-scrollbars", &format!("--window-size={size}")]);
        chromium.arg(format!("--screenshot={}", folder.join(file).display()));
        run(chromium.arg(format!("http://{address}{path}")).stderr(Stdio::null()))?;
    }
    Ok(())
}

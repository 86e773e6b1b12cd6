//! Screenshots of the server's pages for the documentation, taken with headless Chromium.

use anyhow::Result;
use tendot_testing::free_port;
use xshell::cmd;

use crate::process::{apt_install, is_installed, shell, start_server};
use crate::root;

/// File names below `docs/images`, paths and window sizes.
const PAGES: [(&str, &str, &str); 1] = [("record.png", "/10.5555/DEMO?noredirect", "1000,900")];

/// Starts a server with the demo records and writes one image per page.
pub(crate) fn take_screenshots() -> Result<()> {
    if !is_installed("chromium") {
        apt_install(&["chromium"])?;
    }
    let sh = shell()?;
    cmd!(sh, "cargo build --package tendot").run()?;
    let (tendot, images) = (root().join("target/debug/tendot"), root().join("docs/images"));
    let (data, address) = (tempfile::tempdir()?, format!("127.0.0.1:{}", free_port()));
    let data = data.path();
    let _server =
        start_server(cmd!(sh, "{tendot} serve --demo --native off --http {address} --data {data}"))?;
    sh.create_dir(&images)?;
    for (file, path, size) in PAGES {
        let image = images.join(file);
        let options = ["--headless", "--no-sandbox", "--hide-scrollbars"];
        cmd!(sh, "chromium {options...} --window-size={size} --screenshot={image} http://{address}{path}")
            .ignore_stderr()
            .run()?;
    }
    Ok(())
}

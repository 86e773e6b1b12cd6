//! Export to Handle.Net: its tools load a dump into their database, and write the same records back.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use xshell::cmd;

use super::java;
use crate::process::shell;

/// Smallest configuration that Handle.Net's storage tools accept.
const STORAGE_CONFIG: &str = "{\n\"server_config\" = {\n\"storage_type\" = \"BDBJE\"\n}\n}\n";

/// Exports records, loads the dump with Handle.Net's tools, and imports what they write.
pub(super) fn test_dumps(tendot: &Path, dir: &Path, records: &Path) -> Result<()> {
    let (ours, theirs, storage) = (dir.join("ours"), dir.join("theirs"), dir.join("storage"));
    let (dump, written) = (dir.join("dump.json"), dir.join("written.json"));
    fs::create_dir_all(&storage)?;
    fs::write(storage.join("config.dct"), STORAGE_CONFIG)?;
    let sh = shell()?;
    cmd!(sh, "{tendot} import {records} --data {ours}").run()?;
    cmd!(sh, "{tendot} export --format handle-net --data {ours} {dump}").run()?;
    java::load_dump(&dump, &storage)?;
    java::write_dump(&storage, &written)?;
    cmd!(sh, "{tendot} import --format handle-net {written} --data {theirs}").run()?;
    let [sent, returned] = [&ours, &theirs].map(|data| cmd!(sh, "{tendot} export --data {data}").read());
    let (sent, returned) = (sent?, returned?);
    ensure!(
        !sent.is_empty() && sent == returned,
        "Handle.Net's tools changed the records:\n{sent}\n{returned}"
    );
    Ok(())
}

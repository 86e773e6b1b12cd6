//! Cache of passed test programs, so that a run after a change repeats only the affected ones.
//!
//! The record of a test program holds as long as the program, the program under test, this program and every file that is not
//! Rust code (vectors, documentation, scripts) are as they were. CI and `--rerun` do not use it.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use anyhow::Result;
use serde_json::{Value, json};
use xshell::cmd;

use crate::process::shell;
use crate::root;

/// When a file was written, in nanoseconds; none if it does not exist.
pub(crate) fn modified(path: &Path) -> Option<u128> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    Some(modified.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos())
}

/// The state of this program and of all files of the workspace that are not compiled.
pub(crate) fn data_fingerprint() -> Result<String> {
    let mut hasher = DefaultHasher::new();
    modified(&std::env::current_exe()?).hash(&mut hasher);
    for file in workspace_files()?.split('\0') {
        if !file.ends_with(".rs") {
            (file, modified(&root().join(file))).hash(&mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Paths of all files that are not ignored by Git, separated by zeros.
pub(crate) fn workspace_files() -> Result<String> {
    let sh = shell()?;
    Ok(cmd!(sh, "git ls-files --cached --others --exclude-standard -z").read()?)
}

/// Results of earlier runs: fingerprints and numbers of passed tests by program.
pub(crate) struct PassedRecords {
    data: String,
    records: Mutex<BTreeMap<String, Value>>,
}

impl PassedRecords {
    /// Reads the results of earlier runs.
    pub(crate) fn open() -> Result<Self> {
        let file = fs::read(records_path()).unwrap_or_default();
        let records = serde_json::from_slice(&file).unwrap_or_default();
        Ok(Self { data: data_fingerprint()?, records: Mutex::new(records) })
    }

    /// Tests that a program passed, if nothing that it depends on has changed since.
    pub(crate) fn get(&self, program: &Path, depends_on: &[PathBuf]) -> Option<u64> {
        let records = self.records.lock().expect("no panic while it is held");
        let record = records.get(&program.display().to_string())?;
        (record["fingerprint"] == self.fingerprint(program, depends_on)).then(|| record["passed"].as_u64())?
    }

    /// Records that a program passed so many tests.
    pub(crate) fn insert(&self, program: &Path, depends_on: &[PathBuf], passed: u64) -> Result<()> {
        let mut records = self.records.lock().expect("no panic while it is held");
        // A target directory grows by a program with every change.
        records.retain(|path, _| Path::new(path).exists());
        let record = json!({"fingerprint": self.fingerprint(program, depends_on), "passed": passed});
        records.insert(program.display().to_string(), record);
        fs::create_dir_all(root().join("target/xtask"))?;
        Ok(fs::write(records_path(), serde_json::to_vec(&*records)?)?)
    }

    fn fingerprint(&self, program: &Path, depends_on: &[PathBuf]) -> String {
        let times: Vec<_> =
            std::iter::once(program).chain(depends_on.iter().map(|path| &**path)).map(modified).collect();
        format!("{} {times:?}", self.data)
    }
}

fn records_path() -> PathBuf {
    root().join("target/xtask/passed.json")
}

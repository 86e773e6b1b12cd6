use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn workspace_root() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("this crate is in `crates/`")
}

/// The path of a file in `conformance/`, such as `vectors/names.jsonl`.
pub fn conformance(file: &str) -> PathBuf {
    workspace_root().join("conformance").join(file)
}

//! Pages of the documentation: `console` blocks are executed, links resolve, the index is complete, named files exist.

use std::path::{Path, PathBuf};

use tendot_testing::{free_port, workspace_root};

use super::DocShell;
use crate::support::StoreKind;

/// Pages with a test of their own.
const EXECUTED_ELSEWHERE: [&str; 2] =
    ["docs/tutorial/run-a-registry.md", "docs/tutorial/postgresql-cluster.md"];

fn read_page(path: &str) -> String {
    std::fs::read_to_string(workspace_root().join(path)).unwrap()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Pages at the root, in `docs/` and READMEs of crates, relative to the root.
fn pages() -> Vec<String> {
    let root = workspace_root();
    let mut found = entries(root);
    let mut dirs = vec![root.join("docs")];
    while let Some(dir) = dirs.pop() {
        let inside = entries(&dir);
        dirs.extend(inside.iter().filter(|path| path.is_dir()).cloned());
        found.extend(inside);
    }
    found.extend(entries(&root.join("crates")).into_iter().map(|dir| dir.join("README.md")));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md") && path.exists());
    let relative = |path: PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    found.into_iter().map(relative).collect()
}

/// Each page has its own directory and ports.
#[test]
fn console_blocks_work() {
    let mut executed = 0;
    for path in pages() {
        let page = read_page(&path);
        if EXECUTED_ELSEWHERE.contains(&&*path) || !page.lines().any(|line| line == "```console") {
            continue;
        }
        let [http, native] = [(), ()].map(|()| format!("127.0.0.1:{}", free_port()));
        let page = page.replace("127.0.0.1:8080", &http).replace("127.0.0.1:2641", &native);
        let variables = [("TENDOT_HTTP_ADDRESS", &*http), ("TENDOT_NATIVE_ADDRESS", &*native)];
        executed += DocShell::start(&variables, StoreKind::Embedded).follow(&path, &page);
    }
    assert!(executed > 40, "only {executed} commands");
}

/// Lines outside code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Anchor of a heading on GitHub.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let text = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    text.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_resolve() {
    let mut broken = Vec::new();
    for path in pages() {
        let page = read_page(&path);
        let source = workspace_root().join(&path);
        for rest in prose(&page).flat_map(|line| line.split("](").skip(1)) {
            let target = rest.split(')').next().unwrap_or_default();
            // External links, and links to items of a crate.
            if target.contains("://") || target.contains("::") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { source.clone() } else { source.with_file_name(file) };
            let has_heading = || {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                prose(&text).any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !file.exists() || !heading.is_empty() && !has_heading() {
                broken.push(format!("{path}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn index_lists_every_page() {
    let index = read_page("docs/README.md");
    let pages = pages();
    let pages =
        pages.iter().filter_map(|path| path.strip_prefix("docs/")).filter(|path| *path != "README.md");
    let missing: Vec<_> = pages.filter(|path| !index.contains(&format!("({path})"))).collect();
    assert!(missing.is_empty(), "docs/README.md does not list {missing:?}");
}

/// Files of crates that the documents for contributors name.
#[test]
fn named_source_files_exist() {
    for path in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        for code in read_page(path).split('`').skip(1).step_by(2) {
            let is_path =
                code.starts_with("tendot") && code.contains('/') && !code.contains(['{', '<', ' ', '\n']);
            assert!(!is_path || workspace_root().join("crates").join(code).exists(), "{path}: {code}");
        }
    }
}

//! `docs/background/security.md` has a test for every promise, and the tests exist.

use tendot_testing::workspace_root;

use super::standards::functions;

/// Number of findings of the audit, each with a promise.
const FINDINGS: u32 = 18;

#[test]
fn promises_are_tested() {
    let page = std::fs::read_to_string(workspace_root().join("docs/background/security.md")).unwrap();
    let (_, promises) = page.split_once("\n## Promises\n").unwrap();
    let (promises, _) = promises.split_once("\n## Not promised\n").unwrap();
    let functions = functions();
    let mut rows = 0;
    let mut wrong = Vec::new();
    for line in promises.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| tests |")) {
        let tests = line.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        rows += 1;
        let unknown: Vec<_> = tests.iter().filter(|test| !functions.contains(**test)).collect();
        if tests.is_empty() || !unknown.is_empty() {
            wrong.push(format!("{line}: {unknown:?}"));
        }
    }
    assert!(rows > 35, "{rows} promises");
    let is_missing = |finding: &u32| !promises.contains(&format!("\n| F{finding} | "));
    let missing: Vec<_> = (1..=FINDINGS).filter(is_missing).collect();
    assert!(missing.is_empty(), "findings without a promise: {missing:?}");
    assert!(wrong.is_empty(), "promises without a test that exists: {wrong:#?}");
}

/// Regression tests of the audit are all cited.
#[test]
fn regression_tests_are_cited() {
    let page = std::fs::read_to_string(workspace_root().join("docs/background/security.md")).unwrap();
    let is_missing = |name: &String| name.starts_with("audit_") && !page.contains(&format!("`{name}`"));
    let missing: Vec<_> = functions().into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/background/security.md does not cite {missing:?}");
}

//! `docs/reference/standards.md` has every statement of the source documents, with tests and vector cases that exist.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value as Json;
use tendot_testing::{conformance, workspace_root};

/// Number of statements.
const STATEMENTS: u32 = 192;

/// Row of a table of statements.
struct StatementRow {
    number: u32,
    tests: Vec<String>,
}

/// Rows of the tables of statements.
fn rows() -> Vec<StatementRow> {
    let page = std::fs::read_to_string(workspace_root().join("docs/reference/standards.md")).unwrap();
    let mut rows = Vec::new();
    for line in page.lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let Some(number) = cells.split(" | ").next().and_then(|cell| cell.parse().ok()) else { continue };
        let tests = cells.rsplit(" | ").next().unwrap_or_default();
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        rows.push(StatementRow { number, tests });
    }
    rows
}

/// Names of all functions in the crates and in `xtask`.
pub(super) fn functions() -> BTreeSet<String> {
    let (mut names, mut dirs) =
        (BTreeSet::new(), ["crates", "xtask"].map(|dir| workspace_root().join(dir)).to_vec());
    while let Some(dir) = dirs.pop() {
        let entries: Vec<PathBuf> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in entries {
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                let after = text.split("fn ").skip(1);
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                names.extend(after.map(|rest| rest.chars().take_while(|c| is_part(*c)).collect::<String>()));
            }
        }
    }
    names
}

/// Names of all vector cases.
fn vector_cases() -> BTreeSet<String> {
    let files = ["vectors/names.jsonl", "vectors/names-more.jsonl"];
    let text: String = files.map(|file| std::fs::read_to_string(conformance(file)).unwrap()).concat();
    let cases = text
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["case"].as_str().unwrap().to_owned());
    cases.collect()
}

#[test]
fn statements_are_complete_and_tested() {
    let rows = rows();
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=STATEMENTS).collect::<Vec<_>>());
    let mut known = functions();
    known.append(&mut vector_cases());
    let mut missing = Vec::new();
    for StatementRow { number, tests } in &rows {
        let unknown: Vec<_> = tests.iter().filter(|test| !known.contains(*test)).collect();
        if tests.is_empty() || !unknown.is_empty() {
            missing.push(format!("statement {number}: {unknown:?}"));
        }
    }
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
}

/// A test that is named after a statement is cited in its row, or in that of another one.
#[test]
fn tests_of_statements_are_cited() {
    let cited: BTreeSet<String> = rows().into_iter().flat_map(|row| row.tests).collect();
    let is_of_statement = |name: &&String| {
        name.strip_prefix("statement_").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let functions = functions();
    let missing: Vec<_> =
        functions.iter().filter(is_of_statement).filter(|name| !cited.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/reference/standards.md does not cite {missing:?}");
}

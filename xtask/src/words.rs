//! The language check of `cargo xtask check`: type names and idioms that a reader of the field could not search for.
//!
//! The list is short and exact: each rule names the standard words to use instead. The rules behind it are in CONTRIBUTING.md.

use std::fs;

use anyhow::{Result, ensure};

use crate::passed::workspace_files;
use crate::root;

/// Type names that say nothing in a list of search results.
const BARE_TYPE_NAMES: [&str; 24] = [
    "Answer", "Asked", "Asking", "Believed", "Found", "Given", "Heard", "Held", "Kept", "Known", "Lasting",
    "Noted", "One", "Piece", "Place", "Room", "Said", "Shown", "Then", "There", "Told", "Wanted", "Way",
    "Wish",
];

/// Idioms in comments, names of functions, documentation and templates, and the words to use instead.
const IDIOMS: [(&str, &str); 15] = [
    ("who asks", "client, caller, request"),
    ("whoever", "client, caller, any process that"),
    ("somebody", "a client, a user, another process"),
    ("nobody", "no client, no user, no process"),
    ("under way", "in flight, in progress"),
    ("anew", "again, from the start"),
    ("is told", "is reported, is returned, receives"),
    ("are told", "are reported, are returned, receive"),
    ("in vain", "without success, not found"),
    ("can't be had", "is not available"),
    ("come by", "obtained"),
    ("stands in", "is in, is stored in"),
    ("is believed", "is trusted, is accepted"),
    ("front door", "interface, listener"),
    ("has to be known", "authentication required"),
];

/// Fails with the file, line and rule of every violation.
pub(crate) fn check_words() -> Result<()> {
    let mut violations = Vec::new();
    for file in workspace_files()?.split('\0').filter(|file| *file != THIS_FILE) {
        let is_rust = file.ends_with(".rs");
        if !is_rust && !file.ends_with(".md") && !file.ends_with(".html") {
            continue;
        }
        // A file that was deleted but not committed yet is still listed.
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(rule) = violation(line, is_rust) {
                violations.push(format!("{file}:{number}: {rule}"));
            }
        }
    }
    ensure!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    Ok(())
}

/// The lists above contain what they forbid.
const THIS_FILE: &str = "xtask/src/words.rs";

/// The rule that a line of Rust code, documentation or a template breaks.
fn violation(line: &str, is_rust: bool) -> Option<String> {
    if is_rust
        && let Some(name) = declared_name(line, &["struct", "enum", "trait", "type"])
            .filter(|name| BARE_TYPE_NAMES.contains(name))
    {
        return Some(format!(
            "bare-type-name: `{name}` does not say what it is; use a noun that stands alone"
        ));
    }
    let prose = match (is_rust, declared_name(line, &["fn"])) {
        (true, Some(function)) => function.replace('_', " "),
        (true, None) => comment(line)?.to_owned(),
        (false, _) => line.to_owned(),
    };
    let prose = without_code(&prose).to_lowercase();
    let (idiom, instead) = IDIOMS.iter().find(|(idiom, _)| has_words(&prose, idiom))?;
    Some(format!("idiom: \"{idiom}\"; use the field's word ({instead})"))
}

/// The name that a line declares with one of the keywords.
fn declared_name<'l>(line: &'l str, keywords: &[&str]) -> Option<&'l str> {
    let code = &line[..line.find("//").unwrap_or(line.len())];
    let mut words = code.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.find(|word| keywords.contains(word))?;
    words.next()
}

/// The comment at the end of a line of Rust code. Addresses such as `https://…` in strings are not comments.
fn comment(line: &str) -> Option<&str> {
    let (at, _) = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':'))?;
    Some(&line[at..])
}

/// Text without what is in backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// Whether the words occur in a text, not as a part of longer words.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let is_word = |character: char| character.is_alphanumeric() || character == '-';
        !text[..at].ends_with(is_word) && !text[at + words.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::violation;

    #[test]
    fn finds_bare_type_names_and_idioms() {
        assert!(
            violation("pub(crate) enum Kept {", true).is_some_and(|rule| rule.starts_with("bare-type-name"))
        );
        assert!(
            violation("    // Sent to Whoever connects.", true).is_some_and(|rule| rule.starts_with("idiom"))
        );
        assert!(violation("Nobody reads this.", false).is_some());
        assert!(violation("fn attack_a1_nobody_waits() {", true).is_some());
    }

    #[test]
    fn ignores_code_longer_names_and_longer_words() {
        for (line, is_rust) in [
            ("pub struct KeptAlive;", true),
            ("let text = \"nobody\";", true),
            ("let address = \"https://example.org/nobody\";", true),
            ("The code `is told` stays.", false),
            ("Kenobody", false),
        ] {
            assert_eq!(violation(line, is_rust), None, "{line}");
        }
    }
}

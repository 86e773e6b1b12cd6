//! Suggestions: registered names that are similar to one that was not found.

use std::borrow::Cow;

use tendot_proto::{Budget, Handle};
use tendot_registry::{Caller, ResolveQuery, is_invisible};
use tendot_store::NameKey;

use crate::http::request::percent;
use crate::http::resolve::entry_points::extract_name;
use crate::http::resolve::resolver::RecordResolver;

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 5;

/// Names read per scan in store order.
const SCAN_LIMIT: usize = 12;

/// Registered name that is similar to the requested one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Suggestion {
    /// Name as registered.
    pub(crate) name: String,
    /// Relation to the requested name.
    pub(crate) reason: &'static str,
}

impl RecordResolver {
    /// Suggested names, the likeliest first. If names of the prefix are not listed publicly, only variants that differ by
    /// copying errors are returned.
    pub(crate) async fn suggest_names(&self, name: &str, budget: &mut Budget) -> Vec<Suggestion> {
        let mut suggestions: Vec<Suggestion> = Vec::new();
        let is_listing_public = self.registry.settings().allow_listing;
        for (variant, reason) in copy_error_variants(name) {
            if let Some(registered) = self.registered_spelling(&variant, budget).await {
                add(&mut suggestions, name, &registered, reason);
            }
        }
        if suggestions.len() < MAX_SUGGESTIONS {
            for alike in self.registry.lookalike_names(name, budget).await.unwrap_or_default() {
                add(&mut suggestions, name, &alike, "looks alike");
            }
        }
        if is_listing_public && suggestions.len() < MAX_SUGGESTIONS {
            for similar in
                self.registry.similar_names(name, MAX_SUGGESTIONS, budget).await.unwrap_or_default()
            {
                add(&mut suggestions, name, &similar, "one character differs");
            }
        }
        suggestions.truncate(MAX_SUGGESTIONS);
        if is_listing_public {
            for start in common_prefixes(name) {
                for other in self.next_names(start, budget).await {
                    if suggestions.len() >= MAX_SUGGESTIONS {
                        return suggestions;
                    }
                    let is_similar = other.len().abs_diff(name.len()) <= 6
                        && other
                            .split_at_checked(start.len())
                            .is_some_and(|(beginning, _)| beginning.eq_ignore_ascii_case(start));
                    if is_similar && self.registered_spelling(&other, budget).await.is_some() {
                        add(&mut suggestions, name, &other, "same beginning");
                    }
                }
            }
        }
        suggestions
    }

    /// Name as registered, if its record is public.
    async fn registered_spelling(&self, name: &str, budget: &mut Budget) -> Option<String> {
        self.registry
            .resolve(&ResolveQuery::new(Handle::from(name)), &Caller::Anonymous, budget)
            .await
            .ok()?;
        let stored = self.registry.stored_spelling(&NameKey::new(name).ok()?).await.ok()?;
        Some(stored.map_or_else(|| name.to_owned(), String::from))
    }

    /// Next names in store order.
    async fn next_names(&self, start: &str, budget: &mut Budget) -> Vec<String> {
        let Ok(key) = NameKey::new(start) else { return Vec::new() };
        if budget.charge(SCAN_LIMIT as u32).is_err() {
            return Vec::new();
        }
        let names = self.registry.names_after(&key, SCAN_LIMIT).await.unwrap_or_default();
        names.into_iter().map(String::from).collect()
    }
}

/// Adds a suggestion, unless it is the requested name or there already.
fn add(suggestions: &mut Vec<Suggestion>, requested: &str, name: &str, reason: &'static str) {
    let is_new = |other: &str| !other.eq_ignore_ascii_case(name);
    if is_new(requested) && suggestions.iter().all(|suggestion| is_new(&suggestion.name)) {
        suggestions.push(Suggestion { name: name.to_owned(), reason });
    }
}

/// Variants of the name without likely copying errors.
fn copy_error_variants(name: &str) -> Vec<(String, &'static str)> {
    let mut variants = Vec::new();
    let mut add = |variant: Cow<'_, str>, reason| {
        if *variant != *name && !variant.is_empty() {
            variants.push((variant.into_owned(), reason));
        }
    };
    if let Ok(Some(found)) = extract_name(name) {
        add(found.into(), "DOI found in the text");
    }
    let is_punctuation =
        |c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '-' | '_' | '#') || "”’»…".contains(c);
    // One by one: punctuation before the last character may be part of the name.
    for (at, _) in name.char_indices().rev().take_while(|(_, c)| is_punctuation(*c)).take(4) {
        add(name.get(..at).unwrap_or_default().into(), "without trailing punctuation");
    }
    add(name.trim_end_matches('/').into(), "without trailing slash");
    add(format!("{name}/").into(), "with trailing slash");
    if let Some((prefix, suffix)) = name.split_once('/') {
        add(format!("{prefix}/{}", suffix.trim_start_matches('/')).into(), "single slash after the prefix");
    }
    if let Ok(decoded) = percent::decode_text(name, "name") {
        add(decoded, "percent-decoded again");
    }
    if let Some(repaired) = tendot_names::repair(name) {
        add(repaired.identifier.as_str().into(), "without attached text");
    }
    let is_removed = |c: char| is_invisible(c) || c.is_whitespace();
    add(
        name.chars().filter(|c| !is_removed(*c)).collect::<String>().into(),
        "without spaces and invisible characters",
    );
    add(name.replace(['‐', '‑', '–', '—', '−'], "-").into(), "with ASCII hyphens");
    variants
}

/// Beginnings of the name that are long enough to be meaningful, the longest first.
fn common_prefixes(name: &str) -> impl Iterator<Item = &str> {
    let suffix = name.split_once('/').map_or("", |(_, suffix)| suffix);
    let (length, before) = (suffix.chars().count(), name.len() - suffix.len());
    [0, 1, 2, 4].into_iter().filter(move |cut| (length - cut.min(&length)) * 2 > length).filter_map(
        move |cut| {
            let end = suffix.char_indices().nth(length - cut).map_or(suffix.len(), |(end, _)| end);
            name.get(..before + end)
        },
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tendot_proto::HandleValue;
    use tendot_registry::{Registry, RegistrySettings};
    use tendot_store::{ChangeSet, Edit, MemoryStore, Precondition, Store};

    use super::*;
    use crate::http::REQUEST_BUDGET;
    use crate::http::middleware::metrics::HttpMetrics;

    const NAMES: [&str; 10] = [
        "10.5555/DEMO",
        "10.5555/Demo-Copies",
        "10.5555/ONE",
        "10.5555/with-hyphen",
        "10.5555/x.2010.01",
        "10.5555/a/b",
        "10.5555/slash/",
        "10.5555/p\u{2013}q\u{2212}r",
        "10.5555/\u{441}\u{43e}\u{440}\u{435}",
        "10.9999/DEMO",
    ];

    #[test]
    fn first_suggestions() {
        check("10.5555/demo.", "10.5555/DEMO: without trailing punctuation");
        check("10.5555/demo).", "10.5555/DEMO: without trailing punctuation");
        check("10.5555/one/", "10.5555/ONE: without trailing slash");
        check("10.5555/slash", "10.5555/slash/: with trailing slash");
        check("10.5555//ONE", "10.5555/ONE: single slash after the prefix");
        check("10.5555/a%2Fb", "10.5555/a/b: percent-decoded again");
        check("10.5555/ON\u{200b}E", "10.5555/ONE: DOI found in the text");
        check("10.5555/with–hyphen", "10.5555/with-hyphen: with ASCII hyphens");
        check("doi.org/10.5555/ONE", "10.5555/ONE: DOI found in the text");
        check("10.5555/0NE", "10.5555/ONE: one character differs");
        check("10.5555/with_hyphen", "10.5555/with-hyphen: one character differs");
        check("10.5555/OEN", "10.5555/ONE: one character differs");
        check("10.5555/DEEMO", "10.5555/DEMO: one character differs");
        check("10.5555/DEM", "10.5555/DEMO: one character differs");
        check("10.5555/DXMO", "10.5555/DEMO: one character differs");
        check("10.5555/EMO", "10.5555/DEMO: one character differs");
        check("10.5555/xDEMO", "10.5555/DEMO: one character differs");
        check("10.5555/wiht-hyphen", "10.5555/with-hyphen: one character differs");
        check("10.5555/with-hy", "10.5555/with-hyphen: same beginning");
        check("10.5555/demo-copy", "10.5555/Demo-Copies: same beginning");
        check("10.5555/demo-copias", "10.5555/Demo-Copies: one character differs");
        check("10.5555/p-q-r", "10.5555/p\u{2013}q\u{2212}r: looks alike");
        check("10.5555/p\u{2212}q\u{2013}r", "10.5555/p\u{2013}q\u{2212}r: looks alike");
        check("10.5555/cope", "10.5555/\u{441}\u{43e}\u{440}\u{435}: looks alike");
        check("10.5555/nothing-like-it", "");
        check("10.9998/DEMO", "");
        check("10.5555", "");
        check("", "");
    }

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(first(name, RegistrySettings::default()), expected, "{name}");
    }

    /// First suggestion with its reason.
    fn first(name: &str, settings: RegistrySettings) -> String {
        let suggestions = suggest(name, settings, REQUEST_BUDGET);
        let first = suggestions.first();
        first.map(|first| format!("{}: {}", first.name, first.reason)).unwrap_or_default()
    }

    fn suggest(name: &str, settings: RegistrySettings, budget: u32) -> Vec<Suggestion> {
        let put = |name: &str| Edit::Put {
            name: name.into(),
            values: vec![HandleValue::new(1, "URL", "https://example.org/")],
            precondition: Precondition::Absent,
        };
        let mut edits: Vec<Edit> = NAMES.map(put).into();
        edits.push(put("10.5555/ended"));
        edits
            .push(Edit::Tombstone { name: "10.5555/ended".into(), precondition: Precondition::NotTombstone });
        edits.extend((0..50).map(|number| put(&format!("10.5555/many-{number:02}"))));
        edits.push(Edit::Home { prefix: "10.5555".into() });
        let store = MemoryStore::new();
        pollster::block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }))
            .unwrap();
        let metrics = Arc::new(HttpMetrics::new());
        let resolver = RecordResolver::new(Arc::new(Registry::new(store, settings)), metrics);
        pollster::block_on(resolver.suggest_names(name, &mut Budget::new(budget)))
    }

    #[test]
    fn listing_disabled() {
        let unlisted = || RegistrySettings { allow_listing: false, ..RegistrySettings::default() };
        assert_eq!(first("10.5555/DEM", unlisted()), "");
        assert_eq!(first("10.5555/0NE", unlisted()), "");
        assert_eq!(first("10.5555/ONE.", unlisted()), "10.5555/ONE: without trailing punctuation");
    }

    #[test]
    fn bounded() {
        assert_eq!(
            suggest("10.5555/many-", RegistrySettings::default(), REQUEST_BUDGET).len(),
            MAX_SUGGESTIONS
        );
        assert_eq!(suggest("10.5555/many-", RegistrySettings::default(), 10), []);
        assert_eq!(suggest("10.5555/ended.", RegistrySettings::default(), REQUEST_BUDGET), []);
        let long = format!("10.5555/{}", "é.".repeat(500));
        assert_eq!(suggest(&long, RegistrySettings::default(), REQUEST_BUDGET), []);
    }
}

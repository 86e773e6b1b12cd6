//! What a browser or a program would rather have, from the headers it sends.

use std::borrow::Cow;

use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap, HeaderName, USER_AGENT};

/// Entries of a header that are read; what comes after them counts for nothing.
const ENTRIES: usize = 32;

/// A wish for a location: an attribute that it has, with this value if there is one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wish<'a> {
    pub(crate) attribute: &'a str,
    pub(crate) value: Option<Cow<'a, str>>,
}

impl<'a> Wish<'a> {
    const fn of(attribute: &'a str, value: Cow<'a, str>) -> Self {
        Self { attribute, value: Some(value) }
    }

    /// As `locatt` has it: `country:gb`, or `country` for any.
    pub(crate) fn parse(text: &'a str) -> Self {
        match text.split_once(':') {
            Some((attribute, value)) => Self::of(attribute, Cow::Borrowed(value)),
            None => Self { attribute: text, value: None },
        }
    }
}

/// What the headers ask for, the first wish first.
pub(crate) fn wishes(headers: &HeaderMap) -> Vec<Wish<'_>> {
    let mut wishes = Vec::new();
    let types = entries(headers, &ACCEPT);
    if types.iter().all(|(range, _)| *range == "*/*") {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        if agent.contains("Mozilla/") || agent.contains("Opera/") {
            wishes.push(Wish::of("http_role", "browser".into()));
            wishes.push(Wish::of("media-type", "text/html".into()));
        } else {
            wishes.push(Wish::of("http_role", "no_conneg".into()));
        }
    } else {
        let best = types.first().map_or(0, |(_, quality)| *quality);
        if types.iter().any(|(range, quality)| *quality == best && is_for_people(range)) {
            wishes.push(Wish::of("http_role", "browser".into()));
        } else {
            for (range, _) in types.iter().filter(|(range, _)| !range.contains('*')) {
                wishes.push(Wish::of("media-type", range.to_ascii_lowercase().into()));
            }
            wishes.push(Wish::of("http_role", "conneg".into()));
        }
    }
    for (language, _) in entries(headers, &ACCEPT_LANGUAGE) {
        if language != "*" {
            wishes.push(Wish::of("language", language.into()));
        }
    }
    wishes
}

/// Whether who asks would rather have JSON than a page.
pub(crate) fn prefers_json(headers: &HeaderMap) -> bool {
    let is_json = |range: &str| {
        let range = range.to_ascii_lowercase();
        range == "application/json" || range.ends_with("+json")
    };
    let types = entries(headers, &ACCEPT);
    let decisive = types.iter().find(|(range, _)| is_json(range) || is_for_people(range));
    decisive.is_some_and(|(range, _)| is_json(range))
}

/// Whether who asks would rather have events, as they come, than anything else.
pub(crate) fn prefers_events(headers: &HeaderMap) -> bool {
    entries(headers, &ACCEPT)
        .first()
        .is_some_and(|(range, _)| range.eq_ignore_ascii_case("text/event-stream"))
}

/// Whether who asks would rather have a table than anything else.
pub(crate) fn prefers_table(headers: &HeaderMap) -> bool {
    entries(headers, &ACCEPT).first().is_some_and(|(range, _)| range.eq_ignore_ascii_case("text/csv"))
}

/// What a person looks at.
fn is_for_people(range: &str) -> bool {
    let range = range.to_ascii_lowercase();
    matches!(
        &*range,
        "text/html" | "application/xhtml+xml" | "application/pdf" | "text/vnd.wap.wml" | "*/*" | "text/*"
    ) || ["image/", "audio/", "video/"].iter().any(|kind| range.starts_with(kind))
}

/// The entries of a header with their qualities in thousandths, the best first; none that is not wanted at all.
fn entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, u16)> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    let mut entries: Vec<(&str, u16)> = lines
        .flat_map(|line| line.split(','))
        .take(ENTRIES)
        .filter_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let range = parts.next().filter(|range| !range.is_empty())?;
            let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            // What is no quality of RFC 9110, 12.4.2 counts as if nothing had been said.
            let quality = quality
                .and_then(|text| text.parse::<f64>().ok())
                .filter(|quality| (0.0..=1.0).contains(quality))
                .unwrap_or(1.0);
            Some((range, (quality * 1_000.0) as u16))
        })
        .filter(|(_, quality)| *quality > 0)
        .collect();
    entries.sort_by_key(|(_, quality)| std::cmp::Reverse(*quality));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wished() {
        let browser = "Mozilla/5.0";
        check("", "", "", "http_role:no_conneg");
        check("", "", browser, "http_role:browser media-type:text/html");
        check("*/*", "", "curl/8", "http_role:no_conneg");
        check("text/html,application/xhtml+xml,*/*;q=0.8", "", browser, "http_role:browser");
        check("application/json", "", "", "media-type:application/json http_role:conneg");
        check("application/pdf", "", "", "http_role:browser");
        check("image/png", "", "", "http_role:browser");
        let two = "text/turtle;q=0.5, application/RDF+xml, */*;q=0.1";
        check(two, "", "", "media-type:application/rdf+xml media-type:text/turtle http_role:conneg");
        check("text/turtle;q=0, application/json", "", "", "media-type:application/json http_role:conneg");
        check("", "de, en;q=0.5, *;q=0.1", "", "http_role:no_conneg language:de language:en");
        check("*/*;q=NaN", "", "", "http_role:no_conneg");
        check("a/b;q=9e99", "", "", "media-type:a/b http_role:conneg");
        check(&"a/b,".repeat(10_000), "", "", &format!("{}http_role:conneg", "media-type:a/b ".repeat(32)));
    }

    #[test]
    fn json_or_a_page() {
        let expected = [
            ("", false),
            ("*/*", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("application/json", true),
            ("application/json, text/plain, */*", true),
            ("application/vnd.citationstyles.csl+json", true),
            ("application/json;q=0.5, text/html", false),
            ("text/html;q=0.5, application/problem+json", true),
            ("text/turtle", false),
        ];
        for (accept, json) in expected {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(prefers_json(&headers), json, "{accept}");
        }
    }

    #[test]
    fn events() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/event-stream", true),
            ("Text/Event-Stream, */*", true),
            ("text/event-stream;q=0.5, application/x-ndjson", false),
            ("text/event-stream;q=0", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(prefers_events(&headers), expected, "{accept}");
        }
    }

    #[track_caller]
    fn check(accept: &str, language: &str, agent: &str, expected: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in [(ACCEPT, accept), (ACCEPT_LANGUAGE, language), (USER_AGENT, agent)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().unwrap());
            }
        }
        let found: Vec<String> = wishes(&headers)
            .iter()
            .map(|wish| format!("{}:{}", wish.attribute, wish.value.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(found.join(" "), expected, "{accept} {language} {agent}");
    }
}

//! Content negotiation: `Accept`, `Accept-Language` and quality values.

use std::borrow::Cow;
use std::cmp::Reverse;

use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap, HeaderName, USER_AGENT};
use tendot_registry::metadata::MetadataFormat;

/// Entries of a header that are read; further ones are ignored.
const MAX_ACCEPT_ENTRIES: usize = 32;

/// Preferred attribute of a location, with an optional value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LocationPreference<'a> {
    pub(crate) attribute: &'a str,
    pub(crate) value: Option<Cow<'a, str>>,
}

impl<'a> LocationPreference<'a> {
    const fn new(attribute: &'a str, value: Cow<'a, str>) -> Self {
        Self { attribute, value: Some(value) }
    }

    /// Parses a `locatt` parameter: `country:gb`, or `country` for any value.
    pub(crate) fn parse(text: &'a str) -> Self {
        match text.split_once(':') {
            Some((attribute, value)) => Self::new(attribute, Cow::Borrowed(value)),
            None => Self { attribute: text, value: None },
        }
    }
}

/// Location preferences of the request headers, most preferred first.
pub(crate) fn location_preferences(headers: &HeaderMap) -> Vec<LocationPreference<'_>> {
    let mut preferences = Vec::new();
    let types = accepted_entries(headers, &ACCEPT);
    if types.iter().all(|(range, _)| *range == "*/*") {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        if agent.contains("Mozilla/") || agent.contains("Opera/") {
            preferences.push(LocationPreference::new("http_role", "browser".into()));
            preferences.push(LocationPreference::new("media-type", "text/html".into()));
        } else {
            preferences.push(LocationPreference::new("http_role", "no_conneg".into()));
        }
    } else {
        let best = types.first().map_or(0, |(_, quality)| *quality);
        if types.iter().any(|(range, quality)| *quality == best && is_browser_type(range)) {
            preferences.push(LocationPreference::new("http_role", "browser".into()));
        } else {
            for (range, _) in types.iter().filter(|(range, _)| !range.contains('*')) {
                preferences.push(LocationPreference::new("media-type", range.to_ascii_lowercase().into()));
            }
            preferences.push(LocationPreference::new("http_role", "conneg".into()));
        }
    }
    for (language, _) in accepted_entries(headers, &ACCEPT_LANGUAGE) {
        if language != "*" {
            preferences.push(LocationPreference::new("language", language.into()));
        }
    }
    preferences
}

/// Metadata format requested by `Accept`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MetadataPreference {
    /// No metadata requested: redirect, or show a page.
    NotRequested,
    /// This format, sent with this media type.
    Format(MetadataFormat, &'static str),
    /// Only unsupported types are acceptable.
    NotAcceptable,
}

/// Metadata preference for a name that can also redirect: metadata must be preferred to browser types.
pub(crate) fn metadata_over_page(headers: &HeaderMap) -> MetadataPreference {
    let ranges = parse_entries(headers, &ACCEPT);
    let browser_types = ranges.iter().filter(|(range, _)| is_browser_type(range));
    let page = browser_types.map(|(_, quality)| *quality).max().unwrap_or_default();
    match best_match(&ranges, metadata_media_types()) {
        _ if ranges.is_empty() => MetadataPreference::NotRequested,
        Some((quality, format, media_type)) if quality > page => {
            MetadataPreference::Format(format, media_type)
        }
        _ if page > 0 => MetadataPreference::NotRequested,
        _ => MetadataPreference::NotAcceptable,
    }
}

/// Metadata preference where only metadata is available; JSON by default.
pub(crate) fn metadata_only(headers: &HeaderMap) -> MetadataPreference {
    const DEFAULT_FORMAT: (MetadataFormat, &str) = (MetadataFormat::KernelJson, "application/json");
    let ranges = parse_entries(headers, &ACCEPT);
    match best_match(&ranges, std::iter::once(DEFAULT_FORMAT).chain(metadata_media_types())) {
        _ if ranges.is_empty() => MetadataPreference::Format(DEFAULT_FORMAT.0, DEFAULT_FORMAT.1),
        Some((_, format, media_type)) => MetadataPreference::Format(format, media_type),
        None => MetadataPreference::NotAcceptable,
    }
}

/// All formats and media types of metadata.
pub(crate) fn metadata_media_types() -> impl Iterator<Item = (MetadataFormat, &'static str)> {
    MetadataFormat::ALL
        .into_iter()
        .flat_map(|format| format.media_types().iter().map(move |media_type| (format, *media_type)))
}

/// Most preferred type with its quality. Ties are won by types that are named explicitly, in the client's order; else by the
/// first.
fn best_match(
    ranges: &[(&str, u16)],
    types: impl Iterator<Item = (MetadataFormat, &'static str)>,
) -> Option<(u16, MetadataFormat, &'static str)> {
    let matching = types.enumerate().filter_map(|(number, (format, media_type))| {
        // The most specific range decides the quality of a type (RFC 9110, section 12.5.1).
        let matches = ranges.iter().enumerate().filter_map(|(position, (range, quality))| {
            Some((specificity(range, media_type)?, Reverse(position), *quality))
        });
        let (specificity, position, quality) = matches.max()?;
        (quality > 0).then_some(((quality, specificity, position, Reverse(number)), format, media_type))
    });
    matching
        .max_by_key(|(order, ..)| *order)
        .map(|((quality, ..), format, media_type)| (quality, format, media_type))
}

/// Specificity of a range that matches a type: exact, `type/*` or `*/*`.
fn specificity(range: &str, media_type: &str) -> Option<u8> {
    if range.eq_ignore_ascii_case(media_type) {
        return Some(2);
    }
    let top_level = range.strip_suffix("/*")?;
    let is_match = media_type.split('/').next().is_some_and(|own| own.eq_ignore_ascii_case(top_level));
    if top_level == "*" { Some(0) } else { is_match.then_some(1) }
}

/// Whether the client prefers JSON to a page.
pub(crate) fn prefers_json(headers: &HeaderMap) -> bool {
    let is_json = |range: &str| {
        let range = range.to_ascii_lowercase();
        range == "application/json" || range.ends_with("+json")
    };
    let types = accepted_entries(headers, &ACCEPT);
    let decisive = types.iter().find(|(range, _)| is_json(range) || is_browser_type(range));
    decisive.is_some_and(|(range, _)| is_json(range))
}

/// Whether the client prefers an event stream (SSE).
pub(crate) fn prefers_event_stream(headers: &HeaderMap) -> bool {
    accepted_entries(headers, &ACCEPT)
        .first()
        .is_some_and(|(range, _)| range.eq_ignore_ascii_case("text/event-stream"))
}

/// Whether the client prefers CSV.
pub(crate) fn prefers_csv(headers: &HeaderMap) -> bool {
    accepted_entries(headers, &ACCEPT)
        .first()
        .is_some_and(|(range, _)| range.eq_ignore_ascii_case("text/csv"))
}

/// Whether a range is a type that browsers display.
fn is_browser_type(range: &str) -> bool {
    let range = range.to_ascii_lowercase();
    matches!(
        &*range,
        "text/html" | "application/xhtml+xml" | "application/pdf" | "text/vnd.wap.wml" | "*/*" | "text/*"
    ) || ["image/", "audio/", "video/"].iter().any(|top_level| range.starts_with(top_level))
}

/// Acceptable entries of a header with their quality in thousandths, best first.
fn accepted_entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, u16)> {
    let mut entries = parse_entries(headers, name);
    entries.retain(|(_, quality)| *quality > 0);
    entries.sort_by_key(|(_, quality)| Reverse(*quality));
    entries
}

/// All entries of a header, in order, with those of quality 0.
fn parse_entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, u16)> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .take(MAX_ACCEPT_ENTRIES)
        .filter_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let range = parts.next().filter(|range| !range.is_empty())?;
            let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            // An invalid quality value (RFC 9110, section 12.4.2) is ignored.
            let quality = quality
                .and_then(|text| text.parse::<f64>().ok())
                .filter(|quality| (0.0..=1.0).contains(quality))
                .unwrap_or(1.0);
            Some((range, (quality * 1_000.0) as u16))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_of_headers() {
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
    fn metadata_preferences() {
        let (bibtex, kernel) = ("application/x-bibtex", "application/vnd.doi.kernel+json");
        for (accept, expected, alone) in [
            ("", "page", "application/json"),
            ("*/*", "page", "application/json"),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "page", "application/xml"),
            ("text/html", "page", "not acceptable"),
            ("text/*", "page", "text/xml"),
            ("image/png", "page", "not acceptable"),
            ("application/json", "application/json", "application/json"),
            ("application/json, text/plain, */*", "page", "application/json"),
            ("application/json, */*;q=0.9", "application/json", "application/json"),
            ("application/x-bibtex", bibtex, bibtex),
            ("Application/X-BibTeX; charset=utf-8", bibtex, bibtex),
            ("application/x-bibtex;q=0.5, text/html", "page", bibtex),
            ("application/x-bibtex, text/html;q=0.5", bibtex, bibtex),
            ("application/x-bibtex, text/html", "page", bibtex),
            ("application/xml, application/x-bibtex", "application/xml", "application/xml"),
            ("application/xml;q=0.3, application/x-bibtex;q=0.4", bibtex, bibtex),
            ("application/*", kernel, "application/json"),
            ("application/*, application/json;q=0", kernel, kernel),
            ("application/*, application/vnd.doi.kernel+json;q=0", "application/json", "application/json"),
            ("application/vnd.doi.kernel+json", kernel, kernel),
            ("text/turtle", "not acceptable", "not acceptable"),
            ("text/turtle, */*;q=0.1", "page", "application/json"),
            ("application/json;q=0", "not acceptable", "not acceptable"),
            ("application/json;q=0, */*;q=0.5", "page", kernel),
            ("text/x-bibliography; style=apa, application/x-bibtex;q=0.5", bibtex, bibtex),
        ] {
            let headers = match accept {
                "" => HeaderMap::new(),
                accept => HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]),
            };
            let describe = |preference| match preference {
                MetadataPreference::NotRequested => "page",
                MetadataPreference::Format(_, media_type) => media_type,
                MetadataPreference::NotAcceptable => "not acceptable",
            };
            assert_eq!(describe(metadata_over_page(&headers)), expected, "{accept}");
            assert_eq!(describe(metadata_only(&headers)), alone, "{accept} alone");
        }
    }

    #[test]
    fn event_streams() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/event-stream", true),
            ("Text/Event-Stream, */*", true),
            ("text/event-stream;q=0.5, application/x-ndjson", false),
            ("text/event-stream;q=0", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(prefers_event_stream(&headers), expected, "{accept}");
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
        let found: Vec<String> = location_preferences(&headers)
            .iter()
            .map(|preference| {
                format!("{}:{}", preference.attribute, preference.value.as_deref().unwrap_or_default())
            })
            .collect();
        assert_eq!(found.join(" "), expected, "{accept} {language} {agent}");
    }
}

//! Content negotiation: `Accept` headers and quality values.

use std::cmp::Reverse;

use http::header::{ACCEPT, HeaderMap, HeaderName};
use tendot_registry::metadata::MetadataFormat;

/// Entries of a header that are read; further ones are ignored.
const MAX_ACCEPT_ENTRIES: usize = 32;

/// All formats and media types of metadata.
pub(crate) fn metadata_media_types() -> impl Iterator<Item = (MetadataFormat, &'static str)> {
    MetadataFormat::ALL
        .into_iter()
        .flat_map(|format| format.media_types().iter().map(move |media_type| (format, *media_type)))
}

/// Most preferred type with its quality. Ties are won by types that are named explicitly, in the client's order; else by the
/// first.
pub(crate) fn best_match(
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

/// Whether the client accepts OpenMetrics; Prometheus names it first, most other clients do not know it.
pub(crate) fn accepts_openmetrics(headers: &HeaderMap) -> bool {
    accepted_entries(headers, &ACCEPT)
        .iter()
        .any(|(range, _)| range.eq_ignore_ascii_case("application/openmetrics-text"))
}

/// Whether the client prefers CSV.
pub(crate) fn prefers_csv(headers: &HeaderMap) -> bool {
    accepted_entries(headers, &ACCEPT)
        .first()
        .is_some_and(|(range, _)| range.eq_ignore_ascii_case("text/csv"))
}

/// Whether a range is a type that browsers display.
pub(crate) fn is_browser_type(range: &str) -> bool {
    let range = range.to_ascii_lowercase();
    matches!(
        &*range,
        "text/html" | "application/xhtml+xml" | "application/pdf" | "text/vnd.wap.wml" | "*/*" | "text/*"
    ) || ["image/", "audio/", "video/"].iter().any(|top_level| range.starts_with(top_level))
}

/// Acceptable entries of a header with their quality in thousandths, best first.
pub(crate) fn accepted_entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, u16)> {
    let mut entries = parse_entries(headers, name);
    entries.retain(|(_, quality)| *quality > 0);
    entries.sort_by_key(|(_, quality)| Reverse(*quality));
    entries
}

/// All entries of a header, in order, with those of quality 0.
pub(crate) fn parse_entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, u16)> {
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
}

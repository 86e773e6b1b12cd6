//! Location preferences of a request: from its headers, or from `locatt`.

use std::borrow::Cow;

use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap, USER_AGENT};

use crate::http::request::accept::{accepted_entries, is_browser_type};

/// Preferred attribute of a location, with an optional value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LocationPreference<'a> {
    pub(crate) attribute: &'a str,
    pub(crate) value: Option<Cow<'a, str>>,
}

impl<'a> LocationPreference<'a> {
    pub(crate) const fn new(attribute: &'a str, value: Cow<'a, str>) -> Self {
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

//! Selection of one location (`10320/loc`) among the candidates.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use tendot_proto::HandleValue;
use tendot_proto::record::Location;

use crate::http::resolve::locations::preferences::LocationPreference;

/// URL that a name can redirect to.
#[derive(Clone, Debug)]
pub(crate) struct RedirectCandidate<'a> {
    /// URL, not sanitized yet.
    pub(crate) href: Cow<'a, str>,
    pub(crate) weight: f64,
    pub(crate) origin: CandidateSource<'a>,
}

/// Value that a candidate comes from: URL value or location.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CandidateSource<'a> {
    /// Value of type `URL`.
    UrlValue(&'a HandleValue<'a>),
    /// Location of a record, or of its prefix.
    Location(&'a Location<'a>),
}

impl<'a> RedirectCandidate<'a> {
    /// Candidate of a `URL` value or of a subtype.
    pub(crate) fn from_url_value(value: &'a HandleValue<'a>, weight: f64) -> Self {
        let href = match str::from_utf8(&value.data) {
            Ok(url) => Cow::Borrowed(url),
            // The bytes of another encoding, as they would be in a URL.
            Err(_) => Cow::Owned(percent_encode(&value.data, &AsciiSet::EMPTY).to_string()),
        };
        Self { href, weight, origin: CandidateSource::UrlValue(value) }
    }

    /// Candidate of a location for this name; `None` if it has no target.
    pub(crate) fn from_location(location: &'a Location<'a>, name: &str) -> Option<Self> {
        let href = match (location.href(), location.href_template()) {
            (Some(href), _) => Cow::Borrowed(href),
            (None, Some(template)) => Cow::Owned(expand_template(template, name)),
            (None, None) => return None,
        };
        Some(Self { href, weight: location.weight(), origin: CandidateSource::Location(location) })
    }

    /// Attribute that preferences are compared with.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'a str> {
        match self.origin {
            CandidateSource::UrlValue(_) => (name == "mode").then_some("legacy"),
            CandidateSource::Location(location) if name == "media-type" => location.media_type(),
            CandidateSource::Location(location) => location.attribute(name),
        }
    }

    pub(crate) fn http_status(&self) -> Option<u16> {
        match self.origin {
            CandidateSource::UrlValue(_) => None,
            CandidateSource::Location(location) => location.http_status(),
        }
    }

    fn satisfies(&self, preference: &LocationPreference<'_>) -> bool {
        let Some(found) = self.attribute(preference.attribute) else { return false };
        preference.value.as_deref().is_none_or(|value| {
            // A location may have several roles.
            found.eq_ignore_ascii_case(value)
                || (preference.attribute == "http_role"
                    && found.split([',', ' ']).any(|role| role.eq_ignore_ascii_case(value)))
        })
    }

    fn is_for_address(&self, client: IpAddr) -> bool {
        match self.origin {
            CandidateSource::UrlValue(_) => false,
            CandidateSource::Location(location) => location
                .client_networks()
                .any(|network| network.parse::<IpNet>().is_ok_and(|network| network.contains(&client))),
        }
    }

    fn score(&self) -> f64 {
        match self.origin {
            CandidateSource::UrlValue(_) => 0.0,
            CandidateSource::Location(location) => location.score().unwrap_or_default(),
        }
    }
}

/// Request data that location selection depends on.
#[derive(Clone, Debug)]
pub(crate) struct SelectionContext<'a> {
    /// Preferences in order; those that no candidate matches are ignored.
    pub(crate) preferences: Vec<LocationPreference<'a>>,
    pub(crate) client_address: Option<IpAddr>,
    /// ISO 3166-1 alpha-2 code.
    pub(crate) country: Option<Cow<'a, str>>,
    /// Random number in [0, 1).
    pub(crate) random: f64,
}

/// One selection method and the candidates that remain.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct SelectionStep {
    pub(crate) method: String,
    pub(crate) remaining: Vec<usize>,
}

/// Applies the selection methods until one candidate remains, finally by weight; `None` only without candidates. Each step is
/// reported to `trace`.
pub(crate) fn select(
    candidates: &[RedirectCandidate<'_>],
    methods: &[&str],
    context: &SelectionContext<'_>,
    mut trace: impl FnMut(SelectionStep),
) -> Option<usize> {
    let mut remaining: Vec<usize> = (0..candidates.len()).collect();
    for method in methods {
        if remaining.len() < 2 {
            break;
        }
        match *method {
            "locatt" => {
                for preference in &context.preferences {
                    let label = || match &preference.value {
                        Some(value) => format!("locatt {}:{value}", preference.attribute),
                        None => format!("locatt {}", preference.attribute),
                    };
                    filter_unless_empty(&mut remaining, candidates, label, &mut trace, |candidate| {
                        candidate.satisfies(preference)
                    });
                }
            }
            "address" => {
                if let Some(client) = context.client_address {
                    let label = || format!("address {client}");
                    filter_unless_empty(&mut remaining, candidates, label, &mut trace, |candidate| {
                        candidate.is_for_address(client)
                    });
                }
            }
            "country" => {
                if let Some(country) = &context.country {
                    let is_in_country = |candidate: &RedirectCandidate<'_>| {
                        candidate
                            .attribute("country")
                            .is_some_and(|found| found.eq_ignore_ascii_case(country))
                    };
                    filter_unless_empty(
                        &mut remaining,
                        candidates,
                        || format!("country {country}"),
                        &mut trace,
                        is_in_country,
                    );
                }
            }
            "score" => {
                let scores = remaining
                    .iter()
                    .filter_map(|number| candidates.get(*number))
                    .map(RedirectCandidate::score);
                let best = scores.fold(f64::NEG_INFINITY, f64::max);
                filter_unless_empty(
                    &mut remaining,
                    candidates,
                    || "score".into(),
                    &mut trace,
                    |candidate| candidate.score() >= best,
                );
            }
            "weighted" => break,
            // Unknown methods are ignored.
            _ => {}
        }
    }
    if remaining.len() > 1 {
        let chosen = select_weighted(&remaining, candidates, context.random)?;
        trace(SelectionStep { method: "weighted".into(), remaining: vec![chosen] });
        return Some(chosen);
    }
    remaining.first().copied()
}

/// Retains matching candidates, unless none match.
fn filter_unless_empty(
    remaining: &mut Vec<usize>,
    candidates: &[RedirectCandidate<'_>],
    method: impl Fn() -> String,
    trace: &mut impl FnMut(SelectionStep),
    is_match: impl Fn(&RedirectCandidate<'_>) -> bool,
) {
    let matching: Vec<usize> =
        remaining.iter().copied().filter(|number| candidates.get(*number).is_some_and(&is_match)).collect();
    if !matching.is_empty() {
        *remaining = matching;
    }
    trace(SelectionStep { method: method(), remaining: remaining.clone() });
}

/// Random choice by weight; uniform if all weights are zero.
fn select_weighted(remaining: &[usize], candidates: &[RedirectCandidate<'_>], random: f64) -> Option<usize> {
    let weight = |number: usize| candidates.get(number).map_or(0.0, |candidate| candidate.weight.max(0.0));
    let all: f64 = remaining.iter().map(|number| weight(*number)).sum();
    if all <= 0.0 {
        let number = (random * remaining.len() as f64) as usize;
        return remaining.get(number.min(remaining.len() - 1)).copied();
    }
    let mut point = random * all;
    for number in remaining {
        let weight = weight(*number);
        if weight > 0.0 && point < weight {
            return Some(*number);
        }
        point -= weight;
    }
    // Reached only by rounding errors.
    remaining.iter().copied().rfind(|number| weight(*number) > 0.0)
}

/// Characters encoded in a component: all but RFC 3986's unreserved ones; a path keeps its slashes.
const COMPONENT_ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH_ENCODE_SET: &AsciiSet = &COMPONENT_ENCODE_SET.remove(b'/');

/// Expands a template for a name.
fn expand_template(template: &str, name: &str) -> String {
    template
        .replace("{hdl:path}", &utf8_percent_encode(name, PATH_ENCODE_SET).to_string())
        .replace("{hdl}", &utf8_percent_encode(name, COMPONENT_ENCODE_SET).to_string())
}

#[cfg(test)]
mod tests {
    use tendot_proto::record::Locations;

    use super::*;

    const XML: &str = "<locations>\
        <location href='a' weight='1'/>\
        <location href='b' weight='0' country='gb'/>\
        <location href='c' weight='0' role='pdf' score='2'/>\
        <location href='d' weight='0' http_role='conneg' ctype='application/json'/>\
        <location href='e' weight='0' addresses='192.0.2.0/24, 2001:db8::/32'/>\
        <location href='f' weight='3' language='de'/>\
        </locations>";

    #[test]
    fn selections() {
        let all = "locatt,address,country,score,weighted";
        check("locatt,country,weighted", "", "", "", 0.0, "a");
        check("locatt,country,weighted", "", "", "", 0.24, "a");
        check("locatt,country,weighted", "", "", "", 0.26, "f");
        check("locatt,country,weighted", "", "", "", 0.999, "f");
        check("country", "", "", "GB", 0.0, "b");
        check("country", "", "", "fr", 0.0, "a");
        check("weighted", "", "", "gb", 0.0, "a");
        check("weighted,country", "", "", "gb", 0.0, "a");
        check("locatt", "country:gb", "", "", 0.5, "b");
        check("locatt", "country", "", "", 0.5, "b");
        check("locatt", "role:pdf", "", "", 0.5, "c");
        check("locatt", "role:epub", "", "", 0.0, "a");
        check("locatt", "role:epub country:gb", "", "", 0.0, "b");
        check("locatt", "media-type:application/json http_role:conneg", "", "", 0.0, "d");
        check("locatt", "media-type:text/turtle http_role:conneg", "", "", 0.0, "d");
        check("locatt", "language:de", "", "", 0.0, "f");
        check("address", "", "192.0.2.7", "", 0.0, "e");
        check("address", "", "2001:db8::7", "", 0.0, "e");
        check("address", "", "198.51.100.7", "", 0.0, "a");
        check(all, "", "", "", 0.0, "c");
        check(all, "", "192.0.2.7", "gb", 0.0, "e");
        check("", "", "", "", 0.3, "f");
        check("unknown", "", "", "", 0.0, "a");
    }

    #[track_caller]
    fn check(methods: &str, preferences: &str, address: &str, country: &str, random: f64, expected: &str) {
        let locations = Locations::from_bytes(XML.as_bytes()).unwrap();
        let candidates: Vec<_> = locations
            .locations
            .iter()
            .filter_map(|location| RedirectCandidate::from_location(location, "10.1/x"))
            .collect();
        let context = SelectionContext {
            preferences: preferences
                .split(' ')
                .filter(|preference| !preference.is_empty())
                .map(LocationPreference::parse)
                .collect(),
            client_address: address.parse().ok(),
            country: (!country.is_empty()).then(|| country.into()),
            random,
        };
        let methods: Vec<&str> = methods.split(',').collect();
        let chosen = select(&candidates, &methods, &context, |_| {}).unwrap();
        assert_eq!(
            candidates[chosen].href, expected,
            "{methods:?} {preferences} {address} {country} {random}"
        );
    }

    #[test]
    fn invalid_weights() {
        let xml = "<locations><location href='a' weight='NaN'/><location href='b' weight='-1'/>\
                   <location href='c' weight='1e308'/></locations>";
        let locations = Locations::from_bytes(xml.as_bytes()).unwrap();
        let candidates: Vec<_> = locations
            .locations
            .iter()
            .filter_map(|location| RedirectCandidate::from_location(location, ""))
            .collect();
        let context = |random| SelectionContext {
            preferences: Vec::new(),
            client_address: None,
            country: None,
            random,
        };
        for (random, expected) in [(0.0, 0), (0.34, 1), (0.99, 2), (1.0, 2), (f64::NAN, 0)] {
            assert_eq!(select(&candidates, &[], &context(random), |_| {}), Some(expected), "{random}");
        }
        assert_eq!(select(&[], &[], &context(0.0), |_| {}), None);
    }

    #[test]
    fn templates() {
        assert_eq!(expand_template("https://x/{hdl}", "10.1/a b"), "https://x/10.1%2Fa%20b");
        assert_eq!(
            expand_template("https://x/{hdl:path}?{hdl}", "10.1/é"),
            "https://x/10.1/%C3%A9?10.1%2F%C3%A9"
        );
        assert_eq!(expand_template("https://x/", "10.1/x"), "https://x/");
    }
}

//! Selection of one location (`10320/loc`) among the candidates.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use tendot_proto::HandleValue;
use tendot_proto::record::Location;

use crate::http::resolve::locations::country::ClientCountry;
use crate::http::resolve::locations::preferences::LocationPreference;
use crate::http::response::caching::ClientDependence;

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
    /// Preferences of the URL, in order; those that no candidate matches are ignored.
    pub(crate) preferences: Vec<LocationPreference<'a>>,
    /// Preferences of the headers, applied after those of the URL.
    pub(crate) header_preferences: Vec<LocationPreference<'a>>,
    pub(crate) client_address: Option<IpAddr>,
    /// Whether the address is that of the client, rather than given by the URL.
    pub(crate) is_address_of_client: bool,
    pub(crate) country: Option<ClientCountry>,
    /// Whether the country is derived from the client, rather than given by the URL.
    pub(crate) is_country_of_client: bool,
    /// Random number in [0, 1).
    pub(crate) random: f64,
}

/// One selection method and the candidates that remain.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct SelectionStep {
    pub(crate) method: String,
    pub(crate) remaining: Vec<usize>,
}

/// Selected candidate, and the request data that it was selected by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Selection {
    /// Index of the candidate.
    pub(crate) number: usize,
    pub(crate) dependence: ClientDependence,
}

/// Applies the selection methods until one candidate remains, finally by weight; `None` only without candidates. Each step is
/// reported to `trace`.
pub(crate) fn select(
    candidates: &[RedirectCandidate<'_>],
    methods: &[&str],
    context: &SelectionContext<'_>,
    mut trace: impl FnMut(SelectionStep),
) -> Option<Selection> {
    let mut remaining: Vec<usize> = (0..candidates.len()).collect();
    let mut dependence = ClientDependence::NONE;
    for method in methods {
        if remaining.len() < 2 {
            break;
        }
        match *method {
            "locatt" => {
                apply_preferences(&mut remaining, candidates, &context.preferences, &mut trace);
                // Also if a header is missing: with it, another candidate may be selected.
                dependence = dependence.union(header_dependence(&remaining, candidates));
                apply_preferences(&mut remaining, candidates, &context.header_preferences, &mut trace);
            }
            "address" => {
                dependence.is_private |=
                    context.is_address_of_client && has_attribute(&remaining, candidates, "addresses");
                if let Some(client) = context.client_address {
                    let label = || format!("address {client}");
                    filter_unless_empty(&mut remaining, candidates, label, &mut trace, |candidate| {
                        candidate.is_for_address(client)
                    });
                }
            }
            "country" => {
                let is_of_client =
                    context.is_country_of_client && has_attribute(&remaining, candidates, "country");
                dependence.is_private |= is_of_client;
                if is_of_client && context.country.is_none() {
                    trace(SelectionStep { method: "country unknown".into(), remaining: remaining.clone() });
                }
                if let Some(country) = &context.country {
                    let is_in_country = |candidate: &RedirectCandidate<'_>| {
                        candidate
                            .attribute("country")
                            .is_some_and(|found| found.trim().eq_ignore_ascii_case(country.code()))
                    };
                    filter_unless_empty(
                        &mut remaining,
                        candidates,
                        || country.to_string(),
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
        let (number, is_random) = select_weighted(&remaining, candidates, context.random)?;
        // Shared caches would give the choice of one client to all, against the weights.
        dependence.is_private |= is_random;
        trace(SelectionStep { method: "weighted".into(), remaining: vec![number] });
        return Some(Selection { number, dependence });
    }
    remaining.first().map(|number| Selection { number: *number, dependence })
}

/// Applies preferences for attributes, in order.
fn apply_preferences(
    remaining: &mut Vec<usize>,
    candidates: &[RedirectCandidate<'_>],
    preferences: &[LocationPreference<'_>],
    trace: &mut impl FnMut(SelectionStep),
) {
    for preference in preferences {
        let label = || match &preference.value {
            Some(value) => format!("locatt {}:{value}", preference.attribute),
            None => format!("locatt {}", preference.attribute),
        };
        filter_unless_empty(remaining, candidates, label, trace, |candidate| candidate.satisfies(preference));
    }
}

/// Request headers that the choice among the remaining candidates depends on.
fn header_dependence(remaining: &[usize], candidates: &[RedirectCandidate<'_>]) -> ClientDependence {
    let has = |attribute| has_attribute(remaining, candidates, attribute);
    let is_negotiated = has("http_role") || has("media-type");
    ClientDependence {
        accept: is_negotiated,
        user_agent: is_negotiated,
        language: has("language"),
        ..ClientDependence::NONE
    }
}

/// Whether several candidates remain and one of them has the attribute, so that it can decide.
fn has_attribute(remaining: &[usize], candidates: &[RedirectCandidate<'_>], attribute: &str) -> bool {
    let mut found = remaining.iter().filter_map(|number| candidates.get(*number));
    remaining.len() > 1 && found.any(|candidate| candidate.attribute(attribute).is_some())
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

/// Random choice by weight, uniform if all weights are zero, and whether there was a choice.
fn select_weighted(
    remaining: &[usize],
    candidates: &[RedirectCandidate<'_>],
    random: f64,
) -> Option<(usize, bool)> {
    let weight = |number: usize| candidates.get(number).map_or(0.0, |candidate| candidate.weight.max(0.0));
    let all: f64 = remaining.iter().map(|number| weight(*number)).sum();
    if all <= 0.0 {
        let number = (random * remaining.len() as f64) as usize;
        let number = remaining.get(number.min(remaining.len() - 1)).copied()?;
        return Some((number, remaining.len() > 1));
    }
    let is_random = remaining.iter().filter(|number| weight(**number) > 0.0).count() > 1;
    let mut point = random * all;
    for number in remaining {
        let weight = weight(*number);
        if weight > 0.0 && point < weight {
            return Some((*number, is_random));
        }
        point -= weight;
    }
    // Reached only by rounding errors.
    let last = remaining.iter().copied().rfind(|number| weight(*number) > 0.0)?;
    Some((last, is_random))
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
            header_preferences: Vec::new(),
            client_address: address.parse().ok(),
            is_address_of_client: true,
            country: ClientCountry::from_parameter(country),
            is_country_of_client: true,
            random,
        };
        let methods: Vec<&str> = methods.split(',').collect();
        let chosen = select(&candidates, &methods, &context, |_| {}).unwrap();
        assert_eq!(
            candidates[chosen.number].href, expected,
            "{methods:?} {preferences} {address} {country} {random}"
        );
    }

    /// A choice depends on what decided between several candidates, and on nothing else.
    #[test]
    fn dependences() {
        let check = |xml: &str, methods: &str, locatt: &str, expected: &str| {
            let xml = format!("<locations>{xml}</locations>");
            let locations = Locations::from_bytes(xml.as_bytes()).unwrap();
            let candidates: Vec<_> = locations
                .locations
                .iter()
                .filter_map(|location| RedirectCandidate::from_location(location, "10.1/x"))
                .collect();
            let context = SelectionContext {
                preferences: Some(locatt)
                    .filter(|locatt| !locatt.is_empty())
                    .into_iter()
                    .map(LocationPreference::parse)
                    .collect(),
                header_preferences: Vec::new(),
                client_address: None,
                is_address_of_client: true,
                country: None,
                is_country_of_client: true,
                random: 0.0,
            };
            let methods: Vec<&str> = methods.split(',').collect();
            let dependence = select(&candidates, &methods, &context, |_| {}).unwrap().dependence;
            let mut headers = http::HeaderMap::new();
            dependence.add_vary(&mut headers);
            let vary = headers.get("vary").map_or("", |vary| vary.to_str().unwrap());
            let found = format!("{}{vary}", if dependence.is_private { "private " } else { "" });
            assert_eq!(found, expected, "{xml} {methods:?} {locatt}");
        };
        let all = "locatt,address,country,score,weighted";
        let (one, zero) = ("<location href='a' weight='1'/>", "<location href='b' weight='0'/>");
        check(one, all, "", "");
        check(&format!("{one}{zero}"), all, "", "");
        check(&format!("{one}{one}"), all, "", "private ");
        check(&format!("{zero}{zero}"), all, "", "private ");
        let with = |attribute: &str| format!("{one}<location href='c' weight='0' {attribute}/>");
        check(&with("addresses='192.0.2.0/24'"), all, "", "private ");
        check(&with("addresses='192.0.2.0/24'"), "country", "", "");
        check(&with("country='gb'"), all, "", "private ");
        check(&with("country='gb'"), all, "country:gb", "");
        check(&with("language='de'"), all, "", "Accept-Language");
        check(&with("language='de'"), all, "language:de", "");
        check(&with("http_role='conneg'"), all, "", "Accept, User-Agent");
        check(&with("ctype='a/b' language='de'"), all, "", "Accept, User-Agent, Accept-Language");
        check(&with("ctype='a/b' language='de'"), "weighted", "", "");
        check(&with("score='1'"), all, "", "");
        check("<location href='a' country='gb' addresses='192.0.2.1/32' language='de'/>", all, "", "");
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
            header_preferences: Vec::new(),
            client_address: None,
            is_address_of_client: true,
            country: None,
            is_country_of_client: true,
            random,
        };
        for (random, expected) in [(0.0, 0), (0.34, 1), (0.99, 2), (1.0, 2), (f64::NAN, 0)] {
            let number = select(&candidates, &[], &context(random), |_| {}).map(|selection| selection.number);
            assert_eq!(number, Some(expected), "{random}");
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

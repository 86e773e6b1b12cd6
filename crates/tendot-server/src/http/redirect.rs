//! `GET /{name}`: the way to what a name stands for.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::time::SystemTime;

use http::header::{HeaderMap, HeaderValue, LOCATION, VARY};
use http::{StatusCode, Version};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tendot_proto::record::{Locations, Namespace};
use tendot_proto::{Handle, Value};
use tendot_registry::{Caller, Error, ResolveQuery, Resolution};
use utoipa::ToSchema;

use super::address::TargetError;
use super::answer::{Answer, HTML, answer};
use super::describe::{Described, Doing, several, text};
use super::explain::{Explanation, Listener, Told};
use super::kept::CachePolicy;
use super::location::{Asking, RedirectCandidate, Origin, choose};
use super::negotiate::{self, Wanted, LocationPreference, wishes};
use super::parameters::Parameters;
use super::places::candidates;
use super::request::Request;
use super::search::{Provenance, LookupError, Search};
use super::{Http, address, api, caching, explain, form, link, metadata, page, percent};

/// Names that an alias may lead through.
const HOPS: usize = 10;

/// What is encoded when a name stands in a path of ours.
const PATH_ENCODE_SET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// What a request for a name comes to.
pub(crate) enum RedirectOutcome {
    /// An answer, as a rule one that leads on.
    There(Answer),
    /// There is nothing to lead to, and so the record is shown; and why an address that it has is not followed.
    Here(Option<TargetError>),
    /// The names of the prefix are not served at present, and what its record says about that.
    NotServed(String),
    /// A name that stands for another, which stands for another, and so on.
    Endless(Vec<String>),
    /// Its metadata is wanted instead, as this type, and this is it.
    Metadata(&'static str, Answer),
    /// Nothing is wanted that can be given.
    NotAcceptable,
}

impl Http {
    /// Answers `GET /{name}`; `path` is not decoded yet.
    pub(crate) async fn redirect(&self, path: &str, request: &Request<'_>, now: SystemTime) -> Answer {
        let read = Parameters::parse(request.query)
            .and_then(|parameters| Ok((percent::decode_text(path, "path")?, parameters)));
        match read {
            Err(error) if error.what == "path" => page::bad_request(&error, path, request),
            Err(error) => page::bad_request(&error, request.query.unwrap_or_default(), request),
            Ok((path, parameters)) => {
                self.resolve_name(&form::parse_or_short_doi(&path), &parameters, request, now).await
            }
        }
    }

    /// Answers a request for a name, wherever in the request it stood.
    pub(crate) async fn resolve_name(
        &self,
        name: &str,
        parameters: &Parameters<'_>,
        request: &Request<'_>,
        now: SystemTime,
    ) -> Answer {
        let mut search = Search::new(request, parameters);
        if parameters.has("history") {
            return self.history_page(name, parameters, request, &mut search).await;
        }
        let shows = wants_record(parameters);
        let query =
            request.query.filter(|_| shows || parameters.has("explain")).map(explain::redirect_query);
        let request =
            &Request { query: query.as_ref().map_or(request.query, |query| query.as_deref()), ..*request };
        if parameters.has("explain") {
            return self.explain(name, parameters, request, now, &mut search).await;
        }
        let way = self.way(name, parameters, request, now, &mut search, &mut |_| {}).await;
        if let Some(tally) = &self.tally {
            match &way {
                Ok(_) if search.heard.is_none() => tally.resolved(&self.registry, name).await,
                Err(LookupError::Here(error)) => tally.failed(&self.registry, name, error).await,
                _ => {}
            }
        }
        match way {
            Ok(RedirectOutcome::There(answer)) if !shows => answer,
            Ok(RedirectOutcome::NotServed(says)) if !shows => page::not_served(name, says, request),
            Ok(RedirectOutcome::Endless(chain)) if !shows => page::endless(name, &chain, request),
            Ok(RedirectOutcome::Metadata(_, answer)) if !shows => answer,
            Ok(RedirectOutcome::NotAcceptable) if !shows => metadata::not_acceptable(name),
            Ok(way) => self.record_page(name, parameters, &way, request, &mut search).await,
            Err(error) => self.lookup_failed(name, &error, request, &mut search).await,
        }
    }

    /// Where a name leads, telling of each step on the way.
    pub(super) async fn way(
        &self,
        name: &str,
        parameters: &Parameters<'_>,
        request: &Request<'_>,
        now: SystemTime,
        search: &mut Search<'_>,
        told: Listener<'_>,
    ) -> Result<RedirectOutcome, LookupError> {
        let version = self.version(name, request);
        let (values, heard) = self.selected(name, parameters, search).await?;
        let has_metadata = search.has_metadata;
        told(Told::Values(&values, heard, has_metadata));
        let action = parameters.get("action").unwrap_or("redirect");
        if !parameters.has("ignore_aliases")
            && let Some(alias) = find_alias(&values)
        {
            return Ok(self.follow(alias, request, caching::seconds(&values, now), now, search, told).await);
        }
        let namespace = self.lookup_namespace(name, heard.is_some(), search).await.map_err(Error::from)?;
        let namespace = namespace.as_ref().and_then(|value| Namespace::from_bytes(&value.data).ok());
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !namespace.is_active()) {
            let message = namespace.status_message().unwrap_or_default();
            let contact = namespace.contact().map(|contact| format!(" Whom to ask: {contact}."));
            return Ok(RedirectOutcome::NotServed(format!("{message}{}", contact.unwrap_or_default())));
        }
        let places = self.places(name, &values, namespace.as_ref(), search).await.map_err(Error::from)?;
        let read = places.read();
        let own = places.own(&read);
        let candidates = candidates(name, &values, own, &read);
        told(Told::Candidates(&candidates));
        if action == "showurls" {
            return Ok(RedirectOutcome::There(page::places(&candidates)));
        }
        if has_metadata && !wants_record(parameters) {
            let way = self.negotiate_metadata(name, parameters, request, now, &candidates, search).await?;
            if let Some(mut way) = way {
                if let RedirectOutcome::Metadata(_, response) = &mut way {
                    link::add(response.headers_mut(), &values, &read);
                }
                return Ok(way);
            }
        }
        let chosen = if read.is_empty() {
            first_url(&candidates)
        } else {
            let methods = own.or(read.first()).map(|read| read.selection_methods().collect()).unwrap_or_default();
            let asking = asking(parameters, request, action);
            select_candidate(&candidates, methods, &asking, told)
        };
        let Some(chosen) = chosen else { return Ok(RedirectOutcome::Here(None)) };
        let address = match address::location(&chosen.href) {
            Ok(address) => address,
            Err(error) => return Ok(RedirectOutcome::Here(Some(error))),
        };
        let address = match parameters.get("urlappend").filter(|more| !more.is_empty()) {
            Some(more) => address::append(&address, more).map_or(address, Cow::Owned),
            None => address,
        };
        let status = chosen.http_status().or_else(|| own.and_then(Locations::http_status));
        let mut response = to(&address, status, request, parameters.has("redirectionHeaders"));
        let took_part = places.values().iter().chain(match chosen.origin {
            Origin::Url(value) => Some(value),
            Origin::Location(_) => None,
        });
        let seconds = caching::seconds(took_part.clone(), now);
        caching::set_max_age_with_provenance(response.headers_mut(), seconds, search.heard, now);
        // Nobody had a choice but between this and metadata, and so it is the same for all who want this. What the prefix says
        // is of the same version, but not the record of its locations.
        let is_alone = namespace.as_ref().is_none_or(|namespace| namespace.locations().is_none());
        if let Some(version) = version.filter(|_| is_alone && read.is_empty())
            && search.heard.is_none()
            && caching::has_only_relative_ttls(took_part)
        {
            response.extensions_mut().insert(CachePolicy { record: version, seconds, has_metadata });
        }
        vary(response.headers_mut(), &candidates);
        if has_metadata {
            metadata::vary(response.headers_mut());
        }
        link::add(response.headers_mut(), &values, &read);
        Ok(RedirectOutcome::There(caching::tag(response, address.as_bytes(), request.headers)))
    }

    /// Metadata of a name that has some, if it is wanted rather than the way on; none if it is not.
    async fn negotiate_metadata(
        &self,
        name: &str,
        parameters: &Parameters<'_>,
        request: &Request<'_>,
        now: SystemTime,
        candidates: &[RedirectCandidate<'_>],
        search: &mut Search<'_>,
    ) -> Result<Option<RedirectOutcome>, LookupError> {
        let (format, media_type) = match negotiate::metadata_over_page(request.headers) {
            Wanted::None => return Ok(None),
            // What is wanted may be elsewhere.
            Wanted::Impossible => {
                let is_for_programs = |candidate: &RedirectCandidate<'_>| {
                    candidate.attribute("http_role") == Some("conneg")
                        || candidate.attribute("media-type").is_some()
                };
                let leads_on = candidates.iter().any(is_for_programs);
                return Ok((!leads_on).then_some(RedirectOutcome::NotAcceptable));
            }
            // That is how the explanation is wanted.
            Wanted::Format(_, "application/json") if parameters.has("explain") => return Ok(None),
            Wanted::Format(format, media_type) => (format, media_type),
        };
        let registered = self.registered(name, now, &mut search.work).await?;
        let text = registered.and_then(|registered| registered.metadata_in(format));
        Ok(text.map(|text| RedirectOutcome::Metadata(media_type, metadata::give(text, media_type, request.headers))))
    }

    /// The public values of a record, all or those that were asked for; and where they come from, if not from here.
    pub(super) async fn selected(
        &self,
        name: &str,
        parameters: &Parameters<'_>,
        search: &mut Search<'_>,
    ) -> Result<(Vec<Value<'static>>, Option<Provenance>), LookupError> {
        let query = ResolveQuery {
            indexes: parameters.all("index").filter_map(|index| index.parse().ok()).collect(),
            types: parameters.all("type").map(str::as_bytes).collect(),
            ..ResolveQuery::new(Handle::from(name))
        };
        match self.look_up(&query, &Caller::Anonymous, search).await? {
            (Resolution::Values(values) | Resolution::Referral(values), heard) => Ok((values, heard)),
        }
    }

    /// Answers a name that stands for another: the way to our own path of the last one in the chain.
    async fn follow(
        &self,
        alias: String,
        request: &Request<'_>,
        mut seconds: u64,
        now: SystemTime,
        search: &mut Search<'_>,
        told: Listener<'_>,
    ) -> RedirectOutcome {
        let mut seen = vec![alias];
        while let Some(last) = seen.last() {
            // What is not there is for the next request to find out.
            let Ok((values, _)) = self.selected(last, &Parameters::default(), search).await else { break };
            let Some(next) = find_alias(&values) else { break };
            if seen.len() == HOPS || seen.iter().any(|one| one.eq_ignore_ascii_case(&next)) {
                return RedirectOutcome::Endless(seen);
            }
            seconds = seconds.min(caching::seconds(&values, now));
            seen.push(next);
        }
        told(Told::Aliases(&seen));
        let target = seen.pop().unwrap_or_default();
        let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
        let mut response = to(&format!("{}{query}", own_path(&target)), Some(301), request, false);
        caching::set_max_age_with_provenance(response.headers_mut(), seconds, search.heard, now);
        RedirectOutcome::There(response)
    }
}

/// Whether the record is asked for, and not where it leads.
fn wants_record(parameters: &Parameters<'_>) -> bool {
    parameters.has("noredirect") || parameters.get("action") == Some("showvalues")
}

/// The answer that leads to our own path of a name.
pub(super) fn redirect_to_name(name: &str, request: &Request<'_>) -> Answer {
    to(&own_path(name), Some(303), request, false)
}

pub(super) fn own_path(name: &str) -> String {
    // Two slashes would begin the name of another host.
    let mut path = String::from("/");
    let mut rest = name.trim_start_matches('/');
    // Browsers take `.` and `..` out of paths, so that the slash beside them is hidden.
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    while let Some((segment, after)) = rest.split_once('/') {
        path.extend(utf8_percent_encode(segment, PATH_ENCODE_SET));
        path.push_str(if is_dots(segment) || is_dots(after) { "%2F" } else { "/" });
        rest = after;
    }
    path.extend(utf8_percent_encode(rest, PATH_ENCODE_SET));
    path
}

/// The name that a record stands for, if it only stands for another.
fn find_alias(values: &[Value<'_>]) -> Option<String> {
    let alias = values.iter().find(|value| value.value_type.eq_ignore_ascii_case(b"HS_ALIAS"))?;
    Some(str::from_utf8(&alias.data).ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Without locations there is nothing to choose: the first address of the record, else the first of a type below.
fn first_url<'c, 'a>(candidates: &'c [RedirectCandidate<'a>]) -> Option<&'c RedirectCandidate<'a>> {
    candidates.iter().find(|candidate| candidate.weight > 0.0).or(candidates.first())
}

fn select_candidate<'c, 'a>(
    candidates: &'c [RedirectCandidate<'a>],
    methods: Vec<&str>,
    asking: &Asking<'_>,
    told: Listener<'_>,
) -> Option<&'c RedirectCandidate<'a>> {
    choose(candidates, &methods, asking, |step| told(Told::Step(step)))
        .and_then(|number| candidates.get(number))
}

fn asking<'a>(parameters: &'a Parameters<'_>, request: &Request<'a>, action: &str) -> Asking<'a> {
    let mut wished: Vec<LocationPreference<'_>> = parameters.all("locatt").map(LocationPreference::parse).collect();
    if action == "metadata" {
        wished.push(LocationPreference::parse("role:metadata"));
    }
    wished.extend(wishes(request.headers));
    Asking {
        wishes: wished,
        address: parameters.get("ip").and_then(|address| address.parse().ok()).or(request.client),
        country: parameters.get("country").map(Cow::Borrowed),
        // Not a secret, only spread evenly.
        random: (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64,
    }
}

/// The answer that leads there. HTTP/1.0 knows only two kinds of it.
fn to(address: &str, status: Option<u16>, request: &Request<'_>, only_headers: bool) -> Answer {
    let status = status.filter(|status| *status == 301 || request.version > Version::HTTP_10).unwrap_or(302);
    let status = if only_headers { 200 } else { status };
    let mut response =
        answer(StatusCode::from_u16(status).unwrap_or(StatusCode::FOUND), HTML, page::link(address));
    // All that could not stand in a header is encoded.
    response.headers_mut().extend(HeaderValue::try_from(address).map(|address| (LOCATION, address)));
    response
}

/// Which headers of the request the choice depended on.
fn vary(headers: &mut HeaderMap, candidates: &[RedirectCandidate<'_>]) {
    let has = |attribute| candidates.iter().any(|candidate| candidate.attribute(attribute).is_some());
    if has("http_role") || has("media-type") {
        headers.append(VARY, HeaderValue::from_static("Accept, User-Agent"));
    }
    if has("language") {
        headers.append(VARY, HeaderValue::from_static("Accept-Language"));
    }
}

/// What is done at `/{name}`.
pub(super) fn describe() -> Described {
    let get = Doing::new("Where a name leads")
        .about(
            "Redirects to the place that the record, the parameters and the client's wishes come to. `Accept`, \
             `Accept-Language` and `User-Agent` count where the record has places for them. Where there is metadata, \
             `Accept` is answered with it if it is preferred to a page.",
        )
        .group("Names")
        .in_path(
            "name",
            "A name, in any written form: `10.5555/DEMO`, `doi:…`, `hdl:…`, `urn:doi:…`, `info:doi/…`, an address of a \
             proxy; without slash and dot, a shortDOI",
            text(),
        )
        .sample("curl -si $SERVER/10.5555/DEMO")
        .sample("curl -si \"$SERVER/10.5555/DEMO-COPIES?locatt=country:gb\"")
        .sample("curl -s \"$SERVER/10.5555/DEMO?explain=json\"");
    Described::read(answers(parameters(get)))
}

/// What is done at `/resolve` and `/openurl`.
pub(super) fn describe_open_url() -> Described {
    let get = Doing::new("Where a name leads that comes as OpenURL")
        .about("As `GET /{name}` for the name in `id` or `rft_id`; without either, the first page.")
        .group("Names")
        .query_param("id", "A name, such as `doi:10.5555/DEMO`", text())
        .query_param("rft_id", "The same, if there is no `id`", text())
        .sample("curl -si \"$SERVER/resolve?id=doi:10.5555/DEMO\"");
    Described::read(answers(parameters(get)))
}

fn parameters(doing: Doing) -> Doing {
    doing
        .query_param("noredirect", "Shows the record instead", text())
        .query_param("history", "Shows what ever changed instead, `before` the change of a number", text())
        .query_param("explain", "Tells instead how the place was chosen; `json` for programs", text())
        .query_param("type", "Only values of this type count", several(text()))
        .query_param(
            "index",
            "Only values of this index count; what is no number is passed over",
            several(text()),
        )
        .query_param("locatt", "Which location is wanted: `country:gb`, or `country` for any", several(text()))
        .query_param("country", "The country to choose for", text())
        .query_param("ip", "The address to choose for, instead of the client's", text())
        .query_param("urlappend", "Put at the end of the address, unless it then led to another host", text())
        .query_param("ignore_aliases", "Does not follow `HS_ALIAS`", text())
        .query_param("redirectionHeaders", "Answers 200 with the headers of the redirect", text())
        .query_param("action", "`showurls` for the places as XML, `showvalues` for the record", text())
}

/// An explanation, if one is asked for, or metadata.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described")]
enum TraceOrMetadata {
    Explanation(Box<Explanation>),
    Metadata(api::MetadataSchema),
}

/// What a request for a name may come to.
pub(super) fn answers(doing: Doing) -> Doing {
    let problem = |doing: Doing, status, about: &str| {
        doing
            .answer(status, about)
            .text("text/html")
            .json::<page::ProblemJson<'_>>("application/problem+json")
    };
    let doing = doing
        .answer(
            StatusCode::OK,
            "The record or the explanation, if asked for, or if there is no place to lead to; metadata, if there is some \
             and `Accept` prefers it",
        )
        .text("text/html")
        .text("text/xml");
    let is_new = |media_type: &str| !matches!(media_type, "application/json" | "text/xml");
    let doing = api::describe_types(doing, is_new).json::<TraceOrMetadata>("application/json");
    let leads = [
        (StatusCode::MOVED_PERMANENTLY, "The name stands for another, or its record says so"),
        (StatusCode::FOUND, "The place"),
        (StatusCode::SEE_OTHER, "The place, if its record says so"),
        (StatusCode::TEMPORARY_REDIRECT, "The place, if its record says so"),
        (StatusCode::PERMANENT_REDIRECT, "The place, if its record says so"),
    ];
    let doing = leads.into_iter().fold(doing, |doing, (status, about)| {
        let doing = doing.answer(status, about).text("text/html").header("Location", "The address");
        doing
            .header("Cache-Control", "How long it holds, from the values' TTL")
            .header("ETag", "Changes when it does")
    });
    let doing = doing.answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let doing = problem(doing, StatusCode::BAD_REQUEST, "Not written as it should be, or not kept here");
    let doing =
        problem(doing, StatusCode::NOT_FOUND, "Not registered; `near` has names that may have been meant");
    let doing = doing
        .answer(StatusCode::NOT_ACCEPTABLE, "There is metadata, but not as any type that `Accept` names")
        .json::<page::ProblemJson<'_>>("application/problem+json");
    let doing = problem(doing, StatusCode::GONE, "Ended, and not given again");
    let doing = problem(doing, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    let doing = problem(doing, StatusCode::SERVICE_UNAVAILABLE, "It would cost more than a request may");
    problem(doing, StatusCode::LOOP_DETECTED, "The name leads in a circle")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_paths() {
        assert_eq!(own_path("10.1/a b%?#é"), "/10.1/a%20b%25%3F%23%C3%A9");
        assert_eq!(own_path("//example.org/x"), "/example.org/x");
        assert_eq!(own_path("10.1/a/../b/./c/.."), "/10.1/a/..%2Fb/.%2Fc%2F..");
        assert_eq!(own_path("10.1//x/"), "/10.1//x/");
    }
}

//! Resolution of a name to a redirect: `GET /{name}`.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::time::SystemTime;

use http::header::{HeaderMap, HeaderValue, LOCATION, VARY};
use http::{StatusCode, Version};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tendot_proto::record::{Locations, Namespace};
use tendot_proto::{Handle, HandleValue};
use tendot_registry::{Caller, Error, Resolution, ResolveQuery};
use utoipa::ToSchema;

use crate::http::middleware::response_cache::CachePolicy;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::request::{name_path, percent};
use crate::http::resolve::locations::link_headers;
use crate::http::resolve::locations::location_set::redirect_candidates;
use crate::http::resolve::locations::preferences::{LocationPreference, location_preferences};
use crate::http::resolve::locations::redirect_target::{self, TargetError};
use crate::http::resolve::locations::selection::{
    CandidateSource, RedirectCandidate, SelectionContext, select,
};
use crate::http::resolve::lookup::{LookupContext, Provenance, RecordLookupError};
use crate::http::resolve::metadata::{self, MetadataPreference};
use crate::http::resolve::trace::{self, ResolutionTrace, TraceEvent, TraceSink};
use crate::http::response::caching;
use crate::http::response::reply::{HTML, Reply, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, array_schema, text_schema};
use crate::http::{HttpServer, api_v1, pages};

/// Maximum length of an alias chain.
const MAX_ALIAS_HOPS: usize = 10;

/// Characters encoded in a name within a path.
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

/// Outcome of resolving a name over HTTP.
pub(crate) enum RedirectOutcome {
    /// A reply, as a rule a redirect.
    Redirect(Reply),
    /// No redirect target: the record is shown, with the reason if its URL is not valid.
    ShowRecord(Option<TargetError>),
    /// The prefix is inactive; the message of its record.
    PrefixInactive(String),
    /// The name is part of an alias loop: its chain.
    AliasLoop(Vec<String>),
    /// Metadata was requested: media type and reply.
    Metadata(&'static str, Reply),
    /// No acceptable representation.
    NotAcceptable,
}

impl HttpServer {
    /// Handles `GET /{name}`; `path` is not decoded yet.
    pub(crate) async fn get_name(&self, path: &str, request: &RequestHead<'_>, now: SystemTime) -> Reply {
        let read = QueryParams::parse(request.query)
            .and_then(|parameters| Ok((percent::decode_text(path, "path")?, parameters)));
        match read {
            Err(error) if error.part == "path" => pages::syntax_error_page(&error, path, request),
            Err(error) => pages::syntax_error_page(&error, request.query.unwrap_or_default(), request),
            Ok((path, parameters)) => {
                self.resolve_name(&name_path::parse_or_short_doi(&path), &parameters, request, now).await
            }
        }
    }

    /// Handles a request for a name, from the path, a query or a form.
    pub(crate) async fn resolve_name(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        let mut context = LookupContext::new(request, parameters);
        if parameters.has("history") {
            return self.history_page(name, parameters, request, &mut context).await;
        }
        let show_record = wants_record(parameters);
        let query =
            request.query.filter(|_| show_record || parameters.has("explain")).map(trace::redirect_query);
        let request = &RequestHead {
            query: query.as_ref().map_or(request.query, |query| query.as_deref()),
            ..*request
        };
        if parameters.has("explain") {
            return self.get_trace(name, parameters, request, now, &mut context).await;
        }
        let outcome = self.resolve_redirect(name, parameters, request, now, &mut context, &mut |_| {}).await;
        if let Some(resolution_counter) = &self.resolution_counter {
            match &outcome {
                Ok(_) if context.provenance.is_none() => {
                    resolution_counter.count_resolution(&self.registry, name).await;
                }
                Err(RecordLookupError::Local(error)) => {
                    resolution_counter.count_failure(&self.registry, name, error).await;
                }
                _ => {}
            }
        }
        match outcome {
            Ok(RedirectOutcome::Redirect(reply)) if !show_record => reply,
            Ok(RedirectOutcome::PrefixInactive(message)) if !show_record => {
                pages::prefix_inactive(name, message, request)
            }
            Ok(RedirectOutcome::AliasLoop(chain)) if !show_record => pages::alias_loop(name, &chain, request),
            Ok(RedirectOutcome::Metadata(_, reply)) if !show_record => reply,
            Ok(RedirectOutcome::NotAcceptable) if !show_record => metadata::not_acceptable(name),
            Ok(outcome) => self.record_page(name, parameters, &outcome, request, &mut context).await,
            Err(error) => self.lookup_failed(name, &error, request, &mut context).await,
        }
    }

    /// Resolves a name to its outcome, emitting trace events.
    pub(crate) async fn resolve_redirect(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
        now: SystemTime,
        context: &mut LookupContext<'_>,
        trace: TraceSink<'_>,
    ) -> Result<RedirectOutcome, RecordLookupError> {
        let version = self.record_version(name, request);
        let (values, provenance) = self.lookup_values(name, parameters, context).await?;
        let has_metadata = context.has_metadata;
        trace(TraceEvent::RecordFound { values: &values, provenance, has_metadata });
        let action = parameters.get("action").unwrap_or("redirect");
        if !parameters.has("ignore_aliases")
            && let Some(alias) = find_alias(&values)
        {
            return Ok(self
                .follow_aliases(alias, request, caching::min_ttl_seconds(&values, now), now, context, trace)
                .await);
        }
        let namespace =
            self.lookup_namespace(name, provenance.is_some(), context).await.map_err(Error::from)?;
        let namespace = namespace.as_ref().and_then(|value| Namespace::from_bytes(&value.data).ok());
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !namespace.is_active()) {
            let message = namespace.status_message().unwrap_or_default();
            let contact = namespace.contact().map(|contact| format!(" Contact: {contact}."));
            return Ok(RedirectOutcome::PrefixInactive(format!("{message}{}", contact.unwrap_or_default())));
        }
        let location_set =
            self.collect_locations(name, &values, namespace.as_ref(), context).await.map_err(Error::from)?;
        let locations = location_set.parse();
        let own = location_set.own_locations(&locations);
        let candidates = redirect_candidates(name, &values, own, &locations);
        trace(TraceEvent::Candidates(&candidates));
        if action == "showurls" {
            return Ok(RedirectOutcome::Redirect(pages::locations_xml(&candidates)));
        }
        if has_metadata && !wants_record(parameters) {
            let outcome =
                self.negotiate_metadata(name, parameters, request, now, &candidates, context).await?;
            if let Some(mut outcome) = outcome {
                if let RedirectOutcome::Metadata(_, response) = &mut outcome {
                    link_headers::add_record_headers(response.headers_mut(), &values, &locations);
                }
                return Ok(outcome);
            }
        }
        let chosen = if locations.is_empty() {
            first_url_candidate(&candidates)
        } else {
            let methods = own.or(locations.first()).map(|locations| locations.selection_methods().collect());
            let selection = selection_context(parameters, request, action);
            select_candidate(&candidates, methods.unwrap_or_default(), &selection, trace)
        };
        let Some(chosen) = chosen else { return Ok(RedirectOutcome::ShowRecord(None)) };
        let address = match redirect_target::sanitize(&chosen.href) {
            Ok(address) => address,
            Err(error) => return Ok(RedirectOutcome::ShowRecord(Some(error))),
        };
        let address = match parameters.get("urlappend").filter(|suffix| !suffix.is_empty()) {
            Some(suffix) => redirect_target::append_suffix(&address, suffix).map_or(address, Cow::Owned),
            None => address,
        };
        let status = chosen.http_status().or_else(|| own.and_then(Locations::http_status));
        let mut response = redirect_reply(&address, status, request, parameters.has("redirectionHeaders"));
        let used_values = location_set.values().iter().chain(match chosen.origin {
            CandidateSource::UrlValue(value) => Some(value),
            CandidateSource::Location(_) => None,
        });
        let max_age = caching::min_ttl_seconds(used_values.clone(), now);
        caching::set_max_age_with_provenance(response.headers_mut(), max_age, context.provenance, now);
        // Without a location choice, the reply is identical for all clients that do not prefer metadata, and cacheable. The
        // record version covers the namespace value of the prefix, but not the record of its locations.
        let has_no_prefix_locations =
            namespace.as_ref().is_none_or(|namespace| namespace.locations_handle().is_none());
        if let Some(version) = version.filter(|_| has_no_prefix_locations && locations.is_empty())
            && context.provenance.is_none()
            && caching::has_only_relative_ttls(used_values)
        {
            response.extensions_mut().insert(CachePolicy { record_version: version, max_age, has_metadata });
        }
        add_vary(response.headers_mut(), &candidates);
        if has_metadata {
            metadata::add_vary_accept(response.headers_mut());
        }
        link_headers::add_record_headers(response.headers_mut(), &values, &locations);
        Ok(RedirectOutcome::Redirect(caching::add_etag(response, address.as_bytes(), request.headers)))
    }

    /// Metadata of a name, if it is preferred to the redirect.
    async fn negotiate_metadata(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
        now: SystemTime,
        candidates: &[RedirectCandidate<'_>],
        context: &mut LookupContext<'_>,
    ) -> Result<Option<RedirectOutcome>, RecordLookupError> {
        let (format, media_type) = match metadata::metadata_over_page(request.headers) {
            MetadataPreference::NotRequested => return Ok(None),
            // One of the locations may provide the requested type.
            MetadataPreference::NotAcceptable => {
                let is_negotiated = |candidate: &RedirectCandidate<'_>| {
                    candidate.attribute("http_role") == Some("conneg")
                        || candidate.attribute("media-type").is_some()
                };
                let has_negotiated = candidates.iter().any(is_negotiated);
                return Ok((!has_negotiated).then_some(RedirectOutcome::NotAcceptable));
            }
            // With `?explain`, this requests the trace as JSON.
            MetadataPreference::Format(_, "application/json") if parameters.has("explain") => {
                return Ok(None);
            }
            MetadataPreference::Format(format, media_type) => (format, media_type),
        };
        let registered = self.public_registration(name, now, &mut context.budget).await?;
        let text = registered.and_then(|registered| registered.metadata_in(format));
        Ok(text.map(|text| {
            RedirectOutcome::Metadata(media_type, metadata::metadata_reply(text, media_type, request.headers))
        }))
    }

    /// Public values of a record, all or the requested ones, with their provenance.
    pub(crate) async fn lookup_values(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        context: &mut LookupContext<'_>,
    ) -> Result<(Vec<HandleValue<'static>>, Option<Provenance>), RecordLookupError> {
        let query = ResolveQuery {
            indexes: parameters.get_all("index").filter_map(|index| index.parse().ok()).collect(),
            types: parameters.get_all("type").map(str::as_bytes).collect(),
            ..ResolveQuery::new(Handle::from(name))
        };
        match self.lookup(&query, &Caller::Anonymous, context).await? {
            (Resolution::Values(values) | Resolution::Referral(values), provenance) => {
                Ok((values, provenance))
            }
        }
    }

    /// Follows an alias: redirects to the path of the last name in its chain.
    async fn follow_aliases(
        &self,
        alias: String,
        request: &RequestHead<'_>,
        mut max_age: u64,
        now: SystemTime,
        context: &mut LookupContext<'_>,
        trace: TraceSink<'_>,
    ) -> RedirectOutcome {
        let mut seen = vec![alias];
        while let Some(last) = seen.last() {
            // A missing record is reported by the next request.
            let Ok((values, _)) = self.lookup_values(last, &QueryParams::default(), context).await else {
                break;
            };
            let Some(next) = find_alias(&values) else { break };
            if seen.len() == MAX_ALIAS_HOPS || seen.iter().any(|name| name.eq_ignore_ascii_case(&next)) {
                return RedirectOutcome::AliasLoop(seen);
            }
            max_age = max_age.min(caching::min_ttl_seconds(&values, now));
            seen.push(next);
        }
        trace(TraceEvent::AliasesFollowed(&seen));
        let target = seen.pop().unwrap_or_default();
        let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
        let mut response = redirect_reply(&format!("{}{query}", format(&target)), Some(301), request, false);
        caching::set_max_age_with_provenance(response.headers_mut(), max_age, context.provenance, now);
        RedirectOutcome::Redirect(response)
    }
}

/// Whether the record is requested rather than its redirect.
fn wants_record(parameters: &QueryParams<'_>) -> bool {
    parameters.has("noredirect") || parameters.get("action") == Some("showvalues")
}

/// Redirect to the path of a name on this server.
pub(crate) fn redirect_to_name(name: &str, request: &RequestHead<'_>) -> Reply {
    redirect_reply(&format(name), Some(303), request, false)
}

/// Path of a name on this server, percent-encoded.
pub(crate) fn format(name: &str) -> String {
    // Two slashes would begin a host name.
    let mut path = String::from("/");
    let mut rest = name.trim_start_matches('/');
    // Browsers remove `.` and `..` segments, so the slash beside them is encoded.
    let is_dot_segment = |segment: &str| matches!(segment, "." | "..");
    while let Some((segment, after)) = rest.split_once('/') {
        path.extend(utf8_percent_encode(segment, PATH_ENCODE_SET));
        path.push_str(if is_dot_segment(segment) || is_dot_segment(after) { "%2F" } else { "/" });
        rest = after;
    }
    path.extend(utf8_percent_encode(rest, PATH_ENCODE_SET));
    path
}

/// Target of an alias record.
fn find_alias(values: &[HandleValue<'_>]) -> Option<String> {
    let alias = values.iter().find(|value| value.value_type.eq_ignore_ascii_case(b"HS_ALIAS"))?;
    Some(str::from_utf8(&alias.data).ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Without locations, the first `URL` value wins, else the first of a subtype.
fn first_url_candidate<'c, 'a>(candidates: &'c [RedirectCandidate<'a>]) -> Option<&'c RedirectCandidate<'a>> {
    candidates.iter().find(|candidate| candidate.weight > 0.0).or(candidates.first())
}

fn select_candidate<'c, 'a>(
    candidates: &'c [RedirectCandidate<'a>],
    methods: Vec<&str>,
    selection: &SelectionContext<'_>,
    trace: TraceSink<'_>,
) -> Option<&'c RedirectCandidate<'a>> {
    select(candidates, &methods, selection, |step| trace(TraceEvent::Selection(step)))
        .and_then(|number| candidates.get(number))
}

fn selection_context<'a>(
    parameters: &'a QueryParams<'_>,
    request: &RequestHead<'a>,
    action: &str,
) -> SelectionContext<'a> {
    let mut preferences: Vec<LocationPreference<'_>> =
        parameters.get_all("locatt").map(LocationPreference::parse).collect();
    if action == "metadata" {
        preferences.push(LocationPreference::parse("role:metadata"));
    }
    preferences.extend(location_preferences(request.headers));
    SelectionContext {
        preferences,
        client_address: parameters.get("ip").and_then(|address| address.parse().ok()).or(request.client),
        country: parameters.get("country").map(Cow::Borrowed),
        // Not secret, only evenly distributed.
        random: (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64,
    }
}

/// Redirect reply. HTTP/1.0 has only two redirect statuses.
fn redirect_reply(
    address: &str,
    status: Option<u16>,
    request: &RequestHead<'_>,
    only_headers: bool,
) -> Reply {
    let status = status.filter(|status| *status == 301 || request.version > Version::HTTP_10).unwrap_or(302);
    let status = if only_headers { 200 } else { status };
    let mut response =
        reply(StatusCode::from_u16(status).unwrap_or(StatusCode::FOUND), HTML, pages::redirect_body(address));
    // Characters that a header cannot contain are encoded.
    response.headers_mut().extend(HeaderValue::try_from(address).map(|address| (LOCATION, address)));
    response
}

/// Sets `Vary` to the headers that the selection depended on.
fn add_vary(headers: &mut HeaderMap, candidates: &[RedirectCandidate<'_>]) {
    let has = |attribute| candidates.iter().any(|candidate| candidate.attribute(attribute).is_some());
    if has("http_role") || has("media-type") {
        headers.append(VARY, HeaderValue::from_static("Accept, User-Agent"));
    }
    if has("language") {
        headers.append(VARY, HeaderValue::from_static("Accept-Language"));
    }
}

/// OpenAPI spec of `/{name}`.
pub(crate) fn describe() -> PathSpec {
    let get = OperationSpec::new("Resolve a name")
        .description(
            "Redirects to the location selected from the record, the parameters and the request headers. `Accept`, \
             `Accept-Language` and `User-Agent` are used if the record has matching locations. Returns metadata if \
             `Accept` prefers it to HTML.",
        )
        .tag("Resolution")
        .path_param(
            "name",
            "Name in any written form: `10.5555/DEMO`, `doi:…`, `hdl:…`, `urn:doi:…`, `info:doi/…`, or a proxy URL; \
             without slash and dot, a shortDOI",
            text_schema(),
        )
        .example_command("curl -si $SERVER/10.5555/DEMO")
        .example_command("curl -si \"$SERVER/10.5555/DEMO-COPIES?locatt=country:gb\"")
        .example_command("curl -s \"$SERVER/10.5555/DEMO?explain=json\"");
    PathSpec::readable(with_resolution_responses(with_resolution_params(get)))
}

/// OpenAPI spec of `/resolve` and `/openurl`.
pub(crate) fn describe_open_url() -> PathSpec {
    let get = OperationSpec::new("Resolve an OpenURL request")
        .description("Same as `GET /{name}` for the name in `id` or `rft_id`; without either, the home page.")
        .tag("Resolution")
        .query_param("id", "Name, such as `doi:10.5555/DEMO`", text_schema())
        .query_param("rft_id", "Name, used if `id` is absent", text_schema())
        .example_command("curl -si \"$SERVER/resolve?id=doi:10.5555/DEMO\"");
    PathSpec::readable(with_resolution_responses(with_resolution_params(get)))
}

fn with_resolution_params(spec: OperationSpec) -> OperationSpec {
    spec.query_param("noredirect", "Show the record", text_schema())
        .query_param(
            "history",
            "Show the history; with `before`, only changes before this sequence number",
            text_schema(),
        )
        .query_param("explain", "Trace the resolution; `json` for JSON", text_schema())
        .query_param("type", "Use only values of this type", array_schema(text_schema()))
        .query_param(
            "index",
            "Use only values at this index; non-numbers are ignored",
            array_schema(text_schema()),
        )
        .query_param(
            "locatt",
            "Preferred location attribute: `country:gb`, or `country` for any value",
            array_schema(text_schema()),
        )
        .query_param("country", "Country for location selection", text_schema())
        .query_param("ip", "Client address for location selection", text_schema())
        .query_param("urlappend", "Appended to the target URL, unless that changes the host", text_schema())
        .query_param("ignore_aliases", "Do not follow `HS_ALIAS`", text_schema())
        .query_param("redirectionHeaders", "Return 200 with the redirect headers", text_schema())
        .query_param("action", "`showurls`: locations as XML; `showvalues`: the record", text_schema())
}

/// Schema only: JSON body of `GET /{name}`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "schema only")]
enum TraceOrMetadata {
    Trace(Box<ResolutionTrace>),
    Metadata(api_v1::MetadataSchema),
}

/// Responses of a request for a name.
pub(crate) fn with_resolution_responses(spec: OperationSpec) -> OperationSpec {
    let problem = |spec: OperationSpec, status, about: &str| {
        spec.response(status, about)
            .text_content("text/html")
            .json_content::<pages::ProblemJson<'_>>("application/problem+json")
    };
    let spec = spec
        .response(
            StatusCode::OK,
            "Record or trace, if requested; record, if it has no redirect target; metadata, if `Accept` prefers it",
        )
        .text_content("text/html")
        .text_content("text/xml");
    let is_new = |media_type: &str| !matches!(media_type, "application/json" | "text/xml");
    let spec = api_v1::describe_types(spec, is_new).json_content::<TraceOrMetadata>("application/json");
    let redirects = [
        (StatusCode::MOVED_PERMANENTLY, "Alias, or status set by the record"),
        (StatusCode::FOUND, "Redirect"),
        (StatusCode::SEE_OTHER, "Redirect with the status set by the record"),
        (StatusCode::TEMPORARY_REDIRECT, "Redirect with the status set by the record"),
        (StatusCode::PERMANENT_REDIRECT, "Redirect with the status set by the record"),
    ];
    let spec = redirects.into_iter().fold(spec, |spec, (status, about)| {
        let spec =
            spec.response(status, about).text_content("text/html").response_header("Location", "Target URL");
        spec.response_header("Cache-Control", "Freshness lifetime from the values' TTL")
            .response_header("ETag", "Entity tag")
    });
    let spec = spec.response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let spec = problem(spec, StatusCode::BAD_REQUEST, "Malformed, or not responsible");
    let spec = problem(spec, StatusCode::NOT_FOUND, "Not found; see `suggestions`");
    let spec = spec
        .response(StatusCode::NOT_ACCEPTABLE, "No metadata format matches `Accept`")
        .json_content::<pages::ProblemJson<'_>>("application/problem+json");
    let spec = problem(spec, StatusCode::GONE, "Retired");
    let spec = problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "Store error");
    let spec = problem(spec, StatusCode::SERVICE_UNAVAILABLE, "Work limit exceeded, or server busy");
    problem(spec, StatusCode::LOOP_DETECTED, "Alias loop")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_names() {
        assert_eq!(format("10.1/a b%?#é"), "/10.1/a%20b%25%3F%23%C3%A9");
        assert_eq!(format("//example.org/x"), "/example.org/x");
        assert_eq!(format("10.1/a/../b/./c/.."), "/10.1/a/..%2Fb/.%2Fc%2F..");
        assert_eq!(format("10.1//x/"), "/10.1//x/");
    }
}

//! Resolution of a name to a redirect: `GET /{name}`.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};

use http::header::{HeaderValue, LOCATION};
use http::{StatusCode, Version};
use tendot_proto::record::{Locations, Namespace};
use tendot_proto::{Handle, HandleValue};
use tendot_registry::{Caller, Error, ResolveQuery};
use tendot_store::RecordVersion;

use crate::http::middleware::response_cache::CachePolicy;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::request::{name_path, percent};
use crate::http::resolve::locations::country::ClientCountry;
use crate::http::resolve::locations::link_headers;
use crate::http::resolve::locations::location_set::{LocationSet, redirect_candidates};
use crate::http::resolve::locations::preferences::{LocationPreference, location_preferences};
use crate::http::resolve::locations::redirect_target::{self, TargetError};
use crate::http::resolve::locations::selection::{
    CandidateSource, RedirectCandidate, Selection, SelectionContext, select,
};
use crate::http::resolve::lookup::{FoundRecord, LookupContext, RecordLookupError};
use crate::http::resolve::metadata::{self, MetadataPreference};
use crate::http::resolve::requested_name::RequestedName;
use crate::http::resolve::resolver::RecordResolver;
use crate::http::resolve::trace::{self, TraceEvent, TraceSink};
use crate::http::response::caching::{self, ClientDependence};
use crate::http::response::reply::{HTML, Reply, reply};
use crate::http::{HttpServer, pages};

/// Maximum length of an alias chain.
const MAX_ALIAS_HOPS: usize = 10;

/// Request for a name: the name, the query parameters and the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameRequest<'a> {
    pub(crate) name: &'a RequestedName<'a>,
    pub(crate) parameters: &'a QueryParams<'a>,
    pub(crate) head: &'a RequestHead<'a>,
}

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

/// Redirect candidate that was chosen, and what it was chosen from.
struct ChosenLocation<'s> {
    chosen: &'s RedirectCandidate<'s>,
    /// Request data that it was chosen by.
    dependence: ClientDependence,
    /// Namespace settings of the prefix.
    namespace: Option<&'s HandleValue<'static>>,
    location_set: &'s LocationSet,
    locations: &'s [Locations<'s>],
    /// The record's own locations.
    own: Option<&'s Locations<'s>>,
    /// Whether locations of the prefix may apply, which the version of the record does not cover.
    has_prefix_locations: bool,
}

impl HttpServer {
    /// Handles `GET /{name}`; `path` is not decoded yet.
    pub(crate) async fn get_name(&self, path: &str, head: &RequestHead<'_>) -> Reply {
        let read = QueryParams::parse(head.query)
            .and_then(|parameters| Ok((percent::decode_text(path, "path")?, parameters)));
        match read {
            Err(error) if error.part == "path" => pages::syntax_error_page(&error, path, head),
            Err(error) => pages::syntax_error_page(&error, head.query.unwrap_or_default(), head),
            Ok((path, parameters)) => {
                self.resolve_name(&RequestedName::parse(&path), &parameters, head).await
            }
        }
    }

    /// Handles a request for a name, from the path, a query or a form; with `action=api` as the handle API does.
    pub(crate) async fn resolve_name(
        &self,
        name: &RequestedName<'_>,
        parameters: &QueryParams<'_>,
        head: &RequestHead<'_>,
    ) -> Reply {
        if parameters.get("action") == Some("api") {
            // Boxed, so that redirects do not carry its state.
            return Box::pin(self.get_named_handle(name.as_str(), parameters, head)).await;
        }
        self.resolver.resolve_name(name, parameters, head).await
    }
}

impl RecordResolver {
    /// Handles a request for a name with a redirect, a page or metadata.
    async fn resolve_name(
        &self,
        name: &RequestedName<'_>,
        parameters: &QueryParams<'_>,
        head: &RequestHead<'_>,
    ) -> Reply {
        let mut context = LookupContext::new(head, parameters);
        if parameters.has("history") {
            return self.history_page(NameRequest { name, parameters, head }, &mut context).await;
        }
        let show_record = wants_record(parameters);
        let query =
            head.query.filter(|_| show_record || parameters.has("explain")).map(trace::redirect_query);
        let head =
            &RequestHead { query: query.as_ref().map_or(head.query, |query| query.as_deref()), ..*head };
        let request = NameRequest { name, parameters, head };
        if parameters.has("explain") {
            return self.get_trace(request, &mut context).await;
        }
        let mut aliases = Vec::new();
        let mut keep_aliases = |event: TraceEvent<'_>| {
            if let TraceEvent::AliasesFollowed(names) = event {
                aliases.extend_from_slice(names);
            }
        };
        let resolved = self.resolve_redirect(request, &mut context, &mut keep_aliases).await;
        self.count(name, resolved.as_ref().map(|(record, _)| record)).await;
        if show_record && let Some(target) = aliases.pop() {
            aliases.insert(0, name.as_str().to_owned());
            return Box::pin(self.alias_target_page(request, target, &aliases, &mut context)).await;
        }
        match resolved {
            Ok((_, RedirectOutcome::Redirect(reply))) if !show_record => reply,
            Ok((_, RedirectOutcome::PrefixInactive(message))) if !show_record => {
                pages::prefix_inactive(name, message, head)
            }
            Ok((_, RedirectOutcome::AliasLoop(chain))) if !show_record => {
                pages::alias_loop(name, &chain, head)
            }
            Ok((_, RedirectOutcome::Metadata(_, reply))) if !show_record => reply,
            Ok((_, RedirectOutcome::NotAcceptable)) if !show_record => {
                metadata::not_acceptable(name.as_str())
            }
            Ok((record, outcome)) => self.record_page(name, &record, &outcome, &[], &mut context).await,
            Err(error) => self.lookup_failed(name, &error, head, &mut context).await,
        }
    }

    /// Page of the record that an alias leads to, with the names on the way.
    async fn alias_target_page(
        &self,
        request: NameRequest<'_>,
        target: String,
        aliases: &[String],
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let target = RequestedName::new(target);
        let request = NameRequest { name: &target, ..request };
        match self.resolve_redirect(request, context, &mut |_| {}).await {
            Ok((record, outcome)) => self.record_page(&target, &record, &outcome, aliases, context).await,
            Err(error) => self.lookup_failed(&target, &error, request.head, context).await,
        }
    }

    /// Resolves a name to its record and outcome, emitting trace events.
    pub(crate) async fn resolve_redirect(
        &self,
        request: NameRequest<'_>,
        context: &mut LookupContext<'_>,
        trace: TraceSink<'_>,
    ) -> Result<(FoundRecord, RedirectOutcome), RecordLookupError> {
        // Before the record is read.
        let version = self.record_version(request.name, request.head);
        let record = self.lookup_values(request.name.as_str(), request.parameters, context).await?;
        trace(TraceEvent::RecordFound(&record));
        let version = version.filter(|_| record.is_stored);
        let outcome = self.find_outcome(request, &record, version, context, trace).await?;
        Ok((record, outcome))
    }

    /// Outcome for a record: alias, inactive prefix, metadata or a location.
    async fn find_outcome(
        &self,
        request: NameRequest<'_>,
        record: &FoundRecord,
        version: Option<RecordVersion>,
        context: &mut LookupContext<'_>,
        trace: TraceSink<'_>,
    ) -> Result<RedirectOutcome, RecordLookupError> {
        let NameRequest { name, parameters, head } = request;
        let values = &record.values;
        if !parameters.has("ignore_aliases")
            && let Some(alias) = find_alias(values)
        {
            let max_age = caching::min_ttl_seconds(values, head.now);
            return Ok(self.follow_aliases(alias, head, max_age, context, trace).await);
        }
        let namespace_value =
            self.lookup_namespace(name.as_str(), record.provenance.is_some(), context).await?;
        let namespace = namespace_value.as_ref().and_then(|value| Namespace::from_bytes(&value.data).ok());
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !namespace.is_active()) {
            return Ok(RedirectOutcome::PrefixInactive(inactive_message(namespace)));
        }
        let location_set = self
            .collect_locations(name.as_str(), values, namespace.as_ref(), context)
            .await
            .map_err(Error::from)?;
        let locations = location_set.parse();
        let own = location_set.own_locations(&locations);
        let candidates = redirect_candidates(name.as_str(), values, own, &locations);
        trace(TraceEvent::Candidates(&candidates));
        let action = parameters.get("action").unwrap_or("redirect");
        if action == "showurls" {
            let mut response = pages::locations_xml(&candidates);
            let ttl = location_set.min_ttl_seconds(values.iter().chain(&namespace_value), head.now);
            let (provenance, dependence) = (context.provenance, ClientDependence::NONE);
            caching::set_freshness(response.headers_mut(), ttl, provenance, dependence, head.now);
            return Ok(RedirectOutcome::Redirect(response));
        }
        if record.has_metadata
            && !wants_record(parameters)
            && let Some(mut outcome) = self.negotiate_metadata(request, &candidates, context).await?
        {
            if let RedirectOutcome::Metadata(_, response) = &mut outcome {
                link_headers::add_record_headers(response.headers_mut(), values, &locations);
            }
            return Ok(outcome);
        }
        let chosen = if locations.is_empty() {
            first_url_candidate(&candidates).map(|chosen| (chosen, ClientDependence::NONE))
        } else {
            let methods = own.or(locations.first()).map(|locations| locations.selection_methods().collect());
            let selection = self.selection_context(parameters, head, action);
            select_candidate(&candidates, methods.unwrap_or_default(), &selection, trace)
        };
        let Some((chosen, dependence)) = chosen else { return Ok(RedirectOutcome::ShowRecord(None)) };
        let has_prefix_locations =
            namespace.as_ref().is_some_and(|namespace| namespace.locations_handle().is_some());
        let (namespace, locations, location_set) = (namespace_value.as_ref(), &*locations, &location_set);
        let location = ChosenLocation {
            chosen,
            dependence,
            namespace,
            location_set,
            locations,
            own,
            has_prefix_locations,
        };
        Ok(redirect_to_location(request, record, version, &location, context))
    }

    /// Metadata of a name, if it is preferred to the redirect.
    async fn negotiate_metadata(
        &self,
        request: NameRequest<'_>,
        candidates: &[RedirectCandidate<'_>],
        context: &mut LookupContext<'_>,
    ) -> Result<Option<RedirectOutcome>, RecordLookupError> {
        let NameRequest { name, parameters, head } = request;
        let (format, media_type) = match metadata::metadata_over_page(head.headers) {
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
        let registered = self.public_registration(name.as_str(), &mut context.budget).await?;
        let text = registered.and_then(|registered| registered.metadata_in(format));
        Ok(text.map(|text| {
            RedirectOutcome::Metadata(media_type, metadata::metadata_reply(text, media_type, head.headers))
        }))
    }

    /// Record with its public values, all or the requested ones.
    async fn lookup_values(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        context: &mut LookupContext<'_>,
    ) -> Result<FoundRecord, RecordLookupError> {
        let mut query = ResolveQuery {
            indexes: parameters.get_all("index").filter_map(|index| index.parse().ok()).collect(),
            types: parameters.get_all("type").map(str::as_bytes).collect(),
            ..ResolveQuery::new(Handle::from(name))
        };
        // The requested values may be those of the name that this one is an alias of.
        let is_filtered = !query.indexes.is_empty() || !query.types.is_empty();
        if is_filtered && !parameters.has("ignore_aliases") {
            query.types.push(b"HS_ALIAS");
        }
        self.lookup(&query, &Caller::Anonymous, context).await
    }

    /// Follows an alias: redirects to the path of the last name in its chain.
    async fn follow_aliases(
        &self,
        alias: String,
        head: &RequestHead<'_>,
        mut max_age: u64,
        context: &mut LookupContext<'_>,
        trace: TraceSink<'_>,
    ) -> RedirectOutcome {
        let mut seen = vec![alias];
        while let Some(last) = seen.last() {
            // A missing record is reported by the next request.
            let Ok(record) = self.lookup_values(last, &QueryParams::default(), context).await else {
                break;
            };
            let Some(next) = find_alias(&record.values) else { break };
            if seen.len() == MAX_ALIAS_HOPS || seen.iter().any(|name| name.eq_ignore_ascii_case(&next)) {
                return RedirectOutcome::AliasLoop(seen);
            }
            max_age = max_age.min(caching::min_ttl_seconds(&record.values, head.now));
            seen.push(next);
        }
        trace(TraceEvent::AliasesFollowed(&seen));
        let target = seen.pop().unwrap_or_default();
        let query = head.query.map(|query| format!("?{query}")).unwrap_or_default();
        let address = format!("{}{query}", name_path::format(&target));
        let mut response = redirect_reply(&address, Some(301), head, false);
        let (provenance, dependence) = (context.provenance, ClientDependence::NONE);
        caching::set_freshness(response.headers_mut(), max_age, provenance, dependence, head.now);
        RedirectOutcome::Redirect(response)
    }
}

/// Redirect to the chosen location; the record is shown if its URL is not valid.
fn redirect_to_location(
    request: NameRequest<'_>,
    record: &FoundRecord,
    version: Option<RecordVersion>,
    location: &ChosenLocation<'_>,
    context: &LookupContext<'_>,
) -> RedirectOutcome {
    let NameRequest { name, parameters, head } = request;
    let chosen = location.chosen;
    let address = match redirect_target::sanitize(&chosen.href) {
        Ok(address) => address,
        Err(error) => return RedirectOutcome::ShowRecord(Some(error)),
    };
    let address = match parameters.get("urlappend").filter(|suffix| !suffix.is_empty()) {
        Some(suffix) => redirect_target::append_suffix(&address, suffix).map_or(address, Cow::Owned),
        None => address,
    };
    let status = chosen.http_status().or_else(|| location.own.and_then(Locations::http_status));
    let mut response = redirect_reply(&address, status, head, parameters.has("redirectionHeaders"));
    let url_value = match chosen.origin {
        CandidateSource::UrlValue(value) => Some(value),
        CandidateSource::Location(_) => None,
    };
    let other_values = url_value.into_iter().chain(location.namespace);
    let used_values = location.location_set.values().iter().chain(other_values.clone());
    let max_age = location.location_set.min_ttl_seconds(other_values, head.now);
    let negotiated = if record.has_metadata { ClientDependence::ACCEPT } else { ClientDependence::NONE };
    let (provenance, dependence) = (context.provenance, location.dependence.union(negotiated));
    caching::set_freshness(response.headers_mut(), max_age, provenance, dependence, head.now);
    // Without a location choice, the reply is identical for all clients that do not prefer metadata, and cacheable. The
    // record version covers the namespace value of the prefix, but not the record of its locations.
    if let (Some(version), Some(key)) = (version, name.key())
        && !location.has_prefix_locations
        && location.locations.is_empty()
        && context.provenance.is_none()
        && caching::has_only_relative_ttls(used_values)
    {
        let record_version = (key.clone(), version);
        let has_metadata = record.has_metadata;
        response.cache_policy = Some(CachePolicy { record_version, max_age, has_metadata });
    }
    link_headers::add_record_headers(response.headers_mut(), &record.values, location.locations);
    RedirectOutcome::Redirect(caching::add_etag(response, address.as_bytes(), head.headers))
}

/// Message and contact of an inactive prefix.
fn inactive_message(namespace: &Namespace<'_>) -> String {
    let message = namespace.status_message().unwrap_or_default();
    let contact = namespace.contact().map(|contact| format!(" Contact: {contact}."));
    format!("{message}{}", contact.unwrap_or_default())
}

/// Whether the record is requested rather than its redirect.
fn wants_record(parameters: &QueryParams<'_>) -> bool {
    parameters.has("noredirect") || parameters.get("action") == Some("showvalues")
}

/// Redirect to the path of a name on this server.
pub(crate) fn redirect_to_name(name: &str, request: &RequestHead<'_>) -> Reply {
    redirect_reply(&name_path::format(name), Some(303), request, false)
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
) -> Option<(&'c RedirectCandidate<'a>, ClientDependence)> {
    let Selection { number, dependence } =
        select(candidates, &methods, selection, |step| trace(TraceEvent::Selection(step)))?;
    Some((candidates.get(number)?, dependence))
}

impl RecordResolver {
    /// Request data that location selection depends on.
    fn selection_context<'a>(
        &self,
        parameters: &'a QueryParams<'_>,
        request: &RequestHead<'a>,
        action: &str,
    ) -> SelectionContext<'a> {
        let mut preferences: Vec<LocationPreference<'_>> =
            parameters.get_all("locatt").map(LocationPreference::parse).collect();
        for (name, value) in parameters.iter() {
            if self.location_parameters.iter().any(|parameter| **parameter == *name) {
                preferences.push(LocationPreference::new(name, value.into()));
            }
        }
        if action == "metadata" {
            preferences.push(LocationPreference::parse("role:metadata"));
        }
        let requested_address = parameters.get("ip").and_then(|address| address.parse().ok());
        let requested_country = parameters.get("country").and_then(ClientCountry::from_parameter);
        let is_country_of_client = requested_country.is_none()
            && requested_address.is_none()
            && self.country_sources.is_configured();
        SelectionContext {
            preferences,
            header_preferences: location_preferences(request.headers),
            client_address: requested_address.or(request.client),
            is_address_of_client: requested_address.is_none(),
            country: requested_country
                .or_else(|| self.country_sources.country_of(request, requested_address)),
            is_country_of_client,
            // Not secret, only evenly distributed.
            random: (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64,
        }
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

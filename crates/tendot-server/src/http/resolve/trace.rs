//! Resolution trace (`?explain`): events of a resolution, and the handler.

use std::time::{Instant, SystemTime};

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{StatusCode, Version};
use serde::{Serialize, Serializer};
use tendot_proto::HandleValue;
use utoipa::ToSchema;

use crate::http::authentication::AuthenticationCell;
use crate::http::handle_api::ValueForm;
use crate::http::request::accept;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::entry_points::extract_name;
use crate::http::resolve::locations::selection::{CandidateSource, RedirectCandidate, SelectionStep};
use crate::http::resolve::lookup::{FoundRecord, LookupContext, Provenance};
use crate::http::resolve::redirect::NameRequest;
use crate::http::resolve::requested_name::RequestedName;
use crate::http::resolve::resolver::RecordResolver;
use crate::http::resolve::signature::SignatureStatus;
use crate::http::response::reply::{JSON, Reply, reply};
use crate::http::{HttpServer, pages};

/// Event emitted while a name is resolved.
pub(crate) enum TraceEvent<'t> {
    /// The record was found.
    RecordFound(&'t FoundRecord),
    /// The record is an alias: names of the chain.
    AliasesFollowed(&'t [String]),
    /// Locations that the name could redirect to.
    Candidates(&'t [RedirectCandidate<'t>]),
    /// A selection step reduced the candidates.
    Selection(SelectionStep),
}

/// Receiver of trace events.
pub(crate) type TraceSink<'l> = &'l mut (dyn for<'t> FnMut(TraceEvent<'t>) + Send);

/// Trace of a resolution, the result of `?explain`.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ResolutionTrace {
    pub(crate) name: String,
    pub(crate) outcome: TraceOutcome,
    pub(crate) steps: Vec<TraceStep>,
    /// Provenance of a record from the upstream resolver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<Provenance>,
    /// Stored name that a template derived the values from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) derived_from: Option<Box<str>>,
    #[schema(value_type = Vec<ValueForm>)]
    pub(crate) values: Vec<HandleValue<'static>>,
    /// Whether this server has metadata of the name.
    pub(crate) has_metadata: bool,
    /// Result of verifying the signatures of the record; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<SignatureStatus>,
    pub(crate) aliases: Vec<String>,
    pub(crate) locations: Vec<TraceLocation>,
    pub(crate) selection: Vec<SelectionStep>,
    pub(crate) redirects: Vec<TraceRedirect>,
    /// Duration of the resolution, in microseconds.
    pub(crate) duration_us: u64,
}

/// Whether the name resolves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceOutcome {
    /// The name resolves.
    Resolves,
    /// The name does not resolve.
    #[default]
    DoesNotResolve,
    /// The lookup failed, so the result is unknown.
    Failed,
}

/// One step of a trace: result, message and hint.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct TraceStep {
    /// Name of the step: `name`, `prefix`, `upstream`, `record`, `template`, `values`, `signature`, `metadata`, `alias`,
    /// `locations`, `selection` or `redirect`.
    pub step: &'static str,
    /// Whether the step succeeded.
    pub ok: bool,
    /// Result of the step.
    pub message: String,
    /// Suggested action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Redirect candidate as shown in a trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceLocation {
    pub(crate) href: String,
    pub(crate) weight: f64,
    /// Index of the `URL` value; absent for a location of a `10320/loc` value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_map")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub(crate) attributes: Vec<(String, String)>,
}

/// Redirect response as shown in a trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceRedirect {
    pub(crate) status: u16,
    pub(crate) location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<String>,
}

impl ResolutionTrace {
    /// Steps of the trace.
    pub fn steps(&self) -> &[TraceStep] {
        &self.steps
    }

    /// Result of the trace.
    pub const fn outcome(&self) -> TraceOutcome {
        self.outcome
    }

    /// Records an event; events of a further record replace those of the one before.
    fn record(&mut self, event: TraceEvent<'_>) {
        match event {
            TraceEvent::RecordFound(record) => {
                self.values.clone_from(&record.values);
                self.has_metadata = record.has_metadata;
                self.upstream = record.provenance;
                self.derived_from.clone_from(&record.derived_from);
                self.locations.clear();
                self.selection.clear();
            }
            TraceEvent::AliasesFollowed(names) => self.aliases.extend_from_slice(names),
            TraceEvent::Candidates(candidates) => {
                self.locations = candidates.iter().map(TraceLocation::from_candidate).collect();
            }
            TraceEvent::Selection(step) => self.selection.push(step),
        }
    }
}

impl TraceLocation {
    fn from_candidate(candidate: &RedirectCandidate<'_>) -> Self {
        let (index, attributes) = match candidate.origin {
            CandidateSource::UrlValue(value) => (Some(value.index), Vec::new()),
            CandidateSource::Location(location) => {
                let others = location.attributes().filter(|(name, _)| *name != "href");
                (None, others.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
            }
        };
        Self { href: candidate.href.clone().into_owned(), weight: candidate.weight, index, attributes }
    }
}

fn serialize_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

impl HttpServer {
    /// Traces the resolution of the name in a text, as if a browser requested it from this server.
    pub async fn trace_text(&self, text: &str) -> ResolutionTrace {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html"))]);
        let head = &RequestHead {
            query: None,
            headers: &headers,
            version: Version::HTTP_11,
            client: None,
            is_loopback: false,
            is_proxied: false,
            accepts_credentials: false,
            certificate: None,
            authentication: &AuthenticationCell::default(),
            identity: &self.resolver.identity,
            now: SystemTime::now(),
        };
        let (name, parameters) = (
            &RequestedName::new(
                extract_name(text.trim()).ok().flatten().unwrap_or_else(|| text.trim().to_owned()),
            ),
            &QueryParams::default(),
        );
        let mut context = LookupContext::new(head, parameters);
        self.resolver.trace_name(NameRequest { name, parameters, head }, &mut context).await
    }
}

impl RecordResolver {
    /// Handles `?explain`, as JSON or as a page.
    pub(crate) async fn get_trace(&self, request: NameRequest<'_>, context: &mut LookupContext<'_>) -> Reply {
        let trace = self.trace_name(request, context).await;
        let is_json = request.parameters.get("explain") == Some("json");
        if !is_json && !accept::prefers_json(request.head.headers) {
            return pages::trace_page(&trace, &self.identity);
        }
        match serde_json::to_vec_pretty(&trace) {
            Ok(json) => pages::vary_by_accept(reply(StatusCode::OK, JSON, json)),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, JSON, ""),
        }
    }

    async fn trace_name(&self, request: NameRequest<'_>, context: &mut LookupContext<'_>) -> ResolutionTrace {
        let started = Instant::now();
        let mut requested = RequestedName::new(request.name.as_str());
        let mut trace = ResolutionTrace { name: requested.as_str().into(), ..ResolutionTrace::default() };
        // The target of an alias is another request, traced next.
        loop {
            trace.outcome = TraceOutcome::default();
            trace.upstream = None;
            trace.derived_from = None;
            context.missing.clear();
            let followed = trace.aliases.len();
            let request = NameRequest { name: &requested, ..request };
            let resolved = self.resolve_redirect(request, context, &mut |event| trace.record(event)).await;
            let outcome = resolved.as_ref().map(|(_, outcome)| outcome);
            let aliases = trace.aliases.get(followed..).unwrap_or_default().to_vec();
            self.explain_outcome(&mut trace, &requested, outcome, &aliases, context).await;
            match aliases.last() {
                Some(last) if trace.redirects.len() == 1 => requested = RequestedName::new(last.clone()),
                _ => break,
            }
        }
        trace.duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        trace
    }
}

/// Query of the redirect that is traced or shown as a record.
pub(crate) fn redirect_query(query: &str) -> Option<String> {
    let is_removed = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        matches!(name, "explain" | "noredirect") || *part == "action=showvalues"
    };
    let parts: Vec<&str> = query.split(['&', ';']).filter(|part| !is_removed(part)).collect();
    Some(parts.join("&")).filter(|query| !query.is_empty())
}

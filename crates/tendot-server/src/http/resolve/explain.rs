//! Resolution trace (`?explain`): the steps of resolving a name, with hints.

use std::time::{Instant, SystemTime};

use http::header::{ACCEPT, CACHE_CONTROL, HeaderMap, HeaderValue, LOCATION};
use http::{StatusCode, Version};
use serde::{Serialize, Serializer};
use tendot_names::{DoiOrShortDoi, OutputForm, Parser};
use tendot_proto::HandleValue;
use tendot_registry::Error;
use utoipa::ToSchema;

use crate::http::handle_api::ValueForm;
use crate::http::request::accept;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::entry_points::extract_name;
use crate::http::resolve::locations::redirect_target::TargetError;
use crate::http::resolve::locations::selection::{CandidateSource, RedirectCandidate, SelectionStep};
use crate::http::resolve::lookup::{LookupContext, Provenance, RecordLookupError};
use crate::http::resolve::redirect::{RedirectOutcome, format};
use crate::http::response::reply::{JSON, Reply, reply};
use crate::http::{HttpServer, pages};

/// Event emitted while a name is resolved.
pub(crate) enum TraceEvent<'t> {
    /// Record found: its public values, their provenance if they came from upstream, and whether there is metadata.
    RecordFound(&'t [HandleValue<'static>], Option<Provenance>, bool),
    /// The record is an alias: the chain of names it leads through.
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
    /// Where the record comes from, if it is not kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<Provenance>,
    #[schema(value_type = Vec<ValueForm>)]
    pub(crate) values: Vec<HandleValue<'static>>,
    /// Whether there is metadata of the name here.
    pub(crate) has_metadata: bool,
    pub(crate) aliases: Vec<String>,
    pub(crate) places: Vec<TraceLocation>,
    pub(crate) choice: Vec<SelectionStep>,
    pub(crate) redirects: Vec<TraceRedirect>,
    /// How long it took to find out.
    pub(crate) microseconds: u64,
}

/// Whether the name resolves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceOutcome {
    /// It does.
    Resolves,
    /// It does not.
    #[default]
    DoesNotResolve,
    /// It could not be found out.
    Failed,
}

/// One step of a trace: result, message and hint.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct TraceStep {
    /// What it is about, in one word.
    pub step: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub says: String,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Redirect candidate as shown in a trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceLocation {
    pub(crate) href: String,
    pub(crate) weight: f64,
    /// The index of the value of type `URL` that it is; none for a location.
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

    fn add_ok(&mut self, step: &'static str, says: impl Into<String>) {
        self.steps.push(TraceStep { step, ok: true, says: says.into(), advice: None });
    }

    fn add_failure(&mut self, step: &'static str, says: impl Into<String>, advice: impl Into<String>) {
        let advice = Some(advice.into()).filter(|advice: &String| !advice.is_empty());
        self.steps.push(TraceStep { step, ok: false, says: says.into(), advice });
    }

    /// Records an event; events of a further record replace those of the one before.
    fn record(&mut self, event: TraceEvent<'_>) {
        match event {
            TraceEvent::RecordFound(values, provenance, has_metadata) => {
                self.values = values.to_vec();
                self.has_metadata = has_metadata;
                self.upstream = provenance;
                self.places.clear();
                self.choice.clear();
            }
            TraceEvent::AliasesFollowed(names) => self.aliases.extend_from_slice(names),
            TraceEvent::Candidates(candidates) => {
                self.places = candidates.iter().map(TraceLocation::from_candidate).collect();
            }
            TraceEvent::Selection(step) => self.choice.push(step),
        }
    }

    /// Adds the step that says whether this server is responsible for the record, or how it was obtained.
    fn add_origin(&mut self, prefix: &str, provenance: Option<Provenance>, base: &str) {
        let Some(provenance) = provenance else {
            return self.add_ok("prefix", format!("names under `{prefix}` are kept here"));
        };
        self.upstream = Some(provenance);
        self.add_ok("prefix", format!("names under `{prefix}` are not kept here"));
        if provenance.stale_seconds.is_some() {
            self.add_failure("upstream", provenance.describe(base), "look whether the upstream runs");
        } else {
            self.add_ok("upstream", provenance.describe(base));
        }
    }

    fn add_values(&mut self) {
        let types: Vec<String> = self
            .values
            .iter()
            .take(9)
            .map(|value| format!("{} {}", value.index, value.type_name()))
            .collect();
        let more = if self.values.len() > types.len() { ", …" } else { "" };
        self.add_ok(
            "values",
            format!(
                "everybody may read {}: {}{more}",
                pluralize(self.values.len(), "value"),
                types.join(", ")
            ),
        );
    }

    fn add_locations(&mut self) {
        self.add_ok(
            "places",
            match self.places.as_slice() {
                [one] => format!("one place: {}", one.href),
                places => pluralize(places.len(), "place"),
            },
        );
        // Selection ends when one candidate remains.
        let chosen = self.choice.iter().position(|step| step.remaining.len() == 1);
        let steps = chosen.map_or(self.choice.len(), |at| at + 1);
        for step in self.choice.iter().take(steps).cloned().collect::<Vec<_>>() {
            self.add_ok(
                "choice",
                format!("by {}: {} left", step.method, pluralize(step.remaining.len(), "place")),
            );
        }
        if self.choice.is_empty() && self.places.len() > 1 {
            self.add_ok("choice", "the first address of the record, since it has no locations");
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

fn pluralize(number: usize, of: &str) -> String {
    if number == 1 { format!("1 {of}") } else { format!("{number} {of}s") }
}

impl HttpServer {
    /// Traces where text that a person entered leads, as if requested from this server by a browser.
    pub async fn trace_text(&self, text: &str) -> ResolutionTrace {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html"))]);
        let request = RequestHead {
            query: None,
            headers: &headers,
            version: Version::HTTP_11,
            client: None,
            is_loopback: false,
            accepts_credentials: false,
            certificate: None,
        };
        let name = extract_name(text.trim());
        let parameters = QueryParams::default();
        let mut context = LookupContext::new(&request, &parameters);
        self.trace_name(&name, &parameters, &request, SystemTime::now(), &mut context).await
    }

    /// Handles `?explain`, as JSON or as a page.
    pub(crate) async fn get_trace(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
        now: SystemTime,
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let explanation = self.trace_name(name, parameters, request, now, context).await;
        if parameters.get("explain") != Some("json") && !accept::prefers_json(request.headers) {
            return pages::trace_page(&explanation);
        }
        match serde_json::to_vec_pretty(&explanation) {
            Ok(json) => pages::vary_by_accept(reply(StatusCode::OK, JSON, json)),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, JSON, ""),
        }
    }

    async fn trace_name(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
        now: SystemTime,
        context: &mut LookupContext<'_>,
    ) -> ResolutionTrace {
        let started = Instant::now();
        let mut explained = ResolutionTrace { name: name.to_owned(), ..ResolutionTrace::default() };
        let mut asked = name.to_owned();
        // The target of an alias is another request, traced next.
        loop {
            explained.outcome = TraceOutcome::default();
            explained.upstream = None;
            let known = explained.aliases.len();
            let outcome = self
                .resolve_redirect(&asked, parameters, request, now, context, &mut |event| {
                    explained.record(event);
                })
                .await;
            let aliases = explained.aliases.get(known..).unwrap_or_default().to_vec();
            self.find(&mut explained, &asked, &outcome, &aliases, context).await;
            match aliases.last() {
                Some(last) if explained.redirects.len() == 1 => asked.clone_from(last),
                _ => break,
            }
        }
        explained.microseconds = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        explained
    }

    /// Traces one request for a name.
    async fn find(
        &self,
        explained: &mut ResolutionTrace,
        name: &str,
        outcome: &Result<RedirectOutcome, RecordLookupError>,
        aliases: &[String],
        context: &mut LookupContext<'_>,
    ) {
        match NameKind::classify(name) {
            NameKind::Empty => {
                explained.add_failure(
                    "name",
                    "there is no name in it",
                    "a name is a prefix, a slash and a suffix",
                );
                return;
            }
            read => explained.add_ok("name", read.describe(name)),
        }
        let prefix = name.split('/').next().unwrap_or_default();
        match outcome {
            Err(RecordLookupError::Local(Error::Name(error))) => {
                explained.add_failure("name", error.to_string(), "look at how it is spelled");
                return;
            }
            Err(RecordLookupError::Local(error @ Error::NotResponsible { .. })) => {
                let advice = public_url(name).map_or_else(
                    || "home the prefix, or import records under it".to_owned(),
                    |address| format!("home the prefix, or import records under it; elsewhere: {address}"),
                );
                explained.add_failure("prefix", error.to_string(), advice);
                return;
            }
            Err(RecordLookupError::Local(error @ Error::OtherServer)) => {
                explained.add_failure("prefix", error.to_string(), "ask there, or set `upstream`");
                return;
            }
            Err(RecordLookupError::Local(error @ (Error::Store(_) | Error::BudgetExceeded(_)))) => {
                explained.outcome = TraceOutcome::Failed;
                explained.add_failure("prefix", error.to_string(), "`tendot verify` finds what is damaged");
                return;
            }
            Err(RecordLookupError::UpstreamUnavailable(error)) => {
                explained.outcome = TraceOutcome::Failed;
                explained.add_ok("prefix", format!("names under `{prefix}` are not kept here"));
                let advice = "it is not the name's fault: try again later, or look whether the upstream runs";
                explained.add_failure("upstream", error.public_message(), advice);
                return;
            }
            Err(RecordLookupError::Upstream(Error::NotResponsible { .. }, provenance)) => {
                explained.add_origin(prefix, Some(*provenance), self.upstream_name());
                explained.add_failure(
                    "upstream",
                    "it does not know where they are kept",
                    "look at the prefix",
                );
                return;
            }
            Err(error) => explained.add_origin(prefix, error.provenance(), self.upstream_name()),
            Ok(_) => explained.add_origin(prefix, explained.upstream, self.upstream_name()),
        }
        match outcome {
            Err(error) if matches!(error.error(), Some(Error::NotFound)) => {
                let near = self.suggest_names(name, &mut context.budget).await;
                let names: Vec<String> =
                    near.iter().map(|near| format!("{} ({})", near.name, near.why)).collect();
                let advice = if names.is_empty() {
                    "look at how it is spelled, or deposit it".to_owned()
                } else {
                    format!("look at how it is spelled; these exist: {}", names.join(", "))
                };
                explained.add_failure("record", "there is no record of this name", advice);
                return;
            }
            Err(RecordLookupError::Local(Error::Retired)) => {
                let says = "there was a record of this name, which was ended";
                explained.add_failure("record", says, "it is not given again");
                return;
            }
            Err(error) if matches!(error.error(), Some(Error::ValuesNotFound)) => {
                explained.add_ok("record", "there is a record");
                let advice = "give the values that everybody should read a permission for that";
                explained.add_failure(
                    "values",
                    "everybody may read none of the values that were asked for",
                    advice,
                );
                return;
            }
            Err(error) => {
                let says = error.error().map(ToString::to_string).unwrap_or_default();
                explained.add_failure("record", says, "");
                return;
            }
            Ok(_) => explained.add_ok("record", "there is a record"),
        }
        explained.add_values();
        if explained.has_metadata {
            explained.add_ok("metadata", "there is some, for who prefers it to a page by `Accept`");
        }
        match outcome {
            Ok(RedirectOutcome::Redirect(answer)) => {
                for alias in aliases {
                    explained.add_ok("alias", format!("it stands for `{alias}`"));
                }
                if aliases.is_empty() {
                    explained.add_locations();
                }
                explained.add_response(answer);
            }
            Ok(RedirectOutcome::Metadata(media_type, _)) => {
                explained.outcome = TraceOutcome::Resolves;
                explained
                    .add_ok("metadata", format!("`Accept` prefers `{media_type}`, which is answered here"));
            }
            Ok(RedirectOutcome::NotAcceptable) => {
                let types: Vec<&str> =
                    accept::metadata_media_types().map(|(_, media_type)| media_type).collect();
                let advice = format!("ask for `*/*`, or one of {}", types.join(", "));
                explained.add_failure("metadata", "`Accept` names no type that it can be given as", advice);
            }
            Ok(RedirectOutcome::AliasLoop(chain)) => {
                let says =
                    format!("it stands for {}, and so on without an end", chain.join(", which stands for "));
                explained.add_failure("alias", says, "let one of them have an address instead of `HS_ALIAS`");
            }
            Ok(RedirectOutcome::PrefixInactive(says)) => {
                let says = format!("its prefix is not served at present. {says}");
                explained.add_failure("prefix", says, "the `HS_NAMESPACE` of the prefix says `inactive`");
            }
            Ok(RedirectOutcome::ShowRecord(None)) => {
                let advice = "add a value of the type `URL`; until then the page of the record is shown";
                explained.add_failure("places", "none of the values is an address", advice);
            }
            Ok(RedirectOutcome::ShowRecord(Some(error))) => {
                explained.add_locations();
                explained.add_failure(
                    "redirect",
                    format!("the address is not followed: {error}"),
                    target_hint(*error),
                );
            }
            Err(_) => {}
        }
    }
}

impl ResolutionTrace {
    fn add_response(&mut self, answer: &Reply) {
        let header = |name| answer.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let Some(location) = header(LOCATION) else {
            self.add_failure("redirect", "the answer leads nowhere, as it was asked for", "");
            return;
        };
        let status = answer.status().as_u16();
        self.outcome = TraceOutcome::Resolves;
        self.add_ok("redirect", format!("{status} to {location}"));
        let cache_control = header(CACHE_CONTROL).map(str::to_owned);
        self.redirects.push(TraceRedirect { status, location: location.to_owned(), cache_control });
    }
}

/// Query of the redirect that is explained or shown instead.
pub(crate) fn redirect_query(query: &str) -> Option<String> {
    let is_ours = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        matches!(name, "explain" | "noredirect") || *part == "action=showvalues"
    };
    let parts: Vec<&str> = query.split(['&', ';']).filter(|part| !is_ours(part)).collect();
    Some(parts.join("&")).filter(|query| !query.is_empty())
}

/// Hint for a URL that is not a valid redirect target.
fn target_hint(error: TargetError) -> String {
    match error {
        TargetError::UnsupportedScheme => {
            format!(
                "addresses begin with {}",
                crate::http::resolve::locations::redirect_target::REDIRECT_SCHEMES.join(", ")
            )
        }
        TargetError::ControlCharacter => {
            "write the address without line breaks and other control characters".into()
        }
        TargetError::InvalidHost => "write the host as it is registered".into(),
    }
}

/// Kind of a name: DOI, other handle, prefix alone, or empty.
pub(crate) enum NameKind<'a> {
    /// DOI or shortDOI.
    Doi(DoiOrShortDoi<'a>),
    /// Handle that is not a DOI.
    Handle,
    /// Prefix alone, without a slash or as the handle of its record.
    Prefix(&'a str),
    Empty,
}

impl<'a> NameKind<'a> {
    pub(crate) fn classify(name: &'a str) -> Self {
        let suffix = name.split_once('/').filter(|(prefix, _)| prefix.eq_ignore_ascii_case("0.NA"));
        match (suffix, Parser::strict().parse(name)) {
            _ if name.is_empty() => Self::Empty,
            (Some((_, prefix)), _) if !prefix.contains('/') && !prefix.is_empty() => Self::Prefix(prefix),
            _ if !name.contains('/') => Self::Prefix(name),
            // If it parses as another name, it is taken literally: it comes from a path.
            (_, Ok(reading)) if reading.identifier().as_str() == name => Self::Doi(reading.into_identifier()),
            _ => Self::Handle,
        }
    }

    fn describe(&self, name: &str) -> String {
        match self {
            Self::Doi(target) => {
                let kind =
                    if matches!(target, DoiOrShortDoi::Doi(_)) { "the DOI name" } else { "the shortDOI" };
                let canonical = target.format(OutputForm::Canonical).map(|form| form.to_string());
                format!("read as {kind} `{name}`, compared as `{}`", canonical.unwrap_or_default())
            }
            Self::Handle => format!("read as the handle `{name}`, which is no DOI name"),
            Self::Prefix(prefix) => format!("read as the prefix `{prefix}`, without a name under it"),
            Self::Empty => String::new(),
        }
    }
}

/// Public resolver URL of a name that this server is not responsible for.
pub(crate) fn public_url(name: &str) -> Option<String> {
    match NameKind::classify(name) {
        NameKind::Doi(target) => target.format(OutputForm::Url).map(|url| url.to_string()),
        NameKind::Handle => Some(format!("https://hdl.handle.net{}", format(name))),
        NameKind::Prefix(_) | NameKind::Empty => None,
    }
}

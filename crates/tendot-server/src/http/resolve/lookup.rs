//! Lookup of names: local, or from the upstream resolver.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::HeaderMap;
use serde::{Serialize, Serializer};
use tendot_client::{CDN_LOOP, CacheStatus, CachedReply, HttpUpstreamError, LookupOutcome, ResolveRequest};
use tendot_proto::{Budget, limits};
use tendot_registry::{Caller, Error, Resolution, ResolveQuery};
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::upstream::{UpstreamError, UpstreamResolver};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Upstream queries per request, and time for all of them.
const MAX_UPSTREAM_QUERIES: u32 = 32;
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the `CDN-Loop` value of a query.
const MAX_CDN_LOOP_BYTES: usize = 1_024;

/// Budget, provenance and upstream limits of one request.
#[derive(Debug)]
pub(crate) struct LookupContext<'r> {
    /// Remaining work budget.
    pub(crate) budget: Budget,
    /// Whether cached upstream records are not acceptable.
    pub(crate) is_authoritative: bool,
    /// Combined provenance of all upstream data; `None` if everything was local.
    pub(crate) provenance: Option<Provenance>,
    /// Whether there is local metadata of the name that was looked up last.
    pub(crate) has_metadata: bool,
    headers: &'r HeaderMap,
    questions: u32,
    until: Option<Instant>,
}

impl<'r> LookupContext<'r> {
    pub(crate) fn new(request: &RequestHead<'r>, parameters: &QueryParams<'_>) -> Self {
        Self {
            budget: Budget::new(REQUEST_BUDGET),
            is_authoritative: parameters.is_set("auth"),
            provenance: None,
            has_metadata: false,
            headers: request.headers,
            questions: MAX_UPSTREAM_QUERIES,
            until: None,
        }
    }
}

/// Cache status and freshness of data from the upstream resolver.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub(crate) struct Provenance {
    /// `kept`, `shared` with somebody else's question, or `asked` for now.
    #[serde(serialize_with = "serialize_cache_status")]
    #[schema(value_type = String)]
    pub(crate) source: CacheStatus,
    /// Seconds since who keeps it said it.
    pub(crate) age: u64,
    /// Seconds for which it may still be kept.
    pub(crate) fresh: u64,
    /// Seconds since its time was over, if it is given since nobody answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stale: Option<u64>,
}

fn serialize_cache_status<S: Serializer>(source: &CacheStatus, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match source {
        CacheStatus::Hit => "kept",
        CacheStatus::Coalesced => "shared",
        CacheStatus::Miss => "asked",
    })
}

impl Provenance {
    fn from_cached_reply(answer: &CachedReply) -> Self {
        Self {
            source: answer.cache_status,
            age: answer.age.as_secs(),
            // Rounded up, so that a full day is reported as such.
            fresh: (answer.remaining_ttl + Duration::from_millis(999)).as_secs(),
            stale: answer.stale_for.map(|stale| stale.as_secs()),
        }
    }

    /// Combines two: the higher age, and the shorter freshness.
    fn merge(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self {
            source: self.source.max(other.source),
            age: self.age.max(other.age),
            fresh: self.fresh.min(other.fresh),
            stale: self.stale.max(other.stale),
        }
    }

    /// Describes the provenance in words.
    pub(crate) fn describe(self, base: &str) -> String {
        let age = self.age;
        match (self.stale, self.source) {
            (Some(_), _) => format!("{base} does not answer; this is what it said {age} s ago"),
            (None, CacheStatus::Hit) => {
                format!("{base} said this {age} s ago; it may be kept for {} s", self.fresh)
            }
            (None, _) if age > 0 => format!("{base} was asked, and had kept this for {age} s"),
            (None, _) => format!("{base} was asked just now"),
        }
    }
}

/// Reason a record was not found: locally, upstream, or upstream unavailable.
#[derive(Debug)]
pub(crate) enum RecordLookupError {
    /// Found locally.
    Local(Error),
    /// Another service is responsible: the name does not exist there, or has no such values.
    Upstream(Error, Provenance),
    /// Another service is responsible, and could not be queried.
    UpstreamUnavailable(Arc<UpstreamError>),
}

impl RecordLookupError {
    /// Error, local or upstream; `None` if the upstream could not be queried.
    pub(crate) const fn error(&self) -> Option<&Error> {
        match self {
            Self::Local(error) | Self::Upstream(error, _) => Some(error),
            Self::UpstreamUnavailable(_) => None,
        }
    }

    /// Provenance of an upstream error.
    pub(crate) const fn provenance(&self) -> Option<Provenance> {
        if let Self::Upstream(_, provenance) = self { Some(*provenance) } else { None }
    }
}

impl From<Error> for RecordLookupError {
    fn from(error: Error) -> Self {
        Self::Local(error)
    }
}

impl HttpServer {
    /// Looks up a record; the provenance is set if it came from upstream.
    pub(crate) async fn lookup(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        context: &mut LookupContext<'_>,
    ) -> Result<(Resolution, Option<Provenance>), RecordLookupError> {
        context.has_metadata = false;
        match (
            self.registry.resolve_with_metadata_flag(query, caller, &mut context.budget).await,
            &self.upstream_resolver,
        ) {
            (Ok((resolution, has_metadata)), _) => {
                context.has_metadata = has_metadata;
                Ok((resolution, None))
            }
            (Err(error @ (Error::NotResponsible { .. } | Error::OtherServer)), Some(upstream_resolver)) => {
                // Boxed, so that local lookups do not carry the state of upstream ones.
                Box::pin(self.lookup_upstream(upstream_resolver, query, error, context)).await
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    async fn lookup_upstream(
        &self,
        upstream_resolver: &UpstreamResolver,
        query: &ResolveQuery<'_>,
        error: Error,
        context: &mut LookupContext<'_>,
    ) -> Result<(Resolution, Option<Provenance>), RecordLookupError> {
        let unanswered = |error| RecordLookupError::UpstreamUnavailable(Arc::new(error));
        let name = query.handle.qualified();
        let Ok(name) = str::from_utf8(&name) else { return Err(error.into()) };
        let cdn_loop_value = upstream_resolver.cdn_loop_value(context.headers).map_err(unanswered)?;
        if context.questions == 0 {
            return Err(unanswered(UpstreamError::TooManyQueries));
        }
        let question = ResolveRequest {
            name: name.into(),
            is_authoritative: context.is_authoritative,
            cdn_loop: cdn_loop_value.into(),
        };
        let until = *context.until.get_or_insert_with(|| Instant::now() + UPSTREAM_TIMEOUT);
        let answer = timeout_at(until, upstream_resolver.resolver.resolve(question)).await;
        if !matches!(&answer, Ok(Ok(CachedReply { cache_status: CacheStatus::Hit, .. }))) {
            context.questions -= 1;
        }
        let answer = match answer.map_err(|_| unanswered(UpstreamError::Timeout))? {
            Ok(answer) => answer,
            // As if no upstream were configured.
            Err(unasked)
                if matches!(*unasked, UpstreamError::Http(HttpUpstreamError::UnsupportedName { .. })) =>
            {
                return Err(error.into());
            }
            Err(error) => return Err(RecordLookupError::UpstreamUnavailable(error)),
        };
        let counts = &self.metrics.upstream;
        let counter = match (answer.stale_for, answer.cache_status) {
            (Some(_), _) => &counts.stale,
            (None, CacheStatus::Hit) => &counts.hits,
            (None, CacheStatus::Coalesced) => &counts.shared,
            (None, CacheStatus::Miss) => &counts.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let provenance = Provenance::from_cached_reply(&answer);
        let values = match &*answer.outcome {
            LookupOutcome::Values(values) => query.select(values, &mut context.budget),
            LookupOutcome::NoValues => Err(Error::ValuesNotFound),
            LookupOutcome::NotFound => Err(Error::NotFound),
            LookupOutcome::NotResponsible => Err(error),
        };
        match values {
            Ok(values) => {
                context.provenance = Some(provenance.merge(context.provenance));
                Ok((Resolution::Values(values), Some(provenance)))
            }
            Err(error @ Error::BudgetExceeded(_)) => Err(error.into()),
            Err(error) => Err(RecordLookupError::Upstream(error, provenance)),
        }
    }
}

impl UpstreamResolver {
    /// `CDN-Loop` value of an upstream query; an error if the request has been here before or passed too many servers.
    fn cdn_loop_value(&self, headers: &HeaderMap) -> Result<String, UpstreamError> {
        let mut cdn_loop_value = String::new();
        for line in headers.get_all(CDN_LOOP) {
            let line = line.to_str().map_err(|_| UpstreamError::Loop)?;
            for service in line.split(',').map(str::trim).filter(|service| !service.is_empty()) {
                let id = service.split(';').next().unwrap_or_default().trim_end();
                if id == self.id || cdn_loop_value.len() + service.len() > MAX_CDN_LOOP_BYTES {
                    return Err(UpstreamError::Loop);
                }
                cdn_loop_value += service;
                cdn_loop_value += ", ";
            }
        }
        if cdn_loop_value.matches(',').count() >= usize::from(limits::MAX_RECURSION_COUNT) {
            return Err(UpstreamError::Loop);
        }
        Ok(cdn_loop_value + &self.id)
    }
}

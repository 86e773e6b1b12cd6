//! Lookup of names: local, or from the upstream resolver.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, HeaderValue};
use serde::{Serialize, Serializer};
use tendot_client::{
    CDN_LOOP, CacheStatus, CachedReply, CdnLoop, HttpUpstreamError, LookupOutcome, ResolveRequest,
};
use tendot_proto::{Budget, HandleValue};
use tendot_registry::{Caller, Error, Resolution, ResolveQuery, ResolvedRecord};
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use crate::http::REQUEST_BUDGET;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::resolver::RecordResolver;
use crate::http::resolve::upstream::{UpstreamError, UpstreamResolver};

/// Upstream queries per request, and time for all of them.
const MAX_UPSTREAM_QUERIES: u32 = 32;
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Budget, provenance and upstream limits of one request.
#[derive(Debug)]
pub(crate) struct LookupContext<'r> {
    /// Remaining work budget.
    pub(crate) budget: Budget,
    /// Whether cached upstream records are not acceptable.
    pub(crate) is_authoritative: bool,
    /// Whether responses of the upstream must be signed.
    pub(crate) is_certified: bool,
    /// Whether names are those of certificates: their records need not be signed.
    pub(crate) is_certificate_lookup: bool,
    /// Combined provenance of all upstream data; `None` if everything was local.
    pub(crate) provenance: Option<Provenance>,
    /// Records that would have taken part in the choice of a location.
    pub(crate) missing: Vec<MissingRecord>,
    /// Time of the request.
    pub(crate) now: SystemTime,
    headers: &'r HeaderMap,
    upstream_queries_left: u32,
    deadline: Option<Instant>,
}

impl<'r> LookupContext<'r> {
    pub(crate) fn new(request: &RequestHead<'r>, parameters: &QueryParams<'_>) -> Self {
        Self {
            budget: Budget::new(REQUEST_BUDGET),
            is_authoritative: parameters.is_set("auth"),
            is_certified: parameters.is_set("cert"),
            is_certificate_lookup: false,
            provenance: None,
            missing: Vec::new(),
            now: request.now,
            headers: request.headers,
            upstream_queries_left: MAX_UPSTREAM_QUERIES,
            deadline: None,
        }
    }
}

/// Record beside the requested one, such as one with included locations, that a request could not use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct MissingRecord {
    pub(crate) name: String,
    pub(crate) reason: String,
    /// Whether the record may exist: it could not be fetched.
    pub(crate) is_unknown: bool,
}

impl MissingRecord {
    /// Reason why a lookup has no values; `None` if it has, or if the store failed.
    pub(crate) fn of_lookup(name: &str, found: &Result<FoundRecord, RecordLookupError>) -> Option<Self> {
        let (reason, is_unknown) = match found {
            Ok(FoundRecord { is_referral: true, .. }) => ("another service is responsible".into(), false),
            Ok(_) | Err(RecordLookupError::Local(Error::Store(_))) => return None,
            Err(RecordLookupError::UpstreamUnavailable(error)) => (error.public_message(), true),
            Err(RecordLookupError::Local(error) | RecordLookupError::Upstream(error, _)) => {
                (error.to_string(), matches!(error, Error::BudgetExceeded(_)))
            }
        };
        Some(Self { name: name.to_owned(), reason, is_unknown })
    }
}

/// Record that was found: its selected values, and facts that need no further lookup.
#[derive(Debug)]
pub(crate) struct FoundRecord {
    pub(crate) values: Vec<HandleValue<'static>>,
    /// Whether the values are a referral to the service of a derived prefix.
    pub(crate) is_referral: bool,
    /// Provenance, if it came from the upstream resolver.
    pub(crate) provenance: Option<Provenance>,
    /// Whether this server has metadata of the name.
    pub(crate) has_metadata: bool,
    /// Whether the record is stored here, rather than derived by a template or from upstream.
    pub(crate) is_stored: bool,
    /// Stored name that a template derived the values from.
    pub(crate) derived_from: Option<Box<str>>,
}

impl From<ResolvedRecord> for FoundRecord {
    fn from(record: ResolvedRecord) -> Self {
        let ResolvedRecord { resolution, has_metadata, is_stored, derived_from } = record;
        let (values, is_referral) = match resolution {
            Resolution::Values(values) => (values, false),
            Resolution::Referral(values) => (values, true),
        };
        Self { values, is_referral, provenance: None, has_metadata, is_stored, derived_from }
    }
}

/// Cache status and freshness of data from the upstream resolver.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub(crate) struct Provenance {
    /// `hit`, `coalesced` with a query in flight, or `miss`.
    #[serde(serialize_with = "serialize_cache_status")]
    #[schema(value_type = String)]
    pub(crate) cache_status: CacheStatus,
    /// Seconds since the responsible server sent the data.
    pub(crate) age_seconds: u64,
    /// Remaining TTL in seconds.
    pub(crate) fresh_seconds: u64,
    /// Seconds since the data expired, if it is served because the upstream is unavailable (stale-if-error).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stale_seconds: Option<u64>,
}

fn serialize_cache_status<S: Serializer>(status: &CacheStatus, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match status {
        CacheStatus::Hit => "hit",
        CacheStatus::Coalesced => "coalesced",
        CacheStatus::Miss => "miss",
    })
}

impl Provenance {
    fn from_cached_reply(reply: &CachedReply) -> Self {
        Self {
            cache_status: reply.cache_status,
            age_seconds: reply.age.as_secs(),
            fresh_seconds: match reply.cache_status {
                // Never longer than what remains.
                CacheStatus::Hit => reply.remaining_ttl.as_secs(),
                // Just fetched: rounded up, so that a full day is reported as such.
                CacheStatus::Coalesced | CacheStatus::Miss => {
                    (reply.remaining_ttl + Duration::from_millis(999)).as_secs()
                }
            },
            stale_seconds: reply.stale_for.map(|stale| stale.as_secs()),
        }
    }

    /// Combines two: the higher age, and the shorter freshness.
    fn merge(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self {
            cache_status: self.cache_status.max(other.cache_status),
            age_seconds: self.age_seconds.max(other.age_seconds),
            fresh_seconds: self.fresh_seconds.min(other.fresh_seconds),
            stale_seconds: self.stale_seconds.max(other.stale_seconds),
        }
    }

    /// Describes the provenance in words.
    pub(crate) fn describe(self, upstream: &str) -> String {
        let age = self.age_seconds;
        match (self.stale_seconds, self.cache_status) {
            (Some(_), _) => format!("{upstream} is unavailable; stale response, cached {age} s ago"),
            (None, CacheStatus::Hit) => {
                format!("cached from {upstream} {age} s ago, fresh for {} s", self.fresh_seconds)
            }
            (None, _) if age > 0 => format!("fetched from {upstream}, which had cached it for {age} s"),
            (None, _) => format!("fetched from {upstream}"),
        }
    }
}

/// Reason a record was not found: locally, upstream, or upstream unavailable.
#[derive(Debug)]
pub(crate) enum RecordLookupError {
    /// This server is responsible.
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

impl RecordResolver {
    /// Looks up a record, here or at the upstream resolver.
    pub(crate) async fn lookup(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        context: &mut LookupContext<'_>,
    ) -> Result<FoundRecord, RecordLookupError> {
        match (self.registry.resolve_record(query, caller, &mut context.budget).await, &self.upstream) {
            (Ok(record), _) => Ok(record.into()),
            (Err(error @ (Error::NotResponsible { .. } | Error::OtherServer)), Some(upstream)) => {
                // Boxed, so that local lookups do not carry the state of upstream ones.
                Box::pin(self.lookup_upstream(upstream, query, error, context)).await
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    async fn lookup_upstream(
        &self,
        upstream: &UpstreamResolver,
        query: &ResolveQuery<'_>,
        error: Error,
        context: &mut LookupContext<'_>,
    ) -> Result<FoundRecord, RecordLookupError> {
        let unavailable = |error| RecordLookupError::UpstreamUnavailable(Arc::new(error));
        let name = query.handle.qualified();
        let Ok(name) = str::from_utf8(&name) else { return Err(error.into()) };
        let received = context.headers.get_all(CDN_LOOP).into_iter().map(HeaderValue::as_bytes);
        let cdn_loop =
            CdnLoop::forward(received, &upstream.id).ok_or_else(|| unavailable(UpstreamError::Loop))?;
        if context.upstream_queries_left == 0 {
            return Err(unavailable(UpstreamError::TooManyQueries));
        }
        let LookupContext { is_authoritative, is_certified, .. } = *context;
        let request = ResolveRequest { name: name.into(), is_authoritative, is_certified, cdn_loop };
        let deadline = *context.deadline.get_or_insert_with(|| Instant::now() + UPSTREAM_TIMEOUT);
        let reply = timeout_at(deadline, upstream.resolve(request, context.is_certificate_lookup)).await;
        if !matches!(&reply, Ok(Ok(CachedReply { cache_status: CacheStatus::Hit, .. }))) {
            context.upstream_queries_left -= 1;
        }
        let reply = match reply.map_err(|_| unavailable(UpstreamError::Timeout))? {
            Ok(reply) => reply,
            // As if no upstream were configured.
            Err(failure)
                if matches!(*failure, UpstreamError::Http(HttpUpstreamError::UnsupportedName { .. })) =>
            {
                return Err(error.into());
            }
            Err(error) => return Err(RecordLookupError::UpstreamUnavailable(error)),
        };
        let metrics = &self.metrics.upstream;
        let counter = match (reply.stale_for, reply.cache_status) {
            (Some(_), _) => &metrics.stale,
            (None, CacheStatus::Hit) => &metrics.hits,
            (None, CacheStatus::Coalesced) => &metrics.coalesced,
            (None, CacheStatus::Miss) => &metrics.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let provenance = Provenance::from_cached_reply(&reply);
        let values = match &*reply.outcome {
            LookupOutcome::Values(values) => query.select(values, &mut context.budget),
            LookupOutcome::NoValues => Err(Error::ValuesNotFound),
            LookupOutcome::NotFound => Err(Error::NotFound),
            LookupOutcome::NotResponsible => Err(error),
        };
        match values {
            Ok(values) => {
                context.provenance = Some(provenance.merge(context.provenance));
                Ok(FoundRecord {
                    values,
                    is_referral: false,
                    provenance: Some(provenance),
                    has_metadata: false,
                    is_stored: false,
                    derived_from: None,
                })
            }
            Err(error @ Error::BudgetExceeded(_)) => Err(error.into()),
            Err(error) => Err(RecordLookupError::Upstream(error, provenance)),
        }
    }
}

//! Upstream resolver for names that this server is not responsible for.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::StatusCode;
use tendot_client::native::{NativeClient, ResolveError};
use tendot_client::{
    CDN_LOOP_ID_PREFIX, CacheSettings, HttpUpstream, HttpUpstreamError, LookupOutcome, ResolveRequest,
    Resolver, UpstreamReply,
};
use tendot_proto::lookup::LookupErrorKind;
use tokio::sync::Semaphore;

use crate::http::HttpServer;
use crate::http::middleware::access_log::LogSafe;
use crate::http::middleware::metrics::{HttpMetrics, UpstreamOutcome};
use crate::http::resolve::resolver::RecordResolver;
use crate::metrics::ExternalMetric;

/// Concurrent upstream queries. More would let an unresponsive upstream exhaust memory and sockets.
const MAX_UPSTREAM_IN_FLIGHT: usize = 128;

/// Client of the upstream resolver: HTTP or native protocol.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum UpstreamClient {
    /// Another resolver, over HTTP.
    Http(Box<HttpUpstream>),
    /// The responsible Handle servers, found from a root.
    Native(NativeClient),
}

/// Reason the upstream resolver gave no usable response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error(transparent)]
    Http(#[from] HttpUpstreamError),
    #[error(transparent)]
    Native(#[from] ResolveError),
    #[error("{MAX_UPSTREAM_IN_FLIGHT} upstream queries already in flight")]
    Overloaded,
    #[error("resolver loop detected")]
    Loop,
    #[error("upstream timeout for this request")]
    Timeout,
    #[error("too many upstream queries for one request")]
    TooManyQueries,
}

impl UpstreamError {
    /// Message for clients; addresses and network errors are only logged.
    pub(crate) fn public_message(&self) -> String {
        match self {
            Self::Http(HttpUpstreamError::Connection { base_url, .. }) => {
                format!("{base_url} is unreachable")
            }
            Self::Http(HttpUpstreamError::InvalidResponse { base_url, .. }) => {
                format!("{base_url} sent an invalid response")
            }
            Self::Native(error) if is_timeout(error) => {
                format!("{HANDLE_SYSTEM_NAME} timed out")
            }
            Self::Native(ResolveError::Busy { .. }) | Self::Overloaded => {
                "too many upstream queries are in flight".into()
            }
            Self::Native(_) => format!("{HANDLE_SYSTEM_NAME} sent no usable response"),
            error => error.to_string(),
        }
    }
}

const HANDLE_SYSTEM_NAME: &str = "the Handle System";

pub(crate) const fn is_timeout(error: &ResolveError) -> bool {
    matches!(error, ResolveError::Lookup(error) if matches!(error.kind, LookupErrorKind::TimedOut))
}

/// Caching resolver for names of other services.
#[derive(Debug)]
pub(crate) struct UpstreamResolver {
    pub(crate) resolver: Resolver<MeteredUpstream>,
    /// Identifies queries that come back in a loop.
    pub(crate) id: String,
}

impl UpstreamResolver {
    /// Name of the upstream.
    pub(crate) fn name(&self) -> &str {
        match &self.resolver.upstream().upstream {
            UpstreamClient::Http(upstream) => upstream.base_url(),
            UpstreamClient::Native(_) => HANDLE_SYSTEM_NAME,
        }
    }
}

impl RecordResolver {
    /// Name of the upstream; `none` without one.
    pub(crate) fn upstream_name(&self) -> &str {
        self.upstream.as_ref().map_or("none", |upstream| upstream.name())
    }
}

impl HttpServer {
    /// Resolves names of other services through an upstream, with a cache. Default: none.
    #[must_use]
    pub fn upstream(mut self, upstream: UpstreamClient, settings: CacheSettings) -> Self {
        let metrics = Arc::clone(&self.metrics);
        let resolver = Resolver::new(
            MeteredUpstream { upstream, permits: Semaphore::new(MAX_UPSTREAM_IN_FLIGHT), metrics },
            settings,
        );
        if let Some(external_metrics) = Arc::get_mut(&mut self.external_metrics) {
            let (entries, bytes) = (resolver.clone(), resolver.clone());
            external_metrics.push(ExternalMetric::gauge(
                "tendot_upstream_cache_entries",
                "Entries in the upstream cache.",
                move || Some(entries.cache_entries() as f64),
            ));
            external_metrics.push(ExternalMetric::gauge(
                "tendot_upstream_cache_bytes",
                "Approximate size of the upstream cache.",
                move || Some(bytes.cache_bytes() as f64),
            ));
        }
        self.metrics.upstream.is_enabled.store(true, Ordering::Relaxed);
        let id = format!("{CDN_LOOP_ID_PREFIX}{:016x}", RandomState::new().hash_one(0_u8));
        self.resolver.upstream = Some(Box::new(UpstreamResolver { resolver, id }));
        self
    }
}

/// Upstream client with an in-flight limit and metrics.
#[derive(Debug)]
pub(crate) struct MeteredUpstream {
    upstream: UpstreamClient,
    permits: Semaphore,
    metrics: Arc<HttpMetrics>,
}

impl tendot_client::Upstream for MeteredUpstream {
    type Error = UpstreamError;

    async fn resolve(&self, question: &ResolveRequest<'_>) -> Result<UpstreamReply, UpstreamError> {
        // Fails instead of waiting: waiting queries would wait for unresponsive upstreams.
        let Ok(_permit) = self.permits.try_acquire() else {
            self.metrics.upstream.record_query(UpstreamOutcome::Overloaded, None);
            return Err(UpstreamError::Overloaded);
        };
        let started = Instant::now();
        let reply: Result<UpstreamReply, UpstreamError> = match &self.upstream {
            UpstreamClient::Http(upstream) => upstream.resolve(question).await.map_err(Into::into),
            UpstreamClient::Native(upstream) => {
                tendot_client::Upstream::resolve(upstream, question).await.map_err(Into::into)
            }
        };
        let outcome = match &reply {
            Ok(UpstreamReply {
                outcome: LookupOutcome::NotFound | LookupOutcome::NotResponsible, ..
            }) => UpstreamOutcome::NotFound,
            Ok(_) => UpstreamOutcome::Found,
            Err(UpstreamError::Http(HttpUpstreamError::UnsupportedName { .. })) => {
                UpstreamOutcome::UnsupportedName
            }
            Err(error) if error.status() == StatusCode::GATEWAY_TIMEOUT => UpstreamOutcome::Timeout,
            Err(UpstreamError::Http(
                HttpUpstreamError::InvalidResponse { .. } | HttpUpstreamError::LoopDetected { .. },
            )) => UpstreamOutcome::InvalidResponse,
            Err(UpstreamError::Native(
                ResolveError::ErrorResponse { .. } | ResolveError::InvalidResponse { .. },
            )) => UpstreamOutcome::InvalidResponse,
            Err(_) => UpstreamOutcome::Unreachable,
        };
        self.metrics.upstream.record_query(outcome, Some(started.elapsed()));
        reply.inspect_err(|error| {
            // The message may contain client-supplied text.
            tracing::warn!(error = %LogSafe(&error.to_string()), "upstream query failed");
        })
    }
}

//! Upstream resolver for names that this server is not responsible for.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use tendot_client::native::{NativeClient, ResolveError};
use tendot_client::{
    CDN_LOOP_ID_PREFIX, CacheSettings, CachedReply, HttpUpstream, HttpUpstreamError, LookupOutcome,
    ResolveRequest, Resolver, SignedRecordError, UpstreamReply, verify_signed_record,
};
use tendot_proto::lookup::LookupErrorKind;
use tendot_proto::trust::TrustAnchors;
use tokio::sync::Semaphore;

use crate::clock::to_unix_seconds;
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
    #[error("{0}")]
    Untrusted(String),
    #[error("cannot verify the record: {0}")]
    CertificateLookup(Arc<Self>),
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
            Self::CertificateLookup(error) => {
                format!("its certificates are unavailable: {}", error.public_message())
            }
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
    /// Resolves a name; the records of certificates need not be signed themselves.
    pub(crate) async fn resolve(
        &self,
        request: ResolveRequest<'_>,
        is_certificate: bool,
    ) -> Result<CachedReply, Arc<UpstreamError>> {
        match &self.resolver.upstream().signed_records {
            Some(signed_records) if is_certificate => signed_records.certificates.resolve(request).await,
            _ => self.resolver.resolve(request).await,
        }
    }

    /// Name of the upstream.
    pub(crate) fn name(&self) -> &str {
        match &self.resolver.upstream().upstream.0 {
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
        let upstream = UnverifiedUpstream(upstream);
        let signed_records = self.resolver.requires_signed_upstream.then(|| SignedRecords {
            trust_anchors: Arc::clone(&self.resolver.trust_anchors),
            certificates: Resolver::new(upstream.clone(), settings),
        });
        let (permits, metrics) = (Semaphore::new(MAX_UPSTREAM_IN_FLIGHT), Arc::clone(&self.metrics));
        let resolver =
            Resolver::new(MeteredUpstream { upstream, signed_records, permits, metrics }, settings);
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

/// Upstream without verification of its records.
#[derive(Clone, Debug)]
struct UnverifiedUpstream(UpstreamClient);

impl tendot_client::Upstream for UnverifiedUpstream {
    type Error = UpstreamError;

    async fn resolve(&self, question: &ResolveRequest<'_>) -> Result<UpstreamReply, UpstreamError> {
        match &self.0 {
            UpstreamClient::Http(upstream) => Ok(upstream.resolve(question).await?),
            UpstreamClient::Native(upstream) => {
                Ok(tendot_client::Upstream::resolve(upstream, question).await?)
            }
        }
    }
}

/// Verification of records from the upstream.
#[derive(Debug)]
struct SignedRecords {
    trust_anchors: Arc<TrustAnchors>,
    /// Records of certificates.
    certificates: Resolver<UnverifiedUpstream>,
}

impl SignedRecords {
    /// Accepts a record only if all its values are signed, until the first signature expires; "not found" cannot be signed.
    async fn verify(&self, name: &str, reply: UpstreamReply) -> Result<UpstreamReply, UpstreamError> {
        let LookupOutcome::Values(values) = &reply.outcome else { return Ok(reply) };
        let certificates = &self.certificates;
        let lookup = |handle: String| async move {
            let reply =
                certificates.resolve(ResolveRequest { name: handle.into(), ..ResolveRequest::default() });
            reply.await.map(|reply| LookupOutcome::clone(&reply.outcome))
        };
        let verified = verify_signed_record(name, values, &self.trust_anchors, lookup).await;
        match verified {
            Ok(report) => {
                let now = to_unix_seconds(SystemTime::now());
                let expires_at = report.signatures.iter().filter_map(|signature| signature.expires_at).min();
                let valid_for = expires_at.map(|last| Duration::from_secs(last.saturating_sub(now)));
                Ok(UpstreamReply { max_ttl: reply.max_ttl.into_iter().chain(valid_for).min(), ..reply })
            }
            Err(SignedRecordError::Lookup { error, .. }) => Err(UpstreamError::CertificateLookup(error)),
            Err(error) => Err(UpstreamError::Untrusted(error.to_string())),
        }
    }
}

/// Upstream client with an in-flight limit and metrics.
#[derive(Debug)]
pub(crate) struct MeteredUpstream {
    upstream: UnverifiedUpstream,
    /// Verification of records, if they must be signed.
    signed_records: Option<SignedRecords>,
    permits: Semaphore,
    metrics: Arc<HttpMetrics>,
}

impl tendot_client::Upstream for MeteredUpstream {
    type Error = UpstreamError;

    fn allows_stale(error: &UpstreamError) -> bool {
        !matches!(error, UpstreamError::Untrusted(_))
    }

    async fn resolve(&self, question: &ResolveRequest<'_>) -> Result<UpstreamReply, UpstreamError> {
        // Fails instead of waiting: waiting queries would wait for unresponsive upstreams.
        let Ok(_permit) = self.permits.try_acquire() else {
            self.metrics.upstream.record_query(UpstreamOutcome::Overloaded, None);
            return Err(UpstreamError::Overloaded);
        };
        let started = Instant::now();
        let mut reply = self.upstream.resolve(question).await;
        if let Some(signed_records) = &self.signed_records {
            reply = match reply {
                Ok(reply) => signed_records.verify(&question.name, reply).await,
                error => error,
            };
        }
        let outcome = match &reply {
            Ok(UpstreamReply {
                outcome: LookupOutcome::NotFound | LookupOutcome::NotResponsible, ..
            }) => UpstreamOutcome::NotFound,
            Ok(_) => UpstreamOutcome::Found,
            Err(UpstreamError::Http(HttpUpstreamError::UnsupportedName { .. })) => {
                UpstreamOutcome::UnsupportedName
            }
            Err(error) if error.status() == StatusCode::GATEWAY_TIMEOUT => UpstreamOutcome::Timeout,
            Err(UpstreamError::Untrusted(_)) => UpstreamOutcome::InvalidResponse,
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

//! State for resolving names: registry, upstream, response cache, counters.

use std::sync::Arc;

use tendot_client::native::RootSites;
use tendot_proto::trust::TrustAnchors;
use tendot_registry::Registry;

use crate::http::middleware::metrics::HttpMetrics;
use crate::http::middleware::response_cache::HttpResponseCache;
use crate::http::pages::ServiceIdentity;
use crate::http::resolve::locations::country::CountrySources;
use crate::http::resolve::lookup::{FoundRecord, RecordLookupError};
use crate::http::resolve::requested_name::RequestedName;
use crate::http::resolve::upstream::UpstreamResolver;
use crate::resolution_stats::ResolutionCounter;
use crate::response_cache::DEFAULT_RESPONSE_CACHE_BYTES;

/// Resolves names: records of the registry or of the upstream resolver, with counts and cached replies.
#[derive(Debug)]
pub(crate) struct RecordResolver {
    pub(crate) registry: Arc<Registry>,
    /// Resolver for names that this server is not responsible for.
    pub(crate) upstream: Option<Box<UpstreamResolver>>,
    /// Trust anchors of signed records.
    pub(crate) trust_anchors: Arc<TrustAnchors>,
    /// Whether records from the upstream must be signed.
    pub(crate) requires_signed_upstream: bool,
    pub(crate) metrics: Arc<HttpMetrics>,
    pub(crate) response_cache: Option<HttpResponseCache>,
    /// Sources of the country of clients.
    pub(crate) country_sources: CountrySources,
    /// Query parameters that prefer a location attribute of the same name.
    pub(crate) location_parameters: Vec<Box<str>>,
    /// Operator and resolver, for pages.
    pub(crate) identity: ServiceIdentity,
    /// Resolution statistics.
    pub(crate) resolution_counter: Option<Arc<ResolutionCounter>>,
}

impl RecordResolver {
    /// Creates a resolver without an upstream and without statistics.
    pub(crate) fn new(registry: Arc<Registry>, metrics: Arc<HttpMetrics>) -> Self {
        let response_cache = Some(HttpResponseCache::new(DEFAULT_RESPONSE_CACHE_BYTES));
        Self {
            registry,
            upstream: None,
            trust_anchors: Arc::new(RootSites::global_trust_anchors()),
            requires_signed_upstream: false,
            metrics,
            response_cache,
            country_sources: CountrySources::default(),
            location_parameters: Vec::new(),
            identity: ServiceIdentity::default(),
            resolution_counter: None,
        }
    }

    /// Counts a public resolution of a name that is stored here, or its failure.
    pub(crate) async fn count(
        &self,
        name: &RequestedName<'_>,
        found: Result<&FoundRecord, &RecordLookupError>,
    ) {
        let Some(resolution_counter) = &self.resolution_counter else { return };
        match found {
            Ok(FoundRecord { is_stored: true, .. }) => {
                if let Some(key) = name.key() {
                    resolution_counter.count_stored(&self.registry, key).await;
                }
            }
            Err(RecordLookupError::Local(error)) => {
                resolution_counter.count_failure(&self.registry, name.as_str(), error).await;
            }
            _ => {}
        }
    }
}

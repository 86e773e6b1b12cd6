//! Handle System client: settings, shared state, resolution.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::lookup::{
    Lookup, LookupConfig, LookupError, LookupErrorKind, LookupRequest, LookupResponse,
};
use tendot_proto::{Handle, HandleValue, MessageBody, OpFlags, Response, ResponseCode, ResponseData};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::rtt::RttTable;
use super::single_flight::SingleFlight;
use super::site_cache::SiteCache;
use crate::native::clock::Clock;
use crate::native::error::server_message;
use crate::native::{AdminServer, ResolveError, TransportAddress};
use crate::upstream::{LookupOutcome, ResolveRequest, Upstream, UpstreamReply};

/// Handle System client: resolves names over the native protocol (UDP, TCP, HTTP, HTTPS).
///
/// It starts at [`RootSites`](crate::native::RootSites) and finds the responsible servers through prefix records, service handles
/// and referrals; sites with the lowest smoothed response time are queried first. Lookups are limited in
/// time, messages, bytes and depth, see [`LookupConfig`], and in number.
///
/// It caches sites, not replies: see [`Resolver`](crate::Resolver). Clones share their state.
///
/// ```no_run
/// use tendot_client::native::{NativeClient, ResolveOptions, RootSites};
/// use tendot_client::{CacheSettings, LookupOutcome, Resolver};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let native = NativeClient::new(RootSites::global_registry().into_config());
/// let options = ResolveOptions { types: vec!["URL".into()], ..ResolveOptions::default() };
/// let reply = native.resolve("10.1000/182", &options).await?;
/// if let LookupOutcome::Values(values) = &reply.outcome {
///     println!("{} values, {:?}", values.len(), reply.server);
/// }
///
/// // With a cache and request coalescing.
/// let resolver = Resolver::new(native, CacheSettings::default());
/// let reply = resolver.resolve("10.1000/182").await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Private addresses
///
/// A prefix owner can put any address into its record, so records may point to public addresses only, unless
/// [`LookupConfig::allow_private_addresses`] is set, as for a private root.
///
/// # Authenticity
///
/// A response is accepted only from the queried address, to the querying port, with the request id; port and id are random, which
/// stops off-path spoofing. With [`LookupConfig::require_signatures`], the response and every record used to find the server
/// must be signed.
#[derive(Clone)]
pub struct NativeClient {
    pub(super) shared: Arc<NativeClientInner>,
}

/// Shared state of all clones of a client.
pub(super) struct NativeClientInner {
    config: Arc<LookupConfig>,
    pub(super) clock: Clock,
    pub(super) rtt: Arc<RttTable>,
    pub(super) site_cache: SiteCache,
    single_flight: SingleFlight,
    /// Limit of concurrent lookups.
    in_flight: Semaphore,
    /// Limit of threads that resolve domain names of servers.
    pub(super) dns_threads: Arc<Semaphore>,
    pub(super) is_root_outdated: AtomicBool,
    /// Client for certified requests, created by the first one.
    certified: OnceLock<NativeClient>,
}

/// Which values to resolve, and whether the response must be authoritative.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResolveOptions {
    /// Value types; a trailing dot selects all subtypes, too.
    pub types: Vec<String>,
    /// Value indexes, in addition to the types; all values if both are empty.
    pub indexes: Vec<u32>,
    /// Whether only a primary site may respond.
    pub is_authoritative: bool,
}

/// Outcome of a resolution and the server that sent it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerReply {
    /// Outcome of the lookup.
    pub outcome: LookupOutcome,
    /// Server that sent it; `None` if the prefix is unknown.
    pub server: Option<TransportAddress>,
}

impl NativeClient {
    /// Maximum number of concurrent lookups; others wait.
    const MAX_IN_FLIGHT: usize = 512;

    /// Maximum number of concurrent DNS queries.
    const MAX_DNS_THREADS: usize = 16;

    /// Client with these settings, see [`RootSites::into_config`](crate::native::RootSites::into_config);
    /// adds response times and cryptography if they are missing.
    pub fn new(mut config: LookupConfig) -> Self {
        let rtt = Arc::new(RttTable::new());
        config.rtt_estimates.get_or_insert(Arc::clone(&rtt) as _);
        config.crypto.get_or_insert_with(|| Arc::new(AwsLcProvider));
        let shared = NativeClientInner {
            config: Arc::new(config),
            clock: Clock::new(),
            rtt,
            site_cache: SiteCache::new(),
            single_flight: SingleFlight::default(),
            in_flight: Semaphore::new(Self::MAX_IN_FLIGHT),
            dns_threads: Arc::new(Semaphore::new(Self::MAX_DNS_THREADS)),
            is_root_outdated: AtomicBool::new(false),
            certified: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Lookup settings.
    pub fn config(&self) -> &LookupConfig {
        &self.shared.config
    }

    /// Whether a root server announced a newer root than the configured one.
    ///
    /// The configured root still works while one of its servers responds.
    pub fn is_root_outdated(&self) -> bool {
        self.shared.is_root_outdated.load(Ordering::Relaxed)
    }

    /// Resolves the selected public values of a record.
    pub async fn resolve(&self, name: &str, options: &ResolveOptions) -> Result<ServerReply, ResolveError> {
        let handle = Handle::from(name);
        let types: Vec<&[u8]> = options.types.iter().map(String::as_bytes).collect();
        let mut request = LookupRequest::resolve(handle, &options.indexes, &types);
        if options.is_authoritative {
            let flags = request.flags() | OpFlags::AUTHORITATIVE;
            request = request.with_flags(flags);
        }
        let response = match self.lookup(request).await {
            Ok(response) => response,
            // Unknown prefix: the handle does not exist.
            Err(ResolveError::Lookup(LookupError { kind: LookupErrorKind::ServiceNotFound, .. })) => {
                return Ok(ServerReply { outcome: LookupOutcome::NotFound, server: None });
            }
            Err(error) => return Err(error),
        };
        let server = TransportAddress { address: response.from, transport: response.transport };
        let message = response.message().map_err(|error| ResolveError::InvalidResponse { server, error })?;
        let code = message.header.response_code;
        let outcome = match (code, message.body) {
            (
                ResponseCode::SUCCESS,
                MessageBody::Response(Response { data: ResponseData::Resolved { values, .. }, .. }),
            ) => {
                // Drop private values.
                let public = values.iter().filter(|value| value.is_public());
                let values: Vec<_> = public.map(HandleValue::into_owned).collect();
                if values.is_empty() { LookupOutcome::NoValues } else { LookupOutcome::Values(values) }
            }
            (ResponseCode::VALUES_NOT_FOUND, _) => LookupOutcome::NoValues,
            (ResponseCode::HANDLE_NOT_FOUND, _) => LookupOutcome::NotFound,
            (ResponseCode::SERVER_NOT_RESPONSIBLE, _) => LookupOutcome::NotResponsible,
            (code, body) => {
                return Err(ResolveError::ErrorResponse { server, code, message: server_message(&body) });
            }
        };
        Ok(ServerReply { outcome, server: Some(server) })
    }

    /// Sends any request to the servers responsible for its handle; returns their response whatever its code.
    ///
    /// If the response has several messages, it returns the last; use [`AdminClient`](crate::native::AdminClient) for lists.
    pub async fn lookup(&self, request: LookupRequest) -> Result<LookupResponse, ResolveError> {
        let NativeClientInner { config, clock, site_cache, .. } = &*self.shared;
        let permit = timeout(config.timeout, self.shared.in_flight.acquire()).await;
        let _permit = permit.map_err(|_| ResolveError::Busy { waited: config.timeout })?;
        let prefix = request.handle().prefix_handle();
        let start_lookup = |request| Lookup::new(Arc::clone(config), request, clock.now());
        if !self.needs_site_lookup(&request) {
            return self.run_lookup(start_lookup(request), None).await;
        }
        let cached_sites = || site_cache.get(&prefix, clock.now().unix);
        let sites = match cached_sites() {
            Some(sites) => sites,
            None => {
                let lock = self.shared.single_flight.acquire(&prefix).await;
                // The first lookup may have filled the cache.
                match cached_sites() {
                    Some(sites) => sites,
                    None => return self.run_lookup(start_lookup(request), lock).await,
                }
            }
        };
        let now = clock.now();
        let lookup = Lookup::with_sites(Arc::clone(config), request.clone(), sites, now);
        let response = self.run_lookup(lookup, None).await;
        let is_outdated = match &response {
            Ok(response) => response.message().is_ok_and(|message| {
                matches!(
                    message.header.response_code,
                    ResponseCode::SERVER_NOT_RESPONSIBLE | ResponseCode::OUT_OF_DATE_SITE_INFO
                )
            }),
            Err(_) => true,
        };
        if !is_outdated {
            return response;
        }
        // The prefix may have moved: retry once within the same deadline.
        site_cache.remove(&prefix);
        let retry_start = clock.now();
        let remaining = config.timeout.saturating_sub(retry_start.elapsed.saturating_sub(now.elapsed));
        if remaining.is_zero() {
            return response;
        }
        let config = LookupConfig { timeout: remaining, ..(**config).clone() };
        self.run_lookup(Lookup::new(Arc::new(config), request, retry_start), None).await
    }

    /// Finds the primary site's server that administers (or would create) a record.
    pub async fn locate_admin_server(&self, name: &str) -> Result<AdminServer, ResolveError> {
        let request = LookupRequest::resolve(Handle::from(name), &[], &[b"HS_SITE"]);
        let flags = request.flags() | OpFlags::AUTHORITATIVE;
        Ok(AdminServer::from_response(&self.lookup(request.with_flags(flags)).await?))
    }

    /// Client that accepts only signed responses. It has a site cache of its own, because the other one may have sites from records
    /// that were not verified.
    fn certified(&self) -> &Self {
        if self.shared.config.require_signatures {
            return self;
        }
        self.shared.certified.get_or_init(|| {
            let config = (*self.shared.config).clone();
            Self::new(LookupConfig { require_signatures: true, rtt_estimates: None, ..config })
        })
    }

    /// Whether the sites of the request are found through the root.
    fn needs_site_lookup(&self, request: &LookupRequest) -> bool {
        let handle = request.handle();
        !handle.is_global()
            && handle.suffix().is_some()
            && !self.shared.config.prefix_overrides.contains_key(&handle.prefix().to_ascii_uppercase())
    }
}

impl Upstream for NativeClient {
    type Error = ResolveError;

    async fn resolve(&self, request: &ResolveRequest<'_>) -> Result<UpstreamReply, ResolveError> {
        let options =
            ResolveOptions { is_authoritative: request.is_authoritative, ..ResolveOptions::default() };
        let client = if request.is_certified { self.certified() } else { self };
        Ok(client.resolve(&request.name, &options).await?.outcome.into())
    }
}

impl fmt::Debug for NativeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeClient").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

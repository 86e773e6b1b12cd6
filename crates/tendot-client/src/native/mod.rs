//! The Handle System itself, asked in its own protocol over UDP, TCP, HTTP and HTTPS.
//!
//! [`NativeClient`] resolves: `root.rs` is where it begins, `drive.rs` leads a [`Lookup`] over the
//! sockets of `transport.rs` (`tls.rs`), `times.rs` and `sites.rs` remember what it learns on the way, `gates.rs` lets one ask for many. [`AdminClient`] changes
//! records (`administration.rs`): `identity.rs` is who it is, `peer.rs` whom it talks to, `connection.rs` how,
//! `conversation.rs` what it believes, `session.rs` how that is kept from others.

mod administration;
mod clock;
mod connection;
mod conversation;
mod drive;
mod error;
mod gates;
mod identity;
mod origin;
mod peer;
mod root;
mod session;
mod sites;
mod times;
mod tls;
mod transport;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use administration::AdminClient;
use clock::Clock;
pub use error::{AdminError, ResolveError};
use gates::SingleFlight;
pub use identity::AdminIdentity;
pub use origin::TransportAddress;
pub use peer::AdminServer;
pub use root::{RootSites, RootSitesError};
use sites::SiteCache;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::lookup::{
    Lookup, LookupConfig, LookupError, LookupErrorKind, LookupRequest, LookupResponse,
};
use tendot_proto::{Handle, HandleValue, MessageBody, OpFlags, Response, ResponseCode, ResponseData};
use times::RttTable;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::resolver::{LookupOutcome, Upstream, UpstreamReply};

/// Handle System client: resolves names over the native protocol (UDP, TCP, HTTP, HTTPS).
///
/// It begins at a [`RootSites`] and finds the servers of a name by itself: the prefix's sites, services that they name,
/// referrals. Of several sites the one is asked first that answered fastest so far, or is preferred. Each look-up is bounded
/// in time, messages, bytes and depth, see [`LookupConfig`]; and so is the number of those at once.
///
/// Answers are not kept here, only who serves which prefix: see [`Resolver`](crate::Resolver). A copy shares all of it.
///
/// ```no_run
/// use tendot_client::native::{NativeClient, ResolveOptions, RootSites};
/// use tendot_client::{CacheSettings, LookupOutcome, Resolver};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let native = NativeClient::new(RootSites::global_registry().into_config());
/// let links = native.resolve("10.1000/182", &ResolveOptions { types: vec!["URL".into()], ..ResolveOptions::default() }).await?;
/// if let LookupOutcome::Values(values) = &links.found {
///     println!("{} values, {:?}", values.len(), links.from);
/// }
///
/// // With a cache, where many who ask at once are answered by one question.
/// let resolver = Resolver::new(native, CacheSettings::default());
/// let answer = resolver.resolve("10.1000/182").await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Addresses
///
/// Anybody who has a prefix can put any address into its record. So records lead to public addresses only, not into the
/// network that this program runs in; unless [`LookupConfig::private_addresses`] says so, for a root of one's own.
///
/// # Belief
///
/// An answer is taken only from the address that was asked, at the port that asked, with the number of the request; both are
/// random. That keeps out who cannot see the traffic. With [`LookupConfig::certify`] it has to be signed by the server that was
/// asked, and so has every record on the way to it.
#[derive(Clone)]
pub struct NativeClient {
    shared: Arc<NativeClientInner>,
}

/// Shared state of all clones of a client.
struct NativeClientInner {
    config: Arc<LookupConfig>,
    clock: Clock,
    times: Arc<RttTable>,
    sites: SiteCache,
    gates: SingleFlight,
    under_way: Semaphore,
    /// Threads that look for names of servers in the DNS.
    name_threads: Arc<Semaphore>,
    root_has_changed: AtomicBool,
}

/// Which values to resolve, and whether the response must be authoritative.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResolveOptions {
    /// Those of these types; one with a dot at its end means all below it, too.
    pub types: Vec<String>,
    /// Those at these indexes, beside those of the types. If neither is given, all.
    pub indexes: Vec<u32>,
    /// Whether only a primary site is good enough.
    pub is_authoritative: bool,
}

/// Outcome of a resolution and the server that sent it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerReply {
    /// What was found.
    pub found: LookupOutcome,
    /// Who says so; nobody if the prefix is not known.
    pub from: Option<TransportAddress>,
}

impl NativeClient {
    /// Look-ups at a time; more have to wait.
    const MAX_IN_FLIGHT: usize = 512;

    /// Names of servers that are looked for in the DNS at a time.
    const MAX_DNS_THREADS: usize = 16;

    /// Client with these settings, see [`RootSites::into_config`]; adds response times and cryptography if they are missing.
    ///
    /// Response times and cryptography are provided here if they are not in them.
    pub fn new(config: LookupConfig) -> Self {
        Self::with_preferred_servers(config, Vec::new())
    }

    /// Client that queries the given servers first.
    pub fn with_preferred_servers(mut config: LookupConfig, servers: Vec<IpAddr>) -> Self {
        let times = Arc::new(RttTable::new(servers));
        config.response_times.get_or_insert(Arc::clone(&times) as _);
        config.crypto.get_or_insert_with(|| Arc::new(AwsLcProvider));
        let shared = NativeClientInner {
            config: Arc::new(config),
            clock: Clock::new(),
            times,
            sites: SiteCache::new(),
            gates: SingleFlight::default(),
            under_way: Semaphore::new(Self::MAX_IN_FLIGHT),
            name_threads: Arc::new(Semaphore::new(Self::MAX_DNS_THREADS)),
            root_has_changed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The settings.
    pub fn config(&self) -> &LookupConfig {
        &self.shared.config
    }

    /// Whether a root server announced a newer root than the configured one.
    ///
    /// What is known still works as long as one of its servers answers.
    pub fn is_root_outdated(&self) -> bool {
        self.shared.root_has_changed.load(Ordering::Relaxed)
    }

    /// The values of a record that everybody may read, as far as they are asked for.
    pub async fn resolve(&self, name: &str, query: &ResolveOptions) -> Result<ServerReply, ResolveError> {
        let handle = Handle::from(name);
        let types: Vec<&[u8]> = query.types.iter().map(String::as_bytes).collect();
        let mut question = LookupRequest::resolve(handle, &query.indexes, &types);
        if query.is_authoritative {
            let flags = question.flags().with(OpFlags::AUTHORITATIVE);
            question = question.with_flags(flags);
        }
        let answer = match self.lookup(question).await {
            Ok(answer) => answer,
            // The root does not know the prefix, so there is no such name.
            Err(ResolveError::Lookup(LookupError { kind: LookupErrorKind::ServiceNotFound, .. })) => {
                return Ok(ServerReply { found: LookupOutcome::Nothing, from: None });
            }
            Err(error) => return Err(error),
        };
        let from = TransportAddress { address: answer.from, transport: answer.transport };
        let message = answer.message().map_err(|error| ResolveError::Malformed { from, error })?;
        let code = message.header.response_code;
        let found = match (code, message.body) {
            (
                ResponseCode::SUCCESS,
                MessageBody::Response(Response { outcome: ResponseData::Resolved { values, .. }, .. }),
            ) => {
                // Others were not asked for, and must not be handed on.
                let public = values.iter().filter(|value| value.permissions.is_public());
                let values: Vec<_> = public.map(HandleValue::into_owned).collect();
                if values.is_empty() { LookupOutcome::NoValues } else { LookupOutcome::Values(values) }
            }
            (ResponseCode::VALUES_NOT_FOUND, _) => LookupOutcome::NoValues,
            (ResponseCode::HANDLE_NOT_FOUND, _) => LookupOutcome::Nothing,
            (ResponseCode::SERVER_NOT_RESPONSIBLE, _) => LookupOutcome::NotKept,
            (code, body) => {
                return Err(ResolveError::Refused { from, code, message: error::server_message(&body) });
            }
        };
        Ok(ServerReply { found, from: Some(from) })
    }

    /// Sends any request to the servers responsible for its handle; returns their response whatever its code.
    ///
    /// Of several messages it is the last: lists are asked for by an [`AdminClient`].
    pub async fn lookup(&self, question: LookupRequest) -> Result<LookupResponse, ResolveError> {
        let NativeClientInner { config, clock, sites, .. } = &*self.shared;
        let under_way = timeout(config.time, self.shared.under_way.acquire()).await;
        let _under_way = under_way.map_err(|_| ResolveError::Busy { waited: config.time })?;
        let prefix = question.handle().prefix_handle();
        let begin = |question| Lookup::new(Arc::clone(config), question, clock.now());
        if !self.needs_site_lookup(&question) {
            return self.run_lookup(begin(question), None).await;
        }
        let known = || sites.get(&prefix, clock.now().unix);
        let known = match known() {
            Some(sites) => sites,
            None => {
                // Who waited finds what the first has found.
                let turn = self.shared.gates.acquire(&prefix).await;
                match known() {
                    Some(sites) => sites,
                    None => return self.run_lookup(begin(question), turn).await,
                }
            }
        };
        let now = clock.now();
        let lookup = Lookup::with_sites(Arc::clone(config), question.clone(), known, now);
        let answer = self.run_lookup(lookup, None).await;
        let is_outdated = match &answer {
            Ok(answer) => answer.message().is_ok_and(|message| {
                matches!(
                    message.header.response_code,
                    ResponseCode::SERVER_NOT_RESPONSIBLE | ResponseCode::OUT_OF_DATE_SITE_INFO
                )
            }),
            Err(_) => true,
        };
        if !is_outdated {
            return answer;
        }
        // The prefix may have moved. Both tries together take no longer than one may.
        sites.remove(&prefix);
        let again = clock.now();
        let left = config.time.saturating_sub(again.elapsed.saturating_sub(now.elapsed));
        if left.is_zero() {
            return answer;
        }
        let config = LookupConfig { time: left, ..(**config).clone() };
        self.run_lookup(Lookup::new(Arc::new(config), question, again), None).await
    }

    /// Whether the sites of the request are found through the root.
    fn needs_site_lookup(&self, question: &LookupRequest) -> bool {
        let handle = question.handle();
        !handle.is_global()
            && handle.suffix().is_some()
            && !self.shared.config.overrides.contains_key(&handle.prefix().to_ascii_uppercase())
    }
}

impl Upstream for NativeClient {
    type Error = ResolveError;

    async fn ask(&self, name: &str) -> Result<LookupOutcome, ResolveError> {
        Ok(self.resolve(name, &ResolveOptions::default()).await?.found)
    }

    async fn reply(&self, question: &crate::ResolveRequest<'_>) -> Result<UpstreamReply, ResolveError> {
        let query =
            ResolveOptions { is_authoritative: question.is_authoritative, ..ResolveOptions::default() };
        Ok(self.resolve(&question.name, &query).await?.found.into())
    }
}

impl fmt::Debug for NativeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

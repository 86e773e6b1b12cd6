//! The Handle System itself, asked in its own protocol over UDP, TCP, HTTP and HTTPS.
//!
//! [`Native`] resolves: `root.rs` is where it begins, `drive.rs` leads a [`Lookup`] over the
//! sockets of `transport.rs` (`tls.rs`), `times.rs` and `sites.rs` remember what it learns on the way, `gates.rs` lets one ask for many. [`Administrator`] changes
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

pub use administration::Administrator;
use clock::Clock;
pub use error::{AdministrationError, NativeError};
use gates::Gates;
pub use identity::Identity;
pub use origin::Origin;
pub use peer::Peer;
pub use root::{Root, RootError};
use sites::Sites;
use tendot_proto::crypto::AwsLc;
use tendot_proto::lookup::{Answer, Config, Lookup, LookupError, LookupErrorKind, Question};
use tendot_proto::{Body, Handle, OpFlags, Outcome, Response, ResponseCode, Value};
use times::Times;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::resolver::{Found, Reply, Upstream};

/// A client of the Handle System.
///
/// It begins at a [`Root`] and finds the servers of a name by itself: the prefix's sites, services that they name,
/// referrals. Of several sites the one is asked first that answered fastest so far, or is preferred. Each look-up is bounded
/// in time, messages, bytes and depth, see [`Config`]; and so is the number of those at once.
///
/// Answers are not kept here, only who serves which prefix: see [`Resolver`](crate::Resolver). A copy shares all of it.
///
/// ```no_run
/// use tendot_client::native::{Native, Query, Root};
/// use tendot_client::{CacheSettings, Found, Resolver};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let native = Native::new(Root::published().config());
/// let links = native.resolve("10.1000/182", &Query { types: vec!["URL".into()], ..Query::default() }).await?;
/// if let Found::Values(values) = &links.found {
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
/// network that this program runs in; unless [`Config::private_addresses`] says so, for a root of one's own.
///
/// # Belief
///
/// An answer is taken only from the address that was asked, at the port that asked, with the number of the request; both are
/// random. That keeps out who cannot see the traffic. With [`Config::certify`] it has to be signed by the server that was
/// asked, and so has every record on the way to it.
#[derive(Clone)]
pub struct Native {
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<Config>,
    clock: Clock,
    times: Arc<Times>,
    sites: Sites,
    gates: Gates,
    under_way: Semaphore,
    /// Threads that look for names of servers in the DNS.
    name_threads: Arc<Semaphore>,
    root_has_changed: AtomicBool,
}

/// Which values are asked for, and of whom.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Query {
    /// Those of these types; one with a dot at its end means all below it, too.
    pub types: Vec<String>,
    /// Those at these indexes, beside those of the types. If neither is given, all.
    pub indexes: Vec<u32>,
    /// Whether only a primary site is good enough.
    pub is_authoritative: bool,
}

/// What a look-up led to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resolution {
    /// What was found.
    pub found: Found,
    /// Who says so; nobody if the prefix is not known.
    pub from: Option<Origin>,
}

impl Native {
    /// Look-ups at a time; more have to wait.
    const UNDER_WAY: usize = 512;

    /// Names of servers that are looked for in the DNS at a time.
    const NAME_THREADS: usize = 16;

    /// A client with these settings; [`Root::config`] makes them. Response times and cryptography are provided here if they
    /// are not in them.
    pub fn new(config: Config) -> Self {
        Self::preferring(config, Vec::new())
    }

    /// The same, which asks the servers at these addresses before others.
    pub fn preferring(mut config: Config, servers: Vec<IpAddr>) -> Self {
        let times = Arc::new(Times::new(servers));
        config.response_times.get_or_insert(Arc::clone(&times) as _);
        config.crypto.get_or_insert_with(|| Arc::new(AwsLc));
        let shared = Shared {
            config: Arc::new(config),
            clock: Clock::new(),
            times,
            sites: Sites::new(),
            gates: Gates::default(),
            under_way: Semaphore::new(Self::UNDER_WAY),
            name_threads: Arc::new(Semaphore::new(Self::NAME_THREADS)),
            root_has_changed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Whether a server of the root said that the root has other sites by now than are known here. What is known still works
    /// as long as one of its servers answers.
    pub fn root_has_changed(&self) -> bool {
        self.shared.root_has_changed.load(Ordering::Relaxed)
    }

    /// The values of a record that everybody may read, as far as they are asked for.
    pub async fn resolve(&self, name: &str, query: &Query) -> Result<Resolution, NativeError> {
        let handle = Handle::from(name);
        let types: Vec<&[u8]> = query.types.iter().map(String::as_bytes).collect();
        let mut question = Question::resolve(handle, &query.indexes, &types);
        if query.is_authoritative {
            let flags = question.flags().with(OpFlags::AUTHORITATIVE);
            question = question.with_flags(flags);
        }
        let answer = match self.look_up(question).await {
            Ok(answer) => answer,
            // The root does not know the prefix, so there is no such name.
            Err(NativeError::Lookup(LookupError { kind: LookupErrorKind::ServiceNotFound, .. })) => {
                return Ok(Resolution { found: Found::Nothing, from: None });
            }
            Err(error) => return Err(error),
        };
        let from = Origin { address: answer.from, transport: answer.transport };
        let message = answer.message().map_err(|error| NativeError::Malformed { from, error })?;
        let code = message.header.response_code;
        let found = match (code, message.body) {
            (
                ResponseCode::SUCCESS,
                Body::Response(Response { outcome: Outcome::Resolved { values, .. }, .. }),
            ) => {
                // Others were not asked for, and must not be handed on.
                let public = values.iter().filter(|value| value.permissions.is_public());
                let values: Vec<_> = public.map(Value::into_owned).collect();
                if values.is_empty() { Found::NoValues } else { Found::Values(values) }
            }
            (ResponseCode::VALUES_NOT_FOUND, _) => Found::NoValues,
            (ResponseCode::HANDLE_NOT_FOUND, _) => Found::Nothing,
            (ResponseCode::SERVER_NOT_RESPONSIBLE, _) => Found::NotKept,
            (code, body) => {
                return Err(NativeError::Refused { from, code, message: error::message_of(&body) });
            }
        };
        Ok(Resolution { found, from: Some(from) })
    }

    /// Any question, and the answer of the servers that it is for, whatever its code. Of several messages it is the last: lists
    /// are asked for by an [`Administrator`].
    pub async fn look_up(&self, question: Question) -> Result<Answer, NativeError> {
        let Shared { config, clock, sites, .. } = &*self.shared;
        let under_way = timeout(config.time, self.shared.under_way.acquire()).await;
        let _under_way = under_way.map_err(|_| NativeError::Busy { waited: config.time })?;
        let prefix = question.handle().prefix_handle();
        let begin = |question| Lookup::new(Arc::clone(config), question, clock.now());
        if !self.is_located(&question) {
            return self.drive(begin(question), None).await;
        }
        let known = || sites.get(&prefix, clock.now().unix);
        let known = match known() {
            Some(sites) => sites,
            None => {
                // Who waited finds what the first has found.
                let turn = self.shared.gates.pass(&prefix).await;
                match known() {
                    Some(sites) => sites,
                    None => return self.drive(begin(question), turn).await,
                }
            }
        };
        let now = clock.now();
        let lookup = Lookup::with_sites(Arc::clone(config), question.clone(), known, now);
        let answer = self.drive(lookup, None).await;
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
        sites.forget(&prefix);
        let again = clock.now();
        let left = config.time.saturating_sub(again.elapsed.saturating_sub(now.elapsed));
        if left.is_zero() {
            return answer;
        }
        let config = Config { time: left, ..(**config).clone() };
        self.drive(Lookup::new(Arc::new(config), question, again), None).await
    }

    /// Whether the sites of a question are found out by asking the root.
    fn is_located(&self, question: &Question) -> bool {
        let handle = question.handle();
        !handle.is_global()
            && handle.suffix().is_some()
            && !self.shared.config.overrides.contains_key(&handle.prefix().to_ascii_uppercase())
    }
}

impl Upstream for Native {
    type Error = NativeError;

    async fn ask(&self, name: &str) -> Result<Found, NativeError> {
        Ok(self.resolve(name, &Query::default()).await?.found)
    }

    async fn reply(&self, question: &crate::Question<'_>) -> Result<Reply, NativeError> {
        let query = Query { is_authoritative: question.is_authoritative, ..Query::default() };
        Ok(self.resolve(&question.name, &query).await?.found.into())
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

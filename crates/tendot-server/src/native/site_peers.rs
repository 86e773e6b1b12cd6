//! Client for the other servers of the site, over TCP, with verified signatures.

use std::fmt;
use std::time::Duration;

use tendot_client::native::{NativeClient, ResolveError, RootSites};
use tendot_client::{CacheSettings, LookupOutcome, ResolveRequest, Resolver, Upstream, UpstreamReply};
use tendot_proto::auth::{AuthPolicy, Challenge, SecretKeyResponse};
use tendot_proto::lookup::{LookupConfig, LookupRequest};
use tendot_proto::message::DigestAlgorithm;
use tendot_proto::record::{InterfaceProtocol, Site};
use tendot_proto::{
    Budget, Handle, HandleValue, MessageBody, Opcode, ProtocolVersion, Request, RequestDigest, Response,
    ResponseData, ValueReference,
};
use tendot_registry::{Error, PeerFuture, SitePeers};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// TTL of cached responses: a revoked permission may remain valid for this time.
const PEER_CACHE_TTL: Duration = Duration::from_secs(10);

/// Timeout of a query.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Work charged for a query: a signature at the peer, and some overhead.
const PEER_QUERY_COST: u32 = 1_000;

/// Concurrent queries per peer, each over its own connection; a server accepts 100 connections from one address. Further
/// queries wait.
const MAX_QUERIES_PER_PEER: usize = 32;

/// Size of the cache.
const PEER_CACHE_BYTES: u64 = 4 << 20;

/// Client for the other servers of the site; implements the registry's `SitePeers`.
pub struct SitePeerClient {
    records: Resolver<PeerUpstream>,
}

/// Upstream that queries the server responsible for a name.
struct PeerUpstream {
    site: RootSites,
    /// Permits per server, so that an unresponsive one does not block the others.
    permits: Vec<Semaphore>,
}

impl SitePeerClient {
    /// Creates a client for the servers of this site.
    pub fn new(site: Site<'static>) -> Self {
        let permits = site.servers.iter().map(|_| Semaphore::new(MAX_QUERIES_PER_PEER)).collect();
        let upstream = PeerUpstream { site: RootSites::from_site(site), permits };
        let cache = CacheSettings {
            max_bytes: PEER_CACHE_BYTES,
            max_ttl: PEER_CACHE_TTL,
            negative_ttl: PEER_CACHE_TTL,
            stale_if_error: Duration::ZERO,
            error_ttl: Duration::from_secs(1),
        };
        Self { records: Resolver::new(upstream, cache) }
    }
}

impl PeerUpstream {
    /// Client that queries only the server responsible for a name.
    fn client_for(&self, name: Handle<'_>) -> NativeClient {
        NativeClient::new(LookupConfig {
            require_signatures: true,
            // The site record is trusted.
            allow_private_addresses: true,
            transports: vec![InterfaceProtocol::TCP],
            timeout: PEER_TIMEOUT,
            ..self.site.clone().into_direct_config(name)
        })
    }

    /// Permit for a query to the server responsible for a name.
    async fn acquire_permit(&self, name: Handle<'_>) -> Result<SemaphorePermit<'_>, ResolveError> {
        let busy = || ResolveError::Busy { waited: PEER_TIMEOUT };
        let site = self.site.sites().first().ok_or_else(busy)?;
        let server_index = name.server_index(site.hash_option, self.permits.len());
        let permits = server_index.and_then(|index| self.permits.get(index)).ok_or_else(busy)?;
        timeout(PEER_TIMEOUT, permits.acquire()).await.ok().and_then(Result::ok).ok_or_else(busy)
    }
}

impl Upstream for PeerUpstream {
    type Error = ResolveError;

    async fn resolve(&self, request: &ResolveRequest<'_>) -> Result<UpstreamReply, ResolveError> {
        let handle = Handle::from(&*request.name);
        let _permit = self.acquire_permit(handle).await?;
        Upstream::resolve(&self.client_for(handle), request).await
    }
}

impl SitePeers for SitePeerClient {
    fn public_values<'a>(
        &'a self,
        name: &'a str,
        budget: &'a mut Budget,
    ) -> PeerFuture<'a, Option<Vec<HandleValue<'static>>>> {
        Box::pin(async move {
            let answer = match self.records.get_cached(name) {
                Some(kept) => kept,
                None => {
                    budget.charge(PEER_QUERY_COST)?;
                    self.records.resolve(name).await
                }
            };
            let answer = answer.map_err(|error| Error::SitePeer { reason: error.to_string() })?;
            match &*answer.outcome {
                LookupOutcome::Values(values) => Ok(Some(values.clone())),
                LookupOutcome::NoValues => Ok(Some(Vec::new())),
                LookupOutcome::NotFound => Ok(None),
                LookupOutcome::NotResponsible => {
                    Err(Error::SitePeer { reason: "peer has a different site record".into() })
                }
            }
        })
    }

    fn verify_secret<'a>(
        &'a self,
        key: &'a ValueReference<'a>,
        challenge: Challenge<'a>,
        answer: &'a [u8],
        budget: &'a mut Budget,
    ) -> PeerFuture<'a, bool> {
        Box::pin(async move {
            // The client chooses the cost of its proof, so it is charged before the proof is forwarded.
            let proof = SecretKeyResponse::from_bytes(answer, ProtocolVersion::LATEST).ok();
            let proof = proof.filter(|proof| proof.validate(AuthPolicy::default().secret_key_macs).is_ok());
            let Some(proof) = proof else { return Ok(false) };
            budget.charge(PEER_QUERY_COST.saturating_add(proof.cost()))?;
            let peer_error = |reason: String| Error::SitePeer { reason };
            let request = Request::VerifyChallenge {
                key_handle: key.handle(),
                key_index: key.index,
                nonce: challenge.nonce,
                digest: RequestDigest { algorithm: DigestAlgorithm::Untagged, bytes: challenge.digest },
                response: answer,
            };
            let question = LookupRequest::new(key.handle(), Opcode::VERIFY_CHALLENGE, &request);
            let upstream = self.records.upstream();
            let _permit =
                upstream.acquire_permit(key.handle()).await.map_err(|error| peer_error(error.to_string()))?;
            let response = upstream.client_for(key.handle()).lookup(question).await;
            let response = response.map_err(|error| peer_error(error.to_string()))?;
            let message = response.message().map_err(|error| peer_error(error.to_string()))?;
            match message.body {
                MessageBody::Response(Response { data: ResponseData::ChallengeVerified(result), .. }) => {
                    Ok(result == 1)
                }
                _ => Err(peer_error(format!("unexpected response code {}", message.header.response_code))),
            }
        })
    }
}

impl fmt::Debug for SitePeerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SitePeerClient").field(&self.records.upstream().site).finish()
    }
}

#[cfg(test)]
mod tests {
    use tendot_proto::record::{HashOption, SiteServer};

    use super::*;

    /// No peer is reachable at this address.
    fn unreachable_peers() -> SitePeerClient {
        let servers = vec![SiteServer::default(); 2];
        SitePeerClient::new(Site { hash_option: HashOption::WHOLE, servers, ..Site::default() })
    }

    #[tokio::test]
    async fn charges_by_proof_cost() {
        let (peers, key) = (unreachable_peers(), ValueReference::parse("301:10.1/x"));
        let challenge = Challenge { nonce: &[7; 16], digest: &[7; 32] };
        let check = async |iterations, key_bits, steps, expected: &str, spent: u32| {
            let proof = SecretKeyResponse::Pbkdf2 { salt: &[7; 16], iterations, key_bits, mac: &[7; 20] };
            let mut budget = Budget::new(steps);
            let result = peers.verify_secret(&key, challenge, &proof.to_bytes(), &mut budget).await;
            let result = match result {
                Ok(is_valid) => is_valid.to_string(),
                Err(Error::SitePeer { .. }) => "queried".into(),
                Err(Error::BudgetExceeded(_)) => "budget exceeded".into(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!((&*result, steps - budget.remaining()), (expected, spent), "{iterations} {key_bits}");
        };
        check(10_000, 160, 250_000, "queried", PEER_QUERY_COST + 2_501).await;
        check(200_000, 512, 250_000, "queried", PEER_QUERY_COST + 200_001).await;
        check(200_000, 512, 100_000, "budget exceeded", 0).await;
        check(200_001, 160, 250_000, "false", 0).await;
        check(u32::MAX, u32::MAX, 250_000, "false", 0).await;
    }

    #[tokio::test]
    async fn charges_before_the_query() {
        let (peers, mut budget) = (unreachable_peers(), Budget::new(2 * PEER_QUERY_COST - 1));
        // A failed query is cached for a second.
        for _ in 0..2 {
            assert!(matches!(peers.public_values("10.1/x", &mut budget).await, Err(Error::SitePeer { .. })));
            assert_eq!(budget.remaining(), PEER_QUERY_COST - 1);
        }
        assert!(matches!(peers.public_values("10.1/y", &mut budget).await, Err(Error::BudgetExceeded(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn limits_queries_per_peer() {
        let peers = unreachable_peers();
        let upstream = peers.records.upstream();
        let names = (0..9).map(|number| format!("10.1/{number}")).collect::<Vec<_>>();
        let mut permits = Vec::new();
        for name in &names {
            while let Ok(permit) =
                timeout(Duration::from_millis(50), upstream.acquire_permit(Handle::from(&**name))).await
            {
                permits.push(permit.unwrap());
            }
        }
        assert_eq!(permits.len(), 2 * MAX_QUERIES_PER_PEER, "limit of both servers");
    }
}

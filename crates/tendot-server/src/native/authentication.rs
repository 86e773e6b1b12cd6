//! Authentication of native messages: challenge, proof, identity.

use tendot_proto::auth::{
    AuthContext, AuthError, ChallengeLimits, ChallengeResponse, ChallengeTable, PendingChallenge,
    SessionError,
};
use tendot_proto::crypto::{Digest, SystemRandom};
use tendot_proto::endpoint::{IncomingRequest, RejectionReason, Transport};
use tendot_proto::{Message, Now, ResponseCode, ValueReference};
use tendot_registry::{Caller, Error, HandleIdentity};

use crate::authenticated_key::{AuthenticatedKey, fingerprint};
use crate::guess_throttle::{AttemptSource, AuthAttempt, ThrottledAccount};
use crate::native::dispatch::{CpuPermit, release_while_pending};
use crate::native::middleware::metrics::DropReason;
use crate::native::operation::NativeOperation;
use crate::native::respond::INTERNAL_ERROR;
use crate::native::{MessageClient, NativeReply, NativeServer};

/// Outstanding challenges; those issued over UDP have a table of their own.
///
/// UDP source addresses may be forged: however many challenges are issued over UDP, they cannot exhaust those of other transports.
#[derive(Debug)]
pub(crate) struct PendingChallenges {
    udp: ChallengeTable,
    connected: ChallengeTable,
}

impl PendingChallenges {
    pub(crate) fn new() -> Self {
        let table = || ChallengeTable::new(ChallengeLimits::default());
        Self { udp: table(), connected: table() }
    }

    /// Issues a challenge for a request on this transport.
    pub(crate) fn issue(
        &mut self,
        request: &[u8],
        transport: Transport,
        now: Now,
        context: &mut AuthContext<'_>,
        is_session: impl Fn(u32) -> bool,
    ) -> Result<&PendingChallenge, AuthError> {
        let (table, other) = match transport {
            Transport::Udp => (&mut self.udp, &self.connected),
            Transport::Tcp | Transport::Http => (&mut self.connected, &self.udp),
        };
        let is_used = |id| is_session(id) || other.contains(id);
        table.issue(request, now, &mut SystemRandom, context, is_used)
    }

    /// Removes the challenge with this id, for its only answer.
    pub(crate) fn take(&mut self, id: u32, now: Now) -> Result<PendingChallenge, AuthError> {
        self.connected.consume(id, now).or_else(|_| self.udp.consume(id, now))
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.connected.contains(id) || self.udp.contains(id)
    }
}

/// Cost of a challenge in steps. Issuing one is cheap, but their number is limited, and one client must not exhaust it.
const CHALLENGE_COST: u32 = 600;

impl NativeServer {
    /// Caller that is authenticated in the session of a request. A key that was removed from its record ends its sessions.
    pub(crate) async fn session_caller(
        &self,
        incoming: &mut IncomingRequest<'_>,
    ) -> Result<Caller, NativeReply> {
        let id = incoming.session_id;
        let Some(authenticated) = self.authenticated_key(id) else { return Ok(Caller::Anonymous) };
        match authenticated.is_current(&self.registry, &mut incoming.budget).await {
            Ok(true) => Ok(authenticated.into()),
            Ok(false) => {
                self.lock_sessions().remove(id);
                Err(self.unknown_session(incoming))
            }
            Err(error) => Err(self.registry_error(incoming, &error)),
        }
    }

    /// Key that authenticated a session.
    fn authenticated_key(&self, session: u32) -> Option<AuthenticatedKey> {
        if session == 0 {
            return None;
        }
        let mut sessions = self.lock_sessions();
        let (key, fingerprint) = sessions.get_mut(session)?.authenticated_identity()?;
        Some(AuthenticatedKey { identity: HandleIdentity::from_proof(key.index, &key.handle)?, fingerprint })
    }

    /// Rejects a request of a session that has ended.
    fn unknown_session(&self, incoming: &IncomingRequest<'_>) -> NativeReply {
        let (envelope, header) = (incoming.parts.envelope, incoming.parts.header);
        let reason = RejectionReason::Session(SessionError::UnknownSession);
        self.reject(envelope, Some(header), reason, self.now())
    }

    /// Starts an attempt to authenticate as this identity, unless too many have failed.
    pub(crate) fn start_attempt(
        &self,
        transport: Transport,
        client: MessageClient,
        claim: &ValueReference<'_>,
    ) -> Option<AuthAttempt<'_>> {
        let source = match (transport, client.address) {
            (_, None) => AttemptSource::Hidden,
            (Transport::Udp, Some(address)) => AttemptSource::Datagram(address),
            (Transport::Tcp | Transport::Http, Some(address)) => AttemptSource::Connection(address),
        };
        self.guess_throttle.start_attempt(source, ThrottledAccount::Identity(claim)).ok()
    }

    /// Reply to a client with too many failed attempts. Over UDP there is none, so that the client tries a connection: others
    /// may have used its address.
    pub(crate) fn throttled(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        if incoming.transport == Transport::Udp {
            self.metrics.record_drop(DropReason::RateLimit);
            return NativeReply::none(ResponseCode::SERVER_TOO_BUSY);
        }
        let message = "too many failed authentication attempts; retry later";
        self.error_reply(incoming, ResponseCode::SERVER_TOO_BUSY, message)
    }

    /// Handles a challenge response: checks authorization for the challenged request, verifies the proof, and executes the
    /// request.
    pub(crate) async fn handle_challenge_response(
        &self,
        mut incoming: IncomingRequest<'_>,
        answer: &ChallengeResponse<'_>,
        client: MessageClient,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> (NativeReply, u32) {
        let now = self.now();
        // Removed first, so that an answer is accepted only once.
        let challenge = self.lock_challenges().take(incoming.parts.envelope.session_id, now);
        let pending = match challenge {
            Ok(pending) => pending,
            Err(error) => {
                let reply = self.authentication_failed(&mut incoming, &error);
                return (reply, incoming.budget.remaining());
            }
        };
        let challenged = match self.endpoint.decode_request(pending.request(), incoming.transport, now) {
            Ok(challenged) => challenged,
            Err(refusal) => {
                let reply = self.error_reply(&mut incoming, refusal.response_code(), &refusal.to_string());
                return (reply, incoming.budget.remaining());
            }
        };
        let mut challenged = challenged.resume_after_challenge(incoming);
        let mut scratch = Vec::new();
        let Some(operation) = NativeOperation::from_request(&challenged, &mut scratch) else {
            return (self.unsupported(&mut challenged), challenged.budget.remaining());
        };
        let identity = self.verify_identity(&mut challenged, &operation, &pending, answer, client);
        let reply = match release_while_pending(cpu_permit, identity).await {
            Ok((identity, fingerprint)) => {
                // A key at another server cannot be checked later, so each request with it is challenged.
                if let Some(fingerprint) = fingerprint {
                    let key = ValueReference::new(identity.index(), identity.handle().as_bytes());
                    self.lock_sessions().mark_authenticated(pending.id(), &key, fingerprint);
                }
                let caller = Caller::Handle(identity);
                self.execute_operation(&mut challenged, &operation, &caller, client, cpu_permit).await
            }
            Err(reply) => reply,
        };
        (reply, challenged.budget.remaining())
    }

    /// Identity that the answer to a challenge proves, and the fingerprint of its key if that can be read here.
    async fn verify_identity(
        &self,
        challenged: &mut IncomingRequest<'_>,
        operation: &NativeOperation<'_>,
        pending: &PendingChallenge,
        answer: &ChallengeResponse<'_>,
        client: MessageClient,
    ) -> Result<(HandleIdentity, Option<Digest>), NativeReply> {
        let Some(operation) = operation.authorized_as() else {
            return Err(self.unsupported(challenged));
        };
        let claim = ValueReference::new(answer.key_index, answer.key_handle.as_bytes());
        let budget = &mut challenged.budget;
        if let Err(error) = self.registry.precheck(operation, &claim, budget).await {
            return Err(self.registry_error(challenged, &error));
        }
        if answer.auth_type == b"HS_SECKEY" && !self.registry.owns(answer.key_handle) {
            let Some(attempt) = self.start_attempt(challenged.transport, client, &claim) else {
                return Err(self.throttled(challenged));
            };
            let budget = &mut challenged.budget;
            let is_valid =
                self.registry.verify_secret_at_peer(&claim, pending.challenge(), answer.proof, budget).await;
            let identity = is_valid
                .map(|is_valid| HandleIdentity::from_proof(claim.index, &claim.handle).filter(|_| is_valid));
            return match identity {
                Ok(Some(identity)) => {
                    attempt.mark_succeeded();
                    Ok((identity, None))
                }
                Ok(None) => Err(self.authentication_failed(challenged, &AuthError::Failed)),
                Err(error) => {
                    // The peer failed, not the client.
                    if matches!(error, Error::SitePeer { .. }) {
                        attempt.mark_succeeded();
                    }
                    Err(self.registry_error(challenged, &error))
                }
            };
        }
        let keys = match self.registry.key_values(answer.key_handle, &mut challenged.budget).await {
            Ok(keys) => keys,
            Err(error) => return Err(self.registry_error(challenged, &error)),
        };
        // After the keys are read, so that requests that wait for the store do not count as failed.
        let Some(attempt) = self.start_attempt(challenged.transport, client, &claim) else {
            return Err(self.throttled(challenged));
        };
        let context = &mut self.auth(&mut challenged.budget);
        let identity = match HandleIdentity::verify(pending, answer, &keys, context) {
            Ok(identity) => identity,
            Err(error) => return Err(self.authentication_failed(challenged, &error)),
        };
        attempt.mark_succeeded();
        let key = keys.iter().find(|key| key.index == identity.index());
        Ok((identity, key.and_then(fingerprint)))
    }

    /// Replies with a challenge to authenticate.
    pub(crate) fn issue_challenge(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        let now = self.now();
        if let Err(error) = incoming.budget.charge(CHALLENGE_COST) {
            return self.authentication_failed(incoming, &error.into());
        }
        let sealed = {
            let sessions = self.lock_sessions();
            let mut challenges = self.lock_challenges();
            let context = &mut self.auth(&mut incoming.budget);
            let is_session = |id| sessions.contains(id);
            let request = incoming.parts.to_bytes();
            let issued = challenges.issue(&request, incoming.transport, now, context, is_session);
            issued.map(|pending| incoming.challenge(pending).to_bytes())
        };
        match sealed {
            Ok(Ok(bytes)) => match Message::from_bytes(&bytes) {
                Ok(challenge) => self.seal(incoming, challenge),
                Err(_) => self.error_reply(incoming, ResponseCode::ERROR, INTERNAL_ERROR),
            },
            Ok(Err(_)) => self.error_reply(incoming, ResponseCode::ERROR, INTERNAL_ERROR),
            Err(error) => self.authentication_failed(incoming, &error),
        }
    }

    fn authentication_failed(&self, incoming: &mut IncomingRequest<'_>, error: &AuthError) -> NativeReply {
        self.error_reply(incoming, error.response_code(), &error.to_string())
    }
}

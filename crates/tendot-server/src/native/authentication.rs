//! Authentication of native messages: challenge, proof, identity.

use tendot_proto::auth::{
    AuthContext, AuthError, ChallengeLimits, ChallengeResponse, ChallengeTable, PendingChallenge,
};
use tendot_proto::crypto::SystemRandom;
use tendot_proto::endpoint::{IncomingRequest, Transport};
use tendot_proto::{Message, Now, ResponseCode, ValueReference};
use tendot_registry::{Caller, HandleIdentity};

use crate::native::dispatch::{CpuPermit, release_while_pending};
use crate::native::operation::NativeOperation;
use crate::native::respond::INTERNAL_ERROR;
use crate::native::{NativeReply, NativeServer};

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
    /// Caller that is authenticated in a session.
    pub(crate) fn session_caller(&self, session: u32) -> Caller {
        if session == 0 {
            return Caller::Anonymous;
        }
        let mut sessions = self.lock_sessions();
        let authenticated = sessions.get_mut(session).and_then(|session| session.authenticated_identity());
        let identity = authenticated.and_then(|key| HandleIdentity::from_proof(key.index, &key.handle));
        identity.map_or(Caller::Anonymous, Caller::Handle)
    }

    /// Handles a challenge response: checks authorization for the challenged request, verifies the proof, and executes the
    /// request.
    pub(crate) async fn handle_challenge_response(
        &self,
        mut incoming: IncomingRequest<'_>,
        answer: &ChallengeResponse<'_>,
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
        let identity = self.verify_identity(&mut challenged, &operation, &pending, answer);
        let reply = match release_while_pending(cpu_permit, identity).await {
            Ok(identity) => {
                let key = ValueReference::new(identity.index(), identity.handle().as_bytes());
                self.lock_sessions().mark_authenticated(pending.id(), &key);
                let caller = Caller::Handle(identity);
                self.execute_operation(&mut challenged, &operation, &caller, cpu_permit).await
            }
            Err(reply) => reply,
        };
        (reply, challenged.budget.remaining())
    }

    async fn verify_identity(
        &self,
        challenged: &mut IncomingRequest<'_>,
        operation: &NativeOperation<'_>,
        pending: &PendingChallenge,
        answer: &ChallengeResponse<'_>,
    ) -> Result<HandleIdentity, NativeReply> {
        let Some(operation) = operation.authorized_as() else {
            return Err(self.unsupported(challenged));
        };
        let claim = ValueReference::new(answer.key_index, answer.key_handle.as_bytes());
        let budget = &mut challenged.budget;
        if let Err(error) = self.registry.precheck(operation, &claim, budget).await {
            return Err(self.registry_error(challenged, &error));
        }
        if answer.auth_type == b"HS_SECKEY" && !self.registry.owns(answer.key_handle) {
            let is_valid =
                self.registry.verify_secret_at_peer(&claim, pending.challenge(), answer.proof, budget).await;
            let identity = is_valid
                .map(|is_valid| HandleIdentity::from_proof(claim.index, &claim.handle).filter(|_| is_valid));
            return match identity {
                Ok(identity) => {
                    identity.ok_or_else(|| self.authentication_failed(challenged, &AuthError::Failed))
                }
                Err(error) => Err(self.registry_error(challenged, &error)),
            };
        }
        let keys = match self.registry.key_values(answer.key_handle, budget).await {
            Ok(keys) => keys,
            Err(error) => return Err(self.registry_error(challenged, &error)),
        };
        HandleIdentity::verify(pending, answer, &keys, &mut self.auth(budget))
            .map_err(|error| self.authentication_failed(challenged, &error))
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

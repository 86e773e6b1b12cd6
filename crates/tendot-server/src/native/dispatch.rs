//! Dispatch of a message: authenticate, execute, and seal the reply.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use tendot_proto::auth::{AuthError, ChallengeResponse, PendingChallenge};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::{IncomingRequest, Rejection, RejectionReason, SealContext, Transport};
use tendot_proto::{
    Budget, Envelope, EnvelopeFlags, Message, MessageHeader, MessageParts, Now, OpFlags, Opcode,
    ResponseCode, ResponseData, ValueReference, limits,
};
use tendot_registry::{Caller, Error, HandleIdentity, OUTCOME_UNKNOWN};
use tendot_store::{ChangeCounters, Store, StoreError};
use tokio::sync::SemaphorePermit;

use crate::native::NativeServer;
use crate::native::list::ListContinuation;
use crate::native::middleware::admission::tolerates_stale;
use crate::native::middleware::metrics;
use crate::native::operation::to_operation;

/// Reply to a message: bytes, continuation, opcode, response code and cost.
#[derive(Debug)]
pub(crate) struct NativeReply {
    /// Encoded message; `None` if nothing is sent.
    pub(crate) message: Option<Vec<u8>>,
    /// Continuation of a list response.
    pub(crate) more: Option<ListContinuation>,
    pub(crate) opcode: Opcode,
    pub(crate) code: ResponseCode,
    /// Work spent, in steps.
    pub(crate) cost: u32,
}

impl NativeReply {
    /// Empty reply: nothing is sent.
    pub(crate) const fn none(code: ResponseCode) -> Self {
        Self { message: None, more: None, opcode: Opcode::RESERVED, code, cost: 0 }
    }

    pub(crate) fn from_rejection(opcode: Opcode, refusal: &Rejection) -> Self {
        let message = refusal.response().map(Into::into);
        Self { message, more: None, opcode, code: refusal.code(), cost: 0 }
    }

    pub(crate) const fn new(incoming: &IncomingRequest<'_>, code: ResponseCode, message: Vec<u8>) -> Self {
        let opcode = incoming.message.header.opcode;
        Self { message: Some(message), more: None, opcode, code, cost: 0 }
    }
}

impl NativeServer {
    /// Handles a message, and records its metrics and access log line.
    ///
    /// A CPU permit is released before waiting for the disk.
    pub(crate) async fn process(
        &self,
        bytes: &[u8],
        transport: Transport,
        client: IpAddr,
        core: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        if let Some(reply) = self.cached_reply(bytes, transport, client) {
            return reply;
        }
        let started = Instant::now();
        let reply = async {
            let record = self.record_version(bytes);
            let reply = self.decode_and_execute(bytes, transport, core).await;
            if let Some(record) = record {
                self.cache_response(bytes, record, &reply).await;
            }
            reply
        };
        let reply = if self.is_store_shared() && tolerates_stale(bytes) {
            tendot_store::with_stale_reads(reply).await
        } else {
            reply.await
        };
        self.record(&reply, transport, client, started);
        reply
    }

    /// Cached reply to a message, if there is a valid one.
    pub(crate) fn cached_reply(
        &self,
        bytes: &[u8],
        transport: Transport,
        client: IpAddr,
    ) -> Option<NativeReply> {
        let started = Instant::now();
        // A request for current data is not answered from the cache if other servers may have changed the record.
        if self.is_store_shared() && !tolerates_stale(bytes) {
            return None;
        }
        let reply = self.cached_response(bytes, self.now())?;
        self.record(&reply, transport, client, started);
        Some(reply)
    }

    /// Whether the store is shared with other servers, and reads may block.
    pub(crate) fn is_store_shared(&self) -> bool {
        self.registry.store().change_counters().is_none_or(ChangeCounters::is_shared)
    }

    fn record(&self, reply: &NativeReply, transport: Transport, client: IpAddr, started: Instant) {
        let duration = started.elapsed();
        self.metrics.record_request(transport, reply.opcode, reply.code, duration);
        if self.logs_requests || reply.code == ResponseCode::ERROR {
            log_message(reply, transport, client, duration);
        }
    }

    async fn decode_and_execute(
        &self,
        bytes: &[u8],
        transport: Transport,
        core: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        let now = self.now();
        let Ok(envelope) = Envelope::from_bytes(bytes) else {
            return NativeReply::none(ResponseCode::PROTOCOL_ERROR);
        };
        let id = envelope.session_id;
        let initial_budget = if core.is_some() { Budget::PER_REQUEST } else { INLINE_BUDGET };
        let before = initial_budget.remaining();
        let mut budget = initial_budget;
        let opened;
        let mut bytes = bytes;
        let is_encrypted = envelope.flags.has(EnvelopeFlags::ENCRYPTED) && id != 0;
        if is_encrypted {
            let mut sessions = self.lock_sessions();
            let is_challenged = self.lock_challenges().contains(id);
            match sessions.open(bytes, is_challenged, now, &AwsLcProvider, &mut budget) {
                Ok((plain, _)) => opened = plain,
                Err(error) => {
                    let refusal = self.endpoint.reject(envelope, None, RejectionReason::Session(error), now);
                    return NativeReply::from_rejection(Opcode::RESERVED, &refusal);
                }
            }
            bytes = &opened;
        }
        let mut incoming = match self.endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(refusal) => {
                let header = bytes.get(limits::ENVELOPE_LEN..).map(MessageHeader::from_bytes);
                let opcode =
                    header.and_then(Result::ok).map_or(Opcode::RESERVED, |(header, _)| header.opcode);
                let mut reply = NativeReply::from_rejection(opcode, &refusal);
                if id != 0
                    && let Some(sealed) =
                        self.authenticate_error(bytes, &refusal, is_encrypted, now, &mut budget)
                {
                    reply.message = Some(sealed);
                }
                return reply;
            }
        };
        incoming.work = budget;
        if id != 0 {
            let mut sessions = self.lock_sessions();
            let is_answer = incoming.message.header.opcode == Opcode::CHALLENGE_RESPONSE;
            let in_session = sessions.contains(id);
            // Outside of a session, a challenge response carries the challenge id in place of the session id.
            if !is_encrypted && (in_session || !is_answer) {
                let is_challenged = self.lock_challenges().contains(id);
                let (parts, budget) = (&incoming.parts, &mut incoming.work);
                if let Err(error) = sessions.verify(parts, is_challenged, now, &AwsLcProvider, budget) {
                    let header = incoming.message.header;
                    let refusal =
                        self.endpoint.reject(envelope, Some(header), RejectionReason::Session(error), now);
                    return NativeReply::from_rejection(header.opcode, &refusal);
                }
            }
            if in_session {
                incoming.session_id = id;
            }
        }
        let (mut reply, left) = match ChallengeResponse::of(&incoming.request) {
            Some(answer) => self.handle_challenge_response(incoming, &answer, core).await,
            None => {
                let caller = self.session_caller(incoming.session_id);
                let reply = self.execute(&mut incoming, &caller, core).await;
                (reply, incoming.work.remaining())
            }
        };
        reply.cost = before.saturating_sub(left);
        reply
    }

    /// Error reply with a MAC, if the request came in a session and asked for one.
    fn authenticate_error(
        &self,
        bytes: &[u8],
        refusal: &Rejection,
        is_opened: bool,
        now: Now,
        budget: &mut Budget,
    ) -> Option<Vec<u8>> {
        let parts =
            MessageParts::split(bytes).ok().filter(|parts| parts.header.flags.has(OpFlags::CERTIFY))?;
        let mut response = Message::from_bytes(refusal.response()?).ok()?;
        response.header.flags = response.header.flags.with(OpFlags::CERTIFY);
        let mut sealed = response.to_bytes().ok()?;
        let mut sessions = self.lock_sessions();
        // Only requests that were verified get a MAC.
        if !is_opened {
            sessions.verify(&parts, false, now, &AwsLcProvider, budget).ok()?;
        }
        let session = sessions.get_mut(parts.envelope.session_id)?.session_mut();
        session.add_mac(&mut sealed, &AwsLcProvider, budget).ok()?;
        Some(sealed)
    }

    /// Caller that is authenticated in a session.
    fn session_caller(&self, session: u32) -> Caller {
        if session == 0 {
            return Caller::Anonymous;
        }
        let mut sessions = self.lock_sessions();
        let known = sessions.get_mut(session).and_then(|session| session.authenticated_identity());
        let identity = known.and_then(|known| HandleIdentity::proven(known.index, &known.handle));
        identity.map_or(Caller::Anonymous, Caller::Handle)
    }

    /// Handles a challenge response: checks authorization for the challenged request, verifies the proof, and executes the
    /// request.
    async fn handle_challenge_response(
        &self,
        mut incoming: IncomingRequest<'_>,
        answer: &ChallengeResponse<'_>,
        core: &mut Option<CpuPermit<'_>>,
    ) -> (NativeReply, u32) {
        let now = self.now();
        // Removed first, so that an answer is accepted only once.
        let taken = self.lock_challenges().take(incoming.message.envelope.session_id, now);
        let pending = match taken {
            Ok(pending) => pending,
            Err(error) => {
                let reply = self.authentication_failed(&mut incoming, &error);
                return (reply, incoming.work.remaining());
            }
        };
        let challenged = match self.endpoint.decode_request(pending.request(), incoming.transport, now) {
            Ok(challenged) => challenged,
            Err(refusal) => {
                let reply = self.error_reply(&mut incoming, refusal.code(), &refusal.to_string());
                return (reply, incoming.work.remaining());
            }
        };
        let mut challenged = challenged.resume_after_challenge(incoming);
        let identity = self.verify_identity(&mut challenged, &pending, answer);
        let reply = match release_while_pending(core, identity).await {
            Ok(identity) => {
                let known = ValueReference::new(identity.index(), identity.handle().as_bytes());
                self.lock_sessions().mark_authenticated(pending.id(), &known);
                self.execute(&mut challenged, &Caller::Handle(identity), core).await
            }
            Err(reply) => reply,
        };
        (reply, challenged.work.remaining())
    }

    async fn verify_identity(
        &self,
        challenged: &mut IncomingRequest<'_>,
        pending: &PendingChallenge,
        answer: &ChallengeResponse<'_>,
    ) -> Result<HandleIdentity, NativeReply> {
        let mut scratch = Vec::new();
        let Some(operation) = to_operation(&challenged.message, &mut scratch) else {
            return Err(self.unsupported(challenged));
        };
        let claim = ValueReference::new(answer.key_index, answer.key_handle.as_bytes());
        let budget = &mut challenged.work;
        if let Err(error) = self.registry.precheck(&operation, &claim, budget).await {
            return Err(self.registry_error(challenged, &error));
        }
        if answer.auth_type == b"HS_SECKEY" && !self.registry.owns(answer.key_handle) {
            let fits =
                self.registry.verify_secret_at_peer(&claim, pending.challenge(), answer.answer, budget).await;
            let identity =
                fits.map(|fits| HandleIdentity::proven(claim.index, &claim.handle).filter(|_| fits));
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
        HandleIdentity::prove(pending, answer, &keys, &self.policy, &AwsLcProvider, budget)
            .map_err(|error| self.authentication_failed(challenged, &error))
    }

    /// Replies with a challenge to authenticate.
    pub(crate) fn issue_challenge(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        let now = self.now();
        if let Err(error) = incoming.work.charge(CHALLENGE_COST) {
            return self.authentication_failed(incoming, &error.into());
        }
        let sealed = {
            let sessions = self.lock_sessions();
            let mut challenges = self.lock_challenges();
            let budget = &mut incoming.work;
            let is_session = |id| sessions.contains(id);
            let request = join_parts(&incoming.parts);
            let issued = challenges.issue(&request, incoming.transport, now, budget, is_session);
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

    pub(crate) fn unsupported(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        let message = format!("{} is not done here", incoming.message.header.opcode);
        self.error_reply(incoming, ResponseCode::OPERATION_NOT_SUPPORTED, &message)
    }

    /// Reply for a registry error; a challenge if the caller is not authenticated.
    pub(crate) fn registry_error(&self, incoming: &mut IncomingRequest<'_>, error: &Error) -> NativeReply {
        let code = error.response_code();
        match code {
            ResponseCode::AUTHENTICATION_NEEDED => self.issue_challenge(incoming),
            // The caller must know that the write may have been committed.
            ResponseCode::ERROR if matches!(error, Error::Store(StoreError::Unknown { .. })) => {
                tracing::error!(%error, "a request failed");
                self.error_reply(incoming, code, OUTCOME_UNKNOWN)
            }
            // Internal errors are for the operator's log.
            ResponseCode::ERROR => {
                tracing::error!(%error, "a request failed");
                self.error_reply(incoming, code, INTERNAL_ERROR)
            }
            _ => self.error_reply(incoming, code, &error.to_string()),
        }
    }

    /// Error reply with a message.
    pub(crate) fn error_reply(
        &self,
        incoming: &mut IncomingRequest<'_>,
        code: ResponseCode,
        message: &str,
    ) -> NativeReply {
        let response = incoming.respond(code, ResponseData::Failed { message: Some(message.as_bytes()) });
        self.seal(incoming, response)
    }

    /// Seals a response: digest, signature or MAC, encryption.
    pub(crate) fn seal(&self, incoming: &mut IncomingRequest<'_>, response: Message<'_>) -> NativeReply {
        let code = response.header.response_code;
        let mut sessions = (incoming.session_id != 0).then(|| self.lock_sessions());
        let session = sessions.as_mut().and_then(|sessions| sessions.get_mut(incoming.session_id));
        let mut sealing = SealContext {
            crypto: &AwsLcProvider,
            random: &mut SystemRandom,
            policy: &self.policy,
            key: Some(self.site.key()),
            session: session.map(|session| session.session_mut()),
        };
        match incoming.seal(response, &mut sealing) {
            Ok(bytes) => NativeReply::new(incoming, code, bytes),
            Err(error) => {
                let text = format!("the answer can't be sent: {error}");
                let outcome = ResponseData::Failed { message: Some(text.as_bytes()) };
                let failed = incoming.respond(ResponseCode::ERROR, outcome).to_bytes();
                NativeReply::new(incoming, ResponseCode::ERROR, failed.unwrap_or_default())
            }
        }
    }
}

/// Joins the parts of a received or decrypted message.
pub(crate) fn join_parts(parts: &MessageParts<'_>) -> Vec<u8> {
    [&parts.envelope.to_bytes()[..], parts.header_and_body, parts.tail].concat()
}

/// Permit to use one CPU core for expensive work.
pub(crate) type CpuPermit<'n> = SemaphorePermit<'n>;

/// Releases the CPU permit while `future` is pending: servers of a site that wait for each other would deadlock otherwise.
pub(crate) async fn release_while_pending<T>(
    core: &mut Option<CpuPermit<'_>>,
    future: impl Future<Output = T>,
) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            *core = None;
        }
        polled
    })
    .await
}

/// Budget of a request that is handled inline, without a CPU permit.
const INLINE_BUDGET: Budget = Budget::new(20_000);

/// Cost of a challenge in steps: issuing one is cheap, but their number is limited, and one client must not exhaust them.
const CHALLENGE_COST: u32 = 600;

/// Message for internal errors.
const INTERNAL_ERROR: &str = "the server failed; its log says why";

/// Writes the access log line. Names are left out: they may be private.
fn log_message(reply: &NativeReply, transport: Transport, client: IpAddr, duration: Duration) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tendot::request",
                $level,
                transport = metrics::transport_label(transport),
                opcode = reply.opcode.0,
                code = reply.code.0,
                bytes = reply.message.as_ref().map_or(0, Vec::len),
                duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                client = %client,
                "answered"
            )
        };
    }
    if reply.code == ResponseCode::ERROR {
        line!(tracing::Level::ERROR);
    } else {
        line!(tracing::Level::INFO);
    }
}

//! From a whole message to its answer.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use tendot_proto::auth::{Answer, AuthError, Pending};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::{Incoming, Reason, Refusal, SealContext, Transport};
use tendot_proto::{
    Envelope, EnvelopeFlags, Header, Message, Now, OpFlags, Opcode, Outcome, Parts, Reference, ResponseCode,
    Work, limits,
};
use tendot_registry::{Caller, Error, Identity, OUTCOME_UNKNOWN};
use tendot_store::{Store, StoreError, ChangeCounters};
use tokio::sync::SemaphorePermit;

use super::fair::is_easygoing;
use super::operation::operation;
use super::{Native, NativeReply, metrics};

impl Native {
    /// Answers a message, counts it, and leaves a line if lines are wanted.
    ///
    /// Who holds a core for hard work gives it back before waiting for the disk.
    pub(super) async fn answer(
        &self,
        bytes: &[u8],
        transport: Transport,
        client: IpAddr,
        core: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        if let Some(reply) = self.cached_reply(bytes, transport, client) {
            return reply;
        }
        let begun = Instant::now();
        let reply = async {
            let record = self.version(bytes);
            let reply = self.reply(bytes, transport, core).await;
            if let Some(record) = record {
                self.keep(bytes, record, &reply).await;
            }
            reply
        };
        let reply = if self.is_store_shared() && is_easygoing(bytes) {
            tendot_store::recent(reply).await
        } else {
            reply.await
        };
        self.end(&reply, transport, client, begun);
        reply
    }

    /// The answer to a message, if it is kept and still right.
    pub(super) fn cached_reply(&self, bytes: &[u8], transport: Transport, client: IpAddr) -> Option<NativeReply> {
        let begun = Instant::now();
        // Who asks for what is there now is not told what others may have changed.
        if self.is_store_shared() && !is_easygoing(bytes) {
            return None;
        }
        let reply = self.kept(bytes, self.now())?;
        self.end(&reply, transport, client, begun);
        Some(reply)
    }

    /// Whether records have to be waited for, and others change them, too.
    pub(super) fn is_store_shared(&self) -> bool {
        self.registry.store().versions().is_none_or(ChangeCounters::is_shared)
    }

    fn end(&self, reply: &NativeReply, transport: Transport, client: IpAddr, begun: Instant) {
        let took = begun.elapsed();
        self.metrics.count(transport, reply.opcode, reply.code, took);
        if self.logs_requests || reply.code == ResponseCode::ERROR {
            log(reply, transport, client, took);
        }
    }

    async fn reply(&self, bytes: &[u8], transport: Transport, core: &mut Option<CpuPermit<'_>>) -> NativeReply {
        let now = self.now();
        let Ok(envelope) = Envelope::from_bytes(bytes) else {
            return NativeReply::none(ResponseCode::PROTOCOL_ERROR);
        };
        let id = envelope.session_id;
        let budget = if core.is_some() { Work::PER_REQUEST } else { INLINE_BUDGET };
        let before = budget.left();
        let mut work = budget;
        let opened;
        let mut bytes = bytes;
        let is_encrypted = envelope.flags.has(EnvelopeFlags::ENCRYPTED) && id != 0;
        if is_encrypted {
            let mut sessions = self.sessions();
            let is_challenged = self.challenges().contains(id);
            match sessions.open(bytes, is_challenged, now, &AwsLcProvider, &mut work) {
                Ok((plain, _)) => opened = plain,
                Err(error) => {
                    let refusal = self.endpoint.refuse(envelope, None, Reason::Session(error), now);
                    return NativeReply::refusal(Opcode::RESERVED, &refusal);
                }
            }
            bytes = &opened;
        }
        let mut incoming = match self.endpoint.read(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(refusal) => {
                let header = bytes.get(limits::ENVELOPE_LEN..).map(Header::from_bytes);
                let opcode =
                    header.and_then(Result::ok).map_or(Opcode::RESERVED, |(header, _)| header.opcode);
                let mut reply = NativeReply::refusal(opcode, &refusal);
                if id != 0
                    && let Some(sealed) = self.authenticate_error(bytes, &refusal, is_encrypted, now, &mut work)
                {
                    reply.message = Some(sealed);
                }
                return reply;
            }
        };
        incoming.work = work;
        if id != 0 {
            let mut sessions = self.sessions();
            let is_answer = incoming.message.header.opcode == Opcode::CHALLENGE_RESPONSE;
            let in_session = sessions.contains(id);
            // An answer outside of a session has the number of its challenge where others have that of their session.
            if !is_encrypted && (in_session || !is_answer) {
                let is_challenged = self.challenges().contains(id);
                let (parts, work) = (&incoming.parts, &mut incoming.work);
                if let Err(error) = sessions.verify(parts, is_challenged, now, &AwsLcProvider, work) {
                    let header = incoming.message.header;
                    let refusal = self.endpoint.refuse(envelope, Some(header), Reason::Session(error), now);
                    return NativeReply::refusal(header.opcode, &refusal);
                }
            }
            if in_session {
                incoming.session_id = id;
            }
        }
        let (mut reply, left) = match Answer::of(&incoming.request) {
            Some(answer) => self.prove(incoming, &answer, core).await,
            None => {
                let caller = self.caller(incoming.session_id);
                let reply = self.carry_out(&mut incoming, &caller, core).await;
                (reply, incoming.work.left())
            }
        };
        reply.cost = before.saturating_sub(left);
        reply
    }

    /// A refusal with a MAC, if the request came in a session and asked for one.
    fn authenticate_error(
        &self,
        bytes: &[u8],
        refusal: &Refusal,
        is_opened: bool,
        now: Now,
        work: &mut Work,
    ) -> Option<Vec<u8>> {
        let parts = Parts::split(bytes).ok().filter(|parts| parts.header.flags.has(OpFlags::CERTIFY))?;
        let mut response = Message::from_bytes(refusal.response()?).ok()?;
        response.header.flags = response.header.flags.with(OpFlags::CERTIFY);
        let mut sealed = response.to_bytes().ok()?;
        let mut sessions = self.sessions();
        // Nobody else gets a MAC.
        if !is_opened {
            sessions.verify(&parts, false, now, &AwsLcProvider, work).ok()?;
        }
        let session = sessions.get_mut(parts.envelope.session_id)?.session();
        session.authenticate(&mut sealed, &AwsLcProvider, work).ok()?;
        Some(sealed)
    }

    /// Who has authenticated in a session.
    fn caller(&self, session: u32) -> Caller {
        if session == 0 {
            return Caller::Anonymous;
        }
        let mut sessions = self.sessions();
        let known = sessions.get_mut(session).and_then(|session| session.authenticated());
        let identity = known.and_then(|known| Identity::proven(known.index, &known.handle));
        identity.map_or(Caller::Anonymous, Caller::Handle)
    }

    /// Looks at the answer to a challenge: may they do what was challenged, are they who they say; then it is done.
    async fn prove(
        &self,
        mut incoming: Incoming<'_>,
        answer: &Answer<'_>,
        core: &mut Option<CpuPermit<'_>>,
    ) -> (NativeReply, u32) {
        let now = self.now();
        // Taken out first, so that the same answer never works twice.
        let taken = self.challenges().take(incoming.message.envelope.session_id, now);
        let pending = match taken {
            Ok(pending) => pending,
            Err(error) => {
                let reply = self.authentication_failed(&mut incoming, &error);
                return (reply, incoming.work.left());
            }
        };
        let challenged = match self.endpoint.read(pending.request(), incoming.transport, now) {
            Ok(challenged) => challenged,
            Err(refusal) => {
                let reply = self.fail(&mut incoming, refusal.code(), &refusal.to_string());
                return (reply, incoming.work.left());
            }
        };
        let mut challenged = challenged.resume_after_challenge(incoming);
        let identity = self.identity(&mut challenged, &pending, answer);
        let reply = match lend(core, identity).await {
            Ok(identity) => {
                let known = Reference::new(identity.index(), identity.handle().as_bytes());
                self.sessions().authenticate(pending.id(), &known);
                self.carry_out(&mut challenged, &Caller::Handle(identity), core).await
            }
            Err(reply) => reply,
        };
        (reply, challenged.work.left())
    }

    async fn identity(
        &self,
        challenged: &mut Incoming<'_>,
        pending: &Pending,
        answer: &Answer<'_>,
    ) -> Result<Identity, NativeReply> {
        let mut scratch = Vec::new();
        let Some(operation) = operation(&challenged.message, &mut scratch) else {
            return Err(self.unsupported(challenged));
        };
        let claim = Reference::new(answer.key_index, answer.key_handle.as_bytes());
        let work = &mut challenged.work;
        if let Err(error) = self.registry.precheck(&operation, &claim, work).await {
            return Err(self.refuse(challenged, &error));
        }
        if answer.auth_type == b"HS_SECKEY" && !self.registry.owns(answer.key_handle) {
            let fits = self.registry.fits_elsewhere(&claim, pending.challenge(), answer.answer, work).await;
            let identity = fits.map(|fits| Identity::proven(claim.index, &claim.handle).filter(|_| fits));
            return match identity {
                Ok(identity) => identity.ok_or_else(|| self.authentication_failed(challenged, &AuthError::Failed)),
                Err(error) => Err(self.refuse(challenged, &error)),
            };
        }
        let keys = match self.registry.keys(answer.key_handle, work).await {
            Ok(keys) => keys,
            Err(error) => return Err(self.refuse(challenged, &error)),
        };
        Identity::prove(pending, answer, &keys, &self.policy, &AwsLcProvider, work)
            .map_err(|error| self.authentication_failed(challenged, &error))
    }

    /// Asks who asks to prove who they are.
    pub(super) fn challenge(&self, incoming: &mut Incoming<'_>) -> NativeReply {
        let now = self.now();
        if let Err(error) = incoming.work.spend(CHALLENGE_COST) {
            return self.authentication_failed(incoming, &error.into());
        }
        let sealed = {
            let sessions = self.sessions();
            let mut challenges = self.challenges();
            let work = &mut incoming.work;
            let is_session = |id| sessions.contains(id);
            let request = whole(&incoming.parts);
            let issued = challenges.issue(&request, incoming.transport, now, work, is_session);
            issued.map(|pending| incoming.challenge(pending).to_bytes())
        };
        match sealed {
            Ok(Ok(bytes)) => match Message::from_bytes(&bytes) {
                Ok(challenge) => self.send(incoming, challenge),
                Err(_) => self.fail(incoming, ResponseCode::ERROR, FAILED),
            },
            Ok(Err(_)) => self.fail(incoming, ResponseCode::ERROR, FAILED),
            Err(error) => self.authentication_failed(incoming, &error),
        }
    }

    fn authentication_failed(&self, incoming: &mut Incoming<'_>, error: &AuthError) -> NativeReply {
        self.fail(incoming, error.response_code(), &error.to_string())
    }

    pub(super) fn unsupported(&self, incoming: &mut Incoming<'_>) -> NativeReply {
        let message = format!("{} is not done here", incoming.message.header.opcode);
        self.fail(incoming, ResponseCode::OPERATION_NOT_SUPPORTED, &message)
    }

    /// What the registry does not do; a challenge if it does not know who asks.
    pub(super) fn refuse(&self, incoming: &mut Incoming<'_>, error: &Error) -> NativeReply {
        let code = error.response_code();
        match code {
            ResponseCode::AUTHENTICATION_NEEDED => self.challenge(incoming),
            // Who asks has to know that it may have been done.
            ResponseCode::ERROR if matches!(error, Error::Store(StoreError::Unknown { .. })) => {
                tracing::error!(%error, "a request failed");
                self.fail(incoming, code, OUTCOME_UNKNOWN)
            }
            // What failed inside is for the operator.
            ResponseCode::ERROR => {
                tracing::error!(%error, "a request failed");
                self.fail(incoming, code, FAILED)
            }
            _ => self.fail(incoming, code, &error.to_string()),
        }
    }

    /// An error with a sentence.
    pub(super) fn fail(&self, incoming: &mut Incoming<'_>, code: ResponseCode, message: &str) -> NativeReply {
        let response = incoming.respond(code, Outcome::Failed { message: Some(message.as_bytes()) });
        self.send(incoming, response)
    }

    /// A response with all that belongs to it: digest, signature or MAC, encryption.
    pub(super) fn send(&self, incoming: &mut Incoming<'_>, response: Message<'_>) -> NativeReply {
        let code = response.header.response_code;
        let mut sessions = (incoming.session_id != 0).then(|| self.sessions());
        let session = sessions.as_mut().and_then(|sessions| sessions.get_mut(incoming.session_id));
        let mut sealing = SealContext {
            crypto: &AwsLcProvider,
            random: &mut SystemRandom,
            policy: &self.policy,
            key: Some(self.site.key()),
            session: session.map(|session| session.session()),
        };
        match incoming.seal(response, &mut sealing) {
            Ok(bytes) => NativeReply::new(incoming, code, bytes),
            Err(error) => {
                let text = format!("the answer can't be sent: {error}");
                let outcome = Outcome::Failed { message: Some(text.as_bytes()) };
                let failed = incoming.respond(ResponseCode::ERROR, outcome).to_bytes();
                NativeReply::new(incoming, ResponseCode::ERROR, failed.unwrap_or_default())
            }
        }
    }
}

/// A message as it came, or was decrypted.
pub(super) fn whole(parts: &Parts<'_>) -> Vec<u8> {
    [&parts.envelope.to_bytes()[..], parts.header_and_body, parts.tail].concat()
}

/// The right to keep a core busy.
pub(super) type CpuPermit<'n> = SemaphorePermit<'n>;

/// Gives the core back as soon as somebody else is waited for: servers of a site that wait for each other would else wait
/// for ever.
pub(super) async fn lend<T>(core: &mut Option<CpuPermit<'_>>, future: impl Future<Output = T>) -> T {
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

/// What a request may cost for which no core was asked.
const INLINE_BUDGET: Work = Work::new(20_000);

/// The price of a place among the challenges, in steps of work: it takes none to make one, but there are only so many, and
/// who had them all would keep others from being challenged.
const CHALLENGE_COST: u32 = 600;

/// What a stranger is told of what went wrong inside.
const FAILED: &str = "the server failed; its log says why";

/// Leaves a line. Names are left out: what is asked for may be nobody's business.
fn log(reply: &NativeReply, transport: Transport, client: IpAddr, took: Duration) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tendot::request",
                $level,
                transport = metrics::name(transport),
                opcode = reply.opcode.0,
                code = reply.code.0,
                bytes = reply.message.as_ref().map_or(0, Vec::len),
                duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
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

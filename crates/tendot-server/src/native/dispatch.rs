//! Dispatch of a message: authenticate, execute, and seal the reply.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use tendot_proto::auth::ChallengeResponse;
use tendot_proto::endpoint::{IncomingRequest, Rejection, RejectionReason, Transport};
use tendot_proto::{Budget, Envelope, MessageHeader, Now, OpFlags, Opcode, ResponseCode};
use tendot_store::ChangeCounters;
use tokio::sync::SemaphorePermit;

use crate::native::NativeServer;
use crate::native::classified_message::ClassifiedMessage;
use crate::native::list::ListContinuation;
use crate::native::middleware::metrics;

/// Reply to a message: bytes, continuation, opcode, response code and cost.
#[derive(Debug)]
pub(crate) struct NativeReply {
    /// Encoded message; `None` if nothing is sent.
    pub(crate) message: Option<Vec<u8>>,
    /// Continuation of a list response.
    pub(crate) continuation: Option<Box<ListContinuation>>,
    pub(crate) opcode: Opcode,
    pub(crate) code: ResponseCode,
    /// Work spent, in steps.
    pub(crate) cost: u32,
    /// Whether the client wants to keep the connection open.
    pub(crate) keep_alive: bool,
}

impl NativeReply {
    /// Empty reply: nothing is sent.
    pub(crate) const fn none(code: ResponseCode) -> Self {
        Self { message: None, continuation: None, opcode: Opcode::RESERVED, code, cost: 0, keep_alive: false }
    }

    pub(crate) fn new(incoming: &IncomingRequest<'_>, code: ResponseCode, message: Vec<u8>) -> Self {
        Self { message: Some(message), opcode: incoming.parts.header.opcode, ..Self::none(code) }
    }

    fn from_rejection(rejection: &Rejection) -> Self {
        let message = rejection.response().map(Into::into);
        Self { message, opcode: rejection.opcode(), ..Self::none(rejection.response_code()) }
    }
}

impl NativeServer {
    /// Handles a message, and records its metrics and access log line.
    ///
    /// A CPU permit is released before waiting for the disk.
    pub(crate) async fn process(
        &self,
        message: &ClassifiedMessage<'_>,
        transport: Transport,
        client: IpAddr,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        if let Some(reply) = self.cached_reply(message, transport, client) {
            return reply;
        }
        let started = Instant::now();
        let reply = self.open_and_execute(message, transport, cpu_permit);
        let reply = if self.is_store_shared() && message.tolerates_stale() {
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
        message: &ClassifiedMessage<'_>,
        transport: Transport,
        client: IpAddr,
    ) -> Option<NativeReply> {
        let started = Instant::now();
        // A request for current data is not answered from the cache if other servers may have changed the record.
        if self.is_store_shared() && !message.tolerates_stale() {
            return None;
        }
        let reply = self.cached_response(message, self.now())?;
        self.record(&reply, transport, client, started);
        Some(reply)
    }

    /// Whether the store is shared with other servers, and reads may block.
    pub(crate) fn is_store_shared(&self) -> bool {
        self.registry.change_counters().is_none_or(ChangeCounters::is_shared)
    }

    fn record(&self, reply: &NativeReply, transport: Transport, client: IpAddr, started: Instant) {
        let duration = started.elapsed();
        self.metrics.record_request(transport, reply.opcode, reply.code, duration);
        if self.logs_requests || reply.code == ResponseCode::ERROR {
            log_message(reply, transport, client, duration);
        }
    }

    /// Opens a message, if it is encrypted, and executes it.
    async fn open_and_execute(
        &self,
        message: &ClassifiedMessage<'_>,
        transport: Transport,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        let Some(envelope) = message.envelope() else {
            return NativeReply::none(ResponseCode::PROTOCOL_ERROR);
        };
        let now = self.now();
        let mut budget = if cpu_permit.is_some() { Budget::PER_REQUEST } else { INLINE_BUDGET };
        let before = budget.remaining();
        let is_encrypted = message.is_encrypted() && envelope.session_id != 0;
        let opened;
        let mut message = *message;
        if is_encrypted {
            match self.open(&message, &envelope, now, &mut budget) {
                Ok(plain) => opened = plain,
                Err(reply) => {
                    return NativeReply { cost: before.saturating_sub(budget.remaining()), ..reply };
                }
            }
            message = ClassifiedMessage::new(&opened);
        }
        let decoded = self.decode(&message, &envelope, transport, is_encrypted, now, &mut budget);
        let (mut reply, remaining) = match decoded {
            Ok(incoming) => self.execute_decoded(&message, incoming, cpu_permit).await,
            Err(reply) => (reply, budget.remaining()),
        };
        reply.cost = before.saturating_sub(remaining);
        reply.keep_alive = message.has_flag(OpFlags::KEEP_CONNECTION);
        reply
    }

    /// Decrypts a message of a session.
    fn open(
        &self,
        message: &ClassifiedMessage<'_>,
        envelope: &Envelope,
        now: Now,
        budget: &mut Budget,
    ) -> Result<Vec<u8>, NativeReply> {
        let mut sessions = self.lock_sessions();
        let is_challenged = self.lock_challenges().contains(envelope.session_id);
        let opened = sessions.open(message.bytes(), is_challenged, now, &mut self.auth(budget));
        opened
            .map(|(plain, _)| plain)
            .map_err(|error| self.reject(*envelope, None, RejectionReason::Session(error), now))
    }

    /// Decodes and validates a plain message, and verifies its MAC if it came in a session.
    fn decode<'m>(
        &self,
        message: &ClassifiedMessage<'m>,
        envelope: &Envelope,
        transport: Transport,
        was_encrypted: bool,
        now: Now,
        budget: &mut Budget,
    ) -> Result<IncomingRequest<'m>, NativeReply> {
        let id = envelope.session_id;
        let mut incoming =
            self.endpoint.decode_received(message.received(), transport, now).map_err(|rejection| {
                let mut reply = NativeReply::from_rejection(&rejection);
                if id != 0
                    && let Some(sealed) =
                        self.authenticate_error(message, &rejection, was_encrypted, now, budget)
                {
                    reply.message = Some(sealed);
                }
                reply
            })?;
        if id != 0 {
            let mut sessions = self.lock_sessions();
            let is_answer = message.opcode() == Opcode::CHALLENGE_RESPONSE;
            let in_session = sessions.contains(id);
            // Outside of a session, a challenge response carries the challenge id in place of the session id.
            if !was_encrypted && (in_session || !is_answer) {
                let is_challenged = self.lock_challenges().contains(id);
                sessions.verify(&incoming.parts, is_challenged, now, &mut self.auth(budget)).map_err(
                    |error| {
                        let header = incoming.parts.header;
                        self.reject(*envelope, Some(header), RejectionReason::Session(error), now)
                    },
                )?;
            }
            if in_session {
                incoming.session_id = id;
            }
        }
        incoming.budget = budget.clone();
        Ok(incoming)
    }

    fn reject(
        &self,
        envelope: Envelope,
        header: Option<MessageHeader>,
        reason: RejectionReason,
        now: Now,
    ) -> NativeReply {
        NativeReply::from_rejection(&self.endpoint.reject(envelope, header, reason, now))
    }

    /// Executes a decoded message, and caches the response if it is cacheable. Returns the remaining budget, too.
    async fn execute_decoded(
        &self,
        message: &ClassifiedMessage<'_>,
        mut incoming: IncomingRequest<'_>,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> (NativeReply, u32) {
        if let Some(answer) = ChallengeResponse::from_request(&incoming.request) {
            return self.handle_challenge_response(incoming, &answer, cpu_permit).await;
        }
        let record = self.record_version(message, &incoming.request);
        let caller = self.session_caller(incoming.session_id);
        let reply = self.execute(&mut incoming, &caller, cpu_permit).await;
        if let Some(record) = record {
            self.cache_response(message, record, &reply).await;
        }
        (reply, incoming.budget.remaining())
    }
}

/// Permit to use one CPU core for expensive work.
pub(crate) type CpuPermit<'n> = SemaphorePermit<'n>;

/// Releases the CPU permit while `future` is pending: servers of a site that wait for each other would deadlock otherwise.
pub(crate) async fn release_while_pending<T>(
    cpu_permit: &mut Option<CpuPermit<'_>>,
    future: impl Future<Output = T>,
) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            *cpu_permit = None;
        }
        polled
    })
    .await
}

/// Budget of a request that is handled inline, without a CPU permit.
const INLINE_BUDGET: Budget = Budget::new(20_000);

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
                "message"
            )
        };
    }
    if reply.code == ResponseCode::ERROR {
        line!(tracing::Level::ERROR);
    } else {
        line!(tracing::Level::INFO);
    }
}

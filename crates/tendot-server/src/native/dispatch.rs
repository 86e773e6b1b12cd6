//! Dispatch of a message: authenticate, execute, and seal the reply.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use tendot_proto::auth::ChallengeResponse;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::{IncomingRequest, Rejection, RejectionReason, Transport};
use tendot_proto::{
    Budget, Envelope, EnvelopeFlags, MessageHeader, MessageParts, Opcode, ResponseCode, limits,
};
use tendot_store::ChangeCounters;
use tokio::sync::SemaphorePermit;

use crate::native::NativeServer;
use crate::native::list::ListContinuation;
use crate::native::middleware::admission::tolerates_stale;
use crate::native::middleware::metrics;

/// Reply to a message: bytes, continuation, opcode, response code and cost.
#[derive(Debug)]
pub(crate) struct NativeReply {
    /// Encoded message; `None` if nothing is sent.
    pub(crate) message: Option<Vec<u8>>,
    /// Continuation of a list response.
    pub(crate) continuation: Option<ListContinuation>,
    pub(crate) opcode: Opcode,
    pub(crate) code: ResponseCode,
    /// Work spent, in steps.
    pub(crate) cost: u32,
}

impl NativeReply {
    /// Empty reply: nothing is sent.
    pub(crate) const fn none(code: ResponseCode) -> Self {
        Self { message: None, continuation: None, opcode: Opcode::RESERVED, code, cost: 0 }
    }

    pub(crate) fn from_rejection(opcode: Opcode, rejection: &Rejection) -> Self {
        let message = rejection.response().map(Into::into);
        Self { message, continuation: None, opcode, code: rejection.response_code(), cost: 0 }
    }

    pub(crate) const fn new(incoming: &IncomingRequest<'_>, code: ResponseCode, message: Vec<u8>) -> Self {
        let opcode = incoming.message.header.opcode;
        Self { message: Some(message), continuation: None, opcode, code, cost: 0 }
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
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        if let Some(reply) = self.cached_reply(bytes, transport, client) {
            return reply;
        }
        let started = Instant::now();
        let reply = async {
            let record = self.record_version(bytes);
            let reply = self.decode_and_execute(bytes, transport, cpu_permit).await;
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
        self.registry.change_counters().is_none_or(ChangeCounters::is_shared)
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
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        let now = self.now();
        let Ok(envelope) = Envelope::from_bytes(bytes) else {
            return NativeReply::none(ResponseCode::PROTOCOL_ERROR);
        };
        let id = envelope.session_id;
        let initial_budget = if cpu_permit.is_some() { Budget::PER_REQUEST } else { INLINE_BUDGET };
        let before = initial_budget.remaining();
        let mut budget = initial_budget;
        let opened;
        let mut bytes = bytes;
        let is_encrypted = envelope.flags.contains(EnvelopeFlags::ENCRYPTED) && id != 0;
        if is_encrypted {
            let mut sessions = self.lock_sessions();
            let is_challenged = self.lock_challenges().contains(id);
            match sessions.open(bytes, is_challenged, now, &AwsLcProvider, &mut budget) {
                Ok((plain, _)) => opened = plain,
                Err(error) => {
                    let rejection =
                        self.endpoint.reject(envelope, None, RejectionReason::Session(error), now);
                    return NativeReply::from_rejection(Opcode::RESERVED, &rejection);
                }
            }
            bytes = &opened;
        }
        let mut incoming = match self.endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(rejection) => {
                let header = bytes.get(limits::ENVELOPE_LEN..).map(MessageHeader::from_bytes);
                let opcode =
                    header.and_then(Result::ok).map_or(Opcode::RESERVED, |(header, _)| header.opcode);
                let mut reply = NativeReply::from_rejection(opcode, &rejection);
                if id != 0
                    && let Some(sealed) =
                        self.authenticate_error(bytes, &rejection, is_encrypted, now, &mut budget)
                {
                    reply.message = Some(sealed);
                }
                return reply;
            }
        };
        incoming.budget = budget;
        if id != 0 {
            let mut sessions = self.lock_sessions();
            let is_answer = incoming.message.header.opcode == Opcode::CHALLENGE_RESPONSE;
            let in_session = sessions.contains(id);
            // Outside of a session, a challenge response carries the challenge id in place of the session id.
            if !is_encrypted && (in_session || !is_answer) {
                let is_challenged = self.lock_challenges().contains(id);
                let (parts, budget) = (&incoming.parts, &mut incoming.budget);
                if let Err(error) = sessions.verify(parts, is_challenged, now, &AwsLcProvider, budget) {
                    let header = incoming.message.header;
                    let rejection =
                        self.endpoint.reject(envelope, Some(header), RejectionReason::Session(error), now);
                    return NativeReply::from_rejection(header.opcode, &rejection);
                }
            }
            if in_session {
                incoming.session_id = id;
            }
        }
        let (mut reply, remaining) = match ChallengeResponse::from_request(&incoming.request) {
            Some(answer) => self.handle_challenge_response(incoming, &answer, cpu_permit).await,
            None => {
                let caller = self.session_caller(incoming.session_id);
                let reply = self.execute(&mut incoming, &caller, cpu_permit).await;
                (reply, incoming.budget.remaining())
            }
        };
        reply.cost = before.saturating_sub(remaining);
        reply
    }
}

/// Joins the parts of a received or decrypted message.
pub(crate) fn join_parts(parts: &MessageParts<'_>) -> Vec<u8> {
    [&parts.envelope.to_bytes()[..], parts.header_and_body, parts.credential_bytes].concat()
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

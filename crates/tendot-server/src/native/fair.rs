//! Who has had their share, and where hard work is done.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tendot_proto::endpoint::Transport;
use tendot_proto::{
    Envelope, EnvelopeFlags, Message, MessageHeader, OpFlags, Opcode, ResponseCode, ResponseData, limits,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::metrics::DropReason;
use super::{NativeReply, NativeServer};
use crate::http::plain;

/// Steps that are too few to be counted.
const MIN_CHARGED_COST: u32 = 500;

/// Bytes of one body after which no further message is put into it.
const MAX_TUNNEL_BODY_BYTES: usize = 1 << 20;

impl NativeServer {
    /// Answers a message, unless its source has had its share of work.
    ///
    /// What takes long (a signature, a key, a proof) is done apart from everything else, and not for more at the same time
    /// than there are cores.
    pub(crate) async fn handle_message(
        self: &Arc<Self>,
        message: &[u8],
        transport: Transport,
        client: IpAddr,
    ) -> NativeReply {
        if self.is_over_budget(client) {
            return self.busy_reply(message, transport);
        }
        if is_expensive(message) {
            let Ok(place) =
                Arc::clone(self.admission_queue(message, transport, client)).acquire_owned().await
            else {
                return self.busy_reply(message, transport);
            };
            // Many may have come before the first of them was counted.
            if self.is_over_budget(client) {
                return self.busy_reply(message, transport);
            }
            let (native, copy) = (Arc::clone(self), message.to_vec());
            // It goes on, and is counted, also if nobody waits for it any more.
            let worked = tokio::task::spawn_blocking(move || {
                let reply = Handle::current().block_on(async {
                    let mut core = native.cores.acquire().await.ok();
                    native.process(&copy, transport, client, &mut core).await
                });
                native.charge_reply(client, &reply);
                drop(place);
                reply
            });
            worked.await.unwrap_or_else(|_| self.busy_reply(message, transport))
        } else {
            let reply = self.process(message, transport, client, &mut None).await;
            self.charge_reply(client, &reply);
            reply
        }
    }

    /// Where a message that takes hard work waits for its turn. Servers of a site ask each other while those who made them
    /// ask keep their places: in the same queue, full ones would wait for each other.
    fn admission_queue(&self, message: &[u8], transport: Transport, client: IpAddr) -> &Arc<Semaphore> {
        let servers = &self.site.site().servers;
        // They come over TCP, and anybody can write their addresses on a datagram.
        let is_neighbour = transport != Transport::Udp
            && servers.len() > 1
            && servers.iter().any(|server| server.ip() == plain(client));
        // Only servers ask this, and nobody else is asked for the answer.
        let is_proof =
            peek_headers(message).is_some_and(|(_, header)| header.opcode == Opcode::VERIFY_CHALLENGE);
        if is_proof || is_neighbour { &self.hard_of_neighbours } else { &self.hard }
    }

    /// Answers a message for which [`is_light`] holds, if it can be answered at once.
    pub(super) fn try_inline(
        &self,
        message: &[u8],
        transport: Transport,
        client: IpAddr,
    ) -> Option<NativeReply> {
        if self.is_over_budget(client) {
            return Some(self.busy_reply(message, transport));
        }
        if self.is_store_shared() {
            return self.cached_reply(message, transport, client);
        }
        let mut core = None;
        let answer = pin!(self.process(message, transport, client, &mut core));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => {
                self.charge_reply(client, &reply);
                Some(reply)
            }
            // It changed nothing, and can be asked again.
            Poll::Pending => None,
        }
    }

    pub(super) fn is_over_budget(&self, client: IpAddr) -> bool {
        let limiter = self.limiter.as_ref().filter(|limiter| !limiter.is_exempt(client));
        limiter.is_some_and(|limiter| !limiter.has_cpu_budget(client, Instant::now()))
    }

    fn charge_reply(&self, client: IpAddr, reply: &NativeReply) {
        if reply.cost > MIN_CHARGED_COST {
            self.charge(client, reply.cost);
        }
    }

    /// Counts work that was done for a client, in microseconds.
    pub(super) fn charge(&self, client: IpAddr, microseconds: u32) {
        if let Some(limiter) = self.limiter.as_ref().filter(|limiter| !limiter.is_exempt(client)) {
            limiter.charge_cpu(client, microseconds, Instant::now());
        }
    }

    /// All messages of an answer, as far as one body goes.
    pub(crate) async fn handle_message_complete(
        self: &Arc<Self>,
        message: &[u8],
        transport: Transport,
        client: IpAddr,
    ) -> Option<Vec<u8>> {
        let mut reply = self.handle_message(message, transport, client).await;
        let mut whole = reply.message?;
        // What is left out has been announced.
        while whole.len() < MAX_TUNNEL_BODY_BYTES
            && let Some(listing) = reply.more.take()
        {
            reply = self.next_list_message(listing).await?;
            whole.append(&mut reply.message?);
        }
        Some(whole)
    }

    /// Somebody over UDP gets no answer: it would end the client's attempt, and its address may be another's.
    fn busy_reply(&self, message: &[u8], transport: Transport) -> NativeReply {
        self.metrics.record_drop(DropReason::Work);
        let mut reply = NativeReply::none(ResponseCode::SERVER_TOO_BUSY);
        if transport != Transport::Udp
            && let Ok(incoming) = self.endpoint.decode_request(message, transport, self.now())
        {
            let outcome =
                ResponseData::Failed { message: Some(b"you have had your share of work; wait a little") };
            let response: Message<'_> = incoming.respond(ResponseCode::SERVER_TOO_BUSY, outcome);
            reply.message = response.to_bytes().ok();
        }
        reply
    }
}

/// Whether a message is a question for public values, or for the site, that is to be answered unsigned: it changes nothing
/// and takes next to no time.
pub(super) fn is_public_read(message: &[u8]) -> bool {
    let Some((envelope, header)) = peek_headers(message) else { return true };
    let is_question = header.opcode == Opcode::RESOLUTION && header.flags.has(OpFlags::PUBLIC_ONLY)
        || header.opcode == Opcode::GET_SITE_INFO;
    envelope.session_id == 0 && is_question && !is_expensive(message)
}

/// Whether a message is a question that may be answered with what was there a moment ago.
pub(super) fn tolerates_stale(message: &[u8]) -> bool {
    peek_headers(message).is_some_and(|(envelope, header)| {
        envelope.session_id == 0
            && !envelope.flags.has(EnvelopeFlags::ENCRYPTED)
            && header.opcode == Opcode::RESOLUTION
            && !header.flags.has(OpFlags::AUTHORITATIVE)
    })
}

/// Whether a message asks for a signature, a key, or the proof of one. What is said in a session is authenticated by it.
fn is_expensive(message: &[u8]) -> bool {
    let Some((envelope, header)) = peek_headers(message) else { return false };
    let is_encrypted = envelope.flags.has(EnvelopeFlags::ENCRYPTED);
    let is_signed = header.flags.has(OpFlags::CERTIFY) && envelope.session_id == 0;
    let asks = matches!(
        header.opcode,
        Opcode::CHALLENGE_RESPONSE
            | Opcode::VERIFY_CHALLENGE
            | Opcode::SESSION_SETUP
            | Opcode::SESSION_TERMINATE
    );
    is_encrypted || is_signed || asks
}

fn peek_headers(message: &[u8]) -> Option<(Envelope, MessageHeader)> {
    let envelope = Envelope::from_bytes(message).ok()?;
    let (header, _) = MessageHeader::from_bytes(message.get(limits::ENVELOPE_LEN..)?).ok()?;
    Some((envelope, header))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tendot_proto::message::DigestAlgorithm;
    use tendot_proto::record::{Site, SiteServer};
    use tendot_proto::{MessageBody, Now, Request, RequestDigest};
    use tendot_registry::{Registry, RegistrySettings};
    use tendot_store::MemoryStore;
    use tokio::time::timeout;

    use super::*;
    use crate::native::{MAX_EXPENSIVE_REQUESTS, OwnSite};

    /// All places are taken by those who wait for the other server, which waits for us.
    #[tokio::test(start_paused = true)]
    async fn neighbours_have_places_of_their_own() {
        let key = OwnSite::generate_key().unwrap();
        let server = |address: [u8; 4], public_key: Vec<u8>| SiteServer {
            address: SiteServer::encode_address(address.into()),
            public_key: public_key.into(),
            ..SiteServer::default()
        };
        let ours = key.public_key().unwrap().to_bytes();
        let servers = vec![server([192, 0, 2, 1], ours), server([192, 0, 2, 2], Vec::new())];
        let site = OwnSite::new(Site { servers, ..Site::default() }, &key).unwrap();
        let registry = Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default()));
        let native = Arc::new(NativeServer::new(registry, site));
        let _all = native.hard.acquire_many(u32::try_from(MAX_EXPENSIVE_REQUESTS).unwrap()).await.unwrap();
        let name = tendot_proto::Handle::from("10.1/x");
        let now = Now { elapsed: Duration::ZERO, unix: 1_800_000_000 };
        let mut signed = Message::resolution(name, 7, now);
        signed.header.flags = signed.header.flags.with(OpFlags::CERTIFY);
        let mut proof = Message::resolution(name, 7, now);
        proof.header.opcode = Opcode::VERIFY_CHALLENGE;
        let digest = RequestDigest { algorithm: DigestAlgorithm::Untold, bytes: &[7; 32] };
        proof.body = MessageBody::Request(Request::VerifyChallenge {
            key_handle: name,
            key_index: 1,
            nonce: &[7; 16],
            digest,
            answer: &[7],
        });
        let (signed, proof) = (signed.to_bytes().unwrap(), proof.to_bytes().unwrap());
        let check = async |message: &[u8], transport, client: [u8; 4], expected| {
            let answer = native.handle_message(message, transport, client.into());
            let answered = timeout(Duration::from_millis(if expected { 10_000 } else { 50 }), answer).await;
            assert_eq!(answered.is_ok(), expected, "{transport:?} {client:?}");
        };
        check(&signed, Transport::Tcp, [192, 0, 2, 2], true).await;
        check(&signed, Transport::Udp, [192, 0, 2, 2], false).await;
        check(&signed, Transport::Tcp, [192, 0, 2, 3], false).await;
        check(&proof, Transport::Tcp, [192, 0, 2, 3], true).await;
    }
}

//! Admission control: CPU fairness, and whether a message is handled inline, asynchronously or on a thread.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tendot_proto::endpoint::Transport;
use tendot_proto::{Message, OpFlags, Opcode, ResponseCode, ResponseData};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::native::classified_message::ClassifiedMessage;
use crate::native::middleware::metrics::DropReason;
use crate::native::middleware::rate_limit::NativeRateLimiter;
use crate::native::{MessageClient, NativeReply, NativeServer};

/// Costs below this are not charged.
const MIN_CHARGED_COST: u32 = 500;

/// Size of a tunnelled response after which no further message is added.
const MAX_TUNNEL_BODY_BYTES: usize = 1 << 20;

impl NativeServer {
    /// Handles a message, unless its source has used up its CPU budget.
    ///
    /// Expensive work (signatures, keys, proofs) runs on threads, with at most one per core.
    pub(crate) async fn handle_message(
        self: &Arc<Self>,
        message: &ClassifiedMessage<'_>,
        transport: Transport,
        client: MessageClient,
    ) -> NativeReply {
        if self.is_over_budget(client) {
            return self.busy_reply(message, transport);
        }
        if message.is_expensive() {
            let Ok(permit) =
                Arc::clone(self.admission_queue(message, transport, client)).acquire_owned().await
            else {
                return self.busy_reply(message, transport);
            };
            // Many messages may have arrived before the first one was charged.
            if self.is_over_budget(client) {
                return self.busy_reply(message, transport);
            }
            let (native, bytes, detached) =
                (Arc::clone(self), message.bytes().to_vec(), message.without_bytes());
            // The task continues, and is charged, even if the client disconnects.
            let task = tokio::task::spawn_blocking(move || {
                let message = detached.with_bytes(&bytes);
                let reply = Handle::current().block_on(async {
                    let mut cpu_permit = native.cpu_permits.acquire().await.ok();
                    native.process(&message, transport, client, &mut cpu_permit).await
                });
                native.charge_reply(client, &reply);
                drop(permit);
                reply
            });
            task.await.unwrap_or_else(|_| self.busy_reply(message, transport))
        } else {
            let reply = self.process(message, transport, client, &mut None).await;
            self.charge_reply(client, &reply);
            reply
        }
    }

    /// Queue of an expensive message. Servers of a site query each other while their own clients hold permits: with a shared
    /// queue, full ones would deadlock.
    fn admission_queue(
        &self,
        message: &ClassifiedMessage<'_>,
        transport: Transport,
        client: MessageClient,
    ) -> &Arc<Semaphore> {
        // Peers use TCP; the source address of a datagram can be forged.
        let is_peer = transport != Transport::Udp && self.is_site_peer(client);
        // Only servers send this request, and answering it queries no other server.
        let is_proof = message.opcode() == Opcode::VERIFY_CHALLENGE;
        if is_proof || is_peer { &self.peer_permits } else { &self.expensive_permits }
    }

    /// Whether another server of the site has this address.
    pub(crate) fn is_site_peer(&self, client: MessageClient) -> bool {
        let servers = &self.site.site().servers;
        let Some(address) = client.address.map(|address| address.to_canonical()) else { return false };
        servers.len() > 1 && servers.iter().any(|server| server.ip() == address)
    }

    /// Handles a public read, if that does not block.
    pub(crate) fn try_inline(
        &self,
        message: &ClassifiedMessage<'_>,
        transport: Transport,
        client: MessageClient,
    ) -> Option<NativeReply> {
        if self.is_over_budget(client) {
            return Some(self.busy_reply(message, transport));
        }
        if self.is_store_shared() {
            return self.cached_reply(message, transport, client);
        }
        let mut cpu_permit = None;
        let reply = pin!(self.process(message, transport, client, &mut cpu_permit));
        match reply.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => {
                self.charge_reply(client, &reply);
                Some(reply)
            }
            // It changed nothing, and can be repeated.
            Poll::Pending => None,
        }
    }

    pub(crate) fn is_over_budget(&self, client: MessageClient) -> bool {
        self.limited_address(client)
            .is_some_and(|(rate_limiter, address)| !rate_limiter.has_cpu_budget(address, Instant::now()))
    }

    fn charge_reply(&self, client: MessageClient, reply: &NativeReply) {
        if reply.cost > MIN_CHARGED_COST {
            self.charge(client, reply.cost);
        }
    }

    /// Charges CPU time to a client, in microseconds.
    pub(crate) fn charge(&self, client: MessageClient, microseconds: u32) {
        if let Some((rate_limiter, address)) = self.limited_address(client) {
            rate_limiter.charge_cpu(address, microseconds, Instant::now());
        }
    }

    /// Rate limiter and address of a client that is limited.
    fn limited_address(&self, client: MessageClient) -> Option<(&NativeRateLimiter, IpAddr)> {
        let rate_limiter =
            self.rate_limiter.as_ref().filter(|rate_limiter| !rate_limiter.is_exempt(client))?;
        Some((rate_limiter, client.address?))
    }

    /// All messages of a response, as far as they fit in one body.
    pub(crate) async fn handle_message_complete(
        self: &Arc<Self>,
        message: &[u8],
        transport: Transport,
        client: MessageClient,
    ) -> Option<Vec<u8>> {
        let message = ClassifiedMessage::new(message);
        let mut reply = self.handle_message(&message, transport, client).await;
        let mut messages = reply.message?;
        // The client knows from the announcement that the rest is missing.
        while messages.len() < MAX_TUNNEL_BODY_BYTES
            && let Some(continuation) = reply.continuation.take()
        {
            reply = self.next_list_message(continuation).await?;
            messages.append(&mut reply.message?);
        }
        Some(messages)
    }

    /// Over UDP, nothing is sent: a reply would end the client's retries, and its address may be forged.
    fn busy_reply(&self, message: &ClassifiedMessage<'_>, transport: Transport) -> NativeReply {
        self.metrics.record_drop(DropReason::CpuLimit);
        let mut reply = NativeReply::none(ResponseCode::SERVER_TOO_BUSY);
        reply.keep_alive = message.has_flag(OpFlags::KEEP_CONNECTION);
        if transport != Transport::Udp
            && let Ok(incoming) = self.endpoint.decode_received(message.received(), transport, self.now())
        {
            let outcome =
                ResponseData::Error { message: Some(b"CPU limit exceeded for this client; retry later") };
            let response: Message<'_> = incoming.respond(ResponseCode::SERVER_TOO_BUSY, outcome);
            reply.message = response.to_bytes().ok();
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tendot_proto::message::DigestAlgorithm;
    use tendot_proto::record::{Site, SiteServer};
    use tendot_proto::{Handle, HandleValue, MessageBody, Now, Request, RequestDigest, ValuePermissions};
    use tendot_registry::{Registry, RegistrySettings};
    use tendot_store::{ChangeSet, Edit, MemoryStore, Precondition, Store as _};
    use tokio::time::timeout;

    use super::*;
    use crate::native::OwnSite;
    use crate::native::native_server::MAX_EXPENSIVE_REQUESTS;

    const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1_800_000_000 };

    /// First server of a site of two, at 192.0.2.1 and 192.0.2.2.
    fn site_server(store: MemoryStore) -> Arc<NativeServer> {
        let key = OwnSite::generate_key().unwrap();
        let server = |address: [u8; 4], public_key: Vec<u8>| SiteServer {
            address: SiteServer::encode_address(address.into()),
            public_key: public_key.into(),
            ..SiteServer::default()
        };
        let public_key = key.public_key().unwrap().to_bytes();
        let servers = vec![server([192, 0, 2, 1], public_key), server([192, 0, 2, 2], Vec::new())];
        let site = OwnSite::new(Site { servers, ..Site::default() }, &key).unwrap();
        let registry = Arc::new(Registry::new(store, RegistrySettings::default()));
        Arc::new(NativeServer::new(registry, site))
    }

    /// Request to verify an invalid proof for `10.1/x`.
    fn invalid_proof() -> Vec<u8> {
        let name = Handle::from("10.1/x");
        let mut proof = Message::resolution(name, 7, NOW);
        proof.header.opcode = Opcode::VERIFY_CHALLENGE;
        let digest = RequestDigest { algorithm: DigestAlgorithm::Untagged, bytes: &[7; 32] };
        proof.body = MessageBody::Request(Request::VerifyChallenge {
            key_handle: name,
            key_index: 1,
            nonce: &[7; 16],
            digest,
            response: &[7],
        });
        proof.to_bytes().unwrap()
    }

    /// All permits are held by requests that wait for the other server, which waits for this one.
    #[tokio::test(start_paused = true)]
    async fn peer_requests_have_their_own_queue() {
        let native = site_server(MemoryStore::new());
        let _all = native
            .expensive_permits
            .acquire_many(u32::try_from(MAX_EXPENSIVE_REQUESTS).unwrap())
            .await
            .unwrap();
        let mut signed = Message::resolution(Handle::from("10.1/x"), 7, NOW);
        signed.header.flags |= OpFlags::CERTIFY;
        let (signed, proof) = (signed.to_bytes().unwrap(), invalid_proof());
        let check = async |message: &[u8], transport, client: [u8; 4], expected| {
            let message = ClassifiedMessage::new(message);
            let reply = native.handle_message(&message, transport, MessageClient::direct(client.into()));
            let handled = timeout(Duration::from_millis(if expected { 10_000 } else { 50 }), reply).await;
            assert_eq!(handled.is_ok(), expected, "{transport:?} {client:?}");
        };
        check(&signed, Transport::Tcp, [192, 0, 2, 2], true).await;
        check(&signed, Transport::Udp, [192, 0, 2, 2], false).await;
        check(&signed, Transport::Tcp, [192, 0, 2, 3], false).await;
        check(&proof, Transport::Tcp, [192, 0, 2, 3], true).await;
    }

    /// Another server of the site verifies the proofs of its clients, which it limits itself. Everyone else is limited, and so are datagrams
    /// with the address of that server.
    #[tokio::test]
    async fn audit_f3_site_peers_verify_without_limit() {
        let store = MemoryStore::new();
        let key =
            HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(1, "HS_SECKEY", "secret") };
        let put = Edit::Put { name: "10.1/x".into(), values: vec![key], precondition: Precondition::Absent };
        let edits = vec![Edit::Home { prefix: "10.1".into() }, put];
        store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }).await.unwrap();
        let (native, proof) = (site_server(store), invalid_proof());
        // How many of 60 requests are answered with a result.
        let verified = async |transport, client: [u8; 4]| {
            let mut count = 0;
            for _ in 0..60 {
                let message = ClassifiedMessage::new(&proof);
                let client = MessageClient::direct(client.into());
                let reply = native.handle_message(&message, transport, client).await;
                count += u32::from(reply.code == ResponseCode::SUCCESS);
            }
            count
        };
        assert_eq!(verified(Transport::Tcp, [192, 0, 2, 2]).await, 60);
        for (transport, client) in [
            (Transport::Udp, [192, 0, 2, 2]),
            (Transport::Tcp, [192, 0, 2, 3]),
            (Transport::Http, [192, 0, 2, 2]),
        ] {
            let count = verified(transport, client).await;
            // Some more if a second passes.
            assert!((20..30).contains(&count), "{transport:?} {client:?}: {count}");
        }
        assert_eq!(verified(Transport::Tcp, [192, 0, 2, 2]).await, 60);
    }
}

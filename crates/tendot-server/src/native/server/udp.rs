//! UDP worker threads: one per socket; cheap requests are answered inline.
//!
//! A blocking receive needs half as many system calls as readiness notification. Under load, each receives a batch, and all
//! responses are sent after they are built: a client that waits for one of them wakes once.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tendot_proto::endpoint::{RejectionReason, Transport};
use tendot_proto::{Fragments, Reassembly, ReceivedMessage, ResponseCode, limits};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::native::classified_message::ClassifiedMessage;
use crate::native::middleware::amplification::ResponseKind;
use crate::native::middleware::metrics::DropReason;
use crate::native::middleware::rate_limit::MAX_AMPLIFICATION;
use crate::native::server::udp_reply_cache::{ReceivedCopy, UdpReplyCache};
use crate::native::server::udp_socket::{MAX_RECV_BATCH, ReceiveBuffer, UdpBatchSocket, UdpPeer};
use crate::native::{MessageClient, NativeReply, NativeServer};

/// Concurrent responses of one socket that are built elsewhere.
const MAX_IN_FLIGHT: usize = 512;

/// Size of a response that is sent inline; longer ones are sent by a limited number of threads.
const MAX_INLINE_SEND_BYTES: usize = 4 << 10;
const MAX_OFFLOADED_SENDS: usize = 8;

/// Interval between checks for shutdown, and send timeout of a datagram.
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Source ports that clients do not use, but where services may answer anything they receive: echo, daytime, quote of the day,
/// chargen, DNS, NTP, and Handle servers.
const REJECTED_SOURCE_PORTS: [u16; 8] = [0, 7, 13, 17, 19, 53, 123, 2641];

/// Worker thread of one UDP socket.
pub(crate) struct UdpWorker {
    sender: UdpSender,
    reassembly: Reassembly,
    reply_cache: UdpReplyCache,
    in_flight: Arc<Semaphore>,
    /// Responses to the current batch, not yet sent.
    ready_responses: Vec<(Vec<u8>, UdpPeer)>,
}

impl UdpWorker {
    /// Creates a worker with its share of the memory for fragments and replies.
    pub(crate) fn new(native: Arc<NativeServer>, socket: UdpSocket, sockets: usize) -> io::Result<Self> {
        let sender = UdpSender {
            native,
            socket: Arc::new(UdpBatchSocket::new(socket)?),
            send_permits: Arc::new(Semaphore::new(MAX_OFFLOADED_SENDS)),
            runtime: Handle::current(),
        };
        let sockets = sockets.max(1);
        Ok(Self {
            sender,
            reassembly: Reassembly::with_budget(Reassembly::DEFAULT_BUDGET_BYTES / sockets),
            reply_cache: UdpReplyCache::with_budget(UdpReplyCache::DEFAULT_BUDGET_BYTES / sockets),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            ready_responses: Vec::with_capacity(MAX_RECV_BATCH),
        })
    }

    /// Completes when no request of this socket is in flight.
    pub(crate) fn wait_in_flight(&self) -> impl Future<Output = ()> + use<> {
        let (in_flight, sending) = (Arc::clone(&self.in_flight), Arc::clone(&self.sender.send_permits));
        async move {
            for (permits, all) in [(in_flight, MAX_IN_FLIGHT), (sending, MAX_OFFLOADED_SENDS)] {
                let all = u32::try_from(all).unwrap_or(u32::MAX);
                drop(permits.acquire_many(all).await);
            }
        }
    }

    /// Serves datagrams until shutdown.
    pub(crate) fn run(mut self, is_draining: &AtomicBool) -> io::Result<()> {
        // Handlers need a runtime context.
        let runtime = self.sender.runtime.clone();
        let _entered = runtime.enter();
        let socket = Arc::clone(&self.sender.socket);
        socket.socket().set_read_timeout(Some(SHUTDOWN_POLL_INTERVAL))?;
        socket.socket().set_write_timeout(Some(SHUTDOWN_POLL_INTERVAL))?;
        let mut buffer = ReceiveBuffer::new();
        while !is_draining.load(Ordering::Relaxed) {
            // Errors concern no datagram: a timeout, or an ICMP error for an earlier response.
            let _ = self.receive_batch(&socket, &mut buffer);
        }
        // Answer what arrived before the shutdown, within a bound in case of a flood.
        socket.socket().set_nonblocking(true)?;
        let deadline = Instant::now() + SHUTDOWN_POLL_INTERVAL;
        while Instant::now() < deadline && self.receive_batch(&socket, &mut buffer).is_ok() {}
        Ok(())
    }

    fn receive_batch(&mut self, socket: &UdpBatchSocket, buffer: &mut ReceiveBuffer) -> io::Result<()> {
        socket.receive(buffer, |datagram, from| self.handle_datagram(datagram, from))?;
        self.send_ready_responses();
        Ok(())
    }

    fn send_ready_responses(&mut self) {
        for (response, to) in self.ready_responses.drain(..) {
            self.sender.send_fragments(&response, to);
        }
    }

    fn handle_datagram(&mut self, datagram: &[u8], from: UdpPeer) {
        let native = &self.sender.native;
        let client = MessageClient::direct(from.address.ip());
        if REJECTED_SOURCE_PORTS.contains(&from.address.port()) {
            return native.metrics.record_drop(DropReason::SourcePort);
        }
        let now = native.now();
        let message = match self.reassembly.insert(now, from.address, datagram) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(_) => return native.metrics.record_drop(DropReason::Malformed),
        };
        let received = ClassifiedMessage::new(&message);
        let first_copy = if received.is_public_read() {
            if let Some(reply) = native.try_inline(&received, Transport::Udp, client) {
                if let Some(response) = into_response(native, reply) {
                    self.queue_response(response, &message, from);
                }
                return;
            }
            // It changes nothing, and copies get equal replies.
            None
        } else {
            match self.reply_cache.begin(now, from, &message) {
                ReceivedCopy::First(request) => Some(request),
                ReceivedCopy::InFlight => return native.metrics.record_drop(DropReason::Duplicate),
                ReceivedCopy::Answered(_) if native.is_over_budget(client) => {
                    return native.metrics.record_drop(DropReason::CpuLimit);
                }
                ReceivedCopy::Answered(response) => {
                    return self.queue_response(response.to_vec(), &message, from);
                }
            }
        };
        let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            return native.metrics.record_drop(DropReason::Overloaded);
        };
        let (sender, detached, message) =
            (self.sender.clone(), received.without_bytes(), message.into_owned());
        self.sender.runtime.spawn(async move {
            let received = detached.with_bytes(&message);
            let reply = sender.native.handle_message(&received, Transport::Udp, client).await;
            // Cached before it is sent: a copy that arrives later gets it.
            if let (Some(request), Some(response)) = (first_copy, &reply.message)
                && reply.code != ResponseCode::SERVER_TOO_BUSY
            {
                request.finish(sender.native.now(), response);
            }
            if let Some(response) = into_response(&sender.native, reply) {
                sender.send(response, &message, from);
            }
            // The store may be closed as soon as no permit is held.
            drop(sender);
            drop(permit);
        });
    }

    /// Sends the response to a request with those to the current batch, within the limits.
    fn queue_response(&mut self, response: Vec<u8>, request: &[u8], to: UdpPeer) {
        let Some(response) = limit_response(&self.sender.native, response, request, to.address.ip()) else {
            return;
        };
        if response.len() <= MAX_INLINE_SEND_BYTES {
            return self.ready_responses.push((response, to));
        }
        self.sender.send_offloaded(response, to);
    }
}

/// Sending side of a UDP socket.
#[derive(Clone)]
struct UdpSender {
    native: Arc<NativeServer>,
    socket: Arc<UdpBatchSocket>,
    send_permits: Arc<Semaphore>,
    runtime: Handle,
}

impl UdpSender {
    /// Sends the response to a request, within the limits.
    fn send(&self, response: Vec<u8>, request: &[u8], to: UdpPeer) {
        let Some(response) = limit_response(&self.native, response, request, to.address.ip()) else { return };
        if response.len() <= MAX_INLINE_SEND_BYTES {
            return self.send_fragments(&response, to);
        }
        self.send_offloaded(response, to);
    }

    fn send_offloaded(&self, response: Vec<u8>, to: UdpPeer) {
        let Ok(permit) = Arc::clone(&self.send_permits).try_acquire_owned() else {
            return self.native.metrics.record_drop(DropReason::Overloaded);
        };
        let sender = self.clone();
        self.runtime.spawn_blocking(move || {
            sender.send_fragments(&response, to);
            // The store may be closed as soon as no permit is held.
            drop(sender);
            drop(permit);
        });
    }

    fn send_fragments(&self, response: &[u8], to: UdpPeer) {
        let sent = if response.len() <= limits::MAX_DATAGRAM_LEN {
            self.socket.send(response, to).is_ok()
        } else {
            let mut datagrams = Fragments::new(response).into_iter().flatten();
            datagrams.all(|datagram| self.socket.send(&datagram, to).is_ok())
        };
        if !sent {
            self.native.metrics.record_drop(DropReason::SendFailed);
        }
    }
}

/// Message of a reply, if there is one.
fn into_response(native: &NativeServer, reply: NativeReply) -> Option<Vec<u8>> {
    // Other replies without a message have been counted already.
    if reply.message.is_none() && reply.code != ResponseCode::SERVER_TOO_BUSY {
        native.metrics.record_drop(DropReason::NotARequest);
    }
    reply.message
}

/// Response to send within the limits of `middleware/rate_limit.rs` and `middleware/amplification.rs`: the response, an error in its
/// place, or none.
fn limit_response(native: &NativeServer, response: Vec<u8>, request: &[u8], to: IpAddr) -> Option<Vec<u8>> {
    let (to, now) = (to.to_canonical(), Instant::now());
    let response = if native.amplification.is_limited(to, now) {
        limit_unverified(native, response, request, to, now)?
    } else {
        response
    };
    let client = MessageClient::direct(to);
    let Some(rate_limiter) =
        native.rate_limiter.as_ref().filter(|rate_limiter| !rate_limiter.is_exempt(client))
    else {
        return Some(response);
    };
    let is_allowed = rate_limiter.charge_response(to, datagram_count(&response), now)
        || response.len() <= MAX_AMPLIFICATION * request.len();
    if !is_allowed {
        native.metrics.record_drop(DropReason::RateLimit);
    }
    is_allowed.then_some(response)
}

/// Number of datagrams of a message.
fn datagram_count(message: &[u8]) -> usize {
    message.len().saturating_sub(limits::ENVELOPE_LEN).div_ceil(limits::MAX_DATAGRAM_PAYLOAD_LEN).max(1)
}

/// Response to send to an unverified address: one that is too large is replaced by an error, so that the client connects over TCP.
fn limit_unverified(
    native: &NativeServer,
    response: Vec<u8>,
    request: &[u8],
    to: IpAddr,
    now: Instant,
) -> Option<Vec<u8>> {
    let sent = response.len() + limits::ENVELOPE_LEN * datagram_count(&response).saturating_sub(1);
    let limiter = &native.amplification;
    if limiter.charge(to, ResponseKind::Full, request.len(), sent, now) {
        return Some(response);
    }
    native.metrics.record_drop(DropReason::Unverified);
    let received = ReceivedMessage::new(request);
    let (envelope, header) = (*received.envelope().ok()?, received.header().copied());
    let rejection = native.endpoint.reject(envelope, header, RejectionReason::TcpRequired, native.now());
    let error = rejection.response()?;
    limiter.charge(to, ResponseKind::TcpRequired, 0, error.len(), now).then(|| error.to_vec())
}

#[cfg(test)]
mod tests {
    use tendot_proto::auth::{ClientKeyExchange, DhGroup};
    use tendot_proto::crypto::SystemRandom;
    use tendot_proto::record::{Site, SiteServer};
    use tendot_proto::{Message, OpFlags, Opcode, Request};
    use tendot_registry::{Registry, RegistrySettings};
    use tendot_store::MemoryStore;
    use tendot_testing::handle_messages::{now, receive_udp};
    use tendot_testing::{WAIT_TIMEOUT, auth_context};

    use super::*;
    use crate::native::OwnSite;
    use crate::native::native_server::MAX_EXPENSIVE_REQUESTS;

    fn session_setup() -> Vec<u8> {
        let key_exchange =
            ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, auth_context!()).unwrap();
        let request = Request::SessionSetup(key_exchange.request(None, 60));
        let mut message = Message::request(Opcode::SESSION_SETUP, request, 7, now());
        message.header.flags |= OpFlags::CERTIFY;
        message.to_bytes().unwrap()
    }

    /// A copy of a request in flight is dropped, and a later one gets the bytes of the first reply.
    #[tokio::test(flavor = "multi_thread")]
    async fn copies_in_flight_and_answered() {
        let site = Site { servers: vec![SiteServer::default()], ..Site::default() };
        let site = OwnSite::new(site, &OwnSite::generate_key().unwrap()).unwrap();
        let registry = Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default()));
        let native = Arc::new(NativeServer::new(registry, site));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(socket.local_addr().unwrap()).unwrap();
        let from = UdpPeer { address: client.local_addr().unwrap(), local: None };
        let mut worker = UdpWorker::new(Arc::clone(&native), socket, 1).unwrap();
        let send = |worker: &mut UdpWorker, message: &[u8]| {
            for datagram in Fragments::new(message).unwrap() {
                worker.handle_datagram(&datagram, from);
            }
            worker.send_ready_responses();
            MAX_IN_FLIGHT - worker.in_flight.available_permits()
        };
        // Without a permit, the first copy stays in flight.
        let all = u32::try_from(MAX_EXPENSIVE_REQUESTS).unwrap();
        let permits = native.expensive_permits.acquire_many(all).await.unwrap();
        let request = session_setup();
        assert_eq!(send(&mut worker, &request), 1);
        assert_eq!(send(&mut worker, &request), 1);
        drop(permits);
        let response = receive_udp(&client, WAIT_TIMEOUT).unwrap();
        for _ in 0..3 {
            send(&mut worker, &request);
            assert_eq!(receive_udp(&client, WAIT_TIMEOUT).unwrap(), response);
        }
        // Another request with the same request id.
        send(&mut worker, &session_setup());
        assert_ne!(receive_udp(&client, WAIT_TIMEOUT).unwrap(), response);
        worker.wait_in_flight().await;
    }
}

//! UDP worker threads: one per socket; cheap requests are answered inline.
//!
//! A blocking receive needs half as many system calls as readiness notification. Under load, each receives a batch, and all
//! responses are sent after they are built: a client that waits for one of them wakes once.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tendot_proto::endpoint::Transport;
use tendot_proto::{Fragments, Reassembly, ResponseCode, limits};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::native::classified_message::ClassifiedMessage;
use crate::native::middleware::metrics::DropReason;
use crate::native::middleware::rate_limit::MAX_AMPLIFICATION;
use crate::native::server::udp_socket::{MAX_RECV_BATCH, ReceiveBuffer, UdpBatchSocket, UdpPeer};
use crate::native::{NativeReply, NativeServer};

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
    in_flight: Arc<Semaphore>,
    /// Responses to the current batch, not yet sent.
    ready_responses: Vec<(Vec<u8>, UdpPeer)>,
}

impl UdpWorker {
    /// Creates a worker with its share of the reassembly memory.
    pub(crate) fn new(native: Arc<NativeServer>, socket: UdpSocket, sockets: usize) -> io::Result<Self> {
        let sender = UdpSender {
            native,
            socket: Arc::new(UdpBatchSocket::new(socket)?),
            send_permits: Arc::new(Semaphore::new(MAX_OFFLOADED_SENDS)),
            runtime: Handle::current(),
        };
        Ok(Self {
            sender,
            reassembly: Reassembly::with_budget(Reassembly::DEFAULT_BUDGET_BYTES / sockets.max(1)),
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
        for (response, to) in self.ready_responses.drain(..) {
            self.sender.send_fragments(&response, to);
        }
        Ok(())
    }

    fn handle_datagram(&mut self, datagram: &[u8], from: UdpPeer) {
        let native = &self.sender.native;
        let client = from.address.ip();
        if REJECTED_SOURCE_PORTS.contains(&from.address.port()) {
            return native.metrics.record_drop(DropReason::SourcePort);
        }
        let message = match self.reassembly.insert(native.now(), from.address, datagram) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(_) => return native.metrics.record_drop(DropReason::Malformed),
        };
        let received = ClassifiedMessage::new(&message);
        if received.is_public_read()
            && let Some(reply) = native.try_inline(&received, Transport::Udp, client)
        {
            let Some(response) = limit_response(native, reply, message.len(), client) else { return };
            if response.len() <= MAX_INLINE_SEND_BYTES {
                return self.ready_responses.push((response, from));
            }
            return self.sender.send_offloaded(response, from);
        }
        let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            return native.metrics.record_drop(DropReason::Overloaded);
        };
        let (sender, heads, message) = (self.sender.clone(), received.heads(), message.into_owned());
        self.sender.runtime.spawn(async move {
            let received = ClassifiedMessage::with_heads(&message, heads);
            let reply = sender.native.handle_message(&received, Transport::Udp, client).await;
            sender.send(reply, message.len(), from);
            // The store may be closed as soon as no permit is held.
            drop(sender);
            drop(permit);
        });
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
    /// Sends the response to a request of `request_len` bytes, within the rate limits.
    fn send(&self, reply: NativeReply, request_len: usize, to: UdpPeer) {
        let Some(response) = limit_response(&self.native, reply, request_len, to.address.ip()) else {
            return;
        };
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

/// Response if the rate limits allow sending it: see `middleware/rate_limit.rs`.
fn limit_response(
    native: &NativeServer,
    reply: NativeReply,
    request_len: usize,
    to: IpAddr,
) -> Option<Vec<u8>> {
    let Some(response) = reply.message else {
        // Other replies have been counted already.
        if reply.code != ResponseCode::SERVER_TOO_BUSY {
            native.metrics.record_drop(DropReason::NotARequest);
        }
        return None;
    };
    if let Some(rate_limiter) =
        native.rate_limiter.as_ref().filter(|rate_limiter| !rate_limiter.is_exempt(to))
    {
        let datagrams =
            response.len().saturating_sub(limits::ENVELOPE_LEN).div_ceil(limits::MAX_DATAGRAM_PAYLOAD_LEN);
        if !rate_limiter.charge_response(to, datagrams.max(1), Instant::now())
            && response.len() > MAX_AMPLIFICATION * request_len
        {
            native.metrics.record_drop(DropReason::RateLimit);
            return None;
        }
    }
    Some(response)
}

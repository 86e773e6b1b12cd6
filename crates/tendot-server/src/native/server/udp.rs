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

use crate::native::middleware::admission::is_public_read;
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
    room: Arc<Semaphore>,
    /// Responses to the current batch, not yet sent.
    made: Vec<(Vec<u8>, UdpPeer)>,
}

impl UdpWorker {
    /// Creates a worker with its share of the reassembly memory.
    pub(crate) fn new(native: Arc<NativeServer>, socket: UdpSocket, sockets: usize) -> io::Result<Self> {
        let sender = UdpSender {
            native,
            socket: Arc::new(UdpBatchSocket::new(socket)?),
            room: Arc::new(Semaphore::new(MAX_OFFLOADED_SENDS)),
            runtime: Handle::current(),
        };
        Ok(Self {
            sender,
            reassembly: Reassembly::with_budget(Reassembly::DEFAULT_BUDGET_BYTES / sockets.max(1)),
            room: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            made: Vec::with_capacity(MAX_RECV_BATCH),
        })
    }

    /// Completes when no request of this socket is in flight.
    pub(crate) fn wait_in_flight(&self) -> impl Future<Output = ()> + use<> {
        let (making, sending) = (Arc::clone(&self.room), Arc::clone(&self.sender.room));
        async move {
            for (room, all) in [(making, MAX_IN_FLIGHT), (sending, MAX_OFFLOADED_SENDS)] {
                let all = u32::try_from(all).unwrap_or(u32::MAX);
                drop(room.acquire_many(all).await);
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
        let mut room = ReceiveBuffer::new();
        while !is_draining.load(Ordering::Relaxed) {
            // Errors concern no datagram: a timeout, or an ICMP error for an earlier response.
            let _ = self.receive_batch(&socket, &mut room);
        }
        // Answer what arrived before the shutdown, within a bound in case of a flood.
        socket.socket().set_nonblocking(true)?;
        let last = Instant::now() + SHUTDOWN_POLL_INTERVAL;
        while Instant::now() < last && self.receive_batch(&socket, &mut room).is_ok() {}
        Ok(())
    }

    fn receive_batch(&mut self, socket: &UdpBatchSocket, room: &mut ReceiveBuffer) -> io::Result<()> {
        socket.receive(room, |datagram, from| self.handle_datagram(datagram, from))?;
        for (answer, to) in self.made.drain(..) {
            self.sender.send_fragments(&answer, to);
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
        if is_public_read(&message)
            && let Some(reply) = native.try_inline(&message, Transport::Udp, client)
        {
            let Some(answer) = check_amplification(native, reply, message.len(), client) else { return };
            if answer.len() <= MAX_INLINE_SEND_BYTES {
                return self.made.push((answer, from));
            }
            return self.sender.send_offloaded(answer, from);
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return native.metrics.record_drop(DropReason::Overloaded);
        };
        let (sender, message) = (self.sender.clone(), message.into_owned());
        self.sender.runtime.spawn(async move {
            let reply = sender.native.handle_message(&message, Transport::Udp, client).await;
            sender.send(reply, message.len(), from);
            drop(permit);
        });
    }
}

/// Sending side of a UDP socket.
#[derive(Clone)]
struct UdpSender {
    native: Arc<NativeServer>,
    socket: Arc<UdpBatchSocket>,
    room: Arc<Semaphore>,
    runtime: Handle,
}

impl UdpSender {
    /// Sends the response to a request of `asked` bytes, within the rate limits.
    fn send(&self, reply: NativeReply, asked: usize, to: UdpPeer) {
        let Some(answer) = check_amplification(&self.native, reply, asked, to.address.ip()) else { return };
        if answer.len() <= MAX_INLINE_SEND_BYTES {
            return self.send_fragments(&answer, to);
        }
        self.send_offloaded(answer, to);
    }

    fn send_offloaded(&self, answer: Vec<u8>, to: UdpPeer) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return self.native.metrics.record_drop(DropReason::Overloaded);
        };
        let sender = self.clone();
        self.runtime.spawn_blocking(move || {
            sender.send_fragments(&answer, to);
            drop(permit);
        });
    }

    fn send_fragments(&self, answer: &[u8], to: UdpPeer) {
        let sent = if answer.len() <= limits::MAX_DATAGRAM_LEN {
            self.socket.send(answer, to).is_ok()
        } else {
            let mut datagrams = Fragments::new(answer).into_iter().flatten();
            datagrams.all(|datagram| self.socket.send(&datagram, to).is_ok())
        };
        if !sent {
            self.native.metrics.record_drop(DropReason::SendFailed);
        }
    }
}

/// Response that the receiver may be sent: see `middleware/rate_limit.rs`.
fn check_amplification(
    native: &NativeServer,
    reply: NativeReply,
    asked: usize,
    to: IpAddr,
) -> Option<Vec<u8>> {
    let Some(answer) = reply.message else {
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
            answer.len().saturating_sub(limits::ENVELOPE_LEN).div_ceil(limits::MAX_DATAGRAM_PAYLOAD_LEN);
        if !rate_limiter.charge_response(to, datagrams.max(1), Instant::now())
            && answer.len() > MAX_AMPLIFICATION * asked
        {
            native.metrics.record_drop(DropReason::RateLimit);
            return None;
        }
    }
    Some(answer)
}

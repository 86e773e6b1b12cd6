//! Datagrams: taken as they come, answered at once if that takes no time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tendot_proto::endpoint::Transport;
use tendot_proto::{Fragments, Reassembly, ResponseCode, limits};
use tendot_store::Store;
use tokio::net::UdpSocket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::fair::is_light;
use super::metrics::Dropped;
use super::rate::AMPLIFICATION;
use super::{Native, Reply};

/// Datagrams that are looked at before others have their turn.
const TURN: usize = 64;

/// Answers of one socket that are being made, or wait to be sent.
const UNDER_WAY: usize = 512;

/// Bytes that are read of a datagram. No message has more than 512; of what is longer enough is seen to know it.
const ROOM: usize = 2 << 10;

/// Ports that nobody asks from, but where services answer whatever comes: echo, daytime, quote of the day, chargen, DNS,
/// NTP, and our own kind.
const NOT_ASKING: [u16; 8] = [0, 7, 13, 17, 19, 53, 123, 2641];

/// One socket of several with the same address.
pub(super) struct Datagrams<S> {
    native: Arc<Native<S>>,
    socket: Arc<UdpSocket>,
    reassembly: Reassembly,
    room: Arc<Semaphore>,
}

impl<S: Store + 'static> Datagrams<S> {
    /// With a share of the memory in which long requests are put together.
    pub(super) fn new(native: Arc<Native<S>>, socket: UdpSocket, sockets: usize) -> Self {
        Self {
            native,
            socket: Arc::new(socket),
            reassembly: Reassembly::with_budget(Reassembly::BUDGET / sockets.max(1)),
            room: Arc::new(Semaphore::new(UNDER_WAY)),
        }
    }

    /// Answers until the end, and then waits for what is under way.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => break,
                readable = self.socket.readable() => if readable.is_err() { break },
            }
            self.turn();
            // Others wait, too.
            tokio::task::yield_now().await;
        }
        // What came before the end is answered.
        self.turn();
        let all = u32::try_from(UNDER_WAY).unwrap_or(u32::MAX);
        drop(self.room.acquire_many(all).await);
    }

    fn turn(&mut self) {
        let mut room = [0; ROOM];
        for _ in 0..TURN {
            match self.socket.try_recv_from(&mut room) {
                Ok((length, from)) => self.take(&room[..length], from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What comes back of an answer that nobody wanted is an error of the next call, and says nothing of it.
                Err(_) => {}
            }
        }
    }

    fn take(&mut self, datagram: &[u8], from: SocketAddr) {
        let native = &self.native;
        if NOT_ASKING.contains(&from.port()) {
            return native.metrics.dropped(Dropped::Port);
        }
        let message = match self.reassembly.insert(native.now(), from, datagram) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(_) => return native.metrics.dropped(Dropped::Malformed),
        };
        if is_light(&message)
            && let Some(reply) = native.answer_at_once(&message, Transport::Udp, from.ip())
        {
            return self.send(reply, message.len(), from);
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return native.metrics.dropped(Dropped::Busy);
        };
        let (native, socket, message) = (Arc::clone(native), Arc::clone(&self.socket), message.into_owned());
        tokio::spawn(async move {
            let reply = native.answer_fairly(&message, Transport::Udp, from.ip()).await;
            if let Some(answer) = allowed(&native, reply, message.len(), from.ip()) {
                send_all(&native, &socket, &answer, from).await;
            }
            drop(permit);
        });
    }

    /// Sends an answer at once as far as the system has room for it, and the rest in its time.
    fn send(&self, reply: Reply, asked: usize, to: SocketAddr) {
        let Some(answer) = allowed(&self.native, reply, asked, to.ip()) else { return };
        if answer.len() <= limits::DATAGRAM && self.socket.try_send_to(&answer, to).is_ok() {
            return;
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return self.native.metrics.dropped(Dropped::Unsent);
        };
        let (native, socket) = (Arc::clone(&self.native), Arc::clone(&self.socket));
        tokio::spawn(async move {
            let _permit: OwnedSemaphorePermit = permit;
            send_all(&native, &socket, &answer, to).await;
        });
    }
}

/// The answer, if its receiver may have it: see `rate.rs`.
fn allowed<S: Store>(native: &Native<S>, reply: Reply, asked: usize, to: IpAddr) -> Option<Vec<u8>> {
    let Some(answer) = reply.message else {
        // The others have been counted.
        if reply.code != ResponseCode::SERVER_TOO_BUSY {
            native.metrics.dropped(Dropped::NotAnswered);
        }
        return None;
    };
    if let Some(limiter) = native.limiter.as_ref().filter(|limiter| !limiter.spares(to)) {
        let datagrams = answer.len().saturating_sub(limits::ENVELOPE).div_ceil(limits::DATAGRAM_PAYLOAD);
        if !limiter.takes_answer(to, datagrams.max(1), Instant::now()) && answer.len() > AMPLIFICATION * asked
        {
            native.metrics.dropped(Dropped::Rate);
            return None;
        }
    }
    Some(answer)
}

async fn send_all<S: Store>(native: &Native<S>, socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    let Ok(datagrams) = Fragments::new(answer) else { return };
    for datagram in datagrams {
        if socket.send_to(&datagram, to).await.is_err() {
            return native.metrics.dropped(Dropped::Unsent);
        }
    }
}

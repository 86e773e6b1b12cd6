//! Who has had their share, and where hard work is done.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tendot_proto::endpoint::Transport;
use tendot_proto::{Envelope, Header, Message, OpFlags, Opcode, Outcome, ResponseCode, limits};
use tendot_store::Store;
use tokio::runtime::Handle;

use super::metrics::Dropped;
use super::{Native, Reply};

/// Steps that are too few to be counted.
const LITTLE: u32 = 500;

/// Bytes of one body after which no further message is put into it.
const BODY: usize = 1 << 20;

impl<S: Store + 'static> Native<S> {
    /// Answers a message, unless its source has had its share of work.
    ///
    /// What takes long (a signature, a key, a proof) is done apart from everything else, and not more of it at the same
    /// time than there are cores.
    pub(crate) async fn answer_fairly(
        self: &Arc<Self>,
        message: &[u8],
        transport: Transport,
        client: IpAddr,
    ) -> Reply {
        if is_light(message) {
            return self.answer_light(message, transport, client).await;
        }
        let limiter = self.limiter.as_ref().filter(|limiter| !limiter.spares(client));
        if limiter.is_some_and(|limiter| !limiter.takes_work(client, Instant::now())) {
            self.metrics.dropped(Dropped::Work);
            return self.too_busy(message, transport);
        }
        let Ok(permit) = self.workers.acquire().await else { return self.too_busy(message, transport) };
        let (native, copy) = (Arc::clone(self), message.to_vec());
        let worked = tokio::task::spawn_blocking(move || {
            Handle::current().block_on(native.answer(&copy, transport, client))
        });
        let reply = worked.await;
        drop(permit);
        let Ok(reply) = reply else { return self.too_busy(message, transport) };
        if let Some(limiter) = limiter {
            limiter.worked(client, reply.cost, Instant::now());
        }
        reply
    }

    /// All messages of an answer, as far as one body goes.
    pub(crate) async fn answer_whole(
        self: &Arc<Self>,
        message: &[u8],
        transport: Transport,
        client: IpAddr,
    ) -> Option<Vec<u8>> {
        let mut reply = self.answer_fairly(message, transport, client).await;
        let mut whole = reply.message?;
        // What is left out has been announced.
        while whole.len() < BODY
            && let Some(listing) = reply.more.take()
        {
            reply = self.next(listing).await?;
            whole.append(&mut reply.message?);
        }
        Some(whole)
    }

    /// Answers a message for which [`is_light`] holds. It can be given up at any time.
    pub(super) async fn answer_light(&self, message: &[u8], transport: Transport, client: IpAddr) -> Reply {
        let reply = self.answer(message, transport, client).await;
        if reply.cost > LITTLE
            && let Some(limiter) = self.limiter.as_ref().filter(|limiter| !limiter.spares(client))
        {
            limiter.worked(client, reply.cost, Instant::now());
        }
        reply
    }

    /// Somebody over UDP gets no answer: it would end the client's attempt, and its address may be another's.
    fn too_busy(&self, message: &[u8], transport: Transport) -> Reply {
        let mut reply = Reply::silence(ResponseCode::SERVER_TOO_BUSY);
        if transport != Transport::Udp
            && let Ok(incoming) = self.endpoint.read(message, transport, self.now())
        {
            let outcome =
                Outcome::Failed { message: Some(b"you have had your share of work; wait a little") };
            let response: Message<'_> = incoming.respond(ResponseCode::SERVER_TOO_BUSY, outcome);
            reply.message = response.to_bytes().ok();
        }
        reply
    }
}

/// Whether a message takes next to no time, and changes nothing: a question for public values, or for the site, that is to be
/// answered unsigned.
pub(super) fn is_light(message: &[u8]) -> bool {
    let Ok(envelope) = Envelope::from_bytes(message) else { return true };
    let header = message.get(limits::ENVELOPE..).map(Header::from_bytes);
    let Some(Ok((header, _))) = header else { return true };
    let heavy = OpFlags::CERTIFY.0 | OpFlags::REQUEST_DIGEST.0;
    let is_question = header.opcode == Opcode::RESOLUTION && header.flags.has(OpFlags::PUBLIC_ONLY)
        || header.opcode == Opcode::GET_SITE_INFO;
    envelope.session_id == 0 && is_question && header.flags.0 & heavy == 0
}

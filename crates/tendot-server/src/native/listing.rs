//! Lists: as many messages as it takes, each made when the one before is sent.

use tendot_proto::endpoint::{Incoming, Transport};
use tendot_proto::wire::List;
use tendot_proto::{OpFlags, Outcome, ResponseCode, limits};
use tendot_registry::{Caller, Error, Operation, Page};

use super::dispatch::whole;
use super::operation::operation;
use super::{Native, NativeReply};

/// The rest of a list.
#[derive(Debug)]
pub(super) struct Listing {
    request: Vec<u8>,
    /// That of the answer to a challenge, if there was one.
    request_id: u32,
    transport: Transport,
    caller: Caller,
    after: Box<str>,
}

impl Native {
    /// Lists names, or prefixes, from `after` on: one message of them.
    pub(super) async fn list(
        &self,
        incoming: &mut Incoming<'_>,
        caller: &Caller,
        after: Option<&str>,
    ) -> NativeReply {
        let Page { names, next } = match self.page(incoming, caller, after).await {
            Ok(page) => page,
            Err(error) => return self.refuse(incoming, &error),
        };
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let mut response = incoming.respond(ResponseCode::SUCCESS, Outcome::Handles(List::from(&names[..])));
        if next.is_some() {
            response.header.flags = response.header.flags.with(OpFlags::CONTINUOUS);
        }
        let mut reply = self.send(incoming, response);
        reply.more = next.map(|after| Listing {
            request: whole(&incoming.parts),
            request_id: incoming.message.envelope.request_id,
            transport: incoming.transport,
            caller: caller.clone(),
            after,
        });
        reply
    }

    /// The next message of a list. None if it cannot be had: then the list was not complete, and its reader knows, since
    /// more was announced.
    pub(super) async fn next(&self, listing: Listing) -> Option<NativeReply> {
        let mut incoming = self.endpoint.read(&listing.request, listing.transport, self.now()).ok()?;
        incoming.message.envelope.request_id = listing.request_id;
        Some(self.list(&mut incoming, &listing.caller, Some(&listing.after)).await)
    }

    /// So many names as a message has, if there are so many.
    async fn page(
        &self,
        incoming: &mut Incoming<'_>,
        caller: &Caller,
        after: Option<&str>,
    ) -> Result<Page, Error> {
        let mut scratch = Vec::new();
        let message = incoming.message;
        let operation = operation(&message, &mut scratch);
        let mut found = Page { names: Vec::new(), next: after.map(Into::into) };
        loop {
            let (after, limit) = (found.next.as_deref(), limits::LIST_BATCH_HANDLES - found.names.len());
            let work = &mut incoming.work;
            let page = match operation {
                Some(Operation::List(prefix)) => {
                    self.registry.list(prefix, after, limit, caller, work).await?
                }
                _ => self.registry.list_homed(after, limit, caller, work).await?,
            };
            found.names.extend(page.names);
            found.next = page.next;
            // Names that have ended are left out, so there may be too few.
            if found.next.is_none() || found.names.len() >= limits::LIST_BATCH_HANDLES {
                return Ok(found);
            }
        }
    }
}

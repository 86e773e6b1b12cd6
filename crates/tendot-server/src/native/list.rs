//! List responses, in as many messages as needed; each is built when the one before has been sent.

use tendot_proto::endpoint::{IncomingRequest, Transport};
use tendot_proto::wire::WireList;
use tendot_proto::{Budget, OpFlags, ResponseCode, ResponseData, limits};
use tendot_registry::{Caller, Error, HandleOperation, ResultPage};

use crate::native::operation::NativeOperation;
use crate::native::{NativeReply, NativeServer};

/// Remaining part of a list response.
#[derive(Debug)]
pub(crate) struct ListContinuation {
    request: Vec<u8>,
    /// Request id of the list request, or of the challenge response.
    request_id: u32,
    transport: Transport,
    caller: Caller,
    after: Box<str>,
}

impl NativeServer {
    /// First message of a list of names or prefixes after `after`.
    pub(crate) async fn list(
        &self,
        incoming: &mut IncomingRequest<'_>,
        operation: &HandleOperation<'_>,
        caller: &Caller,
        after: Option<&str>,
    ) -> Result<NativeReply, Error> {
        let budget = &mut incoming.budget;
        let ResultPage { items: names, next } = self.list_page(operation, caller, after, budget).await?;
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let mut response =
            incoming.respond(ResponseCode::SUCCESS, ResponseData::Handles(WireList::from(&names[..])));
        if next.is_some() {
            response.header.flags |= OpFlags::CONTINUOUS;
        }
        let mut reply = self.seal(incoming, response);
        reply.continuation = next.map(|after| {
            Box::new(ListContinuation {
                request: incoming.parts.to_bytes(),
                request_id: incoming.request_id,
                transport: incoming.transport,
                caller: caller.clone(),
                after,
            })
        });
        Ok(reply)
    }

    /// Next message of a list. `None` if it cannot be built: the list is then incomplete, which the client notices because more
    /// was announced.
    pub(crate) async fn next_list_message(&self, continuation: Box<ListContinuation>) -> Option<NativeReply> {
        let mut incoming =
            self.endpoint.decode_request(&continuation.request, continuation.transport, self.now()).ok()?;
        incoming.request_id = continuation.request_id;
        let mut scratch = Vec::new();
        let operation = NativeOperation::from_request(&incoming, &mut scratch)?;
        let (caller, after) = (&continuation.caller, Some(&*continuation.after));
        let listed = self.list(&mut incoming, operation.authorized_as()?, caller, after).await;
        Some(listed.unwrap_or_else(|error| self.registry_error(&mut incoming, &error)))
    }

    /// Collects the names of one message.
    async fn list_page(
        &self,
        operation: &HandleOperation<'_>,
        caller: &Caller,
        after: Option<&str>,
        budget: &mut Budget,
    ) -> Result<ResultPage<Box<str>>, Error> {
        let mut found = ResultPage { items: Vec::new(), next: after.map(Into::into) };
        loop {
            let (after, limit) = (found.next.as_deref(), limits::LIST_BATCH_HANDLES - found.items.len());
            let page = match operation {
                HandleOperation::List(prefix) => {
                    self.registry.list_handles(*prefix, after, limit, caller, budget).await?
                }
                _ => self.registry.list_homed_prefixes(after, limit, caller, budget).await?,
            };
            // Longer names exist over HTTP only.
            found.items.extend(page.items.into_iter().filter(|name| name.len() <= limits::MAX_HANDLE_LEN));
            found.next = page.next;
            // Retired names are left out, so a page may be short.
            if found.next.is_none() || found.items.len() >= limits::LIST_BATCH_HANDLES {
                return Ok(found);
            }
        }
    }
}

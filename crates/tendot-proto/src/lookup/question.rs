use alloc::vec::Vec;
use core::fmt;

use crate::error::EncodeError;
use crate::handle::Handle;
use crate::limits;
use crate::message::{
    CredentialSection, Envelope, Message, MessageBody, MessageHeader, OpFlags, Opcode, ProtocolVersion,
    Request,
};
use crate::record::{InterfaceKind, Site};
use crate::time::Now;
use crate::wire::{WireList, WireWriter};

/// Request and the handle whose servers are queried.
///
/// ```
/// use tendot_proto::lookup::LookupRequest;
/// use tendot_proto::{Handle, Opcode, Request};
///
/// let all = LookupRequest::resolve(Handle::from("10.1000/182"), &[], &[]);
/// let links = LookupRequest::resolve(Handle::from("10.1000/182"), &[], &[b"URL"]);
/// assert_ne!(all, links);
///
/// let handle = Handle::from("10.1000/182");
/// let delete = LookupRequest::new(handle, Opcode::DELETE_HANDLE, &Request::Named { handle });
/// assert_eq!(delete.handle(), handle);
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct LookupRequest {
    handle: Vec<u8>,
    opcode: Opcode,
    flags: OpFlags,
    body: Vec<u8>,
}

impl LookupRequest {
    /// Any request, to be answered by the servers of `handle`.
    pub fn new(handle: Handle<'_>, opcode: Opcode, request: &Request<'_>) -> Self {
        let mut body = Vec::new();
        request.encode(ProtocolVersion::LATEST, &mut WireWriter::new(&mut body));
        Self { handle: handle.as_bytes().to_vec(), opcode, flags: OpFlags::DEFAULT, body }
    }

    /// The values of a record that have one of the indexes or one of the types; all of them when neither is given.
    pub fn resolve(handle: Handle<'_>, indexes: &[u32], types: &[&[u8]]) -> Self {
        let request =
            Request::Resolve { handle, indexes: WireList::from(indexes), types: WireList::from(types) };
        Self::new(handle, Opcode::RESOLUTION, &request)
    }

    /// The same with other flags than [`OpFlags::DEFAULT`].
    #[must_use]
    pub fn with_flags(self, flags: OpFlags) -> Self {
        Self { flags, ..self }
    }

    /// The handle whose servers are asked.
    pub fn handle(&self) -> Handle<'_> {
        Handle::new(&self.handle)
    }

    /// What is asked for.
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// How it is to be done.
    pub const fn flags(&self) -> OpFlags {
        self.flags
    }

    /// The same with an answer that is signed, and has the digest of what was asked: the signature covers the number of
    /// the request, but who is on the way can ask something else under the same number, and pass on that answer.
    #[must_use]
    pub(super) fn with_signature(self) -> Self {
        let flags = self.flags.with(OpFlags::CERTIFY).with(OpFlags::REQUEST_DIGEST);
        self.with_flags(flags)
    }

    /// Whether the answer must be signed.
    pub(super) const fn requires_signature(&self) -> bool {
        self.flags.has(OpFlags::CERTIFY)
    }

    /// Changes are made at primary sites only, and so are questions that want to be sure.
    pub(super) fn requires_primary(&self) -> bool {
        self.opcode.is_admin() || self.flags.has(OpFlags::AUTHORITATIVE)
    }

    /// Whether it does no harm to ask several servers, or one twice: only what changes nothing, and leaves nothing
    /// behind at the server. A session would be set up twice, and the answer to a challenge is good once.
    pub(super) const fn is_idempotent(&self) -> bool {
        matches!(self.opcode, Opcode::RESOLUTION | Opcode::GET_SITE_INFO | Opcode::VERIFY_CHALLENGE)
    }

    /// Whether it may go over UDP, where `single` says so even if it goes only once.
    pub(super) const fn is_udp_allowed(&self, single: bool) -> bool {
        self.is_idempotent() || single && !self.opcode.is_admin()
    }

    /// Whether an interface takes such requests.
    pub(super) fn is_accepted_by(&self, kind: InterfaceKind) -> bool {
        if self.opcode.is_admin() {
            kind.is_admin()
        } else if self.opcode.is_query() {
            kind.is_query()
        } else {
            kind.is_admin() || kind.is_query()
        }
    }

    /// The request for a server of a site.
    pub(super) fn to_bytes(
        &self,
        site: &Site<'_>,
        request_id: u32,
        depth: u32,
        now: Now,
    ) -> Result<Vec<u8>, EncodeError> {
        let version = ProtocolVersion::new(site.protocol_major, site.protocol_minor);
        let recursion_count = u8::try_from(depth).unwrap_or(u8::MAX).min(limits::MAX_RECURSION_COUNT);
        Message {
            envelope: Envelope { request_id, ..Envelope::new(version.negotiated()) },
            header: MessageHeader {
                flags: self.flags,
                site_serial: site.serial,
                recursion_count,
                ..MessageHeader::for_request(self.opcode, now)
            },
            // Encoded already; only requests for transactions depend on the version, and they go to no handle.
            body: MessageBody::Request(Request::Unknown(&self.body)),
            body_rest: &[],
            tail: CredentialSection::Empty,
        }
        .to_bytes()
    }
}

/// Without the bytes of the request: they may hold secrets.
impl fmt::Debug for LookupRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("handle", &self.handle())
            .field("opcode", &self.opcode)
            .field("flags", &self.flags)
            .field("body_length", &self.body.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn versions() {
        check_version((0, 0), (2, 0));
        check_version((2, 3), (2, 3));
        check_version((2, 6), (2, 4));
        check_version((5, 0), (2, 0));
        check_version((9, 9), (2, 11));
    }

    #[test]
    fn what_may_be_repeated() {
        for opcode in Opcode::ALL.iter().copied().chain([Opcode(999)]) {
            let handle = Handle::from("10.1000/182");
            let question = LookupRequest::new(handle, opcode, &Request::Named { handle });
            assert_eq!(question.is_idempotent(), [1, 2, 201].contains(&opcode.0), "{opcode}");
            assert_eq!(question.is_udp_allowed(false), question.is_idempotent(), "{opcode}");
            assert_eq!(question.is_udp_allowed(true), !opcode.is_admin(), "{opcode}");
        }
    }

    #[track_caller]
    fn check_version(of_site: (u8, u8), spoken: (u8, u8)) {
        let site = Site { protocol_major: of_site.0, protocol_minor: of_site.1, ..Site::default() };
        let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
        let question = LookupRequest::resolve(Handle::from("10.1000/182"), &[], &[]);
        let request = question.to_bytes(&site, 7, 0, now).unwrap();
        let envelope = Envelope::from_bytes(&request).unwrap();
        assert_eq!(envelope.version, ProtocolVersion::new(spoken.0, spoken.1));
        assert_eq!(envelope.suggestion, ProtocolVersion::LATEST);
    }
}

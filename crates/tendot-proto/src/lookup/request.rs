//! Request of a lookup.

use alloc::vec::Vec;
use core::fmt;

use crate::error::EncodeError;
use crate::handle::Handle;
use crate::limits;
use crate::message::{
    CredentialSection, Envelope, Message, MessageBody, MessageHeader, OpFlags, Opcode, ProtocolVersion,
    Request,
};
use crate::now::Now;
use crate::record::{InterfaceKind, Site};
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
/// let delete = LookupRequest::new(handle, Opcode::DELETE_HANDLE, &Request::HandleOnly { handle });
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
    /// Any request, for the servers of `handle`.
    pub fn new(handle: Handle<'_>, opcode: Opcode, request: &Request<'_>) -> Self {
        let mut body = Vec::new();
        request.encode(ProtocolVersion::LATEST, &mut WireWriter::new(&mut body));
        Self { handle: handle.as_bytes().to_vec(), opcode, flags: OpFlags::DEFAULT, body }
    }

    /// Resolution of the values with one of the indexes or types; all values if neither is given.
    pub fn resolve(handle: Handle<'_>, indexes: &[u32], types: &[&[u8]]) -> Self {
        let request =
            Request::Resolve { handle, indexes: WireList::from(indexes), types: WireList::from(types) };
        Self::new(handle, Opcode::RESOLUTION, &request)
    }

    /// Replaces the flags, which are [`OpFlags::DEFAULT`] by default.
    #[must_use]
    pub fn with_flags(self, flags: OpFlags) -> Self {
        Self { flags, ..self }
    }

    /// Handle whose servers are queried.
    pub fn handle(&self) -> Handle<'_> {
        Handle::new(&self.handle)
    }

    /// Operation code.
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Operation flags.
    pub const fn flags(&self) -> OpFlags {
        self.flags
    }

    /// Requires a signed response with the request digest. The signature covers the request id, but without the digest
    /// a man in the middle could send another request with the same id and pass on its response.
    #[must_use]
    pub(super) fn with_signature(self) -> Self {
        let flags = self.flags | OpFlags::CERTIFY | OpFlags::REQUEST_DIGEST;
        self.with_flags(flags)
    }

    /// Whether the response must be signed.
    pub(super) const fn requires_signature(&self) -> bool {
        self.flags.contains(OpFlags::CERTIFY)
    }

    /// Whether a primary site is required: for writes and authoritative requests.
    pub(super) fn requires_primary(&self) -> bool {
        self.opcode.is_admin() || self.flags.contains(OpFlags::AUTHORITATIVE)
    }

    /// Whether the request may be sent to several servers or twice: it changes no state. Session setup would create two
    /// sessions, and a challenge response is valid once.
    pub(super) const fn is_idempotent(&self) -> bool {
        matches!(self.opcode, Opcode::RESOLUTION | Opcode::GET_SITE_INFO | Opcode::VERIFY_CHALLENGE)
    }

    /// Whether UDP is allowed; `allow_single` allows it for requests that are sent only once.
    pub(super) const fn is_udp_allowed(&self, allow_single: bool) -> bool {
        self.is_idempotent() || allow_single && !self.opcode.is_admin()
    }

    /// Whether an interface accepts the request.
    pub(super) fn is_accepted_by(&self, kind: InterfaceKind) -> bool {
        if self.opcode.is_admin() {
            kind.is_admin()
        } else if self.opcode.is_query() {
            kind.is_query()
        } else {
            kind.is_admin() || kind.is_query()
        }
    }

    /// Encodes the request for a server of a site.
    pub(super) fn to_bytes(
        &self,
        site: &Site<'_>,
        request_id: u32,
        depth: u32,
        now: Now,
    ) -> Result<Vec<u8>, EncodeError> {
        let recursion_count = u8::try_from(depth).unwrap_or(u8::MAX).min(limits::MAX_RECURSION_COUNT);
        Message {
            envelope: Envelope { request_id, ..Envelope::new(site.protocol_version.negotiated()) },
            header: MessageHeader {
                flags: self.flags,
                site_serial: site.serial,
                recursion_count,
                ..MessageHeader::for_request(self.opcode, now)
            },
            // Encoded before; only transaction requests depend on the version, and they have no handle.
            body: MessageBody::Request(Request::Unknown(&self.body)),
            trailing_body: &[],
            credential_section: CredentialSection::Empty,
        }
        .to_bytes()
    }
}

/// Without the bytes of the request, which may contain secrets.
impl fmt::Debug for LookupRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookupRequest")
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
    fn negotiated_versions() {
        check_version((0, 0), (2, 0));
        check_version((2, 3), (2, 3));
        check_version((2, 6), (2, 4));
        check_version((5, 0), (2, 0));
        check_version((9, 9), (2, 11));
    }

    #[test]
    fn idempotent_opcodes() {
        for opcode in Opcode::ALL.iter().copied().chain([Opcode(999)]) {
            let handle = Handle::from("10.1000/182");
            let request = LookupRequest::new(handle, opcode, &Request::HandleOnly { handle });
            assert_eq!(request.is_idempotent(), [1, 2, 201].contains(&opcode.0), "{opcode}");
            assert_eq!(request.is_udp_allowed(false), request.is_idempotent(), "{opcode}");
            assert_eq!(request.is_udp_allowed(true), !opcode.is_admin(), "{opcode}");
        }
    }

    /// However many records led to a request, its count is within the limit.
    #[test]
    fn recursion_counts() {
        let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
        let request = LookupRequest::resolve(Handle::from("10.1000/182"), &[], &[]);
        for (depth, count) in [(0, 0), (9, 9), (10, 10), (11, 10), (255, 10), (256, 10), (u32::MAX, 10)] {
            let bytes = request.to_bytes(&Site::default(), 7, depth, now).unwrap();
            assert_eq!(Message::from_bytes(&bytes).unwrap().header.recursion_count, count, "{depth}");
        }
    }

    #[track_caller]
    fn check_version(of_site: (u8, u8), negotiated: (u8, u8)) {
        let site = Site { protocol_version: ProtocolVersion::new(of_site.0, of_site.1), ..Site::default() };
        let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
        let request = LookupRequest::resolve(Handle::from("10.1000/182"), &[], &[]);
        let bytes = request.to_bytes(&site, 7, 0, now).unwrap();
        let envelope = Envelope::from_bytes(&bytes).unwrap();
        assert_eq!(envelope.version, ProtocolVersion::new(negotiated.0, negotiated.1));
        assert_eq!(envelope.suggested_version, ProtocolVersion::LATEST);
    }
}

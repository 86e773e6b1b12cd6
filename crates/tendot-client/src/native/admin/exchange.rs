//! Exchange with the server: request, challenge, validated response.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use tendot_proto::auth::{AuthContext, AuthPolicy, ChallengeResponse, verify_message_signature};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom, random_id};
use tendot_proto::message::ExpectedResponse;
use tendot_proto::record::InterfaceProtocol;
use tendot_proto::{
    Budget, CredentialSection, Envelope, Handle, Message, MessageBody, MessageHeader, MessageParts, OpFlags,
    Opcode, ProtocolVersion, Request, Response, ResponseCode, ResponseData,
};

use super::connection::{AdminConnection, AdminConnectionError};
use super::session::SecureSession;
use super::{AdminIdentity, AdminServer};
use crate::native::clock::Clock;
use crate::native::error::server_message;
use crate::native::{AdminError, TransportAddress};

/// Encoded request, and the properties that its response must have.
pub(super) struct OutgoingRequest<'a> {
    pub(super) bytes: &'a [u8],
    /// Opcode that the response must have: for a challenge response, that of the original request.
    pub(super) opcode: Opcode,
    /// Whether the response may have several messages, which HTTP cannot carry.
    pub(super) is_list: bool,
}

/// Response whose request id, opcode and expiration have been checked; decrypted.
pub(super) struct ValidatedResponse {
    pub(super) bytes: Vec<u8>,
    pub(super) code: ResponseCode,
    server: TransportAddress,
    /// Whether the session or a signature authenticates it.
    is_authenticated: bool,
    /// Whether more messages follow.
    has_more: bool,
    session_id: u32,
}

/// Authenticated exchange of messages with one server.
#[derive(Debug)]
pub(super) struct AdminChannel {
    pub(super) server: AdminServer,
    pub(super) identity: AdminIdentity,
    pub(super) policy: AuthPolicy,
    pub(super) requires_signature: bool,
    pub(super) session: Option<SecureSession>,
    clock: Clock,
}

impl AdminChannel {
    pub(super) fn new(server: AdminServer, identity: AdminIdentity) -> Self {
        Self {
            server,
            identity,
            policy: AuthPolicy::default(),
            requires_signature: false,
            session: None,
            clock: Clock::new(),
        }
    }

    /// Context of cryptographic operations with this budget.
    pub(super) fn auth<'b>(&self, budget: &'b mut Budget) -> AuthContext<'b> {
        AuthContext::new(&AwsLcProvider, self.policy, budget)
    }

    /// Encodes a request for the current session, if there is one; it is not sealed yet.
    pub(super) fn encode_request(
        &self,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
    ) -> Result<Vec<u8>, AdminError> {
        let session_id = self.session.as_ref().map_or(0, |secure| secure.session.id());
        self.encode_message(session_id, opcode, flags, request)
    }

    fn encode_message(
        &self,
        session_id: u32,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
    ) -> Result<Vec<u8>, AdminError> {
        let envelope = Envelope {
            session_id,
            request_id: random_id(&mut SystemRandom),
            ..Envelope::new(self.server.protocol_version())
        };
        let header = MessageHeader {
            flags,
            site_serial: self.server.site().serial,
            ..MessageHeader::for_request(opcode, self.clock.now())
        };
        let message = Message {
            envelope,
            header,
            body: MessageBody::Request(request),
            trailing_body: &[],
            credential_section: CredentialSection::Empty,
        };
        Ok(message.to_bytes()?)
    }

    /// Executes an operation, answering a challenge if there is one; returns the successful response.
    pub(super) async fn execute(
        &mut self,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
        handle: Handle<'_>,
    ) -> Result<Vec<u8>, AdminError> {
        let mut ignore = |_: &[u8]| ControlFlow::Continue(());
        self.execute_list(opcode, flags, request, handle, false, &mut ignore).await
    }

    /// Like [`execute`](Self::execute), for a response that may have several messages: calls `on_message` for each.
    pub(super) async fn execute_list(
        &mut self,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
        handle: Handle<'_>,
        is_list: bool,
        on_message: &mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send),
    ) -> Result<Vec<u8>, AdminError> {
        let flags = self.operation_flags(flags);
        let has_private_values = match request {
            Request::WriteValues { values, .. } => values.iter().any(|value| !value.is_public()),
            _ => false,
        };
        let request = self.encode_request(opcode, flags, request)?;
        let sealed = self.seal(request.clone(), has_private_values)?;
        let (mut connection, mut received) =
            self.exchange(&OutgoingRequest { bytes: &sealed, opcode, is_list }, handle).await?;
        let mut request_id = envelope(&sealed).request_id;
        if received.code == ResponseCode::AUTHENTICATION_NEEDED {
            let session_id = envelope(&sealed).session_id;
            if session_id != 0 && received.session_id != session_id {
                let reason = "challenge belongs to another session".into();
                return Err(AdminError::OutcomeUnknown { server: received.server, reason });
            }
            let challenge_response = self.respond_to_challenge(&request, &received, flags)?;
            request_id = envelope(&challenge_response).request_id;
            let outgoing = OutgoingRequest { bytes: &challenge_response, opcode, is_list };
            (connection, received) = self.exchange(&outgoing, handle).await?;
        }
        self.require_success(&received)?;
        while received.has_more && is_list {
            if on_message(&received.bytes).is_break() {
                return Ok(received.bytes);
            }
            let response =
                connection.receive().await.map_err(|error| self.outcome_unknown(received.server, &error))?;
            received = self.validate_response(response, request_id, opcode, received.server)?;
            self.require_success(&received)?;
        }
        let _ = on_message(&received.bytes);
        Ok(received.bytes)
    }

    /// Adds the flags that a session or required signatures need.
    fn operation_flags(&self, flags: OpFlags) -> OpFlags {
        match &self.session {
            Some(secure) if secure.is_encrypted => flags | OpFlags::CERTIFY | OpFlags::ENCRYPT,
            Some(_) => flags | OpFlags::CERTIFY,
            None if self.requires_signature => flags | OpFlags::CERTIFY,
            None => flags,
        }
    }

    /// Challenge response, sealed for the session.
    fn respond_to_challenge(
        &self,
        request: &[u8],
        challenge: &ValidatedResponse,
        flags: OpFlags,
    ) -> Result<Vec<u8>, AdminError> {
        let request = MessageParts::split(request)?;
        let message = Message::from_bytes(&challenge.bytes)?;
        let credentials = self.identity.credentials();
        let mut budget = Budget::PER_REQUEST;
        let context = &mut self.auth(&mut budget);
        let answer = credentials.respond(&request, &message, &mut SystemRandom, context)?;
        let reference = self.identity.reference();
        let request = Request::ChallengeResponse(ChallengeResponse {
            auth_type: credentials.auth_type(),
            key_handle: reference.handle(),
            key_index: reference.index,
            proof: &answer,
        });
        let response =
            self.encode_message(challenge.session_id, Opcode::CHALLENGE_RESPONSE, flags, request)?;
        Ok(self.seal_challenge_response(response)?)
    }

    /// Sends a request once and receives the first message of the response.
    pub(super) async fn exchange(
        &mut self,
        outgoing: &OutgoingRequest<'_>,
        handle: Handle<'_>,
    ) -> Result<(AdminConnection, ValidatedResponse), AdminError> {
        let (mut connection, server) = self.connect(outgoing.is_list).await?;
        let sent = match server.transport {
            InterfaceProtocol::HTTP | InterfaceProtocol::HTTPS => {
                let (host, path) = self.server.http_host_and_path(server.address);
                connection.send_http(&host, path, handle, outgoing.bytes).await
            }
            _ => connection.send(outgoing.bytes).await,
        };
        let response = match sent {
            Ok(()) => connection.receive().await,
            Err(error) => Err(error),
        };
        let response = response.map_err(|error| self.outcome_unknown(server, &error))?;
        let received =
            self.validate_response(response, envelope(outgoing.bytes).request_id, outgoing.opcode, server)?;
        Ok((connection, received))
    }

    /// Connects over the first transport that works.
    async fn connect(&self, is_list: bool) -> Result<(AdminConnection, TransportAddress), AdminError> {
        let mut first_error: Option<(SocketAddr, std::io::Error)> = None;
        let transports: &[InterfaceProtocol] = if is_list {
            &[InterfaceProtocol::TCP]
        } else {
            &[InterfaceProtocol::TCP, InterfaceProtocol::HTTP, InterfaceProtocol::HTTPS]
        };
        for &transport in transports {
            let Some(address) = self.server.admin_address(transport) else { continue };
            let (domain, key) = self.server.tls_identity();
            match AdminConnection::open(transport, address, domain, key).await {
                Ok(connection) => return Ok((connection, TransportAddress { address, transport })),
                Err(error) => first_error = first_error.or(Some((address, error))),
            }
        }
        Err(match first_error {
            Some((address, error)) => AdminError::Unreachable { address, error },
            None => AdminError::NoAdminInterface,
        })
    }

    /// Decrypts a response and checks request id, opcode, expiration and signature.
    fn validate_response(
        &mut self,
        response: Vec<u8>,
        request_id: u32,
        opcode: Opcode,
        server: TransportAddress,
    ) -> Result<ValidatedResponse, AdminError> {
        let invalid = |reason: String| AdminError::OutcomeUnknown { server, reason };
        let (bytes, is_authenticated) =
            self.open_response(response).map_err(|error| invalid(error.to_string()))?;
        let parts = MessageParts::split(&bytes).map_err(|error| invalid(error.to_string()))?;
        let expected = ExpectedResponse { request_id, opcode };
        expected.check(&parts, self.clock.now()).map_err(|error| invalid(error.to_string()))?;
        // The body must be valid, too.
        Message::from_parts(&parts).map_err(|error| invalid(error.to_string()))?;
        let (code, session_id) = (parts.header.response_code, parts.envelope.session_id);
        let has_more = parts.header.flags.contains(OpFlags::CONTINUOUS);
        // Messages about the session itself may be signed instead.
        let checks_signature = self.requires_signature || self.session.is_some();
        let is_authenticated = is_authenticated || checks_signature && self.has_valid_signature(&parts);
        Ok(ValidatedResponse { bytes, code, server, is_authenticated, has_more, session_id })
    }

    /// Whether the response is signed with the server's public key.
    fn has_valid_signature(&self, response: &MessageParts<'_>) -> bool {
        let Some(key) = self.server.public_key() else { return false };
        let mut budget = Budget::PER_REQUEST;
        let context = &mut self.auth(&mut budget);
        verify_message_signature(response, &key, context).is_ok()
    }

    /// Requires success, authenticated where a session or signature was requested.
    pub(super) fn require_success(&mut self, received: &ValidatedResponse) -> Result<(), AdminError> {
        let code = received.code;
        if code != ResponseCode::SUCCESS {
            let is_session_closed =
                matches!(code, ResponseCode::SESSION_TIMEOUT | ResponseCode::INVALID_SESSION_KEY);
            if is_session_closed {
                self.session = None;
            }
            let body = Message::from_bytes(&received.bytes).map(|message| server_message(&message.body));
            let message = body.unwrap_or_default();
            return Err(AdminError::ErrorResponse { server: received.server, code, message });
        }
        if !received.is_authenticated && (self.session.is_some() || self.requires_signature) {
            let reason = "response is not authenticated".into();
            return Err(AdminError::OutcomeUnknown { server: received.server, reason });
        }
        Ok(())
    }

    fn outcome_unknown(&self, server: TransportAddress, error: &AdminConnectionError) -> AdminError {
        AdminError::OutcomeUnknown { server, reason: error.to_string() }
    }
}

/// Data of a successful response.
pub(super) fn response_outcome(response: &[u8]) -> Option<ResponseData<'_>> {
    match Message::from_bytes(response).ok()?.body {
        MessageBody::Response(Response { data, .. }) => Some(data),
        MessageBody::Request(_) => None,
    }
}

/// Envelope of a message that this client encoded.
fn envelope(message: &[u8]) -> Envelope {
    Envelope::from_bytes(message).unwrap_or(Envelope::new(ProtocolVersion::LATEST))
}

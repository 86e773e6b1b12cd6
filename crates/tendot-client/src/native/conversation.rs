use std::net::SocketAddr;
use std::ops::ControlFlow;

use tendot_proto::auth::verify_message_signature;
use tendot_proto::crypto::{AwsLcProvider, SecureRandom as _, SystemRandom};
use tendot_proto::record::InterfaceProtocol;
use tendot_proto::{
    Budget, CredentialSection, Envelope, Handle, Message, MessageBody, MessageHeader, MessageParts, OpFlags,
    Opcode, ProtocolVersion, Request, Response, ResponseCode, ResponseData,
};

use super::connection::{AdminConnection, AdminConnectionError};
use super::error::server_message;
use super::{AdminClient, AdminError, TransportAddress};

/// Encoded request and what its response must match.
pub(super) struct OutgoingRequest<'a> {
    pub(super) bytes: &'a [u8],
    /// The operation that the response will be to: for the answer to a challenge, that of the request.
    pub(super) opcode: Opcode,
    /// Whether the answer may have several messages, for which HTTP is no way.
    pub(super) is_list: bool,
}

/// Response whose request id, opcode and expiration have been checked; decrypted.
pub(super) struct ValidatedResponse {
    /// Decrypted.
    pub(super) bytes: Vec<u8>,
    pub(super) code: ResponseCode,
    from: TransportAddress,
    /// Whether it is certain that the server sent it.
    is_proved: bool,
    /// Whether more messages follow.
    goes_on: bool,
    session_id: u32,
}

impl AdminClient {
    /// A request outside of a session, or in the one that there is, before it is sealed.
    pub(super) fn encode_request(
        &self,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
    ) -> Result<Vec<u8>, AdminError> {
        let session_id = self.secured.as_ref().map_or(0, |secured| secured.session.id());
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
            request_id: random_request_id(),
            ..Envelope::new(self.peer.protocol_version())
        };
        let header = MessageHeader {
            flags,
            site_serial: self.peer.site().serial,
            ..MessageHeader::for_request(opcode, self.clock.now())
        };
        let message = Message {
            envelope,
            header,
            body: MessageBody::Request(request),
            body_rest: &[],
            tail: CredentialSection::Empty,
        };
        Ok(message.to_bytes()?)
    }

    /// Asks for an operation, proves who is asking if need be, and gives the response, which is a success.
    pub(super) async fn execute(
        &mut self,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
        about: Handle<'_>,
    ) -> Result<Vec<u8>, AdminError> {
        let mut none = |_: &[u8]| ControlFlow::Continue(());
        self.execute_list(opcode, flags, request, about, false, &mut none).await
    }

    /// The same where the response may have several messages: `each` gets all of them.
    pub(super) async fn execute_list(
        &mut self,
        opcode: Opcode,
        flags: OpFlags,
        request: Request<'_>,
        about: Handle<'_>,
        is_list: bool,
        each: &mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send),
    ) -> Result<Vec<u8>, AdminError> {
        let flags = self.operation_flags(flags);
        let has_secrets = match request {
            Request::Values { values, .. } => values.iter().any(|value| !value.permissions.is_public()),
            _ => false,
        };
        let plain = self.encode_request(opcode, flags, request)?;
        let sealed = self.seal(plain.clone(), has_secrets)?;
        let (mut connection, mut received) =
            self.exchange(&OutgoingRequest { bytes: &sealed, opcode, is_list }, about).await?;
        let mut request_id = envelope(&sealed).request_id;
        if received.code == ResponseCode::AUTHENTICATION_NEEDED {
            let session_id = envelope(&sealed).session_id;
            if session_id != 0 && received.session_id != session_id {
                let why = "the challenge is not of the session".into();
                return Err(AdminError::Uncertain { from: received.from, why });
            }
            let answer = self.respond_to_challenge(&plain, &received, flags)?;
            request_id = envelope(&answer).request_id;
            (connection, received) =
                self.exchange(&OutgoingRequest { bytes: &answer, opcode, is_list }, about).await?;
        }
        self.require_success(&received)?;
        while received.goes_on && is_list {
            if each(&received.bytes).is_break() {
                return Ok(received.bytes);
            }
            let response =
                connection.receive().await.map_err(|error| self.outcome_unknown(received.from, &error))?;
            received = self.validate_response(response, request_id, opcode, received.from)?;
            self.require_success(&received)?;
        }
        let _ = each(&received.bytes);
        Ok(received.bytes)
    }

    /// What has to be set in a session, or for signatures.
    fn operation_flags(&self, flags: OpFlags) -> OpFlags {
        match &self.secured {
            Some(secured) if secured.is_encrypted => flags.with(OpFlags::CERTIFY).with(OpFlags::ENCRYPT),
            Some(_) => flags.with(OpFlags::CERTIFY),
            None if self.is_certified => flags.with(OpFlags::CERTIFY),
            None => flags,
        }
    }

    /// The answer to a challenge, ready to be sent.
    fn respond_to_challenge(
        &self,
        request: &[u8],
        challenge: &ValidatedResponse,
        flags: OpFlags,
    ) -> Result<Vec<u8>, AdminError> {
        let request = MessageParts::split(request)?;
        let message = Message::from_bytes(&challenge.bytes)?;
        let credentials = self.identity.credentials();
        let mut work = Budget::PER_REQUEST;
        let proof = credentials.respond(
            &request,
            &message,
            &self.policy,
            &AwsLcProvider,
            &mut SystemRandom,
            &mut work,
        )?;
        let reference = self.identity.reference();
        let answer = Request::ChallengeAnswer {
            auth_type: credentials.auth_type(),
            key_handle: reference.handle(),
            key_index: reference.index,
            answer: &proof,
        };
        let answer = self.encode_message(challenge.session_id, Opcode::CHALLENGE_RESPONSE, flags, answer)?;
        Ok(self.seal_challenge_response(answer)?)
    }

    /// Sends a request to the server, once, and takes the first message of the response.
    pub(super) async fn exchange(
        &mut self,
        sent: &OutgoingRequest<'_>,
        about: Handle<'_>,
    ) -> Result<(AdminConnection, ValidatedResponse), AdminError> {
        let (mut connection, to) = self.connect(sent.is_list).await?;
        let done = match to.transport {
            InterfaceProtocol::HTTP | InterfaceProtocol::HTTPS => {
                let (host, path) = self.peer.http_host_and_path(to.address);
                connection.send_http(&host, path, about, sent.bytes).await
            }
            _ => connection.send(sent.bytes).await,
        };
        let response = match done {
            Ok(()) => connection.receive().await,
            Err(error) => Err(error),
        };
        let response = response.map_err(|error| self.outcome_unknown(to, &error))?;
        let received = self.validate_response(response, envelope(sent.bytes).request_id, sent.opcode, to)?;
        Ok((connection, received))
    }

    /// Connects over the first transport that works.
    async fn connect(&self, is_list: bool) -> Result<(AdminConnection, TransportAddress), AdminError> {
        let mut tried: Option<(SocketAddr, std::io::Error)> = None;
        let transports: &[InterfaceProtocol] = if is_list {
            &[InterfaceProtocol::TCP]
        } else {
            &[InterfaceProtocol::TCP, InterfaceProtocol::HTTP, InterfaceProtocol::HTTPS]
        };
        for &transport in transports {
            let Some(address) = self.peer.admin_address(transport) else { continue };
            let (domain, key) = self.peer.tls_identity();
            match AdminConnection::open(transport, address, domain, key).await {
                Ok(connection) => return Ok((connection, TransportAddress { address, transport })),
                Err(error) => tried = tried.or(Some((address, error))),
            }
        }
        Err(match tried {
            Some((to, error)) => AdminError::Unreachable { to, error },
            None => AdminError::NoInterface,
        })
    }

    /// Decrypts a response and checks request id, opcode, expiration and signature.
    fn validate_response(
        &mut self,
        response: Vec<u8>,
        request_id: u32,
        opcode: Opcode,
        from: TransportAddress,
    ) -> Result<ValidatedResponse, AdminError> {
        let wrong = |why: String| AdminError::Uncertain { from, why };
        let (bytes, is_proved) = self.open_response(response).map_err(|error| wrong(error.to_string()))?;
        let message = Message::from_bytes(&bytes).map_err(|error| wrong(error.to_string()))?;
        let (envelope, header) = (message.envelope, message.header);
        if header.is_request() {
            return Err(wrong("the answer is a request".into()));
        }
        if envelope.request_id != request_id {
            return Err(wrong(format!("the answer is to request {:#x}", envelope.request_id)));
        }
        // Errors about requests that were not understood have no opcode, and some about a proof have that of the proof.
        let is_other = matches!(header.opcode, Opcode::RESERVED | Opcode::CHALLENGE_RESPONSE);
        if header.opcode != opcode && !(is_other && header.response_code.is_error()) {
            return Err(wrong(format!("the answer is to operation {}", header.opcode.0)));
        }
        if u64::from(header.expiration) < self.clock.now().unix {
            return Err(wrong(format!("the answer ended at {}", header.expiration)));
        }
        let (code, goes_on) = (header.response_code, header.flags.has(OpFlags::CONTINUOUS));
        let session_id = envelope.session_id;
        // About a session itself the server may rather sign.
        let is_wanted = self.is_certified || self.secured.is_some();
        let is_proved = is_proved || is_wanted && self.has_valid_signature(&bytes);
        Ok(ValidatedResponse { bytes, code, from, is_proved, goes_on, session_id })
    }

    fn has_valid_signature(&self, response: &[u8]) -> bool {
        let (Some(key), Ok(parts)) = (self.peer.public_key(), MessageParts::split(response)) else {
            return false;
        };
        verify_message_signature(&parts, &key, &self.policy, &AwsLcProvider, &mut { Budget::PER_REQUEST })
            .is_ok()
    }

    /// Requires success, authenticated where a session or signature was requested.
    pub(super) fn require_success(&mut self, received: &ValidatedResponse) -> Result<(), AdminError> {
        let code = received.code;
        if code != ResponseCode::SUCCESS {
            let is_over = matches!(code, ResponseCode::SESSION_TIMEOUT | ResponseCode::INVALID_SESSION_KEY);
            if is_over {
                self.secured = None;
            }
            let body = Message::from_bytes(&received.bytes).map(|message| server_message(&message.body));
            let message = body.unwrap_or_default();
            return Err(AdminError::Refused { from: received.from, code, message });
        }
        if !received.is_proved && (self.secured.is_some() || self.is_certified) {
            let why = "nothing proves that the answer is the server's".into();
            return Err(AdminError::Uncertain { from: received.from, why });
        }
        Ok(())
    }

    fn outcome_unknown(&self, from: TransportAddress, error: &AdminConnectionError) -> AdminError {
        AdminError::Uncertain { from, why: error.to_string() }
    }
}

/// The outcome of a response that is a success.
pub(super) fn response_outcome(response: &[u8]) -> Option<ResponseData<'_>> {
    match Message::from_bytes(response).ok()?.body {
        MessageBody::Response(Response { outcome, .. }) => Some(outcome),
        MessageBody::Request(_) => None,
    }
}

/// The envelope of a message of our own.
fn envelope(message: &[u8]) -> Envelope {
    Envelope::from_bytes(message).unwrap_or(Envelope::new(ProtocolVersion::LATEST))
}

/// A number that nobody guesses, from 1 to 2^31 − 1: the deployed software takes it for signed.
fn random_request_id() -> u32 {
    let mut bytes = [0; 4];
    SystemRandom.fill(&mut bytes);
    (u32::from_be_bytes(bytes) & 0x7fff_ffff).max(1)
}

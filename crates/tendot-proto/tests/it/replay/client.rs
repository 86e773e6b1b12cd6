//! Client of a replay script.

use tendot_proto::auth::{
    AuthPolicy, ChallengeResponse, ClientKey, ClientKeyExchange, DhGroup, Session, verify_message_signature,
};
use tendot_proto::record::PublicKey;
use tendot_proto::wire::WireList;
use tendot_proto::{
    Envelope, EnvelopeFlags, Handle, HandleValue, Message, MessageBody, MessageParts, Now, OpFlags, Opcode,
    ProtocolVersion, Request, Response, ResponseData, ValueReference,
};
use tendot_testing::handle_keys::private_key;
use tendot_testing::{SeededRng, auth_context};

/// Client of a replay script.
pub(super) struct ReplayClient {
    random: SeededRng,
    policy: AuthPolicy,
    server_key: PublicKey<'static>,
    session: Option<Session>,
    proposal: Option<ClientKeyExchange>,
    /// Last request, before encryption.
    sent: Vec<u8>,
    next_id: u32,
}

/// How to send a request.
#[derive(Default)]
pub(super) struct SendOptions {
    pub(super) add_flags: OpFlags,
    pub(super) remove_flags: OpFlags,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) is_in_session: bool,
    pub(super) is_encrypted: bool,
}

/// Request of a script.
pub(super) enum ScriptRequest {
    Resolve { handle: String, indexes: Vec<u32>, types: Vec<String> },
    Delete { handle: String },
    Create { handle: String, values: Vec<HandleValue<'static>> },
    Terminate,
    Session { identity: Option<String>, group: DhGroup },
}

impl ReplayClient {
    pub(super) fn new() -> Self {
        Self {
            random: SeededRng::new(2),
            policy: AuthPolicy::default(),
            server_key: private_key("privkey.bin").public_key().unwrap(),
            session: None,
            proposal: None,
            sent: Vec::new(),
            next_id: 100,
        }
    }

    /// Encodes a request.
    pub(super) fn request(&mut self, request: &ScriptRequest, options: &SendOptions, now: Now) -> Vec<u8> {
        let types: Vec<&[u8]>;
        let identity;
        let (opcode, request) = match request {
            ScriptRequest::Resolve { handle, indexes, types: names } => {
                types = names.iter().map(|name| name.as_bytes()).collect();
                let (indexes, types) = (WireList::from(&indexes[..]), WireList::from(&types[..]));
                (Opcode::RESOLUTION, Request::Resolve { handle: Handle::from(&**handle), indexes, types })
            }
            ScriptRequest::Delete { handle } => {
                (Opcode::DELETE_HANDLE, Request::HandleOnly { handle: Handle::from(&**handle) })
            }
            ScriptRequest::Create { handle, values } => {
                let (handle, values) = (Handle::from(&**handle), WireList::from(&values[..]));
                (Opcode::CREATE_HANDLE, Request::WriteValues { handle, values })
            }
            ScriptRequest::Terminate => {
                (Opcode::SESSION_TERMINATE, Request::NoOperand { handle: Some(Handle::BLANK) })
            }
            ScriptRequest::Session { identity: name, group } => {
                let proposal = ClientKeyExchange::new(*group, &mut self.random, auth_context!()).unwrap();
                self.proposal = Some(proposal);
                identity = name.as_deref().map(ValueReference::parse);
                let setup = self.proposal.as_ref().unwrap().request(identity.as_ref(), 86_400);
                (Opcode::SESSION_SETUP, Request::SessionSetup(setup))
            }
        };
        self.next_id += 1;
        let mut message = Message::request(opcode, request, self.next_id, now);
        message.header.flags |= options.add_flags;
        message.header.flags -= options.remove_flags;
        if let Some(version) = options.version {
            message.envelope.version = version;
            message.envelope.suggested_version = version;
        }
        if options.is_in_session {
            message.envelope.session_id = self.session.as_ref().map_or(7, Session::id);
        }
        self.sent = message.to_bytes().unwrap();
        if let (true, Some(session)) = (options.is_in_session, &mut self.session) {
            session.add_mac(&mut self.sent, auth_context!()).unwrap();
            if options.is_encrypted {
                let key = session.key().clone();
                return key.encrypt(&self.sent, &mut self.random, auth_context!()).unwrap();
            }
        }
        self.sent.clone()
    }

    /// Encodes the response to a challenge of the last request.
    pub(super) fn challenge_response(
        &mut self,
        client_key: &ClientKey<'_>,
        identity: &str,
        challenge: &[u8],
        now: Now,
    ) -> Vec<u8> {
        let challenge = Message::from_bytes(challenge).unwrap();
        let request = MessageParts::split(&self.sent).unwrap();
        let proof =
            client_key.respond(&request, &challenge, &mut self.random, auth_context!(self.policy)).unwrap();
        let identity = ValueReference::parse(identity);
        self.next_id += 1;
        let mut message = Message::request(
            Opcode::CHALLENGE_RESPONSE,
            Request::ChallengeResponse(ChallengeResponse {
                auth_type: client_key.auth_type(),
                key_handle: identity.handle(),
                key_index: identity.index,
                proof: &proof,
            }),
            self.next_id,
            now,
        );
        message.envelope.session_id = challenge.envelope.session_id;
        message.to_bytes().unwrap()
    }

    /// Decrypts and authenticates a response; returns the plaintext and the script words for its protection.
    pub(super) fn open(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<&'static str>) {
        let mut protection = Vec::new();
        let mut plain = bytes.to_vec();
        if Envelope::from_bytes(bytes).unwrap().flags.contains(EnvelopeFlags::ENCRYPTED) {
            protection.push("encrypted");
            let key = self.session.as_ref().unwrap().key().clone();
            plain = key.decrypt(bytes, auth_context!()).unwrap();
        }
        let parts = MessageParts::split(&plain).unwrap();
        let message = Message::from_parts(&parts).unwrap();
        match message.credential() {
            Some(credential) if credential.credential_type == b"HS_MAC" => {
                self.session.as_mut().unwrap().verify(&parts, auth_context!()).unwrap();
                protection.push("mac");
            }
            Some(_) => {
                verify_message_signature(&parts, &self.server_key, auth_context!(self.policy)).unwrap();
                protection.push("signed");
            }
            None => {}
        }
        if let MessageBody::Response(Response { digest, data }) = message.body {
            if digest.is_some() {
                protection.push("digest");
            }
            if let (ResponseData::SessionSetup { .. }, Some(proposal)) = (data, self.proposal.take()) {
                let request = MessageParts::split(&self.sent).unwrap();
                let key = &self.server_key;
                self.session =
                    Some(proposal.complete(&request, &parts, key, auth_context!(self.policy)).unwrap());
            }
        }
        (plain, protection)
    }
}

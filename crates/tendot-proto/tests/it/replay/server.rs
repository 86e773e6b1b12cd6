//! Server of a replay script: it resolves, and creates and deletes handles for authenticated clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tendot_proto::auth::{
    AuthContext, AuthError, AuthPolicy, ChallengeLimits, ChallengeResponse, ChallengeTable,
    ServerKeyExchange, SessionLimits, SessionTable,
};
use tendot_proto::crypto::{AwsLcProvider, Digest, SigningKey};
use tendot_proto::endpoint::{Endpoint, IncomingRequest, RejectionReason, SealContext, Transport};
use tendot_proto::message::{KeyExchangeMode, SessionSetup};
use tendot_proto::wire::WireList;
use tendot_proto::{
    Envelope, EnvelopeFlags, Fragments, Handle, HandleValue, Message, MessageParts, Now, OpFlags, Opcode,
    Reassembly, Request, ResponseCode, ResponseData, ValueReference,
};
use tendot_testing::handle_keys::private_key;
use tendot_testing::{SeededRng, auth_context};

/// Server of a replay script.
pub(super) struct ReplayServer {
    pub(super) records: BTreeMap<Vec<u8>, Vec<HandleValue<'static>>>,
    pub(super) policy: AuthPolicy,
    endpoint: Endpoint,
    challenges: ChallengeTable,
    sessions: SessionTable,
    reassembly: Reassembly,
    key: Box<dyn SigningKey>,
    random: SeededRng,
}

impl ReplayServer {
    pub(super) fn new() -> Self {
        Self {
            records: BTreeMap::new(),
            policy: AuthPolicy::default(),
            endpoint: Endpoint { site_serial: 1, is_primary: true },
            challenges: ChallengeTable::new(ChallengeLimits::default()),
            sessions: SessionTable::new(SessionLimits::default()),
            reassembly: Reassembly::new(),
            key: private_key("privkey.bin").signing_key(&AwsLcProvider).unwrap(),
            random: SeededRng::new(1),
        }
    }

    /// Handles a datagram or a message; returns the datagrams or the message of the response, if there is one.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        transport: Transport,
        from: SocketAddr,
        now: Now,
    ) -> Vec<Vec<u8>> {
        if transport != Transport::Udp {
            return self.respond(bytes, transport, now).into_iter().collect();
        }
        let Ok(Some(message)) = self.reassembly.insert(now, from, bytes) else { return Vec::new() };
        let Some(response) = self.respond(&message, transport, now) else { return Vec::new() };
        Fragments::new(&response).unwrap().map(|datagram| datagram.to_vec()).collect()
    }

    fn respond(&mut self, bytes: &[u8], transport: Transport, now: Now) -> Option<Vec<u8>> {
        let envelope = Envelope::from_bytes(bytes).ok()?;
        let opened;
        let mut bytes = bytes;
        let is_encrypted = envelope.flags.contains(EnvelopeFlags::ENCRYPTED) && envelope.session_id != 0;
        if is_encrypted {
            let has_pending_challenge = self.challenges.contains(envelope.session_id);
            match self.sessions.open(bytes, has_pending_challenge, now, auth_context!()) {
                Ok((plain, _)) => opened = plain,
                Err(error) => return self.error_response(envelope, RejectionReason::Session(error), now),
            }
            bytes = &opened;
        }
        let mut incoming = match self.endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(rejection) => return rejection.response().map(Into::into),
        };
        let opcode = incoming.parts.header.opcode;
        let has_pending_challenge = self.challenges.contains(envelope.session_id);
        // A challenge response outside of a session has the id of its challenge as its session id.
        let is_challenge_response =
            opcode == Opcode::CHALLENGE_RESPONSE && !self.sessions.contains(envelope.session_id);
        if envelope.session_id != 0
            && !is_encrypted
            && !is_challenge_response
            && let Err(error) =
                self.sessions.verify(&incoming.parts, has_pending_challenge, now, auth_context!())
        {
            return self.error_response(envelope, RejectionReason::Session(error), now);
        }
        match incoming.request {
            Request::ChallengeResponse(response) => self.authenticate(incoming, &response, now),
            _ => Some(self.execute(&mut incoming, None, now)),
        }
    }

    fn error_response(&self, envelope: Envelope, reason: RejectionReason, now: Now) -> Option<Vec<u8>> {
        self.endpoint.reject(envelope, None, reason, now).response().map(Into::into)
    }

    /// Verifies a challenge response, and executes the request that was challenged.
    fn authenticate(
        &mut self,
        mut incoming: IncomingRequest<'_>,
        response: &ChallengeResponse<'_>,
        now: Now,
    ) -> Option<Vec<u8>> {
        let consumed = self.challenges.consume(incoming.parts.envelope.session_id, now);
        let verified = consumed.and_then(|pending| {
            let values = self.records.get(&*response.key_handle.canonical()).cloned().unwrap_or_default();
            let context = &mut AuthContext::new(&AwsLcProvider, self.policy, &mut incoming.budget);
            let index = pending.verify(response, &values, context)?;
            Ok((pending, ValueReference::new(index, response.key_handle.as_bytes().to_vec())))
        });
        match verified {
            Ok((pending, identity)) => {
                self.sessions.mark_authenticated(pending.id(), &identity, Digest::new(&[]));
                let request =
                    self.endpoint.decode_request(pending.request(), incoming.transport, now).unwrap();
                Some(self.execute(&mut request.resume_after_challenge(incoming), Some(identity), now))
            }
            Err(error) => Some(unsealed_error(&incoming, error)),
        }
    }

    fn execute(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        identity: Option<ValueReference<'_>>,
        now: Now,
    ) -> Vec<u8> {
        let session = incoming.session_id;
        let is_session_authenticated =
            self.sessions.get_mut(session).is_some_and(|session| session.authenticated_identity().is_some());
        let is_authenticated = identity.is_some() || is_session_authenticated;
        match incoming.request {
            Request::Resolve { handle, indexes, types } => {
                let is_selected = |value: &HandleValue<'_>| {
                    indexes.is_empty() && types.is_empty()
                        || indexes.iter().any(|index| index == value.index)
                        || types.iter().any(|filter| value.matches_type_filter(filter))
                };
                self.resolve(incoming, handle, is_selected, is_authenticated, now)
            }
            Request::HandleOnly { .. } | Request::WriteValues { .. } if !is_authenticated => {
                self.challenge(incoming, now)
            }
            Request::HandleOnly { handle } if incoming.parts.header.opcode == Opcode::DELETE_HANDLE => {
                match self.records.remove(&*handle.canonical()) {
                    Some(_) => self.send(incoming, ResponseCode::SUCCESS, ResponseData::Empty),
                    None => self.send(incoming, ResponseCode::HANDLE_NOT_FOUND, FAILED),
                }
            }
            Request::WriteValues { handle, values } => {
                let values = values.iter().map(HandleValue::into_owned).collect();
                self.records.insert(handle.canonical().into_owned(), values);
                self.send(incoming, ResponseCode::SUCCESS, ResponseData::Created { handle: Some(handle) })
            }
            Request::SessionSetup(setup) => self.set_up_session(incoming, &setup, now),
            Request::NoOperand { .. } if incoming.parts.header.opcode == Opcode::SESSION_TERMINATE => {
                self.sessions.remove(session);
                self.send(incoming, ResponseCode::SUCCESS, ResponseData::Empty)
            }
            _ => self.send(incoming, ResponseCode::OPERATION_NOT_SUPPORTED, FAILED),
        }
    }

    fn resolve(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        handle: Handle<'_>,
        is_selected: impl Fn(&HandleValue<'_>) -> bool,
        is_authenticated: bool,
        now: Now,
    ) -> Vec<u8> {
        let Some(mut values) = self.records.get(&*handle.canonical()).cloned() else {
            return self.send(incoming, ResponseCode::HANDLE_NOT_FOUND, FAILED);
        };
        let public_only = incoming.parts.header.flags.contains(OpFlags::PUBLIC_ONLY);
        values.retain(|value| is_selected(value) && (!public_only || value.is_public()));
        let is_in_session = self.sessions.contains(incoming.session_id);
        if !public_only
            && !is_authenticated
            && (is_in_session || values.iter().any(|value| !value.is_public()))
        {
            return self.challenge(incoming, now);
        }
        if values.is_empty() {
            return self.send(incoming, ResponseCode::VALUES_NOT_FOUND, FAILED);
        }
        let data = ResponseData::Resolved { handle, values: WireList::from(&values[..]) };
        self.send(incoming, ResponseCode::SUCCESS, data)
    }

    fn set_up_session(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        setup: &SessionSetup<'_>,
        now: Now,
    ) -> Vec<u8> {
        let context = &mut AuthContext::new(&AwsLcProvider, self.policy, &mut incoming.budget);
        match ServerKeyExchange::new(setup, &incoming.parts.envelope, &mut self.random, context) {
            Ok(exchange) => {
                let data = exchange.response_data().to_vec();
                let is_id_in_use = |id| self.challenges.contains(id);
                let id = self.sessions.insert(exchange, now, &mut self.random, is_id_in_use);
                let data = ResponseData::SessionSetup { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
                let mut response = incoming.respond(ResponseCode::SUCCESS, data);
                response.envelope.session_id = id;
                self.seal(incoming, response)
            }
            Err(error) => {
                let text = error.to_string();
                let failed = ResponseData::Error { message: Some(text.as_bytes()) };
                self.send(incoming, error.response_code(), failed)
            }
        }
    }

    fn challenge(&mut self, incoming: &mut IncomingRequest<'_>, now: Now) -> Vec<u8> {
        let request = incoming.parts.to_bytes();
        assert_eq!(MessageParts::split(&request).unwrap().header_and_body, incoming.parts.header_and_body);
        let is_id_in_use = |id| self.sessions.contains(id);
        let context = &mut AuthContext::new(&AwsLcProvider, self.policy, &mut incoming.budget);
        match self.challenges.issue(&request, now, &mut self.random, context, is_id_in_use) {
            Ok(pending) => {
                let challenge = incoming.challenge(pending).to_bytes().unwrap();
                self.seal(incoming, Message::from_bytes(&challenge).unwrap())
            }
            Err(error) => unsealed_error(incoming, error),
        }
    }

    fn send(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        code: ResponseCode,
        data: ResponseData<'_>,
    ) -> Vec<u8> {
        let response = incoming.respond(code, data);
        self.seal(incoming, response)
    }

    fn seal(&mut self, incoming: &mut IncomingRequest<'_>, response: Message<'_>) -> Vec<u8> {
        let session = self.sessions.get_mut(incoming.session_id).map(|session| session.session_mut());
        let mut context = SealContext {
            provider: &AwsLcProvider,
            random: &mut self.random,
            policy: self.policy,
            server_key: Some(&*self.key),
            session,
        };
        incoming.seal(response, &mut context).unwrap()
    }
}

/// Data of an error without a message.
const FAILED: ResponseData<'_> = ResponseData::Error { message: Some(b"") };

/// Error response without digest and credential.
fn unsealed_error(incoming: &IncomingRequest<'_>, error: AuthError) -> Vec<u8> {
    let text = error.to_string();
    let failed = ResponseData::Error { message: Some(text.as_bytes()) };
    incoming.respond(error.response_code(), failed).to_bytes().unwrap()
}

/// Key of a record: its handle in canonical case.
pub(super) fn record_key(handle: &str) -> Vec<u8> {
    Handle::from(handle).canonical().into_owned()
}

//! Server of a replay script: it resolves, and creates and deletes handles for authenticated clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tendot_proto::auth::{
    AuthPolicy, ChallengeLimits, ChallengeResponse, ChallengeTable, ServerKeyExchange, SessionLimits,
    SessionTable,
};
use tendot_proto::crypto::{AwsLcProvider, SigningKey};
use tendot_proto::endpoint::{Endpoint, IncomingRequest, RejectionReason, SealContext, Transport};
use tendot_proto::message::KeyExchangeMode;
use tendot_proto::wire::WireList;
use tendot_proto::{
    Envelope, EnvelopeFlags, Fragments, Handle, HandleValue, Message, MessageParts, Now, OpFlags, Opcode,
    Reassembly, Request, ResponseCode, ResponseData, ValueReference,
};
use tendot_testing::SeededRng;
use tendot_testing::handle_keys::private_key;

use crate::support::budget;

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
            challenges: ChallengeTable::new(ChallengeLimits::default(), AuthPolicy::default()),
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
        let mut budget = budget();
        let opened;
        let mut bytes = bytes;
        let is_encrypted = envelope.flags.contains(EnvelopeFlags::ENCRYPTED) && envelope.session_id != 0;
        if is_encrypted {
            let has_pending_challenge = self.challenges.contains(envelope.session_id);
            match self.sessions.open(bytes, has_pending_challenge, now, &AwsLcProvider, &mut budget) {
                Ok((plain, _)) => opened = plain,
                Err(error) => return self.error_response(envelope, RejectionReason::Session(error), now),
            }
            bytes = &opened;
        }
        let mut incoming = match self.endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(rejection) => return rejection.response().map(Into::into),
        };
        let opcode = incoming.message.header.opcode;
        let has_pending_challenge = self.challenges.contains(envelope.session_id);
        // A challenge response outside of a session has the id of its challenge as its session id.
        let is_challenge_response =
            opcode == Opcode::CHALLENGE_RESPONSE && !self.sessions.contains(envelope.session_id);
        if envelope.session_id != 0
            && !is_encrypted
            && !is_challenge_response
            && let Err(error) =
                self.sessions.verify(&incoming.parts, has_pending_challenge, now, &AwsLcProvider, &mut budget)
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
        let budget = &mut incoming.budget;
        let consumed = self.challenges.consume(incoming.message.envelope.session_id, now);
        let verified = consumed.and_then(|pending| {
            let values = self.records.get(&*response.key_handle.canonical()).cloned().unwrap_or_default();
            let index = pending.verify(response, &values, &self.policy, &AwsLcProvider, budget)?;
            Ok((pending, ValueReference::new(index, response.key_handle.as_bytes().to_vec())))
        });
        match verified {
            Ok((pending, identity)) => {
                self.sessions.mark_authenticated(pending.id(), &identity);
                let request =
                    self.endpoint.decode_request(pending.request(), incoming.transport, now).unwrap();
                Some(self.execute(&mut request.resume_after_challenge(incoming), Some(identity), now))
            }
            Err(error) => {
                let text = error.to_string();
                let failed = ResponseData::Error { message: Some(text.as_bytes()) };
                Some(incoming.respond(error.response_code(), failed).to_bytes().unwrap())
            }
        }
    }

    fn execute(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        identity: Option<ValueReference<'_>>,
        now: Now,
    ) -> Vec<u8> {
        let failed = ResponseData::Error { message: Some(b"") };
        let session = incoming.session_id;
        let is_in_session = self.sessions.contains(session);
        let is_session_authenticated =
            self.sessions.get_mut(session).is_some_and(|session| session.authenticated_identity().is_some());
        let is_authenticated = identity.is_some() || is_session_authenticated;
        match incoming.request {
            Request::Resolve { handle, indexes, types } => {
                let Some(values) = self.records.get(&*handle.canonical()).cloned() else {
                    let response = incoming.respond(ResponseCode::HANDLE_NOT_FOUND, failed);
                    return self.send(incoming, response);
                };
                let public_only = incoming.message.header.flags.contains(OpFlags::PUBLIC_ONLY);
                let is_unfiltered = indexes.is_empty() && types.is_empty();
                let selected: Vec<HandleValue<'_>> = values
                    .into_iter()
                    .filter(|value| {
                        is_unfiltered
                            || indexes.iter().any(|index| index == value.index)
                            || types.iter().any(|filter| value.matches_type_filter(filter))
                    })
                    .filter(|value| !public_only || value.permissions.is_public())
                    .collect();
                if !public_only
                    && !is_authenticated
                    && (is_in_session || selected.iter().any(|value| !value.permissions.is_public()))
                {
                    return self.challenge(incoming, now);
                }
                if selected.is_empty() {
                    let response = incoming.respond(ResponseCode::VALUES_NOT_FOUND, failed);
                    return self.send(incoming, response);
                }
                let data = ResponseData::Resolved { handle, values: WireList::from(&selected[..]) };
                let response = incoming.respond(ResponseCode::SUCCESS, data);
                self.send(incoming, response)
            }
            Request::HandleOnly { .. } | Request::WriteValues { .. } if !is_authenticated => {
                self.challenge(incoming, now)
            }
            Request::HandleOnly { handle } if incoming.message.header.opcode == Opcode::DELETE_HANDLE => {
                let (code, data) = match self.records.remove(&*handle.canonical()) {
                    Some(_) => (ResponseCode::SUCCESS, ResponseData::Empty),
                    None => (ResponseCode::HANDLE_NOT_FOUND, failed),
                };
                let response = incoming.respond(code, data);
                self.send(incoming, response)
            }
            Request::WriteValues { handle, values } => {
                let values = values.iter().map(HandleValue::into_owned).collect();
                self.records.insert(handle.canonical().into_owned(), values);
                let data = ResponseData::Created { handle: Some(handle) };
                let response = incoming.respond(ResponseCode::SUCCESS, data);
                self.send(incoming, response)
            }
            Request::SessionSetup(setup) => {
                let budget = &mut incoming.budget;
                let envelope = &incoming.message.envelope;
                match ServerKeyExchange::new(
                    &setup,
                    envelope,
                    &self.policy,
                    &AwsLcProvider,
                    &mut self.random,
                    budget,
                ) {
                    Ok(exchange) => {
                        let data = exchange.response_data().to_vec();
                        let is_id_in_use = |id| self.challenges.contains(id);
                        let id = self.sessions.insert(exchange, now, &mut self.random, is_id_in_use);
                        let data =
                            ResponseData::SessionSetup { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
                        let mut response = incoming.respond(ResponseCode::SUCCESS, data);
                        response.envelope.session_id = id;
                        self.send(incoming, response)
                    }
                    Err(error) => {
                        let text = error.to_string();
                        let failed = ResponseData::Error { message: Some(text.as_bytes()) };
                        let response = incoming.respond(error.response_code(), failed);
                        self.send(incoming, response)
                    }
                }
            }
            Request::NoOperand { .. } if incoming.message.header.opcode == Opcode::SESSION_TERMINATE => {
                self.sessions.remove(session);
                let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Empty);
                self.send(incoming, response)
            }
            _ => self.send(incoming, incoming.respond(ResponseCode::OPERATION_NOT_SUPPORTED, failed)),
        }
    }

    fn challenge(&mut self, incoming: &mut IncomingRequest<'_>, now: Now) -> Vec<u8> {
        let request = incoming.message.to_bytes().unwrap();
        assert_eq!(MessageParts::split(&request).unwrap().header_and_body, incoming.parts.header_and_body);
        let is_id_in_use = |id| self.sessions.contains(id);
        match self.challenges.issue(
            &request,
            now,
            &AwsLcProvider,
            &mut self.random,
            &mut incoming.budget,
            is_id_in_use,
        ) {
            Ok(pending) => {
                let challenge = incoming.challenge(pending).to_bytes().unwrap();
                let challenge = Message::from_bytes(&challenge).unwrap();
                self.send(incoming, challenge)
            }
            Err(error) => {
                let text = error.to_string();
                let failed = ResponseData::Error { message: Some(text.as_bytes()) };
                incoming.respond(error.response_code(), failed).to_bytes().unwrap()
            }
        }
    }

    fn send(&mut self, incoming: &mut IncomingRequest<'_>, response: Message<'_>) -> Vec<u8> {
        let session = self.sessions.get_mut(incoming.session_id).map(|session| session.session_mut());
        let mut context = SealContext {
            provider: &AwsLcProvider,
            random: &mut self.random,
            policy: &self.policy,
            server_key: Some(&*self.key),
            session,
        };
        incoming.seal(response, &mut context).unwrap()
    }
}

/// Key of a record: its handle in canonical case.
pub(super) fn record_key(handle: &str) -> Vec<u8> {
    Handle::from(handle).canonical().into_owned()
}

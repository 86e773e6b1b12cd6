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
            endpoint: Endpoint { site_serial: 1, primary: true },
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
        let Ok(Some(whole)) = self.reassembly.insert(now, from, bytes) else { return Vec::new() };
        let Some(response) = self.respond(&whole, transport, now) else { return Vec::new() };
        Fragments::new(&response).unwrap().map(|datagram| datagram.to_vec()).collect()
    }

    fn respond(&mut self, bytes: &[u8], transport: Transport, now: Now) -> Option<Vec<u8>> {
        let envelope = Envelope::from_bytes(bytes).ok()?;
        let mut work = budget();
        let opened;
        let mut bytes = bytes;
        let encrypted = envelope.flags.has(EnvelopeFlags::ENCRYPTED) && envelope.session_id != 0;
        if encrypted {
            let is_challenged = self.challenges.contains(envelope.session_id);
            match self.sessions.open(bytes, is_challenged, now, &AwsLcProvider, &mut work) {
                Ok((plain, _)) => opened = plain,
                Err(error) => return self.error_response(envelope, RejectionReason::Session(error), now),
            }
            bytes = &opened;
        }
        let mut incoming = match self.endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(refusal) => return refusal.response().map(Into::into),
        };
        let opcode = incoming.message.header.opcode;
        let is_challenged = self.challenges.contains(envelope.session_id);
        // A challenge response outside of a session has the id of its challenge as its session id.
        let is_answer = opcode == Opcode::CHALLENGE_RESPONSE && !self.sessions.contains(envelope.session_id);
        if envelope.session_id != 0
            && !encrypted
            && !is_answer
            && let Err(error) =
                self.sessions.verify(&incoming.parts, is_challenged, now, &AwsLcProvider, &mut work)
        {
            return self.error_response(envelope, RejectionReason::Session(error), now);
        }
        match ChallengeResponse::of(&incoming.request) {
            Some(answer) => self.authenticate(incoming, &answer, now),
            None => Some(self.execute(&mut incoming, None, now)),
        }
    }

    fn error_response(&self, envelope: Envelope, reason: RejectionReason, now: Now) -> Option<Vec<u8>> {
        self.endpoint.reject(envelope, None, reason, now).response().map(Into::into)
    }

    /// Verifies a challenge response, and executes the request that was challenged.
    fn authenticate(
        &mut self,
        mut incoming: IncomingRequest<'_>,
        answer: &ChallengeResponse<'_>,
        now: Now,
    ) -> Option<Vec<u8>> {
        let work = &mut incoming.work;
        let taken = self.challenges.consume(incoming.message.envelope.session_id, now);
        let verified = taken.and_then(|pending| {
            let values = self.records.get(&*answer.key_handle.canonical()).cloned().unwrap_or_default();
            let index = pending.verify(answer, &values, &self.policy, &AwsLcProvider, work)?;
            Ok((pending, ValueReference::new(index, answer.key_handle.as_bytes().to_vec())))
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
                let failed = ResponseData::Failed { message: Some(text.as_bytes()) };
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
        let failed = ResponseData::Failed { message: Some(b"") };
        let session = incoming.session_id;
        let in_session = self.sessions.contains(session);
        let proved =
            self.sessions.get_mut(session).is_some_and(|session| session.authenticated_identity().is_some());
        let known = identity.is_some() || proved;
        match incoming.request {
            Request::Resolve { handle, indexes, types } => {
                let Some(values) = self.records.get(&*handle.canonical()).cloned() else {
                    let response = incoming.respond(ResponseCode::HANDLE_NOT_FOUND, failed);
                    return self.send(incoming, response);
                };
                let public_only = incoming.message.header.flags.has(OpFlags::PUBLIC_ONLY);
                let all = indexes.is_empty() && types.is_empty();
                let selected: Vec<HandleValue<'_>> = values
                    .into_iter()
                    .filter(|value| {
                        all || indexes.iter().any(|index| index == value.index)
                            || types.iter().any(|asked| value.matches_type_filter(asked))
                    })
                    .filter(|value| !public_only || value.permissions.is_public())
                    .collect();
                if !public_only
                    && !known
                    && (in_session || selected.iter().any(|value| !value.permissions.is_public()))
                {
                    return self.challenge(incoming, now);
                }
                if selected.is_empty() {
                    let response = incoming.respond(ResponseCode::VALUES_NOT_FOUND, failed);
                    return self.send(incoming, response);
                }
                let outcome = ResponseData::Resolved { handle, values: WireList::from(&selected[..]) };
                let response = incoming.respond(ResponseCode::SUCCESS, outcome);
                self.send(incoming, response)
            }
            Request::Named { .. } | Request::Values { .. } if !known => self.challenge(incoming, now),
            Request::Named { handle } if incoming.message.header.opcode == Opcode::DELETE_HANDLE => {
                let (code, outcome) = match self.records.remove(&*handle.canonical()) {
                    Some(_) => (ResponseCode::SUCCESS, ResponseData::Done),
                    None => (ResponseCode::HANDLE_NOT_FOUND, failed),
                };
                let response = incoming.respond(code, outcome);
                self.send(incoming, response)
            }
            Request::Values { handle, values } => {
                let values = values.iter().map(HandleValue::into_owned).collect();
                self.records.insert(handle.canonical().into_owned(), values);
                let outcome = ResponseData::Created { handle: Some(handle) };
                let response = incoming.respond(ResponseCode::SUCCESS, outcome);
                self.send(incoming, response)
            }
            Request::SessionSetup(setup) => {
                let work = &mut incoming.work;
                let envelope = &incoming.message.envelope;
                match ServerKeyExchange::new(
                    &setup,
                    envelope,
                    &self.policy,
                    &AwsLcProvider,
                    &mut self.random,
                    work,
                ) {
                    Ok(answer) => {
                        let data = answer.response_data().to_vec();
                        let taken = |id| self.challenges.contains(id);
                        let id = self.sessions.insert(answer, now, &mut self.random, taken);
                        let outcome =
                            ResponseData::Session { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
                        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
                        response.envelope.session_id = id;
                        self.send(incoming, response)
                    }
                    Err(error) => {
                        let text = error.to_string();
                        let failed = ResponseData::Failed { message: Some(text.as_bytes()) };
                        let response = incoming.respond(error.response_code(), failed);
                        self.send(incoming, response)
                    }
                }
            }
            Request::Plain { .. } if incoming.message.header.opcode == Opcode::SESSION_TERMINATE => {
                self.sessions.remove(session);
                let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Done);
                self.send(incoming, response)
            }
            _ => self.send(incoming, incoming.respond(ResponseCode::OPERATION_NOT_SUPPORTED, failed)),
        }
    }

    fn challenge(&mut self, incoming: &mut IncomingRequest<'_>, now: Now) -> Vec<u8> {
        let request = incoming.message.to_bytes().unwrap();
        assert_eq!(MessageParts::split(&request).unwrap().header_and_body, incoming.parts.header_and_body);
        let taken = |id| self.sessions.contains(id);
        match self.challenges.issue(
            &request,
            now,
            &AwsLcProvider,
            &mut self.random,
            &mut incoming.work,
            taken,
        ) {
            Ok(pending) => {
                let challenge = incoming.challenge(pending).to_bytes().unwrap();
                let challenge = Message::from_bytes(&challenge).unwrap();
                self.send(incoming, challenge)
            }
            Err(error) => {
                let text = error.to_string();
                let failed = ResponseData::Failed { message: Some(text.as_bytes()) };
                incoming.respond(error.response_code(), failed).to_bytes().unwrap()
            }
        }
    }

    fn send(&mut self, incoming: &mut IncomingRequest<'_>, response: Message<'_>) -> Vec<u8> {
        let session = self.sessions.get_mut(incoming.session_id).map(|session| session.session_mut());
        let mut sealing = SealContext {
            crypto: &AwsLcProvider,
            random: &mut self.random,
            policy: &self.policy,
            key: Some(&*self.key),
            session,
        };
        incoming.seal(response, &mut sealing).unwrap()
    }
}

/// The key of a record: its handle without case.
pub(super) fn record_key(handle: &str) -> Vec<u8> {
    Handle::from(handle).canonical().into_owned()
}

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tendot_proto::auth::{
    AuthContext, AuthPolicy, ChallengeLimits, ChallengeResponse, ChallengeTable, ServerKeyExchange,
    SessionLimits, SessionTable,
};
use tendot_proto::crypto::{AwsLcProvider, Digest, SigningKey, SystemRandom};
use tendot_proto::endpoint::{Endpoint, IncomingRequest, RejectionReason, SealContext};
use tendot_proto::message::KeyExchangeMode;
use tendot_proto::record::{InterfaceProtocol, PublicKey};
use tendot_proto::wire::WireList;
use tendot_proto::{
    Budget, Envelope, EnvelopeFlags, Handle, HandleValue, Message, OpFlags, Opcode, Request, ResponseCode,
    ResponseData, ValueReference, limits,
};

use super::{ServerTransport, now};
use crate::handle_keys;

/// A small handle service built from `tendot-proto`: public values are readable without authentication; a client that is
/// authenticated with a key in one of the records may do everything.
pub struct TestHandleService {
    /// Records by handle, in upper case.
    pub records: BTreeMap<Vec<u8>, Vec<HandleValue<'static>>>,
    /// Homed prefixes.
    pub homed: BTreeSet<Vec<u8>>,
    /// The referral with which every request is answered: code, handle and values.
    pub referral: Option<(ResponseCode, Vec<u8>, Vec<HandleValue<'static>>)>,
    /// The response code with which every request is answered.
    pub forced_code: Option<ResponseCode>,
    /// Requests received: transport and client address.
    pub requests: Vec<(InterfaceProtocol, SocketAddr)>,
    /// Operations received, and whether they were encrypted.
    pub operations: Vec<(Opcode, bool)>,
    /// Serial number and role of the site.
    pub endpoint: Endpoint,
    /// Responses are signed if the client asks for it.
    pub is_signing: bool,
    /// Private values are returned without authentication.
    pub leaks_private_values: bool,
    /// Seconds by which its clock is behind.
    pub clock_lag_secs: u64,
    public_key: PublicKey<'static>,
    challenges: ChallengeTable,
    sessions: SessionTable,
    key: Box<dyn SigningKey>,
}

impl Default for TestHandleService {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHandleService {
    /// A service without records, with the key `privkey.bin`.
    pub fn new() -> Self {
        Self::with_keys("privkey.bin", "pubkey.bin")
    }

    /// A service with the key `admpriv.bin`.
    pub fn with_other_key() -> Self {
        Self::with_keys("admpriv.bin", "admpub.bin")
    }

    fn with_keys(private: &str, public: &str) -> Self {
        Self {
            records: BTreeMap::new(),
            homed: BTreeSet::new(),
            referral: None,
            forced_code: None,
            requests: Vec::new(),
            operations: Vec::new(),
            endpoint: Endpoint { site_serial: 1, is_primary: true },
            is_signing: true,
            leaks_private_values: false,
            clock_lag_secs: 0,
            public_key: handle_keys::public_key(public),
            challenges: ChallengeTable::new(ChallengeLimits::default()),
            sessions: SessionTable::new(SessionLimits::default()),
            key: handle_keys::private_key(private).signing_key(&AwsLcProvider).unwrap(),
        }
    }

    /// Adds a record.
    #[must_use]
    pub fn with_record(mut self, handle: &str, values: Vec<HandleValue<'static>>) -> Self {
        self.records.insert(Handle::from(handle).canonical().into_owned(), values);
        self
    }

    /// Adds a record with one URL, at index 1.
    #[must_use]
    pub fn with_url(self, handle: &str, url: &str) -> Self {
        self.with_record(handle, vec![HandleValue::new(1, "URL", url.to_owned())])
    }

    /// The public key of the server.
    pub fn public_key(&self) -> PublicKey<'static> {
        self.public_key.clone()
    }

    /// The number of open sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Forgets all sessions, as a restart would.
    pub fn forget_sessions(&mut self) {
        self.sessions = SessionTable::new(SessionLimits::default());
    }

    /// The transports of the requests received, in order.
    pub fn transports(&self) -> Vec<InterfaceProtocol> {
        self.requests.iter().map(|(transport, _)| *transport).collect()
    }

    /// The messages of the response to a request.
    pub fn respond(&mut self, bytes: &[u8], transport: ServerTransport) -> Vec<Vec<u8>> {
        let mut now = now();
        now.unix -= self.clock_lag_secs;
        let Ok(envelope) = Envelope::from_bytes(bytes) else { return Vec::new() };
        let mut work = Budget::PER_REQUEST;
        let opened;
        let mut bytes = bytes;
        let is_challenged = self.challenges.contains(envelope.session_id);
        let encrypted = envelope.flags.contains(EnvelopeFlags::ENCRYPTED);
        if encrypted {
            match self.sessions.open(bytes, is_challenged, now, &mut context(&mut work)) {
                Ok((plain, _)) => opened = plain,
                Err(error) => return self.error_response(envelope, RejectionReason::Session(error)),
            }
            bytes = &opened;
        }
        let incoming = match self.endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => incoming,
            Err(refusal) => return refusal.response().map(Into::into).into_iter().collect(),
        };
        self.operations.push((incoming.parts.header.opcode, encrypted));
        let opcode = incoming.parts.header.opcode;
        let is_challenge_response =
            opcode == Opcode::CHALLENGE_RESPONSE && !self.sessions.contains(envelope.session_id);
        if envelope.session_id != 0
            && !encrypted
            && !is_challenge_response
            && let Err(error) =
                self.sessions.verify(&incoming.parts, is_challenged, now, &mut context(&mut work))
        {
            return self.error_response(envelope, RejectionReason::Session(error));
        }
        let mut incoming = incoming;
        match ChallengeResponse::from_request(&incoming.request) {
            Some(answer) => self.authenticate(incoming, &answer),
            None => self.execute(&mut incoming, false),
        }
    }

    fn error_response(&self, envelope: Envelope, reason: RejectionReason) -> Vec<Vec<u8>> {
        self.endpoint.reject(envelope, None, reason, now()).response().map(Into::into).into_iter().collect()
    }

    fn authenticate(
        &mut self,
        mut incoming: IncomingRequest<'_>,
        answer: &ChallengeResponse<'_>,
    ) -> Vec<Vec<u8>> {
        let taken = self.challenges.consume(incoming.parts.envelope.session_id, now());
        let proven = taken.and_then(|pending| {
            let values = self.records.get(&*answer.key_handle.canonical()).cloned().unwrap_or_default();
            let index = pending.verify(answer, &values, &mut context(&mut incoming.budget))?;
            Ok((pending, ValueReference::new(index, answer.key_handle.as_bytes().to_vec())))
        });
        match proven {
            Ok((pending, identity)) => {
                self.sessions.mark_authenticated(pending.id(), &identity, Digest::new(&[]));
                let request =
                    self.endpoint.decode_request(pending.request(), incoming.transport, now()).unwrap();
                self.execute(&mut request.resume_after_challenge(incoming), true)
            }
            Err(error) => {
                let text = error.to_string();
                let failed = ResponseData::Error { message: Some(text.as_bytes()) };
                let response = incoming.respond(error.response_code(), failed);
                vec![self.seal(&mut incoming, response)]
            }
        }
    }

    fn execute(&mut self, incoming: &mut IncomingRequest<'_>, is_authenticated: bool) -> Vec<Vec<u8>> {
        let session = incoming.session_id;
        let proven =
            self.sessions.get_mut(session).is_some_and(|session| session.authenticated_identity().is_some());
        let opcode = incoming.parts.header.opcode;
        if let Some(code) = self.forced_code {
            let response = incoming.respond(code, ResponseData::Error { message: Some(b"forced code") });
            return vec![self.seal(incoming, response)];
        }
        if let Some((code, handle, values)) = self.referral.clone() {
            let values = Some(WireList::from(&values[..])).filter(|values| !values.is_empty());
            let response =
                incoming.respond(code, ResponseData::Referral { handle: Handle::new(&handle), values });
            return vec![self.seal(incoming, response)];
        }
        if opcode.is_admin() && !is_authenticated && !proven {
            return vec![self.challenge(incoming)];
        }
        if matches!(opcode, Opcode::LIST_HANDLES | Opcode::LIST_HOMED_PREFIXES) {
            return self.list(incoming);
        }
        let mut texts = Vec::new();
        let request = incoming.request;
        if let Request::Resolve { handle, indexes, types } = request {
            return self.resolve(incoming, handle, indexes, types, is_authenticated || proven);
        }
        if let Request::SessionSetup(setup) = request {
            return vec![self.set_up_session(incoming, &setup)];
        }
        let (code, outcome) = self.apply_change(opcode, &request, incoming.parts.header.flags, &mut texts);
        let response = incoming.respond(code, outcome);
        let response = self.seal(incoming, response);
        if opcode == Opcode::SESSION_TERMINATE {
            self.sessions.remove(session);
        }
        vec![response]
    }

    fn resolve(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        handle: Handle<'_>,
        indexes: WireList<'_, u32>,
        types: WireList<'_, &[u8]>,
        is_authenticated: bool,
    ) -> Vec<Vec<u8>> {
        let failed = ResponseData::Error { message: Some(b"") };
        let Some(values) = self.records.get(&*handle.canonical()).cloned() else {
            let response = incoming.respond(ResponseCode::HANDLE_NOT_FOUND, failed);
            return vec![self.seal(incoming, response)];
        };
        let public_only =
            incoming.parts.header.flags.contains(OpFlags::PUBLIC_ONLY) && !self.leaks_private_values;
        let all = indexes.is_empty() && types.is_empty();
        let is_requested = |value: &HandleValue<'_>| {
            all || indexes.iter().any(|index| index == value.index)
                || types.iter().any(|requested| value.matches_type_filter(requested))
        };
        let selected: Vec<HandleValue<'_>> = values
            .into_iter()
            .filter(|value| is_requested(value) && (!public_only || value.is_public()))
            .collect();
        let in_session = self.sessions.contains(incoming.session_id);
        let has_secrets = selected.iter().any(|value| !value.is_public());
        if !public_only && !is_authenticated && !self.leaks_private_values && (in_session || has_secrets) {
            return vec![self.challenge(incoming)];
        }
        let (code, outcome) = match &selected[..] {
            [] => (ResponseCode::VALUES_NOT_FOUND, failed),
            selected => {
                (ResponseCode::SUCCESS, ResponseData::Resolved { handle, values: WireList::from(selected) })
            }
        };
        let response = incoming.respond(code, outcome);
        vec![self.seal(incoming, response)]
    }

    fn apply_change<'r>(
        &mut self,
        opcode: Opcode,
        request: &Request<'r>,
        flags: OpFlags,
        minted: &'r mut Vec<u8>,
    ) -> (ResponseCode, ResponseData<'r>) {
        let done = (ResponseCode::SUCCESS, ResponseData::Empty);
        let failed = |code| (code, ResponseData::Error { message: Some(&b"failed"[..]) });
        match *request {
            Request::WriteValues { handle, values } => {
                let mut name = handle.as_bytes().to_vec();
                if flags.contains(OpFlags::MINT_NEW_SUFFIX) {
                    name.extend_from_slice(b"minted");
                }
                *minted = name;
                let key = Handle::new(minted).canonical().into_owned();
                let values = values.iter().map(HandleValue::into_owned);
                match (opcode, self.records.get_mut(&key)) {
                    (Opcode::CREATE_HANDLE, Some(_)) if !flags.contains(OpFlags::OVERWRITE) => {
                        failed(ResponseCode::HANDLE_ALREADY_EXISTS)
                    }
                    (Opcode::CREATE_HANDLE, _) => {
                        self.records.insert(key, values.collect());
                        (ResponseCode::SUCCESS, ResponseData::Created { handle: Some(Handle::new(minted)) })
                    }
                    (_, None) => failed(ResponseCode::HANDLE_NOT_FOUND),
                    (_, Some(record)) => {
                        for value in values {
                            record.retain(|old| old.index != value.index);
                            record.push(value);
                        }
                        done
                    }
                }
            }
            Request::RemoveValues { handle, indexes } => match self.records.get_mut(&*handle.canonical()) {
                Some(record) => {
                    record.retain(|value| indexes.iter().all(|index| index != value.index));
                    done
                }
                None => failed(ResponseCode::HANDLE_NOT_FOUND),
            },
            Request::HandleOnly { handle } => {
                let key = handle.canonical().into_owned();
                match opcode {
                    Opcode::DELETE_HANDLE if self.records.remove(&key).is_none() => {
                        failed(ResponseCode::HANDLE_NOT_FOUND)
                    }
                    Opcode::HOME_PREFIX => {
                        self.homed.insert(key);
                        done
                    }
                    Opcode::UNHOME_PREFIX => {
                        self.homed.remove(&key);
                        done
                    }
                    _ => done,
                }
            }
            _ => done,
        }
    }

    /// A list of handles, in as many messages as it needs.
    fn list(&mut self, incoming: &mut IncomingRequest<'_>) -> Vec<Vec<u8>> {
        let names: Vec<Vec<u8>> = match incoming.request {
            Request::HandleOnly { handle } => {
                let prefix = handle.suffix().unwrap_or(handle.as_bytes()).to_ascii_uppercase();
                let is_in = |name: &&Vec<u8>| Handle::new(name).prefix() == prefix;
                self.records.keys().filter(is_in).cloned().collect()
            }
            _ => self.homed.iter().cloned().collect(),
        };
        let mut messages: Vec<&[Vec<u8>]> = names.chunks(limits::LIST_BATCH_HANDLES).collect();
        if messages.is_empty() {
            messages.push(&[]);
        }
        let last = messages.len() - 1;
        let mut sent = Vec::new();
        for (number, batch) in messages.into_iter().enumerate() {
            let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            let mut response =
                incoming.respond(ResponseCode::SUCCESS, ResponseData::Handles(WireList::from(&batch[..])));
            if number < last {
                response.header.flags |= OpFlags::CONTINUOUS;
            }
            sent.push(self.seal(incoming, response));
        }
        sent
    }

    fn set_up_session(
        &mut self,
        incoming: &mut IncomingRequest<'_>,
        setup: &tendot_proto::message::SessionSetup<'_>,
    ) -> Vec<u8> {
        let envelope = incoming.parts.envelope;
        let context = &mut context(&mut incoming.budget);
        let answer = ServerKeyExchange::new(setup, &envelope, &mut SystemRandom, context).unwrap();
        let data = answer.response_data().to_vec();
        let taken = |id| self.challenges.contains(id);
        let id = self.sessions.insert(answer, now(), &mut SystemRandom, taken);
        let outcome = ResponseData::SessionSetup { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
        response.envelope.session_id = id;
        self.seal(incoming, response)
    }

    fn challenge(&mut self, incoming: &mut IncomingRequest<'_>) -> Vec<u8> {
        let request = incoming.parts.to_bytes();
        let taken = |id| self.sessions.contains(id);
        let work = &mut incoming.budget;
        let issued = self.challenges.issue(&request, now(), &mut SystemRandom, &mut context(work), taken);
        let challenge = incoming_challenge(issued.unwrap(), incoming);
        let challenge = Message::from_bytes(&challenge).unwrap();
        self.seal(incoming, challenge)
    }

    fn seal(&mut self, incoming: &mut IncomingRequest<'_>, response: Message<'_>) -> Vec<u8> {
        let session = self.sessions.get_mut(incoming.session_id).map(|session| session.session_mut());
        let mut sealing = SealContext {
            provider: &AwsLcProvider,
            random: &mut SystemRandom,
            policy: AuthPolicy::default(),
            server_key: self.is_signing.then_some(&*self.key),
            session,
        };
        incoming.seal(response, &mut sealing).unwrap()
    }
}

/// Context of an operation, with the default policy.
fn context(budget: &mut Budget) -> AuthContext<'_> {
    AuthContext::new(&AwsLcProvider, AuthPolicy::default(), budget)
}

fn incoming_challenge(
    pending: &tendot_proto::auth::PendingChallenge,
    incoming: &IncomingRequest<'_>,
) -> Vec<u8> {
    incoming.challenge(pending).to_bytes().unwrap()
}

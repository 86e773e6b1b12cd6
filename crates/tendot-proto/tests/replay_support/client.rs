//! Enough of a client to have conversations with.

use tendot_proto::auth::{Credentials, Group, Policy, Session, SessionProposal, verify_signature};
use tendot_proto::crypto::AwsLc;
use tendot_proto::record::PublicKey;
use tendot_proto::wire::List;
use tendot_proto::{
    Body, Envelope, EnvelopeFlags, Handle, Message, Now, OpFlags, Opcode, Outcome, Parts, Reference, Request,
    Response, Value, Version, Work,
};

use super::{Fixed, private_key};

pub struct Client {
    random: Fixed,
    policy: Policy,
    server_key: PublicKey<'static>,
    session: Option<Session>,
    proposal: Option<SessionProposal>,
    /// The request that was sent last, before encryption.
    sent: Vec<u8>,
    next_id: u32,
}

/// How a request is to be sent.
#[derive(Default)]
pub struct Manner {
    pub add: OpFlags,
    pub remove: OpFlags,
    pub version: Option<Version>,
    pub in_session: bool,
    pub encrypted: bool,
}

/// A request in a script's words.
pub enum Ask {
    Resolve { handle: String, indexes: Vec<u32>, types: Vec<String> },
    Delete { handle: String },
    Create { handle: String, values: Vec<Value<'static>> },
    Terminate,
    Session { identity: Option<String>, group: Group },
}

impl Client {
    pub fn new() -> Self {
        Self {
            random: Fixed(2),
            policy: Policy::default(),
            server_key: private_key("privkey.bin").public_key().unwrap(),
            session: None,
            proposal: None,
            sent: Vec::new(),
            next_id: 100,
        }
    }

    pub fn ask(&mut self, ask: &Ask, manner: &Manner, now: Now) -> Vec<u8> {
        let types: Vec<&[u8]>;
        let identity;
        let (opcode, request) = match ask {
            Ask::Resolve { handle, indexes, types: asked } => {
                types = asked.iter().map(|asked| asked.as_bytes()).collect();
                let (indexes, types) = (List::from(&indexes[..]), List::from(&types[..]));
                (Opcode::RESOLUTION, Request::Resolve { handle: Handle::from(&**handle), indexes, types })
            }
            Ask::Delete { handle } => {
                (Opcode::DELETE_HANDLE, Request::Named { handle: Handle::from(&**handle) })
            }
            Ask::Create { handle, values } => {
                let (handle, values) = (Handle::from(&**handle), List::from(&values[..]));
                (Opcode::CREATE_HANDLE, Request::Values { handle, values })
            }
            Ask::Terminate => (Opcode::SESSION_TERMINATE, Request::Plain { handle: Some(Handle::BLANK) }),
            Ask::Session { identity: by, group } => {
                let mut work = Work::REQUEST;
                let proposal = SessionProposal::new(*group, &AwsLc, &mut self.random, &mut work).unwrap();
                self.proposal = Some(proposal);
                identity = by.as_deref().map(Reference::parse);
                let setup = self.proposal.as_ref().unwrap().setup(identity.as_ref(), 86_400);
                (Opcode::SESSION_SETUP, Request::SessionSetup(setup))
            }
        };
        self.next_id += 1;
        let mut message = Message::request(opcode, request, self.next_id, now);
        message.header.flags = message.header.flags.with(manner.add).without(manner.remove);
        if let Some(version) = manner.version {
            message.envelope.version = version;
            message.envelope.suggestion = version;
        }
        if manner.in_session {
            message.envelope.session_id = self.session.as_ref().map_or(7, Session::id);
        }
        self.sent = message.to_bytes().unwrap();
        if let (true, Some(session)) = (manner.in_session, &mut self.session) {
            session.authenticate(&mut self.sent, &AwsLc, &mut { Work::REQUEST }).unwrap();
            if manner.encrypted {
                let key = session.key().clone();
                return key.encrypt(&self.sent, &AwsLc, &mut self.random, &mut { Work::REQUEST }).unwrap();
            }
        }
        self.sent.clone()
    }

    /// Answers the challenge that was the last response.
    pub fn answer(
        &mut self,
        credentials: &Credentials<'_>,
        identity: &str,
        challenge: &[u8],
        now: Now,
    ) -> Vec<u8> {
        let challenge = Message::from_bytes(challenge).unwrap();
        let request = Parts::split(&self.sent).unwrap();
        let mut work = Work::REQUEST;
        let answer = credentials
            .answer(&request, &challenge, &self.policy, &AwsLc, &mut self.random, &mut work)
            .unwrap();
        let identity = Reference::parse(identity);
        self.next_id += 1;
        let mut message = Message::request(
            Opcode::CHALLENGE_RESPONSE,
            Request::ChallengeAnswer {
                auth_type: credentials.auth_type(),
                key_handle: identity.handle(),
                key_index: identity.index,
                answer: &answer,
            },
            self.next_id,
            now,
        );
        message.envelope.session_id = challenge.envelope.session_id;
        message.to_bytes().unwrap()
    }

    /// Takes a whole response: decrypts it and looks at what proves it. Tells what it found, as words.
    pub fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<&'static str>) {
        let mut found = Vec::new();
        let mut work = Work::REQUEST;
        let mut plain = bytes.to_vec();
        if Envelope::from_bytes(bytes).unwrap().flags.has(EnvelopeFlags::ENCRYPTED) {
            found.push("encrypted");
            let key = self.session.as_ref().unwrap().key().clone();
            plain = key.decrypt(bytes, &AwsLc, &mut work).unwrap();
        }
        let parts = Parts::split(&plain).unwrap();
        let message = Message::from_parts(&parts).unwrap();
        match message.credential() {
            Some(credential) if credential.credential_type == b"HS_MAC" => {
                self.session.as_mut().unwrap().verify(&parts, &AwsLc, &mut work).unwrap();
                found.push("authenticated");
            }
            Some(_) => {
                verify_signature(&parts, &self.server_key, &self.policy, &AwsLc, &mut work).unwrap();
                found.push("signed");
            }
            None => {}
        }
        if let Body::Response(Response { digest, outcome }) = message.body {
            if digest.is_some() {
                found.push("with digest");
            }
            if let (Outcome::Session { .. }, Some(proposal)) = (outcome, self.proposal.take()) {
                let request = Parts::split(&self.sent).unwrap();
                let (key, policy) = (&self.server_key, &self.policy);
                self.session =
                    Some(proposal.accept(&request, &parts, key, policy, &AwsLc, &mut work).unwrap());
            }
        }
        (plain, found)
    }
}

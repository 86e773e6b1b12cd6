//! Challenges and sessions under arbitrary client actions: no response is accepted twice or without the key, and the tables stay
//! within their limits.

use std::sync::LazyLock;
use std::time::Duration;

use tendot_proto::auth::{
    AuthContext, AuthPolicy, ChallengeLimits, ChallengeResponse, ChallengeTable, ClientKeyExchange, DhGroup,
    PrivateKey, PublicKeyResponse, SecretKeyMac, SecretKeyResponse, ServerKeyExchange, Session,
    SessionLimits, SessionTable,
};
use tendot_proto::crypto::{AwsLcProvider, SigningKey};
use tendot_proto::endpoint::{Endpoint, SealContext, Transport};
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Budget, Handle, HandleValue, Message, MessageParts, Now, OpFlags, Opcode, ProtocolVersion, Request,
    ResponseCode, ResponseData,
};

use crate::seeded_random::SeededRandom;

/// Context of an operation, with the default policy.
fn context(budget: &mut Budget) -> AuthContext<'_> {
    AuthContext::new(&AwsLcProvider, AuthPolicy::default(), budget)
}

pub(crate) fn check(bytes: &[u8]) {
    check_parsers(bytes);
    let mut machines = AuthMachines::new();
    let mut rest = bytes;
    for _ in 0..MAX_STEPS {
        let Some(([action, operand], after)) = rest.split_first_chunk() else { break };
        rest = after;
        machines.step(*action, *operand, &mut rest);
    }
}

/// Long enough for every interaction, short enough to try many inputs.
const MAX_STEPS: usize = 60;

/// Untrusted bytes that are not messages.
fn check_parsers(bytes: &[u8]) {
    for version in [ProtocolVersion::new(2, 0), ProtocolVersion::LATEST] {
        if let Ok(response) = SecretKeyResponse::from_bytes(bytes, version) {
            assert_eq!(response.to_bytes(), bytes);
        }
    }
    if let Ok(response) = PublicKeyResponse::from_bytes(bytes) {
        assert_eq!(response.to_bytes(), bytes);
    }
    if let Ok(key) = PublicKey::from_bytes(bytes) {
        assert_eq!(key.to_bytes(), bytes);
    }
    let _ = PrivateKey::from_file_bytes(bytes, Some(b"secret"), &AwsLcProvider, &mut Budget::new(20));
}

/// Challenge and session tables under test.
struct AuthMachines {
    now: Now,
    random: SeededRandom,
    challenges: ChallengeTable,
    sessions: SessionTable,
    /// Challenges: id, correct response, and whether it was used.
    open: Vec<(u32, Vec<u8>, bool)>,
    client: Option<Session>,
    /// Accepted messages of the session.
    accepted: Vec<Vec<u8>>,
}

/// Key pair of the server.
static SERVER_KEY: LazyLock<(Box<dyn SigningKey>, PublicKey<'static>)> = LazyLock::new(|| {
    let file = include_bytes!("../../conformance/vectors/handle-net/privkey.bin");
    let private = PrivateKey::from_file_bytes(file, None, &AwsLcProvider, &mut { Budget::PER_REQUEST })
        .expect("valid test key");
    (
        private.signing_key(&AwsLcProvider).expect("valid signing key"),
        private.public_key().expect("complete key"),
    )
});

const SECRET_KEY: &[u8] = b"opensesame";

impl AuthMachines {
    fn new() -> Self {
        let limits = ChallengeLimits {
            max_challenges: 4,
            max_request_bytes: 1_000,
            lifetime: Duration::from_secs(20),
        };
        Self {
            now: Now { elapsed: Duration::ZERO, unix: 1_700_000_000 },
            random: SeededRandom(3),
            challenges: ChallengeTable::new(limits),
            sessions: SessionTable::new(SessionLimits {
                max_sessions: 4,
                max_idle: Duration::from_secs(100),
                max_age: Duration::from_secs(1_000),
            }),
            open: Vec::new(),
            client: None,
            accepted: Vec::new(),
        }
    }

    fn step(&mut self, action: u8, operand: u8, rest: &mut &[u8]) {
        match action % 8 {
            0 => self.now.elapsed += Duration::from_secs(operand.into()),
            1 | 2 => self.challenge(operand),
            3 => self.respond(operand, rest),
            4 if self.client.is_none() && self.accepted.is_empty() => self.session(),
            4..=6 => self.message(operand),
            _ => self.resend(operand, rest),
        }
        assert!(self.challenges.len() <= 4 && self.challenges.request_bytes() <= 1_000);
        assert!(self.sessions.len() <= 4);
    }

    fn request(&self, operand: u8) -> Message<'static> {
        let handle = Handle::new([&b"10.1000/1"[..], b"10.1000/2"][usize::from(operand % 2)]);
        Message::request(Opcode::DELETE_HANDLE, Request::HandleOnly { handle }, u32::from(operand), self.now)
    }

    fn challenge(&mut self, operand: u8) {
        let request = self.request(operand).to_bytes().expect("short message");
        let mut budget = Budget::PER_REQUEST;
        let issued =
            self.challenges.issue(&request, self.now, &mut self.random, &mut context(&mut budget), |_| false);
        let pending = issued.expect("oldest challenges are evicted");
        // HMAC instead of PBKDF2, which would be slow.
        if self.open.len() < 8 {
            let (mac, challenge) = (SecretKeyMac::HmacSha256, pending.challenge());
            let response = SecretKeyResponse::create(
                mac,
                SECRET_KEY,
                challenge,
                &mut self.random,
                &mut context(&mut budget),
            );
            let response = response.expect("valid response");
            self.open.push((pending.id(), response, false));
        }
    }

    fn respond(&mut self, operand: u8, rest: &mut &[u8]) {
        if self.open.is_empty() {
            return;
        }
        let index = usize::from(operand) % self.open.len();
        let (id, correct_proof, is_used) = &mut self.open[index];
        let Ok(pending) = self.challenges.consume(*id, self.now) else { return };
        assert!(!*is_used, "a challenge is consumed once");
        *is_used = true;
        let mut proof = correct_proof.clone();
        let is_changed = operand >= 0x80;
        if is_changed && let Some(([offset, by], after)) = rest.split_first_chunk() {
            *rest = after;
            let offset = usize::from(*offset) % proof.len();
            proof[offset] ^= by | 1;
        }
        let values = [HandleValue::with_data(301, "HS_SECKEY", SECRET_KEY)];
        let response = ChallengeResponse {
            auth_type: b"HS_SECKEY",
            key_handle: Handle::from("10.1000/A"),
            key_index: 301,
            proof: &proof,
        };
        let verified = pending.verify(
            &response,
            &values,
            &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut Budget::new(60_000)),
        );
        if response.proof == *correct_proof {
            assert_eq!(verified, Ok(301));
        } else {
            assert!(verified.is_err());
        }
    }

    fn session(&mut self) {
        let mut budget = Budget::PER_REQUEST;
        let proposal = ClientKeyExchange::new(DhGroup::Modp1024, &mut self.random, &mut context(&mut budget))
            .expect("enough budget");
        let setup = proposal.request(None, 60);
        let mut request = Message::request(Opcode::SESSION_SETUP, Request::SessionSetup(setup), 7, self.now);
        request.header.flags |= OpFlags::CERTIFY | OpFlags::REQUEST_DIGEST;
        let request = request.to_bytes().expect("short message");
        let endpoint = Endpoint { site_serial: 1, is_primary: true };
        let mut incoming =
            endpoint.decode_request(&request, Transport::Tcp, self.now).expect("valid request");
        let envelope = incoming.parts.envelope;
        let exchange = ServerKeyExchange::new(&setup, &envelope, &mut self.random, &mut context(&mut budget));
        let exchange = exchange.expect("valid proposal");
        let data = exchange.response_data().to_vec();
        let id = self.sessions.insert(exchange, self.now, &mut self.random, |_| false);
        let mut response = incoming
            .respond(ResponseCode::SUCCESS, ResponseData::SessionSetup { mode: setup.mode, data: &data });
        response.envelope.session_id = id;
        let (key, public) = &*SERVER_KEY;
        let mut seal = SealContext {
            provider: &AwsLcProvider,
            random: &mut self.random,
            policy: AuthPolicy::default(),
            server_key: Some(&**key),
            session: None,
        };
        let response = incoming.seal(response, &mut seal).expect("short message");
        let (request, response) = (
            MessageParts::split(&request).expect("own message decodes"),
            MessageParts::split(&response).expect("own message decodes"),
        );
        let session = proposal.complete(&request, &response, public, &mut context(&mut budget));
        self.client = Some(session.expect("valid response"));
    }

    fn message(&mut self, operand: u8) {
        let mut request = self.request(operand);
        let Some(session) = &mut self.client else { return };
        request.envelope.session_id = session.id();
        let mut bytes = request.to_bytes().expect("short message");
        let mut budget = Budget::PER_REQUEST;
        session.add_mac(&mut bytes, &mut context(&mut budget)).expect("counter not exhausted");
        if operand >= 0x80 {
            let key = session.key().clone();
            bytes = key.encrypt(&bytes, &mut self.random, &mut context(&mut budget)).expect("short message");
        }
        if self.receive(&bytes) {
            self.accepted.push(bytes);
        } else {
            // The session has expired, or ended after decryption failures.
            self.client = None;
        }
    }

    /// Sends an accepted message again, unchanged or with one byte changed.
    fn resend(&mut self, operand: u8, rest: &mut &[u8]) {
        let Some(mut bytes) = self.accepted.get(usize::from(operand) % self.accepted.len().max(1)).cloned()
        else {
            return;
        };
        if operand >= 0x80
            && let Some(([offset, by], after)) = rest.split_first_chunk()
        {
            *rest = after;
            let offset = usize::from(*offset) % bytes.len();
            bytes[offset] ^= by;
        }
        assert!(!self.receive(&bytes), "replayed or changed message accepted");
    }

    fn receive(&mut self, bytes: &[u8]) -> bool {
        let mut budget = Budget::PER_REQUEST;
        if self.sessions.open(bytes, false, self.now, &mut context(&mut budget)).is_ok() {
            return true;
        }
        let Ok(parts) = MessageParts::split(bytes) else { return false };
        self.sessions.verify(&parts, false, self.now, &mut context(&mut budget)).is_ok()
    }
}

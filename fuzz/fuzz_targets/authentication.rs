//! The machines of authentication: challenges and sessions under a random sequence of what a client may do. No answer
//! works twice, none that was not made with the key works at all, and neither table grows beyond its bounds.

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tendot_proto::auth::{
    Answer, ChallengeLimits, ChallengeTable, Group, Policy, PrivateKey, PublicKeyAnswer, SecretKeyAnswer,
    SecretKeyMac, Session, SessionAnswer, SessionLimits, SessionProposal, SessionTable,
};
use tendot_proto::crypto::{AwsLc, Random, SigningKey};
use tendot_proto::endpoint::{Endpoint, Sealing, Transport};
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Handle, Message, Now, OpFlags, Opcode, Outcome, Parts, Request, ResponseCode, Value, Version, Work,
};

struct Counter(u64);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    parsers(bytes);
    let mut machines = Machines::new();
    let mut rest = bytes;
    for _ in 0..STEPS {
        let Some(([what, which], after)) = rest.split_first_chunk() else { break };
        rest = after;
        machines.step(*what, *which, &mut rest);
    }
});

/// Enough for anything to happen, and not so many that few inputs are tried.
const STEPS: usize = 60;

/// What comes from outside and is not a message.
fn parsers(bytes: &[u8]) {
    for version in [Version::new(2, 0), Version::OURS] {
        if let Ok(answer) = SecretKeyAnswer::from_bytes(bytes, version) {
            assert_eq!(answer.to_bytes(), bytes);
        }
    }
    if let Ok(answer) = PublicKeyAnswer::from_bytes(bytes) {
        assert_eq!(answer.to_bytes(), bytes);
    }
    if let Ok(key) = PublicKey::from_bytes(bytes) {
        assert_eq!(key.to_bytes(), bytes);
    }
    let _ = PrivateKey::from_file(bytes, Some(b"secret"), &AwsLc, &mut Work::new(20));
}

struct Machines {
    now: Now,
    random: Counter,
    challenges: ChallengeTable,
    sessions: SessionTable,
    /// Challenges, the right answer of each, and whether it has been used.
    open: Vec<(u32, Vec<u8>, bool)>,
    client: Option<Session>,
    /// Messages of the session that were taken.
    taken: Vec<Vec<u8>>,
}

/// The server's.
static KEY: LazyLock<(Box<dyn SigningKey>, PublicKey<'static>)> = LazyLock::new(|| {
    let file = include_bytes!("../../conformance/vectors/handle-net/privkey.bin");
    let private = PrivateKey::from_file(file, None, &AwsLc, &mut { Work::REQUEST }).expect("it is a key");
    (private.signing_key(&AwsLc).expect("it signs"), private.public_key().expect("it is whole"))
});

const SECRET: &[u8] = b"opensesame";

impl Machines {
    fn new() -> Self {
        let limits = ChallengeLimits { capacity: 4, bytes: 1_000, life: Duration::from_secs(20) };
        Self {
            now: Now { elapsed: Duration::ZERO, unix: 1_700_000_000 },
            random: Counter(3),
            challenges: ChallengeTable::new(limits, Policy::default()),
            sessions: SessionTable::new(SessionLimits { capacity: 4, timeout: Duration::from_secs(100) }),
            open: Vec::new(),
            client: None,
            taken: Vec::new(),
        }
    }

    fn step(&mut self, what: u8, which: u8, rest: &mut &[u8]) {
        match what % 8 {
            0 => self.now.elapsed += Duration::from_secs(which.into()),
            1 | 2 => self.challenge(which),
            3 => self.answer(which, rest),
            4 if self.client.is_none() && self.taken.is_empty() => self.session(),
            4..=6 => self.message(which),
            _ => self.again(which, rest),
        }
        assert!(self.challenges.len() <= 4 && self.challenges.bytes() <= 1_000);
        assert!(self.sessions.len() <= 4);
    }

    fn request(&self, which: u8) -> Message<'static> {
        let handle = Handle::new([&b"10.1000/1"[..], b"10.1000/2"][usize::from(which % 2)]);
        Message::request(Opcode::DELETE_HANDLE, Request::Named { handle }, u32::from(which), self.now)
    }

    fn challenge(&mut self, which: u8) {
        let request = self.request(which).to_bytes().expect("it is short");
        let mut work = Work::REQUEST;
        let issued =
            self.challenges.issue(&request, self.now, &AwsLc, &mut self.random, &mut work, |_| false);
        let pending = issued.expect("there is room");
        // By HMAC, though clients take PBKDF2: this target is to try much, not to compute much.
        if self.open.len() < 8 {
            let (mac, challenge) = (SecretKeyMac::HmacSha256, pending.challenge());
            let answer = SecretKeyAnswer::make(mac, SECRET, challenge, &AwsLc, &mut self.random, &mut work);
            let answer = answer.expect("we know the secret");
            self.open.push((pending.id(), answer, false));
        }
    }

    fn answer(&mut self, which: u8, rest: &mut &[u8]) {
        if self.open.is_empty() {
            return;
        }
        let at = usize::from(which) % self.open.len();
        let (id, right, used) = &mut self.open[at];
        let Ok(pending) = self.challenges.take(*id, self.now) else { return };
        assert!(!*used, "a challenge is there once");
        *used = true;
        let mut answer = right.clone();
        let changed = which >= 0x80;
        if changed && let Some(([place, by], after)) = rest.split_first_chunk() {
            *rest = after;
            let place = usize::from(*place) % answer.len();
            answer[place] ^= by | 1;
        }
        let values = [Value::with_data(301, "HS_SECKEY", SECRET)];
        let answer = Answer {
            auth_type: b"HS_SECKEY",
            key_handle: Handle::from("10.1000/A"),
            key_index: 301,
            answer: &answer,
        };
        let verified = pending.verify(&answer, &values, &Policy::default(), &AwsLc, &mut Work::new(60_000));
        if answer.answer == *right {
            assert_eq!(verified, Ok(301));
        } else {
            assert!(verified.is_err());
        }
    }

    fn session(&mut self) {
        let mut work = Work::REQUEST;
        let proposal = SessionProposal::new(Group::Modp1024, &AwsLc, &mut self.random, &mut work)
            .expect("there is work enough");
        let setup = proposal.setup(None, 60);
        let mut request = Message::request(Opcode::SESSION_SETUP, Request::SessionSetup(setup), 7, self.now);
        request.header.flags = request.header.flags.with(OpFlags::CERTIFY).with(OpFlags::REQUEST_DIGEST);
        let request = request.to_bytes().expect("it is short");
        let endpoint = Endpoint { site_serial: 1, primary: true };
        let mut incoming = endpoint.read(&request, Transport::Tcp, self.now).expect("it is a request");
        let policy = Policy::default();
        let envelope = incoming.message.envelope;
        let answer = SessionAnswer::new(&setup, &envelope, &policy, &AwsLc, &mut self.random, &mut work);
        let answer = answer.expect("it is a good proposal");
        let data = answer.data().to_vec();
        let id = self.sessions.insert(answer, self.now, &mut self.random, |_| false);
        let mut response =
            incoming.respond(ResponseCode::SUCCESS, Outcome::Session { mode: setup.mode, data: &data });
        response.envelope.session_id = id;
        let (key, public) = &*KEY;
        let mut sealing = Sealing {
            crypto: &AwsLc,
            random: &mut self.random,
            policy: &policy,
            key: Some(&**key),
            session: None,
        };
        let response = incoming.seal(response, &mut sealing).expect("it is short");
        let (request, response) =
            (Parts::split(&request).expect("our own"), Parts::split(&response).expect("our own"));
        let session = proposal.accept(&request, &response, public, &policy, &AwsLc, &mut work);
        self.client = Some(session.expect("it is a good answer"));
    }

    fn message(&mut self, which: u8) {
        let mut request = self.request(which);
        let Some(session) = &mut self.client else { return };
        request.envelope.session_id = session.id();
        let mut bytes = request.to_bytes().expect("it is short");
        let mut work = Work::REQUEST;
        session.authenticate(&mut bytes, &AwsLc, &mut work).expect("counters are left");
        if which >= 0x80 {
            let key = session.key().clone();
            bytes = key.encrypt(&bytes, &AwsLc, &mut self.random, &mut work).expect("it is short");
        }
        if self.receive(&bytes) {
            self.taken.push(bytes);
        } else {
            // It was idle for too long, or too much did not decrypt.
            self.client = None;
        }
    }

    /// A message that was taken comes again, as it was or changed in one place.
    fn again(&mut self, which: u8, rest: &mut &[u8]) {
        let Some(mut bytes) = self.taken.get(usize::from(which) % self.taken.len().max(1)).cloned() else {
            return;
        };
        if which >= 0x80
            && let Some(([place, by], after)) = rest.split_first_chunk()
        {
            *rest = after;
            let place = usize::from(*place) % bytes.len();
            bytes[place] ^= by;
        }
        assert!(!self.receive(&bytes), "taken twice, or though it was changed");
    }

    fn receive(&mut self, bytes: &[u8]) -> bool {
        let mut work = Work::REQUEST;
        if self.sessions.open(bytes, false, self.now, &AwsLc, &mut work).is_ok() {
            return true;
        }
        let Ok(parts) = Parts::split(bytes) else { return false };
        self.sessions.verify(&parts, false, self.now, &AwsLc, &mut work).is_ok()
    }
}

//! The conversations that were recorded from Handle.Net 9, held again with the registry: the same codes and values.
//!
//! What the messages are made of, sessions and encryption are tried in `tendot-proto`; here it is about what was
//! asked and answered. Proofs are checked, with the nonces of the recording.

#[path = "../../tendot-proto/tests/recorded/mod.rs"]
mod recorded;
mod scene;

use std::collections::HashMap;

use pollster::block_on;
use recorded::{Recording, recordings, vectors};
use scene::*;
use tendot_proto::auth::{Answer, ChallengeLimits, ChallengeTable, Policy};
use tendot_proto::crypto::{AwsLc, Random};
use tendot_proto::endpoint::{Endpoint, Reason, Transport};
use tendot_proto::record::Record;
use tendot_proto::{
    Body, Handle, Message, OpFlags, Opcode, Outcome, Permissions, Reference, Request, ResponseCode, Ttl,
    Value, Work,
};
use tendot_registry::{Caller, Error, Identity, Operation, Query, Registry, Resolution, Settings, Write};
use tendot_store::{Edit, Memory};

/// Conversations that are not about records, or that the registry does not see, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("resolve_status_handle", "computed by the server"),
    ("status_handle_auth", "computed by the server"),
    ("session_encrypted_", "is opened by tendot-proto"),
    ("verify_challenge_bad", "is answered without the registry"),
];

/// Where we answer otherwise on purpose, and what.
const OTHERWISE: &[(&str, u32)] = &[
    // An artefact of the recorded server: it could not find a record that was there.
    ("resolve_loaded_lowercase#2", 1),
    // `u` is no address.
    ("setup_limited#4", 202),
];

/// What happened between the recorded conversations, without being recorded.
fn meanwhile(registry: &Registry<Memory>, conversation: &str) {
    let operator = |what: Write<'_>| assert_eq!(code(&write(registry, "operator", &what)), 1, "{what:?}");
    let group = || admin(100, 0x0fff, "200:0.NA/10.5555");
    match conversation {
        "remove_value_pubkey" => {
            operator(add("10.5555/V-PUB", false, vec![Value::new(3, "X", ""), Value::new(4, "X", "")]));
        }
        "delete_not_found" => operator(delete("10.5555/V-SEC")),
        "insufficient_permission" => {
            put(registry.store(), "10.5555/READER", vec![Value::new(301, "HS_SECKEY", "readonly")]);
            let values = vec![url(1, "u"), admin(100, 0x0400, "301:10.5555/READER")];
            put(registry.store(), "10.5555/V-LIM", values);
        }
        "list_handles" => {
            for number in 0..60 {
                operator(create(&format!("10.5558/L-{number:02}"), vec![]));
            }
        }
        "resolve_secret2_auth_udp" => {
            let secret = Value {
                permissions: Permissions(0x0c),
                ttl: Ttl::Relative(3_600),
                ..url(1, "https://example.org/secret2")
            };
            put(registry.store(), "10.5555/SECRET2", vec![secret, group()]);
        }
        _ => {}
    }
}

/// The records of the recorded server, whose administrator was `300:0.NA/10.5555`.
fn registry() -> Registry<Memory> {
    let store = Memory::new();
    for prefix in ["0.NA", "10.5555", "10.5556", "10.5557"] {
        commit(&store, Edit::Home { prefix: prefix.into() });
    }
    let records = std::fs::read_to_string(vectors().join("records.jsonl")).unwrap();
    for line in records.lines() {
        let record = Record::from_json(line.as_bytes()).unwrap();
        let name = String::from_utf8(record.handle.into_owned()).unwrap();
        let edit =
            Edit::Put { name: name.into(), values: record.values, expect: tendot_store::Expect::Absent };
        commit(&store, edit);
    }
    let settings = Settings {
        server_admins: vec![Reference::parse("300:0.NA/10.5555")],
        server_admins_full_access: true,
        ..Settings::default()
    };
    Registry::new(store, settings)
}

/// What was answered: the code, and what came of it.
#[derive(Debug, Default, PartialEq)]
struct Answered {
    code: u32,
    name: Option<String>,
    values: Vec<Value<'static>>,
    names: Vec<String>,
}

struct Replay {
    registry: Registry<Memory>,
    challenges: ChallengeTable,
    /// Who has proved in a session who they are.
    sessions: HashMap<u32, Identity>,
}

/// The bytes of the recording, instead of random ones.
struct Recorded(Vec<u8>);

impl Random for Recorded {
    fn fill(&mut self, out: &mut [u8]) {
        let rest = self.0.split_off(out.len());
        out.copy_from_slice(&self.0);
        self.0 = rest;
    }
}

impl Replay {
    fn answer(&mut self, bytes: &[u8], transport: Transport) -> Option<Answered> {
        let endpoint = Endpoint { site_serial: 1, primary: true };
        let incoming = match endpoint.read(bytes, transport, NOW) {
            Ok(incoming) => incoming,
            Err(refusal) => {
                let Reason::Denied(denied) = refusal.reason() else { return None };
                return Some(Answered { code: denied.code().0, ..Answered::default() });
            }
        };
        if let Some(answer) = Answer::of(&incoming.request) {
            return Some(self.prove(incoming.message.envelope.session_id, &answer));
        }
        let caller =
            self.sessions.get(&incoming.session_id).cloned().map_or(Caller::Anonymous, Caller::Handle);
        Some(self.carry_out(&operation(&incoming.message)?, &caller))
    }

    /// As a server does it: may they, are they, then do it.
    fn prove(&mut self, id: u32, answer: &Answer<'_>) -> Answered {
        let failed = |code: ResponseCode| Answered { code: code.0, ..Answered::default() };
        let pending = match self.challenges.take(id, NOW) {
            Ok(pending) => pending,
            Err(error) => return failed(error.response_code()),
        };
        let message = Message::from_bytes(pending.request()).unwrap();
        let operation = operation(&message).unwrap();
        let work = &mut Work::new(200_000);
        let claim = Reference::new(answer.key_index, answer.key_handle.as_bytes());
        if let Err(error) = block_on(self.registry.authorize(&operation, &claim, work)) {
            return failed(error.response_code());
        }
        let keys = block_on(self.registry.keys(answer.key_handle, work)).unwrap();
        match Identity::prove(&pending, answer, &keys, &Policy::default(), &AwsLc, work) {
            Err(error) => failed(error.response_code()),
            Ok(identity) => {
                if message.envelope.session_id != 0 {
                    self.sessions.insert(message.envelope.session_id, identity.clone());
                }
                self.carry_out(&operation, &Caller::Handle(identity))
            }
        }
    }

    fn carry_out(&self, operation: &Operation<'_>, caller: &Caller) -> Answered {
        let work = &mut Work::new(200_000);
        let registry = &self.registry;
        let done = Answered { code: 1, ..Answered::default() };
        let outcome: Result<Answered, Error> = match operation {
            Operation::Resolve(query) => {
                block_on(registry.resolve(query, caller, work)).map(|resolution| match resolution {
                    Resolution::Values(values) => {
                        Answered { name: Some(query.name.to_string()), values, ..done }
                    }
                    Resolution::Referral(values) => Answered { code: 303, values, ..done },
                })
            }
            Operation::Write(what) => {
                let created = matches!(what, Write::Create { .. });
                block_on(registry.write(what, caller, NOW, work))
                    .map(|written| Answered { name: created.then(|| written.name.into()), ..done })
            }
            Operation::List(prefix) => block_on(registry.list(*prefix, None, 1_000, caller, work))
                .map(|page| Answered { names: page.names.into_iter().map(Into::into).collect(), ..done }),
            _ => unreachable!(),
        };
        outcome.unwrap_or_else(|error| Answered { code: error.response_code().0, ..Answered::default() })
    }
}

fn operation<'a>(message: &Message<'a>) -> Option<Operation<'a>> {
    let flags = message.header.flags;
    let Body::Request(request) = message.body else { return None };
    Some(match (message.header.opcode, request) {
        (_, Request::Resolve { handle, indexes, types }) => Operation::Resolve(Query {
            name: handle,
            indexes: indexes.iter().collect(),
            types: types.iter().collect(),
            public_only: flags.has(OpFlags::PUBLIC_ONLY),
            in_session: message.envelope.session_id != 0,
            refer: !flags.has(OpFlags::DO_NOT_REFER),
        }),
        (opcode, Request::Values { handle: name, values }) => {
            let values = values.iter().collect();
            let overwrite = flags.has(OpFlags::OVERWRITE);
            let mint = flags.has(OpFlags::MINT_NEW_SUFFIX).then_some([7; 16]);
            Operation::Write(match opcode {
                Opcode::CREATE_HANDLE => Write::Create { name, values, overwrite, mint, force: false },
                Opcode::ADD_VALUE => Write::Add { name, values, overwrite, force: false },
                _ => Write::Modify { name, values, force: false },
            })
        }
        (_, Request::RemoveValues { handle: name, indexes }) => {
            Operation::Write(Write::Remove { name, indexes: indexes.iter().collect(), force: false })
        }
        (Opcode::DELETE_HANDLE, Request::Named { handle: name }) => {
            Operation::Write(Write::Delete { name, for_ever: false })
        }
        (Opcode::HOME_PREFIX, Request::Named { handle: prefix }) => Operation::Write(Write::Home { prefix }),
        (Opcode::UNHOME_PREFIX, Request::Named { handle: prefix }) => {
            Operation::Write(Write::Unhome { prefix })
        }
        (Opcode::LIST_HANDLES, Request::Named { handle }) => Operation::List(handle),
        _ => return None,
    })
}

/// A whole message, be it the last of several datagrams.
fn whole(recording: &Recording) -> Option<Vec<u8>> {
    if !recording.note.contains("| fragment: ") {
        return Some(recording.bytes.clone());
    }
    let (_, payload) = recording.reassembled()?;
    Some([&recording.bytes[..20], &payload].concat())
}

/// What the recorded server answered; names of several messages are put together.
fn answered(message: &Message<'_>) -> Answered {
    let Body::Response(response) = message.body else { panic!("a response") };
    let owned = |handle: Handle<'_>| Some(handle.to_string());
    let mut answered = Answered { code: message.header.response_code.0, ..Answered::default() };
    match response.outcome {
        Outcome::Resolved { handle, values } => {
            answered.name = owned(handle);
            answered.values = values.iter().map(Value::into_owned).collect();
        }
        Outcome::Referral { values, .. } => {
            answered.values = values.unwrap().iter().map(Value::into_owned).collect();
        }
        Outcome::Created { handle } => answered.name = handle.and_then(owned),
        Outcome::Handles(names) => {
            answered.names = names.iter().map(|name| Handle::new(name).to_string()).collect();
        }
        _ => {}
    }
    answered
}

#[test]
fn recorded_conversations() {
    let mut replay = Replay {
        registry: registry(),
        challenges: ChallengeTable::new(ChallengeLimits::default(), Policy::default()),
        sessions: HashMap::new(),
    };
    let (mut compared, mut asked, mut last): (_, Option<(Vec<u8>, Answered)>, _) = (0, None, String::new());
    for recording in recordings() {
        let conversation = recording.name.split('#').next().unwrap();
        if NOT_HERE.iter().any(|(name, _)| conversation.starts_with(name)) {
            continue;
        }
        if last != conversation {
            meanwhile(&replay.registry, conversation);
            last = conversation.to_owned();
        }
        let Some(bytes) = whole(&recording) else { continue };
        let transport = if recording.transport == "udp" { Transport::Udp } else { Transport::Tcp };
        if recording.request {
            asked = replay.answer(&bytes, transport).map(|ours| (bytes, ours));
            continue;
        }
        let Some((request, ours)) = asked.take() else { continue };
        let message = Message::from_bytes(&bytes).unwrap();
        let theirs = answered(&message);
        if theirs.code == 402 && ours.code == 402 {
            let Body::Response(response) = message.body else { panic!() };
            let Outcome::Challenge { nonce, .. } = response.outcome else { panic!() };
            let mut random = Recorded([nonce, &message.envelope.session_id.to_be_bytes()].concat());
            let table = &mut replay.challenges;
            table.issue(&request, NOW, &AwsLc, &mut random, &mut Work::new(10_000), |_| false).unwrap();
        }
        compare(&recording.name, ours, theirs, &mut asked, request);
        compared += 1;
    }
    assert_eq!(compared, 102, "as many as are about records");
}

#[track_caller]
fn compare(
    name: &str,
    mut ours: Answered,
    mut theirs: Answered,
    asked: &mut Option<(Vec<u8>, Answered)>,
    request: Vec<u8>,
) {
    if let Some((_, code)) = OTHERWISE.iter().find(|(other, _)| *other == name) {
        assert_eq!(ours.code, *code, "{name}");
        assert_ne!(ours.code, theirs.code, "{name} is answered as it was recorded");
        return;
    }
    // More names are in the next message.
    if theirs.names.len() < ours.names.len() {
        let names = ours.names.split_off(theirs.names.len());
        *asked = Some((request, Answered { code: 1, names, ..Answered::default() }));
    }
    if name == "create_mint_suffix#4" {
        let start = |answered: &mut Answered| answered.name.as_mut().map(|name| name.split_off(13).len());
        assert_eq!(start(&mut ours), start(&mut theirs));
    }
    if name == "resolve_secret2_auth_udp#4" {
        ours.values.iter_mut().for_each(|value| value.timestamp = 1_794_765_678);
    }
    assert_eq!(ours, theirs, "{name}");
}

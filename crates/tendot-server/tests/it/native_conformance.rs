//! Native protocol conformance: conversations recorded from Handle.Net 9 are replayed over every transport, and the responses are
//! equal in everything but times, numbers and nonces.

use std::collections::HashMap;

use tendot_proto::auth::{
    Challenge, ChallengeResponse, ClientKey, ClientKeyExchange, ComputedDigest, DhGroup, PublicKeyResponse,
    SecretKeyResponse, Session, SessionKey, verify_message_mac, verify_message_signature,
};
use tendot_proto::crypto::{AwsLcProvider, SigningKey, SystemRandom};
use tendot_proto::endpoint::Transport;
use tendot_proto::message::SessionKeyMaterial;
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Handle, HandleValue, Message, MessageBody,
    MessageHeader, MessageParts, Request, Response, ResponseData, Ttl, ValuePermissions,
};
use tendot_server::native::OwnSite;
use tendot_store::{Edit, Precondition};
use tendot_testing::handle_keys::private_key;
use tendot_testing::recordings::{Recording, recordings};
use tendot_testing::{auth_context, hex};

use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    replay_over_the_recorded_transports,
    replay_over_tcp,
    replay_inside_http,
    replay_resolutions_over_udp,
);

/// Intended differences: the response code of Tendot (0 for no response) and the reason; see docs/reference/handle-net-compatibility.md.
const EXPECTED_DIFFERENCES: &[(&str, u32, &str)] = &[
    ("resolve_loaded_lowercase#2", 1, "the recorded server did not find an existing record"),
    ("setup_limited#4", 202, "`u` is not a URL"),
    ("session_rsa_server_create#3", 501, "only Diffie-Hellman key exchange is supported"),
    ("raw_v2_0_challenge#2", 4, "no administration below version 2.1"),
    ("raw_unknown_opcode#2", 5, "an unknown operation is not a server error"),
    ("raw_short_message#2", 4, "the response has the number of its request"),
    ("raw_truncated_body#2", 4, "the response has the number of its request"),
    ("raw_bad_handle_length#2", 4, "the request is invalid, not the server"),
    ("raw_udp_admin#2", 4, "the response has the number of its request"),
    ("raw_udp_garbage#2", 0, "no client can use the response"),
];

/// Makes the changes that happened between the recorded conversations and were not recorded.
fn apply_unrecorded_changes(server: &NativeTestServer, conversation: &str) {
    let secret_key = |index, text: &'static str| HandleValue {
        permissions: ValuePermissions(0x0c),
        ..HandleValue::new(index, "HS_SECKEY", text)
    };
    match conversation {
        "remove_value_pubkey" => {
            let mut values = server.values("10.5555/V-PUB").unwrap();
            values.extend([HandleValue::new(3, "X", ""), HandleValue::new(4, "X", "")]);
            server.put("10.5555/V-PUB", values);
        }
        "delete_not_found" => delete(server, "10.5555/V-SEC"),
        "insufficient_permission" => {
            server.put("10.5555/READER", vec![secret_key(301, "readonly")]);
            server.put(
                "10.5555/V-LIM",
                vec![url_value(1, "u"), admin_value(100, 0x0400, "301:10.5555/READER")],
            );
        }
        "list_handles" => (0..60).for_each(|number| server.put(&format!("10.5558/L-{number:02}"), vec![])),
        "resolve_secret2_auth_udp" => {
            let hidden = HandleValue {
                permissions: ValuePermissions(0x0c),
                ttl: Ttl::Relative(3_600),
                timestamp: 1_794_765_678,
                ..url_value(1, "https://example.org/secret2")
            };
            let group =
                HandleValue { timestamp: 1_794_765_678, ..admin_value(100, 0x0fff, "200:0.NA/10.5555") };
            server.put("10.5555/SECRET2", vec![hidden, group]);
        }
        // The recorded client deleted the handle between the two conversations.
        "session_encrypted_create" | "default_session_create" => delete(server, "10.5555/V-SES"),
        _ => {}
    }
}

fn delete(server: &NativeTestServer, name: &str) {
    if server.values(name).is_some() {
        server.commit(Edit::Remove { name: name.into(), precondition: Precondition::NotTombstone });
    }
}

/// A client that sends the recorded requests with its own session numbers and keys.
struct Replay {
    server: NativeTestServer,
    /// Replaces the recorded transport.
    transport: Option<Transport>,
    administrator: Box<dyn SigningKey>,
    stranger: Box<dyn SigningKey>,
    server_key: PublicKey<'static>,
    /// Sessions by recorded number.
    sessions: HashMap<u32, Session>,
    /// Recorded session keys by recorded number.
    recorded_keys: HashMap<u32, SessionKey>,
    proposal: Option<ClientKeyExchange>,
    /// The last request as it was recorded, and as it was sent, before encryption.
    request: Option<(Vec<u8>, Vec<u8>)>,
    /// The last challenge and its request, as recorded and as replayed.
    challenge: Option<[(Vec<u8>, Vec<u8>); 2]>,
    /// Responses not yet compared, the last one first.
    responses: Vec<Vec<u8>>,
}

impl Replay {
    fn new(store: StoreKind, transport: Option<Transport>) -> Self {
        let mut recorded_keys = HashMap::new();
        for recording in recordings() {
            if let Some((_, digits)) = recording.note.split_once("sessionKeyHex=") {
                let id = Envelope::from_bytes(&recording.bytes).unwrap().session_id;
                recorded_keys.insert(id, SessionKey::new(hex::decode(&digits[..64]).try_into().unwrap()));
            }
        }
        Self {
            server: NativeTestServer::start_over(store.open(), NativeServerOptions::default()),
            transport,
            administrator: private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap(),
            stranger: OwnSite::generate_key().unwrap().signing_key(&AwsLcProvider).unwrap(),
            server_key: private_key("privkey.bin").public_key().unwrap(),
            sessions: HashMap::new(),
            recorded_keys,
            proposal: None,
            request: None,
            challenge: None,
            responses: Vec::new(),
        }
    }

    fn transport_for(&self, recording: &Recording) -> Transport {
        self.transport.unwrap_or(if recording.transport == "udp" { Transport::Udp } else { Transport::Tcp })
    }

    /// A recorded message, reassembled and decrypted, and whether it was encrypted; none for all but the last fragment.
    fn decrypted(&self, recording: &Recording) -> Option<(Vec<u8>, bool)> {
        let mut bytes = recording.bytes.clone();
        if recording.note.contains("| fragment: ") {
            let (_, payload) = recording.reassembled()?;
            bytes.truncate(20);
            bytes.extend(payload);
        }
        let envelope = Envelope::from_bytes(&bytes).ok();
        match envelope.filter(|envelope| envelope.flags.contains(EnvelopeFlags::ENCRYPTED)) {
            Some(envelope) => {
                let key = &self.recorded_keys[&envelope.session_id];
                Some((key.decrypt(&bytes, auth_context!()).unwrap(), true))
            }
            None => Some((bytes, false)),
        }
    }

    fn send_request(&mut self, recording: &Recording) {
        let Some((bytes, is_encrypted)) = self.decrypted(recording) else { return };
        let transport = self.transport_for(recording);
        let (plain, sent) = match Message::from_bytes(&bytes) {
            Ok(_) => self.rewritten(&bytes, is_encrypted),
            // Malformed on purpose.
            Err(_) => (bytes.clone(), bytes.clone()),
        };
        self.responses = if recording.name.starts_with("raw_udp_garbage") {
            self.server.assert_no_udp_reply(&self.server.udp_socket(), &[&sent]);
            Vec::new()
        } else {
            self.server.exchange(transport, &sent)
        };
        self.responses.reverse();
        self.request = Some((bytes, plain));
    }

    /// The request with the numbers and proofs of this replay: before encryption, and as it is sent.
    fn rewritten(&mut self, bytes: &[u8], is_encrypted: bool) -> (Vec<u8>, Vec<u8>) {
        let proof;
        let key_exchange;
        let mut message = Message::from_bytes(bytes).unwrap();
        let recorded = message.envelope.session_id;
        let MessageBody::Request(request) = message.body else { panic!() };
        match request {
            Request::ChallengeResponse(recorded) => {
                let [_, (ours, _)] = self.challenge.as_ref().unwrap();
                message.envelope.session_id = Envelope::from_bytes(ours).unwrap().session_id;
                proof = self.proof(&recorded);
                let response = ChallengeResponse { proof: &proof, ..recorded };
                message.body = MessageBody::Request(Request::ChallengeResponse(response));
            }
            Request::SessionSetup(mut setup) if setup.key != SessionKeyMaterial::None => {
                key_exchange =
                    ClientKeyExchange::new(DhGroup::Modp1024, &mut SystemRandom, auth_context!()).unwrap();
                setup.key = key_exchange.request(None, 0).key;
                message.body = MessageBody::Request(Request::SessionSetup(setup));
                let plain = message.to_bytes().unwrap();
                self.proposal = Some(key_exchange);
                return (plain.clone(), plain);
            }
            _ => {}
        }
        let Some(session) = self.sessions.get_mut(&recorded) else {
            let plain = if matches!(request, Request::ChallengeResponse(_)) {
                message.to_bytes().unwrap()
            } else {
                bytes.to_vec()
            };
            return (plain.clone(), plain);
        };
        message.envelope.session_id = session.id();
        let has_mac = message.credential().is_some();
        message.credential_section = CredentialSection::Empty;
        let mut plain = message.to_bytes().unwrap();
        if has_mac {
            session.add_mac(&mut plain, auth_context!()).unwrap();
        }
        let sent = match is_encrypted {
            true => session.key().encrypt(&plain, &mut SystemRandom, auth_context!()).unwrap(),
            false => plain.clone(),
        };
        (plain, sent)
    }

    /// A proof for the replayed challenge that is valid if the recorded one was.
    fn proof(&self, recorded_response: &ChallengeResponse<'_>) -> Vec<u8> {
        let [(theirs, _), (ours, request)] = self.challenge.as_ref().unwrap();
        let challenge = Message::from_bytes(theirs).unwrap();
        let MessageBody::Response(Response { digest, data: ResponseData::Challenge { nonce, .. } }) =
            challenge.body
        else {
            panic!()
        };
        let recorded = Challenge { nonce, digest: digest.unwrap().bytes };
        let handle = recorded_response.key_handle.to_string();
        let keys = self.server.values(&handle).unwrap();
        let is_secret = recorded_response.auth_type == b"HS_SECKEY";
        let is_valid = if is_secret {
            let proof =
                SecretKeyResponse::from_bytes(recorded_response.proof, challenge.envelope.version).unwrap();
            recorded.verify_secret_key(&proof, recorded_response.key_index, &keys, auth_context!()).is_ok()
        } else {
            let key = keys.iter().find(|value| value.index == recorded_response.key_index).unwrap();
            let key = PublicKey::from_bytes(&key.data).unwrap();
            let proof = PublicKeyResponse::from_bytes(recorded_response.proof).unwrap();
            proof.verify(&key, recorded, auth_context!()).is_ok()
        };
        let secret = keys.iter().find(|value| value.index == recorded_response.key_index && is_secret);
        let credentials = match (secret, is_valid) {
            (Some(secret), true) => ClientKey::SecretKey(&secret.data),
            (Some(_), false) => ClientKey::SecretKey(b"wrong"),
            (None, true) => ClientKey::PrivateKey(&*self.administrator),
            (None, false) => ClientKey::PrivateKey(&*self.stranger),
        };
        let (parts, challenge) = (MessageParts::split(request).unwrap(), Message::from_bytes(ours).unwrap());
        credentials.respond(&parts, &challenge, &mut SystemRandom, auth_context!()).unwrap()
    }

    /// Compares the next response with the recorded one; returns the difference.
    fn compare_response(&mut self, recording: &Recording) -> Option<String> {
        let (theirs, was_encrypted) = self.decrypted(recording)?;
        let name = &recording.name;
        let ours = self.responses.pop();
        if let Some((_, code, _)) = EXPECTED_DIFFERENCES.iter().find(|(other, ..)| other == name) {
            let actual = ours.as_deref().map_or(0, code_of);
            let (_, request) = self.request.as_ref().unwrap();
            let has_number = ours.as_ref().is_none_or(|ours| ours[8..12] == request[8..12]);
            return (actual != *code || !has_number).then(|| format!("response code {actual}"));
        }
        let Some(mut ours) = ours else { return Some("no response".into()) };
        let recorded_id = Envelope::from_bytes(&theirs).unwrap().session_id;
        let is_encrypted = Envelope::from_bytes(&ours).unwrap().flags.contains(EnvelopeFlags::ENCRYPTED);
        if is_encrypted != was_encrypted {
            return Some(format!("encrypted: {is_encrypted}"));
        }
        if is_encrypted {
            ours = self.sessions[&recorded_id].key().decrypt(&ours, auth_context!()).unwrap();
        }
        let (recorded, sent) = self.request.clone().unwrap();
        let problem = self.difference(name, &theirs, &ours, &sent);
        let message = Message::from_bytes(&ours).unwrap();
        match message.body {
            MessageBody::Response(Response { data: ResponseData::Challenge { .. }, .. }) => {
                self.challenge = Some([(theirs, recorded), (ours, sent)]);
            }
            MessageBody::Response(Response { data: ResponseData::SessionSetup { .. }, .. }) => {
                let (request, response) =
                    (MessageParts::split(&sent).unwrap(), MessageParts::split(&ours).unwrap());
                let proposal = self.proposal.take().unwrap();
                let session = proposal.complete(&request, &response, &self.server_key, auth_context!());
                self.sessions.insert(recorded_id, session.unwrap());
            }
            _ => {}
        }
        problem
    }

    fn difference(&self, name: &str, theirs: &[u8], ours: &[u8], sent: &[u8]) -> Option<String> {
        let read = |bytes| (MessageParts::split(bytes).unwrap(), Message::from_bytes(bytes).unwrap());
        let ((their_parts, their_message), (our_parts, our_message)) = (read(theirs), read(ours));
        let request = MessageParts::split(sent).ok()?;
        let (mut one, mut two) = (their_message.envelope, our_message.envelope);
        if one.session_id != 0 && two.session_id != 0 {
            (one.session_id, two.session_id) = (0, 0);
        }
        // Handle.Net marks a single datagram as truncated if the request had several.
        one.flags -= EnvelopeFlags::TRUNCATED;
        (one.length, two.length) = (0, 0);
        one.sequence = 0;
        one.request_id = request.envelope.request_id;
        if one != two {
            return Some(format!("envelope {two:?} instead of {one:?}"));
        }
        let (one, mut two) = (their_message.header, our_message.header);
        if two.expiration.abs_diff(MessageHeader::default_expiration(now())) > 60 {
            return Some(format!("expires {}", two.expiration));
        }
        two.expiration = one.expiration;
        if one != two {
            return Some(format!("header {two:?} instead of {one:?}"));
        }
        let kind = |message: &Message<'_>| {
            message.credential().map(|credential| credential.credential_type.to_vec())
        };
        if kind(&their_message) != kind(&our_message) {
            return Some(format!("credential {:?} was recorded", their_message.credential()));
        }
        match our_message.credential().map(|credential| credential.credential_type) {
            Some(Credential::TYPE_SIGNED) => {
                verify_message_signature(&our_parts, &self.server_key, auth_context!()).unwrap();
            }
            Some(_) => {
                let session = &self.sessions[&their_parts.envelope.session_id];
                verify_message_mac(&our_parts, session.key(), auth_context!()).unwrap();
            }
            None => {}
        }
        let (MessageBody::Response(one), MessageBody::Response(two)) = (their_message.body, our_message.body)
        else {
            panic!()
        };
        if one.digest.map(|digest| digest.algorithm) != two.digest.map(|digest| digest.algorithm) {
            return Some(format!("digest {:?} instead of {:?}", two.digest, one.digest));
        }
        if let Some(digest) = two.digest {
            let checked = ComputedDigest::verify(&digest, request.header_and_body, auth_context!());
            assert_eq!(checked, Ok(()), "{name}");
        }
        data_difference(name, one.data, two.data)
    }
}

fn data_difference(name: &str, theirs: ResponseData<'_>, ours: ResponseData<'_>) -> Option<String> {
    let differ = || Some(format!("{ours:?} instead of {theirs:?}"));
    match (theirs, ours) {
        (
            ResponseData::Resolved { handle: one, values: theirs },
            ResponseData::Resolved { handle: two, values: ours },
        ) => {
            // The status of the server is never the same.
            let is_same = |(one, two): (HandleValue<'_>, HandleValue<'_>)| {
                one == two
                    || (name.starts_with("status_handle")
                        && HandleValue { data: two.data.clone(), ..one } == two)
            };
            let same =
                one == two && theirs.len() == ours.len() && theirs.iter().zip(ours.iter()).all(is_same);
            if same { None } else { differ() }
        }
        // The texts of errors differ.
        (ResponseData::Error { .. }, ResponseData::Error { message: Some(text) }) if !text.is_empty() => None,
        (ResponseData::Challenge { nonce: one, .. }, ResponseData::Challenge { nonce: two, .. }) => {
            if one.len() == two.len() && one != two { None } else { differ() }
        }
        (
            ResponseData::SessionSetup { mode: one, data: theirs },
            ResponseData::SessionSetup { mode: two, data: ours },
        ) => {
            // The length of a Diffie-Hellman number varies with leading zeros.
            if one == two && theirs[..4] == ours[..4] && theirs.len().abs_diff(ours.len()) < 4 {
                None
            } else {
                differ()
            }
        }
        (ResponseData::Created { handle: Some(one) }, ResponseData::Created { handle: Some(two) }) => {
            let minted_parts =
                |handle: Handle<'_>| (handle.to_string()[..13].to_owned(), handle.as_bytes().len());
            let same = if name.starts_with("create_mint") {
                minted_parts(one) == minted_parts(two)
            } else {
                one == two
            };
            if same { None } else { differ() }
        }
        (one, two) if one == two => None,
        _ => differ(),
    }
}

fn code_of(response: &[u8]) -> u32 {
    MessageHeader::from_bytes(&response[20..]).unwrap().0.response_code.0
}

/// Replays all conversations except those that `skips` selects; returns the number of compared responses.
fn replay(store: StoreKind, transport: Option<Transport>, skips: impl Fn(&str) -> bool) -> usize {
    let mut replay = Replay::new(store, transport);
    let (mut compared, mut differences, mut last) = (0, Vec::new(), String::new());
    for recording in recordings() {
        let conversation = recording.name.split('#').next().unwrap();
        if skips(conversation) {
            continue;
        }
        if last != conversation {
            apply_unrecorded_changes(&replay.server, conversation);
            last = conversation.to_owned();
        }
        if recording.is_request {
            if !replay.responses.is_empty() {
                differences.push(format!("before {}: more responses than recorded", recording.name));
            }
            replay.send_request(&recording);
            continue;
        }
        if replay.decrypted(&recording).is_some() {
            compared += 1;
        }
        differences.extend(
            replay.compare_response(&recording).map(|problem| format!("{}: {problem}", recording.name)),
        );
    }
    assert!(differences.is_empty(), "{} of {compared}:\n{}", differences.len(), differences.join("\n"));
    compared
}

fn replay_over_the_recorded_transports(store: StoreKind) {
    assert_eq!(replay(store, None, |_| false), 123);
}

fn is_about_datagrams(conversation: &str) -> bool {
    conversation.starts_with("raw_udp_")
}

fn replay_over_tcp(store: StoreKind) {
    replay(store, Some(Transport::Tcp), is_about_datagrams);
}

fn replay_inside_http(store: StoreKind) {
    // An HTTP body is always one whole message.
    let is_about_streams =
        |conversation: &str| ["raw_pipelined_two", "raw_truncated_body"].contains(&conversation);
    replay(store, Some(Transport::Http), |conversation| {
        is_about_datagrams(conversation) || is_about_streams(conversation)
    });
}

/// Only resolutions: no administration, which is rejected over UDP, and nothing that depends on connections.
fn replay_resolutions_over_udp(store: StoreKind) {
    const RESOLUTIONS: [&str; 7] =
        ["resolve_", "flag_", "not_resp", "get_site", "prefix_ref", "raw_v2_1#", "verify_"];
    replay(store, Some(Transport::Udp), |conversation| {
        let conversation = format!("{conversation}#");
        !RESOLUTIONS.iter().any(|start| conversation.starts_with(start))
    });
}

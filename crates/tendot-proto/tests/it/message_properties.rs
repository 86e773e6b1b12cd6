//! Property tests: messages of every kind round-trip through encoding and decoding.

use proptest::collection::vec;
use proptest::prelude::*;
use tendot_proto::message::{
    ChallengeResponse, DumpCursor, HashPartition, KeyExchangeMode, ReplicationStart, SessionKeyMaterial,
    SessionSetup,
};
use tendot_proto::record::{HandleValue, HashOption, ValueReference};
use tendot_proto::wire::WireList;
use tendot_proto::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Handle, Message, MessageBody, MessageHeader,
    OpFlags, Opcode, ProtocolVersion, Request, RequestDigest, Response, ResponseCode, ResponseData, Ttl,
    ValuePermissions, message::DigestAlgorithm,
};

/// Owned inputs from which messages are built.
#[derive(Clone, Debug)]
struct MessageInputs {
    name: Vec<u8>,
    other: Vec<u8>,
    third: Vec<u8>,
    numbers: Vec<u32>,
    strings: Vec<Vec<u8>>,
    values: Vec<HandleValue<'static>>,
    number: u32,
    long: u64,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn value() -> impl Strategy<Value = HandleValue<'static>> {
    let ttl = (any::<u8>(), any::<u32>()).prop_map(|(kind, seconds)| match kind {
        0..=99 => Ttl::Relative(seconds),
        100..=199 => Ttl::Absolute(seconds),
        kind => Ttl::Unknown { kind, seconds },
    });
    let references = vec((any::<u32>(), bytes()), 0..3);
    (any::<u32>(), any::<u32>(), ttl, any::<u8>(), bytes(), bytes(), references).prop_map(
        |(index, timestamp, ttl, permissions, value_type, data, references)| HandleValue {
            index,
            timestamp,
            ttl,
            permissions: ValuePermissions(permissions),
            value_type: value_type.into(),
            data: data.into(),
            references: references
                .into_iter()
                .map(|(index, handle)| ValueReference::new(index, handle))
                .collect(),
        },
    )
}

fn message_inputs() -> impl Strategy<Value = MessageInputs> {
    let lists = (vec(any::<u32>(), 0..5), vec(bytes(), 0..5), vec(value(), 0..4));
    (bytes(), bytes(), bytes(), lists, any::<u32>(), any::<u64>()).prop_map(
        |(name, other, third, (numbers, strings, values), number, long)| MessageInputs {
            name,
            other,
            third,
            numbers,
            strings,
            values,
            number,
            long,
        },
    )
}

/// Requests of every kind, with their opcodes.
fn requests<'a>(inputs: &'a MessageInputs, strings: &'a [&'a [u8]]) -> Vec<(u32, Request<'a>)> {
    let handle = Handle::new(&inputs.name);
    let MessageInputs { other, third, numbers, values, number, long, .. } = inputs;
    let (indexes, values, types) =
        (WireList::from(&numbers[..]), WireList::from(&values[..]), WireList::from(strings));
    let receiver =
        HashPartition { hash_option: HashOption(*number as u8), server_count: *number, server_index: 7 };
    let setup = |mode, key| {
        let mode = KeyExchangeMode(mode);
        Request::SessionSetup(SessionSetup {
            mode,
            timeout: *number,
            identity_handle: handle,
            identity_index: 3,
            key,
        })
    };
    let digest = |algorithm, bytes| RequestDigest { algorithm, bytes };
    let verify = |digest| Request::VerifyChallenge {
        key_handle: handle,
        key_index: *number,
        nonce: other,
        digest,
        response: third,
    };
    let mut all = vec![
        (1, Request::Resolve { handle, indexes, types }),
        (103, Request::RemoveValues { handle, indexes }),
        (
            200,
            Request::ChallengeResponse(ChallengeResponse {
                auth_type: other,
                key_handle: handle,
                key_index: *number,
                proof: third,
            }),
        ),
        (201, verify(digest(DigestAlgorithm::Untagged, other))),
        (201, verify(digest(DigestAlgorithm::Md5, &[1; 16]))),
        (201, verify(digest(DigestAlgorithm::Sha1, &[2; 20]))),
        (201, verify(digest(DigestAlgorithm::Sha256, &[3; 32]))),
        (400, setup(1, SessionKeyMaterial::PublicKey(other))),
        (400, setup(2, SessionKeyMaterial::None)),
        (400, setup(3, SessionKeyMaterial::Reference { handle, index: *number })),
        (400, setup(4, SessionKeyMaterial::PublicKey(other))),
        (402, Request::ExchangeSessionKey { key: other }),
        (
            1001,
            Request::RetrieveTransactions {
                start: ReplicationStart::AfterTransaction { id: *long, last_query_millis: 5 },
                receiver,
            },
        ),
        (1001, Request::RetrieveTransactions { start: ReplicationStart::States(other), receiver }),
        (1001, Request::RetrieveTransactions { start: ReplicationStart::Unknown(9), receiver }),
        (1002, Request::Dump { receiver, cursor: None }),
        (
            1002,
            Request::Dump { receiver, cursor: Some(DumpCursor { after_handle: other, section: *number }) },
        ),
        (999, Request::Unknown(other)),
    ];
    all.extend([100, 102, 104].map(|opcode| (opcode, Request::WriteValues { handle, values })));
    all.extend([101, 105, 106, 300, 301].map(|opcode| (opcode, Request::HandleOnly { handle })));
    for opcode in [2, 302, 401, 1000, 1003] {
        all.extend([
            (opcode, Request::NoOperand { handle: Some(handle) }),
            (opcode, Request::NoOperand { handle: None }),
        ]);
    }
    all
}

/// Response data of every kind, with opcodes and response codes.
fn response_data<'a>(
    inputs: &'a MessageInputs,
    strings: &'a [&'a [u8]],
) -> Vec<(u32, u32, ResponseData<'a>)> {
    let handle = Handle::new(&inputs.name);
    let MessageInputs { other, values, number, long, .. } = inputs;
    let values = WireList::from(&values[..]);
    let mut all = vec![
        (1, 1, ResponseData::Resolved { handle, values }),
        (2, 1, ResponseData::SiteInfo(other)),
        (100, 1, ResponseData::Created { handle: Some(handle) }),
        (100, 1, ResponseData::Created { handle: None }),
        (201, 1, ResponseData::ChallengeVerified(*number as u8)),
        (400, 1, ResponseData::SessionSetup { mode: KeyExchangeMode(*number as u16), data: other }),
        (1000, 1, ResponseData::NextTransactionId(*long)),
        (1001, 1, ResponseData::TransactionStream { flags: *number as u8 }),
        (1, 302, ResponseData::Referral { handle, values: Some(values) }),
        (1, 303, ResponseData::Referral { handle, values: None }),
        (1, 2, ResponseData::Error { message: Some(other) }),
        (100, 101, ResponseData::Error { message: None }),
        (777, 1, ResponseData::Unknown(other)),
    ];
    all.extend([105, 106, 302].map(|opcode| (opcode, 1, ResponseData::Handles(WireList::from(strings)))));
    all.extend(
        [101, 102, 103, 104, 300, 301, 401, 402, 1002, 1003].map(|opcode| (opcode, 1, ResponseData::Empty)),
    );
    all
}

/// Encodes, decodes and encodes again; every truncation is an error.
#[track_caller]
fn check(message: Message<'_>) {
    let bytes = message.to_bytes().unwrap();
    let decoded = Message::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    let length = (bytes.len() - 20) as u32;
    assert_eq!(decoded, Message { envelope: Envelope { length, ..message.envelope }, ..message });
    assert_eq!(decoded.to_bytes().unwrap(), bytes);
    for cut in 0..bytes.len() {
        assert!(Message::from_bytes(&bytes[..cut]).is_err());
    }
}

fn credential_sections(inputs: &MessageInputs) -> [CredentialSection<'_>; 3] {
    let credential = Credential {
        version_and_options: inputs.number,
        signer: &inputs.name,
        counter: 9,
        credential_type: &inputs.other,
        algorithm: b"SHA-256",
        signature: &inputs.third,
    };
    [CredentialSection::Absent, CredentialSection::Empty, CredentialSection::Present(credential)]
}

fn header(opcode: u32, code: u32, number: u32) -> MessageHeader {
    MessageHeader {
        opcode: Opcode(opcode),
        response_code: ResponseCode(code),
        flags: OpFlags(number) - OpFlags::REQUEST_DIGEST,
        site_serial: number as u16,
        recursion_count: (number >> 8) as u8,
        reserved: (number >> 16) as u8,
        expiration: number,
    }
}

fn envelope(number: u32, minor: u8) -> Envelope {
    Envelope {
        version: ProtocolVersion::new(2, minor),
        suggested_version: ProtocolVersion::new((number & 31) as u8, minor),
        flags: EnvelopeFlags::empty(),
        session_id: number,
        request_id: !number,
        sequence: number >> 3,
        length: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn requests_round_trip(inputs in message_inputs(), minor in 9_u8..16, rest in bytes()) {
        let strings: Vec<&[u8]> = inputs.strings.iter().map(|string| &**string).collect();
        for (index, (opcode, request)) in requests(&inputs, &strings).into_iter().enumerate() {
            // Trailing bytes of a body without optional fields are preserved.
            let has_optional_fields = matches!(request, Request::NoOperand { .. } | Request::Dump { cursor: None, .. } | Request::Unknown(_));
            check(Message {
                envelope: envelope(inputs.number, minor),
                header: header(opcode, 0, inputs.number),
                body: MessageBody::Request(request),
                trailing_body: if has_optional_fields { &[] } else { &rest },
                credential_section: credential_sections(&inputs)[index % 3],
            });
        }
    }

    #[test]
    fn responses_round_trip(inputs in message_inputs(), minor in 5_u8.., rest in bytes()) {
        let strings: Vec<&[u8]> = inputs.strings.iter().map(|string| &**string).collect();
        for (index, (opcode, code, data)) in response_data(&inputs, &strings).into_iter().enumerate() {
            let has_optional_fields = matches!(
                data,
                ResponseData::Created { handle: None } | ResponseData::Error { message: None } | ResponseData::Referral { values: None, .. }
                    | ResponseData::SiteInfo(_) | ResponseData::Unknown(_)
            );
            let digest = RequestDigest { algorithm: DigestAlgorithm::Sha256, bytes: &[7; 32] };
            for digest in [None, Some(digest)] {
                let mut header = header(opcode, code, inputs.number);
                if digest.is_some() {
                    header.flags |= OpFlags::REQUEST_DIGEST;
                }
                check(Message {
                    envelope: envelope(inputs.number, minor),
                    header,
                    body: MessageBody::Response(Response { digest, data }),
                    trailing_body: if has_optional_fields { &[] } else { &rest },
                    credential_section: credential_sections(&inputs)[index % 3],
                });
            }
        }
    }

    #[test]
    fn challenges_round_trip(nonce in bytes(), digest in bytes()) {
        let new = RequestDigest { algorithm: DigestAlgorithm::Sha256, bytes: &[7; 32] };
        for (digest, legacy_digest) in [(Some(new), None), (None, Some(&*digest))] {
            let mut header = header(101, 402, 0);
            if digest.is_some() {
                header.flags |= OpFlags::REQUEST_DIGEST;
            }
            let data = ResponseData::Challenge { nonce: &nonce, legacy_digest };
            check(Message {
                envelope: envelope(7, 11),
                header,
                body: MessageBody::Response(Response { digest, data }),
                trailing_body: &[],
                credential_section: CredentialSection::Empty,
            });
        }
    }
}

/// Before 2.9 a request for transactions does not contain its kind.
#[test]
fn transaction_requests_before_2_9() {
    let receiver = HashPartition { hash_option: HashOption::WHOLE, server_count: 1, server_index: 0 };
    let start = ReplicationStart::AfterTransaction { id: 100, last_query_millis: 1_700_000_000_000 };
    check(Message {
        envelope: envelope(1, 8),
        header: header(1001, 0, 0),
        body: MessageBody::Request(Request::RetrieveTransactions { start, receiver }),
        trailing_body: &[],
        credential_section: CredentialSection::Empty,
    });
}

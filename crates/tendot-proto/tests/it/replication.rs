//! Replication streams: records round-trip in any chunking, errors have an offset, and unsigned records are never returned.

use std::time::{Duration, Instant};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tendot_proto::auth::{AuthError, AuthPolicy};
use tendot_proto::crypto::{AwsLcProvider, CryptoError, CryptoProvider, HashAlgorithm, SigningKey};
use tendot_proto::record::{HandleRecord, PublicKey};
use tendot_proto::replication::{
    DumpRecord, DumpStream, MAX_RECORD_LEN, QueueName, ReceiverConfig, ReplicationError, ReplicationEvent,
    ReplicationPosition, ReplicationReader, ReplicationStates, ReplicationStream, ReplicationWriteError,
    ReplicationWriter, StreamFormat, StreamTable, StreamTableValue, Transaction, TransactionAction,
    TransactionRecord, TransactionStatus, TransactionStream, VersionStamp,
};
use tendot_proto::{Budget, DecodeErrorKind, HandleValue};
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::{hex, repetitions};

use crate::support::budget;

/// Provider and key with cheap, insecure signatures: eight bytes that depend on all others, by any hash.
#[derive(Debug)]
struct FakeProvider;

impl FakeProvider {
    fn signature(hash: HashAlgorithm, message: &[u8]) -> [u8; 8] {
        let mut sum = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(hash == HashAlgorithm::Sha1);
        for byte in message {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        sum.to_be_bytes()
    }
}

impl SigningKey for FakeProvider {
    fn sign(&self, hash: HashAlgorithm, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        Ok(Self::signature(hash, message).to_vec())
    }

    fn signature_len(&self) -> usize {
        8
    }
}

impl CryptoProvider for FakeProvider {
    fn verify_signature(
        &self,
        _: &PublicKey<'_>,
        hash: HashAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        if Self::signature(hash, message) == signature { Ok(()) } else { Err(CryptoError::Signature) }
    }
}

fn fake_signatures_config() -> ReceiverConfig<'static> {
    let key = Some(PublicKey::rsa(&[0xc1; 256], &[1, 0, 1]));
    ReceiverConfig { key, policy: AuthPolicy::default(), crypto: &FakeProvider, allow_unsigned: false }
}

fn unsigned_config() -> ReceiverConfig<'static> {
    ReceiverConfig { key: None, allow_unsigned: true, ..fake_signatures_config() }
}

/// Conversion to owned records.
trait OwnedRecord: ReplicationStream {
    fn to_owned_record(record: Self::Record<'_>) -> Self::Record<'static>;
}

impl OwnedRecord for TransactionStream {
    fn to_owned_record(record: TransactionRecord<'_>) -> TransactionRecord<'static> {
        record.into_owned()
    }
}

impl OwnedRecord for DumpStream {
    fn to_owned_record(record: DumpRecord<'_>) -> DumpRecord<'static> {
        record.into_owned()
    }
}

/// All records of a stream that arrives in chunks, and its end.
fn read_all<'p, S: OwnedRecord>(
    mut reader: ReplicationReader<'_, S>,
    chunks: impl IntoIterator<Item = &'p [u8]>,
) -> (Vec<S::Record<'static>>, Result<(), ReplicationError>) {
    let mut records = Vec::new();
    for chunk in chunks {
        reader.push(chunk);
        loop {
            let record = |event| match event {
                ReplicationEvent::Record(record) => Some(S::to_owned_record(record)),
                ReplicationEvent::StartTls => None,
            };
            let event = reader.next_event(&mut budget()).map(|event| event.map(record));
            match event {
                Ok(Some(Some(record))) => records.push(record),
                Ok(Some(None)) => return (records, reader.finish()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next_event(&mut budget()).err(), Some(error), "the error is permanent");
                    assert_eq!(reader.finish(), Err(error));
                    return (records, Err(error));
                }
            }
        }
    }
    let end = reader.finish();
    assert_eq!(reader.is_finished(), end.is_ok());
    (records, end)
}

fn write_all<S: ReplicationStream>(
    mut writer: ReplicationWriter<'_, S>,
    records: &[S::Record<'_>],
) -> Vec<u8> {
    let mut stream = Vec::new();
    for record in records {
        writer.write(record, &mut stream, &mut budget()).unwrap();
    }
    stream
}

/// Chunks that end at these offsets, modulo the length.
fn chunks<'s>(stream: &'s [u8], cuts: &[usize]) -> Vec<&'s [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

fn value() -> impl Strategy<Value = HandleValue<'static>> {
    (any::<u32>(), "[A-Z_]{0,9}", vec(any::<u8>(), 0..40))
        .prop_map(|(index, value_type, data)| HandleValue::with_data(index, value_type, data))
}

fn bytes() -> impl Strategy<Value = std::borrow::Cow<'static, [u8]>> {
    vec(any::<u8>(), 0..30).prop_map(Into::into)
}

fn transaction() -> impl Strategy<Value = TransactionRecord<'static>> {
    (any::<i64>(), bytes(), 0_u8..9, any::<i64>(), vec(value(), 0..4)).prop_map(
        |(id, handle, action, timestamp_millis, mut values)| {
            let action = TransactionAction(action);
            if !action.has_values() {
                values.clear();
            }
            TransactionRecord::Transaction(Transaction { id, handle, action, timestamp_millis, values })
        },
    )
}

fn transactions() -> impl Strategy<Value = Vec<TransactionRecord<'static>>> {
    let status = || any::<u32>().prop_map(TransactionStatus);
    let single_source =
        (status(), vec(transaction(), 0..6), any::<i64>()).prop_map(|(status, mut records, query_millis)| {
            records.insert(0, TransactionRecord::Begin { format: StreamFormat::V1, status });
            records.push(TransactionRecord::End { query_millis: Some(query_millis) });
            records
        });
    let record = prop_oneof![
        transaction(),
        bytes().prop_map(|name| TransactionRecord::Queue { name }),
        any::<i64>().prop_map(|query_millis| TransactionRecord::QueueEnd { query_millis }),
    ];
    let several_sources = (status(), vec(record, 0..6)).prop_map(|(status, mut records)| {
        records.insert(0, TransactionRecord::Begin { format: StreamFormat::V2, status });
        records.push(TransactionRecord::End { query_millis: None });
        records
    });
    prop_oneof![single_source, several_sources]
}

fn dump() -> impl Strategy<Value = Vec<DumpRecord<'static>>> {
    let stamp = || {
        (any::<i64>(), any::<i32>())
            .prop_map(|(time_millis, priority)| VersionStamp { time_millis, priority })
    };
    let position = || {
        (any::<i64>(), any::<i64>()).prop_map(|(last_txn_id, last_timestamp_millis)| {
            DumpRecord::Position(ReplicationPosition { last_txn_id, last_timestamp_millis })
        })
    };
    let record = prop_oneof![
        bytes().prop_map(|text| DumpRecord::OtherStates { text }),
        (bytes(), stamp()).prop_map(|(handle, stamp)| DumpRecord::HandleStamp { handle, stamp }),
        (bytes(), stamp()).prop_map(|(handle, stamp)| DumpRecord::PrefixStamp { handle, stamp }),
        (bytes(), vec(value(), 0..4))
            .prop_map(|(handle, values)| DumpRecord::Handle(HandleRecord { handle, values })),
        bytes().prop_map(|handle| DumpRecord::HomedPrefix { handle }),
    ];
    (vec(record, 0..6), position(), any::<bool>()).prop_map(|(mut records, position, is_v1)| {
        let format = if is_v1 { StreamFormat::V1 } else { StreamFormat::V2 };
        records.insert(0, DumpRecord::Begin { format });
        records.push(position);
        if !is_v1 {
            records.push(DumpRecord::End);
        }
        records
    })
}

/// All kinds of streams return the written records in any chunking; a truncated stream is unfinished.
fn round_trip<S: OwnedRecord>(records: &[S::Record<'static>], cuts: &[usize]) -> Result<(), TestCaseError>
where
    S::Record<'static>: std::fmt::Debug + PartialEq,
{
    type WriterAndReader<'m, S> = (ReplicationWriter<'m, S>, &'m dyn Fn() -> ReplicationReader<'m, S>);
    let kinds: [WriterAndReader<'_, S>; 4] = [
        (ReplicationWriter::inside_tls(), &ReplicationReader::inside_tls),
        (ReplicationWriter::unsigned(), &|| ReplicationReader::new(unsigned_config())),
        (ReplicationWriter::signed(&FakeProvider, HashAlgorithm::Sha256), &|| {
            ReplicationReader::new(fake_signatures_config())
        }),
        (ReplicationWriter::signed(&FakeProvider, HashAlgorithm::Sha1), &|| {
            ReplicationReader::new(ReceiverConfig {
                policy: AuthPolicy { allow_sha1: true, ..AuthPolicy::default() },
                ..fake_signatures_config()
            })
        }),
    ];
    for (writer, reader) in kinds {
        let stream = write_all(writer, records);
        let (received, end) = read_all(reader(), chunks(&stream, cuts));
        prop_assert_eq!(&received[..], records);
        prop_assert_eq!(end, Ok(()));
        for cut in cuts.iter().map(|cut| cut % stream.len()) {
            let (received, end) = read_all(reader(), chunks(&stream[..cut], cuts));
            prop_assert!(
                matches!(end, Err(ReplicationError::Truncated(error))
                if error.offset() <= cut && matches!(error.kind(), DecodeErrorKind::Truncated { .. })),
                "{:?}",
                end
            );
            prop_assert_eq!(&received[..], &records[..received.len()]);
        }
    }
    Ok(())
}

/// Nothing panics, error offsets are within the stream, and decoded records encode to the same bytes.
fn check_arbitrary<S: OwnedRecord>(stream: &[u8], cuts: &[usize]) -> Result<(), TestCaseError>
where
    S::Record<'static>: std::fmt::Debug + PartialEq,
{
    for receiver in [None, Some(unsigned_config()), Some(fake_signatures_config())] {
        let reader = || receiver.clone().map_or_else(ReplicationReader::inside_tls, ReplicationReader::new);
        let complete = read_all::<S>(reader(), [stream]);
        prop_assert_eq!(&complete, &read_all(reader(), chunks(stream, cuts)));
        if let Err(ReplicationError::Malformed(error) | ReplicationError::Truncated(error)) = complete.1 {
            prop_assert!(error.offset() <= stream.len(), "{}", error);
        }
        if receiver.is_none() {
            let rewritten = write_all(ReplicationWriter::<S>::inside_tls(), &complete.0);
            prop_assert!(stream.starts_with(&rewritten), "{:?}", complete.0);
        }
    }
    Ok(())
}

fn stream_value() -> impl Strategy<Value = StreamTableValue> {
    let text = "[ -~é\n]{0,8}".prop_map(StreamTableValue::Text);
    text.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(StreamTableValue::Vector),
            btree_map("[ -~é\n]{0,8}", inner, 0..4).prop_map(|map| StreamTableValue::Table(StreamTable(map))),
        ]
    })
}

proptest! {
    #[test]
    fn transactions_round_trip(records in transactions(), cuts in vec(any::<usize>(), 0..8)) {
        round_trip::<TransactionStream>(&records, &cuts)?;
    }

    #[test]
    fn dumps_round_trip(records in dump(), cuts in vec(any::<usize>(), 0..8)) {
        round_trip::<DumpStream>(&records, &cuts)?;
    }

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..80), cuts in vec(any::<usize>(), 0..4)) {
        check_arbitrary::<TransactionStream>(&bytes, &cuts)?;
        check_arbitrary::<DumpStream>(&bytes, &cuts)?;
    }

    #[test]
    fn damaged_streams(
        transactions in transactions(),
        dump in dump(),
        position in any::<usize>(),
        byte in any::<u8>(),
        cuts in vec(any::<usize>(), 0..4),
    ) {
        let mut stream = write_all(ReplicationWriter::<TransactionStream>::inside_tls(), &transactions);
        let offset = position % stream.len();
        stream[offset] = byte;
        check_arbitrary::<TransactionStream>(&stream, &cuts)?;
        let mut stream = write_all(ReplicationWriter::<DumpStream>::inside_tls(), &dump);
        let offset = position % stream.len();
        stream[offset] = byte;
        check_arbitrary::<DumpStream>(&stream, &cuts)?;
    }

    /// After a change of any byte behind the hash name, only written records are returned, and not all of them.
    #[test]
    fn changed_byte_is_rejected(records in transactions(), position in any::<usize>(), change in 1_u8..) {
        let mut stream = write_all(ReplicationWriter::<TransactionStream>::signed(&FakeProvider, HashAlgorithm::Sha256), &records);
        let preamble_len = 4 + 4 + b"SHA-256".len();
        let offset = preamble_len + position % (stream.len() - preamble_len);
        stream[offset] ^= change;
        let (received, end) = read_all::<TransactionStream>(ReplicationReader::new(fake_signatures_config()), [&stream[..]]);
        prop_assert!(received.len() < records.len());
        prop_assert_eq!(&received[..], &records[..received.len()]);
        prop_assert!(end.is_err());
    }

    #[test]
    fn stream_tables_round_trip(table in btree_map("[ -~é\n]{0,8}", stream_value(), 0..4)) {
        let table = StreamTable(table);
        prop_assert_eq!(table.to_string().parse(), Ok(table));
    }

    #[test]
    fn arbitrary_tables(text in "[{}()=\"\\\\ ,a\né]{0,40}") {
        if let Ok(table) = text.parse::<StreamTable>() {
            prop_assert_eq!(table.to_string().parse(), Ok(table));
        }
        let _ = ReplicationStates::from_stream_table(&text, None);
        let _ = ReplicationStates::from_json(text.as_bytes());
    }

    #[test]
    fn states_round_trip(
        sources in btree_map((0_u16..9, "[ -~é]{0,9}"), (any::<i64>(), any::<i64>()), 0..5),
        own_name in proptest::option::of("[a-c]{4}"),
    ) {
        let sources = sources.into_iter().map(|((server, site), (last_txn_id, last_timestamp_millis))| {
            (QueueName { site, server }, ReplicationPosition { last_txn_id, last_timestamp_millis })
        });
        let states = ReplicationStates { sources: sources.collect(), own_name };
        prop_assert_eq!(ReplicationStates::from_json(states.to_json().as_bytes()), Ok(states.clone()));
        let without_own = ReplicationStates {
            sources: states.sources.clone().into_iter().filter(|(name, _)| !states.is_own_site(name)).collect(),
            ..states.clone()
        };
        let text = states.to_stream_table().unwrap();
        prop_assert_eq!(ReplicationStates::from_stream_table(&text, states.own_name), Ok(without_own));
    }
}

/// The example of the protocol description: a request of kind 0, a signed stream, one deletion.
#[test]
fn example_stream() {
    let records = [
        TransactionRecord::Begin { format: StreamFormat::V1, status: TransactionStatus::SENDING },
        TransactionRecord::Transaction(Transaction {
            id: 101,
            handle: b"10.1000/1".into(),
            action: TransactionAction::DELETE,
            timestamp_millis: 1_700_000_000_000,
            values: vec![],
        }),
        TransactionRecord::End { query_millis: Some(1_700_000_000_001) },
    ];
    let mut expected = hex::decode("00000000 00000004 53484131");
    for block in [
        "00000001 00000002",
        "01 0000000000000065 00000009 31302e31 3030302f 31 02 0000018bcfe56800",
        "00 0000018bcfe56801",
    ] {
        let block = hex::decode(block);
        expected.extend(&block);
        expected.extend([0, 0, 0, 8]);
        expected.extend(FakeProvider::signature(HashAlgorithm::Sha1, &block));
    }
    assert_eq!(
        write_all(
            ReplicationWriter::<TransactionStream>::signed(&FakeProvider, HashAlgorithm::Sha1),
            &records
        ),
        expected
    );

    let allowed = ReceiverConfig {
        policy: AuthPolicy { allow_sha1: true, ..AuthPolicy::default() },
        ..fake_signatures_config()
    };
    let (received, end) = read_all::<TransactionStream>(ReplicationReader::new(allowed), [&expected[..]]);
    assert_eq!((&received[..], end), (&records[..], Ok(())));

    let (received, end) =
        read_all::<TransactionStream>(ReplicationReader::new(fake_signatures_config()), [&expected[..]]);
    assert!(received.is_empty());
    assert_eq!(end, Err(ReplicationError::Algorithm(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" })));
}

fn small_dump() -> Vec<DumpRecord<'static>> {
    let values = vec![HandleValue::new(1, "URL", "https://example.org/")];
    vec![
        DumpRecord::Begin { format: StreamFormat::V2 },
        DumpRecord::Position(ReplicationPosition {
            last_txn_id: 7,
            last_timestamp_millis: 1_700_000_000_000,
        }),
        DumpRecord::Handle(HandleRecord { handle: b"10.1000/1".into(), values }),
        DumpRecord::End,
    ]
}

#[test]
fn real_signatures() {
    let key = private_key("privkey.bin").signing_key(&AwsLcProvider).unwrap();
    let public = handle_net_file("pubkey.bin");
    let public = PublicKey::from_bytes(&public).unwrap();
    let records = small_dump();
    let stream = write_all(ReplicationWriter::<DumpStream>::signed(&*key, HashAlgorithm::Sha256), &records);
    let receiver =
        || ReceiverConfig { key: Some(public.clone()), crypto: &AwsLcProvider, ..fake_signatures_config() };
    let (received, end) = read_all::<DumpStream>(ReplicationReader::new(receiver()), stream.chunks(11));
    assert_eq!((received, end), (records, Ok(())));

    let mut damaged = stream.clone();
    let letter = damaged.windows(5).position(|bytes| bytes == b"https").unwrap();
    damaged[letter] = b'H';
    let (received, end) = read_all::<DumpStream>(ReplicationReader::new(receiver()), [&damaged[..]]);
    assert_eq!(received.len(), 2, "the records before it are valid");
    assert!(matches!(end, Err(ReplicationError::BadSignature { offset }) if offset < letter));

    // Without budget nothing is verified; with more budget the reader continues.
    let mut reader = ReplicationReader::<DumpStream>::new(receiver());
    reader.push(&stream);
    assert!(matches!(reader.next_event(&mut Budget::new(3)), Err(ReplicationError::Budget(_))));
    assert!(matches!(
        reader.next_event(&mut budget()),
        Ok(Some(ReplicationEvent::Record(DumpRecord::Begin { .. })))
    ));

    let mut writer = ReplicationWriter::<DumpStream>::signed(&*key, HashAlgorithm::Sha1);
    let mut out = vec![1];
    let error = writer.write(&small_dump()[0], &mut out, &mut budget()).unwrap_err();
    assert_eq!(error, ReplicationWriteError::Sign(AuthError::Crypto(CryptoError::Unsupported)));
    assert_eq!(out, [1], "no part of the record is written");
}

#[test]
fn stream_preambles() {
    #[track_caller]
    fn check(receiver: ReceiverConfig<'_>, bytes: &[u8], expected: &str) {
        let mut reader = ReplicationReader::<DumpStream>::new(receiver);
        reader.push(bytes);
        let result = match reader.next_event(&mut budget()) {
            Ok(Some(event)) => format!("{event:?}"),
            Ok(None) => reader.finish().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(result, expected, "{bytes:?}");
    }
    let long = "truncated stream: stream type at byte 0: needs 4 bytes, only 3 left";
    check(fake_signatures_config(), b"TLS", long);
    check(fake_signatures_config(), b"TLS\0", "StartTls");
    check(unsigned_config(), b"TLS\0\x16", "StartTls");
    check(fake_signatures_config(), b"TLS\x01", "stream type at byte 0: invalid code 1414288129");
    check(fake_signatures_config(), b"\xff\xff\xff\xff", "unsigned stream not allowed");
    check(unsigned_config(), &[0; 4], "unknown signing key");
    let name = "hash algorithm at byte 4: length 65 exceeds the limit of 64 bytes";
    check(fake_signatures_config(), &[0, 0, 0, 0, 0, 0, 0, 65], name);
    let format = "truncated stream: format at byte 12: needs 4 bytes, only 0 left";
    check(fake_signatures_config(), b"\0\0\0\0\0\0\0\x04SHA1", format);
    let signature = "truncated stream: signature at byte 16: needs 4 bytes, only 1 left";
    check(fake_signatures_config(), b"\0\0\0\0\0\0\0\x04SHA1\0\0\0\x02\0", signature);
    let signature = "signature at byte 16: length 4097 exceeds the limit of 4096 bytes";
    check(fake_signatures_config(), b"\0\0\0\0\0\0\0\x04SHA1\0\0\0\x02\0\0\x10\x01", signature);
    check(
        fake_signatures_config(),
        b"\0\0\0\0\0\0\0\x04SHA1\0\0\0\x02\0\0\0\0",
        "algorithm not allowed: SHA-1",
    );
    check(fake_signatures_config(), b"\0\0\0\0\0\0\0\x04SHAX\0\0\0\x02\0\0\0\0", "unknown algorithm");
    let wrong = "invalid signature of the record at byte 15";
    check(fake_signatures_config(), b"\0\0\0\0\0\0\0\x07SHA-256\0\0\0\x02\0\0\0\0", wrong);
    check(unsigned_config(), b"\xff\xff\xff\xff\0\0\0\x03", "format at byte 4: invalid code 3");
    check(unsigned_config(), b"\xff\xff\xff\xff\0\0\0\x02", "Record(Begin { format: V2 })");
}

#[test]
fn invalid_records() {
    #[track_caller]
    fn check(after_header: &str, expected: &str) {
        let stream = [hex::decode("00000002"), hex::decode(after_header)].concat();
        let (_, end) = read_all::<DumpStream>(ReplicationReader::inside_tls(), [&stream[..]]);
        let result = end.map_or_else(|error| error.to_string(), |()| "finished".to_owned());
        assert_eq!(result, expected, "{after_header}");
    }
    check("ff", "finished");
    check("ff 01 02", "finished");
    check("", "truncated stream: record type at byte 4: needs 1 bytes, only 0 left");
    check("06", "record type at byte 4: invalid code 6");
    check("01 00000002 41", "truncated stream: handle at byte 5: needs 2 bytes, only 1 left");
    check("01 00100001", "handle at byte 5: length 1048577 exceeds the limit of 1048576 bytes");
    check("01 80000000", "handle at byte 5: length 2147483648 exceeds the limit of 1048576 bytes");
    check("01 00000000 00000001 00000001 00", "value index at byte 17: needs 4 bytes, only 1 left");
    check("01 00000000 ffffffff", "values at byte 9: 4294967295 items exceed the limit of 559240");
    let value = "00000001 00000000 00 00015180 0e 00000000 00000000 00000000";
    check(&format!("01 00000000 00000001 0000001a {value} ff"), "finished");
    let trailing = "value at byte 43: 1 trailing bytes";
    check(&format!("01 00000000 00000001 0000001b {value} 00 ff"), trailing);
    let short = "value references at byte 39: needs 4 bytes, only 2 left";
    check(&format!("01 00000000 00000001 00000018 {value}"), short);
}

/// A record must not exceed the limit, even if all of its fields are within theirs.
#[test]
fn record_size_limit() {
    let field = |length: u32| [&length.to_be_bytes()[..], &vec![0; length as usize]].concat();
    let mut reader = ReplicationReader::<DumpStream>::inside_tls();
    reader.push(&[0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 100]);
    assert!(reader.next_event(&mut budget()).is_ok());
    for _ in 0..15 {
        reader.push(&field(1 << 20));
        assert_eq!(reader.next_event(&mut budget()), Ok(None));
    }
    let remaining = MAX_RECORD_LEN - 9 - 15 * (4 + (1 << 20)) - 4;
    reader.push(&((remaining + 1) as u32).to_be_bytes());
    let expected = format!(
        "value at byte {}: length {} exceeds the limit of {remaining} bytes",
        13 + 15 * (4 + (1 << 20)),
        remaining + 1
    );
    assert_eq!(reader.next_event(&mut budget()).unwrap_err().to_string(), expected);

    let data = vec![0; (1 << 20) - 26];
    let value = HandleValue::with_data(1, "", &data[..]);
    let mut writer = ReplicationWriter::<DumpStream>::inside_tls();
    let mut out = Vec::new();
    writer.write(&DumpRecord::Begin { format: StreamFormat::V2 }, &mut out, &mut budget()).unwrap();
    let record = |values: usize| {
        DumpRecord::Handle(HandleRecord { handle: b"10.1000/1".into(), values: vec![value.clone(); values] })
    };
    assert!(writer.write(&record(15), &mut Vec::new(), &mut budget()).is_ok());
    let error = writer.write(&record(16), &mut out, &mut budget()).unwrap_err();
    assert!(matches!(error, ReplicationWriteError::TooLarge(error) if error.field() == "value"), "{error}");
    assert_eq!(out, [0, 0, 0, 2]);
}

#[test]
fn record_order() {
    #[track_caller]
    fn check(records: &[TransactionRecord<'_>], expected: Result<(), ReplicationWriteError>) {
        let mut writer = ReplicationWriter::<TransactionStream>::inside_tls();
        let mut out = Vec::new();
        let (last, before) = records.split_last().unwrap();
        for record in before {
            writer.write(record, &mut out, &mut budget()).unwrap();
        }
        assert_eq!(writer.write(last, &mut out, &mut budget()), expected, "{records:?}");
    }
    let begin = |format| TransactionRecord::Begin { format, status: TransactionStatus::SENDING };
    let (begin_v1, begin_v2) = (begin(StreamFormat::V1), begin(StreamFormat::V2));
    let queue = TransactionRecord::Queue { name: b"0:sources".into() };
    let queue_end = TransactionRecord::QueueEnd { query_millis: 1 };
    let end = |query_millis| TransactionRecord::End { query_millis };
    let out_of_order = Err(ReplicationWriteError::OutOfOrder);
    check(std::slice::from_ref(&queue), out_of_order);
    check(&[begin_v1.clone(), begin_v1.clone()], out_of_order);
    check(&[begin_v1.clone(), queue.clone()], out_of_order);
    check(&[begin_v1.clone(), queue_end.clone()], out_of_order);
    check(&[begin_v1.clone(), end(None)], out_of_order);
    check(&[begin_v1.clone(), end(Some(1))], Ok(()));
    check(&[begin_v1.clone(), end(Some(1)), end(Some(1))], out_of_order);
    check(&[begin_v2.clone(), queue, queue_end], Ok(()));
    check(&[begin_v2.clone(), end(Some(1))], out_of_order);
    check(&[begin_v2.clone(), end(None)], Ok(()));
    check(&[begin_v2.clone(), end(None), begin_v2], out_of_order);
}

/// The scanner resumes: a record of many values that arrives byte by byte is scanned once, not once per byte.
#[test]
fn scanning_is_linear() {
    let values =
        vec![HandleValue::new(1, "", ""); repetitions("TENDOT_TEST_STREAM_VALUES", 12_000, 30_000) as usize];
    let records = [
        DumpRecord::Begin { format: StreamFormat::V2 },
        DumpRecord::Handle(HandleRecord { handle: b"10.1000/1".into(), values }),
        DumpRecord::End,
    ];
    let stream =
        write_all(ReplicationWriter::<DumpStream>::signed(&FakeProvider, HashAlgorithm::Sha256), &records);
    let start = Instant::now();
    let (received, end) =
        read_all::<DumpStream>(ReplicationReader::new(fake_signatures_config()), stream.chunks(1));
    assert_eq!((received.len(), end), (3, Ok(())));
    // Many records in one chunk, returned while single bytes arrive: the buffer is not moved for each.
    let mut many = vec![DumpRecord::HomedPrefix { handle: b"0.NA/10.1000".into() }; 100_000];
    many.insert(0, DumpRecord::Begin { format: StreamFormat::V2 });
    let stream = write_all(ReplicationWriter::<DumpStream>::inside_tls(), &many);
    let mut reader = ReplicationReader::<DumpStream>::inside_tls();
    reader.push(&stream);
    for _ in &many {
        assert!(matches!(reader.next_event(&mut budget()), Ok(Some(_))));
        reader.push(&[2]);
    }
    // Linear work takes about a second in a debug build, quadratic work several minutes.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

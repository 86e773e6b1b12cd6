//! Replication streams: records do not depend on chunking and encode to the same bytes, error offsets are in bounds; text formats of
//! the mirror state round-trip.

use std::fmt::Debug;

use tendot_proto::Budget;
use tendot_proto::auth::AuthPolicy;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::PublicKey;
use tendot_proto::replication::{
    DumpStream, ReceiverConfig, ReplicationError, ReplicationEvent, ReplicationReader, ReplicationStates,
    ReplicationStream, ReplicationWriter, StreamTable, TransactionStream,
};

pub(crate) fn check(bytes: &[u8]) {
    check_text_formats(bytes);
    let Some((settings, stream)) = bytes.split_first() else { return };
    let chunk_len = 1 + usize::from(settings >> 3);
    match settings % 2 {
        0 => check_stream::<TransactionStream>(stream, settings >> 1 & 3, chunk_len),
        _ => check_stream::<DumpStream>(stream, settings >> 1 & 3, chunk_len),
    }
}

fn check_stream<S: ReplicationStream>(stream: &[u8], kind: u8, chunk_len: usize)
where
    for<'a> S::Record<'a>: Debug,
{
    let reader = || match kind {
        0 => ReplicationReader::<S>::inside_tls(),
        kind => ReplicationReader::new(ReceiverConfig {
            key: Some(PublicKey::rsa(&[0xc1; 256], &[1, 0, 1])),
            policy: AuthPolicy::default(),
            crypto: &AwsLcProvider,
            allow_unsigned: kind == 1,
        }),
    };
    let (records, written, end) = read(reader(), stream, stream.len().max(1));
    assert_eq!((records, &written, end), {
        let (chunked_records, chunked_written, end) = read(reader(), stream, chunk_len);
        assert_eq!(chunked_written, written);
        (chunked_records, &written, end)
    });
    if kind == 0 {
        assert!(stream.starts_with(&written));
    }
    if let Err(ReplicationError::Malformed(error) | ReplicationError::Truncated(error)) = end {
        assert!(error.offset() <= stream.len(), "{error}");
    }
}

/// Reads a stream; returns the records, their encoding, and the result of the end.
fn read<S: ReplicationStream>(
    mut reader: ReplicationReader<'_, S>,
    stream: &[u8],
    chunk_len: usize,
) -> (Vec<String>, Vec<u8>, Result<(), ReplicationError>)
where
    for<'a> S::Record<'a>: Debug,
{
    let (mut records, mut out) = (Vec::new(), Vec::new());
    let mut writer = ReplicationWriter::<S>::inside_tls();
    for chunk in stream.chunks(chunk_len) {
        reader.push(chunk);
        loop {
            let event = reader.next_event(&mut { Budget::PER_REQUEST }).map(|event| {
                event.map(|event| match event {
                    ReplicationEvent::StartTls => false,
                    ReplicationEvent::Record(record) => {
                        records.push(format!("{record:?}"));
                        writer
                            .write(&record, &mut out, &mut { Budget::PER_REQUEST })
                            .expect("decoded record encodes");
                        true
                    }
                })
            });
            match event {
                Ok(Some(true)) => {}
                Ok(Some(false)) => return (records, out, reader.finish()),
                Ok(None) => break,
                Err(error) => return (records, out, Err(error)),
            }
        }
    }
    (records, out, reader.finish())
}

fn check_text_formats(bytes: &[u8]) {
    if let Ok(states) = ReplicationStates::from_json(bytes) {
        assert_eq!(ReplicationStates::from_json(states.to_json().as_bytes()).as_ref(), Ok(&states));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(table) = text.parse::<StreamTable>() {
        assert_eq!(table.to_string().parse(), Ok(table));
    }
    if let Ok(states) = ReplicationStates::from_stream_table(text, None) {
        let text = states.to_stream_table().expect("parsed states serialize");
        assert_eq!(ReplicationStates::from_stream_table(&text, None), Ok(states));
    }
}

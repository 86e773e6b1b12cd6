//! Replication streams that follow responses to opcodes 1001 (transactions) and 1002 (dump).
//!
//! Handle.Net's protocol, in no RFC. No server or client calls this module yet.
//!
//! - [`ReplicationReader`] and [`ReplicationWriter`]: bytes to records and back, signed or unsigned, of either stream;
//! - [`TransactionRecord`] and [`DumpRecord`]: the records of a [`TransactionStream`] and of a [`DumpStream`];
//! - [`ReplicationStates`], [`QueueName`], [`StreamTable`]: progress of a mirror, as JSON in requests and as text in
//!   files;
//! - [`needs_redump`], [`is_for_receiver`], [`VersionStamp`]: decisions of sender and receiver.
//!
//! Files in reading order: `reader`, `writer` and `layout` (bytes); `transaction` and `dump` (records); `states`, `queue_name` and
//! `stream_table` (progress); `redump` and `version_stamp` (decisions); `error`.
//!
//! A sender of transactions and a receiver inside TLS:
//!
//! ```
//! use tendot_proto::Budget;
//! use tendot_proto::replication::{
//!     ReplicationEvent, ReplicationReader, ReplicationWriter, StreamFormat, Transaction, TransactionAction,
//!     TransactionRecord, TransactionStatus, TransactionStream,
//! };
//!
//! let records = [
//!     TransactionRecord::Begin { format: StreamFormat::V1, status: TransactionStatus::SENDING },
//!     TransactionRecord::Transaction(Transaction {
//!         id: 101,
//!         handle: b"10.1000/1".into(),
//!         action: TransactionAction::DELETE,
//!         timestamp_millis: 1_700_000_000_000,
//!         values: vec![],
//!     }),
//!     TransactionRecord::End { query_millis: Some(1_700_000_001_000) },
//! ];
//! let mut stream = Vec::new();
//! let mut writer = ReplicationWriter::<TransactionStream>::inside_tls();
//! for record in &records {
//!     writer.write(record, &mut stream, &mut { Budget::PER_REQUEST })?;
//! }
//!
//! let mut reader = ReplicationReader::<TransactionStream>::inside_tls();
//! let mut received = Vec::new();
//! for chunk in stream.chunks(7) {
//!     reader.push(chunk);
//!     while let Some(event) = reader.next_event(&mut { Budget::PER_REQUEST })? {
//!         let ReplicationEvent::Record(record) = event else { unreachable!() };
//!         received.push(record.into_owned());
//!     }
//! }
//! reader.finish()?;
//! assert_eq!(received, records);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Limits of signatures
//!
//! Each record is signed separately. A man in the middle can still omit, repeat or reorder records, insert some of an
//! earlier stream, and end a dump early: its last byte is not signed. Prefer TLS; with signatures alone, at least check
//! the transaction ids.

mod dump;
mod error;
mod layout;
mod queue_name;
mod reader;
mod redump;
mod states;
mod stream_table;
mod transaction;
mod version_stamp;
mod writer;

pub use dump::{DumpRecord, DumpStream};
pub use error::{ReplicationError, ReplicationWriteError};
pub use layout::StreamFormat;
pub use queue_name::{QueueName, QueueNameError};
pub use reader::{ReceiverConfig, ReplicationEvent, ReplicationReader};
pub use redump::{OldestTransaction, QueueExtent, needs_redump};
pub use states::{ReplicationPosition, ReplicationStates, ReplicationStatesError};
pub use stream_table::{StreamTable, StreamTableError, StreamTableValue};
pub use transaction::{
    Transaction, TransactionAction, TransactionRecord, TransactionStatus, TransactionStream, is_for_receiver,
};
pub use version_stamp::VersionStamp;
pub use writer::ReplicationWriter;

/// Maximum length of a record, without its signature. Handle.Net has no limit; this is sixty times the limit of a
/// message.
pub const MAX_RECORD_LEN: usize = 16 * 1024 * 1024;

/// Maximum length of a signature: four times that of the largest key in use.
pub const MAX_SIGNATURE_LEN: usize = 4096;

/// First four bytes of a stream that continues inside TLS. Sent in clear text; the sender is the server of the
/// handshake.
pub const TLS_MARKER: [u8; 4] = *b"TLS\0";

/// First four bytes of a stream with signed records, and of one without.
const SIGNED_MARKER: [u8; 4] = [0; 4];
const UNSIGNED_MARKER: [u8; 4] = [0xff; 4];

/// Replication stream: [`TransactionStream`] or [`DumpStream`] (sealed).
pub trait ReplicationStream: layout::StreamLayout {}

impl ReplicationStream for TransactionStream {}
impl ReplicationStream for DumpStream {}

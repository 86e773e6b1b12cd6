//! How a mirror is kept: what a server sends after the answer to operations 1001 (transactions) and 1002 (dump), over
//! the same connection. In no RFC; this is what the deployed software speaks.
//!
//! - [`ReplicationReader`] and [`ReplicationWriter`]: bytes and records, with or without signatures, of either stream;
//! - [`TransactionRecord`] and [`DumpRecord`]: the records of [`TransactionStream`] and of a [`DumpStream`];
//! - [`ReplicationStates`], [`QueueName`], [`StreamTable`]: how far a mirror has got, as JSON in requests and as text in files;
//! - [`needs_redump`], [`is_for_receiver`], [`VersionStamp`]: the decisions on both sides.
//!
//! A sender of transactions, and a receiver, inside TLS:
//!
//! ```
//! use tendot_proto::Budget;
//! use tendot_proto::replication::{
//!     TransactionAction, ReplicationEvent, StreamFormat, TransactionStatus, ReplicationReader, ReplicationWriter, Transaction, TransactionRecord, TransactionStream,
//! };
//!
//! let records = [
//!     TransactionRecord::Begin { format: StreamFormat::One, status: TransactionStatus::SENDING },
//!     TransactionRecord::Transaction(Transaction {
//!         id: 101,
//!         handle: b"10.1000/1".into(),
//!         action: TransactionAction::DELETE,
//!         time: 1_700_000_000_000,
//!         values: vec![],
//!     }),
//!     TransactionRecord::End { time: Some(1_700_000_001_000) },
//! ];
//! let mut stream = Vec::new();
//! let mut writer = ReplicationWriter::<TransactionStream>::inside_tls();
//! for record in &records {
//!     writer.write(record, &mut stream, &mut { Budget::PER_REQUEST })?;
//! }
//!
//! let mut reader = ReplicationReader::<TransactionStream>::inside_tls();
//! let mut received = Vec::new();
//! for piece in stream.chunks(7) {
//!     reader.push(piece);
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
//! # What signatures do not tell
//!
//! Every record is signed by itself. Whoever sits in between can still leave out records, repeat or reorder them, or put
//! in some of an earlier stream, and can end a dump early: its last byte is not signed. TLS is better; with signatures
//! alone, numbers of transactions should at least be looked at.

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
    owns,
};
pub use version_stamp::VersionStamp;
pub use writer::ReplicationWriter;

/// Bytes of one record of a stream, its signature not included. The deployed software knows no limit; this one is sixty
/// times what fits a message.
pub const MAX_RECORD_LEN: usize = 16 * 1024 * 1024;

/// Bytes of a signature: four times that of the largest key that is used.
pub const MAX_SIGNATURE_LEN: usize = 4096;

/// The first four bytes of a stream that goes on inside TLS, with nothing in between. They are sent in the clear;
/// whoever sends them is the server of the handshake.
pub const TLS_MARKER: [u8; 4] = *b"TLS\0";

/// The first four bytes of a stream whose records are signed, and of one whose are not.
const SIGNED_MARKER: [u8; 4] = [0; 4];
const UNSIGNED_MARKER: [u8; 4] = [0xff; 4];

/// Replication stream: [`TransactionStream`] or [`DumpStream`] (sealed).
///
/// [`TransactionStream`] or a [`DumpStream`].
pub trait ReplicationStream: layout::StreamLayout {}

impl ReplicationStream for TransactionStream {}
impl ReplicationStream for DumpStream {}

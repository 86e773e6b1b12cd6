#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

extern crate alloc;
#[cfg(test)]
extern crate std;

// Handles, errors, limits, time, work budget.
mod budget;
mod error;
mod handle;
pub mod limits;
mod now;

// Bytes.
pub mod wire;

// Datagrams, streams, HTTP.
mod transport;

// Messages and records.
pub mod message;
pub mod record;

// Server side, authentication, cryptography.
pub mod endpoint;

pub mod auth;
pub mod crypto;

// Client side.
pub mod lookup;

pub mod bootstrap;

// Mirrors and signed records; not used by server or client yet.
pub mod replication;
pub mod trust;

pub use budget::{Budget, BudgetExceeded};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use handle::{Handle, HandleError};
pub use message::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Message, MessageBody, MessageHeader,
    MessageParts, OpFlags, Opcode, ProtocolVersion, ReceivedMessage, Request, RequestDigest, Response,
    ResponseCode, ResponseData,
};
pub use now::Now;
pub use record::{HandleValue, Ttl, ValuePermissions, ValueReference};
pub use transport::{Datagram, FragmentError, Fragments, FrameError, Framer, Reassembly, tunnel};

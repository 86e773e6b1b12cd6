#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod auth;
pub mod bootstrap;
mod budget;
pub mod crypto;
pub mod endpoint;
mod error;
mod handle;
pub mod limits;
pub mod lookup;
pub mod message;
mod now;
pub mod record;
pub mod replication;
mod transport;
pub mod trust;
pub mod wire;

pub use budget::{Budget, BudgetExceeded};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use handle::{Handle, HandleError};
pub use message::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Message, MessageBody, MessageHeader,
    MessageParts, OpFlags, Opcode, ProtocolVersion, Request, RequestDigest, Response, ResponseCode,
    ResponseData,
};
pub use now::Now;
pub use record::{HandleValue, Ttl, ValuePermissions, ValueReference};
pub use transport::{Datagram, FragmentError, Fragments, FrameError, Framer, Reassembly, tunnel};

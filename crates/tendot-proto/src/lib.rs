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
pub mod crypto;
pub mod endpoint;
mod error;
mod fragment;
mod framing;
mod handle;
pub mod limits;
pub mod lookup;
pub mod message;
pub mod record;
pub mod replication;
mod time;
pub mod trust;
pub mod tunnel;
pub mod wire;
mod work;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use fragment::{Datagram, FragmentError, Fragments, Reassembly};
pub use framing::{FrameError, Framer};
pub use handle::{Handle, HandleError};
pub use message::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Message, MessageBody, MessageHeader,
    MessageParts, OpFlags, Opcode, ProtocolVersion, Request, RequestDigest, Response, ResponseCode,
    ResponseData,
};
pub use record::{HandleValue, Ttl, ValuePermissions, ValueReference};
pub use time::Now;
pub use work::{Budget, BudgetExceeded};

#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod crypto;
mod error;
mod handle;
pub mod limits;
pub mod record;
mod time;
pub mod trust;
pub mod wire;
mod work;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use handle::{Handle, HandleError};
pub use record::{Permissions, Reference, Ttl, Value};
pub use time::Now;
pub use work::{Exhausted, Work};

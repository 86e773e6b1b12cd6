//! Tests of the protocol: codecs, transports, authentication, lookups, replication and trust.
//!
//! Helpers that several modules use are in [`support`]; everything else is in the module that uses it.

mod attacks;
#[cfg(feature = "crypto")]
mod auth_properties;
mod examples;
mod exhaustive_fields;
mod fragmentation;
#[cfg(feature = "crypto")]
mod lookup;
mod message_properties;
mod no_io;
mod record_properties;
mod record_vectors;
#[cfg(feature = "crypto")]
mod recorded_crypto;
mod recorded_messages;
#[cfg(feature = "crypto")]
mod replay;
#[cfg(feature = "crypto")]
mod replication;
mod support;
#[cfg(feature = "crypto")]
mod trust;

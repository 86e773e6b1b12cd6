//! Client of the Handle protocol over UDP, TCP, HTTP and HTTPS.
//!
//! [`NativeClient`] resolves handles; [`AdminClient`] changes records at one server. Files in reading order:
//!
//! - `root_sites.rs`: sites at which lookups start
//! - `resolve/`: resolution, from the client down to the sockets
//! - `admin/`: administration, from the operations down to the connection
//! - `stream.rs`, `tls.rs`: TCP and TLS streams
//! - `clock.rs`, `error.rs`: clock and errors

mod admin;
mod clock;
mod error;
mod resolve;
mod root_sites;
mod stream;
mod tls;

pub use admin::{AdminClient, AdminIdentity, AdminServer};
pub use error::{AdminError, ResolveError};
pub use resolve::{NativeClient, ResolveOptions, ServerReply};
pub use root_sites::{RootSites, RootSitesError};
pub use stream::TransportAddress;
#[cfg(feature = "http")]
pub(crate) use tls::pinned_rsa_key_config;

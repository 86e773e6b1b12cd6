//! Server for the native protocol of the Handle System (RFC 3652).
//!
//! `server/` has the sockets: UDP worker threads, TCP connections, and TLS; messages inside HTTP come from
//! `http/handle_api/tunnel.rs`. Each message is classified (`classified_message.rs`) and passes `middleware/` (CPU fairness, rate
//! limits, response cache, metrics), then `dispatch.rs` opens it, authenticates the caller with `authentication.rs`, maps it to an
//! operation (`operation.rs`) and runs that (`execute.rs`, with `list.rs`, `status.rs` and `session.rs`); `respond.rs` seals the
//! response.
//! `message_client.rs` says whose limits apply to a message. `native_server.rs` has the state and settings, `own_site.rs` this site's record and key, and `site_peers.rs` the client for
//! the other servers of the site; `sha1_warning.rs` tells the operator about `native.allow_sha1`.

mod authentication;
mod classified_message;
mod dispatch;
mod execute;
mod list;
mod message_client;
mod middleware;
mod native_server;
mod operation;
mod own_site;
mod respond;
mod server;
mod session;
mod sha1_warning;
mod site_peers;
mod status;

pub(crate) use dispatch::NativeReply;
pub(crate) use message_client::MessageClient;
pub use middleware::amplification::AmplificationLimits;
pub(crate) use middleware::metrics::{NativeCollector, NativeMetrics};
pub use middleware::rate_limit::NativeRateLimits;
pub use native_server::NativeServer;
pub use own_site::{OwnSite, SiteKeyError};
pub use server::listener::{NativeLimits, NativeSockets, serve};
pub use site_peers::SitePeerClient;
pub(crate) use status::is_status;

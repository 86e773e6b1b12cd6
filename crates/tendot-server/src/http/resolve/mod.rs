//! Resolution of a name: `GET /{name}`.
//!
//! In reading order:
//!
//! - `redirect.rs`: resolve a name to a redirect
//! - `entry_points.rs`: search box, form post, OpenURL
//! - `lookup.rs`: local or upstream lookup
//! - `upstream.rs`: upstream resolver
//! - `metadata.rs`: metadata by content negotiation
//! - `explain.rs`: resolution trace of `?explain`
//! - `suggestions.rs`: registered names that are similar
//! - `locations/`: choice of one of several locations

pub(crate) mod entry_points;
pub(crate) mod explain;
pub(crate) mod locations;
pub(crate) mod lookup;
pub(crate) mod metadata;
pub(crate) mod redirect;
pub(crate) mod suggestions;
pub(crate) mod upstream;

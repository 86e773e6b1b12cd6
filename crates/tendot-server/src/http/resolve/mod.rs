//! Resolution of a name: `GET /{name}`.
//!
//! In reading order:
//!
//! - `redirect.rs`: resolve a name to a redirect
//! - `entry_points.rs`: search box, form post, OpenURL
//! - `lookup.rs`: local or upstream lookup
//! - `upstream.rs`: upstream resolver
//! - `metadata.rs`: metadata by content negotiation
//! - `name_kind.rs`: DOI, handle, prefix or nothing
//! - `trace.rs`: events and trace of `?explain`
//! - `explain.rs`: steps of a trace, with hints
//! - `suggestions.rs`: registered names that are similar
//! - `locations/`: choice of one of several locations

pub(crate) mod entry_points;
mod explain;
pub(crate) mod locations;
pub(crate) mod lookup;
pub(crate) mod metadata;
pub(crate) mod name_kind;
pub(crate) mod redirect;
pub(crate) mod suggestions;
pub(crate) mod trace;
pub(crate) mod upstream;

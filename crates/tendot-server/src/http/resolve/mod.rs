//! Resolution of a name: `GET /{name}`.

pub(crate) mod explain;
pub(crate) mod locations;
pub(crate) mod lookup;
pub(crate) mod metadata;
pub(crate) mod redirect;
pub(crate) mod suggestions;
pub(crate) mod upstream;

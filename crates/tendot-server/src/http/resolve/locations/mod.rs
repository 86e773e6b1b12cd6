//! Locations of a record, and the choice of one to redirect to.

pub(crate) mod link_headers;
pub(crate) mod location_set;
pub(crate) mod redirect_target;
pub(crate) mod selection;

//! APIs of other services, for their clients.

pub(crate) mod doi_ra;
pub(crate) mod reverse_lookup;

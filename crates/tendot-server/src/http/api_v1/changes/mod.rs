//! Change feed: `/api/v1/changes`.

pub(crate) mod endpoint;
pub(crate) mod log_head;
pub(crate) mod subscribers;

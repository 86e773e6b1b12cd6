//! Batch registration: `/api/v1/dois/batch`.

pub(crate) mod csv;
pub(crate) mod endpoint;

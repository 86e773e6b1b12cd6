//! Routes, and the OpenAPI document that describes them.

pub(crate) mod openapi;
pub(crate) mod operation_spec;
pub(crate) mod routes;

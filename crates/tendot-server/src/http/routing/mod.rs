//! Routes, dispatch, and the OpenAPI document.
//!
//! In reading order:
//!
//! - `routes.rs`: table of path templates
//! - `dispatch.rs`: route and method to handler
//! - `operation_spec.rs`: builder for OpenAPI operations
//! - `openapi.rs`: `/openapi.json`

pub(crate) mod dispatch;
pub(crate) mod openapi;
pub(crate) mod operation_spec;
pub(crate) mod routes;

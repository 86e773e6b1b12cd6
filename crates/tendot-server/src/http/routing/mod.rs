//! Routes, dispatch, and the OpenAPI document.
//!
//! In reading order:
//!
//! - `endpoint.rs`: entries of the route tables
//! - `routes.rs`: path to the entry of an API's table
//! - `dispatch.rs`: entry and method to handler
//! - `operation_spec.rs`: builder for OpenAPI operations
//! - `openapi.rs`: `/openapi.json`

pub(crate) mod dispatch;
pub(crate) mod endpoint;
pub(crate) mod openapi;
pub(crate) mod operation_spec;
pub(crate) mod routes;

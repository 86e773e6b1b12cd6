//! Entries of the route tables. Each API has one table in its folder: paths, methods, handlers, metrics kind, access and
//! OpenAPI spec of every endpoint. `routes.rs` finds the entry of a path.

use std::pin::Pin;

use http::{HeaderValue, Method};

use crate::http::HttpServer;
use crate::http::middleware::client_address::RemoteClient;
use crate::http::middleware::metrics::RequestKind;
use crate::http::request::body::RequestBody;
use crate::http::request::request_head::RequestHead;
use crate::http::response::errors::ErrorFormat;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::PathSpec;

/// API: endpoints with a common error format.
#[derive(Debug)]
pub(crate) struct Api {
    /// Path below which an unknown path is an error; elsewhere it is a name.
    pub(crate) root: Option<&'static str>,
    pub(crate) errors: ErrorFormat,
    /// Endpoints in the order of the API reference.
    pub(crate) endpoints: &'static [ApiEndpoint],
}

impl Api {
    /// Whether a path is below the root.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let rest = self.root.and_then(|root| path.strip_prefix(root));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Endpoint: path templates, operations and OpenAPI spec.
///
/// A parameter in braces at the end of a template matches the rest of the path, also an empty one; elsewhere it matches one
/// segment.
#[derive(Debug)]
pub(crate) struct ApiEndpoint {
    /// Templates in the API reference.
    pub(crate) paths: &'static [&'static str],
    /// Further templates, as Handle.Net accepts them.
    pub(crate) aliases: &'static [&'static str],
    /// OpenAPI spec; `None` for an endpoint without paths.
    pub(crate) describe: Option<fn() -> PathSpec>,
    pub(crate) operations: &'static [Operation],
}

impl ApiEndpoint {
    pub(crate) const fn new(
        paths: &'static [&'static str],
        describe: fn() -> PathSpec,
        operations: &'static [Operation],
    ) -> Self {
        Self { paths, aliases: &[], describe: Some(describe), operations }
    }

    /// Endpoint without paths, which is not in the API reference.
    pub(crate) const fn without_path(operations: &'static [Operation]) -> Self {
        Self { paths: &[], aliases: &[], describe: None, operations }
    }

    /// Adds templates that are not in the API reference.
    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Operation of a method; HEAD is GET without a body.
    pub(crate) fn operation(&self, method: &Method) -> Option<&Operation> {
        let method = RequestMethod::parse(method)?;
        self.operations.iter().find(|operation| operation.method == method)
    }

    /// Allowed methods, for `Allow`.
    pub(crate) fn allowed_methods(&self) -> HeaderValue {
        let has = |method| self.operations.iter().any(|operation| operation.method == method);
        let mut allowed =
            String::from(if has(RequestMethod::Get) { "GET, HEAD, OPTIONS" } else { "OPTIONS" });
        for (method, name) in
            [(RequestMethod::Post, "POST"), (RequestMethod::Put, "PUT"), (RequestMethod::Delete, "DELETE")]
        {
            if has(method) {
                allowed.push_str(", ");
                allowed.push_str(name);
            }
        }
        HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static("OPTIONS"))
    }
}

/// Method with a handler.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum RequestMethod {
    /// GET and HEAD.
    Get,
    Post,
    Put,
    Delete,
}

impl RequestMethod {
    pub(crate) fn parse(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Get),
            Method::POST => Some(Self::Post),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Access to an operation, as documented in OpenAPI; the registry authorizes each object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Credentials are ignored.
    Public,
    /// Authenticated callers may see or do more.
    Optional,
    /// Only authenticated callers.
    Authenticated,
}

/// Operation: one method of an endpoint.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: RequestMethod,
    pub(crate) handler: Handler,
    pub(crate) kind: RequestKind,
    pub(crate) access: Access,
    /// Whether an anonymous request may be answered with slightly stale data.
    pub(crate) tolerates_stale: bool,
}

impl Operation {
    /// GET and HEAD: a public read.
    pub(crate) const fn get(handler: Handler) -> Self {
        let (method, kind, access) = (RequestMethod::Get, RequestKind::Read, Access::Public);
        Self { method, handler, kind, access, tolerates_stale: true }
    }

    /// POST: a write by an authenticated caller.
    pub(crate) const fn post(handler: Handler) -> Self {
        Self::write(RequestMethod::Post, handler)
    }

    /// PUT: a write by an authenticated caller.
    pub(crate) const fn put(handler: Handler) -> Self {
        Self::write(RequestMethod::Put, handler)
    }

    /// DELETE: a write by an authenticated caller.
    pub(crate) const fn delete(handler: Handler) -> Self {
        Self::write(RequestMethod::Delete, handler)
    }

    const fn write(method: RequestMethod, handler: Handler) -> Self {
        let (kind, access) = (RequestKind::Write, Access::Authenticated);
        Self { method, handler, kind, access, tolerates_stale: false }
    }

    pub(crate) const fn kind(mut self, kind: RequestKind) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Reads the newest data, also for anonymous callers.
    pub(crate) const fn consistent(mut self) -> Self {
        self.tolerates_stale = false;
        self
    }
}

/// Future of a handler.
pub(crate) type ReplyFuture<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// Handler of an operation.
pub(crate) type Handler = for<'a> fn(&'a HttpServer, Call<'a>) -> ReplyFuture<'a>;

/// Request as a handler gets it.
pub(crate) struct Call<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) client: &'a RemoteClient,
    pub(crate) endpoint: &'static ApiEndpoint,
    pub(crate) method: RequestMethod,
    pub(crate) access: Access,
    /// Parameter of the path, not decoded; for a name, the whole path.
    pub(crate) path_param: &'a str,
    pub(crate) body: RequestBody,
}

/// Makes a [`Handler`] for a method that takes its parameters also from the body, a form or JSON: they are added to the query.
macro_rules! form_handler {
    (|$server:ident, $path_param:pat_param, $head:ident| $handled:expr) => {
        |$server, call| {
            Box::pin(async move {
                let $path_param = call.path_param;
                let query = match $server.merge_body_into_query(call.body, call.access, call.head).await {
                    Ok(query) => query,
                    Err(rejected) => return rejected,
                };
                let $head =
                    &$crate::http::request::request_head::RequestHead { query: Some(&query), ..*call.head };
                $handled.await
            })
        }
    };
}
pub(crate) use form_handler;

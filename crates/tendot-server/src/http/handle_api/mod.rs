//! Handle.Net's JSON API, `/api/…`: one file per resource.
//!
//! In reading order:
//!
//! - `handles.rs`: read and write a record
//! - `handle_list.rs`: names under a prefix
//! - `prefixes.rs`: homed prefixes
//! - `site.rs`: site record of this server
//! - `sessions.rs`: authenticated sessions
//! - `verifications.rs`: proofs that other servers received
//! - `reply_body.rs`: response bodies as JSON and JSONP, and errors
//! - `schemas.rs`: OpenAPI schemas of handle values
//! - `tunnel.rs`: messages of the native protocol inside HTTP

mod handle_list;
mod handles;
mod prefixes;
pub(crate) mod reply_body;
mod schemas;
mod sessions;
mod site;
pub(crate) mod tunnel;
mod verifications;

pub(crate) use reply_body::error_reply;
pub(crate) use schemas::{ValueForm, in_file, parse_schemas};

use crate::http::middleware::metrics::RequestKind;
use crate::http::response::errors::ErrorFormat;
use crate::http::routing::endpoint::{Access, Api, ApiEndpoint, Handler, Operation, form_handler};

/// Handle.Net's JSON API.
pub(crate) static API: Api = Api {
    root: Some("/api"),
    errors: ErrorFormat::HandleJson,
    endpoints: &[
        ApiEndpoint::new(
            &["/api/handles/{name}"],
            handles::describe,
            &[
                Operation::get(|server, call| Box::pin(server.get_handle(call.path_param, call.head)))
                    .access(Access::Optional),
                form_read(form_handler!(|server, name, head| server.get_handle(name, head)))
                    .access(Access::Optional),
                Operation::put(|server, call| {
                    Box::pin(server.put_handle(call.path_param, call.head, call.body))
                }),
                Operation::delete(|server, call| Box::pin(server.delete_handle(call.path_param, call.head))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/handles"],
            handle_list::describe,
            &[
                Operation::get(|server, call| Box::pin(server.list_handles(call.head)))
                    .access(Access::Authenticated),
                form_read(form_handler!(|server, _, head| server.list_handles(head)))
                    .access(Access::Authenticated),
            ],
        ),
        ApiEndpoint::new(
            &["/api/prefixes"],
            prefixes::describe,
            &[
                Operation::get(|server, call| Box::pin(server.list_prefixes(call.head)))
                    .access(Access::Authenticated),
                HOME_PREFIX,
                UNHOME_PREFIX,
            ],
        )
        .aliases(&["/api/prefixes/"]),
        ApiEndpoint::new(&["/api/prefixes/{prefix}"], prefixes::describe_one, &[HOME_PREFIX, UNHOME_PREFIX]),
        ApiEndpoint::new(
            &["/api/sessions/this"],
            sessions::describe_one,
            &[
                Operation::get(SESSION_REQUEST).access(Access::Optional).consistent(),
                Operation::post(SESSION_REQUEST).access(Access::Optional),
                Operation::put(SESSION_REQUEST).access(Access::Optional),
                Operation::delete(SESSION_REQUEST),
            ],
        )
        // The only session that can be addressed is the caller's own.
        .aliases(&["/api/sessions/this/", "/api/sessions/{other}"]),
        ApiEndpoint::new(
            &["/api/sessions"],
            sessions::describe,
            &[Operation::post(|server, call| Box::pin(server.create_session(call.body, call.head)))
                .access(Access::Optional)],
        )
        .aliases(&["/api/sessions/"]),
        ApiEndpoint::new(
            &["/api/verifications/{identity}"],
            verifications::describe,
            &[
                Operation::get(|server, call| Box::pin(server.get_verification(call.path_param, call.head))),
                form_read(form_handler!(|server, identity, head| server.get_verification(identity, head))),
            ],
        )
        .aliases(&["/api/verifications"]),
        ApiEndpoint::new(
            &["/api/site"],
            site::describe,
            &[
                Operation::get(|server, call| Box::pin(server.get_site(call.head))),
                form_read(form_handler!(|server, _, head| server.get_site(head))),
            ],
        )
        .aliases(&["/api/site/"]),
    ],
};

/// POST for clients that only send POST: a public read.
const fn form_read(handler: Handler) -> Operation {
    Operation::post(handler).kind(RequestKind::Read).access(Access::Public)
}

const HOME_PREFIX: Operation =
    Operation::post(form_handler!(|server, prefix, head| server.home_prefix(prefix, head)));

const UNHOME_PREFIX: Operation =
    Operation::delete(|server, call| Box::pin(server.unhome_prefix(call.path_param, call.head)));

const SESSION_REQUEST: Handler =
    |server, call| Box::pin(server.session_request(call.method, call.path_param, call.body, call.head));

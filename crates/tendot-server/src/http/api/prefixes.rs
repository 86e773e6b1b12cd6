//! `/api/prefixes`: which prefixes are kept here, and whether they are.

use std::time::SystemTime;

use http::StatusCode;
use tendot_proto::Handle;
use tendot_registry::Write;
use utoipa::openapi::HttpMethod;

use super::body::{Body, refuse};
use super::handles::{JSON, read};
use super::list::{describe_part, describe_refusals};
use crate::http::Http;
use crate::http::answer::Answer;
use crate::http::describe::{Described, Doing, text};
use crate::http::request::Request;

impl Http {
    /// Answers `POST` and `DELETE /api/prefixes/{prefix}`: names under it are to be kept here, or no longer. The prefix may
    /// stand in the query.
    pub(crate) async fn home_prefix(
        &self,
        path: &str,
        request: &Request<'_>,
        is_to_be: bool,
        now: SystemTime,
    ) -> Answer {
        let (name, parameters) = match read(path, request) {
            Ok(read) => read,
            Err(error) => return refuse(&error.to_string()),
        };
        let name = if name.is_empty() { parameters.get("prefix").unwrap_or_default() } else { &*name };
        if name.is_empty() {
            return refuse("no prefix is named");
        }
        let prefix = Handle::from(name);
        let write = if is_to_be { Write::Home { prefix } } else { Write::Unhome { prefix } };
        self.write(name, &write, &parameters, request, now).await
    }
}

fn written(doing: Doing) -> Doing {
    let doing = doing
        .group("Records")
        .query_param("pretty", "On several lines", text())
        .query_param("callback", "A function that a script calls with it", text())
        .credentials(true)
        .answer(StatusCode::OK, "It is so, now or already")
        .json::<Body<'_>>(JSON)
        .text("application/javascript");
    describe_refusals(doing)
}

const HOME: &str = "Names under a prefix are to be kept here";
const UNHOME: &str = "Names under a prefix are no longer to be kept here; records stay";

/// What is done at `/api/prefixes`.
pub(crate) fn describe() -> Described {
    let named = |summary| written(Doing::new(summary).query_param("prefix", "Which", text()));
    let list = describe_part(Doing::new("The prefixes that are kept here"))
        .sample("curl -s \"$SERVER/api/prefixes?pretty\" -H \"Authorization: Bearer $TOKEN\"");
    Described::read(list).and(HttpMethod::Post, named(HOME)).and(HttpMethod::Delete, named(UNHOME))
}

/// What is done at `/api/prefixes/{prefix}`.
pub(crate) fn describe_one() -> Described {
    let named =
        |summary| written(Doing::new(summary).in_path("prefix", "`0.NA/10.5555`, or `10.5555`", text()));
    let home = "curl -s -X POST $SERVER/api/prefixes/0.NA/10.5556 -H \"Authorization: Bearer $TOKEN\"";
    let unhome = "curl -s -X DELETE $SERVER/api/prefixes/0.NA/10.5556 -H \"Authorization: Bearer $TOKEN\"";
    Described::only(HttpMethod::Post, named(HOME).sample(home))
        .and(HttpMethod::Delete, named(UNHOME).sample(unhome))
}

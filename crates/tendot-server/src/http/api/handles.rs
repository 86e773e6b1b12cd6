//! `/api/handles/{name}`: a record as JSON, read and written.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use http::StatusCode;
use hyper::body::Incoming;
use tendot_proto::record::values_from_json;
use tendot_proto::{Handle, Now, ResponseCode, Value, Work};
use tendot_registry::{Caller, Error, ResolveQuery, Resolution, Write};
use utoipa::openapi::{HttpMethod, Required};

use super::body::{
    Body, Form, empty_name, fail, no_randomness, print, refuse, status_of_write, unanswered, unknown_caller,
    unread,
};
use super::form::NewRecordForm;
use crate::http::answer::Answer;
use crate::http::describe::{Described, Doing, index, several, text};
use crate::http::kept::CachePolicy;
use crate::http::parameters::Parameters;
use crate::http::request::Request;
use crate::http::search::{LookupError, Search};
use crate::http::{RequestSyntaxError, Http, WORK, caching, percent, status};
use crate::native::is_status;

/// Bytes of a record that is sent.
const BODY: usize = 4 << 20;

/// A name and parameters, as they stand in a request.
pub(super) fn read<'a>(
    path: &'a str,
    request: &Request<'a>,
) -> Result<(Cow<'a, str>, Parameters<'a>), RequestSyntaxError> {
    Ok((percent::decode_text(path, "path")?, Parameters::parse(request.query)?))
}

/// The indexes that are asked for, or what is wrong with one of them.
fn indexes(parameters: &Parameters<'_>) -> Result<Vec<u32>, String> {
    let read = |index: &str| index.parse().map_err(|_| format!("`{index}` in the query is no index"));
    parameters.all("index").map(read).collect()
}

impl Http {
    /// Answers `GET /api/handles/{name}`; `path` is the name, not decoded yet.
    pub(crate) async fn get_handle(&self, path: &str, request: &Request<'_>, now: SystemTime) -> Answer {
        let (name, parameters) = match read(path, request) {
            Ok(read) => read,
            Err(error) => return refuse(&error.to_string()),
        };
        if name.is_empty() {
            return self.list_handles(request).await;
        }
        let caller = match self.caller(request).await {
            Ok(caller) => caller,
            Err(error) => return unknown_caller(error, &name, request),
        };
        let is_known = caller != Caller::Anonymous;
        let form = Form::asked(&parameters);
        let indexes = match indexes(&parameters) {
            Ok(indexes) => indexes,
            Err(why) => return refuse(&why),
        };
        let query = ResolveQuery {
            indexes,
            types: parameters.all("type").map(str::as_bytes).collect(),
            // Who says who they are wants to see what only they may see.
            public_only: parameters.flag("publicOnly").unwrap_or(!is_known),
            ..ResolveQuery::new(Handle::from(&*name))
        };
        if let Some(native) = self.native.as_ref().filter(|_| is_status(query.name)) {
            let found = native.status_values(&query, &caller, &mut Work::new(WORK)).await;
            return self.status_reply(found, &name, &form, request);
        }
        let version = self.version(&name, request);
        let found = self.look_up(&query, &caller, &mut Search::new(request, &parameters)).await;
        if let Some(tally) = self.tally.as_ref().filter(|_| !is_known) {
            match &found {
                Ok((Resolution::Values(_), None)) => tally.resolved(&self.registry, &name).await,
                Err(LookupError::Here(error)) => tally.failed(&self.registry, &name, error).await,
                _ => {}
            }
        }
        let heard = match &found {
            Ok((_, heard)) => *heard,
            Err(error) => error.heard(),
        };
        let (code, values) = match found {
            Ok((Resolution::Values(values), _)) => (ResponseCode::SUCCESS, values),
            Ok((Resolution::Referral(values), _)) => (ResponseCode::PREFIX_REFERRAL, values),
            Err(LookupError::Here(Error::NoValues) | LookupError::Elsewhere(Error::NoValues, _)) => {
                (ResponseCode::VALUES_NOT_FOUND, Vec::new())
            }
            Err(LookupError::Here(error) | LookupError::Elsewhere(error, _)) => {
                let status = status::of(error.response_code(), request.takes_credentials);
                let mut response = fail(&error, status, &name, &form);
                if let Some(heard) = heard {
                    caching::add_cache_status(response.headers_mut(), heard);
                }
                return response;
            }
            Err(LookupError::Unanswered(error)) => return unanswered(&error, &name, &form),
        };
        let status = status::of(code, request.takes_credentials);
        let mut response = print(status, &Body::for_handle(code, &name).with_values(&values), &form);
        if status != StatusCode::OK || is_known {
            caching::set_private_no_store(response.headers_mut());
            return response;
        }
        let seconds = caching::seconds(&values, now);
        caching::set_max_age_with_provenance(response.headers_mut(), seconds, heard, now);
        if let Some(version) = version.filter(|_| heard.is_none() && caching::has_only_relative_ttls(&values)) {
            response.extensions_mut().insert(CachePolicy { record: version, seconds, has_metadata: false });
        }
        let body = response.body().clone();
        caching::tag(response, &body, request.headers)
    }

    /// How the server is, to those who may know.
    fn status_reply(
        &self,
        found: Result<Vec<Value<'static>>, Error>,
        name: &str,
        form: &Form<'_>,
        request: &Request<'_>,
    ) -> Answer {
        let (code, values) = match found {
            Ok(values) => (ResponseCode::SUCCESS, values),
            Err(Error::NoValues) => (ResponseCode::VALUES_NOT_FOUND, Vec::new()),
            Err(error) => {
                let status = status::of(error.response_code(), request.takes_credentials);
                return fail(&error, status, name, form);
            }
        };
        let mut response = print(StatusCode::OK, &Body::for_handle(code, name).with_values(&values), form);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Answers `PUT /api/handles/{name}`.
    pub(crate) async fn put_handle(
        &self,
        path: &str,
        request: &Request<'_>,
        body: Incoming,
        now: SystemTime,
    ) -> Answer {
        let (name, parameters) = match read(path, request) {
            Ok(read) => read,
            Err(error) => return refuse(&error.to_string()),
        };
        if name.is_empty() {
            return empty_name();
        }
        let body = match self.bodies.read(body, BODY).await {
            Ok(body) => body,
            Err(error) => return unread(error),
        };
        let json: serde_json::Value = match serde_json::from_slice(&body) {
            Ok(json) => json,
            Err(error) => return refuse(&format!("the body is no JSON: {error}")),
        };
        match json.get("handle") {
            None | Some(serde_json::Value::Null) => {}
            Some(_) if parameters.is_set("mintNewSuffix") => {}
            Some(serde_json::Value::String(other)) if other.eq_ignore_ascii_case(&name) => {}
            Some(_) => return refuse("the body has another handle than the path"),
        }
        let values = match values_from_json(&json) {
            Ok(values) => values,
            Err(error) => return refuse(&error.to_string()),
        };
        let handle = Handle::from(&*name);
        let overwrite = parameters.flag("overwrite").unwrap_or(true);
        let mut indexes = parameters.all("index").peekable();
        let write = if indexes.peek().is_some() {
            let is_asked = |index: u32| {
                parameters.all("index").any(|asked| asked == "various" || asked.parse() == Ok(index))
            };
            if !values.iter().all(|value| is_asked(value.index)) {
                return refuse("the body has other indexes than the query");
            }
            Write::Add { name: handle, values, overwrite, force: parameters.is_set("force") }
        } else {
            let mut mint = parameters.is_set("mintNewSuffix").then_some([0; 16]);
            if mint.as_mut().is_some_and(|random| rand::fill(random).is_err()) {
                return no_randomness();
            }
            Write::Create { name: handle, values, overwrite, mint, force: parameters.is_set("force") }
        };
        self.write(&name, &write, &parameters, request, now).await
    }

    /// Answers `DELETE /api/handles/{name}`.
    pub(crate) async fn delete_handle(&self, path: &str, request: &Request<'_>, now: SystemTime) -> Answer {
        let (name, parameters) = match read(path, request) {
            Ok(read) => read,
            Err(error) => return refuse(&error.to_string()),
        };
        if name.is_empty() {
            return empty_name();
        }
        let handle = Handle::from(&*name);
        let indexes = match indexes(&parameters) {
            Ok(indexes) => indexes,
            Err(why) => return refuse(&why),
        };
        let write = if indexes.is_empty() {
            Write::Delete { name: handle, for_ever: false }
        } else {
            Write::Remove { name: handle, indexes, force: parameters.is_set("force") }
        };
        self.write(&name, &write, &parameters, request, now).await
    }

    pub(super) async fn write(
        &self,
        name: &str,
        write: &Write<'_>,
        parameters: &Parameters<'_>,
        request: &Request<'_>,
        now: SystemTime,
    ) -> Answer {
        let caller = match self.caller(request).await {
            Ok(caller) => caller,
            Err(error) => return unknown_caller(error, name, request),
        };
        let form = Form::asked(parameters);
        let unix = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = Now { elapsed: Duration::ZERO, unix };
        match self.registry.write(write, &caller, now, &mut Work::new(WORK)).await {
            Ok(done) => {
                let is_new = !done.replaced && matches!(write, Write::Create { .. } | Write::Add { .. });
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                let shown = if matches!(write, Write::Create { .. }) { &done.name } else { name };
                print(status, &Body::for_handle(ResponseCode::SUCCESS, shown), &form)
            }
            Err(error) => fail(&error, status_of_write(&error, request.takes_credentials), name, &form),
        }
    }
}

/// What is done at `/api/handles/{name}`.
pub(crate) fn describe() -> Described {
    let get = || {
        let doing = Doing::new("A record")
            .query_param("type", "Only values of this type", several(text()))
            .query_param("index", "Only the value of this index", several(index()))
            .query_param("publicOnly", "Only what everybody may read, also to who may read more", text())
            .query_param("callback", "A function that a script calls with the record", text())
            .credentials(false);
        let doing = common(doing)
            .answer(StatusCode::OK, "The record; code 200 if it has no such values")
            .json::<Body<'_>>(JSON)
            .text("application/javascript")
            .header("Cache-Control", "How long it holds, from the values' TTL")
            .header("ETag", "Changes when the answer does")
            .answer(StatusCode::MULTIPLE_CHOICES, "It is kept elsewhere, and the values say where")
            .json::<Body<'_>>(JSON)
            .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
        let doing = failure(doing, StatusCode::NOT_FOUND, "There is no such record (code 100)");
        let doing = failure(doing, StatusCode::BAD_GATEWAY, "Who keeps it gave no answer that can be used");
        let doing = failure(doing, StatusCode::GATEWAY_TIMEOUT, "Who keeps it did not answer in time");
        failure(doing, StatusCode::LOOP_DETECTED, "The question came back to who passed it on")
    };
    let put = Doing::new("Stores a record, or some of its values")
        .about("With `index`, only values of these indexes are added or replaced; else the record is as it is sent.")
        .query_param("index", "These values only; `various` for those that are sent", several(text()))
        .query_param("overwrite", "`false` if what is there stays as it is", text())
        .query_param("mintNewSuffix", "The name is made up, and begins with that in the path", text())
        .query_param("force", "Also without an administrator that is left", text())
        .body::<NewRecordForm>(JSON, "Values, at most 4 MiB", Required::True)
        .credentials(true)
        .sample(
            "curl -s -X PUT $SERVER/api/handles/10.5555/MINE -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -d '[{\"index\": 1, \"type\": \"URL\", \"data\": \"https://example.org/mine\"}]'",
        );
    let put = written(put)
        .answer(StatusCode::CREATED, "It is new")
        .json::<Body<'_>>(JSON)
        .text("application/javascript");
    let put = failure(
        put,
        StatusCode::NOT_FOUND,
        "There is no record that the values could be added to (code 100)",
    );
    let put = failure(put, StatusCode::CONFLICT, "There is one already (code 101, or 201 for a value)");
    let put = failure(put, StatusCode::REQUEST_TIMEOUT, "The body did not come in time");
    let put = failure(put, StatusCode::PAYLOAD_TOO_LARGE, "The body is too large");
    let delete = Doing::new("Removes a record, or some of its values")
        .query_param("index", "Only the value of this index", several(index()))
        .query_param("force", "Also the last administrator", text())
        .credentials(true)
        .sample("curl -s -X DELETE $SERVER/api/handles/10.5555/MINE -H \"Authorization: Bearer $TOKEN\"");
    let delete = failure(written(delete), StatusCode::NOT_FOUND, "There is no such record (code 100)");
    let post = get().about("As GET, for clients that can do no other.");
    let get = get()
        .sample("curl -s \"$SERVER/api/handles/10.5555/DEMO?pretty\"")
        .sample("curl -s \"$SERVER/api/handles/10.5555/DEMO?type=URL\"");
    Described::read(get).and(HttpMethod::Post, post).and(HttpMethod::Put, put).and(HttpMethod::Delete, delete)
}

pub(super) const JSON: &str = "application/json";

/// What all of them have.
fn common(doing: Doing) -> Doing {
    let doing = doing
        .group("Records")
        .in_path("name", "A name, with the slashes that it has, percent-encoded or not", text())
        .query_param("pretty", "On several lines", text());
    let doing =
        failure(doing, StatusCode::BAD_REQUEST, "Not understood, no name, or not kept here (code 301)");
    let doing = failure(doing, StatusCode::UNAUTHORIZED, "Credentials are needed, or not right")
        .header("WWW-Authenticate", "Which are taken");
    let doing =
        failure(doing, StatusCode::FORBIDDEN, "Who asks may not do this, or credentials are not taken here");
    let doing = failure(doing, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    failure(doing, StatusCode::SERVICE_UNAVAILABLE, "There is too much to do, or the database is not reached")
        .header("Retry-After", "Seconds, if it may go well then")
}

fn written(doing: Doing) -> Doing {
    let doing = common(doing)
        .answer(StatusCode::OK, "It is done")
        .json::<Body<'_>>(JSON)
        .text("application/javascript");
    failure(doing, StatusCode::INSUFFICIENT_STORAGE, "There is no room on the disk of the server")
}

pub(super) fn failure(doing: Doing, status: StatusCode, about: &str) -> Doing {
    doing.answer(status, about).json::<Body<'_>>(JSON)
}

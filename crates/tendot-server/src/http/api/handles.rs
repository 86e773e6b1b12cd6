//! `/api/handles/{name}`: a record as JSON, read and written.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use http::StatusCode;
use hyper::body::Incoming;
use tendot_proto::record::values_from_json;
use tendot_proto::{Handle, Now, ResponseCode, Work};
use tendot_registry::{Caller, Error, Query, Resolution, Write};
use tendot_store::Store;

use super::body::{
    Body, Form, empty_name, fail, no_randomness, print, refuse, status_of_write, unanswered, unknown_caller,
    unread,
};
use crate::http::answer::Answer;
use crate::http::parameters::Parameters;
use crate::http::request::Request;
use crate::http::search::{LookupError, Search};
use crate::http::{BadRequest, Http, WORK, caching, percent, status};

/// Bytes of a record that is sent.
const BODY: usize = 4 << 20;

/// A name and parameters, as they stand in a request.
fn read<'a>(path: &'a str, request: &Request<'a>) -> Result<(Cow<'a, str>, Parameters<'a>), BadRequest> {
    Ok((percent::decode_text(path, "path")?, Parameters::parse(request.query)?))
}

impl<S: Store> Http<S> {
    /// Answers `GET /api/handles/{name}`; `path` is the name, not decoded yet.
    pub(crate) async fn get_handle(&self, path: &str, request: &Request<'_>, now: SystemTime) -> Answer {
        let (name, parameters) = match read(path, request) {
            Ok(read) => read,
            Err(error) => return refuse(&error.to_string()),
        };
        if name.is_empty() {
            return empty_name();
        }
        let caller = match self.caller(request).await {
            Ok(caller) => caller,
            Err(error) => return unknown_caller(error, &name, request),
        };
        let is_known = caller != Caller::Anonymous;
        let form = Form::asked(&parameters);
        let query = Query {
            indexes: parameters.all("index").filter_map(|index| index.parse().ok()).collect(),
            types: parameters.all("type").map(str::as_bytes).collect(),
            // Who says who they are wants to see what only they may see.
            public_only: parameters.switch("publicOnly").unwrap_or(!is_known),
            ..Query::new(Handle::from(&*name))
        };
        let found = self.look_up(&query, &caller, &mut Search::new(request, &parameters)).await;
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
                    caching::say_heard(response.headers_mut(), heard);
                }
                return response;
            }
            Err(LookupError::Unanswered(error)) => return unanswered(&error, &name, &form),
        };
        let status = status::of(code, request.takes_credentials);
        let mut response = print(status, &Body::of_handle(code, &name).with_values(&values), &form);
        if status != StatusCode::OK || is_known {
            caching::forbid(response.headers_mut());
            return response;
        }
        caching::keep_heard(response.headers_mut(), caching::seconds(&values, now), heard, now);
        let body = response.body().clone();
        caching::tag(response, &body, request.headers)
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
        if let Some(other) = json.get("handle").and_then(|handle| handle.as_str())
            && !other.eq_ignore_ascii_case(&name)
            && !parameters.is_on("mintNewSuffix")
        {
            return refuse("the body has another handle than the path");
        }
        let values = match values_from_json(&json) {
            Ok(values) => values,
            Err(error) => return refuse(&error.to_string()),
        };
        let handle = Handle::from(&*name);
        let overwrite = parameters.switch("overwrite").unwrap_or(true);
        let mut indexes = parameters.all("index").peekable();
        let write = if indexes.peek().is_some() {
            let is_asked = |index: u32| {
                parameters.all("index").any(|asked| asked == "various" || asked.parse() == Ok(index))
            };
            if !values.iter().all(|value| is_asked(value.index)) {
                return refuse("the body has other indexes than the query");
            }
            Write::Add { name: handle, values, overwrite, force: parameters.is_on("force") }
        } else {
            let mut mint = parameters.is_on("mintNewSuffix").then_some([0; 16]);
            if mint.as_mut().is_some_and(|random| rand::fill(random).is_err()) {
                return no_randomness();
            }
            Write::Create { name: handle, values, overwrite, mint, force: parameters.is_on("force") }
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
        let mut indexes = Vec::new();
        for index in parameters.all("index") {
            match index.parse() {
                Ok(index) => indexes.push(index),
                Err(_) => return refuse(&format!("`{index}` is no index")),
            }
        }
        let write = if indexes.is_empty() {
            Write::Delete { name: handle, for_ever: false }
        } else {
            Write::Remove { name: handle, indexes, force: parameters.is_on("force") }
        };
        self.write(&name, &write, &parameters, request, now).await
    }

    async fn write(
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
                print(status, &Body::of_handle(ResponseCode::SUCCESS, shown), &form)
            }
            Err(error) => fail(&error, status_of_write(&error, request.takes_credentials), name, &form),
        }
    }
}

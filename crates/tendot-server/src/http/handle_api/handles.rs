//! `/api/handles/{name}`: read and write a record as JSON.

use std::borrow::Cow;

use http::StatusCode;
use tendot_names::strip_handle_form;
use tendot_proto::record::values_from_json;
use tendot_proto::{Budget, Handle, HandleValue, ResponseCode};
use tendot_registry::{CallContext, Caller, Error, HandleWrite, ResolveQuery};
use utoipa::openapi::{HttpMethod, Required};

use crate::http::handle_api::reply_body::{
    HandleBody, JsonOptions, authentication_error, body_error, empty_handle, json_reply, protocol_error,
    registry_error, upstream_error,
};
use crate::http::handle_api::schemas::NewRecordForm;
use crate::http::middleware::response_cache::CachePolicy;
use crate::http::request::body::RequestBody;
use crate::http::request::name_path;
use crate::http::request::percent::RequestSyntaxError;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::requested_name::RequestedName;
use crate::http::response::caching::{self, ClientDependence};
use crate::http::response::errors::{error_status, status_for, write_status};
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{
    OperationSpec, PathSpec, array_schema, index_schema, text_schema,
};
use crate::http::{HttpServer, REQUEST_BUDGET};
use crate::native::is_status;
use crate::random::random_bytes;

/// Maximum size of a submitted record.
const MAX_RECORD_BYTES: usize = 4 << 20;

/// Reply for a record that was not found.
fn lookup_error(
    error: &RecordLookupError,
    name: &str,
    options: &JsonOptions<'_>,
    request: &RequestHead<'_>,
) -> Reply {
    let (error, provenance) = match error {
        RecordLookupError::UpstreamUnavailable(error) => return upstream_error(error, name, options),
        RecordLookupError::Local(error) => (error, None),
        RecordLookupError::Upstream(error, provenance) => (error, Some(*provenance)),
    };
    let status = error_status(error, request.accepts_credentials);
    let mut response = registry_error(error, status, name, options);
    if let Some(provenance) = provenance {
        caching::add_cache_status(response.headers_mut(), provenance);
    }
    response
}

/// Parses the handle in a path, in any written form (`doi:10.5555/DEMO`), and the query.
fn parse_handle_and_query<'a>(
    path: &'a str,
    request: &RequestHead<'a>,
) -> Result<(Cow<'a, str>, QueryParams<'a>), RequestSyntaxError> {
    let (text, parameters) = name_path::parse_name_and_query(path, request)?;
    let name = match text {
        Cow::Borrowed(text) => strip_handle_form(text),
        Cow::Owned(text) => Cow::Owned(strip_handle_form(&text).into_owned()),
    };
    Ok((name, parameters))
}

/// Requested indexes; the error is the reason one is invalid.
fn indexes(parameters: &QueryParams<'_>) -> Result<Vec<u32>, String> {
    let parse = |index: &str| index.parse().map_err(|_| format!("invalid `index` in the query: `{index}`"));
    parameters.get_all("index").map(parse).collect()
}

impl HttpServer {
    /// Handles `GET /api/handles/{name}`; `path` is the name, not decoded yet.
    pub(crate) async fn get_handle(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let (name, parameters) = match parse_handle_and_query(path, request) {
            Ok(read) => read,
            Err(error) => return protocol_error(&error.to_string()),
        };
        if name.is_empty() {
            return self.list_handles(request).await;
        }
        self.get_named_handle(&name, &parameters, request).await
    }

    /// Handles a request for a record as JSON.
    pub(crate) async fn get_named_handle(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
    ) -> Reply {
        if name.is_empty() {
            return empty_handle();
        }
        let caller = match self.authenticator.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return authentication_error(error, name, request),
        };
        let is_authenticated = caller != Caller::Anonymous;
        let options = JsonOptions::from_query(parameters);
        let indexes = match indexes(parameters) {
            Ok(indexes) => indexes,
            Err(reason) => return protocol_error(&reason),
        };
        let query = ResolveQuery {
            indexes,
            types: parameters.get_all("type").map(str::as_bytes).collect(),
            // A caller with credentials also sees the values that only it may read.
            public_only: parameters.flag("publicOnly").unwrap_or(!is_authenticated),
            ..ResolveQuery::new(Handle::from(name))
        };
        if let Some(native) = self.native_server.as_ref().filter(|_| is_status(query.handle)) {
            let found = native.status_values(&query, &caller, &mut Budget::new(REQUEST_BUDGET)).await;
            return self.status_reply(found, name, &options, request);
        }
        let requested = RequestedName::new(name);
        // Before the record is read.
        let version = self.resolver.record_version(&requested, request);
        let found = self.resolver.lookup(&query, &caller, &mut LookupContext::new(request, parameters)).await;
        if !is_authenticated {
            self.resolver.count(&requested, found.as_ref()).await;
        }
        let provenance = match &found {
            Ok(record) => record.provenance,
            Err(error) => error.provenance(),
        };
        let (code, values, version) = match found {
            Ok(record) => {
                let code =
                    if record.is_referral { ResponseCode::PREFIX_REFERRAL } else { ResponseCode::SUCCESS };
                (code, record.values, version.filter(|_| record.is_stored))
            }
            Err(error) if matches!(error.error(), Some(Error::ValuesNotFound)) => {
                (ResponseCode::VALUES_NOT_FOUND, Vec::new(), None)
            }
            Err(error) => return lookup_error(&error, name, &options, request),
        };
        let status = status_for(code, request.accepts_credentials);
        let mut response =
            json_reply(status, &HandleBody::for_handle(code, name).with_values(&values), &options);
        if status != StatusCode::OK || is_authenticated {
            caching::set_private_no_store(response.headers_mut());
            return response;
        }
        let max_age = caching::min_ttl_seconds(&values, request.now);
        let dependence = ClientDependence::AUTHORIZATION;
        caching::set_freshness(response.headers_mut(), max_age, provenance, dependence, request.now);
        if let (Some(version), Some(key)) = (version, requested.key())
            && caching::has_only_relative_ttls(&values)
        {
            let record_version = (key.clone(), version);
            response.cache_policy = Some(CachePolicy { record_version, max_age, has_metadata: false });
        }
        let body = response.body().clone();
        caching::add_etag(response, &body, request.headers)
    }

    /// Reply with the server status, for authorized callers.
    fn status_reply(
        &self,
        found: Result<Vec<HandleValue<'static>>, Error>,
        name: &str,
        options: &JsonOptions<'_>,
        request: &RequestHead<'_>,
    ) -> Reply {
        let (code, values) = match found {
            Ok(values) => (ResponseCode::SUCCESS, values),
            Err(Error::ValuesNotFound) => (ResponseCode::VALUES_NOT_FOUND, Vec::new()),
            Err(error) => {
                let status = error_status(&error, request.accepts_credentials);
                return registry_error(&error, status, name, options);
            }
        };
        let mut response =
            json_reply(StatusCode::OK, &HandleBody::for_handle(code, name).with_values(&values), options);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Handles `PUT /api/handles/{name}`.
    pub(crate) async fn put_handle(&self, path: &str, request: &RequestHead<'_>, body: RequestBody) -> Reply {
        let (name, parameters) = match parse_handle_and_query(path, request) {
            Ok(read) => read,
            Err(error) => return protocol_error(&error.to_string()),
        };
        if name.is_empty() {
            return empty_handle();
        }
        let body = match self.authenticator.admit_body(body, request).await {
            Ok((Caller::Anonymous, _)) => {
                let status = write_status(&Error::AuthenticationRequired, request.accepts_credentials);
                let options = JsonOptions::from_query(&parameters);
                return registry_error(&Error::AuthenticationRequired, status, &name, &options);
            }
            Ok((_, body)) => body,
            Err(error) => return authentication_error(error, &name, request),
        };
        let body = match self.body_reader.read_text(body, MAX_RECORD_BYTES).await {
            Ok(body) => body,
            Err(error) => return body_error(error),
        };
        let json: serde_json::Value = match serde_json::from_str(&body) {
            Ok(json) => json,
            Err(error) => return protocol_error(&format!("invalid JSON: {error}")),
        };
        match json.get("handle") {
            None | Some(serde_json::Value::Null) => {}
            Some(_) if parameters.is_set("mintNewSuffix") => {}
            Some(serde_json::Value::String(other))
                if strip_handle_form(other).eq_ignore_ascii_case(&name) => {}
            Some(_) => return protocol_error("handle in the body differs from the path"),
        }
        let values = match values_from_json(&json) {
            Ok(values) => values,
            Err(error) => return protocol_error(&error.to_string()),
        };
        let handle = Handle::from(&*name);
        let overwrite = parameters.flag("overwrite").unwrap_or(true);
        let mut indexes = parameters.get_all("index").peekable();
        let write = if indexes.peek().is_some() {
            let is_requested = |index: u32| {
                let mut requested = parameters.get_all("index");
                requested.any(|requested| requested == "various" || requested.parse() == Ok(index))
            };
            if !values.iter().all(|value| is_requested(value.index)) {
                return protocol_error("indexes in the body differ from the query");
            }
            HandleWrite::AddValues { name: handle, values, overwrite, force: parameters.is_set("force") }
        } else {
            let mint = parameters.is_set("mintNewSuffix").then(random_bytes);
            HandleWrite::Create {
                name: handle,
                values,
                overwrite,
                keep_secrets: true,
                uuid_bytes: mint,
                force: parameters.is_set("force"),
            }
        };
        self.execute_write(&name, &write, &parameters, request).await
    }

    /// Handles `DELETE /api/handles/{name}`.
    pub(crate) async fn delete_handle(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let (name, parameters) = match parse_handle_and_query(path, request) {
            Ok(read) => read,
            Err(error) => return protocol_error(&error.to_string()),
        };
        if name.is_empty() {
            return empty_handle();
        }
        let handle = Handle::from(&*name);
        let indexes = match indexes(&parameters) {
            Ok(indexes) => indexes,
            Err(reason) => return protocol_error(&reason),
        };
        let write = if indexes.is_empty() {
            HandleWrite::Delete { name: handle, permanent: false }
        } else {
            HandleWrite::RemoveValues { name: handle, indexes, force: parameters.is_set("force") }
        };
        self.execute_write(&name, &write, &parameters, request).await
    }

    pub(crate) async fn execute_write(
        &self,
        name: &str,
        write: &HandleWrite<'_>,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
    ) -> Reply {
        let caller = match self.authenticator.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return authentication_error(error, name, request),
        };
        let options = JsonOptions::from_query(parameters);
        let mut budget = Budget::new(REQUEST_BUDGET);
        let call = CallContext::new(&caller, self.registry.now_ms(), &mut budget).from_client(request.client);
        match self.registry.write(write, call).await {
            Ok(done) => {
                let is_new = !done.replaced
                    && matches!(write, HandleWrite::Create { .. } | HandleWrite::AddValues { .. });
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                let name = if matches!(write, HandleWrite::Create { .. }) { &done.name } else { name };
                json_reply(status, &HandleBody::for_handle(ResponseCode::SUCCESS, name), &options)
            }
            Err(error) => {
                registry_error(&error, write_status(&error, request.accepts_credentials), name, &options)
            }
        }
    }
}

/// OpenAPI spec of `/api/handles/{name}`.
pub(crate) fn describe() -> PathSpec {
    let get = || {
        let spec = OperationSpec::new("Get a record")
            .query_param("type", "Filter by value type", array_schema(text_schema()))
            .query_param("index", "Filter by value index", array_schema(index_schema()))
            .query_param("auth", "Bypass the caches of upstream resolvers", text_schema())
            .query_param("cert", "Accept only signed responses from upstream", text_schema())
            .query_param("publicOnly", "Only public values, even if authenticated", text_schema())
            .query_param("callback", "JSONP callback function", text_schema());
        let spec = with_common_responses(spec)
            .response(StatusCode::OK, "Record; code 200 if no values match")
            .json_content::<HandleBody<'_>>(JSON)
            .text_content("application/javascript")
            .response_header("Cache-Control", "Freshness lifetime from the values' TTL")
            .response_header("ETag", "Entity tag")
            .response(StatusCode::MULTIPLE_CHOICES, "Prefix referral: the values have the responsible sites")
            .json_content::<HandleBody<'_>>(JSON)
            .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
        let spec = with_error(spec, StatusCode::NOT_FOUND, "Record not found (code 100)");
        with_error(
            spec,
            StatusCode::INTERNAL_SERVER_ERROR,
            "Server error or upstream failure (code 2); `detail` of `Cache-Status` names the failure",
        )
    };
    let put = OperationSpec::new("Create or replace a record, or some values")
        .description("With `index`, adds or replaces only these values; otherwise replaces the record.")
        .query_param(
            "index",
            "Indexes to write; `various` for those in the body",
            array_schema(text_schema()),
        )
        .query_param("overwrite", "`false`: do not overwrite", text_schema())
        .query_param(
            "mintNewSuffix",
            "Generate the rest of the suffix; the name starts with the path",
            text_schema(),
        )
        .query_param("force", "Allow removing the last administrator", text_schema())
        .request_body::<NewRecordForm>(JSON, "Values, at most 4 MiB", Required::True)
        .example_command(
            "curl -s -X PUT $SERVER/api/handles/10.5555/MINE -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -d '[{\"index\": 1, \"type\": \"URL\", \"data\": \"https://example.org/mine\"}]'",
        );
    let put = with_write_responses(put)
        .response(StatusCode::CREATED, "Created")
        .json_content::<HandleBody<'_>>(JSON)
        .text_content("application/javascript");
    let put = with_error(put, StatusCode::NOT_FOUND, "Record not found (code 100)");
    let put = with_error(put, StatusCode::CONFLICT, "Already exists (code 101, or 201 for a value)");
    let put = with_error(put, StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body");
    let put = with_error(put, StatusCode::PAYLOAD_TOO_LARGE, "Body too large");
    let delete = OperationSpec::new("Delete a record, or some values")
        .query_param("index", "Index of a value to delete", array_schema(index_schema()))
        .query_param("force", "Allow removing the last administrator", text_schema())
        .example_command(
            "curl -s -X DELETE $SERVER/api/handles/10.5555/MINE -H \"Authorization: Bearer $TOKEN\"",
        );
    let delete =
        with_error(with_write_responses(delete), StatusCode::NOT_FOUND, "Record not found (code 100)");
    let post = get().description("Same as GET, for clients that only send POST.");
    let get = get()
        .example_command("curl -s \"$SERVER/api/handles/10.5555/DEMO?pretty\"")
        .example_command("curl -s \"$SERVER/api/handles/10.5555/DEMO?type=URL\"");
    PathSpec::readable(get)
        .with_method(HttpMethod::Post, post)
        .with_method(HttpMethod::Put, put)
        .with_method(HttpMethod::Delete, delete)
}

pub(crate) const JSON: &str = "application/json";

/// Responses of all operations.
fn with_common_responses(spec: OperationSpec) -> OperationSpec {
    let spec = spec
        .tag("Handle API")
        .path_param("name", "Name; slashes may be literal or percent-encoded", text_schema())
        .query_param("pretty", "Pretty-print the JSON", text_schema());
    with_common_errors(spec)
}

/// Error responses of records, lists and prefixes.
pub(crate) fn with_common_errors(spec: OperationSpec) -> OperationSpec {
    let spec = with_error(
        spec,
        StatusCode::BAD_REQUEST,
        "Malformed request, invalid name, or not responsible (code 301)",
    );
    let spec = with_error(spec, StatusCode::UNAUTHORIZED, "Authentication required or failed")
        .response_header("WWW-Authenticate", "Supported authentication schemes");
    let spec =
        with_error(spec, StatusCode::FORBIDDEN, "Forbidden, or credentials not accepted on this connection");
    let spec = with_error(spec, StatusCode::INTERNAL_SERVER_ERROR, "Store error, or disk full (code 2)");
    with_error(spec, StatusCode::SERVICE_UNAVAILABLE, "Server busy, or database unreachable")
        .response_header("Retry-After", "Seconds until a retry may succeed")
}

fn with_write_responses(spec: OperationSpec) -> OperationSpec {
    with_common_responses(spec)
        .response(StatusCode::OK, "Done")
        .json_content::<HandleBody<'_>>(JSON)
        .text_content("application/javascript")
}

pub(crate) fn with_error(spec: OperationSpec, status: StatusCode, about: &str) -> OperationSpec {
    spec.response(status, about).json_content::<HandleBody<'_>>(JSON)
}

//! `/api/handles?prefix=…`: names under a prefix, all or one page.

use http::StatusCode;
use serde::Serialize;
use tendot_proto::{Budget, Handle, ResponseCode};
use tendot_registry::{Caller, Error};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use crate::http::handle_api::handles::{JSON, with_common_errors, with_error};
use crate::http::handle_api::reply_body::{
    JsonOptions, authentication_error, body_error, empty_handle, json_reply, protocol_error, registry_error,
};
use crate::http::request::body::RequestBody;
use crate::http::request::percent::RequestSyntaxError;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::errors::error_status;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::Access;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, int32_schema, text_schema};
use crate::http::{HttpServer, MAX_FORM_BYTES};

/// Work budget of a list: about one second of CPU time, which lists a million names or counts thirty million.
const LIST_BUDGET: u32 = 1_000_000;

/// Names read between two yields to other tasks.
const LIST_PAGE_SIZE: u64 = 10_000;

/// Maximum bytes of the names in a response.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Response body of a handle or prefix list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = List)]
pub(crate) struct HandleListBody<'a> {
    response_code: u32,
    /// Prefix as requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    /// Number of items on all pages, as a string.
    total_count: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    handles: Option<Vec<Box<str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    prefixes: Option<Vec<Box<str>>>,
}

/// Requested page, or the whole list.
#[derive(Clone, Copy)]
struct PageRange(Option<(u32, u32)>);

impl PageRange {
    fn from_query(parameters: &QueryParams<'_>) -> Result<Self, String> {
        let number = |name| match parameters.get(name).map(|text| (text, text.parse::<i32>())) {
            None => Ok(None),
            Some((_, Ok(number))) => Ok(u32::try_from(number).ok()),
            Some((text, Err(_))) => Err(format!("invalid number in the query: `{text}`")),
        };
        Ok(Self(number("page")?.zip(number("pageSize")?)))
    }

    /// Number of names before the page.
    fn start(self) -> u64 {
        self.0.map_or(0, |(page, size)| u64::from(page) * u64::from(size))
    }

    /// Maximum number of names on the page.
    fn len(self) -> u64 {
        self.0.map_or(u64::MAX, |(_, size)| size.into())
    }
}

/// Names collected so far, within `MAX_LIST_BYTES`.
#[derive(Default)]
struct NameCollector {
    total: u64,
    names: Vec<Box<str>>,
    bytes: usize,
}

/// Reason a list was not returned.
enum ListError {
    Registry(Error),
    TooLong,
}

impl From<Error> for ListError {
    fn from(error: Error) -> Self {
        Self::Registry(error)
    }
}

impl NameCollector {
    fn push(&mut self, names: Vec<Box<str>>) -> Result<(), ListError> {
        self.total += names.len() as u64;
        self.bytes += names.iter().map(|name| name.len()).sum::<usize>();
        self.names.extend(names);
        if self.bytes > MAX_LIST_BYTES { Err(ListError::TooLong) } else { Ok(()) }
    }
}

impl HttpServer {
    /// Handles `GET /api/handles?prefix=…`.
    pub(crate) async fn list_handles(&self, request: &RequestHead<'_>) -> Reply {
        let parameters = match QueryParams::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => return protocol_error(&error.to_string()),
        };
        let Some(prefix) = parameters.get("prefix") else { return empty_handle() };
        self.list(Some(prefix), &parameters, request).await
    }

    /// Handles `GET /api/prefixes`.
    pub(crate) async fn list_prefixes(&self, request: &RequestHead<'_>) -> Reply {
        match QueryParams::parse(request.query) {
            Ok(parameters) => self.list(None, &parameters, request).await,
            Err(error) => protocol_error(&error.to_string()),
        }
    }

    async fn list(
        &self,
        prefix: Option<&str>,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
    ) -> Reply {
        let name = prefix.unwrap_or_default();
        let caller = match self.authenticator.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return authentication_error(error, name, request),
        };
        let range = match PageRange::from_query(parameters) {
            Ok(range) => range,
            Err(reason) => return protocol_error(&reason),
        };
        let options = JsonOptions::from_query(parameters);
        let collected = match prefix {
            Some(prefix) => self.collect_names(prefix, range, &caller).await,
            None => self.collect_prefixes(range, &caller).await,
        };
        let collected = match collected {
            Ok(collected) => collected,
            Err(ListError::TooLong) => {
                return protocol_error("the list is too long; use `page` and `pageSize`");
            }
            Err(ListError::Registry(error)) => {
                let status = error_status(&error, request.accepts_credentials);
                return registry_error(&error, status, name, &options);
            }
        };
        let (names, is_homed) = (collected.names, prefix.is_none());
        let (handles, prefixes) = if is_homed { (None, Some(names)) } else { (Some(names), None) };
        let body = HandleListBody {
            response_code: ResponseCode::SUCCESS.0,
            prefix,
            total_count: collected.total.to_string(),
            page: range.0.map(|(page, _)| page),
            page_size: range.0.map(|(_, size)| size),
            handles,
            prefixes,
        };
        let mut response = json_reply(StatusCode::OK, &body, &options);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Page of the names under a prefix, and their total number; names on other pages are only counted.
    async fn collect_names(
        &self,
        prefix: &str,
        range: PageRange,
        caller: &Caller,
    ) -> Result<NameCollector, ListError> {
        let _permit = self.list_permits.acquire().await;
        let (prefix, mut budget) = (Handle::from(prefix), Budget::new(LIST_BUDGET));
        let (mut collector, mut after) = (NameCollector::default(), None);
        loop {
            let wanted = range.len() - collector.names.len() as u64;
            let skipped = range.start().saturating_sub(collector.total);
            let is_on_page = skipped == 0 && wanted > 0;
            let count = if is_on_page {
                wanted
            } else if skipped > 0 {
                skipped
            } else {
                LIST_PAGE_SIZE
            };
            let limit = usize::try_from(count.min(LIST_PAGE_SIZE)).unwrap_or(usize::MAX);
            let previous: Option<&str> = after.as_deref();
            after = if is_on_page {
                let page = self.registry.list_handles(prefix, previous, limit, caller, &mut budget).await?;
                collector.push(page.items)?;
                page.next
            } else {
                let count = self.registry.count_handles(prefix, previous, limit, caller, &mut budget).await?;
                collector.total += count.names;
                count.next
            };
            if after.is_none() {
                return Ok(collector);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Page of the homed prefixes, and their total number.
    async fn collect_prefixes(&self, range: PageRange, caller: &Caller) -> Result<NameCollector, ListError> {
        let _permit = self.list_permits.acquire().await;
        let (mut collector, mut after, mut budget) =
            (NameCollector::default(), None::<Box<str>>, Budget::new(LIST_BUDGET));
        let limit = usize::try_from(LIST_PAGE_SIZE).unwrap_or(usize::MAX);
        let mut seen = 0;
        loop {
            let page =
                self.registry.list_homed_prefixes(after.as_deref(), limit, caller, &mut budget).await?;
            let found = page.items.len() as u64;
            let is_on_page =
                |position: u64| position >= range.start() && position - range.start() < range.len();
            let names = page.items.into_iter().zip(seen..).filter(|(_, position)| is_on_page(*position));
            collector.push(names.map(|(name, _)| name).collect())?;
            seen += found;
            collector.total = seen;
            after = page.next;
            if after.is_none() {
                return Ok(collector);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Query of a request, with the parameters of its body appended.
    pub(crate) async fn merge_body_into_query(
        &self,
        mut body: RequestBody,
        access: Access,
        request: &RequestHead<'_>,
    ) -> Result<String, Reply> {
        if access != Access::Public {
            let admitted = self.authenticator.admit_body(body, request).await;
            (_, body) = admitted.map_err(|error| authentication_error(error, "", request))?;
        }
        let body = self.body_reader.read_text(body, MAX_FORM_BYTES).await.map_err(body_error)?;
        let mut query = request.query.unwrap_or_default().to_owned();
        let media_type =
            request.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_type = |wanted: &str| media_type.is_some_and(|media_type| media_type.starts_with(wanted));
        if is_type(JSON) && !body.trim_ascii().is_empty() {
            let not_an_object = |_| protocol_error("the body must be a JSON object");
            let members: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&body).map_err(not_an_object)?;
            for (name, value) in &members {
                let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for value in values {
                    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                    query += &format!("&{}={}", percent_encode(name), percent_encode(&text));
                }
            }
        } else if is_type("application/x-www-form-urlencoded") {
            let invalid_form = |error: RequestSyntaxError| protocol_error(&error.to_string());
            QueryParams::parse_form(&body).map_err(invalid_form)?;
            query += "&";
            // In a form, a plus sign is a space.
            query += &body.replace('+', "%20");
        }
        Ok(query)
    }
}

fn percent_encode(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

/// Parameters and responses of a list.
pub(crate) fn describe_part(spec: OperationSpec) -> OperationSpec {
    let spec = spec
        .tag("Handle API")
        .query_param("page", "Page number, from 0; everything if absent or negative", int32_schema())
        .query_param("pageSize", "Page size; 0 counts only", int32_schema())
        .query_param("pretty", "Pretty-print the JSON", text_schema())
        .query_param("callback", "JSONP callback function", text_schema())
        .response(StatusCode::OK, "The list")
        .json_content::<HandleListBody<'_>>(JSON)
        .text_content("application/javascript");
    describe_errors(spec)
}

/// Error responses of lists and prefixes.
pub(crate) fn describe_errors(spec: OperationSpec) -> OperationSpec {
    let spec = with_common_errors(spec);
    let spec = with_error(spec, StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body");
    let spec = with_error(spec, StatusCode::PAYLOAD_TOO_LARGE, "Body too large");
    with_error(spec, StatusCode::NOT_IMPLEMENTED, "Listing is disabled")
}

/// OpenAPI spec of `/api/handles`.
pub(crate) fn describe() -> PathSpec {
    let list = || {
        let spec = OperationSpec::new("List the handles of a prefix");
        describe_part(spec.query_param("prefix", "Prefix, such as `10.5555`", text_schema()))
    };
    let sample = "curl -s \"$SERVER/api/handles?prefix=10.5555&page=0&pageSize=2\" -H \"Authorization: Bearer $TOKEN\"";
    PathSpec::readable(list().example_command(sample)).with_method(
        HttpMethod::Post,
        list().description("Same as GET, with parameters in a form or JSON body."),
    )
}

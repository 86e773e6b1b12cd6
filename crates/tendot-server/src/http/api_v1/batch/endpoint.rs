//! `POST /api/v1/dois/batch`: registers any number of DOIs, line by line, in constant memory.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use hyper::body::Incoming;
use tendot_registry::RegistryError;
use tendot_registry::party::sha256_hex;
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::batch::journal::{Journal, JournalHeader};
use crate::http::api_v1::batch::row_reader::RowReader;
use crate::http::api_v1::batch::run::{BatchRun, LineFormat};
use crate::http::api_v1::idempotency::{IDEMPOTENCY_REPLAYED, aux_key};
use crate::http::api_v1::schemas::{BatchLineForm, NewDoiForm};
use crate::http::api_v1::{ApiError, ApiRequest, ApiResult, request_budget, with_write_responses};
use crate::http::pages::problem;
use crate::http::request::body_lines::LineLimits;
use crate::http::response::reply::{CSV, NDJSON};
use crate::http::response::stream::stream_spooled;
use crate::http::response::{caching, codes};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};
use crate::random::random_bytes;

/// How long to wait for the same batch that is still running, because its client has just disconnected.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl HttpServer {
    /// Handles `POST /api/v1/dois/batch`.
    pub(crate) async fn post_batch(&self, request: ApiRequest<'_>, body: Incoming) -> ApiResult {
        let headers = request.head.headers;
        let is_csv = is_csv(headers.get(CONTENT_TYPE))?;
        let dry_run = request.parameters.is_set("dry-run");
        // Check authorization before a million lines are sent.
        self.registry.check_may_register(&request.caller, request.now_ms, &mut request_budget()).await?;
        let lines = self.body_reader.lines(headers, body, LineLimits::default()).await;
        let lines = lines.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let mut reader = RowReader::new(lines, is_csv);
        let (format, description) = match is_csv {
            false => (LineFormat::Json, "ndjson".to_owned()),
            true => {
                let (columns, header_row) = reader.read_header_row().await?;
                (LineFormat::Csv(Arc::new(columns)), format!("csv\n{header_row}"))
            }
        };
        let journal = match aux_key(&request)?.filter(|_| !dry_run) {
            Some(aux_key) => {
                let lock = self.key_locks.acquire(&aux_key, LOCK_TIMEOUT).await.ok_or_else(key_in_use)?;
                let header = JournalHeader {
                    created_at: request.now_ms,
                    is_complete: false,
                    format: sha256_hex(description.as_bytes()).map_err(RegistryError::from)?,
                    owner: HEXLOWER.encode(&random_bytes::<16>()),
                };
                Some(Journal::open(&self.registry, aux_key, header, lock).await?)
            }
            None => None,
        };
        let steps = match &journal {
            Some(journal) => journal.plan_replay(&self.registry, &mut reader).await?,
            None => Vec::new(),
        };
        let is_replayed = journal.as_ref().is_some_and(|journal| journal.header.is_complete);
        let batch = BatchRun {
            registry: Arc::clone(&self.registry),
            caller: request.caller,
            dry_run,
            journal,
            seed: random_bytes(),
            format,
        };
        let media_type = HeaderValue::from_static(NDJSON);
        let mut response = stream_spooled(StatusCode::OK, media_type, |sink| batch.run(reader, steps, sink));
        if is_replayed {
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
        caching::set_private_no_store(response.headers_mut());
        Ok(response)
    }
}

/// Error for an idempotency key whose batch is still running.
pub(super) fn key_in_use() -> Box<ApiError> {
    let detail = "a batch with this `Idempotency-Key` is still running";
    problem(StatusCode::CONFLICT, codes::KEY_IN_USE, detail).hint("retry later").into()
}

/// Whether the body is CSV rather than NDJSON.
fn is_csv(content_type: Option<&HeaderValue>) -> Result<bool, Box<ApiError>> {
    let Some(content_type) = content_type else { return Ok(false) };
    let content_type = content_type.to_str().unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    match media_type.to_ascii_lowercase().as_str() {
        // curl's default type is not a deliberate choice.
        ""
        | NDJSON
        | "application/ndjson"
        | "application/jsonl"
        | "application/json"
        | "text/plain"
        | "application/x-www-form-urlencoded" => Ok(false),
        CSV => Ok(true),
        _ => {
            let detail = format!("unsupported media type `{media_type}`; use `{NDJSON}` or `{CSV}`");
            Err(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::UNSUPPORTED_MEDIA_TYPE, detail).into())
        }
    }
}

pub(crate) fn describe() -> PathSpec {
    let post = with_write_responses(OperationSpec::new("Register or update many DOIs"))
        .description(
            "One registration per line, as NDJSON or as CSV with the columns name, prefix, url, state and metadata; existing \
             DOIs are updated. Each non-empty line gets a result line, in order, when it is durable; a refused line does \
             not affect others. With `Idempotency-Key`, resending an interrupted batch resumes it, for 24 hours. A dry run \
             validates groups of up to 1,000 lines independently.",
        )
        .query_param("dry-run", "Dry run: validate without writing", text_schema())
        .request_body::<NewDoiForm>(NDJSON, "Any number of lines of at most 64 KiB, optionally gzip", Required::True)
        .example_command(
            "printf '{\"name\": \"10.70000/b1\", \"url\": \"https://example.org/b1\"}\\n' |\n  \
             curl -s $SERVER/api/v1/dois/batch -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -H 'Content-Type: application/x-ndjson' --data-binary @-",
        )
        .response(StatusCode::OK, "Result of each line")
        .json_content::<BatchLineForm>(NDJSON)
        .response_header("Idempotency-Replayed", "`true` if all lines were replayed");
    let post = post.problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Neither NDJSON nor CSV");
    PathSpec::single(HttpMethod::Post, post)
}

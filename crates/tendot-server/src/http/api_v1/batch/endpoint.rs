//! `POST /api/v1/dois/batch`: registers any number of DOIs, line by line, in constant memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use tendot_registry::batch::{
    BatchError, BatchJournal, BatchOutput, BatchRun, OutputClosed, ReplayError, ReplayPlan,
};
use tendot_registry::{Caller, IdempotencyKey, RegistryError};
use tokio::time::timeout;
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::batch::line_format::LineFormat;
use crate::http::api_v1::batch::row_reader::RowReader;
use crate::http::api_v1::idempotency::{IDEMPOTENCY_REPLAYED, idempotency_key};
use crate::http::api_v1::schemas::{BatchLineForm, NewDoiForm};
use crate::http::api_v1::{ApiError, ApiRequest, ApiResult, request_budget, with_write_responses};
use crate::http::request::body::{BodyError, RequestBody};
use crate::http::request::body_lines::LineLimits;
use crate::http::response::caching;
use crate::http::response::errors::{problem_for_body, unsupported_media_type};
use crate::http::response::reply::{CSV, NDJSON};
use crate::http::response::stream::{BodySink, StreamAborted, stream_spooled};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};
use crate::random::random_bytes;

/// How long to wait for the same batch that is still running, because its client has just disconnected.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl HttpServer {
    /// Handles `POST /api/v1/dois/batch`.
    pub(crate) async fn post_batch(&self, request: ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let headers = request.head.headers;
        let is_csv = is_csv(headers.get(CONTENT_TYPE))?;
        let dry_run = request.parameters.is_set("dry-run");
        // Check authorization before a million lines are sent.
        self.registry.check_may_register(request.call(&mut request_budget())).await?;
        let lines = self.body_reader.lines(headers, body, LineLimits::default()).await;
        let lines = lines.map_err(problem_for_body)?;
        let mut reader = RowReader::new(lines, is_csv);
        let (format, description) = match is_csv {
            false => (LineFormat::Json, "ndjson".to_owned()),
            true => {
                let (columns, header_row) = reader.read_header_row().await?;
                (LineFormat::Csv(Arc::new(columns)), format!("csv\n{header_row}"))
            }
        };
        let journal = match idempotency_key(&request)?.filter(|_| !dry_run) {
            Some(key) => {
                let lock = timeout(LOCK_TIMEOUT, self.registry.lock_key(key))
                    .await
                    .map_err(|_| IdempotencyKey::in_use_error())?;
                let owner = random_bytes();
                Some(self.registry.open_journal(lock, &description, owner, request.now_ms).await?)
            }
            None => None,
        };
        let replay = match &journal {
            Some(journal) => journal.plan_replay(&self.registry, &mut reader).await.map_err(replay_error)?,
            None => ReplayPlan::default(),
        };
        // Tokens of parties are checked with each commit, so that the remaining lines are refused one by one.
        let is_checked_at_commit = matches!(request.caller, Caller::Token(_));
        let credential = self.authenticator.watch_credential(request.head);
        let is_replayed = journal.as_ref().is_some_and(BatchJournal::is_complete);
        let batch = BatchRun {
            registry: Arc::clone(&self.registry),
            caller: request.caller,
            client: request.head.client,
            dry_run,
            journal,
            seed: random_bytes(),
            format,
        };
        let media_type = HeaderValue::from_static(NDJSON);
        let mut response = stream_spooled(StatusCode::OK, media_type, async move |sink: BodySink| {
            tokio::select! {
                result = batch.run(reader, replay, &sink) => result.map_err(|error| log_abort(&error)),
                () = credential.wait_invalid(), if !is_checked_at_commit => Err(StreamAborted),
            }
        });
        if is_replayed {
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
        caching::set_private_no_store(response.headers_mut());
        Ok(response)
    }
}

impl BatchOutput for BodySink {
    async fn send(&self, results: Bytes) -> Result<(), OutputClosed> {
        Self::send(self, results).await.map_err(|_| OutputClosed)
    }
}

/// Error of a batch that cannot be resumed.
fn replay_error(error: ReplayError<BodyError>) -> Box<ApiError> {
    match error {
        ReplayError::Registry(error) => error.into(),
        ReplayError::Input(error) => problem_for_body(error).into(),
    }
}

/// Logs why the results of a batch are incomplete; the client notices by the aborted body.
fn log_abort(error: &BatchError<BodyError>) -> StreamAborted {
    match error {
        BatchError::Registry(RegistryError { source: Some(error), .. }) => {
            tracing::error!(%error, "batch aborted");
        }
        BatchError::Registry(error) => tracing::warn!(detail = error.detail, "batch aborted"),
        // Complete lines are committed.
        BatchError::Input(error) => tracing::debug!(%error, "batch body incomplete"),
        BatchError::TaskFailed => tracing::error!("batch aborted: a task failed"),
        BatchError::OutputClosed => {}
    }
    StreamAborted
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
        | "application/x-www-form-urlencoded" => Ok(false),
        CSV => Ok(true),
        _ => {
            let detail = format!("unsupported media type `{media_type}`; use `{NDJSON}` or `{CSV}`");
            Err(unsupported_media_type(detail).into())
        }
    }
}

pub(crate) fn describe() -> PathSpec {
    let post = with_write_responses(OperationSpec::new("Register or update many DOIs"))
        .description(
            "One registration per line, as NDJSON or as CSV; existing DOIs are updated. The first row of CSV names the \
             columns: name, prefix, url, state, and metadata (JSON) or title, creator (several separated by `;`), date and \
             type; fields are separated by commas, semicolons or tabs. Each non-empty line gets a result line, in order, \
             when it is durable; a refused line does not affect others. With `Idempotency-Key`, resending a batch resumes or \
             replays it, for 24 hours; a refused line is tried again, unless its name has been changed since the batch \
             began. A dry run validates groups of up to 1,000 lines independently.",
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
        .response_header("Idempotency-Replayed", "`true` if the batch was complete before: accepted lines are replayed");
    let post = post.problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Neither NDJSON nor CSV");
    PathSpec::single(HttpMethod::Post, post)
}

//! `/api/v1/reports/{prefix}`: reports on a prefix, as NDJSON or CSV.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::HeaderValue;
use serde::Serialize;
use tendot_registry::report::{PrefixSummary, ReportFinding, ReportKind};
use tendot_registry::{CallContext, Caller, Registry, RegistryError, ResultPage, is_same_text};
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use crate::http::HttpServer;
use crate::http::api_v1::schemas::described;
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, format_millis, malformed, number, request_budget, with_common_responses,
};
use crate::http::request::accept;
use crate::http::response::caching::{self, ClientDependence};
use crate::http::response::errors::overloaded;
use crate::http::response::reply::{self, CSV, NDJSON, reply};
use crate::http::response::stream::{BodySink, StreamAborted, stream};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, count_schema, enum_schema, text_schema};

/// Names that a summary scans at most.
const MAX_SUMMARY_NAMES: u64 = 1_000_000;

/// Lines per page of the scan.
const REPORT_PAGE_SIZE: u64 = 500;

/// Summary of a prefix.
#[derive(Serialize, ToSchema)]
#[schema(as = Report)]
struct ReportSummaryJson<'a> {
    prefix: &'a str,
    /// Number of names: registered, reserved and retired.
    names: u64,
    /// Registered names.
    registered: u64,
    /// Reserved names.
    reserved: u64,
    /// Retired names.
    retired: u64,
    /// Registered names with a resolution.
    resolved: u64,
    /// Number of resolutions.
    resolutions: u64,
    /// Registered names without a resolution.
    #[serde(rename = "never-resolved")]
    never_resolved: u64,
    /// Names that were requested but not found.
    failed: u64,
    /// Number of requests for these names.
    failures: u64,
    /// Invalid links.
    links: u64,
    /// Confusable names.
    confusable: u64,
    /// Whether the scan was complete.
    complete: bool,
}

/// One line of a report.
#[derive(Serialize)]
#[serde(untagged)]
enum ReportLineJson<'a> {
    Resolved(ResolvedNameJson<'a>),
    NeverResolved(NeverResolvedJson<'a>),
    Failed(FailedResolutionJson<'a>),
    Link(InvalidLinkJson<'a>),
    Confusable(ConfusableNameJson<'a>),
}

/// Resolved name.
#[derive(Serialize, ToSchema)]
#[schema(as = ResolvedName)]
struct ResolvedNameJson<'a> {
    name: &'a str,
    /// Number of resolutions.
    count: u64,
    /// First day (UTC).
    #[schema(format = Date)]
    first: String,
    /// Last day (UTC).
    #[schema(format = Date)]
    last: String,
}

/// Registered name that was never resolved.
#[derive(Serialize, ToSchema)]
#[schema(as = NeverResolved)]
struct NeverResolvedJson<'a> {
    name: &'a str,
    /// Creation time (RFC 3339).
    #[schema(format = DateTime)]
    created: String,
}

/// Name that was requested but not found.
#[derive(Serialize, ToSchema)]
#[schema(as = FailedResolution)]
struct FailedResolutionJson<'a> {
    /// Name as requested.
    name: &'a str,
    /// Number of requests.
    count: u64,
    /// First day (UTC).
    #[schema(format = Date)]
    first: String,
    /// Last day (UTC).
    #[schema(format = Date)]
    last: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = current_state_schema)]
    state: Option<&'static str>,
}

/// Link that is not allowed by the current rules.
#[derive(Serialize, ToSchema)]
#[schema(as = InvalidLink)]
struct InvalidLinkJson<'a> {
    name: &'a str,
    /// Index of the value.
    index: u32,
    /// Link.
    data: &'a str,
    /// Error code.
    code: &'static str,
    /// Error message.
    detail: &'a str,
}

/// Name that can be confused with another.
#[derive(Serialize, ToSchema)]
#[schema(as = ConfusableName)]
struct ConfusableNameJson<'a> {
    name: &'a str,
    #[schema(schema_with = confusion_schema)]
    code: &'static str,
    /// Name that it can be confused with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    with: Option<&'a str>,
}

fn current_state_schema() -> Schema {
    described(enum_schema(["reserved", "registered", "tombstone"]), "Current state, if the name exists")
}

fn confusion_schema() -> Schema {
    described(enum_schema([SAME_TEXT, LOOK_ALIKE, MIXED_SCRIPTS]), "Kind of confusion")
}

/// Kinds of confusion.
const SAME_TEXT: &str = "same-text";
const LOOK_ALIKE: &str = "look-alike";
const MIXED_SCRIPTS: &str = "mixed-scripts";

impl<'a> From<&'a ReportFinding> for ReportLineJson<'a> {
    fn from(finding: &'a ReportFinding) -> Self {
        match finding {
            ReportFinding::Resolved { name, count, first, last } => {
                let (first, last) = (format_day(*first), format_day(*last));
                Self::Resolved(ResolvedNameJson { name, count: *count, first, last })
            }
            ReportFinding::NeverResolved { name, created_ms: created } => {
                Self::NeverResolved(NeverResolvedJson { name, created: format_millis(*created) })
            }
            ReportFinding::FailedResolution { name, count, first, last, state } => {
                let (first, last) = (format_day(*first), format_day(*last));
                let state = state.map(|state| state.as_str());
                Self::Failed(FailedResolutionJson { name, count: *count, first, last, state })
            }
            ReportFinding::Link { name, index, data, code, detail } => {
                Self::Link(InvalidLinkJson { name, index: *index, data, code, detail })
            }
            ReportFinding::Confusable { name, confusable_with: with } => {
                let code = match with {
                    Some(with) if is_same_text(name, with) => SAME_TEXT,
                    Some(_) => LOOK_ALIKE,
                    None => MIXED_SCRIPTS,
                };
                Self::Confusable(ConfusableNameJson { name, code, with: with.as_deref() })
            }
        }
    }
}

impl ReportLineJson<'_> {
    /// Fields of a CSV row, in the order of [`csv_header`].
    fn fields(&self) -> Vec<String> {
        match self {
            Self::Resolved(line) => {
                vec![line.name.into(), line.count.to_string(), line.first.clone(), line.last.clone()]
            }
            Self::NeverResolved(line) => vec![line.name.into(), line.created.clone()],
            Self::Failed(line) => vec![
                line.name.into(),
                line.count.to_string(),
                line.first.clone(),
                line.last.clone(),
                line.state.unwrap_or_default().into(),
            ],
            Self::Link(line) => vec![
                line.name.into(),
                line.index.to_string(),
                line.data.into(),
                line.code.into(),
                line.detail.into(),
            ],
            Self::Confusable(line) => {
                vec![line.name.into(), line.code.into(), line.with.unwrap_or_default().into()]
            }
        }
    }
}

/// Day since 1970-01-01 as a date.
fn format_day(day: u32) -> String {
    let mut date = format_millis(u64::from(day).saturating_mul(86_400_000));
    date.truncate("1970-01-01".len());
    date
}

const fn csv_header(report: ReportKind) -> &'static str {
    match report {
        ReportKind::Resolved => "name,count,first,last\r\n",
        ReportKind::NeverResolved => "name,created\r\n",
        ReportKind::FailedResolutions => "name,count,first,last,state\r\n",
        ReportKind::Links => "name,index,data,code,detail\r\n",
        ReportKind::Confusable => "name,code,with\r\n",
    }
}

/// Writes a CSV field (RFC 4180). Text that a spreadsheet would take for a formula is prefixed with a quote.
fn write_csv_field(text: &str, out: &mut BytesMut) {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    let is_plain = guard.is_empty() && !text.contains([',', '"', '\n', '\r']);
    if is_plain {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(format!("\"{guard}{}\"", text.replace('"', "\"\"")).as_bytes());
    }
}

/// Report being streamed.
struct ReportStream {
    registry: Arc<Registry>,
    caller: Caller,
    prefix: String,
    report: ReportKind,
    backlog_permits: Arc<Semaphore>,
    /// Remaining lines.
    remaining: u64,
    is_csv: bool,
}

impl ReportStream {
    /// Scans one page of names; few scans run concurrently.
    async fn next_page(&self, after: Option<&str>) -> Result<ResultPage<ReportFinding>, RegistryError> {
        let _permit = self.backlog_permits.acquire().await.ok();
        let limit = usize::try_from(self.remaining.min(REPORT_PAGE_SIZE)).unwrap_or(usize::MAX);
        let mut budget = request_budget();
        let call = CallContext::new(&self.caller, self.registry.now_ms(), &mut budget);
        self.registry.report(self.report, &self.prefix, after, limit, call).await
    }

    async fn send_all(
        mut self,
        mut findings: ResultPage<ReportFinding>,
        sink: BodySink,
    ) -> Result<(), StreamAborted> {
        if self.is_csv {
            sink.send(csv_header(self.report)).await?;
        }
        loop {
            sink.send(self.render(&findings.items)).await?;
            self.remaining = self.remaining.saturating_sub(findings.items.len() as u64);
            let Some(next) = findings.next.filter(|_| self.remaining > 0) else { return Ok(()) };
            // A local store never yields: let other tasks run.
            tokio::task::yield_now().await;
            findings = tokio::select! {
                read = self.next_page(Some(&next)) => read.map_err(|registry_error| {
                    if let Some(error) = &registry_error.source {
                        tracing::error!(%error, "report aborted");
                    }
                    StreamAborted
                })?,
                () = sink.closed() => return Err(StreamAborted),
            };
        }
    }

    fn render(&self, findings: &[ReportFinding]) -> Bytes {
        let mut chunk = BytesMut::new();
        for finding in findings {
            let line = ReportLineJson::from(finding);
            if self.is_csv {
                for (number, text) in line.fields().iter().enumerate() {
                    chunk.extend_from_slice(if number > 0 { b"," } else { b"" });
                    write_csv_field(text, &mut chunk);
                }
                chunk.extend_from_slice(b"\r\n");
            } else {
                chunk.extend_from_slice(&serde_json::to_vec(&line).unwrap_or_default());
                chunk.extend_from_slice(b"\n");
            }
        }
        chunk.freeze()
    }
}

impl HttpServer {
    /// Handles `GET /api/v1/reports/{prefix}`.
    pub(crate) async fn get_report_summary(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (mut summary, mut after) = (PrefixSummary::default(), None::<Box<str>>);
        let complete = loop {
            let _permit = self.subscribers.backlog_permits.acquire().await.ok();
            let mut budget = request_budget();
            let call = CallContext::new(&request.caller, self.registry.now_ms(), &mut budget);
            let page = self.registry.prefix_summary(&request.path_param, after.as_deref(), call).await?;
            summary.merge(&page.0);
            after = page.1;
            if after.is_none() {
                break true;
            }
            if summary.registered + summary.reserved + summary.retired >= MAX_SUMMARY_NAMES {
                break false;
            }
            tokio::task::yield_now().await;
        };
        let body = ReportSummaryJson {
            prefix: &request.path_param,
            names: summary.registered + summary.reserved + summary.retired,
            registered: summary.registered,
            reserved: summary.reserved,
            retired: summary.retired,
            resolved: summary.resolved,
            resolutions: summary.resolutions,
            never_resolved: summary.never_resolved,
            failed: summary.failed_names,
            failures: summary.failed_resolutions,
            links: summary.invalid_links,
            confusable: summary.confusable,
            complete,
        };
        let json = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = reply(StatusCode::OK, reply::JSON, json);
        caching::set_private_no_store(response.headers_mut());
        Ok(response)
    }

    /// Handles `GET /api/v1/reports/{prefix}/failed-resolutions` and the other reports.
    pub(crate) async fn get_report(&self, report: ReportKind, request: ApiRequest<'_>) -> ApiResult {
        let limit = number(&request.parameters, "limit").map_err(|reason| malformed(&reason))?;
        if limit == Some(0) {
            return Err(malformed("`limit` must be positive"));
        }
        let after = request.parameters.get("after").filter(|after| !after.is_empty());
        let is_csv = accept::prefers_csv(request.head.headers);
        let Some(permit) = self.subscribers.limiter.acquire(&request.caller, request.head.client) else {
            return Ok(overloaded("Too many reports and change feeds are being read. Retry later.").into());
        };
        let credential = self.authenticator.watch_credential(request.head);
        let report_stream = ReportStream {
            registry: Arc::clone(&self.registry),
            caller: request.caller,
            prefix: request.path_param,
            report,
            backlog_permits: Arc::clone(&self.subscribers.backlog_permits),
            remaining: limit.unwrap_or(u64::MAX),
            is_csv,
        };
        // An error of the first page can still be reported with a status.
        let findings = report_stream.next_page(after).await?;
        let media_type = HeaderValue::from_static(if is_csv { "text/csv;charset=utf-8" } else { NDJSON });
        let mut response = stream(StatusCode::OK, media_type, async move |sink| {
            let _permit = permit;
            tokio::select! {
                result = report_stream.send_all(findings, sink) => result,
                () = credential.wait_invalid() => Err(StreamAborted),
            }
        });
        caching::set_private_no_store(response.headers_mut());
        ClientDependence::ACCEPT.add_vary(response.headers_mut());
        Ok(response)
    }
}

fn report_spec(summary: &str) -> OperationSpec {
    with_common_responses(OperationSpec::new(summary))
        .path_param("prefix", "Allocated prefix, such as `10.70000`", text_schema())
        .problem(StatusCode::NOT_FOUND, "Prefix not found, or you do not act for its registrant")
}

pub(crate) fn describe_summary() -> PathSpec {
    let get = report_spec("Get the summary of a prefix")
        .description(
            "Numbers of names, resolved names, failed resolutions, invalid links and confusable names. You must act for the \
             registrant of the prefix. Resolution counts are written every minute by default. At most 1,000,000 names \
             are scanned; `complete` says whether these were all.",
        )
        .response(StatusCode::OK, "The summary")
        .json_content::<ReportSummaryJson<'_>>(JSON);
    PathSpec::readable(get)
}

pub(crate) fn describe(report: ReportKind) -> PathSpec {
    let (summary, description) = match report {
        ReportKind::Resolved => (
            "List resolved names",
            "Number of resolutions over HTTP and the native protocol, with the first and last day.",
        ),
        ReportKind::NeverResolved => (
            "List names that were never resolved",
            "Registered names without a resolution over HTTP or the native protocol since counting began.",
        ),
        ReportKind::FailedResolutions => (
            "List failed resolutions",
            "Names that were requested but not found: number of requests, first and last day, unordered. Clients are not \
             recorded. The operator configures the retention; for each prefix, the most requested names are kept.",
        ),
        ReportKind::Links => (
            "List invalid links",
            "URLs that are malformed, no longer allowed, or on hosts that the policy of the prefix does not allow. Links of \
             one name are adjacent.",
        ),
        ReportKind::Confusable => (
            "List confusable names",
            "Names that are normalization variants of another registered name (`same-text`), look like one, such as with \
             another dash (`look-alike`), or mix scripts \
             (`mixed-scripts`).",
        ),
    };
    let get = report_spec(summary)
        .description(&format!("{description} NDJSON; with `Accept: text/csv`, CSV in which formula-like fields are prefixed with a quote."))
        .query_param("after", "Names after this one: the name of the last line", text_schema())
        .query_param("limit", "Maximum number of lines, plus the rest of the last name; default unlimited", count_schema())
        .response(StatusCode::OK, "Streamed lines");
    let get = match report {
        ReportKind::Resolved => get.json_content::<ResolvedNameJson<'_>>(NDJSON),
        ReportKind::NeverResolved => get.json_content::<NeverResolvedJson<'_>>(NDJSON),
        ReportKind::FailedResolutions => get.json_content::<FailedResolutionJson<'_>>(NDJSON),
        ReportKind::Links => get.json_content::<InvalidLinkJson<'_>>(NDJSON),
        ReportKind::Confusable => get.json_content::<ConfusableNameJson<'_>>(NDJSON),
    };
    PathSpec::readable(get.text_content(CSV))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_fields() {
        for (text, expected) in [
            ("10.1/a", "10.1/a"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\nb", "\"a\nb\""),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("=\"x\"", "\"'=\"\"x\"\"\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            ("a=b", "a=b"),
        ] {
            let mut out = BytesMut::new();
            write_csv_field(text, &mut out);
            assert_eq!(str::from_utf8(&out), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn days() {
        assert_eq!(format_day(0), "1970-01-01");
        assert_eq!(format_day(20_000), "2024-10-04");
        assert_eq!(format_day(u32::MAX), "1970-01-01");
    }
}

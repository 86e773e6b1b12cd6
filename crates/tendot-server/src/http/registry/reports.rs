//! `/api/v1/reports/{prefix}`: what those who have a prefix should know of it, as lines of JSON or as a table.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{HeaderValue, VARY};
use serde::Serialize;
use tendot_registry::report::{Finding, ReportFindings, Report, Summary};
use tendot_registry::{Caller, Refusal, Registry};
use tokio::sync::Semaphore;

use super::form::{
    ConfusableNameForm, FailedNameForm, NeverResolvedForm, OddLinkForm, ReportForm, ResolvedNameForm,
};
use super::{ApiResult, Asking, JSON, bad_request, common, work, wrong};
use crate::http::answer::{self, Answer, answer};
use crate::http::api::{date, number};
use crate::http::describe::{Described, Doing, count, text};
use crate::http::page::problem;
use crate::http::stream::{Cut, Sink, stream};
use crate::http::{Http, caching, negotiate};
use crate::upkeep::now;

/// Names that a summary counts.
const MAX_SUMMARY_NAMES: u64 = 1_000_000;

/// Lines that are made together.
const TOGETHER: u64 = 500;

const LINES: &str = "application/x-ndjson";
const TABLE: &str = "text/csv";

/// A summary as it is told.
#[derive(Serialize)]
struct ReportSummaryJson<'a> {
    prefix: &'a str,
    names: u64,
    registered: u64,
    reserved: u64,
    ended: u64,
    resolved: u64,
    resolutions: u64,
    #[serde(rename = "never-resolved")]
    never_resolved: u64,
    failed: u64,
    failures: u64,
    links: u64,
    confusable: u64,
    /// Whether all names were looked at.
    complete: bool,
}

/// A line as it is told.
#[derive(Serialize)]
#[serde(untagged)]
enum ReportLineJson<'a> {
    Resolved {
        name: &'a str,
        count: u64,
        first: String,
        last: String,
    },
    NeverResolved {
        name: &'a str,
        created: String,
    },
    Failed {
        name: &'a str,
        count: u64,
        first: String,
        last: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<&'static str>,
    },
    Link {
        name: &'a str,
        index: u32,
        data: &'a str,
        code: &'static str,
        detail: &'a str,
    },
    Confusable {
        name: &'a str,
        code: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        with: Option<&'a str>,
    },
}

impl<'a> ReportLineJson<'a> {
    fn of(finding: &'a Finding) -> Self {
        match finding {
            Finding::Resolved { name, count, first, last } => {
                Self::Resolved { name, count: *count, first: day(*first), last: day(*last) }
            }
            Finding::NeverResolved { name, created } => Self::NeverResolved { name, created: date(*created) },
            Finding::Failed { name, count, first, last, state } => Self::Failed {
                name,
                count: *count,
                first: day(*first),
                last: day(*last),
                state: state.map(|state| state.name()),
            },
            Finding::Link { name, index, data, code, why } => {
                Self::Link { name, index: *index, data, code, detail: why }
            }
            Finding::Confusable { name, with } => {
                let code = if with.is_some() { "same-text" } else { "mixed-scripts" };
                Self::Confusable { name, code, with: with.as_deref() }
            }
        }
    }

    /// As a row of a table, in the order of [`columns`].
    fn fields(&self) -> Vec<String> {
        match self {
            Self::Resolved { name, count, first, last } => {
                vec![(*name).into(), count.to_string(), first.clone(), last.clone()]
            }
            Self::NeverResolved { name, created } => vec![(*name).into(), created.clone()],
            Self::Failed { name, count, first, last, state } => vec![
                (*name).into(),
                count.to_string(),
                first.clone(),
                last.clone(),
                state.unwrap_or_default().into(),
            ],
            Self::Link { name, index, data, code, detail } => {
                vec![(*name).into(), index.to_string(), (*data).into(), (*code).into(), (*detail).into()]
            }
            Self::Confusable { name, code, with } => {
                vec![(*name).into(), (*code).into(), with.unwrap_or_default().into()]
            }
        }
    }
}

/// A day since 1970, as a date.
fn day(day: u32) -> String {
    let mut date = date(u64::from(day).saturating_mul(86_400_000));
    date.truncate("1970-01-01".len());
    date
}

const fn columns(report: Report) -> &'static str {
    match report {
        Report::Resolved => "name,count,first,last\r\n",
        Report::NeverResolved => "name,created\r\n",
        Report::Failed => "name,count,first,last,state\r\n",
        Report::Links => "name,index,data,code,detail\r\n",
        Report::Confusable => "name,code,with\r\n",
    }
}

/// A field of a table, RFC 4180. What a program for tables would take for a formula gets a quote in front.
fn field(text: &str, out: &mut BytesMut) {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    let is_plain = guard.is_empty() && !text.contains([',', '"', '\n', '\r']);
    if is_plain {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(format!("\"{guard}{}\"", text.replace('"', "\"\"")).as_bytes());
    }
}

/// A report that is being made.
struct ReportStream {
    registry: Arc<Registry>,
    caller: Caller,
    prefix: String,
    report: Report,
    turns: Arc<Semaphore>,
    /// Lines that are still to be told.
    left: u64,
    is_table: bool,
}

impl ReportStream {
    /// Looks at some names: few do so at the same time.
    async fn read(&self, after: Option<&str>) -> Result<ReportFindings, Refusal> {
        let _turn = self.turns.acquire().await.ok();
        let limit = usize::try_from(self.left.min(TOGETHER)).unwrap_or(usize::MAX);
        let (prefix, caller) = (&self.prefix, &self.caller);
        self.registry.report((self.report, prefix), after, limit, caller, now(), &mut work()).await
    }

    async fn send_all(mut self, mut findings: ReportFindings, sink: Sink) -> Result<(), Cut> {
        if self.is_table {
            sink.send(columns(self.report)).await?;
        }
        loop {
            sink.send(self.print(&findings.items)).await?;
            self.left = self.left.saturating_sub(findings.items.len() as u64);
            let Some(next) = findings.next.filter(|_| self.left > 0) else { return Ok(()) };
            // Of a store on this machine nothing is waited for: others have their turn.
            tokio::task::yield_now().await;
            findings = tokio::select! {
                read = self.read(Some(&next)) => read.map_err(|refusal| {
                    if let Some(error) = &refusal.failure {
                        tracing::error!(%error, "a report was cut off");
                    }
                    Cut
                })?,
                () = sink.gone() => return Err(Cut),
            };
        }
    }

    fn print(&self, findings: &[Finding]) -> Bytes {
        let mut piece = BytesMut::new();
        for finding in findings {
            let line = ReportLineJson::of(finding);
            if self.is_table {
                for (number, text) in line.fields().iter().enumerate() {
                    piece.extend_from_slice(if number > 0 { b"," } else { b"" });
                    field(text, &mut piece);
                }
                piece.extend_from_slice(b"\r\n");
            } else {
                piece.extend_from_slice(&serde_json::to_vec(&line).unwrap_or_default());
                piece.extend_from_slice(b"\n");
            }
        }
        piece.freeze()
    }
}

impl Http {
    /// Answers `GET /api/v1/reports/{prefix}`.
    pub(super) async fn get_report_summary(&self, asking: &Asking<'_>) -> ApiResult {
        let (mut summary, mut after) = (Summary::default(), None::<Box<str>>);
        let complete = loop {
            let _turn = self.followers.turns.acquire().await.ok();
            let (prefix, caller) = (&asking.rest, &asking.caller);
            let part = self.registry.summary(prefix, after.as_deref(), caller, now(), &mut work()).await?;
            summary.add(&part.0);
            after = part.1;
            if after.is_none() {
                break true;
            }
            if summary.registered + summary.reserved + summary.ended >= MAX_SUMMARY_NAMES {
                break false;
            }
            tokio::task::yield_now().await;
        };
        let told = ReportSummaryJson {
            prefix: &asking.rest,
            names: summary.registered + summary.reserved + summary.ended,
            registered: summary.registered,
            reserved: summary.reserved,
            ended: summary.ended,
            resolved: summary.resolved,
            resolutions: summary.resolutions,
            never_resolved: summary.never_resolved,
            failed: summary.failed,
            failures: summary.failures,
            links: summary.links,
            confusable: summary.confusable,
            complete,
        };
        let json = serde_json::to_vec(&told).unwrap_or_default();
        let mut response = answer(StatusCode::OK, answer::JSON, json);
        caching::set_private_no_store(response.headers_mut());
        Ok(response)
    }

    /// Answers `GET /api/v1/reports/{prefix}/failed` and the like.
    pub(super) async fn get_report(&self, report: Report, asking: Asking<'_>) -> ApiResult {
        let limit = number(&asking.parameters, "limit").map_err(|why| bad_request(&why))?;
        if limit == Some(0) {
            return Err(bad_request("`limit` in the query is 0"));
        }
        let after = asking.parameters.get("after").filter(|after| !after.is_empty());
        let is_table = negotiate::prefers_csv(asking.request.headers);
        let Some(place) = self.followers.enter(true) else { return Ok(too_many()) };
        let making = ReportStream {
            registry: Arc::clone(&self.registry),
            caller: asking.caller,
            prefix: asking.rest,
            report,
            turns: Arc::clone(&self.followers.turns),
            left: limit.unwrap_or(u64::MAX),
            is_table,
        };
        // What fails at once can still be told.
        let findings = making.read(after).await?;
        let kind = HeaderValue::from_static(if is_table { "text/csv;charset=utf-8" } else { LINES });
        let mut response = stream(StatusCode::OK, kind, async move |sink| {
            let _place = place;
            making.send_all(findings, sink).await
        });
        caching::set_private_no_store(response.headers_mut());
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        Ok(response)
    }
}

fn too_many() -> Answer {
    let detail = "Too many others read reports or changes at present. Try again later.";
    problem(StatusCode::SERVICE_UNAVAILABLE, "too-busy", detail).into()
}

fn described(summary: &str) -> Doing {
    let doing = common(Doing::new(summary), true).in_path(
        "prefix",
        "A prefix that was given to somebody, such as `10.70000`",
        text(),
    );
    wrong(
        doing,
        StatusCode::NOT_FOUND,
        "There is no such prefix, or who asks does not act for its registrant",
    )
}

pub(super) fn describe_summary() -> Described {
    let get = described("How the names of a prefix do")
        .about(
            "How many names there are, how many of them were ever resolved, how many were asked for and not found, and how \
             many links and names are odd. For those who act for the registrant of the prefix. What is counted is written \
             down every minute, unless the operator says otherwise. At most 1,000,000 names are looked at: `complete` tells \
             whether that was all.",
        )
        .answer(StatusCode::OK, "The summary")
        .json::<ReportForm>(JSON);
    Described::read(get)
}

pub(super) fn describe(report: Report) -> Described {
    let (summary, about) = match report {
        Report::Resolved => (
            "Names that were resolved",
            "How often, by HTTP or the native protocol, and on which days first and last.",
        ),
        Report::NeverResolved => (
            "Names that were never resolved",
            "Those that are registered and that nobody has asked for, by HTTP or the native protocol, since the service counts.",
        ),
        Report::Failed => (
            "Names that were asked for and not found",
            "How often, and on which days first and last; nothing is kept of who asked. The operator says for how long, and \
             under each prefix those are kept that were asked for most. In no particular order.",
        ),
        Report::Links => (
            "Links that would not be taken today",
            "Addresses that are not well-formed, that are taken no more, or that lead to other hosts than the policy of the \
             prefix says. Where a name has several, they stand together.",
        ),
        Report::Confusable => (
            "Names that can't be told from others",
            "Those that are the same text as another registered name, composed otherwise (`same-text`), and those with letters \
             of several scripts (`mixed-scripts`).",
        ),
    };
    let get = described(summary)
        .about(&format!("{about} One JSON object a line; with `Accept: text/csv` a table, where what looks like a formula has a quote in front."))
        .query_param("after", "Only what comes after this name: that of the last line", text())
        .query_param("limit", "At most so many lines, and all of those of the last name; all unless told otherwise", count())
        .answer(StatusCode::OK, "The lines, made while they are sent");
    let get = match report {
        Report::Resolved => get.json::<ResolvedNameForm>(LINES),
        Report::NeverResolved => get.json::<NeverResolvedForm>(LINES),
        Report::Failed => get.json::<FailedNameForm>(LINES),
        Report::Links => get.json::<OddLinkForm>(LINES),
        Report::Confusable => get.json::<ConfusableNameForm>(LINES),
    };
    Described::read(get.text(TABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
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
            field(text, &mut out);
            assert_eq!(str::from_utf8(&out), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn days() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(20_000), "2024-10-04");
        assert_eq!(day(u32::MAX), "1970-01-01");
    }
}

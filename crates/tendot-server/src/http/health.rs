//! Endpoints for operators: `/livez`, `/readyz` and `/metrics`.

use std::fmt;
use std::future::ready;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use tokio::time::timeout;
use utoipa::openapi::ObjectBuilder;
use utoipa::openapi::schema::Type;

use crate::http::HttpServer;
use crate::http::middleware::client_address::RemoteClient;
use crate::http::middleware::metrics::{self, RequestKind};
use crate::http::request::accept;
use crate::http::response::caching;
use crate::http::response::errors::ErrorFormat;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::routing::endpoint::{Api, ApiEndpoint, Handler, Operation};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec};
use crate::metrics::to_prometheus_text;

/// Endpoints for operators.
pub(crate) static API: Api = Api {
    root: None,
    errors: ErrorFormat::Text,
    endpoints: &[
        ApiEndpoint::new(
            &["/livez"],
            describe_liveness,
            &[operations(|_, _| Box::pin(ready(reply(StatusCode::OK, TEXT, "ok\n"))))],
        ),
        ApiEndpoint::new(
            &["/readyz"],
            describe_readiness,
            &[operations(|server, call| {
                Box::pin(ready(server.get_readiness(requires_writes(call.head.query))))
            })],
        ),
        ApiEndpoint::new(
            &["/metrics"],
            describe_metrics,
            &[operations(|server, call| Box::pin(server.get_metrics(call.client, call.head.headers)))],
        ),
    ],
};

const fn operations(handler: Handler) -> Operation {
    Operation::get(handler).kind(RequestKind::Operations)
}

/// Timeout for the metric that is read from the store; after it, the previous value is reported.
const STORE_METRIC_TIMEOUT: Duration = Duration::from_millis(500);

/// Readiness of the store: ready, corrupt, read-only or unreachable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Reads and writes work.
    Ready,
    /// Reads and writes work, with a warning. The reason is public.
    Warning(&'static str),
    /// Only reads work. The reason is public.
    ReadOnly(&'static str),
    /// Reads and writes work except for corrupt data. The reason is public.
    Corrupt(&'static str),
    /// The store cannot be reached.
    Unreachable,
}

/// Callback that reports the readiness of the store.
pub(crate) struct ReadinessProbe(Box<dyn Fn() -> Readiness + Send + Sync>);

impl ReadinessProbe {
    pub(crate) fn new(read: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        Self(Box::new(read))
    }
}

impl fmt::Debug for ReadinessProbe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReadinessProbe")
    }
}

impl HttpServer {
    /// Handles `GET /readyz`. It is public, so it does not name the database servers. With `?write`, a store that is read-only is not
    /// ready.
    pub(crate) fn get_readiness(&self, requires_writes: bool) -> Reply {
        let store = self.readiness_probe.as_ref().map_or(Readiness::Ready, |probe| (probe.0)());
        let (status, text) = match store {
            _ if !self.is_ready.load(Ordering::Relaxed) => {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned())
            }
            Readiness::Ready => (StatusCode::OK, "ready\n".to_owned()),
            Readiness::Warning(reason) => (StatusCode::OK, format!("ready, warning: {reason}\n")),
            Readiness::ReadOnly(reason) if requires_writes => {
                (StatusCode::SERVICE_UNAVAILABLE, format!("read-only: {reason}\n"))
            }
            Readiness::Corrupt(reason) => (StatusCode::OK, format!("ready, corrupt: {reason}\n")),
            Readiness::ReadOnly(reason) => (StatusCode::OK, format!("ready, read-only: {reason}\n")),
            Readiness::Unreachable => {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready: the database is unreachable\n".to_owned())
            }
        };
        let mut response = reply(status, TEXT, text);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Handles `GET /metrics` for permitted clients: as OpenMetrics if they accept it, otherwise in the text format of Prometheus.
    pub(crate) async fn get_metrics(&self, client: &RemoteClient, headers: &HeaderMap) -> Reply {
        const OPENMETRICS: HeaderValue =
            HeaderValue::from_static("application/openmetrics-text;version=1.0.0;charset=utf-8");
        const PROMETHEUS_TEXT: HeaderValue =
            HeaderValue::from_static("text/plain;version=0.0.4;charset=utf-8");
        if !client.is_loopback && !self.metrics_allow.iter().any(|network| network.contains(&client.address))
        {
            return reply(StatusCode::FORBIDDEN, TEXT, "metrics are not available to this address\n");
        }
        // If the store does not respond, the other metrics matter most.
        if let Ok(Ok(head)) = timeout(STORE_METRIC_TIMEOUT, self.registry.log_head()).await {
            self.metrics.store_head.store(head.sequence, Ordering::Relaxed);
        }
        let mut response = match metrics::render(
            &self.metrics,
            &self.external_metrics,
            self.native_server.as_ref().map(|native| native.metrics()),
            &self.authenticator.guess_throttle,
        ) {
            Ok(text) if accept::accepts_openmetrics(headers) => reply(StatusCode::OK, OPENMETRICS, text),
            Ok(text) => reply(StatusCode::OK, PROMETHEUS_TEXT, to_prometheus_text(&text)),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "metrics could not be rendered\n"),
        };
        caching::set_private_no_store(response.headers_mut());
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
        response
    }
}

/// Whether a readiness check asks for writes: `?write`.
fn requires_writes(query: Option<&str>) -> bool {
    let is_write = |part: &str| part.split_once('=').map_or(part, |(name, _)| name) == "write";
    query.is_some_and(|query| query.split('&').any(is_write))
}

fn describe_liveness() -> PathSpec {
    PathSpec::readable(
        OperationSpec::text("Operations", "Check liveness", "Running", "text/plain")
            .example_command("curl -s $SERVER/livez"),
    )
}

fn describe_readiness() -> PathSpec {
    PathSpec::readable(
        OperationSpec::text("Operations", "Check readiness", "Ready", "text/plain")
            .example_command("curl -s $SERVER/readyz")
            .query_param(
                "write",
                "Require that the store can be written; the value is ignored",
                ObjectBuilder::new().schema_type(Type::String).into(),
            )
            .response(
                StatusCode::SERVICE_UNAVAILABLE,
                "Starting, draining, store unreachable, or with `write` read-only",
            )
            .text_content("text/plain"),
    )
}

fn describe_metrics() -> PathSpec {
    let response = "Metrics in the text format of Prometheus, or OpenMetrics if `Accept` names it";
    PathSpec::readable(
        OperationSpec::text("Operations", "Get metrics", response, "text/plain")
            .text_content("application/openmetrics-text")
            .example_command("curl -s $SERVER/metrics")
            .response(StatusCode::FORBIDDEN, "Not available to this address")
            .text_content("text/plain"),
    )
}

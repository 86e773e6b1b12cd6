//! Endpoints for operators: `/readyz` and `/metrics`.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;
use tokio::time::timeout;

use crate::http::HttpServer;
use crate::http::middleware::client_address::RemoteClient;
use crate::http::middleware::metrics;
use crate::http::response::caching;
use crate::http::response::reply::{Reply, TEXT, reply};

/// Timeout for the metric that is read from the store; after it, the previous value is reported.
const STORE_METRIC_TIMEOUT: Duration = Duration::from_millis(500);

/// Readiness of the store: ready, read-only or unreachable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Reads and writes work.
    Ready,
    /// Only reads work.
    ReadOnly,
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
    /// Handles `GET /readyz`. It is public, so it does not name the database servers.
    pub(crate) fn get_readiness(&self) -> Reply {
        let store = self.readiness_probe.as_ref().map_or(Readiness::Ready, |probe| (probe.0)());
        let (status, text) = match store {
            _ if !self.is_ready.load(Ordering::Relaxed) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            Readiness::Ready => (StatusCode::OK, "ready\n"),
            Readiness::ReadOnly => (StatusCode::OK, "ready, read-only: the database has no primary\n"),
            Readiness::Unreachable => {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready: the database is unreachable\n")
            }
        };
        let mut response = reply(status, TEXT, text);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Handles `GET /metrics` for permitted clients.
    pub(crate) async fn get_metrics(&self, client: &RemoteClient) -> Reply {
        const OPENMETRICS: HeaderValue =
            HeaderValue::from_static("application/openmetrics-text;version=1.0.0;charset=utf-8");
        if !client.is_loopback && !self.metrics_allow.iter().any(|network| network.contains(&client.address))
        {
            return reply(StatusCode::FORBIDDEN, TEXT, "metrics are not available to this address\n");
        }
        let hint = self.metrics.store_head.load(Ordering::Relaxed);
        // If the store does not respond, the other metrics matter most.
        if let Ok(Ok(head)) = timeout(STORE_METRIC_TIMEOUT, self.registry.log_head(hint)).await {
            self.metrics.store_head.store(head, Ordering::Relaxed);
        }
        let mut response = match metrics::render(
            &self.metrics,
            &self.external_metrics,
            self.native_server.as_ref().map(|native| native.metrics()),
        ) {
            Ok(text) => reply(StatusCode::OK, OPENMETRICS, text),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "metrics could not be rendered\n"),
        };
        caching::set_private_no_store(response.headers_mut());
        response
    }
}

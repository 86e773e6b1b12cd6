//! Health endpoints: `/readyz`.

use std::fmt;
use std::sync::atomic::Ordering;

use http::StatusCode;

use crate::http::HttpServer;
use crate::http::response::caching;
use crate::http::response::reply::{Reply, TEXT, reply};

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
    pub(crate) fn new(ask: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }
}

impl fmt::Debug for ReadinessProbe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Asking")
    }
}

impl HttpServer {
    /// Handles `GET /readyz`. It is public, so it does not name the database servers.
    pub(crate) fn get_readiness(&self) -> Reply {
        let store = self.readiness_probe.as_ref().map_or(Readiness::Ready, |asking| (asking.0)());
        let (status, text) = match store {
            _ if !self.is_ready.load(Ordering::Relaxed) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            Readiness::Ready => (StatusCode::OK, "ready\n"),
            Readiness::ReadOnly => {
                (StatusCode::OK, "ready; changes are not taken now: the database has no primary\n")
            }
            Readiness::Unreachable => {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready: the database is not reached\n")
            }
        };
        let mut response = reply(status, TEXT, text);
        caching::set_private_no_store(response.headers_mut());
        response
    }
}

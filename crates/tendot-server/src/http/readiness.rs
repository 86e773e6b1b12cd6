//! `/readyz`: whether requests are answered as they should be.

use std::fmt;
use std::sync::atomic::Ordering;

use http::StatusCode;

use super::answer::{Reply, TEXT, reply};
use super::{HttpServer, caching};

/// Readiness of the store: ready, read-only or unreachable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Everything.
    Ready,
    /// It is only read.
    ReadOnly,
    /// Nothing.
    Unreachable,
}

/// Callback that reports the readiness of the store.
pub(super) struct ReadinessProbe(Box<dyn Fn() -> Readiness + Send + Sync>);

impl ReadinessProbe {
    pub(super) fn new(ask: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }
}

impl fmt::Debug for ReadinessProbe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Asking")
    }
}

impl HttpServer {
    /// Answers `GET /readyz`. Anybody may ask, so it does not tell which servers there are.
    pub(super) fn get_readiness(&self) -> Reply {
        let store = self.readiness.as_ref().map_or(Readiness::Ready, |asking| (asking.0)());
        let (status, text) = match store {
            _ if !self.ready.load(Ordering::Relaxed) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
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

//! Warning that a client needs `native.allow_sha1`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tendot_proto::ValueReference;

use crate::native::MessageClient;

/// Minimum time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Warns that a client needs `native.allow_sha1`, at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct Sha1Warning {
    last: Mutex<Option<Instant>>,
}

impl Sha1Warning {
    /// Warns that a SHA-1 proof with this key was rejected.
    pub(crate) fn warn(&self, key: &ValueReference<'_>, client: MessageClient) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < WARNING_INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        tracing::warn!(
            %client,
            identity = %key.to_string().escape_debug(),
            "SHA-1 proof of a secret key rejected (opcode 201); Handle.Net clients need `native.allow_sha1 = true` to log in with it"
        );
    }
}

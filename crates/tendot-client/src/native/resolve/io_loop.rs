//! I/O loop: runs a [`Lookup`] over sockets, timers and DNS.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tendot_proto::crypto::SystemRandom;
use tendot_proto::lookup::{Lookup, LookupEvent, LookupResponse};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::NativeClient;
use super::sockets::{LookupSockets, SocketEvent};
use crate::native::ResolveError;

impl NativeClient {
    /// Maximum number of bytes that a lookup receives: a response has at most 256 KiB, and a few records lead to it.
    const MAX_RECEIVED_BYTES: usize = 4 << 20;

    /// Minimum wait, to avoid a busy loop.
    const MIN_WAIT: Duration = Duration::from_millis(1);

    /// Runs a lookup to its end; releases the prefix lock once the prefix is located.
    pub(super) async fn run_lookup(
        &self,
        mut lookup: Lookup,
        mut lock: Option<OwnedMutexGuard<()>>,
    ) -> Result<LookupResponse, ResolveError> {
        let clock = self.shared.clock;
        let mut sockets = LookupSockets::new();
        let mut received = 0_usize;
        loop {
            while let Some(transmit) = lookup.poll_transmit(clock.now(), &mut SystemRandom) {
                if let Some(failure) = sockets.send(transmit).await {
                    self.handle_socket_event(&mut lookup, failure);
                }
            }
            while let Some(event) = lookup.poll() {
                let is_located = matches!(event, LookupEvent::SitesLocated { .. });
                if let Some(result) = self.handle_lookup_event(event, &mut sockets) {
                    return result;
                }
                if is_located {
                    drop(lock.take());
                }
            }
            let earliest = Instant::now() + Self::MIN_WAIT;
            let deadline =
                lookup.poll_timeout().map_or(earliest, |elapsed| clock.instant_at(elapsed).max(earliest));
            match sockets.next_event(deadline).await {
                Some(event) => {
                    received = received.saturating_add(event.received_bytes());
                    if received > Self::MAX_RECEIVED_BYTES {
                        return Err(ResolveError::TooManyBytes { limit: Self::MAX_RECEIVED_BYTES });
                    }
                    self.handle_socket_event(&mut lookup, event);
                }
                None => lookup.handle_timeout(clock.now()),
            }
        }
    }

    /// Passes a socket event to the lookup.
    fn handle_socket_event(&self, lookup: &mut Lookup, event: SocketEvent) {
        let now = self.shared.clock.now();
        match event {
            SocketEvent::Datagram { from, bytes } => lookup.handle_datagram(now, from, &bytes),
            SocketEvent::StreamBytes { attempt, bytes } => lookup.handle_stream(now, attempt, &bytes),
            SocketEvent::AttemptFailed { attempt, error } => lookup.handle_failure(now, attempt, error),
            SocketEvent::DomainResolved { domain, addresses } => lookup.handle_addresses(&domain, &addresses),
        }
    }

    /// Applies a lookup event; returns the result when it is finished.
    fn handle_lookup_event(
        &self,
        event: LookupEvent,
        sockets: &mut LookupSockets,
    ) -> Option<Result<LookupResponse, ResolveError>> {
        match event {
            LookupEvent::Finished(response) => return Some(Ok(response)),
            LookupEvent::Failed(error) => return Some(Err(error.into())),
            LookupEvent::ResolveDomain { domain } => {
                sockets.resolve_domain(domain, Arc::clone(&self.shared.dns_threads));
            }
            LookupEvent::RttSample { server, rtt } => self.shared.rtt.record(server, rtt),
            LookupEvent::SitesLocated { prefix_handle, sites, expires_at } => {
                self.shared.site_cache.insert(
                    &prefix_handle,
                    sites,
                    expires_at,
                    self.shared.clock.now().unix,
                );
            }
            LookupEvent::RootChanged => self.shared.is_root_outdated.store(true, Ordering::Relaxed),
            // List messages are handled by `AdminClient`.
            _ => {}
        }
        None
    }
}

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tendot_proto::crypto::SystemRandom;
use tendot_proto::lookup::{Lookup, LookupEvent, LookupResponse};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::transport::{LookupSockets, SocketEvent};
use super::{NativeClient, ResolveError};

impl NativeClient {
    /// Bytes that one look-up takes in: an answer has at most 256 KiB, and a few records lead to it.
    const MAX_RECEIVED_BYTES: usize = 4 << 20;

    /// Runs a lookup to its end; releases the prefix lock once the prefix is located.
    ///
    /// Others get the turn as soon as its prefix is found.
    pub(super) async fn run_lookup(
        &self,
        mut lookup: Lookup,
        mut turn: Option<OwnedMutexGuard<()>>,
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
                let is_located = matches!(event, LookupEvent::Located { .. });
                if let Some(end) = self.handle_lookup_event(event, &mut sockets) {
                    return end;
                }
                if is_located {
                    drop(turn.take());
                }
            }
            // A moment at least, whatever it says.
            let soon = Instant::now() + Duration::from_millis(1);
            let until = lookup.poll_timeout().map_or(soon, |elapsed| clock.instant_at(elapsed).max(soon));
            match sockets.next_event(until).await {
                Some(arrival) => {
                    received = received.saturating_add(arrival.received_bytes());
                    if received > Self::MAX_RECEIVED_BYTES {
                        return Err(ResolveError::TooMuch { limit: Self::MAX_RECEIVED_BYTES });
                    }
                    self.handle_socket_event(&mut lookup, arrival);
                }
                None => lookup.handle_timeout(clock.now()),
            }
        }
    }

    /// Passes a socket event to the lookup.
    fn handle_socket_event(&self, lookup: &mut Lookup, arrival: SocketEvent) {
        let now = self.shared.clock.now();
        match arrival {
            SocketEvent::Datagram { from, bytes } => lookup.handle_datagram(now, from, &bytes),
            SocketEvent::Bytes { attempt, bytes } => lookup.handle_stream(now, attempt, &bytes),
            SocketEvent::Failure { attempt, error } => lookup.handle_failure(now, attempt, error),
            SocketEvent::Addresses { domain, addresses } => lookup.handle_addresses(&domain, &addresses),
        }
    }

    /// Applies a lookup event; returns the result when it is finished.
    fn handle_lookup_event(
        &self,
        event: LookupEvent,
        sockets: &mut LookupSockets,
    ) -> Option<Result<LookupResponse, ResolveError>> {
        match event {
            LookupEvent::Finished(answer) => return Some(Ok(answer)),
            LookupEvent::Failed(error) => return Some(Err(error.into())),
            LookupEvent::Resolve { domain } => {
                sockets.resolve_domain(domain, Arc::clone(&self.shared.name_threads))
            }
            LookupEvent::Measured { server, time } => self.shared.times.record(server, time),
            LookupEvent::Located { prefix_handle, sites, until } => {
                self.shared.sites.insert(&prefix_handle, sites, until, self.shared.clock.now().unix);
            }
            LookupEvent::RootChanged => self.shared.root_has_changed.store(true, Ordering::Relaxed),
            // Parts of a list, which is asked for elsewhere.
            _ => {}
        }
        None
    }
}

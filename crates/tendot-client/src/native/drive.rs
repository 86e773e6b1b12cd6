use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tendot_proto::crypto::SystemRandom;
use tendot_proto::lookup::{Answer, Event, Lookup};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::transport::{Arrival, Sockets};
use super::{Native, NativeError};

impl Native {
    /// Bytes that one look-up takes in: an answer has at most 256 KiB, and a few records lead to it.
    const BYTES: usize = 4 << 20;

    /// Leads a look-up to its end. Others get the turn as soon as its prefix is found.
    pub(super) async fn drive(
        &self,
        mut lookup: Lookup,
        mut turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Answer, NativeError> {
        let clock = self.shared.clock;
        let mut sockets = Sockets::new();
        let mut received = 0_usize;
        loop {
            while let Some(transmit) = lookup.poll_transmit(clock.now(), &mut SystemRandom) {
                if let Some(failure) = sockets.send(transmit).await {
                    self.take(&mut lookup, failure);
                }
            }
            while let Some(event) = lookup.poll() {
                let is_located = matches!(event, Event::Located { .. });
                if let Some(end) = self.hear(event, &mut sockets) {
                    return end;
                }
                if is_located {
                    drop(turn.take());
                }
            }
            // A moment at least, whatever it says.
            let soon = Instant::now() + Duration::from_millis(1);
            let until = lookup.poll_timeout().map_or(soon, |elapsed| clock.at(elapsed).max(soon));
            match sockets.next(until).await {
                Some(arrival) => {
                    received = received.saturating_add(arrival.size());
                    if received > Self::BYTES {
                        return Err(NativeError::TooMuch { limit: Self::BYTES });
                    }
                    self.take(&mut lookup, arrival);
                }
                None => lookup.handle_timeout(clock.now()),
            }
        }
    }

    fn take(&self, lookup: &mut Lookup, arrival: Arrival) {
        let now = self.shared.clock.now();
        match arrival {
            Arrival::Datagram { from, bytes } => lookup.handle_datagram(now, from, &bytes),
            Arrival::Bytes { attempt, bytes } => lookup.handle_stream(now, attempt, &bytes),
            Arrival::Failure { attempt, error } => lookup.handle_failure(now, attempt, error),
            Arrival::Addresses { domain, addresses } => lookup.handle_addresses(&domain, &addresses),
        }
    }

    /// Remembers what a look-up has to tell, and says when it is over.
    fn hear(&self, event: Event, sockets: &mut Sockets) -> Option<Result<Answer, NativeError>> {
        match event {
            Event::Finished(answer) => return Some(Ok(answer)),
            Event::Failed(error) => return Some(Err(error.into())),
            Event::Resolve { domain } => sockets.look_up(domain, Arc::clone(&self.shared.name_threads)),
            Event::Measured { server, time } => self.shared.times.measured(server, time),
            Event::Located { prefix_handle, sites, until } => {
                self.shared.sites.insert(&prefix_handle, sites, until, self.shared.clock.now().unix);
            }
            Event::RootChanged => self.shared.root_has_changed.store(true, Ordering::Relaxed),
            // Parts of a list, which is asked for elsewhere.
            _ => {}
        }
        None
    }
}

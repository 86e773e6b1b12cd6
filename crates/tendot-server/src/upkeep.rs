//! What is done beside answering: what was counted is written down, and what has been kept for long enough is removed.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tendot_registry::{Registry, RegistryError, report};
use tendot_store::StoreError;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::http::sweep_receipts;
use crate::tally::ResolutionCounter;

/// Counts that are written down together; then others have their turn.
const FLUSH_BATCH_SIZE: usize = 500;

/// How often receipts are swept, and every so many times also what was counted.
const PURGE_INTERVAL: Duration = Duration::from_secs(3_600);
const PURGES_PER_STATS_PURGE: u64 = 24;

/// However much is counted, there is so much time between.
const MIN_FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// How long a store that does not answer may hold up the end.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Background maintenance: flushes resolution statistics and purges expired entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Maintenance {
    /// How often it is written down: every minute, unless told otherwise.
    pub interval: Duration,
    /// Days for which it is kept which names were not found: 90, unless told otherwise.
    pub retention: u32,
    /// Names under one prefix of which that is kept, those that are asked for most: 10,000, unless told otherwise.
    pub failed: usize,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), retention: 90, failed: 10_000 }
    }
}

impl Maintenance {
    /// Keeps a store up until the end; then writes down what was counted last, if the store takes it within some seconds.
    pub async fn run(self, registry: &Registry, tally: &ResolutionCounter, end: impl Future<Output = ()>) {
        let (tell, told) = watch::channel(false);
        let end_told = || {
            let mut told = told.clone();
            async move { drop(told.wait_for(|is_end| *is_end).await) }
        };
        let writing = async {
            loop {
                // Only here it ends, so that nothing is taken out and not written.
                tokio::select! {
                    () = sleep(self.interval) => {}
                    () = tally.wait_filling() => {}
                    () = end_told() => break,
                }
                self.flush(registry, tally).await;
                tokio::select! {
                    () = sleep(MIN_FLUSH_INTERVAL.min(self.interval)) => {}
                    () = end_told() => break,
                }
            }
            self.flush(registry, tally).await;
        };
        let waiting = async {
            end.await;
            tell.send_replace(true);
            sleep(FINAL_FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = writing => {}
            () = self.purge_loop(registry) => {}
            () = waiting => tracing::error!("the store does not answer, and what was counted last is lost"),
        }
    }

    /// Writes down what was counted; what can't be written is counted on, but not what may have been written: a report that says
    /// too little can be believed as far as it goes, and one that counts something twice cannot.
    pub async fn flush(self, registry: &Registry, tally: &ResolutionCounter) {
        let (resolutions, failures) = (tally.drain_resolutions(), tally.drain_failures());
        let mut touched = BTreeSet::new();
        for (number, piece) in resolutions.chunks(FLUSH_BATCH_SIZE).enumerate() {
            if let Err(refusal) = registry.add_resolutions(piece, unix_millis()).await {
                let first = (number + usize::from(is_outcome_unknown(&refusal))) * FLUSH_BATCH_SIZE;
                log_flush_error(&refusal);
                tally.restore(resolutions.get(first..).unwrap_or_default(), &failures);
                return;
            }
            yield_now().await;
        }
        for (number, piece) in failures.chunks(FLUSH_BATCH_SIZE).enumerate() {
            if let Err(refusal) = registry.add_failed_resolutions(piece, unix_millis()).await {
                let first = (number + usize::from(is_outcome_unknown(&refusal))) * FLUSH_BATCH_SIZE;
                log_flush_error(&refusal);
                tally.restore(&[], failures.get(first..).unwrap_or_default());
                return;
            }
            touched.extend(piece.iter().map(|one| &one.prefix));
            yield_now().await;
        }
        for prefix in touched {
            let trimmed = registry.trim_failed_resolutions(prefix, self.failed, unix_millis()).await;
            trimmed.unwrap_or_else(|refusal| log_purge_error(&refusal));
        }
    }

    async fn purge_loop(self, registry: &Registry) {
        for time in 0_u64.. {
            sweep_receipts(registry, unix_millis()).await.unwrap_or_else(|refusal| log_purge_error(&refusal));
            if time.is_multiple_of(PURGES_PER_STATS_PURGE) {
                self.purge_failed_resolutions(registry, unix_millis())
                    .await
                    .unwrap_or_else(|refusal| log_purge_error(&refusal));
            }
            sleep(PURGE_INTERVAL).await;
        }
    }

    /// Forgets what failed too long ago, at a time in milliseconds since 1970.
    pub async fn purge_failed_resolutions(self, registry: &Registry, at: u64) -> Result<(), RegistryError> {
        let oldest = (report::day_number(at) + 1).saturating_sub(self.retention);
        let mut after = None;
        loop {
            after = registry.purge_failed_resolutions(oldest, after.as_deref(), at).await?;
            if after.is_none() {
                return Ok(());
            }
            yield_now().await;
        }
    }
}

/// Whether something may have been written in spite of it.
const fn is_outcome_unknown(refusal: &RegistryError) -> bool {
    matches!(refusal.failure, Some(StoreError::Unknown { .. }))
}

fn log_flush_error(refusal: &RegistryError) {
    let error = refusal.failure.as_ref().map_or_else(|| refusal.detail.clone(), ToString::to_string);
    tracing::error!(%error, "what was counted of resolutions can't be written");
}

fn log_purge_error(refusal: &RegistryError) {
    let error = refusal.failure.as_ref().map_or_else(|| refusal.detail.clone(), ToString::to_string);
    tracing::error!(%error, "what has been kept for long enough can't be removed");
}

/// Milliseconds since 1970.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

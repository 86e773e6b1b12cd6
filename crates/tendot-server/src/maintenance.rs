//! Background maintenance: flushes resolution statistics and purges expired entries.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tendot_registry::{Registry, RegistryError, report};
use tendot_store::StoreError;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::http::sweep_receipts;
use crate::resolution_stats::ResolutionCounter;

/// Counts per write; other writers get a turn in between.
const FLUSH_BATCH_SIZE: usize = 500;

/// Interval between purges of expired idempotency keys; failed resolutions are purged every so many of them.
const PURGE_INTERVAL: Duration = Duration::from_secs(3_600);
const PURGES_PER_STATS_PURGE: u64 = 24;

/// Minimum time between flushes, however fast the counters fill.
const MIN_FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// How long a store that does not respond may delay the shutdown.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Background maintenance: flushes resolution statistics and purges expired entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Maintenance {
    /// Interval between flushes. Default: one minute.
    pub interval: Duration,
    /// Days for which failed resolutions are stored. Default: 90.
    pub retention: u32,
    /// Failed names stored per prefix, the most frequent ones. Default: 10,000.
    pub failed: usize,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), retention: 90, failed: 10_000 }
    }
}

impl Maintenance {
    /// Runs maintenance until `end` completes, then flushes the remaining counts if the store accepts them within some seconds.
    pub async fn run(
        self,
        registry: &Registry,
        resolution_counter: &ResolutionCounter,
        end: impl Future<Output = ()>,
    ) {
        let (tell, told) = watch::channel(false);
        let end_told = || {
            let mut told = told.clone();
            async move { drop(told.wait_for(|is_end| *is_end).await) }
        };
        let writing = async {
            loop {
                // The only cancellation point: counts that were drained are always written or restored.
                tokio::select! {
                    () = sleep(self.interval) => {}
                    () = resolution_counter.wait_filling() => {}
                    () = end_told() => break,
                }
                self.flush(registry, resolution_counter).await;
                tokio::select! {
                    () = sleep(MIN_FLUSH_INTERVAL.min(self.interval)) => {}
                    () = end_told() => break,
                }
            }
            self.flush(registry, resolution_counter).await;
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

    /// Flushes the counts to the registry. Counts that could not be written are restored, except those that may have been
    /// written: a report may undercount, but must not count twice.
    pub async fn flush(self, registry: &Registry, resolution_counter: &ResolutionCounter) {
        let (resolutions, failures) =
            (resolution_counter.drain_resolutions(), resolution_counter.drain_failures());
        let mut touched = BTreeSet::new();
        for (number, piece) in resolutions.chunks(FLUSH_BATCH_SIZE).enumerate() {
            if let Err(refusal) = registry.add_resolutions(piece, unix_millis()).await {
                let first = (number + usize::from(is_outcome_unknown(&refusal))) * FLUSH_BATCH_SIZE;
                log_flush_error(&refusal);
                resolution_counter.restore(resolutions.get(first..).unwrap_or_default(), &failures);
                return;
            }
            yield_now().await;
        }
        for (number, piece) in failures.chunks(FLUSH_BATCH_SIZE).enumerate() {
            if let Err(refusal) = registry.add_failed_resolutions(piece, unix_millis()).await {
                let first = (number + usize::from(is_outcome_unknown(&refusal))) * FLUSH_BATCH_SIZE;
                log_flush_error(&refusal);
                resolution_counter.restore(&[], failures.get(first..).unwrap_or_default());
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

    /// Purges failed resolutions that exceed the retention time; `at` is in Unix milliseconds.
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

/// Whether the write may have been committed in spite of the error.
const fn is_outcome_unknown(refusal: &RegistryError) -> bool {
    matches!(refusal.source, Some(StoreError::InDoubt { .. }))
}

fn log_flush_error(refusal: &RegistryError) {
    let error = refusal.source.as_ref().map_or_else(|| refusal.detail.clone(), ToString::to_string);
    tracing::error!(%error, "what was counted of resolutions can't be written");
}

fn log_purge_error(refusal: &RegistryError) {
    let error = refusal.source.as_ref().map_or_else(|| refusal.detail.clone(), ToString::to_string);
    tracing::error!(%error, "what has been kept for long enough can't be removed");
}

/// Unix time in milliseconds.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

//! Background maintenance: flushes resolution statistics and purges expired entries.

use std::collections::BTreeSet;
use std::time::Duration;

use tendot_registry::{Registry, RegistryError, report};
use tendot_store::StoreError;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

pub(crate) use crate::clock::unix_millis;
use crate::resolution_stats::ResolutionCounter;

/// Counts per write; other writes can run in between.
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
    pub flush_interval: Duration,
    /// Days for which failed resolutions are stored. Default: 90.
    pub retention_days: u32,
    /// Failed names stored per prefix, the most frequent ones. Default: 10,000.
    pub max_failed_per_prefix: usize,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self { flush_interval: Duration::from_secs(60), retention_days: 90, max_failed_per_prefix: 10_000 }
    }
}

impl Maintenance {
    /// Runs maintenance until `shutdown` completes, then flushes the remaining counts if the store accepts them within some seconds.
    pub async fn run(
        self,
        registry: &Registry,
        resolution_counter: &ResolutionCounter,
        shutdown: impl Future<Output = ()>,
    ) {
        let (stop, stopped) = watch::channel(false);
        let wait_stopped = || {
            let mut stopped = stopped.clone();
            async move { drop(stopped.wait_for(|stopped| *stopped).await) }
        };
        let flush_loop = async {
            loop {
                // The only cancellation point: counts that were drained are always written or restored.
                tokio::select! {
                    () = sleep(self.flush_interval) => {}
                    () = resolution_counter.wait_filling() => {}
                    () = wait_stopped() => break,
                }
                self.flush(registry, resolution_counter).await;
                tokio::select! {
                    () = sleep(MIN_FLUSH_INTERVAL.min(self.flush_interval)) => {}
                    () = wait_stopped() => break,
                }
            }
            self.flush(registry, resolution_counter).await;
        };
        let final_flush_timeout = async {
            shutdown.await;
            stop.send_replace(true);
            sleep(FINAL_FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = flush_loop => {}
            () = self.purge_loop(registry) => {}
            () = final_flush_timeout => {
                tracing::error!("final flush timed out; recent statistics are lost");
            }
        }
    }

    /// Flushes the counts to the registry. Counts that could not be written are restored, except those that may have been
    /// written: a report may undercount, but must not count twice.
    pub async fn flush(self, registry: &Registry, resolution_counter: &ResolutionCounter) {
        let (resolutions, failures) =
            (resolution_counter.drain_resolutions(), resolution_counter.drain_failures());
        let mut touched = BTreeSet::new();
        for (number, batch) in resolutions.chunks(FLUSH_BATCH_SIZE).enumerate() {
            if let Err(refusal) = registry.add_resolutions(batch, unix_millis()).await {
                let first = (number + usize::from(is_outcome_unknown(&refusal))) * FLUSH_BATCH_SIZE;
                log_flush_error(&refusal);
                resolution_counter.restore(resolutions.get(first..).unwrap_or_default(), &failures);
                return;
            }
            yield_now().await;
        }
        for (number, batch) in failures.chunks(FLUSH_BATCH_SIZE).enumerate() {
            if let Err(refusal) = registry.add_failed_resolutions(batch, unix_millis()).await {
                let first = (number + usize::from(is_outcome_unknown(&refusal))) * FLUSH_BATCH_SIZE;
                log_flush_error(&refusal);
                resolution_counter.restore(&[], failures.get(first..).unwrap_or_default());
                return;
            }
            touched.extend(batch.iter().map(|failure| &failure.prefix));
            yield_now().await;
        }
        for prefix in touched {
            let trimmed =
                registry.trim_failed_resolutions(prefix, self.max_failed_per_prefix, unix_millis()).await;
            trimmed.unwrap_or_else(|refusal| log_purge_error(&refusal));
        }
    }

    async fn purge_loop(self, registry: &Registry) {
        for round in 0_u64.. {
            registry
                .purge_idempotency_keys(unix_millis())
                .await
                .unwrap_or_else(|refusal| log_purge_error(&refusal));
            if round.is_multiple_of(PURGES_PER_STATS_PURGE) {
                self.purge_failed_resolutions(registry, unix_millis())
                    .await
                    .unwrap_or_else(|refusal| log_purge_error(&refusal));
            }
            sleep(PURGE_INTERVAL).await;
        }
    }

    /// Purges failed resolutions that exceed the retention time; `now_ms` is the Unix time in milliseconds.
    pub async fn purge_failed_resolutions(
        self,
        registry: &Registry,
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let oldest = (report::day_number(now_ms) + 1).saturating_sub(self.retention_days);
        let mut after = None;
        loop {
            after = registry.purge_failed_resolutions(oldest, after.as_deref(), now_ms).await?;
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
    tracing::error!(%error, "flushing resolution statistics failed");
}

fn log_purge_error(refusal: &RegistryError) {
    let error = refusal.source.as_ref().map_or_else(|| refusal.detail.clone(), ToString::to_string);
    tracing::error!(%error, "purging expired entries failed");
}

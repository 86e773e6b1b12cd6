//! Background maintenance: flushes resolution statistics, purges expired entries and renews signatures.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tendot_registry::{Registry, RegistryError, RenewalCursor, RenewalPage, report};
use tendot_store::StoreError;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::resolution_stats::ResolutionCounter;

/// Counts per write.
const FLUSH_BATCH_SIZE: usize = 500;

/// Interval between purges of expired idempotency keys; failed resolutions are purged every so many of them.
const PURGE_INTERVAL: Duration = Duration::from_secs(3_600);
const PURGES_PER_STATS_PURGE: u64 = 24;

/// Minimum time between flushes, however fast the counters fill.
const MIN_FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// How long a store that does not respond may delay the shutdown.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between checks of the system clock.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Interval between renewals of signatures, and before the next attempt if one failed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(24 * 3_600);
const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(3_600);

/// Pause after each page of a renewal, so that at most 200 signatures are made per second.
const RENEWAL_PAUSE: Duration = Duration::from_millis(100);

/// Log line of a purge that failed.
const PURGE_FAILED: &str = "purging expired entries failed";

/// Background maintenance: flushes resolution statistics, purges expired entries and renews signatures.
#[derive(Clone, Debug)]
pub struct Maintenance {
    /// Interval between flushes. Default: one minute.
    pub flush_interval: Duration,
    /// Days for which failed resolutions are stored. Default: 90.
    pub retention_days: u32,
    /// Failed names stored per prefix, the most frequent ones. Default: 10,000.
    pub max_failed_per_prefix: usize,
    /// Earliest expiry of the signatures that the server makes.
    pub signature_expiry: Arc<SignatureExpiry>,
}

/// Earliest expiry of all record signatures, as of the last renewal.
#[derive(Debug, Default)]
pub struct SignatureExpiry(AtomicU64);

impl SignatureExpiry {
    /// Replaces the expiry after a complete renewal; after one that ended early, an earlier one counts.
    fn update(&self, earliest: Option<u64>, is_complete: bool) {
        let before = self.get().filter(|_| !is_complete);
        let earliest = [before, earliest].into_iter().flatten().min();
        self.0.store(earliest.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Unix time in seconds; `None` if it is not known, or if there are no signatures.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|expiry| *expiry > 0)
    }
}

impl Default for Maintenance {
    fn default() -> Self {
        Self {
            flush_interval: Duration::from_secs(60),
            retention_days: 90,
            max_failed_per_prefix: 10_000,
            signature_expiry: Arc::default(),
        }
    }
}

impl Maintenance {
    /// Runs maintenance until `shutdown` completes, then flushes the remaining counts if the store accepts them within some seconds.
    pub async fn run(
        &self,
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
            () = watch_clock(registry) => {}
            () = renewal_loop(registry, &self.signature_expiry) => {}
            () = final_flush_timeout => {
                tracing::error!("final flush timed out; recent statistics are lost");
            }
        }
    }

    /// Flushes the counts to the registry. Counts that could not be written are restored, except those that may have been
    /// written: a report may undercount, but must not count twice.
    pub async fn flush(&self, registry: &Registry, resolution_counter: &ResolutionCounter) {
        let (resolutions, failures) =
            (resolution_counter.drain_resolutions(), resolution_counter.drain_failures());
        let add = async |batch: &_| registry.add_resolutions(batch, registry.now_ms()).await;
        if let Err(unwritten) = write_batches(&resolutions, add).await {
            return resolution_counter.restore(unwritten, &failures);
        }
        let add = async |batch: &_| registry.add_failed_resolutions(batch, registry.now_ms()).await;
        if let Err(unwritten) = write_batches(&failures, add).await {
            return resolution_counter.restore(&[], unwritten);
        }
        for prefix in failures.iter().map(|failure| &failure.prefix).collect::<BTreeSet<_>>() {
            let trimmed =
                registry.trim_failed_resolutions(prefix, self.max_failed_per_prefix, registry.now_ms()).await;
            trimmed.unwrap_or_else(|error| log_error(&error, PURGE_FAILED));
        }
    }

    async fn purge_loop(&self, registry: &Registry) {
        for round in 0_u64.. {
            registry
                .purge_idempotency_keys(registry.now_ms())
                .await
                .unwrap_or_else(|error| log_error(&error, PURGE_FAILED));
            if round.is_multiple_of(PURGES_PER_STATS_PURGE) {
                self.purge_failed_resolutions(registry, registry.now_ms())
                    .await
                    .unwrap_or_else(|error| log_error(&error, PURGE_FAILED));
            }
            sleep(PURGE_INTERVAL).await;
        }
    }

    /// Purges failed resolutions that exceed the retention time; `now_ms` is the Unix time in milliseconds.
    pub async fn purge_failed_resolutions(
        &self,
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

/// Logs when the system clock becomes wrong, and when it is right again.
async fn watch_clock(registry: &Registry) {
    let mut is_wrong = false;
    loop {
        let was_wrong = std::mem::replace(&mut is_wrong, registry.has_wrong_system_clock());
        if is_wrong && !was_wrong {
            tracing::warn!(
                skew_seconds = registry.clock_skew_ms() / 1_000,
                "system clock is out of sync; using the service clock instead: check time synchronization (NTP); if the system \
                 clock is right, restart the service"
            );
        } else if was_wrong && !is_wrong {
            tracing::info!("system clock is in sync again");
        }
        sleep(CLOCK_CHECK_INTERVAL).await;
    }
}

/// Renews signatures that expire soon, once a day.
async fn renewal_loop(registry: &Registry, expiry: &SignatureExpiry) {
    loop {
        let delay = match renew_signatures(registry, expiry).await {
            Ok(()) => RENEWAL_INTERVAL,
            Err(error) => {
                log_error(&error, "cannot renew signatures; retrying");
                RENEWAL_RETRY_DELAY
            }
        };
        sleep(delay).await;
    }
}

/// Renews the signatures that expire soon, of all names.
async fn renew_signatures(registry: &Registry, expiry: &SignatureExpiry) -> Result<(), RegistryError> {
    let mut total = RenewalPage { next: Some(RenewalCursor::default()), ..RenewalPage::default() };
    let result = renew_pages(registry, &mut total).await;
    expiry.update(total.earliest_expiry, result.is_ok());
    let RenewalPage { renewed, unusable, failed, failure, .. } = total;
    if renewed > 0 {
        tracing::info!(renewed, "signatures renewed");
    }
    if unusable > 0 {
        tracing::error!(
            unusable,
            "signatures cannot be renewed: signed by another key, or values changed since; sign the records with `tendot handle sign`"
        );
    }
    if let Some(reason) = failure {
        tracing::error!(failed, %reason, "signatures were not renewed: records cannot be read, signed or written");
    }
    result
}

/// Renews page by page; after an error, the total is that of the pages before.
async fn renew_pages(registry: &Registry, total: &mut RenewalPage) -> Result<(), RegistryError> {
    while let Some(cursor) = total.next.take() {
        total.add(registry.renew_signatures(cursor, registry.now_ms()).await?);
        if total.next.is_some() {
            sleep(RENEWAL_PAUSE).await;
        }
    }
    Ok(())
}

/// Writes items in batches. On an error, returns those that were not written.
async fn write_batches<T>(
    items: &[T],
    write: impl AsyncFn(&[T]) -> Result<(), RegistryError>,
) -> Result<(), &[T]> {
    for (number, batch) in items.chunks(FLUSH_BATCH_SIZE).enumerate() {
        if let Err(error) = write(batch).await {
            log_error(&error, "flushing resolution statistics failed");
            let first = (number + usize::from(is_outcome_unknown(&error))) * FLUSH_BATCH_SIZE;
            return Err(items.get(first..).unwrap_or_default());
        }
        // Other writes can run in between.
        yield_now().await;
    }
    Ok(())
}

/// Whether the write may have been committed in spite of the error.
const fn is_outcome_unknown(error: &RegistryError) -> bool {
    matches!(error.source, Some(StoreError::InDoubt { .. }))
}

fn log_error(error: &RegistryError, what: &str) {
    let error = error.source.as_ref().map_or_else(|| error.detail.clone(), ToString::to_string);
    tracing::error!(%error, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A renewal that ends early has not seen all signatures.
    #[test]
    fn signature_expiry() {
        let expiry = SignatureExpiry::default();
        for (earliest, is_complete, expected) in [
            (Some(5), false, Some(5)),
            (Some(7), false, Some(5)),
            (None, false, Some(5)),
            (Some(7), true, Some(7)),
            (Some(6), false, Some(6)),
            (None, true, None),
        ] {
            expiry.update(earliest, is_complete);
            assert_eq!(expiry.get(), expected);
        }
    }
}

//! Shared pipelined connections: requests do not wait for the responses to earlier ones.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object, Pool};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use crate::postgres::error::{DatabaseError, with_timeout};

/// Slot of one connection; locked while it connects.
type ConnectionSlot = Mutex<Option<Arc<ClientWrapper>>>;

/// Requests in flight on a connection from which on another one is used.
const MAX_PIPELINE_DEPTH: usize = 4;

/// Timeout of opening an additional connection while others are usable.
const EXTRA_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Fixed set of shared connections on which short requests are pipelined.
///
/// Requests must be short, since later ones wait behind them.
pub(crate) struct PipelinedPool {
    /// Opens connections, which are not returned to it.
    pool: Pool,
    /// Slots; locked only while a connection is opened.
    slots: Box<[ConnectionSlot]>,
    next: AtomicUsize,
    timeout: Duration,
}

impl PipelinedPool {
    pub(crate) fn new(pool: Pool, connections: usize, timeout: Duration) -> Self {
        let slots = (0..connections.max(1)).map(|_| Mutex::new(None)).collect();
        Self { pool, slots, next: AtomicUsize::new(0), timeout }
    }

    /// Returns a connection with few requests in flight, or the least loaded one. Connections are opened only on demand: a busy
    /// server process answers soonest.
    pub(crate) async fn get(&self) -> Result<Arc<ClientWrapper>, DatabaseError> {
        let (mut best, mut vacant): (Option<Arc<ClientWrapper>>, Option<MutexGuard<'_, _>>) = (None, None);
        for slot in &self.slots {
            // A locked slot is connecting.
            let Ok(slot) = slot.try_lock() else { continue };
            let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) else {
                vacant = vacant.or(Some(slot));
                continue;
            };
            let client = Arc::clone(client);
            drop(slot);
            if in_flight(&client) < MAX_PIPELINE_DEPTH {
                return Ok(client);
            }
            if best.as_ref().is_none_or(|best| in_flight(&client) < in_flight(best)) {
                best = Some(client);
            }
        }
        match (best, vacant) {
            (Some(best), None) => Ok(best),
            // The server may be at its connection limit.
            (Some(best), Some(slot)) => {
                let connected = timeout(EXTRA_CONNECT_TIMEOUT, self.connect_slot(slot)).await;
                Ok(connected.ok().and_then(Result::ok).unwrap_or(best))
            }
            (None, Some(slot)) => self.connect_slot(slot).await,
            (None, None) => {
                let index = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
                let slot = self.slots.get(index).ok_or(DatabaseError::PoolClosed)?;
                let connect = async { self.connect_slot(slot.lock().await).await };
                with_timeout(self.timeout, connect).await
            }
        }
    }

    async fn connect_slot(
        &self,
        mut slot: MutexGuard<'_, Option<Arc<ClientWrapper>>>,
    ) -> Result<Arc<ClientWrapper>, DatabaseError> {
        // Another task may have connected meanwhile.
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(Object::take(self.pool.get().await?));
        *slot = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Removes a connection that does not answer. It is closed when its last user has dropped it.
    pub(crate) fn discard(&self, client: &Arc<ClientWrapper>) {
        for slot in &self.slots {
            // A connecting slot has a different connection.
            let Ok(mut slot) = slot.try_lock() else { continue };
            if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, client)) {
                *slot = None;
            }
        }
    }
}

/// Requests in flight on a connection: references except those of the slot and the caller.
fn in_flight(client: &Arc<ClientWrapper>) -> usize {
    Arc::strong_count(client).saturating_sub(2)
}

impl fmt::Debug for PipelinedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelinedPool").field("connections", &self.slots.len()).finish_non_exhaustive()
    }
}

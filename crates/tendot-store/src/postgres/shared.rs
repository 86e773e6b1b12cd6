//! Connections on which many ask at the same time: nobody waits for the answers of those before, which come in order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deadpool_postgres::{ClientWrapper, Object, Pool};
use tokio::sync::Mutex;

use super::error::Failure;

type Place = Mutex<Option<Arc<ClientWrapper>>>;

/// How many ask on one connection before the next one is used.
const DEEP: usize = 4;

/// A fixed number of connections that are never handed out alone. Whatever is asked on them has to be short, since others
/// stand behind it.
pub(super) struct Shared {
    /// Makes them; they do not come back to it.
    pool: Pool,
    places: Box<[Place]>,
    next: AtomicUsize,
}

impl Shared {
    pub(super) fn new(pool: Pool, connections: usize) -> Self {
        let places = (0..connections.max(1)).map(|_| Mutex::new(None)).collect();
        Self { pool, places, next: AtomicUsize::new(0) }
    }

    /// A connection on which few ask, or if there is none, the one whose turn it is. Another one is made only when it is
    /// needed: a server process that is just at work answers soonest.
    pub(super) async fn get(&self) -> Result<Arc<ClientWrapper>, Failure> {
        for place in &self.places {
            let client = self.of(place).await?;
            // One is kept here, one is in our hands.
            if Arc::strong_count(&client) - 2 < DEEP {
                return Ok(client);
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
        self.of(self.places.get(number).ok_or(Failure::Closed)?).await
    }

    async fn of(&self, place: &Place) -> Result<Arc<ClientWrapper>, Failure> {
        let mut place = place.lock().await;
        if let Some(client) = place.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(Object::take(self.pool.get().await?));
        *place = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Gives up one that does not answer. It is closed when the last who asked on it has given up.
    pub(super) async fn forget(&self, client: &Arc<ClientWrapper>) {
        for place in &self.places {
            let mut place = place.lock().await;
            if place.as_ref().is_some_and(|there| Arc::ptr_eq(there, client)) {
                *place = None;
            }
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("connections", &self.places.len()).finish_non_exhaustive()
    }
}

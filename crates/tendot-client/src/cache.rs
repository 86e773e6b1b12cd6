//! Answers that are kept: until their time is over, and for a while after that in case nobody answers.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache as Table;
use quick_cache::{OptionsBuilder, Weighter};
use tokio::time::Instant;

use crate::resolver::Found;

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Bytes of all answers.
    pub bytes: u64,
    /// The longest that an answer is kept, whatever its values say.
    pub longest: Duration,
    /// How long it is kept that there is nothing.
    pub nothing: Duration,
    /// How long after its time an answer is still given when nobody else answers.
    pub stale: Duration,
    /// When, after nobody answered, it is tried again.
    pub retry: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            longest: Duration::from_secs(86_400),
            nothing: Duration::from_secs(60),
            stale: Duration::from_secs(86_400),
            retry: Duration::from_secs(10),
        }
    }
}

/// An answer that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) found: Arc<Found>,
    /// When its time began, and when it is over.
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    /// When it is no longer given even if nobody else answers.
    pub(crate) end: Instant,
}

/// Keys are names with ASCII letters in upper case.
pub(crate) type Cache = Table<Box<[u8]>, Kept, Bytes>;

#[derive(Clone, Debug)]
pub(crate) struct Bytes;

impl Weighter<Box<[u8]>, Kept> for Bytes {
    fn weight(&self, key: &Box<[u8]>, kept: &Kept) -> u64 {
        (key.len() + kept.found.size() + 160) as u64
    }
}

pub(crate) fn new(settings: &CacheSettings) -> Cache {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(usize::try_from(settings.bytes / 512).unwrap_or(usize::MAX).max(16))
        .weight_capacity(settings.bytes)
        .build();
    match options {
        Ok(options) => Table::with_options(options, Bytes, Default::default(), Default::default()),
        Err(_) => Table::with_weighter(16, settings.bytes, Bytes),
    }
}

//! The other servers of our site, and what they are asked for.

use std::fmt;
use std::pin::Pin;

use tendot_proto::auth::Challenge;
use tendot_proto::{Handle, Reference, Value, Work};
use tendot_store::State;

use crate::{Error, Registry};

/// What another server says, some time.
pub type Said<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The other servers of our site, which keep the rest of its names: rights over names that are kept here may be given by
/// records, and proved by keys, that are kept there.
///
/// What they say has to be certain: it decides who may do what. What it costs them is counted as work of who makes us ask.
pub trait SitePeers: fmt::Debug + Send + Sync {
    /// The values of a record that everybody may read; none if there is no such record.
    fn values<'a>(&'a self, name: &'a str, work: &'a mut Work) -> Said<'a, Option<Vec<Value<'static>>>>;

    /// Whether the answer to a challenge fits the secret key at an index of a record.
    fn fits<'a>(
        &'a self,
        key: &'a Reference<'a>,
        challenge: Challenge<'a>,
        answer: &'a [u8],
        work: &'a mut Work,
    ) -> Said<'a, bool>;
}

impl Registry {
    /// Whether a name is kept at this server, and not at another of its site, provided that its prefix is kept here.
    pub fn owns(&self, name: Handle<'_>) -> bool {
        self.settings.share.is_none_or(|share| share.has(name))
    }

    /// Whether the answer to a challenge fits a secret key that another server of our site keeps.
    pub async fn fits_elsewhere(
        &self,
        key: &Reference<'_>,
        challenge: Challenge<'_>,
        answer: &[u8],
        work: &mut Work,
    ) -> Result<bool, Error> {
        let Some(neighbours) = &self.neighbours else { return Ok(false) };
        if self.owns(key.handle()) || !self.is_responsible(key.handle(), work).await? {
            return Ok(false);
        }
        neighbours.fits(key, challenge, answer, work).await
    }

    /// The values of a record of our site's, if there is one: what governs rights may not be a leftover of a prefix that has
    /// moved, nor of a share, nor made up. Of a record that another server keeps, they are those that everybody may read; and
    /// there is none if its name could be made up.
    pub(crate) async fn ours(
        &self,
        name: Handle<'_>,
        work: &mut Work,
    ) -> Result<Option<Vec<Value<'static>>>, Error> {
        let Ok(text) = name.to_str() else { return Ok(None) };
        if !self.is_responsible(name, work).await? {
            return Ok(None);
        }
        if self.owns(name) {
            let entry = self.get(text, work).await?.filter(|entry| entry.state == State::Live);
            return Ok(entry.map(|entry| entry.values));
        }
        let Some(neighbours) = &self.neighbours else { return Ok(None) };
        // It would answer by its template, and what is made up governs nothing.
        if Box::pin(self.is_template_derived(text, work)).await? {
            return Ok(None);
        }
        neighbours.values(text, work).await
    }
}

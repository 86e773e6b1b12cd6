//! The other servers of our site, and what they are asked for.

use std::fmt;
use std::pin::Pin;

use tendot_proto::auth::Challenge;
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};
use tendot_store::RecordStatus;

use crate::{Error, Registry};

/// Pending response of a site peer.
pub type PeerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Other servers of the same site, asked for records and keys that authorize changes here.
///
/// What they say has to be certain: it decides who may do what. What it costs them is counted as work of who makes us ask.
pub trait SitePeers: fmt::Debug + Send + Sync {
    /// The values of a record that everybody may read; none if there is no such record.
    fn public_values<'a>(
        &'a self,
        name: &'a str,
        work: &'a mut Budget,
    ) -> PeerFuture<'a, Option<Vec<HandleValue<'static>>>>;

    /// Whether the answer to a challenge fits the secret key at an index of a record.
    fn verify_secret<'a>(
        &'a self,
        key: &'a ValueReference<'a>,
        challenge: Challenge<'a>,
        answer: &'a [u8],
        work: &'a mut Budget,
    ) -> PeerFuture<'a, bool>;
}

impl Registry {
    /// Whether a name is kept at this server, and not at another of its site, provided that its prefix is kept here.
    pub fn owns(&self, name: Handle<'_>) -> bool {
        self.settings.share.is_none_or(|share| share.contains(name))
    }

    /// Whether the answer to a challenge fits a secret key that another server of our site keeps.
    pub async fn verify_secret_at_peer(
        &self,
        key: &ValueReference<'_>,
        challenge: Challenge<'_>,
        answer: &[u8],
        work: &mut Budget,
    ) -> Result<bool, Error> {
        let Some(neighbours) = &self.neighbours else { return Ok(false) };
        if self.owns(key.handle()) || !self.is_responsible(key.handle(), work).await? {
            return Ok(false);
        }
        neighbours.verify_secret(key, challenge, answer, work).await
    }

    /// The values of a record of our site's, if there is one: what governs rights may not be a leftover of a prefix that has
    /// moved, nor of a share, nor made up. Of a record that another server keeps, they are those that everybody may read; and
    /// there is none if its name could be made up.
    pub(crate) async fn site_values(
        &self,
        name: Handle<'_>,
        work: &mut Budget,
    ) -> Result<Option<Vec<HandleValue<'static>>>, Error> {
        let Ok(text) = name.to_str() else { return Ok(None) };
        if !self.is_responsible(name, work).await? {
            return Ok(None);
        }
        if self.owns(name) {
            let entry = self.get_record(text, work).await?.filter(|entry| entry.state == RecordStatus::Live);
            return Ok(entry.map(|entry| entry.values));
        }
        let Some(neighbours) = &self.neighbours else { return Ok(None) };
        // It would answer by its template, and what is made up governs nothing.
        if Box::pin(self.is_template_derived(text, work)).await? {
            return Ok(None);
        }
        neighbours.public_values(text, work).await
    }
}

//! Records and keys of the other servers of the site.

use std::fmt;
use std::pin::Pin;

use tendot_proto::auth::Challenge;
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};
use tendot_store::RecordStatus;

use crate::rules::SiteReader;
use crate::{Error, Registry};

/// Pending response of a site peer.
pub type PeerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Other servers of the same site, queried for records and keys that authorize changes here.
///
/// Responses must be authenticated, because they decide authorization. Their cost is charged to the request that causes the
/// query.
pub trait SitePeers: fmt::Debug + Send + Sync {
    /// Public values of a record; `None` if there is no such record.
    fn public_values<'a>(
        &'a self,
        name: &'a str,
        budget: &'a mut Budget,
    ) -> PeerFuture<'a, Option<Vec<HandleValue<'static>>>>;

    /// Whether the response to a challenge matches the secret key at an index of a record.
    fn verify_secret<'a>(
        &'a self,
        key: &'a ValueReference<'a>,
        challenge: Challenge<'a>,
        response: &'a [u8],
        budget: &'a mut Budget,
    ) -> PeerFuture<'a, bool>;
}

impl Registry {
    /// Whether a name belongs to the partition of this server, provided that the site is responsible for its prefix.
    pub fn owns(&self, name: Handle<'_>) -> bool {
        self.rules.owns(name)
    }

    /// Whether the response to a challenge matches a secret key stored on another server of the site.
    pub async fn verify_secret_at_peer(
        &self,
        key: &ValueReference<'_>,
        challenge: Challenge<'_>,
        response: &[u8],
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        let Some(site_peers) = &self.rules.site_peers else { return Ok(false) };
        if self.owns(key.handle()) || !self.rules.is_responsible(key.handle(), budget).await? {
            return Ok(false);
        }
        site_peers.verify_secret(key, challenge, response, budget).await
    }
}

impl SiteReader {
    /// Whether a name belongs to the partition of this server.
    pub(crate) fn owns(&self, name: Handle<'_>) -> bool {
        self.settings.partition.is_none_or(|partition| partition.owns(name))
    }

    /// Values of a live record of this site, for authorization decisions. `None` for records left over from a prefix that moved or from
    /// another partition, and for names derived by a template. Of a record on another server of the site only the public
    /// values are returned.
    pub(crate) async fn site_values(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Vec<HandleValue<'static>>>, Error> {
        let Ok(text) = name.to_str() else { return Ok(None) };
        if !self.is_responsible(name, budget).await? {
            return Ok(None);
        }
        if self.owns(name) {
            let entry =
                self.get_record(text, budget).await?.filter(|entry| entry.status == RecordStatus::Live);
            return Ok(entry.map(|entry| entry.values));
        }
        let Some(site_peers) = &self.site_peers else { return Ok(None) };
        // The peer would evaluate its template, and derived values must not authorize anything.
        if Box::pin(self.is_template_derived(text, budget)).await? {
            return Ok(None);
        }
        site_peers.public_values(text, budget).await
    }
}

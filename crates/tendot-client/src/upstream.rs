//! [`Upstream`] trait, its request and its reply.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use tendot_proto::HandleValue;

use crate::cdn_loop::CdnLoop;

/// Source of handle records outside this process, such as an upstream resolver.
pub trait Upstream: Send + Sync {
    /// Error of a failed request.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Fetches all public values of a record.
    fn resolve(
        &self,
        request: &ResolveRequest<'_>,
    ) -> impl Future<Output = Result<UpstreamReply, Self::Error>> + Send;

    /// Whether an expired reply may be served instead of an error.
    fn allows_stale(_error: &Self::Error) -> bool {
        true
    }
}

/// Outcome of a lookup: values, no public values, not found, not responsible.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LookupOutcome {
    /// Record with public values.
    Values(Vec<HandleValue<'static>>),
    /// Record without public values.
    NoValues,
    /// Handle not found.
    NotFound,
    /// The server is not responsible for the prefix and sent no referral.
    NotResponsible,
}

impl LookupOutcome {
    /// Approximate memory use in bytes.
    pub(crate) fn memory_size(&self) -> usize {
        let Self::Values(values) = self else { return 0 };
        let references_size = |value: &HandleValue<'_>| -> usize {
            value.references.iter().map(|reference| size_of_val(reference) + reference.handle.len()).sum()
        };
        values
            .iter()
            .map(|value| {
                size_of_val(value) + value.data.len() + value.value_type.len() + references_size(value)
            })
            .sum()
    }
}

/// Reply of an upstream: the outcome, its age and how long it may be cached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamReply {
    /// Outcome of the lookup.
    pub outcome: LookupOutcome,
    /// Time for which the upstream had cached it (`Age`).
    pub age: Duration,
    /// Remaining freshness lifetime that the upstream states for the record (`Cache-Control`), if it does.
    pub max_ttl: Option<Duration>,
}

impl From<LookupOutcome> for UpstreamReply {
    fn from(outcome: LookupOutcome) -> Self {
        Self { outcome, age: Duration::ZERO, max_ttl: None }
    }
}

/// Resolution request to an upstream: name, authoritative and certified flags, hops so far.
///
/// ```
/// use tendot_client::ResolveRequest;
///
/// assert!(!ResolveRequest::from("10.1000/182").is_authoritative);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResolveRequest<'a> {
    /// Name of the record.
    pub name: Cow<'a, str>,
    /// Whether the request bypasses all caches up to the authoritative server.
    pub is_authoritative: bool,
    /// Whether the response must be signed by the responsible server and verified.
    pub is_certified: bool,
    /// Services that forwarded the request; empty if loops need not be detected.
    pub cdn_loop: CdnLoop<'a>,
}

impl ResolveRequest<'_> {
    /// Whether another service forwarded the request.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.cdn_loop.has_other_service()
    }

    pub(crate) fn into_owned(self) -> ResolveRequest<'static> {
        ResolveRequest {
            name: self.name.into_owned().into(),
            is_authoritative: self.is_authoritative,
            is_certified: self.is_certified,
            cdn_loop: self.cdn_loop.into_owned(),
        }
    }
}

impl<'a> From<&'a str> for ResolveRequest<'a> {
    fn from(name: &'a str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

//! Limit on streamed responses: in total, per client network and per caller, with one place reserved for the operator.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tendot_registry::Caller;

use crate::client_network::client_network;
use crate::http::authentication::CallerClass;

/// Concurrent streamed responses.
const MAX_SUBSCRIBERS: usize = 256;

/// Those of other callers than the operator, who so always has a place.
const MAX_NON_OPERATORS: usize = MAX_SUBSCRIBERS - 1;

/// Those of anonymous callers, so that authenticated callers are not blocked.
const MAX_ANONYMOUS: usize = 192;

/// Those of one client network, and of one agency, one registrant or the handles of one prefix.
const MAX_PER_CLIENT: usize = 32;
const MAX_PER_IDENTITY: usize = 32;

/// Limits the number of streamed responses.
#[derive(Debug, Default)]
pub(crate) struct SubscriberLimiter(Mutex<SubscriberCounts>);

/// Open streams; clients and identities without one are removed.
#[derive(Debug, Default)]
struct SubscriberCounts {
    total: usize,
    non_operators: usize,
    anonymous: usize,
    clients: HashMap<IpAddr, usize>,
    identities: HashMap<String, usize>,
}

/// Permit for one streamed response; released when dropped.
#[derive(Debug)]
pub(crate) struct SubscriberPermit {
    limiter: Arc<SubscriberLimiter>,
    class: CallerClass,
    client: Option<IpAddr>,
}

impl SubscriberLimiter {
    /// Permit for a stream; `None` if there are too many. `client` is `None` if a proxy hides it.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        caller: &Caller,
        client: Option<IpAddr>,
    ) -> Option<SubscriberPermit> {
        let class = CallerClass::of(caller);
        // Other callers of the operator's network do not count against the operator.
        let client = client.map(client_network).filter(|_| class != CallerClass::Operator);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = counts.total >= MAX_SUBSCRIBERS
            || class != CallerClass::Operator && counts.non_operators >= MAX_NON_OPERATORS
            || client.is_some_and(|client| count_of(&counts.clients, &client) >= MAX_PER_CLIENT)
            || match &class {
                CallerClass::Operator => false,
                CallerClass::Anonymous => counts.anonymous >= MAX_ANONYMOUS,
                CallerClass::Identity(identity) => count_of(&counts.identities, identity) >= MAX_PER_IDENTITY,
            };
        if is_full {
            return None;
        }
        counts.total += 1;
        counts.non_operators += usize::from(class != CallerClass::Operator);
        counts.anonymous += usize::from(class == CallerClass::Anonymous);
        if let Some(client) = client {
            *counts.clients.entry(client).or_default() += 1;
        }
        if let CallerClass::Identity(identity) = &class {
            *counts.identities.entry(identity.clone()).or_default() += 1;
        }
        drop(counts);
        Some(SubscriberPermit { limiter: Arc::clone(self), class, client })
    }
}

impl Drop for SubscriberPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        counts.non_operators -= usize::from(self.class != CallerClass::Operator);
        counts.anonymous -= usize::from(self.class == CallerClass::Anonymous);
        if let Some(client) = &self.client {
            decrement(&mut counts.clients, client);
        }
        if let CallerClass::Identity(identity) = &self.class {
            decrement(&mut counts.identities, identity);
        }
    }
}

fn count_of<K: Eq + Hash>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or_default()
}

fn decrement<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::HandleIdentity;

    use super::*;

    #[test]
    fn audit_f11_limits() {
        let limiter = Arc::new(SubscriberLimiter::default());
        let address = |host: u8| Some(IpAddr::from([192, 0, 2, host]));
        let fill = |caller: &Caller, client: Option<IpAddr>| -> Vec<SubscriberPermit> {
            std::iter::from_fn(|| limiter.acquire(caller, client)).collect()
        };
        let identity = |number: usize| {
            let handle = format!("10.{number}/admin");
            Caller::Handle(HandleIdentity::from_proof(300, handle.as_bytes()).unwrap())
        };
        // One client, of whatever callers; and one identity, from whatever clients.
        let first = fill(&Caller::Anonymous, address(1));
        assert_eq!(first.len(), 32);
        assert!(limiter.acquire(&identity(1), address(1)).is_none());
        let second = fill(&identity(1), address(2));
        assert_eq!(second.len(), 32);
        assert!(limiter.acquire(&identity(1), address(3)).is_none());
        let same_prefix = Caller::Handle(HandleIdentity::from_proof(300, b"10.1/other").unwrap());
        assert!(limiter.acquire(&same_prefix, address(3)).is_none());
        // All anonymous callers, and all but the operator.
        let anonymous: Vec<_> = (4..20).flat_map(|host| fill(&Caller::Anonymous, address(host))).collect();
        assert_eq!(first.len() + anonymous.len(), 192);
        let others: Vec<_> =
            (2..20).flat_map(|index| fill(&identity(index), address(100 + index as u8))).collect();
        assert_eq!(second.len() + others.len(), 255 - 192);
        let operator = limiter.acquire(&Caller::Operator, address(1));
        assert!(operator.is_some() && limiter.acquire(&Caller::Operator, address(1)).is_none());
        drop((first, second, anonymous, others));
        assert_eq!(fill(&Caller::Operator, address(1)).len(), 255);
        drop(operator);
        let counts = limiter.0.lock().unwrap();
        assert_eq!((counts.total, counts.clients.len(), counts.identities.len()), (0, 0, 0));
    }
}

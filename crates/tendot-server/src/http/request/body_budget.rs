//! Memory budget of request bodies: shared by all requests, with a share per client network, and a part that only
//! authenticated callers can use.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::http::authentication::CallerClass;

/// Bytes of all bodies being read.
const MAX_TOTAL_BYTES: usize = 256 << 20;

/// Bytes of the bodies of anonymous callers; the rest is reserved for authenticated ones.
const MAX_ANONYMOUS_BYTES: usize = 64 << 20;

/// Bytes of the bodies of one client network: anonymous, and authenticated.
const MAX_ANONYMOUS_BYTES_PER_CLIENT: usize = 8 << 20;
const MAX_AUTHENTICATED_BYTES_PER_CLIENT: usize = 64 << 20;

/// Bytes of the bodies of one authenticated identity, from all its clients: a quarter of the part that is reserved for them.
const MAX_BYTES_PER_IDENTITY: usize = (MAX_TOTAL_BYTES - MAX_ANONYMOUS_BYTES) / 4;

/// Bytes of the bodies of all callers but the operator, who so always has a share.
const MAX_NON_OPERATOR_BYTES: usize = MAX_TOTAL_BYTES - MAX_BYTES_PER_IDENTITY;

/// Sender of a body: whose budget it is charged to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct BodySender {
    /// Client network; `None` if a proxy hides it.
    pub(crate) client: Option<IpAddr>,
    pub(crate) caller: CallerClass,
}

impl BodySender {
    fn is_anonymous(&self) -> bool {
        self.caller == CallerClass::Anonymous
    }

    const fn max_client_bytes(&self) -> usize {
        match self.caller {
            CallerClass::Anonymous => MAX_ANONYMOUS_BYTES_PER_CLIENT,
            CallerClass::Identity(_) => MAX_AUTHENTICATED_BYTES_PER_CLIENT,
            // Other callers of the operator's network do not count against the operator.
            CallerClass::Operator => MAX_TOTAL_BYTES,
        }
    }
}

/// Memory budget of request bodies.
#[derive(Debug, Default)]
pub(crate) struct BodyBudget(Mutex<UsedBytes>);

/// Bytes in use; clients and callers without bytes are removed.
#[derive(Debug, Default)]
struct UsedBytes {
    total: usize,
    anonymous: usize,
    /// By client network, and whether the caller is anonymous.
    clients: HashMap<(IpAddr, bool), usize>,
    /// By authenticated caller.
    identities: HashMap<CallerClass, usize>,
}

impl UsedBytes {
    /// Whether more bytes of a sender would exceed a limit.
    fn is_exceeded(&self, sender: &BodySender, bytes: usize) -> bool {
        let of_client = sender.client.and_then(|client| self.clients.get(&(client, sender.is_anonymous())));
        let of_identity = self.bytes_of(&sender.caller);
        let is_caller_limited = if sender.is_anonymous() {
            self.anonymous + bytes > MAX_ANONYMOUS_BYTES
        } else {
            of_identity + bytes > MAX_BYTES_PER_IDENTITY
        };
        let of_non_operators = self.total - self.bytes_of(&CallerClass::Operator);
        is_caller_limited
            || sender.caller != CallerClass::Operator && of_non_operators + bytes > MAX_NON_OPERATOR_BYTES
            || sender.client.is_some()
                && of_client.copied().unwrap_or_default() + bytes > sender.max_client_bytes()
    }

    /// Bytes of the bodies of an authenticated caller.
    fn bytes_of(&self, caller: &CallerClass) -> usize {
        self.identities.get(caller).copied().unwrap_or_default()
    }

    fn add(&mut self, sender: &BodySender, bytes: usize) {
        self.total += bytes;
        if sender.is_anonymous() {
            self.anonymous += bytes;
        } else {
            *self.identities.entry(sender.caller.clone()).or_default() += bytes;
        }
        if let Some(client) = sender.client {
            *self.clients.entry((client, sender.is_anonymous())).or_default() += bytes;
        }
    }

    fn subtract(&mut self, sender: &BodySender, bytes: usize) {
        self.total -= bytes;
        if sender.is_anonymous() {
            self.anonymous -= bytes;
        } else {
            subtract_entry(&mut self.identities, &sender.caller, bytes);
        }
        if let Some(client) = sender.client {
            subtract_entry(&mut self.clients, &(client, sender.is_anonymous()), bytes);
        }
    }
}

fn subtract_entry<K: Eq + Hash>(entries: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    if let Some(used) = entries.get_mut(key) {
        *used -= bytes;
        if *used == 0 {
            entries.remove(key);
        }
    }
}

impl BodyBudget {
    /// Reservation of a body, without bytes yet.
    pub(crate) const fn reservation(&self, sender: BodySender) -> BodyReservation<'_> {
        BodyReservation { budget: self, sender, bytes: 0 }
    }
}

/// Bytes of the budget held by one body; released when dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation<'a> {
    budget: &'a BodyBudget,
    sender: BodySender,
    bytes: usize,
}

impl BodyReservation<'_> {
    /// Reserves more bytes; `false`, and nothing is reserved, if a limit would be exceeded.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let mut used = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.is_exceeded(&self.sender, bytes) {
            return false;
        }
        if bytes > 0 {
            used.add(&self.sender, bytes);
            self.bytes += bytes;
        }
        true
    }
}

impl Drop for BodyReservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut used = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
            used.subtract(&self.sender, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES: usize = 1 << 20;

    fn sender(host: u8, caller: CallerClass) -> BodySender {
        BodySender { client: Some([192, 0, 2, host].into()), caller }
    }

    fn anonymous(host: u8) -> BodySender {
        sender(host, CallerClass::Anonymous)
    }

    fn identity(host: u8, name: &str) -> BodySender {
        sender(host, CallerClass::Identity(name.into()))
    }

    /// Reserves bodies of 1 MiB until one is rejected.
    fn fill(budget: &BodyBudget, sender: BodySender) -> Vec<BodyReservation<'_>> {
        let bodies = std::iter::from_fn(|| {
            let mut body = budget.reservation(sender.clone());
            body.reserve(BODY_BYTES).then_some(body)
        });
        bodies.collect()
    }

    #[test]
    fn audit_f4_shares() {
        let budget = BodyBudget::default();
        let first = fill(&budget, anonymous(1));
        assert_eq!(first.len(), 8);
        // The same client, authenticated; and other clients.
        let authenticated: Vec<_> =
            ["a", "b"].into_iter().flat_map(|name| fill(&budget, identity(1, name))).collect();
        assert_eq!(authenticated.len(), 64);
        drop(authenticated);
        let others: Vec<_> = (2..=20).flat_map(|host| fill(&budget, anonymous(host))).collect();
        assert_eq!(first.len() + others.len(), 64);
        let authenticated: Vec<_> =
            (1..=20).flat_map(|host| fill(&budget, identity(host, &format!("{host}")))).collect();
        assert_eq!(authenticated.len(), 144);
        assert!(!budget.reservation(identity(30, "x")).reserve(1));
        // The operator has a share of its own, also in a network whose share is used up.
        let operator = fill(&budget, sender(1, CallerClass::Operator));
        assert_eq!(operator.len(), 48);
        assert_eq!(budget.0.lock().unwrap().total, MAX_TOTAL_BYTES);
        drop(operator);
        drop((first, others));
        // Clients behind a proxy that hides them share the anonymous part.
        let hidden = BodySender { client: None, caller: CallerClass::Anonymous };
        assert_eq!(fill(&budget, hidden).len(), 64);
        drop(authenticated);
        let used = budget.0.lock().unwrap();
        assert_eq!((used.total, used.anonymous), (0, 0));
        assert!(used.clients.is_empty() && used.identities.is_empty());
    }

    /// One identity cannot use up the part of the authenticated callers, from however many networks it comes.
    #[test]
    fn audit_f4_share_of_an_identity() {
        let budget = BodyBudget::default();
        let greedy: Vec<_> = (1..=20).flat_map(|host| fill(&budget, identity(host, "a"))).collect();
        assert_eq!(greedy.len(), 48);
        let hidden = BodySender { client: None, caller: CallerClass::Identity("a".into()) };
        assert!(fill(&budget, hidden).is_empty());
        assert_eq!(fill(&budget, identity(1, "b")).len(), 16, "the rest of the network's share");
        assert_eq!(fill(&budget, identity(30, "b")).len(), 48);
        assert_eq!(fill(&budget, sender(30, CallerClass::Operator)).len(), 48);
        drop(greedy);
        assert_eq!(fill(&budget, identity(40, "a")).len(), 48);
    }
}

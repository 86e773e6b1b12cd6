//! Memory budget of request bodies: shared by all requests, with a share per client network, and a part that only
//! authenticated callers can use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Bytes of all bodies being read.
const MAX_TOTAL_BYTES: usize = 256 << 20;

/// Bytes of the bodies of anonymous callers; the rest is reserved for authenticated ones.
const MAX_ANONYMOUS_BYTES: usize = 64 << 20;

/// Bytes of the bodies of one client network: anonymous, and authenticated.
const MAX_ANONYMOUS_BYTES_PER_CLIENT: usize = 8 << 20;
const MAX_AUTHENTICATED_BYTES_PER_CLIENT: usize = 64 << 20;

/// Sender of a body: whose budget it is charged to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct BodySender {
    /// Client network; `None` if a proxy hides it.
    pub(crate) client: Option<IpAddr>,
    pub(crate) is_authenticated: bool,
}

impl BodySender {
    const fn max_client_bytes(self) -> usize {
        if self.is_authenticated {
            MAX_AUTHENTICATED_BYTES_PER_CLIENT
        } else {
            MAX_ANONYMOUS_BYTES_PER_CLIENT
        }
    }
}

/// Memory budget of request bodies.
#[derive(Debug, Default)]
pub(crate) struct BodyBudget(Mutex<UsedBytes>);

/// Bytes in use; senders without bytes are removed.
#[derive(Debug, Default)]
struct UsedBytes {
    total: usize,
    anonymous: usize,
    senders: HashMap<BodySender, usize>,
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
        let of_sender = used.senders.get(&self.sender).copied().unwrap_or_default();
        let is_exceeded = used.total + bytes > MAX_TOTAL_BYTES
            || !self.sender.is_authenticated && used.anonymous + bytes > MAX_ANONYMOUS_BYTES
            || self.sender.client.is_some() && of_sender + bytes > self.sender.max_client_bytes();
        if is_exceeded || bytes == 0 {
            return !is_exceeded;
        }
        used.total += bytes;
        if !self.sender.is_authenticated {
            used.anonymous += bytes;
        }
        used.senders.insert(self.sender, of_sender + bytes);
        self.bytes += bytes;
        true
    }
}

impl Drop for BodyReservation<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.total -= self.bytes;
        if !self.sender.is_authenticated {
            used.anonymous -= self.bytes;
        }
        if let Some(of_sender) = used.senders.get_mut(&self.sender) {
            *of_sender -= self.bytes;
            if *of_sender == 0 {
                used.senders.remove(&self.sender);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES: usize = 1 << 20;

    fn sender(host: u8, is_authenticated: bool) -> BodySender {
        BodySender { client: Some([192, 0, 2, host].into()), is_authenticated }
    }

    /// Reserves bodies of 1 MiB until one is rejected.
    fn fill(budget: &BodyBudget, sender: BodySender) -> Vec<BodyReservation<'_>> {
        let bodies = std::iter::from_fn(|| {
            let mut body = budget.reservation(sender);
            body.reserve(BODY_BYTES).then_some(body)
        });
        bodies.collect()
    }

    #[test]
    fn audit_f4_shares() {
        let budget = BodyBudget::default();
        let first = fill(&budget, sender(1, false));
        assert_eq!(first.len(), 8);
        // The same client, authenticated; and other clients.
        assert_eq!(fill(&budget, sender(1, true)).len(), 64);
        let anonymous: Vec<_> = (2..=20).flat_map(|host| fill(&budget, sender(host, false))).collect();
        assert_eq!(first.len() + anonymous.len(), 64);
        let authenticated: Vec<_> = (1..=20).flat_map(|host| fill(&budget, sender(host, true))).collect();
        assert_eq!(authenticated.len(), 192);
        assert!(!budget.reservation(sender(30, true)).reserve(1));
        drop((first, anonymous));
        // Clients behind a proxy that hides them share the anonymous part.
        let hidden = BodySender { client: None, is_authenticated: false };
        assert_eq!(fill(&budget, hidden).len(), 64);
        drop(authenticated);
        let used = budget.0.lock().unwrap();
        assert_eq!((used.total, used.anonymous, used.senders.len()), (0, 0, 0));
    }
}

//! Limit on open connections per client network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::client_network::client_network;

/// Limits the number of open connections per client network.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    max_per_client: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl ConnectionLimiter {
    /// Allows `max_per_client` connections per IPv4 address or IPv6 /64 network.
    pub(crate) fn new(max_per_client: usize) -> Arc<Self> {
        Arc::new(Self { max_per_client, open: Mutex::default() })
    }

    /// Acquires a permit for a connection, or `None` if the client has reached its limit.
    pub(crate) fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let client = client_network(address);
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = counts.entry(client).or_default();
        if *open >= self.max_per_client {
            return None;
        }
        *open += 1;
        drop(counts);
        Some(ConnectionPermit { limiter: Arc::clone(self), client })
    }
}

/// Permit for one connection; released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    client: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = counts.get_mut(&self.client) {
            *open -= 1;
            if *open == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_h10_connections_of_one_client() {
        let limiter = ConnectionLimiter::new(2);
        let mut permits = Vec::new();
        let mut acquire = |address: &str| {
            let permit = limiter.acquire(address.parse().unwrap());
            let is_acquired = permit.is_some();
            permits.extend(permit);
            is_acquired
        };
        assert!(
            acquire("192.0.2.1") && acquire("192.0.2.1") && !acquire("192.0.2.1") && acquire("192.0.2.2")
        );
        assert!(acquire("2001:db8::1") && acquire("2001:db8::2"));
        assert!(!acquire("2001:db8::3") && acquire("2001:db8:0:1::1"));
        // Dropping a permit frees its slot.
        permits.remove(0);
        assert!(limiter.acquire([192, 0, 2, 1].into()).is_some());
        drop(permits);
        assert!(limiter.open.lock().unwrap().is_empty());
    }
}

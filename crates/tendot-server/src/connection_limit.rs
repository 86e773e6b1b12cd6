//! Limit on open connections per client network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::client_network::client_network;

/// Limits the number of open connections per client network.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    most: usize,
    count: Mutex<HashMap<IpAddr, usize>>,
}

impl ConnectionLimiter {
    /// Allows `most` connections per IPv4 address or IPv6 /64 network.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, count: Mutex::default() })
    }

    /// Acquires a permit for a connection, or `None` if the client has reached its limit.
    pub(crate) fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let client = client_network(address);
        let mut all = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(all);
        Some(ConnectionPermit { crowd: Arc::clone(self), client })
    }
}

/// Permit for one connection; released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    crowd: Arc<ConnectionLimiter>,
    client: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut all = self.crowd.count.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_h10_connections_of_one_client() {
        let crowd = ConnectionLimiter::new(2);
        let mut places = Vec::new();
        let mut enter = |address: &str| {
            let place = crowd.acquire(address.parse().unwrap());
            let is_taken = place.is_some();
            places.extend(place);
            is_taken
        };
        assert!(enter("192.0.2.1") && enter("192.0.2.1") && !enter("192.0.2.1") && enter("192.0.2.2"));
        assert!(enter("2001:db8::1") && enter("2001:db8::2"));
        assert!(!enter("2001:db8::3") && enter("2001:db8:0:1::1"));
        // Dropping a permit frees its slot.
        places.remove(0);
        assert!(crowd.acquire([192, 0, 2, 1].into()).is_some());
        drop(places);
        assert!(crowd.count.lock().unwrap().is_empty());
    }
}

//! IP network that identifies a client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network that identifies a client: the address for IPv4, its /64 for IPv6.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    truncate(address, 32, 64)
}

/// Larger network around an address: /24 for IPv4, /48 for IPv6.
pub(crate) fn provider_network(address: IpAddr) -> IpAddr {
    truncate(address, 24, 48)
}

/// Truncates an address to its network prefix of `v4_bits` or `v6_bits`.
pub(crate) fn truncate(address: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - v4_bits))).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - v6_bits))).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let networks_of = |text: &str| {
            (
                client_network(text.parse().unwrap()).to_string(),
                provider_network(text.parse().unwrap()).to_string(),
            )
        };
        assert_eq!(networks_of("192.0.2.77"), ("192.0.2.77".into(), "192.0.2.0".into()));
        assert_eq!(networks_of("2001:db8:1:2:3:4:5:6"), ("2001:db8:1:2::".into(), "2001:db8:1::".into()));
    }
}

//! Public address check, against SSRF.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is on the public Internet: not loopback, link-local or private, in any notation (RFC 6890 and
/// IANA's special-purpose registries).
///
/// Documentation addresses count as public: they are unreachable, and examples use them.
pub(super) fn is_public_address(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ipv4) => is_public_v4(ipv4),
        IpAddr::V6(ipv6) => is_public_v6(ipv6),
    }
}

fn is_public_v4(ipv4: Ipv4Addr) -> bool {
    let special = match ipv4.octets() {
        // This network, private (RFC 1918), loopback, link-local.
        [0 | 10 | 127, ..] | [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..] => true,
        // Shared address space of carrier-grade NAT (RFC 6598), IETF protocols, benchmarks (RFC 2544).
        [100, 64..=127, ..] | [192, 0, 0, _] | [198, 18..=19, ..] => true,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => true,
        _ => false,
    };
    !special
}

fn is_public_v6(ipv6: Ipv6Addr) -> bool {
    match ipv6.segments() {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) embed the IPv4 destination.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        // IETF protocols: Teredo (which embeds IPv4, too), benchmarks, identifiers.
        [0x2001, 0..=0x01ff, ..] => false,
        // Only 2000::/3 is allocated. Outside of it are loopback, unique local and link-local addresses, local NAT64
        // (64:ff9b:1::/48) and multicast.
        [first, ..] => first >> 13 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public() {
        check("1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0", true);
        check("132.151.1.179 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0", true);
        check("192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255", true);
        check("192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1", true);
        check("2001:200::1 2001:4860:4860::8888 2606:2800:220:1::1 2a00::1 3fff:ffff::1", true);
        check("::ffff:1.1.1.1 64:ff9b::1.1.1.1 2002:101:101::1", true);
    }

    #[test]
    fn not_public() {
        check("0.0.0.0 0.0.0.1 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1", false);
        check("127.255.255.255 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.1 192.168.0.1", false);
        check("198.18.0.1 198.19.255.255 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255", false);
        check(":: ::1 ::7f00:1 ::127.0.0.1 100::1 5f00::1 fc00::1 fdff::1 fe80::1 febf::1 fec0::1", false);
        check("ff02::1 4000::1 1fff::1 2001::1 2001:0:7f00:1::1 2001:2::1 2001:10::1 2001:1ff::1", false);
    }

    /// Other notations of addresses that are not public.
    #[test]
    fn embedded_private_ipv4_is_not_public() {
        for private in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "192.168.1.1", "0.0.0.0"] {
            check(private, false);
            check(&std::format!("::ffff:{private} ::{private} 64:ff9b::{private}"), false);
            check(&std::format!("64:ff9b:1::{private} ::ffff:0:{private}"), false);
            let [a, b, c, d] = private.parse::<Ipv4Addr>().unwrap().octets();
            check(&std::format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"), false);
        }
    }

    #[track_caller]
    fn check(addresses: &str, public: bool) {
        for address in addresses.split(' ') {
            assert_eq!(is_public_address(address.parse().unwrap()), public, "{address}");
        }
    }
}

//! Country databases in the MaxMind DB format (version 2.0), for a few networks.

use std::net::IpAddr;

/// A child of a node in the search tree.
#[derive(Clone, Copy)]
enum TreeRecord {
    Empty,
    Node(usize),
    /// Offset of the record in the data section.
    Data(usize),
}

/// A database that maps networks, such as `192.0.2.0/24` or `2001:db8::/32`, to country codes, laid out like GeoLite2 Country: IPv4
/// networks are in `::/96`. The networks must not overlap.
pub fn country_database(networks: &[(&str, &str)]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut nodes = vec![[TreeRecord::Empty; 2]];
    for (network, code) in networks {
        let (address, prefix_len) = network.split_once('/').unwrap();
        let prefix_len: u32 = prefix_len.parse().unwrap();
        let (address, prefix_len) = match address.parse().unwrap() {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 96 + prefix_len),
            IpAddr::V6(address) => (u128::from(address), prefix_len),
        };
        let record = TreeRecord::Data(data.len());
        push_map(&mut data, 1);
        push_text(&mut data, "country");
        push_map(&mut data, 1);
        push_text(&mut data, "iso_code");
        push_text(&mut data, code);
        let mut node = 0;
        for depth in 0..prefix_len {
            let bit = (address >> (127 - depth) & 1) as usize;
            if depth + 1 == prefix_len {
                nodes[node][bit] = record;
                break;
            }
            node = match nodes[node][bit] {
                TreeRecord::Node(next) => next,
                TreeRecord::Empty => {
                    nodes.push([TreeRecord::Empty; 2]);
                    nodes[node][bit] = TreeRecord::Node(nodes.len() - 1);
                    nodes.len() - 1
                }
                TreeRecord::Data(_) => panic!("{network} overlaps with another network"),
            };
        }
    }
    let mut bytes = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match record {
            TreeRecord::Empty => nodes.len(),
            TreeRecord::Node(node) => *node,
            TreeRecord::Data(offset) => nodes.len() + 16 + offset,
        };
        bytes.extend_from_slice(&u32::try_from(number).unwrap().to_be_bytes()[1..]);
    }
    bytes.extend_from_slice(&[0; 16]);
    bytes.append(&mut data);
    bytes.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    push_map(&mut bytes, 9);
    for (name, number) in [
        ("binary_format_major_version", 2_u16),
        ("binary_format_minor_version", 0),
        ("ip_version", 6),
        ("record_size", 24),
    ] {
        push_text(&mut bytes, name);
        bytes.push(0xa2);
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    push_text(&mut bytes, "node_count");
    bytes.push(0xc4);
    bytes.extend_from_slice(&u32::try_from(nodes.len()).unwrap().to_be_bytes());
    push_text(&mut bytes, "build_epoch");
    bytes.extend_from_slice(&[0x08, 0x02]);
    bytes.extend_from_slice(&1_700_000_000_u64.to_be_bytes());
    push_text(&mut bytes, "database_type");
    push_text(&mut bytes, "Test-Country");
    push_text(&mut bytes, "description");
    push_map(&mut bytes, 0);
    push_text(&mut bytes, "languages");
    bytes.extend_from_slice(&[0x00, 0x04]);
    bytes
}

fn push_map(bytes: &mut Vec<u8>, entries: u8) {
    bytes.push(0xe0 | entries);
}

/// A text of less than 29 bytes.
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    assert!(text.len() < 29, "{text}");
    bytes.push(0x40 | text.len() as u8);
    bytes.extend_from_slice(text.as_bytes());
}

//! Generated names with a UUID, in the partition of this server.

use tendot_proto::{Budget, BudgetExceeded, Handle};

use crate::{HashPartition, cost};

/// Maximum number of attempts per server of the site to find a name in this server's partition.
const MINT_ATTEMPTS_PER_SERVER: usize = 64;

/// Mints a name in the partition of this server. If the site hashes by prefix, there may be none, and the first name is
/// returned.
pub(super) fn mint_in_partition(
    start: Handle<'_>,
    random_bytes: [u8; 16],
    partition: Option<HashPartition>,
    budget: &mut Budget,
) -> Result<Vec<u8>, BudgetExceeded> {
    let first = append_uuid(start, random_bytes);
    let Some(partition) = partition else { return Ok(first) };
    for number in 0..MINT_ATTEMPTS_PER_SERVER.saturating_mul(partition.server_count as usize) {
        budget.charge(cost::STEP)?;
        let random = u128::from_be_bytes(random_bytes).wrapping_add(number as u128);
        let name = append_uuid(start, random.to_be_bytes());
        if partition.owns(Handle::new(&name)) {
            return Ok(name);
        }
    }
    Ok(first)
}

/// Appends a random UUID (RFC 9562, version 4) in lower case, as deployed servers do.
pub(super) fn append_uuid(start: Handle<'_>, mut random: [u8; 16]) -> Vec<u8> {
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut random;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(random));
    let mut name = start.as_bytes().to_vec();
    for (position, digit) in digits.bytes().enumerate() {
        if matches!(position, 8 | 12 | 16 | 20) {
            name.push(b'-');
        }
        name.push(digit);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        check([0; 16], "10.1/00000000-0000-4000-8000-000000000000");
        check([0xff; 16], "10.1/ffffffff-ffff-4fff-bfff-ffffffffffff");
        check(
            *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef",
            "10.1/01234567-89ab-4def-8123-456789abcdef",
        );
    }

    #[test]
    fn partitions() {
        use tendot_proto::record::{HashOption, Site, SiteServer};
        let start = Handle::from("10.1/");
        for (option, is_in_partition) in
            [(HashOption::WHOLE, true), (HashOption::SUFFIX, true), (HashOption::PREFIX, false)]
        {
            let site =
                Site { hash_option: option, servers: vec![SiteServer::default(); 3], ..Site::default() };
            let other = (start.server_index(HashOption::PREFIX, 3).unwrap() + 1) % 3;
            let partition = HashPartition::new(&site, other);
            for random in 0..20 {
                let name =
                    mint_in_partition(start, [random; 16], partition, &mut Budget::new(1_000)).unwrap();
                assert_eq!(
                    partition.unwrap().owns(Handle::new(&name)),
                    is_in_partition,
                    "{option:?} {random}"
                );
            }
        }
        let partition =
            HashPartition::new(&Site { servers: vec![SiteServer::default(); 3], ..Site::default() }, 1);
        assert!(mint_in_partition(start, [1; 16], partition, &mut Budget::new(0)).is_err());
    }

    #[track_caller]
    fn check(random: [u8; 16], expected: &str) {
        assert_eq!(append_uuid(Handle::from("10.1/"), random), expected.as_bytes());
    }
}

//! Block of name hashes: see `docs/background/storage-format.md`.
//!
//! A block holds the hashes up to its key, stored as distances from it in Elias-Fano coding: the low bits of all distances, and the
//! high bits in unary. That is within half a bit of the minimum, and a lookup decodes no other hash.

/// Maximum number of hashes of a block, and the number in each block when one is split.
pub(crate) const MAX_HASHES: usize = 128;
pub(crate) const SPLIT_HASHES: usize = 96;

/// Bytes before the bit fields: number of hashes, number of low bits, bytes of high bits.
const HEADER_LEN: usize = 5;

/// Encodes hashes in ascending order, none of which is above the key.
pub(crate) fn encode(key: u64, hashes: &[u64]) -> Vec<u8> {
    let distances = || hashes.iter().rev().map(|hash| key.wrapping_sub(*hash));
    let largest = distances().next_back().unwrap_or_default();
    let low_bits = (largest / hashes.len().max(1) as u64).max(1).ilog2();
    let high_len = (hashes.len() + (largest >> low_bits) as usize + 1).div_ceil(8);
    let low_len = (hashes.len() * low_bits as usize).div_ceil(8);
    let mut block = vec![0; HEADER_LEN + high_len + low_len];
    let (header, fields) = block.split_at_mut(HEADER_LEN);
    header[..2].copy_from_slice(&(hashes.len() as u16).to_le_bytes());
    header[2] = low_bits as u8;
    header[3..].copy_from_slice(&(high_len as u16).to_le_bytes());
    let (highs, lows) = fields.split_at_mut(high_len);
    for (index, distance) in distances().enumerate() {
        let at = (distance >> low_bits) as usize + index;
        highs[at / 8] |= 1 << (at % 8);
        let at = index * low_bits as usize;
        let bits = u128::from(distance & low_mask(low_bits)) << (at % 8);
        for (byte, bits) in lows[at / 8..].iter_mut().zip(bits.to_le_bytes()) {
            *byte |= bits;
        }
    }
    block
}

const fn low_mask(low_bits: u32) -> u64 {
    (1 << low_bits) - 1
}

/// Block whose lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashBlock<'a> {
    key: u64,
    count: usize,
    low_bits: u32,
    highs: &'a [u8],
    lows: &'a [u8],
}

impl<'a> HashBlock<'a> {
    /// Parses a block without its checksum; `None` if it is invalid.
    pub(crate) fn parse(key: u64, block: &'a [u8]) -> Option<Self> {
        let (header, fields) = block.split_first_chunk::<HEADER_LEN>()?;
        let [count_low, count_high, low_bits, high_low, high_high] = *header;
        let count = usize::from(u16::from_le_bytes([count_low, count_high]));
        let low_bits = u32::from(low_bits);
        let (highs, lows) =
            fields.split_at_checked(usize::from(u16::from_le_bytes([high_low, high_high])))?;
        let is_valid = low_bits < 64 && lows.len() == (count * low_bits as usize).div_ceil(8);
        is_valid.then_some(Self { key, count, low_bits, highs, lows })
    }

    /// Whether the block has a hash.
    pub(crate) fn contains(&self, hash: u64) -> bool {
        let Some(distance) = self.key.checked_sub(hash) else { return false };
        let (high, low) = (distance >> self.low_bits, distance & low_mask(self.low_bits));
        // The position of a set bit is the index of a hash plus its high bits, so these are the number of clear bits before it.
        let (mut index, mut clear) = (0, 0_u64);
        for chunk in self.highs.chunks(8) {
            let mut word = read_word(chunk);
            let ones = u64::from(word.count_ones());
            if clear + (64 - ones) < high {
                (index, clear) = (index + ones as usize, clear + (64 - ones));
                continue;
            }
            let start = index as u64 + clear;
            while word != 0 {
                let found = start + u64::from(word.trailing_zeros()) - index as u64;
                if found > high {
                    return false;
                }
                if found == high && index < self.count && self.low(index) == low {
                    return true;
                }
                index += 1;
                word &= word - 1;
            }
            clear = start + 64 - index as u64;
        }
        false
    }

    /// All hashes in ascending order; `None` if the block is invalid.
    pub(crate) fn decode(&self) -> Option<Vec<u64>> {
        let mut hashes = Vec::with_capacity(self.count.min(8 * self.highs.len()));
        for (number, chunk) in self.highs.chunks(8).enumerate() {
            let mut word = read_word(chunk);
            while word != 0 {
                let index = hashes.len();
                let high =
                    (number as u64 * 64 + u64::from(word.trailing_zeros())).checked_sub(index as u64)?;
                let distance = high.checked_mul(1 << self.low_bits)?.checked_add(self.low(index))?;
                hashes.push(self.key.checked_sub(distance)?);
                word &= word - 1;
            }
        }
        hashes.reverse();
        (hashes.len() == self.count && hashes.is_sorted()).then_some(hashes)
    }

    fn low(&self, index: usize) -> u64 {
        let at = index * self.low_bits as usize;
        let mut bytes = [0; 16];
        let rest = self.lows.get(at / 8..).unwrap_or_default();
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        (u128::from_le_bytes(bytes) >> (at % 8)) as u64 & low_mask(self.low_bits)
    }
}

/// Reads up to eight bytes.
fn read_word(chunk: &[u8]) -> u64 {
    match chunk.try_into() {
        Ok(bytes) => u64::from_le_bytes(bytes),
        Err(_) => {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(key: u64, mut hashes: Vec<u64>) {
        hashes.sort_unstable();
        let encoded = encode(key, &hashes);
        let block = HashBlock::parse(key, &encoded).unwrap();
        assert_eq!(block.decode().unwrap(), hashes);
        for hash in hashes.iter().flat_map(|hash| [hash.wrapping_sub(1), *hash, hash.wrapping_add(1)]) {
            assert_eq!(block.contains(hash), hashes.contains(&hash), "{hash} in {key} {hashes:?}");
        }
    }

    #[test]
    fn extremes() {
        check(0, vec![0]);
        check(u64::MAX, vec![0]);
        check(u64::MAX, vec![u64::MAX]);
        check(u64::MAX, vec![0, u64::MAX]);
        check(7, vec![7; 5]);
        check(u64::MAX, (0..MAX_HASHES as u64).collect());
        check(u64::MAX, (0..MAX_HASHES as u64).map(|number| number << 57).collect());
        assert_eq!(HashBlock::parse(1, &encode(1, &[])).unwrap().decode(), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn round_trip(key: u64, width in 1_u32..=64, parts in prop::collection::vec(any::<u64>(), 1..150)) {
            check(key, parts.iter().map(|part| key - (part >> (64 - width)).min(key)).collect());
        }

        /// Corrupt blocks neither panic nor loop.
        #[test]
        fn any_bytes(key: u64, hash: u64, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(block) = HashBlock::parse(key, &bytes) {
                block.contains(hash);
                block.decode();
            }
        }
    }
}

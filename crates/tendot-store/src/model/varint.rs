//! LEB128 integers with exactly one encoding each.

/// Appends an integer.
pub(crate) fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads an integer; `None` if it is truncated, overflows or is not minimal.
#[inline]
pub(crate) fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    if *first < 0x80 {
        *bytes = rest;
        return Some(u64::from(*first));
    }
    read_multibyte(bytes)
}

fn read_multibyte(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * at);
        if *byte < 0x80 {
            *bytes = bytes.get(at + 1..)?;
            return (bits != 0).then_some(number);
        }
    }
    None
}

/// Reads a length-prefixed byte string.
pub(crate) fn read_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read(bytes)?).ok()?;
    read_exact(bytes, length)
}

/// Reads `length` bytes.
pub(crate) fn read_exact<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Appends a length-prefixed byte string.
pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trip(number: u64, advance in 0_u32..64, rest: Vec<u8>) {
            let number = number >> advance;
            let mut out = Vec::new();
            write(&mut out, number);
            let length = out.len();
            out.extend(&rest);
            let mut bytes = &*out;
            prop_assert_eq!(read(&mut bytes), Some(number));
            prop_assert_eq!(bytes, &*rest);
            prop_assert_eq!(read(&mut &out[..length - 1]), None);
        }

        #[test]
        fn encoding_is_canonical(bytes: Vec<u8>) {
            let mut rest = &*bytes;
            if let Some(number) = read(&mut rest) {
                let mut out = Vec::new();
                write(&mut out, number);
                prop_assert_eq!(&out, &bytes[..bytes.len() - rest.len()]);
            }
        }
    }
}

//! Codec for values in wire form, preceded by their number, without the size limits of messages.

use tendot_proto::wire::{WireList, WireReader, WireWriter};
use tendot_proto::{DecodeError, HandleValue, Ttl, ValuePermissions, ValueReference};

/// Appends encoded values.
pub(crate) fn encode_to(values: &[HandleValue<'_>], out: &mut Vec<u8>) {
    WireList::from(values).encode(&mut WireWriter::new(out));
}

#[cfg(any(test, feature = "postgres"))]
pub(crate) fn encode(values: &[HandleValue<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_to(values, &mut out);
    out
}

/// Decodes values that borrow from `body`.
pub(crate) fn decode(body: &[u8]) -> Result<Vec<HandleValue<'_>>, DecodeError> {
    let reader = &mut WireReader::new(body);
    // Allocates as values are read, not by the declared count; each value takes bytes, so a wrong count fails.
    let mut values = Vec::new();
    for _ in 0..reader.u32("values")? {
        values.push(decode_value(reader)?);
    }
    reader.expect_end("values")?;
    Ok(values)
}

fn decode_value<'a>(reader: &mut WireReader<'a>) -> Result<HandleValue<'a>, DecodeError> {
    let index = reader.u32("value index")?;
    let timestamp = reader.u32("value timestamp")?;
    let ttl = match (reader.u8("value TTL type")?, reader.u32("value TTL")?) {
        (0, seconds) => Ttl::Relative(seconds),
        (1, seconds) => Ttl::Absolute(seconds),
        (kind, seconds) => Ttl::Unknown { kind, seconds },
    };
    let permissions = ValuePermissions(reader.u8("value permissions")?);
    let value_type = read_bytes(reader, "value type")?.into();
    let data = read_bytes(reader, "value data")?.into();
    let mut references = Vec::new();
    for _ in 0..reader.u32("value references")? {
        let handle = read_bytes(reader, "reference handle")?;
        references.push(ValueReference::new(reader.u32("reference index")?, handle));
    }
    Ok(HandleValue { index, timestamp, ttl, permissions, value_type, data, references })
}

fn read_bytes<'a>(reader: &mut WireReader<'a>, field: &'static str) -> Result<&'a [u8], DecodeError> {
    let length = reader.u32(field)? as usize;
    reader.take(field, length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decode_never_panics(body: Vec<u8>) {
            if let Ok(values) = decode(&body) {
                prop_assert_eq!(encode(&values), body);
            }
        }

        #[test]
        fn round_trip(index: u32, kind: u8, seconds: u32, data: Vec<u8>, handle: Vec<u8>, cut in 1_usize..40) {
            let ttl = match kind {
                0 => Ttl::Relative(seconds),
                1 => Ttl::Absolute(seconds),
                kind => Ttl::Unknown { kind, seconds },
            };
            let references = vec![ValueReference::new(index, handle)];
            let value = HandleValue { ttl, references, data: data.into(), ..HandleValue::new(index, "URL", "") };
            let values = vec![value, HandleValue::new(2, "", "")];
            let body = encode(&values);
            prop_assert_eq!(decode(&body).unwrap(), values);
            prop_assert!(decode(&body[..body.len() - cut]).is_err());
        }
    }
}

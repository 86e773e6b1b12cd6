//! Value layout: the attributes of a record's values without data and timestamps.

use std::borrow::Cow;

use tendot_proto::{HandleValue, Ttl, ValuePermissions, ValueReference};

use crate::model::varint;

/// Encodes the layout of values.
pub(crate) fn encode(values: &[HandleValue<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * 16);
    varint::write(&mut out, values.len() as u64);
    for value in values {
        varint::write(&mut out, value.index.into());
        out.push(value.permissions.0);
        let (kind, seconds) = match value.ttl {
            Ttl::Relative(seconds) => (0, seconds),
            Ttl::Absolute(seconds) => (1, seconds),
            Ttl::Unknown { kind, seconds } => (kind, seconds),
        };
        out.push(kind);
        varint::write(&mut out, seconds.into());
        varint::write_bytes(&mut out, &value.value_type);
        varint::write(&mut out, value.references.len() as u64);
        for reference in &value.references {
            varint::write_bytes(&mut out, &reference.handle);
            varint::write(&mut out, reference.index.into());
        }
    }
    out
}

/// Decodes values from a layout; `fill` supplies timestamp and data. `None` if the layout is invalid.
pub(crate) fn decode(
    mut layout: &[u8],
    mut fill: impl FnMut() -> Option<(u32, Vec<u8>)>,
) -> Option<Vec<HandleValue<'static>>> {
    let bytes = &mut layout;
    let count = usize::try_from(varint::read(bytes)?).ok()?;
    // A value takes at least six bytes.
    let mut values = Vec::with_capacity(count.min(bytes.len() / 6));
    for _ in 0..count {
        let index = read_u32(bytes)?;
        let permissions = ValuePermissions(read_u8(bytes)?);
        let kind = read_u8(bytes)?;
        let seconds = read_u32(bytes)?;
        let ttl = match kind {
            0 => Ttl::Relative(seconds),
            1 => Ttl::Absolute(seconds),
            kind => Ttl::Unknown { kind, seconds },
        };
        let value_type = static_value_type(varint::read_bytes(bytes)?);
        let mut references = Vec::new();
        for _ in 0..varint::read(bytes)? {
            let handle = varint::read_bytes(bytes)?.to_vec();
            references.push(ValueReference::new(read_u32(bytes)?, handle));
        }
        let (timestamp, data) = fill()?;
        values.push(HandleValue {
            index,
            timestamp,
            ttl,
            permissions,
            value_type,
            data: data.into(),
            references,
        });
    }
    bytes.is_empty().then_some(values)
}

/// Value type; common ones are static and not allocated.
fn static_value_type(bytes: &[u8]) -> Cow<'static, [u8]> {
    const COMMON_TYPES: [&[u8]; 5] = [b"URL", b"HS_ADMIN", b"700050", b"EMAIL", b"DESC"];
    let known = COMMON_TYPES.into_iter().find(|known| *known == bytes);
    known.map_or_else(|| Cow::Owned(bytes.to_vec()), Cow::Borrowed)
}

fn read_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::read(bytes)?).ok()
}

fn read_u8(bytes: &mut &[u8]) -> Option<u8> {
    varint::read_exact(bytes, 1)?.first().copied()
}

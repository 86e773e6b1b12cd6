//! Value types that list value references: `HS_VLIST`, `HS_PRIMARY`.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::record::ValueReference;
use crate::wire::{ListItem, WireList, WireReader, WireWriter};

/// Data of an `HS_VLIST` value: value references, used as an admin group.
///
/// ```
/// use tendot_proto::{ValueReference, record::ValueList};
///
/// let group = ValueList { members: vec![ValueReference::parse("300:10.1000/A"), ValueReference::parse("0:0.NA/10")] };
/// let mut bytes = group.to_bytes();
/// assert_eq!(ValueList::from_bytes(&bytes)?, group);
///
/// bytes.push(0);
/// let error = ValueList::from_bytes(&bytes).unwrap_err();
/// assert_eq!(error.to_string(), "HS_VLIST at byte 36: 1 trailing bytes");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ValueList<'a> {
    /// Keys or further lists; index 0 is any key of the record.
    pub members: Vec<ValueReference<'a>>,
}

impl<'a> ValueList<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { members: decode_references(bytes, "HS_VLIST")?.iter().collect() })
    }

    /// Encodes the data of a value.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode_references(&self.members)
    }
}

/// Data of an `HS_PRIMARY` value: references to primary sites (RFC 3651, 3.2.6).
///
/// The RFC describes the format only in words, and Handle.Net does not use it; decoded here as a reference list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PrimarySites<'a> {
    /// References to `HS_SITE` values.
    pub sites: Vec<ValueReference<'a>>,
}

impl<'a> PrimarySites<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { sites: decode_references(bytes, "HS_PRIMARY")?.iter().collect() })
    }

    /// Encodes the data of a value.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode_references(&self.sites)
    }
}

/// Decodes a reference list without trailing bytes.
pub(in crate::record) fn decode_references<'a>(
    bytes: &'a [u8],
    field: &'static str,
) -> Result<WireList<'a, ValueReference<'a>>, DecodeError> {
    let mut reader = WireReader::new(bytes);
    let list = WireList::decode(&mut reader, field)?;
    reader.expect_end(field)?;
    Ok(list)
}

fn encode_references(references: &[ValueReference<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = WireWriter::new(&mut out);
    writer.count(references.len());
    for reference in references {
        reference.encode(&mut writer);
    }
    out
}

use alloc::vec::Vec;

use super::ValueReference;
use super::hs_vlist::{decode_references, encode_references};
use crate::error::DecodeError;

/// Data of an `HS_PRIMARY` value: references to primary sites (RFC 3651, 3.2.6).
///
/// The RFC tells its shape in words only and no deployed software uses it; read here as a list of references.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PrimarySites<'a> {
    /// Values of the type `HS_SITE`.
    pub sites: Vec<ValueReference<'a>>,
}

impl<'a> PrimarySites<'a> {
    /// Reads the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { sites: decode_references(bytes, "HS_PRIMARY")?.iter().collect() })
    }

    /// The data of a value.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode_references(&self.sites)
    }
}

//! JSON form of `HS_ADMIN`.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use super::deserialize::parse_reference;
use super::serialize::LossyText;
use super::{JsonError, JsonNode};
use crate::record::{Admin, AdminPermissions};

/// JSON form of `HS_ADMIN`.
pub(super) struct JsonAdmin<'a>(Admin<'a>);

impl<'a> JsonAdmin<'a> {
    /// JSON form, or none if it would lose data.
    pub(super) fn from_data(data: &'a [u8]) -> Option<Self> {
        let admin = Admin::from_bytes(data).ok()?;
        core::str::from_utf8(&admin.reference.handle).is_ok().then_some(Self(admin))
    }

    pub(super) fn parse<'j>(node: &JsonNode<'_, 'j>) -> Result<Admin<'j>, JsonError> {
        Ok(Admin {
            reference: parse_reference(node)?,
            permissions: parse_permissions(&node.required("permissions")?)?,
            legacy_byte_length: node.get("legacyByteLength").is_some_and(|flag| is_truthy(flag.json())),
        })
    }
}

impl Serialize for JsonAdmin<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Admin { permissions: AdminPermissions(bits), reference, legacy_byte_length } = &self.0;
        let mut out = serializer.serialize_struct("Admin", 3 + usize::from(*legacy_byte_length))?;
        out.serialize_field("handle", &LossyText(&reference.handle))?;
        out.serialize_field("index", &reference.index.cast_signed())?;
        let mut digits = [b'0'; 16];
        for (digit, bit) in digits.iter_mut().rev().zip(0..) {
            *digit += u8::from(bits >> bit & 1 != 0);
        }
        // Twelve digits, as in Handle.Net, unless there are bits that Handle.Net drops.
        let (unknown, known) = digits.split_at(4);
        let written = if unknown == b"0000" { known } else { &digits };
        out.serialize_field("permissions", &LossyText(written))?;
        if *legacy_byte_length {
            out.serialize_field("legacyByteLength", &true)?;
        }
        out.end()
    }
}

/// Parses permissions: binary digits, the first permission last; `*` or true for all; an integer of bits; or a list of
/// booleans, the first permission first.
fn parse_permissions(node: &JsonNode<'_, '_>) -> Result<AdminPermissions, JsonError> {
    let invalid = || node.expected("at most 16 binary digits");
    Ok(match node.json() {
        Json::Bool(false) => AdminPermissions(0),
        Json::Bool(true) => AdminPermissions::ALL,
        Json::Number(_) => AdminPermissions(node.integer()?),
        Json::String(all) if all == "*" => AdminPermissions::ALL,
        Json::String(digits) if digits.is_empty() => AdminPermissions(0),
        Json::String(digits) if digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) => {
            AdminPermissions(u16::from_str_radix(digits, 2).map_err(|_| invalid())?)
        }
        Json::Array(flags) if flags.len() <= 16 => {
            let bits = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u16::from(is_truthy(flag)));
            AdminPermissions(bits)
        }
        _ => return Err(invalid()),
    })
}

fn is_truthy(json: &Json) -> bool {
    match json {
        Json::Null => false,
        Json::Bool(flag) => *flag,
        Json::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Json::String(text) => !matches!(&**text, "" | "0" | "false"),
        Json::Array(_) | Json::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_forms() {
        check(r#""011111110011""#, Some(0x07f3));
        check(r#""10""#, Some(2));
        check(r#""""#, Some(0));
        check(r#""1000011111110011""#, Some(0x87f3));
        check(r#""10000000000000000""#, None);
        check(r#""012""#, None);
        check(r#""+1""#, None);
        check(r#""*""#, Some(0x0fff));
        check("true", Some(0x0fff));
        check("false", Some(0));
        check("2035", Some(0x07f3));
        check("-1", None);
        check("65536", None);
        check(r#"[1, 0, true, false, "yes", null]"#, Some(0b01_0101));
        check("{}", None);
    }

    #[track_caller]
    fn check(json: &str, bits: Option<u16>) {
        let json: Json = serde_json::from_str(json).unwrap();
        assert_eq!(
            parse_permissions(&JsonNode::new(&json)).ok().map(|permissions| permissions.0),
            bits,
            "{json}"
        );
    }
}

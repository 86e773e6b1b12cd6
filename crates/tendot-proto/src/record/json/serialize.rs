//! Serialization of values and records.

use core::fmt;

use data_encoding::BASE64;
use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};

use super::admin::JsonAdmin;
use super::date::JsonDate;
use super::site::JsonSite;
use crate::handle::Handle;
use crate::record::types::{decode_references, printable_text};
use crate::record::value::type_matches;
use crate::record::{HandleRecord, HandleValue, PublicKey, Ttl, ValuePermissions, ValueReference};
use crate::wire::WireList;

impl Serialize for HandleRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Record", 2)?;
        out.serialize_field("handle", &LossyText(&self.handle))?;
        out.serialize_field("values", &self.values)?;
        out.end()
    }
}

impl Serialize for HandleValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_permissions = self.permissions.0 & 0x0f != ValuePermissions::DEFAULT.0;
        let has_timestamp = self.timestamp != 0;
        let has_references = !self.references.is_empty();
        let fields =
            4 + usize::from(has_permissions) + usize::from(has_timestamp) + usize::from(has_references);
        let mut out = serializer.serialize_struct("Value", fields)?;
        out.serialize_field("index", &self.index.cast_signed())?;
        out.serialize_field("type", &LossyText(&self.value_type))?;
        out.serialize_field("data", &JsonData::new(&self.value_type, &self.data))?;
        if has_permissions {
            out.serialize_field("permissions", &DisplayText(self.permissions))?;
        }
        match self.ttl {
            Ttl::Relative(seconds) | Ttl::Unknown { seconds, .. } => {
                out.serialize_field("ttl", &seconds.cast_signed())?;
            }
            Ttl::Absolute(seconds) => out.serialize_field("ttl", &JsonDate(seconds))?,
        }
        if has_timestamp {
            out.serialize_field("timestamp", &JsonDate(self.timestamp))?;
        }
        if has_references {
            out.serialize_field("references", &self.references)?;
        }
        out.end()
    }
}

impl Serialize for ValueReference<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Reference", 2)?;
        out.serialize_field("handle", &LossyText(&self.handle))?;
        out.serialize_field("index", &self.index.cast_signed())?;
        out.end()
    }
}

/// JSON form of value data: typed, text or base64.
enum JsonData<'d> {
    Admin(JsonAdmin<'d>),
    List(WireList<'d, ValueReference<'d>>),
    Site(JsonSite<'d>),
    Key(PublicKey<'d>),
    Text(&'d str),
    Bytes(&'d [u8]),
}

impl<'d> JsonData<'d> {
    fn new(value_type: &[u8], data: &'d [u8]) -> Self {
        Self::for_type(value_type, data)
            .unwrap_or_else(|| printable_text(data).map_or(Self::Bytes(data), Self::Text))
    }

    fn for_type(value_type: &[u8], data: &'d [u8]) -> Option<Self> {
        if !value_type.split_at_checked(3).is_some_and(|(start, _)| start.eq_ignore_ascii_case(b"HS_")) {
            return None;
        }
        let is_type = |wanted| type_matches(value_type, wanted);
        if is_type("HS_ADMIN") {
            JsonAdmin::from_data(data).map(Self::Admin)
        } else if is_type("HS_VLIST") {
            let list = decode_references(data, "HS_VLIST").ok()?;
            let is_text = list.iter().all(|member| core::str::from_utf8(&member.handle).is_ok());
            is_text.then_some(Self::List(list))
        } else if is_type("HS_SITE") || is_type("HS_NA_DELEGATE") {
            JsonSite::from_data(data).map(Self::Site)
        } else if is_type("HS_PUBKEY") {
            PublicKey::from_bytes(data).ok().filter(|key| key.jwk().is_some()).map(Self::Key)
        } else {
            None
        }
    }
}

impl Serialize for JsonData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Admin(admin) => serialize_typed(serializer, "admin", admin),
            Self::List(list) => serialize_typed(serializer, "vlist", &JsonReferences(list)),
            Self::Site(site) => serialize_typed(serializer, "site", site),
            Self::Key(key) => serialize_typed(serializer, "key", &key.jwk()),
            Self::Text(text) => serialize_typed(serializer, "string", text),
            Self::Bytes(bytes) => {
                serialize_typed(serializer, "base64", &DisplayText(BASE64.encode_display(bytes)))
            }
        }
    }
}

fn serialize_typed<S: Serializer>(
    serializer: S,
    format: &str,
    value: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_struct("Data", 2)?;
    out.serialize_field("format", format)?;
    out.serialize_field("value", value)?;
    out.end()
}

/// JSON form of a reference list.
struct JsonReferences<'m, 'd>(&'m WireList<'d, ValueReference<'d>>);

impl Serialize for JsonReferences<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

/// Public key of a site server: JWK, or base64 if it cannot be decoded.
pub(super) struct JsonServerKey<'s>(pub(super) &'s [u8]);

impl Serialize for JsonServerKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match PublicKey::from_bytes(self.0).ok().filter(|key| key.jwk().is_some()) {
            Some(key) => JsonData::Key(key),
            None => JsonData::Bytes(self.0),
        }
        .serialize(serializer)
    }
}

/// Bytes serialized as text; invalid UTF-8 is replaced.
pub(super) struct LossyText<'t>(pub(super) &'t [u8]);

impl Serialize for LossyText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match core::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_str(&Handle::new(self.0)),
        }
    }
}

/// Value serialized through `Display`.
pub(super) struct DisplayText<T>(pub(super) T);

impl<T: fmt::Display> Serialize for DisplayText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

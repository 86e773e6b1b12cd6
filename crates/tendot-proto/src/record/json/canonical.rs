//! Fast path for records in canonical JSON, without an intermediate tree. Most imports use this form.
//!
//! Any other form is left to `deserialize`, which accepts more and reports errors.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::Deserialize;

use super::date::JsonDate;
use crate::record::{
    Admin, AdminPermissions, HandleRecord, HandleValue, Ttl, ValuePermissions, ValueReference,
};

/// Parses a record in canonical JSON; none if it has another form.
pub(super) fn parse_canonical(json: &[u8]) -> Option<HandleRecord<'static>> {
    let record: CanonicalRecord<'_> = serde_json::from_slice(json).ok()?;
    let values: Option<Vec<_>> = record.values.into_iter().map(CanonicalValue::into_value).collect();
    Some(HandleRecord { handle: Cow::Owned(record.handle.into_owned().into_bytes()), values: values? })
}

/// Record in canonical JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalRecord<'j> {
    #[serde(borrow)]
    handle: Cow<'j, str>,
    #[serde(borrow)]
    values: Vec<CanonicalValue<'j>>,
}

/// Value in canonical JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalValue<'j> {
    index: u32,
    #[serde(borrow, rename = "type")]
    value_type: Cow<'j, str>,
    #[serde(borrow)]
    data: CanonicalData<'j>,
    ttl: u32,
    #[serde(borrow)]
    timestamp: Option<Cow<'j, str>>,
}

/// Value data in canonical JSON: text or admin.
#[derive(Deserialize)]
#[serde(tag = "format", content = "value", rename_all = "lowercase", deny_unknown_fields)]
enum CanonicalData<'j> {
    String(#[serde(borrow)] Cow<'j, str>),
    Admin(#[serde(borrow)] CanonicalAdmin<'j>),
}

/// `HS_ADMIN` in canonical JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalAdmin<'j> {
    #[serde(borrow)]
    handle: Cow<'j, str>,
    index: u32,
    #[serde(borrow)]
    permissions: Cow<'j, str>,
}

impl CanonicalValue<'_> {
    fn into_value(self) -> Option<HandleValue<'static>> {
        let bytes = |text: Cow<'_, str>| text.into_owned().into_bytes();
        let data = match self.data {
            CanonicalData::String(text) => bytes(text),
            CanonicalData::Admin(admin) => {
                let digits = &*admin.permissions;
                let is_canonical =
                    digits.len() == 12 && digits.bytes().all(|digit| matches!(digit, b'0' | b'1'));
                let permissions = u16::from_str_radix(digits, 2).ok().filter(|_| is_canonical)?;
                let reference = ValueReference::new(admin.index, admin.handle.as_bytes());
                let permissions = AdminPermissions(permissions);
                Admin { permissions, reference, legacy_byte_length: false }.to_bytes()
            }
        };
        Some(HandleValue {
            index: self.index,
            timestamp: self.timestamp.map_or(Some(0), |date| JsonDate::parse(&date))?,
            ttl: Ttl::Relative(self.ttl),
            permissions: ValuePermissions::DEFAULT,
            value_type: Cow::Owned(bytes(self.value_type)),
            data: Cow::Owned(data),
            references: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::record::json::deserialize;

    /// Both parsers agree wherever this one succeeds.
    #[test]
    fn canonical_and_lenient_agree() {
        let url =
            r#"{"index":1,"type":"URL","data":{"format":"string","value":"https://a/\"é\u00e9"},"ttl":86400"#;
        let values = |values: &str, is_canonical| {
            check(&format!(r#"{{"handle":"10.1000/1","values":[{values}]}}"#), is_canonical);
        };
        let url_and = |member: &str, is_canonical| values(&format!("{url}{member}}}"), is_canonical);
        values("", true);
        url_and("", true);
        url_and(r#","timestamp":"2024-01-02T03:04:05Z""#, true);
        url_and(r#","timestamp":null"#, true);
        url_and(r#","timestamp":"yesterday""#, false);
        url_and(r#","permissions":"0110""#, false);
        url_and(r#","references":[{"handle":"a","index":1}]"#, false);
        url_and(r#","other":"x""#, false);
        url_and(r#","ttl":1"#, false);
        let admin = |handle: &str, permissions: &str, is_canonical| {
            values(
                &format!(
                    r#"{{"index":100,"type":"HS_ADMIN","data":{{"format":"admin","value":{{"handle":{handle},
                    "index":200,"permissions":{permissions}}}}},"ttl":-1}}"#
                )
                .replace("-1", if is_canonical { "1" } else { "-1" }),
                is_canonical,
            );
        };
        admin(r#""0.NA/10.1000""#, r#""011111110011""#, true);
        admin(r#""0.NA\/10.1000""#, r#""111111111111""#, true);
        admin(r#""0.NA/10.1000""#, r#""011111110011""#, false);
        for data in
            [r#""https://a/""#, r#"{"format":"hex","value":"00"}"#, r#"{"format":"STRING","value":""}"#]
        {
            values(&format!(r#"{{"index":1,"type":"URL","data":{data},"ttl":1}}"#), false);
        }
        values(r#"{"index":1,"type":"URL","data":{"value":"x","format":"string"},"ttl":1}"#, true);
        check(r#"{"handle":"10.1000/1","values":[],"responseCode":1}"#, false);
        check(r#"{"handle":"10.1000/1","values":[]} x"#, false);
        check(r#"{"handle":"10.1000/1","handle":"10.1000/2","values":[]}"#, false);
    }

    #[track_caller]
    fn check(json: &str, is_canonical: bool) {
        let record = parse_canonical(json.as_bytes());
        assert_eq!(record.is_some(), is_canonical, "{json}");
        if let Some(record) = record {
            assert_eq!(Ok(record), deserialize::parse_lenient(json.as_bytes()), "{json}");
        }
    }
}

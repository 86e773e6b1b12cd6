//! Checks of handle values: indexes, sizes, `HS_ADMIN` and `HS_VLIST` syntax, `HS_PUBKEY` keys, `HS_NAMESPACE` templates.

use tendot_proto::auth::{PublicKeyError, validate_public_key};
use tendot_proto::record::{
    Admin, ExtraHeader, ExtraHeaders, IndexError, Links, Locations, PublicKey, ValueList, validate_indexes,
};
use tendot_proto::{Budget, DecodeError, HandleValue};

use super::link_field::link_targets;
use super::url;
use crate::authorization::is_admin_value;
use crate::registration::REDACTION_TYPE;
use crate::resolve::check_namespace;
use crate::{Error, RecordLimits, UrlFault};

/// Invalid handle value: its index and the fault.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid value{}: {fault}", index.map_or_else(|| "s".into(), |index| format!(" at index {index}")))]
pub struct InvalidValue {
    /// Index of the value; `None` if the fault concerns the whole record.
    pub index: Option<u32>,
    /// Fault of the value.
    pub fault: ValueFault,
}

/// Reason why a handle value is rejected.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueFault {
    /// No values.
    #[error("no values")]
    NoValues,
    /// Too many values.
    #[error("{count} values (maximum {limit})")]
    TooManyValues {
        /// Number of values.
        count: usize,
        /// Limit from the settings.
        limit: usize,
    },
    /// Record too large for a message.
    #[error("record of {length} bytes (maximum {limit})")]
    RecordTooLarge {
        /// Length in bytes.
        length: usize,
        /// Limit from the settings.
        limit: usize,
    },
    /// Index out of range: 0, or above `i32::MAX`, which other implementations read as negative.
    #[error("index out of range (1 to 2147483647)")]
    IndexOutOfRange,
    /// Type is not UTF-8.
    #[error("type is not UTF-8")]
    TypeNotUtf8,
    /// Data too large.
    #[error("{length} bytes of data (maximum {limit})")]
    DataTooLarge {
        /// Length of the data in bytes.
        length: usize,
        /// Limit from the settings.
        limit: usize,
    },
    /// Malformed `HS_ADMIN`, `HS_VLIST` or `HS_PUBKEY` value.
    #[error("malformed data: {0}")]
    Malformed(DecodeError),
    /// Key of an `HS_PUBKEY` value that is too weak, too large or no signing key.
    #[error("{0}")]
    PublicKey(PublicKeyError),
    /// Malformed `HS_NAMESPACE` value, or a template in it that cannot be evaluated.
    #[error("{reason}")]
    Namespace {
        /// What is wrong.
        reason: Box<str>,
    },
    /// Type that only the registry writes.
    #[error("type {value_type} is reserved for the registry")]
    ReservedType {
        /// The type.
        value_type: &'static str,
    },
    /// Secret that was publicly readable and is not replaced by another.
    #[error("the secret was publicly readable; choose another")]
    ExposedSecret,
    /// Invalid `URL` value.
    #[error("invalid URL: {0}")]
    Url(UrlFault),
}

impl InvalidValue {
    pub(crate) const fn no_values() -> Self {
        Self { index: None, fault: ValueFault::NoValues }
    }

    fn at(value: &HandleValue<'_>, fault: ValueFault) -> Self {
        Self { index: Some(value.index), fault }
    }
}

/// Checks the number and the indexes of values. Does not depend on a record or the caller.
pub(crate) fn check_indexes(values: &[HandleValue<'_>], limits: &RecordLimits) -> Result<(), Error> {
    validate_indexes(values.iter().map(|value| value.index), limits.max_values).map_err(|error| match error {
        IndexError::TooMany { count, max } => {
            InvalidValue { index: None, fault: ValueFault::TooManyValues { count, limit: max } }.into()
        }
        IndexError::Duplicate { index } => Error::DuplicateIndex { index },
        IndexError::OutOfRange { index } => {
            InvalidValue { index: Some(index), fault: ValueFault::IndexOutOfRange }.into()
        }
    })
}

/// Checks a new or changed value. The budget is that of all values of a request, which may have many templates.
pub(crate) fn check_value(
    value: &HandleValue<'_>,
    limits: &RecordLimits,
    budget: &mut Budget,
) -> Result<(), InvalidValue> {
    check_encoding(value, limits)?;
    let invalid = |fault| Err(InvalidValue::at(value, fault));
    // A malformed admin value, group or key would lock out the admins.
    if let Err(fault) = check_public_key(value) {
        return invalid(fault);
    }
    let decoded = if is_admin_value(value) {
        Admin::from_bytes(&value.data).map(drop)
    } else if value.has_type("HS_VLIST") {
        ValueList::from_bytes(&value.data).map(drop)
    } else if value.has_type("HS_NAMESPACE") {
        // A faulty template would fail each resolution under the prefix.
        if let Err(error) = check_namespace(&value.data, budget) {
            return invalid(ValueFault::Namespace { reason: error.to_string().into() });
        }
        Ok(())
    } else if value.has_type(REDACTION_TYPE) {
        // It would pass for a redaction.
        return invalid(ValueFault::ReservedType { value_type: REDACTION_TYPE });
    } else {
        Ok(())
    };
    if let Err(error) = decoded {
        return invalid(ValueFault::Malformed(error));
    }
    check_url_value(value, limits).or_else(|fault| invalid(ValueFault::Url(fault)))
}

/// Checks that a new value is not one of the secrets of its record that were publicly readable.
pub(crate) fn check_secret_changes(
    value: &HandleValue<'_>,
    previous: &[HandleValue<'_>],
) -> Result<(), InvalidValue> {
    let mut exposed = previous.iter().filter(|old| old.is_exposed_secret());
    if value.is_secret() && exposed.any(|old| old.data == value.data) {
        return Err(InvalidValue::at(value, ValueFault::ExposedSecret));
    }
    Ok(())
}

/// Reason why a stored key cannot authenticate: imports accept such keys, and warn.
///
/// ```
/// use tendot_proto::HandleValue;
///
/// let warning = tendot_registry::key_warning(&HandleValue::new(300, "HS_SECKEY", "example-secret")).unwrap();
/// assert_eq!(warning, "HS_SECKEY at index 300 was publicly readable and cannot authenticate; replace it");
/// ```
pub fn key_warning(value: &HandleValue<'_>) -> Option<String> {
    let index = value.index;
    if value.is_exposed_secret() {
        let detail = "was publicly readable and cannot authenticate; replace it";
        return Some(format!("HS_SECKEY at index {index} {detail}"));
    }
    let fault = check_public_key(value).err()?;
    Some(format!("HS_PUBKEY at index {index} is unusable: {fault}"))
}

/// Checks the key of an `HS_PUBKEY` value.
fn check_public_key(value: &HandleValue<'_>) -> Result<(), ValueFault> {
    if !value.value_type.eq_ignore_ascii_case(b"HS_PUBKEY") {
        return Ok(());
    }
    let key = PublicKey::from_bytes(&value.data).map_err(ValueFault::Malformed)?;
    validate_public_key(&key).map_err(ValueFault::PublicKey)
}

/// Checks the URL of a `URL` value.
pub(crate) fn check_url_value(value: &HandleValue<'_>, limits: &RecordLimits) -> Result<(), UrlFault> {
    if value.has_type("URL") { url::check_url(&value.data, limits.max_url_bytes) } else { Ok(()) }
}

/// Checks all URLs that clients may be sent to by a value of a registered name: redirects (`URL`, `10320/loc`) and links.
pub(crate) fn check_targets(value: &HandleValue<'_>) -> Result<(), InvalidValue> {
    check_target_urls(value).map_err(|fault| InvalidValue::at(value, ValueFault::Url(fault)))
}

/// Checks all URLs that clients may be sent to by a value. A malformed value has none.
pub(crate) fn check_target_urls(value: &HandleValue<'_>) -> Result<(), UrlFault> {
    target_addresses(value).unwrap_or_default().iter().try_for_each(|address| url::check_target(address))
}

/// Error: the targets of a value cannot be determined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnreadableTargets {
    #[error(transparent)]
    Data(#[from] DecodeError),
    #[error("malformed `Link` field (RFC 8288)")]
    LinkField,
}

/// URLs that clients may be sent to by a value: redirects (`URL`, `10320/loc`) and links (`10320/links`, `Link` in `10320/headers`).
pub(crate) fn target_addresses(value: &HandleValue<'_>) -> Result<Vec<String>, UnreadableTargets> {
    let owned = |address: &str| address.to_owned();
    if value.has_type("URL") {
        return Ok(vec![String::from_utf8_lossy(&value.data).into_owned()]);
    }
    if value.has_type("10320/loc") {
        let locations = Locations::from_bytes(&value.data)?.locations;
        let addresses =
            locations.iter().flat_map(|location| location.href().into_iter().chain(location.href_template()));
        return Ok(addresses.map(owned).collect());
    }
    if value.has_type("10320/links") {
        let links = Links::from_bytes(&value.data)?;
        return Ok(links.iter().filter_map(|link| link.href()).map(owned).collect());
    }
    if value.has_type("10320/headers") {
        let mut addresses = Vec::new();
        for line in ExtraHeaders::from_bytes(&value.data)?.iter() {
            let ExtraHeader::Field { name, value } = line else { continue };
            if name.eq_ignore_ascii_case("link") {
                let targets = link_targets(value).ok_or(UnreadableTargets::LinkField)?;
                addresses.extend(targets.into_iter().map(owned));
            }
        }
        return Ok(addresses);
    }
    Ok(Vec::new())
}

/// Checks the encoding and length of a value.
fn check_encoding(value: &HandleValue<'_>, limits: &RecordLimits) -> Result<(), InvalidValue> {
    let invalid = |fault| Err(InvalidValue::at(value, fault));
    if str::from_utf8(&value.value_type).is_err() {
        return invalid(ValueFault::TypeNotUtf8);
    }
    if value.data.len() > limits.max_value_bytes {
        return invalid(ValueFault::DataTooLarge { length: value.data.len(), limit: limits.max_value_bytes });
    }
    Ok(())
}

/// Checks the values of a complete record.
pub(crate) fn check_record(values: &[HandleValue<'_>], limits: &RecordLimits) -> Result<(), InvalidValue> {
    let invalid = |fault| Err(InvalidValue { index: None, fault });
    if values.len() > limits.max_values {
        return invalid(ValueFault::TooManyValues { count: values.len(), limit: limits.max_values });
    }
    let length = values.iter().map(encoded_len).fold(0, usize::saturating_add);
    if length > limits.max_record_bytes {
        return invalid(ValueFault::RecordTooLarge { length, limit: limits.max_record_bytes });
    }
    Ok(())
}

/// Length of a value in a message, in bytes.
fn encoded_len(value: &HandleValue<'_>) -> usize {
    let references = value.references.iter().map(|reference| reference.handle.len() + 8).sum::<usize>();
    26 + value.value_type.len() + value.data.len() + references
}

#[cfg(test)]
mod tests {
    use tendot_proto::{ValueReference, limits};

    use super::*;

    #[test]
    fn values_one_by_one() {
        check("URL", b"https://example.org/", "");
        check(
            "URL",
            b"u",
            "invalid value at index 7: invalid URL: relative URL; add a scheme such as `https:`",
        );
        check(
            "url.mobile",
            b"u",
            "invalid value at index 7: invalid URL: relative URL; add a scheme such as `https:`",
        );
        check("URLX", b"u", "");
        check("", b"\xff\0", "");
        check("HS_ADMIN", b"\x0f\xff\0\0\0\x01x\0\0\x01\x2c", "");
        check(
            "HS_ADMIN",
            b"\x0f\xff",
            "invalid value at index 7: malformed data: reference handle at byte 2: needs 4 bytes, only 0 left",
        );
        check("hs_vlist", b"\0\0\0\0", "");
        check(
            "HS_VLIST",
            b"\0\0\0\0\0",
            "invalid value at index 7: malformed data: HS_VLIST at byte 4: 1 trailing bytes",
        );
        let key = |bytes: usize| PublicKey::rsa(&vec![0xc1; bytes], &[1, 0, 1]).to_bytes();
        check("HS_PUBKEY", &key(256), "");
        let short = "invalid value at index 7: key size 1024 bits out of range 2048..=8192";
        check("HS_PUBKEY", &key(128), short);
        check("hs_pubkey", &key(128), short);
        check("HS_PUBKEY.old", &key(128), "");
        check(
            "HS_PUBKEY",
            b"key",
            "invalid value at index 7: malformed data: key type at byte 0: needs 4 bytes, only 3 left",
        );
        check("HS_NAMESPACE", b"<namespace/>", "");
        check(
            "hs_namespace",
            b"<namespace><template delimiter='@'><value/></template></namespace>",
            "invalid value at index 7: invalid prefix template: `<value>` outside `<foreach>` needs a `type`",
        );
        let reserved = "invalid value at index 7: type 0.TENDOT/REDACTED is reserved for the registry";
        check("0.tendot/redacted", b"{}", reserved);
        check("X", &[0; 1_001], "invalid value at index 7: 1001 bytes of data (maximum 1000)");
    }

    #[track_caller]
    fn check(value_type: &'static str, data: &[u8], fault: &str) {
        let limits = RecordLimits { max_value_bytes: 1_000, ..RecordLimits::default() };
        let checked = check_value(
            &HandleValue::with_data(7, value_type, data),
            &limits,
            &mut Budget::PER_REQUEST.clone(),
        );
        assert_eq!(checked.map_or_else(|invalid| invalid.to_string(), |()| String::new()), fault);
    }

    #[test]
    fn indexes() {
        let check = |indexes: &[u32], fault: &str| {
            let values: Vec<_> = indexes.iter().map(|index| HandleValue::new(*index, "X", "")).collect();
            let checked = check_indexes(&values, &RecordLimits::default());
            assert_eq!(checked.map_or_else(|error| error.to_string(), |()| String::new()), fault);
        };
        check(&[], "");
        check(&[1, 2, i32::MAX as u32], "");
        check(&[1, 0], "invalid value at index 0: index out of range (1 to 2147483647)");
        check(&[1, 1 << 31], "invalid value at index 2147483648: index out of range (1 to 2147483647)");
        check(&[5, 1, 5], "duplicate value index 5");
        check(&(1..=2_048).collect::<Vec<_>>(), "");
        check(&(1..=2_049).collect::<Vec<_>>(), "invalid values: 2049 values (maximum 2048)");
    }

    /// A record of maximum size fits into a message with the longest name.
    #[test]
    fn records() {
        let limits = RecordLimits::default();
        let reference = ValueReference::new(1, &b"10.1/x"[..]);
        let value =
            HandleValue { references: vec![reference], ..HandleValue::new(1, "DESC", "x".repeat(1_000)) };
        assert_eq!(encoded_len(&value), value.to_bytes().len());
        let fitting = vec![value; limits.max_record_bytes / 1_044];
        assert_eq!(check_record(&fitting, &limits), Ok(()));
        let too_many = [fitting, vec![HandleValue::new(2, "DESC", "x".repeat(1_018))]].concat();
        assert!(check_record(&too_many, &limits).is_err());
        assert!(
            limits.max_record_bytes + limits::MAX_HANDLE_LEN + limits::HEADER_LEN + 1_024
                < limits::MAX_MESSAGE_LEN
        );
    }
}

//! Relaxed checks for imported records.

use tendot_proto::{Handle, HandleValue};

use super::url;
use super::value::check_encoding;
use crate::party::is_reserved_prefix;
use crate::validate::check_indexes;
use crate::{Error, InvalidValue, RecordLimits, ValueFault};

/// Checks a record for import; returns warnings for unusual URLs.
///
/// Existing records have been resolved for years, so every name that can be stored is accepted, and of the `URL` values only
/// those are rejected that could inject a response header. Others yield a warning each.
///
/// ```
/// use tendot_proto::{Handle, HandleValue};
/// use tendot_registry::{RecordLimits, check_import};
///
/// let record = |url: &'static str| [HandleValue::new(1, "URL", url)];
/// let check = |url| check_import(Handle::from("10.1000/1"), &record(url), &RecordLimits::default());
/// assert!(check("https://example.org/").unwrap().is_empty());
/// assert_eq!(
///     check("javascript:x").unwrap()[0].to_string(),
///     "invalid value at index 1: invalid URL: scheme `javascript` is not allowed",
/// );
/// assert!(check("https://example.org/\r\nSet-Cookie: a=1").is_err());
/// assert!(check_import(Handle::from("0.TENDOT/agency/a"), &[], &RecordLimits::default()).is_err());
/// ```
pub fn check_import(
    name: Handle<'_>,
    values: &[HandleValue<'_>],
    limits: &RecordLimits,
) -> Result<Vec<InvalidValue>, Error> {
    name.validate_for_create()?;
    if is_reserved_prefix(name.prefix()) {
        return Err(Error::ReservedPrefix);
    }
    check_indexes(values, limits)?;
    let mut warnings = Vec::new();
    for value in values {
        check_encoding(value, limits)?;
        if !value.has_type("URL") {
            continue;
        }
        if let Err(fault) = url::check_url(&value.data, limits.max_url_bytes) {
            let breaks = fault.is_header_injection();
            let invalid = InvalidValue { index: Some(value.index), fault: ValueFault::Url(fault) };
            if breaks {
                return Err(invalid.into());
            }
            warnings.push(invalid);
        }
    }
    Ok(warnings)
}
